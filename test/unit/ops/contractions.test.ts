import assert from 'node:assert/strict';
import { close, faults, Naive, run } from './fixture';
import { constant, naive, runNode, tensor } from './node';

describe('matrix products', () => {
  it('broadcasts leading dims, and takes vectors on either side', () => {
    const [a, b] = [tensor([2, 1, 3, 4]), tensor([5, 4, 2])];
    const want = Naive.make([2, 5, 3, 2], ([p = 0, q = 0, i = 0, j = 0]) => {
      let s = 0;
      for (let k = 0; k < 4; k++) s += naive(a).at(p, 0, i, k) * naive(b).at(q, k, j);
      return s;
    });
    const { results } = runNode('MatMul', [a, b]);
    assert.deepEqual(results[0]?.shape, [2, 5, 3, 2]);
    close(results[0]?.values ?? [], want.values);
    const v = tensor([4]);
    assert.deepEqual(runNode('MatMul', [v, b]).results[0]?.shape, [5, 2]);
    assert.deepEqual(runNode('MatMul', [a, v]).results[0]?.shape, [2, 1, 3]);
    assert.deepEqual(runNode('MatMul', [v, v]).results[0]?.shape, []);
  });

  it('keeps the sums of 16-bit floats in 32 bits', () => {
    const { text } = runNode('MatMul', [
      tensor([2, 3], undefined, 'f16'),
      tensor([3, 2], undefined, 'f16'),
    ]);
    assert.match(
      text,
      /f16 = sum\(r0:3, acc f32\) mul\(f32\(v0\[d0, r0\]\), f32\(v1\[r0, d1\]\)\)/,
    );
  });

  it('has alpha, beta, transposes and a broadcast addend as an epilogue', () => {
    const [a, b, c] = [tensor([4, 3]), tensor([5, 4]), tensor([3, 1])];
    const { results, text } = runNode('Gemm', [a, b, c], {
      alpha: 0.5,
      beta: -2,
      transA: 1,
      transB: 1,
    });
    const want = Naive.make([3, 5], ([i = 0, j = 0]) => {
      let s = 0;
      for (let k = 0; k < 4; k++) s += naive(a).at(k, i) * naive(b).at(j, k);
      return 0.5 * s - 2 * naive(c).at(i, 0);
    });
    close(results[0]?.values ?? [], want.values);
    assert.equal(text.split('\n').length, 2);
    assert.equal(
      runNode('Gemm', [a, b, c], { beta: 0, transA: 1, transB: 1 }).text.split('\n').length,
      1,
    );
  });

  it('has linear with the weight as [out, in], and says so', () => {
    const r = run(`input x: f32[2, 3, 4]
param w: f32[5, 4]
param b: f32[5]
y = linear(x, w, b)
output y`);
    assert.deepEqual(r.y.shape, [2, 3, 5]);
    assert.match(r.text, /sum\(r0:4\) mul\(\S+\[d0, d1, r0\], \S+\[d2, r0\]\)/);
    const [fault] = faults(`input x: f32[2, 4]
param w: f32[4, 5]
y = linear(x, w)
output y`);
    assert.match(
      fault ?? '',
      /4 features, but the weight \[4, 5\] takes 5: the weight of linear is \[out, in\]/,
    );
  });

  it('names both shapes when the inner dims differ', () => {
    const [fault] = faults(`input a: f32[2, 3]
input b: f32[2, 3]
y = a @ b
output y`);
    assert.match(
      fault ?? '',
      /\[2, 3\] times \[2, 3\].*last dim is 3.*second last dim is 2.*fit transposed/,
    );
  });

  it('subtracts zero points before an integer product', () => {
    const a = tensor([2, 3], [11, 7, 3, 10, 6, 2], 'u8');
    const b = tensor([3, 2], [1, 4, 2, 5, 3, 6], 'u8');
    const { results } = runNode('MatMulInteger', [
      a,
      b,
      constant([12, 1], 'u8'),
      constant([0], 'u8', []),
    ]);
    const row = (z: number, r: number[]): number[] =>
      [0, 1].map((j) => r.reduce((s, v, k) => s + (v - z) * naive(b).at(k, j), 0));
    assert.deepEqual(results[0]?.values, [...row(12, [11, 7, 3]), ...row(1, [10, 6, 2])]);
    assert.equal(results[0]?.dtype, 'i32');
  });
});

describe('einsum', () => {
  const einsum = (equation: string, ...operands: readonly ReturnType<typeof tensor>[]): Naive =>
    runNode('Einsum', operands, { equation }).results[0] ?? new Naive([], []);
  const [a, b] = [tensor([2, 3, 4]), tensor([4, 5])];

  it('sums over what the output leaves out', () => {
    const got = einsum('bij,jk->bk', a, b);
    const want = Naive.make([2, 5], ([p = 0, k = 0]) => {
      let s = 0;
      for (let i = 0; i < 3; i++)
        for (let j = 0; j < 4; j++) s += naive(a).at(p, i, j) * naive(b).at(j, k);
      return s;
    });
    assert.deepEqual(got.shape, [2, 5]);
    close(got.values, want.values);
  });

  it('reads diagonals, orders an implicit output by name, broadcasts dots', () => {
    const square = tensor([3, 3]);
    close(
      einsum('ii->i', square).values,
      [0, 1, 2].map((i) => naive(square).at(i, i)),
    );
    close(einsum('ii', square).values, [[0, 1, 2].reduce((s, i) => s + naive(square).at(i, i), 0)]);
    assert.deepEqual(einsum('ba', tensor([2, 5])).shape, [5, 2]);
    const dots = einsum('...ij,...jk->...ik', tensor([7, 1, 2, 3]), tensor([6, 3, 2]));
    assert.deepEqual(dots.shape, [7, 6, 2, 2]);
  });

  it('multiplies three operands', () => {
    const [p, q, r] = [tensor([2]), tensor([3]), tensor([2, 3])];
    const s = [0, 1].flatMap((i) =>
      [0, 1, 2].map((j) => naive(p).at(i) * naive(q).at(j) * naive(r).at(i, j)),
    );
    close(einsum('i,j,ij->', p, q, r).values, [s.reduce((x, y) => x + y, 0)]);
  });

  it('names the term that does not fit', () => {
    const messages = faults(`input a: f32[2, 3]
y = einsum("ijk->i", a)
output y`);
    assert.match(
      messages[0] ?? '',
      /the term 'ijk' names 3 dims, but its operand has shape \[2, 3\]/,
    );
  });
});

describe('determinants', () => {
  it('expands small matrices', () => {
    const { results } = runNode('Det', [tensor([1, 3, 3], [2, -1, 0, 1, 3, 4, 5, 0.5, 1])]);
    close(results[0]?.values ?? [], [2 * (3 - 2) + (1 - 20) + 0]);
  });
});
