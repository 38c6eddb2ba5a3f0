/**
 * Reductions: sums, extremes, norms, moments, positions; and running sums.
 *
 * Sums of half floats are kept in f32 and rounded once. Variances take two passes (the mean, then
 * the mean of squared deviations). A running sum is, for now, a sum over the part of the axis that
 * it covers: quadratic in the axis, and right.
 */
import { type DType, isFloat } from '../graph/dtype';
import { binary, cast, constant, type Expr, select, unary, when } from '../ir/expr';
import { add, type Dim, type IndexExpr, isConst, num, printShape } from '../ir/indexExpr';
import type { FuseArg, FuseForm, FuseParam, LowerContext, LTensor, OpDef, ReduceSpec } from './op';
import {
  arith1,
  attrsOf,
  AXES_PARAM,
  axesOf,
  axisParam,
  checkAxes,
  computeFloat,
  countAs,
  dtypeAttr,
  floatResult,
  fromOnnx,
  intList,
  isNarrowInteger,
  KEEPDIM_PARAM,
  like,
  minus,
  optionalParam,
  over,
  plus,
  tensorParam,
  times,
} from './shared';

const X = tensorParam('input', 'x', 'self');

// ---------------------------------------------------------------------------------------------
// Which dims

/** The dims that a reduction keeps and those it runs over. */
export interface Extent {
  readonly x: LTensor;
  readonly axes: readonly number[];
  readonly keepdims: boolean;
  /** Shape of the result. */
  readonly shape: readonly Dim[];
  readonly over: readonly Dim[];
  /** The index into x for a place in the result and a point of the reduction. */
  at(index: readonly IndexExpr[], point: readonly IndexExpr[]): readonly IndexExpr[];
  /** The place in the result for an index into x. */
  place(index: readonly IndexExpr[]): readonly IndexExpr[];
}

export function extentOf(x: LTensor, axes: readonly number[], keepdims: boolean): Extent {
  const sorted = [...axes].sort((a, b) => a - b);
  const kept = x.shape.map((_, i) => i).filter((i) => !sorted.includes(i));
  return {
    x,
    axes: sorted,
    keepdims,
    shape: keepdims
      ? x.shape.map((d, i) => (sorted.includes(i) ? num(1) : d))
      : kept.map((i) => x.shape[i] ?? num(1)),
    over: sorted.map((a) => x.shape[a] ?? num(1)),
    at: (index, point) =>
      x.shape.map((_, i) => {
        const k = sorted.indexOf(i);
        if (k >= 0) return point[k] ?? num(0);
        return index[keepdims ? i : kept.indexOf(i)] ?? num(0);
      }),
    place: (index) =>
      keepdims
        ? index.map((v, i) => (sorted.includes(i) ? num(0) : v))
        : kept.map((i) => index[i] ?? num(0)),
  };
}

/** Combines f(x) over the extent. */
export function reduceOver(
  ctx: LowerContext,
  e: Extent,
  monoid: ReduceSpec['monoid'],
  f: (x: Expr, index: readonly IndexExpr[]) => Expr,
  dtype?: DType,
): LTensor {
  return ctx.reduce(
    { shape: e.shape, over: e.over, monoid, ...(dtype ? { dtype } : {}) },
    (index, point) => {
      const at = e.at(index, point);
      return f(e.x.at(at), at);
    },
  );
}

/** The mean of f(x) over the extent, in the float that f is calculated in. */
export function meanOver(
  ctx: LowerContext,
  e: Extent,
  f: (x: Expr, index: readonly IndexExpr[]) => Expr = (x) => x,
): LTensor {
  const t = computeFloat(e.x.dtype);
  const sum = reduceOver(ctx, e, 'sum', (x, index) => f(cast(x, t), index));
  return ctx.pointwise(e.shape, t, (index) => over(sum.at(index), countAs(e.over, t)));
}

/** The sum of squared deviations from the mean over the extent. */
export function deviationsOver(ctx: LowerContext, e: Extent, mean: LTensor): LTensor {
  const t = computeFloat(e.x.dtype);
  return reduceOver(ctx, e, 'sum', (x, index) => {
    const d = minus(cast(x, t), mean.at(e.place(index)));
    return times(d, d);
  });
}

