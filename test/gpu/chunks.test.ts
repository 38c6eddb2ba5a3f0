/**
 * Kernels whose buffers are over the limit on bindings, in chunks, against the reference. The limits
 * are set far below the adapter's, so that small tensors are too large.
 */
import assert from 'node:assert/strict';
import { compile, type Compilation } from '../../compiler';
import { DEFAULT_DEVICE } from '../../compiler/fusion/devices';
import type { DeviceProfile } from '../../compiler/result';
import { agreementAt } from './agreement';
import { randomNumbers, randomProgram } from './programs';
import { wideProgram } from './widePrograms';

const within = (bytes: number, buffers = 10): DeviceProfile => ({
  ...DEFAULT_DEVICE,
  limits: {
    ...DEFAULT_DEVICE.limits,
    maxStorageBufferBindingSize: bytes,
    maxStorageBuffersPerShaderStage: buffers,
  },
});

/** Programs with a limit, how many kernels there are, and whether some window comes in pieces. */
const CASES: Readonly<
  Record<string, { source: string; limit: number; kernels?: number; pieces?: boolean }>
> = {
  'a pointwise chain of odd size': {
    source: 'input x: f32[7, 1003]\nparam b: f32[1003]\ny = relu(x + b)\noutput y',
    limit: 8192,
    kernels: 1,
  },
  'rows, and what follows them': {
    source: 'input x: f32[301, 77]\nparam g: f32[77]\ny = layer_norm(x, axis=-1) * g\noutput y',
    limit: 16384,
    kernels: 1,
  },
  'many short rows in a workgroup': {
    source: 'input x: f32[5000, 3]\ny = softmax(x, axis=-1)\noutput y',
    limit: 10000,
    kernels: 1,
  },
  'running sums along rows': {
    source: 'input x: f32[130, 300]\ny = cumsum(x, axis=1) * 2.0\noutput y',
    limit: 16384,
    kernels: 1,
    pieces: true,
  },
  'running sums across memory': {
    source: 'input x: f32[90, 130]\ny = cumsum(x, axis=0)\noutput y',
    limit: 16384,
    kernels: 1,
    pieces: true,
  },
  'a product, by the rows of its first operand': {
    source:
      'input x: f32[211, 64]\nparam w: f32[64, 40]\nparam b: f32[40]\ny = gelu(x @ w + b)\noutput y',
    limit: 16384,
    kernels: 1,
  },
  'a product with a large second operand': {
    source: 'input x: f32[9, 96]\nparam w: f32[96, 64]\ny = x @ w\noutput y',
    limit: 8192,
    kernels: 1,
    pieces: true,
  },
  'a batch of convolutions': {
    source:
      'input x: f32[6, 3, 16, 16]\nparam w: f32[5, 3, 3, 3]\ny = relu(conv2d(x, w, padding=1))\noutput y',
    limit: 8192,
  },
  'a transpose: what is read lies across': {
    source: 'input x: f32[60, 70]\ny = transpose(x, 0, 1) * 2.0\noutput y',
    limit: 8192,
    kernels: 1,
    pieces: true,
  },
  'a table that is looked up in': {
    source:
      'input ids: i32[50]\nparam table: f32[300, 33]\ny = embedding(ids, table) * 2.0\noutput y',
    limit: 16384,
    kernels: 1,
    pieces: true,
  },
  'attention in tiles': {
    source:
      'input q: f32[2, 3, 40, 16]\ninput k: f32[2, 3, 75, 16]\ninput v: f32[2, 3, 75, 16]\ny = scaled_dot_product_attention(q, k, v)\noutput y',
    limit: 16384,
  },
  'a long sum in two dispatches': {
    source: 'input x: f32[200003]\na = sum(x)\nb = amax(x)\noutput a, b',
    limit: 1 << 18,
  },
  'results of two shapes': {
    source:
      'input x: f32[300, 65]\ne = exp(x)\ns = sum(e, axis=1)\nt = transpose(e, 0, 1)\noutput e, s, t',
    limit: 32768,
  },
  'slices of a concatenation': {
    source:
      'input a: f32[400, 70]\ninput b: f32[400, 33]\ns = softmax(a, axis=-1)\ny = cat([layer_norm(b, axis=-1), s], axis=1)\nz = sum(s, axis=0)\noutput y, z',
    limit: 65536,
  },
  'rows read backwards': {
    source: 'input x: f32[500, 20]\ny = flip(x, [0]) + 1.0\noutput y',
    limit: 8192,
    kernels: 1,
  },
};

describe('kernels over the limit on bindings', function () {
  this.timeout(600_000);
  const agrees = agreementAt();

  const chunked = (c: Compilation): number =>
    c.execPlan('fused').dispatches.filter((d) => d.chunk).length;
  const keeps = (c: Compilation, { limits }: DeviceProfile, source: string): void => {
    for (const which of ['fused', 'unfused'] as const) {
      const plan = c.execPlan(which);
      const bytes = new Map(plan.buffers.map((b) => [b.id, b.bytes]));
      for (const d of plan.dispatches) {
        assert.ok(d.bindings.length <= limits.maxStorageBuffersPerShaderStage, source);
        for (const b of d.bindings) {
          const bound = b.window?.bytes ?? bytes.get(b.buffer) ?? 0;
          assert.ok(bound <= limits.maxStorageBufferBindingSize, `${b.buffer}\n${source}`);
        }
      }
    }
  };

  for (const [name, { source, limit, kernels, pieces = false }] of Object.entries(CASES))
    it(name, async () => {
      const device = within(limit);
      const c = await agrees(source, { device }, [{}]);
      keeps(c, device, source);
      const { dispatches } = c.execPlan('fused');
      assert.ok(chunked(c) > 0);
      if (kernels !== undefined) assert.equal(c.result.after.kernels.length, kernels);
      const split = dispatches.some(
        (d) => new Set(d.bindings.map((b) => b.buffer)).size < d.bindings.length,
      );
      if (kernels !== undefined) assert.equal(split, pieces);
    });

  it('of symbolic sizes: as many chunks as each size takes', async () => {
    const source = 'dim N = 100\ninput x: f32[N, 65]\ny = softmax(x, axis=-1)\noutput y';
    const device = within(8192);
    const c = await agrees(source, { device }, [{ N: 1 }, { N: 100 }, { N: 333 }]);
    assert.ok(
      c.execPlan('fused', { N: 333 }).dispatches.length > c.execPlan('fused').dispatches.length,
    );
    assert.equal(c.execPlan('fused', { N: 1 }).dispatches.length, 1);
  });

  it('on random programs, with limits drawn at random', async () => {
    const random = randomNumbers(77);
    let seen = 0;
    for (let i = 0; i < 60; i++) {
      const source = i % 3 === 2 ? wideProgram(300 + i) : randomProgram(5000 + i);
      const device = within(256 << Math.floor(random() * 5), 8 + Math.floor(random() * 5));
      const bytes = new TextEncoder().encode(source);
      const first = compile({ file: 'test.fuse', bytes }, { device });
      // What no limit of this kind lets a kernel do is said as such.
      if (first.result.diagnostics.some((d) => d.code === 'NO_KERNEL')) continue;
      const c = await agrees(source, { device }, [{}]);
      keeps(c, device, source);
      seen += chunked(c);
    }
    assert.ok(seen > 40, `${seen} chunks`);
  });
});
