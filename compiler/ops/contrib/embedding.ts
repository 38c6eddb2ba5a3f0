/**
 * Ops of ONNX Runtime's domain at the ends of a model: embeddings with their normalisation, spectra.
 */
import { cast, constant, type Expr } from '../../ir/expr';
import * as I from '../../ir/indexExpr';
import { gelu } from '../activation';
import { matmul } from '../contractions';
import { layerNormOf } from '../normalization';
import type { LowerContext, LTensor, OpDef } from '../op';
import { at, minus, plus, times, wrappedIndex } from '../products';
import {
  atBroadcast,
  broadcastShapes,
  computeFloat,
  inFloat,
  operandOfRank,
  promote,
  requireBroadcast,
  reshapeView,
} from '../shared';
import { complex, lowerDft } from '../signal';
import { MS, optionalOperand } from './domain';

/**
 * Layer norm of word + position (+ segment) embeddings; how many words the mask keeps in each row; the
 * sum before the norm.
 */
function lowerEmbedding(ctx: LowerContext): readonly LTensor[] {
  const ids = operandOfRank(ctx, 0, [2], 'the ids of words');
  const segments = ctx.optional(1) && operandOfRank(ctx, 1, [2], 'the ids of segments');
  const words = operandOfRank(ctx, 2, [2], 'the embedding of words');
  const places = operandOfRank(ctx, 3, [2], 'the embedding of positions');
  const kinds = ctx.optional(4) && operandOfRank(ctx, 4, [2], 'the embedding of segments');
  const mask = optionalOperand(ctx, 7) && operandOfRank(ctx, 7, [2], 'the mask');
  const positions = optionalOperand(ctx, 8) && operandOfRank(ctx, 8, [2], 'the positions');
  for (const [t, what] of [
    [segments, 'the ids of segments'],
    [mask, 'the mask'],
    [positions, 'the positions'],
  ] as const)
    if (t) requireBroadcast(ctx, t, ids.shape, what);
  for (const t of [places, kinds])
    if (t) ctx.requireEqual(at(t.shape, 1), at(words.shape, 1), 'the widths of embeddings');
  const [batch, rows] = [at(ids.shape, 0), at(ids.shape, 1)];
  const width = at(words.shape, 1);
  const t = computeFloat(words.dtype);
  const row = (table: LTensor, id: Expr, d: I.IndexExpr): Expr =>
    cast(table.at([wrappedIndex(id, at(table.shape, 0)), d]), t);
  const sum = ctx.pointwise([batch, rows, width], words.dtype, (index) => {
    const [b, s, d] = [at(index, 0), at(index, 1), at(index, 2)];
    const word = row(words, ids.at([b, s]), d);
    const place = positions
      ? row(places, positions.at([I.isConst(at(positions.shape, 0), 1) ? I.num(0) : b, s]), d)
      : cast(places.at([s, d]), t);
    const both = plus(word, place);
    const all = segments && kinds ? plus(both, row(kinds, segments.at([b, s]), d)) : both;
    return cast(all, words.dtype);
  });
  const { y } = layerNormOf(ctx.derive([], { epsilon: ctx.float('epsilon', 1e-12) }), {
    x: sum,
    axes: [2],
    scale: ctx.input(5),
    bias: ctx.input(6),
  });
  const kept = mask
    ? ctx.reduce({ shape: [batch], over: [rows], monoid: 'sum', dtype: 'i32' }, (index, r) =>
        cast(mask.at([...index, ...r]), 'i32'),
      )
    : ctx.pointwise([batch], 'i32', () => constant(0, 'i32'));
  return [y, kept, sum].slice(0, Math.max(1, ctx.node.results.length));
}

/** The tanh form of gelu of x · w + bias. */
function lowerGemmFastGelu(ctx: LowerContext): LTensor {
  const [x, w, bias] = [ctx.input(0), ctx.input(1), optionalOperand(ctx, 2)];
  const y = matmul(ctx, x, w, promote([x, w]));
  if (bias) requireBroadcast(ctx, bias, y.shape, 'the bias');
  return ctx.pointwise(y.shape, y.dtype, (index) =>
    inFloat(y.at(index), y.dtype, (e) =>
      gelu(bias ? plus(e, cast(atBroadcast(bias, index), e.dtype)) : e, true),
    ),
  );
}

