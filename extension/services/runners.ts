/**
 * Which runner a profile run gets: a Node process with Dawn where a real Node exists, otherwise the
 * graph page's `navigator.gpu`. In an untrusted workspace: none, whoever asks.
 */
import type { Runner, RunnerFault, RunnerReply } from '../../runner/core/types';
import type { RunnerChoice } from './settings';

export interface RunnerSources {
  readonly isTrusted: () => boolean;
  /** Absent where no process can be started. */
  readonly process?: () => Promise<RunnerReply<Runner>>;
  readonly page: () => Promise<RunnerReply<Runner>>;
}

export const UNTRUSTED =
  'Running kernels is switched off in Restricted Mode: a graph file decides what runs on the GPU, ' +
  'and this workspace is not trusted. Graphs, lenses and estimates work as always.';

export async function openRunner(
  choice: RunnerChoice,
  sources: RunnerSources,
): Promise<RunnerReply<Runner>> {
  if (!sources.isTrusted()) return failed('UNSUPPORTED', UNTRUSTED);
  switch (choice) {
    case 'page':
      return sources.page();
    case 'node':
      return (
        sources.process?.() ??
        failed('NO_NODE', 'This VS Code runs in a browser, where no Node process can be started.')
      );
    case 'auto': {
      if (!sources.process) return sources.page();
      const opened = await sources.process();
      // The one case that "auto" is for: there is no Node. Other faults are shown, not hidden.
      return !opened.ok && opened.fault.code === 'NO_NODE' ? sources.page() : opened;
    }
  }
}

function failed(
  code: RunnerFault['code'],
  message: string,
): { readonly ok: false; readonly fault: RunnerFault } {
  return { ok: false, fault: { code, message } };
}
