/** Orders: what is taken for ranks, and for the look-up of ranks, and what isn't. */
import assert from 'node:assert/strict';
import type { Compute } from '../../../compiler/ir/compute';
import {
  binary,
  cast,
  constant,
  type Expr,
  indexValue,
  load,
  select,
  unary,
} from '../../../compiler/ir/expr';
import { add, type IndexExpr, num } from '../../../compiler/ir/indexExpr';
import { placingOf, rankingOf } from '../../../compiler/ir/ordering';
import { Builder } from '../reference/programs';

const N = 8;

interface Form {
  /** The key of the element at a place. */
  readonly key?: (at: Expr, d: IndexExpr) => Expr;
  readonly before?: (mine: Expr, other: Expr) => Expr;
  readonly tie?: (d: IndexExpr, r: IndexExpr) => Expr;
}

const less = (a: Expr, b: Expr): Expr => binary('lt', a, b);
const earlier = (d: IndexExpr, r: IndexExpr): Expr =>
  less(indexValue(r, 'i32'), indexValue(d, 'i32'));

function ranks({
  key = (at) => at,
  before = (mine, other) => less(mine, other),
  tie = earlier,
}: Form): Compute {
  const b = new Builder();
  b.input('x', [3, N]);
  b.compute(
    [3, N],
    ([i = num(0), d = num(0)], [r = num(0)]) => {
      const mine = key(load('x', [i, d], 'f32'), d);
      const other = key(load('x', [i, r], 'f32'), d);
      const tied = binary('and', binary('eq', other, mine), tie(d, r));
      return cast(binary('or', before(mine, other), tied), 'i32');
    },
    [N],
    { kind: 'sum' },
  );
  const [c] = b.program().computes;
  assert.ok(c);
  return c;
}

function places(cond: (i: IndexExpr, k: IndexExpr, j: IndexExpr) => Expr, otherwise = 0): Compute {
  const b = new Builder();
  b.input('ranks', [3, N], 'i32');
  b.compute(
    [3, 2],
    ([i = num(0), k = num(0)], [j = num(0)]) =>
      select(cond(i, k, j), indexValue(j, 'i32'), constant(otherwise, 'i32')),
    [N],
    { kind: 'sum' },
  );
  const [c] = b.program().computes;
  assert.ok(c);
  return c;
}

describe('orders', () => {
  it('are found, either way round, with keys that are computed', () => {
    const found = rankingOf(ranks({}));
    assert.deepEqual([found?.axis, found?.descending], [1, true]);
    const ascending = rankingOf(ranks({ before: (mine, other) => less(other, mine) }));
    assert.deepEqual([ascending?.axis, ascending?.descending], [1, false]);
    assert.ok(rankingOf(ranks({ key: (at) => unary('abs', at) })));
  });

  it('are none where the comparison is no strict total order of the row', () => {
    const forms: Form[] = [
      { before: (mine, other) => binary('le', mine, other) },
      { before: (mine, other) => less(mine, unary('neg', other)) },
      { tie: (d, r) => less(indexValue(r, 'i32'), indexValue(add(d, 1), 'i32')) },
      { tie: (d, r) => earlier(r, d) },
      // A key that depends on whose turn it is.
      { key: (at, d) => binary('mul', at, indexValue(d, 'f32')) },
    ];
    forms.forEach((form, i) => assert.equal(rankingOf(ranks(form)), undefined, `form ${i}`));
  });

  it('are looked up by rank', () => {
    const at = (i: IndexExpr, j: IndexExpr): Expr => load('ranks', [i, j], 'i32');
    const rank = (k: IndexExpr): Expr => indexValue(k, 'i32');
    const found = placingOf(places((i, k, j) => binary('eq', at(i, j), rank(k))));
    assert.deepEqual(found, { ranks: 'ranks', axis: 1 });
    const not = [
      places((i, k, j) => binary('lt', at(i, j), rank(k))),
      places((i, k, j) => binary('eq', at(i, j), rank(add(k, 1)))),
      places((_, k, j) => binary('eq', at(num(0), j), rank(k))),
      places((i, k, j) => binary('eq', at(i, j), rank(k)), 1),
    ];
    not.forEach((c, i) => assert.equal(placingOf(c), undefined, `form ${i}`));
  });
});