/** How many points an extent has, less a correction. */
function correctedCount(e: Extent, correction: number, t: DType): Expr {
  const n = countAs(e.over, t);
  if (n.op === 'const') return constant(n.value - correction, t);
  return correction === 0 ? n : minus(n, constant(correction, t));
}

/** The extent that the node's axes and keepdims name; all axes when none are given. */
function extentFrom(ctx: LowerContext, x: LTensor): Extent | undefined {
  const given = axesOf(ctx, 1) ?? (ctx.has('axis') ? ctx.ints('axis') : undefined);
  const none = !given || given.length === 0;
  if (none && ctx.bool('noop_with_empty_axes', false)) return undefined;
  const axes = none ? x.shape.map((_, i) => i) : checkAxes(ctx, given, x.shape.length);
  return extentOf(x, axes, ctx.bool('keepdims', fromOnnx(ctx)));
}

// ---------------------------------------------------------------------------------------------
// The simple ones: map, combine, finish

interface Simple {
  readonly monoid: 'sum' | 'prod' | 'max' | 'min';
  /** Before combining, in the accumulator's dtype. */
  readonly map?: (x: Expr) => Expr;
  /** After combining. */
  readonly finish?: (r: Expr, e: Extent) => Expr;
  /** Integers go through f32: the finish is a root, a logarithm or a quotient. */
  readonly inFloat?: boolean;
  /** The float result of integers stays one (PyTorch); ONNX casts it back. */
  readonly floatResult?: boolean;
}

function lowerSimple(ctx: LowerContext, r: Simple): LTensor {
  const x = ctx.input(0);
  const e = extentFrom(ctx, x);
  const map = r.map ?? ((v: Expr): Expr => v);
  const wanted = ctx.has('dtype') ? dtypeAttr(ctx, 'dtype') : undefined;
  const dtype = wanted ?? resultDtype(ctx, x.dtype, r);
  const t = accumulatorFor(isFloat(dtype) ? dtype : x.dtype, r);
  if (!e) {
    // No axes at all: nothing is combined, but the rest still applies.
    if (!r.map && !r.finish) return x;
    const single = extentOf(x, [], true);
    return ctx.pointwise(x.shape, dtype, (index) =>
      cast((r.finish ?? ((v) => v))(map(cast(x.at(index), t)), single), dtype),
    );
  }
  const finish = r.finish;
  const combined = reduceOver(ctx, e, r.monoid, (v) => map(cast(v, t)), finish ? t : dtype);
  if (!finish) return combined;
  return ctx.pointwise(e.shape, dtype, (index) => cast(finish(combined.at(index), e), dtype));
}

function resultDtype(ctx: LowerContext, t: DType, r: Simple): DType {
  if (r.floatResult && !fromOnnx(ctx)) return floatResult(t);
  // Sums of bools and of narrow integers count in 32 bits, but for extremes, which always fit.
  if (t === 'bool' || isNarrowInteger(t))
    return r.monoid === 'sum' || r.monoid === 'prod'
      ? fromOnnx(ctx) && t !== 'bool'
        ? t
        : 'i32'
      : t;
  return t;
}

function accumulatorFor(t: DType, r: Simple): DType {
  if (r.monoid === 'max' || r.monoid === 'min') return t;
  if (isFloat(t)) return computeFloat(t);
  if (r.inFloat) return 'f32';
  return t === 'bool' || isNarrowInteger(t) ? 'i32' : t;
}

const square = (x: Expr): Expr => times(x, x);
const abs = (x: Expr): Expr => arith1('abs', x);
const sqrt = (x: Expr): Expr => unary('sqrt', x);
const log = (x: Expr): Expr => unary('log', x);

const REDUCE_PARAMS: readonly FuseParam[] = [X, AXES_PARAM, KEEPDIM_PARAM];

function reduceAttrs(args: Readonly<Record<string, FuseArg>>): ReturnType<typeof attrsOf> {
  return attrsOf({
    axes: intList(args['axis']),
    keepdims: args['keepdim'] === true,
    dtype: typeof args['dtype'] === 'string' ? args['dtype'] : undefined,
  });
}

function reduceForm(names: readonly string[], doc: string, ...more: FuseParam[]): FuseForm {
  return { names, params: [...REDUCE_PARAMS, ...more], attrs: reduceAttrs, doc };
}

const DTYPE_PARAM = optionalParam('dtype', 'dtype');

