/**
 * Linear and support vector models of ai.onnx.ml, and its small preparations of features.
 */
import { isFloat } from '../graph/dtype';
import { binary, cast, constant, type Expr, select, unary, when } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { LowerContext, LTensor, OpDef } from './op';
import { at, equals, minus, over, plus, sumOfProducts, times } from './products';
import {
  classified,
  featuresOf,
  floatsOf,
  labelsOf,
  matrix,
  postTransform,
  transformed,
  twoClasses,
} from './scores';
import { like } from './shared';

/** x times the rows of coefficients, plus the intercepts: [N, rows]. */
function linearScores(ctx: LowerContext, x: LTensor, rows: number): LTensor {
  const features = at(x.shape, 1);
  const w = matrix(ctx, rows, features, floatsOf(ctx, 'coefficients'), 'coefficients');
  const intercepts = floatsOf(ctx, 'intercepts');
  const sum = sumOfProducts(
    ctx,
    { shape: [at(x.shape, 0), rows], over: [features], dtype: 'f32' },
    (index, r) => [cast(x.at([at(index, 0), at(r, 0)]), 'f32'), w.at([at(index, 1), at(r, 0)])],
  );
  if (intercepts.length === 0) return sum;
  const bias = ctx.constant({ dtype: 'f32', shape: [intercepts.length] }, intercepts);
  ctx.requireEqual(I.num(intercepts.length), I.num(rows), 'the number of intercepts and of rows');
  return ctx.pointwise(sum.shape, 'f32', (index) => plus(sum.at(index), bias.at([at(index, 1)])));
}

function lowerLinearRegressor(ctx: LowerContext): LTensor {
  const scores = linearScores(ctx, featuresOf(ctx), ctx.int('targets', 1));
  return transformed(ctx, scores, postTransform(ctx));
}

function lowerLinearClassifier(ctx: LowerContext): readonly LTensor[] {
  const x = featuresOf(ctx);
  const labels = labelsOf(ctx, 'classlabels_ints', 'classlabels_int64s');
  const how = postTransform(ctx);
  const features = I.constOf(at(x.shape, 1)) ?? 1;
  const rows = Math.max(1, Math.round(floatsOf(ctx, 'coefficients').length / features));
  const scores = linearScores(ctx, x, rows);
  if (rows > 1 || labels.length !== 2) return classified(ctx, scores, labels, how);
  const score = ctx.view([at(scores.shape, 0)], scores, (index) => [at(index, 0), I.num(0)]);
  return twoClasses(ctx, score, labels, how, 0, true);
}

/** The sum over support vectors of coefficient times kernel, minus rho; or a linear one. */
function lowerSvmRegressor(ctx: LowerContext): LTensor {
  const x = featuresOf(ctx);
  const features = at(x.shape, 1);
  const rows = at(x.shape, 0);
  const vectors = ctx.int('n_supports', 0);
  const coefficients = floatsOf(ctx, 'coefficients');
  const rho = floatsOf(ctx, 'rho')[0] ?? 0;
  const how = postTransform(ctx);
  const finish = (sum: LTensor): LTensor => {
    const one = ctx.bool('one_class', false);
    const scores = ctx.pointwise([rows, 1], 'f32', (index) => {
      const s = plus(sum.at([at(index, 0)]), rho);
      return one ? select(binary('gt', s, like(s, 0)), like(s, 1), like(s, -1)) : s;
    });
    return transformed(ctx, scores, how);
  };
  const kind = ctx.str('kernel_type', 'LINEAR');
  const [gamma = 0, coef0 = 0, degree = 0] = floatsOf(ctx, 'kernel_params');
  const count = vectors > 0 ? vectors : 1;
  const table = vectors > 0 ? floatsOf(ctx, 'support_vectors') : coefficients;
  const support = matrix(ctx, count, features, table, 'entries of support vectors');
  const dot = sumOfProducts(
    ctx,
    { shape: [rows, count], over: [features], dtype: 'f32' },
    (index, r) => [
      cast(x.at([at(index, 0), at(r, 0)]), 'f32'),
      support.at([at(index, 1), at(r, 0)]),
    ],
  );
  if (vectors <= 0) return finish(ctx.view([rows], dot, (index) => [at(index, 0), I.num(0)]));
  const distance = ctx.reduce(
    { shape: [rows, count], over: [features], monoid: 'sum' },
    (index, r) => {
      const d = minus(
        cast(x.at([at(index, 0), at(r, 0)]), 'f32'),
        support.at([at(index, 1), at(r, 0)]),
      );
      return times(d, d);
    },
  );
  const kernel = (index: readonly I.IndexExpr[]): Expr => {
    const affine = (): Expr => plus(times(dot.at(index), gamma), coef0);
    switch (kind) {
      case 'LINEAR':
        return dot.at(index);
      case 'POLY':
        return binary('pow', affine(), constant(degree, 'f32'));
      case 'RBF':
        return unary('exp', times(distance.at(index), -gamma));
      case 'SIGMOID':
        return unary('tanh', affine());
      default:
        return ctx.fail(
          'BAD_ATTRIBUTE',
          `kernel_type '${kind}' is none of LINEAR, POLY, RBF, SIGMOID`,
        );
    }
  };
  const weights = ctx.constant({ dtype: 'f32', shape: [coefficients.length] }, coefficients);
  ctx.requireEqual(
    I.num(coefficients.length),
    I.num(count),
    'the numbers of coefficients and of vectors',
  );
  return finish(
    ctx.reduce({ shape: [rows], over: [count], monoid: 'sum' }, (index, r) => {
      const k = at(r, 0);
      return times(weights.at([k]), kernel([at(index, 0), k]));
    }),
  );
}

