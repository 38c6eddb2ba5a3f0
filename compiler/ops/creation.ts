/**
 * Tensors made from nothing but numbers: fills, ranges, identity matrices; and triangles of a tensor.
 *
 * A fill is a view of one number, so that it costs nothing where it is read.
 */
import { DTYPES, type DType, isFloat } from '../graph/dtype';
import { cast, constant, type Expr, indexValue, unary, when } from '../ir/expr';
import { decodeConst } from '../graph/constData';
import {
  add,
  ceilDiv,
  constOf,
  type Dim,
  type IndexExpr,
  max,
  mul,
  neg,
  num,
  printShape,
  sub,
} from '../ir/indexExpr';
import type { FuseArg, FuseForm, FuseParam, LowerContext, LTensor, OpDef } from './op';
import {
  attrsOf,
  computeFloat,
  dtypeAttr,
  expandView,
  fromOnnx,
  intList,
  minus,
  optionalParam,
  over,
  plus,
  sizeAs,
  sizesAttr,
  sizesOf,
  tensorParam,
  times,
} from './shared';

const X = tensorParam('input', 'x', 'self');

/** A tensor of one number everywhere. */
function filled(ctx: LowerContext, shape: readonly Dim[], dtype: DType, value: number): LTensor {
  return expandView(ctx, ctx.constant({ dtype, shape: [] }, [value]), shape);
}

function constantOfShape(ctx: LowerContext): LTensor {
  const shape = sizesOf(ctx, 0, 'shape') ?? ctx.fail('MISSING_OPERAND', 'the shape is missing');
  const negative = shape.map(constOf).find((n) => n !== undefined && n < 0);
  if (negative !== undefined) ctx.fail('BAD_SHAPE', `a dim can't be ${negative}`);
  const given = ctx.tensorAttr('value');
  // `x.new_zeros(…)` has the type of x.
  const like = fromOnnx(ctx) ? undefined : ctx.optional(0);
  if (!given && like && !ctx.has('dtype'))
    return filled(ctx, shape, like.dtype, ctx.float('fill_value', 0));
  if (!given) return filled(ctx, shape, dtypeAttr(ctx, 'dtype', 'f32'), ctx.float('fill_value', 0));
  const value = decodeConst(given.data, given.type.dtype, 1)?.[0];
  if (value === undefined) return ctx.unsupported('its value lies outside the file');
  return filled(ctx, shape, given.type.dtype, value);
}

function fullLike(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  return filled(ctx, x.shape, dtypeAttr(ctx, 'dtype', x.dtype), ctx.float('fill_value', 0));
}

// ---------------------------------------------------------------------------------------------
// Ranges

/** start, start + delta, … before limit. */
function range(ctx: LowerContext): LTensor {
  if (!fromOnnx(ctx)) {
    const [start, limit, delta] = ['start', 'end', 'step'].map((n) => sizesOf(ctx, -1, n)?.[0]);
    // arange(n) counts from 0.
    const [from, to] = limit ? [start ?? num(0), limit] : [num(0), start ?? num(0)];
    return integerRange(ctx, dtypeAttr(ctx, 'dtype', 'i32'), from, to, delta ?? num(1));
  }
  const dtype = ctx.input(0).dtype;
  if (isFloat(dtype)) {
    const [start = 0, limit = 0, delta = 1] = [0, 1, 2].map((i) => ctx.numbers(i)[0]);
    if (delta === 0) ctx.fail('BAD_ATTRIBUTE', 'the step is 0');
    const n = Math.max(0, Math.ceil((limit - start) / delta));
    return ctx.pointwise([n], dtype, ([i]) => {
      const position = cast(indexValue(i ?? num(0), 'i32'), 'f32');
      return cast(plus(constant(start, 'f32'), times(constant(delta, 'f32'), position)), dtype);
    });
  }
  const [start, limit, delta] = [0, 1, 2].map((i) => ctx.sizes(i)[0]);
  return integerRange(ctx, dtype, start ?? num(0), limit ?? num(0), delta ?? num(1));
}

