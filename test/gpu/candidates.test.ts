// Every candidate of a kernel's parameter space computes what the kernel computes: whatever the tuner
// picks, the results stay right. And one that doesn't is found out before it is timed.

import assert from 'node:assert/strict';
import path from 'node:path';
import { compile } from '../../compiler';
import { deviceForAdapter } from '../../runner/core/deviceProfile';
import type { RunnerFault, TrialJob, TrialResult } from '../../runner/core';
import { createNodeRunner, type NodeRunner } from '../../runner/node';
import type { DeviceProfile } from '../../compiler/result';
import { randomProgram } from './programs';
import { dispatch, ENDLESS, NEVER } from './runnerPlans';

const runner: NodeRunner = createNodeRunner({ childPath: path.resolve('dist/runnerChild.mjs') });
const quiet = (): void => undefined;
let device: DeviceProfile;

/** One trial a kernel, with up to `most` of its candidates spread over the space. */
function trialsOf(source: string, most: number): { jobs: TrialJob[]; wanted: number } {
  const c = compile({ file: 'test.fuse', bytes: new TextEncoder().encode(source) }, { device });
  assert.ok(c.result.runnable.ok, source);
  const jobs: TrialJob[] = [];
  let wanted = 0;
  for (const k of c.result.after.kernels) {
    const all = (c.space(k.id)?.candidates ?? []).filter((x) => x.refused === undefined);
    const step = Math.max(1, all.length / most);
    const picked = all.filter((_, i) => Math.floor(i / step) !== Math.floor((i - 1) / step));
    if (picked.length === 0) continue;
    wanted += picked.length;
    const { program, exec } = c.part([{ id: k.id }]);
    jobs.push({
      program,
      base: exec,
      candidates: picked.map(({ settings }) => ({
        id: JSON.stringify(settings),
        exec: c.part([{ id: k.id, settings }]).exec,
      })),
      // All are checked, however long that takes; none is timed more than once.
      options: { seconds: 600, iterations: 1, seed: 5 },
    });
  }
  return { jobs, wanted };
}

async function trial(job: TrialJob): Promise<TrialResult | RunnerFault> {
  const reply = await runner.trial(job, quiet, NEVER);
  return reply.ok ? reply.value : reply.fault;
}

async function allAgree(source: string, most: number): Promise<number> {
  const { jobs, wanted } = trialsOf(source, most);
  let timed = 0;
  for (const job of jobs) {
    const r = await trial(job);
    if (!('base' in r)) assert.fail(`${JSON.stringify(r)}\n${source}`);
    const wrong = r.candidates.filter((c) => !c.ok);
    assert.deepEqual(wrong, [], source);
    timed += r.candidates.length;
  }
  assert.equal(timed, wanted);
  return timed;
}

describe('candidates', function () {
  this.timeout(600_000);
  before(async () => {
    const reply = await runner.adapter();
    assert.ok(reply.ok);
    device = deviceForAdapter(reply.value, undefined);
  });
  after(() => runner.dispose());

  const programs: Record<string, string> = {
    'a chain of odd size': 'input x: f32[3, 17, 11]\ny = exp(tanh(x) * 2.0)\noutput y',
    'a product with odd sizes':
      'input x: f32[33, 65]\nparam w: f32[65, 31]\nparam b: f32[31]\ny = gelu(x @ w + b)\noutput y',
    'a long softmax': 'input x: f32[5, 1003]\ny = softmax(x, axis=-1)\noutput y',
    'many short rows':
      'input x: f32[301, 7]\nparam g: f32[7]\ny = layer_norm(x, axis=-1) * g\noutput y',
    'a convolution':
      'input x: f32[1, 3, 13, 11]\nparam w: f32[5, 3, 3, 3]\ny = relu(conv2d(x, w, padding=1))\noutput y',
    attention:
      'input q: f32[2, 19, 8]\ninput k: f32[2, 23, 8]\ninput v: f32[2, 23, 8]\ny = scaled_dot_product_attention(q, k, v)\noutput y',
    'positions of the greatest': 'input x: f32[9, 50]\ny = argmax(x, axis=1)\noutput y',
    'a symbolic size': 'dim B = 13\ninput x: f32[B, 40]\ny = softmax(relu(x), axis=-1)\noutput y',
    'one element': 'input x: f32[1]\ny = relu(x) + 1.0\noutput y',
    'an empty tensor': 'input x: f32[0, 4]\ny = relu(x) + 1.0\noutput y',
  };
  for (const [name, source] of Object.entries(programs))
    it(`of ${name} compute the same`, async () => {
      await allAgree(source, 10);
    });

  it('of random programs compute the same', async () => {
    let timed = 0;
    for (let i = 0; i < 24; i++) timed += await allAgree(randomProgram(7919 * i), 4);
    assert.ok(timed > 50, `${timed} candidates`);
  });

  const chain = 'input x: f32[64, 64]\ny = exp(x) * 2.0\noutput y';

  it('that compute something else are not timed, and told apart from those that do', async () => {
    const { jobs } = trialsOf(chain, 2);
    const [job] = jobs;
    assert.ok(job && job.candidates.length === 2);
    const [good, other] = job.candidates;
    assert.ok(good && other);
    const changed = (from: string | RegExp, to: string) => ({
      ...other.exec,
      dispatches: other.exec.dispatches.map((d) => {
        const wgsl = d.wgsl.replace(from, to);
        assert.notEqual(wgsl, d.wgsl);
        return { ...d, wgsl };
      }),
    });
    const r = await trial({
      ...job,
      candidates: [
        good,
        { id: 'wrong', exec: changed(/exp\(/, 'sqrt(') },
        { id: 'broken', exec: changed('fn main', 'fn main main') },
        {
          id: 'lazy',
          exec: {
            ...other.exec,
            dispatches: other.exec.dispatches.map((d) => ({ ...d, workgroups: [1, 1, 1] })),
          },
        },
      ],
    });
    assert.ok('base' in r, JSON.stringify(r));
    const [first, wrong, broken, lazy] = r.candidates;
    assert.ok(first?.ok && first.time.medianUs >= 0);
    assert.ok(wrong && !wrong.ok && /y differs from the default kernel/.test(wrong.reason));
    assert.ok(broken && !broken.ok && /SHADER_ERROR/.test(broken.reason));
    assert.ok(lazy && !lazy.ok && /unwritten/.test(lazy.reason), JSON.stringify(lazy));
  });

  it('that hang are named', async () => {
    const hasty = createNodeRunner({
      childPath: path.resolve('dist/runnerChild.mjs'),
      watchdogMs: 3000,
    });
    try {
      const [job] = trialsOf(chain, 1).jobs;
      assert.ok(job);
      const [first] = job.base.dispatches;
      assert.ok(first);
      const [output] = job.base.outputs;
      const endless = dispatch('k0', ENDLESS, [], [output?.buffer ?? ''], [1, 1, 1]);
      const hangs = { id: 'hangs', exec: { ...job.base, dispatches: [endless] } };
      const reply = await hasty.trial({ ...job, candidates: [hangs] }, quiet, NEVER);
      assert.ok(!reply.ok);
      assert.equal(reply.fault.code, 'HUNG');
      assert.equal(reply.fault.kernel, 'hangs');
    } finally {
      hasty.dispose();
    }
  });
});
