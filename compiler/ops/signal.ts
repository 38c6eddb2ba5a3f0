/**
 * Signal processing: Fourier transforms, as contractions with cosines and sines of the position, and
 * mel filter banks.
 *
 * A complex number is the last dim of size 2: real, imaginary.
 */
import type { DType } from '../graph/dtype';
import { cast, type Expr, indexValue, unary, when } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { Dim, IndexExpr } from '../ir/indexExpr';
import type { LowerContext, LTensor, OpDef } from './op';
import { at, minus, plus, reduceOver, times } from './products';
import { computeFloat, dtypeAttr, knownScalar, sizeAs } from './shared';

/** The longest transform whose factors are kept as tables. */
const TABLE_LIMIT = 8192;

/** cos and sin of 2π·k·n/N. */
type Turn = (k: IndexExpr, n: IndexExpr) => { readonly cos: Expr; readonly sin: Expr };

/**
 * The product k·n is reduced modulo N first, where that is exact. Factors of a known N come from
 * tables: GPUs' sines are only good to three digits.
 */
function turnsOf(ctx: LowerContext, length: Dim, dtype: DType): Turn {
  const n = I.constOf(length);
  if (n !== undefined && n >= 1 && n <= TABLE_LIMIT) {
    // Quarter turns are exact, so that what cancels out does.
    const table = (f: (angle: number) => number): LTensor =>
      ctx.constant(
        { dtype, shape: [n] },
        Array.from({ length: n }, (_, i) =>
          (4 * i) % n === 0 ? Math.round(f((2 * Math.PI * i) / n)) : f((2 * Math.PI * i) / n),
        ),
      );
    const [cos, sin] = [table(Math.cos), table(Math.sin)];
    return (k, m) => {
      const step = [I.mod(I.mul(k, m), length)];
      return { cos: cos.at(step), sin: sin.at(step) };
    };
  }
  return (k, m) => {
    const steps = cast(indexValue(I.mod(I.mul(k, m), length), 'i32'), dtype);
    const unit = times(2 * Math.PI, unary('recip', sizeAs(length, dtype)));
    const angle = times(steps, unit);
    return { cos: unary('cos', angle), sin: unary('sin', angle) };
  };
}

/** real part where the last index is 0, imaginary part where it is 1. */
export function complex(part: IndexExpr, real: Expr, imaginary: Expr): Expr {
  const known = I.constOf(part);
  if (known !== undefined) return known === 0 ? real : imaginary;
  return when([{ index: part, lo: I.num(0), hi: I.num(1) }], real, imaginary);
}

interface Sample {
  readonly re: Expr;
  readonly im: Expr | undefined;
}

/** sample · e^(∓iθ): one term of a transform, its real or imaginary part. */
function rotated(s: Sample, t: ReturnType<Turn>, inverse: boolean, part: IndexExpr): Expr {
  const { re, im } = s;
  const direct = times(re, t.cos);
  const cross = times(re, t.sin);
  if (!im) return complex(part, direct, inverse ? cross : unary('neg', cross));
  const imSin = times(im, t.sin);
  const imCos = times(im, t.cos);
  return inverse
    ? complex(part, minus(direct, imSin), plus(imCos, cross))
    : complex(part, plus(direct, imSin), minus(imCos, cross));
}

function dftAxis(ctx: LowerContext, rank: number, opset: number): number {
  if (opset < 20) return ctx.axis(ctx.int('axis', 1), rank);
  const given = ctx.arity > 2 && ctx.optional(2) ? ctx.numbers(2)[0] : undefined;
  return ctx.axis(given ?? -2, rank);
}

