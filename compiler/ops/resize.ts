/**
 * Resizing: nearest, linear and cubic, with every way of mapping output to input coordinates.
 *
 * Vocabulary
 *  - *coordinate*: where output position o lies in the input, as a fraction of index expressions
 *    `num / den`. Its whole part is then an index expression and its fractional part an exact number,
 *    so that nearest is a pure view, and linear and cubic read at quasi-affine indices.
 *  - *tap*: one input position with its weight.
 *
 * Antialiasing widens the window by the scale; such an axis is a reduction over a constant table of
 * weights, one axis after the other.
 */
import { cast, constant, type Expr, indexValue, when } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { Dim, IndexExpr } from '../ir/indexExpr';
import type { FuseForm, FuseParam, LowerContext, LTensor, OpDef } from './op';
import { at, minus, over, plus, sumOfProducts, times } from './products';
import {
  attrsOf,
  computeFloat,
  optionalParam,
  plainAttr,
  sizeAs,
  sizesOf,
  tensorParam,
} from './shared';

/** num / den, den > 0. */
interface Fraction {
  readonly num: IndexExpr;
  readonly den: IndexExpr;
}

interface ResizedAxis {
  readonly axis: number;
  readonly input: Dim;
  readonly out: Dim;
  /** Output extent over input extent, before rounding. */
  readonly scale: Fraction;
  readonly roi?: readonly [Fraction, Fraction];
}

const TRANSFORMS = [
  'half_pixel',
  'half_pixel_symmetric',
  'pytorch_half_pixel',
  'align_corners',
  'asymmetric',
  'tf_half_pixel_for_nn',
  'tf_crop_and_resize',
] as const;
type Transform = (typeof TRANSFORMS)[number];

const NEAREST_MODES = [
  'round_prefer_floor',
  'round_prefer_ceil',
  'floor',
  'ceil',
  'simple',
] as const;
type NearestMode = (typeof NEAREST_MODES)[number];

/** The simplest fraction that a single-precision number may stand for. */
export function fractionOf(x: number): { readonly p: number; readonly q: number } {
  const sign = x < 0 ? -1 : 1;
  const target = Math.abs(x);
  let [p0, q0, p1, q1] = [0, 1, 1, 0];
  let rest = target;
  for (let i = 0; i < 24; i++) {
    const whole = Math.floor(rest);
    const [p2, q2] = [whole * p1 + p0, whole * q1 + q0];
    if (q2 > 20000 || p2 > 1e6) break;
    [p0, q0, p1, q1] = [p1, q1, p2, q2];
    if (Math.abs(target - p1 / q1) <= 4e-8 * target || rest === whole) break;
    rest = 1 / (rest - whole);
  }
  return q1 === 0 ? { p: sign * Math.round(target), q: 1 } : { p: sign * p1, q: q1 };
}

function fraction(x: number): Fraction {
  const { p, q } = fractionOf(x);
  return { num: I.num(p), den: I.num(q) };
}

function gcd(a: number, b: number): number {
  let [x, y] = [Math.abs(a), Math.abs(b)];
  while (y !== 0) [x, y] = [y, x % y];
  return x;
}

/** In lowest terms where that can be seen. */
function ratio(num: IndexExpr, den: IndexExpr): Fraction {
  const whole = I.exactDiv(num, den);
  if (whole) return { num: whole, den: I.num(1) };
  const inverse = I.exactDiv(den, num);
  if (inverse) return { num: I.num(1), den: inverse };
  const [p, q] = [I.constOf(num), I.constOf(den)];
  if (p === undefined || q === undefined) return { num, den };
  const g = gcd(p, q) || 1;
  return { num: I.num(p / g), den: I.num(q / g) };
}

/** Divides what a number divides in all coefficients of both. */
function reduced(num: IndexExpr, den: IndexExpr): Fraction {
  const d = I.constOf(den);
  if (d === undefined) return { num, den };
  let g = gcd(d, num.c);
  for (const t of num.terms) g = gcd(g, t.coef);
  if (g <= 1) return { num, den };
  return { num: I.exactDiv(num, g) ?? num, den: I.num(d / g) };
}

