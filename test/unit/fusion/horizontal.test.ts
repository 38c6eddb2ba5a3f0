/** Horizontal moves: which small kernels share a grid, and which don't. */
import assert from 'node:assert/strict';
import { compile } from '../../../compiler';
import { DEFAULT_DEVICE } from '../../../compiler/fusion/devices';
import type { DeviceProfile } from '../../../compiler/result';
import { verifyExecPlan } from '../../../compiler/schedule/verifyKernel';
import { compileText, cutsText, planText } from './fixture';

const two = (n: number, m: number, rest = ''): string =>
  `input x: f32[${n}]\ninput y: f32[${m}]\na = exp(x)\nb = tanh(y) + 1.0\n${rest}output a, b`;

describe('small independent kernels', () => {
  it('share a grid, with the step and the gain in the log', () => {
    const source = two(100, 37);
    const c = compile({ file: 'test.fuse', bytes: new TextEncoder().encode(source) });
    assert.deepEqual(planText(c.result), ['horizontal: a#exp b#tanh b#add']);
    const [k] = c.result.after.kernels;
    assert.equal(k?.template, 'horizontal');
    assert.deepEqual(k.schedule, { parts: 2, workgroup: 64 });
    assert.deepEqual([k.bytesRead, k.bytesWritten], [4 * 137, 4 * 137]);
    assert.deepEqual(k.grid, [2, 1, 1]);
    assert.equal(k.savedLaunches, 2);
    const last = c.steps().at(-1);
    assert.equal(last?.kind, 'horizontal');
    // About a launch.
    assert.ok(
      last.gainUs > 0.9 * DEFAULT_DEVICE.launchUs && last.gainUs < 1.2 * DEFAULT_DEVICE.launchUs,
    );
  });

  it('stay apart when they take longer than their launch', () => {
    assert.equal(compileText(two(4_000_000, 37)).after.kernels.length, 2);
  });

  it('stay apart where a line says so, or sets parameters for one of them', () => {
    const plain = two(100, 37);
    assert.equal(compileText(plain).after.kernels.length, 1);
    const set = compileText(`${plain}\nschedule a { workgroup = 32 }`);
    assert.equal(set.after.kernels.length, 2);
  });

  it('share a grid at every depth of the plan, and edges keep their decisions', () => {
    // A second product needs whole rows of the first, so that each chain takes two kernels.
    const chain = (x: string, n: number): string =>
      `input ${x}: f32[${n}, ${n}]\n${x}s = ${x} @ ${x}\n${x}t = ${x}s @ ${x}s`;
    const r = compileText(`${chain('x', 64)}\n${chain('y', 33)}\noutput xs, xt, ys, yt`);
    assert.deepEqual(
      planText(r).map((k) => k.split(':')[0]),
      ['horizontal', 'horizontal'],
    );
    const cuts = cutsText(r);
    assert.equal(cuts.length, 2);
    for (const c of cuts) assert.match(c, /NEEDS_GLOBAL_SYNC/);
  });

  it('have reductions among them only where they are of one structure', () => {
    const sums = (n: number, m: number): string =>
      `input x: f32[8, ${n}]\ninput y: f32[8, ${m}]\na = sum(x, axis=1)\nb = sum(y, axis=1)\noutput a, b`;
    assert.equal(compileText(sums(200, 200)).after.kernels.length, 1);
    assert.equal(compileText(sums(200, 300)).after.kernels.length, 2);
  });

  it('keep to the buffers that the adapter allows', () => {
    const names = Array.from({ length: 40 }, (_, i) => i);
    const source = [
      ...names.map((i) => `input x${i}: f32[${i + 1}]\ny${i} = relu(x${i})`),
      `output ${names.map((i) => `y${i}`).join(', ')}`,
    ].join('\n');
    for (const most of [2, 5, 8, 16, 31]) {
      const device: DeviceProfile = {
        ...DEFAULT_DEVICE,
        limits: { ...DEFAULT_DEVICE.limits, maxStorageBuffersPerShaderStage: most },
      };
      const bytes = new TextEncoder().encode(source);
      const c = compile({ file: 'test.fuse', bytes }, { device });
      assert.equal(c.result.after.kernels.length, Math.ceil(40 / Math.floor(most / 2)));
      const plan = c.execPlan('fused');
      assert.deepEqual(verifyExecPlan(plan), []);
      for (const d of plan.dispatches) assert.ok(d.bindings.length <= most);
    }
  });

  it('are found in one pass: thousands take no pairs', () => {
    const names = Array.from({ length: 3000 }, (_, i) => i);
    const source = [
      ...names.map((i) => `input x${i}: f32[${(i % 97) + 1}]\ny${i} = relu(x${i})`),
      `output ${names.map((i) => `y${i}`).join(', ')}`,
    ].join('\n');
    let clock = 0;
    const bytes = new TextEncoder().encode(source);
    const c = compile({ file: 'test.fuse', bytes }, { now: () => (clock = performance.now()) });
    assert.ok(clock > 0);
    assert.equal(c.result.after.kernels.length, 750);
    assert.ok((c.result.stages.fuse ?? Infinity) < 5000, JSON.stringify(c.result.stages));
  });
});
