/** Look-ups into a compile result, made once per result and shared by everything that reads it. */
import type {
  CompileResult,
  Decision,
  KernelView,
  NodeView,
  TensorView,
} from '../../compiler/result';

export interface ResultIndex {
  readonly nodes: ReadonlyMap<string, NodeView>;
  readonly tensors: ReadonlyMap<string, TensorView>;
  readonly kernels: ReadonlyMap<string, KernelView>;
  /** Kernels of the fused plan that hold the node. */
  readonly kernelsOf: (node: string) => readonly KernelView[];
  /** Decisions about edges between two nodes that this node is an end of. */
  readonly decisionsOf: (node: string) => readonly Decision[];
  /** The name of a node's first result, as the file has it; or of a tensor. */
  readonly nameOf: (id: string) => string;
}

const cache = new WeakMap<CompileResult, ResultIndex>();

export function indexOf(result: CompileResult): ResultIndex {
  let index = cache.get(result);
  if (!index) {
    index = makeIndex(result);
    cache.set(result, index);
  }
  return index;
}

function makeIndex({ graph, after, decisions }: CompileResult): ResultIndex {
  const nodes = new Map(graph.nodes.map((node) => [node.id, node]));
  const tensors = new Map(graph.tensors.map((tensor) => [tensor.id, tensor]));
  const prepared = after.prepared ?? [];
  const kernels = new Map([...after.kernels, ...prepared].map((kernel) => [kernel.id, kernel]));
  const byNode = new Map<string, KernelView[]>();
  for (const kernel of after.kernels) for (const node of kernel.nodes) append(byNode, node, kernel);
  // What no run computes is computed at load.
  const inRun = new Set(byNode.keys());
  for (const kernel of prepared)
    for (const node of kernel.nodes) if (!inRun.has(node)) append(byNode, node, kernel);
  const decisionsByNode = new Map<string, Decision[]>();
  for (const decision of decisions) {
    if (!nodes.has(decision.from)) continue;
    append(decisionsByNode, decision.from, decision);
    if (decision.to !== decision.from) append(decisionsByNode, decision.to, decision);
  }
  return {
    nodes,
    tensors,
    kernels,
    kernelsOf: (node) => byNode.get(node) ?? [],
    decisionsOf: (node) => decisionsByNode.get(node) ?? [],
    nameOf: (id) => {
      const node = nodes.get(id);
      const tensor = tensors.get(node?.results[0] ?? id);
      return tensor?.name || node?.name || node?.op || id;
    },
  };
}

function append<K, V>(map: Map<K, V[]>, key: K, value: V): void {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}
