/**
 * Decisions: for every L0 edge, the kernel it is fused in, or all that stands against it.
 */
import type { Graph, NodeId, TensorId } from '../graph/graph';
import type { ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import { overlap } from '../ir/windows';
import type { Decision } from '../result';
import { boundElements, visitLoads } from '../schedule/group';
import type { Lowered } from '../ops/lower';
import type { Plan, PlanKernel } from './plan';
import type { Loading, Plans } from './plans';
import type { Search } from './search';
import { usText, type Verdict } from './verdicts';

/** `which` asks only which edges are fused: those that aren't come without verdicts. */
export function decide(
  graph: Graph,
  lowered: Lowered,
  { search, loading }: Pick<Plans, 'search' | 'loading'>,
  plan: Plan,
  asked: 'which' | 'why' = 'why',
): Decision[] {
  const judge = new EdgeJudge(graph, lowered, search, loading, plan, asked);
  const out: Decision[] = [];
  for (const n of graph.nodes) {
    n.operands.forEach((t, i) => {
      if (t === undefined || n.operands.indexOf(t) !== i) return;
      const from = judge.producer.get(t);
      if (from === undefined) return;
      const o = judge.outcome(from, n.id, t);
      out.push({
        from,
        to: n.id,
        tensor: t,
        fused: o.fused,
        ...(o.kernel === undefined ? undefined : { kernel: o.kernel }),
        ...(o.edgeClass === undefined ? undefined : { edgeClass: o.edgeClass }),
        verdicts: o.verdicts,
        summary: o.summary,
      });
    });
  }
  return out;
}

/** A decision without the names of the edge's ends. */
interface Outcome {
  readonly fused: boolean;
  readonly kernel?: string;
  readonly edgeClass?: string;
  readonly verdicts: readonly Verdict[];
  readonly summary: string;
}

/** One for all: copies of the result have it once, too. */
const NO_VERDICTS: readonly Verdict[] = [];
const CONSTANT: Outcome = {
  fused: true,
  edgeClass: 'constant',
  verdicts: NO_VERDICTS,
  summary: 'folded at compile time',
};
const DEAD: Outcome = {
  fused: true,
  edgeClass: 'dead',
  verdicts: NO_VERDICTS,
  summary: 'no output needs it',
};
const VIEW: Outcome = {
  fused: true,
  edgeClass: 'view',
  verdicts: NO_VERDICTS,
  summary: 'a view: only an index map',
};

class EdgeJudge {
  readonly producer = new Map<TensorId, NodeId>();
  private readonly computeOf = new Map<ValueId, number>();
  private readonly byNode = new Map<NodeId, number[]>();
  private readonly classes: EdgeClasses;
  /** Verdicts by the two kernels. */
  private readonly cuts = new Map<string, readonly Verdict[]>();

  constructor(
    graph: Graph,
    private readonly lowered: Lowered,
    private readonly search: Search,
    private readonly loading: Loading | undefined,
    private readonly plan: Plan,
    private readonly asked: 'which' | 'why',
  ) {
    this.classes = new EdgeClasses(search);
    for (const n of graph.nodes) for (const r of n.results) this.producer.set(r, n.id);
    lowered.program.computes.forEach((c, i) => {
      this.computeOf.set(c.value, i);
      for (const o of c.origin) {
        const list = this.byNode.get(o);
        if (list) list.push(i);
        else this.byNode.set(o, [i]);
      }
    });
  }

  outcome(from: NodeId, to: NodeId, tensor: TensorId): Outcome {
    const { kinds, base } = this.lowered;
    const kindFrom = kinds.get(from) ?? 'opaque';
    const kindTo = kinds.get(to) ?? 'opaque';
    if (kindFrom === 'opaque') return this.opaque(from);
    if (kindTo === 'opaque') return this.opaque(to);
    if (kindFrom === 'region' || kindTo === 'region') return this.region([from, to]);
    if (kindFrom === 'constant' || kindTo === 'constant') return CONSTANT;
    if (kindFrom === 'dead' || kindTo === 'dead') return DEAD;
    const value = base.get(tensor);
    const writer = value === undefined ? undefined : this.computeOf.get(value);
    if (writer === undefined) return VIEW;
    if (this.loading?.prepared.idle.has(writer) === true) return this.atLoad(this.loading, writer);
    const readers = (this.byNode.get(to) ?? []).filter((i) =>
      this.search.grouping.reads[i]?.includes(writer),
    );
    const [reader] = readers;
    return reader === undefined ? VIEW : this.data(writer, reader, readers);
  }

  /** An edge along which data moves. */
  private data(writer: number, reader: number, readers: readonly number[]): Outcome {
    const edgeClass = this.classes.of(writer, reader);
    const { kernelsOf } = this.plan;
    for (const k of kernelsOf[writer] ?? []) {
      if (!readers.every((r) => this.holds(k, writer, r))) continue;
      const stored = readers.some((r) => this.search.grouping.assembled(r));
      const where = stored ? `stored in its place by ${k.id}` : `fused in ${k.id}`;
      const summary = `${where}${this.folded(readers)}`;
      return { fused: true, kernel: k.id, edgeClass, verdicts: NO_VERDICTS, summary };
    }
    const a = kernelsOf[writer]?.[0];
    const reading = readers.find((r) => !a || !this.holds(a, writer, r)) ?? writer;
    const outside = this.copyInto(reading, writer) ?? reading;
    const b = kernelsOf[outside]?.[0];
    let verdicts = NO_VERDICTS;
    if (a && b && this.asked === 'why') {
      const from = partWith(this.search, a, writer);
      const to = partWith(this.search, b, outside);
      const key = `${from} ${to}`;
      const known = this.cuts.get(key);
      verdicts = known ?? why(this.search, from, to);
      if (!known) this.cuts.set(key, verdicts);
    }
    const [first] = verdicts;
    const summary = first ? `${first.code}: ${first.message}` : 'not fused';
    return { fused: false, edgeClass, verdicts, summary };
  }

  /** Of weights alone. */
  private atLoad({ plan, search }: Loading, writer: number): Outcome {
    const value = this.lowered.program.computes[writer]?.value;
    const position = value === undefined ? undefined : search.positions.get(value);
    const [k] = position === undefined ? [] : (plan.kernelsOf[position] ?? []);
    return {
      fused: true,
      edgeClass: 'weights',
      verdicts: [],
      summary: `of weights alone: computed once, at load${k ? `, by ${k.id}` : ''}`,
    };
  }

  /** Where the readers' factors are. */
  private folded(readers: readonly number[]): string {
    const nodes = readers.flatMap((r) => this.loading?.prepared.foldedInto.get(r) ?? []);
    if (nodes.length === 0) return '';
    const names = this.search.policy.names(nodes);
    return `; its factor is folded into the weights of ${names}, computed once at load`;
  }

  /** What goes into a branch or a loop, or comes out of it, is handed over in memory. */
  private region(nodes: readonly NodeId[]): Outcome {
    const v = this.search.policy.acrossBodies(nodes);
    return { fused: false, verdicts: [v], summary: `${v.code}: ${v.message}` };
  }

  /** Whether the reader gets what the writer made inside the kernel. */
  private holds(k: PlanKernel, writer: number, reader: number): boolean {
    const { grouping } = this.search;
    const { kernelsOf } = this.plan;
    if (!grouping.assembled(reader)) return kernelsOf[reader]?.includes(k) === true;
    const pieces = grouping.pieces(reader);
    // Stored in its place of the result; or copied there by the kernel that made it.
    if (grouping.pieces(writer).every((p) => pieces.includes(p))) return true;
    const copy = this.copyInto(reader, writer);
    return copy !== undefined && kernelsOf[copy]?.includes(k) === true;
  }

  /** What copies the writer's value to its place in an assembled result. */
  private copyInto(reader: number, writer: number): number | undefined {
    const { search } = this;
    if (!search.grouping.assembled(reader)) return undefined;
    return search.grouping
      .pieces(reader)
      .find((c) => search.isCopy(c) && search.grouping.reads[c]?.includes(writer));
  }

  private opaque(node: NodeId): Outcome {
    const reason = this.lowered.unsupported.get(node) ?? 'not supported';
    const v: Verdict = {
      code: 'OPAQUE',
      nodes: [node],
      message: `${this.search.policy.names([node])} has no known lowering (${reason}), so nothing can be fused with it`,
      counterfactual: 'would be considered if the op were supported',
      confidence: 'proved',
    };
    return { fused: false, verdicts: [v], summary: 'OPAQUE' };
  }
}

/** The search's group that the compute is in (or a piece of it), of those that the kernel was made of. */
export function partWith(search: Search, k: PlanKernel, compute: number): number {
  const pieces = search.grouping.pieces(compute);
  const part = k.parts.find((p) => pieces.some((c) => p.members.includes(c))) ?? k.parts[0];
  if (!part) throw new Error(`no group in ${k.id}`);
  return part.id;
}

function why(search: Search, a: number, b: number): readonly Verdict[] {
  const t = search.attempt(a, b);
  if (t.verdicts.length > 0) return t.verdicts;
  return [
    {
      code: 'MODEL_SLOWER',
      nodes: [],
      quantity: t.gainPs / 1e6,
      unit: 'µs saved',
      limitSource: 'search',
      message: `one kernel would save ${usText(t.gainPs / 1e6)} by the model, but other fusions that exclude it save more`,
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
      I.visitAtoms(e, (a) => {
        if (a.kind === 'dyn') gather = true;
        if (a.kind === 'var') names.add(a.name);
      });
      stencil = stencil || overlap(e);
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
