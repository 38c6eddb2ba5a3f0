/**
 * Products as ONNX Runtime's optimiser and quantiser write them, with something fused to them or with
 * weights of a few bits. Here they are taken apart again, so that what is fused is decided for this GPU.
 */
import { sharesByte } from '../../graph/dtype';
import { binary, cast, constant, type Expr, indexValue, select, unary } from '../../ir/expr';
import * as I from '../../ir/indexExpr';
import type { Dim, IndexExpr } from '../../ir/indexExpr';
import { sigmoid } from '../activation';
import { lowerGemm, matmul } from '../contractions';
import { lowerConv } from '../convolution';
import type { LowerContext, LTensor, OpDef } from '../op';
import {
  at,
  below,
  clamp,
  greatest,
  minus,
  plus,
  sumOfProducts,
  times,
  wide,
  wrappedIndex,
} from '../products';
import { atBroadcast, promote, transposeView } from '../shared';
import { MS, optionalOperand } from './domain';

/** The last two dims change places; a vector stays as it is. */
function flipped(ctx: LowerContext, t: LTensor, flip: boolean): LTensor {
  const r = t.shape.length;
  if (!flip || r < 2) return t;
  const perm = t.shape.map((_, i) => (i === r - 1 ? r - 2 : i === r - 2 ? r - 1 : i));
  return transposeView(ctx, t, perm);
}

function lowerFusedMatmul(ctx: LowerContext): LTensor {
  if (ctx.bool('transBatchA', false) || ctx.bool('transBatchB', false))
    ctx.unsupported('a product whose batch dims are transposed');
  const a = flipped(ctx, ctx.input(0), ctx.bool('transA', false));
  const b = flipped(ctx, ctx.input(1), ctx.bool('transB', false));
  const y = matmul(ctx, a, b, promote([a, b]));
  const alpha = ctx.float('alpha', 1);
  if (alpha === 1) return y;
  const acc = wide(y.dtype);
  return ctx.pointwise(y.shape, y.dtype, (i) => cast(times(cast(y.at(i), acc), alpha), y.dtype));
}

/** The activation that is fused to a product, by its ONNX name. */
function activated(ctx: LowerContext, y: LTensor, more?: LTensor): LTensor {
  const name = ctx.str('activation', '');
  if (name === '' && !more) return y;
  const params = ctx.has('activation_params') ? ctx.ints('activation_params') : [];
  const alpha = (fallback: number): number =>
    ctx.has('activation_alpha') ? ctx.float('activation_alpha') : (params[0] ?? fallback);
  const beta = (fallback: number): number =>
    ctx.has('activation_beta') ? ctx.float('activation_beta') : (params[1] ?? fallback);
  const acc = wide(y.dtype);
  const f = (x: Expr): Expr => {
    switch (name) {
      case '':
        return x;
      case 'Relu':
        return greatest(x, 0);
      case 'Tanh':
        return unary('tanh', x);
      case 'Sigmoid':
        return sigmoid(x);
      case 'LeakyRelu':
        return select(below(x, 0), times(x, alpha(0.01)), x);
      case 'HardSigmoid':
        return clamp(plus(times(x, alpha(0.2)), beta(0.5)), 0, 1);
      case 'Clip':
        return clamp(x, alpha(-Infinity), beta(Infinity));
      default:
        return ctx.unsupported(`the fused activation ${name}`);
    }
  };
  return ctx.pointwise(y.shape, y.dtype, (index) => {
    const v = cast(y.at(index), acc);
    return cast(f(more ? plus(v, cast(atBroadcast(more, index), acc)) : v), y.dtype);
  });
}

/** A convolution to which something is added, and its activation. */
export function lowerFusedConv(ctx: LowerContext): LTensor {
  return activated(ctx, lowerConv(ctx), optionalOperand(ctx, 3));
}

/** Numbers of a few bits in bytes, the lowest first. */
function packedBits(bits: number): (t: LTensor, start: IndexExpr, i: IndexExpr) => Expr {
  const each = 8 / bits;
  return (t, start, i) => {
    const place = I.add(start, I.floorDiv(i, each));
    const byte = cast(t.at(I.delinearise(place, t.shape)), 'u32');
    if (each === 1) return byte;
    const shift = cast(indexValue(I.mul(I.mod(i, each), bits), 'i32'), 'u32');
    return binary('bitand', binary('shr', byte, shift), constant(2 ** bits - 1, 'u32'));
  };
}

function requireBits(ctx: LowerContext, packed: LTensor): number {
  const bits = ctx.int('bits', 4);
  if (bits !== 2 && bits !== 4 && bits !== 8) ctx.unsupported(`weights of ${bits} bits`);
  if (packed.dtype !== 'u8') ctx.unsupported(`packed weights of type ${packed.dtype}`);
  return bits;
}

