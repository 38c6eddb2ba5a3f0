/**
 * Right outcomes known from other compilers' own tests: how many kernels a graph becomes, and how
 * many elements those move. A better grouping than theirs is stated where ours reaches it.
 */
import assert from 'node:assert/strict';
import { compile } from '../../../compiler';
import { DEFAULT_DEVICE } from '../../../compiler/fusion/devices';
import type { CompileResult } from '../../../compiler/result';

function result(source: string): CompileResult {
  const bytes = new TextEncoder().encode(source);
  const r = compile({ file: 'test.fuse', bytes }, { device: DEFAULT_DEVICE }).result;
  const faults = r.diagnostics.filter((d) => d.severity === 'error');
  assert.deepEqual(faults, [], source);
  return r;
}

const elements = (r: CompileResult): number => (r.after.bytesRead + r.after.bytesWritten) / 4;

interface Outcome {
  readonly name: string;
  readonly source: string;
  readonly kernels: number;
  readonly pattern?: string;
  /** Elements read and written, each once per kernel that touches it. */
  readonly elements?: number;
}

/** Attention whose length is not known when compiling, as exporters and FlexAttention's score functions spell it. */
function rowsOfAnyLength(): Outcome[] {
  const operands = (shape: string): string =>
    ['q', 'k', 'v'].map((n) => `input ${n}: f32[${shape}]`).join('\n');
  const places = `i = reshape(arange(0, S), [S, 1])
j = reshape(arange(0, S), [1, S])`;
  const scores = `dim S = 512
${operands('2, 4, S, 64')}
s = q @ transpose(k, 2, 3) * 0.125`;
  const attention = (name: string, source: string): Outcome => ({
    name: `attention over rows of any length: ${name}`,
    source,
    kernels: 1,
    pattern: 'attention',
  });
  return [
    attention('written out', `${scores}\ny = softmax(s, axis=-1) @ v\noutput y`),
    attention(
      'exp, sum and division, scaled before, with a bias',
      `dim S = 512
${operands('8, S, 64')}
param bias: f32[S, S]
s = (q * 0.125) @ transpose(k, 1, 2) + bias
e = exp(s - amax(s, axis=-1, keepdim=true))
y = e / sum(e, axis=-1, keepdim=true) @ v
output y`,
    ),
    attention(
      'from one projection, heads joined again',
      `dim B = 2
dim S = 512
input x: f32[B, S, 768]
q, k, v = split(x, 256, axis=-1)
a = permute(reshape(q, [B, S, 4, 64]), [0, 2, 1, 3])
b = permute(reshape(k, [B, S, 4, 64]), [0, 2, 3, 1])
c = permute(reshape(v, [B, S, 4, 64]), [0, 2, 1, 3])
y = relu(reshape(permute(softmax(a @ b * 0.125, axis=-1) @ c, [0, 2, 1, 3]), [B * S, 256]))
output y`,
    ),
    attention(
      'an operator under a causal mask, and what comes after',
      `dim S = 512
${operands('2, 4, S, 64')}
y = relu(scaled_dot_product_attention(q, k, v, is_causal=true))
output y`,
    ),
    attention(
      'grouped heads of 128',
      `dim S = 512
dim T = 700
input q: f32[1, 8, S, 128]
input k: f32[1, 2, T, 128]
input v: f32[1, 2, T, 128]
y = scaled_dot_product_attention(q, k, v, enable_gqa=true) + 1.0
output y`,
    ),
    attention(
      'soft capped',
      `${scores}\nc = tanh(s / 30.0) * 30.0\ny = softmax(c, axis=-1) @ v\noutput y`,
    ),
    attention(
      'a bias that falls with the distance',
      `${scores}
param slope: f32[4, 1, 1]
${places}
y = softmax(s + slope * cast(j - i, f32), axis=-1) @ v
output y`,
    ),
    attention(
      'a sliding window',
      `${scores}
${places}
near = logical_and(i >= j, i - j < 128)
y = softmax(where(near, s, -inf), axis=-1) @ v
output y`,
    ),
    attention(
      'half precision',
      `${scores.replaceAll('f32', 'f16')}\ny = softmax(s, axis=-1) @ v\noutput y`,
    ),
    {
      name: 'a layer norm over rows of any length',
      source:
        'dim N = 8192\ninput x: f32[64, N]\nparam w: f32[N]\nparam b: f32[N]\ny = layer_norm(x, w, b, axis=-1)\noutput y',
      kernels: 1,
    },
    {
      name: 'a softmax over a vocabulary',
      source: 'input x: f32[64, 131072]\ny = softmax(x / 0.7, axis=-1)\noutput y',
      kernels: 1,
    },
  ];
}

