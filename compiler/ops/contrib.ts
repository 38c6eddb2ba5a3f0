/**
 * Ops of ONNX Runtime's own domain, com.microsoft, as its optimiser and quantiser write them: products
 * with something fused to them, products of quantised tensors, packed attention. Here they are taken
 * apart again, so that what is fused is decided for this GPU.
 */
import { cast, constant, type Expr, select, unary, binary } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { Dim, IndexExpr } from '../ir/indexExpr';
import { sigmoid } from './activation';
import {
  attention,
  chain,
  type Heads,
  maskStep,
  minusInfinity,
  type ScoreStep,
  causalStep,
  splitHeads,
} from './attentionCore';
import { lowerGemm, matmul, matmulZero } from './contractions';
import { lowerConv } from './convolution';
import type { LowerContext, LTensor, OpDef } from './op';
import {
  at,
  below,
  clamp,
  greatest,
  minus,
  over,
  plus,
  sumOfProducts,
  times,
  wide,
} from './products';
import { saturate } from './quantization';
import { atBroadcast, broadcastShapes, promote, scalarElement, transposeView } from './shared';

// ---------------------------------------------------------------------------------------------
// Products with more to them

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

/** Weights of a few bits, packed: [N, blocks, bytes], with a scale, and a zero point, for each block. */
function lowerMatmulBits(ctx: LowerContext): LTensor {
  const [a, b, scales] = [ctx.input(0), ctx.input(1), ctx.input(2)];
  const [zeros, groups, bias] = [ctx.optional(3), ctx.optional(4), ctx.optional(5)];
  const [k, n] = [ctx.int('K'), ctx.int('N')];
  const [bits, block] = [ctx.int('bits', 4), ctx.int('block_size')];
  if (bits !== 2 && bits !== 4 && bits !== 8) ctx.unsupported(`weights of ${bits} bits`);
  if (groups) ctx.unsupported('weights whose groups are given by an operand');
  if (b.dtype !== 'u8') ctx.unsupported(`packed weights of type ${b.dtype}`);
  const rank = a.shape.length;
  ctx.requireEqual(at(a.shape, rank - 1), I.num(k), 'the last dim of A and K');
  const blocks = Math.ceil(k / block);
  const each = 8 / bits;
  const bytes = Math.ceil(block / each);
  const zeroBytes = Math.ceil(blocks / each);
  const flat = (t: LTensor, place: IndexExpr): Expr => t.at(I.delinearise(place, t.shape));
  /** The number at place `i` of packed bytes that start at `start`. */
  const packed = (t: LTensor, start: IndexExpr, i: IndexExpr): Expr => {
    const byte = cast(flat(t, I.add(start, I.floorDiv(i, each))), 'u32');
    if (each === 1) return byte;
    const shift = cast({ op: 'index', index: I.mul(I.mod(i, each), bits), dtype: 'i32' }, 'u32');
    return binary('bitand', binary('shr', byte, shift), constant(2 ** bits - 1, 'u32'));
  };
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

// ---------------------------------------------------------------------------------------------
// Quantised

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
  return ctx.pointwise(sum.shape, 'f32', (index) => {
    const scale = times(atBroadcast(scaleA, index), atBroadcast(scaleB, index));
    const y = times(cast(sum.at(index), 'f32'), scale);
    return bias ? plus(y, atBroadcast(bias, index)) : y;
  });
}

