/** Ops without a lowering: what leads to them is planned like the rest. */
import assert from 'node:assert/strict';
import { compileText, cutsText, planText } from './fixture';

describe('fusion around an op that is not supported', () => {
  it('goes on before it, where its result has no known type', () => {
    const r = compileText(
      [
        'input x: f32[64, 128]',
        'param w: f32[128, 128]',
        'h = gelu(x @ w)',
        'b = bogus(h)',
        'output y',
        'y = relu(b)',
      ].join('\n'),
    );
    assert.deepEqual(planText(r), ['epilogue: h#matmul h#gelu']);
    assert.deepEqual(cutsText(r), ['h#gelu -> b#bogus: OPAQUE', 'b#bogus -> y#relu: OPAQUE']);
  });

  it('stores what it reads, although nothing else does', () => {
    const r = compileText(
      'input x: f32[32, 64]\na = exp(x)\nc = a * 2\nb = bogus(a)\nd = c + 1\noutput b, d',
    );
    assert.equal(r.after.kernels.length, 1);
    assert.equal(r.after.bytesWritten, 2 * 32 * 64 * 4);
  });
});
