/**
 * Generated kernels against the float64 reference: fused and unfused, every stored result of either
 * plan, on random inputs, over random programs and over corner cases of each template.
 */
import { agreement } from './agreement';
import { randomProgram } from './programs';
import { wideProgram } from './widePrograms';

describe('generated kernels agree with the reference', function () {
  this.timeout(600_000);
  const agrees = agreement();

  for (let block = 0; block < 6; block++) {
    it(`on random programs ${block * 20} to ${block * 20 + 19}`, async () => {
      for (let i = 0; i < 20; i++) await agrees(randomProgram(1000 + block * 20 + i));
    });
  }

  for (let block = 0; block < 2; block++) {
    it(`on programs of many families of ops, ${block * 25} to ${block * 25 + 24}`, async () => {
      for (let i = 0; i < 25; i++) await agrees(wideProgram(block * 25 + i));
    });
  }

  const cases: Record<string, string> = {
    'a scalar': 'input x: f32[]\ny = relu(x) * 2.0\noutput y',
    'an empty tensor': 'input x: f32[0, 4]\ny = relu(x)\noutput y',
    'a sum over nothing': 'input x: f32[3, 0]\ny = sum(x, axis=1) + 1.0\noutput y',
    'more than 65,535 workgroups': 'input x: f32[20000003]\ny = relu(x)\noutput y',
    'a long row': 'input x: f32[3, 70001]\ny = softmax(x, axis=-1)\noutput y',
    'many short rows': 'input x: f32[5000, 3]\ny = layer_norm(x, axis=-1)\noutput y',
    'softmax over a middle axis': 'input x: f32[3, 17, 5, 2]\ny = softmax(x, axis=1)\noutput y',
    'group norm through reshapes':
      'input x: f32[2, 12, 5, 5]\nparam w: f32[12]\nparam b: f32[12]\ny = group_norm(x, 3, w, b)\noutput y',
    'a tensor and its row sums':
      'input x: f32[40, 33]\ne = exp(x)\ns = sum(e, axis=1)\noutput e, s',
    'sums of a tensor and of its square':
      'input x: f32[40, 129]\na = sum(x, axis=1)\nb = sum(x * x, axis=1)\noutput a, b',
    'a padded, strided, dilated, grouped convolution':
      'input x: f32[2, 6, 11, 9]\nparam w: f32[4, 3, 3, 2]\nparam b: f32[4]\ny = relu(conv2d(x, w, b, stride=[2, 1], padding=[2, 1], dilation=[1, 2], groups=2))\noutput y',
    'a depthwise convolution':
      'input x: f32[1, 8, 14, 14]\nparam w: f32[8, 1, 3, 3]\ny = conv2d(x, w, padding=1, groups=8)\noutput y',
    'a product with odd sizes and an epilogue':
      'input x: f32[33, 65]\nparam w: f32[65, 31]\nparam b: f32[31]\ny = gelu(x @ w + b)\noutput y',
    'a batched product with broadcast batch':
      'input x: f32[3, 1, 7, 5]\ninput y: f32[2, 5, 9]\nz = x @ y\noutput z',
    'concatenation into a product':
      'input a: f32[4, 3]\ninput b: f32[4, 6]\nparam w: f32[9, 8]\ny = cat([a, relu(b)], axis=1) @ w\noutput y',
    'an embedding and its norm':
      'input ids: i32[7]\nparam table: f32[4, 32]\ny = layer_norm(embedding(ids, table), axis=-1)\noutput y',
    'positions of the greatest and the least':
      'input x: f32[9, 50]\na = argmax(x, axis=1)\nb = argmin(x, axis=0)\noutput a, b',
    'attention with a causal mask':
      'input q: f32[2, 3, 20, 8]\ninput k: f32[2, 3, 20, 8]\ninput v: f32[2, 3, 20, 8]\ny = scaled_dot_product_attention(q, k, v, is_causal=true)\noutput y',
    'attention over a packed product, by chance with as many scores as it has elements': [
      'input x: f32[2, 3, 8]',
      'param w: f32[8, 24]',
      'param b: f32[24]',
      'all = x @ w + b',
      'q = reshape(all[..., :8], [2, 3, 2, 4]).transpose(1, 2)',
      'k = reshape(all[..., 8:16], [2, 3, 2, 4]).transpose(1, 2)',
      'v = reshape(all[..., 16:], [2, 3, 2, 4]).transpose(1, 2)',
      'y = softmax(q @ k.transpose(-1, -2) * 0.5, axis=-1) @ v',
      'output y, all',
    ].join('\n'),
    'randomness, and dropout before a norm':
      'input x: f32[33, 70]\na = dropout(relu(x), 0.3, training=true)\ny = layer_norm(a + randn_like(x), axis=-1)\nz = rand([5, 7]) < 0.5\noutput y, z',
    'slices, places and new dims':
      'input x: f32[6, 10, 8]\ninput i: i32[3]\na = x[1:, ::-2, None, :4] * x[-1, 0, 4:]\nb = x[:, i, 2].sum(0)\noutput a, b',
    'pooling after an activation':
      'input x: f32[1, 3, 13, 13]\na = max_pool2d(relu(x), 3, stride=2, padding=1)\nb = avg_pool2d(x, 2)\noutput a, b',
    'half precision': 'input x: f16[17, 40]\ny = softmax(x * 3.0, axis=-1)\noutput y',
    'narrow integers that wrap': 'input x: i8[100]\ny = x * x + x\noutput y',
    'integers of four bits that wrap and saturate':
      'input x: i4[100]\ninput u: u4[100]\ninput r: f32[100]\ny = x * x + x\nv = u * u + u\nq = quantize(r * 9.0, 0.5, dtype=i4)\noutput y\noutput v\noutput q',
    'more operands than a kernel can bind': [
      ...Array.from({ length: 20 }, (_, i) => `input x${i}: f32[${i + 1}, 5]`),
      `c = cat([${Array.from({ length: 20 }, (_, i) => `relu(x${i})`).join(', ')}], axis=0)`,
      'm = sum(c, axis=1)',
      'output c, m',
    ].join('\n'),
    'a concatenation of hundreds': [
      ...Array.from({ length: 100 }, (_, i) => `input x${i}: f32[${1 + (i % 2)}, 3]`),
      `y = relu(cat([${Array.from({ length: 100 }, (_, i) => `x${i}`).join(', ')}], axis=0))`,
      'output y',
    ].join('\n'),
    'products with an empty operand':
      'input x: f32[0, 4]\nparam w: f32[4, 8]\na = x @ w\nb = transpose(x, 0, 1) @ a\noutput a, b',
    'quantised to the type that is named':
      'input x: f32[32, 64]\nparam w: i8[64, 16]\nparam s: f32[16]\nr = amax(abs(x)) / 127.0\ny = dequantize(quantize(x, r, dtype=i8), r) @ dequantize(w, s, axis=1)\noutput y',
    'a pad beside a sum over what it pads':
      'input x: f32[2, 2]\nt = x @ transpose(x, -1, -2)\np = pad(t, [0, 2, 0, 0], value=0)\nc = cumsum(t, axis=0)\noutput t, p, c',
    'logarithms of nothing, of infinity and of what is below zero': `input x: f32[64]
z = relu(x - 100.0)
a = log(z)
b = log1p(z - 1.0)
c = exp(log(z)) + logsumexp(where(x > 100.0, x, -inf))
d = log(1.0 / z)
output a, b, c, d`,
    'rows joined after a softmax of each part':
      'input a: f32[4, 8]\ninput b: f32[4, 8]\ny = cat([softmax(a, axis=-1), softmax(b, axis=-1)], axis=0)\noutput y',
    'names that WGSL keeps for itself':
      'input array: f32[8]\ninput b0: f32[8]\nlet = array * b0\nvar = let + 1.0\nfn = exp(-abs(var))\noutput fn',
  };
  for (const [name, source] of Object.entries(cases)) {
    it(name, async () => {
      await agrees(source);
    });
  }

  it('symbolic sizes, at several sizes', async () => {
    const source =
      'dim B = 3\ndim S = 10\ninput x: f32[B, S, 24]\nparam w: f32[24, 16]\ny = softmax(reshape(x @ w, [B * S, 16]), axis=-1)\nz = sum(relu(x), axis=1)\noutput y, z';
    await agrees(source);
    await agrees(source, { B: 1, S: 37 });
    await agrees(source, { B: 8, S: 4 });
  });
});
