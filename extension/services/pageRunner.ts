/** A runner in the graph page: its `navigator.gpu`, on the machine of the window. */
import type { ProfileResult, Runner, RunnerReply, RunOutput } from '../../runner/core/types';
import type { GraphView } from '../webviewHost/graphView';

export function pageRunner(view: GraphView): Runner {
  return {
    adapter: () =>
      Promise.resolve({
        ok: false,
        fault: { code: 'UNSUPPORTED', message: 'The page tells its adapter with a run.' },
      }),
    // The page answers a job of one kind with the result of that kind: contracts/webview.ts.
    profile: (job, onProgress, signal) =>
      view.runInPage({ kind: 'profile', job }, onProgress, signal) as Promise<
        RunnerReply<ProfileResult>
      >,
    run: (job, onProgress, signal) =>
      view.runInPage({ kind: 'run', job }, onProgress, signal) as Promise<
        RunnerReply<readonly RunOutput[]>
      >,
    dispose: () => undefined,
  };
}
