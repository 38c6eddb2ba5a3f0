/**
 * The tuner's search: which schedule parameters, and which of the plans that the model rates alike, are
 * fastest on the adapter at hand.
 *
 *  1. The compiler's own plan is profiled: verified against the float64 reference, and timed, so that
 *     the time goes to the kernels that take the most.
 *  2. Near ties of the plan are measured: the kernels concerned, one way and the other.
 *  3. For each kernel, candidates that the model doesn't rule out are measured against the default, the
 *     most promising first; the best of them once more in a final.
 *  4. All winners together are measured and verified as a whole plan against the default. What isn't
 *     faster there, or is wrong, is dropped: tuning never makes a plan slower than it was.
 *
 * The clock and the runner are given; what is measured is made by a lab.
 */
import type {
  AdapterInfo,
  CancelSignal,
  KernelTime,
  PlanTimes,
  ProfileOptions,
  ProfileResult,
  Runner,
  RunnerFault,
  RunnerReply,
} from '../runner/core/types';
import {
  compete,
  type Contest,
  final,
  finalistsOf,
  type Means,
  type Seen,
  type Stopped,
  winnerOf,
} from './contest';
import { Frontier } from './frontier';
import {
  type About,
  type KernelState,
  kernelRecord,
  kernelUpdate,
  kernelView,
  type LabKernel,
  type MadeTie,
  planRecord,
  planUpdate,
  planView,
  type Tie,
  type TieState,
} from './outcome';
import {
  adapterName,
  keyOfRecord,
  type Records,
  type RunPlace,
  settingsName,
  type Update,
} from './records';
import type { Choice, Lab, LabPlan, TuneProgress, TuneResult } from './types';

export interface TuneOptions {
  /** The file's path relative to the folder of the records. */
  readonly file: string;
  /** Time for the search; verifying the compiler's own plan and the winners comes on top. */
  readonly seconds: number;
  readonly version: string;
  readonly profile: ProfileOptions;
  /** Seconds from any origin. */
  readonly now: () => number;
  readonly onProgress: (p: TuneProgress) => void;
  readonly signal: CancelSignal;
}

export interface Tuned {
  readonly result: TuneResult;
  readonly updates: readonly Update[];
  readonly at: RunPlace;
}

export const DEFAULT_SECONDS = 30;

/** What is predicted to take this many times as long as the best prediction is not tried. */
const PRUNE = 2;
/** Shares of the time: the default’s profile, near ties of the plan, the whole plan at the end. */
const SHARES = { first: 0.05, ties: 0.15, last: 0.2 };
/** Of a kernel's time, what goes to the search before its final. */
const BEFORE_FINAL = 0.8;
/** What the whole plans are measured for at least, s. */
const LEAST_PROFILE = 0.3;
/** Confirming goes on without what turned out not to be faster this often. */
const ATTEMPTS = 3;

const MEASURED_BEFORE = 'measured before';
const NO_TIME = 'the time was up';
const CANCELLED = 'cancelled';
const SOFTWARE =
  'A software adapter: a CPU ran these kernels, so the times say little about a GPU.';

/** Tunes what the lab makes; `known` is what earlier runs found out. */
export async function tune(
  lab: Lab,
  runner: Pick<Runner, 'profile' | 'trial'>,
  adapter: AdapterInfo,
  known: Records,
  options: TuneOptions,
): Promise<RunnerReply<Tuned>> {
  return new Search(lab, runner, adapter, known, options).run();
}

class Search {
  private readonly start: number;
  /** When the search began: the default had been verified. */
  private from = 0;
  private readonly kernels: KernelState[] = [];
  private readonly ties: TieState[] = [];
  private readonly structures = new Set<string>();
  private about: About;
  private stopped: Stopped;

