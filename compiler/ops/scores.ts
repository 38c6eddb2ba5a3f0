/**
 * What the classic models of ai.onnx.ml have in common: scores per class or target, what is done to
 * them afterwards, and the label of the best.
 */
import { binary, cast, constant, type Expr, indexValue, select, unary } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { Dim } from '../ir/indexExpr';
import type { LowerContext, LTensor } from './op';
import { at, clampedIndex, equals, minus, over, sigmoid } from './products';
import { fromOnnx, like, reshapeView } from './shared';

/** The operand as a matrix [N, features]. */
export function featuresOf(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  if (x.shape.length === 2) return x;
  if (x.shape.length === 1) return reshapeView(ctx, x, [1, ...x.shape]);
  return ctx.fail(
    'SHAPE_MISMATCH',
    `the operand must be [N, features], not ${I.printShape(x.shape)}`,
  );
}

const TRANSFORMS = ['NONE', 'SOFTMAX', 'LOGISTIC', 'SOFTMAX_ZERO', 'PROBIT'] as const;
export type PostTransform = (typeof TRANSFORMS)[number];

/** By name, or in newer versions by number. */
export function postTransform(ctx: LowerContext): PostTransform {
  const given = ctx.node.attrs['post_transform'];
  const name =
    typeof given === 'number'
      ? ['NONE', 'SOFTMAX', 'LOGISTIC', 'SOFTMAX_ZERO', 'PROBIT'][given]
      : (given ?? 'NONE');
  const found = TRANSFORMS.find((t) => t === name);
  if (found === undefined)
    return ctx.fail('BAD_ATTRIBUTE', `post_transform is none of ${TRANSFORMS.join(', ')}`);
  if (found === 'PROBIT')
    ctx.unsupported('post_transform PROBIT, the inverse of the normal distribution');
  return found;
}

/** Scores [N, C] as they are given out. */
export function transformed(ctx: LowerContext, scores: LTensor, how: PostTransform): LTensor {
  const [rows, classes] = [at(scores.shape, 0), at(scores.shape, 1)];
  switch (how) {
    case 'NONE':
    case 'PROBIT':
      return scores;
    case 'LOGISTIC':
      return ctx.pointwise(scores.shape, scores.dtype, (index) => sigmoid(scores.at(index)));
    case 'SOFTMAX':
    case 'SOFTMAX_ZERO': {
      // Zeros stay zeros, and count for nothing.
      const zero = (v: Expr): Expr => binary('eq', v, like(v, 0));
      const counts = (v: Expr, e: Expr): Expr =>
        how === 'SOFTMAX' ? e : select(zero(v), like(e, 0), e);
      const most = ctx.reduce({ shape: [rows], over: [classes], monoid: 'max' }, (index, r) =>
        scores.at([at(index, 0), at(r, 0)]),
      );
      const power = (n: I.IndexExpr, c: I.IndexExpr): Expr => {
        const v = scores.at([n, c]);
        return counts(v, unary('exp', minus(v, most.at([n]))));
      };
      const sum = ctx.reduce({ shape: [rows], over: [classes], monoid: 'sum' }, (index, r) =>
        power(at(index, 0), at(r, 0)),
      );
      return ctx.pointwise(scores.shape, scores.dtype, (index) => {
        const [n, c] = [at(index, 0), at(index, 1)];
        return over(power(n, c), sum.at([n]));
      });
    }
  }
}

/** Labels as numbers; of a classifier with texts for labels, their places. */
export function labelsOf(ctx: LowerContext, ...names: readonly string[]): readonly number[] {
  const name = names.find((n) => ctx.has(n));
  if (name === undefined) ctx.unsupported('its labels are texts, which have no place on a GPU');
  return ctx.ints(name);
}

function labelAt(ctx: LowerContext, labels: readonly number[], place: LTensor): LTensor {
  const table = ctx.constant({ dtype: 'i64', shape: [labels.length] }, labels);
  return ctx.pointwise(place.shape, 'i64', (index) =>
    table.at([clampedIndex(place.at(index), I.num(labels.length))]),
  );
}

/** Label and scores of the class with the greatest score. */
export function classified(
  ctx: LowerContext,
  scores: LTensor,
  labels: readonly number[],
  how: PostTransform,
): readonly LTensor[] {
  const [rows, classes] = [at(scores.shape, 0), at(scores.shape, 1)];
  const best = ctx.reduce(
    { shape: [rows], over: [classes], monoid: { kind: 'argmax', last: false }, dtype: 'i32' },
    (index, r) => scores.at([at(index, 0), at(r, 0)]),
  );
  return [labelAt(ctx, labels, best), transformed(ctx, scores, how)];
}

/**
 * Two classes told apart by one score [N]: the second from `limit` on. The first class has what is
 * left to 1 (`shares`), or the score with the other sign.
 */
export function twoClasses(
  ctx: LowerContext,
  score: LTensor,
  labels: readonly number[],
  how: PostTransform,
  limit: number,
  shares: boolean,
): readonly LTensor[] {
  const place = ctx.pointwise(score.shape, 'i32', (index) => {
    const s = score.at(index);
    return cast(binary('gt', s, like(s, limit)), 'i32');
  });
  const both = ctx.pointwise([at(score.shape, 0), 2], score.dtype, (index) => {
    const s = score.at([at(index, 0)]);
    const second = equals(indexValue(at(index, 1), 'i32'), constant(1, 'i32'));
    if (how === 'LOGISTIC') {
      const p = sigmoid(s);
      return select(second, p, minus(1, p));
    }
    return select(second, s, shares ? minus(1, s) : unary('neg', s));
  });
  const scores = how === 'LOGISTIC' || how === 'NONE' ? both : transformed(ctx, both, how);
  return [labelAt(ctx, labels, place), scores];
}

/** Attributes of ai.onnx.ml ops exist only in ONNX files. */
export function floatsOf(ctx: LowerContext, name: string): readonly number[] {
  return fromOnnx(ctx) && ctx.has(name) ? ctx.ints(name) : [];
}

export function matrix(
  ctx: LowerContext,
  rows: number,
  columns: Dim,
  values: readonly number[],
  what: string,
): LTensor {
  const n = I.constOf(columns);
  if (n === undefined) return ctx.unsupported('the number of features must be known');
  if (values.length !== rows * n)
    ctx.fail(
      'BAD_ATTRIBUTE',
      `there are ${values.length} ${what}, where ${rows} times ${n} features need ${rows * n}`,
    );
  return ctx.constant({ dtype: 'f32', shape: [rows, n] }, values);
}
