/**
 * Directives from `<file>.fusion.json`.
 */
import assert from 'node:assert/strict';
import { importOnnx } from '../../../compiler/import/onnx';
import { structuralHash } from '../../../compiler/import/onnx/sideFile';
import { FLOAT, model, node, value, type GraphSpec } from './encoder';

const chain: GraphSpec = {
  inputs: [value('x', FLOAT, [4])],
  nodes: [node('Relu', ['x'], ['a']), node('Exp', ['a'], ['b']), node('Tanh', ['b'], ['c'])],
  outputs: [value('c', FLOAT, [4])],
};
const before = importOnnx(model(chain), 'm').graph;
const withSide = (directives: unknown, g = chain): string[] => {
  const r = importOnnx(model(g), 'm', JSON.stringify({ version: 1, directives }));
  return [
    ...r.graph.directives.map((d) => d.text),
    ...r.diagnostics.map((d) => `${d.severity} ${d.code}: ${d.message}`),
  ];
};

describe('ONNX side file', () => {
  it('reads every kind of directive', () => {
    assert.deepEqual(
      withSide([
        { kind: 'nofuse', from: 'n0.0', to: 'n1.0' },
        { kind: 'fuse', values: ['n0', 'n2.0'] },
        { kind: 'materialize', value: 'n1.0' },
        { kind: 'recompute', value: 'n0.0' },
        { kind: 'schedule', value: 'n2.0', params: { workgroup: 128 } },
        { kind: 'expect', expectation: { kind: 'kernels', relation: '<=', count: 2 } },
        { kind: 'expect', expectation: { kind: 'bytes', relation: '<', bytes: 64 } },
        { kind: 'expect', expectation: { kind: 'fused', values: ['n0.0', 'n1.0'] } },
        { kind: 'expect', expectation: { kind: 'pattern', value: 'n2.0', pattern: 'pointwise' } },
      ]),
      [
        'nofuse a -> b',
        'fuse a, c',
        'materialize b',
        'recompute a',
        'schedule c { workgroup = 128 }',
        'expect kernels <= 2',
        'expect bytes < 64',
        'expect fused a, b',
        'expect pattern c == pointwise',
      ],
    );
  });

  it('reports orphans and faults, and keeps the rest', () => {
    assert.deepEqual(
      withSide([
        { kind: 'materialize', value: 'n9.0' },
        { kind: 'melt', value: 'n0.0' },
        { kind: 'expect', expectation: { kind: 'kernels', relation: '~', count: 2 } },
        17,
        { kind: 'materialize', value: 'n0.0' },
      ]),
      [
        'materialize a',
        'warning ORPHANED_DIRECTIVE: directive 1 of the side file is not applied: there is no value "n9.0"',
        'error SIDE_FILE: directive 2 of the side file: there is no kind "melt": it is one of nofuse, fuse, materialize, recompute, schedule, expect',
        'error SIDE_FILE: directive 3 of the side file: it needs a "relation" (<= < == >= > !=) and a number "count"',
        'error SIDE_FILE: directive 4 of the side file: it must be an object',
      ],
    );
  });

  it('follows a value that moved, by its hash', () => {
    const hash = structuralHash(before, 'n1.0');
    const moved: GraphSpec = {
      ...chain,
      nodes: [node('Neg', ['x'], ['unused']), ...(chain.nodes ?? [])],
    };
    const directive = { kind: 'materialize', value: 'n1.0', hashes: { 'n1.0': hash } };
    assert.deepEqual(withSide([directive]), ['materialize b']);
    assert.deepEqual(withSide([directive], moved), [
      'materialize b',
      'info MOVED_DIRECTIVE: the value n1.0 of the side file is now n2.0',
    ]);
    const gone: GraphSpec = {
      ...chain,
      nodes: [node('Relu', ['x'], ['a']), node('Tanh', ['a'], ['c'])],
    };
    assert.deepEqual(withSide([directive], gone), [
      'warning ORPHANED_DIRECTIVE: directive 1 of the side file is not applied: ' +
        'the value "n1.0" is another one than when the directive was written, and 0 others have its structure',
    ]);
  });

  it('says what is wrong with the file as a whole', () => {
    for (const [text, words] of [
      ['{', /is no JSON/],
      ['[]', /must be an object/],
      ['{"version":2,"directives":[]}', /has version 2/],
      ['{"version":1}', /a list named "directives"/],
    ] as const) {
      const [d] = importOnnx(model(chain), 'm', text).diagnostics;
      assert.equal(d?.code, 'SIDE_FILE');
      assert.match(d.message, words);
    }
  });
});
