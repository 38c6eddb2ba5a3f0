/**
 * Losses: of class scores against labels (negative log-likelihood, cross entropy), and of one tensor
 * against another.
 *
 * The score of an element's label is read at a run-time index. An element whose label is
 * `ignore_index` counts for nothing, and its label may lie outside the classes.
 */
import { type DType, isFloat } from '../graph/dtype';
import { binary, cast, constant, type Expr, select, unary } from '../ir/expr';
import { type Dim, type IndexExpr, num, printShape } from '../ir/indexExpr';
import type { FuseForm, FuseParam, LowerContext, LTensor, OpDef } from './op';
import { clampedIndex, requireShape } from './products';
import { extentOf, meanOver, reduceOver } from './reductions';
import { logSoftmaxOver } from './softmax';
import {
  broadcastShapes,
  atBroadcast,
  computeFloat,
  floatResult,
  greatest,
  like,
  minus,
  optionalParam,
  optionalTensor,
  over,
  plus,
  promote,
  sizeAs,
  tensorParam,
  times,
} from './shared';

type Reduction = 'none' | 'sum' | 'mean';

function reductionOf(ctx: LowerContext): Reduction {
  const r = ctx.str('reduction', 'mean');
  if (r === 'none' || r === 'sum' || r === 'mean') return r;
  return ctx.fail('BAD_ATTRIBUTE', `'reduction' must be none, sum or mean, not ${r}`);
}

function all(x: LTensor): ReturnType<typeof extentOf> {
  return extentOf(
    x,
    x.shape.map((_, i) => i),
    false,
  );
}

function rounded(ctx: LowerContext, x: LTensor, dtype: DType): LTensor {
  return x.dtype === dtype ? x : ctx.pointwise(x.shape, dtype, (i) => cast(x.at(i), dtype));
}

/** The elements as they are, their sum or their mean. */
function reduced(ctx: LowerContext, loss: LTensor, how: Reduction, dtype: DType): LTensor {
  switch (how) {
    case 'none':
      return ctx.pointwise(loss.shape, dtype, (i) => cast(loss.at(i), dtype));
    case 'sum':
      return reduceOver(ctx, all(loss), 'sum', (v) => v, dtype);
    case 'mean':
      return rounded(ctx, meanOver(ctx, all(loss)), dtype);
  }
}

// ---------------------------------------------------------------------------------------------
// Labels

/** A share of each label is spread over all classes; `sums` are those of the scores over them. */
interface Smoothing {
  readonly share: number;
  readonly sums: LTensor;
}

/** Minus the weighted score of each element's label; `scores` is [N, C, …], `target` [N, …]. */
function labelLoss(
  ctx: LowerContext,
  scores: LTensor,
  dtype: DType,
  smoothing?: Smoothing,
): LTensor {
  const target = ctx.input(1);
  const weight = ctx.arity > 2 ? ctx.optional(2) : undefined;
  const [n, classes, ...space] = scores.shape;
  if (!n || !classes)
    return ctx.fail(
      'SHAPE_MISMATCH',
      `the scores must be [N, C, …], but are ${printShape(scores.shape)}`,
    );
  requireShape(ctx, target.shape, [n, ...space], 'the labels');
  if (weight) requireShape(ctx, weight.shape, [classes], 'the weights of the classes');
  if (isFloat(target.dtype))
    ctx.fail('BAD_DTYPE', `the labels must be integers, but are ${target.dtype}`);
  const t = scores.dtype;
  const ignored = ctx.has('ignore_index') ? ctx.int('ignore_index') : undefined;

  /** `f` of the label's index, or 0 where the element is ignored. */
  const counted = (index: readonly IndexExpr[], f: (label: IndexExpr) => Expr): Expr => {
    const label = cast(target.at(index), 'i32');
    if (ignored === undefined) return f(clampedIndex(label, classes));
    const skip = binary('eq', label, like(label, ignored));
    const value = f(clampedIndex(select(skip, like(label, 0), label), classes));
    return select(skip, like(value, 0), value);
  };
  const weightOf = (label: IndexExpr): Expr =>
    weight ? cast(weight.at([label]), t) : constant(1, t);
  const loss = (index: readonly IndexExpr[]): Expr =>
    counted(index, (label) => {
      const [first = num(0), ...rest] = index;
      const own = unary('neg', scores.at([first, label, ...rest]));
      const score = smoothing
        ? minus(
            times(like(own, 1 - smoothing.share), own),
            over(times(like(own, smoothing.share), smoothing.sums.at(index)), sizeAs(classes, t)),
          )
        : own;
      return weight ? times(score, weightOf(label)) : score;
    });
  const how = reductionOf(ctx);
  const shape: readonly Dim[] = [n, ...space];
  if (how === 'none') return ctx.pointwise(shape, dtype, (index) => cast(loss(index), dtype));
  const sum = ctx.reduce(
    { shape: [], over: shape, monoid: 'sum', dtype: how === 'sum' ? dtype : t },
    (_, point) => loss(point),
  );
  if (how === 'sum') return sum;
  // The mean is over the weights of what counts.
  const total = ctx.reduce({ shape: [], over: shape, monoid: 'sum' }, (_, point) =>
    counted(point, weightOf),
  );
  return ctx.pointwise([], dtype, () => cast(over(sum.at([]), total.at([])), dtype));
}

