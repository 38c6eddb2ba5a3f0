/**
 * Policy: what the user asked of the plan, as constraints on merges.
 *
 * `nofuse a -> b` keeps the ops at the two ends of an edge in different kernels; `fuse a, b` makes
 * one kernel of them or reports why not; `materialize a` keeps a in memory; `recompute a` copies it
 * into each of its consumers.
 */
import type { BodyId, Directive, Graph, NodeId, TensorId } from '../graph/graph';
import type { Program } from '../ir/compute';
import type { ValueId } from '../ir/expr';
import { innerNeeds, outerNeeds } from '../ir/region';
import type { PlanTuning } from '../tuning';
import type { Verdict } from './verdicts';

interface Cut {
  readonly from: NodeId;
  readonly to: NodeId;
  /** The verdict on a merge that it forbids, but for the names. */
  readonly because: { readonly line: Directive } | { readonly measured: PlanTuning };
}

export class Policy {
  /** Values to keep in memory. */
  readonly keep = new Set<ValueId>();
  /** Nodes that must be one kernel, per directive. */
  readonly required: { readonly directive: Directive; readonly nodes: readonly NodeId[] }[] = [];
  /** What was measured to be faster as one kernel: made one where that can be. */
  readonly preferred: (readonly NodeId[])[] = [];
  /** Schedule parameters set for the kernel that an op is in. */
  readonly schedules = new Map<NodeId, Directive & { kind: 'schedule' }>();
  /** Nodes that directives name: what is asked of them is asked of a run. */
  readonly mentioned = new Set<NodeId>();
  private readonly cuts: Cut[] = [];
  /** Whether there are bodies that kernels could reach across. */
  private readonly bodies: boolean;
  private readonly recompute = new Set<NodeId>();
  private readonly producer = new Map<TensorId, NodeId>();

  constructor(
    private readonly graph: Graph,
    private readonly program: Program,
    base: ReadonlyMap<TensorId, ValueId>,
    opaque: ReadonlyMap<NodeId, string> = new Map(),
    measured: readonly PlanTuning[] = [],
  ) {
    for (const o of program.outputs) this.keep.add(o.value);
    // An op without a lowering reads from memory, whatever it is.
    for (const n of opaque.size === 0 ? [] : graph.nodes) {
      if (!opaque.has(n.id)) continue;
      for (const o of n.operands) {
        const v = o === undefined ? undefined : base.get(o);
        if (v !== undefined) this.keep.add(v);
      }
    }
    for (const r of program.regions ?? [])
      for (const v of [...outerNeeds(r), ...innerNeeds(r)]) this.keep.add(v);
    this.bodies = program.computes.some((c) => c.region !== undefined);
    if (graph.directives.length + measured.length === 0) return;
    for (const n of graph.nodes) for (const r of n.results) this.producer.set(r, n.id);
    for (const d of graph.directives) {
      for (const t of tensorsNamed(d)) {
        const n = this.producer.get(t);
        if (n !== undefined) this.mentioned.add(n);
      }
      switch (d.kind) {
        case 'materialize': {
          const v = base.get(d.value);
          if (v !== undefined) this.keep.add(v);
          break;
        }
        case 'nofuse': {
          const from = this.producer.get(d.from);
          const to = this.producer.get(d.to);
          if (from !== undefined && to !== undefined)
            this.cuts.push({ from, to, because: { line: d } });
          break;
        }
        case 'fuse':
          this.required.push({
            directive: d,
            nodes: this.between(
              d.values.flatMap((v) => this.producer.get(v) ?? []),
              graph,
            ),
          });
          break;
        case 'recompute': {
          const n = this.producer.get(d.value);
          if (n !== undefined) this.recompute.add(n);
          break;
        }
        case 'schedule': {
          const n = this.producer.get(d.value);
          if (n !== undefined) this.schedules.set(n, d);
          break;
        }
        case 'expect':
          break;
      }
    }
    for (const m of measured) {
      const { kind, from, to } = m.change;
      if (kind === 'fuse') this.preferred.push(this.between([from, to], graph));
      // The file's own lines win.
      else if (!this.required.some((r) => r.nodes.includes(from) && r.nodes.includes(to)))
        this.cuts.push({ from, to, because: { measured: m } });
    }
  }

  /**
   * The nodes and those on the ways between them, in the graph's order: a kernel that holds both ends
   * of a way holds the way. So `fuse n, y` with `y = relu(n @ w)` takes the product along.
   */
  private between(nodes: readonly NodeId[], graph: Graph): NodeId[] {
    const readers = this.readersOf(graph);
    const byId = new Map(graph.nodes.map((n) => [n.id, n]));
    const reached = (next: (id: NodeId) => readonly NodeId[]): Set<NodeId> => {
      const seen = new Set(nodes);
      const open = [...nodes];
      for (let id = open.pop(); id !== undefined; id = open.pop())
        for (const other of next(id)) {
          if (seen.has(other)) continue;
          seen.add(other);
          open.push(other);
        }
      return seen;
    };
    const below = reached((id) =>
      (byId.get(id)?.results ?? []).flatMap((r) => readers.get(r) ?? []),
    );
    const above = reached((id) =>
      (byId.get(id)?.operands ?? []).flatMap((o) =>
        o === undefined ? [] : (this.producer.get(o) ?? []),
      ),
    );
    return graph.nodes.flatMap(({ id }) => (below.has(id) && above.has(id) ? [id] : []));
  }