  constructor(
    private readonly lab: Lab,
    private readonly runner: Pick<Runner, 'profile' | 'trial'>,
    private readonly adapter: AdapterInfo,
    private readonly known: Records,
    private readonly options: TuneOptions,
  ) {
    this.start = options.now();
    this.about = {
      adapter: adapterName(adapter),
      version: options.version,
      files: [options.file],
      dims: {},
    };
  }

  private get spent(): number {
    return this.options.now() - this.start;
  }

  private tell(text: string): void {
    this.options.onProgress({
      text,
      share: Math.min(1, (this.spent - this.from) / this.options.seconds),
    });
  }

  /** `text` is told while something is measured. */
  private means(text: string): Means & { text: string } {
    const { profile, signal, now } = this.options;
    const means = {
      text,
      runner: this.runner,
      options: profile,
      signal,
      seconds: () => now() - this.start,
      onProgress: () => this.tell(means.text),
    };
    return means;
  }

  async run(): Promise<RunnerReply<Tuned>> {
    const { seconds } = this.options;
    this.tell('measuring and verifying the compiler’s own plan');
    const first = await this.profile(await this.lab.verifying(), SHARES.first * seconds);
    if (!first.ok) return first;
    if (!first.value.verification.ok) return unverified(first.value);
    const plain = first.value.fused;
    this.from = this.spent;

    const start = await this.lab.start();
    for (const k of start.kernels) this.structures.add(k.structure);
    this.about = { ...this.about, dims: start.kernels[0]?.space.dims ?? {} };
    const changes = await this.planPhase(start.ties);
    const plan: LabPlan = changes.length > 0 ? await this.lab.choose(changes) : start;
    for (const k of plan.kernels) this.structures.add(k.structure);
    await this.kernelPhase(plan, plain);
    if (typeof this.stopped === 'object') return { ok: false, fault: this.stopped };
    const total = this.cancelled ? undefined : await this.confirm(changes);
    if (total && !total.ok) return total;
    return { ok: true, value: this.tuned(total?.value, plain) };
  }

  private get cancelled(): boolean {
    return this.stopped === 'cancelled' || this.options.signal.aborted;
  }

  private async profile(
    job: Awaited<ReturnType<Lab['verifying']>>,
    seconds: number,
  ): Promise<RunnerReply<ProfileResult>> {
    const options = {
      ...this.options.profile,
      verify: true,
      seconds: Math.max(LEAST_PROFILE, seconds),
    };
    return this.runner.profile({ ...job, options }, () => undefined, this.options.signal);
  }

  // -- Near ties of the plan ----------------------------------------------------------------------

  /** The changes of the plan that were measured to be faster. */
  private async planPhase(ties: readonly Tie[]): Promise<Choice['changes'][number][]> {
    const chosen: Choice['changes'][number][] = [];
    const end = this.spent + SHARES.ties * this.options.seconds;
    for (const tie of ties) {
      if (this.stopped !== undefined && this.stopped !== 'time') break;
      const made = await this.lab.tie(tie.change);
      const state: TieState = {
        tie,
        made: made.ok ? made : undefined,
        seen: { tried: new Map(), defaultUs: undefined },
        status: 'pruned',
        winner: false,
        settled: false,
        ...(made.ok ? {} : { reason: made.reason }),
      };
      this.ties.push(state);
      if (!made.ok) continue;
      const before = this.known.get(keyOfRecord(planRecord(state.tie, made, this.about)));
      if (before?.kind === 'plan') {
        state.status = 'skipped';
        state.reason = MEASURED_BEFORE;
        state.seen.tried.set(0, before.tried);
        state.seen.defaultUs = before.best?.defaultUs;
      } else await this.raceTie(state, made, end);
      if (await this.tieWins(state, made)) {
        state.winner = true;
        chosen.push({ change: tie.change, makes: made.makes });
        await this.lab.choose(chosen);
      }
    }
    return chosen;
  }

  private contestOf(made: MadeTie): Contest {
    return { job: () => Promise.resolve(made.job) };
  }

