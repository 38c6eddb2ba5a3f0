/**
 * Pooling: windows of the input combined by max, mean or p-norm, over the whole spatial extent or to
 * a given output size.
 *
 * The window is the reduction; what follows it (dividing by the count, taking the root) is a separate
 * elementwise compute.
 */
import type { Attrs } from '../graph/graph';
import {
  binary,
  cast,
  constant,
  dynIndex,
  type Expr,
  indexValue,
  select,
  unary,
  when,
} from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { Dim, IndexExpr } from '../ir/indexExpr';
import { paddingAttrs, spread } from './convolution';
import type { FuseArg, FuseForm, LowerContext, LTensor, OpDef } from './op';
import {
  at,
  equals,
  lowest,
  over,
  plus,
  power,
  product,
  reduceOver,
  requireShape,
  root,
  times,
} from './products';
import {
  attrsOf,
  computeFloat,
  intList,
  optionalParam,
  plainAttr,
  sizeAs,
  sizesOf,
  tensorParam,
} from './shared';
import { tapCount, taps, type WindowAxis, windowAxes } from './window';

interface Pool {
  readonly x: LTensor;
  readonly axes: readonly WindowAxis[];
  readonly shape: readonly Dim[];
}

function poolOf(ctx: LowerContext): Pool {
  const x = ctx.input(0);
  const rank = x.shape.length - 2;
  if (rank < 1) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `pooling takes [batch, channels, spatial…]; the operand has shape ${I.printShape(x.shape)}`,
    );
  }
  const kernel = ctx.ints('kernel_shape');
  if (kernel.length !== rank || kernel.some((k) => k < 1)) {
    ctx.fail(
      'BAD_ATTRIBUTE',
      `kernel_shape [${kernel.join(', ')}] must be ${rank} positive numbers, one for each spatial dim of ${I.printShape(x.shape)}`,
    );
  }
  const axes = windowAxes(ctx, {
    spatial: x.shape.slice(2),
    kernel: kernel.map(I.num),
    ceil: ctx.bool('ceil_mode', false),
  });
  return { x, axes, shape: [...x.shape.slice(0, 2), ...axes.map((a) => a.out)] };
}

/** Element of the window, `outside` where the tap is in the padding. */
function windowElement(
  pool: Pool,
  index: readonly IndexExpr[],
  k: readonly IndexExpr[],
  outside: number,
  of: (e: Expr) => Expr = (e) => e,
): Expr {
  const t = taps(pool.axes, index.slice(2), k);
  const e = of(pool.x.at([...index.slice(0, 2), ...t.index]));
  return when(t.conds, e, constant(outside, e.dtype));
}

export function lowerMaxPool(ctx: LowerContext): readonly LTensor[] {
  const pool = poolOf(ctx);
  const { x, axes, shape } = pool;
  const kernel = axes.map((a) => a.kernel);
  const low = lowest(x.dtype);
  const y = reduceOver(ctx, { shape, over: kernel, monoid: 'max', dtype: x.dtype }, (index, k) =>
    windowElement(pool, index, k, low),
  );
  if (ctx.node.results.length < 2) return [y];
  const best = reduceOver(
    ctx,
    { shape, over: kernel, monoid: { kind: 'argmax', last: false }, dtype: 'i32' },
    (index, k) => windowElement(pool, index, k, low),
  );
  const columnMajor = ctx.int('storage_order', 0) === 1;
  // The position in the window becomes a position in the input, flattened from the batch on.
  const indices = ctx.pointwise(shape, 'i64', (index) => {
    const position = dynIndex(best.at(index), I.product(kernel));
    const t = taps(axes, index.slice(2), I.delinearise(position, kernel));
    const spatial = x.shape.slice(2);
    const plane = I.linearise(index.slice(0, 2), x.shape.slice(0, 2));
    const inPlane = columnMajor
      ? I.linearise([...t.index].reverse(), [...spatial].reverse())
      : I.linearise(t.index, spatial);
    return indexValue(I.add(I.mul(plane, I.product(spatial)), inPlane), 'i64');
  });
  return [y, indices];
}

