/**
 * What the tuner finds out, as plain data: shown by the command line and by the editor.
 *
 * Times are microseconds.
 */
import type { Settings } from '../compiler/schedule/parameters';
import type { NearTie, PlanChange } from '../compiler/tuning';
import type { KernelSpace } from '../compiler/fusion/space';
import type { AdapterInfo, ProfileJob, TrialJob } from '../runner/core/types';

export type CandidateStatus =
  /** Timed against the default. */
  | 'measured'
  /** Not tried: the model or a limit speaks against it. */
  | 'pruned'
  /** It can't be compiled or run, or computes something else. */
  | 'failed'
  /** Not tried: measured in an earlier run, or no time was left. */
  | 'skipped';

export interface CandidateView {
  readonly params: Settings;
  readonly predictedUs: number | undefined;
  readonly status: CandidateStatus;
  readonly medianUs?: number;
  /** Half width of the 95 % confidence interval. */
  readonly spreadUs?: number;
  /** The default's time over its own, measured in turn: median, and half width. */
  readonly speedup?: number;
  readonly speedupSpread?: number;
  readonly reason?: string;
}

export interface Winner {
  readonly params: Settings;
  readonly medianUs: number;
  readonly speedup: number;
}

export interface TunedKernelView {
  /** Of the plan that was tuned. */
  readonly id: string;
  /** Other kernels of the same structure, which get the same parameters. */
  readonly alike: readonly string[];
  readonly hash: string;
  readonly structure: string;
  readonly label: string;
  readonly nodes: readonly string[];
  readonly default: {
    readonly params: Settings;
    readonly predictedUs: number;
    readonly medianUs: number;
  };
  readonly candidates: readonly CandidateView[];
  readonly winner?: Winner;
  /** Why there is no winner, or why nothing was tried. */
  readonly note?: string;
}

export interface PlanView {
  readonly change: PlanChange;
  /** In words: `softmax and add in one kernel`. */
  readonly label: string;
  readonly predictedUs: number | undefined;
  readonly status: CandidateStatus;
  readonly defaultUs?: number;
  readonly medianUs?: number;
  readonly spreadUs?: number;
  readonly speedup?: number;
  readonly speedupSpread?: number;
  readonly winner: boolean;
  readonly reason?: string;
}

export interface TuneResult {
  readonly file: string;
  readonly adapter: AdapterInfo;
  /** Spent. */
  readonly seconds: number;
  readonly kernels: readonly TunedKernelView[];
  readonly plans: readonly PlanView[];
  /** The whole plan as the compiler makes it, and with all winners, measured in turn and verified. */
  readonly total: {
    readonly defaultUs: number;
    readonly tunedUs: number;
    readonly speedup: number;
    /** Absent where there was nothing to confirm. */
    readonly verified?: boolean;
  };
  readonly cancelled: boolean;
  readonly notes: readonly string[];
}

/** How far a run is, for people. */
export interface TuneProgress {
  readonly text: string;
  /** Share of the time that is spent, 0…1. */
  readonly share: number;
}

// ---------------------------------------------------------------------------------------------
// The compiler's side

export interface LabKernel {
  readonly id: string;
  readonly hash: string;
  readonly structure: string;
  readonly label: string;
  readonly nodes: readonly string[];
  readonly estimatedUs: number;
  readonly space: KernelSpace;
}

/** A plan, as the search sees it. */
export interface LabPlan {
  /** The first of each structure. */
  readonly kernels: readonly (LabKernel & { readonly alike: readonly string[] })[];
}

export interface LabStart extends LabPlan {
  readonly ties: readonly (NearTie & { readonly label: string })[];
}

/** A change of the plan, with what it puts in place of what. */
export type LabTie =
  | {
      readonly ok: true;
      /** The kernels concerned, as they are and as they would be. */
      readonly job: Omit<TrialJob, 'options'>;
      readonly replaces: readonly string[];
      readonly makes: readonly string[];
      readonly predictedUs: number;
    }
  | { readonly ok: false; readonly reason: string };

export interface Choice {
  readonly changes: readonly { readonly change: PlanChange; readonly makes: readonly string[] }[];
  readonly kernels: readonly { readonly structure: string; readonly settings: Settings }[];
}

/** Makes what the search measures. It may live in another thread. */
export interface Lab {
  start(): Promise<LabStart>;
  tie(change: PlanChange): Promise<LabTie>;
  /** The plan with these changes: its kernels are tuned from then on. */
  choose(changes: Choice['changes']): Promise<LabPlan>;
  /** The kernel as it is against candidates, whose ids are their places in the list. */
  trial(kernel: string, settings: readonly Settings[]): Promise<Omit<TrialJob, 'options'>>;
  /** As `unfused` the ops one by one, as `fused` the compiler's own plan. */
  verifying(): Promise<Omit<ProfileJob, 'options'>>;
  /** As `unfused` the compiler's own plan, as `fused` that with all of the choice. */
  confirming(choice: Choice): Promise<Omit<ProfileJob, 'options'>>;
}

/** A call of the lab as a message. */
export type LabAsk = {
  [K in keyof Lab]: { readonly method: K; readonly args: Parameters<Lab[K]> };
}[keyof Lab];
