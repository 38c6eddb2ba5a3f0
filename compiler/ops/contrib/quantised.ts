/**
 * Ops of quantised tensors, in ONNX Runtime's domain.
 *
 * Most are a float op between a dequantisation and a quantisation, and lower to just that: what of it is
 * calculated where is the plan's to decide.
 *
 * Vocabulary
 *  - *quantised operand*: three operands of the node, a tensor, its scale and its zero point, for the
 *    tensor of reals (q - zero point) · scale.
 */
import { cast, constant, type Expr, select, unary, binary } from '../../ir/expr';
import * as I from '../../ir/indexExpr';
import type { IndexExpr } from '../../ir/indexExpr';
import { sigmoid } from '../activation';
import { lowerGemm, matmul, matmulZero } from '../contractions';
import { concat } from '../joining';
import type { LowerContext, LTensor, OpDef } from '../op';
import { lowerAveragePool, lowerGlobalAveragePool } from '../pooling';
import { at, below, greatest, minus, over, plus, times } from '../products';
import { lowerMean } from '../reductions';
import { saturate } from '../quantization';
import { atBroadcast, broadcastShapes, requireBroadcast, scalarElement } from '../shared';
import { lowerSoftmax } from '../softmax';
import { MS, optionalOperand } from './domain';
import { channelsLast } from './layouts';

/** (A - zero) · (B - zero), times both scales, plus a bias: a float. */
function lowerMatmulToFloat(ctx: LowerContext): LTensor {
  const [a, b] = [ctx.input(0), ctx.input(1)];
  const left = matmulZero(ctx, a, ctx.optional(4), 'left', 'a_zero_point');
  const right = matmulZero(ctx, b, ctx.optional(5), 'right', 'b_zero_point');
  return scaledProduct(
    ctx,
    matmul(ctx, a, b, 'i32', left, right),
    ctx.input(2),
    ctx.input(3),
    ctx.optional(6),
  );
}

function scaledProduct(
  ctx: LowerContext,
  sum: LTensor,
  scaleA: LTensor,
  scaleB: LTensor,
  bias: LTensor | undefined,
): LTensor {
  requireBroadcast(ctx, scaleA, sum.shape, 'the scale of the left matrix');
  requireBroadcast(ctx, scaleB, sum.shape, 'the scale of the right matrix');
  if (bias) requireBroadcast(ctx, bias, sum.shape, 'the bias');
  return ctx.pointwise(sum.shape, 'f32', (index) => {
    const scale = times(
      cast(atBroadcast(scaleA, index), 'f32'),
      cast(atBroadcast(scaleB, index), 'f32'),
    );
    const y = times(cast(sum.at(index), 'f32'), scale);
    return bias ? plus(y, cast(atBroadcast(bias, index), 'f32')) : y;
  });
}

/** A quantised by its own range, to unsigned 8 bits; then as above. */
function lowerDynamicMatmul(ctx: LowerContext): LTensor {
  const [a, b, scaleB] = [ctx.input(0), ctx.input(1), ctx.input(2)];
  if (a.dtype !== 'f32')
    ctx.fail('BAD_DTYPE', `the left matrix is quantised here: it must be f32, not ${a.dtype}`);
  const extreme = (monoid: 'min' | 'max'): LTensor =>
    ctx.reduce({ shape: [], over: a.shape, monoid }, (_, r) => a.at(r));
  const [low, high] = [extreme('min'), extreme('max')];
  const scale = ctx.pointwise([], 'f32', () => {
    const span = minus(
      greatest(high.at([]), 0),
      unary('neg', greatest(unary('neg', low.at([])), 0)),
    );
    const s = over(span, 255);
    return select(binary('eq', s, constant(0, 'f32')), constant(1, 'f32'), s);
  });
  const zero = ctx.pointwise([], 'u8', () =>
    saturate(ctx, unary('round', over(greatest(unary('neg', low.at([])), 0), scale.at([]))), 'u8'),
  );
  const q = ctx.pointwise(a.shape, 'u8', (index) => {
    const v = unary('round', over(a.at(index), scale.at([])));
    return saturate(ctx, plus(v, cast(zero.at([]), 'f32')), 'u8');
  });
  const left = matmulZero(ctx, q, zero, 'left', 'the zero point of A');
  const right = matmulZero(ctx, b, ctx.optional(3), 'right', 'b_zero_point');
  return scaledProduct(ctx, matmul(ctx, q, b, 'i32', left, right), scale, scaleB, ctx.optional(4));
}

