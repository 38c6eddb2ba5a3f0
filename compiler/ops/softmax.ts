/**
 * Softmax and its kin, made of reductions and elementwise bodies.
 *
 * They calculate in f32 (f64 for f64) and round once, at the end. The row's maximum is subtracted
 * first, so that nothing overflows.
 */
import type { DType } from '../graph/dtype';
import { binary, cast, constant, type Expr, indexValue, select, unary } from '../ir/expr';
import { add, type IndexExpr, mul, num } from '../ir/indexExpr';
import type { LowerContext, LTensor, OpDef } from './op';
import { type Extent, extentOf, reduceOver } from './reductions';
import {
  axisParam,
  computeFloat,
  dtypeAttr,
  floatResult,
  minus,
  optionalParam,
  over,
  tensorParam,
} from './shared';

const X = tensorParam('input', 'x', 'self');

/** The rows of a softmax: an axis of x, or (before opset 13) all dims from it on, as one. */
function rowsOf(ctx: LowerContext, x: LTensor, fallback: number): Extent {
  const rank = x.shape.length;
  if (rank === 0) return extentOf(x, [], true);
  if (!ctx.bool('flatten2d', false))
    return extentOf(x, [ctx.axis(ctx.int('axis', fallback), rank)], true);
  const given = ctx.int('axis', 1);
  const axis = given === rank ? rank : ctx.axis(given, rank);
  return extentOf(
    x,
    x.shape.flatMap((_, i) => (i >= axis ? [i] : [])),
    true,
  );
}

/** x less its row's maximum, in floats. */
function shifted(e: Extent, max: LTensor, x: Expr, index: readonly IndexExpr[]): Expr {
  return minus(cast(x, max.dtype), max.at(e.place(index)));
}

/** e^x over its sum along the rows of the extent. */
export function softmaxOver(ctx: LowerContext, e: Extent, dtype: DType): LTensor {
  const t = computeFloat(e.x.dtype);
  const max = reduceOver(ctx, e, 'max', (x) => cast(x, t));
  const exp = ctx.pointwise(e.x.shape, t, (index) =>
    unary('exp', shifted(e, max, e.x.at(index), index)),
  );
  const rows: Extent = { ...e, x: exp };
  const sum = reduceOver(ctx, rows, 'sum', (x) => x);
  return ctx.pointwise(e.x.shape, dtype, (index) =>
    cast(over(exp.at(index), sum.at(e.place(index))), dtype),
  );
}

/** x less the logarithm of the sum of e^x along the rows of the extent. */
export function logSoftmaxOver(ctx: LowerContext, e: Extent, dtype: DType): LTensor {
  const t = computeFloat(e.x.dtype);
  const max = reduceOver(ctx, e, 'max', (x) => cast(x, t));
  const sum = reduceOver(ctx, e, 'sum', (x, index) => unary('exp', shifted(e, max, x, index)));
  return ctx.pointwise(e.x.shape, dtype, (index) => {
    const log = unary('log', sum.at(e.place(index)));
    return cast(minus(shifted(e, max, e.x.at(index), index), log), dtype);
  });
}

/** 1 at the row's first maximum, 0 elsewhere. */
function hardmax(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const e = rowsOf(ctx, x, -1);
  const best = reduceOver(ctx, e, { kind: 'argmax', last: false }, (v) => v, 'i32');
  return ctx.pointwise(x.shape, x.dtype, (index) => {
    let place: IndexExpr = num(0);
    e.axes.forEach((a, k) => (place = add(mul(place, e.over[k] ?? 1), index[a] ?? 0)));
    const hit = binary('eq', indexValue(place, 'i32'), best.at(e.place(index)));
    return select(hit, constant(1, x.dtype), constant(0, x.dtype));
  });
}

const SOFTMAX_PARAMS = [X, axisParam(-1), optionalParam('dtype', 'dtype')];

function softmaxDtype(ctx: LowerContext, x: LTensor): DType {
  return dtypeAttr(ctx, 'dtype', floatResult(x.dtype));
}

export function lowerSoftmax(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  return softmaxOver(ctx, rowsOf(ctx, x, -1), softmaxDtype(ctx, x));
}

export const softmaxOps: readonly OpDef[] = [
  {
    name: 'softmax',
    onnx: ['Softmax'],
    fuse: [{ names: ['softmax'], params: SOFTMAX_PARAMS, doc: 'e^x over its sum along the axis' }],
    lower: lowerSoftmax,
  },
  {
    name: 'softmin',
    fuse: [{ names: ['softmin'], params: SOFTMAX_PARAMS, doc: 'softmax of -x' }],
    lower: (ctx) => {
      const x = ctx.input(0);
      const t = computeFloat(x.dtype);
      const negated = ctx.pointwise(x.shape, t, (index) => unary('neg', cast(x.at(index), t)));
      return softmaxOver(ctx, rowsOf(ctx, negated, -1), softmaxDtype(ctx, x));
    },
  },
  {
    name: 'log_softmax',
    onnx: ['LogSoftmax'],
    fuse: [
      { names: ['log_softmax', 'logsoftmax'], params: SOFTMAX_PARAMS, doc: 'log(softmax(x))' },
    ],
    lower: (ctx) => {
      const x = ctx.input(0);
      return logSoftmaxOver(ctx, rowsOf(ctx, x, -1), softmaxDtype(ctx, x));
    },
  },
  {
    name: 'hardmax',
    onnx: ['Hardmax'],
    fuse: [
      {
        names: ['hardmax'],
        params: [X, axisParam(-1)],
        doc: '1 at the first maximum along the axis',
      },
    ],
    lower: hardmax,
  },
];
