/**
 * A runner in the graph page: its `navigator.gpu`, on the machine of the window. The page measures;
 * the reference, which takes long, is computed in the compiler's worker.
 */
import type { MeasuredProfile } from '../../runner/core/session';
import type {
  AdapterInfo,
  CancelSignal,
  ProfileJob,
  ProfileResult,
  Progress,
  Runner,
  RunnerReply,
  RunOutput,
  TrialResult,
} from '../../runner/core/types';
import { replyOf } from '../../runner/core/faults';
import type { GraphView } from '../webviewHost/graphView';
import {
  profileWithContents,
  type ReadContents,
  runWithContents,
  trialWithContents,
} from './pageContents';
import type { CallCompiler } from '../worker/client';

const ignore = (): void => undefined;
/** Opening the device takes no time that is worth cancelling. */
const NEVER: CancelSignal = {
  aborted: false,
  addEventListener: ignore,
  removeEventListener: ignore,
};

/** @param read contents that are in files, where there is a disk */
export function pageRunner(
  view: Pick<GraphView, 'runInPage'>,
  call: CallCompiler,
  read: ReadContents = () => Promise.resolve(undefined),
): Runner {
  return {
    adapter: () =>
      view.runInPage({ kind: 'adapter', job: {} }, ignore, NEVER) as Promise<
        RunnerReply<AdapterInfo>
      >,
    profile: async (given, onProgress, signal) => {
      const filled = await replyOf(() => profileWithContents(given, read));
      if (!filled.ok) return filled;
      const job = filled.value;
      // The page answers a job of one kind with the result of that kind: contracts/webview.ts.
      const measured = (await view.runInPage(
        { kind: 'profile', job },
        onProgress,
        signal,
      )) as RunnerReply<MeasuredProfile>;
      if (!measured.ok) return measured;
      return verify(call, job, measured.value, onProgress, signal);
    },
    run: async (given, onProgress, signal) => {
      const job = await replyOf(() => runWithContents(given, read));
      if (!job.ok) return job;
      return view.runInPage({ kind: 'run', job: job.value }, onProgress, signal) as Promise<
        RunnerReply<readonly RunOutput[]>
      >;
    },
    trial: async (given, onProgress, signal) => {
      const job = await replyOf(() => trialWithContents(given, read));
      if (!job.ok) return job;
      return view.runInPage({ kind: 'trial', job: job.value }, onProgress, signal) as Promise<
        RunnerReply<TrialResult>
      >;
    },
    dispose: () => undefined,
  };
}

async function verify(
  call: CallCompiler,
  job: ProfileJob,
  measured: MeasuredProfile,
  onProgress: (progress: Progress) => void,
  signal: CancelSignal,
): Promise<RunnerReply<ProfileResult>> {
  const reply = await call('verify', { job, measured }, { onProgress, signal });
  if (reply.ok) return reply.value;
  const { error } = reply;
  const message = 'message' in error ? error.message : error.kind;
  return {
    ok: false,
    fault: { code: 'INTERNAL', message: `The results could not be verified: ${message}` },
  };
}
