/** Questions about one compile result, answered from maps: made once per result. */
import type {
  CompileResult,
  Decision,
  KernelView,
  NodeView,
  PlanView,
  TensorView,
} from '../../compiler/result';
import { JoinedTimes } from '../../runner/core/joined';
import type { KernelTime, ProfileResult } from '../../runner/core/types';

export type View = 'before' | 'after';

export interface Reader {
  readonly node: NodeView;
  readonly operand: number;
}

export class GraphIndex {
  readonly nodes: ReadonlyMap<string, NodeView>;
  readonly tensors: ReadonlyMap<string, TensorView>;
  readonly kernels: ReadonlyMap<string, KernelView>;
  private readonly producers = new Map<string, NodeView>();
  private readonly readers = new Map<string, Reader[]>();
  private readonly kernelsOf: Record<View, Map<string, KernelView[]>>;
  private readonly decisionsByEdge = new Map<string, Decision>();
  private readonly decisionsByNode = new Map<string, Decision[]>();

  constructor(readonly result: CompileResult) {
    const { graph, before, after, decisions } = result;
    this.nodes = new Map(graph.nodes.map((node) => [node.id, node]));
    this.tensors = new Map(graph.tensors.map((tensor) => [tensor.id, tensor]));
    this.kernels = new Map(
      [...before.kernels, ...after.kernels, ...(after.prepared ?? [])].map((k) => [k.id, k]),
    );
    for (const node of graph.nodes) {
      for (const tensor of node.results) this.producers.set(tensor, node);
      node.operands.forEach((tensor, operand) => {
        if (tensor !== undefined) push(this.readers, tensor, { node, operand });
      });
    }
    this.kernelsOf = { before: byNode(before), after: byNode(after) };
    for (const decision of decisions) {
      this.decisionsByEdge.set(edgeKey(decision.from, decision.to, decision.tensor), decision);
      push(this.decisionsByNode, decision.to, decision);
      if (this.nodes.has(decision.from)) push(this.decisionsByNode, decision.from, decision);
    }
  }

  plan(view: View): PlanView {
    return this.result[view];
  }

  producer(tensor: string): NodeView | undefined {
    return this.producers.get(tensor);
  }

  readersOf(tensor: string): readonly Reader[] {
    return this.readers.get(tensor) ?? [];
  }

  /** The kernels that hold the node: several when it is duplicated. */
  kernelsHolding(node: string, view: View): readonly KernelView[] {
    return this.kernelsOf[view].get(node) ?? [];
  }

  decision(from: string, to: string, tensor: string): Decision | undefined {
    return this.decisionsByEdge.get(edgeKey(from, to, tensor));
  }

  /** Decisions of every edge that enters or leaves the node. */
  decisionsOf(node: string): readonly Decision[] {
    return this.decisionsByNode.get(node) ?? [];
  }

  /** What people call the body of a branch or a loop. */
  bodyTitle(id: string): string {
    for (const r of this.result.regions ?? [])
      for (const b of r.bodies) if (b.id === id) return b.title;
    return id;
  }

  /** A name for people: never empty. */
  nodeName(id: string): string {
    const node = this.nodes.get(id);
    if (!node) return this.tensorName(id);
    if (node.name !== '') return node.name;
    const result = node.results[0];
    return (result === undefined ? '' : this.tensors.get(result)?.name) || node.op;
  }

  tensorName(id: string): string {
    const name = this.tensors.get(id)?.name;
    if (name !== undefined && name !== '') return name;
    const producer = this.producers.get(id);
    return producer ? `result of ${producer.op}` : id;
  }
}

export function edgeKey(from: string, to: string, tensor: string): string {
  return `${from}>${to}:${tensor}`;
}

/** Measured times joined with one result. */
export class Times {
  private readonly joined: JoinedTimes;
  /** The plans are still the measured ones: totals, speed-up and verification hold for them. */
  readonly current: boolean;

  constructor(
    readonly profile: ProfileResult,
    result: CompileResult,
  ) {
    this.joined = new JoinedTimes(profile);
    this.current = this.joined.covers(result);
  }

  of(kernel: KernelView): KernelTime | undefined {
    return this.joined.of(kernel);
  }
}

/** A model that is off by more than this is told so. */
export const OFF_FACTOR = 2;

export function isOff(predicted: number, measured: number): boolean {
  return measured > predicted * OFF_FACTOR || predicted > measured * OFF_FACTOR;
}

/** The time that a kernel's heat comes from: measured if there is one. */
export function kernelUs(kernel: KernelView, times: Times | undefined): number {
  // No run takes it.
  if (kernel.atLoad) return 0;
  const measured = times?.of(kernel);
  return measured ? measured.medianUs * (measured.runs ?? 1) : kernel.estimatedUs;
}

/** Kernels that run at load, with those of their nodes that no run computes anything of. */
export function loadedOnly(plan: PlanView): readonly KernelView[] {
  if (!plan.prepared) return [];
  const inRun = new Set(plan.kernels.flatMap((k) => k.nodes));
  return plan.prepared.flatMap((k) => {
    const nodes = k.nodes.filter((n) => !inRun.has(n));
    return nodes.length > 0 ? [{ ...k, nodes }] : [];
  });
}

function byNode(plan: PlanView): Map<string, KernelView[]> {
  const map = new Map<string, KernelView[]>();
  for (const kernel of plan.kernels) for (const node of kernel.nodes) push(map, node, kernel);
  for (const kernel of loadedOnly(plan)) for (const node of kernel.nodes) push(map, node, kernel);
  return map;
}

function push<K, V>(map: Map<K, V[]>, key: K, value: V): void {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}
