/**
 * Attention as ONNX Runtime has it: projections packed in one tensor, caches, masks by lengths, grouped
 * heads whose positions are turned on the way.
 *
 * Vocabulary
 *  - *past*, *present*: keys and values of earlier positions, and those with the new ones after them.
 *  - *filter*: what is added to the score of a masked key, as a number (-10000 by default). A row all of
 *    whose keys are masked gets its plain softmax so, as it does there.
 *  - *sink*: a score that every row sees beside its keys, with no value to it.
 */
import { binary, cast, constant, type Expr, indexValue, select, unary } from '../../ir/expr';
import * as I from '../../ir/indexExpr';
import type { Dim, IndexExpr } from '../../ir/indexExpr';
import { defaultScale, extend, groupOf, joinHeads } from '../attention';
import {
  attention,
  type AttentionResult,
  causalStep,
  chain,
  maskStep,
  minusInfinity,
  type ScoreStep,
  splitHeads,
} from '../attentionCore';
import { matmul, matmulZero } from '../contractions';
import { concat } from '../joining';
import type { LowerContext, LTensor, OpDef } from '../op';
import {
  at,
  atMost,
  below,
  clampedIndex,
  greatest,
  minus,
  over,
  plus,
  times,
  wide,
} from '../products';
import { lowerRotary } from '../rotary';
import { atBroadcast, operandOfRank, requireBroadcast, scalarElement, sizeAs } from '../shared';
import { MS, optionalOperand } from './domain';

// ---------------------------------------------------------------------------------------------
// Masks

/** Which keys are kept: by a tensor [batch, keys] or [batch, queries, keys], by lengths or by bounds. */
function filterStep(ctx: LowerContext, mask: LTensor, batch: Dim): ScoreStep {
  const filter = ctx.float('mask_filter_value', -10000);
  const kept = keptKeys(ctx, mask, batch);
  return (score, index) => select(kept(index), score, plus(score, filter));
}

function keptKeys(
  ctx: LowerContext,
  mask: LTensor,
  batch: Dim,
): (index: readonly IndexExpr[]) => Expr {
  const rank = mask.shape.length;
  if (rank === 2 || rank === 3)
    return (index) => {
      const place = rank === 2 ? [at(index, 0), at(index, 3)] : [0, 2, 3].map((i) => at(index, i));
      return binary('ne', cast(mask.at(place), 'i32'), constant(0, 'i32'));
    };
  if (rank !== 1) return ctx.unsupported(`a mask of shape ${I.printShape(mask.shape)}`);
  const n = at(mask.shape, 0);
  const bound = (index: readonly IndexExpr[], from: Dim): Expr =>
    cast(mask.at([I.add(at(index, 0), from)]), 'i32');
  const key = (index: readonly IndexExpr[]): Expr => indexValue(at(index, 3), 'i32');
  // Ends; ends and then starts.
  if (I.same(n, batch)) return (index) => below(key(index), bound(index, I.num(0)));
  if (I.same(n, I.mul(batch, 2)))
    return (index) =>
      binary(
        'and',
        below(key(index), bound(index, I.num(0))),
        atMost(bound(index, batch), key(index)),
      );
  return ctx.unsupported(
    `a mask of shape ${I.printShape(mask.shape)} for a batch of ${I.printIndex(batch)}`,
  );
}

interface Masks {
  readonly kept: LTensor | undefined;
  readonly bias: LTensor | undefined;
  readonly causal: boolean;
  /** How many keys precede the first query. */
  readonly past: Dim;
}

