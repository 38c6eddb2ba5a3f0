/**
 * Joining and extending tensors: concat, stack, pad, tile, centre crops.
 *
 * Concat and constant padding are piecewise bodies (`when`): each element comes from one operand, or
 * is the fill. The other padding modes read the operand at a clamped, mirrored or wrapped place.
 */
import { cast, constant, type Expr, type IndexCond, when } from '../ir/expr';
import {
  add,
  constOf,
  type Dim,
  floorDiv,
  type IndexExpr,
  isConst,
  max,
  min,
  mod,
  mul,
  neg,
  num,
  printIndex,
  printShape,
  provablyLe,
  sub,
} from '../ir/indexExpr';
import type { LowerContext, LTensor, OpDef } from './op';
import {
  attrsOf,
  axesOf,
  axisParam,
  checkAxes,
  intList,
  optionalParam,
  promote,
  scalarElement,
  sizesAttr,
  sizesOf,
  tensorParam,
} from './shared';
import { insertDims } from './shape';
import { narrowView } from './slicing';

const X = tensorParam('input', 'x', 'self');
const TENSORS = { name: 'tensors', aliases: ['inputs', 'xs'], kind: 'tensors' } as const;

// ---------------------------------------------------------------------------------------------
// Concat

function allOperands(ctx: LowerContext): LTensor[] {
  return Array.from({ length: Math.max(1, ctx.arity) }, (_, i) => ctx.input(i));
}

export function concat(
  ctx: LowerContext,
  operands: readonly LTensor[],
  givenAxis: number,
): LTensor {
  const first = operands[0] ?? ctx.input(0);
  const rank = first.shape.length;
  if (rank === 0)
    ctx.fail('SHAPE_MISMATCH', "numbers have no axis to be joined along; use 'stack'");
  const axis = ctx.axis(givenAxis, rank);
  for (const t of operands) {
    if (t.shape.length !== rank)
      ctx.fail(
        'SHAPE_MISMATCH',
        `operands of shapes ${operands.map((o) => printShape(o.shape)).join(', ')} must have one rank`,
      );
    t.shape.forEach((d, i) => {
      const other = first.shape[i] ?? num(1);
      if (i !== axis)
        ctx.requireEqual(
          other,
          d,
          `dim ${i} of operands of shapes ${printShape(first.shape)} and ${printShape(t.shape)}, joined along axis ${axis},`,
        );
    });
  }
  const dtype = promote(operands);
  const parts = operands.filter((t) => !isConst(t.shape[axis] ?? num(1), 0));
  const [only] = parts;
  if (only && parts.length === 1 && only.dtype === dtype) return only;
  const offsets: Dim[] = [];
  let total: Dim = num(0);
  for (const t of parts) {
    offsets.push(total);
    total = add(total, t.shape[axis] ?? num(1));
  }
  const shape = first.shape.map((d, i) => (i === axis ? total : d));
  if (!only) return ctx.pointwise(shape, dtype, () => constant(0, dtype));
  return ctx.pointwise(shape, dtype, (index) => {
    const along = index[axis] ?? num(0);
    const from = (k: number): Expr => {
      const t = parts[k] ?? only;
      const at = index.map((v, i) => (i === axis ? sub(along, offsets[k] ?? 0) : v));
      return cast(t.at(at), dtype);
    };
    // Few parts are asked for one after the other; the last needs no condition of its own, it is
    // what the others leave. Many are halved first: branches in branches have their limits, in
    // shader compilers too.
    const among = (first: number, end: number): Expr => {
      if (first + 1 === end) return from(first);
      const count = end - first;
      const half = FEW_PARTS * Math.ceil(count / (2 * FEW_PARTS));
      const next = first + (count <= FEW_PARTS ? 1 : half);
      return when(
        [{ index: along, lo: offsets[first] ?? num(0), hi: offsets[next] ?? total }],
        among(first, next),
        among(next, end),
      );
    };
    return among(0, parts.length);
  });
}

/** As many parts as a kernel can bind beside its result, where adapters allow the least. */
const FEW_PARTS = 7;