const OUTCOMES: readonly Outcome[] = [
  {
    name: 'add, exp, squeeze',
    source: 'input x: f32[10, 1, 20]\ny = squeeze(exp(x + 1.0), 1)\noutput y',
    kernels: 1,
    elements: 400,
  },
  {
    // TVM: 4.
    name: 'a 3x3 convolution with two adds, then a 1x1 and a 3x3 joined by add',
    source: `input x: f32[1, 16, 32, 32]
param w1: f32[16, 16, 3, 3]
param w2: f32[16, 16, 1, 1]
param w3: f32[16, 16, 3, 3]
a = conv2d(x, w1, padding=1)
c = x + (a + 1.0)
y = conv2d(c, w2) + conv2d(c, w3, padding=1)
output y`,
    kernels: 2,
  },
  {
    name: 'max pooling; upsample, concat, add',
    source: `input x: f32[1, 16, 32, 32]
p = max_pool2d(x, 2, stride=2)
y = cat([interpolate(p, scale_factor=2, mode="nearest"), x], axis=1) + 1.0
output y`,
    kernels: 2,
  },
  {
    name: 'dense; split, sigmoid, tanh, exp, mul, add',
    source: `input x: f32[1, 16]
param w: f32[64, 16]
i = linear(x, w)
a, b, c, d = split(i, 16, axis=1)
y = sigmoid(a) * tanh(b) + exp(c) * d
output y`,
    kernels: 2,
  },
  {
    name: 'add, squeeze, transpose, shift',
    source: 'input x: f32[1, 16, 32]\ny = transpose(squeeze(x + 1.0, 0), 0, 1) * 2.0\noutput y',
    kernels: 1,
    elements: 1024,
  },
  {
    name: 'concat, gather',
    source:
      'input a: f32[8, 4]\ninput b: f32[8, 4]\ninput i: i32[5]\ny = gather(cat([a, b], axis=0), i, axis=0)\noutput y',
    kernels: 1,
  },
  {
    name: 'softmax, cast',
    source: 'input x: f32[4, 32]\ny = cast(softmax(x, axis=-1), f16)\noutput y',
    kernels: 1,
  },
  {
    name: 'symbolic add, exp, squeeze',
    source: 'dim n = 4\ndim m = 8\ninput x: f32[n, 1, m]\ny = squeeze(exp(x + 1.0), 1)\noutput y',
    kernels: 1,
  },
  {
    name: 'sub, compare, add, abs, select with a shared operand',
    source:
      'input x: f32[100]\ninput y: f32[100]\nd = x - y\nz = where(d > 0.0, d + x, abs(d))\noutput z',
    kernels: 1,
    elements: 300,
  },
  {
    // XLA: 2, with the square computed in both.
    name: 'a square read by exp and by log',
    source: 'input x: f32[100]\ns = x * x\na = exp(s)\nb = log(s + 1.0)\noutput a, b',
    kernels: 1,
    pattern: 'multi-output',
    elements: 300,
  },
  {
    name: 'reduce, log, log',
    source: 'input x: f32[100, 30]\ny = log(log(sum(x, axis=1) + 40.0) + 2.0)\noutput y',
    kernels: 1,
    pattern: 'after-reduction',
    elements: 3100,
  },
  {
    name: 'sums of x and of its square',
    source: 'input x: f32[100, 30]\na = sum(x * x, axis=1)\nb = sum(x, axis=1)\noutput a, b',
    kernels: 1,
    elements: 3200,
  },
  {
    name: 'sums to a scalar and to a vector stay apart',
    source: 'input x: f32[10, 10]\na = sum(x)\nb = sum(x, axis=1)\noutput a, b',
    kernels: 2,
  },
  {
    name: 'exp and its row sum, both given out',
    source: 'input x: f32[100, 30]\ne = exp(x)\ns = sum(e, axis=1)\noutput e, s',
    kernels: 1,
    elements: 6100,
  },
  {
    name: 'independent mul and add with one consumer',
    source: `input a: f32[1024]
input b: f32[1024]
input c: f32[123]
input d: f32[123]
y = cat([a * b, c + d], axis=0)
output y`,
    kernels: 1,
  },
  {
    // Each branch stores its channels of the result: no kernel copies.
    name: 'a module of three branches, concatenated and read twice',
    source: `input x: f32[1, 64, 28, 28]
param w1: f32[32, 64, 1, 1]
param w3: f32[48, 64, 3, 3]
param w5: f32[16, 64, 5, 5]
param v: f32[64, 96, 3, 3]
y = cat([relu(conv2d(x, w1)), relu(conv2d(x, w3, padding=1)), relu(conv2d(x, w5, padding=2))], axis=1)
p = conv2d(y, v, padding=1)
q = max_pool2d(y, 2)
output p, q`,
    kernels: 5,
    pattern: 'epilogue',
    // x and a weight in each branch, and 96 channels out; those in by each reader, and their results.
    elements:
      3 * 64 * 784 +
      64 * (32 + 9 * 48 + 25 * 16) +
      96 * 784 +
      (96 + 64) * 784 +
      9 * 96 * 64 +
      96 * (784 + 196),
  },
  {
    // One buffer holds all that is concatenated: x is copied into it, each convolution adds its share.
    name: 'growing concatenations',
    source: `input x: f32[1, 64, 28, 28]
param w1: f32[32, 64, 3, 3]
param w2: f32[32, 96, 3, 3]
param w3: f32[32, 128, 3, 3]
a = cat([x, relu(conv2d(x, w1, padding=1))], axis=1)
b = cat([a, relu(conv2d(a, w2, padding=1))], axis=1)
c = cat([b, relu(conv2d(b, w3, padding=1))], axis=1)
output c`,
    kernels: 4,
    elements: 2 * 64 * 784 + (64 + 96 + 128) * 784 + 9 * 32 * (64 + 96 + 128) + 3 * 32 * 784,
  },
  {
    // Three buffers each, of the eight that the adapter allows: two to a grid.
    name: 'updates of twenty parameters of different sizes',
    source: [
      ...Array.from(
        { length: 20 },
        (_, i) =>
          `param p${i}: f32[${7 * i + 1}]\ninput g${i}: f32[${7 * i + 1}]\nq${i} = p${i} - 0.1 * g${i}`,
      ),
      `output ${Array.from({ length: 20 }, (_, i) => `q${i}`).join(', ')}`,
    ].join('\n'),
    kernels: 10,
    pattern: 'horizontal',
  },
  {
    // One buffer is read, seven can be written.
    name: 'thirty parts of a split, all given out',
    source: `input x: f32[60, 40]
${Array.from({ length: 30 }, (_, i) => `s${i}`).join(', ')} = split(x, 2, axis=0)
output ${Array.from({ length: 30 }, (_, i) => `s${i}`).join(', ')}`,
    kernels: 5,
    pattern: 'horizontal',
    elements: 2 * 60 * 40,
  },
  {
    name: 'biases of four gates of different sizes',
    source: `param a: f32[64]
param b: f32[64]
param c: f32[32]
param d: f32[16]
x = a + 1.0
y = b * 2.0
z = exp(c)
w = tanh(d)
output x, y, z, w`,
    kernels: 1,
    pattern: 'horizontal',
    elements: 2 * 176,
  },
  {
    name: 'a layer norm written out',
    source: `input x: f32[64, 256]
d = x - mean(x, axis=-1, keepdim=true)
y = d * rsqrt(mean(d * d, axis=-1, keepdim=true) + 1e-5)
output y`,
    kernels: 1,
    pattern: 'composite',
    elements: 2 * 64 * 256,
  },
  {
    name: 'a softmax written out',
    source: `input x: f32[64, 256]
e = exp(x - amax(x, axis=-1, keepdim=true))
y = e / sum(e, axis=-1, keepdim=true)
output y`,
    kernels: 1,
    pattern: 'composite',
    elements: 2 * 64 * 256,
  },
  {
    name: 'three products with one left side',
    source: `input x: f32[64, 64]
param q: f32[64, 64]
param k: f32[64, 64]
param v: f32[64, 64]
a = x @ q
b = x @ k
c = x @ v
output a, b, c`,
    kernels: 1,
    pattern: 'horizontal',
  },
  {
    // tinygrad: 4.
    name: 'attention written out',
    source: `input q: f32[4, 128, 64]
input k: f32[4, 128, 64]
input v: f32[4, 128, 64]
y = softmax(q @ transpose(k, 1, 2) / 8.0, axis=-1) @ v
output y`,
    kernels: 1,
    pattern: 'attention',
    elements: 4 * 4 * 128 * 64,
  },
  ...rowsOfAnyLength(),
  {
    name: 'traffic of a softmax',
    source: 'input x: f32[10, 10]\ny = softmax(x, axis=-1)\noutput y',
    kernels: 1,
    elements: 200,
  },
  {
    name: 'traffic of two softmaxes',
    source: 'input x: f32[10, 10]\ny = softmax(softmax(x, axis=-1), axis=-1)\noutput y',
    kernels: 1,
    elements: 200,
  },
  {
    name: 'traffic of a layer norm with weight and bias',
    source:
      'input x: f32[10, 10]\nparam w: f32[10]\nparam b: f32[10]\ny = layer_norm(x, w, b, axis=-1)\noutput y',
    kernels: 1,
    elements: 220,
  },
  {
    name: 'traffic of a sum and a maximum',
    source: 'input x: f32[10, 10]\na = sum(x, axis=1)\nb = amax(x, axis=1)\noutput a, b',
    kernels: 1,
    elements: 120,
  },
  {
    name: 'traffic of a sum and a cosine',
    source: 'input x: f32[10, 10]\na = sum(x, axis=1)\nb = cos(x)\noutput a, b',
    kernels: 1,
    elements: 210,
  },
];

