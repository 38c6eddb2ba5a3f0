/**
 * Attention and what goes with it.
 *
 * Vocabulary
 *  - *scores*: q·kᵀ, one number per query and key; *probabilities*: their softmax over the keys.
 *  - *group*: several query heads that share one key/value head (grouped-query attention).
 *  - *offset*: how many keys precede the first query: causal masking lets query i see key j when
 *    j <= i + offset.
 *
 * Attention is not opaque: it lowers to the product, the scaling and masking, the row maximum, the
 * exponentials, their sum, the division and the second product, each a compute of its own. A causal
 * mask with a known offset is an index condition.
 */
import type { DType } from '../graph/dtype';
import { cast, constant, type Expr, indexValue, select, unary, when } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { Dim, IndexExpr } from '../ir/indexExpr';
import { lowerLinearAttention } from './linearAttention';
import type { LowerContext, LTensor, OpDef } from './op';
import {
  at,
  atMost,
  below,
  greatest,
  minus,
  over,
  plus,
  requireShape,
  sumOfProducts,
  times,
  wide,
  wrappedIndex,
} from './products';
import { optionalParam, optionalTensor, sizeAs, tensorParam } from './shared';

/** Below every score that an exponential can tell from minus infinity. */
const LOWEST_MAXIMUM = -3e38;
/** A row that sees no key sums to 0; every other sum is at least 1. */
const LEAST_SUM = 1e-30;

/** Heads and sequences of one attention; all handles are [batch, heads, sequence, head size]. */
interface Heads {
  readonly q: LTensor;
  readonly k: LTensor;
  readonly v: LTensor;
  /** Query heads per key/value head. */
  readonly group: number;
}

/** A score and where it stands. */
type ScoreStep = (score: Expr, index: readonly IndexExpr[]) => Expr;

interface Steps {
  readonly scale: number | Expr;
  readonly softcap: number;
  /** Applied after scale and softcap; undefined: nothing is masked. */
  readonly mask?: ScoreStep;
  /** Whether a row may see no key at all: its result is 0 then. */
  readonly mayBeEmpty: boolean;
}

export interface AttentionResult {
  /** [batch, query sequence, heads, head size]: the heads are innermost, as a projection wants them. */
  readonly y: LTensor;
  readonly raw: LTensor;
  readonly capped: LTensor;
  readonly masked: LTensor;
  readonly probabilities: LTensor;
}

/** Where the heads of the result stand: before the sequence (4-D operands) or after it (3-D). */
type ResultLayout = 'heads-first' | 'sequence-first';

function attention(
  ctx: LowerContext,
  heads: Heads,
  steps: Steps,
  layout: ResultLayout,
): AttentionResult {
  const { q, k, v, group } = heads;
  const [batch, qHeads, rows, size] = [
    at(q.shape, 0),
    at(q.shape, 1),
    at(q.shape, 2),
    at(q.shape, 3),
  ];
  const keys = at(k.shape, 2);
  const acc = wide(q.dtype);
  const shared = (h: IndexExpr): IndexExpr => (group === 1 ? h : I.floorDiv(h, group));
  const shape = [batch, qHeads, rows, keys];

  const product = sumOfProducts(ctx, { shape, over: [size], dtype: acc }, (index, over) => {
    const [b, h, i, j] = [at(index, 0), at(index, 1), at(index, 2), at(index, 3)];
    const d = at(over, 0);
    return [q.at([b, h, i, d]), k.at([b, shared(h), j, d])];
  });
  const step = (t: LTensor, f: ScoreStep): LTensor =>
    ctx.pointwise(shape, acc, (index) => f(t.at(index), index));
  const raw = steps.scale === 1 ? product : step(product, (e) => times(e, steps.scale));
  const capped =
    steps.softcap > 0
      ? step(raw, (e) => times(unary('tanh', over(e, steps.softcap)), steps.softcap))
      : raw;
  const masked = steps.mask ? step(capped, steps.mask) : capped;

  const row = shape.slice(0, 3);
  const best = ctx.reduce({ shape: row, over: [keys], monoid: 'max', dtype: acc }, (index, r) =>
    masked.at([...index, at(r, 0)]),
  );
  const weights = step(masked, (e, index) => {
    const m = best.at(index.slice(0, 3));
    return unary('exp', minus(e, steps.mayBeEmpty ? greatest(m, LOWEST_MAXIMUM) : m));
  });
  const sum = ctx.reduce({ shape: row, over: [keys], monoid: 'sum', dtype: acc }, (index, r) =>
    weights.at([...index, at(r, 0)]),
  );
  const probabilities = step(weights, (e, index) => {
    const s = sum.at(index.slice(0, 3));
    return over(e, steps.mayBeEmpty ? greatest(s, LEAST_SUM) : s);
  });
  const width = at(v.shape, 3);
  const first = layout === 'heads-first';
  const y = sumOfProducts(
    ctx,
    {
      shape: first ? [batch, qHeads, rows, width] : [batch, rows, qHeads, width],
      over: [keys],
      dtype: v.dtype,
    },
    (index, over) => {
      const [b, d, j] = [at(index, 0), at(index, 3), at(over, 0)];
      const [h, i] = first ? [at(index, 1), at(index, 2)] : [at(index, 2), at(index, 1)];
      return [probabilities.at([b, h, i, j]), v.at([b, shared(h), j, d])];
    },
  );
  return { y, raw, capped, masked, probabilities };
}