function simpleOp(
  name: string,
  onnx: string | undefined,
  names: readonly string[],
  doc: string,
  r: Simple,
): OpDef {
  const more = r.monoid === 'sum' || r.monoid === 'prod' ? [DTYPE_PARAM] : [];
  return {
    name,
    ...(onnx ? { onnx: [onnx] } : {}),
    ...(names.length > 0 ? { fuse: [reduceForm(names, doc, ...more)] } : {}),
    lower: (ctx) => lowerSimple(ctx, r),
  };
}

/** Extremes of bools are "any" and "all". */
function extremeOp(
  monoid: 'max' | 'min',
  onnx: string,
  names: readonly string[],
  doc: string,
): OpDef {
  return {
    name: `a${monoid}`,
    onnx: [onnx],
    fuse: [reduceForm(names, doc)],
    lower: (ctx) => {
      const x = ctx.input(0);
      if (x.dtype !== 'bool') return lowerSimple(ctx, { monoid });
      return lowerLogical(ctx, monoid === 'max' ? 'or' : 'and');
    },
  };
}

function lowerLogical(ctx: LowerContext, monoid: 'and' | 'or'): LTensor {
  const x = ctx.input(0);
  const e = extentFrom(ctx, x);
  return e ? reduceOver(ctx, e, monoid, (v) => cast(v, 'bool')) : x;
}

const MEAN: Simple = {
  monoid: 'sum',
  inFloat: true,
  floatResult: true,
  finish: (r, e) => over(r, countAs(e.over, r.dtype)),
};

export const lowerMean = (ctx: LowerContext): LTensor => lowerSimple(ctx, MEAN);

const simpleOps: readonly OpDef[] = [
  simpleOp('sum', 'ReduceSum', ['sum', 'reduce_sum'], 'the sum over the axes', { monoid: 'sum' }),
  simpleOp('mean', 'ReduceMean', ['mean', 'reduce_mean'], 'the mean over the axes', MEAN),
  simpleOp('prod', 'ReduceProd', ['prod'], 'the product over the axes', { monoid: 'prod' }),
  extremeOp('max', 'ReduceMax', ['amax', 'max', 'reduce_max'], 'the greatest over the axes'),
  extremeOp('min', 'ReduceMin', ['amin', 'min', 'reduce_min'], 'the least over the axes'),
  simpleOp('reduce_l1', 'ReduceL1', ['l1'], 'the sum of |x| over the axes', {
    monoid: 'sum',
    map: abs,
  }),
  simpleOp('reduce_l2', 'ReduceL2', ['l2'], 'the root of the sum of squares over the axes', {
    monoid: 'sum',
    inFloat: true,
    floatResult: true,
    map: square,
    finish: sqrt,
  }),
  simpleOp('reduce_log_sum', 'ReduceLogSum', [], '', {
    monoid: 'sum',
    inFloat: true,
    floatResult: true,
    finish: log,
  }),
  simpleOp('sum_square', 'ReduceSumSquare', ['sum_square'], 'the sum of squares over the axes', {
    monoid: 'sum',
    map: square,
  }),
  {
    name: 'any',
    fuse: [reduceForm(['any'], 'whether any is not 0 over the axes')],
    lower: (ctx) => lowerLogical(ctx, 'or'),
  },
  {
    name: 'all',
    fuse: [reduceForm(['all'], 'whether all are not 0 over the axes')],
    lower: (ctx) => lowerLogical(ctx, 'and'),
  },
];

// ---------------------------------------------------------------------------------------------
// Composites

/** log of the sum of e^x, by way of the greatest x so that nothing overflows. */
export function logSumExp(ctx: LowerContext, e: Extent): LTensor {
  const t = computeFloat(e.x.dtype);
  const greatest = reduceOver(ctx, e, 'max', (v) => cast(v, t));
  // A row of -inf (or an empty one) has no finite greatest element to subtract.
  const shift = (index: readonly IndexExpr[]): Expr => {
    const m = greatest.at(index);
    return select(unary('isinf', m), like(m, 0), m);
  };
  const sum = reduceOver(ctx, e, 'sum', (v, index) =>
    unary('exp', minus(cast(v, t), shift(e.place(index)))),
  );
  return ctx.pointwise(e.shape, t, (index) => plus(log(sum.at(index)), shift(index)));
}

function rounded(ctx: LowerContext, t: LTensor, dtype: DType): LTensor {
  return t.dtype === dtype ? t : ctx.pointwise(t.shape, dtype, (index) => cast(t.at(index), dtype));
}