/** [batch, sequence, heads · size]. */
function attended(ctx: LowerContext, q: LTensor, k: LTensor, v: LTensor, m: Masks): LTensor {
  const given = ctx.float('scale', 0);
  const shape = [at(q.shape, 0), at(q.shape, 1), at(q.shape, 2), at(k.shape, 2)];
  const mask = chain([
    m.bias && maskStep(ctx, m.bias, shape),
    m.kept && filterStep(ctx, m.kept, at(shape, 0)),
    m.causal ? causalStep(m.past) : undefined,
  ]);
  const steps = {
    scale: given !== 0 ? given : defaultScale(at(q.shape, 3), wide(q.dtype)),
    softcap: 0,
    mayBeEmpty: false,
    ...(mask ? { mask } : {}),
  };
  const { y } = attention(ctx, { q, k, v, group: groupOf(ctx, q, k, v) }, steps, 'sequence-first');
  return joinHeads(ctx, y);
}

// ---------------------------------------------------------------------------------------------
// MultiHeadAttention

/** x [batch, sequence, size] plus a part of a bias, as heads; as it is when it comes as heads. */
function projected(
  ctx: LowerContext,
  x: LTensor,
  bias: LTensor | undefined,
  from: Dim,
  heads: number,
  what: string,
): LTensor {
  if (x.shape.length !== 3 && x.shape.length !== 4)
    ctx.fail(
      'SHAPE_MISMATCH',
      `${what} must be [batch, sequence, size], or [batch, heads, sequence, size]; it is ${I.printShape(x.shape)}`,
    );
  const t =
    bias && x.shape.length === 3
      ? ctx.pointwise(x.shape, x.dtype, (index) =>
          plus(x.at(index), bias.at([I.add(from, at(index, 2))])),
        )
      : x;
  return splitHeads(ctx, t, heads, what);
}

/** Part i of [batch, sequence, heads, parts, size], as [batch, heads, sequence, size]. */
function partOf(ctx: LowerContext, packed: LTensor, i: number, parts: number): LTensor {
  const [b, s, h, p, d] = packed.shape;
  ctx.requireEqual(
    p ?? I.num(0),
    I.num(parts),
    'the parts of a packed operand, the dim before the last,',
  );
  return ctx.view([b ?? 1, h ?? 1, s ?? 1, d ?? 1], packed, (index) => [
    at(index, 0),
    at(index, 2),
    at(index, 1),
    I.num(i),
    at(index, 3),
  ]);
}

/** The heads of queries, keys and values, in whichever way they are packed, with one bias for all three. */
function multiHeads(ctx: LowerContext): readonly [LTensor, LTensor, LTensor] {
  const [query, key, value] = [ctx.input(0), optionalOperand(ctx, 1), optionalOperand(ctx, 2)];
  const bias = optionalOperand(ctx, 3) && operandOfRank(ctx, 3, [1], 'the bias');
  const heads = ctx.int('num_heads');
  const packed = query.shape.length === 5 ? query : undefined;
  const packedKeys = key?.shape.length === 5 ? key : undefined;
  if (bias && (packed || packedKeys)) ctx.unsupported('a bias for packed keys and values');
  if (packed)
    return [partOf(ctx, packed, 0, 3), partOf(ctx, packed, 1, 3), partOf(ctx, packed, 2, 3)];
  const q = projected(ctx, query, bias, I.num(0), heads, 'the query');
  if (packedKeys) return [q, partOf(ctx, packedKeys, 0, 2), partOf(ctx, packedKeys, 1, 2)];
  if (!key || !value)
    return ctx.fail(
      'MISSING_OPERAND',
      'without keys and values the query must hold them too: [batch, sequence, heads, 3, size]',
    );
  const width = I.mul(at(q.shape, 1), at(q.shape, 3));
  if (bias && key.shape.length === 3 && value.shape.length === 3) {
    const all = I.add(I.add(width, at(key.shape, 2)), at(value.shape, 2));
    ctx.requireEqual(at(bias.shape, 0), all, 'the bias and the sizes of query, key and value');
  }
  return [
    q,
    projected(ctx, key, bias, width, heads, 'the key'),
    projected(ctx, value, bias, I.mul(width, 2), heads, 'the value'),
  ];
}

