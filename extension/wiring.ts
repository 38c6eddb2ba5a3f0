/**
 * Builds the services and features and connects them: the same in both kinds of extension host.
 *
 * Reading order: files tell results of changes; results ask the compiler; everything shown reads
 * results, measurements and profile states, and hears of their changes by events.
 */
import * as vscode from 'vscode';
import type { AdapterInfo, Runner, RunnerFault, RunnerReply } from '../runner/core/types';
import { Owner } from './common/lifecycle';
import { Commands } from './features/commands';
import { exportSvg } from './features/exportSvg';
import { FileTree } from './features/fileTree';
import { forceFuse } from './features/forceFuse';
import { Hovers } from './features/hovers';
import { KernelCode } from './features/kernelCode';
import { KernelTree } from './features/kernelTree';
import { LanguageFeatures } from './features/languageFeatures';
import { Lenses } from './features/lenses';
import { LinkedSelection } from './features/linkedSelection';
import { notify } from './features/notify';
import { Problems } from './features/problems';
import { ProfileCommand } from './features/profileCommand';
import { TuneCommand } from './features/tuneCommand';
import { StatusBar } from './features/statusBar';
import type { Platform } from './platform';
import { ActiveGraph } from './services/activeGraph';
import { compileInputs, profileOptions } from './services/inputs';
import { Devices } from './services/devices';
import { GraphFiles, graphSource } from './services/graphFiles';
import { keyOf } from './services/graphUris';
import { Measurements } from './services/measurements';
import { pageRunner } from './services/pageRunner';
import { Profiler } from './services/profiler';
import { GraphResults } from './services/results';
import { openRunner } from './services/runners';
import { readSettings, type RunnerChoice, SECTION } from './services/settings';
import { Tuner } from './services/tuner';
import { TuningRecords } from './services/tuningRecords';
import type { GraphView } from './webviewHost/graphView';
import { GraphViews } from './webviewHost/graphViews';
import { CompilerClient } from './worker/client';

const NO_PAGE: { readonly ok: false; readonly fault: RunnerFault } = {
  ok: false,
  fault: { code: 'UNSUPPORTED', message: 'No graph page is open.' },
};

/** A compile that takes longer than this is taken for hung. */
const COMPILE_LIMIT_MS = 120_000;

function programVersion(): string {
  const manifest: unknown = vscode.extensions.getExtension('fusion-lens.fusion-lens')?.packageJSON;
  const version =
    typeof manifest === 'object' && manifest !== null && 'version' in manifest
      ? manifest.version
      : undefined;
  return typeof version === 'string' ? version : 'unknown';
}

export class FusionLens extends Owner {
  private readonly log = this.register(
    vscode.window.createOutputChannel('Fusion Lens', { log: true }),
  );
  private readonly compiler: CompilerClient;
  readonly results: GraphResults;
  readonly devices: Devices;
  private readonly records = this.register(
    new TuningRecords(programVersion(), () => this.results.touchAll()),
  );
  readonly measurements = this.register(new Measurements());
  readonly profiler: Profiler;
  readonly tuner: Tuner;
  readonly views: GraphViews;
  private lastCrashShown = 0;

