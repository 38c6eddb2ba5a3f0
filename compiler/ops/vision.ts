/**
 * Ops that read an image at computed positions (GridSample, RoiAlign), and Col2Im, which sums
 * overlapping blocks back into one.
 */
import { cast, constant, type Expr, indexValue, select, unary, when } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { Dim, IndexExpr } from '../ir/indexExpr';
import { spread } from './convolution';
import type { FuseForm, LowerContext, LTensor, OpDef } from './op';
import {
  at,
  atMost,
  below,
  both,
  clamp,
  clampedIndex,
  either,
  equals,
  greatest,
  least,
  minus,
  over,
  plus,
  reduceOver,
  requireShape,
  times,
  wide,
} from './products';
import { blend, inside, type Neighbour, sizeOf } from './sampling';
import { attrsOf, intList, optionalParam, plainAttr, sizeAs, sizesOf, tensorParam } from './shared';
import { coverage, padsOf, perAxis } from './window';

// ---------------------------------------------------------------------------------------------
// GridSample

type Padding = 'zeros' | 'border' | 'reflection';
type GridMode = 'nearest' | 'linear' | 'cubic';

interface GridAxis {
  readonly extent: Dim;
  readonly align: boolean;
  readonly padding: Padding;
}

/** Mirrors a coordinate at the borders until it lies between them. */
function reflect(x: Expr, a: GridAxis): Expr {
  const n = sizeOf(a.extent, x);
  const low = constant(a.align ? 0 : -0.5, x.dtype);
  const high = minus(n, a.align ? 1 : 0.5);
  const range = minus(high, low);
  const distance = unary('abs', minus(x, low));
  const safe = greatest(range, 1e-6);
  const turns = unary('floor', over(distance, safe));
  const rest = minus(distance, times(turns, range));
  const odd = minus(turns, times(unary('floor', times(turns, 0.5)), 2));
  return select(equals(odd, 0), plus(low, rest), minus(high, rest));
}

/** A pixel position (a whole float) as an index, with the condition that it is inside where zeros are padded. */
function pixel(p: Expr, a: GridAxis): { index: IndexExpr; valid?: Expr } {
  switch (a.padding) {
    case 'zeros':
      return { index: clampedIndex(cast(p, 'i32'), a.extent), valid: inside(p, a.extent) };
    case 'border':
      return { index: clampedIndex(cast(p, 'i32'), a.extent) };
    case 'reflection':
      return { index: clampedIndex(cast(reflect(p, a), 'i32'), a.extent) };
  }
}

/** From [-1, 1] to pixels. */
function denormalise(g: Expr, a: GridAxis): Expr {
  const n = sizeOf(a.extent, g);
  return a.align
    ? times(times(plus(g, 1), 0.5), minus(n, 1))
    : times(minus(times(plus(g, 1), n), 1), 0.5);
}

/** Cubic taps are padded one by one (by \`pixel\`): what they weigh depends on where the coordinate really is. */
function padCoordinate(x: Expr, a: GridAxis, mode: GridMode): Expr {
  if (mode === 'cubic') return x;
  switch (a.padding) {
    case 'zeros':
      return x;
    case 'border':
      return clamp(x, 0, minus(sizeOf(a.extent, x), 1));
    case 'reflection':
      return reflect(x, a);
  }
}

/** Keys' cubic convolution at the four taps, t in [0, 1). */
function cubicWeights(t: Expr): Expr[] {
  const a = -0.75;
  const near = (d: Expr): Expr => plus(times(times(minus(times(d, a + 2), a + 3), d), d), 1);
  const far = (d: Expr): Expr =>
    minus(times(plus(times(minus(times(d, a), 5 * a), d), 8 * a), d), 4 * a);
  return [far(plus(t, 1)), near(t), near(minus(1, t)), far(minus(2, t))];
}

function neighbours(x: Expr, a: GridAxis, mode: 'linear' | 'cubic'): Neighbour[] {
  const floor = unary('floor', x);
  const t = minus(x, floor);
  const weights = mode === 'linear' ? [minus(1, t), t] : cubicWeights(t);
  const first = mode === 'linear' ? 0 : -1;
  return weights.map((weight, k) => ({ ...pixel(plus(floor, first + k), a), weight }));
}