function lowerMultiHead(ctx: LowerContext): readonly LTensor[] {
  const [q, freshK, freshV] = multiHeads(ctx);
  if (optionalOperand(ctx, 8)) ctx.unsupported('a cache whose filled length is an operand');
  if (optionalOperand(ctx, 9)) ctx.unsupported('a cache that is read through an indirection');
  const [pastKey, pastValue] = [optionalOperand(ctx, 6), optionalOperand(ctx, 7)];
  const k = extend(ctx, pastKey, freshK, 'past_key');
  const v = extend(ctx, pastValue, freshV, 'past_value');
  ctx.requireEqual(at(q.shape, 3), at(k.shape, 3), 'the head sizes of query and key');
  ctx.requireEqual(at(k.shape, 2), at(v.shape, 2), 'the sequence lengths of key and value');
  const y = attended(ctx, q, k, v, {
    kept: optionalOperand(ctx, 4),
    bias: optionalOperand(ctx, 5),
    causal: ctx.bool('unidirectional', false),
    past: pastKey ? at(pastKey.shape, 2) : I.num(0),
  });
  return [y, k, v];
}

// ---------------------------------------------------------------------------------------------
// Attention with its projection

/** The widths of queries, keys and values in the projection. */
function projectionWidths(ctx: LowerContext, all: Dim): readonly [Dim, Dim, Dim] {
  if (ctx.has('qkv_hidden_sizes')) {
    const [q, k, v] = ctx.ints('qkv_hidden_sizes');
    if (q === undefined || k === undefined || v === undefined || q !== k)
      return ctx.fail(
        'BAD_ATTRIBUTE',
        'qkv_hidden_sizes must be three sizes, those of queries and keys the same',
      );
    ctx.requireEqual(I.num(q + k + v), all, 'qkv_hidden_sizes and the columns of the weights');
    return [I.num(q), I.num(k), I.num(v)];
  }
  const width =
    I.exactDiv(all, 3) ??
    ctx.fail('SHAPE_MISMATCH', `${I.printIndex(all)} columns of weights hold no three equal parts`);
  return [width, width, width];
}

/** Heads of queries, keys and values in one tensor; a cache [2, batch, heads, past, size] before the last two. */
function packedHeads(
  ctx: LowerContext,
  all: LTensor,
  past: LTensor | undefined,
  masks: Omit<Masks, 'past'>,
): readonly LTensor[] {
  const heads = ctx.int('num_heads');
  if (ctx.bool('do_rotary', false)) ctx.unsupported('rotary embedding inside Attention');
  const [batch, rows] = [at(all.shape, 0), at(all.shape, 1)];
  const [wq, wk, wv] = projectionWidths(ctx, at(all.shape, 2));
  const part = (from: Dim, width: Dim, what: string): LTensor => {
    const t = ctx.view([batch, rows, width], all, (index) => [
      at(index, 0),
      at(index, 1),
      I.add(from, at(index, 2)),
    ]);
    return splitHeads(ctx, t, heads, what);
  };
  if (past && past.shape.length !== 5)
    ctx.fail(
      'SHAPE_MISMATCH',
      `past must be [2, batch, heads, past, size]; it is ${I.printShape(past.shape)}`,
    );
  const half = (i: number): LTensor | undefined =>
    past && ctx.view(past.shape.slice(1), past, (index) => [I.num(i), ...index]);
  const q = part(I.num(0), wq, 'the query');
  const k = extend(ctx, half(0), part(wq, wk, 'the key'), 'the past keys');
  const v = extend(ctx, half(1), part(I.add(wq, wk), wv, 'the value'), 'the past values');
  const y = attended(ctx, q, k, v, { ...masks, past: past ? at(past.shape, 3) : I.num(0) });
  if (ctx.node.results.length < 2) return [y];
  const lead = (t: LTensor): LTensor => ctx.view([1, ...t.shape], t, (index) => index.slice(1));
  return [y, concat(ctx, [lead(k), lead(v)], 0)];
}

