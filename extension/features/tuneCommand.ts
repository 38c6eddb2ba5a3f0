/** The command Tune: searches, tells how far it is, and words what came out or went wrong. */
import * as vscode from 'vscode';
import type { RunnerReply } from '../../runner/core/types';
import { DEFAULT_SECONDS } from '../../tuner/search';
import type { TuneResult } from '../../tuner/types';
import { count, formatFactor, formatMicroseconds } from '../common/format';
import { withoutLinks } from '../common/markdown';
import { fileName, keyOf } from '../services/graphUris';
import { UNTRUSTED } from '../services/runners';
import type { Tuner } from '../services/tuner';
import { notify } from './notify';

export class TuneCommand {
  constructor(
    private readonly tuner: Tuner,
    private readonly log: vscode.LogOutputChannel,
  ) {}

  /** Resolves with the run's end; what is told about it stays on screen meanwhile. */
  async run(
    uri: vscode.Uri,
    seconds = DEFAULT_SECONDS,
  ): Promise<RunnerReply<TuneResult> | undefined> {
    if (!vscode.workspace.isTrusted) {
      void notify('warning', UNTRUSTED);
      return undefined;
    }
    const reply = await this.withProgress(uri, seconds);
    if (reply.ok)
      void notify('info', `${fileName(uri)}: ${outcome(reply.value)}`, [this.show(uri)]);
    else if (reply.fault.code !== 'CANCELLED') {
      this.log.error(`${fileName(uri)}: ${reply.fault.code}: ${reply.fault.message}`);
      void notify('error', `${fileName(uri)} could not be tuned. ${reply.fault.message}`);
    }
    return reply;
  }

  private show(uri: vscode.Uri): { title: string; run: () => Thenable<unknown> } {
    return {
      title: 'Show Candidates',
      run: () => vscode.commands.executeCommand('fusionLens.showGraph', keyOf(uri)),
    };
  }

  private withProgress(uri: vscode.Uri, seconds: number): Thenable<RunnerReply<TuneResult>> {
    return vscode.window.withProgress(
      {
        location: vscode.ProgressLocation.Notification,
        title: withoutLinks(`Tuning ${fileName(uri)}`),
        cancellable: true,
      },
      async (progress, token) => {
        const abort = new AbortController();
        const cancelled = token.onCancellationRequested(() => abort.abort());
        let shown = 0;
        try {
          return await this.tuner.run(
            keyOf(uri),
            seconds,
            ({ text, share }) => {
              progress.report({ message: text, increment: 100 * Math.max(0, share - shown) });
              shown = Math.max(shown, share);
            },
            abort.signal,
          );
        } finally {
          cancelled.dispose();
        }
      },
    );
  }
}

function outcome({ cancelled, kernels, plans, total }: TuneResult): string {
  if (cancelled)
    return 'cancelled; what was measured is kept, and the next run goes on from there.';
  const won = kernels.filter((k) => k.winner).length + plans.filter((p) => p.winner).length;
  if (won === 0) return 'nothing found that is faster than the compiler’s own choice.';
  const times = `${formatMicroseconds(total.defaultUs)} → ${formatMicroseconds(total.tunedUs)}`;
  return `${formatFactor(total.speedup)} (${times}) by ${count(won, 'tuned choice')}, verified.`;
}
