/**
 * Attention in the forms of ONNX and PyTorch: operands, heads, caches and masks, over the computes of
 * attentionCore.ts.
 *
 * Vocabulary
 *  - *offset*: how many keys precede the first query: causal masking lets query i see key j when
 *    j <= i + offset.
 */
import { type DType, isFloat } from '../graph/dtype';
import { cast, type Expr, indexValue, select, unary, when } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { Dim, IndexExpr } from '../ir/indexExpr';
import {
  attention,
  type AttentionResult,
  causalStep,
  chain,
  type Heads,
  maskStep,
  minusInfinity,
  type ScoreStep,
  splitHeads,
} from './attentionCore';
import { lowerLinearAttention } from './linearAttention';
import type { LowerContext, LTensor, OpDef } from './op';
import {
  at,
  atMost,
  below,
  minus,
  plus,
  requireShape,
  sumOfProducts,
  times,
  wide,
} from './products';
import { ROTARY } from './rotary';
import { optionalParam, optionalTensor, sizeAs, tensorParam } from './shared';

// ---------------------------------------------------------------------------------------------
// ONNX Attention

function requireRank(ctx: LowerContext, tensors: readonly LTensor[]): number {
  const [q] = tensors;
  const rank = q?.shape.length ?? 0;
  if ((rank !== 3 && rank !== 4) || tensors.some((t) => t.shape.length !== rank)) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `attention takes q, k and v all of rank 4 [batch, heads, sequence, size], or all of rank 3 ` +
        `[batch, sequence, heads * size]; they are ${tensors.map((t) => I.printShape(t.shape)).join(', ')}`,
    );
  }
  return rank;
}

/** The heads of q per head of k and v. */
export function groupOf(ctx: LowerContext, q: LTensor, k: LTensor, v: LTensor): number {
  for (const t of [q, k, v])
    if (!isFloat(t.dtype)) ctx.fail('BAD_DTYPE', `attention is over floats, not ${t.dtype}`);
    else if (t.shape.length !== 4)
      ctx.fail(
        'SHAPE_MISMATCH',
        `heads are [batch, heads, sequence, size]; an operand is ${I.printShape(t.shape)}`,
      );
  const [a, b] = [at(q.shape, 1), at(k.shape, 1)];
  ctx.requireEqual(b, at(v.shape, 1), 'the heads of k and v');
  if (I.same(a, b)) return 1;
  const [x, y] = [I.constOf(a), I.constOf(b)];
  if (x === undefined || y === undefined || y === 0 || x % y !== 0) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `q has ${I.printIndex(a)} heads and k has ${I.printIndex(b)}: the first must be a multiple of the second`,
    );
  }
  return x / y;
}

function requireSizes(ctx: LowerContext, h: Heads): void {
  const { q, k, v } = h;
  ctx.requireEqual(at(q.shape, 0), at(k.shape, 0), 'the batch dims of q and k');
  ctx.requireEqual(at(q.shape, 0), at(v.shape, 0), 'the batch dims of q and v');
  ctx.requireEqual(at(q.shape, 3), at(k.shape, 3), 'the head sizes of q and k');
  ctx.requireEqual(at(k.shape, 2), at(v.shape, 2), 'the sequence lengths of k and v');
}

/** The past positions followed by the new ones. */
export function extend(
  ctx: LowerContext,
  past: LTensor | undefined,
  fresh: LTensor,
  what: string,
): LTensor {
  if (!past) return fresh;
  if (past.shape.length !== 4) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `${what} must be [batch, heads, past, size]; it is ${I.printShape(past.shape)}`,
    );
  }
  const length = at(past.shape, 2);
  requireShape(
    ctx,
    past.shape,
    fresh.shape.map((d, i) => (i === 2 ? length : d)),
    what,
  );
  const shape = fresh.shape.map((d, i) => (i === 2 ? I.add(length, d) : d));
  return ctx.pointwise(shape, fresh.dtype, (index) => {
    const p = at(index, 2);
    const shifted = index.map((x, i) => (i === 2 ? I.sub(x, length) : x));
    return when(
      [{ index: p, lo: I.num(0), hi: length }],
      cast(past.at(index), fresh.dtype),
      fresh.at(shifted),
    );
  });
}