/** Rows divided by their greatest element, their sum of sizes, or their length. */
function lowerNormalizer(ctx: LowerContext): LTensor {
  const x = featuresOf(ctx);
  const norm = ctx.str('norm', 'MAX');
  const row = { shape: [at(x.shape, 0)], over: [at(x.shape, 1)] };
  const v = (index: readonly I.IndexExpr[], r: readonly I.IndexExpr[]): Expr =>
    cast(x.at([at(index, 0), at(r, 0)]), 'f32');
  const sizes = {
    MAX: () => ctx.reduce({ ...row, monoid: 'max' }, v),
    L1: () => ctx.reduce({ ...row, monoid: 'sum' }, (i, r) => unary('abs', v(i, r))),
    L2: () => ctx.reduce({ ...row, monoid: 'sum' }, (i, r) => times(v(i, r), v(i, r))),
  };
  if (norm !== 'MAX' && norm !== 'L1' && norm !== 'L2')
    return ctx.fail('BAD_ATTRIBUTE', `norm '${norm}' is none of MAX, L1, L2`);
  const size = sizes[norm]();
  return ctx.pointwise(x.shape, 'f32', (index) => {
    const s = size.at([at(index, 0)]);
    const length = norm === 'L2' ? unary('sqrt', s) : s;
    const e = cast(x.at(index), 'f32');
    return select(binary('eq', length, like(length, 0)), e, over(e, length));
  });
}

/** One value replaced by another, per feature or everywhere. */
function lowerImputer(ctx: LowerContext): LTensor {
  const x = featuresOf(ctx);
  const kind = isFloat(x.dtype) ? 'float' : 'int64';
  const values = ctx.ints(`imputed_value_${kind}s`);
  const replaced =
    kind === 'float' ? ctx.float('replaced_value_float', 0) : ctx.int('replaced_value_int64', 0);
  const table = ctx.constant({ dtype: x.dtype, shape: [values.length] }, values);
  return ctx.pointwise(x.shape, x.dtype, (index) => {
    const v = x.at(index);
    const missing = Number.isNaN(replaced) ? unary('isnan', v) : equals(v, replaced);
    const value = table.at([values.length === 1 ? I.num(0) : at(index, 1)]);
    return select(missing, value, v);
  });
}

/** A new last dim with one place for each category. */
function lowerOneHotEncoder(ctx: LowerContext): LTensor {
  if (ctx.has('cats_strings')) ctx.unsupported('strings have no place on a GPU');
  const x = ctx.input(0);
  const categories = ctx.ints('cats_int64s');
  const table = ctx.constant({ dtype: 'i32', shape: [categories.length] }, categories);
  return ctx.pointwise([...x.shape, categories.length], 'f32', (index) =>
    cast(
      equals(cast(x.at(index.slice(0, -1)), 'i32'), table.at([at(index, x.shape.length)])),
      'f32',
    ),
  );
}

/** The operands' features side by side, each cut or filled up to its size. */
function lowerFeatureVectorizer(ctx: LowerContext): LTensor {
  const parts = Array.from({ length: ctx.arity }, (_, i) => ctx.input(i));
  const sizes = ctx.ints('inputdimensions');
  if (sizes.length !== parts.length)
    ctx.fail('BAD_ATTRIBUTE', 'inputdimensions needs one size for each operand');
  const rows = at(at(parts, 0).shape, 0);
  const total = sizes.reduce((a, b) => a + b, 0);
  return ctx.pointwise([rows, total], 'f32', (index) => {
    const c = at(index, 1);
    let e: Expr = constant(0, 'f32');
    let start = total;
    for (let i = parts.length - 1; i >= 0; i--) {
      const [p, size] = [at(parts, i), at(sizes, i)];
      start -= size;
      const width = p.shape.length > 1 ? at(p.shape, 1) : I.num(1);
      const k = I.sub(c, start);
      const v = p.shape.length > 1 ? p.at([at(index, 0), k]) : p.at([at(index, 0)]);
      e = when([{ index: k, lo: I.num(0), hi: I.min(I.num(size), width) }], cast(v, 'f32'), e);
    }
    return e;
  });
}

const ML = 'ai.onnx.ml';
export const linearModelOps: readonly OpDef[] = [
  { name: 'linear_regressor', onnx: [`${ML}:LinearRegressor`], lower: lowerLinearRegressor },
  { name: 'linear_classifier', onnx: [`${ML}:LinearClassifier`], lower: lowerLinearClassifier },
  { name: 'svm_regressor', onnx: [`${ML}:SVMRegressor`], lower: lowerSvmRegressor },
  { name: 'feature_normalizer', onnx: [`${ML}:Normalizer`], lower: lowerNormalizer },
  { name: 'imputer', onnx: [`${ML}:Imputer`], lower: lowerImputer },
  { name: 'one_hot_encoder', onnx: [`${ML}:OneHotEncoder`], lower: lowerOneHotEncoder },
  { name: 'feature_vectorizer', onnx: [`${ML}:FeatureVectorizer`], lower: lowerFeatureVectorizer },
];