/** (sum |x|^p)^(1/p); p may be infinite. */
export function normOver(ctx: LowerContext, e: Extent, p: number): LTensor {
  const t = computeFloat(e.x.dtype);
  const magnitude = (v: Expr): Expr => abs(cast(v, t));
  if (p === Infinity) return reduceOver(ctx, e, 'max', magnitude);
  if (p === -Infinity) return reduceOver(ctx, e, 'min', magnitude);
  if (p === 0) {
    return reduceOver(ctx, e, 'sum', (v) => {
      const x = cast(v, t);
      return cast(binary('ne', x, like(x, 0)), t);
    });
  }
  if (p === 1) return reduceOver(ctx, e, 'sum', magnitude);
  if (p === 2) {
    const sum = reduceOver(ctx, e, 'sum', (v) => square(cast(v, t)));
    return ctx.pointwise(e.shape, t, (index) => sqrt(sum.at(index)));
  }
  const sum = reduceOver(ctx, e, 'sum', (v) => binary('pow', magnitude(v), constant(p, t)));
  return ctx.pointwise(e.shape, t, (index) => binary('pow', sum.at(index), constant(1 / p, t)));
}

function moments(ctx: LowerContext, root: boolean): LTensor {
  const x = ctx.input(0);
  const e = extentFrom(ctx, x) ?? extentOf(x, [], true);
  const correction = ctx.bool('unbiased', true) ? ctx.float('correction', 1) : 0;
  const squares = deviationsOver(ctx, e, meanOver(ctx, e));
  const t = squares.dtype;
  const dtype = floatResult(x.dtype);
  return ctx.pointwise(e.shape, dtype, (index) => {
    const v = over(squares.at(index), correctedCount(e, correction, t));
    return cast(root ? sqrt(v) : v, dtype);
  });
}

/** With the mean that they are about. */
function momentsAndMean(ctx: LowerContext, root: boolean): readonly LTensor[] {
  const x = ctx.input(0);
  const e = extentFrom(ctx, x) ?? extentOf(x, [], true);
  return [moments(ctx, root), rounded(ctx, meanOver(ctx, e), floatResult(x.dtype))];
}

const momentForm = (names: readonly string[], doc: string, results = 1): FuseForm => ({
  names,
  results,
  params: [
    X,
    AXES_PARAM,
    KEEPDIM_PARAM,
    optionalParam('correction', 'float'),
    optionalParam('unbiased', 'bool'),
  ],
  attrs: (args) => ({
    ...reduceAttrs(args),
    ...attrsOf({
      correction: typeof args['correction'] === 'number' ? args['correction'] : undefined,
      unbiased: typeof args['unbiased'] === 'boolean' ? args['unbiased'] : undefined,
    }),
  }),
  doc,
});

const compositeOps: readonly OpDef[] = [
  {
    name: 'logsumexp',
    onnx: ['ReduceLogSumExp'],
    fuse: [reduceForm(['logsumexp'], 'log of the sum of e^x over the axes')],
    lower: (ctx) => {
      const x = ctx.input(0);
      const dtype = fromOnnx(ctx) ? x.dtype : floatResult(x.dtype);
      return rounded(ctx, logSumExp(ctx, extentFrom(ctx, x) ?? extentOf(x, [], true)), dtype);
    },
  },
  {
    name: 'norm',
    fuse: [
      {
        names: ['norm', 'vector_norm'],
        params: [X, optionalParam('p', 'float', 2, 'ord'), AXES_PARAM, KEEPDIM_PARAM],
        attrs: (args) => ({
          ...reduceAttrs(args),
          p: typeof args['p'] === 'number' ? args['p'] : 2,
        }),
        doc: 'the p-norm over the axes',
      },
    ],
    lower: (ctx) => {
      const x = ctx.input(0);
      const e = extentFrom(ctx, x) ?? extentOf(x, [], true);
      return rounded(ctx, normOver(ctx, e, ctx.float('p', 2)), floatResult(x.dtype));
    },
  },
  {
    name: 'var',
    fuse: [momentForm(['var', 'variance'], 'the variance over the axes; correction=1 by default')],
    lower: (ctx) => moments(ctx, false),
  },
  {
    name: 'std',
    fuse: [momentForm(['std'], 'the standard deviation over the axes; correction=1 by default')],
    lower: (ctx) => moments(ctx, true),
  },
  {
    name: 'var_mean',
    fuse: [momentForm(['var_mean'], 'the variance and the mean over the axes', 2)],
    lower: (ctx) => momentsAndMean(ctx, false),
  },
  {
    name: 'std_mean',
    fuse: [momentForm(['std_mean'], 'the standard deviation and the mean over the axes', 2)],
    lower: (ctx) => momentsAndMean(ctx, true),
  },
];

