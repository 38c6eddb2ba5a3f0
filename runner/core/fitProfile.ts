/**
 * From measured times to the parameters of the cost model. Pure arithmetic: no GPU, no clock.
 *
 * Most parameters are read off the kernel that was made for them. The rate of arithmetic isn't: the
 * model counts weighted operations of generated code (a load, an `exp`, an index computation each have
 * a weight), so its rate is fitted to generated kernels of known counts, by least squares of the
 * logarithm of predicted over measured time (a factor of two counts the same for short and long
 * kernels, above and below), weighted by how long and how sure each time is. What workgroup memory and barriers cost
 * was measured as time and is expressed in adds at that rate; accesses count as dearer where that
 * explains the generated kernels clearly better: in real code they come in loops that nothing hides,
 * and a price that is too low makes plans of kernels that are too large.
 */
import { type Priced, priceUs } from '../../compiler/fusion/price';
import type { DeviceProfile } from '../../compiler/result';
import { CPU_LANES } from '../../compiler/schedule/tiles';
import { WORKGROUP } from './microKernels';

/** A copy: it reads and writes `bytes` each. */
export interface CopyTime {
  readonly bytes: number;
  readonly us: number;
}

export interface ChainTime {
  readonly threads: number;
  /** Operations on floats, all invocations together. */
  readonly flops: number;
  readonly us: number;
}

export interface GeneratedTime {
  readonly label: string;
  readonly kernel: Priced;
  readonly us: number;
  /** Half width of the confidence interval: what is uncertain counts less. */
  readonly spreadUs: number;
}

export interface Measurements {
  /** An empty dispatch inside a plan, and one in a pass of its own, by which kernels are timed. */
  readonly launchUs: number;
  readonly aloneUs: number;
  readonly copies: readonly CopyTime[];
  readonly chains: readonly ChainTime[];
  /** Multiply-adds in registers: the most that can be hoped for. */
  readonly peakFlopsPerUs: number;
  /** Per access and per barrier, all invocations together: time of one when the device is full. */
  readonly sharedAccessUs: number;
  readonly barrierUs: number;
  readonly generated: readonly GeneratedTime[];
}

/** The time of what a kernel did, without that of its dispatch: never less than a tenth of the whole. */
export function withoutLaunch(us: number, launchUs: number): number {
  return Math.max(us - launchUs, us / 10);
}

const rateOf = (c: CopyTime, aloneUs: number): number =>
  (2 * c.bytes) / withoutLaunch(c.us, aloneUs);

/**
 * Main memory's rate: that of the largest copies, which no cache holds. The faster of two counts, since
 * whatever else the machine does only slows it.
 */
export function memoryRate(copies: readonly CopyTime[], aloneUs: number): number {
  const largest = Math.max(...copies.map((c) => c.bytes));
  return Math.max(...copies.filter((c) => c.bytes >= largest / 4).map((c) => rateOf(c, aloneUs)));
}

/** Faster than memory by this, a copy ran inside a cache. */
const CACHED = 1.3;

/** The largest working set that was copied clearly faster than memory allows; undefined when none was. */
export function cacheSize(copies: readonly CopyTime[], aloneUs: number): number | undefined {
  const memory = memoryRate(copies, aloneUs);
  const cached = copies.filter((c) => rateOf(c, aloneUs) > CACHED * memory);
  return cached.length > 0 ? Math.max(...cached.map((c) => 2 * c.bytes)) : undefined;
}

/**
 * How many invocations it takes to reach the full rate, by the model's own form: the rate grows with
 * the invocations up to that number, and stays. On a CPU a workgroup counts as the lanes of its core,
 * as it does in the model (`kernelTimeUs`).
 */
export function saturation(
  chains: readonly ChainTime[],
  aloneUs: number,
  software = false,
): number {
  const rates = chains.map((c) => ({
    threads: software ? (c.threads / WORKGROUP) * CPU_LANES : c.threads,
    rate: c.flops / withoutLaunch(c.us, aloneUs),
  }));
  const full = Math.max(...rates.map((r) => r.rate));
  const error = (log: number): number =>
    rates.reduce((sum, { threads, rate }) => {
      const use = Math.min(1, threads / Math.exp(log));
      return sum + Math.log((use * full) / rate) ** 2;
    }, 0);
  return Math.exp(minimise(error, 0, Math.log(1e8)));
}

