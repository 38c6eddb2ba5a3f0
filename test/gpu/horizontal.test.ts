/** Small independent kernels on one grid, against the reference: each part keeps to its own workgroups and buffers. */
import assert from 'node:assert/strict';
import { agreement } from './agreement';

const names = (prefix: string, n: number): string[] =>
  Array.from({ length: n }, (_, i) => `${prefix}${i}`);

const CASES: Readonly<Record<string, { source: string; kernels: number }>> = {
  'updates of parameters of odd shapes': {
    source: [
      ...[[1], [17], [3, 5], [64], [129], [2, 3, 7], []].map(
        (shape, i) =>
          `param p${i}: f32[${shape.join(', ')}]\ninput g${i}: f32[${shape.join(', ')}]\nq${i} = p${i} - 0.1 * g${i}`,
      ),
      `output ${names('q', 7).join(', ')}`,
    ].join('\n'),
    // Three buffers each, eight to bind.
    kernels: 4,
  },
  'thirty parts of a split, all stored': {
    source: `input x: f32[6, 90]\n${names('s', 30).join(', ')} = split(x, 3, axis=1)\noutput ${names('s', 30).join(', ')}`,
    kernels: 5,
  },
  'softmaxes of several heads': {
    source: [
      ...names('x', 3).map((x) => `input ${x}: f32[20, 67]`),
      ...names('x', 3).map((x, i) => `y${i} = softmax(${x}, axis=-1)`),
      'output y0, y1, y2',
    ].join('\n'),
    kernels: 1,
  },
  'a large and a small kernel, as a line in the file wants it': {
    source: `input x: f32[300, 211]
input z: f32[10, 30]
a = exp(x)
b = softmax(z, axis=-1)
output a, b
fuse a, b`,
    kernels: 1,
  },
  'a product, a gather and an empty result': {
    source: `input a: f32[3, 5]
param w: f32[5, 7]
input i: i32[4]
input t: f32[9, 2]
input e: f32[0, 3]
y = relu(a @ w)
z = gather(t, i, axis=0) * 2.0
n = exp(e)
output y, z, n`,
    kernels: 1,
  },
  'of several types': {
    source: `input a: f16[33]
input b: i8[70]
input c: bool[5]
x = a * 2.0
y = b + b
z = logical_not(c)
output x, y, z`,
    kernels: 1,
  },
};

describe('small independent kernels on one grid', function () {
  this.timeout(600_000);
  const agrees = agreement();

  for (const [name, { source, kernels }] of Object.entries(CASES)) {
    it(name, async () => {
      const { after } = (await agrees(source)).result;
      assert.equal(after.kernels.length, kernels);
      assert.ok(
        after.kernels.some((k) => k.template === 'horizontal' && k.pattern === 'horizontal'),
      );
    });
  }

  it('of symbolic sizes, at several sizes', async () => {
    const source = `dim B = 3
dim S = 10
input x: f32[B, S]
input y: f32[S, 5]
input z: f32[B]
a = relu(x) + 1.0
b = exp(y)
c = z * z
output a, b, c`;
    const sizes: Record<string, number>[] = [{}, { B: 1, S: 1 }, { B: 129, S: 2 }];
    for (const dims of sizes) {
      const { result } = await agrees(source, dims);
      assert.deepEqual(
        result.after.kernels.map((k) => k.template),
        ['horizontal'],
      );
    }
  });
});