  private async raceTie(state: TieState, made: MadeTie, end: number): Promise<void> {
    const text = `the plan with ${state.tie.label}`;
    this.tell(text);
    const means = this.means(text);
    const next = (): number[] => (state.seen.tried.has(0) ? [] : [0]);
    const stopped = await compete(this.contestOf(made), next, end, state.seen, means);
    const tried = state.seen.tried.get(0);
    if (!tried) {
      state.status = 'skipped';
      state.reason = stopped === 'time' ? NO_TIME : CANCELLED;
    } else if ('failed' in tried) {
      state.status = 'failed';
      state.reason = tried.failed;
    } else state.status = 'measured';
    if (stopped !== 'time') this.stopped ??= stopped;
  }

  private async tieWins(state: TieState, made: MadeTie): Promise<boolean> {
    if (this.cancelled) return false;
    const finalists = finalistsOf(state.seen);
    state.settled = state.seen.tried.size > 0;
    if (finalists.length === 0) return false;
    const means = this.means(`the plan with ${state.tie.label}, once more`);
    this.stopped ??= await final(this.contestOf(made), finalists, state.seen, means);
    if (this.cancelled) state.settled = false;
    return !this.cancelled && winnerOf(state.seen, finalists) !== undefined;
  }

  // -- Parameters of the kernels --------------------------------------------------------------------

  private async kernelPhase(plan: LabPlan, plain: PlanTimes): Promise<void> {
    const timeOf = (k: LabKernel): number => {
      const measured = timeFor(plain, k.nodes);
      const own = measured ? measured.medianUs * (measured.runs ?? 1) : k.estimatedUs;
      return own * (1 + k.alike.length);
    };
    const byTime = plan.kernels
      .map((kernel) => ({ kernel, time: timeOf(kernel) }))
      .sort((a, b) => b.time - a.time || (a.kernel.id < b.kernel.id ? -1 : 1));
    let rest = byTime.reduce((sum, k) => sum + k.time, 0);
    const end = this.from + (1 - SHARES.last) * this.options.seconds;
    for (const { kernel, time } of byTime) {
      const state = this.stateOf(kernel, timeFor(plain, kernel.nodes)?.medianUs);
      this.kernels.push(state);
      const share = rest > 0 ? time / rest : 1;
      rest -= time;
      if (this.cancelled || typeof this.stopped === 'object') {
        this.leave(state, CANCELLED);
        continue;
      }
      const until = this.spent + share * Math.max(0, end - this.spent);
      await this.tuneKernel(state, until);
    }
    // In the order of the plan, as everything else shows it.
    const place = new Map(plan.kernels.map((k, i) => [k.structure, i]));
    this.kernels.sort(
      (a, b) => (place.get(a.kernel.structure) ?? 0) - (place.get(b.kernel.structure) ?? 0),
    );
  }

  /** The kernel with what the model and earlier runs say of its candidates. */
  private stateOf(kernel: LabKernel, defaultUs: number | undefined): KernelState {
    const { space } = kernel;
    const old = this.known.get(keyOfRecord(kernelRecord(kernel, this.about)));
    const known =
      old?.kind === 'kernel' && settingsName(old.default) === settingsName(space.own)
        ? old
        : undefined;
    const seen: Seen = { tried: new Map(), defaultUs: defaultUs ?? known?.defaultUs };
    const views: KernelState['views'] = new Map();
    const before = new Set<number>();
    const best = space.candidates.reduce(
      (least, c) => Math.min(least, c.predictedUs ?? Infinity),
      kernel.estimatedUs,
    );
    space.candidates.forEach((c, i) => {
      const tried = known?.tried[settingsName(c.settings)];
      if (tried) {
        before.add(i);
        seen.tried.set(i, tried);
        views.set(i, { status: 'skipped', reason: MEASURED_BEFORE });
      } else if (c.refused !== undefined) views.set(i, { status: 'pruned', reason: c.refused });
      else if (c.predictedUs !== undefined && c.predictedUs > PRUNE * best)
        views.set(i, {
          status: 'pruned',
          reason: `the model expects ${(c.predictedUs / best).toFixed(1)}× the best prediction, and over ${PRUNE}× is not tried`,
        });
    });
    return {
      ...{ kernel, seen, views, before },
      winner: undefined,
      settled: false,
      ...(space.pinned === undefined
        ? {}
        : { note: `'${space.pinned}' in the file sets its parameters` }),
    };
  }

