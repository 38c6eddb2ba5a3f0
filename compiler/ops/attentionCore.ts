/**
 * The computes of attention, shared by its op forms, and the masks.
 *
 * Vocabulary
 *  - *scores*: q·kᵀ, one number per query and key; *probabilities*: their softmax over the keys.
 *  - *group*: several query heads that share one key/value head (grouped-query attention).
 *  - *score step*: what happens to a score, at its place, before the softmax: a mask.
 *
 * Attention is not opaque: it lowers to the product, the scaling and masking, the row maximum, the
 * exponentials, their sum, the division and the second product, each a compute of its own. A causal
 * mask with a known offset is an index condition.
 */
import { cast, constant, type Expr, select, unary, when } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { Dim, IndexExpr } from '../ir/indexExpr';
import type { LowerContext, LTensor } from './op';
import { at, greatest, minus, over, plus, sumOfProducts, times, wide } from './products';

/** Below every score that an exponential can tell from minus infinity. */
const LOWEST_MAXIMUM = -3e38;
/** A row that sees no key sums to 0; every other sum is at least 1. */
const LEAST_SUM = 1e-30;

/** Heads and sequences of one attention; all handles are [batch, heads, sequence, head size]. */
export interface Heads {
  readonly q: LTensor;
  readonly k: LTensor;
  readonly v: LTensor;
  /** Query heads per key/value head. */
  readonly group: number;
}

/** A score and where it stands. */
export type ScoreStep = (score: Expr, index: readonly IndexExpr[]) => Expr;

export interface Steps {
  readonly scale: number | Expr;
  readonly softcap: number;
  /** Applied after scale and softcap; undefined: nothing is masked. */
  readonly mask?: ScoreStep;
  /** Whether a row may see no key at all: its result is 0 then. */
  readonly mayBeEmpty: boolean;
  /** A score that every row of a head sees beside its keys, with no value to it. */
  readonly sink?: (head: IndexExpr) => Expr;
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
export type ResultLayout = 'heads-first' | 'sequence-first';

export function attention(
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
  const { sink } = steps;
  /** What the exponents of a row are taken from. */
  const top = (place: readonly IndexExpr[]): Expr => {
    const m = best.at(place);
    if (sink) return greatest(m, cast(sink(at(place, 1)), acc));
    return steps.mayBeEmpty ? greatest(m, LOWEST_MAXIMUM) : m;
  };
  const weights = step(masked, (e, index) => unary('exp', minus(e, top(index.slice(0, 3)))));
  const sum = ctx.reduce({ shape: row, over: [keys], monoid: 'sum', dtype: acc }, (index, r) =>
    weights.at([...index, at(r, 0)]),
  );
  const probabilities = step(weights, (e, index) => {
    const place = index.slice(0, 3);
    const s = sum.at(place);
    if (sink)
      return over(e, plus(s, unary('exp', minus(cast(sink(at(place, 1)), acc), top(place)))));
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

export const minusInfinity = (like: Expr): Expr => constant(-Infinity, like.dtype);

/**
 * A mask tensor, right-aligned to [batch, heads, query, key] and broadcast; true (or 0) keeps. One
 * with fewer keys than there are hides the rest.
 */
export function maskStep(ctx: LowerContext, mask: LTensor, shape: readonly Dim[]): ScoreStep {
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

export function chain(steps: readonly (ScoreStep | undefined)[]): ScoreStep | undefined {
  const present = steps.filter((s) => s !== undefined);
  if (present.length === 0) return undefined;
  return (score, index) => present.reduce((e, s) => s(e, index), score);
}

/** Query i sees keys up to i + offset. */
export function causalStep(offset: IndexExpr): ScoreStep {
  return (score, index) =>
    when(
      [{ index: at(index, 3), lo: I.num(0), hi: I.add(I.add(at(index, 2), offset), 1) }],
      score,
      minusInfinity(score),
    );
}

// ---------------------------------------------------------------------------------------------
// Packed heads

/** A 3-D operand [batch, sequence, heads * size] as [batch, heads, sequence, size]; 4-D as it is. */
export function splitHeads(ctx: LowerContext, t: LTensor, heads: number, what: string): LTensor {
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