/** Scores calculated with in floats of at least 32 bits. */
function wideScores(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const t = computeFloat(x.dtype);
  if (x.dtype === t) return x;
  return { dtype: t, shape: x.shape, at: (index) => cast(x.at(index), t) };
}

function crossEntropy(ctx: LowerContext): readonly LTensor[] {
  const x = ctx.input(0);
  if (x.shape.length < 2)
    ctx.fail('SHAPE_MISMATCH', `the scores must be [N, C, …], but are ${printShape(x.shape)}`);
  const dtype = floatResult(x.dtype);
  const e = extentOf(x, [1], true);
  const log = logSoftmaxOver(ctx, e, computeFloat(x.dtype));
  const share = ctx.float('label_smoothing', 0);
  if (share !== 0 && ctx.optional(2))
    ctx.unsupported('label_smoothing with weights of the classes');
  const smoothing =
    share === 0
      ? undefined
      : { share, sums: reduceOver(ctx, extentOf(log, [1], false), 'sum', (v) => v) };
  const loss = labelLoss(ctx, log, dtype, smoothing);
  return ctx.node.results.length > 1 ? [loss, rounded(ctx, log, dtype)] : [loss];
}

// ---------------------------------------------------------------------------------------------
// Between tensors

function betweenOp(
  name: string,
  names: readonly string[],
  doc: string,
  f: (x: Expr, y: Expr, ctx: LowerContext) => Expr,
  more: readonly FuseParam[] = [],
): OpDef {
  return {
    name,
    fuse: [
      {
        names: [name, ...names],
        params: [tensorParam('input', 'x'), tensorParam('target', 'y'), REDUCTION, ...more],
        doc,
      },
    ],
    lower: (ctx) => {
      const [x, y] = [ctx.input(0), ctx.input(1)];
      const dtype = floatResult(promote([x, y]));
      const t = computeFloat(dtype);
      const shape = broadcastShapes(ctx, [x.shape, y.shape]);
      const loss: LTensor = {
        dtype: t,
        shape,
        at: (index) => f(cast(atBroadcast(x, index), t), cast(atBroadcast(y, index), t), ctx),
      };
      if (ctx.str('reduction', 'mean') === 'batchmean') {
        const sum = reduced(ctx, loss, 'sum', t);
        const rows = sizeAs(shape[0] ?? num(1), t);
        return ctx.pointwise([], dtype, () => cast(over(sum.at([]), rows), dtype));
      }
      return reduced(ctx, loss, reductionOf(ctx), dtype);
    },
  };
}

const REDUCTION: FuseParam = optionalParam('reduction', 'str', 'mean');

