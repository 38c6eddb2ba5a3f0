/**
 * Normalisations, made of reductions and elementwise bodies: softmax and its kin, and everything
 * that subtracts a mean and divides by a deviation. Losses are in losses.ts.
 *
 * All of them calculate in f32 (f64 for f64) and round once, at the end. Softmax subtracts the row's
 * maximum; variances are means of squared deviations.
 */
import type { DType } from '../graph/dtype';
import { binary, cast, constant, type Expr, indexValue, select, unary, when } from '../ir/expr';
import {
  add,
  constOf,
  type Dim,
  exactDiv,
  floorDiv,
  type IndexExpr,
  isConst,
  mod,
  mul,
  num,
  printIndex,
  printShape,
  same,
  sub,
} from '../ir/indexExpr';
import type { FuseArg, FuseCall, FuseForm, FuseParam, LowerContext, LTensor, OpDef } from './op';
import {
  atBroadcast,
  attrsOf,
  axisParam,
  checkAxes,
  computeFloat,
  countAs,
  dtypeAttr,
  floatResult,
  fromOnnx,
  greatest,
  intList,
  like,
  minus,
  optionalParam,
  optionalTensor,
  over,
  plus,
  reshapeView,
  sizesAttr,
  sizesOf,
  tensorParam,
  times,
} from './shared';
import {
  deviationsOver,
  type Extent,
  extentOf,
  meanOver,
  normOver,
  reduceOver,
} from './reductions';

const X = tensorParam('input', 'x', 'self');
const EPS = (fallback: number): FuseParam => optionalParam('eps', 'float', fallback, 'epsilon');

// ---------------------------------------------------------------------------------------------
// Softmax and its kin

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

const softmaxOps: readonly OpDef[] = [
  {
    name: 'softmax',
    onnx: ['Softmax'],
    fuse: [{ names: ['softmax'], params: SOFTMAX_PARAMS, doc: 'e^x over its sum along the axis' }],
    lower: (ctx) => {
      const x = ctx.input(0);
      return softmaxOver(ctx, rowsOf(ctx, x, -1), softmaxDtype(ctx, x));
    },
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

// ---------------------------------------------------------------------------------------------
// Centre and scale

interface Normalised {
  readonly mean: LTensor;
  /** 1 / sqrt(variance + eps) */
  readonly inverse: LTensor;
  /** (x - mean) * inverse, at an index into x. */
  at(index: readonly IndexExpr[]): Expr;
}

function normalise(ctx: LowerContext, e: Extent, eps: number): Normalised {
  const t = computeFloat(e.x.dtype);
  const mean = meanOver(ctx, e);
  const squares = deviationsOver(ctx, e, mean);
  const inverse = ctx.pointwise(e.shape, t, (index) =>
    unary('rsqrt', plus(over(squares.at(index), countAs(e.over, t)), constant(eps, t))),
  );
  return {
    mean,
    inverse,
    at: (index) => {
      const place = e.place(index);
      return times(minus(cast(e.x.at(index), t), mean.at(place)), inverse.at(place));
    },
  };
}

/** scale * v + bias, where they are given. */
function affine(v: Expr, scale: Expr | undefined, bias: Expr | undefined): Expr {
  const scaled = scale ? times(v, cast(scale, v.dtype)) : v;
  return bias ? plus(scaled, cast(bias, v.dtype)) : scaled;
}

/** The axes from the given one on, or the last ones that a `normalized_shape` covers. */
function trailingAxes(ctx: LowerContext, x: LTensor): number[] {
  const rank = x.shape.length;
  const shape = sizesOf(ctx, -1, 'normalized_shape');
  if (shape) {
    const first = rank - shape.length;
    shape.forEach((d, i) => {
      const own = x.shape[first + i];
      if (!own)
        ctx.fail(
          'SHAPE_MISMATCH',
          `normalized_shape ${printShape(shape)} has more dims than ${printShape(x.shape)}`,
        );
      ctx.requireEqual(
        own,
        d,
        `dim ${first + i} of ${printShape(x.shape)} and of normalized_shape ${printShape(shape)}`,
      );
    });
    return shape.map((_, i) => first + i);
  }
  const first = Math.min(...checkAxes(ctx, ctx.has('axis') ? ctx.ints('axis') : [-1], rank));
  return x.shape.flatMap((_, i) => (i >= first ? [i] : []));
}

/** A fault unless the operand broadcasts to the normalised dims, at the end of x's. */
function checkScale(ctx: LowerContext, x: LTensor, t: LTensor | undefined, what: string): void {
  if (!t) return;
  const lead = x.shape.length - t.shape.length;
  const fits =
    lead >= 0 && t.shape.every((d, i) => isConst(d, 1) || mayEqual(d, x.shape[lead + i] ?? num(1)));
  if (!fits) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `the ${what} of shape ${printShape(t.shape)} doesn't broadcast to the operand's ${printShape(x.shape)}`,
    );
  }
}

