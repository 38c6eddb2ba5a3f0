/**
 * What is computed at load: each prepared value, and every result of the runs that read it, against the
 * reference, which knows nothing of loading or folding.
 */
import assert from 'node:assert/strict';
import path from 'node:path';
import { compile } from '../../compiler';
import { planForRun } from '../../runner/core/planForRun';
import { createNodeRunner } from '../../runner/node';
import { agreement } from './agreement';

const NORM = `param mean: f32[C]
param var: f32[C]
param gamma: f32[C]
param beta: f32[C]`;
const norm = (c: number): string => NORM.replaceAll('[C]', `[${c}]`);

describe('weights at load', function () {
  this.timeout(300_000);
  const agrees = agreement();

  /** Source, and how many tensors its one kernel reads in a run. */
  const cases: Record<string, readonly [string, number]> = {
    'a batch norm behind a convolution with a bias': [
      `input x: f32[2, 8, 9, 9]\nparam w: f32[12, 8, 3, 3]\nparam b: f32[12]\n${norm(12)}
y = relu(batch_norm(conv2d(x, w, b, padding=1), mean, var, gamma, beta))\noutput y`,
      3,
    ],
    'behind a grouped convolution': [
      `input x: f32[2, 8, 9, 9]\nparam w: f32[12, 4, 3, 3]\n${norm(12)}
y = batch_norm(conv2d(x, w, groups=2, stride=2), mean, var, gamma, beta)\noutput y`,
      3,
    ],
    'behind a depthwise convolution, and a residual': [
      `input x: f32[2, 12, 9, 9]\nparam w: f32[12, 1, 3, 3]\n${norm(12)}
y = relu(batch_norm(conv2d(x, w, groups=12, padding=1), mean, var, gamma, beta) + x)\noutput y`,
      3,
    ],
    'behind a transposed convolution': [
      `input x: f32[2, 8, 7, 7]\nparam w: f32[8, 12, 3, 3]\n${norm(12)}
y = batch_norm(conv_transpose2d(x, w, stride=2), mean, var, gamma, beta)\noutput y`,
      3,
    ],
    'behind a convolution along one dim': [
      `input x: f32[2, 8, 33]\nparam w: f32[12, 8, 3]\n${norm(12)}
y = batch_norm(conv1d(x, w), mean, var, gamma, beta)\noutput y`,
      3,
    ],
    'before anything': [
      `input x: f32[2, 12, 9, 9]\n${norm(12)}
y = batch_norm(relu(x), mean, var, gamma, beta)\noutput y`,
      3,
    ],
    'a scale and a shift behind a linear layer': [
      `input x: f32[17, 32]\nparam w: f32[24, 32]\nparam b: f32[24]\nparam s: f32[24]\nparam t: f32[24]
y = gelu(linear(x, w, b) * s - t)\noutput y`,
      3,
    ],
    'a division and a sign behind a product': [
      `input x: f32[17, 32]\nparam w: f32[32, 24]\nparam s: f32[24]\nparam t: f32[24]
y = t - (x @ w) / (s * s + 1.0)\noutput y`,
      3,
    ],
    'normed weights': [
      `input x: f32[17, 32]\nparam v: f32[24, 32]\nparam g: f32[24, 1]
w = v * g / sqrt(sum(v * v, axis=1, keepdim=true))\ny = linear(x, w)\noutput y`,
      2,
    ],
    'weights of eight bits': [
      `input x: f32[17, 32]\nparam q: i8[32, 24]\nparam s: f32[24]
y = x @ (cast(q, f32) * s)\noutput y`,
      2,
    ],
    'products of weights': [
      `input x: f32[17, 32]\nparam a: f32[32, 40]\nparam b: f32[40, 16]\ny = x @ (a @ b)\noutput y`,
      2,
    ],
    'rows picked by constant numbers, joined': [
      `input x: f32[4, 8]\nparam t: f32[100, 8]\nparam i: i32[4]
e = concat([embedding(i, t), embedding(i, t * 2.0)], axis=1)\ny = concat([x, x], axis=1) + exp(e)\noutput y`,
      2,
    ],
  };
  for (const [name, [source, inputs]] of Object.entries(cases))
    it(name, async () => {
      const { result } = await agrees(source);
      assert.ok(result.after.prepared);
      assert.deepEqual(
        result.after.kernels.map((k) => k.inputs.length),
        [inputs],
      );
    });

  it('are verified like all others, and run once', async () => {
    const source = cases['a batch norm behind a convolution with a bias']?.[0] ?? '';
    const c = compile({ file: 't.fuse', bytes: new TextEncoder().encode(source) });
    const runner = createNodeRunner({ childPath: path.resolve('dist/runnerChild.mjs') });
    try {
      const reply = await runner.profile(
        {
          fused: planForRun(c, 'fused'),
          unfused: planForRun(c, 'unfused'),
          program: c.reference,
          options: { iterations: 1, seconds: 0.01 },
        },
        () => undefined,
        new AbortController().signal,
      );
      assert.ok(reply.ok);
      const { verification, fused } = reply.value;
      assert.ok(verification.ok);
      const checked = new Set(verification.kernels.map((k) => k.kernel));
      for (const k of c.result.after.prepared ?? assert.fail()) assert.ok(checked.has(k.id), k.id);
      assert.deepEqual(
        fused.kernels.map((k) => k.id),
        c.result.after.kernels.map((k) => k.id),
      );
    } finally {
      runner.dispose();
    }
  });
});
