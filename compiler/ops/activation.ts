/**
 * Activation functions, each calculated in f32 (f64 for f64) and rounded once to its operand's dtype.
 *
 * Attribute names and defaults are ONNX's. The `.fuse` forms have PyTorch's names and set the
 * attributes where PyTorch's defaults differ.
 */
import type { Attrs } from '../graph/graph';
import { binary, cast, type Expr, select, unary } from '../ir/expr';
import { add, exactDiv, num, printShape } from '../ir/indexExpr';
import type { FuseParam, LowerContext, LTensor, OpDef } from './op';
import {
  atBroadcast,
  computeFloat,
  element,
  elementwise,
  floatResult,
  greatest,
  inFloat,
  least,
  like,
  minus,
  optionalParam,
  over,
  plus,
  promote,
  tensorParam,
  times,
  axisParam,
  requireBroadcast,
} from './shared';

const X = tensorParam('input', 'x', 'self');

// ---------------------------------------------------------------------------------------------
// The functions

const exp = (x: Expr): Expr => unary('exp', x);
const neg = (x: Expr): Expr => unary('neg', x);

/** 1 / (1 + e^-x) */
export function sigmoid(x: Expr): Expr {
  return over(like(x, 1), plus(like(x, 1), exp(neg(x))));
}

/** log(1 + e^x), without overflow: max(x, 0) + log1p(e^-|x|). */
export function softplus(x: Expr): Expr {
  return plus(greatest(x, like(x, 0)), unary('log1p', exp(neg(unary('abs', x)))));
}

/** x sigmoid(alpha x) */
export function swish(x: Expr, alpha: number): Expr {
  return times(x, sigmoid(alpha === 1 ? x : times(like(x, alpha), x)));
}

/** x Φ(x): exactly by erf, or by the tanh approximation. */
export function gelu(x: Expr, tanh: boolean): Expr {
  const half = times(like(x, 0.5), x);
  if (!tanh) {
    return times(half, plus(like(x, 1), unary('erf', times(x, like(x, Math.SQRT1_2)))));
  }
  const cubic = plus(x, times(like(x, 0.044715), times(x, times(x, x))));
  const inner = times(like(x, Math.sqrt(2 / Math.PI)), cubic);
  return times(half, plus(like(x, 1), unary('tanh', inner)));
}

function positive(x: Expr): Expr {
  return binary('gt', x, like(x, 0));
}

function elu(x: Expr, alpha: number): Expr {
  return select(positive(x), x, times(like(x, alpha), unary('expm1', x)));
}

function between(x: Expr, lo: number, hi: number): Expr {
  return least(greatest(x, like(x, lo)), like(x, hi));
}

function hardSigmoid(x: Expr, alpha: number, beta: number): Expr {
  return between(plus(times(like(x, alpha), x), like(x, beta)), 0, 1);
}

function shrink(x: Expr, lambd: number, bias: number): Expr {
  const above = select(binary('gt', x, like(x, lambd)), minus(x, like(x, bias)), like(x, 0));
  return select(binary('lt', x, like(x, -lambd)), plus(x, like(x, bias)), above);
}

// ---------------------------------------------------------------------------------------------
// The table

interface Row {
  readonly name: string;
  readonly onnx?: readonly string[];
  readonly names?: readonly string[];
  /** Parameters of the `.fuse` form after the operand. */
  readonly params?: readonly FuseParam[];
  /** Attributes that the `.fuse` form sets where PyTorch's defaults aren't ONNX's. */
  readonly preset?: Attrs;
  readonly doc: string;
}

function activation(row: Row, f: (ctx: LowerContext) => (x: Expr) => Expr): OpDef {
  const preset = row.preset;
  return {
    name: row.name,
    ...(row.onnx ? { onnx: row.onnx } : {}),
    fuse: [
      {
        names: [row.name, ...(row.names ?? [])],
        params: [X, ...(row.params ?? [])],
        ...(preset ? { attrs: () => preset } : {}),
        doc: row.doc,
      },
    ],
    lower: (ctx) => {
      const x = ctx.input(0);
      const dtype = floatResult(x.dtype);
      const of = f(ctx);
      return elementwise(ctx, [x], dtype, ([e]) => inFloat(element(e), dtype, of));
    },
  };
}

const alphaParam = (fallback: number, ...aliases: string[]): FuseParam =>
  optionalParam('alpha', 'float', fallback, ...aliases);

