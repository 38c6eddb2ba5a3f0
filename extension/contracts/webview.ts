/**
 * Messages between the extension host and the graph panel. Types only.
 *
 * Host → panel messages carry whole states (`result`, `profile`); the panel derives what to draw.
 * Panel → host messages are what the person did. Calls that need an answer have an `id`.
 */
import type { CompileResult, FusionStep, PlanAtStep } from '../../compiler/result';
import type { Progress, ProfileResult, RunnerFault } from '../../runner/core/types';
import type { TuneResult } from '../../tuner/types';
import type { Wire } from '../../runner/core/wire';
import type { KernelCode } from './compiler';

export type HostToWebview =
  | {
      readonly type: 'result';
      readonly result: CompileResult;
      readonly profile?: ProfileResult;
      readonly stale: boolean;
    }
  /** The file can't be read or has gone: shown in place of the graph. */
  | { readonly type: 'unavailable'; readonly message: string }
  /** A compile is under way for a newer version than the one shown. */
  | { readonly type: 'busy'; readonly message: string }
  | { readonly type: 'profile'; readonly profile: ProfileResult }
  | { readonly type: 'profileState'; readonly state: ProfileState }
  /** What the last tuning run of the file found. */
  | { readonly type: 'tuned'; readonly tuned: TuneResult }
  /** Select what stands at the editor's cursor; empty clears. */
  | { readonly type: 'select'; readonly nodes: readonly string[]; readonly reveal: boolean }
  | {
      readonly type: 'code';
      readonly id: number;
      readonly code: readonly KernelCode[] | { readonly error: string };
    }
  /** How the plan came about. */
  | {
      readonly type: 'steps';
      readonly id: number;
      readonly steps: readonly FusionStep[] | { readonly error: string };
    }
  | {
      readonly type: 'planAt';
      readonly id: number;
      readonly planAt: PlanAtStep | { readonly error: string };
    }
  /**
   * Asks the page to run kernels on navigator.gpu (when there is no Node to run them). `wire` is the
   * `ProfileJob` (to be measured, not verified: see `pageDone`), the `RunJob`, the `TrialJob`, or nothing (`{}`) where
   * the adapter is asked for, by `toWire` of runner/core/wire.ts: `fromWire` gives it back.
   */
  | {
      readonly type: 'runInPage';
      readonly id: number;
      readonly kind: 'profile' | 'run' | 'trial' | 'adapter';
      readonly wire: Wire;
    }
  | { readonly type: 'cancelInPage'; readonly id: number }
  | { readonly type: 'trust'; readonly trusted: boolean }
  /** Which adapter the estimates are for, and how it is known: a sentence for people. */
  | { readonly type: 'device'; readonly note: string };

export type ProfileState =
  | { readonly kind: 'idle' }
  | { readonly kind: 'running'; readonly progress: Progress }
  | { readonly kind: 'failed'; readonly fault: RunnerFault };

export type WebviewToHost =
  | { readonly type: 'ready' }
  | {
      readonly type: 'selected';
      readonly nodes: readonly string[];
      readonly kernel?: string;
      readonly reveal: boolean;
    }
  | { readonly type: 'requestCode'; readonly id: number; readonly kernel: string }
  | { readonly type: 'requestSteps'; readonly id: number }
  | { readonly type: 'requestPlanAt'; readonly id: number; readonly step: number }
  | { readonly type: 'openCode'; readonly kernel: string }
  | { readonly type: 'profile' }
  | { readonly type: 'cancelProfile' }
  | { readonly type: 'tune' }
  /** Force-fuse a rejected edge: the host edits the source (`fuse a, b`) or the side file. */
  | { readonly type: 'forceFuse'; readonly from: string; readonly to: string }
  | { readonly type: 'pageProgress'; readonly id: number; readonly progress: Progress }
  /**
   * `wire` is, by `toWire`, a `RunnerReply<MeasuredProfile>` for a profile, whose stored results the
   * host verifies outside the page, a `RunnerReply<readonly RunOutput[]>` for a run, a `RunnerReply<TrialResult>`, or a
   * `RunnerReply<AdapterInfo>`.
   */
  | { readonly type: 'pageDone'; readonly id: number; readonly wire: Wire }
  | { readonly type: 'exportSvg'; readonly svg: string }
  | { readonly type: 'log'; readonly level: 'info' | 'error'; readonly message: string };

/** What the panel keeps across reloads of the window (vscode.setState). */
export interface PanelState {
  readonly uri: string;
  readonly view: 'before' | 'after' | 'both';
  readonly selection: readonly string[];
  readonly kernel?: string;
  readonly transform?: { readonly x: number; readonly y: number; readonly k: number };
  readonly collapsed?: readonly string[];
}