export function lowerDft(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const rank = x.shape.length;
  const opset = ctx.int('opset', 20);
  const parts = rank > 1 ? I.constOf(at(x.shape, rank - 1)) : undefined;
  if (parts !== 1 && parts !== 2) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `the last dim of the signal must be 1 (real) or 2 (complex); the operand is ${I.printShape(x.shape)}`,
    );
  }
  const axis = dftAxis(ctx, rank, opset);
  if (axis === rank - 1)
    ctx.fail(
      'BAD_AXIS',
      'the transform axis must not be the last dim, which holds the parts of a number',
    );
  const inverse = ctx.bool('inverse', false);
  const onesided = ctx.bool('onesided', false);
  const given = ctx.arity > 1 && ctx.optional(1) ? ctx.sizes(1)[0] : undefined;
  const have = at(x.shape, axis);
  const acc = computeFloat(x.dtype);
  const sampleAt = (index: readonly IndexExpr[], n: IndexExpr): Sample => {
    const element = (part: number): Expr =>
      cast(x.at(index.map((i, d) => (d === axis ? n : d === rank - 1 ? I.num(part) : i))), acc);
    return { re: element(0), im: parts === 2 ? element(1) : undefined };
  };
  if (onesided && inverse && opset >= 20) {
    return realInverse(ctx, x, axis, given ?? I.mul(I.sub(have, 1), 2), sampleAt);
  }
  const length = given ?? have;
  const bins = onesided ? I.add(I.floorDiv(length, 2), 1) : length;
  const shape = x.shape.map((d, i) => (i === axis ? bins : i === rank - 1 ? I.num(2) : d));
  const taken = I.min(have, length);
  const turn = turnsOf(ctx, length, acc);
  const sum = reduceOver(
    ctx,
    { shape, over: [taken], monoid: 'sum', dtype: inverse ? acc : x.dtype, accumulator: acc },
    (index, r) => {
      const n = at(r, 0);
      const t = turn(at(index, axis), n);
      return rotated(sampleAt(index, n), t, inverse, at(index, rank - 1));
    },
  );
  if (!inverse) return sum;
  return ctx.pointwise(shape, x.dtype, (index) =>
    cast(times(sum.at(index), unary('recip', sizeAs(length, acc))), x.dtype),
  );
}

/** From the one-sided spectrum of a real signal: the other half is its mirror image. */
function realInverse(
  ctx: LowerContext,
  x: LTensor,
  axis: number,
  length: Dim,
  sampleAt: (index: readonly IndexExpr[], n: IndexExpr) => Sample,
): LTensor {
  const rank = x.shape.length;
  const acc = computeFloat(x.dtype);
  const shape = x.shape.map((d, i) => (i === axis ? length : i === rank - 1 ? I.num(1) : d));
  const turn = turnsOf(ctx, length, acc);
  const half = I.min(at(x.shape, axis), I.add(I.floorDiv(length, 2), 1));
  const sum = reduceOver(ctx, { shape, over: [half], monoid: 'sum', dtype: acc }, (index, r) => {
    const k = at(r, 0);
    const t = turn(at(index, axis), k);
    const term = rotated(sampleAt(index, k), t, true, I.num(0));
    // All bins but the first, and the middle one of an even length, stand for two.
    const doubled = { index: I.mul(k, 2), lo: I.num(1), hi: length };
    return when([doubled], times(term, 2), term);
  });
  return ctx.pointwise(shape, x.dtype, (index) =>
    cast(times(sum.at(index), unary('recip', sizeAs(length, acc))), x.dtype),
  );
}