/** Operand i with its scale and zero point, which follow it, as reals: stored nowhere. */
function reals(ctx: LowerContext, i: number): LTensor {
  const [x, scale, zero] = [ctx.input(i), ctx.input(i + 1), optionalOperand(ctx, i + 2)];
  const s = scalarElement(ctx, scale, 'a scale');
  const z = zero && cast(scalarElement(ctx, zero, 'a zero point'), 'i32');
  return {
    dtype: 'f32',
    shape: x.shape,
    at: (index) => {
      const v = cast(x.at(index), 'i32');
      return times(cast(z ? minus(v, z) : v, 'f32'), cast(s, 'f32'));
    },
  };
}

/** Reals at a scale and a zero point, operands i and i + 1. */
function quantised(ctx: LowerContext, y: LTensor, i: number, like: LTensor): LTensor {
  const scale = cast(scalarElement(ctx, ctx.input(i), 'the scale of the result'), 'f32');
  const zero = optionalOperand(ctx, i + 1);
  const dtype = zero?.dtype ?? like.dtype;
  const z = zero && cast(scalarElement(ctx, zero, 'the zero point of the result'), 'f32');
  return ctx.pointwise(y.shape, dtype, (index) => {
    const v = unary('round', over(cast(y.at(index), 'f32'), scale));
    return saturate(ctx, z ? plus(v, z) : v, dtype);
  });
}

/** An op of one float tensor, on a quantised one: x, scale, zero, scale and zero of the result. */
function around(lower: (ctx: LowerContext) => LTensor): (ctx: LowerContext) => LTensor {
  return (ctx) => quantised(ctx, lower(ctx.derive([reals(ctx, 0)])), 3, ctx.input(0));
}

/** A float function of quantised tensors, element by element. */
function pointwise(
  ctx: LowerContext,
  tensors: readonly LTensor[],
  result: number,
  like: LTensor,
  f: (x: readonly Expr[]) => Expr,
): LTensor {
  const shape = broadcastShapes(
    ctx,
    tensors.map((t) => t.shape),
  );
  const y: LTensor = {
    dtype: 'f32',
    shape,
    at: (index) => f(tensors.map((t) => atBroadcast(t, index))),
  };
  return quantised(ctx, y, result, like);
}

function elementwise(tensors: 1 | 2, f: (ctx: LowerContext, x: readonly Expr[]) => Expr) {
  return (ctx: LowerContext): LTensor => {
    const operands = tensors === 1 ? [reals(ctx, 0)] : [reals(ctx, 0), reals(ctx, 3)];
    return pointwise(ctx, operands, 3 * tensors, ctx.input(0), (x) => f(ctx, x));
  };
}

/** Condition, x with scale and zero, y with scale and zero, scale and zero of the result. */
function lowerQuantisedWhere(ctx: LowerContext): LTensor {
  const tensors = [ctx.input(0), reals(ctx, 1), reals(ctx, 4)];
  return pointwise(ctx, tensors, 7, ctx.input(1), ([c, x, y]) =>
    select(element(c), element(x), element(y)),
  );
}

function element(e: Expr | undefined): Expr {
  return e ?? constant(0, 'f32');
}

/** Scale and zero point of the result, then the quantised tensors. */
function lowerQuantisedConcat(ctx: LowerContext): LTensor {
  const tensors: LTensor[] = [];
  for (let i = 2; i < ctx.arity; i += 3) tensors.push(reals(ctx, i));
  return quantised(ctx, concat(ctx, tensors, ctx.int('axis')), 0, ctx.input(2));
}