function labelForm(
  names: readonly string[],
  doc: string,
  more: readonly FuseParam[] = [],
): FuseForm {
  return {
    names,
    params: [
      tensorParam('input', 'x', 'scores'),
      tensorParam('target', 'labels'),
      optionalTensor('weight'),
      optionalParam('ignore_index', 'int', -100),
      REDUCTION,
      ...more,
    ],
    doc,
  };
}

export const lossOps: readonly OpDef[] = [
  {
    name: 'nll_loss',
    onnx: ['NegativeLogLikelihoodLoss'],
    fuse: [labelForm(['nll_loss'], "minus the score of each element's label")],
    lower: (ctx) => labelLoss(ctx, wideScores(ctx), floatResult(ctx.input(0).dtype)),
  },
  {
    name: 'cross_entropy',
    onnx: ['SoftmaxCrossEntropyLoss'],
    fuse: [
      labelForm(['cross_entropy'], 'nll_loss of log_softmax over the classes', [
        optionalParam('label_smoothing', 'float', 0),
      ]),
    ],
    lower: crossEntropy,
  },
  betweenOp('mse_loss', ['mse'], '(x - y)², averaged, summed or as it is', (x, y) =>
    times(minus(x, y), minus(x, y)),
  ),
  betweenOp('l1_loss', ['l1loss'], '|x - y|, averaged, summed or as it is', (x, y) =>
    unary('abs', minus(x, y)),
  ),
  betweenOp(
    'smooth_l1_loss',
    [],
    'half (x - y)² over beta where |x - y| is under beta, |x - y| - beta / 2 elsewhere',
    (x, y, ctx) => {
      const beta = ctx.float('beta', 1);
      const d = minus(x, y);
      const a = unary('abs', d);
      if (beta === 0) return a;
      const near = times(times(like(d, 0.5 / beta), d), d);
      return select(binary('lt', a, like(a, beta)), near, plus(a, like(a, -beta / 2)));
    },
    [optionalParam('beta', 'float', 1)],
  ),
  betweenOp(
    'huber_loss',
    ['huber'],
    'half (x - y)² where |x - y| is under delta, delta (|x - y| - delta / 2) elsewhere',
    (x, y, ctx) => {
      const delta = ctx.float('delta', 1);
      const d = minus(x, y);
      const a = unary('abs', d);
      const far = times(like(a, delta), plus(a, like(a, -delta / 2)));
      return select(binary('lt', a, like(a, delta)), times(times(like(d, 0.5), d), d), far);
    },
    [optionalParam('delta', 'float', 1)],
  ),
  betweenOp(
    'binary_cross_entropy_with_logits',
    ['bce_with_logits'],
    'minus the log-likelihood of y in [0, 1] by the sigmoid of x',
    // max(x, 0) - x y + log(1 + e^-|x|): nothing overflows.
    (x, y) =>
      plus(
        minus(greatest(x, like(x, 0)), times(x, y)),
        unary('log1p', unary('exp', unary('neg', unary('abs', x)))),
      ),
  ),
  betweenOp(
    'binary_cross_entropy',
    ['bce_loss'],
    'minus the log-likelihood of y in [0, 1] by x in [0, 1]',
    (x, y) => {
      // As in PyTorch no logarithm is below -100.
      const log = (e: Expr): Expr => greatest(unary('log', e), like(e, -100));
      const other = times(minus(like(y, 1), y), log(minus(like(x, 1), x)));
      return unary('neg', plus(times(y, log(x)), other));
    },
  ),
  betweenOp(
    'kl_div',
    [],
    'y (log y - x) for log-probabilities x; log_target: y are logarithms too',
    (x, y, ctx) => {
      if (ctx.bool('log_target', false)) return times(unary('exp', y), minus(y, x));
      // 0 log 0 is 0.
      const own = times(y, minus(unary('log', y), x));
      return select(binary('gt', y, like(y, 0)), own, like(y, 0));
    },
    [optionalParam('log_target', 'bool', false)],
  ),
];
