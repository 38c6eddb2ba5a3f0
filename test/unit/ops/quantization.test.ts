import assert from 'node:assert/strict';
import { close, Naive } from './fixture';
import { constant, naive, nodeFaults, runNode, tensor } from './node';

function even(x: number): number {
  const r = Math.round(x);
  return Math.abs(x % 1) === 0.5 && r % 2 !== 0 ? r - 1 : r;
}

const saturate = (x: number, lo: number, hi: number): number => Math.min(hi, Math.max(lo, x));

describe('quantisation', () => {
  const x = tensor(
    [2, 3, 4],
    [
      -9, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 300, -300, 7, 8, 9, 1, 2, 3, 4, 5, 6, -7, 1e9, 0, 1, 2,
      3,
    ],
  );

  it('rounds to even, adds the zero point, saturates, along an axis', () => {
    const [scale, zero] = [constant([1, 0.5, 2], 'f32'), constant([0, -3, 5], 'i8')];
    const { results } = runNode('QuantizeLinear', [x, scale, zero], { axis: 1 });
    const want = Naive.make(x.shape, ([a = 0, b = 0, c = 0]) =>
      saturate(even(naive(x).at(a, b, c) / naive(scale).at(b)) + naive(zero).at(b), -128, 127),
    );
    assert.deepEqual(results[0]?.values, want.values);
    assert.equal(results[0]?.dtype, 'i8');
  });

  it('takes a scale per block, the last one shorter', () => {
    const q = tensor([2, 5], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 'u8');
    const [scale, zero] = [
      constant([1, 2, 3, 4, 5, 6], 'f32', [2, 3]),
      constant([1, 0, 2, 1, 0, 2], 'u8', [2, 3]),
    ];
    const { results } = runNode('DequantizeLinear', [q, scale, zero], { axis: 1, block_size: 2 });
    const want = Naive.make([2, 5], ([a = 0, b = 0]) => {
      const g = Math.floor(b / 2);
      return (naive(q).at(a, b) - naive(zero).at(a, g)) * naive(scale).at(a, g);
    });
    assert.deepEqual(results[0]?.values, want.values);
  });

  it('is unsigned 8 bits when nothing says otherwise', () => {
    assert.equal(runNode('QuantizeLinear', [x, constant([1], 'f32', [])]).results[0]?.dtype, 'u8');
    assert.equal(
      runNode('QuantizeLinear', [x, constant([1], 'f32', [])], { output_dtype: 5 }).results[0]
        ?.dtype,
      'i16',
    );
  });

  it('finds scale and zero point in the data, also where all is 0', () => {
    const { results } = runNode('DynamicQuantizeLinear', [tensor([4], [-1, 0, 2, 4.1])], {}, 3);
    const scale = 5.1 / 255;
    close(results[1]?.values ?? [], [scale], 1e-6);
    assert.deepEqual(results[2]?.values, [50]);
    assert.deepEqual(results[0]?.values, [0, 50, 150, 255]);
    assert.deepEqual(
      runNode('DynamicQuantizeLinear', [tensor([2], [0, 0])], {}, 3).results[0]?.values,
      [0, 0],
    );
  });

  it('multiplies in integers and brings the sum to the scale of the result', () => {
    const a = tensor([2, 3], [1, 200, 3, 40, 5, 60], 'u8');
    const b = tensor([3, 2], [-7, 8, 9, -10, 11, 12], 'i8');
    const one = (v: number, t: 'u8' | 'i8' | 'f32') => constant([v], t, []);
    const { results } = runNode('QLinearMatMul', [
      a,
      one(0.5, 'f32'),
      one(2, 'u8'),
      b,
      constant([0.1, 0.2], 'f32'),
      constant([1, -1], 'i8'),
      one(3, 'f32'),
      one(100, 'u8'),
    ]);
    const want = Naive.make([2, 2], ([i = 0, j = 0]) => {
      let s = 0;
      for (let k = 0; k < 3; k++) s += (naive(a).at(i, k) - 2) * (naive(b).at(k, j) - (j ? -1 : 1));
      return saturate(even((s * 0.5 * (j ? 0.2 : 0.1)) / 3) + 100, 0, 255);
    });
    assert.deepEqual(results[0]?.values, want.values);
  });

  it('convolves in integers, with a scale per output channel and a bias', () => {
    const x8 = tensor([1, 1, 3, 3], [1, 2, 3, 4, 5, 6, 7, 8, 9], 'u8');
    const w = tensor([2, 1, 2, 2], [1, 2, 3, 4, -1, -2, -3, -4], 'i8');
    const scalar = (v: number, t: 'u8' | 'i8' | 'f32') => constant([v], t, []);
    const { results } = runNode(
      'QLinearConv',
      [
        x8,
        scalar(0.5, 'f32'),
        scalar(3, 'u8'),
        w,
        constant([0.1, 0.3], 'f32'),
        constant([0, 1], 'i8'),
        scalar(0.25, 'f32'),
        scalar(7, 'i8'),
        constant([10, -20], 'i32'),
      ],
      { pads: [1, 0, 0, 0] },
    );
    const want = Naive.make([1, 2, 3, 2], ([, o = 0, i = 0, j = 0]) => {
      let s = o ? -20 : 10;
      for (const [dy, dx] of [
        [0, 0],
        [0, 1],
        [1, 0],
        [1, 1],
      ] as const) {
        const y = i + dy - 1;
        // The padding is the zero point: it adds nothing.
        if (y >= 0) s += (naive(x8).at(0, 0, y, j + dx) - 3) * (naive(w).at(o, 0, dy, dx) - o);
      }
      return saturate(even((s * 0.5 * (o ? 0.3 : 0.1)) / 0.25) + 7, -128, 127);
    });
    assert.deepEqual(results[0]?.values, want.values);
  });

  it('says how a scale may lie', () => {
    assert.match(
      nodeFaults('QuantizeLinear', [x, constant([1, 2], 'f32')], { axis: 1 })[0] ?? '',
      /the scale and dim 1 of the operand \[2, 3, 4\]: 2 and 3 differ/,
    );
  });
});