  private async tuneKernel(state: KernelState, until: number): Promise<void> {
    const { kernel, seen } = state;
    const { candidates } = kernel.space;
    const contest: Contest = {
      job: (picked) =>
        this.lab.trial(
          kernel.id,
          picked.map((i) => candidates[i]?.settings ?? {}),
        ),
    };
    const open = candidates.flatMap((_, i) => (state.views.has(i) ? [] : [i]));
    const frontier = new Frontier(kernel.space, open);
    const means = this.means('');
    const next = (): number[] => {
      const times = [...seen.tried.values()].map((t) => ('failed' in t ? 1 : t.speedup));
      const best = Math.max(1, ...times);
      const gain = best > 1 ? `, best so far ${best.toFixed(2)}×` : '';
      means.text = `${kernel.id} ${kernel.label}: ${frontier.done(seen)} of ${frontier.size} candidates${gain}`;
      this.tell(means.text);
      return frontier.next(seen);
    };
    // The final takes its part.
    const end = this.spent + BEFORE_FINAL * Math.max(0, until - this.spent);
    const stopped = await compete(contest, next, end, seen, means);
    if (stopped === 'time') this.leave(state, NO_TIME);
    else if (stopped !== undefined) {
      this.stopped = stopped;
      this.leave(state, CANCELLED);
      return;
    }
    const finalists = finalistsOf(seen);
    if (finalists.length > 0) {
      this.tell(`${kernel.id} ${kernel.label}: the final`);
      const last = await final(contest, finalists, seen, this.means(`${kernel.id}: the final`));
      if (last !== undefined) {
        this.stopped = last;
        return;
      }
    }
    // Measured anew, whatever was known before.
    for (const i of finalists) state.views.delete(i);
    state.settled = true;
    state.winner = winnerOf(seen, finalists);
  }

  /** Says of those that have not been tried why. */
  private leave(state: KernelState, reason: string): void {
    state.kernel.space.candidates.forEach((_, i) => {
      if (!state.views.has(i) && !state.seen.tried.has(i))
        state.views.set(i, { status: 'skipped', reason });
    });
  }

  // -- The whole plan --------------------------------------------------------------------------------

  private choice(changes: Choice['changes']): Choice {
    return {
      changes: changes.filter((c) => this.ties.some((t) => t.winner && t.tie.change === c.change)),
      kernels: this.kernels.flatMap(({ kernel, winner }) => {
        const settings =
          winner === undefined ? undefined : kernel.space.candidates[winner]?.settings;
        return settings ? [{ structure: kernel.structure, settings }] : [];
      }),
    };
  }

