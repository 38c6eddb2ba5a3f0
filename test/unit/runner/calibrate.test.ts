// Calibration without a GPU: an adapter made of formulas, whose parameters must be found again.

import assert from 'node:assert/strict';
import { DEFAULT_DEVICE } from '../../../compiler/fusion/devices';
import { priceUs, type Priced } from '../../../compiler/fusion/price';
import type { DeviceProfile } from '../../../compiler/result';
import { calibrate } from '../../../runner/core/calibrate';
import {
  cacheSize,
  fitProfile,
  type Measurements,
  saturation,
} from '../../../runner/core/fitProfile';
import { CHAIN_FLOPS, MULTIPLY_ADD_FLOPS } from '../../../runner/core/microKernels';
import { predictionQuality } from '../../../runner/core/quality';
import type {
  CancelSignal,
  KernelTime,
  PlanTimes,
  ProfileJob,
  ProfileResult,
  RunnerReply,
} from '../../../runner/core/types';

const NEVER: CancelSignal = {
  aborted: false,
  addEventListener: () => undefined,
  removeEventListener: () => undefined,
};

/** What the made-up adapter is. */
const TRUE: DeviceProfile = {
  ...DEFAULT_DEVICE,
  launchUs: 3,
  bytesPerUs: 90_000,
  flopsPerUs: 700_000,
  saturatingThreads: 6000,
  sharedAccessWork: 3,
  barrierWork: 25,
};
const PEAK = 2_000_000;
const CACHE_BYTES = 8 << 20;
const CACHE_FACTOR = 4;
/** A kernel in a pass of its own. */
const ALONE = 5;

function microUs(d: ProfileJob['fused']['exec']['dispatches'][number]): number {
  const [trips = 0] = d.uniforms;
  const threads = d.workgroups[0] * d.workgroups[1] * 64;
  const added = (work: number): number => (threads * trips * work) / TRUE.flopsPerUs;
  switch (d.kernel.split(' ')[0]) {
    case 'copy': {
      const bytes = Number(d.kernel.split(' ')[1]);
      const rate = TRUE.bytesPerUs * (2 * bytes <= CACHE_BYTES ? CACHE_FACTOR : 1);
      return ALONE + (2 * bytes) / rate;
    }
    case 'multiply-add':
      return ALONE + (threads * trips * MULTIPLY_ADD_FLOPS) / PEAK;
    case 'chain': {
      const use = Math.min(1, threads / TRUE.saturatingThreads);
      return ALONE + (threads * trips * CHAIN_FLOPS) / (0.8 * PEAK * use);
    }
    case 'base':
      return ALONE + added(4);
    case 'shared':
      return ALONE + added(4 + 2 * TRUE.sharedAccessWork);
    case 'barrier':
      return ALONE + added(4 + TRUE.barrierWork);
    default:
      return ALONE;
  }
}

/** Generated kernels take `factor` times what the default device would. */
function fakeRunner(factor: number, seen: ProfileJob[] = []) {
  return {
    profile: (job: ProfileJob): Promise<RunnerReply<ProfileResult>> => {
      seen.push(job);
      const { exec, kernels } = job.fused;
      const sizes = exec.buffers.map((b) => b.bytes);
      if (Math.max(...sizes) > 100 << 20)
        return Promise.resolve({ ok: false, fault: { code: 'OUT_OF_MEMORY', message: 'full' } });
      const times = kernels.map((k): KernelTime => {
        const mine = exec.dispatches.filter((d) => d.kernel === k.id);
        const us =
          k.estimatedUs > 0 ? factor * k.estimatedUs : mine.reduce((s, d) => s + microUs(d), 0);
        return { ...k, medianUs: us, minUs: us, spreadUs: 0, samples: 5, gbps: 0, gflops: 0 };
      });
      const fused: PlanTimes = {
        kernels: times,
        totalUs: 0,
        wallUs: TRUE.launchUs * exec.dispatches.length,
        wallSpreadUs: 0,
      };
      return Promise.resolve({
        ok: true,
        value: {
          adapter: {
            vendor: 'made up',
            architecture: '',
            description: '',
            software: false,
            host: '',
            runner: 'node',
            timestampQuantumUs: 0.001,
          },
          unfused: fused,
          fused,
          speedup: 1,
          verification: { ok: false, outputs: [], kernels: [] },
          iterations: 5,
          seed: 1,
          compileMs: 0,
          notes: ['The results were not verified, as asked.'],
        },
      });
    },
  };
}

const near = (got: number, wanted: number, share = 0.02): void =>
  assert.ok(Math.abs(got / wanted - 1) <= share, `${got} instead of ${wanted}`);

