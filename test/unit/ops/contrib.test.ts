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
});
