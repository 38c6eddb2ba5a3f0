/**
 * FlexAttention with graphs that change the scores or the probabilities: written out as the scores,
 * the first graph, a softmax, the second graph, and the product with the values.
 */
import type { NodeAttributes } from './attributes';
import type { OnnxNode } from './proto';
import type { Builder, Frame } from './scope';

export function addFlexAttention(
  builder: Builder,
  n: OnnxNode,
  id: string,
  frame: Frame,
  attributes: NodeAttributes,
): boolean {
  if (n.domain !== 'ai.onnx.preview' || n.opType !== 'FlexAttention') return false;
  if (attributes.graphs.size === 0) return false;
  const [q, k, v] = builder.operands(n, id, frame);
  const scale = attributes.attrs['scale'];
  let at = builder.make(n, `${id}/scores`, frame, {
    op: 'flex_attention_scores',
    ...(scale === undefined ? {} : { attrs: { scale } }),
    operands: [q, k],
  })[0];
  const through = (name: string): void => {
    const g = attributes.graphs.get(name);
    if (!g) return;
    const scope = builder.inline(g, frame, `${id}/${name}/`, [at]);
    at = builder.resolve(scope.find(g.outputs[0]?.name ?? ''));
  };
  through('score_mod');
  [at] = builder.make(n, `${id}/softmax`, frame, {
    op: 'softmax',
    attrs: { axis: -1 },
    operands: [at],
  });
  through('prob_mod');
  const y = builder.make(n, `${id}/values`, frame, {
    op: 'flex_attention_values',
    operands: [at, v],
  });
  builder.alias(n, id, y);
  return true;
}
