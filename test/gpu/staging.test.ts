/** Products whose operands go through workgroup memory, against the reference. */
import assert from 'node:assert/strict';
import { DEFAULT_DEVICE } from '../../compiler/fusion/devices';
import { agreementAt } from './agreement';

/** With what is set of the product's kernel besides. */
const CASES: Readonly<Record<string, { source: string; set?: string }>> = {
  'whole blocks': { source: 'input x: f32[128, 64]\nparam w: f32[64, 128]\ny = x @ w' },
  'odd sizes, and what follows': {
    source: 'input x: f32[67, 45]\nparam w: f32[45, 71]\nparam b: f32[71]\ny = gelu(x @ w + b)',
  },
  'a sum shorter than a step': { source: 'input x: f32[70, 5]\nparam w: f32[5, 70]\ny = x @ w' },
  'weights that lie along the sum': {
    source: 'input x: f32[66, 48]\nparam w: f32[70, 48]\ny = relu(x @ transpose(w, 0, 1))',
  },
  'what comes before, and a batch': {
    source: 'input x: f32[3, 50, 33]\ninput z: f32[3, 33, 40]\ny = relu(x) @ (z * 2.0)',
  },
  'a convolution with padding': {
    source:
      'input x: f32[2, 6, 13, 13]\nparam w: f32[12, 6, 3, 3]\nparam b: f32[12]\ny = relu(conv2d(x, w, b, padding=1))',
  },
  'tiles that aren’t square': {
    source: 'input x: f32[130, 40]\nparam w: f32[40, 90]\ny = x @ w',
    set: 'tile = 8, tileRows = 2, workgroup = 256',
  },
  'few invocations': {
    source: 'input x: f32[33, 40]\nparam w: f32[40, 90]\ny = x @ w',
    set: 'tile = 3, tileRows = 5, workgroup = 32',
  },
};

describe('products through workgroup memory', function () {
  this.timeout(600_000);
  const agrees = agreementAt();

  for (const [name, { source, set = 'workgroup = 64' }] of Object.entries(CASES))
    it(name, async () => {
      const text = `${source}\nschedule y { staging = 1, ${set} }\noutput y`;
      const c = await agrees(text, { device: DEFAULT_DEVICE }, [{}]);
      const [k] = c.result.after.kernels;
      assert.equal(k?.template, 'contraction');
      assert.equal(k.schedule['staging'], 1);
      assert.match(c.kernelCode(k.id)?.join() ?? '', /var<workgroup> operand/);
    });

  it('of symbolic sizes, at several sizes', async () => {
    const source =
      'dim N = 100\ndim K = 40\ninput x: f32[N, K]\ninput w: f32[K, 50]\ny = tanh(x @ w)\nschedule y { staging = 1 }\noutput y';
    await agrees(source, { device: DEFAULT_DEVICE }, [
      {},
      { N: 1, K: 1 },
      { N: 65, K: 33 },
      { N: 64, K: 64 },
    ]);
  });
});
