/**
 * Quantisation: between floats and narrow integers, and integer products of quantised tensors.
 *
 * Vocabulary
 *  - *scale* and *zero point*: real = (quantised - zero point) * scale. Per tensor, per slice of an
 *    axis, or per block of an axis.
 *  - *requantise*: bring the 32-bit sum of an integer product to the result's scale, rounded to
 *    nearest (ties to even) and saturated.
 */
import { type DType, integerRange } from '../graph/dtype';
import { cast, constant, type Expr, select, unary } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import { matmul, matmulZero } from './contractions';
import { quantizedConvSum } from './convolution';
import type { LowerContext, LTensor, OpDef } from './op';
import { at, clamp, equals, greatest, least, minus, over, plus, times } from './products';
import {
  attrsOf,
  computeFloat,
  dtypeAttr,
  optionalParam,
  optionalTensor,
  plainAttr,
  scalarElement,
  tensorParam,
} from './shared';

/** How a scale or zero point is laid over the operand. */
type Spread = (t: LTensor, index: readonly IndexExpr[]) => Expr;

function spreadOf(ctx: LowerContext, x: LTensor, scale: LTensor): Spread {
  const rank = x.shape.length;
  if (scale.shape.every((d) => I.isConst(d, 1)) && scale.shape.length <= 1) {
    return (t) => t.at(t.shape.map(() => I.num(0)));
  }
  const axis = ctx.axis(ctx.int('axis', 1), Math.max(rank, 1));
  const block = ctx.int('block_size', 0);
  if (block > 0) {
    if (scale.shape.length !== rank) {
      ctx.fail(
        'SHAPE_MISMATCH',
        `with block_size ${block} the scale must have the rank of the operand ${I.printShape(x.shape)}; it is ${I.printShape(scale.shape)}`,
      );
    }
    scale.shape.forEach((d, i) => {
      const n = at(x.shape, i);
      ctx.requireEqual(d, i === axis ? I.ceilDiv(n, block) : n, `dim ${i} of the scale of blocks`);
    });
    return (t, index) => t.at(index.map((i, d) => (d === axis ? I.floorDiv(i, block) : i)));
  }
  if (scale.shape.length !== 1) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `the scale has shape ${I.printShape(scale.shape)}; it must be a single number, one per slice of the axis, or (with block_size) one per block`,
    );
  }
  ctx.requireEqual(
    at(scale.shape, 0),
    at(x.shape, axis),
    `the scale and dim ${axis} of the operand ${I.printShape(x.shape)}`,
  );
  return (t, index) => t.at([at(index, axis)]);
}

function requireAlike(ctx: LowerContext, zero: LTensor | undefined, scale: LTensor): void {
  if (!zero) return;
  const alike =
    zero.shape.length === scale.shape.length &&
    zero.shape.every((d, i) => I.same(d, at(scale.shape, i)));
  const single = [zero, scale].every((t) => t.shape.every((d) => I.isConst(d, 1)));
  if (!alike && !single) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `the zero point ${I.printShape(zero.shape)} and the scale ${I.printShape(scale.shape)} must have one shape`,
    );
  }
}

/** Rounds a float to nearest even and saturates it to the integer type. */
export function saturate(ctx: LowerContext, e: Expr, dtype: DType): Expr {
  const range = integerRange(dtype);
  if (!range || dtype === 'bool') {
    ctx.unsupported(
      `quantisation to ${dtype}: the supported types are i4, u4, i8, u8, i16 and u16`,
    );
  }
  return cast(cast(clamp(e, range[0], range[1]), 'i32'), dtype);
}

/** The dtype that was asked for: a name in `.fuse`, a number in ONNX, where 0 stands for none. */
function wantedDtype(ctx: LowerContext): DType | undefined {
  const given = ctx.node.attrs['output_dtype'];
  return given === undefined || given === 0 ? undefined : dtypeAttr(ctx, 'output_dtype');
}

