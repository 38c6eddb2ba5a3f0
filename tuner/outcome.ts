/**
 * What a run found out, as views for people and as records for the next run.
 */
import type { Settings } from '../compiler/schedule/parameters';
import type { Seen } from './contest';
import {
  type KernelRecord,
  type PlanRecord,
  settingsName,
  type Tried,
  type Update,
} from './records';
import type { CandidateView, LabPlan, LabStart, LabTie, PlanView, TunedKernelView } from './types';

export type LabKernel = LabPlan['kernels'][number];
export type Tie = LabStart['ties'][number];

export interface KernelState {
  readonly kernel: LabKernel;
  readonly seen: Seen;
  readonly views: Map<number, Pick<CandidateView, 'status' | 'reason'>>;
  /** Candidates measured in earlier runs. */
  readonly before: ReadonlySet<number>;
  winner: number | undefined;
  settled: boolean;
  note?: string;
}

export interface TieState {
  readonly tie: Tie;
  readonly made: Extract<LabTie, { ok: true }> | undefined;
  seen: Seen;
  status: PlanView['status'];
  winner: boolean;
  settled: boolean;
  reason?: string;
}

/** A change that can be measured. */
export type MadeTie = Extract<LabTie, { ok: true }>;

/** What all records of a run have in common. */
export type About = Pick<KernelRecord, 'adapter' | 'version' | 'files' | 'dims'>;

export function kernelView({ kernel, seen, views, winner, note }: KernelState): TunedKernelView {
  const { id, alike, hash, structure, label, nodes, space } = kernel;
  const candidates = space.candidates.map((c, i): CandidateView => {
    const tried = seen.tried.get(i);
    const view = views.get(i);
    return {
      params: c.settings,
      predictedUs: c.predictedUs,
      ...(tried ? viewOfTried(tried) : { status: 'skipped' }),
      ...view,
    };
  });
  const best = winner === undefined ? undefined : seen.tried.get(winner);
  const params = winner === undefined ? undefined : space.candidates[winner]?.settings;
  const why =
    note ??
    (space.candidates.length === 0
      ? 'there is nothing to choose'
      : seen.tried.size === 0
        ? undefined
        : best
          ? undefined
          : 'no candidate beats the default by more than the noise');
  return {
    ...{ id, alike, hash, structure, label, nodes },
    default: {
      params: space.own,
      predictedUs: kernel.estimatedUs,
      medianUs: seen.defaultUs ?? 0,
    },
    candidates,
    ...(best && params && !('failed' in best)
      ? { winner: { params, medianUs: best.us, speedup: best.speedup } }
      : {}),
    ...(why === undefined ? {} : { note: why }),
  };
}

export function kernelUpdate(
  { kernel, seen, winner, settled }: KernelState,
  about: About,
  cancelled: boolean,
): Update[] {
  if (seen.tried.size === 0) return [];
  const { candidates } = kernel.space;
  const tried: Record<string, Tried> = {};
  for (const [i, t] of seen.tried) {
    const settings = candidates[i]?.settings;
    if (settings) tried[settingsName(settings)] = roundedTried(t);
  }
  const best = winner === undefined ? undefined : seen.tried.get(winner);
  const params = winner === undefined ? undefined : candidates[winner]?.settings;
  const record: KernelRecord = {
    ...kernelRecord(kernel, about),
    defaultUs: rounded(seen.defaultUs ?? 0),
    tried,
    ...(best && params && !('failed' in best) ? { best: bestOf(best, params) } : {}),
  };
  return [{ record, settled: settled && !cancelled }];
}

export function kernelRecord(kernel: LabKernel, about: About): KernelRecord {
  return {
    kind: 'kernel',
    structure: kernel.structure,
    label: kernel.label,
    ...about,
    default: kernel.space.own,
    defaultUs: 0,
    tried: {},
  };
}

export function planView({ tie, made, seen, status, winner, reason }: TieState): PlanView {
  const tried = seen.tried.get(0);
  const times = tried && !('failed' in tried) ? viewOfTried(tried) : undefined;
  const why =
    reason ??
    (status === 'measured' && !winner
      ? 'it does not beat the default by more than the noise'
      : undefined);
  return {
    change: tie.change,
    label: tie.label,
    predictedUs: made?.predictedUs,
    ...times,
    ...(seen.defaultUs === undefined ? {} : { defaultUs: seen.defaultUs }),
    status,
    winner,
    ...(why === undefined ? {} : { reason: why }),
  };
}

export function planUpdate(state: TieState, about: About, cancelled: boolean): Update[] {
  const { made, seen, winner, settled } = state;
  const tried = seen.tried.get(0);
  if (!made || !tried) return [];
  const record = {
    ...planRecord(state.tie, made, about),
    tried: roundedTried(tried),
    ...(winner && !('failed' in tried)
      ? { best: { us: rounded(tried.us), defaultUs: rounded(tried.us * tried.speedup) } }
      : {}),
  };
  return [{ record, settled: settled && !cancelled }];
}

export function planRecord(tie: Tie, made: MadeTie, about: About): PlanRecord {
  return {
    kind: 'plan',
    change: tie.change,
    replaces: made.replaces,
    makes: made.makes,
    label: tie.label,
    ...about,
    tried: { failed: '' },
  };
}

function viewOfTried(
  t: Tried,
): Pick<
  CandidateView,
  'status' | 'medianUs' | 'spreadUs' | 'speedup' | 'speedupSpread' | 'reason'
> {
  if ('failed' in t) return { status: 'failed', reason: t.failed };
  const { us, spreadUs, speedup, speedupSpread } = t;
  return { status: 'measured', medianUs: us, spreadUs, speedup, speedupSpread };
}

function bestOf(
  t: Exclude<Tried, { readonly failed: string }>,
  params: Settings,
): NonNullable<KernelRecord['best']> {
  return { params, us: rounded(t.us), defaultUs: rounded(t.us * t.speedup) };
}

function roundedTried(t: Tried): Tried {
  if ('failed' in t) return t;
  return {
    us: rounded(t.us),
    spreadUs: rounded(t.spreadUs),
    speedup: rounded(t.speedup),
    speedupSpread: rounded(t.speedupSpread),
  };
}

/** Four digits: more would be noise in a file that people compare. */
function rounded(x: number): number {
  return Number(x.toPrecision(4));
}