export function lowerAveragePool(ctx: LowerContext): LTensor {
  const pool = poolOf(ctx);
  const { x, axes, shape } = pool;
  const acc = computeFloat(x.dtype);
  const sum = reduceOver(
    ctx,
    { shape, over: axes.map((a) => a.kernel), monoid: 'sum', dtype: acc },
    (index, k) => windowElement(pool, index, k, 0, (e) => cast(e, acc)),
  );
  const divisor = ctx.int('divisor_override', 0);
  const padded = ctx.bool('count_include_pad', false);
  return ctx.pointwise(shape, x.dtype, (index) => {
    const counts = axes.map((a, i) => tapCount(a, at(index, i + 2), padded));
    const count =
      divisor > 0
        ? constant(divisor, acc)
        : product(constantFirst(counts).map((n) => sizeAs(n, acc)));
    return cast(over(sum.at(index), count), x.dtype);
  });
}

/** The constant counts as one. */
function constantFirst(counts: readonly IndexExpr[]): IndexExpr[] {
  const constants = counts.filter((n) => I.constOf(n) !== undefined);
  const rest = counts.filter((n) => I.constOf(n) === undefined);
  const one = I.product(constants);
  return rest.length > 0 && I.isConst(one, 1) ? rest : [one, ...rest];
}

function normOrder(ctx: LowerContext): number {
  const p = ctx.float('p', 2);
  if (!(p > 0)) ctx.fail('BAD_ATTRIBUTE', `p is ${p}: the order of the norm must be positive`);
  return p;
}

function lowerLpPool(ctx: LowerContext): LTensor {
  const pool = poolOf(ctx);
  const p = normOrder(ctx);
  const acc = computeFloat(pool.x.dtype);
  const sum = reduceOver(
    ctx,
    { shape: pool.shape, over: pool.axes.map((a) => a.kernel), monoid: 'sum', dtype: acc },
    (index, k) => windowElement(pool, index, k, 0, (e) => power(cast(e, acc), p)),
  );
  return ctx.pointwise(pool.shape, pool.x.dtype, (index) =>
    cast(root(sum.at(index), p), pool.x.dtype),
  );
}

// ---------------------------------------------------------------------------------------------
// Global pooling

function lowerGlobal(kind: 'max' | 'mean' | 'lp'): (ctx: LowerContext) => LTensor {
  return (ctx) => {
    const x = ctx.input(0);
    const rank = x.shape.length - 2;
    if (rank < 1) {
      ctx.fail(
        'SHAPE_MISMATCH',
        `global pooling takes [batch, channels, spatial…]; the operand has shape ${I.printShape(x.shape)}`,
      );
    }
    const spatial = x.shape.slice(2);
    const shape = [...x.shape.slice(0, 2), ...spatial.map(() => I.num(1))];
    const element = (index: readonly IndexExpr[], k: readonly IndexExpr[]): Expr =>
      x.at([...index.slice(0, 2), ...k]);
    if (kind === 'max') {
      return reduceOver(ctx, { shape, over: spatial, monoid: 'max', dtype: x.dtype }, element);
    }
    const p = kind === 'lp' ? normOrder(ctx) : 1;
    const acc = computeFloat(x.dtype);
    const sum = reduceOver(ctx, { shape, over: spatial, monoid: 'sum', dtype: acc }, (index, k) => {
      const e = cast(element(index, k), acc);
      return kind === 'lp' ? power(e, p) : e;
    });
    return ctx.pointwise(shape, x.dtype, (index) => {
      const e = sum.at(index);
      const done = kind === 'lp' ? root(e, p) : over(e, sizeAs(I.product(spatial), acc));
      return cast(done, x.dtype);
    });
  };
}