const simpleOps: readonly OpDef[] = [
  {
    name: 'relu',
    onnx: ['Relu'],
    fuse: [{ names: ['relu'], params: [X], doc: 'max(x, 0)' }],
    lower: (ctx) => {
      const x = ctx.input(0);
      return elementwise(ctx, [x], x.dtype, ([e]) => greatest(element(e), like(element(e), 0)));
    },
  },
  activation({ name: 'relu6', doc: 'x held between 0 and 6' }, () => (x) => between(x, 0, 6)),
  activation(
    {
      name: 'leaky_relu',
      onnx: ['LeakyRelu'],
      names: ['leakyrelu'],
      params: [alphaParam(0.01, 'negative_slope')],
      doc: 'x, or alpha x below 0',
    },
    (ctx) => {
      const alpha = ctx.float('alpha', 0.01);
      return (x) => select(binary('lt', x, like(x, 0)), times(like(x, alpha), x), x);
    },
  ),
  activation(
    { name: 'elu', onnx: ['Elu'], params: [alphaParam(1)], doc: 'x, or alpha (e^x - 1) below 0' },
    (ctx) => {
      const alpha = ctx.float('alpha', 1);
      return (x) => elu(x, alpha);
    },
  ),
  activation({ name: 'selu', onnx: ['Selu'], doc: 'scaled elu' }, (ctx) => {
    const alpha = ctx.float('alpha', 1.6732632423543772);
    const gamma = ctx.float('gamma', 1.0507009873554805);
    return (x) => times(like(x, gamma), elu(x, alpha));
  }),
  activation(
    {
      name: 'celu',
      onnx: ['Celu'],
      params: [alphaParam(1)],
      doc: 'max(x, 0) + min(alpha (e^(x/alpha) - 1), 0)',
    },
    (ctx) => {
      const alpha = ctx.float('alpha', 1);
      return (x) => {
        const low = times(like(x, alpha), unary('expm1', over(x, like(x, alpha))));
        return plus(greatest(x, like(x, 0)), least(low, like(x, 0)));
      };
    },
  ),
  activation(
    {
      name: 'gelu',
      onnx: ['Gelu', 'com.microsoft:Gelu'],
      params: [optionalParam('approximate', 'str', 'none')],
      doc: 'x Φ(x); approximate="tanh" for the tanh form',
    },
    (ctx) => {
      const form = ctx.str('approximate', 'none');
      if (form !== 'none' && form !== 'tanh')
        ctx.fail('BAD_ATTRIBUTE', `'approximate' must be "none" or "tanh", not "${form}"`);
      return (x) => gelu(x, form === 'tanh');
    },
  ),
  activation(
    { name: 'quick_gelu', onnx: ['com.microsoft:QuickGelu'], doc: 'x sigmoid(1.702 x)' },
    (ctx) => {
      const alpha = ctx.float('alpha', 1.702);
      return (x) => swish(x, alpha);
    },
  ),
  activation(
    { name: 'sigmoid', onnx: ['Sigmoid'], names: ['logistic'], doc: '1 / (1 + e^-x)' },
    () => sigmoid,
  ),
  activation(
    { name: 'log_sigmoid', names: ['logsigmoid'], doc: 'log(sigmoid(x))' },
    () => (x) => neg(softplus(neg(x))),
  ),
  activation(
    {
      name: 'hard_sigmoid',
      onnx: ['HardSigmoid'],
      names: ['hardsigmoid'],
      preset: { alpha: 1 / 6, beta: 0.5 },
      doc: 'x / 6 + 1/2 held between 0 and 1',
    },
    (ctx) => {
      const alpha = ctx.float('alpha', 0.2);
      const beta = ctx.float('beta', 0.5);
      return (x) => hardSigmoid(x, alpha, beta);
    },
  ),
  activation(
    {
      name: 'hard_swish',
      onnx: ['HardSwish'],
      names: ['hardswish'],
      doc: 'x times x / 6 + 1/2 held between 0 and 1',
    },
    () => (x) => times(x, hardSigmoid(x, 1 / 6, 0.5)),
  ),
  activation(
    { name: 'mish', onnx: ['Mish'], doc: 'x tanh(softplus(x))' },
    () => (x) => times(x, unary('tanh', softplus(x))),
  ),
  activation(
    {
      name: 'softplus',
      onnx: ['Softplus'],
      // Beyond the threshold PyTorch gives x itself, which is what the formula rounds to.
      params: [optionalParam('beta', 'float', 1), optionalParam('threshold', 'float')],
      doc: 'log(1 + e^(beta x)) / beta',
    },
    (ctx) => {
      const beta = ctx.float('beta', 1);
      return (x) =>
        beta === 1 ? softplus(x) : over(softplus(times(like(x, beta), x)), like(x, beta));
    },
  ),
  activation(
    { name: 'softsign', onnx: ['Softsign'], doc: 'x / (1 + |x|)' },
    () => (x) => over(x, plus(like(x, 1), unary('abs', x))),
  ),
  activation(
    {
      name: 'silu',
      onnx: ['Swish'],
      names: ['swish'],
      params: [alphaParam(1)],
      doc: 'x sigmoid(alpha x)',
    },
    (ctx) => {
      const alpha = ctx.float('alpha', 1);
      return (x) => swish(x, alpha);
    },
  ),
  activation(
    {
      name: 'thresholded_relu',
      onnx: ['ThresholdedRelu'],
      params: [alphaParam(1, 'threshold')],
      doc: 'x above alpha, else 0',
    },
    (ctx) => {
      const alpha = ctx.float('alpha', 1);
      return (x) => select(binary('gt', x, like(x, alpha)), x, like(x, 0));
    },
  ),
  activation(
    {
      name: 'shrink',
      onnx: ['Shrink'],
      names: ['hardshrink'],
      params: [optionalParam('lambd', 'float', 0.5), optionalParam('bias', 'float', 0)],
      doc: 'x moved towards 0 by bias, and 0 within lambd of 0',
    },
    (ctx) => {
      const lambd = ctx.float('lambd', 0.5);
      const bias = ctx.float('bias', 0);
      return (x) => shrink(x, lambd, bias);
    },
  ),
  activation(
    {
      name: 'softshrink',
      params: [optionalParam('lambd', 'float', 0.5)],
      doc: 'x moved towards 0 by lambd, and 0 within lambd of 0',
    },
    (ctx) => {
      const lambd = ctx.float('lambd', 0.5);
      return (x) => shrink(x, lambd, lambd);
    },
  ),
];

