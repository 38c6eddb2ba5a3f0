import assert from 'node:assert/strict';
import { close, faults, Naive, run } from './fixture';
import { constant, naive, nodeFaults, runNode, tensor } from './node';

type Weights = (position: number) => readonly { readonly i: number; readonly w: number }[];

/** One dim resized: position of each output, then its weighted inputs, clamped to the edge. */
function resize1d(x: Naive, out: number, position: (o: number) => number, weights: Weights): Naive {
  const n = x.shape[2] ?? 0;
  return Naive.make([1, x.shape[1] ?? 1, out], ([, c = 0, o = 0]) =>
    weights(position(o)).reduce(
      (s, { i, w }) => s + w * x.at(0, c, Math.min(n - 1, Math.max(0, i))),
      0,
    ),
  );
}

const linear: Weights = (p) => {
  const f = Math.floor(p);
  return [
    { i: f, w: 1 - (p - f) },
    { i: f + 1, w: p - f },
  ];
};

function keys(d: number, a: number): number {
  const x = Math.abs(d);
  if (x <= 1) return (a + 2) * x ** 3 - (a + 3) * x ** 2 + 1;
  return x < 2 ? a * x ** 3 - 5 * a * x ** 2 + 8 * a * x - 4 * a : 0;
}

const cubic =
  (a: number, inside?: number): Weights =>
  (p) => {
    const f = Math.floor(p);
    const all = [-1, 0, 1, 2].map((k) => ({ i: f + k, w: keys(f + k - p, a) }));
    if (inside === undefined) return all;
    const kept = all.filter(({ i }) => i >= 0 && i < inside);
    const sum = kept.reduce((s, { w }) => s + w, 0);
    return kept.map(({ i, w }) => ({ i, w: w / sum }));
  };

const X = tensor([1, 2, 5]);
const scales = (s: number): ReturnType<typeof constant> => constant([1, 1, s], 'f32');
const EMPTY = constant([], 'f32');