export const lowerGlobalAveragePool = lowerGlobal('mean');

// ---------------------------------------------------------------------------------------------
// Adaptive pooling: the output size is given, windows follow from it

interface AdaptiveAxis {
  readonly input: Dim;
  readonly out: Dim;
  /** Where the windows all have one size and step; undefined: they differ. */
  readonly even?: { readonly step: Dim };
}

/** Window i covers [floor(i*in/out), ceil((i+1)*in/out)). */
function adaptiveWindow(a: AdaptiveAxis, o: IndexExpr): { start: IndexExpr; end: IndexExpr } {
  if (a.even) return { start: I.mul(o, a.even.step), end: I.mul(I.add(o, 1), a.even.step) };
  return {
    start: I.floorDiv(I.mul(o, a.input), a.out),
    end: I.ceilDiv(I.mul(I.add(o, 1), a.input), a.out),
  };
}

function adaptiveExtent(a: AdaptiveAxis): Dim {
  if (a.even) return a.even.step;
  const [n, m] = [I.constOf(a.input), I.constOf(a.out)];
  if (n === undefined || m === undefined) return I.add(I.ceilDiv(a.input, a.out), 1);
  let most = 1;
  for (let i = 0; i < m; i++) {
    most = Math.max(most, Math.ceil(((i + 1) * n) / m) - Math.floor((i * n) / m));
  }
  return I.num(most);
}

function lowerAdaptive(kind: 'mean' | 'max'): (ctx: LowerContext) => LTensor {
  return (ctx) => {
    const x = ctx.input(0);
    const wanted =
      sizesOf(ctx, -1, 'output_size') ?? ctx.fail('BAD_ATTRIBUTE', 'output_size is missing');
    const rank = ctx.int('spatial', wanted.length);
    const sizes = wanted.length === 1 ? new Array<Dim>(rank).fill(at(wanted, 0)) : wanted;
    const lead = x.shape.length - rank;
    if (sizes.length !== rank || lead < 1) {
      ctx.fail(
        'SHAPE_MISMATCH',
        `output_size has ${wanted.length} entries for ${rank} spatial dims; the operand has shape ${I.printShape(x.shape)}`,
      );
    }
    const axes = sizes.map((size, i): AdaptiveAxis => {
      const input = at(x.shape, lead + i);
      const out = size;
      if ((I.constOf(out) ?? 1) < 1) {
        ctx.fail('BAD_ATTRIBUTE', `output_size holds ${I.printIndex(out)}; sizes are at least 1`);
      }
      const step = I.exactDiv(input, out);
      return step ? { input, out, even: { step } } : { input, out };
    });
    const shape = [...x.shape.slice(0, lead), ...sizes];
    const acc = kind === 'mean' ? computeFloat(x.dtype) : x.dtype;
    const outside = kind === 'mean' ? 0 : lowest(x.dtype);
    const reduced = reduceOver(
      ctx,
      {
        shape,
        over: axes.map(adaptiveExtent),
        monoid: kind === 'mean' ? 'sum' : 'max',
        dtype: acc,
      },
      (index, k) => {
        const windows = axes.map((a, i) => adaptiveWindow(a, at(index, lead + i)));
        const p = windows.map((w, i) => I.add(w.start, at(k, i)));
        const conds = windows.flatMap((w, i) =>
          at(axes, i).even ? [] : [{ index: at(p, i), lo: w.start, hi: w.end }],
        );
        const e = cast(x.at([...index.slice(0, lead), ...p]), acc);
        return when(conds, e, constant(outside, acc));
      },
    );
    if (kind === 'max') return reduced;
    return ctx.pointwise(shape, x.dtype, (index) => {
      const counts = axes.map((a, i) => {
        const w = adaptiveWindow(a, at(index, lead + i));
        return I.sub(w.end, w.start);
      });
      const count = product(constantFirst(counts).map((n) => sizeAs(n, acc)));
      return cast(over(reduced.at(index), count), x.dtype);
    });
  };
}

