/** The command Profile: runs, tells how far it is, and words what came out or went wrong. */
import * as vscode from 'vscode';
import type { ProfileResult, RunnerFault, RunnerReply } from '../../runner/core/types';
import { formatFactor, formatMicroseconds } from '../common/format';
import { Owner } from '../common/lifecycle';
import { withoutLinks } from '../common/markdown';
import { fileName, keyOf } from '../services/graphUris';
import type { Profiler } from '../services/profiler';
import { UNTRUSTED } from '../services/runners';
import { type RunnerChoice, SECTION } from '../services/settings';
import { adapterName, SOFTWARE_NOTE } from './explain';
import { progressText } from './lensText';
import { type Action, notify } from './notify';

/** How long the status bar tells of a run that went well. */
const TOLD_MS = 10_000;

export class ProfileCommand extends Owner {
  constructor(
    private readonly profiler: Profiler,
    private readonly log: vscode.LogOutputChannel,
    /** Whether the graph of this file can be seen: then it tells how far a run is and what came out. */
    private readonly isGraphVisible: (key: string) => boolean,
  ) {
    super();
  }

  /** Resolves with the run's end; what is told about it stays on screen meanwhile. */
  async run(
    uri: vscode.Uri,
    choice?: RunnerChoice,
  ): Promise<RunnerReply<ProfileResult> | undefined> {
    if (!vscode.workspace.isTrusted) {
      void notify('warning', UNTRUSTED, [
        {
          title: 'Manage Workspace Trust',
          run: () => vscode.commands.executeCommand('workbench.trust.manage'),
        },
      ]);
      return undefined;
    }
    const { running } = this.profiler;
    if (running !== undefined) {
      const name = fileName(vscode.Uri.parse(running));
      void notify('info', `A profile run of ${name} is under way.`, [
        { title: 'Cancel It', run: () => this.profiler.cancel(running) },
      ]);
      return undefined;
    }
    const reply = await this.withProgress(uri, choice);
    if (reply.ok) void this.tell(uri, reply.value);
    else void this.tellFault(uri, reply.fault);
    return reply;
  }

  private withProgress(uri: vscode.Uri, choice: RunnerChoice | undefined) {
    const key = keyOf(uri);
    return vscode.window.withProgress(
      {
        // Over a graph that tells the same, a notification would only be in the way.
        location: this.isGraphVisible(key)
          ? vscode.ProgressLocation.Window
          : vscode.ProgressLocation.Notification,
        title: withoutLinks(`Profiling ${fileName(uri)}`),
        cancellable: true,
      },
      async (progress, token) => {
        const cancelled = token.onCancellationRequested(() => this.profiler.cancel(key));
        const shown = this.profiler.onDidChange((changed) => {
          const state = this.profiler.state(key);
          if (changed === key && state.kind === 'running')
            progress.report({ message: progressText(state.progress) });
        });
        try {
          return await this.profiler.profile(key, choice);
        } finally {
          cancelled.dispose();
          shown.dispose();
        }
      },
    );
  }

  private async tell(uri: vscode.Uri, profile: ProfileResult): Promise<void> {
    const { fused, unfused, speedup, verification, adapter, notes } = profile;
    for (const note of notes) this.log.info(`${fileName(uri)}: ${note}`);
    const times = `${formatMicroseconds(unfused.wallUs)} → ${formatMicroseconds(fused.wallUs)}`;
    const where = `${adapterName(adapter)} of ${adapter.host}`;
    const caveat = adapter.software ? ` (${SOFTWARE_NOTE})` : '';
    const show: Action = {
      title: 'Show Graph',
      run: () => vscode.commands.executeCommand('fusionLens.showGraph', keyOf(uri)),
    };
    if (verification.ok) {
      if (this.isGraphVisible(keyOf(uri))) {
        vscode.window.setStatusBarMessage(
          `$(check) ${fileName(uri)}: ${formatFactor(speedup)} (${times}), verified`,
          TOLD_MS,
        );
        return;
      }
      await notify(
        'info',
        `${fileName(uri)}: ${formatFactor(speedup)} (${times}), verified, on ${where}${caveat}.`,
        [show],
      );
      return;
    }
    const wrong = verification.outputs.filter(({ ok }) => !ok).map(({ name }) => name);
    await notify(
      'warning',
      `${fileName(uri)}: the fused kernels' results are not verified` +
        `${wrong.length > 0 ? `: ${wrong.slice(0, 3).join(', ')} differs from the reference` : ''}. ` +
        `${formatFactor(speedup)} (${times}) on ${where}${caveat}.`,
      [show],
    );
  }

  private async tellFault(uri: vscode.Uri, fault: RunnerFault): Promise<void> {
    if (fault.code === 'CANCELLED') return;
    const kernel = fault.kernel === undefined ? '' : `kernel ${fault.kernel}: `;
    const advice = fault.advice === undefined ? '' : ` ${fault.advice}`;
    this.log.error(`${fileName(uri)}: ${fault.code}: ${kernel}${fault.message}${advice}`);
    await notify(
      'error',
      `${fileName(uri)} could not be profiled. ${kernel}${fault.message}${advice}`,
      this.actionsFor(uri, fault),
    );
  }

  private actionsFor(uri: vscode.Uri, fault: RunnerFault): Action[] {
    const settings = (name: string): Action => ({
      title: 'Open Settings',
      run: () =>
        vscode.commands.executeCommand('workbench.action.openSettings', `${SECTION}.${name}`),
    });
    const page: Action = { title: "Use This Window's GPU", run: () => this.run(uri, 'page') };
    const again: Action = { title: 'Try Again', run: () => this.run(uri) };
    const log: Action = { title: 'Show Log', run: () => this.log.show() };
    const code = fault.kernel;
    const showCode: Action[] =
      code === undefined
        ? []
        : [
            {
              title: `Show Code of ${code}`,
              run: () =>
                vscode.commands.executeCommand('fusionLens.openKernelCode', keyOf(uri), code),
            },
          ];
    switch (fault.code) {
      case 'NO_NODE':
        return [page, settings('nodePath')];
      case 'NO_ADAPTER':
        return [page, settings('profile')];
      case 'BAD_INPUT':
        return fault.message.includes('nodePath') ? [settings('nodePath')] : [log];
      case 'TOO_LARGE':
      case 'OUT_OF_MEMORY':
        return [...showCode, settings('dims')];
      case 'SHADER_ERROR':
      case 'VALIDATION':
      case 'INTERNAL':
        return [...showCode, log];
      case 'DEVICE_LOST':
      case 'HUNG':
      case 'CRASHED':
        return [again, ...showCode, log];
      case 'UNSUPPORTED':
      case 'CANCELLED':
        return [];
    }
  }
}
