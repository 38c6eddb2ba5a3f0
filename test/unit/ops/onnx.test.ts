import assert from 'node:assert/strict';
import { sym } from '../../../compiler/ir/indexExpr';
import { close, counting, nodeFault, numbers, type Operand, runNode } from './fixture';

const known = (...values: number[]): Operand => ({
  dtype: 'i64',
  shape: [values.length],
  values,
  known: true,
});
const scalar = (value: number, dtype: Operand['dtype'] = 'i64'): Operand => ({
  dtype: dtype ?? 'i64',
  shape: [],
  values: [value],
  known: true,
});
const count = (shape: readonly number[]): Operand => ({
  shape,
  values: counting(shape.reduce((n, d) => n * d, 1)),
});

/** The first result's values. */
function first(...args: Parameters<typeof runNode>): readonly number[] {
  return runNode(...args)[0]?.values ?? [];
}

describe('ops: what ONNX says differently, or said in older operator sets', () => {
  it('softmax before opset 13 flattens to a matrix at the axis', () => {
    const x = numbers(12, 3);
    const got = first('softmax', [{ shape: [2, 2, 3], values: x }], { axis: 1, flatten2d: true });
    const want = [0, 6].flatMap((from) => {
      const row = x.slice(from, from + 6).map(Math.exp);
      const sum = row.reduce((a, b) => a + b, 0);
      return row.map((v) => v / sum);
    });
    close(got, want);
    const hard = first('hardmax', [{ shape: [1, 2, 2], values: [1, 4, 4, 0] }], {
      axis: 1,
      flatten2d: true,
    });
    assert.deepEqual(hard, [0, 1, 0, 0]);
  });

  it('axes come as an attribute or as an operand', () => {
    for (const [operands, attrs] of [
      [[count([2, 3])], { axes: [1] }],
      [[count([2, 3]), known(1)], {}],
    ] as const) {
      assert.deepEqual(first('sum', operands, { ...attrs, keepdims: 0 }), [3, 12]);
      assert.deepEqual(runNode('unsqueeze', operands, attrs)[0]?.shape, [2, 1, 3]);
    }
    assert.deepEqual(runNode('squeeze', [count([2, 1]), known(-1)])[0]?.shape, [2]);
    assert.match(nodeFault('squeeze', [count([2, 3]), known(1)]) ?? '', /only dims of 1/);
  });

  it('reductions keep dims by default, and do nothing where asked', () => {
    assert.deepEqual(runNode('amax', [count([2, 3])])[0], {
      shape: [1, 1],
      dtype: 'f32',
      values: [5],
    });
    const noop = { noop_with_empty_axes: 1 };
    const empty: Operand = { dtype: 'i64', shape: [0], values: [], known: true };
    assert.deepEqual(first('sum', [count([2, 2]), empty], noop), [0, 1, 2, 3]);
    assert.deepEqual(first('sum_square', [count([2, 2]), empty], noop), [0, 1, 4, 9]);
    assert.deepEqual(first('sum', [count([2, 2]), empty]), [6]);
  });

  it('reductions of nothing give the identity', () => {
    const x: Operand = { shape: [2, 0], values: [] };
    assert.deepEqual(first('sum', [x, known(1)]), [0, 0]);
    assert.deepEqual(first('prod', [x, known(1)]), [1, 1]);
    assert.deepEqual(first('amax', [x, known(1)]), [-Infinity, -Infinity]);
    assert.deepEqual(first('logsumexp', [x, known(1)]), [-Infinity, -Infinity]);
  });

  it('integers truncate in divisions and means', () => {
    const x: Operand = { dtype: 'i32', shape: [2], values: [7, -7] };
    assert.deepEqual(first('div', [x, scalar(2, 'i32')]), [3, -3]);
    assert.deepEqual(first('mean', [x]), [0]);
    assert.deepEqual(first('pow', [x, scalar(2, 'f32')]), [49, 49]);
  });

  it('add before opset 7 aligns its operand at an axis', () => {
    const bias: Operand = { shape: [2], values: [10, 20] };
    assert.deepEqual(
      first('add', [count([1, 2, 2]), bias], { axis: 1, broadcast: 1 }),
      [10, 11, 22, 23],
    );
  });

  it('slices by attributes or operands, symbolic ends included', () => {
    assert.deepEqual(
      first('slice', [count([2, 4])], { starts: [1], ends: [2 ** 31], axes: [1] }),
      [1, 2, 3, 5, 6, 7],
    );
    const N = sym('N');
    const x: Operand = { shape: [N, 2], values: counting(8) };
    const cut = runNode(
      'slice',
      [x, known(-1), known(-9e18), known(0), known(-2)],
      {},
      { dims: { N: 4 } },
    );
    assert.deepEqual(cut[0], { shape: [2, 2], dtype: 'f32', values: [6, 7, 2, 3] });
  });

  it('clips by attributes or operands; the upper bound wins where they cross', () => {
    const x: Operand = { shape: [3], values: [-5, 0, 5] };
    assert.deepEqual(first('clamp', [x], { min: -1, max: 2 }), [-1, 0, 2]);
    assert.deepEqual(first('clamp', [x, undefined, scalar(1, 'f32')]), [-5, 0, 1]);
    assert.deepEqual(first('clamp', [x, scalar(3, 'f32'), scalar(1, 'f32')]), [1, 1, 1]);
  });

  it('reshape copies dims marked 0, unless they mean it', () => {
    assert.deepEqual(runNode('reshape', [count([2, 6]), known(0, -1, 3)])[0]?.shape, [2, 2, 3]);
    const none: Operand = { shape: [0, 6], values: [] };
    assert.deepEqual(runNode('reshape', [none, known(3, 0)], { allowzero: 1 })[0]?.shape, [3, 0]);
  });

  it('flatten makes a matrix', () => {
    assert.deepEqual(runNode('flatten', [count([2, 3, 4])], { axis: 2 })[0]?.shape, [6, 4]);
    assert.deepEqual(runNode('flatten', [count([2, 3, 4])], { axis: 3 })[0]?.shape, [24, 1]);
    assert.deepEqual(runNode('flatten', [count([2, 3, 4])], { axis: -3 })[0]?.shape, [1, 24]);
  });

  it('splits unevenly by the number of outputs', () => {
    const parts = runNode('split', [count([7])], { num_outputs: 3 }, { results: 3 });
    assert.deepEqual(
      parts.map((p) => p.values),
      [[0, 1, 2], [3, 4, 5], [6]],
    );
    const sized = runNode('split', [count([2, 4]), known(1, 3)], { axis: 1 }, { results: 2 });
    assert.deepEqual(sized[1]?.values, [1, 2, 3, 5, 6, 7]);
  });

  it('pads some axes, with a value or by cropping', () => {
    const x = count([2, 2]);
    assert.deepEqual(
      first('pad', [x, known(1, 0), scalar(9, 'f32'), known(-1)]),
      [9, 0, 1, 9, 2, 3],
    );
    assert.deepEqual(first('pad', [count([4]), known(-1, -2)]), [1]);
  });

  it('depth_to_space knows both orders', () => {
    const x = count([1, 8, 1, 1]);
    assert.deepEqual(first('depth_to_space', [x], { blocksize: 2 }), [0, 2, 4, 6, 1, 3, 5, 7]);
    assert.deepEqual(first('depth_to_space', [x], { blocksize: 2, mode: 'CRD' }), counting(8));
    assert.deepEqual(
      first('space_to_depth', [count([1, 2, 2, 2])], { blocksize: 2 }),
      [0, 4, 1, 5, 2, 6, 3, 7],
    );
  });

  it('group normalisation scales per group until opset 21, then per channel', () => {
    const x = count([1, 4, 2]);
    const norm = [0, 1, 2, 3].map((v) => (v - 1.5) / Math.sqrt(1.25 + 1e-5));
    const two = { shape: [2], values: [1, 10] };
    const zero = (n: number): Operand => ({ shape: [n], values: new Array<number>(n).fill(0) });
    close(first('group_norm', [x, two, zero(2)], { num_groups: 2 }, { opset: 18 }), [
      ...norm,
      ...norm.map((v) => 10 * v),
    ]);
    const four = { shape: [4], values: [1, 2, 3, 4] };
    close(
      first('group_norm', [x, four, zero(4)], { num_groups: 2 }, { opset: 21 }),
      [...norm, ...norm].map((v, i) => v * (1 + Math.floor(i / 2))),
    );
  });

  it('layer normalisation also gives mean and inverse deviation', () => {
    const r = runNode(
      'layer_norm',
      [count([2, 4]), { shape: [4], values: [1, 1, 1, 1] }],
      {},
      { results: 3 },
    );
    close(r[1]?.values ?? [], [1.5, 5.5]);
    assert.deepEqual(r[1]?.shape, [2, 1]);
    close(
      r[2]?.values ?? [],
      [1, 1].map(() => 1 / Math.sqrt(1.25 + 1e-5)),
    );
  });

  it('a fused residual gives the norm of the sum, and the sum', () => {
    const ones: Operand = { shape: [4], values: [1, 1, 1, 1] };
    const bias: Operand = { shape: [4], values: [0, 1, 0, 1] };
    const r = runNode(
      'skip_layer_norm',
      [count([1, 4]), ones, ones, undefined, bias],
      { epsilon: 0 },
      { results: 4 },
    );
    const sum = [1, 3, 3, 5];
    close(r[3]?.values ?? [], sum);
    close(
      r[0]?.values ?? [],
      sum.map((v) => (v - 3) / Math.sqrt(2)),
    );
    const rms = runNode('skip_rms_norm', [count([1, 4]), ones, ones, bias], { epsilon: 0 });
    close(
      rms[0]?.values ?? [],
      sum.map((v) => v / Math.sqrt(11)),
    );
  });

  it('batch normalisation in training mode also gives running moments', () => {
    const one = (v: number): Operand => ({ shape: [1], values: [v] });
    const r = runNode(
      'batch_norm',
      [count([4, 1]), one(2), one(1), one(10), one(20)],
      { training_mode: 1, momentum: 0.5, epsilon: 0 },
      { results: 3 },
    );
    close(
      r[0]?.values ?? [],
      [0, 1, 2, 3].map((v) => ((v - 1.5) / Math.sqrt(1.25)) * 2 + 1),
    );
    close(r[1]?.values ?? [], [(10 + 1.5) / 2]);
    close(r[2]?.values ?? [], [(20 + 1.25) / 2]);
  });

  it('dropout passes its data on, with a mask of true', () => {
    const r = runNode('dropout', [count([3])], {}, { results: 2 });
    assert.deepEqual(
      r.map((t) => t.values),
      [
        [0, 1, 2],
        [1, 1, 1],
      ],
    );
  });

  it('shapes are known at compile time, symbolic sizes included', () => {
    const x: Operand = { shape: [sym('N'), 3, 4], values: counting(24) };
    const dims = { N: 2 };
    assert.deepEqual(runNode('shape', [x], { start: -2 }, { dims })[0]?.values, [3, 4]);
    assert.deepEqual(runNode('shape', [x], { end: 2 }, { dims })[0]?.values, [2, 3]);
    assert.deepEqual(runNode('size', [x], {}, { dims })[0]?.values, [24]);
  });

  it('arg reductions choose the last of equals where asked', () => {
    const x: Operand = { shape: [1, 4], values: [3, 1, 3, 1] };
    assert.deepEqual(first('argmax', [x], { axis: 1, select_last_index: 1 }), [2]);
    assert.deepEqual(first('argmin', [x], { axis: 1, keepdims: 0 }), [1]);
  });

  it('isinf looks at the signs that are asked for', () => {
    const x: Operand = { shape: [3], values: [Infinity, -Infinity, NaN] };
    assert.deepEqual(first('isinf', [x]), [1, 1, 0]);
    assert.deepEqual(first('isinf', [x], { detect_negative: 0 }), [1, 0, 0]);
    assert.deepEqual(first('isnan', [x]), [0, 0, 1]);
  });

  it('casts by the number or the name of a type', () => {
    const x: Operand = { shape: [2], values: [1.5, 0] };
    assert.equal(runNode('cast', [x], { to: 9 })[0]?.dtype, 'bool');
    assert.equal(runNode('cast', [x], { to: 'i64' })[0]?.dtype, 'i64');
    assert.match(nodeFault('cast', [x], { to: 17 }) ?? '', /element type 17/);
  });

  it('variadic ops combine all their operands', () => {
    const x = [1, 5, 3].map((v): Operand => ({ shape: [2], values: [v, -v] }));
    assert.deepEqual(first('maximum', x), [5, -1]);
    assert.deepEqual(first('add_n', x), [9, -9]);
    assert.deepEqual(first('mean_n', x), [3, -3]);
    assert.deepEqual(first('minimum', x.slice(0, 1)), [1, -1]);
  });
});

describe('ops: folding', () => {
  const narrow = (dtype: 'u8' | 'i8' | 'u32', values: number[]): Operand => ({
    dtype,
    shape: [values.length],
    values,
    known: true,
  });

  it('wraps as the type does', () => {
    close(first('add', [narrow('u8', [200, 7]), narrow('u8', [100, 7])]), [44, 14]);
    close(first('mul', [narrow('i8', [100, -3]), narrow('i8', [2, 5])]), [-56, -15]);
    close(first('sub', [narrow('u32', [3, 9]), narrow('u32', [5, 9])]), [2 ** 32 - 2, 0]);
    const big = narrow('u32', [0xdeadbeef, 0xffffffff]);
    const exact = [0xdeadbeefn * 0xdeadbeefn, 0xffffffffn * 0xffffffffn];
    close(
      first('mul', [big, big]),
      exact.map((v) => Number(v & 0xffffffffn)),
    );
    close(first('cast', [narrow('u32', [300, 129])], { to: 3 }), [44, -127]);
    close(first('bitwise_xor', [big, narrow('u32', [0, 1])]), [0xdeadbeef, 0xfffffffe]);
  });
});