/** Where output position `o` lies in the input. */
function coordinate(a: ResizedAxis, o: IndexExpr, transform: Transform): Fraction {
  const { num: p, den: q } = a.scale;
  const n = a.input;
  // The output extent before rounding is n*p/q.
  const one = I.same(I.mul(n, p), q);
  const twice = I.add(I.mul(o, 2), 1);
  switch (transform) {
    case 'asymmetric':
      return reduced(I.mul(o, q), p);
    case 'pytorch_half_pixel':
      if (one) return { num: I.num(0), den: I.num(1) };
      return reduced(I.sub(I.mul(twice, q), p), I.mul(p, 2));
    case 'half_pixel':
      return reduced(I.sub(I.mul(twice, q), p), I.mul(p, 2));
    case 'half_pixel_symmetric': {
      const shift = I.sub(I.mul(n, p), I.mul(a.out, q));
      return reduced(I.add(shift, I.sub(I.mul(twice, q), p)), I.mul(p, 2));
    }
    case 'tf_half_pixel_for_nn':
      return reduced(I.mul(twice, q), I.mul(p, 2));
    case 'align_corners':
      if (one) return { num: I.num(0), den: I.num(1) };
      return reduced(I.mul(o, I.mul(I.sub(n, 1), q)), I.sub(I.mul(n, p), q));
    case 'tf_crop_and_resize': {
      const [start, end] = a.roi ?? [fraction(0), fraction(1)];
      // start*(n-1) + o * (end-start)*(n-1) / (out-1); the middle of the region for a single output.
      const width = I.sub(I.mul(end.num, start.den), I.mul(start.num, end.den));
      const both = I.mul(start.den, end.den);
      const last = I.sub(n, 1);
      const offset = I.mul(I.mul(start.num, end.den), last);
      if (one) return reduced(I.add(I.mul(offset, 2), I.mul(width, last)), I.mul(both, 2));
      const steps = I.sub(I.mul(n, p), q);
      const moved = I.mul(I.mul(o, I.mul(width, q)), last);
      return reduced(I.add(I.mul(offset, steps), moved), I.mul(both, steps));
    }
  }
}

/** Whether the axis gets shorter, where that can be seen. */
function shrinks(a: ResizedAxis): boolean {
  return I.provablyLe(I.add(a.scale.num, 1), a.scale.den);
}

/** \`simple\`, of files before version 11, goes to the next element on axes that get shorter. */
function nearestIndex(x: Fraction, mode: NearestMode, a: ResizedAxis): IndexExpr {
  const { num, den } = x;
  switch (mode) {
    case 'simple':
      return shrinks(a) ? I.ceilDiv(num, den) : I.floorDiv(num, den);
    case 'floor':
      return I.floorDiv(num, den);
    case 'ceil':
      return I.ceilDiv(num, den);
    case 'round_prefer_floor':
      return I.ceilDiv(I.sub(I.mul(num, 2), den), I.mul(den, 2));
    case 'round_prefer_ceil':
      return I.floorDiv(I.add(I.mul(num, 2), den), I.mul(den, 2));
  }
}

function clampIndex(i: IndexExpr, extent: Dim): IndexExpr {
  return I.max(I.min(i, I.sub(extent, 1)), 0);
}

/** For crop and resize: true only where the coordinate lies in [0, n - 1]. */
function insideCond(
  a: ResizedAxis,
  x: Fraction,
): { index: IndexExpr; lo: IndexExpr; hi: IndexExpr } {
  return { index: x.num, lo: I.num(0), hi: I.add(I.mul(I.sub(a.input, 1), x.den), 1) };
}

interface ResizeSpec {
  readonly x: LTensor;
  readonly axes: readonly ResizedAxis[];
  readonly shape: readonly Dim[];
  readonly transform: Transform;
  readonly extrapolation: number;
}