/** Nearest even in two dims and above three, away from zero in three, as PyTorch does. */
function nearestPixel(x: Expr, dims: number): Expr {
  if (dims !== 3) return unary('round', x);
  const half = times(unary('sign', x), 0.5);
  return unary('trunc', plus(x, half));
}

function lowerGridSample(ctx: LowerContext): LTensor {
  const [x, grid] = [ctx.input(0), ctx.input(1)];
  const dims = x.shape.length - 2;
  if (dims < 1 || grid.shape.length !== dims + 2) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `grid_sample takes [N, C, spatial…] and a grid [N, output…, spatial dims]; they are ${I.printShape(x.shape)} and ${I.printShape(grid.shape)}`,
    );
  }
  ctx.requireEqual(at(x.shape, 0), at(grid.shape, 0), 'the batch dims of input and grid');
  ctx.requireEqual(
    at(grid.shape, dims + 1),
    I.num(dims),
    'the last dim of the grid and the number of spatial dims',
  );
  const padding = ctx.str('padding_mode', 'zeros');
  if (padding !== 'zeros' && padding !== 'border' && padding !== 'reflection') {
    ctx.fail('BAD_ATTRIBUTE', `padding_mode '${padding}' is none of zeros, border, reflection`);
  }
  const align = ctx.bool('align_corners', false);
  const axes = x.shape.slice(2).map((extent): GridAxis => ({ extent, align, padding }));
  const mode = gridMode(ctx);
  const acc = wide(x.dtype) === 'f64' ? 'f64' : 'f32';
  const shape = [at(x.shape, 0), at(x.shape, 1), ...grid.shape.slice(1, -1)];
  /** The coordinate along spatial dim d; the grid names the last one first. */
  const coordinateAt = (where: readonly IndexExpr[], d: number): Expr =>
    denormalise(cast(grid.at([...where, I.num(dims - 1 - d)]), acc), at(axes, d));
  const heavy = mode !== 'nearest' && (mode === 'cubic' || padding === 'reflection');
  const stored = heavy ? storePositions(ctx, grid, axes, mode, acc, coordinateAt) : undefined;
  return ctx.pointwise(shape, x.dtype, (index) => {
    const [n, c] = [at(index, 0), at(index, 1)];
    const raw = axes.map((_, d) => coordinateAt([n, ...index.slice(2)], d));
    const read = (where: readonly IndexExpr[]): Expr => cast(x.at([n, c, ...where]), acc);
    if (mode === 'nearest') {
      const pixels = axes.map((a, d) =>
        pixel(padCoordinate(nearestPixel(at(raw, d), dims), a, mode), a),
      );
      const value = read(pixels.map((p) => p.index));
      const conds = pixels.flatMap((p) => (p.valid ? [p.valid] : []));
      const kept = conds.length === 0 ? value : select(conds.reduce(both), value, constant(0, acc));
      return cast(kept, x.dtype);
    }
    const perDim = axes.map((a, d) =>
      stored
        ? storedNeighbours(stored, [n, ...index.slice(2)], d, a, mode)
        : neighbours(padCoordinate(at(raw, d), a, mode), a, mode),
    );
    return cast(blend(perDim, read), x.dtype);
  });
}

/** Padded coordinates, and the pixel of each tap, per grid point and spatial dim. */
interface StoredPositions {
  readonly coordinates: LTensor;
  readonly pixels: LTensor;
}

/**
 * Positions that take much arithmetic are computed once per grid point, not once per channel and
 * neighbour. Pixels outside are stored as -1.
 */