/** A gate times a value, both of one shape. */
function gated(ctx: LowerContext, gate: (x: Expr) => Expr): LTensor {
  const a = ctx.input(0);
  const b = ctx.input(1);
  const dtype = floatResult(promote([a, b]));
  return elementwise(ctx, [a, b], dtype, ([p, q]) => {
    const t = computeFloat(dtype);
    return times(gate(cast(element(p), t)), cast(element(q), t));
  });
}

/** The first half along an axis times a gate of the second half. */
function glu(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const axis = ctx.axis(ctx.int('axis', -1), x.shape.length);
  const whole = x.shape[axis] ?? num(1);
  const half =
    exactDiv(whole, 2) ??
    ctx.fail(
      'SHAPE_MISMATCH',
      `dim ${axis} of ${printShape(x.shape)} must be even, to be split in halves`,
    );
  const dtype = floatResult(x.dtype);
  const shape = x.shape.map((d, i) => (i === axis ? half : d));
  const later = ctx.view(shape, x, (index) => index.map((v, i) => (i === axis ? add(v, half) : v)));
  return ctx.pointwise(shape, dtype, (index) => {
    const t = computeFloat(dtype);
    return cast(times(cast(x.at(index), t), sigmoid(cast(later.at(index), t))), dtype);
  });
}

/** gelu(x + bias); the bias may be left out. */
function biasGelu(name: string, onnx: string, tanh: boolean): OpDef {
  return {
    name,
    onnx: [onnx],
    lower: (ctx) => {
      const x = ctx.input(0);
      const bias = ctx.arity > 1 ? ctx.optional(1) : undefined;
      if (bias) requireBroadcast(ctx, bias, x.shape, 'the bias');
      const dtype = floatResult(x.dtype);
      return ctx.pointwise(x.shape, dtype, (index) =>
        inFloat(x.at(index), dtype, (e) =>
          gelu(bias ? plus(e, cast(atBroadcast(bias, index), e.dtype)) : e, tanh),
        ),
      );
    },
  };
}

const gatedOps: readonly OpDef[] = [
  {
    name: 'swiglu',
    onnx: ['SwiGLU'],
    fuse: [
      {
        names: ['swiglu'],
        params: [tensorParam('gate', 'a'), tensorParam('value', 'b'), alphaParam(1)],
        doc: 'silu(gate) * value',
      },
    ],
    lower: (ctx) => {
      const alpha = ctx.float('alpha', 1);
      return gated(ctx, (x) => swish(x, alpha));
    },
  },
  {
    name: 'geglu',
    fuse: [
      {
        names: ['geglu'],
        params: [tensorParam('gate', 'a'), tensorParam('value', 'b')],
        doc: 'gelu(gate) * value',
      },
    ],
    lower: (ctx) => gated(ctx, (x) => gelu(x, false)),
  },
  {
    name: 'glu',
    fuse: [
      {
        names: ['glu'],
        params: [X, axisParam(-1)],
        doc: 'the first half along the axis times sigmoid of the second',
      },
    ],
    lower: glu,
  },
  biasGelu('bias_gelu', 'com.microsoft:BiasGelu', false),
  biasGelu('fast_gelu', 'com.microsoft:FastGelu', true),
];

export const activationOps: readonly OpDef[] = [...simpleOps, ...gatedOps];