export function defaultScale(size: Dim, dtype: DType): number | Expr {
  const n = I.constOf(size);
  return n === undefined ? unary('rsqrt', sizeAs(size, dtype)) : 1 / Math.sqrt(n);
}

function lowerAttention(ctx: LowerContext): readonly LTensor[] {
  const operands = [ctx.input(0), ctx.input(1), ctx.input(2)] as const;
  const rank = requireRank(ctx, operands);
  const headsAttr = (name: string): number => {
    const n = ctx.int(name);
    return n > 0 ? n : ctx.fail('BAD_ATTRIBUTE', `${name} is ${n}: it must be at least 1`);
  };
  const qHeads = rank === 3 ? headsAttr('q_num_heads') : 0;
  const kvHeads = rank === 3 ? headsAttr('kv_num_heads') : 0;
  const q = splitHeads(ctx, operands[0], qHeads, 'q');
  const [pastKey, pastValue, lengths] = [ctx.optional(4), ctx.optional(5), ctx.optional(6)];
  const k = extend(ctx, pastKey, splitHeads(ctx, operands[1], kvHeads, 'k'), 'past_key');
  const v = extend(ctx, pastValue, splitHeads(ctx, operands[2], kvHeads, 'v'), 'past_value');
  const heads: Heads = { q, k, v, group: groupOf(ctx, q, k, v) };
  requireSizes(ctx, heads);

  const acc = wide(q.dtype);
  const shape = [at(q.shape, 0), at(q.shape, 1), at(q.shape, 2), at(k.shape, 2)];
  const mask = ctx.optional(3);
  const causal = ctx.bool('is_causal', false);
  if (lengths) requireShape(ctx, lengths.shape, [at(q.shape, 0)], 'nonpad_kv_seqlen');
  const given = ctx.float('scale', 0);
  const result = attention(
    ctx,
    heads,
    {
      scale: ctx.has('scale') && given !== 0 ? given : defaultScale(at(q.shape, 3), acc),
      softcap: ctx.float('softcap', 0),
      mayBeEmpty: mask !== undefined || lengths !== undefined,
      ...optionalMask(
        chain([
          mask && maskStep(ctx, mask, shape),
          causal ? attentionCausal(q, pastKey, lengths) : undefined,
          lengths && lengthStep(lengths),
        ]),
      ),
    },
    rank === 4 ? 'heads-first' : 'sequence-first',
  );
  const y = rank === 4 ? result.y : joinHeads(ctx, result.y);
  return [y, k, v, scoresOutput(ctx, result, q.dtype)];
}

function optionalMask(mask: ScoreStep | undefined): { readonly mask?: ScoreStep } {
  return mask ? { mask } : {};
}

/** The offset is the length of the cache: the past keys, or the valid keys less the new queries. */
function attentionCausal(
  q: LTensor,
  pastKey: LTensor | undefined,
  lengths: LTensor | undefined,
): ScoreStep {
  if (pastKey || !lengths) return causalStep(pastKey ? at(pastKey.shape, 2) : I.num(0));
  return (score, index) => {
    const offset = minus(cast(lengths.at([at(index, 0)]), 'i32'), sizeAs(at(q.shape, 2), 'i32'));
    const seen = atMost(
      indexValue(at(index, 3), 'i32'),
      plus(indexValue(at(index, 2), 'i32'), offset),
    );
    return select(seen, score, minusInfinity(score));
  };
}

/** Keys from nonpad_kv_seqlen[batch] on are padding. */
function lengthStep(lengths: LTensor): ScoreStep {
  return (score, index) =>
    select(
      below(indexValue(at(index, 3), 'i32'), cast(lengths.at([at(index, 0)]), 'i32')),
      score,
      minusInfinity(score),
    );
}