/** Overlapping frames of the signal, each windowed and transformed. */
function lowerStft(ctx: LowerContext): LTensor {
  const [x, window] = [ctx.input(0), ctx.arity > 2 ? ctx.optional(2) : undefined];
  const rank = x.shape.length;
  const parts = rank === 3 ? I.constOf(at(x.shape, 2)) : rank === 2 ? 1 : undefined;
  if (parts !== 1 && parts !== 2) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `the signal must be [batch, length], or [batch, length, 1 or 2]; it is ${I.printShape(x.shape)}`,
    );
  }
  const step = ctx.numbers(1)[0];
  if (step === undefined || step < 1)
    ctx.fail('BAD_ATTRIBUTE', 'frame_step must be a positive number');
  const given = ctx.arity > 3 && ctx.optional(3) ? ctx.sizes(3)[0] : undefined;
  const length = given ?? (window ? at(window.shape, 0) : at(x.shape, 1));
  if (window) ctx.requireEqual(at(window.shape, 0), length, 'the window and the frame length');
  const onesided = ctx.bool('onesided', true);
  if (onesided && parts === 2) {
    ctx.fail(
      'BAD_ATTRIBUTE',
      'a one-sided transform is for real signals; set onesided to 0 for a complex one',
    );
  }
  const frames = I.add(I.floorDiv(I.sub(at(x.shape, 1), length), step), 1);
  if (I.upperBound(frames) < 1) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `the signal ${I.printShape(x.shape)} is shorter than a frame of ${I.printIndex(length)}`,
    );
  }
  const bins = onesided ? I.add(I.floorDiv(length, 2), 1) : length;
  const acc = computeFloat(x.dtype);
  const turn = turnsOf(ctx, length, acc);
  return reduceOver(
    ctx,
    {
      shape: [at(x.shape, 0), frames, bins, 2],
      over: [length],
      monoid: 'sum',
      dtype: x.dtype,
      accumulator: acc,
    },
    (index, r) => {
      const [b, frame, k, part] = [at(index, 0), at(index, 1), at(index, 2), at(index, 3)];
      const n = at(r, 0);
      const element = (p: number): Expr => {
        const where = [b, I.add(I.mul(frame, step), n), ...(rank === 3 ? [I.num(p)] : [])];
        const e = cast(x.at(where), acc);
        return window ? times(e, cast(window.at([n]), acc)) : e;
      };
      const sample = { re: element(0), im: parts === 2 ? element(1) : undefined };
      return rotated(sample, turn(k, n), false, part);
    },
  );
}

// ---------------------------------------------------------------------------------------------
// Mel filter bank

function mel(hertz: number): number {
  return 2595 * Math.log10(1 + hertz / 700);
}

/** Triangles between neighbouring mel-spaced frequencies, over the bins of a spectrum. */
function lowerMelWeights(ctx: LowerContext): LTensor {
  const names = [
    'num_mel_bins',
    'dft_length',
    'sample_rate',
    'lower_edge_hertz',
    'upper_edge_hertz',
  ];
  const [bins, length, rate, low, high] = names.map((name, i) => {
    const v = knownScalar(ctx.input(i));
    return (
      v ?? ctx.unsupported(`${name} must be known at compile time: the filter bank is a constant`)
    );
  });
  const dtype = dtypeAttr(ctx, 'output_datatype', 'f32');
  const [b, n, r, lo, hi] = [bins ?? 0, length ?? 0, rate ?? 0, low ?? 0, high ?? 0];
  if (b < 1 || n < 1 || r <= 0 || hi <= lo || lo < 0) {
    ctx.fail(
      'BAD_ATTRIBUTE',
      `a mel filter bank of ${b} bins over a transform of ${n} at ${r} Hz from ${lo} to ${hi} Hz: all must be positive, and the edges ascending`,
    );
  }
  const spectrum = Math.floor(n / 2) + 1;
  const step = (mel(hi) - mel(lo)) / (b + 2);
  const edges = Array.from({ length: b + 2 }, (_, i) => {
    const hertz = 700 * (Math.pow(10, (i * step + mel(lo)) / 2595) - 1);
    return Math.floor(((n + 1) * hertz) / r);
  });
  const weights = new Array<number>(spectrum * b).fill(0);
  const put = (row: number, column: number, w: number): void => {
    if (row >= 0 && row < spectrum) weights[row * b + column] = w;
  };
  for (let i = 0; i < b; i++) {
    const [left, centre, right] = [at(edges, i), at(edges, i + 1), at(edges, i + 2)];
    if (centre === left) put(centre, i, 1);
    else for (let j = left; j <= centre; j++) put(j, i, (j - left) / (centre - left));
    for (let j = centre; j < right; j++) put(j, i, (right - j) / (right - centre));
  }
  return ctx.constant({ dtype, shape: [spectrum, b] }, weights);
}

export const signalOps: readonly OpDef[] = [
  { name: 'dft', onnx: ['DFT'], lower: lowerDft },
  { name: 'stft', onnx: ['STFT'], lower: lowerStft },
  { name: 'mel_weight_matrix', onnx: ['MelWeightMatrix'], lower: lowerMelWeights },
];
