/**
 * One graph page and the file it shows: sends it states, hears what the person did.
 *
 * The page is destroyed when it is hidden and starts again when it is shown, so everything is sent
 * anew at each `ready`, and nothing in between is kept for it.
 */
import * as vscode from 'vscode';
import type { CancelSignal, Progress, RunnerReply } from '../../runner/core/types';
import type { HostToWebview, ProfileState, WebviewToHost } from '../contracts/webview';
import { Owner, reportRejection } from '../common/lifecycle';
import type { Devices } from '../services/devices';
import type { GraphFiles } from '../services/graphFiles';
import { fileName, keyOf } from '../services/graphUris';
import type { Measurements } from '../services/measurements';
import type { Profiler } from '../services/profiler';
import type { Tuner } from '../services/tuner';
import type { GraphResults } from '../services/results';
import { readSettings } from '../services/settings';
import { graphPage } from './html';
import { readMessage } from './messages';
import { type PageJob, PageJobs } from './pageJobs';

/** What a person does in the page that the rest of the extension carries out. */
export interface GraphViewActions {
  ready(): void;
  selected(view: GraphView, nodes: readonly string[], reveal: boolean): void;
  openCode(uri: vscode.Uri, kernel: string): void;
  profile(uri: vscode.Uri): void;
  tune(uri: vscode.Uri): void;
  forceFuse(uri: vscode.Uri, from: string, to: string): void;
  exportSvg(uri: vscode.Uri, svg: string): void;
}

export interface GraphViewServices {
  readonly extensionUri: vscode.Uri;
  readonly results: GraphResults;
  readonly files: GraphFiles;
  readonly measurements: Measurements;
  readonly profiler: Profiler;
  readonly tuner: Tuner;
  readonly devices: Devices;
  readonly log: vscode.LogOutputChannel;
  readonly actions: GraphViewActions;
}

export class GraphView extends Owner {
  readonly key: string;
  private ready = false;
  private sentVersion: number | undefined;
  private readyWaiters: ((ready: boolean) => void)[] = [];
  private pendingSelection: readonly string[] | undefined;
  private readonly jobs: PageJobs;

  constructor(
    readonly panel: vscode.WebviewPanel,
    readonly uri: vscode.Uri,
    private readonly services: GraphViewServices,
  ) {
    super();
    this.key = keyOf(uri);
    const { results, measurements, profiler, devices, files } = services;
    this.jobs = this.register(new PageJobs((message) => this.post(message)));
    this.register(files.retain(uri));
    const { webview } = panel;
    this.register(webview.onDidReceiveMessage((message: unknown) => this.receiveAny(message)));
    this.register(
      panel.onDidChangeViewState(() => {
        if (!panel.visible) this.setNotReady('The graph panel was hidden, which ends its page.');
      }),
    );
    const ifMine = (send: () => void) => (key: string) => {
      if (key === this.key && this.ready) send();
    };
    this.register(results.onDidChange(ifMine(() => this.sendResult())));
    this.register(measurements.onDidChange(ifMine(() => this.sendMeasurements())));
    this.register(profiler.onDidChange(ifMine(() => this.sendProfileState())));
    this.register(services.tuner.onDidTune(ifMine(() => this.sendTuned())));
    this.register(devices.onDidChangeNote(() => this.sendDeviceNote()));
    this.register(
      vscode.workspace.onDidGrantWorkspaceTrust(() => this.post({ type: 'trust', trusted: true })),
    );
    webview.options = {
      enableScripts: true,
      localResourceRoots: [
        vscode.Uri.joinPath(services.extensionUri, 'dist'),
        vscode.Uri.joinPath(services.extensionUri, 'media'),
      ],
    };
    const asset = (name: string) =>
      webview.asWebviewUri(vscode.Uri.joinPath(services.extensionUri, 'dist', name)).toString(true);
    webview.html = graphPage({
      cspSource: webview.cspSource,
      script: asset('webview.js'),
      style: asset('webview.css'),
      layoutWorker: asset('layoutWorker.js'),
      uri: this.key,
      title: fileName(uri),
    });
  }

  /** Whether the page is there and answers. */
  get isReady(): boolean {
    return this.ready;
  }

  /** Selects nodes now, or as soon as the page is there. */
  select(nodes: readonly string[], reveal: boolean): void {
    if (this.ready) this.post({ type: 'select', nodes, reveal });
    else if (reveal) this.pendingSelection = nodes;
  }

  /** Runs kernels in the page. The page must be visible, and stay so. */
  async runInPage(
    job: PageJob,
    onProgress: (progress: Progress) => void,
    signal: CancelSignal,
  ): Promise<RunnerReply<unknown>> {
    if (!(await this.whenReady()))
      return {
        ok: false,
        fault: {
          code: 'CRASHED',
          message: 'The graph panel did not start, so its GPU can’t be used.',
          advice: 'Open the graph and try again.',
        },
      };
    return this.jobs.run(job, onProgress, signal);
  }

  override dispose(): void {
    super.dispose();
    this.setNotReady('The graph panel was closed.');
  }

