/**
 * Gathers: reads whose index is itself read from a tensor.
 *
 * Negative indices count from the end. Where the indices are known at compile time and form an
 * arithmetic sequence the result is a plain view; known ones outside the dim are a fault, and those
 * only known at run time are clamped, so that nothing is read outside a buffer.
 */
import { cast, constant, type Expr, indexValue, select } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { Dim, IndexExpr } from '../ir/indexExpr';
import type { FuseCall, FuseParam, LowerContext, LTensor, OpDef } from './op';
import {
  at,
  atMost,
  below,
  both,
  clampedIndex,
  equals,
  minus,
  plus,
  requireShape,
  wrappedIndex,
} from './products';
import {
  attrsOf,
  axisParam,
  operandOfRank,
  optionalParam,
  plainAttr,
  reshapeView,
  scalarElement,
  sizeAs,
  sizesOf,
  tensorParam,
} from './shared';

function requireIntegers(ctx: LowerContext, t: LTensor, what: string): void {
  if (t.dtype === 'f32' || t.dtype === 'f16' || t.dtype === 'bf16' || t.dtype === 'f64') {
    ctx.fail('DTYPE', `${what} must be integers, but are ${t.dtype}`);
  }
}

/** The contents as numbers in [0, extent), when they are known; a fault when one is outside. */
function knownIndices(ctx: LowerContext, t: LTensor, extent: Dim): number[] | undefined {
  const n = I.constOf(extent);
  if (!t.known || n === undefined) return undefined;
  const out: number[] = [];
  for (const k of t.known) {
    const v = typeof k === 'number' ? k : I.constOf(k);
    if (v === undefined) return undefined;
    const wrapped = v < 0 ? v + n : v;
    if (wrapped < 0 || wrapped >= n) {
      ctx.fail(
        'INDEX_RANGE',
        `the index ${v} is outside the gathered dim of ${n}: it must lie in [${-n}, ${n - 1}]`,
      );
    }
    out.push(wrapped);
  }
  return out;
}

/** a, a+s, a+2s… as a start and a step. */
function progression(values: readonly number[]): { start: number; step: number } | undefined {
  const [start, second] = values;
  if (start === undefined) return undefined;
  const step = second === undefined ? 0 : second - start;
  return values.every((v, i) => v === start + i * step) ? { start, step } : undefined;
}

/** Whole slices of `data` along `axis`, picked by `indices` of any rank, by default also from the end. */
/** A fault where there is something to look up, in nothing. */
function requireSome(ctx: LowerContext, extent: Dim, indices: LTensor): void {
  if (I.isConst(extent, 0) && !indices.shape.some((d) => I.isConst(d, 0)))
    ctx.fail('SHAPE_MISMATCH', 'indices look up elements along a dim of size 0, which has none');
}

export function gather(
  ctx: LowerContext,
  data: LTensor,
  indices: LTensor,
  axis: number,
  toIndex = wrappedIndex,
): LTensor {
  requireIntegers(ctx, indices, 'the indices of a gather');
  const extent = at(data.shape, axis);
  requireSome(ctx, extent, indices);
  const m = indices.shape.length;
  const shape = [...data.shape.slice(0, axis), ...indices.shape, ...data.shape.slice(axis + 1)];
  const source = (index: readonly IndexExpr[], picked: IndexExpr): IndexExpr[] => [
    ...index.slice(0, axis),
    picked,
    ...index.slice(axis + m),
  ];
  const known = m <= 1 ? knownIndices(ctx, indices, extent) : undefined;
  const run = known && progression(known);
  if (run) {
    return ctx.view(shape, data, (index) => {
      const i = m === 0 ? I.num(0) : at(index, axis);
      return source(index, I.add(I.mul(i, run.step), run.start));
    });
  }
  return ctx.pointwise(shape, data.dtype, (index) =>
    data.at(source(index, toIndex(indices.at(index.slice(axis, axis + m)), extent))),
  );
}

function lowerGather(ctx: LowerContext): LTensor {
  const data = ctx.input(0);
  return gather(ctx, data, ctx.input(1), ctx.axis(ctx.int('axis', 0), data.shape.length));
}

/** Operands: indices, weight [entries, features]. */
function lowerEmbedding(ctx: LowerContext): LTensor {
  const [indices, weight] = [ctx.input(0), ctx.input(1)];
  if (weight.shape.length !== 2) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `the weight of an embedding must be [entries, features]; it is ${I.printShape(weight.shape)}`,
    );
  }
  // An entry has no place counted from the end.
  return gather(ctx, weight, indices, 0, clampedIndex);
}