// ---------------------------------------------------------------------------------------------
// Unpooling and pooling of regions

/**
 * Every output position looks for the inputs that came from it. Overlapping windows may name one
 * position several times, always with the same number.
 */
function lowerMaxUnpool(ctx: LowerContext): LTensor {
  const [x, where] = [ctx.input(0), ctx.input(1)];
  const rank = x.shape.length - 2;
  if (rank < 1) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `MaxUnpool takes [batch, channels, spatial…]; the operand has shape ${I.printShape(x.shape)}`,
    );
  }
  requireShape(ctx, where.shape, x.shape, 'the indices of MaxUnpool');
  const kernel = ctx.ints('kernel_shape');
  const given = ctx.ints('strides', []);
  const strides = given.length > 0 ? given : kernel.map(() => 1);
  const pads = ctx.ints(
    'pads',
    kernel.flatMap(() => [0, 0]),
  );
  if (kernel.length !== rank || strides.length !== rank || pads.length !== 2 * rank) {
    ctx.fail(
      'BAD_ATTRIBUTE',
      `kernel_shape, strides and pads must have ${rank}, ${rank} and ${2 * rank} entries for ${I.printShape(x.shape)}`,
    );
  }
  const spatial = x.shape.slice(2);
  // The indices count in the extent that the pooling's own input had.
  const pooled = spatial.map((d, i) =>
    I.sub(
      I.add(I.mul(I.sub(d, 1), at(strides, i)), at(kernel, i)),
      at(pads, i) + at(pads, rank + i),
    ),
  );
  const lead = x.shape.slice(0, 2);
  const shape = ctx.optional(2) ? [...ctx.sizes(2)] : [...lead, ...pooled];
  if (shape.length !== x.shape.length) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `output_shape has ${shape.length} entries for an operand of shape ${I.printShape(x.shape)}`,
    );
  }
  const low = lowest(x.dtype);
  const found = reduceOver(
    ctx,
    { shape: [...lead, ...pooled], over: spatial, monoid: 'max', dtype: x.dtype },
    (index, k) => {
      const here = indexValue(I.linearise(index, [...lead, ...pooled]), 'i32');
      const source = [...index.slice(0, 2), ...k];
      return select(
        equals(cast(where.at(source), 'i32'), here),
        x.at(source),
        constant(low, x.dtype),
      );
    },
  );
  return ctx.pointwise(shape, x.dtype, (index) => {
    const conds = pooled.flatMap((d, i) => {
      const o = at(index, i + 2);
      return I.provablyLe(at(shape, i + 2), d) ? [] : [{ index: o, lo: I.num(0), hi: d }];
    });
    const v = found.at(index);
    const zero = constant(0, x.dtype);
    return when(conds, select(equals(v, low), zero, v), zero);
  });
}