/** Weights of a few bits, packed: [N, blocks, bytes], with a scale, and a zero point, for each block. */
function lowerMatmulBits(ctx: LowerContext): LTensor {
  const [a, b, scales] = [ctx.input(0), ctx.input(1), ctx.input(2)];
  const [zeros, groups, bias] = [ctx.optional(3), ctx.optional(4), ctx.optional(5)];
  const [k, n] = [ctx.int('K'), ctx.int('N')];
  const bits = requireBits(ctx, b);
  const block = ctx.int('block_size');
  if (groups) ctx.unsupported('weights whose groups are given by an operand');
  const rank = a.shape.length;
  ctx.requireEqual(at(a.shape, rank - 1), I.num(k), 'the last dim of A and K');
  const blocks = Math.ceil(k / block);
  const each = 8 / bits;
  const bytes = Math.ceil(block / each);
  const zeroBytes = Math.ceil(blocks / each);
  const flat = (t: LTensor, place: IndexExpr): Expr => t.at(I.delinearise(place, t.shape));
  const packed = packedBits(bits);
  const weight = (row: IndexExpr, i: IndexExpr): Expr => {
    const at0 = I.floorDiv(i, block);
    const q = packed(b, I.mul(I.add(I.mul(row, blocks), at0), bytes), I.mod(i, block));
    const scale = cast(flat(scales, I.add(I.mul(row, blocks), at0)), 'f32');
    let zero: Expr = constant(2 ** (bits - 1), 'f32');
    if (zeros)
      zero =
        zeros.dtype === 'u8'
          ? cast(packed(zeros, I.mul(row, zeroBytes), at0), 'f32')
          : cast(flat(zeros, I.add(I.mul(row, blocks), at0)), 'f32');
    return times(minus(cast(q, 'f32'), zero), scale);
  };
  // Stored once, so that a plan may choose: unpacked where it is used, or beforehand.
  const w = ctx.pointwise([n, k], a.dtype, ([row, i]) =>
    cast(weight(row ?? I.num(0), i ?? I.num(0)), a.dtype),
  );
  const y = sumOfProducts(
    ctx,
    { shape: [...a.shape.slice(0, -1), n], over: [k], dtype: a.dtype },
    (index, r) => [a.at([...index.slice(0, -1), at(r, 0)]), w.at([at(index, rank - 1), at(r, 0)])],
  );
  if (!bias) return y;
  return ctx.pointwise(y.shape, y.dtype, (index) =>
    plus(y.at(index), cast(bias.at([at(index, rank - 1)]), y.dtype)),
  );
}

interface QuantisedTable {
  readonly shape: readonly Dim[];
  /** The zero point where none is given. */
  readonly middle: number;
  /** A number of the data, or of zero points that lie as it does. */
  element(t: LTensor, index: readonly IndexExpr[]): Expr;
}

/** Numbers of a type of their own, or several to a byte along the last dim. */
function tableOf(ctx: LowerContext, data: LTensor): QuantisedTable {
  const last = data.shape.length - 1;
  if (sharesByte(data.dtype))
    return { shape: data.shape, middle: 0, element: (t, index) => cast(t.at(index), 'f32') };
  const bits = requireBits(ctx, data);
  const packed = packedBits(bits);
  return {
    shape: data.shape.map((d, i) => (i === last ? I.mul(d, 8 / bits) : d)),
    middle: 2 ** (bits - 1),
    element: (t, index) => {
      const row = I.linearise([...index.slice(0, -1), I.num(0)], t.shape);
      return cast(packed(t, row, at(index, last)), 'f32');
    },
  };
}

/** Rows of a table of packed weights: dequantised, in blocks along an axis, where they are looked up. */
function lowerGatherBits(ctx: LowerContext): LTensor {
  const [data, indices, scales, zeros] = [
    ctx.input(0),
    ctx.input(1),
    ctx.input(2),
    optionalOperand(ctx, 3),
  ];
  const rank = data.shape.length;
  const table = tableOf(ctx, data);
  const { shape } = table;
  const gatherAxis = ctx.axis(ctx.int('gather_axis', 0), rank);
  const quantAxis = ctx.axis(ctx.int('quantize_axis', 1), rank);
  const block = ctx.int('block_size', 128);
  if (scales.shape.length !== rank || (zeros && zeros.shape.length !== rank))
    ctx.fail(
      'SHAPE_MISMATCH',
      `the scales ${I.printShape(scales.shape)} and the zero points must have the rank of the data ${I.printShape(data.shape)}`,
    );
  scales.shape.forEach((d, i) => {
    const n = at(shape, i);
    ctx.requireEqual(d, i === quantAxis ? I.ceilDiv(n, block) : n, `dim ${i} of the scales`);
  });
  const result = [...shape.slice(0, gatherAxis), ...indices.shape, ...shape.slice(gatherAxis + 1)];
  return ctx.pointwise(result, scales.dtype, (index) => {
    const end = gatherAxis + indices.shape.length;
    const row = wrappedIndex(indices.at(index.slice(gatherAxis, end)), at(shape, gatherAxis));
    const place = [...index.slice(0, gatherAxis), row, ...index.slice(end)];
    const inBlocks = place.map((p, i) => (i === quantAxis ? I.floorDiv(p, block) : p));
    const zero = zeros ? table.element(zeros, inBlocks) : constant(table.middle, 'f32');
    const q = table.element(data, place);
    return cast(times(minus(q, zero), cast(scales.at(inBlocks), 'f32')), scales.dtype);
  });
}

export const productOps: readonly OpDef[] = [
  {
    name: 'fused_matmul',
    onnx: [`${MS}:FusedMatMul`, `${MS}:TransposeMatMul`],
    lower: lowerFusedMatmul,
  },
  { name: 'fused_gemm', onnx: [`${MS}:FusedGemm`], lower: (ctx) => activated(ctx, lowerGemm(ctx)) },
  { name: 'fused_conv', onnx: [`${MS}:FusedConv`], lower: lowerFusedConv },
  { name: 'matmul_nbits', onnx: [`${MS}:MatMulNBits`], lower: lowerMatmulBits },
  {
    name: 'gather_block_quantized',
    onnx: [`${MS}:GatherBlockQuantized`],
    lower: lowerGatherBits,
  },
];
