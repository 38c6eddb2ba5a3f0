import assert from 'node:assert/strict';
import { close, Naive, points, run } from './fixture';
import { naive, nodeFaults, runNode, tensor } from './node';

interface Window {
  readonly kernel: readonly number[];
  readonly strides: readonly number[];
  readonly dilations: readonly number[];
  readonly pads: readonly number[];
  readonly out: readonly number[];
}

/** The elements of a window that lie inside, and how many lie in the padded input. */
function windowOf(x: Naive, w: Window, n: number, c: number, p: readonly number[]) {
  const inside: { value: number; at: number[] }[] = [];
  let padded = 0;
  const rank = w.kernel.length;
  for (const t of points(w.kernel)) {
    const at = p.map(
      (q, i) => q * (w.strides[i] ?? 1) - (w.pads[i] ?? 0) + (t[i] ?? 0) * (w.dilations[i] ?? 1),
    );
    const within = (margin: boolean): boolean =>
      at.every((a, i) => {
        const [begin, end] = margin ? [w.pads[i] ?? 0, w.pads[rank + i] ?? 0] : [0, 0];
        return a >= -begin && a < (x.shape[i + 2] ?? 0) + end;
      });
    if (within(true)) padded++;
    if (within(false)) inside.push({ value: x.at(n, c, ...at), at });
  }
  return { inside, padded };
}

const CASES: readonly { name: string; shape: number[]; w: Window; attrs: object }[] = [
  {
    name: 'strides and padding',
    shape: [2, 2, 7, 6],
    w: { kernel: [3, 2], strides: [2, 2], dilations: [1, 1], pads: [1, 0, 1, 1], out: [4, 3] },
    attrs: {},
  },
  {
    name: 'dilations, rounding up',
    shape: [1, 2, 9],
    w: { kernel: [3], strides: [4], dilations: [2], pads: [1, 1], out: [3] },
    attrs: { ceil_mode: 1 },
  },
  {
    name: 'three dims',
    shape: [1, 1, 5, 4, 3],
    w: {
      kernel: [2, 2, 2],
      strides: [2, 1, 1],
      dilations: [1, 2, 1],
      pads: [0, 1, 0, 1, 1, 1],
      out: [3, 4, 3],
    },
    attrs: {},
  },
];

describe('pooling', () => {
  for (const { name, shape, w, attrs } of CASES) {
    const all = {
      kernel_shape: w.kernel,
      strides: w.strides,
      dilations: w.dilations,
      pads: w.pads,
      ...attrs,
    };
    const x = tensor(shape);
    const outShape = [shape[0] ?? 1, shape[1] ?? 1, ...w.out];
    const of = (f: (r: ReturnType<typeof windowOf>) => number): Naive =>
      Naive.make(outShape, ([n = 0, c = 0, ...p]) => f(windowOf(naive(x), w, n, c, p)));

    it(`maximum, with its position: ${name}`, () => {
      const { results } = runNode('MaxPool', [x], all, 2);
      assert.deepEqual(results[0]?.shape, outShape);
      close(results[0]?.values ?? [], of((r) => Math.max(...r.inside.map((e) => e.value))).values);
      const [spatial, plane] = [shape.slice(2), shape.slice(2).reduce((p, d) => p * d, 1)];
      const positions = Naive.make(outShape, ([n = 0, c = 0, ...p]) => {
        const { inside } = windowOf(naive(x), w, n, c, p);
        const best = inside.reduce((a, b) => (b.value > a.value ? b : a));
        const lin = best.at.reduce((l, i, k) => l * (spatial[k] ?? 1) + i, 0);
        return (n * (shape[1] ?? 1) + c) * plane + lin;
      });
      assert.deepEqual(results[1]?.values, positions.values);
      assert.equal(results[1]?.dtype, 'i64');
    });

    it(`mean of what is inside, or of all: ${name}`, () => {
      const sum = (r: ReturnType<typeof windowOf>): number =>
        r.inside.reduce((s, e) => s + e.value, 0);
      const inside = runNode('AveragePool', [x], all).results[0];
      close(inside?.values ?? [], of((r) => sum(r) / r.inside.length).values);
      const padded = runNode('AveragePool', [x], { ...all, count_include_pad: 1 }).results[0];
      close(padded?.values ?? [], of((r) => sum(r) / r.padded).values);
    });

    it(`p-norm: ${name}`, () => {
      const got = runNode('LpPool', [x], { ...all, p: 3 }).results[0];
      close(
        got?.values ?? [],
        of((r) => Math.cbrt(r.inside.reduce((s, e) => s + Math.abs(e.value) ** 3, 0))).values,
      );
    });
  }

  it('counts positions column first on demand', () => {
    const x = tensor([1, 1, 2, 3], [1, 2, 3, 4, 9, 6]);
    const attrs = { kernel_shape: [2, 3], storage_order: 1 };
    assert.deepEqual(runNode('MaxPool', [x], attrs, 2).results[1]?.values, [3]);
  });

  it('leaves out windows that start in the end padding', () => {
    const x = tensor([1, 1, 2]);
    const { results } = runNode('MaxPool', [x], { kernel_shape: [1], strides: [2], ceil_mode: 1 });
    assert.deepEqual(results[0]?.shape, [1, 1, 1]);
  });

  it('divides by a constant where no tap can be outside', () => {
    const { text } = runNode('AveragePool', [tensor([1, 1, 4, 4])], { kernel_shape: [2, 2] });
    assert.match(text, /div\(n0.0\[d0, d1, d2, d3\], 4:f32\)/);
    assert.doesNotMatch(text, /when/);
  });

  it('pools to a given size, evenly or not', () => {
    const x = tensor([1, 2, 7, 6]);
    const r = run(
      `input x: f32[1, 2, 7, 6]
y = adaptive_avg_pool2d(x, [3, 2])
output y`,
      { x: x.values },
    );
    const want = Naive.make([1, 2, 3, 2], ([, c = 0, i = 0, j = 0]) => {
      const [r0, r1] = [Math.floor((i * 7) / 3), Math.ceil(((i + 1) * 7) / 3)];
      let [s, n] = [0, 0];
      for (let y = r0; y < r1; y++)
        for (let k = j * 3; k < j * 3 + 3; k++, n++) s += naive(x).at(0, c, y, k);
      return s / n;
    });
    close(r.y.values, want.values);
    const even = run(`input x: f32[1, 2, 8, 6]
y = adaptive_avg_pool2d(x, 2)
output y`);
    assert.doesNotMatch(even.text, /when/);
  });

  it('puts the maxima back where they came from', () => {
    const x = tensor([1, 2, 4, 4]);
    const pool = runNode('MaxPool', [x], { kernel_shape: [2, 2], strides: [2, 2] }, 2).results;
    const [y, where] = [pool[0], pool[1]];
    assert.ok(y && where);
    const { results } = runNode(
      'MaxUnpool',
      [tensor(y.shape, y.values), tensor(where.shape, where.values, 'i64')],
      { kernel_shape: [2, 2], strides: [2, 2] },
    );
    const kept = new Set(where.values);
    close(
      results[0]?.values ?? [],
      x.values.map((v, i) => (kept.has(i) ? v : 0)),
    );
  });

  it('says what the kernel should be', () => {
    assert.match(
      nodeFaults('MaxPool', [tensor([1, 1, 4, 4])], { kernel_shape: [2] })[0] ?? '',
      /kernel_shape \[2\] must be 2 positive numbers/,
    );
  });
});