/** [batch, sequence, heads, size] as [batch, sequence, heads * size]. */
export function joinHeads(ctx: LowerContext, y: LTensor): LTensor {
  const [heads, size] = [at(y.shape, 2), at(y.shape, 3)];
  return ctx.view([at(y.shape, 0), at(y.shape, 1), I.mul(heads, size)], y, (index) => {
    const [h, d] = I.delinearise(at(index, 2), [heads, size]);
    return [at(index, 0), at(index, 1), h ?? I.num(0), d ?? I.num(0)];
  });
}

function scoresOutput(ctx: LowerContext, r: AttentionResult, dtype: DType): LTensor {
  const mode = ctx.int('qk_matmul_output_mode', 0);
  const modes = [r.raw, r.capped, r.masked, r.probabilities];
  const chosen =
    modes[mode] ??
    ctx.fail('BAD_ATTRIBUTE', `qk_matmul_output_mode is ${mode}: it must be 0, 1, 2 or 3`);
  if (chosen.dtype === dtype || ctx.node.results.length < 4) return chosen;
  return ctx.pointwise(chosen.shape, dtype, (index) => cast(chosen.at(index), dtype));
}

// ---------------------------------------------------------------------------------------------
// PyTorch's scaled_dot_product_attention, ONNX's FlexAttention

/** Any number of leading dims; they become one batch dim and the heads. */
function lowerSdpa(ctx: LowerContext): LTensor {
  const [q, k, v, mask] = [ctx.input(0), ctx.input(1), ctx.input(2), ctx.optional(3)];
  const rank = q.shape.length;
  if (rank < 2 || k.shape.length !== rank || v.shape.length !== rank || rank > 4) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `scaled_dot_product_attention takes q [..., L, E], k [..., S, E], v [..., S, D] of one rank from 2 to 4; ` +
        `they are ${I.printShape(q.shape)}, ${I.printShape(k.shape)}, ${I.printShape(v.shape)}`,
    );
  }
  const lead = 4 - rank;
  const padded = (t: LTensor): LTensor =>
    lead === 0
      ? t
      : ctx.view([...new Array<number>(lead).fill(1), ...t.shape], t, (index) => index.slice(lead));
  const [q4, k4, v4] = [padded(q), padded(k), padded(v)];
  const heads: Heads = { q: q4, k: k4, v: v4, group: groupOf(ctx, q4, k4, v4) };
  requireSizes(ctx, heads);
  const shape = [at(q4.shape, 0), at(q4.shape, 1), at(q4.shape, 2), at(k4.shape, 2)];
  const acc = wide(q.dtype);
  const causal = ctx.bool('is_causal', false);
  if (causal && mask) {
    ctx.fail('BAD_ATTRIBUTE', 'give attn_mask or is_causal, not both');
  }
  const { y } = attention(
    ctx,
    heads,
    {
      scale: ctx.has('scale') ? ctx.float('scale') : defaultScale(at(q4.shape, 3), acc),
      softcap: 0,
      mayBeEmpty: mask !== undefined,
      ...optionalMask(
        chain([mask && maskStep(ctx, mask, shape), causal ? causalStep(I.num(0)) : undefined]),
      ),
    },
    'heads-first',
  );
  if (lead === 0) return y;
  return ctx.view(y.shape.slice(lead), y, (index) => [
    ...new Array<IndexExpr>(lead).fill(I.num(0)),
    ...index,
  ]);
}

function lowerFlexAttention(ctx: LowerContext): LTensor {
  const operands = [ctx.input(0), ctx.input(1), ctx.input(2)] as const;
  if (operands.some((t) => t.shape.length !== 4)) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `FlexAttention takes q, k and v of rank 4; they are ${operands.map((t) => I.printShape(t.shape)).join(', ')}`,
    );
  }
  const [q, k, v] = operands;
  const heads: Heads = { q, k, v, group: groupOf(ctx, q, k, v) };
  requireSizes(ctx, heads);
  const acc = wide(q.dtype);
  const scale = ctx.has('scale') ? ctx.float('scale') : defaultScale(at(q.shape, 3), acc);
  return attention(ctx, heads, { scale, softcap: 0, mayBeEmpty: false }, 'heads-first').y;
}