/** Max over the quantised bins of each region; bins differ in size, so positions outside are skipped. */
function lowerMaxRoiPool(ctx: LowerContext): LTensor {
  const [x, rois] = [ctx.input(0), ctx.input(1)];
  const pooled = ctx.ints('pooled_shape');
  const scale = ctx.float('spatial_scale', 1);
  if (x.shape.length !== 4 || rois.shape.length !== 2 || pooled.length !== 2) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `MaxRoiPool takes [N, C, H, W], rois [R, 5] and a pooled_shape of 2; they are ${I.printShape(x.shape)}, ${I.printShape(rois.shape)} and [${pooled.join(', ')}]`,
    );
  }
  const [n, channels, height, width] = [
    at(x.shape, 0),
    at(x.shape, 1),
    at(x.shape, 2),
    at(x.shape, 3),
  ];
  const [ph, pw] = [at(pooled, 0), at(pooled, 1)];
  const f = (v: Expr): Expr => cast(v, 'f32');
  const i32 = (v: Expr): Expr => cast(v, 'i32');
  // Rounded half away from zero, as the op is specified for non-negative corners.
  const corner = (r: IndexExpr, c: number): Expr =>
    unary('floor', plus(times(f(rois.at([r, I.num(c)])), scale), 0.5));
  const bin = (r: IndexExpr, o: IndexExpr, c: number, parts: number, extent: Dim) => {
    const start = corner(r, c);
    const size = binary('max', plus(binary('sub', corner(r, c + 2), start), 1), constant(1, 'f32'));
    const step = over(size, parts);
    const edge = (k: IndexExpr, fn: 'floor' | 'ceil'): Expr =>
      i32(plus(unary(fn, times(indexValue(k, 'f32'), step)), start));
    const clampTo = (e: Expr): Expr =>
      binary('min', binary('max', e, constant(0, 'i32')), sizeAs(extent, 'i32'));
    return { from: clampTo(edge(o, 'floor')), to: clampTo(edge(I.add(o, 1), 'ceil')) };
  };
  const low = lowest(x.dtype);
  const shape = [at(rois.shape, 0), channels, I.num(ph), I.num(pw)];
  const best = reduceOver(
    ctx,
    { shape, over: [height, width], monoid: 'max', dtype: x.dtype },
    (index, k) => {
      const [r, c, oy, ox] = [at(index, 0), at(index, 1), at(index, 2), at(index, 3)];
      const [y, xx] = [at(k, 0), at(k, 1)];
      const by = bin(r, oy, 2, ph, height);
      const bx = bin(r, ox, 1, pw, width);
      const within = (p: IndexExpr, b: { from: Expr; to: Expr }): Expr =>
        binary(
          'and',
          binary('le', b.from, indexValue(p, 'i32')),
          binary('lt', indexValue(p, 'i32'), b.to),
        );
      const batch = I.isConst(n, 1)
        ? I.num(0)
        : dynIndex(
            binary(
              'min',
              binary('max', i32(rois.at([r, I.num(0)])), constant(0, 'i32')),
              sizeAs(I.sub(n, 1), 'i32'),
            ),
            n,
          );
      return select(
        binary('and', within(y, by), within(xx, bx)),
        x.at([batch, c, y, xx]),
        constant(low, x.dtype),
      );
    },
  );
  // An empty bin gives 0.
  return ctx.pointwise(shape, x.dtype, (index) => {
    const v = best.at(index);
    return select(equals(v, low), constant(0, x.dtype), v);
  });
}

// ---------------------------------------------------------------------------------------------
// `.fuse` forms

function windowParams(): FuseForm['params'] {
  return [
    tensorParam('input', 'x'),
    { name: 'kernel_size', kind: 'ints', aliases: ['kernel_shape', 'kernel'] },
    optionalParam('stride', 'ints', undefined, 'strides'),
    optionalParam('padding', 'ints', 0, 'pad', 'pads'),
  ];
}

/** PyTorch's stride is the kernel size when left out. */
function windowAttrs(args: Readonly<Record<string, FuseArg>>, rank: number): Attrs {
  const kernel = spread(args['kernel_size'], rank);
  return attrsOf({
    kernel_shape: kernel,
    strides: intList(args['stride']) ? spread(args['stride'], rank) : kernel,
    ...paddingAttrs(args['padding'], rank),
    ceil_mode: plainAttr(args['ceil_mode']),
  });
}

const CEIL = optionalParam('ceil_mode', 'bool', false);

function maxPoolForm(rank: number): FuseForm {
  return {
    names: [`max_pool${rank}d`, ...(rank === 2 ? ['maxpool2d', 'maxpool'] : [`maxpool${rank}d`])],
    params: [
      ...windowParams(),
      optionalParam('dilation', 'ints', 1, 'dilations'),
      CEIL,
      optionalParam('return_indices', 'bool', false),
    ],
    results: (args) => (args['return_indices'] === true ? 2 : 1),
    attrs: (args) => ({
      ...windowAttrs(args, rank),
      ...attrsOf({ dilations: spread(args['dilation'], rank) }),
    }),
    doc: 'The maximum of each window.',
  };
}

