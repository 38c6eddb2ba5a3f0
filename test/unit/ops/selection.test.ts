/**
 * Ops whose result's size is data (contents known when compiling), and those that take features of data.
 */
import assert from 'node:assert/strict';
import { constant, nodeFaults, runNode, tensor } from './node';

const values = (r: { readonly values: readonly number[] } | undefined): readonly number[] =>
  r?.values ?? [];

describe('ops: selection', () => {
  it('NonZero: positions by dim', () => {
    const { results } = runNode('NonZero', [constant([1, 0, 1, 1], 'bool', [2, 2])]);
    assert.deepEqual(results[0]?.shape, [2, 3]);
    assert.deepEqual(values(results[0]), [0, 1, 1, 0, 0, 1]);
    assert.match(
      nodeFaults('NonZero', [tensor([2])])[0] ?? '',
      /depends on its operand's contents/,
    );
  });

  it('Unique: sorted or not, whole or along an axis', () => {
    const flat = constant([2, 1, 1, 3, 4, 3], 'f32');
    const sorted = runNode('Unique', [flat], {}, 4).results;
    assert.deepEqual(sorted.map(values), [
      [1, 2, 3, 4],
      [1, 0, 3, 4],
      [1, 0, 0, 2, 3, 2],
      [2, 1, 2, 1],
    ]);
    const plain = runNode('Unique', [flat], { sorted: 0 }, 4).results;
    assert.deepEqual(plain.map(values), [
      [2, 1, 3, 4],
      [0, 1, 3, 4],
      [0, 1, 1, 2, 3, 2],
      [1, 2, 2, 1],
    ]);
    const rows = constant([1, 0, 0, 1, 0, 0, 2, 3, 4], 'f32', [3, 3]);
    const byRow = runNode('Unique', [rows], { axis: 0 }, 4).results;
    assert.deepEqual(byRow[0]?.shape, [2, 3]);
    assert.deepEqual(byRow.map(values), [
      [1, 0, 0, 2, 3, 4],
      [0, 2],
      [0, 0, 1],
      [2, 1],
    ]);
    const columns = constant([1, 1, 0, 1, 1, 0], 'f32', [2, 3]);
    const byColumn = runNode('Unique', [columns], { axis: -1 }, 4).results;
    assert.deepEqual(byColumn.map(values), [
      [0, 1, 0, 1],
      [2, 0],
      [1, 1, 0],
      [1, 2],
    ]);
  });

  const boxes = constant(
    [0, 0, 1, 1, 0, 0.1, 1, 1.1, 0, -0.1, 1, 0.9, 0, 10, 1, 11, 0, 10.1, 1, 11.1, 0, 100, 1, 101],
    'f32',
    [1, 6, 4],
  );
  const scores = constant([0.9, 0.75, 0.6, 0.95, 0.5, 0.3], 'f32', [1, 1, 6]);

  it('NonMaxSuppression: the best boxes that overlap no better one', () => {
    const run = (most: number, iou: number, ...least: number[]): readonly number[] =>
      values(
        runNode('NonMaxSuppression', [
          boxes,
          scores,
          constant([most]),
          constant([iou], 'f32'),
          ...least.map((l) => constant([l], 'f32')),
        ]).results[0],
      );
    assert.deepEqual(run(3, 0.5, 0), [0, 0, 3, 0, 0, 0, 0, 0, 5]);
    assert.deepEqual(run(2, 0.5), [0, 0, 3, 0, 0, 0]);
    assert.deepEqual(run(3, 0.5, 0.4), [0, 0, 3, 0, 0, 0]);
    assert.deepEqual(run(9, 1).length, 18);
  });

  it('NonMaxSuppression: boxes by centre and size', () => {
    const centred = constant([0.5, 0.5, 1, 1, 0.5, 0.6, 1, 1, 10.5, 0.5, 1, 1], 'f32', [1, 3, 4]);
    const { results } = runNode(
      'NonMaxSuppression',
      [centred, constant([0.5, 0.9, 0.8], 'f32', [1, 1, 3]), constant([3]), constant([0.5], 'f32')],
      { center_point_box: 1 },
    );
    assert.deepEqual(results[0]?.shape, [2, 3]);
    assert.deepEqual(values(results[0]), [0, 0, 1, 0, 0, 2]);
  });
});