function storePositions(
  ctx: LowerContext,
  grid: LTensor,
  axes: readonly GridAxis[],
  mode: 'linear' | 'cubic',
  dtype: Expr['dtype'],
  coordinateAt: (where: readonly IndexExpr[], d: number) => Expr,
): StoredPositions {
  const lead = grid.shape.slice(0, -1);
  const dims = axes.length;
  /** One of the dims' expressions, by an index that says which. */
  const perDim = (d: IndexExpr, of: (d: number) => Expr): Expr =>
    axes
      .slice(0, -1)
      .reduceRight<Expr>(
        (rest, _, i) => when([{ index: d, lo: I.num(i), hi: I.num(i + 1) }], of(i), rest),
        of(dims - 1),
      );
  const coordinates = ctx.pointwise([...lead, dims], dtype, (index) =>
    perDim(at(index, lead.length), (d) =>
      padCoordinate(coordinateAt(index.slice(0, lead.length), d), at(axes, d), mode),
    ),
  );
  const [first, taps] = mode === 'linear' ? [0, 2] : [-1, 4];
  const pixels = ctx.pointwise([...lead, dims, taps], 'i32', (index) => {
    const where = index.slice(0, lead.length + 1);
    const base = unary('floor', coordinates.at(where));
    const p = plus(base, indexValue(I.add(at(index, lead.length + 1), first), dtype));
    return perDim(at(index, lead.length), (d) => {
      const a = at(axes, d);
      if (a.padding === 'zeros') {
        return select(inside(p, a.extent), cast(p, 'i32'), constant(-1, 'i32'));
      }
      const whole = a.padding === 'reflection' ? reflect(p, a) : p;
      return clamp(cast(whole, 'i32'), 0, sizeAs(I.sub(a.extent, 1), 'i32'));
    });
  });
  return { coordinates, pixels };
}

function storedNeighbours(
  s: StoredPositions,
  where: readonly IndexExpr[],
  d: number,
  a: GridAxis,
  mode: 'linear' | 'cubic',
): Neighbour[] {
  const x = s.coordinates.at([...where, I.num(d)]);
  const t = minus(x, unary('floor', x));
  const weights = mode === 'linear' ? [minus(1, t), t] : cubicWeights(t);
  return weights.map((weight, k) => {
    const p = s.pixels.at([...where, I.num(d), I.num(k)]);
    const neighbour = { index: clampedIndex(p, a.extent), weight };
    return a.padding === 'zeros' ? { ...neighbour, valid: atMost(0, p) } : neighbour;
  });
}

function gridMode(ctx: LowerContext): GridMode {
  const mode = ctx.str('mode', 'linear');
  switch (mode) {
    case 'nearest':
      return 'nearest';
    case 'linear':
    case 'bilinear':
      return 'linear';
    case 'cubic':
    case 'bicubic':
      return 'cubic';
    default:
      return ctx.fail('BAD_ATTRIBUTE', `mode '${mode}' is none of nearest, linear, cubic`);
  }
}

// ---------------------------------------------------------------------------------------------
// RoiAlign

interface RoiAxis {
  readonly start: Expr;
  readonly bin: Expr;
  /** Samples per bin, as a float. */
  readonly samples: Expr;
}