  /** Measures and verifies all winners together; drops those that don't hold. */
  private async confirm(
    changes: Choice['changes'],
  ): Promise<RunnerReply<ProfileResult | undefined>> {
    const { seconds } = this.options;
    for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
      const choice = this.choice(changes);
      if (choice.changes.length + choice.kernels.length === 0) break;
      this.tell('the whole plan with all winners, against the default');
      const left = (SHARES.last * seconds) / attempt;
      const reply = await this.profile(await this.lab.confirming(choice), left);
      if (!reply.ok) {
        if (reply.fault.code !== 'CANCELLED') return reply;
        this.stopped = 'cancelled';
        break;
      }
      const { fused, unfused, verification } = reply.value;
      if (verification.ok && fused.wallUs < unfused.wallUs) {
        // A change of the plan that was taken back took its kernels along.
        for (const s of this.kernels)
          if (s.winner !== undefined && !timeFor(fused, s.kernel.nodes)) {
            s.winner = undefined;
            s.note = 'the plan that it belongs to was not faster';
          }
        return reply;
      }
      const wrong = new Set(verification.kernels.filter((k) => !k.ok).map((k) => k.kernel));
      const reason = verification.ok
        ? 'as part of the whole plan it is not faster than the default'
        : 'with it the plan’s results differ from the reference';
      const bad = (k: KernelTime): boolean =>
        verification.ok
          ? k.medianUs >= (timeFor(unfused, k.nodes)?.medianUs ?? Infinity)
          : wrong.has(k.id);
      const doubtful = fused.kernels.filter(bad);
      this.drop(attempt === ATTEMPTS ? undefined : doubtful, reason);
    }
    // Not confirmed: then there is no winner.
    this.drop(undefined, 'it could not be confirmed as part of the whole plan');
    return { ok: true, value: undefined };
  }

  /** Takes back the winners that these kernels have; all, where it can't be told which is at fault. */
  private drop(kernels: readonly KernelTime[] | undefined, reason: string): void {
    const at = (k: LabKernel): boolean =>
      kernels?.some((t) => t.nodes.join(' ') === k.nodes.join(' ')) ?? true;
    const some = this.kernels.some((s) => s.winner !== undefined && at(s.kernel));
    for (const s of this.kernels) {
      if (s.winner === undefined || (some && !at(s.kernel))) continue;
      s.winner = undefined;
      s.note = reason;
      s.settled = !this.cancelled;
    }
    if (some && kernels) return;
    for (const t of this.ties) {
      if (!t.winner) continue;
      t.winner = false;
      t.reason = reason;
      t.settled = !this.cancelled;
    }
  }

  private tuned(confirmed: ProfileResult | undefined, plain: PlanTimes): Tuned {
    const { options, adapter, cancelled } = this;
    const defaultUs = confirmed?.unfused.wallUs ?? plain.wallUs;
    const tunedUs = confirmed?.fused.wallUs ?? plain.wallUs;
    const notes = [
      ...(adapter.software ? [SOFTWARE] : []),
      ...(cancelled
        ? ['Cancelled: what was measured is kept, and the next run goes on from there.']
        : []),
    ];
    return {
      result: {
        file: options.file,
        adapter,
        seconds: Math.round(this.spent * 100) / 100,
        kernels: this.kernels.map(kernelView),
        plans: this.ties.map(planView),
        total: {
          defaultUs,
          tunedUs,
          speedup: tunedUs > 0 ? defaultUs / tunedUs : 1,
          ...(confirmed ? { verified: confirmed.verification.ok } : {}),
        },
        cancelled,
        notes,
      },
      updates: [
        ...this.kernels.flatMap((k) => kernelUpdate(k, this.about, cancelled)),
        ...this.ties.flatMap((t) => planUpdate(t, this.about, cancelled)),
      ],
      at: {
        file: options.file,
        adapter: this.about.adapter,
        version: options.version,
        dims: this.about.dims,
        ...(cancelled ? {} : { structures: this.structures }),
      },
    };
  }
}

function unverified(p: ProfileResult): { readonly ok: false; readonly fault: RunnerFault } {
  const wrong = p.verification.kernels.find((k) => !k.ok);
  return {
    ok: false,
    fault: {
      code: 'VALIDATION',
      message:
        'The compiler’s own plan does not agree with the float64 reference on this adapter, so there is nothing to compare candidates with.',
      ...(wrong ? { kernel: wrong.kernel } : {}),
    },
  };
}

function timeFor(plan: PlanTimes, nodes: readonly string[]): KernelTime | undefined {
  const key = nodes.join(' ');
  return plan.kernels.find((k) => k.nodes.join(' ') === key);
}