/** The number of a bias for a column of a projection. */
function biasAt(ctx: LowerContext, bias: LTensor, columns: Dim): (column: IndexExpr) => Expr {
  if (bias.shape.length !== 1)
    ctx.fail('SHAPE_MISMATCH', `the bias must be a vector; it is ${I.printShape(bias.shape)}`);
  ctx.requireEqual(at(bias.shape, 0), columns, 'the bias and the columns of the projection');
  return (column) => bias.at([column]);
}

/** One product gives queries, keys and values: input, weights [size, 3 · size], bias, mask, past, scores' bias. */
function lowerPackedAttention(ctx: LowerContext): readonly LTensor[] {
  const x = operandOfRank(ctx, 0, [3], 'the input');
  const [w, bias] = [operandOfRank(ctx, 1, [2], 'the matrix of weights'), optionalOperand(ctx, 2)];
  const sum = matmul(ctx, x, w, x.dtype);
  const all = bias
    ? ctx.pointwise(sum.shape, sum.dtype, (i) =>
        plus(sum.at(i), cast(biasAt(ctx, bias, at(sum.shape, 2))(at(i, 2)), sum.dtype)),
      )
    : sum;
  return packedHeads(ctx, all, optionalOperand(ctx, 4), {
    kept: optionalOperand(ctx, 3),
    bias: optionalOperand(ctx, 5),
    causal: ctx.bool('unidirectional', false),
  });
}

/** The same of quantised tensors: input, weights, bias, two scales, mask, two zero points, past. */
function lowerQuantisedAttention(ctx: LowerContext): readonly LTensor[] {
  const x = operandOfRank(ctx, 0, [3], 'the input');
  const [w, bias] = [operandOfRank(ctx, 1, [2], 'the matrix of weights'), ctx.input(2)];
  const [scaleX, scaleW] = [ctx.input(3), ctx.input(4)];
  const left = matmulZero(ctx, x, optionalOperand(ctx, 6), 'left', 'input_zero_point');
  const right = matmulZero(ctx, w, optionalOperand(ctx, 7), 'right', 'weight_zero_point');
  const sum = matmul(ctx, x, w, 'i32', left, right);
  requireBroadcast(ctx, scaleW, sum.shape, 'the scale of the weights');
  const added = biasAt(ctx, bias, at(sum.shape, 2));
  const all = ctx.pointwise(sum.shape, bias.dtype, (index) => {
    const scale = times(scalarElement(ctx, scaleX, 'a scale'), atBroadcast(scaleW, index));
    const y = times(cast(sum.at(index), 'f32'), cast(scale, 'f32'));
    return cast(plus(y, cast(added(at(index, 2)), 'f32')), bias.dtype);
  });
  return packedHeads(ctx, all, optionalOperand(ctx, 8), {
    kept: optionalOperand(ctx, 5),
    bias: undefined,
    causal: ctx.bool('unidirectional', false),
  });
}

// ---------------------------------------------------------------------------------------------
// GroupQueryAttention

/** [batch, heads, sequence, size] of query, keys and values, of which the query may hold all. */
function groupedHeads(ctx: LowerContext): readonly [LTensor, LTensor, LTensor] {
  const [query, key, value] = [ctx.input(0), ctx.optional(1), ctx.optional(2)];
  const [heads, kvHeads] = [ctx.int('num_heads'), ctx.int('kv_num_heads')];
  if (query.shape.length !== 3)
    ctx.fail(
      'SHAPE_MISMATCH',
      `the query must be [batch, sequence, size]; it is ${I.printShape(query.shape)}`,
    );
  if (key && value)
    return [
      splitHeads(ctx, query, heads, 'the query'),
      splitHeads(ctx, key, kvHeads, 'the key'),
      splitHeads(ctx, value, kvHeads, 'the value'),
    ];
  const size = I.exactDiv(at(query.shape, 2), heads + 2 * kvHeads);
  if (!size)
    return ctx.fail(
      'SHAPE_MISMATCH',
      `${I.printShape(query.shape)} doesn't divide into ${heads} heads of queries and ${kvHeads} each of keys and values`,
    );
  const part = (from: number, count: number): LTensor =>
    ctx.view([at(query.shape, 0), count, at(query.shape, 1), size], query, (index) => [
      at(index, 0),
      at(index, 2),
      I.add(I.mul(I.add(at(index, 1), from), size), at(index, 3)),
    ]);
  return [part(0, heads), part(heads, kvHeads), part(heads + kvHeads, kvHeads)];
}

