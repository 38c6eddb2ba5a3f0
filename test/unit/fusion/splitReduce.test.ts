/** Long reductions with few results: two dispatches of one kernel. */
import { strict as assert } from 'node:assert';
import { compile } from '../../../compiler';
import { DEFAULT_DEVICE, deviceByName } from '../../../compiler/fusion/devices';
import { verifyExecPlan, verifyKernel } from '../../../compiler/schedule/verifyKernel';

function plan(text: string, name = 'discrete') {
  const c = compile(
    { file: 'a.fuse', bytes: new TextEncoder().encode(text) },
    { device: deviceByName(name) ?? DEFAULT_DEVICE },
  );
  const exec = c.execPlan('fused');
  assert.deepEqual(verifyExecPlan(exec), []);
  for (const k of c.result.after.kernels)
    for (const ir of c.kernelIr(k.id) ?? []) assert.deepEqual(verifyKernel(ir), []);
  return { kernels: c.result.after.kernels, exec };
}

const scratchOf = (exec: ReturnType<typeof plan>['exec']): number[][] =>
  exec.buffers.filter((b) => b.role === 'scratch').map((b) => [...b.shape]);

describe('split reductions', () => {
  it('of all elements: one kernel, two dispatches, with what goes before and after', () => {
    const { kernels, exec } = plan(
      'input x: f32[4096, 1024]\ninput t: f32[4096, 1024]\ny = sqrt(mean((x - t) ** 2))\noutput y\n',
    );
    assert.equal(kernels.length, 1);
    assert.equal(kernels[0]?.template, 'split');
    assert.equal(kernels[0].dispatches, 2);
    assert.equal(exec.dispatches.length, 2);
    const [shape] = scratchOf(exec);
    assert.ok(shape && shape.length === 1 && (shape[0] ?? 0) >= 64);
  });

  it('leave no part short where the parts divide the dim, and guard it where they can’t', () => {
    const { exec } = plan('input x: f32[1000003]\ny = amax(x)\noutput y\n');
    assert.equal(exec.dispatches.length, 2);
    assert.match(exec.dispatches[0]?.wgsl ?? '', /1000003/);
    const even = plan('input x: f32[1000000]\ny = amax(x)\noutput y\n').exec;
    assert.equal(1000000 % (scratchOf(even)[0]?.[0] ?? 0), 0);
  });

  it('run at any size of a symbolic dim', () => {
    const { exec, kernels } = plan('dim N = 1000000\ninput x: f32[N]\ny = sum(x)\noutput y\n');
    assert.equal(kernels.length, 1);
    assert.equal(exec.dispatches.length, 2);
    assert.equal(exec.dispatches[0]?.uniforms.length, 1);
  });

  it('of siblings have a scratch buffer each', () => {
    const { kernels, exec } = plan(
      'input x: f32[4000000]\na = sum(x)\nb = sum(x * x)\noutput a\noutput b\n',
    );
    assert.equal(kernels.length, 1);
    assert.equal(scratchOf(exec).length, 2);
  });

  it('stay one dispatch where there are rows enough, little to do, or positions to find', () => {
    for (const text of [
      'input x: f32[65536, 256]\ny = sum(x, axis=1)\noutput y\n',
      'input x: f32[4096]\ny = sum(x)\noutput y\n',
      'input x: f32[1000000]\ny = argmax(x)\noutput y\n',
    ])
      assert.equal(plan(text).exec.dispatches.length, 1, text);
  });

  it('take a `schedule` line for their first dispatch', () => {
    const { kernels } = plan(
      'input x: f32[4194304]\ny = sum(x)\nschedule y { threads = 64 }\noutput y\n',
    );
    assert.equal(kernels[0]?.schedule['threads'], 64);
  });
});
