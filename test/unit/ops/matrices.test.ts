/** Ops on whole matrices against plain loops. */
import assert from 'node:assert/strict';
import { close, faults, Naive, numbers, run } from './fixture';

const [A, B, C] = [numbers(12, 1), numbers(12, 2), numbers(6, 3)];
const [a, b] = [new Naive([3, 4], A), new Naive([3, 4], B)];

function check(source: string, shape: readonly number[], want: readonly number[]): void {
  const { y } = run(
    `input a: f32[3, 4]\ninput b: f32[3, 4]\ninput c: f32[2, 3]\ny = ${source}\noutput y`,
    { a: A, b: B, c: C },
  );
  assert.deepEqual(y.shape, shape, source);
  close(y.values, want, 1e-5);
}

const make = (shape: readonly number[], f: (i: readonly number[]) => number): readonly number[] =>
  Naive.make(shape, f).values;

describe('ops: matrices', () => {
  it('diagonals are views, and vectors become matrices', () => {
    check(
      'diagonal(a)',
      [3],
      [0, 1, 2].map((i) => a.at(i, i)),
    );
    check(
      'a.diagonal(offset=2)',
      [2],
      [0, 1].map((i) => a.at(i, i + 2)),
    );
    check(
      'diagonal(a, -1)',
      [2],
      [0, 1].map((i) => a.at(i + 1, i)),
    );
    check('diagonal(a, 9)', [0], []);
    check(
      'diag(a, 1)',
      [3],
      [0, 1, 2].map((i) => a.at(i, i + 1)),
    );
    check('trace(a)', [], [a.at(0, 0) + a.at(1, 1) + a.at(2, 2)]);
    check(
      'diag(a[0], -1)',
      [5, 5],
      make([5, 5], ([i = 0, j = 0]) => (i === j + 1 ? a.at(0, j) : 0)),
    );
    check(
      'diag_embed(a)',
      [3, 4, 4],
      make([3, 4, 4], ([n = 0, i = 0, j = 0]) => (i === j ? a.at(n, i) : 0)),
    );
    check('diagonal(diag_embed(a, 1), 1, -2, -1)', [3, 4], A);
    assert.match(faults('input x: f32[4]\ny = diagonal(x)\noutput y')[0] ?? '', /no two dims/);
  });

  it('products of blocks, crosses and inner products', () => {
    check(
      'kron(c, a)',
      [6, 12],
      make(
        [6, 12],
        ([i = 0, j = 0]) =>
          (C[Math.floor(i / 3) * 3 + Math.floor(j / 4)] ?? 0) * a.at(i % 3, j % 4),
      ),
    );
    const crossed = make([2, 3], ([i = 0, k = 0]) => {
      const [u, v] = [C.slice(3 * i, 3 * i + 3), C.slice(0, 3)];
      const at = (l: readonly number[], s: number): number => l[(k + s) % 3] ?? 0;
      return at(u, 1) * at(v, 2) - at(u, 2) * at(v, 1);
    });
    check('cross(c, c[0:1], dim=-1)', [2, 3], crossed);
    const dot = (i: number, j: number): number =>
      [0, 1, 2, 3].reduce((s, k) => s + a.at(i, k) * b.at(j, k), 0);
    check(
      'inner(a, b)',
      [3, 3],
      make([3, 3], ([i = 0, j = 0]) => dot(i, j)),
    );
  });

  it('distances between rows', () => {
    const far = (i: number, j: number, p: number, eps = 0): number => {
      const d = [0, 1, 2, 3].map((k) => Math.abs(a.at(i, k) - b.at(j, k) + eps));
      return p === Infinity ? Math.max(...d) : d.reduce((s, x) => s + x ** p, 0) ** (1 / p);
    };
    for (const [text, p] of [
      ['2', 2],
      ['1', 1],
      ['3', 3],
      ['inf', Infinity],
    ] as const)
      check(
        `cdist(a, b, p=${text})`,
        [3, 3],
        make([3, 3], ([i = 0, j = 0]) => far(i, j, p)),
      );
    check(
      'pairwise_distance(a, b)',
      [3],
      [0, 1, 2].map((i) => far(i, i, 2, 1e-6)),
    );
    check(
      'pairwise_distance(a, b, keepdim=True)',
      [3, 1],
      [0, 1, 2].map((i) => far(i, i, 2, 1e-6)),
    );
  });

  it('stacks', () => {
    check(
      'hstack([a, b])',
      [3, 8],
      make([3, 8], ([i = 0, j = 0]) => (j < 4 ? a.at(i, j) : b.at(i, j - 4))),
    );
    check('hstack([a[0], b[0]])', [8], [...A.slice(0, 4), ...B.slice(0, 4)]);
    check('vstack([a[0], b])', [4, 4], [...A.slice(0, 4), ...B]);
    check(
      'column_stack([a[0], b[0]])',
      [4, 2],
      [0, 1, 2, 3].flatMap((i) => [a.at(0, i), b.at(0, i)]),
    );
    check(
      'dstack([a[0], b[0]])',
      [1, 4, 2],
      [0, 1, 2, 3].flatMap((i) => [a.at(0, i), b.at(0, i)]),
    );
  });
});
