import assert from 'node:assert/strict';
import { close, faults, Naive, numbers, points, run } from './fixture';

const SHAPE = [3, 4, 5];
const x = new Naive(SHAPE, numbers(60, 11));

/** The values of x along some axes, for each place in the rest. */
function rows(axes: readonly number[]): number[][] {
  const kept = SHAPE.map((_, i) => i).filter((i) => !axes.includes(i));
  return [...points(kept.map((i) => SHAPE[i] ?? 1))].map((place) =>
    [...points(axes.map((a) => SHAPE[a] ?? 1))].map((point) => {
      const index = SHAPE.map(() => 0);
      kept.forEach((k, i) => (index[k] = place[i] ?? 0));
      axes.forEach((a, i) => (index[a] = point[i] ?? 0));
      return x.at(...index);
    }),
  );
}

const sum = (v: readonly number[]): number => v.reduce((a, b) => a + b, 0);
const mean = (v: readonly number[]): number => sum(v) / v.length;
const deviations = (v: readonly number[]): number => sum(v.map((a) => (a - mean(v)) ** 2));

function of(expression: string): Naive {
  const r = run(`input x: f32[3, 4, 5]\ny = ${expression}\noutput y`, { x: x.values });
  return new Naive(r.y.shape, r.y.values);
}

describe('ops: reductions', () => {
  const cases: readonly (readonly [
    string,
    readonly number[],
    (row: readonly number[]) => number,
  ])[] = [
    ['sum(x, axis=[1,2])', [1, 2], sum],
    ['sum(x)', [0, 1, 2], sum],
    ['mean(x, dim=-1)', [2], mean],
    ['prod(x, axis=1)', [1], (v) => v.reduce((a, b) => a * b, 1)],
    ['amax(x, axis=[0,2])', [0, 2], (v) => Math.max(...v)],
    ['min(x, axis=0)', [0], (v) => Math.min(...v)],
    ['l1(x, axis=1)', [1], (v) => sum(v.map(Math.abs))],
    ['l2(x, axis=1)', [1], (v) => Math.hypot(...v)],
    ['norm(x, axis=2)', [2], (v) => Math.hypot(...v)],
    ['norm(x, 3, axis=2)', [2], (v) => sum(v.map((a) => Math.abs(a) ** 3)) ** (1 / 3)],
    ['sum_square(x, axis=2)', [2], (v) => sum(v.map((a) => a * a))],
    ['logsumexp(x, axis=1)', [1], (v) => Math.log(sum(v.map(Math.exp)))],
    ['var(x, axis=1)', [1], (v) => deviations(v) / (v.length - 1)],
    ['var(x, axis=[1,2], correction=0)', [1, 2], (v) => deviations(v) / v.length],
    ['std(x)', [0, 1, 2], (v) => Math.sqrt(deviations(v) / (v.length - 1))],
    ['argmax(x, axis=1)', [1], (v) => v.indexOf(Math.max(...v))],
    ['argmin(x)', [0, 1, 2], (v) => v.indexOf(Math.min(...v))],
    ['any(x > 3, axis=2)', [2], (v) => (v.some((a) => a > 3) ? 1 : 0)],
    ['all(x > -3, axis=2)', [2], (v) => (v.every((a) => a > -3) ? 1 : 0)],
  ];
  for (const [expression, axes, f] of cases) {
    it(expression, () => {
      close(of(expression).values, rows(axes).map(f));
    });
  }

  it('keeps the reduced dims where asked', () => {
    assert.deepEqual(of('sum(x, axis=[0, 2], keepdim=true)').shape, [1, 4, 1]);
    assert.deepEqual(of('sum(x, axis=[0, 2])').shape, [4]);
    assert.deepEqual(of('mean(x, keepdim=true)').shape, [1, 1, 1]);
  });

  it('does not overflow in logsumexp, nor stumble over rows of -inf', () => {
    const r = run('input x: f32[2, 2]\ny = logsumexp(x, axis=1)\noutput y', {
      x: [1000, 1000, -Infinity, -Infinity],
    });
    close(r.y.values, [1000 + Math.LN2, -Infinity]);
  });

  it('keeps sums of half floats in f32', () => {
    assert.match(
      run('input x: f16[2, 8]\ny = sum(x, axis=1)\noutput y').text,
      /\[d0:2\] f16 = sum\(r0:8, acc f32\) f32\(x\[d0, r0\]\)/,
    );
  });

  it('divides means by the size, symbolic or not', () => {
    const r = run('dim N = 6\ninput x: f32[2, N]\ny = mean(x, axis=1)\noutput y', {
      x: [1, 2, 3, 4, 5, 6, 2, 2, 2, 2, 2, 8],
    });
    close(r.y.values, [3.5, 3]);
    assert.match(r.text, /f32\(idx\(N\):i32\)/);
  });

  it('counts bools, and takes their extremes as any and all', () => {
    const r = run(
      'input x: bool[2, 3]\na = sum(x, axis=1)\nb = amax(x, axis=1)\noutput a\noutput b',
      {
        x: [1, 0, 1, 0, 0, 0],
      },
    );
    assert.deepEqual([r.outputs['a']?.dtype, r.outputs['a']?.values], ['i32', [2, 0]]);
    assert.deepEqual([r.outputs['b']?.dtype, r.outputs['b']?.values], ['bool', [1, 0]]);
  });

  it('gives the first or the last of equal extremes', () => {
    const r = run(
      'input x: f32[5]\na = argmax(x, axis=0)\nb = argmax(x, axis=0, select_last_index=true)\noutput a\noutput b',
      { x: [1, 7, 3, 7, 0] },
    );
    assert.deepEqual([r.outputs['a']?.values, r.outputs['b']?.values], [[1], [3]]);
    assert.equal(r.y.dtype, 'i64');
  });

  it('runs sums and products along an axis, exclusively or backwards', () => {
    const cum = (e: string): readonly number[] =>
      run(`input x: f32[2, 3]\ny = ${e}\noutput y`, { x: [1, 2, 3, 4, 5, 6] }).y.values;
    assert.deepEqual(cum('cumsum(x, axis=1)'), [1, 3, 6, 4, 9, 15]);
    assert.deepEqual(cum('cumsum(x, 1, exclusive=true)'), [0, 1, 3, 0, 4, 9]);
    assert.deepEqual(cum('cumsum(x, 1, reverse=true)'), [6, 5, 3, 15, 11, 6]);
    assert.deepEqual(cum('cumsum(x, 1, exclusive=true, reverse=true)'), [5, 3, 0, 11, 6, 0]);
    assert.deepEqual(cum('cumprod(x, axis=0)'), [1, 2, 3, 4, 10, 18]);
  });

  it('names axes that are out of range or named twice', () => {
    const f = (e: string): string => faults(`input x: f32[2, 3]\ny = ${e}\noutput y`)[0] ?? '';
    assert.match(f('sum(x, axis=2)'), /axis 2 is out of range for a tensor of rank 2/);
    assert.match(f('sum(x, axis=[0, -2])'), /axis 0 is named twice/);
  });
});
