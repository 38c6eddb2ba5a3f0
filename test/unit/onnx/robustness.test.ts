/**
 * Damaged files: whatever the bytes are, importing gives a graph and diagnostics, soon.
 */
import assert from 'node:assert/strict';
import { importOnnx } from '../../../compiler/import/onnx';
import {
  attr,
  BOOL,
  FLOAT,
  floatBits,
  fn,
  graph,
  INT64,
  int64Bits,
  message,
  model,
  node,
  raw,
  tensor,
  value,
} from './encoder';

const sample = model(
  {
    inputs: [value('x', FLOAT, ['B', 4, undefined]), value('c', BOOL, [])],
    initializers: [
      tensor('w', FLOAT, [4], raw(...floatBits(1, 2, 3, 4))),
      tensor('shape', INT64, [2], message(7, [4, 1])),
      tensor('k', BOOL, [], raw(1)),
    ],
    nodes: [
      node('ConstantOfShape', ['shape'], ['zeros']),
      node('Constant', [], ['s'], {
        attrs: [attr.tensor('value', tensor('', INT64, [2], raw(...int64Bits(-1, 4))))],
      }),
      node('Call', ['x', 'w'], ['h'], { domain: 'f', attrs: [attr.float('alpha', 0.5)] }),
      node('If', ['k'], ['i'], {
        attrs: [
          attr.graph(
            'then_branch',
            graph({ nodes: [node('Exp', ['h'], ['t'])], outputs: [value('t', FLOAT)] }),
          ),
          attr.graph('else_branch', graph({ outputs: [value('h', FLOAT)] })),
        ],
      }),
      node('Reshape', ['i', 's'], ['r'], { name: 'reshape' }),
      node('Transpose', ['r'], ['y'], { attrs: [attr.ints('perm', [1, 0])] }),
    ],
    outputs: [value('y', FLOAT, [4, 'B'])],
    valueInfo: [value('h', FLOAT, ['B', 4])],
  },
  18,
  [
    fn(
      'f',
      'Call',
      ['a', 'b'],
      ['o'],
      [
        node('LeakyRelu', ['a'], ['t'], { attrs: [attr.reference('alpha', 'alpha', 1)] }),
        node('Add', ['t', 'b'], ['o']),
      ],
    ),
  ],
);

/** Every id that the graph mentions must be there. */
function checkWhole(bytes: Uint8Array, what: string): void {
  const started = performance.now();
  const { graph: g } = importOnnx(bytes, 'm');
  // Generous: the machine may be busy. Anything quadratic would be far beyond.
  assert(performance.now() - started < 10_000, `${what} took too long`);
  for (const n of g.nodes)
    for (const id of [...n.operands, ...n.results])
      assert(id === undefined || g.tensors.has(id), `${what}: ${n.id} mentions ${String(id)}`);
  for (const o of g.outputs) assert(g.tensors.has(o.tensor), `${what}: output ${o.name}`);
  for (const i of g.inputs) assert(g.tensors.has(i), `${what}: input ${i}`);
}

/** A generator with a seed, so that a failure can be repeated. */
function randomNumbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

describe('ONNX import of damaged files', function () {
  this.timeout(60_000);
  it('reads the undamaged file', () => {
    assert.deepEqual(
      importOnnx(sample, 'm').diagnostics.filter((d) => d.severity === 'error'),
      [],
    );
    checkWhole(sample, 'the sample');
  });

  it('survives truncation at every byte', () => {
    for (let length = 0; length < sample.length; length++)
      checkWhole(sample.subarray(0, length), `${length} bytes`);
  });

  it('survives flipped bits', () => {
    const random = randomNumbers(7);
    for (let round = 0; round < 4000; round++) {
      const bytes = sample.slice();
      for (let flips = random(4); flips >= 0; flips--) {
        const at = random(bytes.length);
        bytes[at] = (bytes[at] ?? 0) ^ (1 << random(8));
      }
      checkWhole(bytes, `round ${round}`);
    }
  });

  it('survives bytes replaced, removed and inserted', () => {
    const random = randomNumbers(11);
    for (let round = 0; round < 3000; round++) {
      const bytes = [...sample];
      for (let edits = random(6); edits >= 0; edits--)
        bytes.splice(
          random(bytes.length),
          random(3),
          ...Array.from({ length: random(3) }, () => random(256)),
        );
      checkWhole(Uint8Array.from(bytes), `round ${round}`);
    }
  });
});