describe('ops: features', () => {
  const POOL = {
    min_gram_length: 1,
    max_gram_length: 2,
    max_skip_count: 5,
    ngram_counts: [0, 4],
    ngram_indexes: [0, 1, 2, 3, 4, 5, 6],
    pool_int64s: [2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
  };
  const row = tensor([12], [1, 1, 3, 3, 3, 7, 8, 6, 7, 5, 6, 8], 'i32');
  const tfIdf = (attrs: object, x = row): readonly number[] =>
    values(runNode('TfIdfVectorizer', [x], { mode: 'TF', ...POOL, ...attrs }).results[0]);

  it('TfIdfVectorizer: n-grams with gaps, counted and weighted', () => {
    assert.deepEqual(tfIdf({}), [0, 3, 1, 0, 1, 3, 1]);
    assert.deepEqual(tfIdf({ min_gram_length: 2 }), [0, 0, 0, 0, 1, 3, 1]);
    assert.deepEqual(tfIdf({ max_skip_count: 0 }), [0, 3, 1, 0, 1, 1, 1]);
    const batch = tensor([2, 6], [1, 1, 3, 3, 3, 7, 8, 6, 7, 5, 6, 8], 'i32');
    assert.deepEqual(tfIdf({}, batch), [0, 3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 1]);
    const weights = [1, 2, 3, 4, 5, 6, 7];
    assert.deepEqual(tfIdf({ mode: 'TFIDF', weights }), [0, 6, 3, 0, 5, 18, 7]);
    assert.deepEqual(tfIdf({ mode: 'IDF', weights }), [0, 2, 3, 0, 5, 6, 7]);
    assert.deepEqual(
      tfIdf({
        min_gram_length: 2,
        max_skip_count: 0,
        ngram_counts: [0, 0],
        ngram_indexes: [2, 0, 1],
        pool_int64s: [5, 6, 7, 8, 6, 7],
      }),
      [1, 1, 1],
    );
  });

  it('TfIdfVectorizer: places that no n-gram has stay 0', () => {
    assert.deepEqual(tfIdf({ ngram_indexes: [0, 1, 2, 3, 5, 6, 8] }), [0, 3, 1, 0, 0, 1, 3, 0, 1]);
  });

  it('LabelEncoder: numbers to numbers, and a default', () => {
    const run = (attrs: object): readonly number[] =>
      values(
        runNode('ai.onnx.ml:LabelEncoder', [tensor([2, 2], [3, 1, 7, 2], 'i64')], {
          keys_int64s: [1, 2, 3],
          ...attrs,
        }).results[0],
      );
    assert.deepEqual(
      run({ values_floats: [0.5, 1.5, 2.5], default_float: -9 }),
      [2.5, 0.5, -9, 1.5],
    );
    assert.deepEqual(run({ values_int64s: [4, 5, 6] }), [6, 4, -1, 5]);
    const strings = { values_strings: ['a', 'b', 'c'] };
    const x = tensor([1], [1], 'i64');
    const fault = nodeFaults('ai.onnx.ml:LabelEncoder', [x], {
      keys_int64s: [1, 2, 3],
      ...strings,
    });
    assert.match(fault[0] ?? '', /strings/);
  });

  it('Binarizer, Scaler and ArrayFeatureExtractor', () => {
    const x = tensor([2, 3], [1, 2, 3, 4, 5, 6]);
    const y = (op: string, more: Parameters<typeof runNode>[1], attrs: object): readonly number[] =>
      values(runNode(`ai.onnx.ml:${op}`, [x, ...more], { ...attrs }).results[0]);
    assert.deepEqual(y('Binarizer', [], { threshold: 3 }), [0, 0, 0, 1, 1, 1]);
    assert.deepEqual(y('Scaler', [], { offset: [1, 2, 3], scale: [2] }), [0, 0, 0, 6, 6, 6]);
    assert.deepEqual(y('ArrayFeatureExtractor', [tensor([2], [2, 0], 'i64')], {}), [3, 1, 6, 4]);
  });
});

describe('ops: bits', () => {
  const cast = (shape: number[], x: number[], from: 'f32' | 'i32' | 'u32' | 'i8', to: number) =>
    values(runNode('BitCast', [tensor(shape, x, from)], { to }).results[0]);

  it('BitCast keeps the bits', () => {
    assert.deepEqual(cast([3], [1, -2.5, 3.75], 'f32', 6), [1065353216, -1071644672, 1081081856]);
    assert.deepEqual(cast([3], [1065353216, -1071644672, 1081081856], 'i32', 1), [1, -2.5, 3.75]);
    assert.deepEqual(cast([2], [4294967295, 2147483647], 'u32', 6), [-1, 2147483647]);
    assert.deepEqual(cast([3], [-1, -128, 127], 'i8', 2), [255, 128, 127]);
    assert.deepEqual(cast([], [1], 'f32', 12), [1065353216]);
    const [fault] = nodeFaults('BitCast', [tensor([1], [1])], { to: 11 });
    assert.match(fault ?? '', /different widths/);
  });
});