function lowerQuantize(ctx: LowerContext): LTensor {
  const [x, scale, zero] = [ctx.input(0), ctx.input(1), ctx.optional(2)];
  requireAlike(ctx, zero, scale);
  const wanted = wantedDtype(ctx);
  const dtype = zero?.dtype ?? wanted ?? 'u8';
  if (wanted && zero && wanted !== zero.dtype) {
    ctx.fail('DTYPE', `output_dtype is ${wanted} but the zero point is ${zero.dtype}`);
  }
  const spread = spreadOf(ctx, x, scale);
  const acc = computeFloat(x.dtype);
  return ctx.pointwise(x.shape, dtype, (index) => {
    const scaled = over(cast(x.at(index), acc), cast(spread(scale, index), acc));
    const rounded = unary('round', scaled);
    const shifted = zero ? plus(rounded, cast(spread(zero, index), acc)) : rounded;
    return saturate(ctx, shifted, dtype);
  });
}

function lowerDequantize(ctx: LowerContext): LTensor {
  const [x, scale, zero] = [ctx.input(0), ctx.input(1), ctx.optional(2)];
  requireAlike(ctx, zero, scale);
  const dtype = wantedDtype(ctx) ?? scale.dtype;
  const spread = spreadOf(ctx, x, scale);
  const acc = computeFloat(scale.dtype);
  return ctx.pointwise(x.shape, dtype, (index) => {
    // The difference of two narrow integers is exact in 32 bits; of 32-bit ones there is no zero point.
    const v = cast(x.at(index), 'i32');
    const shifted = zero ? minus(v, cast(spread(zero, index), 'i32')) : v;
    return cast(times(cast(shifted, acc), cast(spread(scale, index), acc)), dtype);
  });
}

/** Scale and zero point from the data's own range, to unsigned 8 bits. */
function lowerDynamicQuantize(ctx: LowerContext): readonly LTensor[] {
  const x = ctx.input(0);
  const extreme = (monoid: 'min' | 'max'): LTensor =>
    ctx.reduce({ shape: [], over: x.shape, monoid, dtype: 'f32' }, (_, r) => cast(x.at(r), 'f32'));
  const [low, high] = [extreme('min'), extreme('max')];
  const range = (): { lo: Expr; hi: Expr } => ({
    lo: least(low.at([]), 0),
    hi: greatest(high.at([]), 0),
  });
  const scale = ctx.pointwise([], 'f32', () => {
    const { lo, hi } = range();
    const s = over(minus(hi, lo), 255);
    // All zeros: any scale will do, but none that divides by zero.
    return select(equals(s, 0), constant(1, 'f32'), s);
  });
  const zeroOf = (): Expr => unary('round', over(minus(0, range().lo), scale.at([])));
  const zero = ctx.pointwise([], 'u8', () => saturate(ctx, zeroOf(), 'u8'));
  const y = ctx.pointwise(x.shape, 'u8', (index) => {
    const scaled = unary('round', over(cast(x.at(index), 'f32'), scale.at([])));
    return saturate(ctx, plus(scaled, cast(zero.at([]), 'f32')), 'u8');
  });
  return [y, scale, zero];
}

// ---------------------------------------------------------------------------------------------
// Products of quantised tensors

/** A scale that is a number, or one per row or column of the product. */
function productScale(
  ctx: LowerContext,
  scale: LTensor,
  shape: readonly I.Dim[],
  axis: number,
  what: string,
): (index: readonly IndexExpr[]) => Expr {
  if (scale.shape.every((d) => I.isConst(d, 1))) {
    return () => cast(scale.at(scale.shape.map(() => I.num(0))), 'f32');
  }
  if (scale.shape.length === 1 && axis >= 0) {
    ctx.requireEqual(at(scale.shape, 0), at(shape, axis), `${what} and dim ${axis} of the result`);
    return (index) => cast(scale.at([at(index, axis)]), 'f32');
  }
  if (scale.shape.length === shape.length) {
    scale.shape.forEach((d, i) => {
      if (!I.isConst(d, 1)) ctx.requireEqual(d, at(shape, i), `dim ${i} of ${what}`);
    });
    return (index) =>
      cast(scale.at(scale.shape.map((d, i) => (I.isConst(d, 1) ? I.num(0) : at(index, i)))), 'f32');
  }
  return ctx.fail(
    'SHAPE_MISMATCH',
    `${what} has shape ${I.printShape(scale.shape)}; it must be a number, or one per row or column of ${I.printShape(shape)}`,
  );
}

