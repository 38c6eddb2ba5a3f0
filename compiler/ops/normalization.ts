/**
 * Normalisations, made of reductions and elementwise bodies: what subtracts a mean, divides by a
 * deviation or a norm, and scales and shifts. Softmax is in softmax.ts.
 *
 * All of them calculate in f32 (f64 for f64) and round once, at the end. Variances are means of
 * squared deviations.
 */
import { binary, cast, constant, type Expr, select, unary, when } from '../ir/expr';
import {
  add,
  type Dim,
  exactDiv,
  floorDiv,
  type IndexExpr,
  mod,
  num,
  printIndex,
  printShape,
  sub,
} from '../ir/indexExpr';
import type { FuseArg, FuseCall, FuseForm, FuseParam, LowerContext, LTensor, OpDef } from './op';
import {
  atBroadcast,
  attrsOf,
  broadcastShapes,
  axisParam,
  checkAxes,
  computeFloat,
  countAs,
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
  requireBroadcast,
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

/** A fault unless the operand, where it is given, broadcasts to x. */
function checkScale(ctx: LowerContext, x: LTensor, t: LTensor | undefined, what: string): void {
  if (t) requireBroadcast(ctx, t, x.shape, `the ${what}`);
}

export interface Trailing {
  readonly x: LTensor;
  readonly axes: readonly number[];
  readonly scale: LTensor | undefined;
  readonly bias: LTensor | undefined;
}

export function layerNormOf(ctx: LowerContext, p: Trailing): { y: LTensor; norm: Normalised } {
  const { x, scale, bias } = p;
  checkScale(ctx, x, scale, 'weight');
  checkScale(ctx, x, bias, 'bias');
  const norm = normalise(ctx, extentOf(x, p.axes, true), ctx.float('epsilon', 1e-5));
  const dtype = floatResult(x.dtype);
  const y = ctx.pointwise(x.shape, dtype, (index) =>
    cast(
      affine(norm.at(index), scale && atBroadcast(scale, index), bias && atBroadcast(bias, index)),
      dtype,
    ),
  );
  return { y, norm };
}

function rmsNormOf(ctx: LowerContext, p: Trailing): { y: LTensor; inverse: LTensor } {
  const { x, scale } = p;
  checkScale(ctx, x, scale, 'weight');
  const e = extentOf(x, p.axes, true);
  const t = computeFloat(x.dtype);
  const eps = constant(ctx.float('epsilon', 1e-5), t);
  const sum = reduceOver(ctx, e, 'sum', (v) => times(cast(v, t), cast(v, t)));
  const inverse = ctx.pointwise(e.shape, t, (index) =>
    unary('rsqrt', plus(over(sum.at(index), countAs(e.over, t)), eps)),
  );
  const dtype = floatResult(x.dtype);
  const y = ctx.pointwise(x.shape, dtype, (index) => {
    const v = times(cast(x.at(index), t), inverse.at(e.place(index)));
    return cast(affine(v, scale && atBroadcast(scale, index), undefined), dtype);
  });
  return { y, inverse };
}

function operand(ctx: LowerContext, i: number): LTensor | undefined {
  return i < ctx.arity ? ctx.optional(i) : undefined;
}

/** The results that the node names, of those that the op has. */
function named(ctx: LowerContext, results: readonly LTensor[]): readonly LTensor[] {
  return results.slice(0, Math.max(1, ctx.node.results.length));
}

function layerNorm(ctx: LowerContext): readonly LTensor[] {
  const x = ctx.input(0);
  const axes = trailingAxes(ctx, x);
  const { y, norm } = layerNormOf(ctx, {
    x,
    axes,
    scale: operand(ctx, 1),
    bias: operand(ctx, 2),
  });
  return named(ctx, [y, norm.mean, norm.inverse]);
}

function rmsNorm(ctx: LowerContext): readonly LTensor[] {
  const x = ctx.input(0);
  const axes = trailingAxes(ctx, x);
  const { y, inverse } = rmsNormOf(ctx, { x, axes, scale: operand(ctx, 1), bias: undefined });
  return named(ctx, [y, inverse]);
}

/** ONNX Runtime's fused residual: a norm of input + skip + bias over the last dim, and the sum itself. */
function skipNorm(ctx: LowerContext, rms: boolean): readonly LTensor[] {
  const x = ctx.input(0);
  const skip = ctx.input(1);
  const bias = operand(ctx, rms ? 3 : 4);
  checkScale(ctx, x, skip, 'skip');
  checkScale(ctx, x, bias, 'bias');
  const t = computeFloat(x.dtype);
  const sum = ctx.pointwise(x.shape, x.dtype, (index) => {
    const both = plus(cast(x.at(index), t), cast(atBroadcast(skip, index), t));
    return cast(bias ? plus(both, cast(atBroadcast(bias, index), t)) : both, x.dtype);
  });
  const p: Trailing = {
    x: sum,
    axes: [ctx.axis(-1, x.shape.length)],
    scale: operand(ctx, 2),
    bias: rms ? undefined : operand(ctx, 3),
  };
  if (rms) {
    const { y, inverse } = rmsNormOf(ctx, p);
    const mean = meanOver(ctx, extentOf(sum, p.axes, true));
    return named(ctx, [y, mean, inverse, sum]);
  }
  const { y, norm } = layerNormOf(ctx, p);
  return named(ctx, [y, norm.mean, norm.inverse, sum]);
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

export function groupNorm(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const channels = channelsOf(ctx, x);
  const groups = ctx.int('num_groups');
  const width =
    (groups > 0 ? exactDiv(channels, groups) : undefined) ??
    ctx.fail(
      'SHAPE_MISMATCH',
      `${printIndex(channels)} channels of ${printShape(x.shape)} can't be split into ${groups} equal groups`,
    );
  const scale = operand(ctx, 1);
  const bias = operand(ctx, 2);
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
  const scale = operand(ctx, 1);
  const bias = operand(ctx, 2);
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
  const at = (i: number): LTensor | undefined => operand(ctx, i);
  const [scale, bias, mean, variance] = fromOnnx(ctx)
    ? [at(1), at(2), at(3), at(4)]
    : [at(3), at(4), at(1), at(2)];
  // Until opset 9 there could be one of each for every element of a sample.
  const perElement = fromOnnx(ctx) && ctx.int('opset') < 9 && !ctx.bool('spatial', true);
  if (perElement) {
    for (const t of [scale, bias, mean, variance])
      if (t && broadcastShapes(ctx, [t.shape, x.shape.slice(1)]).length > x.shape.length - 1)
        ctx.fail(
          'SHAPE_MISMATCH',
          `with spatial=0 the shape ${printShape(t.shape)} must be that of a sample, ${printShape(x.shape.slice(1))}`,
        );
  } else {
    for (const [t, what] of [
      [scale, 'weight'],
      [bias, 'bias'],
      [mean, 'mean'],
      [variance, 'variance'],
    ] as const)
      perChannel(ctx, t, channels, what);
  }
  const dtype = floatResult(x.dtype);
  const t = computeFloat(x.dtype);
  const eps = ctx.float('epsilon', 1e-5);
  if (ctx.bool('training_mode', false)) {
    return batchNormTraining(ctx, x, axis, eps, { scale, bias, mean, variance });
  }
  const m = mean ?? ctx.fail('MISSING_OPERAND', 'the mean is missing');
  const v = variance ?? ctx.fail('MISSING_OPERAND', 'the variance is missing');
  const y = ctx.pointwise(x.shape, dtype, (index) => {
    const c = perElement ? index.slice(1) : [index[axis] ?? num(0)];
    const of = (p: LTensor): Expr => (perElement ? atBroadcast(p, c) : p.at(c));
    const inverse = unary('rsqrt', plus(cast(of(v), t), constant(eps, t)));
    const centred = minus(cast(x.at(index), t), cast(of(m), t));
    return cast(affine(times(centred, inverse), scale && of(scale), bias && of(bias)), dtype);
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

export const normalizationOps: readonly OpDef[] = [
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
    name: 'skip_layer_norm',
    onnx: ['com.microsoft:SkipLayerNormalization'],
    lower: (ctx) => skipNorm(ctx, false),
  },
  {
    name: 'skip_rms_norm',
    onnx: ['com.microsoft:SkipSimplifiedLayerNormalization'],
    lower: (ctx) => skipNorm(ctx, true),
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
          optionalParam('training', 'bool', false),
          // Of the running moments, which a graph doesn't give back.
          optionalParam('momentum', 'float', 0.1),
          EPS(1e-5),
        ],
        attrs: (args) =>
          attrsOf({
            epsilon: number(args['eps']),
            training_mode: args['training'] === true ? true : undefined,
          }),
        doc: '(x - mean) / sqrt(var + eps) per channel, scaled and shifted; in training by the moments of x',
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