function integerRange(
  ctx: LowerContext,
  dtype: DType,
  start: Dim,
  limit: Dim,
  delta: Dim,
): LTensor {
  const step =
    constOf(delta) ??
    ctx.unsupported('the step of a range must be a plain number, not a symbolic size');
  if (step === 0) ctx.fail('BAD_ATTRIBUTE', 'the step is 0');
  const span = step > 0 ? sub(limit, start) : sub(start, limit);
  const n = max(0, ceilDiv(span, Math.abs(step)));
  return ctx.pointwise([n], dtype, ([i]) => {
    const v = indexValue(add(start, mul(i ?? num(0), step)), 'i32');
    return v.op === 'const' ? constant(v.value, dtype) : cast(v, dtype);
  });
}

/** A sum of cosines over a window of `size` points: what windows before a Fourier transform are. */
function windowOp(name: string, onnx: string, weights: readonly [number, number, number]): OpDef {
  return {
    name,
    onnx: [onnx],
    lower: (ctx) => {
      const size = ctx.sizes(0)[0] ?? num(1);
      const dtype = dtypeAttr(ctx, 'output_datatype', 'f32');
      const t = computeFloat(dtype);
      const period = ctx.bool('periodic', true) ? size : sub(size, 1);
      return ctx.pointwise([size], dtype, ([i]) => {
        const position = cast(indexValue(i ?? num(0), 'i32'), t);
        const turn = over(times(constant(2 * Math.PI, t), position), sizeAs(period, t));
        const [mean, once, twice] = weights;
        const wave = minus(constant(mean, t), times(constant(once, t), unary('cos', turn)));
        if (twice === 0) return cast(wave, dtype);
        const second = unary('cos', times(constant(2, t), turn));
        return cast(plus(wave, times(constant(twice, t), second)), dtype);
      });
    },
  };
}

// ---------------------------------------------------------------------------------------------
// Matrices

/** Whether column - row lies in [lo, hi), as a body of two values. */
function byDiagonal(
  index: readonly IndexExpr[],
  range: { readonly lo: IndexExpr; readonly hi: IndexExpr },
  inside: Expr,
  outside: Expr,
): Expr {
  const row = index.at(-2) ?? num(0);
  const column = index.at(-1) ?? num(0);
  return when([{ index: sub(column, row), lo: range.lo, hi: range.hi }], inside, outside);
}

function eye(ctx: LowerContext, shape: readonly Dim[], dtype: DType): LTensor {
  const k = ctx.int('k', 0);
  return ctx.pointwise(shape, dtype, (index) =>
    byDiagonal(index, { lo: num(k), hi: num(k + 1) }, constant(1, dtype), constant(0, dtype)),
  );
}

/** The upper or lower triangle from a diagonal on; 0 elsewhere. */
function triangle(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const rows = x.shape.at(-2);
  const columns = x.shape.at(-1);
  if (!rows || !columns)
    return ctx.fail('SHAPE_MISMATCH', `needs a matrix, but got ${printShape(x.shape)}`);
  const operand = ctx.arity > 1 ? ctx.optional(1) : undefined;
  const k = operand ? ctx.numbers(1)[0] : ctx.int('diagonal', 0);
  const from = num(k ?? 0);
  const range = ctx.bool('upper', true)
    ? { lo: from, hi: max(columns, add(from, 1)) }
    : { lo: neg(rows), hi: add(from, 1) };
  return ctx.pointwise(x.shape, x.dtype, (index) =>
    byDiagonal(index, range, x.at(index), constant(0, x.dtype)),
  );
}

// ---------------------------------------------------------------------------------------------
// The table

const SHAPE: FuseParam = { name: 'shape', aliases: ['size', 'sizes'], kind: 'sizes' };
const DTYPE: FuseParam = optionalParam('dtype', 'dtype');

function text(arg: FuseArg): string | undefined {
  return typeof arg === 'string' && DTYPES.some((t) => t === arg) ? arg : undefined;
}

const fillForm = (name: string, value: number, before: readonly FuseParam[] = []): FuseForm => ({
  names: [name],
  params: [...before, SHAPE, DTYPE],
  attrs: (args) =>
    attrsOf({
      shape: sizesAttr(args['shape']),
      fill_value: value,
      dtype: text(args['dtype']),
    }),
  doc: `a tensor of ${value}`,
});