/** x over the root mean square of its head, times a weight for each feature. */
function headNorm(ctx: LowerContext, x: LTensor, weight: LTensor | undefined): LTensor {
  if (!weight) return x;
  const acc = wide(x.dtype);
  const size = at(x.shape, 3);
  const squares = ctx.reduce(
    { shape: x.shape.slice(0, 3), over: [size], monoid: 'sum', dtype: acc },
    (index, [d = I.num(0)]) => {
      const e = cast(x.at([...index, d]), acc);
      return times(e, e);
    },
  );
  const epsilon = ctx.float('qk_norm_epsilon', 1e-6);
  return ctx.pointwise(x.shape, x.dtype, (index) => {
    const mean = over(squares.at(index.slice(0, 3)), sizeAs(size, acc));
    const y = times(cast(x.at(index), acc), unary('rsqrt', plus(mean, epsilon)));
    return cast(times(y, cast(weight.at([at(index, 3)]), acc)), x.dtype);
  });
}

/** How long the caches are after the step. */
function presentLength(ctx: LowerContext, past: LTensor | undefined, rows: Dim): Dim {
  const before = past ? at(past.shape, 2) : I.num(0);
  const total = ctx.input(6).known?.[0];
  if (total !== undefined) return I.max(before, I.ix(total));
  ctx.note(
    'UNPROVEN_DIM_EQUALITY',
    `total_sequence_length is only known when the graph runs; it is taken to be the past and the new positions, ${I.printIndex(I.add(before, rows))}`,
  );
  return I.add(before, rows);
}

