/**
 * Contests: one default against many candidates, in batches that are each a job of the runner, so that
 * a run can be cancelled, and goes on after a candidate that hangs or crashes.
 */
import type {
  CancelSignal,
  ProfileOptions,
  Progress,
  Runner,
  RunnerFault,
  TrialJob,
  TrialOutcome,
} from '../runner/core/types';
import type { Tried } from './records';

/** Candidates of a batch: beside the default, so that all are timed within moments of each other. */
export const BATCH = 6;
/** Rounds of a batch, at most. */
const ROUNDS = 60;
/** Measuring time of a batch, s, per candidate and for the default. */
const SECONDS_EACH = 0.12;
/** Runs of each that a job makes at least: checked, warmed up, timed. */
const LEAST_RUNS = 6;
/** Rounds and seconds of a final. */
const FINAL = { iterations: 200, secondsEach: 0.4 };

export interface Contest {
  /** The job for some of the candidates, whose ids are the places in `picked`. */
  job(picked: readonly number[]): Promise<Omit<TrialJob, 'options'>>;
}

export interface Seen {
  /** By candidate. */
  readonly tried: Map<number, Tried>;
  defaultUs: number | undefined;
}

export interface Means {
  readonly runner: Pick<Runner, 'trial'>;
  readonly options: ProfileOptions;
  readonly signal: CancelSignal;
  /** Seconds from any origin. */
  readonly seconds: () => number;
  readonly onProgress: (p: Progress) => void;
}

/** What ends a contest before its candidates do. */
export type Stopped = 'time' | 'cancelled' | RunnerFault | undefined;

/** After these nothing more can be measured. */
const HOPELESS: ReadonlySet<RunnerFault['code']> = new Set([
  'NO_ADAPTER',
  'NO_NODE',
  'UNSUPPORTED',
  'INTERNAL',
  'BAD_INPUT',
]);

/** Times what `next` names, batch after batch, until it names none or the time is up. */
export async function compete(
  contest: Contest,
  next: () => readonly number[],
  until: number,
  seen: Seen,
  means: Means,
): Promise<Stopped> {
  for (let batch = next(); batch.length > 0; batch = next()) {
    if (means.signal.aborted) return 'cancelled';
    if (means.seconds() >= until) return 'time';
    const left = until - means.seconds();
    const most = affordable(left, seen.defaultUs);
    const some = batch.slice(0, most);
    const seconds = Math.max(0.01, Math.min(SECONDS_EACH * (some.length + 1), left));
    const stopped = await measure(contest, some, { seconds, iterations: ROUNDS }, seen, means);
    if (stopped !== undefined) return stopped;
  }
  return undefined;
}

/** How many slow candidates fit into the time that is left; one at least. */
function affordable(seconds: number, defaultUs: number | undefined): number {
  const each = (LEAST_RUNS * (defaultUs ?? 0)) / 1e6;
  return each > 0 ? Math.max(1, Math.min(BATCH, Math.floor(seconds / each) - 1)) : BATCH;
}

/** Times the best few once more, for longer: by chance alone some of many look better than they are. */
export async function final(
  contest: Contest,
  finalists: readonly number[],
  seen: Seen,
  means: Means,
): Promise<Stopped> {
  if (means.signal.aborted) return 'cancelled';
  const { iterations, secondsEach } = FINAL;
  let left = [...finalists];
  while (left.length > 0) {
    const seconds = secondsEach * (left.length + 1);
    const before = new Map(seen.tried);
    const stopped = await measure(contest, left, { seconds, iterations }, seen, means);
    if (stopped !== undefined) return stopped;
    // Those that there was no time for: what they were before the final doesn't count.
    left = left.filter((i) => seen.tried.get(i) === before.get(i));
  }
  return undefined;
}

async function measure(
  contest: Contest,
  batch: readonly number[],
  budget: { readonly seconds: number; readonly iterations: number },
  seen: Seen,
  means: Means,
): Promise<Stopped> {
  let left = [...batch];
  while (left.length > 0) {
    const job = await contest.job(left);
    const options = { ...means.options, ...budget };
    const reply = await means.runner.trial({ ...job, options }, means.onProgress, means.signal);
    if (reply.ok) {
      const { base, candidates } = reply.value;
      seen.defaultUs = base.medianUs;
      candidates.forEach((c) => {
        const i = left[Number(c.id)];
        if (i !== undefined) seen.tried.set(i, triedOf(c));
      });
      return undefined;
    }
    const { fault } = reply;
    if (fault.code === 'CANCELLED') return 'cancelled';
    if (HOPELESS.has(fault.code)) return fault;
    // Whoever brought it down is out; where that isn't known, each goes alone to find out.
    const culprit = fault.kernel === undefined ? NaN : Number(fault.kernel);
    const failed = { failed: `${fault.code}: ${fault.message.split('\n', 1)[0] ?? ''}` };
    const who = left[culprit];
    if (who !== undefined) {
      seen.tried.set(who, failed);
      left = left.filter((i) => i !== who);
    } else if (left.length === 1 && left[0] !== undefined) {
      seen.tried.set(left[0], failed);
      return undefined;
    } else {
      for (const i of left) {
        const stopped = await measure(contest, [i], budget, seen, means);
        if (stopped !== undefined) return stopped;
      }
      return undefined;
    }
  }
  return undefined;
}

function triedOf(o: TrialOutcome): Tried {
  if (!o.ok) return { failed: o.reason };
  const { time, speedup, speedupSpread } = o;
  return { us: time.medianUs, spreadUs: time.spreadUs, speedup, speedupSpread };
}

/** How many go to the final. */
export const FINALISTS = 3;

/** Those that may beat the default, best first. */
export function finalistsOf(seen: Seen): number[] {
  return [...seen.tried]
    .flatMap(([i, t]) => ('failed' in t || t.speedup <= 1 ? [] : [{ i, speedup: t.speedup }]))
    .sort((a, b) => b.speedup - a.speedup || a.i - b.i)
    .slice(0, FINALISTS)
    .map(({ i }) => i);
}

/** The fastest of those that beat the default by more than the noise. */
export function winnerOf(seen: Seen, among: readonly number[]): number | undefined {
  let best: { i: number; speedup: number } | undefined;
  for (const i of among) {
    const t = seen.tried.get(i);
    if (!t || 'failed' in t || t.speedup - t.speedupSpread <= 1) continue;
    if (!best || t.speedup > best.speedup) best = { i, speedup: t.speedup };
  }
  return best?.i;
}
