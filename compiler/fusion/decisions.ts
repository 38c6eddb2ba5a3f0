/**
 * Decisions: for every L0 edge, the kernel it is fused in, or all that stands against it.
 */
import type { Graph, NodeId, TensorId } from '../graph/graph';
import type { ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { Decision } from '../result';
import { boundElements, visitLoads } from '../schedule/group';
import type { Lowered } from '../ops/lower';
import type { Plan, PlanKernel } from './plan';
import type { Search } from './search';
import type { Verdict } from './verdicts';

export function decide(graph: Graph, lowered: Lowered, search: Search, plan: Plan): Decision[] {
  const { program } = lowered;
  const producer = new Map<TensorId, NodeId>();
  for (const n of graph.nodes) for (const r of n.results) producer.set(r, n.id);
  const computeOf = new Map<ValueId, number>();
  const byNode = new Map<NodeId, number[]>();
  program.computes.forEach((c, i) => {
    computeOf.set(c.value, i);
    for (const o of c.origin) {
      const list = byNode.get(o);
      if (list) list.push(i);
      else byNode.set(o, [i]);
    }
  });
  const out: Decision[] = [];
  const cache = new Map<string, readonly Verdict[]>();
  const classes = new EdgeClasses(search);
  for (const n of graph.nodes) {
    const seen = new Set<TensorId>();
    for (const t of n.operands) {
      if (t === undefined || seen.has(t)) continue;
      seen.add(t);
      const from = producer.get(t);
      if (from === undefined) continue;
      const base = { from, to: n.id, tensor: t };
      const kindFrom = lowered.kinds.get(from) ?? 'opaque';
      const kindTo = lowered.kinds.get(n.id) ?? 'opaque';
      if (kindFrom === 'opaque' || kindTo === 'opaque') {
        const which = kindFrom === 'opaque' ? from : n.id;
        const v: Verdict = {
          code: 'OPAQUE',
          nodes: [which],
          message: `${search.policy.names([which])} has no known lowering (${lowered.unsupported.get(which) ?? 'not supported'}), so nothing can be fused with it`,
          counterfactual: 'would be considered if the op were supported',
          confidence: 'proved',
        };
        out.push({ ...base, fused: false, verdicts: [v], summary: 'OPAQUE' });
        continue;
      }
      if (kindFrom === 'constant' || kindTo === 'constant') {
        out.push({
          ...base,
          fused: true,
          edgeClass: 'constant',
          verdicts: [],
          summary: 'folded at compile time',
        });
        continue;
      }
      if (kindFrom === 'dead' || kindTo === 'dead') {
        out.push({
          ...base,
          fused: true,
          edgeClass: 'dead',
          verdicts: [],
          summary: 'no output needs it',
        });
        continue;
      }
      const value = lowered.base.get(t);
      const from1 = value === undefined ? undefined : computeOf.get(value);
      const readers =
        from1 === undefined
          ? []
          : (byNode.get(n.id) ?? []).filter((i) => search.grouping.reads[i]?.includes(from1));
      if (from1 === undefined || readers.length === 0) {
        out.push({
          ...base,
          fused: true,
          edgeClass: 'view',
          verdicts: [],
          summary: 'a view: only an index map',
        });
        continue;
      }
      const edgeClass = classes.of(from1, readers[0] ?? from1);
      const shared = (plan.kernelsOf.get(from1) ?? []).find((k) =>
        readers.every((r) => k.members.includes(r)),
      );
      if (shared) {
        out.push({
          ...base,
          fused: true,
          kernel: shared.id,
          edgeClass,
          verdicts: [],
          summary: `fused in ${shared.id}`,
        });
        continue;
      }
      const a = plan.kernelsOf.get(from1)?.[0];
      const b = plan.kernelsOf.get(readers.find((r) => !a?.members.includes(r)) ?? from1)?.[0];
      let verdicts: readonly Verdict[] = [];
      if (a && b) {
        const key = `${a.id} ${b.id}`;
        const known = cache.get(key);
        verdicts = known ?? why(search, a, b);
        if (!known) cache.set(key, verdicts);
      }
      const first = verdicts[0];
      out.push({
        ...base,
        fused: false,
        edgeClass,
        verdicts,
        summary: first ? `${first.code}: ${first.message}` : 'not fused',
      });
    }
  }
  return out;
}

function why(search: Search, a: PlanKernel, b: PlanKernel): readonly Verdict[] {
  const t = search.attempt(a.group, b.group);
  if (t.verdicts.length > 0) return t.verdicts;
  return [
    {
      code: 'MODEL_SLOWER',
      nodes: [],
      quantity: t.gainPs / 1e6,
      unit: 'µs saved',
      limitSource: 'search',
      message: `one kernel would save ${(t.gainPs / 1e6).toFixed(1)} µs by the model, but other fusions that exclude it save more`,
      counterfactual: 'a fuse line in the file would force it',
      confidence: 'modelled',
    },
  ];
}

/** Classes of edges; edges of one structure are looked at once. */
class EdgeClasses {
  private readonly known = new Map<string, string>();

  constructor(private readonly search: Search) {}

  of(from: number, to: number): string {
    const { signatures } = this.search.memo;
    const reader = signatures.of(to);
    const key = `${reader.id} ${reader.loads.indexOf(signatures.of(from).value)}`;
    let text = this.known.get(key);
    if (text === undefined) {
      text = classOfEdge(this.search, from, to);
      this.known.set(key, text);
    }
    return text;
  }
}

/** How an edge moves data, from the map by which the reader reads. */
function classOfEdge(search: Search, from: number, to: number): string {
  const producer = search.grouping.compute(from);
  const reader = search.grouping.compute(to);
  const { program } = search;
  let text = 'one-to-one';
  visitLoads(reader.body, (l) => {
    if (l.value !== producer.value) return;
    const names = new Set<string>();
    let gather = false;
    let stencil = false;
    for (const e of l.index) {
      let d = false;
      let r = false;
      I.visitAtoms(e, (a) => {
        if (a.kind === 'dyn') gather = true;
        if (a.kind !== 'var') return;
        names.add(a.name);
        if (a.name.startsWith('r')) r = true;
        else d = true;
      });
      stencil = stencil || (d && r);
    }
    const parallel = reader.dims.filter((x) => !names.has(x.name)).map((x) => x.extent);
    const times = boundElements(program, parallel);
    const over = [...names].some((n) => n.startsWith('r'));
    if (gather) text = 'gather';
    else if (stencil) text = 'stencil';
    else if (over) text = times > 1 ? `many-to-one, read ×${times}` : 'many-to-one';
    else if (times > 1) text = `one-to-many ×${times}`;
    else if (l.index.length !== reader.dims.length || l.index.some((e, i) => e.key !== `d${i}`))
      text = 'one-to-one by a view';
  });
  return text;
}
