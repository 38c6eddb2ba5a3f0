/**
 * Search: by name, op, kernel or shape. Words must all match; `64x1024` (with x, ×, * or a comma) finds
 * tensors of a shape that has these dims side by side.
 */
import { formatShape } from '../render/format';
import type { GraphIndex } from '../render/graphIndex';

export type Hit =
  | { readonly kind: 'node'; readonly id: string }
  | { readonly kind: 'kernel'; readonly id: string }
  | { readonly kind: 'tensor'; readonly id: string };

const SHAPE = /^\[?[\w?]+(?:[x×*,][\w?]+)+\]?$/i;

/** Kernels that are named come first, then nodes in order, then tensors from outside. */
export function search(index: GraphIndex, query: string): readonly Hit[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  const { graph, after } = index.result;
  const hits: Hit[] = [];
  for (const kernel of after.kernels) {
    const named = words.every(
      (word) => word === kernel.id.toLowerCase() || word === kernel.pattern.toLowerCase(),
    );
    if (named) hits.push({ kind: 'kernel', id: kernel.id });
  }
  for (const node of graph.nodes) {
    const shapes = node.results.flatMap((id) => shapesOf(index, id));
    const names = node.results.map((id) => index.tensors.get(id)?.name ?? '');
    const text = [node.name, node.op, node.sourceOp, ...names].join('\n').toLowerCase();
    if (words.every((word) => matches(word, text, shapes)))
      hits.push({ kind: 'node', id: node.id });
  }
  for (const tensor of graph.tensors) {
    if (tensor.role === 'result') continue;
    const text = tensor.name.toLowerCase();
    if (words.every((word) => matches(word, text, shapesOf(index, tensor.id))))
      hits.push({ kind: 'tensor', id: tensor.id });
  }
  return hits;
}

/** With its names, and with the sizes that they stand for now. */
function shapesOf(index: GraphIndex, tensor: string): string[] {
  const { shape = [], sizes } = index.tensors.get(tensor) ?? {};
  return [shape, ...(sizes ? [sizes] : [])].map(
    (dims) => `,${formatShape(dims).toLowerCase().replaceAll('×', ',')},`,
  );
}

function matches(word: string, text: string, shapes: readonly string[]): boolean {
  if (text.includes(word)) return true;
  if (!SHAPE.test(word)) return false;
  const dims = `,${word.replace(/[[\]]/g, '').replace(/[x×*]/g, ',')},`;
  return shapes.some((shape) => shape.includes(dims));
}