function stack(ctx: LowerContext): LTensor {
  const operands = allOperands(ctx);
  const rank = (operands[0] ?? ctx.input(0)).shape.length;
  const axis = ctx.axis(ctx.int('axis', 0), rank + 1);
  return concat(
    ctx,
    operands.map((t) => insertDims(ctx, t, [axis])),
    axis,
  );
}

// ---------------------------------------------------------------------------------------------
// Pad

interface Padding {
  readonly axis: number;
  /** May be negative: then elements are cut off. */
  readonly before: Dim;
  readonly after: Dim;
}

/** [starts…, ends…] per axis; or pairs counted from the last axis (PyTorch). */
function paddings(ctx: LowerContext, rank: number): Padding[] {
  const pairs = sizesOf(ctx, -1, 'last_pads');
  if (pairs) {
    if (pairs.length % 2 !== 0 || pairs.length > 2 * rank)
      ctx.fail(
        'BAD_ATTRIBUTE',
        `the pads must be pairs (before, after) for at most ${rank} dims, last dim first, but ${pairs.length} numbers are given`,
      );
    return Array.from({ length: pairs.length / 2 }, (_, k) => ({
      axis: rank - 1 - k,
      before: pairs[2 * k] ?? num(0),
      after: pairs[2 * k + 1] ?? num(0),
    }));
  }
  const pads =
    sizesOf(ctx, 1, 'pads') ??
    sizesOf(ctx, -1, 'paddings') ??
    ctx.fail('MISSING_OPERAND', 'the pads are missing');
  const given = axesOf(ctx, 3);
  const axes = given ? checkAxes(ctx, given, rank) : Array.from({ length: rank }, (_, i) => i);
  if (pads.length !== 2 * axes.length) {
    ctx.fail(
      'BAD_ATTRIBUTE',
      `${2 * axes.length} pads are needed (before and after each of ${axes.length} axes), but ${pads.length} are given`,
    );
  }
  return axes.map((axis, i) => ({
    axis,
    before: pads[i] ?? num(0),
    after: pads[axes.length + i] ?? num(0),
  }));
}

function pad(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const all = paddings(ctx, x.shape.length);
  const pads = all.filter((p) => !isConst(p.before, 0) || !isConst(p.after, 0));
  if (pads.length === 0) return x;
  const mode = ctx.str('mode', 'constant');
  const shape = [...x.shape];
  for (const p of pads) shape[p.axis] = add(add(x.shape[p.axis] ?? num(1), p.before), p.after);
  const inner = (index: readonly IndexExpr[]): IndexExpr[] => {
    const out = [...index];
    for (const p of pads) out[p.axis] = sub(index[p.axis] ?? num(0), p.before);
    return out;
  };
  switch (mode) {
    case 'constant':
      return padConstant(ctx, x, pads, shape, inner);
    case 'edge':
    case 'replicate':
    case 'reflect':
    case 'wrap':
    case 'circular':
      break;
    default:
      ctx.fail('BAD_ATTRIBUTE', `'mode' must be constant, reflect, edge or wrap, not ${mode}`);
  }
  for (const p of pads) {
    if (isConst(x.shape[p.axis] ?? num(1), 0))
      ctx.fail(
        'SHAPE_MISMATCH',
        `dim ${p.axis} of ${printShape(x.shape)} has no elements to repeat`,
      );
  }
  return ctx.pointwise(shape, x.dtype, (index) => {
    const at = inner(index);
    for (const p of pads) {
      const d = x.shape[p.axis] ?? num(1);
      const i = at[p.axis] ?? num(0);
      if (mode === 'reflect') at[p.axis] = mirrored(i, d, p);
      else if (mode === 'wrap' || mode === 'circular') at[p.axis] = wrapped(i, d, p);
      else at[p.axis] = min(max(i, 0), sub(d, 1));
    }
    return x.at(at);
  });
}

