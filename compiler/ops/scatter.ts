/**
 * Scatters, turned round: each output position looks for the updates that go to it, so that no two
 * threads write to one place and the result doesn't depend on their order.
 *
 * Without a reduction the last matching update (in row-major order) wins: one reduction finds its
 * position, an elementwise compute reads it. With one, the matching updates are combined and then
 * merged with the data.
 */
import { cast, constant, dynIndex, type Expr, indexValue, select, when } from '../ir/expr';
import type { DType } from '../graph/dtype';
import * as I from '../ir/indexExpr';
import type { Dim, IndexExpr } from '../ir/indexExpr';
import type { FuseForm, LowerContext, LTensor, OpDef } from './op';
import {
  at,
  atMost,
  below,
  both,
  equals,
  greatest,
  highest,
  least,
  lowest,
  plus,
  requireShape,
  times,
  wide,
} from './products';
import { attrsOf, optionalParam, plainAttr, sizeAs, tensorParam } from './shared';

type Reduction = 'none' | 'add' | 'mul' | 'max' | 'min';

function reductionOf(ctx: LowerContext): Reduction {
  const name = ctx.str('reduction', 'none');
  switch (name) {
    case '':
    case 'none':
      return 'none';
    case 'add':
    case 'sum':
      return 'add';
    case 'mul':
    case 'prod':
      return 'mul';
    case 'max':
    case 'amax':
      return 'max';
    case 'min':
    case 'amin':
      return 'min';
    default:
      return ctx.fail('BAD_ATTRIBUTE', `reduction '${name}' is none of none, add, mul, max, min`);
  }
}

interface Scatter {
  readonly data: LTensor;
  readonly updates: LTensor;
  /** The dims over which the candidate updates of one output position lie. */
  readonly over: readonly Dim[];
  /** Whether candidate r goes to output position p. */
  matches(p: readonly IndexExpr[], r: readonly IndexExpr[]): Expr;
  /** Where candidate r stands in the updates. */
  source(p: readonly IndexExpr[], r: readonly IndexExpr[]): readonly IndexExpr[];
  /** Conditions on p without which there are no candidates. */
  conds(p: readonly IndexExpr[]): readonly { index: IndexExpr; lo: IndexExpr; hi: IndexExpr }[];
}

function identity(reduction: Reduction, dtype: DType): number {
  switch (reduction) {
    case 'none':
    case 'add':
      return 0;
    case 'mul':
      return 1;
    case 'max':
      return lowest(dtype);
    case 'min':
      return highest(dtype);
  }
}

function merge(reduction: Reduction, a: Expr, b: Expr): Expr {
  switch (reduction) {
    case 'none':
      return b;
    case 'add':
      return plus(a, b);
    case 'mul':
      return times(a, b);
    case 'max':
      return greatest(a, b);
    case 'min':
      return least(a, b);
  }
}

const MONOIDS = { add: 'sum', mul: 'prod', max: 'max', min: 'min' } as const;

function scatter(ctx: LowerContext, s: Scatter, reduction: Reduction): LTensor {
  const { data, updates } = s;
  if (data.dtype !== updates.dtype) {
    ctx.fail('DTYPE', `the updates are ${updates.dtype} but the data is ${data.dtype}`);
  }
  if (s.over.some((d) => I.isConst(d, 0))) return data;
  if (reduction === 'none') {
    const last = ctx.reduce(
      { shape: data.shape, over: s.over, monoid: 'max', dtype: 'i32' },
      (p, r) =>
        when(
          s.conds(p),
          select(s.matches(p, r), indexValue(I.linearise(r, s.over), 'i32'), constant(-1, 'i32')),
          constant(-1, 'i32'),
        ),
    );
    return ctx.pointwise(data.shape, data.dtype, (p) => {
      const found = last.at(p);
      const lin = dynIndex(greatest(found, 0), I.product(s.over));
      const from = s.source(p, I.delinearise(lin, s.over));
      return when(s.conds(p), select(atMost(0, found), updates.at(from), data.at(p)), data.at(p));
    });
  }
  const acc = wide(data.dtype);
  const neutral = constant(identity(reduction, acc), acc);
  const combined = ctx.reduce(
    { shape: data.shape, over: s.over, monoid: MONOIDS[reduction], dtype: acc },
    (p, r) =>
      when(
        s.conds(p),
        select(s.matches(p, r), cast(updates.at(s.source(p, r)), acc), neutral),
        neutral,
      ),
  );
  return ctx.pointwise(data.shape, data.dtype, (p) =>
    cast(merge(reduction, cast(data.at(p), acc), combined.at(p)), data.dtype),
  );
}

/** A read index, wrapped when negative, equal to position `p` of a dim. */
function pointsAt(value: Expr, p: IndexExpr, extent: Dim): Expr {
  const v = cast(value, 'i32');
  const wrapped = select(below(v, 0), plus(v, sizeAs(extent, 'i32')), v);
  return equals(wrapped, indexValue(p, 'i32'));
}