interface Scales {
  readonly a: LTensor;
  readonly b: LTensor;
  readonly y: LTensor;
  readonly zero: LTensor | undefined;
  readonly axes: readonly [number, number];
}

function requantise(ctx: LowerContext, sum: LTensor, s: Scales): LTensor {
  const dtype = s.zero?.dtype ?? 'u8';
  const rank = sum.shape.length;
  const a = productScale(ctx, s.a, sum.shape, s.axes[0], 'the scale of the left operand');
  const b = productScale(ctx, s.b, sum.shape, s.axes[1], 'the scale of the right operand');
  const y = productScale(ctx, s.y, sum.shape, rank - 1, 'the scale of the result');
  return ctx.pointwise(sum.shape, dtype, (index) => {
    const factor = over(times(a(index), b(index)), y(index));
    const scaled = unary('round', times(cast(sum.at(index), 'f32'), factor));
    const zero = s.zero
      ? cast(scalarElement(ctx, s.zero, 'the zero point of the result'), 'f32')
      : undefined;
    return saturate(ctx, zero ? plus(scaled, zero) : scaled, dtype);
  });
}

function lowerQlinearMatmul(ctx: LowerContext): LTensor {
  const [a, b] = [ctx.input(0), ctx.input(3)];
  const left = matmulZero(ctx, a, ctx.optional(2), 'left', 'a_zero_point');
  const right = matmulZero(ctx, b, ctx.optional(5), 'right', 'b_zero_point');
  const sum = matmul(ctx, a, b, 'i32', left, right);
  const rank = sum.shape.length;
  return requantise(ctx, sum, {
    a: ctx.input(1),
    b: ctx.input(4),
    y: ctx.input(6),
    zero: ctx.optional(7),
    axes: [rank - 2, rank - 1],
  });
}

function lowerQlinearConv(ctx: LowerContext): LTensor {
  return requantise(ctx, quantizedConvSum(ctx), {
    a: ctx.input(1),
    b: ctx.input(4),
    y: ctx.input(6),
    zero: ctx.optional(7),
    axes: [-1, 1],
  });
}

const SCALED = [tensorParam('x', 'input'), tensorParam('scale'), optionalTensor('zero_point')];
const QUANT_ATTRS = [
  optionalParam('axis', 'int', 1, 'dim'),
  optionalParam('block_size', 'int'),
  optionalParam('dtype', 'dtype', undefined, 'output_dtype'),
];

export const quantizationOps: readonly OpDef[] = [
  {
    name: 'quantize_linear',
    onnx: ['QuantizeLinear', 'com.microsoft:QuantizeLinear'],
    fuse: [
      {
        names: ['quantize_linear', 'quantize'],
        params: [...SCALED, ...QUANT_ATTRS],
        attrs: quantAttrs,
        doc: 'round(x / scale) + zero_point, saturated to the integer type.',
      },
    ],
    lower: lowerQuantize,
  },
  {
    name: 'dequantize_linear',
    onnx: ['DequantizeLinear', 'com.microsoft:DequantizeLinear'],
    fuse: [
      {
        names: ['dequantize_linear', 'dequantize'],
        params: [...SCALED, ...QUANT_ATTRS],
        attrs: quantAttrs,
        doc: '(x - zero_point) * scale.',
      },
    ],
    lower: lowerDequantize,
  },
  { name: 'dynamic_quantize_linear', onnx: ['DynamicQuantizeLinear'], lower: lowerDynamicQuantize },
  { name: 'qlinear_matmul', onnx: ['QLinearMatMul'], lower: lowerQlinearMatmul },
  { name: 'qlinear_conv', onnx: ['QLinearConv'], lower: lowerQlinearConv },
];

function quantAttrs(args: Parameters<NonNullable<NonNullable<OpDef['fuse']>[number]['attrs']>>[0]) {
  return attrsOf({
    axis: plainAttr(args['axis']),
    block_size: plainAttr(args['block_size']),
    output_dtype: plainAttr(args['dtype']),
  });
}
