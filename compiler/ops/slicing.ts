/**
 * Cutting tensors: slices with any step, splits, chunks, rolls, crops. All are views.
 *
 * Vocabulary
 *  - *cut*: along one axis: the first element's place, the step, and how many. Ends are clamped to
 *    the dim; they may be symbolic, as the dim may.
 */
import type { Attrs, AttrValue } from '../graph/graph';
import {
  add,
  ceilDiv,
  constOf,
  type Dim,
  exactDiv,
  isConst,
  lowerBound,
  max,
  min,
  mod,
  mul,
  num,
  printIndex,
  printShape,
  sub,
  upperBound,
} from '../ir/indexExpr';
import type { FuseArg, FuseCall, LowerContext, LTensor, OpDef } from './op';
import {
  attrsOf,
  axesOf,
  axisParam,
  checkAxes,
  intList,
  sizesAttr,
  sizesOf,
  tensorParam,
} from './shared';

const X = tensorParam('input', 'x', 'self');

export interface Cut {
  readonly axis: number;
  readonly start: Dim;
  readonly step: number;
  readonly length: Dim;
}

/** Beyond any dim: files write the greatest integer for "to the end". */
const FAR = 2 ** 31 - 1;

/** A place counted from the end where it is negative, and clamped to [lo, hi]. */
function place(v: Dim, dim: Dim, lo: Dim, hi: Dim): Dim {
  const n = constOf(v);
  if (n !== undefined && n >= FAR) return hi;
  if (n !== undefined && n <= -FAR) return lo;
  // The sign of a symbolic end is that of its bounds; one that could have either counts from the start.
  const fromEnd = n !== undefined ? n < 0 : upperBound(v) < 0 && lowerBound(v) < 0;
  return max(min(fromEnd ? add(v, dim) : v, hi), lo);
}

/** The range start:end:step of a dim. */
export function cutOf(
  axis: number,
  dim: Dim,
  start: Dim | undefined,
  end: Dim | undefined,
  step: number,
): Cut {
  if (step > 0) {
    const from = start ? place(start, dim, num(0), dim) : num(0);
    const to = end ? place(end, dim, num(0), dim) : dim;
    return { axis, start: from, step, length: max(0, ceilDiv(sub(to, from), step)) };
  }
  const last = sub(dim, 1);
  const from = start ? place(start, dim, num(-1), last) : last;
  const to = end ? place(end, dim, num(-1), last) : num(-1);
  return { axis, start: from, step, length: max(0, ceilDiv(sub(from, to), -step)) };
}

/** The elements of `x` that the cuts choose. */
export function cutView(ctx: LowerContext, x: LTensor, cuts: readonly Cut[]): LTensor {
  const shape = [...x.shape];
  for (const c of cuts) shape[c.axis] = c.length;
  return ctx.view(shape, x, (index) => {
    const out = [...index];
    for (const c of cuts) out[c.axis] = add(c.start, mul(index[c.axis] ?? num(0), c.step));
    return out;
  });
}

/** The `length` elements of `x` from `start` along one axis. */
export function narrowView(
  ctx: LowerContext,
  x: LTensor,
  axis: number,
  start: Dim,
  length: Dim,
): LTensor {
  return cutView(ctx, x, [{ axis, start, step: 1, length }]);
}

function slice(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const starts = sizesOf(ctx, 1, 'starts');
  const ends = sizesOf(ctx, 2, 'ends');
  const count = starts?.length ?? ends?.length ?? 0;
  const given = axesOf(ctx, 3) ?? Array.from({ length: count }, (_, i) => i);
  const axes = checkAxes(ctx, given, x.shape.length);
  const steps = axesOf(ctx, 4, 'steps') ?? axes.map(() => 1);
  for (const [what, list] of [
    ['starts', starts],
    ['ends', ends],
    ['steps', steps],
  ] as const) {
    if (list && list.length !== axes.length)
      ctx.fail('BAD_ATTRIBUTE', `${list.length} ${what} are given for ${axes.length} axes`);
  }
  const cuts = axes.map((axis, i) => {
    const step = steps[i] ?? 1;
    if (step === 0) ctx.fail('BAD_ATTRIBUTE', `the step of axis ${axis} is 0`);
    return cutOf(axis, x.shape[axis] ?? num(1), starts?.[i], ends?.[i], step);
  });
  return cutView(ctx, x, cuts);
}

function narrow(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const axis = ctx.axis(ctx.int('axis'), x.shape.length);
  const dim = x.shape[axis] ?? num(1);
  const start = place(sizesOf(ctx, -1, 'start')?.[0] ?? num(0), dim, num(0), dim);
  const length = sizesOf(ctx, -1, 'length')?.[0] ?? sub(dim, start);
  if (lowerBound(sub(dim, add(start, length))) < 0 && constOf(dim) !== undefined) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `${printIndex(length)} elements from ${printIndex(start)} leave dim ${axis} of ${printShape(x.shape)}`,
    );
  }
  return narrowView(ctx, x, axis, start, length);
}