/** One element per index: the result has the shape of the indices. */
function lowerGatherElements(ctx: LowerContext): LTensor {
  const [data, indices] = [ctx.input(0), ctx.input(1)];
  requireIntegers(ctx, indices, 'the indices of a gather');
  const rank = data.shape.length;
  const axis = ctx.axis(ctx.int('axis', 0), rank);
  if (indices.shape.length !== rank) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `the indices ${I.printShape(indices.shape)} must have the rank of the data ${I.printShape(data.shape)}`,
    );
  }
  indices.shape.forEach((d, i) => {
    const [n, m] = [I.constOf(d), I.constOf(at(data.shape, i))];
    if (i !== axis && m !== undefined && (n === undefined ? m === 0 : n > m)) {
      ctx.fail(
        'SHAPE_MISMATCH',
        `the indices ${I.printShape(indices.shape)} reach over the data ${I.printShape(data.shape)} in dim ${i}`,
      );
    }
  });
  const extent = at(data.shape, axis);
  requireSome(ctx, extent, indices);
  return ctx.pointwise(indices.shape, data.dtype, (index) =>
    data.at(index.map((i, d) => (d === axis ? wrappedIndex(indices.at(index), extent) : i))),
  );
}

/** The last dim of the indices holds a position in the leading dims (after the batch dims) of the data. */
function lowerGatherNd(ctx: LowerContext): LTensor {
  const [data, indices] = [ctx.input(0), ctx.input(1)];
  requireIntegers(ctx, indices, 'the indices of a gather');
  const batch = ctx.int('batch_dims', 0);
  const q = indices.shape.length;
  const depth = q === 0 ? undefined : I.constOf(at(indices.shape, q - 1));
  if (depth === undefined) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `the last dim of the indices must be known; they have shape ${I.printShape(indices.shape)}`,
    );
  }
  if (batch < 0 || batch >= q || batch + depth > data.shape.length) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `indices ${I.printShape(indices.shape)} with ${batch} batch dims hold positions of ${depth} dims, more than the data ${I.printShape(data.shape)} has`,
    );
  }
  for (let i = 0; i < batch; i++) {
    ctx.requireEqual(
      at(data.shape, i),
      at(indices.shape, i),
      `batch dim ${i} of the data and the indices`,
    );
  }
  const lead = indices.shape.slice(0, -1);
  const shape = [...lead, ...data.shape.slice(batch + depth)];
  return ctx.pointwise(shape, data.dtype, (index) => {
    const prefix = index.slice(0, lead.length);
    const picked = Array.from({ length: depth }, (_, j) =>
      wrappedIndex(indices.at([...prefix, I.num(j)]), at(data.shape, batch + j)),
    );
    return data.at([...index.slice(0, batch), ...picked, ...index.slice(lead.length)]);
  });
}

// ---------------------------------------------------------------------------------------------
// One-hot

function lowerOneHot(ctx: LowerContext): LTensor {
  const indices = ctx.input(0);
  const depth = sizesOf(ctx, 1, 'num_classes')?.[0];
  if (depth === undefined) {
    ctx.fail(
      'BAD_ATTRIBUTE',
      'the number of classes must be known at compile time: give num_classes',
    );
  }
  if ((I.constOf(depth) ?? 1) < 1) {
    ctx.fail(
      'BAD_ATTRIBUTE',
      `the number of classes is ${I.printIndex(depth)}: it must be at least 1`,
    );
  }
  const values = ctx.optional(2) && operandOfRank(ctx, 2, [1], 'the two values of one-hot');
  if (values) ctx.requireEqual(at(values.shape, 0), I.num(2), 'the values of one-hot and 2');
  const dtype = values ? values.dtype : 'i64';
  const rank = indices.shape.length;
  const axis = ctx.axis(ctx.int('axis', -1), rank + 1);
  const shape = [...indices.shape.slice(0, axis), depth, ...indices.shape.slice(axis)];
  const value = (i: number): Expr => (values ? values.at([I.num(i)]) : constant(i, dtype));
  return ctx.pointwise(shape, dtype, (index) => {
    const v = cast(indices.at([...index.slice(0, axis), ...index.slice(axis + 1)]), 'i32');
    const wrapped = select(below(v, 0), plus(v, sizeAs(depth, 'i32')), v);
    return select(equals(wrapped, indexValue(at(index, axis), 'i32')), value(1), value(0));
  });
}

