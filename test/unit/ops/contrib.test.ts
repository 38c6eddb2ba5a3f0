/**
 * Ops of ONNX Runtime's domain against what they stand for.
 */
import assert from 'node:assert/strict';
import { close, Naive, nodeFault, numbers, type Operand, runNode } from './fixture';

const of = (shape: readonly number[], seed: number): Operand => ({
  shape,
  values: numbers(
    shape.reduce((a, b) => a * b, 1),
    seed,
  ),
});
const scalar = (v: number, dtype: NonNullable<Operand['dtype']> = 'f32'): Operand => ({
  dtype,
  shape: [],
  values: [v],
});
const naive = (o: Operand): Naive => new Naive(o.shape.map(Number), o.values);
const first = (...args: Parameters<typeof runNode>): readonly number[] =>
  runNode(...args)[0]?.values ?? [];

describe('ops: ONNX Runtime’s own', () => {
  it('FusedMatMul transposes and scales', () => {
    const [a, b] = [of([4, 3], 1), of([5, 4], 2)];
    const want = Naive.make([3, 5], ([i = 0, j = 0]) => {
      let s = 0;
      for (let k = 0; k < 4; k++) s += naive(a).at(k, i) * naive(b).at(j, k);
      return 0.5 * s;
    });
    close(first('fused_matmul', [a, b], { transA: 1, transB: 1, alpha: 0.5 }), want.values);
  });

  it('FusedConv has its activation, and a tensor that is added', () => {
    const [x, w, z] = [of([1, 1, 4], 1), of([1, 1, 2], 2), of([1, 1, 3], 3)];
    const want = [0, 1, 2].map((i) => {
      const [p, q] = [naive(x), naive(w)];
      const s = p.at(0, 0, i) * q.at(0, 0, 0) + p.at(0, 0, i + 1) * q.at(0, 0, 1);
      return Math.max(0, s + naive(z).at(0, 0, i));
    });
    close(first('fused_conv', [x, w, undefined, z], { activation: 'Relu' }), want);
    assert.match(nodeFault('fused_conv', [x, w], { activation: 'Swirl' }) ?? '', /Swirl/);
  });

  it('MatMulNBits unpacks nibbles, with a scale and a zero point a block', () => {
    const x = of([2, 4], 1);
    const bytes = [0x21, 0x43, 0xfe, 0xdc];
    const q = bytes.flatMap((b) => [b & 15, b >> 4]);
    const operands = [
      x,
      { dtype: 'u8', shape: [2, 1, 2], values: bytes } satisfies Operand,
      { shape: [2], values: [0.5, 0.25] } satisfies Operand,
      { dtype: 'u8', shape: [2], values: [3, 8] } satisfies Operand,
    ];
    const attrs = { K: 4, N: 2, bits: 4, block_size: 4 };
    const want = Naive.make([2, 2], ([i = 0, n = 0]) => {
      let s = 0;
      for (let k = 0; k < 4; k++)
        s += naive(x).at(i, k) * ((q[4 * n + k] ?? 0) - (n === 0 ? 3 : 8)) * (n === 0 ? 0.5 : 0.25);
      return s;
    });
    close(first('matmul_nbits', operands, attrs), want.values);
  });

  it('quantised sums are rounded and saturated once', () => {
    const a: Operand = { dtype: 'u8', shape: [3], values: [0, 100, 255] };
    const b: Operand = { dtype: 'u8', shape: [1], values: [200] };
    const [sa, sb, sy] = [scalar(0.1), scalar(0.5), scalar(0.2)];
    const z = scalar(10, 'u8');
    const want = a.values.map((v) =>
      Math.min(255, Math.max(0, Math.round(((v - 10) * 0.1 + (200 - 10) * 0.5) / 0.2) + 10)),
    );
    close(first('qlinear_add', [a, sa, z, b, sb, z, sy, z]), want);
  });

  it('attention over packed projections', () => {
    const [x, w, b] = [of([1, 3, 4], 1), of([4, 12], 2), of([12], 3)];
    const all = Naive.make([3, 12], ([s = 0, j = 0]) => {
      let v = naive(b).at(j);
      for (let k = 0; k < 4; k++) v += naive(x).at(0, s, k) * naive(w).at(k, j);
      return v;
    });
    const want = Naive.make([1, 3, 4], ([, s = 0, c = 0]) => {
      const h = Math.floor(c / 2);
      const scores = [0, 1, 2].map((t) => {
        if (t > s) return 0;
        let v = 0;
        for (let d = 0; d < 2; d++) v += all.at(s, 2 * h + d) * all.at(t, 4 + 2 * h + d);
        return Math.exp(v / Math.SQRT2);
      });
      const sum = scores.reduce((p, q) => p + q, 0);
      return scores.reduce((p, q, t) => p + (q / sum) * all.at(t, 8 + c), 0);
    });
    close(
      first('packed_attention', [x, w, b], { num_heads: 2, unidirectional: 1 }),
      want.values,
      1e-6,
    );
  });

  it('a quantised op is the float op between two roundings', () => {
    const x: Operand = { dtype: 'u8', shape: [2, 3], values: [0, 50, 100, 150, 200, 250] };
    const [scale, zero] = [scalar(0.02), scalar(100, 'u8')];
    const real = x.values.map((v) => (v - 100) * 0.02);
    const rounded = (v: number, s: number, z: number): number =>
      Math.min(255, Math.max(0, Math.round(v / s) + z));
    const mean = [0, 1, 2].map((j) => ((real[j] ?? 0) + (real[j + 3] ?? 0)) / 2);
    close(
      first('qlinear_mean', [x, scale, zero, scalar(0.013), scalar(9, 'u8')], {
        axes: [0],
        keepdims: 0,
      }),
      mean.map((v) => rounded(v, 0.013, 9)),
    );
    const exps = real.map(Math.exp);
    const sums = [0, 1].map((i) => exps.slice(3 * i, 3 * i + 3).reduce((a, b) => a + b, 0));
    close(
      first('qlinear_softmax', [x, scale, zero, scalar(1 / 256), scalar(0, 'u8')], { axis: 1 }),
      exps.map((e, i) => rounded(e / (sums[Math.floor(i / 3)] ?? 1), 1 / 256, 0)),
    );
  });

  it('channels that come last are pooled, convolved and normalised as if they came second', () => {
    const x = of([1, 3, 2, 4], 1);
    const lastAxis = (o: Operand): Operand => {
      const [n = 1, h = 1, w = 1, c = 1] = o.shape.map(Number);
      return {
        shape: [n, c, h, w],
        values: Naive.make([n, c, h, w], ([a = 0, b = 0, i = 0, j = 0]) => naive(o).at(a, i, j, b))
          .values,
      };
    };
    const back = (values: readonly number[], c: number, h: number, w: number): readonly number[] =>
      Naive.make([1, h, w, c], ([, i = 0, j = 0, b = 0]) =>
        new Naive([1, c, h, w], values).at(0, b, i, j),
      ).values;
    const [w, b, z] = [of([5, 4, 2, 1], 2), of([5], 3), of([1, 2, 2, 5], 4)];
    const conv = first('fused_conv', [lastAxis(x), w, b, lastAxis(z)], { activation: 'Relu' });
    close(
      first('nhwc_fused_conv', [x, w, b, z], { activation: 'Relu' }),
      back(conv, 5, 2, 2),
      1e-6,
    );
    const [gamma, beta] = [of([4], 5), of([4], 6)];
    const plain = first('group_norm', [lastAxis(x), gamma, beta], { num_groups: 2, epsilon: 1e-5 });
    const silu = (v: number): number => v / (1 + Math.exp(-v));
    close(
      first('group_norm_activation', [x, gamma, beta], { groups: 2, epsilon: 1e-5, activation: 1 }),
      back(plain.map(silu), 4, 3, 2),
      1e-6,
    );
    const skip = of([1, 4], 7);
    const sum: Operand = {
      shape: x.shape,
      values: x.values.map((v, i) => v + naive(skip).at(0, i % 4)),
    };
    const [y, s] = runNode(
      'skip_group_norm',
      [x, gamma, beta, skip],
      { groups: 2, epsilon: 1e-5, activation: 0 },
      { results: 2 },
    );
    close(s?.values ?? [], sum.values, 1e-6);
    close(
      y?.values ?? [],
      first('group_norm_activation', [sum, gamma, beta], {
        groups: 2,
        epsilon: 1e-5,
        activation: 0,
      }),
      1e-6,
    );
  });

  it('rows of packed weights are unpacked where they are looked up', () => {
    const bytes = [0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe];
    const data: Operand = { dtype: 'u8', shape: [2, 4], values: bytes };
    const scales: Operand = { shape: [2, 2], values: [0.5, 1, 2, 4] };
    const zeros: Operand = { dtype: 'u8', shape: [2, 1], values: [0x21, 0x43] };
    const ids: Operand = { dtype: 'i64', shape: [3], values: [1, 0, -1] };
    const zero = [1, 2, 3, 4];
    const attrs = { bits: 4, block_size: 4, gather_axis: 0, quantize_axis: 1 };
    const row = (r: number): number[] =>
      [0, 1, 2, 3, 4, 5, 6, 7].map((k) => {
        const block = 2 * r + Math.floor(k / 4);
        return (8 * r + k - (zero[block] ?? 0)) * (scales.values[block] ?? 0);
      });
    close(first('gather_block_quantized', [data, ids, scales, zeros], attrs), [
      ...row(1),
      ...row(0),
      ...row(1),
    ]);
  });

  it('spectra of reals go back to where they came from', () => {
    const x = of([2, 6], 1);
    const spectrum = runNode('rfft', [x], { signal_ndim: 1, normalized: 0, onesided: 1 })[0];
    assert.deepEqual(spectrum?.shape, [2, 4, 2]);
    const sum = x.values.slice(0, 6).reduce((a, b) => a + b, 0);
    close([spectrum?.values[0] ?? NaN, spectrum?.values[1] ?? NaN], [sum, 0], 1e-6);
    const again = first('irfft', [{ shape: [2, 4, 2], values: spectrum?.values ?? [] }], {
      signal_ndim: 1,
      normalized: 0,
      onesided: 1,
    });
    close(again, x.values, 1e-6);
    const [a, b] = [of([2, 2], 2), of([2, 2], 3)];
    const product = (conjugate: number): number[] =>
      [0, 1].flatMap((i) => {
        const [p, q, r] = [naive(a).at(i, 0), naive(a).at(i, 1), naive(b).at(i, 0)];
        const s = conjugate * naive(b).at(i, 1);
        return [p * r - q * s, p * s + q * r];
      });
    close(first('complex_mul', [a, b]), product(1), 1e-6);
    close(first('complex_mul_conj', [a, b]), product(-1), 1e-6);
  });

  it('halves of a gated activation, and a fused gelu', () => {
    const gelu = (v: number): number => 0.5 * v * (1 + erf(v / Math.SQRT2));
    const [x, b] = [of([2, 4], 1), of([4], 2)];
    const at = (i: number, j: number): number => naive(x).at(i, j) + naive(b).at(j);
    close(
      first('bias_split_gelu', [x, b]),
      [0, 1].flatMap((i) => [0, 1].map((j) => at(i, j) * gelu(at(i, j + 2)))),
      1e-5,
    );
  });
});

/** By its series, which converges everywhere. */
function erf(x: number): number {
  let [term, sum] = [x, x];
  for (let n = 1; n < 200; n++) {
    term *= (-x * x) / n;
    sum += term / (2 * n + 1);
  }
  return (2 / Math.sqrt(Math.PI)) * sum;
}
