/**
 * Which graph inputs an op must know when compiling.
 *
 * In an ONNX file the shape of a Reshape, the axes of a Slice, the size of a window may be graph inputs.
 * Kernels are generated for known shapes, so their contents are compiled in (see
 * tensors/specialise.ts). Inputs that hold data stay inputs: else a small test would be folded away
 * instead of run.
 */
import type { Graph, Node, NodeId, TensorId } from '../compiler/graph/graph';
import { constOf } from '../compiler/ir/indexExpr';
import { elementCount } from './tensors/tensor';

/** Operands with more elements are data, not shapes. */
const SPECIALISE_LIMIT = 4096;

/** Ops whose first operand, too, says a shape or decides on one. */
const SHAPE_FIRST: ReadonlySet<string> = new Set([
  'ConstantOfShape',
  'Range',
  'BlackmanWindow',
  'HammingWindow',
  'HannWindow',
  'MelWeightMatrix',
  'NonMaxSuppression',
  'NonZero',
  'Unique',
]);

/**
 * Graph inputs behind the secondary operands of nodes that couldn't be lowered: those that hold
 * shapes, axes, counts. Directly, or through small integer arithmetic.
 */
export function operandsToKnow(graph: Graph, opaque: ReadonlySet<NodeId>): TensorId[] {
  const inputs = new Set(graph.inputs);
  const producer = new Map<TensorId, Node>();
  for (const n of graph.nodes) for (const r of n.results) producer.set(r, n);
  const found = new Set<TensorId>();
  const isSmall = (id: TensorId): boolean => {
    const shape = graph.tensors.get(id)?.type?.shape;
    const n = shape && elementCount(shape.map((d) => constOf(d) ?? Infinity));
    return n !== undefined && n <= SPECIALISE_LIMIT;
  };
  // A node that only lacks the result of another is no reason of its own.
  const behindOpaque = (id: TensorId): boolean => {
    const p = producer.get(id);
    return p !== undefined && opaque.has(p.id);
  };
  for (const n of graph.nodes) {
    if (!opaque.has(n.id)) continue;
    // Control flow that stays is decided on before anything inside it is.
    const deciding = controlOperands(graph, n);
    const reads = deciding ?? n.operands.flatMap((o) => o ?? []);
    if (reads.some(behindOpaque)) continue;
    const operands =
      deciding ??
      n.operands.flatMap((o, i) =>
        o === undefined || (i === 0 && !SHAPE_FIRST.has(n.sourceOp)) ? [] : [o],
      );
    operands.forEach((operand) => {
      const stack = [operand];
      const seen = new Set<TensorId>();
      while (stack.length > 0) {
        const id = stack.pop();
        if (id === undefined || seen.has(id)) continue;
        seen.add(id);
        if (inputs.has(id) && isSmall(id)) found.add(id);
        const p = producer.get(id);
        const behind = p && (controlOperands(graph, p) ?? p.operands);
        for (const o of behind ?? []) if (o !== undefined) stack.push(o);
      }
    });
  }
  return [...found];
}

/** What decides how a branch or a loop goes; undefined for other nodes. */
function controlOperands(graph: Graph, n: Node): TensorId[] | undefined {
  const id = n.control?.region ?? n.id;
  const region = graph.regions?.find((r) => r.id === id);
  if (region?.kind === 'branch') return [region.condition];
  if (region) return [region.trips, region.condition].flatMap((t) => t ?? []);
  // One that couldn't become a region.
  if (n.unsupported === undefined) return undefined;
  const first = n.sourceOp === 'Loop' ? 2 : n.sourceOp === 'If' ? 1 : 0;
  return first === 0 ? undefined : n.operands.slice(0, first).flatMap((o) => o ?? []);
}