/** A quantised by its own range, to unsigned 8 bits; then as above. */
function lowerDynamicMatmul(ctx: LowerContext): LTensor {
  const [a, b, scaleB] = [ctx.input(0), ctx.input(1), ctx.input(2)];
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

/** A float function of quantised tensors, quantised again. Operands: A, scale, zero, (B, scale, zero,) scale, zero. */
function lowerQuantised(
  ctx: LowerContext,
  tensors: 1 | 2,
  f: (x: readonly Expr[]) => Expr,
): LTensor {
  const group = (i: number) => ({
    x: ctx.input(3 * i),
    scale: ctx.input(3 * i + 1),
    zero: ctx.optional(3 * i + 2),
  });
  const operands = tensors === 1 ? [group(0)] : [group(0), group(1)];
  const scale = ctx.input(3 * tensors);
  const zero = 3 * tensors + 1 < ctx.arity ? ctx.optional(3 * tensors + 1) : undefined;
  const shape = broadcastShapes(
    ctx,
    operands.map((o) => o.x.shape),
  );
  const dtype = at(operands, 0).x.dtype;
  return ctx.pointwise(shape, dtype, (index) => {
    const reals = operands.map((o) => {
      const v = cast(atBroadcast(o.x, index), 'i32');
      const z = o.zero && cast(scalarElement(ctx, o.zero, 'a zero point'), 'i32');
      return times(cast(z ? minus(v, z) : v, 'f32'), scalarElement(ctx, o.scale, 'a scale'));
    });
    const y = unary('round', over(f(reals), scalarElement(ctx, scale, 'the scale of the result')));
    const z = zero && cast(scalarElement(ctx, zero, 'the zero point of the result'), 'f32');
    return saturate(ctx, z ? plus(y, z) : y, dtype);
  });
}

// ---------------------------------------------------------------------------------------------
// Attention

/** True (not 0) keeps: [batch, keys], or [batch, queries, keys]. */
function keptStep(mask: LTensor): ScoreStep {
  return (score, index) => {
    const place =
      mask.shape.length === 2
        ? [at(index, 0), at(index, 3)]
        : [at(index, 0), at(index, 2), at(index, 3)];
    return select(
      binary('ne', cast(mask.at(place), 'i32'), constant(0, 'i32')),
      score,
      minusInfinity(score),
    );
  };
}

interface Masks {
  readonly kept: LTensor | undefined;
  readonly bias: LTensor | undefined;
  readonly causal: boolean;
}

function attended(ctx: LowerContext, q: LTensor, k: LTensor, v: LTensor, m: Masks): LTensor {
  const heads: Heads = { q, k, v, group: 1 };
  const size = I.constOf(at(q.shape, 3));
  if (size === undefined) return ctx.unsupported('heads of a symbolic size');
  const given = ctx.float('scale', 0);
  const shape: Dim[] = [at(q.shape, 0), at(q.shape, 1), at(q.shape, 2), at(k.shape, 2)];
  if (m.kept && m.kept.shape.length !== 2 && m.kept.shape.length !== 3)
    ctx.unsupported(`a mask of shape ${I.printShape(m.kept.shape)}`);
  const mask = chain([
    m.bias && maskStep(ctx, m.bias, shape),
    m.kept && keptStep(m.kept),
    m.causal ? causalStep(I.num(0)) : undefined,
  ]);
  const steps = {
    scale: given !== 0 ? given : 1 / Math.sqrt(size),
    softcap: 0,
    mayBeEmpty: m.kept !== undefined,
    ...(mask ? { mask } : {}),
  };
  const { y } = attention(ctx, heads, steps, 'sequence-first');
  const width = at(y.shape, 3);
  return ctx.view([at(y.shape, 0), at(y.shape, 1), I.mul(at(y.shape, 2), width)], y, (index) => {
    const [h, d] = I.delinearise(at(index, 2), [at(y.shape, 2), width]);
    return [at(index, 0), at(index, 1), h ?? I.num(0), d ?? I.num(0)];
  });
}

/** x [batch, sequence, size] plus a part of a bias, as heads. */
function projected(
  ctx: LowerContext,
  x: LTensor,
  bias: LTensor | undefined,
  from: Dim,
  heads: number,
  what: string,
): LTensor {
  const t = bias
    ? ctx.pointwise(x.shape, x.dtype, (index) =>
        plus(x.at(index), bias.at([I.add(from, at(index, 2))])),
      )
    : x;
  return splitHeads(ctx, t, heads, what);
}

/** Queries, keys and values of rank 3, projected before, with one bias for all three. */
function lowerMultiHead(ctx: LowerContext): LTensor {
  const [query, key, value] = [ctx.input(0), ctx.optional(1), ctx.optional(2)];
  if (
    !key ||
    !value ||
    query.shape.length !== 3 ||
    key.shape.length !== 3 ||
    value.shape.length !== 3
  )
    return ctx.unsupported(
      'packed or cached keys and values; [batch, sequence, size] is supported',
    );
  for (const i of [6, 7])
    if (i < ctx.arity && ctx.optional(i)) ctx.unsupported('a cache of keys and values');
  const optional = (i: number): LTensor | undefined =>
    i < ctx.arity ? ctx.optional(i) : undefined;
  const heads = ctx.int('num_heads');
  const bias = optional(3);
  const [wq, wk] = [at(query.shape, 2), at(key.shape, 2)];
  const q = projected(ctx, query, bias, I.num(0), heads, 'the query');
  const k = projected(ctx, key, bias, wq, heads, 'the key');
  const v = projected(ctx, value, bias, I.add(wq, wk), heads, 'the value');
  return attended(ctx, q, k, v, {
    kept: optional(4),
    bias: optional(5),
    causal: ctx.bool('unidirectional', false),
  });
}

/** One product gives queries, keys and values: input, weights [size, 3 · size], bias, mask. */
function lowerPackedAttention(ctx: LowerContext): LTensor {
  const [x, w] = [ctx.input(0), ctx.input(1)];
  const optional = (i: number): LTensor | undefined =>
    i < ctx.arity ? ctx.optional(i) : undefined;
  if (optional(4)) ctx.unsupported('a cache of keys and values');
  if (ctx.has('qkv_hidden_sizes')) ctx.unsupported('queries, keys and values of different sizes');
  if (ctx.bool('do_rotary', false)) ctx.unsupported('rotary embedding inside Attention');
  const kept = optional(3);
  if (kept && kept.shape.length === 1) ctx.unsupported('a mask that holds lengths');
  const heads = ctx.int('num_heads');
  const bias = optional(2);
  const sum = matmul(ctx, x, w, x.dtype);
  const all = bias
    ? ctx.pointwise(sum.shape, sum.dtype, (i) => plus(sum.at(i), bias.at([at(i, 2)])))
    : sum;
  const width =
    I.exactDiv(at(all.shape, 2), 3) ??
    ctx.fail('SHAPE_MISMATCH', `the weights ${I.printShape(w.shape)} hold no three equal parts`);
  const part = (i: number, what: string): LTensor => {
    const t = ctx.view([at(x.shape, 0), at(x.shape, 1), width], all, (index) => [
      at(index, 0),
      at(index, 1),
      I.add(I.mul(width, i), at(index, 2)),
    ]);
    return splitHeads(ctx, t, heads, what);
  };
  return attended(ctx, part(0, 'the query'), part(1, 'the key'), part(2, 'the value'), {
    kept,
    bias: optional(5),
    causal: ctx.bool('unidirectional', false),
  });
}

const MS = 'com.microsoft';

export const contribOps: readonly OpDef[] = [
  {
    name: 'fused_matmul',
    onnx: [`${MS}:FusedMatMul`, `${MS}:TransposeMatMul`],
    lower: lowerFusedMatmul,
  },
  { name: 'fused_gemm', onnx: [`${MS}:FusedGemm`], lower: (ctx) => activated(ctx, lowerGemm(ctx)) },
  {
    name: 'fused_conv',
    onnx: [`${MS}:FusedConv`],
    lower: (ctx) => activated(ctx, lowerConv(ctx), ctx.arity > 3 ? ctx.optional(3) : undefined),
  },
  { name: 'matmul_nbits', onnx: [`${MS}:MatMulNBits`], lower: lowerMatmulBits },
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
    lower: (ctx) => lowerQuantised(ctx, 2, ([a, b]) => plus(a ?? 0, b ?? 0)),
  },
  {
    name: 'qlinear_mul',
    onnx: [`${MS}:QLinearMul`],
    lower: (ctx) => lowerQuantised(ctx, 2, ([a, b]) => times(a ?? 0, b ?? 0)),
  },
  {
    name: 'qlinear_sigmoid',
    onnx: [`${MS}:QLinearSigmoid`],
    lower: (ctx) => lowerQuantised(ctx, 1, ([a]) => sigmoid(a ?? constant(0, 'f32'))),
  },
  {
    name: 'qlinear_leaky_relu',
    onnx: [`${MS}:QLinearLeakyRelu`],
    lower: (ctx) =>
      lowerQuantised(ctx, 1, ([a]) => {
        const x = a ?? constant(0, 'f32');
        return select(below(x, 0), times(x, ctx.float('alpha', 0.01)), x);
      }),
  },
  { name: 'multi_head_attention', onnx: [`${MS}:MultiHeadAttention`], lower: lowerMultiHead },
  { name: 'packed_attention', onnx: [`${MS}:Attention`], lower: lowerPackedAttention },
];
