/**
 * Messages between the extension host and the compiler worker. Types only.
 *
 * The worker keeps the last compilation of each open URI, so that code and execution plans are made
 * when asked for. A request for a version that is no longer the newest is answered `stale`.
 */
import type { Cut } from '../../compiler';
import type {
  CompileResult,
  DeviceProfile,
  ExecPlan,
  FusionStep,
  KernelView,
  PlanAtStep,
  PlanView,
} from '../../compiler/result';
import type { Tuning } from '../../compiler/tuning';
import type { LabAsk } from '../../tuner/types';
import type { MeasuredProfile } from '../../runner/core/session';
import type {
  ProfileJob,
  ProfileOptions,
  ProfileResult,
  Progress,
  RunnerReply,
} from '../../runner/core/types';

export interface CompileRequest {
  readonly uri: string;
  readonly version: number;
  /** Its name, where the URI's last part doesn't tell the format (an untitled document). */
  readonly file?: string;
  /** The file's bytes (UTF-8 for text formats): transferred. */
  readonly bytes: Uint8Array;
  /** What they leave out of a model that was read by ranges. */
  readonly cuts?: readonly Cut[];
  /** The side file's text, for binary formats. */
  readonly sideFile?: string;
  readonly dims?: Readonly<Record<string, number>>;
  readonly device?: DeviceProfile;
  readonly tuning?: Tuning;
}

export interface KernelCode {
  readonly kernel: string;
  readonly language: 'wgsl';
  readonly code: string;
}

export interface CompilerApi {
  /** The answer crosses as a {@link ResultMessage}. */
  compile(request: CompileRequest): CompileResult;
  /** The code of one kernel of the last result (`k…` fused, `b…` one by one); one entry per dispatch. */
  code(request: { uri: string; version: number; kernel: string }): readonly KernelCode[];
  /** Everything a runner needs to profile the file. */
  job(request: { uri: string; version: number; options: ProfileOptions }): ProfileJob;
  /** What the tuner wants made of the file's newest compilation; the answer is that of the method asked for. */
  lab(request: { uri: string; version: number; ask: LabAsk }): unknown;
  /** How the plan of the last result came about. */
  steps(request: { uri: string; version: number }): readonly FusionStep[];
  /** The plan behind so many of these steps. */
  planAt(request: { uri: string; version: number; step: number }): PlanAtStep;
  plan(request: { uri: string; version: number; which: 'fused' | 'unfused' }): ExecPlan;
  /** Compares what a page's GPU stored with the float64 reference; tells progress, can be cancelled. */
  verify(request: VerifyRequest): RunnerReply<ProfileResult>;
  /** Ends another call that is under way. */
  cancel(request: { call: number }): void;
  forget(request: { uri: string }): void;
}

export interface VerifyRequest {
  readonly job: ProfileJob;
  readonly measured: MeasuredProfile;
}

export type WorkerError =
  | { readonly kind: 'stale' }
  | { readonly kind: 'unknown-uri' }
  | { readonly kind: 'bug'; readonly message: string };
export type WorkerReply<T> =
  { readonly ok: true; readonly value: T } | { readonly ok: false; readonly error: WorkerError };

/** How the answer of `compile` crosses: whole, or by what it has in common with the version sent before. */
export type ResultMessage =
  | { readonly kind: 'whole'; readonly result: CompileResult }
  | {
      readonly kind: 'change';
      /** The version that was sent before. */
      readonly base: number;
      readonly rest: ResultRest;
      readonly lists: ChangedLists;
    };

/** A result without its long lists. */
export interface ResultRest extends Omit<
  CompileResult,
  'graph' | 'before' | 'after' | 'decisions'
> {
  readonly graph: Omit<CompileResult['graph'], 'nodes' | 'tensors' | 'inputs' | 'outputs'>;
  readonly before: Omit<PlanView, 'kernels' | 'prepared'>;
  readonly after: Omit<PlanView, 'kernels' | 'prepared'>;
}

export interface ChangedLists {
  readonly nodes: ListChange<CompileResult['graph']['nodes'][number]>;
  readonly tensors: ListChange<CompileResult['graph']['tensors'][number]>;
  readonly inputs: ListChange<CompileResult['graph']['inputs'][number]>;
  readonly outputs: ListChange<CompileResult['graph']['outputs'][number]>;
  readonly before: ListChange<KernelView>;
  readonly after: ListChange<KernelView>;
  readonly prepared?: ListChange<KernelView>;
  readonly decisions: ListChange<CompileResult['decisions'][number]>;
}

/** The parts that a list is made of, in its order. */
export type ListChange<T> = readonly ListPart<T>[];

export type ListPart<T> =
  /** So many items of the version before, but for these fields: by name, their values in order. */
  | {
      readonly from: number;
      readonly count: number;
      readonly fields?: Readonly<Record<string, readonly unknown[]>>;
    }
  | { readonly items: readonly T[] };

export interface WorkerCall<K extends keyof CompilerApi = keyof CompilerApi> {
  readonly id: number;
  readonly method: K;
  readonly argument: Parameters<CompilerApi[K]>[0];
}

export interface WorkerAnswer {
  readonly id: number;
  readonly reply: WorkerReply<unknown>;
}

/** How far a call is that takes long. */
export interface WorkerProgress {
  readonly id: number;
  readonly progress: Progress;
}

export type WorkerMessage = WorkerAnswer | WorkerProgress;
