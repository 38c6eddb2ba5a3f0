/**
 * PyTorch's ops on whole matrices that are no product: diagonals, products of blocks, distances between
 * rows, cross products; and its ways of stacking.
 */
import { cast, constant, type Expr, unary, when } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { Dim, IndexExpr } from '../ir/indexExpr';
import { concat } from './joining';
import type { FuseParam, LowerContext, LTensor, OpDef } from './op';
import { at, power, root } from './products';
import {
  atBroadcast,
  axisParam,
  broadcastShapes,
  computeFloat,
  floatResult,
  intList,
  minus,
  numeric,
  optionalParam,
  plus,
  promote,
  reshapeView,
  tensorParam,
  times,
} from './shared';

const X = tensorParam('input', 'x', 'self');
const TENSORS: FuseParam = { name: 'tensors', kind: 'tensors' };

// ---------------------------------------------------------------------------------------------
// Diagonals

/** Where the k-th diagonal starts: below the main one for k < 0. */
function startOf(offset: number): readonly [number, number] {
  return [Math.max(0, -offset), Math.max(0, offset)];
}

/** The diagonal of two dims, in a new last dim: a view. */
function diagonal(ctx: LowerContext, x: LTensor, offset: number, a: number, b: number): LTensor {
  const rank = x.shape.length;
  if (rank < 2) ctx.fail('SHAPE_MISMATCH', `${I.printShape(x.shape)} has no two dims`);
  const [rows, columns] = [ctx.axis(a, rank), ctx.axis(b, rank)];
  if (rows === columns) ctx.fail('BAD_ATTRIBUTE', 'the two dims of a diagonal must be different');
  const [top, left] = startOf(offset);
  const within = (d: Dim, from: number): Dim => I.max(I.sub(d, from), 0);
  const length = I.min(within(at(x.shape, rows), top), within(at(x.shape, columns), left));
  const kept = x.shape.map((_, i) => i).filter((i) => i !== rows && i !== columns);
  return ctx.view([...kept.map((i) => at(x.shape, i)), length], x, (index) => {
    const d = at(index, kept.length);
    return x.shape.map((_, i) => {
      if (i === rows) return I.add(d, top);
      return i === columns ? I.add(d, left) : at(index, kept.indexOf(i));
    });
  });
}

/** Vectors along the last dim as diagonals of matrices in two new last dims, zeros around them. */
function embedded(ctx: LowerContext, x: LTensor, offset: number): LTensor {
  const last = x.shape.length - 1;
  if (last < 0) ctx.fail('SHAPE_MISMATCH', 'a number is no diagonal');
  const [top, left] = startOf(offset);
  const length = at(x.shape, last);
  const size = I.add(length, Math.abs(offset));
  return ctx.pointwise([...x.shape.slice(0, last), size, size], x.dtype, (index) => {
    const [i, j] = [I.sub(at(index, last), top), I.sub(at(index, last + 1), left)];
    const on = [
      { index: I.sub(i, j), lo: I.num(0), hi: I.num(1) },
      { index: i, lo: I.num(0), hi: length },
    ];
    return when(on, x.at([...index.slice(0, last), i]), constant(0, x.dtype));
  });
}

/** A matrix of a vector, a vector of a matrix. */
function diag(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const offset = ctx.int('diagonal', 0);
  if (x.shape.length === 1) return embedded(ctx, x, offset);
  if (x.shape.length === 2) return diagonal(ctx, x, offset, 0, 1);
  return ctx.fail(
    'SHAPE_MISMATCH',
    `diag takes a vector or a matrix, not ${I.printShape(x.shape)}; diagonal takes more dims`,
  );
}

function trace(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const d = diagonal(ctx, x, 0, 0, 1);
  if (x.shape.length !== 2)
    ctx.fail('SHAPE_MISMATCH', `trace takes a matrix, not ${I.printShape(x.shape)}`);
  const dtype = numeric(x.dtype);
  return ctx.reduce({ shape: [], over: d.shape, monoid: 'sum', dtype }, (_, r) =>
    cast(d.at(r), dtype),
  );
}

// ---------------------------------------------------------------------------------------------
// Products of blocks, cross products

/** Each element of a times the whole of b, in its block. */
function kron(ctx: LowerContext): LTensor {
  const [a, b] = [ctx.input(0), ctx.input(1)];
  const rank = Math.max(a.shape.length, b.shape.length);
  const wide = (t: LTensor): LTensor =>
    reshapeView(ctx, t, [...new Array<number>(rank - t.shape.length).fill(1), ...t.shape]);
  const [p, q] = [wide(a), wide(b)];
  const dtype = promote([a, b]);
  const shape = p.shape.map((d, i) => I.mul(d, at(q.shape, i)));
  return ctx.pointwise(shape, dtype, (index) => {
    const block = index.map((e, i) => I.floorDiv(e, at(q.shape, i)));
    const inside = index.map((e, i) => I.mod(e, at(q.shape, i)));
    return times(cast(p.at(block), dtype), cast(q.at(inside), dtype));
  });
}