  private readers: ReadonlyMap<TensorId, readonly NodeId[]> | undefined;
  private readersOf(graph: Graph): ReadonlyMap<TensorId, readonly NodeId[]> {
    if (this.readers) return this.readers;
    const readers = new Map<TensorId, NodeId[]>();
    for (const n of graph.nodes) {
      for (const o of n.operands) {
        if (o === undefined) continue;
        const list = readers.get(o);
        if (list) list.push(n.id);
        else readers.set(o, [n.id]);
      }
    }
    this.readers = readers;
    return readers;
  }

  private named: ReadonlyMap<NodeId, string> | undefined;
  /** What people call the nodes; only reasons against fusions ask. */
  private get nameOf(): ReadonlyMap<NodeId, string> {
    return (this.named ??= new Map(
      this.graph.nodes.map((n) => {
        const [result] = n.results;
        const tensor = result === undefined ? undefined : this.graph.tensors.get(result)?.name;
        return [n.id, n.name || tensor || n.sourceOp];
      }),
    ));
  }

  names(nodes: readonly NodeId[]): string {
    const names = [...new Set(nodes.map((n) => this.nameOf.get(n) ?? n))];
    return names.length <= 3
      ? names.join(', ')
      : `${names.slice(0, 3).join(', ')} and ${names.length - 3} more`;
  }

  private origins(members: readonly number[]): Set<NodeId> {
    const out = new Set<NodeId>();
    for (const m of members) for (const o of this.program.computes[m]?.origin ?? []) out.add(o);
    return out;
  }

  /** A group lies in one body, so its first member tells which. */
  private bodyOf(members: readonly number[]): BodyId | undefined {
    return this.program.computes[members[0] ?? -1]?.region;
  }

  allows(a: readonly number[], b: readonly number[]): boolean {
    if (this.bodies && this.bodyOf(a) !== this.bodyOf(b)) return false;
    return this.cuts.length === 0 || this.verdicts(a, b).length === 0;
  }

  verdicts(a: readonly number[], b: readonly number[]): Verdict[] {
    if (this.bodies && this.bodyOf(a) !== this.bodyOf(b))
      return [this.acrossBodies([...this.origins(a), ...this.origins(b)])];
    if (this.cuts.length === 0) return [];
    const x = this.origins(a);
    const y = this.origins(b);
    const both = (c: Cut): boolean =>
      (x.has(c.from) && y.has(c.to)) || (y.has(c.from) && x.has(c.to));
    return this.cuts.filter(both).map((c) => this.verdictOf(c));
  }

  private verdictOf({ from, to, because }: Cut): Verdict {
    if ('line' in because) {
      const { text, range } = because.line;
      return {
        code: 'FORBIDDEN',
        nodes: [from, to],
        limitSource: range ? `line ${range.start.line + 1}` : text,
        message: `'${text}' keeps ${this.names([from])} and ${this.names([to])} in different kernels`,
        counterfactual: 'would be considered without that line',
        confidence: 'proved',
      };
    }
    return slower(from, to, because.measured);
  }

  /** Whether a `schedule` line sets parameters for the kernel that the members are in. */
  hasScheduleLine(members: readonly number[]): boolean {
    if (this.schedules.size === 0) return false;
    for (const o of this.origins(members)) if (this.schedules.has(o)) return true;
    return false;
  }

  /** Why nothing is fused across the border of a body. */
  acrossBodies(nodes: readonly NodeId[]): Verdict {
    return {
      code: 'CONTROL_FLOW',
      nodes,
      message:
        'one of them is inside a branch or a loop that the other is outside of: a body runs as often as the data says, a kernel as a whole',
      counterfactual:
        'would be considered if the condition, or a small number of iterations, were known when compiling',
      confidence: 'proved',
    };
  }

  mayRecompute(members: readonly number[]): boolean {
    return members.length > 0;
  }

  mustRecompute(members: readonly number[]): boolean {
    if (this.recompute.size === 0) return false;
    for (const o of this.origins(members)) if (this.recompute.has(o)) return true;
    return false;
  }
}

/** Here the default is the merge, and what was measured to be faster is to leave it. */
function slower(from: NodeId, to: NodeId, { medianUs, defaultUs, adapter }: PlanTuning): Verdict {
  return {
    code: 'MEASURED_SLOWER',
    nodes: [from, to],
    quantity: Math.round((defaultUs / medianUs) * 100) / 100,
    limit: 1,
    unit: '× time',
    limitSource: `tuning record: ${adapter}`,
    message: `one kernel was measured at ${defaultUs.toFixed(1)} µs on ${adapter}, apart they took ${medianUs.toFixed(1)} µs`,
    counterfactual: 'would be made one kernel without the tuning record, or by a fuse line',
    confidence: 'measured',
  };
}

function tensorsNamed(d: Directive): readonly TensorId[] {
  switch (d.kind) {
    case 'materialize':
    case 'recompute':
    case 'schedule':
      return [d.value];
    case 'nofuse':
      return [d.from, d.to];
    case 'fuse':
      return d.values;
    case 'expect':
      return [];
  }
}
