/** Products with a vector, in the form that each kind of device has for them, against the reference. */
import assert from 'node:assert/strict';
import { deviceByName } from '../../compiler/fusion/devices';
import { agreementAt } from './agreement';

const DEVICES = ['integrated', 'datacenter', 'software'].flatMap(
  (name) => deviceByName(name) ?? [],
);

const CASES: Readonly<Record<string, string>> = {
  'a matrix by a column': `input x: f32[1024, 1]
param w: f32[1026, 1024]
y = relu(w @ x)`,
  'a row by a matrix': `input x: f32[1, 1000]
param w: f32[1000, 768]
y = x @ w * 0.5`,
  'a linear layer of one row': `input x: f32[1, 768]
param w: f32[1536, 768]
param b: f32[1536]
y = gelu(linear(x, w, b))`,
  'of odd sizes': `input x: f32[1, 1, 333]
param w: f32[1001, 333]
y = linear(x, w)`,
  'few results of a long sum': `input x: f32[1, 20000]
param w: f32[20000, 12]
y = x @ w`,
  'few rows, long': `input x: f32[30000, 1]
param w: f32[9, 30000]
y = w @ x`,
};

describe('products with a vector', function () {
  this.timeout(600_000);
  const agrees = agreementAt();

  for (const [name, source] of Object.entries(CASES))
    it(name, async () => {
      for (const device of DEVICES) {
        const c = await agrees(`${source}\noutput y`, { device }, [{}]);
        const [k] = c.result.after.kernels;
        // On a GPU, one invocation a result would read the matrix across memory, or alone.
        if (!device.software) assert.notEqual(k?.template, 'loop', device.name);
      }
    });

  it('one after the other, as a decoder has them', async () => {
    const source = `input x: f32[1, 256]
param w1: f32[688, 256]
param w2: f32[688, 256]
param w3: f32[256, 688]
h = silu(linear(x, w1)) * linear(x, w2)
y = x + linear(h, w3)
output y`;
    for (const device of DEVICES) await agrees(source, { device }, [{}]);
  });
});
