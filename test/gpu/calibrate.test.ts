// Calibration of the adapter at hand: plausible figures, kept and read back.

import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { priceUs } from '../../compiler/fusion/price';
import { calibrate } from '../../runner/core/calibrate';
import { deviceForAdapter } from '../../runner/core/deviceProfile';
import { predictionQuality } from '../../runner/core/quality';
import { createNodeRunner, type NodeRunner } from '../../runner/node';
import { profileFile, writeProfile } from '../../runner/node/profileCache';
import { NEVER } from './runnerPlans';

describe('calibration of the adapter', function () {
  // A measurement on a machine that does other things as well.
  this.timeout(120_000);
  let folder = '';
  let runner: NodeRunner;
  before(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'fusion-lens-calibrate-'));
    runner = createNodeRunner({
      childPath: path.resolve('dist/runnerChild.mjs'),
      env: { FUSION_LENS_CACHE: folder },
    });
  });
  after(async () => {
    runner.dispose();
    await rm(folder, { recursive: true, force: true });
  });

  it('gives a profile that is used from then on', async () => {
    const first = await runner.adapter();
    assert.ok(first.ok, JSON.stringify(first));
    assert.equal(first.value.measured, undefined);
    const base = deviceForAdapter(first.value, undefined);
    const reply = await calibrate(runner, base, () => undefined, NEVER);
    assert.ok(reply.ok, JSON.stringify(reply));
    const { profile, measurements, error } = reply.value;
    const between = (what: string, x: number, low: number, high: number): void =>
      assert.ok(x >= low && x <= high, `${what} is ${x}`);
    between('launchUs', profile.launchUs, 0.05, 2000);
    between('bytesPerUs', profile.bytesPerUs, 20, 2e7);
    between('flopsPerUs', profile.flopsPerUs, 50, 2e8);
    between('saturatingThreads', profile.saturatingThreads, 1, 1 << 20);
    between('sharedAccessWork', profile.sharedAccessWork, 0.25, 1000);
    between('barrierWork', profile.barrierWork, 0.25, 1e6);
    between('cacheBytes', profile.cacheBytes, 64 * 1024, 2 ** 31);
    between('peak', measurements.peakFlopsPerUs, 100, 2e8);
    between('error', error, 1, 6);
    assert.equal(profile.software, first.value.software);
    // The order of the kernels it was fitted to is right by and large.
    const { rankCorrelation } = predictionQuality(
      measurements.generated.map((g) => ({
        predicted: priceUs(g.kernel, profile),
        measured: g.us,
      })),
    );
    assert.ok(rankCorrelation > 0.6, String(rankCorrelation));

    const file = profileFile(first.value, folder);
    await writeProfile(file, first.value, profile);
    const second = await runner.adapter();
    assert.ok(second.ok);
    assert.deepEqual(second.value.measured, profile);
    assert.equal(deviceForAdapter(second.value, undefined).flopsPerUs, profile.flopsPerUs);

    await writeFile(file, '{');
    const third = await runner.adapter();
    assert.ok(third.ok);
    assert.equal(third.value.measured, undefined);
    assert.match(third.value.measuredNote ?? '', /no JSON/);
  });

  it('can be cancelled', async () => {
    const cancel = new AbortController();
    const base = deviceForAdapter(await adapterOf(runner), undefined);
    const started = performance.now();
    const reply = await calibrate(
      runner,
      base,
      (s) => {
        if (s.step === 'memory') setTimeout(() => cancel.abort(), 200);
      },
      cancel.signal,
    );
    assert.ok(!reply.ok);
    assert.equal(reply.fault.code, 'CANCELLED');
    assert.ok(performance.now() - started < 20_000);
  });
});

async function adapterOf(runner: NodeRunner) {
  const reply = await runner.adapter();
  assert.ok(reply.ok, JSON.stringify(reply));
  return reply.value;
}