/** Applies the value outside the cropped region. */
function cropped(s: ResizeSpec, index: readonly IndexExpr[], e: Expr): Expr {
  if (s.transform !== 'tf_crop_and_resize') return e;
  const conds = s.axes.map((a) => insideCond(a, coordinate(a, at(index, a.axis), s.transform)));
  return when(conds, e, constant(s.extrapolation, e.dtype));
}

function nearest(ctx: LowerContext, s: ResizeSpec, mode: NearestMode): LTensor {
  const map = (index: readonly IndexExpr[]): IndexExpr[] => {
    const source = [...index];
    for (const a of s.axes) {
      const x = coordinate(a, at(index, a.axis), s.transform);
      source[a.axis] = clampIndex(nearestIndex(x, mode, a), a.input);
    }
    return source;
  };
  if (s.transform !== 'tf_crop_and_resize') return ctx.view(s.shape, s.x, map);
  return ctx.pointwise(s.shape, s.x.dtype, (index) => cropped(s, index, s.x.at(map(index))));
}

// ---------------------------------------------------------------------------------------------
// Linear and cubic

/** The cubic convolution kernel at distance |t| of the four taps, t in [0, 1) the fractional part. */
function cubicWeights(t: Expr, a: number): Expr[] {
  const near = (d: Expr): Expr => plus(times(times(minus(times(d, a + 2), a + 3), d), d), 1);
  const far = (d: Expr): Expr =>
    minus(times(plus(times(minus(times(d, a), 5 * a), d), 8 * a), d), 4 * a);
  return [far(plus(t, 1)), near(t), near(minus(1, t)), far(minus(2, t))];
}

interface Tap {
  readonly index: IndexExpr;
  readonly weight: Expr;
}

function tapsOf(
  a: ResizedAxis,
  x: Fraction,
  cubic: number | undefined,
  excludeOutside: boolean,
): Tap[] {
  const floor = I.floorDiv(x.num, x.den);
  const t = over(sizeAs(I.mod(x.num, x.den), 'f32'), sizeAs(x.den, 'f32'));
  const first = cubic === undefined ? 0 : -1;
  let weights = cubic === undefined ? [minus(1, t), t] : cubicWeights(t, cubic);
  const raw = weights.map((_, k) => I.add(floor, first + k));
  if (excludeOutside) {
    weights = weights.map((w, k) => {
      const i = at(raw, k);
      const inside = I.provablyNonNegative(i) && I.provablyLe(i, I.sub(a.input, 1));
      return inside ? w : when([{ index: i, lo: I.num(0), hi: a.input }], w, constant(0, 'f32'));
    });
    const sum = weights.reduce((p, q) => plus(p, q));
    weights = weights.map((w) => over(w, sum));
  }
  return weights.map((weight, k) => ({ index: clampIndex(at(raw, k), a.input), weight }));
}

function interpolated(
  ctx: LowerContext,
  s: ResizeSpec,
  cubic: number | undefined,
  excludeOutside: boolean,
): LTensor {
  const acc = computeFloat(s.x.dtype);
  return ctx.pointwise(s.shape, s.x.dtype, (index) => {
    const perAxis = s.axes.map((a) =>
      tapsOf(a, coordinate(a, at(index, a.axis), s.transform), cubic, excludeOutside),
    );
    // The last axis innermost: a sum of taps of sums of taps.
    const sum = (k: number, source: readonly IndexExpr[]): Expr => {
      const taps = perAxis[k];
      if (!taps) return cast(s.x.at(source), acc);
      const { axis } = at(s.axes, k);
      return taps
        .map((tap) =>
          times(
            cast(tap.weight, acc),
            sum(
              k + 1,
              source.map((i, d) => (d === axis ? tap.index : i)),
            ),
          ),
        )
        .reduce((p, q) => plus(p, q));
    };
    return cropped(s, index, cast(sum(0, index), s.x.dtype));
  });
}

// ---------------------------------------------------------------------------------------------
// Antialiasing

function hat(d: number): number {
  return Math.max(0, 1 - Math.abs(d));
}