function lowerRoiAlign(ctx: LowerContext): LTensor {
  const [x, rois, batches] = [ctx.input(0), ctx.input(1), ctx.input(2)];
  if (x.shape.length !== 4 || rois.shape.length !== 2) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `RoiAlign takes [N, C, H, W] and regions [R, 4]; they are ${I.printShape(x.shape)} and ${I.printShape(rois.shape)}`,
    );
  }
  ctx.requireEqual(at(rois.shape, 1), I.num(4), 'the last dim of the regions');
  requireShape(ctx, batches.shape, [at(rois.shape, 0)], 'batch_indices');
  const pooled = [ctx.int('output_height', 1), ctx.int('output_width', 1)];
  const ratio = ctx.int('sampling_ratio', 0);
  const scale = ctx.float('spatial_scale', 1);
  const max = ctx.str('mode', 'avg') === 'max';
  const legacy = ctx.int('opset', 16) < 16;
  const half =
    ctx.str('coordinate_transformation_mode', legacy ? 'output_half_pixel' : 'half_pixel') ===
    'half_pixel';
  const extents = [at(x.shape, 2), at(x.shape, 3)];
  const f = (e: Expr): Expr => cast(e, 'f32');
  // Column of the region's start along height and width.
  const columns = [1, 0];
  const roiAxis = (r: IndexExpr, d: number): RoiAxis => {
    const corner = (c: number): Expr =>
      minus(times(f(rois.at([r, I.num(c)])), scale), half ? 0.5 : 0);
    const start = corner(at(columns, d));
    const extent = minus(corner(at(columns, d) + 2), start);
    const size = half ? extent : greatest(extent, 1);
    const bin = over(size, at(pooled, d));
    return {
      start,
      bin,
      samples: ratio > 0 ? constant(ratio, 'f32') : clamp(unary('ceil', bin), 0, mostSamples(d)),
    };
  };
  /** Without a ratio a bin has as many samples as pixels; a region is at most as large as the image. */
  const mostSamples = (d: number): Expr => sizeAs(sampleExtent(d), 'f32');
  const sampleExtent = (d: number): Dim =>
    ratio > 0 ? I.num(ratio) : I.add(I.ceilDiv(at(extents, d), at(pooled, d)), 1);

  const shape = [at(rois.shape, 0), at(x.shape, 1), ...pooled.map(I.num)];
  const low = -Infinity;
  const acc = 'f32';
  const reduced = reduceOver(
    ctx,
    { shape, over: [sampleExtent(0), sampleExtent(1)], monoid: max ? 'max' : 'sum', dtype: acc },
    (index, k) => {
      const [r, c] = [at(index, 0), at(index, 1)];
      const batch = clampedIndex(batches.at([r]), at(x.shape, 0));
      const axes = [0, 1].map((d) => roiAxis(r, d));
      const samples = axes.map((a, d) => {
        const o = sizeAs(at(index, d + 2), 'f32');
        const i = plus(indexValue(at(k, d), 'f32'), 0.5);
        return plus(plus(a.start, times(o, a.bin)), over(times(i, a.bin), a.samples));
      });
      const outside = samples
        .map((p, d) => either(below(p, -1), below(sizeOf(at(extents, d), p), p)))
        .reduce(either);
      const perDim = samples.map((p, d) => edgeNeighbours(p, at(extents, d)));
      const read = (where: readonly IndexExpr[]): Expr => f(x.at([batch, c, ...where]));
      const value = max ? largest(perDim, read) : blend(perDim, read);
      const zeroed = select(outside, constant(0, acc), value);
      const skipped = axes.flatMap((a, d) =>
        ratio > 0 ? [] : [below(indexValue(at(k, d), 'f32'), a.samples)],
      );
      return skipped.length === 0
        ? zeroed
        : select(skipped.reduce(both), zeroed, constant(max ? low : 0, acc));
    },
  );
  return ctx.pointwise(shape, x.dtype, (index) => {
    const e = reduced.at(index);
    if (max) return cast(ratio > 0 ? e : select(equals(e, low), constant(0, acc), e), x.dtype);
    const count = [0, 1].map((d) => roiAxis(at(index, 0), d).samples).reduce((a, b) => times(a, b));
    return cast(over(e, greatest(count, 1)), x.dtype);
  });
}

/** The two neighbours of a coordinate that is moved onto the image first. */
function edgeNeighbours(p: Expr, extent: Dim): Neighbour[] {
  const last = minus(sizeOf(extent, p), 1);
  const x = least(greatest(p, 0), last);
  const floor = unary('floor', x);
  const t = minus(x, floor);
  return [
    { index: clampedIndex(cast(floor, 'i32'), extent), weight: minus(1, t) },
    { index: clampedIndex(cast(plus(floor, 1), 'i32'), extent), weight: t },
  ];
}

/** The greatest weighted neighbour: how RoiAlign's max mode is defined. */
function largest(
  perDim: readonly (readonly Neighbour[])[],
  read: (index: readonly IndexExpr[]) => Expr,
): Expr {
  let combos: Neighbour[][] = [[]];
  for (const dim of perDim) combos = combos.flatMap((c) => dim.map((n) => [...c, n]));
  return combos
    .map((combo) =>
      times(
        combo.map((n) => n.weight).reduce((a, b) => times(a, b)),
        read(combo.map((n) => n.index)),
      ),
    )
    .reduce((a, b) => greatest(a, b));
}

// ---------------------------------------------------------------------------------------------
// Col2Im