  private whenReady(): Promise<boolean> {
    if (this.ready) return Promise.resolve(true);
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), 30_000);
      this.readyWaiters.push((ready) => {
        clearTimeout(timer);
        resolve(ready);
      });
    });
  }

  private setNotReady(why: string): void {
    this.ready = false;
    this.sentVersion = undefined;
    this.jobs.failAll(why);
    if (this.isDisposed) for (const waiter of this.readyWaiters.splice(0)) waiter(false);
  }

  private receiveAny(value: unknown): void {
    const message = readMessage(value);
    if (message) this.receive(message);
    else this.services.log.warn(`${fileName(this.uri)}: a message of its page was not understood.`);
  }

  private receive(message: WebviewToHost): void {
    const { actions, profiler, log } = this.services;
    switch (message.type) {
      case 'ready':
        this.start();
        return;
      case 'selected':
        actions.selected(this, message.nodes, message.reveal);
        return;
      case 'requestCode':
        reportRejection(this.sendCode(message.id, message.kernel), (error) =>
          log.error(String(error)),
        );
        return;
      case 'requestSteps':
        reportRejection(this.sendSteps(message.id), (error) => log.error(String(error)));
        return;
      case 'requestPlanAt':
        reportRejection(this.sendPlanAt(message.id, message.step), (error) =>
          log.error(String(error)),
        );
        return;
      case 'openCode':
        actions.openCode(this.uri, message.kernel);
        return;
      case 'profile':
        actions.profile(this.uri);
        return;
      case 'tune':
        actions.tune(this.uri);
        return;
      case 'cancelProfile':
        profiler.cancel(this.key);
        return;
      case 'forceFuse':
        actions.forceFuse(this.uri, message.from, message.to);
        return;
      case 'pageProgress':
        this.jobs.progress(message.id, message.progress);
        return;
      case 'pageDone':
        this.jobs.done(message.id, message.wire);
        return;
      case 'exportSvg':
        actions.exportSvg(this.uri, message.svg);
        return;
      case 'log':
        log[message.level](`${fileName(this.uri)}: ${message.message}`);
        return;
    }
  }

  private start(): void {
    if (this.ready) this.setNotReady('The graph panel was reloaded.');
    this.ready = true;
    this.post({ type: 'trust', trusted: vscode.workspace.isTrusted });
    this.sendDeviceNote();
    this.sendResult();
    this.sendProfileState();
    this.sendTuned();
    if (this.pendingSelection) {
      this.post({ type: 'select', nodes: this.pendingSelection, reveal: true });
      this.pendingSelection = undefined;
    }
    for (const waiter of this.readyWaiters.splice(0)) waiter(true);
    this.services.actions.ready();
  }

  private sendResult(): void {
    const state = this.services.results.get(this.key);
    if (!state) return;
    if (state.problem !== undefined && !state.result) {
      this.sentVersion = undefined;
      this.post({ type: 'unavailable', message: state.problem });
      return;
    }
    if (state.result && state.result.version !== this.sentVersion) {
      this.sentVersion = state.result.version;
      const profile = this.services.measurements.get(this.key);
      this.post({
        type: 'result',
        result: state.result,
        stale: !state.fresh,
        ...(profile ? { profile } : {}),
      });
    }
    if (!state.fresh && state.problem !== undefined && !state.busy)
      this.post({ type: 'unavailable', message: state.problem });
    else if (!state.fresh) this.post({ type: 'busy', message: 'Compiling…' });
  }

  private sendMeasurements(): void {
    const profile = this.services.measurements.get(this.key);
    if (profile) {
      this.post({ type: 'profile', profile });
    } else {
      // Measurements were cleared: a result without them says so.
      this.sentVersion = undefined;
      this.sendResult();
    }
  }

  private sendProfileState(): void {
    const state: ProfileState = this.services.profiler.state(this.key);
    this.post({ type: 'profileState', state });
  }

  private sendTuned(): void {
    const tuned = this.services.tuner.get(this.key);
    if (tuned) this.post({ type: 'tuned', tuned });
  }

  private sendDeviceNote(): void {
    const note = this.services.devices.note(readSettings(this.uri).device);
    this.post({ type: 'device', note });
  }

  private async sendCode(id: number, kernel: string): Promise<void> {
    const reply = await this.services.results.ask('code', this.key, (at) => ({ ...at, kernel }));
    this.post({ type: 'code', id, code: reply.ok ? reply.value : { error: reply.message } });
  }

  private async sendSteps(id: number): Promise<void> {
    const reply = await this.services.results.ask('steps', this.key, (at) => at);
    this.post({ type: 'steps', id, steps: reply.ok ? reply.value : { error: reply.message } });
  }

  private async sendPlanAt(id: number, step: number): Promise<void> {
    const reply = await this.services.results.ask('planAt', this.key, (at) => ({ ...at, step }));
    this.post({ type: 'planAt', id, planAt: reply.ok ? reply.value : { error: reply.message } });
  }

  private post(message: HostToWebview): void {
    if (this.isDisposed || !this.ready) return;
    reportRejection(this.panel.webview.postMessage(message), (error) =>
      this.services.log.warn(`The graph panel could not be told: ${String(error)}`),
    );
  }
}