function cubicAt(d: number, a: number): number {
  const x = Math.abs(d);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/** One axis: a sum over the widened window, with weights from a table [output, tap]. */
function antialiasedAxis(
  ctx: LowerContext,
  s: ResizeSpec,
  a: ResizedAxis,
  x: LTensor,
  cubic: number | undefined,
  excludeOutside: boolean,
): LTensor {
  const [n, m, p, q] = [a.input, a.out, a.scale.num, a.scale.den].map((d) => I.constOf(d));
  if (n === undefined || m === undefined || p === undefined || q === undefined) {
    return ctx.unsupported('an antialiased resize of a symbolic dim: its weights need known sizes');
  }
  const scale = Math.min(p / q, 1);
  const first = Math.floor(-(cubic === undefined ? 1 : 2) / scale) + 1;
  const count = 2 - 2 * first;
  const weights: number[] = [];
  for (let o = 0; o < m; o++) {
    const c = coordinate(a, I.num(o), s.transform);
    const position = c.num.c / c.den.c;
    const base = Math.ceil(position) - 1;
    const row = Array.from({ length: count }, (_, k) => {
      const d = (base + first + k - position) * scale;
      return cubic === undefined ? hat(d) : cubicAt(d, cubic);
    });
    const kept = row.map((w, k) => {
      const i = base + first + k;
      return excludeOutside && (i < 0 || i >= n) ? 0 : w;
    });
    const sum = kept.reduce((u, v) => u + v, 0);
    weights.push(...kept.map((w) => w / sum));
  }
  const table = ctx.constant({ dtype: 'f32', shape: [m, count] }, weights);
  const shape = x.shape.map((d, i) => (i === a.axis ? a.out : d));
  const acc = computeFloat(x.dtype);
  return sumOfProducts(ctx, { shape, over: [count], dtype: acc, accumulator: acc }, (index, r) => {
    const o = at(index, a.axis);
    const c = coordinate(a, o, s.transform);
    const i = I.add(I.add(I.sub(I.ceilDiv(c.num, c.den), 1), first), at(r, 0));
    const source = index.map((v, d) => (d === a.axis ? clampIndex(i, a.input) : v));
    return [x.at(source), table.at([o, at(r, 0)])];
  });
}

function antialiased(
  ctx: LowerContext,
  s: ResizeSpec,
  cubic: number | undefined,
  excludeOutside: boolean,
): LTensor {
  let x = s.x;
  for (const a of s.axes) x = antialiasedAxis(ctx, s, a, x, cubic, excludeOutside);
  if (s.axes.length === 0) return x;
  const done = x;
  if (done.dtype === s.x.dtype && s.transform !== 'tf_crop_and_resize') return done;
  return ctx.pointwise(s.shape, s.x.dtype, (index) =>
    cropped(s, index, cast(done.at(index), s.x.dtype)),
  );
}

// ---------------------------------------------------------------------------------------------
// Operands

interface Wanted {
  readonly scales?: readonly number[];
  readonly sizes?: readonly Dim[];
}

/** Scales or sizes, from operands (ONNX, by version) or attributes (`.fuse`, Upsample 1 and 7). */
function wantedOf(ctx: LowerContext): Wanted {
  if (ctx.has('sizes')) return { sizes: sizesOf(ctx, -1, 'sizes') ?? [] };
  if (ctx.has('scales')) return { scales: ctx.ints('scales') };
  if (ctx.has('height_scale'))
    return { scales: [1, 1, ctx.float('height_scale'), ctx.float('width_scale')] };
  // Before version 11 the scales were operand 2; since then it is the region of interest.
  const old = ctx.arity === 2;
  const scales = old ? 1 : 2;
  const hasScales = scales < ctx.arity && ctx.optional(scales) && !isEmpty(ctx.optional(scales));
  if (hasScales) return { scales: ctx.numbers(scales) };
  if (!old && ctx.arity > 3 && ctx.optional(3)) return { sizes: ctx.sizes(3) };
  return ctx.fail('BAD_ATTRIBUTE', 'neither scales nor sizes are given');
}

function isEmpty(t: LTensor | undefined): boolean {
  return t === undefined || t.shape.some((d) => I.isConst(d, 0));
}

function choice<T extends string>(
  ctx: LowerContext,
  name: string,
  all: readonly T[],
  fallback: T,
): T {
  const text = ctx.str(name, fallback);
  return (
    all.find((c) => c === text) ??
    ctx.fail('BAD_ATTRIBUTE', `${name} '${text}' is none of ${all.join(', ')}`)
  );
}

function axesOfResize(ctx: LowerContext, rank: number, count: number): number[] {
  if (ctx.bool('spatial', false)) return Array.from({ length: rank - 2 }, (_, i) => i + 2);
  const given = ctx.ints('axes', []);
  if (given.length > 0) return given.map((a) => ctx.axis(a, rank));
  if (count !== rank) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `${count} scales or sizes are given for an operand of rank ${rank}: give one per dim, or name the axes`,
    );
  }
  return Array.from({ length: rank }, (_, i) => i);
}