/** The cross product of vectors of three along an axis. */
function cross(ctx: LowerContext): LTensor {
  const [a, b] = [ctx.input(0), ctx.input(1)];
  const shape = broadcastShapes(ctx, [a.shape, b.shape]);
  const axis = ctx.axis(ctx.int('axis', -1), shape.length);
  ctx.requireEqual(at(shape, axis), I.num(3), 'the dim of a cross product and 3');
  const dtype = promote([a, b]);
  return ctx.pointwise(shape, dtype, (index) => {
    const element = (t: LTensor, step: number): Expr => {
      const place = I.mod(I.add(at(index, axis), step), 3);
      const moved = index.map((e, i) => (i === axis ? place : e));
      return cast(atBroadcast(t, moved), dtype);
    };
    return minus(times(element(a, 1), element(b, 2)), times(element(a, 2), element(b, 1)));
  });
}

/** The sum of products along the last dims of both. */
function inner(ctx: LowerContext): LTensor {
  const [a, b] = [ctx.input(0), ctx.input(1)];
  const [p, q] = [a.shape.length - 1, b.shape.length - 1];
  const dtype = promote([a, b]);
  if (p < 0 || q < 0) {
    const shape = broadcastShapes(ctx, [a.shape, b.shape]);
    return ctx.pointwise(shape, dtype, (index) =>
      times(cast(atBroadcast(a, index), dtype), cast(atBroadcast(b, index), dtype)),
    );
  }
  ctx.requireEqual(at(a.shape, p), at(b.shape, q), 'the last dims of an inner product');
  const shape = [...a.shape.slice(0, p), ...b.shape.slice(0, q)];
  return ctx.reduce({ shape, over: [at(a.shape, p)], monoid: 'sum', dtype }, (index, r) =>
    times(
      cast(a.at([...index.slice(0, p), ...r]), dtype),
      cast(b.at([...index.slice(p), ...r]), dtype),
    ),
  );
}

// ---------------------------------------------------------------------------------------------
// Distances

/** The p-norm of what `difference` gives along the reduction: its sum of powers, and the root of that. */
function distance(
  ctx: LowerContext,
  dtype: LTensor['dtype'],
  shape: readonly Dim[],
  over: Dim,
  difference: (index: readonly IndexExpr[], d: IndexExpr) => Expr,
): LTensor {
  const p = ctx.float('p', 2);
  if (!(p > 0)) ctx.fail('BAD_ATTRIBUTE', `p is ${p}: the order of a norm must be positive`);
  const most = p === Infinity;
  const t = computeFloat(dtype);
  const sum = ctx.reduce(
    { shape, over: [over], monoid: most ? 'max' : 'sum', dtype: t },
    (index, [d = I.num(0)]) => {
      const e = difference(index, d);
      return most ? unary('abs', e) : power(e, p);
    },
  );
  return ctx.pointwise(shape, dtype, (index) =>
    cast(most ? sum.at(index) : root(sum.at(index), p), dtype),
  );
}

/** Between each row of [..., n, d] and each of [..., m, d]. */
function cdist(ctx: LowerContext): LTensor {
  const [a, b] = [ctx.input(0), ctx.input(1)];
  const [p, q] = [a.shape.length, b.shape.length];
  if (p < 2 || q < 2)
    ctx.fail(
      'SHAPE_MISMATCH',
      `cdist takes rows in two dims or more, not ${I.printShape(a.shape)} and ${I.printShape(b.shape)}`,
    );
  ctx.requireEqual(at(a.shape, p - 1), at(b.shape, q - 1), 'the lengths of the rows');
  const batch = broadcastShapes(ctx, [a.shape.slice(0, -2), b.shape.slice(0, -2)]);
  const n = batch.length;
  const dtype = floatResult(promote([a, b]));
  const t = computeFloat(dtype);
  const shape = [...batch, at(a.shape, p - 2), at(b.shape, q - 2)];
  return distance(ctx, dtype, shape, at(a.shape, p - 1), (index, d) => {
    const row = (x: LTensor, i: number): Expr =>
      cast(atBroadcast(x, [...index.slice(0, n), at(index, i), d]), t);
    return minus(row(a, n), row(b, n + 1));
  });
}

/** Between the vectors along the last dim, of x - y + eps. */
function pairwise(ctx: LowerContext): LTensor {
  const [a, b] = [ctx.input(0), ctx.input(1)];
  const full = broadcastShapes(ctx, [a.shape, b.shape]);
  const last = full.length - 1;
  if (last < 0) ctx.fail('SHAPE_MISMATCH', 'numbers have no dim to take a distance along');
  const dtype = floatResult(promote([a, b]));
  const t = computeFloat(dtype);
  const eps = constant(ctx.float('eps', 1e-6), t);
  const y = distance(ctx, dtype, full.slice(0, last), at(full, last), (index, d) => {
    const place = [...index, d];
    const e = minus(cast(atBroadcast(a, place), t), cast(atBroadcast(b, place), t));
    return plus(e, eps);
  });
  if (!ctx.bool('keepdim', false)) return y;
  return reshapeView(ctx, y, [...y.shape, 1]);
}