// ---------------------------------------------------------------------------------------------
// Compress, reversal, cache update

/** Only with a condition known at compile time: the result's size depends on it. */
function lowerCompress(ctx: LowerContext): LTensor {
  const [x, condition] = [ctx.input(0), ctx.input(1)];
  const { known } = condition;
  if (!known) {
    ctx.unsupported(
      'the size of the result depends on the condition, whose contents are not known at compile time',
    );
  }
  const flat = !ctx.has('axis');
  const data = flat ? reshapeView(ctx, x, [I.product(x.shape)]) : x;
  const axis = flat ? 0 : ctx.axis(ctx.int('axis'), x.shape.length);
  const kept: number[] = [];
  known.forEach((k: number | Dim, i: number) => {
    if (typeof k === 'number' ? k !== 0 : !I.isConst(k, 0)) kept.push(i);
  });
  return gather(ctx, data, ctx.constant({ dtype: 'i64', shape: [kept.length] }, kept), axis);
}

function lowerReverseSequence(ctx: LowerContext): LTensor {
  const [x, lengths] = [ctx.input(0), ctx.input(1)];
  const rank = x.shape.length;
  const time = ctx.axis(ctx.int('time_axis', 0), rank);
  const batch = ctx.axis(ctx.int('batch_axis', 1), rank);
  if (time === batch) ctx.fail('BAD_AXIS', `time_axis and batch_axis are both ${time}`);
  requireShape(ctx, lengths.shape, [at(x.shape, batch)], 'sequence_lens');
  const extent = at(x.shape, time);
  return ctx.pointwise(x.shape, x.dtype, (index) => {
    const t = indexValue(at(index, time), 'i32');
    const n = cast(lengths.at([at(index, batch)]), 'i32');
    const from = clampedIndex(select(below(t, n), minus(minus(n, 1), t), t), extent);
    return x.at(index.map((i, d) => (d === time ? from : i)));
  });
}

/** Writes a run of positions into a cache, each batch element at its own place. */
function lowerTensorScatter(ctx: LowerContext): LTensor {
  const [past, update, where] = [ctx.input(0), ctx.input(1), ctx.optional(2)];
  const rank = past.shape.length;
  const axis = ctx.axis(ctx.int('axis', -2), rank);
  const mode = ctx.str('mode', 'linear');
  if (mode !== 'linear' && mode !== 'circular') {
    ctx.fail('BAD_ATTRIBUTE', `mode '${mode}' is neither linear nor circular`);
  }
  if (axis === 0) ctx.fail('BAD_AXIS', 'the axis of TensorScatter must not be the batch dim');
  if (where) requireShape(ctx, where.shape, [at(past.shape, 0)], 'write_indices');
  const length = at(past.shape, axis);
  const written =
    update.shape[axis] ??
    ctx.fail(
      'SHAPE_MISMATCH',
      `the update ${I.printShape(update.shape)} must have as many dims as the cache ${I.printShape(past.shape)}`,
    );
  requireShape(
    ctx,
    update.shape,
    past.shape.map((d, i) => (i === axis ? written : d)),
    'the update',
  );
  return ctx.pointwise(past.shape, past.dtype, (index) => {
    const p = indexValue(at(index, axis), 'i32');
    const start = where ? cast(where.at([at(index, 0)]), 'i32') : constant(0, 'i32');
    const direct = minus(p, start);
    const own =
      mode === 'circular'
        ? select(below(direct, 0), plus(direct, sizeAs(length, 'i32')), direct)
        : direct;
    const inside = both(atMost(0, own), below(own, sizeAs(written, 'i32')));
    const from = clampedIndex(own, written);
    const fresh = update.at(index.map((i, d) => (d === axis ? from : i)));
    return select(inside, cast(fresh, past.dtype), past.at(index));
  });
}

/** A single element picked from a vector of choices, elementwise: PyTorch's take. */
function lowerTake(ctx: LowerContext): LTensor {
  const [x, index] = [ctx.input(0), ctx.input(1)];
  return gather(ctx, reshapeView(ctx, x, [I.product(x.shape)]), index, 0);
}