  constructor(
    extensionUri: vscode.Uri,
    memory: vscode.Memento,
    private readonly platform: Platform,
  ) {
    super();
    const { log, measurements } = this;
    const adapterKey = `adapter of ${platform.machine}`;
    this.compiler = this.register(new CompilerClient(platform.startWorker, COMPILE_LIMIT_MS));
    this.register(this.compiler.onDidCrash((reason) => this.tellCrash(reason)));
    const devices = this.register(
      new Devices({
        isTrusted: () => vscode.workspace.isTrusted,
        ask: () => this.askAdapter(),
        remembered: () => memory.get(adapterKey),
        remember: (adapter) => void memory.update(adapterKey, adapter),
      }),
    );
    this.devices = devices;
    const results = this.register(
      new GraphResults(
        graphSource(platform.openModel),
        this.compiler.call,
        (key) => compileInputs(key, devices, this.records),
        (text) => log.error(text),
      ),
    );
    this.register(devices.onDidChangeProfile(() => results.touchAll()));
    this.register(vscode.workspace.onDidGrantWorkspaceTrust(() => devices.askAgain()));
    this.results = results;
    const files = this.register(new GraphFiles(results, () => readSettings().delayMs));
    this.profiler = this.register(
      new Profiler(
        results,
        measurements,
        (uri, choice) => this.openRunner(uri, choice),
        profileOptions,
        (adapter) => devices.learn(adapter),
      ),
    );
    this.tuner = this.register(
      new Tuner(
        results,
        this.records,
        (uri, choice) => this.openRunner(uri, choice),
        profileOptions,
        (adapter) => devices.learn(adapter),
      ),
    );
    this.register(results.onDidForget((key) => this.profiler.forget(key)));

    const { profiler, tuner } = this;
    const tuneCommand = new TuneCommand(tuner, log);
    const kernelCode = this.register(new KernelCode(results));
    const profileCommand = this.register(
      new ProfileCommand(profiler, log, (key) => this.views.isVisible(key)),
    );
    this.views = this.register(
      new GraphViews(() => ({
        extensionUri,
        results,
        files,
        measurements,
        profiler,
        tuner,
        devices,
        log,
        actions: {
          ready: () => devices.pageIsReady(),
          selected: (view, nodes, reveal) => linked.selectedInPage(view, nodes, reveal),
          openCode: (uri, kernel) => this.inBackground(kernelCode.open(uri, kernel)),
          profile: (uri) => this.inBackground(profileCommand.run(uri)),
          tune: (uri) => this.inBackground(tuneCommand.run(uri)),
          forceFuse: (uri, from, to) =>
            this.inBackground(
              forceFuse(uri, from, to, results).then((fused) =>
                fused ? profileCommand.run(uri) : undefined,
              ),
            ),
          exportSvg: (uri, svg) => this.inBackground(exportSvg(uri, svg)),
        },
      })),
    );
    const { views } = this;
    const linked = this.register(new LinkedSelection(views, results));
    const active = this.register(new ActiveGraph(views));
    this.register(new Lenses(results, measurements, profiler));
    this.register(new Hovers(results, measurements));
    this.register(new Problems(results));
    this.register(new LanguageFeatures());
    this.register(new StatusBar(active, results, measurements, devices));
    this.register(new KernelTree(active, results, measurements));
    const fileTree = this.register(new FileTree());
    this.register(
      new Commands({
        ...{ extensionUri, active, results, measurements, profiler, views },
        ...{ kernelCode, fileTree, profileCommand, tuneCommand, log },
      }),
    );
    this.register(
      vscode.workspace.onDidChangeConfiguration((event) => {
        const compilesDiffer = ['dims', 'device'].some((name) =>
          event.affectsConfiguration(`${SECTION}.${name}`),
        );
        if (compilesDiffer) results.touchAll();
        if (event.affectsConfiguration(`${SECTION}.device`)) devices.choiceChanged();
        const adapterDiffers = ['nodePath', 'profile.runner', 'profile.environment'].some((name) =>
          event.affectsConfiguration(`${SECTION}.${name}`),
        );
        if (adapterDiffers) devices.askAgain();
      }),
    );
    this.register(
      vscode.workspace.onDidRenameFiles((event) => {
        for (const { oldUri, newUri } of event.files) {
          measurements.move(keyOf(oldUri), keyOf(newUri));
          results.release(keyOf(oldUri));
        }
      }),
    );
  }

  private openRunner(key: string, choice: RunnerChoice | undefined): Promise<RunnerReply<Runner>> {
    const uri = vscode.Uri.parse(key);
    const settings = readSettings(uri);
    const { openProcessRunner } = this.platform;
    return openRunner(choice ?? settings.runner, {
      isTrusted: () => vscode.workspace.isTrusted,
      page: () => this.openPage(uri),
      ...(openProcessRunner
        ? { process: () => openProcessRunner(settings, (line) => this.log.info(line)) }
        : {}),
    });
  }

  /** Asks the runner that the settings choose; undefined: a page would tell, and none is open. */
  private async askAdapter(): Promise<RunnerReply<AdapterInfo> | undefined> {
    const settings = readSettings();
    const { openProcessRunner } = this.platform;
    const opened = await openRunner(settings.runner, {
      isTrusted: () => vscode.workspace.isTrusted,
      page: () => {
        const page = this.views.anyReady;
        return Promise.resolve(page ? { ok: true, value: this.runnerOf(page) } : NO_PAGE);
      },
      ...(openProcessRunner
        ? { process: () => openProcessRunner(settings, (line) => this.log.debug(line)) }
        : {}),
    });
    if (opened === NO_PAGE) return undefined;
    if (!opened.ok) return opened;
    try {
      return await opened.value.adapter();
    } finally {
      opened.value.dispose();
    }
  }

  private runnerOf(view: GraphView): Runner {
    return pageRunner(view, this.compiler.call, this.platform.readContents);
  }

  private async openPage(uri: vscode.Uri): Promise<RunnerReply<Runner>> {
    const view = await this.views.show(uri, { preserveFocus: true });
    if (view) return { ok: true, value: this.runnerOf(view) };
    const fault: RunnerFault = {
      code: 'INTERNAL',
      message: 'The graph panel, whose GPU would be used, could not be opened.',
    };
    return { ok: false, fault };
  }

  private tellCrash(reason: string): void {
    this.log.error(`The compiler's worker stopped: ${reason}`);
    const now = Date.now();
    if (now - this.lastCrashShown < 30_000) return;
    this.lastCrashShown = now;
    void notify(
      'error',
      'Fusion Lens: the compiler stopped and will be started again. The log says more.',
      [{ title: 'Show Log', run: () => this.log.show() }],
    );
  }

  private inBackground(work: Promise<unknown>): void {
    work.catch((error: unknown) => {
      const text = error instanceof Error ? error.message : String(error);
      this.log.error(error instanceof Error ? (error.stack ?? text) : text);
      void notify('error', `Fusion Lens: ${text}`);
    });
  }
}
