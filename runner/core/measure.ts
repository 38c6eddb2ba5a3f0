/**
 * Measuring two plans against each other: warm-up, then rounds in which both are timed in turn (their
 * order alternates, so that a drifting machine favours neither), until the confidence intervals are
 * tight or the budget is spent.
 */
import type { Clock } from './clock';
import type { Host, Watch } from './device';
import { throwIfCancelled } from './faults';
import type { LoadedPlan } from './loaded';
import { summarise, type Summary } from './statistics';
import type { CancelSignal, KernelTime, PlanForRun, PlanTimes } from './types';

export interface Contestant {
  readonly which: 'fused' | 'unfused';
  readonly plan: PlanForRun;
  readonly loaded: LoadedPlan;
}

export interface Budget {
  readonly iterations: number;
  readonly seconds: number;
}

const WARM_UP = 2;
const MIN_ROUNDS = 5;
/** Enough when the half width of every whole-plan interval is below this share of its median. */
const TIGHT = 0.01;
/** Whatever the budget, a plan gets this many rounds. */
const LEAST_ROUNDS = 3;
/** Unless one is this slow, s. */
const SLOW_ROUND = 5;

interface Series {
  readonly contestant: Contestant;
  readonly repeats: readonly number[];
  readonly wholeRepeats: number;
  /** Per dispatch, per round. */
  readonly dispatches: number[][];
  readonly whole: number[];
  /** Last known time of a round, ms. */
  roundMs: number;
}

export async function measure(
  contestants: readonly Contestant[],
  clock: Clock,
  budget: Budget,
  host: Host,
  watch: Watch,
  signal: CancelSignal,
): Promise<{ times: Map<Contestant['which'], PlanTimes>; rounds: number }> {
  const start = host.now();
  const series: Series[] = [];
  for (const c of contestants) series.push(await calibrate(c, clock, host, watch));
  let rounds = 1;
  const spent = (): number => (host.now() - start) / 1000;
  while (rounds < budget.iterations) {
    throwIfCancelled(signal);
    const slow = spent() / rounds > SLOW_ROUND;
    if ((slow || rounds >= LEAST_ROUNDS) && spent() >= budget.seconds) break;
    if (rounds >= MIN_ROUNDS && series.every(isTight)) break;
    const order = rounds % 2 === 0 ? series : [...series].reverse();
    for (const s of order) await round(s, clock, host, watch, rounds, budget);
    rounds++;
  }
  const times = new Map<Contestant['which'], PlanTimes>();
  for (const s of series) times.set(s.contestant.which, planTimes(s));
  return { times, rounds };
}

async function calibrate(
  contestant: Contestant,
  clock: Clock,
  host: Host,
  watch: Watch,
): Promise<Series> {
  const { loaded, which } = contestant;
  let lastMs = 0;
  const timed = async <T>(expectedMs: number, work: () => Promise<T>): Promise<T> => {
    watch.working(loaded.dispatches[0]?.spec.kernel, expectedMs);
    const start = host.now();
    const result = await work();
    lastMs = host.now() - start;
    return result;
  };
  watch.progress({ stage: which, done: 0, total: 1 });
  for (let i = 0; i < WARM_UP; i++) {
    await timed(lastMs, () => clock.whole(loaded, 1));
    // A slow plan is warm after one run.
    if (lastMs > 250) break;
  }
  const each = await clock.repeatsFor(loaded.dispatches.length, (r) =>
    timed(16 * lastMs, () => clock.dispatches(loaded, r)),
  );
  const whole = await clock.repeatsFor(1, async ([r]) => [
    await timed(16 * lastMs, () => clock.whole(loaded, r ?? 1)),
  ]);
  // What the last try measured is a sample like any other.
  return {
    contestant,
    repeats: each.repeats,
    wholeRepeats: whole.repeats[0] ?? 1,
    dispatches: loaded.dispatches.map((_, i) => each.times.slice(i, i + 1)),
    whole: [...whole.times],
    roundMs: 2 * lastMs,
  };
}

async function round(
  s: Series,
  clock: Clock,
  host: Host,
  watch: Watch,
  index: number,
  budget: Budget,
): Promise<void> {
  const { loaded, which } = s.contestant;
  const start = host.now();
  watch.progress({ stage: which, done: index, total: budget.iterations });
  watch.working(loaded.dispatches[0]?.spec.kernel, s.roundMs);
  const times = await clock.dispatches(loaded, s.repeats);
  times.forEach((t, i) => s.dispatches[i]?.push(t));
  watch.working(loaded.dispatches[0]?.spec.kernel, s.roundMs);
  s.whole.push(await clock.whole(loaded, s.wholeRepeats));
  s.roundMs = host.now() - start;
}

function isTight(s: Series): boolean {
  const { median, spread } = summarise(s.whole);
  return spread <= TIGHT * median;
}

function planTimes(s: Series): PlanTimes {
  const { plan, loaded } = s.contestant;
  const kernels = plan.kernels.map((k): KernelTime => {
    const own = [...loaded.dispatches.keys()].filter(
      (i) => loaded.dispatches[i]?.spec.kernel === k.id,
    );
    const mine = own.map((i) => s.dispatches[i] ?? []);
    const rounds = mine[0]?.length ?? 0;
    const sums = Array.from({ length: rounds }, (_, r) =>
      mine.reduce((sum, samples) => sum + (samples[r] ?? 0), 0),
    );
    const time = kernelTime(k, summarise(sums));
    const { replay } = loaded;
    return replay ? { ...time, runs: replay.trace.runs[own[0] ?? -1] ?? 0 } : time;
  });
  const whole = summarise(s.whole);
  return {
    kernels,
    totalUs: kernels.reduce((sum, k) => sum + k.medianUs * (k.runs ?? 1), 0),
    wallUs: whole.median,
    wallSpreadUs: whole.spread,
  };
}

function kernelTime(k: PlanForRun['kernels'][number], t: Summary): KernelTime {
  const per = (n: number): number => (t.median > 0 ? n / t.median / 1000 : 0);
  return {
    ...k,
    medianUs: t.median,
    minUs: t.min,
    spreadUs: t.spread,
    samples: t.samples,
    gbps: per(k.bytes),
    gflops: per(k.flops),
  };
}