// ---------------------------------------------------------------------------------------------
// Splits

/** The part sizes along the axis. */
function partSizes(ctx: LowerContext, dim: Dim): readonly Dim[] {
  const names = ctx.node.results.length;
  const sizes = sizesOf(ctx, 1, 'split');
  if (sizes) {
    const sum = sizes.reduce((s, d) => add(s, d), num(0));
    ctx.requireEqual(sum, dim, `the sum of the parts ${printShape(sizes)} and the dim they split`);
    return sizes;
  }
  const size = sizesOf(ctx, -1, 'part_size')?.[0];
  if (size) return bySize(ctx, dim, size, names);
  const parts = ctx.has('chunks') ? ctx.int('chunks') : ctx.int('num_outputs', names);
  if (parts < 1) ctx.fail('BAD_ATTRIBUTE', `it can't be split into ${parts} parts`);
  const whole = constOf(dim);
  const even = exactDiv(dim, parts);
  if (even) return new Array<Dim>(parts).fill(even);
  if (whole === undefined) {
    return ctx.unsupported(
      `whether ${printIndex(dim)} can be split into ${parts} equal parts isn't known; name a size that is a multiple of ${parts}`,
    );
  }
  return bySize(ctx, dim, num(Math.ceil(whole / parts)), names);
}

/** Parts of one size, the last as long as what is left. */
function bySize(ctx: LowerContext, dim: Dim, size: Dim, names: number): readonly Dim[] {
  if (lowerBound(size) < 1 && constOf(size) !== undefined)
    ctx.fail('BAD_ATTRIBUTE', `a part can't have ${printIndex(size)} elements`);
  const count = ceilDiv(dim, size);
  const parts = constOf(count) ?? names;
  if (constOf(count) === undefined)
    ctx.requireEqual(
      count,
      num(parts),
      `the parts of ${printIndex(size)} in a dim of ${printIndex(dim)}, and the results`,
    );
  const before = mul(size, parts - 1);
  return [...new Array<Dim>(parts - 1).fill(size), sub(dim, before)];
}

function split(ctx: LowerContext): readonly LTensor[] {
  const x = ctx.input(0);
  const axis = ctx.axis(ctx.int('axis', 0), x.shape.length);
  const sizes = partSizes(ctx, x.shape[axis] ?? num(1));
  const names = ctx.node.results.length;
  if (sizes.length !== names) {
    ctx.fail(
      'RESULT_COUNT',
      `dim ${axis} of ${printShape(x.shape)} is split into ${sizes.length} parts, but there are ${names} results`,
    );
  }
  let start: Dim = num(0);
  return sizes.map((size) => {
    const part = narrowView(ctx, x, axis, start, size);
    start = add(start, size);
    return part;
  });
}

/** One size or a list of them: `split(x, 64)` and `split(x, [64, 32])`. */
function splitAttrs(
  args: Readonly<Record<string, FuseArg>>,
): Record<string, AttrValue | undefined> {
  const sizes = sizesAttr(args['split_size']);
  const dims = typeof sizes === 'object' && 'dims' in sizes ? sizes.dims.length : undefined;
  const count = Array.isArray(sizes) ? sizes.length : dims;
  return {
    [count === 1 ? 'part_size' : 'split']: sizes,
    axis: intList(args['axis'])?.[0],
  };
}

/** The length of the op's axis, where it is known. */
function lengthAlong(attrs: Attrs, shape: readonly Dim[]): number | undefined {
  const axis = attrs['axis'];
  const n = typeof axis === 'number' ? axis : 0;
  const d = shape[n < 0 ? n + shape.length : n];
  return d && constOf(d);
}

function splitCount(args: Readonly<Record<string, FuseArg>>): number | undefined {
  const sizes = args['split_size'];
  return Array.isArray(sizes) && sizes.length > 1 ? sizes.length : undefined;
}

/** One result per element of the axis, each without it. */
function unbind(ctx: LowerContext): readonly LTensor[] {
  const x = ctx.input(0);
  const axis = ctx.axis(ctx.int('axis', 0), x.shape.length);
  const names = ctx.node.results.length;
  ctx.requireEqual(
    x.shape[axis] ?? num(1),
    num(names),
    `dim ${axis} of ${printShape(x.shape)}, which is unbound, and the number of results`,
  );
  const shape = x.shape.filter((_, i) => i !== axis);
  return Array.from({ length: names }, (_, k) =>
    ctx.view(shape, x, (index) => [...index.slice(0, axis), num(k), ...index.slice(axis)]),
  );
}

