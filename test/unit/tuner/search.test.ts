// The tuner's search, with the real compiler and a runner that only pretends: who wins, who is left out
// and why, and that nothing is kept that isn't faster.

import assert from 'node:assert/strict';
import { DEFAULT_DEVICE } from '../../../compiler/fusion/devices';
import type { RunnerReply } from '../../../runner/core';
import { CompilerLab } from '../../../tuner/lab';
import { mergeRecords, readRecords, type Records, recordsText } from '../../../tuner/records';
import { tune, type Tuned, type TuneOptions } from '../../../tuner/search';
import type { Lab } from '../../../tuner/types';
import { ADAPTER, FakeRunner, type Rules, workgroupOf } from './fakeRunner';

const CHAIN = 'input x: f32[64, 256]\ny = exp(tanh(x) * 2.0)\noutput y\n';
const TWO =
  'input x: f32[64, 256]\nparam w: f32[256, 256]\nh = relu(x @ w)\ny = softmax(h, axis=-1)\noutput y\n';

export function labOf(source: string): Lab {
  const bytes = new TextEncoder().encode(source);
  const lab = new CompilerLab({ file: 'a.fuse', bytes }, { device: DEFAULT_DEVICE });
  const soon = async <T>(make: () => T): Promise<T> => {
    await Promise.resolve();
    return make();
  };
  return {
    start: () => soon(() => lab.start()),
    tie: (change) => soon(() => lab.tie(change)),
    choose: (changes) => soon(() => lab.choose(changes)),
    trial: (kernel, settings) => soon(() => lab.trial(kernel, settings)),
    verifying: () => soon(() => lab.verifying()),
    confirming: (choice) => soon(() => lab.confirming(choice)),
  };
}

async function run(
  source: string,
  runner: FakeRunner,
  more: Partial<TuneOptions> = {},
  known: Records = new Map(),
): Promise<RunnerReply<Tuned>> {
  return tune(labOf(source), runner, ADAPTER, known, {
    file: 'a.fuse',
    seconds: 30,
    version: '1.0.0',
    profile: {},
    now: runner.now,
    onProgress: () => undefined,
    signal: new AbortController().signal,
    ...more,
  });
}

function value<T>(reply: RunnerReply<T>): T {
  if (!reply.ok) assert.fail(JSON.stringify(reply.fault));
  return reply.value;
}

/** Fastest at one size of workgroups. */
const best =
  (size: number): Rules['time'] =>
  (wgsl) =>
    workgroupOf(wgsl) === size ? 50 : 100;