function fit<T>(
  ctx: LowerContext,
  list: readonly T[],
  axes: readonly number[],
  what: string,
): readonly T[] {
  const only = list.length === 1 ? list[0] : undefined;
  if (only !== undefined) return axes.map(() => only);
  if (list.length !== axes.length) {
    ctx.fail('BAD_ATTRIBUTE', `${what} has ${list.length} entries for ${axes.length} axes`);
  }
  return list;
}

function resizedAxes(ctx: LowerContext, x: LTensor): ResizedAxis[] {
  const wanted = wantedOf(ctx);
  const rank = x.shape.length;
  const axes = axesOfResize(ctx, rank, (wanted.scales ?? wanted.sizes ?? []).length);
  const rois = roiOf(ctx, axes);
  const inputs = axes.map((a) => at(x.shape, a));
  if (wanted.scales) {
    const scales = fit(ctx, wanted.scales, axes, 'scales');
    return axes.map((axis, i) => {
      const s = at(scales, i);
      if (!(s > 0)) ctx.fail('BAD_ATTRIBUTE', `the scales hold ${s}: scales are positive`);
      const scale = fraction(s);
      const input = at(inputs, i);
      const out = I.floorDiv(I.mul(input, scale.num), scale.den);
      return { axis, input, out, scale, ...at(rois, i) };
    });
  }
  const sizes = fit(ctx, wanted.sizes ?? [], axes, 'sizes');
  const policy = choice(
    ctx,
    'keep_aspect_ratio_policy',
    ['stretch', 'not_larger', 'not_smaller'] as const,
    'stretch',
  );
  if (policy === 'stretch') {
    return axes.map((axis, i) => {
      const [input, out] = [at(inputs, i), at(sizes, i)];
      return { axis, input, out, scale: ratio(out, input), ...at(rois, i) };
    });
  }
  const factors = axes.map((_, i) => {
    const [n, m] = [I.constOf(at(inputs, i)), I.constOf(at(sizes, i))];
    if (n === undefined || m === undefined) {
      return ctx.unsupported(`keep_aspect_ratio_policy '${policy}' with symbolic sizes`);
    }
    return { n, m };
  });
  const best = factors.reduce((p, f) => {
    const smaller = f.m * p.n < p.m * f.n;
    return smaller === (policy === 'not_larger') ? f : p;
  });
  return axes.map((axis, i) => {
    const { n } = at(factors, i);
    const out = I.num(Math.floor((best.m * n) / best.n + 0.5));
    return {
      axis,
      input: I.num(n),
      out,
      scale: ratio(I.num(best.m), I.num(best.n)),
      ...at(rois, i),
    };
  });
}