function lowerGrouped(ctx: LowerContext): readonly LTensor[] {
  const [plainQ, plainK, v] = groupedHeads(ctx);
  const [pastKey, pastValue, lengths] = [ctx.optional(3), ctx.optional(4), ctx.input(5)];
  for (const t of [pastKey, pastValue])
    if (t && t.shape.length !== 4)
      ctx.fail(
        'SHAPE_MISMATCH',
        `a cache must be [batch, heads, past, size]; it is ${I.printShape(t.shape)}`,
      );
  if (
    optionalOperand(ctx, 12) ||
    optionalOperand(ctx, 13) ||
    (pastKey && pastKey.dtype !== v.dtype)
  )
    ctx.unsupported('quantised caches of keys and values');
  if (ctx.bool('sliding_window_cache', false)) ctx.unsupported('a cache as short as the window');
  const rows = at(plainQ.shape, 2);
  const length = presentLength(ctx, pastKey, rows);
  const flatLength = (b: IndexExpr): Expr =>
    cast(
      lengths.at(lengths.shape.map((d, i) => (i === 0 && !I.isConst(d, 1) ? b : I.num(0)))),
      'i32',
    );
  // seqlens_k is a batch's length less one. A prompt's may be padded: then nothing precedes it.
  const past = ctx.pointwise([at(plainQ.shape, 0)], 'i32', ([b = I.num(0)]) =>
    greatest(minus(plus(flatLength(b), 1), sizeAs(rows, 'i32')), 0),
  );
  const before = (b: IndexExpr): Expr => past.at([b]);

  const place = (b: IndexExpr, s: IndexExpr): Expr => plus(before(b), indexValue(s, 'i32'));
  const q = turned(ctx, headNorm(ctx, plainQ, optionalOperand(ctx, 14)), place);
  const k = turned(ctx, headNorm(ctx, plainK, optionalOperand(ctx, 15)), place);
  const presentKey = present(ctx, pastKey, k, length, before);
  const presentValue = present(ctx, pastValue, v, length, before);

  const shape = [at(q.shape, 0), at(q.shape, 1), rows, length];
  const bias = optionalOperand(ctx, 10);
  const scale = ctx.float('scale', 0);
  const mask = chain([
    bias && maskStep(ctx, bias, shape),
    ctx.bool('causal', true)
      ? cachedCausal(place, ctx.int('local_window_size', -1))
      : (score, index) =>
          select(
            atMost(indexValue(at(index, 3), 'i32'), flatLength(at(index, 0))),
            score,
            minusInfinity(score),
          ),
  ]);
  const sink = sinkOf(ctx);
  const result = attention(
    ctx,
    { q, k: presentKey, v: presentValue, group: groupOf(ctx, q, k, v) },
    {
      scale: scale !== 0 ? scale : defaultScale(at(q.shape, 3), wide(q.dtype)),
      softcap: ctx.float('softcap', 0),
      mayBeEmpty: false,
      ...(mask ? { mask } : {}),
      ...(sink ? { sink } : {}),
    },
    'sequence-first',
  );
  const all = [joinHeads(ctx, result.y), presentKey, presentValue];
  return ctx.node.results.length < 4 ? all : [...all, scores(ctx, result, q)];
}

function scores(ctx: LowerContext, r: AttentionResult, q: LTensor): LTensor {
  const chosen = ctx.int('qk_output', 0) === 2 ? r.probabilities : r.masked;
  return ctx.pointwise(chosen.shape, q.dtype, (index) => cast(chosen.at(index), q.dtype));
}

/** A query sees the keys up to its own place, and no more than `window` of them. */
function cachedCausal(place: (b: IndexExpr, s: IndexExpr) => Expr, window: number): ScoreStep {
  return (score, index) => {
    const key = indexValue(at(index, 3), 'i32');
    const own = place(at(index, 0), at(index, 2));
    const causal = atMost(key, own);
    const seen = window > 0 ? binary('and', causal, below(minus(own, window), key)) : causal;
    return select(seen, score, minusInfinity(score));
  };
}

function sinkOf(ctx: LowerContext): ((head: IndexExpr) => Expr) | undefined {
  const sinks = optionalOperand(ctx, 11);
  if (sinks) return (head) => sinks.at([head]);
  return ctx.bool('smooth_softmax', false) ? () => constant(0, 'f32') : undefined;
}

/** x [batch, heads, sequence, size] with its pairs turned by the angle of their places, where the node says so. */
function turned(
  ctx: LowerContext,
  x: LTensor,
  place: (b: IndexExpr, s: IndexExpr) => Expr,
): LTensor {
  if (!ctx.bool('do_rotary', false)) return x;
  const own: LTensor = {
    dtype: 'i32',
    shape: [at(x.shape, 0), at(x.shape, 2)],
    at: (index) => place(at(index, 0), at(index, 1)),
  };
  const given = optionalOperand(ctx, 9) && operandOfRank(ctx, 9, [2], 'positions');
  const cosines = operandOfRank(ctx, 7, [2], 'the cache of cosines');
  return lowerRotary(
    ctx.derive([x, cosines, ctx.input(8), given ?? own], {
      interleaved: ctx.bool('rotary_interleaved', false),
      rotary_embedding_dim: turnedFeatures(cosines),
    }),
  );
}

/** How many features of a head a cache turns; 0, for all of them, where that isn't a number. */
function turnedFeatures(cosines: LTensor): number {
  return 2 * (I.constOf(at(cosines.shape, 1)) ?? 0);
}