describe('tuning', () => {
  it('finds the fastest parameters, and has tried or explained every candidate', async () => {
    const runner = new FakeRunner({ time: best(128) });
    const { result, updates } = value(await run(CHAIN, runner));
    const [k] = result.kernels;
    assert.equal(k?.winner?.params['workgroup'], 128);
    assert.equal(k.winner.speedup, 2);
    assert.equal(result.total.speedup, 2);
    assert.equal(result.total.verified, true);
    assert.ok(k.candidates.length >= 15);
    for (const c of k.candidates) {
      if (c.status === 'measured') assert.ok((c.medianUs ?? 0) > 0);
      else assert.ok(c.reason, JSON.stringify(c));
    }
    const [update] = updates;
    assert.ok(update?.settled && update.record.kind === 'kernel');
    assert.deepEqual(update.record.best, { params: k.winner.params, us: 50, defaultUs: 100 });
  });

  it('keeps nothing where nothing is faster by more than the noise', async () => {
    for (const rules of [
      { time: () => 100 },
      // 4 % faster, with 5 % noise.
      { time: (wgsl: string) => (workgroupOf(wgsl) === 128 ? 96 : 100), noise: 0.05 },
    ]) {
      const { result, updates } = value(await run(CHAIN, new FakeRunner(rules)));
      assert.equal(result.kernels[0]?.winner, undefined);
      assert.match(result.kernels[0]?.note ?? '', /no candidate beats the default/);
      assert.equal(result.total.speedup, 1);
      assert.equal(updates[0]?.record.best, undefined);
      assert.ok(updates[0]?.settled);
    }
  });

  it('drops a winner that is not faster as part of the whole plan', async () => {
    const runner = new FakeRunner({
      time: best(128),
      timeInPlan: (wgsl) => (workgroupOf(wgsl) === 128 ? 120 : 100),
    });
    const { result, updates } = value(await run(CHAIN, runner));
    assert.equal(result.kernels[0]?.winner, undefined);
    assert.match(result.kernels[0]?.note ?? '', /whole plan it is not faster/);
    assert.equal(updates[0]?.record.best, undefined);
    assert.ok(result.total.tunedUs <= result.total.defaultUs);
  });

  it('keeps those that hold when another does not', async () => {
    // Of two kernels one is slower in the plan when it is tuned.
    const isRow = (wgsl: string): boolean => /workgroupBarrier|var<workgroup>/.test(wgsl);
    const time = (wgsl: string): number => (workgroupOf(wgsl) === 128 ? 50 : 100);
    const runner = new FakeRunner({
      time,
      timeInPlan: (wgsl) => (isRow(wgsl) && workgroupOf(wgsl) === 128 ? 300 : time(wgsl)),
    });
    const { result } = value(await run(TWO, runner, { seconds: 600 }));
    assert.equal(result.kernels.length, 2);
    const kept = result.kernels.filter((k) => k.winner);
    assert.deepEqual(
      kept.map((k) => k.label),
      ['matmul + relu'],
    );
    assert.ok(result.total.tunedUs < result.total.defaultUs);
  });

  it('never times what computes something else, and says so', async () => {
    const runner = new FakeRunner({
      time: best(128),
      fault: (wgsl) => (workgroupOf(wgsl) === 128 ? 'y differs' : undefined),
    });
    const { result } = value(await run(CHAIN, runner));
    const wrong = result.kernels[0]?.candidates.filter((c) => c.status === 'failed') ?? [];
    assert.ok(
      wrong.length > 0 && wrong.every((c) => c.reason === 'y differs' && c.medianUs === undefined),
    );
    assert.ok(runner.timed.every((code) => workgroupOf(code) !== 128));
    assert.equal(result.kernels[0]?.winner, undefined);
  });

  it('goes on after a candidate that hangs', async () => {
    const runner = new FakeRunner({
      time: best(128),
      hangs: (wgsl) => workgroupOf(wgsl) === 256,
    });
    const { result } = value(await run(CHAIN, runner));
    const { candidates = [], winner } = result.kernels[0] ?? {};
    assert.equal(winner?.params['workgroup'], 128);
    const hung = candidates.filter((c) => c.params['workgroup'] === 256 && c.status !== 'pruned');
    assert.ok(
      hung.length > 0 && hung.every((c) => c.status === 'failed' && /HUNG/.test(c.reason ?? '')),
    );
  });

  it('stops when the time is up, and says what it left out', async () => {
    const runner = new FakeRunner({ time: best(128), trialSeconds: 2 });
    const { result } = value(await run(CHAIN, runner, { seconds: 3 }));
    assert.ok(
      result.kernels[0]?.candidates.some(
        (c) => c.status === 'skipped' && /time/.test(c.reason ?? ''),
      ),
    );
    assert.ok(runner.seconds < 12, `${runner.seconds} s`);
  });

  it('tunes nothing when the compiler’s own plan is wrong on the adapter', async () => {
    const runner = new FakeRunner({ time: best(128), verified: false });
    const reply = await run(CHAIN, runner);
    assert.ok(!reply.ok && reply.fault.code === 'VALIDATION');
    assert.equal(runner.trials, 0);
  });

  it('keeps what was measured when it is cancelled, and goes on from there', async () => {
    const abort = new AbortController();
    const first = new FakeRunner({ time: best(128) });
    first.beforeTrial = () => {
      if (first.trials === 1) abort.abort();
    };
    const cancelled = value(await run(CHAIN, first, { signal: abort.signal }));
    assert.ok(cancelled.result.cancelled);
    assert.equal(cancelled.result.kernels[0]?.winner, undefined, 'nothing unconfirmed is used');
    const records = mergeRecords(new Map(), cancelled.updates, cancelled.at);
    const kept = readRecords(recordsText(records));
    assert.ok(kept.ok && kept.records.size === 1);

    const second = new FakeRunner({ time: best(128) });
    const { result } = value(await run(CHAIN, second, {}, kept.records));
    assert.equal(result.kernels[0]?.winner?.params['workgroup'], 128);
    const skipped = result.kernels[0].candidates.filter((c) => c.reason === 'measured before');
    assert.ok(skipped.length > 0 && skipped.every((c) => c.status === 'skipped'));
    // Another run has nothing left to do but the final.
    const all = mergeRecords(
      kept.records,
      value(await run(CHAIN, second, {}, kept.records)).updates,
      cancelled.at,
    );
    const third = new FakeRunner({ time: best(128) });
    const again = value(await run(CHAIN, third, {}, all));
    assert.equal(third.trials, 1);
    assert.equal(again.result.kernels[0]?.winner?.params['workgroup'], 128);
  });

  it('leaves a kernel alone whose parameters the file sets', async () => {
    const runner = new FakeRunner({ time: best(128) });
    const { result } = value(await run(`${CHAIN}schedule y { workgroup = 32 }\n`, runner));
    assert.deepEqual(result.kernels[0]?.candidates, []);
    assert.match(result.kernels[0]?.note ?? '', /'schedule y .*' in the file sets/);
    assert.equal(runner.trials, 0);
  });

  it('prunes by the model, with the reason', async () => {
    const { result } = value(await run(TWO, new FakeRunner({ time: () => 100 })));
    const pruned = result.kernels.flatMap((k) => k.candidates).filter((c) => c.status === 'pruned');
    assert.ok(
      pruned.some((c) => /the model expects \d+\.\d× the best prediction/.test(c.reason ?? '')),
    );
    assert.ok(pruned.some((c) => /threads × rows is \d+/.test(c.reason ?? '')));
  });

  it('measures near ties of the plan, and keeps a change that is faster', async () => {
    const source =
      'input x: f32[1, 32, 56, 56]\nparam w1: f32[32, 32, 3, 3]\nparam w2: f32[32, 32, 3, 3]\nleft = relu(conv2d(x, w1, padding=1))\nright = relu(conv2d(x, w2, padding=1))\noutput left, right\n';
    const ties = (await labOf(source).start()).ties;
    assert.ok(ties.length > 0);
    // Each dispatch takes what its bindings are: the more in one kernel, the slower.
    const time = (wgsl: string): number => (wgsl.match(/@binding/g)?.length ?? 0) ** 3;
    const runner = new FakeRunner({ time });
    const { result, updates } = value(await run(source, runner));
    const won = result.plans.filter((p) => p.winner);
    assert.equal(won.length > 0, true, JSON.stringify(result.plans));
    assert.ok(result.total.speedup > 1);
    const plan = updates.find((u) => u.record.kind === 'plan' && u.record.best);
    assert.ok(plan?.record.kind === 'plan' && plan.record.makes.length > 0);
    // And where the change is slower, it isn't made.
    const other = value(await run(source, new FakeRunner({ time: () => 100 })));
    assert.ok(other.result.plans.every((p) => !p.winner && (p.reason ?? '') !== ''));
  });
});