function mayEqual(a: Dim, b: Dim): boolean {
  return same(a, b) || constOf(a) === undefined || constOf(b) === undefined;
}

function layerNorm(ctx: LowerContext): readonly LTensor[] {
  const x = ctx.input(0);
  const scale = ctx.arity > 1 ? ctx.optional(1) : undefined;
  const bias = ctx.arity > 2 ? ctx.optional(2) : undefined;
  checkScale(ctx, x, scale, 'weight');
  checkScale(ctx, x, bias, 'bias');
  const e = extentOf(x, trailingAxes(ctx, x), true);
  const n = normalise(ctx, e, ctx.float('epsilon', 1e-5));
  const dtype = floatResult(x.dtype);
  const y = ctx.pointwise(x.shape, dtype, (index) =>
    cast(
      affine(n.at(index), scale && atBroadcast(scale, index), bias && atBroadcast(bias, index)),
      dtype,
    ),
  );
  return [y, n.mean, n.inverse].slice(0, Math.max(1, ctx.node.results.length));
}

function rmsNorm(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const scale = ctx.arity > 1 ? ctx.optional(1) : undefined;
  checkScale(ctx, x, scale, 'weight');
  const e = extentOf(x, trailingAxes(ctx, x), true);
  const t = computeFloat(x.dtype);
  const sum = reduceOver(ctx, e, 'sum', (v) => times(cast(v, t), cast(v, t)));
  const inverse = ctx.pointwise(e.shape, t, (index) =>
    unary(
      'rsqrt',
      plus(over(sum.at(index), countAs(e.over, t)), constant(ctx.float('epsilon', 1e-5), t)),
    ),
  );
  const dtype = floatResult(x.dtype);
  return ctx.pointwise(x.shape, dtype, (index) => {
    const v = times(cast(x.at(index), t), inverse.at(e.place(index)));
    return cast(affine(v, scale && atBroadcast(scale, index), undefined), dtype);
  });
}

/** Rank and channels of [N, C, …]. */
function channelsOf(ctx: LowerContext, x: LTensor): Dim {
  return (
    x.shape[1] ?? ctx.fail('SHAPE_MISMATCH', `needs [N, C, …], but got ${printShape(x.shape)}`)
  );
}

/** A fault unless the operand has one element per channel (or group). */
function perChannel(ctx: LowerContext, t: LTensor | undefined, count: Dim, what: string): void {
  if (!t) return;
  const [d] = t.shape;
  if (!d || t.shape.length !== 1)
    return ctx.fail(
      'SHAPE_MISMATCH',
      `the ${what} must have shape [${printIndex(count)}], but has ${printShape(t.shape)}`,
    );
  ctx.requireEqual(d, count, `the length of the ${what} and the number of channels`);
}

function groupNorm(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const channels = channelsOf(ctx, x);
  const groups = ctx.int('num_groups');
  const width =
    (groups > 0 ? exactDiv(channels, groups) : undefined) ??
    ctx.fail(
      'SHAPE_MISMATCH',
      `${printIndex(channels)} channels of ${printShape(x.shape)} can't be split into ${groups} equal groups`,
    );
  const scale = ctx.arity > 1 ? ctx.optional(1) : undefined;
  const bias = ctx.arity > 2 ? ctx.optional(2) : undefined;
  // Until opset 21 scale and bias were per group.
  const byGroup = fromOnnx(ctx) && ctx.int('opset') < 21;
  perChannel(ctx, scale, byGroup ? num(groups) : channels, 'weight');
  perChannel(ctx, bias, byGroup ? num(groups) : channels, 'bias');
  const [n = num(1), , ...space] = x.shape;
  const grouped = reshapeView(ctx, x, [n, groups, width, ...space]);
  const e = extentOf(
    grouped,
    grouped.shape.flatMap((_, i) => (i >= 2 ? [i] : [])),
    false,
  );
  const t = normalise(ctx, e, ctx.float('epsilon', 1e-5));
  const dtype = floatResult(x.dtype);
  return ctx.pointwise(x.shape, dtype, (index) => {
    const [b = num(0), c = num(0), ...rest] = index;
    const group = floorDiv(c, width);
    const at = [byGroup ? group : c];
    const v = t.at([b, group, mod(c, width), ...rest]);
    return cast(affine(v, scale?.at(at), bias?.at(at)), dtype);
  });
}