// ---------------------------------------------------------------------------------------------
// Stacking

/** Tensors of at least `rank` dims, joined along an axis; `grow` says where those of fewer get new ones. */
function stacking(
  axis: (rank: number) => number,
  grow: (shape: readonly Dim[]) => readonly (Dim | number)[],
): OpDef['lower'] {
  return (ctx) => {
    const tensors = Array.from({ length: Math.max(1, ctx.arity) }, (_, i) => {
      const t = ctx.input(i);
      return reshapeView(ctx, t, grow(t.shape));
    });
    return concat(ctx, tensors, axis(tensors[0]?.shape.length ?? 1));
  };
}

const stackForm = (names: readonly string[], doc: string) => [{ names, params: [TENSORS], doc }];

const stackingOps: readonly OpDef[] = [
  {
    name: 'hstack',
    fuse: stackForm(
      ['hstack'],
      'tensors joined along the second dim; vectors along their only one',
    ),
    lower: stacking(
      (rank) => (rank < 2 ? 0 : 1),
      (s) => (s.length === 0 ? [1] : s),
    ),
  },
  {
    name: 'vstack',
    fuse: stackForm(['vstack', 'row_stack'], 'tensors joined along the first dim; vectors as rows'),
    lower: stacking(
      () => 0,
      (s) => (s.length < 2 ? [1, ...(s.length === 0 ? [1] : s)] : s),
    ),
  },
  {
    name: 'column_stack',
    fuse: stackForm(['column_stack'], 'tensors joined along the second dim; vectors as columns'),
    lower: stacking(
      () => 1,
      (s) => (s.length < 2 ? [...(s.length === 0 ? [1] : s), 1] : s),
    ),
  },
  {
    name: 'dstack',
    fuse: stackForm(['dstack'], 'tensors joined along the third dim'),
    lower: stacking(
      () => 2,
      (s) => (s.length < 3 ? [...(s.length < 2 ? [1, ...(s.length === 0 ? [1] : s)] : s), 1] : s),
    ),
  },
];

const OFFSET = optionalParam('offset', 'int', 0);
const PAIR = [tensorParam('input', 'x1', 'a'), tensorParam('other', 'x2', 'b')];
const ORDER = optionalParam('p', 'float', 2);

export const matrixOps: readonly OpDef[] = [
  {
    name: 'diagonal',
    view: true,
    fuse: [
      {
        names: ['diagonal'],
        params: [X, OFFSET, optionalParam('dim1', 'int', 0), optionalParam('dim2', 'int', 1)],
        doc: 'the diagonal of two dims, in a new last dim',
      },
    ],
    lower: (ctx) =>
      diagonal(ctx, ctx.input(0), ctx.int('offset', 0), ctx.int('dim1', 0), ctx.int('dim2', 1)),
  },
  {
    name: 'diag',
    fuse: [
      {
        names: ['diag'],
        params: [X, optionalParam('diagonal', 'int', 0)],
        doc: 'the matrix with a vector on its diagonal; the diagonal of a matrix',
      },
    ],
    lower: diag,
  },
  {
    name: 'diag_embed',
    fuse: [
      {
        names: ['diag_embed'],
        params: [X, OFFSET],
        doc: 'vectors along the last dim as diagonals of matrices',
      },
    ],
    lower: (ctx) => embedded(ctx, ctx.input(0), ctx.int('offset', 0)),
  },
  {
    name: 'trace',
    fuse: [{ names: ['trace'], params: [X], doc: 'the sum of the diagonal of a matrix' }],
    lower: trace,
  },
  {
    name: 'kron',
    fuse: [{ names: ['kron'], params: PAIR, doc: 'each element of a times the whole of b' }],
    lower: kron,
  },
  {
    name: 'cross',
    fuse: [
      {
        names: ['cross'],
        params: [...PAIR, axisParam(-1)],
        attrs: (args) => ({ axis: intList(args['axis'])?.[0] ?? -1 }),
        doc: 'the cross product of vectors of three along the axis',
      },
    ],
    lower: cross,
  },
  {
    name: 'inner',
    fuse: [
      { names: ['inner', 'vdot'], params: PAIR, doc: 'the sum of products along the last dims' },
    ],
    lower: inner,
  },
  {
    name: 'cdist',
    fuse: [
      {
        names: ['cdist'],
        params: [...PAIR, ORDER],
        doc: 'the distance between each row of a and each row of b',
      },
    ],
    lower: cdist,
  },
  {
    name: 'pairwise_distance',
    fuse: [
      {
        names: ['pairwise_distance'],
        params: [
          ...PAIR,
          ORDER,
          optionalParam('eps', 'float', 1e-6),
          optionalParam('keepdim', 'bool', false, 'keepdims'),
        ],
        doc: 'the norm of a - b + eps along the last dim',
      },
    ],
    lower: pairwise,
  },
  ...stackingOps,
];