/** Every pixel sums the block elements that cover it. Operands: blocks [N, C * block, L], image and block shape. */
function lowerCol2Im(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const image =
    sizesOf(ctx, 1, 'image_shape') ?? ctx.fail('BAD_ATTRIBUTE', 'the image shape is missing');
  const block =
    sizesOf(ctx, 2, 'block_shape') ?? ctx.fail('BAD_ATTRIBUTE', 'the block shape is missing');
  const rank = image.length;
  if (x.shape.length !== 3 || block.length !== rank) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `Col2Im takes [N, C * block, L] with an image and a block shape of one length; they are ${I.printShape(x.shape)}, ${I.printShape(image)} and ${I.printShape(block)}`,
    );
  }
  const strides = perAxis(ctx, 'strides', rank, 1);
  const dilations = perAxis(ctx, 'dilations', rank, 1);
  const pads = padsOf(ctx, rank);
  const counts = image.map((n, i) => {
    const [begin, end] = at(pads, i);
    const room = I.sub(I.add(n, begin + end), coverage(at(block, i), at(dilations, i)));
    if (I.upperBound(room) < 0) {
      ctx.fail(
        'SHAPE_MISMATCH',
        `on dim ${i} a block of ${I.printIndex(at(block, i))} is larger than the padded image`,
      );
    }
    return I.add(I.floorDiv(room, at(strides, i)), 1);
  });
  const blockSize = I.product(block);
  const channels =
    I.exactDiv(at(x.shape, 1), blockSize) ??
    ctx.fail(
      'SHAPE_MISMATCH',
      `dim 1 of ${I.printShape(x.shape)} doesn't divide into blocks of ${I.printShape(block)}`,
    );
  ctx.requireEqual(
    at(x.shape, 2),
    I.product(counts),
    'the number of blocks in the operand and in the image',
  );
  return reduceOver(
    ctx,
    { shape: [at(x.shape, 0), channels, ...image], over: block, monoid: 'sum', dtype: x.dtype },
    (index, k) => {
      const conds: { index: IndexExpr; lo: IndexExpr; hi: IndexExpr }[] = [];
      const position = image.map((_, i) => {
        const [begin] = at(pads, i);
        const stride = at(strides, i);
        const p = I.sub(I.add(at(index, i + 2), begin), I.mul(at(k, i), at(dilations, i)));
        const rest = I.mod(p, stride);
        if (!I.isConst(rest, 0)) conds.push({ index: rest, lo: I.num(0), hi: I.num(1) });
        const b = I.floorDiv(p, stride);
        const count = at(counts, i);
        if (!I.provablyNonNegative(b) || !I.provablyLe(b, I.sub(count, 1))) {
          conds.push({ index: b, lo: I.num(0), hi: count });
        }
        return b;
      });
      const row = I.add(I.mul(at(index, 1), blockSize), I.linearise(k, block));
      const e = x.at([at(index, 0), row, I.linearise(position, counts)]);
      return when(conds, e, constant(0, x.dtype));
    },
  );
}

const FOLD: FuseForm = {
  names: ['fold', 'col2im'],
  params: [
    tensorParam('input', 'x'),
    { name: 'output_size', kind: 'sizes' },
    { name: 'kernel_size', kind: 'ints' },
    optionalParam('dilation', 'ints', 1),
    optionalParam('padding', 'ints', 0),
    optionalParam('stride', 'ints', 1),
  ],
  attrs: (args) => {
    const rank = Math.max(intList(args['output_size'])?.length ?? 1, 1);
    const pads = spread(args['padding'], rank) ?? [];
    return attrsOf({
      image_shape: plainAttr(args['output_size']),
      block_shape: spread(args['kernel_size'], rank),
      dilations: spread(args['dilation'], rank),
      strides: spread(args['stride'], rank),
      pads: [...pads, ...pads],
    });
  },
  doc: 'Sums overlapping blocks [N, C * kernel, L] into an image.',
};

export const visionOps: readonly OpDef[] = [
  {
    name: 'grid_sample',
    onnx: ['GridSample', 'com.microsoft:GridSample'],
    fuse: [
      {
        names: ['grid_sample'],
        params: [
          tensorParam('input', 'x'),
          tensorParam('grid'),
          optionalParam('mode', 'str', 'bilinear'),
          optionalParam('padding_mode', 'str', 'zeros'),
          optionalParam('align_corners', 'bool', false),
        ],
        doc: 'Reads the input at the positions of the grid, in [-1, 1], x first.',
      },
    ],
    lower: lowerGridSample,
  },
  { name: 'roi_align', onnx: ['RoiAlign'], lower: lowerRoiAlign },
  { name: 'col2im', onnx: ['Col2Im'], fuse: [FOLD], lower: lowerCol2Im },
];