/** i modulo d, with a multiple of d added where that keeps the remainder's operand from being negative. */
function wrapped(i: IndexExpr, d: Dim, p: Padding): IndexExpr {
  const n = constOf(d);
  const before = constOf(p.before);
  if (n === undefined || before === undefined || before <= 0) return mod(i, d);
  return mod(add(i, Math.ceil(before / n) * n), d);
}

/** The place that mirroring without repeating the edge gives for `i`, which lies `before` and `after` outside at most. */
function mirrored(i: IndexExpr, d: Dim, p: Padding): IndexExpr {
  const last = sub(d, 1);
  if (isConst(last, 0)) return num(0);
  const once = provablyLe(p.before, last) && provablyLe(p.after, last);
  const period = mul(last, 2);
  const folded = once ? max(i, neg(i)) : wrapped(i, period, p);
  // The clamp never changes the place: it lets the range be seen.
  return min(max(min(folded, sub(period, folded)), 0), last);
}

function padConstant(
  ctx: LowerContext,
  x: LTensor,
  pads: readonly Padding[],
  shape: readonly Dim[],
  inner: (index: readonly IndexExpr[]) => IndexExpr[],
): LTensor {
  const value = ctx.arity > 2 ? ctx.optional(2) : undefined;
  const fill: Expr = value
    ? cast(scalarElement(ctx, value, 'the constant value'), x.dtype)
    : constant(ctx.has('value') ? ctx.float('value') : 0, x.dtype);
  return ctx.pointwise(shape, x.dtype, (index) => {
    const at = inner(index);
    const conds: IndexCond[] = pads
      .filter((p) => !isNonPositive(p.before) || !isNonPositive(p.after))
      .map((p) => ({ index: at[p.axis] ?? num(0), lo: num(0), hi: x.shape[p.axis] ?? num(1) }));
    return when(conds, x.at(at), fill);
  });
}

function isNonPositive(d: Dim): boolean {
  return (constOf(d) ?? 1) <= 0;
}

/** Crops or pads evenly around the centre; an odd element goes to the end. */
function centreCropPad(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const rank = x.shape.length;
  const wanted = sizesOf(ctx, 1, 'shape') ?? ctx.fail('MISSING_OPERAND', 'the shape is missing');
  const given = ctx.has('axes') ? checkAxes(ctx, ctx.ints('axes'), rank) : x.shape.map((_, i) => i);
  if (given.length !== wanted.length)
    ctx.fail('BAD_ATTRIBUTE', `${wanted.length} sizes are given for ${given.length} axes`);
  let cropped = x;
  const pads: Padding[] = [];
  given.forEach((axis, i) => {
    const d = x.shape[axis] ?? num(1);
    const t = wanted[i] ?? num(1);
    if (provablyLe(t, d)) {
      cropped = narrowView(ctx, cropped, axis, floorDiv(sub(d, t), 2), t);
    } else if (provablyLe(d, t)) {
      const before = floorDiv(sub(t, d), 2);
      pads.push({ axis, before, after: sub(sub(t, d), before) });
    } else {
      ctx.unsupported(
        `whether dim ${axis} (${printIndex(d)}) is cropped or padded to ${printIndex(t)} isn't known`,
      );
    }
  });
  if (pads.length === 0) return cropped;
  const shape = [...cropped.shape];
  for (const p of pads) shape[p.axis] = add(add(shape[p.axis] ?? num(1), p.before), p.after);
  return ctx.pointwise(shape, x.dtype, (index) => {
    const at = [...index];
    for (const p of pads) at[p.axis] = sub(index[p.axis] ?? num(0), p.before);
    const conds = pads.map((p) => ({
      index: at[p.axis] ?? num(0),
      lo: num(0),
      hi: cropped.shape[p.axis] ?? num(1),
    }));
    return when(conds, cropped.at(at), constant(0, x.dtype));
  });
}

// ---------------------------------------------------------------------------------------------
// Repetition