/** The scores alone, scaled: what a FlexAttention whose graphs are written out begins with. */
function lowerFlexScores(ctx: LowerContext): LTensor {
  const [q, k] = [ctx.input(0), ctx.input(1)];
  const group = groupOf(ctx, q, k, k);
  const acc = wide(q.dtype);
  const scale = ctx.has('scale') ? ctx.float('scale') : defaultScale(at(q.shape, 3), acc);
  const shape = [at(q.shape, 0), at(q.shape, 1), at(q.shape, 2), at(k.shape, 2)];
  ctx.requireEqual(at(q.shape, 3), at(k.shape, 3), 'the head sizes of query and key');
  const product = sumOfProducts(ctx, { shape, over: [at(q.shape, 3)], dtype: acc }, (index, r) => {
    const [b, h, i, j] = [at(index, 0), at(index, 1), at(index, 2), at(index, 3)];
    return [q.at([b, h, i, at(r, 0)]), k.at([b, I.floorDiv(h, group), j, at(r, 0)])];
  });
  return ctx.pointwise(shape, acc, (index) => times(product.at(index), scale));
}

/** And what it ends with: the probabilities' product with the values. */
function lowerFlexValues(ctx: LowerContext): LTensor {
  const [p, v] = [ctx.input(0), ctx.input(1)];
  const group = groupOf(ctx, p, v, v);
  const shape = [at(p.shape, 0), at(p.shape, 1), at(p.shape, 2), at(v.shape, 3)];
  ctx.requireEqual(at(p.shape, 3), at(v.shape, 2), 'the keys of the scores and of the values');
  return sumOfProducts(ctx, { shape, over: [at(v.shape, 2)], dtype: v.dtype }, (index, r) => {
    const [b, h, i, d] = [at(index, 0), at(index, 1), at(index, 2), at(index, 3)];
    return [p.at([b, h, i, at(r, 0)]), v.at([b, I.floorDiv(h, group), at(r, 0), d])];
  });
}

export const attentionOps: readonly OpDef[] = [
  {
    name: 'attention',
    onnx: ['Attention'],
    fuse: [
      {
        names: ['attention'],
        params: [
          tensorParam('query', 'q', 'Q'),
          tensorParam('key', 'k', 'K'),
          tensorParam('value', 'v', 'V'),
          optionalTensor('attn_mask', 'mask'),
          optionalTensor('past_key'),
          optionalTensor('past_value'),
          optionalTensor('nonpad_kv_seqlen'),
          optionalParam('is_causal', 'bool', false, 'causal'),
          optionalParam('scale', 'float'),
          optionalParam('softcap', 'float'),
          optionalParam('q_num_heads', 'int', undefined, 'num_heads'),
          optionalParam('kv_num_heads', 'int'),
        ],
        doc: 'Attention over [batch, heads, sequence, size], or [batch, sequence, heads * size] with q_num_heads and kv_num_heads.',
      },
    ],
    lower: lowerAttention,
  },
  {
    name: 'scaled_dot_product_attention',
    fuse: [
      {
        names: ['scaled_dot_product_attention', 'sdpa'],
        params: [
          tensorParam('query', 'q'),
          tensorParam('key', 'k'),
          tensorParam('value', 'v'),
          optionalTensor('attn_mask', 'mask'),
          optionalParam('dropout_p', 'float', 0),
          optionalParam('is_causal', 'bool', false, 'causal'),
          optionalParam('scale', 'float'),
          optionalParam('enable_gqa', 'bool', false),
        ],
        doc: 'softmax(q · kᵀ * scale + mask) · v, over [..., sequence, size].',
      },
    ],
    lower: lowerSdpa,
  },
  {
    name: 'flex_attention',
    onnx: ['ai.onnx.preview:FlexAttention'],
    lower: lowerFlexAttention,
  },
  { name: 'flex_attention_scores', lower: lowerFlexScores },
  { name: 'flex_attention_values', lower: lowerFlexValues },
  ROTARY,
  {
    name: 'linear_attention',
    onnx: ['LinearAttention', 'com.microsoft:LinearAttention'],
    lower: lowerLinearAttention,
  },
];