/** One-sided spectra of reals over the last dim; more dims of a signal have no form here. */
function lowerSpectrum(ctx: LowerContext, inverse: boolean): LTensor {
  if (ctx.int('signal_ndim', 1) !== 1) ctx.unsupported('spectra over several dims');
  if (!ctx.bool('onesided', true)) ctx.unsupported('two-sided spectra');
  if (ctx.bool('normalized', false)) ctx.unsupported('normalised spectra');
  const x = ctx.input(0);
  const rank = x.shape.length;
  const attrs = { inverse, onesided: true, opset: 19, axis: inverse ? rank - 2 : rank - 1 };
  if (!inverse) {
    const real = ctx.view([...x.shape, 1], x, (index) => index.slice(0, -1));
    return lowerDft(ctx.derive([real], attrs));
  }
  const y = lowerDft(
    ctx.derive([x, undefined, ctx.constant({ dtype: 'i64', shape: [] }, [rank - 2])], {
      ...attrs,
      opset: 20,
    }),
  );
  return reshapeView(ctx, y, y.shape.slice(0, -1));
}

/** (a + ib) · (c + id), or with the second conjugated; the parts of a number lie in the last dim. */
function lowerComplexProduct(ctx: LowerContext, conjugate: boolean): LTensor {
  const [a, b] = [ctx.input(0), ctx.input(1)];
  const shape = broadcastShapes(ctx, [a.shape, b.shape]);
  const last = shape.length - 1;
  if (!I.isConst(shape[last] ?? I.num(0), 2))
    ctx.fail(
      'SHAPE_MISMATCH',
      `the last dim of ${I.printShape(shape)} must be 2, for the real and the imaginary part`,
    );
  const dtype = promote([a, b]);
  return ctx.pointwise(shape, dtype, (index) => {
    const part = (t: LTensor, i: number): Expr => {
      const place = index.map((p, k) => (k === last ? I.num(i) : p));
      return cast(atBroadcast(t, place), dtype);
    };
    const [ar, ai, br] = [part(a, 0), part(a, 1), part(b, 0)];
    const bi = conjugate ? times(part(b, 1), -1) : part(b, 1);
    return complex(
      at(index, last),
      minus(times(ar, br), times(ai, bi)),
      plus(times(ar, bi), times(ai, br)),
    );
  });
}

/** A new dim of size 1 at a place that an operand names. */
function lowerExpandDims(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const [given = 0] = ctx.numbers(1);
  const axis = ctx.axis(given, x.shape.length + 1);
  return reshapeView(ctx, x, [...x.shape.slice(0, axis), I.num(1), ...x.shape.slice(axis)]);
}

export const embeddingOps: readonly OpDef[] = [
  {
    name: 'embed_layer_norm',
    onnx: [`${MS}:EmbedLayerNormalization`],
    lower: lowerEmbedding,
  },
  { name: 'gemm_fast_gelu', onnx: [`${MS}:GemmFastGelu`], lower: lowerGemmFastGelu },
  { name: 'rfft', onnx: [`${MS}:Rfft`], lower: (ctx) => lowerSpectrum(ctx, false) },
  { name: 'irfft', onnx: [`${MS}:Irfft`], lower: (ctx) => lowerSpectrum(ctx, true) },
  {
    name: 'complex_mul',
    onnx: [`${MS}:ComplexMul`],
    lower: (ctx) => lowerComplexProduct(ctx, false),
  },
  {
    name: 'complex_mul_conj',
    onnx: [`${MS}:ComplexMulConj`],
    lower: (ctx) => lowerComplexProduct(ctx, true),
  },
  { name: 'expand_dims', onnx: [`${MS}:ExpandDims`], view: true, lower: lowerExpandDims },
];
