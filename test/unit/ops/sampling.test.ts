import assert from 'node:assert/strict';
import { close, Naive } from './fixture';
import { constant, naive, nodeFaults, runNode, tensor } from './node';

const X = tensor([1, 2, 3, 4]);
/** Some positions inside, some outside; none on a tie. */
const GRID = tensor(
  [1, 2, 3, 2],
  [-0.9, 0.31, 0.27, -1.4, 1.7, 0.11, 0.63, 0.77, -2.3, 2.9, 0.02, -0.41],
);

function reflect(p: number, lo: number, hi: number): number {
  let x = p;
  for (let i = 0; i < 20 && (x < lo || x > hi); i++) x = x < lo ? 2 * lo - x : 2 * hi - x;
  return x;
}

function gridSample(align: boolean, padding: string, mode: string): Naive {
  const denormalise = (g: number, n: number): number =>
    align ? ((g + 1) / 2) * (n - 1) : ((g + 1) * n - 1) / 2;
  const bounds = (n: number): [number, number] => (align ? [0, n - 1] : [-0.5, n - 0.5]);
  const pad = (p: number, n: number): number =>
    padding === 'border'
      ? Math.min(n - 1, Math.max(0, p))
      : padding === 'reflection'
        ? reflect(p, ...bounds(n))
        : p;
  const pixel = (c: number, y: number, x: number): number => {
    const [py, px] = [Math.round(pad(y, 3)), Math.round(pad(x, 4))];
    return py < 0 || py > 2 || px < 0 || px > 3 ? 0 : naive(X).at(0, c, py, px);
  };
  const keys = (d: number): number => {
    const [x, a] = [Math.abs(d), -0.75];
    if (x <= 1) return (a + 2) * x ** 3 - (a + 3) * x ** 2 + 1;
    return x < 2 ? a * x ** 3 - 5 * a * x ** 2 + 8 * a * x - 4 * a : 0;
  };
  return Naive.make([1, 2, 2, 3], ([, c = 0, i = 0, j = 0]) => {
    const gx = denormalise(naive(GRID).at(0, i, j, 0), 4);
    const gy = denormalise(naive(GRID).at(0, i, j, 1), 3);
    if (mode === 'nearest') return pixel(c, pad(Math.round(gy), 3), pad(Math.round(gx), 4));
    // Cubic weights are those of where the point really is; only its taps are padded.
    const [x, y] = mode === 'cubic' ? [gx, gy] : [pad(gx, 4), pad(gy, 3)];
    const reach = mode === 'linear' ? 1 : 2;
    const weight = (d: number): number =>
      mode === 'linear' ? Math.max(0, 1 - Math.abs(d)) : keys(d);
    let s = 0;
    for (let py = Math.floor(y) - reach + 1; py <= Math.floor(y) + reach; py++)
      for (let px = Math.floor(x) - reach + 1; px <= Math.floor(x) + reach; px++)
        s += weight(py - y) * weight(px - x) * pixel(c, py, px);
    return s;
  });
}