// ---------------------------------------------------------------------------------------------
// Masks

const minusInfinity = (like: Expr): Expr => constant(-Infinity, like.dtype);

/**
 * A mask tensor, right-aligned to [batch, heads, query, key] and broadcast; true (or 0) keeps. One
 * with fewer keys than there are hides the rest.
 */
function maskStep(ctx: LowerContext, mask: LTensor, shape: readonly Dim[]): ScoreStep {
  const lead = 4 - mask.shape.length;
  if (lead < 0) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `the mask has shape ${I.printShape(mask.shape)}; it must broadcast to [batch, heads, queries, keys] = ${I.printShape(shape)}`,
    );
  }
  const last = mask.shape.length - 1;
  mask.shape.forEach((d, i) => {
    if (i !== last && !I.isConst(d, 1)) {
      ctx.requireEqual(
        d,
        at(shape, lead + i),
        `dim ${i} of the mask ${I.printShape(mask.shape)} and of the scores ${I.printShape(shape)}`,
      );
    }
  });
  const keys = at(shape, 3);
  const covered = last >= 0 ? at(mask.shape, last) : keys;
  if (!I.same(covered, keys) && I.provablyLe(I.add(keys, 1), covered)) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `the mask ${I.printShape(mask.shape)} has more keys than the scores ${I.printShape(shape)}`,
    );
  }
  const partial = !I.same(covered, keys) && !I.provablyLe(keys, covered);
  return (score, index) => {
    const m = mask.at(mask.shape.map((d, i) => (I.isConst(d, 1) ? I.num(0) : at(index, lead + i))));
    const kept =
      mask.dtype === 'bool'
        ? select(m, score, minusInfinity(score))
        : plus(score, cast(m, score.dtype));
    return partial
      ? when([{ index: at(index, 3), lo: I.num(0), hi: covered }], kept, minusInfinity(score))
      : kept;
  };
}

function chain(steps: readonly (ScoreStep | undefined)[]): ScoreStep | undefined {
  const present = steps.filter((s) => s !== undefined);
  if (present.length === 0) return undefined;
  return (score, index) => present.reduce((e, s) => s(e, index), score);
}

/** Query i sees keys up to i + offset. */
function causalStep(offset: IndexExpr): ScoreStep {
  return (score, index) =>
    when(
      [{ index: at(index, 3), lo: I.num(0), hi: I.add(I.add(at(index, 2), offset), 1) }],
      score,
      minusInfinity(score),
    );
}

// ---------------------------------------------------------------------------------------------
// ONNX Attention

