/**
 * Trials: several ways to compute the same, raced against each other.
 *
 * Candidates are compared with the base before any is timed: what one stores must agree with what the
 * base stores on the same inputs, as closely as honest arithmetic allows (tolerance.ts). Then all are
 * timed round by round, in alternating order, so that a drifting machine favours none; what counts is
 * the ratio of times of one round. Those that are clearly slower leave the race early, some after their
 * first run; and when the time is up, those that haven't started don't.
 */
import type { Program } from '../../compiler/ir/compute';
import type { ValueId } from '../../compiler/ir/expr';
import type { BufferSpec } from '../../compiler/result';
import type { Clock } from './clock';
import type { Host, Watch } from './device';
import { throwIfCancelled } from './faults';
import type { LoadedPlan } from './loaded';
import { findPoison } from './memory';
import { summarise } from './statistics';
import { numbersOf, type StorageArray } from './storage';
import { compare, expectations, farShare, rootMeanSquare, uncancelled } from './tolerance';
import type { CancelSignal, TrialOutcome, TrialTime } from './types';

/** `L` is what the clock can run. */
export interface Racer<L = LoadedPlan> {
  readonly id: string;
  readonly loaded: L;
}

/** The part of the clock that a race needs. */
export interface RaceClock<L> {
  whole(loaded: L, repeats: number): Promise<number>;
  readonly repeatsFor: Clock['repeatsFor'];
}

export interface RaceBudget {
  readonly iterations: number;
  readonly seconds: number;
}

const WARM_UP = 2;
/** Whatever the budget, everyone runs this often. */
const LEAST_ROUNDS = 3;
const MIN_ROUNDS = 5;
/** Enough when every ratio's interval is narrower than this. */
const TIGHT = 0.01;
/** Who takes this many times the base's time leaves after the least rounds. */
const HOPELESS = 1.25;
/** Who takes this many times the base's time at the first runs isn't timed any further. */
const LOST = 3;
/** How far a budget may be overrun before nobody else starts. */
export const OVERRUN = 2;
/** A slow run is warm at once, ms. */
const SLOW_MS = 250;

interface Lane<L> {
  readonly racer: Racer<L>;
  readonly repeats: number;
  readonly times: number[];
  racing: boolean;
}

/** Times the base against the others; results are in the order of `others`, without those that had no time to start. */
export async function race<L>(
  base: Racer<L>,
  others: readonly Racer<L>[],
  clock: RaceClock<L>,
  budget: RaceBudget,
  host: Host,
  watch: Watch,
  signal: CancelSignal,
): Promise<{ base: TrialTime; others: TrialOutcome[] }> {
  const start = host.now();
  const spent = (): number => (host.now() - start) / 1000;
  const enter = (racer: Racer<L>, limitUs: number): Promise<Lane<L>> => {
    watch.progress({ stage: 'trial', done: 0, total: budget.iterations, kernel: racer.id });
    return atStart(racer, limitUs, clock, host, watch, signal);
  };
  const first = await enter(base, Infinity);
  const limitUs = LOST * Math.min(...first.times);
  const rest: Lane<L>[] = [];
  for (const racer of others)
    if (rest.length === 0 || spent() < OVERRUN * budget.seconds)
      rest.push(await enter(racer, limitUs));
  const ratios = (l: Lane<L>): number[] =>
    l.times.map((t, i) => (t > 0 ? (first.times[i] ?? 0) / t : 1));
  for (let round = 1; round < budget.iterations; round++) {
    throwIfCancelled(signal);
    const racing = rest.filter((l) => l.racing);
    if (round >= LEAST_ROUNDS && (spent() >= budget.seconds || racing.length === 0)) break;
    if (round >= MIN_ROUNDS && racing.every((l) => summarise(ratios(l)).spread <= TIGHT)) break;
    const order = [first, ...racing];
    if (round % 2 === 1) order.reverse();
    for (const l of order) {
      watch.progress({ stage: 'trial', done: round, total: budget.iterations, kernel: l.racer.id });
      watch.working(l.racer.id, ((l.times.at(-1) ?? 0) * l.repeats) / 1000);
      l.times.push(await clock.whole(l.racer.loaded, l.repeats));
    }
    if (round + 1 === LEAST_ROUNDS)
      for (const l of racing) l.racing = Math.max(...ratios(l)) * HOPELESS > 1;
  }
  return {
    base: timeOf(first.times),
    others: rest.map((l) => {
      const { median, spread } = summarise(ratios(l));
      return {
        id: l.racer.id,
        ok: true,
        time: timeOf(l.times),
        speedup: median,
        speedupSpread: spread,
      };
    }),
  };
}

