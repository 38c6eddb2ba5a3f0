/** Rows that lie across memory, side by side in a workgroup, against the reference. */
import assert from 'node:assert/strict';
import { agreement } from './agreement';

const CASES: Readonly<Record<string, string>> = {
  'a softmax over a dim in the middle': `input x: f32[60, 301, 101]
y = softmax(x, axis=1)
output y`,
  'positions of the extremes, the first of equals': `input x: f32[900, 1029]
a = argmax(floor(x * 4.0), axis=0)
b = amin(x, axis=0)
output a, b`,
  'a norm down the columns, with what follows': `input x: f32[1024, 2048]
param g: f32[2048]
m = mean(x, axis=0, keepdim=true)
v = mean((x - m) ** 2, axis=0, keepdim=true)
y = (x - m) * rsqrt(v + 1e-5) * g
output y`,
  'a product of one row': `input x: f32[1, 1333]
param w: f32[1333, 3002]
y = relu(x @ w)
output y`,
};

describe('rows across memory', function () {
  this.timeout(600_000);
  const agrees = agreement();

  for (const [name, source] of Object.entries(CASES)) {
    it(name, async () => {
      const { after } = (await agrees(source)).result;
      assert.ok(
        after.kernels.some((k) => k.template === 'row' && Number(k.schedule['rows']) >= 8),
        JSON.stringify(after.kernels.map((k) => [k.template, k.schedule])),
      );
    });
  }

  it('of symbolic sizes, at several sizes', async () => {
    for (const N of [1, 31, 200])
      await agrees('dim N = 600\ninput x: f32[N, 1500]\ny = softmax(x, axis=0)\noutput y', { N });
  });
});