/** The cache with the new positions written after those that each batch has, and zeros behind them. */
function present(
  ctx: LowerContext,
  past: LTensor | undefined,
  fresh: LTensor,
  length: Dim,
  before: (b: IndexExpr) => Expr,
): LTensor {
  const shape = fresh.shape.map((d, i) => (i === 2 ? length : d));
  const rows = at(fresh.shape, 2);
  return ctx.pointwise(shape, fresh.dtype, (index) => {
    const [b, h, p, d] = [at(index, 0), at(index, 1), at(index, 2), at(index, 3)];
    const since = minus(indexValue(p, 'i32'), before(b));
    const written = fresh.at([b, h, clampedIndex(since, rows), d]);
    const zero = constant(0, fresh.dtype);
    const old = past
      ? past.at([b, h, clampedIndex(indexValue(p, 'i32'), at(past.shape, 2)), d])
      : zero;
    const kept = select(below(since, 0), old, zero);
    const isNew = binary(
      'and',
      atMost(constant(0, 'i32'), since),
      below(since, sizeAs(rows, 'i32')),
    );
    return select(isNew, written, kept);
  });
}

// ---------------------------------------------------------------------------------------------
// RotaryEmbedding

/** ONNX's, but that positions come second: an offset for all, or one for each place. */
function lowerContribRotary(ctx: LowerContext): LTensor {
  const [x, given] = [ctx.input(0), operandOfRank(ctx, 1, [1, 2], 'positions')];
  const cosines = operandOfRank(ctx, 2, [2], 'the cache of cosines');
  if (ctx.bool('is_packed_batching', false)) ctx.unsupported('packed batches');
  const scale = ctx.float('scale', 1);
  if (scale !== 1) ctx.unsupported(`a scale of ${scale}`);
  const rank = x.shape.length;
  const sequence = x.shape[rank === 4 ? 2 : 1] ?? I.num(1);
  const places: LTensor = {
    dtype: 'i32',
    shape: [x.shape[0] ?? I.num(1), sequence],
    at: ([b = I.num(0), s = I.num(0)]) =>
      given.shape.length === 1
        ? plus(cast(given.at([I.num(0)]), 'i32'), indexValue(s, 'i32'))
        : cast(given.at([I.isConst(at(given.shape, 0), 1) ? I.num(0) : b, s]), 'i32'),
  };
  const features = turnedFeatures(cosines);
  const heads = ctx.int('num_heads', 0);
  return lowerRotary(
    ctx.derive([x, cosines, ctx.input(3), places], {
      interleaved: ctx.bool('interleaved', false),
      rotary_embedding_dim: features,
      // Without a number of heads, all of a head is turned.
      num_heads: heads === 0 && rank === 3 ? headCount(ctx, x, I.num(features)) : heads,
    }),
  );
}

function headCount(ctx: LowerContext, x: LTensor, size: Dim): number {
  const [all, one] = [I.constOf(at(x.shape, 2)), I.constOf(size)];
  if (all === undefined || one === undefined || all % one !== 0)
    return ctx.fail('BAD_ATTRIBUTE', `num_heads must be given for ${I.printShape(x.shape)}`);
  return all / one;
}

export const contribAttentionOps: readonly OpDef[] = [
  { name: 'multi_head_attention', onnx: [`${MS}:MultiHeadAttention`], lower: lowerMultiHead },
  { name: 'packed_attention', onnx: [`${MS}:Attention`], lower: lowerPackedAttention },
  { name: 'qattention', onnx: [`${MS}:QAttention`], lower: lowerQuantisedAttention },
  { name: 'group_query_attention', onnx: [`${MS}:GroupQueryAttention`], lower: lowerGrouped },
  { name: 'contrib_rotary_embedding', onnx: [`${MS}:RotaryEmbedding`], lower: lowerContribRotary },
];
