/**
 * Half precision in memory, over all templates, against the reference: on adapters that have
 * shader-f16. Two bytes an element are stored, and f32 is what is computed in.
 */
import assert from 'node:assert/strict';
import path from 'node:path';
import { DEFAULT_DEVICE, DEFAULT_LIMITS } from '../../compiler/fusion/devices';
import { deviceForAdapter } from '../../runner/core/deviceProfile';
import { createNodeRunner } from '../../runner/node';
import type { DeviceProfile } from '../../compiler/result';
import { agreementAt } from './agreement';
import { randomProgram } from './programs';
import { wideProgram } from './widePrograms';

/** Plans as for a graphics card, whatever runs them: trees and tiles in workgroup memory among them. */
const CARD: DeviceProfile = { ...DEFAULT_DEVICE, limits: { ...DEFAULT_LIMITS, f16: true } };
const EAGER: DeviceProfile = { ...CARD, launchUs: 1000 };

/** With the template of each kernel of the fused plan. */
const CASES: Readonly<
  Record<string, { source: string; templates: readonly string[]; device?: DeviceProfile }>
> = {
  'a chain of pointwise ops, in vectors': {
    source: 'input x: f16[64, 128]\ninput y: f16[128]\nz = gelu(x * 2.0 + y)\noutput z',
    templates: ['loop'],
  },
  'a chain of odd size': {
    source: 'input x: f16[7, 3, 11]\nz = exp(tanh(x)) - 0.5\noutput z',
    templates: ['loop'],
  },
  'one element': { source: 'input x: f16[1]\ny = x * 3.0\noutput y', templates: ['loop'] },
  'an empty tensor': {
    source: 'input x: f16[0, 4]\ny = relu(x) + 1.0\noutput y',
    templates: ['loop'],
  },
  'rows in registers': {
    source:
      'input x: f16[33, 256]\nparam g: f16[256]\nparam b: f16[256]\ny = layer_norm(x, axis=-1) * g + b\noutput y',
    templates: ['row'],
  },
  'rows of odd length': {
    source: 'input x: f16[9, 1003]\ny = softmax(x * 3.0, axis=-1)\noutput y',
    templates: ['row'],
  },
  'rows across memory': {
    source: 'input x: f16[60, 301, 101]\ny = softmax(x, axis=1)\noutput y',
    templates: ['row'],
  },
  'positions of the greatest': {
    source: 'input x: f16[9, 50]\ny = argmax(x, axis=1)\noutput y',
    templates: ['row'],
  },
  'attention in tiles': {
    source:
      'input q: f16[2, 3, 40, 16]\ninput k: f16[2, 3, 75, 16]\ninput v: f16[2, 3, 75, 16]\ny = scaled_dot_product_attention(q, k, v)\noutput y',
    templates: ['stream'],
    device: EAGER,
  },
  'a product with odd sizes and an epilogue': {
    source:
      'input x: f16[33, 65]\nparam w: f16[65, 31]\nparam b: f16[31]\ny = gelu(x @ w + b)\noutput y',
    templates: ['contraction'],
  },
  'a product in vectors with a prologue': {
    source: 'input x: f16[64, 128]\nparam w: f16[128, 64]\ny = relu(relu(x) @ w)\noutput y',
    templates: ['contraction'],
  },
  'a padded convolution': {
    source:
      'input x: f16[2, 6, 11, 9]\nparam w: f16[4, 3, 3, 2]\nparam b: f16[4]\ny = relu(conv2d(x, w, b, stride=[2, 1], padding=[2, 1], groups=2))\noutput y',
    templates: ['row'],
  },
  'a sum over everything, of more than half precision could count': {
    source: 'input x: f16[200003]\na = sum(x * x)\nb = mean(abs(x))\noutput a, b',
    templates: ['split'],
  },
  'kernels on one grid': {
    source: 'input a: f16[33]\ninput b: i8[70]\nx = a * 2.0\ny = b + b\noutput x, y',
    templates: ['horizontal'],
  },
  'slices of a concatenation, of odd lengths': {
    source: `input x: f16[1, 5, 7, 5]
param w1: f16[3, 5, 3, 3]
param w2: f16[2, 8, 3, 3]
a = cat([x, relu(conv2d(x, w1, padding=1))], axis=1)
b = cat([a, relu(conv2d(a, w2, padding=1))], axis=1)
output b`,
    templates: ['contraction', 'loop', 'contraction'],
  },
  'a gather': {
    source:
      'input ids: i32[7]\nparam table: f16[5, 33]\ny = layer_norm(embedding(ids, table), axis=-1)\noutput y',
    templates: ['row'],
  },
  'casts both ways, the narrowing ones kept': {
    source:
      'input x: f32[100, 3]\nh = cast(x * 1.7, dtype=f16)\nt = cast(h, dtype=f32)\ny = x * 1.7 - t\nz = cast(h * 100.0, dtype=i32)\noutput h, t, z',
    templates: ['loop'],
  },
  'what is beyond the greatest': {
    source:
      'input x: f16[64]\na = exp(abs(x) * 100.0 + 20.0)\nb = cast(full([3], 1e9, dtype=f32), dtype=f16)\nc = where(x > 0.0, x, -inf)\nd = full([5], 123456.0, dtype=f16)\noutput a, b, c, d',
    templates: ['horizontal'],
  },
  'an f32 product of f16 weights': {
    source: 'input x: f32[9, 64]\nparam w: f16[64, 32]\ny = x @ cast(w, dtype=f32)\noutput y',
    templates: ['contraction'],
  },
};