// ---------------------------------------------------------------------------------------------
// Positions

function positionOp(kind: 'argmax' | 'argmin', onnx: string): OpDef {
  return {
    name: kind,
    onnx: [onnx],
    fuse: [
      {
        names: [kind],
        params: [
          X,
          { name: 'axis', aliases: ['dim'], kind: 'int', optional: true },
          KEEPDIM_PARAM,
          optionalParam('select_last_index', 'bool', false),
        ],
        attrs: (args) =>
          attrsOf({
            axis: intList(args['axis'])?.[0],
            keepdims: args['keepdim'] === true,
            select_last_index: args['select_last_index'] === true,
          }),
        doc: `the place of the ${kind === 'argmax' ? 'greatest' : 'least'} along the axis; without one, in the whole tensor`,
      },
    ],
    lower: (ctx) => {
      const x = ctx.input(0);
      const rank = x.shape.length;
      const all = !fromOnnx(ctx) && !ctx.has('axis');
      const axes = all ? x.shape.map((_, i) => i) : [ctx.axis(ctx.int('axis', 0), rank)];
      const e = extentOf(x, axes, ctx.bool('keepdims', fromOnnx(ctx)));
      if (e.over.some((d) => isConst(d, 0)))
        ctx.fail('SHAPE_MISMATCH', `${printShape(x.shape)} has no elements to choose from`);
      const last = ctx.bool('select_last_index', false);
      return reduceOver(
        ctx,
        e,
        { kind, last },
        (v) => (v.dtype === 'bool' ? cast(v, 'i32') : v),
        'i64',
      );
    },
  };
}

// ---------------------------------------------------------------------------------------------
// Running sums and products

function running(ctx: LowerContext, monoid: 'sum' | 'prod'): LTensor {
  const x = ctx.input(0);
  const given = ctx.arity > 1 && ctx.optional(1) ? ctx.numbers(1)[0] : ctx.int('axis');
  const axis = ctx.axis(given ?? 0, x.shape.length);
  const exclusive = ctx.bool('exclusive', false);
  const reverse = ctx.bool('reverse', false);
  const n = x.shape[axis] ?? num(1);
  const t: DType = isFloat(x.dtype)
    ? computeFloat(x.dtype)
    : x.dtype === 'bool' || isNarrowInteger(x.dtype)
      ? 'i32'
      : x.dtype;
  const dtype = x.dtype === 'bool' ? 'i32' : x.dtype;
  return ctx.reduce({ shape: x.shape, over: [n], monoid, dtype }, (index, [r = num(0)]) => {
    const i = index[axis] ?? num(0);
    const at = index.map((v, k) => (k === axis ? r : v));
    // Forwards the places up to i count, backwards those from i on; exclusively without i itself.
    const range = reverse
      ? { index: r, lo: add(i, exclusive ? 1 : 0), hi: n }
      : { index: r, lo: num(0), hi: exclusive ? i : add(i, 1) };
    return when([range], cast(x.at(at), t), constant(monoid === 'sum' ? 0 : 1, t));
  });
}

function runningOp(name: string, onnx: string, monoid: 'sum' | 'prod'): OpDef {
  return {
    name,
    onnx: [onnx],
    fuse: [
      {
        names: [name],
        params: [
          X,
          axisParam(),
          optionalParam('exclusive', 'bool', false),
          optionalParam('reverse', 'bool', false),
        ],
        doc: `the running ${monoid === 'sum' ? 'sum' : 'product'} along the axis`,
      },
    ],
    lower: (ctx) => running(ctx, monoid),
  };
}

export const reductionOps: readonly OpDef[] = [
  ...simpleOps,
  ...compositeOps,
  positionOp('argmax', 'ArgMax'),
  positionOp('argmin', 'ArgMin'),
  runningOp('cumsum', 'CumSum', 'sum'),
  runningOp('cumprod', 'CumProd', 'prod'),
];