function instanceNorm(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const channels = channelsOf(ctx, x);
  const scale = ctx.arity > 1 ? ctx.optional(1) : undefined;
  const bias = ctx.arity > 2 ? ctx.optional(2) : undefined;
  perChannel(ctx, scale, channels, 'weight');
  perChannel(ctx, bias, channels, 'bias');
  const e = extentOf(
    x,
    x.shape.flatMap((_, i) => (i >= 2 ? [i] : [])),
    true,
  );
  const n = normalise(ctx, e, ctx.float('epsilon', 1e-5));
  const dtype = floatResult(x.dtype);
  return ctx.pointwise(x.shape, dtype, (index) => {
    const at = [index[1] ?? num(0)];
    return cast(affine(n.at(index), scale?.at(at), bias?.at(at)), dtype);
  });
}

/** Operands X, scale, B, mean, variance (PyTorch: X, mean, variance, weight, bias); with the batch's own moments, and running ones, in training mode. */
function batchNorm(ctx: LowerContext): readonly LTensor[] {
  const x = ctx.input(0);
  const axis = x.shape.length > 1 ? 1 : 0;
  const channels = x.shape[axis] ?? num(1);
  const at = (i: number): LTensor | undefined => (i < ctx.arity ? ctx.optional(i) : undefined);
  const [scale, bias, mean, variance] = fromOnnx(ctx)
    ? [at(1), at(2), at(3), at(4)]
    : [at(3), at(4), at(1), at(2)];
  for (const [t, what] of [
    [scale, 'weight'],
    [bias, 'bias'],
    [mean, 'mean'],
    [variance, 'variance'],
  ] as const)
    perChannel(ctx, t, channels, what);
  const dtype = floatResult(x.dtype);
  const t = computeFloat(x.dtype);
  const eps = ctx.float('epsilon', 1e-5);
  if (ctx.bool('training_mode', false)) {
    return batchNormTraining(ctx, x, axis, eps, { scale, bias, mean, variance });
  }
  const m = mean ?? ctx.fail('MISSING_OPERAND', 'the mean is missing');
  const v = variance ?? ctx.fail('MISSING_OPERAND', 'the variance is missing');
  const y = ctx.pointwise(x.shape, dtype, (index) => {
    const c = [index[axis] ?? num(0)];
    const inverse = unary('rsqrt', plus(cast(v.at(c), t), constant(eps, t)));
    const centred = minus(cast(x.at(index), t), cast(m.at(c), t));
    return cast(affine(times(centred, inverse), scale?.at(c), bias?.at(c)), dtype);
  });
  return [y];
}

function batchNormTraining(
  ctx: LowerContext,
  x: LTensor,
  axis: number,
  eps: number,
  p: Readonly<Record<'scale' | 'bias' | 'mean' | 'variance', LTensor | undefined>>,
): readonly LTensor[] {
  const dtype = floatResult(x.dtype);
  const e = extentOf(
    x,
    x.shape.flatMap((_, i) => (i === axis ? [] : [i])),
    false,
  );
  const n = normalise(ctx, e, eps);
  const y = ctx.pointwise(x.shape, dtype, (index) => {
    const c = [index[axis] ?? num(0)];
    return cast(affine(n.at(index), p.scale?.at(c), p.bias?.at(c)), dtype);
  });
  if (ctx.node.results.length < 2) return [y];
  const squares = deviationsOver(ctx, e, n.mean);
  const momentum = ctx.float('momentum', 0.9);
  const t = n.mean.dtype;
  const running = (
    old: LTensor | undefined,
    now: (index: readonly IndexExpr[]) => Expr,
  ): LTensor => {
    const before = old ?? ctx.fail('MISSING_OPERAND', 'the running moments are missing');
    return ctx.pointwise(e.shape, before.dtype, (index) =>
      cast(
        plus(
          times(cast(before.at(index), t), constant(momentum, t)),
          times(now(index), constant(1 - momentum, t)),
        ),
        before.dtype,
      ),
    );
  };
  return [
    y,
    running(p.mean, (index) => n.mean.at(index)),
    running(p.variance, (index) => over(squares.at(index), countAs(e.over, t))),
  ];
}