/** A 3-D operand [batch, sequence, heads * size] as [batch, heads, sequence, size]; 4-D as it is. */
function splitHeads(ctx: LowerContext, t: LTensor, heads: number, what: string): LTensor {
  if (t.shape.length === 4) return t;
  const size = I.exactDiv(at(t.shape, 2), heads);
  if (!size) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `${what} has shape ${I.printShape(t.shape)}, whose last dim doesn't divide into ${heads} heads`,
    );
  }
  return ctx.view([at(t.shape, 0), heads, at(t.shape, 1), size], t, (index) => [
    at(index, 0),
    at(index, 2),
    I.add(I.mul(at(index, 1), size), at(index, 3)),
  ]);
}

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
function groupOf(ctx: LowerContext, q: LTensor, k: LTensor, v: LTensor): number {
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
function extend(
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

function defaultScale(size: Dim, dtype: DType): number | Expr {
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
  return [flattenHeads(ctx, result.y, rank), k, v, scoresOutput(ctx, result, q.dtype)];
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

/** [batch, sequence, heads, size] as [batch, sequence, heads * size] for 3-D operands. */
function flattenHeads(ctx: LowerContext, y: LTensor, rank: number): LTensor {
  if (rank === 4) return y;
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

// ---------------------------------------------------------------------------------------------
// Rotary embedding

/** Rotates pairs of features by position-dependent angles; features past the rotary dim stay. */
function lowerRotary(ctx: LowerContext): LTensor {
  const [x, cosines, sines, positions] = [
    ctx.input(0),
    ctx.input(1),
    ctx.input(2),
    ctx.optional(3),
  ];
  const rank = x.shape.length;
  if (rank !== 3 && rank !== 4) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `RotaryEmbedding takes [batch, heads, sequence, size] or [batch, sequence, heads * size]; the operand is ${I.printShape(x.shape)}`,
    );
  }
  const headsGiven = ctx.int('num_heads', 0);
  if (rank === 3 && headsGiven < 1) {
    ctx.fail('BAD_ATTRIBUTE', 'num_heads must be given for an operand of rank 3');
  }
  const x4 = splitHeads(ctx, x, headsGiven, 'the operand');
  const size = at(x4.shape, 3);
  const wanted = ctx.int('rotary_embedding_dim', 0);
  const rotary = wanted > 0 ? I.num(wanted) : size;
  const half = I.exactDiv(rotary, 2);
  if (!half || !I.provablyLe(rotary, size)) {
    ctx.fail(
      'BAD_ATTRIBUTE',
      `the rotary dim ${I.printIndex(rotary)} must be even and at most the head size ${I.printIndex(size)}`,
    );
  }
  const interleaved = ctx.bool('interleaved', false);
  const cacheRank = positions ? 2 : 3;
  for (const [t, what] of [
    [cosines, 'cos_cache'],
    [sines, 'sin_cache'],
  ] as const) {
    if (t.shape.length !== cacheRank) {
      ctx.fail(
        'SHAPE_MISMATCH',
        `${what} has shape ${I.printShape(t.shape)}; ${positions ? 'with position ids it is [positions, rotary / 2]' : 'without position ids it is [batch, sequence, rotary / 2]'}`,
      );
    }
    ctx.requireEqual(
      at(t.shape, cacheRank - 1),
      half,
      `the last dim of ${what} and half the rotary dim`,
    );
  }
  const pick = (cache: LTensor, b: IndexExpr, s: IndexExpr, d: IndexExpr): Expr => {
    if (!positions) {
      return cache.at([I.isConst(at(cache.shape, 0), 1) ? I.num(0) : b, s, d]);
    }
    return cache.at([wrappedIndex(positions.at([b, s]), at(cache.shape, 0)), d]);
  };
  const acc = wide(x.dtype);
  const element = (b: IndexExpr, h: IndexExpr, s: IndexExpr, d: IndexExpr): Expr => {
    const load = (p: IndexExpr): Expr => cast(x4.at([b, h, s, p]), acc);
    const rotated = (angle: IndexExpr, partner: IndexExpr, sign: -1 | 1): Expr => {
      const own = times(load(d), cast(pick(cosines, b, s, angle), acc));
      const other = times(load(partner), cast(pick(sines, b, s, angle), acc));
      return sign === 1 ? plus(own, other) : minus(own, other);
    };
    const first = interleaved
      ? { index: I.mod(d, 2), lo: I.num(0), hi: I.num(1) }
      : { index: d, lo: I.num(0), hi: half };
    const turned = interleaved
      ? when(
          [first],
          rotated(I.floorDiv(d, 2), I.add(d, 1), -1),
          rotated(I.floorDiv(d, 2), I.sub(d, 1), 1),
        )
      : when([first], rotated(d, I.add(d, half), -1), rotated(I.sub(d, half), I.sub(d, half), 1));
    const e = I.same(rotary, size)
      ? turned
      : when([{ index: d, lo: I.num(0), hi: rotary }], turned, load(d));
    return cast(e, x.dtype);
  };
  return ctx.pointwise(x.shape, x.dtype, (index) => {
    if (rank === 4) return element(at(index, 0), at(index, 1), at(index, 2), at(index, 3));
    const [h, d] = I.delinearise(at(index, 2), [at(x4.shape, 1), size]);
    return element(at(index, 0), h ?? I.num(0), at(index, 1), d ?? I.num(0));
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
  {
    name: 'rotary_embedding',
    onnx: ['RotaryEmbedding'],
    fuse: [
      {
        names: ['rotary_embedding', 'rope'],
        params: [
          tensorParam('input', 'x'),
          tensorParam('cos_cache', 'cos'),
          tensorParam('sin_cache', 'sin'),
          optionalTensor('position_ids', 'positions'),
          optionalParam('interleaved', 'bool', false),
          optionalParam('num_heads', 'int'),
          optionalParam('rotary_embedding_dim', 'int', undefined, 'rotary_dim'),
        ],
        doc: 'Rotates pairs of features by the angle of their position.',
      },
    ],
    lower: lowerRotary,
  },
  {
    name: 'linear_attention',
    onnx: ['LinearAttention', 'com.microsoft:LinearAttention'],
    lower: lowerLinearAttention,
  },
];
