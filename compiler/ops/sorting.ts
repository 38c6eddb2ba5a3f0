/**
 * Order along an axis: top-k, sort, argsort.
 *
 * By rank computation, which needs no order of execution: the rank of an element is the number of
 * elements that come before it, and place k of the result is the element whose rank is k. The best
 * element alone is an arg reduction.
 */
import { cast, constant, dynIndex, type Expr, indexValue, select } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { Dim, IndexExpr } from '../ir/indexExpr';
import type { LowerContext, LTensor, OpDef } from './op';
import { at, below, both, either, equals } from './products';
import { axisParam, optionalParam, sizesOf, tensorParam } from './shared';

/** Places 0…k-1 along the axis: the values and their positions. Ties keep their order. */
function topK(
  ctx: LowerContext,
  x: LTensor,
  k: Dim,
  axis: number,
  largest: boolean,
): readonly [LTensor, LTensor] {
  const n = at(x.shape, axis);
  const [kc, nc] = [I.constOf(k), I.constOf(n)];
  if (kc !== undefined && nc !== undefined && (kc > nc || kc < 0)) {
    ctx.fail(
      'BAD_ATTRIBUTE',
      `k is ${kc}, but dim ${axis} of ${I.printShape(x.shape)} has ${nc} elements`,
    );
  }
  const shape = x.shape.map((d, i) => (i === axis ? k : d));
  const along = (index: readonly IndexExpr[], p: IndexExpr): IndexExpr[] =>
    index.map((i, d) => (d === axis ? p : i));
  const element = (index: readonly IndexExpr[]): Expr => {
    const e = x.at(index);
    return e.dtype === 'bool' ? cast(e, 'i32') : e;
  };
  const place = I.isConst(k, 1) ? best() : placed();
  const position = (index: readonly IndexExpr[]): IndexExpr => dynIndex(place.at(index), n);
  const values = ctx.pointwise(shape, x.dtype, (index) => x.at(along(index, position(index))));
  const indices = ctx.pointwise(shape, 'i64', (index) => cast(place.at(index), 'i64'));
  return [values, indices];

  function best(): LTensor {
    const monoid = { kind: largest ? 'argmax' : 'argmin', last: false } as const;
    return ctx.reduce({ shape, over: [n], monoid, dtype: 'i32' }, (index, r) =>
      element(along(index, at(r, 0))),
    );
  }

  function placed(): LTensor {
    const rank = ctx.reduce(
      { shape: x.shape, over: [n], monoid: 'sum', dtype: 'i32' },
      (index, r) => {
        const j = at(r, 0);
        const mine = element(index);
        const other = element(along(index, j));
        const before = largest ? below(mine, other) : below(other, mine);
        const earlier = both(
          equals(other, mine),
          below(indexValue(j, 'i32'), indexValue(at(index, axis), 'i32')),
        );
        return cast(either(before, earlier), 'i32');
      },
    );
    return ctx.reduce({ shape, over: [n], monoid: 'sum', dtype: 'i32' }, (index, r) => {
      const j = at(r, 0);
      const own = indexValue(at(index, axis), 'i32');
      return select(
        equals(rank.at(along(index, j)), own),
        indexValue(j, 'i32'),
        constant(0, 'i32'),
      );
    });
  }
}

function lowerTopK(ctx: LowerContext): readonly LTensor[] {
  const x = ctx.input(0);
  if (x.shape.length === 0)
    ctx.fail('SHAPE_MISMATCH', 'top-k of a scalar: it needs a dim to choose along');
  const k = sizesOf(ctx, 1, 'k')?.[0] ?? ctx.fail('BAD_ATTRIBUTE', 'k is missing');
  const axis = ctx.axis(ctx.int('axis', -1), x.shape.length);
  return topK(ctx, x, k, axis, ctx.bool('largest', true));
}

function lowerSort(ctx: LowerContext): readonly LTensor[] {
  const x = ctx.input(0);
  if (x.shape.length === 0) ctx.fail('SHAPE_MISMATCH', 'a scalar has nothing to sort along');
  const axis = ctx.axis(ctx.int('axis', -1), x.shape.length);
  return topK(ctx, x, at(x.shape, axis), axis, ctx.bool('descending', false));
}

export const sortingOps: readonly OpDef[] = [
  {
    name: 'top_k',
    onnx: ['TopK'],
    fuse: [
      {
        names: ['topk', 'top_k'],
        params: [
          tensorParam('input', 'x'),
          { name: 'k', kind: 'size' },
          axisParam(-1),
          optionalParam('largest', 'bool', true),
          optionalParam('sorted', 'bool', true),
        ],
        results: 2,
        doc: 'The k largest (or smallest) elements along the axis, in order, and their positions.',
      },
    ],
    lower: lowerTopK,
  },
  {
    name: 'sort',
    fuse: [
      {
        names: ['sort'],
        params: [
          tensorParam('input', 'x'),
          axisParam(-1),
          optionalParam('descending', 'bool', false),
        ],
        results: 2,
        doc: 'The elements in order along the axis, and where they came from.',
      },
    ],
    lower: lowerSort,
  },
  {
    name: 'argsort',
    fuse: [
      {
        names: ['argsort'],
        params: [
          tensorParam('input', 'x'),
          axisParam(-1),
          optionalParam('descending', 'bool', false),
        ],
        doc: 'The positions that put the elements in order along the axis.',
      },
    ],
    lower: (ctx) => at(lowerSort(ctx), 1),
  },
];