/** alpha · (A · B) + C of quantised matrices; without a scale for it the result is a float. */
function lowerQuantisedGemm(ctx: LowerContext): LTensor {
  const c = optionalOperand(ctx, 6);
  const [a, b] = [ctx.input(0), ctx.input(3)];
  const left = shiftedInteger(ctx, a, optionalOperand(ctx, 2), undefined);
  // Scale and zero point of B are one number, or one a column of the product.
  const columns = ctx.bool('transB', false) ? 0 : 1;
  const right = shiftedInteger(ctx, b, optionalOperand(ctx, 5), columns);
  const plain = { ...ctx.node.attrs, alpha: 1, beta: 1 };
  const product = lowerGemm(ctx.derive([left, right, undefined], plain));
  const alpha = ctx.float('alpha', 1);
  const [scaleA, scaleB] = [ctx.input(1), ctx.input(4)];
  if (c) requireBroadcast(ctx, c, product.shape, 'the addend');
  const perColumn = (t: LTensor, column: IndexExpr): Expr =>
    t.shape.every((d) => I.isConst(d, 1)) ? scalarElement(ctx, t, 'a scale') : t.at([column]);
  // C is at the scale of the product, in 32 bits.
  const y: LTensor = {
    dtype: 'f32',
    shape: product.shape,
    at: (index) => {
      const sum = c ? plus(product.at(index), atBroadcast(c, index)) : product.at(index);
      const scale = times(
        scalarElement(ctx, scaleA, 'the scale of A'),
        perColumn(scaleB, at(index, 1)),
      );
      return times(times(cast(sum, 'f32'), cast(scale, 'f32')), alpha);
    },
  };
  return optionalOperand(ctx, 7)
    ? quantised(ctx, y, 7, a)
    : ctx.pointwise(y.shape, 'f32', (index) => y.at(index));
}

/** q less its zero point, exact in 32 bits; `axis`: the dim along which there may be several. */
function shiftedInteger(
  ctx: LowerContext,
  q: LTensor,
  zero: LTensor | undefined,
  axis: number | undefined,
): LTensor {
  const single = zero?.shape.every((d) => I.isConst(d, 1));
  if (zero && !single && axis === undefined)
    ctx.unsupported(`zero points of shape ${I.printShape(zero.shape)} for the left matrix`);
  return {
    dtype: 'i32',
    shape: q.shape,
    at: (index) => {
      const v = cast(q.at(index), 'i32');
      if (!zero) return v;
      const z =
        single || axis === undefined
          ? scalarElement(ctx, zero, 'a zero point')
          : zero.at([at(index, axis)]);
      return minus(v, cast(z, 'i32'));
    },
  };
}

/** Softmax as it was in the version of ONNX that the node names: of an axis, or of all dims from it on. */
function softmax(ctx: LowerContext): LTensor {
  const flatten2d = ctx.int('opset', 13) < 13;
  return lowerSoftmax(ctx.derive([ctx.input(0)], { ...ctx.node.attrs, flatten2d }));
}

export const quantisedOps: readonly OpDef[] = [
  {
    name: 'matmul_integer_to_float',
    onnx: [`${MS}:MatMulIntegerToFloat`],
    lower: lowerMatmulToFloat,
  },
  {
    name: 'dynamic_quantize_matmul',
    onnx: [`${MS}:DynamicQuantizeMatMul`],
    lower: lowerDynamicMatmul,
  },
  {
    name: 'qlinear_add',
    onnx: [`${MS}:QLinearAdd`],
    lower: elementwise(2, (_, [a, b]) => plus(element(a), element(b))),
  },
  {
    name: 'qlinear_mul',
    onnx: [`${MS}:QLinearMul`],
    lower: elementwise(2, (_, [a, b]) => times(element(a), element(b))),
  },
  {
    name: 'qlinear_sigmoid',
    onnx: [`${MS}:QLinearSigmoid`],
    lower: elementwise(1, (_, [a]) => sigmoid(element(a))),
  },
  {
    name: 'qlinear_leaky_relu',
    onnx: [`${MS}:QLinearLeakyRelu`],
    lower: elementwise(1, (ctx, [a]) => {
      const x = element(a);
      return select(below(x, 0), times(x, ctx.float('alpha', 0.01)), x);
    }),
  },
  { name: 'qlinear_where', onnx: [`${MS}:QLinearWhere`], lower: lowerQuantisedWhere },
  { name: 'qlinear_concat', onnx: [`${MS}:QLinearConcat`], lower: lowerQuantisedConcat },
  { name: 'qlinear_softmax', onnx: [`${MS}:QLinearSoftmax`], lower: around(softmax) },
  { name: 'qlinear_mean', onnx: [`${MS}:QLinearReduceMean`], lower: around(lowerMean) },
  {
    name: 'qlinear_average_pool',
    onnx: [`${MS}:QLinearAveragePool`],
    lower: around((ctx) => channelsLast(ctx, lowerAveragePool)),
  },
  {
    name: 'qlinear_global_average_pool',
    onnx: [`${MS}:QLinearGlobalAveragePool`],
    lower: around((ctx) => channelsLast(ctx, lowerGlobalAveragePool)),
  },
  { name: 'qgemm', onnx: [`${MS}:QGemm`], lower: lowerQuantisedGemm },
];