function avgPoolForm(rank: number): FuseForm {
  return {
    names: [`avg_pool${rank}d`, ...(rank === 2 ? ['avgpool2d', 'avgpool'] : [`avgpool${rank}d`])],
    params: [
      ...windowParams(),
      CEIL,
      optionalParam('count_include_pad', 'bool', true),
      optionalParam('divisor_override', 'int'),
    ],
    attrs: (args) => ({
      ...windowAttrs(args, rank),
      ...attrsOf({
        count_include_pad: plainAttr(args['count_include_pad']),
        divisor_override: plainAttr(args['divisor_override']),
      }),
    }),
    doc: 'The mean of each window.',
  };
}

function lpPoolForm(rank: number): FuseForm {
  const [input, kernel, stride] = windowParams();
  return {
    names: [`lp_pool${rank}d`],
    params: [
      ...(input ? [input] : []),
      { name: 'norm_type', kind: 'float', aliases: ['p'] },
      ...(kernel ? [kernel] : []),
      ...(stride ? [stride] : []),
      CEIL,
    ],
    attrs: (args) => ({
      ...windowAttrs(args, rank),
      ...attrsOf({ p: plainAttr(args['norm_type']) }),
    }),
    doc: 'The p-norm of each window.',
  };
}

function adaptiveForm(kind: 'avg' | 'max', rank: number): FuseForm {
  return {
    names: [`adaptive_${kind}_pool${rank}d`],
    params: [tensorParam('input', 'x'), { name: 'output_size', kind: 'sizes' }],
    attrs: (args) => attrsOf({ output_size: plainAttr(args['output_size']), spatial: rank }),
    doc: `${kind === 'avg' ? 'Mean' : 'Maximum'} of windows chosen so that the output has the given size.`,
  };
}

function globalForm(name: string, doc: string): FuseForm {
  return { names: [name], params: [tensorParam('input', 'x')], doc };
}

const RANKS: readonly number[] = [1, 2, 3];

export const poolingOps: readonly OpDef[] = [
  { name: 'max_pool', onnx: ['MaxPool'], fuse: RANKS.map(maxPoolForm), lower: lowerMaxPool },
  {
    name: 'average_pool',
    onnx: ['AveragePool'],
    fuse: RANKS.map(avgPoolForm),
    lower: lowerAveragePool,
  },
  { name: 'lp_pool', onnx: ['LpPool'], fuse: RANKS.map(lpPoolForm), lower: lowerLpPool },
  {
    name: 'global_max_pool',
    onnx: ['GlobalMaxPool'],
    fuse: [globalForm('global_max_pool', 'The maximum over all spatial dims.')],
    lower: lowerGlobal('max'),
  },
  {
    name: 'global_average_pool',
    onnx: ['GlobalAveragePool'],
    fuse: [globalForm('global_avg_pool', 'The mean over all spatial dims.')],
    lower: lowerGlobalAveragePool,
  },
  { name: 'global_lp_pool', onnx: ['GlobalLpPool'], lower: lowerGlobal('lp') },
  {
    name: 'adaptive_avg_pool',
    fuse: RANKS.map((r) => adaptiveForm('avg', r)),
    lower: lowerAdaptive('mean'),
  },
  {
    name: 'adaptive_max_pool',
    fuse: RANKS.map((r) => adaptiveForm('max', r)),
    lower: lowerAdaptive('max'),
  },
  { name: 'max_unpool', onnx: ['MaxUnpool'], lower: lowerMaxUnpool },
  { name: 'max_roi_pool', onnx: ['MaxRoiPool'], lower: lowerMaxRoiPool },
];
