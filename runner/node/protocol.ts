/**
 * What the runner and its child process say to each other (structured clones over Node's IPC).
 *
 * One job is under way at a time. While it is, the child sends `alive` every second, `working` before
 * each piece of work with the time that it should take, and `progress` for people. From these the
 * parent tells a hung kernel (alive, but long past the time for its work) from a slow one, and both
 * from a process that is stuck itself. A job ends with exactly one `reply`, unless the process dies.
 */
import type { ProfileJob, Progress, RunJob, RunnerReply, TrialJob } from '../core/types';

export type Job =
  | { readonly kind: 'adapter' }
  | { readonly kind: 'profile'; readonly job: ProfileJob }
  | { readonly kind: 'run'; readonly job: RunJob }
  | { readonly kind: 'trial'; readonly job: TrialJob };

export type ToChild =
  | { readonly type: 'job'; readonly id: number; readonly job: Job }
  | { readonly type: 'cancel'; readonly id: number };

export type FromChild =
  | { readonly type: 'alive'; readonly id: number }
  | { readonly type: 'progress'; readonly id: number; readonly progress: Progress }
  | {
      readonly type: 'working';
      readonly id: number;
      readonly kernel?: string;
      readonly expectedMs: number;
    }
  | { readonly type: 'reply'; readonly id: number; readonly reply: RunnerReply<unknown> };

export const HEARTBEAT_MS = 1000;

/** Told to the child in its environment. */
export const HOST_VARIABLE = 'FUSION_LENS_HOST';