describe('sampling', () => {
  for (const mode of ['nearest', 'linear', 'cubic']) {
    for (const padding of ['zeros', 'border', 'reflection']) {
      it(`grid sample: ${mode}, ${padding}`, () => {
        for (const align of [false, true]) {
          const attrs = { mode, padding_mode: padding, align_corners: align ? 1 : 0 };
          const { results } = runNode('GridSample', [X, GRID], attrs);
          const want = gridSample(align, padding, mode);
          assert.deepEqual(results[0]?.shape, want.shape);
          close(results[0].values, want.values, 1e-6);
        }
      });
    }
  }

  it('samples at the identity grid what was there', () => {
    const theta = tensor([1, 2, 3], [1, 0, 0, 0, 1, 0]);
    for (const align_corners of [0, 1]) {
      const grid = runNode('AffineGrid', [theta, constant([1, 2, 3, 4])], { align_corners })
        .results[0];
      assert.deepEqual(grid?.shape, [1, 3, 4, 2]);
      const { results } = runNode('GridSample', [X, tensor(grid.shape, grid.values)], {
        align_corners,
      });
      close(results[0]?.values ?? [], X.values, 1e-6);
    }
  });

  it('averages regions of interest', () => {
    const x = tensor([2, 1, 6, 6]);
    const rois = tensor([2, 4], [0.6, 1.2, 4.1, 5.3, 1, 0.5, 3.5, 4.5]);
    for (const sampling_ratio of [2, 0]) {
      const { results } = runNode('RoiAlign', [x, rois, tensor([2], [1, 0], 'i64')], {
        output_height: 2,
        output_width: 3,
        sampling_ratio,
        coordinate_transformation_mode: 'half_pixel',
        opset: 16,
      });
      const at = (b: number, y: number, xx: number): number => {
        const [cy, cx] = [Math.min(5, Math.max(0, y)), Math.min(5, Math.max(0, xx))];
        const [fy, fx] = [Math.floor(cy), Math.floor(cx)];
        let s = 0;
        for (const dy of [0, 1])
          for (const dx of [0, 1]) {
            const w = (dy ? cy - fy : 1 - cy + fy) * (dx ? cx - fx : 1 - cx + fx);
            if (w > 0) s += w * naive(x).at(b, 0, fy + dy, fx + dx);
          }
        return s;
      };
      const want = Naive.make([2, 1, 2, 3], ([r = 0, , i = 0, j = 0]) => {
        const [x0, y0, x1, y1] = [0, 1, 2, 3].map((k) => naive(rois).at(r, k) - 0.5) as [
          number,
          number,
          number,
          number,
        ];
        const [bh, bw] = [(y1 - y0) / 2, (x1 - x0) / 3];
        const [nh, nw] = sampling_ratio ? [2, 2] : [Math.ceil(bh), Math.ceil(bw)];
        let s = 0;
        for (let a = 0; a < nh; a++)
          for (let b = 0; b < nw; b++)
            s += at(r ? 0 : 1, y0 + (i + (a + 0.5) / nh) * bh, x0 + (j + (b + 0.5) / nw) * bw);
        return s / (nh * nw);
      });
      close(results[0]?.values ?? [], want.values, 1e-6);
    }
  });

  it('sums overlapping blocks into an image', () => {
    const blocks = tensor([1, 2 * 4, 6]);
    const { results } = runNode('Col2Im', [blocks, constant([4, 5]), constant([2, 2])], {
      strides: [2, 1],
      dilations: [1, 2],
    });
    const image = new Map<string, number>();
    for (let c = 0; c < 2; c++)
      for (const [ky, kx] of [
        [0, 0],
        [0, 1],
        [1, 0],
        [1, 1],
      ] as const)
        for (let l = 0; l < 6; l++) {
          const key = [c, Math.floor(l / 3) * 2 + ky, (l % 3) + kx * 2].join();
          image.set(key, (image.get(key) ?? 0) + naive(blocks).at(0, c * 4 + ky * 2 + kx, l));
        }
    const want = Naive.make([1, 2, 4, 5], ([, ...i]) => image.get(i.join()) ?? 0);
    assert.deepEqual(results[0]?.shape, want.shape);
    close(results[0].values, want.values);
  });

  it('deforms a convolution: whole offsets move the taps', () => {
    const [x, w] = [tensor([1, 2, 4, 4]), tensor([3, 2, 2, 2])];
    const offset = tensor(
      [1, 8, 3, 3],
      new Array<number>(72).fill(0).map((_, i) => (Math.floor(i / 9) % 2 ? 1 : 0)),
    );
    const { results } = runNode('DeformConv', [x, w, offset], { kernel_shape: [2, 2] });
    const want = Naive.make([1, 3, 3, 3], ([, o = 0, i = 0, j = 0]) => {
      let s = 0;
      for (let c = 0; c < 2; c++)
        for (const [ky, kx] of [
          [0, 0],
          [0, 1],
          [1, 0],
          [1, 1],
        ] as const) {
          const xx = j + kx + 1;
          if (xx < 4) s += naive(x).at(0, c, i + ky, xx) * naive(w).at(o, c, ky, kx);
        }
      return s;
    });
    close(results[0]?.values ?? [], want.values, 1e-6);
  });

  it('says what the grid should be', () => {
    assert.match(
      nodeFaults('GridSample', [X, tensor([1, 2, 2])])[0] ?? '',
      /a grid \[N, output…, spatial dims\]/,
    );
  });
});

describe('Fourier transforms', () => {
  const x = tensor([2, 5, 3, 2]);
  /** Along dim 1. */
  const dft = (
    k: number,
    n: number,
    sign: number,
    b: number,
    c: number,
    length: number,
  ): [number, number] => {
    let [re, im] = [0, 0];
    for (let i = 0; i < Math.min(n, length); i++) {
      const a = (sign * 2 * Math.PI * k * i) / length;
      const [r, m] = [naive(x).at(b, i, c, 0), naive(x).at(b, i, c, 1)];
      re += r * Math.cos(a) - m * Math.sin(a);
      im += r * Math.sin(a) + m * Math.cos(a);
    }
    return [re, im];
  };

  it('of complex numbers, forth and back, padded and cut', () => {
    for (const length of [5, 7, 4]) {
      for (const inverse of [0, 1]) {
        const { results } = runNode(
          'DFT',
          [x, constant([length], 'i64', []), constant([1], 'i64', [])],
          { inverse, opset: 20 },
        );
        const want = Naive.make([2, length, 3, 2], ([b = 0, k = 0, c = 0, part = 0]) => {
          const v = dft(k, 5, inverse ? 1 : -1, b, c, length);
          return (v[part] ?? NaN) / (inverse ? length : 1);
        });
        close(results[0]?.values ?? [], want.values, 1e-6);
      }
    }
  });

  it('one-sided there and back again gives the signal', () => {
    for (const n of [6, 7]) {
      const signal = tensor([1, n, 1]);
      const half = runNode('DFT', [signal], { onesided: 1, opset: 20 }).results[0];
      assert.deepEqual(half?.shape, [1, Math.floor(n / 2) + 1, 2]);
      const back = runNode('DFT', [tensor(half.shape, half.values), constant([n], 'i64', [])], {
        onesided: 1,
        inverse: 1,
        opset: 20,
      });
      assert.deepEqual(back.results[0]?.shape, [1, n, 1]);
      close(back.results[0].values, signal.values, 1e-6);
    }
  });

  it('of windowed frames', () => {
    const [signal, window] = [tensor([1, 10, 1]), tensor([4])];
    const { results } = runNode('STFT', [signal, constant([3], 'i64', []), window], {
      onesided: 1,
    });
    const want = Naive.make([1, 3, 3, 2], ([, f = 0, k = 0, part = 0]) => {
      let s = 0;
      for (let i = 0; i < 4; i++) {
        const a = (-2 * Math.PI * k * i) / 4;
        s +=
          naive(signal).at(0, f * 3 + i, 0) *
          naive(window).at(i) *
          (part ? Math.sin(a) : Math.cos(a));
      }
      return s;
    });
    assert.deepEqual(results[0]?.shape, want.shape);
    close(results[0].values, want.values, 1e-6);
  });
});