const LACKING = 'the adapter has no shader-f16';

describe('half precision in memory', function () {
  this.timeout(600_000);
  let device: DeviceProfile;
  let lacking = false;
  before(async () => {
    const runner = createNodeRunner({ childPath: path.resolve('dist/runnerChild.mjs') });
    try {
      const reply = await runner.adapter();
      assert.ok(reply.ok);
      device = deviceForAdapter(reply.value, undefined);
      lacking = !device.limits.f16;
    } finally {
      runner.dispose();
    }
  });
  const agrees = agreementAt();
  const halves = (name: string, f: () => Promise<void>): void => {
    it(name, async function () {
      if (lacking) {
        if (this.test) this.test.title += `: not run, ${LACKING}`;
        this.skip();
      }
      await f();
    });
  };

  for (const [name, { source, templates, device: planned = CARD }] of Object.entries(CASES))
    halves(name, async () => {
      const c = await agrees(source, { device: planned }, [{}]);
      assert.deepEqual(
        c.result.after.kernels.map((k) => k.template),
        templates,
      );
      const f16 = c.execPlan('fused').buffers.filter((b) => b.dtype === 'f16');
      assert.ok(f16.length > 0);
      for (const b of f16) assert.equal(b.storage, 'f16');
      // As the adapter at hand would be given it.
      await agrees(source, { device }, [{}]);
    });

  for (let block = 0; block < 3; block++) {
    halves(`random programs ${block * 20} to ${block * 20 + 19}`, async () => {
      for (let i = 0; i < 20; i++)
        await agrees(
          randomProgram(3000 + block * 20 + i).replaceAll('f32', 'f16'),
          { device: i % 2 ? CARD : device },
          [{}],
        );
    });
  }
  halves('programs of many families of ops', async () => {
    for (let i = 0; i < 25; i++)
      await agrees(wideProgram(100 + i).replaceAll('f32', 'f16'), { device: CARD }, [{}]);
  });

  it('is f32 in memory where the adapter has none, and a diagnostic says so', async () => {
    const source = 'input x: f16[17, 40]\ny = softmax(x * 3.0, axis=-1)\noutput y';
    const c = await agrees(source, { device: DEFAULT_DEVICE }, [{}]);
    const said = c.result.diagnostics.filter((d) => d.code === 'STORAGE_TYPE');
    assert.match(
      said.map((d) => d.message).join(),
      /f16 tensors are stored .* as f32 .*shader-f16/,
    );
    for (const b of c.execPlan('fused').buffers) assert.equal(b.storage, 'f32');
  });
});
