/**
 * Rows of any length walked in tiles, against the float64 reference: attention and its kin in the
 * spellings that exporters give them. Each is compiled once, and that one plan is run at sizes that
 * fill tiles, don't fill them, and are 1.
 */
import assert from 'node:assert/strict';
import { DEFAULT_DEVICE } from '../../compiler/fusion/devices';
import { agreementAt } from './agreement';
import { randomNumbers } from './programs';

type Dims = Readonly<Record<string, number>>;

const QKV = (heads: number, d: number, dv = d): string =>
  `dim S = 40\ndim T = 50\ninput q: f32[2, ${heads}, S, ${d}]\ninput k: f32[2, ${heads}, T, ${d}]\ninput v: f32[2, ${heads}, T, ${dv}]\n`;
const SELF = (heads: number, d: number): string =>
  QKV(heads, d)
    .replace(/dim T = 50\n/, '')
    .replaceAll('T', 'S');

describe('rows walked in tiles agree with the reference', function () {
  this.timeout(600_000);
  const agrees = agreementAt();

  /** One kernel by the template, whatever the model says of so small sizes; right at all of them. */
  async function streams(source: string, sizes: readonly Dims[]): Promise<void> {
    const device = { ...DEFAULT_DEVICE, launchUs: 1000 };
    const c = await agrees(source, { device }, sizes);
    const templates = c.result.after.kernels.map((k) => k.template);
    assert.deepEqual(templates, ['stream'], source);
  }

  const lengths: Dims[] = [
    { S: 1, T: 1 },
    { S: 1, T: 33 },
    { S: 2, T: 64 },
    { S: 37, T: 3 },
    { S: 16, T: 129 },
  ];
  const same: Dims[] = [{ S: 1 }, { S: 2 }, { S: 31 }, { S: 64 }, { S: 97 }];
  const cases: Record<string, { source: string; sizes: readonly Dims[] }> = {
    attention: {
      source: `${QKV(2, 16)}y = scaled_dot_product_attention(q, k, v)\noutput y`,
      sizes: lengths,
    },
    'attention under a causal mask': {
      source: `${SELF(2, 8)}y = scaled_dot_product_attention(q, k, v, is_causal=true)\noutput y`,
      sizes: same,
    },
    'attention under a mask that may hide all keys': {
      source: `${QKV(2, 8)}input m: bool[S, T]\ny = scaled_dot_product_attention(q, k, v, m)\noutput y`,
      sizes: lengths,
    },
    'attention with a bias, the scores scaled before': {
      source: `${QKV(1, 8, 24)}input m: f32[S, T]\ny = softmax((q * 0.3) @ transpose(k, 2, 3) + m, axis=-1) @ v\noutput y`,
      sizes: lengths,
    },
    'attention written out with exp, sum and division': {
      source: `${QKV(2, 8)}s = q @ transpose(k, 2, 3) / 3.0\ne = exp(s - amax(s, axis=-1, keepdim=true))\ny = (e / sum(e, axis=-1, keepdim=true)) @ v\noutput y`,
      sizes: lengths,
    },
    'attention, divided after the product': {
      source: `${QKV(2, 8)}s = q @ transpose(k, 2, 3)\ne = exp((s - amax(s, axis=-1, keepdim=true)) * 0.25)\ny = e @ v / sum(e, axis=-1, keepdim=true)\noutput y`,
      sizes: lengths,
    },
    'attention of grouped heads': {
      source:
        'dim S = 20\ndim T = 50\ninput q: f32[2, 6, S, 8]\ninput k: f32[2, 2, T, 8]\ninput v: f32[2, 2, T, 8]\ny = scaled_dot_product_attention(q, k, v, enable_gqa=true)\noutput y',
      sizes: lengths,
    },
    'attention of packed heads, and what comes after': {
      source:
        'dim B = 2\ndim S = 40\ninput x: f32[B, S, 48]\nparam g: f32[16]\nq, k, v = split(x, 16, axis=-1)\nq4 = permute(reshape(q, [B, S, 2, 8]), [0, 2, 1, 3])\nk4 = permute(reshape(k, [B, S, 2, 8]), [0, 2, 3, 1])\nv4 = permute(reshape(v, [B, S, 2, 8]), [0, 2, 1, 3])\na = softmax(q4 @ k4 * 0.3, axis=-1) @ v4\ny = relu(reshape(permute(a, [0, 2, 1, 3]), [B, S, 16])) * g\noutput y',
      sizes: [{ S: 1, B: 1 }, { S: 35, B: 3 }, { S: 64 }],
    },
    'attention, its rows joined with the batch': {
      source: `${SELF(3, 8)}y = relu(reshape(scaled_dot_product_attention(q, k, v), [6 * S, 8])) + 1.0\noutput y`,
      sizes: same,
    },
    'soft capped scores': {
      source: `${SELF(2, 8)}s = tanh(q @ transpose(k, 2, 3) / 5.0) * 5.0\ny = softmax(s, axis=-1) @ v\noutput y`,
      sizes: same,
    },
    'scores that fall with the distance': {
      source: `${SELF(2, 8)}param slope: f32[2, 1, 1]\ni = reshape(arange(0, S), [S, 1])\nj = reshape(arange(0, S), [1, S])\ns = q @ transpose(k, 2, 3) * 0.3 + slope * cast(j - i, f32)\ny = softmax(s, axis=-1) @ v\noutput y`,
      sizes: same,
    },
    'a window of keys': {
      source: `${SELF(1, 8)}i = reshape(arange(0, S), [S, 1])\nj = reshape(arange(0, S), [1, S])\nnear = logical_and(i >= j, i - j < 9)\ny = softmax(where(near, q @ transpose(k, 2, 3), -inf), axis=-1) @ v\noutput y`,
      sizes: same,
    },
    'a window that some rows see no key in': {
      source: `${SELF(1, 8)}i = reshape(arange(0, S), [S, 1])\nj = reshape(arange(0, S), [1, S])\nfar = i - j > 40\ny = softmax(where(far, q @ transpose(k, 2, 3), -inf), axis=-1) @ v\noutput y`,
      sizes: same,
    },
    'weights that are masked after the softmax': {
      source: `${QKV(1, 8)}input m: bool[S, T]\np = softmax(q @ transpose(k, 2, 3), axis=-1)\ny = where(m, p, 0.0) @ v\noutput y`,
      sizes: lengths,
    },
    'the logarithm of a sum of exponentials of scores': {
      source:
        'dim V = 70\ninput x: f32[9, 24]\nparam w: f32[24, V]\ny = logsumexp(x @ w, axis=-1)\noutput y',
      sizes: [{ V: 1 }, { V: 5 }, { V: 333 }],
    },
    'the logarithm of a sum of exponentials of large scores': {
      source:
        'dim V = 70\ninput x: f32[9, 24]\nparam w: f32[24, V]\ny = logsumexp(x @ w * 400.0 - 3000.0, axis=-1)\noutput y',
      sizes: [{ V: 1 }, { V: 5 }, { V: 333 }],
    },
    'a softmax with a product, and the sum of its own weights': {
      source:
        'dim N = 70\ninput x: f32[9, N]\ninput v: f32[N, 12]\nm = amax(x, axis=-1, keepdim=true)\ne = exp(x - m)\nl = sum(e, axis=-1, keepdim=true)\ny = e @ v / l\noutput y, l, m',
      sizes: [{ N: 1 }, { N: 5 }, { N: 333 }],
    },
    'a softmin with a product': {
      source:
        'dim N = 70\ninput x: f32[9, N]\ninput v: f32[N, 12]\ne = exp(amin(x, axis=-1, keepdim=true) - x)\ny = (e / sum(e, axis=-1, keepdim=true)) @ v\noutput y',
      sizes: [{ N: 1 }, { N: 5 }, { N: 333 }],
    },
    'large scores, the largest last': {
      source:
        'dim N = 70\ninput x: f32[9, N]\ninput v: f32[N, 12]\nc = reshape(cast(arange(0, N), f32), [1, N])\ny = softmax(x + c * 40.0 - 9000.0, axis=-1) @ v\noutput y',
      sizes: [{ N: 1 }, { N: 70 }, { N: 333 }],
    },
    'long rows of known length': {
      source:
        'input q: f32[3, 16]\ninput k: f32[5000, 16]\ninput v: f32[5000, 16]\ny = softmax(q @ transpose(k), axis=-1) @ v\noutput y',
      sizes: [{}],
    },
    'attention in half precision': {
      source: `${SELF(2, 8).replaceAll('f32', 'f16')}y = softmax(q @ transpose(k, 2, 3) / 3.0, axis=-1) @ v\noutput y`,
      sizes: same,
    },
    'heads of 128': {
      source: `${SELF(1, 128)}y = scaled_dot_product_attention(q, k, v, is_causal=true)\noutput y`,
      sizes: [{ S: 1 }, { S: 45 }],
    },
    'heads of 256': {
      source: `${SELF(1, 256)}y = scaled_dot_product_attention(q, k, v)\noutput y`,
      sizes: [{ S: 19 }],
    },
  };
  for (const [name, { source, sizes }] of Object.entries(cases))
    it(name, () => streams(source, sizes));

  const rows: Record<string, string> = {
    'a softmax': 'y = softmax(x, axis=-1)\noutput y',
    'a softmax of large numbers': 'y = softmax(x * 900.0 + 7000.0, axis=-1)\noutput y',
    'a logarithm of a softmax': 'y = log_softmax(x * 3.0, axis=-1)\noutput y',
    'logarithms of sums of exponentials, and sums beside them':
      'y = logsumexp(x * 300.0, axis=-1)\nz = sum(x * x, axis=-1)\nw = amax(x, axis=-1)\noutput y, z, w',
    'a softmax of which masks leave some rows nothing':
      'input m: bool[5, 1]\ny = softmax(where(m, x, -inf), axis=-1)\noutput y',
    'the expectation of a softmax':
      'p = softmax(x * 4.0, axis=-1)\ny = sum(p * x, axis=-1)\nz = sum(p, axis=-1)\noutput y, z',
    'a layer norm': 'y = layer_norm(x, axis=-1)\noutput y',
    'a softmin, and where it is greatest':
      'e = exp(amin(x, axis=-1, keepdim=true) - x)\ny = e / sum(e, axis=-1, keepdim=true)\nz = argmax(x, axis=-1)\noutput y, z',
  };
  for (const [name, source] of Object.entries(rows)) {
    it(`${name} along rows of any length`, async () => {
      const c = await agrees(`dim N = 9000\ninput x: f32[5, N]\n${source}`, {}, [
        { N: 1 },
        { N: 3 },
        { N: 257 },
        { N: 4096 },
        { N: 9001 },
      ]);
      assert.deepEqual(
        c.result.after.kernels.map((k) => k.template),
        ['row'],
        source,
      );
    });
  }

  it('random attention', async () => {
    const random = randomNumbers(77);
    const pick = <T>(list: readonly T[]): T => {
      const x = list[Math.floor(random() * list.length)];
      if (x === undefined) throw new Error('nothing to pick from');
      return x;
    };
    for (let i = 0; i < 12; i++) {
      const [h, d, dv] = [pick([1, 2, 3]), pick([2, 5, 8, 16]), pick([1, 3, 8, 20])];
      const lines = [
        `dim S = ${pick([3, 20, 64])}`,
        `dim T = ${pick([9, 40, 65])}`,
        `input q: f32[${h}, S, ${d}]`,
        `input k: f32[${h}, T, ${d}]`,
        `input v: f32[${h}, T, ${dv}]`,
        `input b: f32[${pick(['S', '1'])}, T]`,
        `s0 = ${pick(['q', '(q * 0.4)'])} @ transpose(k, 1, 2)`,
        `s1 = ${pick(['s0', 's0 / 2.5', 'tanh(s0) * 3.0', 's0 + b'])}`,
        `s2 = ${pick(['s1', 's1 + b', 'where(b > 0.0, s1, -1000.0)', 'maximum(s1, -0.5)'])}`,
        `p = softmax(s2, axis=-1)`,
        `o = ${pick(['p', 'p * 2.0', 'where(b > -0.5, p, 0.0)'])} @ v`,
        `y = ${pick(['o', 'relu(o)', 'o + 1.0', 'transpose(o, 0, 1)'])}`,
        'output y',
      ];
      const sizes = Array.from({ length: 2 }, () => ({
        S: 1 + Math.floor(random() * 40),
        T: 1 + Math.floor(random() * 140),
      }));
      await streams(lines.join('\n'), sizes);
    }
  });
});