/** Each update goes where it stands, but for the axis, along which its index says where. */
function lowerScatterElements(ctx: LowerContext): LTensor {
  const [data, indices, updates] = [ctx.input(0), ctx.input(1), ctx.input(2)];
  const rank = data.shape.length;
  const axis = ctx.axis(ctx.int('axis', 0), rank);
  if (indices.shape.length !== rank) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `the indices ${I.printShape(indices.shape)} must have the rank of the data ${I.printShape(data.shape)}`,
    );
  }
  const single = updates.shape.every((d) => I.isConst(d, 1));
  const value: LTensor = single
    ? ctx.view(indices.shape, updates, () => updates.shape.map(() => I.num(0)))
    : updates;
  requireShape(ctx, value.shape, indices.shape, 'the updates');
  indices.shape.forEach((d, i) => {
    const [n, m] = [I.constOf(d), I.constOf(at(data.shape, i))];
    if (i !== axis && n !== undefined && m !== undefined && n > m) {
      ctx.fail(
        'SHAPE_MISMATCH',
        `the indices ${I.printShape(indices.shape)} reach over the data ${I.printShape(data.shape)} in dim ${i}`,
      );
    }
  });
  const source = (p: readonly IndexExpr[], r: readonly IndexExpr[]): IndexExpr[] =>
    p.map((x, d) => (d === axis ? at(r, 0) : x));
  return scatter(
    ctx,
    {
      data,
      updates: value,
      over: [at(indices.shape, axis)],
      source,
      matches: (p, r) => pointsAt(indices.at(source(p, r)), at(p, axis), at(data.shape, axis)),
      conds: (p) =>
        p.flatMap((x, d) => {
          const hi = at(indices.shape, d);
          return d === axis || I.provablyLe(at(data.shape, d), hi)
            ? []
            : [{ index: x, lo: I.num(0), hi }];
        }),
    },
    reductionOf(ctx),
  );
}

/** The last dim of the indices holds the position that a whole slice of updates goes to. */
function lowerScatterNd(ctx: LowerContext): LTensor {
  const [data, indices, updates] = [ctx.input(0), ctx.input(1), ctx.input(2)];
  const q = indices.shape.length;
  const depth = q === 0 ? undefined : I.constOf(at(indices.shape, q - 1));
  if (depth === undefined) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `the last dim of the indices must be known; they have shape ${I.printShape(indices.shape)}`,
    );
  }
  if (depth > data.shape.length) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `the indices ${I.printShape(indices.shape)} hold positions of ${depth} dims, more than the data ${I.printShape(data.shape)} has`,
    );
  }
  const lead = indices.shape.slice(0, -1);
  requireShape(ctx, updates.shape, [...lead, ...data.shape.slice(depth)], 'the updates');
  return scatter(
    ctx,
    {
      data,
      updates,
      over: lead,
      source: (p, r) => [...r, ...p.slice(depth)],
      matches: (p, r) => {
        const all = Array.from({ length: depth }, (_, j) =>
          pointsAt(indices.at([...r, I.num(j)]), at(p, j), at(data.shape, j)),
        );
        return all.length === 0 ? constant(1, 'bool') : all.reduce(both);
      },
      conds: () => [],
    },
    reductionOf(ctx),
  );
}

function scatterForm(names: readonly string[], reduction: string | undefined): FuseForm {
  return {
    names,
    params: [
      tensorParam('input', 'data', 'x'),
      { name: 'axis', aliases: ['dim'], kind: 'int' },
      tensorParam('index', 'indices'),
      tensorParam('src', 'updates', 'value'),
      ...(reduction === undefined ? [optionalParam('reduce', 'str', 'none', 'reduction')] : []),
    ],
    attrs: (args) =>
      attrsOf({
        axis: plainAttr(args['axis']),
        reduction: reduction ?? plainAttr(args['reduce']),
      }),
    doc: 'The input with the elements of src at the indexed positions along the axis.',
  };
}

export const scatterOps: readonly OpDef[] = [
  {
    name: 'scatter_elements',
    onnx: ['ScatterElements', 'Scatter'],
    fuse: [
      scatterForm(['scatter', 'scatter_elements', 'scatter_reduce'], undefined),
      scatterForm(['scatter_add'], 'add'),
    ],
    lower: lowerScatterElements,
  },
  {
    name: 'scatter_nd',
    onnx: ['ScatterND'],
    fuse: [
      {
        names: ['scatter_nd'],
        params: [
          tensorParam('data', 'input', 'x'),
          tensorParam('indices', 'index'),
          tensorParam('updates', 'src'),
          optionalParam('reduction', 'str', 'none', 'reduce'),
        ],
        doc: 'The data with slices replaced at the positions held by the last dim of the indices.',
      },
    ],
    lower: lowerScatterNd,
  },
];