describe('resizing', () => {
  const half = (o: number, s: number): number => (o + 0.5) / s - 0.5;
  const positions: readonly [string, number, (o: number, s: number, out: number) => number][] = [
    ['half_pixel', 1.6, half],
    ['pytorch_half_pixel', 2.4, half],
    ['asymmetric', 0.6, (o, s) => o / s],
    ['align_corners', 2.2, (o, s) => (o * 4) / (5 * s - 1)],
    ['half_pixel_symmetric', 1.3, (o, s, out) => 2.5 * (1 - out / (5 * s)) + half(o, s)],
  ];
  for (const [mode, s, position] of positions) {
    it(`maps coordinates by ${mode}, linear and cubic`, () => {
      const out = Math.floor(5 * s + 1e-9);
      const attrs = { coordinate_transformation_mode: mode };
      const at = (o: number): number => position(o, s, out);
      const lin = runNode('Resize', [X, EMPTY, scales(s)], { ...attrs, mode: 'linear' }).results[0];
      assert.deepEqual(lin?.shape, [1, 2, out]);
      close(lin.values, resize1d(naive(X), out, at, linear).values, 1e-6);
      const cub = runNode('Resize', [X, EMPTY, scales(s)], {
        ...attrs,
        mode: 'cubic',
        cubic_coeff_a: -0.5,
        exclude_outside: 1,
      });
      close(cub.results[0]?.values ?? [], resize1d(naive(X), out, at, cubic(-0.5, 5)).values, 1e-6);
    });
  }

  const roundings: readonly [string, (x: number) => number][] = [
    ['floor', Math.floor],
    ['ceil', Math.ceil],
    ['round_prefer_floor', (x) => Math.ceil(x - 0.5)],
    ['round_prefer_ceil', (x) => Math.floor(x + 0.5)],
  ];
  for (const [nearest_mode, round] of roundings) {
    it(`picks the nearest by ${nearest_mode}`, () => {
      for (const [mode, s, position] of positions) {
        // Fractions that the exact arithmetic shares with this test's floats.
        if (mode === 'align_corners') continue;
        const out = Math.floor(5 * s + 1e-9);
        const { results } = runNode('Resize', [X, EMPTY, scales(s)], {
          mode: 'nearest',
          nearest_mode,
          coordinate_transformation_mode: mode,
        });
        const one: Weights = (p) => [{ i: round(Math.round(p * 1e9) / 1e9), w: 1 }];
        const want = resize1d(naive(X), out, (o) => position(o, s, out), one);
        close(results[0]?.values ?? [], want.values);
      }
    });
  }

  it('is a view when nearest, without division for a whole factor up', () => {
    const r = run(`input x: f32[1, 3, 4, 6]
y = interpolate(x, scale_factor=2) + 1
output y`);
    assert.equal(r.computes, 1);
    assert.match(r.text, /x\[0, d1, d2 \/\/ 2, d3 \/\/ 2\]/);
  });

  it('spreads the window over what is left out when antialiased', () => {
    const s = 0.4;
    for (const [mode, reach, f] of [
      ['linear', 1, (d: number) => Math.max(0, 1 - Math.abs(d))],
      ['cubic', 2, (d: number) => keys(d, -0.75)],
    ] as const) {
      const spread: Weights = (p) => {
        const all = [];
        for (let i = Math.ceil(p - reach / s); i <= p + reach / s; i++)
          all.push({ i, w: f((i - p) * s) });
        const sum = all.reduce((t, { w }) => t + w, 0);
        return all.map(({ i, w }) => ({ i, w: w / sum }));
      };
      const { results } = runNode('Resize', [X, EMPTY, scales(s)], { mode, antialias: 1 });
      close(
        results[0]?.values ?? [],
        resize1d(naive(X), 2, (o) => half(o, s), spread).values,
        1e-6,
      );
    }
  });

  it('keeps the aspect ratio, on the named axes', () => {
    const x = tensor([1, 2, 4, 6]);
    const at = (policy: string): readonly number[] | undefined =>
      runNode('Resize', [x, EMPTY, EMPTY, constant([9, 7])], {
        axes: [3, 2],
        mode: 'nearest',
        keep_aspect_ratio_policy: policy,
      }).results[0]?.shape;
    assert.deepEqual(at('not_larger'), [1, 2, 6, 9]);
    assert.deepEqual(at('not_smaller'), [1, 2, 7, 11]);
    assert.deepEqual(at('stretch'), [1, 2, 7, 9]);
  });

  it('crops, and fills what the region reaches beyond', () => {
    const roi = constant([0, 0, -0.5, 1, 1, 1.25], 'f32');
    const { results } = runNode('Resize', [X, roi, EMPTY, constant([1, 2, 8])], {
      mode: 'linear',
      coordinate_transformation_mode: 'tf_crop_and_resize',
      extrapolation_value: 9,
    });
    const want = Naive.make([1, 2, 8], ([, c = 0, o = 0]) => {
      const p = -0.5 * 4 + (o * 1.75 * 4) / 7;
      if (p < 0 || p > 4) return 9;
      return linear(p).reduce((s, { i, w }) => s + (w === 0 ? 0 : w * naive(X).at(0, c, i)), 0);
    });
    close(results[0]?.values ?? [], want.values);
  });

  it('takes symbolic sizes', () => {
    const r = run(`dim N = 3
input x: f32[1, 2, N, 4]
y = interpolate(x, scale_factor=2, mode="bilinear")
output y`);
    assert.deepEqual(r.y.shape, [1, 2, 6, 8]);
    const [fault] = faults(`input x: f32[1, 2, 3, 4]
y = interpolate(x, mode="bilinear")
output y`);
    assert.match(fault ?? '', /neither scales nor sizes/);
  });

  it('names the modes there are', () => {
    const [fault] = nodeFaults('Resize', [X, EMPTY, scales(2)], { mode: 'lanczos' });
    assert.match(fault ?? '', /mode 'lanczos' is none of nearest, linear, cubic/);
  });
});