// ---------------------------------------------------------------------------------------------
// The table

const slicesMany = (call: FuseCall): boolean =>
  call.positional[1] === 'list' || call.named['starts'] !== undefined;

export const slicingOps: readonly OpDef[] = [
  {
    name: 'slice',
    onnx: ['Slice'],
    view: true,
    fuse: [
      {
        names: ['slice'],
        matches: slicesMany,
        params: [
          X,
          { name: 'starts', kind: 'sizes' },
          { name: 'ends', kind: 'sizes' },
          { name: 'axes', aliases: ['axis', 'dims'], kind: 'ints', optional: true },
          { name: 'steps', kind: 'ints', optional: true },
        ],
        attrs: (args) =>
          attrsOf({
            starts: sizesAttr(args['starts']),
            ends: sizesAttr(args['ends']),
            axes: intList(args['axes']),
            steps: intList(args['steps']),
          }),
        doc: 'a range along each of several axes',
      },
      {
        names: ['slice'],
        params: [
          X,
          axisParam(0),
          { name: 'start', kind: 'size', optional: true },
          { name: 'end', aliases: ['stop'], kind: 'size', optional: true },
          { name: 'step', kind: 'int', optional: true, default: 1 },
        ],
        attrs: (args) =>
          attrsOf({
            starts: sizesAttr(args['start']),
            ends: sizesAttr(args['end']),
            axes: intList(args['axis']),
            steps: intList(args['step']),
          }),
        doc: 'start:end:step along an axis; negative ones count from the end',
      },
    ],
    lower: slice,
  },
  {
    name: 'narrow',
    view: true,
    fuse: [
      {
        names: ['narrow'],
        params: [X, axisParam(), { name: 'start', kind: 'size' }, { name: 'length', kind: 'size' }],
        attrs: (args) =>
          attrsOf({
            axis: intList(args['axis'])?.[0],
            start: sizesAttr(args['start']),
            length: sizesAttr(args['length']),
          }),
        doc: 'length elements from start along an axis',
      },
    ],
    lower: narrow,
  },
  {
    name: 'split',
    onnx: ['Split'],
    view: true,
    fuse: [
      {
        names: ['split'],
        params: [
          X,
          { name: 'split_size', aliases: ['sizes', 'split_size_or_sections'], kind: 'sizes' },
          axisParam(0),
        ],
        results: splitCount,
        resultsOf: (attrs, shape) => {
          const [n, part] = [lengthAlong(attrs, shape), attrs['part_size']];
          const size: unknown = Array.isArray(part) ? part[0] : part;
          return n === undefined || typeof size !== 'number' ? undefined : Math.ceil(n / size);
        },
        attrs: (args) => attrsOf(splitAttrs(args)),
        doc: 'parts of the given size, or of each of the given sizes',
      },
      {
        names: ['chunk'],
        params: [X, { name: 'chunks', kind: 'int' }, axisParam(0)],
        results: (args) => intList(args['chunks'])?.[0],
        doc: 'that many parts, the last one shorter where they must differ',
      },
    ],
    lower: split,
  },
  {
    name: 'unbind',
    view: true,
    fuse: [
      {
        names: ['unbind', 'unstack'],
        params: [X, axisParam(0)],
        results: () => undefined,
        resultsOf: lengthAlong,
        doc: 'one result per element of the axis',
      },
    ],
    lower: unbind,
  },
  {
    name: 'roll',
    view: true,
    fuse: [
      {
        names: ['roll'],
        params: [
          X,
          { name: 'shifts', kind: 'ints' },
          { name: 'axis', aliases: ['dim', 'dims', 'axes'], kind: 'ints' },
        ],
        attrs: (args) => attrsOf({ shifts: intList(args['shifts']), axes: intList(args['axis']) }),
        doc: 'moved along the axes, what leaves at the end comes back at the start',
      },
    ],
    lower: (ctx) => {
      const x = ctx.input(0);
      const axes = checkAxes(ctx, ctx.ints('axes'), x.shape.length);
      const shifts = ctx.ints('shifts');
      if (shifts.length !== axes.length)
        ctx.fail('BAD_ATTRIBUTE', `${shifts.length} shifts are given for ${axes.length} axes`);
      return ctx.view(x.shape, x, (index) =>
        index.map((v, i) => {
          const k = axes.indexOf(i);
          const dim = x.shape[i] ?? num(1);
          if (k < 0 || isConst(dim, 0)) return v;
          const n = constOf(dim);
          const by = -(shifts[k] ?? 0);
          // Kept non-negative where the dim is known: a remainder of a negative number costs more.
          return mod(add(v, n === undefined ? by : ((by % n) + n) % n), dim);
        }),
      );
    },
  },
];