const likeForm = (name: string, value: number): FuseForm => ({
  names: [name],
  params: [X, DTYPE],
  attrs: (args) => attrsOf({ fill_value: value, dtype: text(args['dtype']) }),
  doc: `a tensor of ${value}, as large as x`,
});

const triangleForm = (name: string, upper: boolean): FuseForm => ({
  names: [name],
  params: [X, optionalParam('diagonal', 'int', 0, 'k')],
  attrs: (args) => attrsOf({ upper, diagonal: intList(args['diagonal'])?.[0] }),
  doc: `the ${upper ? 'upper' : 'lower'} triangle from a diagonal on, 0 elsewhere`,
});

export const creationOps: readonly OpDef[] = [
  {
    name: 'full',
    onnx: ['ConstantOfShape'],
    view: true,
    fuse: [
      {
        names: ['full'],
        params: [SHAPE, { name: 'fill_value', aliases: ['value'], kind: 'float' }, DTYPE],
        attrs: (args) =>
          attrsOf({
            shape: sizesAttr(args['shape']),
            fill_value: typeof args['fill_value'] === 'number' ? args['fill_value'] : undefined,
            dtype: text(args['dtype']),
          }),
        doc: 'a tensor of one number',
      },
      fillForm('zeros', 0),
      fillForm('ones', 1),
      fillForm('new_zeros', 0, [X]),
      fillForm('new_ones', 1, [X]),
    ],
    lower: constantOfShape,
  },
  {
    name: 'full_like',
    view: true,
    fuse: [
      {
        names: ['full_like'],
        params: [X, { name: 'fill_value', aliases: ['value'], kind: 'float' }, DTYPE],
        doc: 'a tensor of one number, as large as x',
      },
      likeForm('zeros_like', 0),
      likeForm('ones_like', 1),
    ],
    lower: fullLike,
  },
  {
    name: 'range',
    onnx: ['Range', 'com.microsoft:Range'],
    fuse: [
      {
        names: ['arange', 'range'],
        params: [
          { name: 'start', kind: 'size' },
          { name: 'end', aliases: ['stop'], kind: 'size', optional: true },
          { name: 'step', kind: 'size', optional: true },
          DTYPE,
        ],
        attrs: (args) =>
          attrsOf({
            start: sizesAttr(args['start']),
            end: sizesAttr(args['end']),
            step: sizesAttr(args['step']),
            dtype: text(args['dtype']),
          }),
        doc: 'start, start + step, … before end; i32 unless a dtype is given',
      },
    ],
    lower: range,
  },
  {
    name: 'eye',
    fuse: [
      {
        names: ['eye'],
        params: [{ name: 'n', kind: 'size' }, { name: 'm', kind: 'size', optional: true }, DTYPE],
        attrs: (args) =>
          attrsOf({ n: sizesAttr(args['n']), m: sizesAttr(args['m']), dtype: text(args['dtype']) }),
        doc: 'ones on the diagonal of a matrix, zeros elsewhere',
      },
    ],
    lower: (ctx) => {
      const n = sizesOf(ctx, -1, 'n')?.[0] ?? num(1);
      return eye(ctx, [n, sizesOf(ctx, -1, 'm')?.[0] ?? n], dtypeAttr(ctx, 'dtype', 'f32'));
    },
  },
  {
    name: 'eye_like',
    onnx: ['EyeLike'],
    lower: (ctx) => {
      const x = ctx.input(0);
      if (x.shape.length !== 2)
        ctx.fail('SHAPE_MISMATCH', `needs a matrix, but got ${printShape(x.shape)}`);
      return eye(ctx, x.shape, dtypeAttr(ctx, 'dtype', x.dtype));
    },
  },
  {
    name: 'triangle',
    onnx: ['Trilu', 'com.microsoft:Trilu'],
    fuse: [triangleForm('triu', true), triangleForm('tril', false)],
    lower: triangle,
  },
  windowOp('hann_window', 'HannWindow', [0.5, 0.5, 0]),
  windowOp('hamming_window', 'HammingWindow', [25 / 46, 21 / 46, 0]),
  windowOp('blackman_window', 'BlackmanWindow', [0.42, 0.5, 0.08]),
];