/** x over its p-norm along an axis; rows of zeros stay zeros. */
function lpNormalization(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const e = extentOf(x, [ctx.axis(ctx.int('axis', -1), x.shape.length)], true);
  const norm = normOver(ctx, e, ctx.float('p', 2));
  const dtype = floatResult(x.dtype);
  const floor = ctx.has('eps') ? ctx.float('eps') : undefined;
  return ctx.pointwise(x.shape, dtype, (index) => {
    const n = norm.at(e.place(index));
    const v = cast(x.at(index), n.dtype);
    if (floor !== undefined) return cast(over(v, greatest(n, like(n, floor))), dtype);
    return cast(select(binary('eq', n, like(n, 0)), like(n, 0), over(v, n)), dtype);
  });
}

function meanVarianceNormalization(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const axes = checkAxes(ctx, ctx.ints('axes', [0, 2, 3]), x.shape.length);
  const e = extentOf(x, axes, true);
  const mean = meanOver(ctx, e);
  const squares = deviationsOver(ctx, e, mean);
  const t = mean.dtype;
  const dtype = floatResult(x.dtype);
  return ctx.pointwise(x.shape, dtype, (index) => {
    const place = e.place(index);
    const deviation = unary('sqrt', over(squares.at(place), countAs(e.over, t)));
    const centred = minus(cast(x.at(index), t), mean.at(place));
    return cast(over(centred, plus(deviation, constant(1e-9, t))), dtype);
  });
}

/** x / (bias + alpha/size * sum of squares over a window of channels) ** beta */
function localResponse(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const channels = channelsOf(ctx, x);
  const size = ctx.int('size');
  if (size < 1) ctx.fail('BAD_ATTRIBUTE', `'size' must be at least 1, not ${size}`);
  const t = computeFloat(x.dtype);
  const before = Math.floor((size - 1) / 2);
  const sum = ctx.reduce({ shape: x.shape, over: [size], monoid: 'sum' }, (index, [r = num(0)]) => {
    const c = sub(add(index[1] ?? num(0), r), before);
    const v = cast(x.at(index.map((i, k) => (k === 1 ? c : i))), t);
    return when([{ index: c, lo: num(0), hi: channels }], times(v, v), constant(0, t));
  });
  const alpha = ctx.float('alpha', 1e-4) / size;
  const beta = ctx.float('beta', 0.75);
  const bias = ctx.float('bias', 1);
  return ctx.pointwise(x.shape, floatResult(x.dtype), (index) => {
    const base = plus(constant(bias, t), times(constant(alpha, t), sum.at(index)));
    return cast(
      over(cast(x.at(index), t), binary('pow', base, constant(beta, t))),
      floatResult(x.dtype),
    );
  });
}

// ---------------------------------------------------------------------------------------------
// The table

const WEIGHT = optionalTensor('weight', 'scale', 'gamma');
const BIAS = optionalTensor('bias', 'beta');
const AXIS_PARAM = optionalParam('axis', 'ints', undefined, 'dim', 'axes');
const SHAPE_PARAM = optionalParam('normalized_shape', 'sizes');

function number(arg: FuseArg): number | undefined {
  return typeof arg === 'number' ? arg : undefined;
}

/** Attributes of a form over the last dims: `axis` may be one or several, the first of which counts. */
function trailingAttrs(args: Readonly<Record<string, FuseArg>>): ReturnType<typeof attrsOf> {
  const shape = sizesAttr(args['normalized_shape']);
  return attrsOf({
    axis: shape === undefined ? (intList(args['axis']) ?? [-1]) : undefined,
    normalized_shape: shape,
    epsilon: number(args['eps']),
  });
}

const epsilonForm = (form: Omit<FuseForm, 'attrs'>, ...names: readonly string[]): FuseForm => ({
  ...form,
  attrs: (args) =>
    attrsOf({
      epsilon: number(args['eps']),
      ...Object.fromEntries(names.map((n) => [n, number(args[n])])),
    }),
});

/** PyTorch's own order: `layer_norm(x, [512], weight, bias)`. */
function givesShapeSecond(call: FuseCall): boolean {
  return call.positional[1] === 'list';
}