/** Start and end per axis of the region, as fractions of the extent; only for crop and resize. */
function roiOf(
  ctx: LowerContext,
  axes: readonly number[],
): readonly { roi?: readonly [Fraction, Fraction] }[] {
  if (ctx.str('coordinate_transformation_mode', '') !== 'tf_crop_and_resize') {
    return axes.map(() => ({}));
  }
  const roi = ctx.numbers(1);
  if (roi.length !== 2 * axes.length) {
    ctx.fail(
      'BAD_ATTRIBUTE',
      `roi has ${roi.length} entries; it takes all starts, then all ends, of ${axes.length} axes`,
    );
  }
  return axes.map((_, i) => ({
    roi: [fraction(at(roi, i)), fraction(at(roi, axes.length + i))] as const,
  }));
}

function changesNothing(a: ResizedAxis, transform: Transform): boolean {
  if (!I.same(a.input, a.out)) return false;
  if (transform === 'tf_crop_and_resize') {
    const [start, end] = a.roi ?? [];
    return !!start && !!end && I.isConst(start.num, 0) && I.same(end.num, end.den);
  }
  return I.same(a.scale.num, a.scale.den) && transform !== 'tf_half_pixel_for_nn';
}

/** Upsample, and Resize before version 11: attributes didn't say how coordinates are mapped. */
function isLegacy(ctx: LowerContext): boolean {
  return ctx.node.sourceOp === 'Upsample' || ctx.arity === 2;
}

function lowerResize(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const all = resizedAxes(ctx, x);
  const transform = choice(
    ctx,
    'coordinate_transformation_mode',
    TRANSFORMS,
    isLegacy(ctx) ? 'asymmetric' : 'half_pixel',
  );
  const shape = x.shape.map((d, i) => all.find((a) => a.axis === i)?.out ?? d);
  if (x.shape.some((d, i) => I.isConst(d, 0) && !I.isConst(shape[i] ?? I.num(0), 0)))
    ctx.fail('SHAPE_MISMATCH', `there is nothing in ${I.printShape(x.shape)} to resize`);
  const spec: ResizeSpec = {
    x,
    axes: all.filter((a) => !changesNothing(a, transform)),
    shape,
    transform,
    extrapolation: ctx.float('extrapolation_value', 0),
  };
  const mode = ctx.str('mode', 'nearest');
  const antialias = ctx.bool('antialias', false);
  const exclude = ctx.bool('exclude_outside', false);
  switch (mode) {
    case 'nearest': {
      const fallback = isLegacy(ctx) ? 'simple' : 'round_prefer_floor';
      return nearest(ctx, spec, choice(ctx, 'nearest_mode', NEAREST_MODES, fallback));
    }
    case 'linear':
    case 'bilinear':
    case 'trilinear':
      return antialias
        ? antialiased(ctx, spec, undefined, exclude)
        : interpolated(ctx, spec, undefined, exclude);
    case 'cubic':
    case 'bicubic': {
      const a = ctx.float('cubic_coeff_a', -0.75);
      return antialias ? antialiased(ctx, spec, a, exclude) : interpolated(ctx, spec, a, exclude);
    }
    default:
      return ctx.fail('BAD_ATTRIBUTE', `mode '${mode}' is none of nearest, linear, cubic`);
  }
}

// ---------------------------------------------------------------------------------------------
// Fixed grids of an affine map