export interface Fit {
  readonly profile: DeviceProfile;
  /** Of the generated kernels, as a factor: e to the root mean square of log(predicted / measured). */
  readonly error: number;
}

/** `base`: what isn't measured comes from here, e.g. the limits. */
export function fitProfile(m: Measurements, base: DeviceProfile): Fit {
  const fixed = {
    ...base,
    name: MEASURED,
    source: 'measured' as const,
    launchUs: m.launchUs,
    bytesPerUs: memoryRate(m.copies, m.aloneUs),
    saturatingThreads: Math.max(1, saturation(m.chains, m.aloneUs, base.software)),
    cacheBytes: cacheSize(m.copies, m.aloneUs) ?? base.cacheBytes,
  };
  const at = (flopsPerUs: number, access: number): DeviceProfile => ({
    ...fixed,
    flopsPerUs,
    sharedAccessWork: Math.max(m.sharedAccessUs * flopsPerUs, LEAST_WORK, access),
    barrierWork: Math.max(m.barrierUs * flopsPerUs, LEAST_WORK),
  });
  // A plan's time is mostly that of its long kernels.
  const weight = (g: GeneratedTime): number =>
    Math.sqrt(g.us) / (MODEL_ERROR ** 2 + (g.spreadUs / g.us) ** 2);
  const weights = m.generated.reduce((sum, g) => sum + weight(g), 0);
  /** The weighted mean square. */
  const error = (log: number, access: number): number => {
    const profile = at(Math.exp(log), access);
    const squares = m.generated.reduce((sum, g) => {
      // Timed in a pass of its own, predicted as a part of a plan.
      const predicted = priceUs(g.kernel, profile) - m.launchUs + m.aloneUs;
      return sum + weight(g) * Math.log(predicted / g.us) ** 2;
    }, 0);
    return squares / weights;
  };
  if (m.generated.length === 0) return { profile: rounded(at(m.peakFlopsPerUs, 0)), error: NaN };
  // Dearer accesses than measured alone only where they explain clearly more.
  let best = { log: 0, access: 0, error: Infinity };
  for (const access of ACCESS_PRICES) {
    const log = minimise((x) => error(x, access), Math.log(1), Math.log(1e9));
    const e = error(log, access);
    if (e < CLEARLY * best.error - 1e-6) best = { log, access, error: e };
  }
  return {
    profile: rounded(at(Math.exp(best.log), best.access)),
    error: Math.exp(Math.sqrt(best.error)),
  };
}

/** In adds: 0, then from 1 to about 100. */
const ACCESS_PRICES = [0, ...Array.from({ length: 15 }, (_, i) => 1.4 ** i)];
const CLEARLY = 0.98;

/** How far off the model is, as a share, where a time is known for certain. */
const MODEL_ERROR = 0.3;

/** The name that a measured profile has and is asked for by. */
export const MEASURED = 'measured';
/** Where the loop with it was no slower than without: an access still is an instruction. */
const LEAST_WORK = 0.25;

/** Three digits: more were not measured. */
function rounded(p: DeviceProfile): DeviceProfile {
  const r = (x: number): number => Number(x.toPrecision(3));
  return {
    ...p,
    launchUs: r(p.launchUs),
    bytesPerUs: r(p.bytesPerUs),
    flopsPerUs: r(p.flopsPerUs),
    saturatingThreads: Math.max(1, Math.round(r(p.saturatingThreads))),
    sharedAccessWork: r(p.sharedAccessWork),
    barrierWork: r(p.barrierWork),
  };
}

const STEPS = 40;
const REFINEMENTS = 3;

/** Where `f` is least between two numbers: by a grid, made finer around the best. */
function minimise(f: (x: number) => number, from: number, to: number): number {
  let low = from;
  let high = to;
  let best = from;
  for (let r = 0; r < REFINEMENTS; r++) {
    const step = (high - low) / STEPS;
    let least = Infinity;
    for (let i = 0; i <= STEPS; i++) {
      const x = low + i * step;
      const y = f(x);
      if (y < least) {
        least = y;
        best = x;
      }
    }
    low = Math.max(from, best - step);
    high = Math.min(to, best + step);
  }
  return best;
}