/** Both orders of a norm over the last dims. */
function trailingForms(
  names: readonly string[],
  operands: readonly FuseParam[],
  doc: string,
): readonly FuseForm[] {
  const rest = { names, attrs: trailingAttrs, doc };
  return [
    {
      ...rest,
      matches: givesShapeSecond,
      params: [X, SHAPE_PARAM, ...operands, EPS(1e-5), AXIS_PARAM],
    },
    { ...rest, params: [X, ...operands, AXIS_PARAM, SHAPE_PARAM, EPS(1e-5)] },
  ];
}

const normOps: readonly OpDef[] = [
  {
    name: 'layer_norm',
    onnx: ['LayerNormalization'],
    fuse: trailingForms(
      ['layer_norm', 'layernorm'],
      [WEIGHT, BIAS],
      '(x - mean) / sqrt(var + eps) over the dims from axis on, scaled and shifted',
    ),
    lower: layerNorm,
  },
  {
    name: 'rms_norm',
    onnx: [
      'RMSNormalization',
      'SimplifiedLayerNormalization',
      'com.microsoft:SimplifiedLayerNormalization',
    ],
    fuse: trailingForms(
      ['rms_norm', 'rmsnorm'],
      [WEIGHT],
      'x / sqrt(mean(x²) + eps) over the dims from axis on, scaled',
    ),
    lower: rmsNorm,
  },
  {
    name: 'group_norm',
    onnx: ['GroupNormalization'],
    fuse: [
      epsilonForm(
        {
          names: ['group_norm', 'groupnorm'],
          params: [
            X,
            { name: 'num_groups', aliases: ['groups'], kind: 'int' },
            WEIGHT,
            BIAS,
            EPS(1e-5),
          ],
          doc: 'normalised over each group of channels and all space',
        },
        'num_groups',
      ),
    ],
    lower: groupNorm,
  },
  {
    name: 'instance_norm',
    onnx: ['InstanceNormalization'],
    fuse: [
      epsilonForm({
        names: ['instance_norm', 'instancenorm'],
        params: [X, WEIGHT, BIAS, EPS(1e-5)],
        doc: 'normalised over the space of each channel of each sample',
      }),
    ],
    lower: instanceNorm,
  },
  {
    name: 'batch_norm',
    onnx: ['BatchNormalization'],
    fuse: [
      {
        names: ['batch_norm', 'batchnorm'],
        params: [
          X,
          tensorParam('running_mean', 'mean'),
          tensorParam('running_var', 'var'),
          WEIGHT,
          BIAS,
          EPS(1e-5),
        ],
        attrs: (args) => attrsOf({ epsilon: number(args['eps']) }),
        doc: '(x - mean) / sqrt(var + eps) per channel, scaled and shifted',
      },
    ],
    lower: batchNorm,
  },
  {
    name: 'lp_normalize',
    onnx: ['LpNormalization'],
    fuse: [
      {
        names: ['normalize'],
        params: [X, optionalParam('p', 'float', 2), axisParam(1), EPS(1e-12)],
        doc: 'x over its p-norm along the axis',
      },
    ],
    lower: lpNormalization,
  },
  {
    name: 'mean_variance_norm',
    onnx: ['MeanVarianceNormalization'],
    fuse: [
      {
        names: ['mean_variance_norm'],
        params: [X, optionalParam('axis', 'ints', undefined, 'axes', 'dim')],
        attrs: (args) => attrsOf({ axes: intList(args['axis']) }),
        doc: '(x - mean) / deviation over the axes [0, 2, 3]',
      },
    ],
    lower: meanVarianceNormalization,
  },
  {
    name: 'local_response_norm',
    onnx: ['LRN'],
    fuse: [
      {
        names: ['local_response_norm', 'lrn'],
        params: [
          X,
          { name: 'size', kind: 'int' },
          optionalParam('alpha', 'float', 1e-4),
          optionalParam('beta', 'float', 0.75),
          optionalParam('k', 'float', 1, 'bias'),
        ],
        attrs: (args) =>
          attrsOf({
            size: number(args['size']),
            alpha: number(args['alpha']),
            beta: number(args['beta']),
            bias: number(args['k']),
          }),
        doc: 'x over a power of the squares of neighbouring channels',
      },
    ],
    lower: localResponse,
  },
];

export const normalizationOps: readonly OpDef[] = [...softmaxOps, ...normOps];