/**
 * Warm-up, and how often the plan must be repeated for the clock; the last try is the first round. Whose
 * best warm-up takes longer than the limit has lost: that was its round.
 */
async function atStart<L>(
  racer: Racer<L>,
  limitUs: number,
  clock: RaceClock<L>,
  host: Host,
  watch: Watch,
  signal: CancelSignal,
): Promise<Lane<L>> {
  let lastMs = 0;
  const timed = async (repeats: number): Promise<number> => {
    throwIfCancelled(signal);
    watch.working(racer.id, 16 * lastMs);
    const start = host.now();
    const us = await clock.whole(racer.loaded, repeats);
    lastMs = host.now() - start;
    return us;
  };
  let best = Infinity;
  for (let i = 0; i < WARM_UP && lastMs < SLOW_MS; i++) best = Math.min(best, await timed(1));
  if (best > limitUs) return { racer, repeats: 1, times: [best], racing: false };
  const { repeats, times } = await clock.repeatsFor(1, async ([r]) => [await timed(r ?? 1)]);
  return { racer, repeats: repeats[0] ?? 1, times: [...times], racing: true };
}

function timeOf(times: readonly number[]): TrialTime {
  const { median, spread, samples } = summarise(times);
  return { medianUs: median, spreadUs: spread, samples };
}

/** What a plan stored, by L1 value. */
export type Stored = ReadonlyMap<
  ValueId,
  { readonly spec: BufferSpec; readonly data: StorageArray }
>;

/** Compares what candidates store with what the base stored. */
export class Agreement {
  private readonly expected: ReturnType<typeof expectations>;
  private readonly scales = new Map<ValueId, number>();

  /** `inputs` are the contents of what the program is given. */
  constructor(
    program: Program,
    private readonly base: Stored,
    inputs: ReadonlyMap<ValueId, ArrayLike<number>>,
  ) {
    this.expected = expectations(program);
    for (const [v, numbers] of inputs) this.scales.set(v, rootMeanSquare(numbers));
    for (const c of program.computes) {
      // What stays inside a kernel isn't known: it is taken to be as large as it can be.
      const scale = uncancelled(program, c, (v) => this.scales.get(v));
      const stored = base.get(c.value);
      const own = stored ? rootMeanSquare(numbersOf(stored.data)) : 0;
      this.scales.set(c.value, Math.max(scale, own));
    }
  }

  /** What is wrong with the first result that differs; undefined where all agree. */
  fault(candidate: Stored): string | undefined {
    for (const [value, { spec, data }] of candidate) {
      const name = spec.name;
      const poison = findPoison(data, spec.storage);
      if (poison !== undefined) return `it leaves element ${poison} of ${name} unwritten`;
      const base = this.base.get(value);
      if (!base) continue;
      const { kind, floor, cap } = this.expected.get(value) ?? { kind: 'exact', floor: 0, cap: 0 };
      const [got, want] = [numbersOf(data), numbersOf(base.data)];
      const scale = this.scales.get(value) ?? 0;
      // Where results have steps, a few may fall on the other side.
      if (cap === Infinity) {
        const share = farShare(got, want, scale, FAR * floor);
        if (share <= TIPPED) continue;
        return `${percent(share)} of ${name} differ from the default kernel's`;
      }
      const { maxRel, at } = compare(got, want, spec.dtype, kind, scale);
      if (maxRel <= cap) continue;
      return kind === 'counted'
        ? `${percent(maxRel)} of ${name} differ from the default kernel's`
        : `${name} differs from the default kernel's: element ${at} is ${got[at] ?? NaN} instead of ${want[at] ?? NaN}`;
    }
    return undefined;
  }
}

const FAR = 64;
const TIPPED = 0.02;

function percent(share: number): string {
  return `${(100 * share).toPrecision(2)} %`;
}