describe('outcomes known elsewhere', () => {
  for (const o of OUTCOMES) {
    it(o.name, () => {
      const r = result(o.source);
      const reasons = r.decisions.filter((d) => !d.fused).map((d) => d.summary);
      assert.equal(r.after.kernels.length, o.kernels, reasons.join('\n'));
      if (o.pattern !== undefined) assert.equal(r.after.kernels[0]?.pattern, o.pattern);
      if (o.elements !== undefined) assert.equal(elements(r), o.elements);
    });
  }

  it('a long softmax reads its row twice: for its maximum and sum together, and for its results', () => {
    const r = result('dim N = 131072\ninput x: f32[64, N]\ny = softmax(x, axis=-1)\noutput y');
    assert.equal(r.after.kernels.length, 1);
    assert.equal(r.after.kernels[0]?.schedule.online, 1);
  });

  it('says why a row can neither be kept nor walked in tiles', () => {
    const r = result(`dim N = 4096
input x: f32[64, 64]
param w: f32[64, N]
y = layer_norm(x @ w, axis=-1)
output y`);
    const verdicts = r.decisions.flatMap((d) => d.verdicts);
    const memory = verdicts.find((v) => v.code === 'WORKGROUP_MEMORY');
    assert.match(
      memory?.message ?? '',
      /length N .*; nor can the row be walked in tiles: its elements are no product/,
    );
  });

  it('a chain of 300 is cut by the stated budget, with its verdict', () => {
    const lines = ['input x: f32[64]', 't0 = sin(x)'];
    for (let i = 1; i < 300; i++) lines.push(`t${i} = sin(t${i - 1})`);
    const r = result([...lines, 'output t299'].join('\n'));
    assert.equal(r.after.kernels.length, 2);
    const cut = r.decisions.filter((d) => !d.fused);
    assert.equal(cut.length, 1);
    const verdict = cut[0]?.verdicts[0];
    assert.equal(verdict?.code, 'CODE_SIZE');
    assert.equal(verdict.limit, 256);
    assert.match(verdict.message, /300 computes, over the budget of 256/);
  });
});