describe('calibration', () => {
  it('finds the parameters of an adapter', async () => {
    const steps: string[] = [];
    const seen: ProfileJob[] = [];
    const reply = await calibrate(
      fakeRunner(2, seen),
      DEFAULT_DEVICE,
      (s) => steps.push(s.step),
      NEVER,
    );
    assert.ok(reply.ok);
    const { profile, measurements, notes } = reply.value;
    assert.deepEqual(steps, [
      'launch',
      'memory',
      'arithmetic',
      'saturation',
      'workgroup memory',
      'kernels',
    ]);
    assert.equal(profile.source, 'measured');
    near(profile.launchUs, TRUE.launchUs);
    near(profile.bytesPerUs, TRUE.bytesPerUs);
    near(profile.saturatingThreads, TRUE.saturatingThreads);
    near(measurements.peakFlopsPerUs, PEAK);
    assert.equal(profile.cacheBytes, CACHE_BYTES);
    // Expressed in adds at the fitted rate: their time is what was measured.
    near(profile.sharedAccessWork / profile.flopsPerUs, TRUE.sharedAccessWork / TRUE.flopsPerUs);
    near(profile.barrierWork / profile.flopsPerUs, TRUE.barrierWork / TRUE.flopsPerUs);
    assert.deepEqual(notes, []);
    // Copies that the GPU had no memory for were left out, and the rest counts.
    assert.equal(Math.max(...measurements.copies.map((c) => c.bytes)), 64 << 20);
    assert.ok(measurements.generated.length >= 6);
    for (const job of seen) assert.equal(job.options.verify, false);
  });

  it('fits the rate of arithmetic to kernels of known work', () => {
    const kernels: Priced[] = [
      [1e6, 65536, 1e5],
      [3e8, 1e6, 4e6],
      [5e9, 4e6, 8e6],
      [2e5, 64, 1e4],
    ].map(([work = 0, threads = 0, bytes = 0]) => ({
      bytesRead: bytes,
      bytesWritten: bytes / 2,
      flops: work,
      counts: {
        work,
        sharedAccesses: work / 50,
        barriers: work / 1000,
        threads,
        workgroups: threads / 64,
        dispatches: 1,
        wastedBytes: 0,
        pressure: [],
      },
    }));
    const measurements = (disturb: (i: number) => number): Measurements => ({
      launchUs: TRUE.launchUs,
      aloneUs: TRUE.launchUs,
      copies: [{ bytes: 64 << 20, us: TRUE.launchUs + (128 << 20) / TRUE.bytesPerUs }],
      chains: [64, 1024, 1 << 16].map((threads) => ({
        threads,
        flops: 1e9,
        us: 3 + 1e9 / (1e6 * Math.min(1, threads / TRUE.saturatingThreads)),
      })),
      peakFlopsPerUs: PEAK,
      sharedAccessUs: TRUE.sharedAccessWork / TRUE.flopsPerUs,
      barrierUs: TRUE.barrierWork / TRUE.flopsPerUs,
      generated: kernels.map((kernel, i) => ({
        label: `k${i}`,
        kernel,
        us: priceUs(kernel, TRUE) * disturb(i),
        spreadUs: i === 3 ? 1e6 : 0,
      })),
    });
    const exact = fitProfile(
      measurements(() => 1),
      DEFAULT_DEVICE,
    );
    near(exact.profile.flopsPerUs, TRUE.flopsPerUs, 0.01);
    near(exact.profile.sharedAccessWork, TRUE.sharedAccessWork, 0.01);
    near(exact.error, 1, 0.02);
    assert.equal(exact.profile.limits, DEFAULT_DEVICE.limits);
    // A time that nobody could be sure of moves nothing.
    const noisy = fitProfile(
      measurements((i) => (i === 3 ? 20 : 1)),
      DEFAULT_DEVICE,
    );
    near(noisy.profile.flopsPerUs, TRUE.flopsPerUs, 0.01);
    // Twice too slow in one, twice too fast in another: between them, nearer to the longer one.
    const both = fitProfile(
      measurements((i) => (i === 1 ? 2 : i === 2 ? 0.5 : 1)),
      DEFAULT_DEVICE,
    );
    assert.ok(both.profile.flopsPerUs > TRUE.flopsPerUs, String(both.profile.flopsPerUs));
    assert.ok(both.profile.flopsPerUs < 2 * TRUE.flopsPerUs, String(both.profile.flopsPerUs));
    assert.ok(both.error > 1.2 && both.error < 2, String(both.error));
  });

  it('counts a workgroup of a CPU as the lanes of its core', () => {
    // Two cores: one workgroup reaches half of the rate.
    const chains = [64, 256, 1024].map((threads) => ({
      threads,
      flops: 100,
      us: threads === 64 ? 20 : 10,
    }));
    near(saturation(chains, 0), 128, 1);
    near(saturation(chains, 0, true), 8, 0.1);
  });

  it('knows no cache where no copy is faster than memory', () => {
    const copies = [1, 4, 16].map((m) => ({ bytes: m << 20, us: m * 10 }));
    assert.equal(cacheSize(copies, 0), undefined);
    near(saturation([{ threads: 64, flops: 100, us: 10 }], 0), 1, 64);
  });

  it('hands on what went wrong, and stops', async () => {
    let jobs = 0;
    const reply = await calibrate(
      {
        profile: () => {
          jobs++;
          return Promise.resolve({
            ok: false,
            fault: { code: 'CANCELLED', message: 'Cancelled.' },
          });
        },
      },
      DEFAULT_DEVICE,
      () => undefined,
      NEVER,
    );
    assert.ok(!reply.ok);
    assert.equal(reply.fault.code, 'CANCELLED');
    assert.equal(jobs, 1);
  });
});

describe('the quality of predictions', () => {
  it('is order, bias and mean factor', () => {
    const doubled = predictionQuality(
      [1, 5, 30, 200].map((x) => ({ predicted: 2 * x, measured: x })),
    );
    near(doubled.rankCorrelation, 1, 1e-9);
    near(doubled.meanRatio, 2, 1e-9);
    near(doubled.meanFactor, 2, 1e-9);
    // Off in both directions: no bias, but off all the same.
    const mixed = predictionQuality([
      { predicted: 3, measured: 1 },
      { predicted: 2, measured: 6 },
    ]);
    near(mixed.rankCorrelation, -1, 1e-9);
    near(mixed.meanRatio, 1, 1e-9);
    near(mixed.meanFactor, 3, 1e-9);
    // Ties share their ranks: ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4.
    const tied = predictionQuality(
      [1, 2, 2, 3].map((predicted, i) => ({ predicted, measured: i + 1 })),
    );
    near(tied.rankCorrelation, 4.5 / Math.sqrt(4.5 * 5), 1e-9);
  });
});
