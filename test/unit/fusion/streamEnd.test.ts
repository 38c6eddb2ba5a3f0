// Walks along rows end where a causal mask hides all that comes after.

import assert from 'node:assert/strict';
import { compile } from '../../../compiler';
import { DEFAULT_DEVICE } from '../../../compiler/fusion/devices';
import { printKernel } from '../../../compiler/schedule/kernelIr';

/** How the loop over the tiles ends. */
function loopOf(source: string): { end: string; estimatedUs: number } {
  const device = { ...DEFAULT_DEVICE, launchUs: 1000 };
  const c = compile({ file: 'test.fuse', bytes: new TextEncoder().encode(source) }, { device });
  const [k] = c.result.after.kernels;
  assert.equal(k?.template, 'stream', source);
  const text = printKernel(c.kernelIr(k.id)?.[0] ?? assert.fail());
  const end = /for tile\w* in 0 \.\. (\S+)/.exec(text)?.[1] ?? '';
  const bound = new RegExp(`let ${end} = (.*)`).exec(text)?.[1];
  return { end: bound ?? end, estimatedUs: k.estimatedUs };
}

const attention = (body: string, S = '512'): string =>
  `input q: f32[2, ${S}, 16]\ninput k: f32[2, ${S}, 16]\ninput v: f32[2, ${S}, 16]\n${body}\noutput y`;

describe('the end of a walk along a row', () => {
  const causal = attention('y = scaled_dot_product_attention(q, k, v, is_causal=true)');
  const full = attention('y = scaled_dot_product_attention(q, k, v)');

  it('is the tile of the last row that the workgroup has, under a causal mask', () => {
    assert.match(loopOf(causal).end, /^iadd\(q_?\w*, 1\)$/);
    assert.equal(loopOf(full).end, '8');
  });

  it('is never beyond the row, whose length may be a symbolic size', () => {
    const source = `dim S = 512\n${attention('y = scaled_dot_product_attention(q, k, v, is_causal=true)', 'S')}`;
    assert.match(loopOf(source).end, /^imin\(/);
  });

  it('makes the kernel cheaper', () => {
    assert.ok(loopOf(causal).estimatedUs < loopOf(full).estimatedUs);
  });

  it('stays where a mask hides by a number that is no infinity, or something else is summed', () => {
    const parts = `i = reshape(arange(0, 512), [512, 1])
j = reshape(arange(0, 512), [1, 512])
s = q @ transpose(k, 1, 2)`;
    const masked = attention(`${parts}\ny = softmax(where(i >= j, s, -10000.0), axis=-1) @ v`);
    assert.equal(loopOf(masked).end, '8');
  });
});
