/**
 * Files that leave sizes open: which are taken, and which must be fixed for the graph to be lowered.
 */
import assert from 'node:assert/strict';
import { compile } from '../../../compiler';
import { attr, FLOAT, INT64, int64Bits, model, node, raw, tensor, value } from './encoder';

function facts(
  bytes: Uint8Array,
  dims: Readonly<Record<string, number>> = {},
): { codes: string[]; dims: Readonly<Record<string, number>>; kernels: number; us: number } {
  const { result } = compile({ file: 'm.onnx', bytes }, { dims });
  return {
    codes: result.diagnostics
      .map((d) => `${d.severity} ${d.code}`)
      .filter((c) => !c.endsWith('STORAGE_TYPE')),
    dims: result.dims,
    kernels: result.after.kernels.length,
    us: result.before.estimatedUs,
  };
}

const zeros = (...dims: number[]): number[] =>
  tensor('w', FLOAT, dims, raw(...new Array<number>(4 * dims.reduce((a, b) => a * b, 1)).fill(0)));

/** A window of 100 samples needs as many. */
const signal = model({
  inputs: [value('x', FLOAT, ['batch', 1, 'samples'])],
  initializers: [zeros(4, 1, 100)],
  nodes: [node('Conv', ['x', 'w'], ['y'])],
  outputs: [value('y', FLOAT)],
});

/** Its steps are unrolled. */
const recurrent = model({
  inputs: [value('x', FLOAT, ['time', 'batch', 4])],
  initializers: [
    tensor('w', FLOAT, [1, 8, 4], raw(...new Array<number>(128).fill(0))),
    tensor('r', FLOAT, [1, 8, 2], raw(...new Array<number>(64).fill(0))),
  ],
  nodes: [node('LSTM', ['x', 'w', 'r'], ['y'], { attrs: [attr.int('hidden_size', 2)] })],
  outputs: [value('y', FLOAT)],
});

describe('sizes that a file leaves open', () => {
  it('are the least with which every tensor has elements', () => {
    const f = facts(signal);
    assert.deepEqual(f.codes, ['info SIZE_CHOSEN']);
    assert.deepEqual(f.dims, { batch: 1, samples: 128 });
    assert.ok(f.us > 0);
  });

  it('are those that are given, whatever comes of it', () => {
    assert.deepEqual(facts(signal, { samples: 300 }).codes, []);
    assert.deepEqual(facts(signal, { samples: 300 }).dims, { batch: 1, samples: 300 });
    assert.deepEqual(facts(signal, { samples: 7 }).dims, { batch: 1, samples: 7 });
  });

  it('are fixed where an op must know them, and only there', () => {
    const f = facts(recurrent, { time: 5, batch: 3 });
    assert.deepEqual(f.codes, ['info SIZE_FIXED']);
    assert.deepEqual(f.dims, { time: 5, batch: 3 });
    const { result } = compile({ file: 'm.onnx', bytes: recurrent }, { dims: { time: 5 } });
    const y = result.graph.tensors.find((t) => t.name === 'y');
    assert.deepEqual(y?.shape, [5, 1, 'batch', 2]);
    assert.ok(result.runnable.ok);
  });

  it('are fixed at 0 where that is given: a cache before the first word', () => {
    const bytes = model({
      inputs: [value('past', FLOAT, ['past_length', 4]), value('x', FLOAT, ['length', 4])],
      nodes: [node('Concat', ['past', 'x'], ['y'], { attrs: [attr.int('axis', 0)] })],
      outputs: [value('y', FLOAT)],
    });
    const f = facts(bytes, { past_length: 0, length: 3 });
    assert.deepEqual(f.codes, ['info SIZE_FIXED']);
    const options = { dims: { past_length: 0, length: 3 } };
    const { result } = compile({ file: 'm.onnx', bytes }, options);
    const y = result.graph.tensors.find((t) => t.name === 'y');
    assert.deepEqual(y?.shape, ['length', 4]);
    assert.deepEqual(y.sizes, [3, 4]);
    assert.ok(result.runnable.ok);
    assert.deepEqual(facts(bytes, { past_length: -1 }).codes, ['error BAD_DIM']);
  });

  it('that can help nothing stay as they are', () => {
    const bytes = model({
      inputs: [value('x', FLOAT, ['n', 4])],
      nodes: [node('NoSuchOp', ['x'], ['y'])],
      outputs: [value('y', FLOAT, ['n', 4])],
    });
    assert.deepEqual(facts(bytes).codes, ['error UNSUPPORTED_OP']);
    const wrong = model({
      inputs: [value('x', FLOAT, ['n', 4])],
      initializers: [tensor('s', INT64, [2], raw(...int64Bits(3, 3)))],
      nodes: [node('Reshape', ['x', 's'], ['y'])],
      outputs: [value('y', FLOAT)],
    });
    assert.deepEqual(facts(wrong).codes, ['error SHAPE_MISMATCH']);
    assert.deepEqual(facts(wrong).dims, { n: 1 });
  });
});