/** The sampling positions of each output pixel, for GridSample: [N, H, W, 2] or [N, D, H, W, 3]. */
function lowerAffineGrid(ctx: LowerContext): LTensor {
  const theta = ctx.input(0);
  const size = sizesOf(ctx, 1, 'size') ?? ctx.fail('BAD_ATTRIBUTE', 'size is missing');
  const rank = size.length - 2;
  if ((rank !== 2 && rank !== 3) || theta.shape.length !== 3) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `affine_grid takes theta [N, 2, 3] with a size of 4, or [N, 3, 4] with a size of 5; they are ${I.printShape(theta.shape)} and ${size.length}`,
    );
  }
  [at(size, 0), I.num(rank), I.num(rank + 1)].forEach((d, i) => {
    ctx.requireEqual(at(theta.shape, i), d, `dim ${i} of theta ${I.printShape(theta.shape)}`);
  });
  const spatial = size.slice(2);
  const align = ctx.bool('align_corners', false);
  const acc = computeFloat(theta.dtype);
  const position = (i: IndexExpr, n: Dim): Expr => {
    if (I.isConst(n, 1)) return constant(0, acc);
    const [num, den] = align
      ? [I.sub(I.mul(i, 2), I.sub(n, 1)), I.sub(n, 1)]
      : [I.sub(I.add(I.mul(i, 2), 1), n), n];
    return over(cast(indexValue(num, 'i32'), acc), sizeAs(den, acc));
  };
  return ctx.pointwise([at(size, 0), ...spatial, I.num(rank)], theta.dtype, (index) => {
    const [b, row] = [at(index, 0), at(index, rank + 1)];
    const entry = (c: number): Expr => cast(theta.at([b, row, I.num(c)]), acc);
    // x belongs to the last spatial dim.
    const terms = spatial.map((n, d) => times(entry(rank - 1 - d), position(at(index, d + 1), n)));
    return cast(
      terms.reduce((p, q) => plus(p, q), entry(rank)),
      theta.dtype,
    );
  });
}

// ---------------------------------------------------------------------------------------------
// `.fuse` forms

function interpolateMode(
  mode: string,
  align: boolean,
  antialias: boolean,
): Record<string, string | number | boolean> {
  switch (mode) {
    case 'nearest':
      return { mode, coordinate_transformation_mode: 'asymmetric', nearest_mode: 'floor' };
    case 'nearest-exact':
      return {
        mode: 'nearest',
        coordinate_transformation_mode: 'half_pixel',
        nearest_mode: 'round_prefer_ceil',
      };
    default:
      return {
        mode,
        coordinate_transformation_mode: align ? 'align_corners' : 'half_pixel',
        ...(antialias ? { antialias, exclude_outside: true, cubic_coeff_a: -0.5 } : {}),
      };
  }
}

/** `scale_factor` is one number, or in its own form a list of whole ones. */
function interpolateForm(scale: FuseParam): FuseForm {
  return {
    names: ['interpolate', 'upsample', 'resize'],
    params: [
      tensorParam('input', 'x'),
      optionalParam('size', 'sizes'),
      scale,
      optionalParam('mode', 'str', 'nearest'),
      optionalParam('align_corners', 'bool', false),
      optionalParam('antialias', 'bool', false),
    ],
    attrs: (args) =>
      attrsOf({
        spatial: true,
        sizes: plainAttr(args['size']),
        scales: plainAttr(args['scale_factor']),
        ...interpolateMode(
          typeof args['mode'] === 'string' ? args['mode'] : 'nearest',
          args['align_corners'] === true,
          args['antialias'] === true,
        ),
      }),
    doc: 'Resizes the spatial dims: size=[…] or scale_factor=…, mode nearest, nearest-exact, linear, bilinear, bicubic or trilinear.',
  };
}

const INTERPOLATE: readonly FuseForm[] = [
  {
    ...interpolateForm(optionalParam('scale_factor', 'ints', undefined, 'scale', 'scales')),
    matches: (call) =>
      ['scale_factor', 'scale', 'scales'].some((n) => call.named[n] === 'list') ||
      call.positional[2] === 'list',
  },
  interpolateForm(optionalParam('scale_factor', 'float', undefined, 'scale', 'scales')),
];

export const resizeOps: readonly OpDef[] = [
  { name: 'resize', onnx: ['Resize', 'Upsample'], fuse: INTERPOLATE, lower: lowerResize },
  {
    name: 'affine_grid',
    onnx: ['AffineGrid'],
    fuse: [
      {
        names: ['affine_grid'],
        params: [
          tensorParam('theta'),
          { name: 'size', kind: 'sizes' },
          optionalParam('align_corners', 'bool', false),
        ],
        doc: 'The sampling grid of an affine map, for grid_sample.',
      },
    ],
    lower: lowerAffineGrid,
  },
];
