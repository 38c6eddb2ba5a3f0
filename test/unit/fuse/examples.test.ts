// The shipped examples: each reads and compiles without a fault, and its expectations hold.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { compile } from '../../../compiler/compile';
import { DEVICES } from '../../../compiler/fusion/devices';
import { importFuse } from '../../../compiler/import/fuse';

const NAMES = [
  'after_reduction',
  'attention',
  'composite',
  'compute_bound',
  'dynamic_batch',
  'embedder',
  'into_reduction',
  'linear',
  'mlp',
  'parallel_convs',
  'pointwise_chain',
  'relu_add',
  'reranker',
  'residual_block',
  'softmax',
  'split',
  'transformer_block',
];

describe('fuse: examples', () => {
  it('are all there', () => {
    const found = readdirSync('examples').filter((f) => f.endsWith('.fuse'));
    assert.deepEqual(
      found.sort(),
      NAMES.map((n) => `${n}.fuse`),
    );
  });

  for (const name of NAMES) {
    it(`${name} compiles and keeps its promises`, () => {
      const file = `examples/${name}.fuse`;
      const text = readFileSync(file, 'utf8');
      assert.match(text, /^# \S/, 'opens with a comment');
      const { graph, diagnostics } = importFuse(text, file);
      assert.deepEqual(diagnostics, []);
      assert.ok(graph.directives.some((d) => d.kind === 'expect'));
      // Whatever the adapter at hand is.
      for (const device of DEVICES) {
        const { result } = compile({ file, bytes: readFileSync(file) }, { device });
        assert.deepEqual(
          result.diagnostics.filter((d) => d.severity === 'error' || d.severity === 'warning'),
          [],
          device.name,
        );
        assert.deepEqual(
          result.expectations.filter((e) => !e.held),
          [],
          device.name,
        );
        assert.deepEqual(result.runnable, { ok: true });
        // Small enough for a CPU that pretends to be a GPU.
        for (const t of result.graph.tensors) assert.ok(t.elements <= 4 * 2 ** 20, t.name);
      }
    });
  }
});