function tile(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const repeats =
    sizesOf(ctx, 1, 'repeats') ?? ctx.fail('MISSING_OPERAND', 'the repeats are missing');
  const extra = repeats.length - x.shape.length;
  if (extra < 0 && ctx.has('opset'))
    ctx.fail(
      'BAD_ATTRIBUTE',
      `${repeats.length} repeats are given for the ${x.shape.length} dims of ${printShape(x.shape)}`,
    );
  // Fewer repeats than dims are those of the last dims; more put dims of 1 in front.
  const padded = insertDims(
    ctx,
    x,
    Array.from({ length: Math.max(0, extra) }, (_, i) => i),
  );
  const times = [...new Array<Dim>(Math.max(0, -extra)).fill(num(1)), ...repeats];
  const shape = padded.shape.map((d, i) => mul(d, times[i] ?? 1));
  return ctx.view(shape, padded, (index) =>
    index.map((v, i) => {
      const d = padded.shape[i] ?? num(1);
      return isConst(d, 0) ? num(0) : mod(v, d);
    }),
  );
}

function repeatInterleave(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const axis = ctx.axis(ctx.int('axis'), x.shape.length);
  const repeats = ctx.int('repeats');
  if (repeats < 1) ctx.fail('BAD_ATTRIBUTE', `'repeats' must be at least 1, not ${repeats}`);
  const shape = x.shape.map((d, i) => (i === axis ? mul(d, repeats) : d));
  return ctx.view(shape, x, (index) =>
    index.map((v, i) => (i === axis ? floorDiv(v, repeats) : v)),
  );
}

// ---------------------------------------------------------------------------------------------
// The table

export const joiningOps: readonly OpDef[] = [
  {
    name: 'concat',
    onnx: ['Concat'],
    fuse: [
      {
        names: ['cat', 'concat', 'concatenate'],
        params: [TENSORS, axisParam(0)],
        doc: 'tensors joined along an axis',
      },
    ],
    // Before opset 4 the axis could be left out: it was 1.
    lower: (ctx) => concat(ctx, allOperands(ctx), ctx.int('axis', 1)),
  },
  {
    name: 'stack',
    fuse: [
      { names: ['stack'], params: [TENSORS, axisParam(0)], doc: 'tensors joined along a new axis' },
    ],
    lower: stack,
  },
  {
    name: 'pad',
    onnx: ['Pad'],
    fuse: [
      {
        names: ['pad'],
        params: [
          X,
          { name: 'pad', aliases: ['pads', 'padding'], kind: 'sizes' },
          optionalParam('mode', 'str', 'constant'),
          optionalParam('value', 'float', 0),
        ],
        attrs: (args) =>
          attrsOf({
            last_pads: sizesAttr(args['pad']),
            mode: typeof args['mode'] === 'string' ? args['mode'] : undefined,
            value: typeof args['value'] === 'number' ? args['value'] : undefined,
          }),
        doc: 'pairs (before, after) from the last dim on; mode constant, reflect, replicate or circular',
      },
    ],
    lower: pad,
  },
  {
    name: 'centre_crop_pad',
    onnx: ['CenterCropPad'],
    fuse: [
      {
        names: ['center_crop_pad'],
        params: [
          X,
          { name: 'shape', aliases: ['size'], kind: 'sizes' },
          { name: 'axis', aliases: ['axes', 'dim', 'dims'], kind: 'ints', optional: true },
        ],
        attrs: (args) => attrsOf({ shape: sizesAttr(args['shape']), axes: intList(args['axis']) }),
        doc: 'cropped or padded evenly around the centre',
      },
    ],
    lower: centreCropPad,
  },
  {
    name: 'tile',
    onnx: ['Tile'],
    view: true,
    fuse: [
      {
        names: ['tile', 'repeat'],
        params: [X, { name: 'repeats', aliases: ['dims', 'reps'], kind: 'sizes' }],
        attrs: (args) => attrsOf({ repeats: sizesAttr(args['repeats']) }),
        doc: 'the whole tensor repeated along each dim',
      },
    ],
    lower: tile,
  },
  {
    name: 'repeat_interleave',
    view: true,
    fuse: [
      {
        names: ['repeat_interleave'],
        params: [X, { name: 'repeats', kind: 'int' }, axisParam()],
        doc: 'each element repeated along an axis',
      },
    ],
    lower: repeatInterleave,
  },
];
