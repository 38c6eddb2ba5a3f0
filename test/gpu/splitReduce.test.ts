/** Long reductions in two dispatches, against the reference. */
import assert from 'node:assert/strict';
import { agreement } from './agreement';

const CASES: Readonly<Record<string, string>> = {
  'a loss over all elements': `input x: f32[300, 1000]
input t: f32[300, 1000]
y = sqrt(mean((x - t) ** 2) + 1.0)
output y`,
  'an odd number of elements, none left out and none twice': `input x: f32[200003]
a = amax(x)
b = sum(x)
c = amin(x)
output a, b, c`,
  'siblings with what follows them': `input x: f32[2, 150000]
m = mean(x, axis=1)
v = mean(x * x, axis=1) - m * m
y = rsqrt(v + 1e-5)
output y`,
  'few columns of many rows': `input x: f32[300000, 2]
y = sum(relu(x), axis=0) * 0.5
output y`,
  'several reduced dims around one that is kept': `input x: f32[64, 2, 3000]
y = sum(x, axis=[0, 2])
output y`,
  'a product with few results and a long sum': `input x: f32[2, 50000]
param w: f32[50000, 2]
param b: f32[2]
y = relu(x @ w + b)
output y`,
  'of integers and of truths': `input i: i32[100000]
input f: f32[100000]
s = sum(i)
a = any(f > 3.5)
output s, a`,
};

describe('long reductions with few results', function () {
  this.timeout(600_000);
  const agrees = agreement();

  for (const [name, source] of Object.entries(CASES)) {
    it(name, async () => {
      const { after } = (await agrees(source)).result;
      assert.ok(
        after.kernels.some((k) => k.dispatches === 2),
        after.kernels.map((k) => k.template).join(', '),
      );
    });
  }

  it('of symbolic sizes, at several sizes', async () => {
    for (const N of [1, 100, 99_991, 131_072])
      await agrees('dim N = 100000\ninput x: f32[N, 2]\ny = sum(x * x, axis=0)\noutput y', { N });
  });
});