/** `select(x, dim, index)`: one slice, the dim dropped. */
function lowerSelect(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const axis = ctx.axis(ctx.int('axis', 0), x.shape.length);
  const index = ctx.optional(1);
  const picked = index
    ? ctx.view([], index, () => index.shape.map(() => I.num(0)))
    : ctx.constant({ dtype: 'i64', shape: [] }, [ctx.int('index')]);
  if (index) scalarElement(ctx, index, 'the index of select');
  return gather(ctx, x, picked, axis);
}

// ---------------------------------------------------------------------------------------------
// The table

const AXIS_FIRST: FuseParam = { name: 'axis', aliases: ['dim'], kind: 'int' };

/** `gather(data, indices, axis=0)` with the indices second is ONNX's, with the axis second PyTorch's. */
const indicesSecond = (call: FuseCall): boolean =>
  call.positional[1] === 'tensor' || 'indices' in call.named;

export const gatherOps: readonly OpDef[] = [
  {
    name: 'gather',
    onnx: ['Gather'],
    fuse: [
      {
        names: ['gather', 'take_along'],
        matches: indicesSecond,
        params: [tensorParam('data', 'input', 'x'), tensorParam('indices', 'index'), axisParam(0)],
        doc: 'Slices of data along the axis, picked by the indices.',
      },
      {
        names: ['index_select'],
        params: [tensorParam('input', 'x'), AXIS_FIRST, tensorParam('index', 'indices')],
        doc: 'Slices along the axis, picked by the indices.',
      },
    ],
    lower: lowerGather,
  },
  {
    name: 'gather_elements',
    onnx: ['GatherElements'],
    fuse: [
      {
        names: ['gather', 'gather_elements'],
        params: [tensorParam('input', 'x', 'data'), AXIS_FIRST, tensorParam('index', 'indices')],
        doc: 'One element per index along the axis: gather(x, dim, index), as in PyTorch.',
      },
      {
        names: ['take_along_dim'],
        params: [tensorParam('input', 'x'), tensorParam('indices', 'index'), axisParam()],
        doc: 'One element per index along the axis.',
      },
    ],
    lower: lowerGatherElements,
  },
  {
    name: 'gather_nd',
    onnx: ['GatherND'],
    fuse: [
      {
        names: ['gather_nd'],
        params: [
          tensorParam('data', 'x'),
          tensorParam('indices'),
          optionalParam('batch_dims', 'int', 0),
        ],
        doc: 'Elements or slices at the positions held by the last dim of the indices.',
      },
    ],
    lower: lowerGatherNd,
  },
  {
    name: 'embedding',
    fuse: [
      {
        names: ['embedding'],
        params: [
          tensorParam('input', 'indices', 'x'),
          tensorParam('weight', 'w', 'table'),
          // Which row is never trained: nothing that inference sees.
          optionalParam('padding_idx', 'int'),
        ],
        doc: 'Rows of the weight [entries, features], one per index.',
      },
    ],
    lower: lowerEmbedding,
  },
  {
    name: 'take',
    fuse: [
      {
        names: ['take'],
        params: [tensorParam('input', 'x'), tensorParam('index', 'indices')],
        doc: 'Elements of the flattened input.',
      },
    ],
    lower: lowerTake,
  },
  {
    name: 'select_slice',
    fuse: [
      {
        names: ['select'],
        matches: (call) => call.positional[1] === 'number' || 'index' in call.named,
        params: [tensorParam('input', 'x'), AXIS_FIRST, { name: 'index', kind: 'int' }],
        doc: 'One slice along the axis, which is dropped.',
      },
    ],
    lower: lowerSelect,
  },
  {
    name: 'one_hot',
    onnx: ['OneHot'],
    fuse: [
      {
        names: ['one_hot'],
        params: [
          tensorParam('tensor', 'input', 'x', 'indices'),
          { name: 'num_classes', aliases: ['depth'], kind: 'size' },
          optionalParam('axis', 'int', -1, 'dim'),
        ],
        attrs: (args) =>
          attrsOf({ num_classes: plainAttr(args['num_classes']), axis: plainAttr(args['axis']) }),
        doc: 'A new dim of num_classes that is 1 at the index and 0 elsewhere.',
      },
    ],
    lower: lowerOneHot,
  },
  { name: 'compress', onnx: ['Compress'], lower: lowerCompress },
  { name: 'reverse_sequence', onnx: ['ReverseSequence'], lower: lowerReverseSequence },
  { name: 'tensor_scatter', onnx: ['TensorScatter'], lower: lowerTensorScatter },
];
