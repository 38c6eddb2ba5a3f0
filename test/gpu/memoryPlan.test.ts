/**
 * Plans whose intermediates share memory: bit for bit the results of the same plan with a buffer for
 * each, and verification as complete as without.
 */
import assert from 'node:assert/strict';
import path from 'node:path';
import { compile } from '../../compiler';
import { binary, constant, load } from '../../compiler/ir/expr';
import type { ExecPlan } from '../../compiler/result';
import type { RunOutput } from '../../runner/core';
import { createNodeRunner, type NodeRunner } from '../../runner/node';
import { randomProgram } from './programs';
import { Builder } from '../unit/reference/programs';
import { dispatch, f32, N, NEVER, planOf } from './runnerPlans';

/** The same plan with memory of its own for every buffer. */
const apart = (plan: ExecPlan): ExecPlan => ({
  ...plan,
  buffers: plan.buffers.map(({ place: _, ...b }) => b),
});

const words = (o: RunOutput): Uint8Array =>
  new Uint8Array(o.data.buffer, o.data.byteOffset, o.data.byteLength);

describe('memory shared between intermediates, on the GPU', function () {
  this.timeout(300_000);
  let runner: NodeRunner;
  before(() => {
    runner = createNodeRunner({ childPath: path.resolve('dist/runnerChild.mjs') });
  });
  after(() => runner.dispose());

  const run = async (exec: ExecPlan): Promise<readonly RunOutput[]> => {
    const reply = await runner.run(
      { exec, inputs: [], options: { seed: 5 } },
      () => undefined,
      NEVER,
    );
    if (!reply.ok) assert.fail(JSON.stringify(reply.fault));
    return reply.value;
  };

  it('changes no bit of any output, over random programs', async () => {
    let shared = 0;
    for (let seed = 2000; seed < 2120; seed++) {
      const source = randomProgram(seed);
      const c = compile({ file: 'test.fuse', bytes: new TextEncoder().encode(source) });
      // Op by op there is the most to share.
      const plan = c.execPlan('unfused');
      const places = plan.buffers.flatMap((b) => (b.place === undefined ? [] : [b.place]));
      if (new Set(places).size === places.length) continue;
      shared++;
      const together = await run(plan);
      const alone = await run(apart(plan));
      assert.deepEqual(together.map(words), alone.map(words), source);
    }
    assert.ok(shared > 15, `only ${shared} programs share anything`);
  });

  it('finds elements that a kernel left unwritten where another’s results lay before', async () => {
    const times = (factor: string, n: number): string => `
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x < ${n}u) { y[id.x] = ${factor} * x[id.x]; }
}`;
    const exec = (last: number): ExecPlan => ({
      buffers: [
        f32('x', [N], 'input'),
        f32('v0', [N], 'intermediate', { place: 0 }),
        f32('v1', [N], 'intermediate', { place: 1 }),
        f32('v2', [N], 'intermediate', { place: 0 }),
        f32('v3', [N], 'output'),
      ],
      dispatches: [
        dispatch('k0', times('2.0', N), ['x'], ['v0'], [16, 1, 1]),
        dispatch('k1', times('0.5', N), ['v0'], ['v1'], [16, 1, 1]),
        // v2 = 2 v1 = 2 x, which is what lay in the place when v0 did.
        dispatch('k2', times('2.0', last), ['v1'], ['v2'], [16, 1, 1]),
        dispatch('k3', times('1.0', N), ['v2'], ['v3'], [16, 1, 1]),
      ],
      outputs: [{ name: 'y', buffer: 'v3', shape: [N] }],
    });
    const b = new Builder();
    b.input('x', [N]);
    for (const [from, factor] of [
      ['x', 2],
      ['v0', 0.5],
      ['v1', 2],
      ['v2', 1],
    ] as const)
      b.compute([N], (d) => binary('mul', load(from, d, 'f32'), constant(factor, 'f32')));
    const program = b.program();
    const wrong = async (last: number): Promise<string[]> => {
      const reply = await runner.profile(
        {
          fused: planOf(exec(last)),
          unfused: planOf(apart(exec(N))),
          program,
          options: { seconds: 0.1 },
        },
        () => undefined,
        NEVER,
      );
      if (!reply.ok) assert.fail(JSON.stringify(reply.fault));
      return reply.value.verification.kernels.filter((k) => !k.ok).map((k) => k.kernel);
    };
    assert.deepEqual(await wrong(N), []);
    assert.ok((await wrong(N - 3)).includes('k2'));
  });
});
