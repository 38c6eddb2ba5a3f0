/** Every command of the manifest. Arguments are plain data: lenses, hovers and trees pass them. */
import * as vscode from 'vscode';
import { Owner } from '../common/lifecycle';
import { indexOf } from '../common/resultIndex';
import type { ActiveGraph } from '../services/activeGraph';
import { fileName, isGraphUri, keyOf } from '../services/graphUris';
import type { Measurements } from '../services/measurements';
import type { Profiler } from '../services/profiler';
import type { GraphResults } from '../services/results';
import { SECTION } from '../services/settings';
import type { GraphViews } from '../webviewHost/graphViews';
import { openExample } from './examples';
import type { FileTree } from './fileTree';
import type { KernelCode } from './kernelCode';
import { notify } from './notify';
import type { ProfileCommand } from './profileCommand';
import type { TreeItem } from './treeModel';
import type { TuneCommand } from './tuneCommand';

export interface CommandServices {
  readonly extensionUri: vscode.Uri;
  readonly active: ActiveGraph;
  readonly results: GraphResults;
  readonly measurements: Measurements;
  readonly profiler: Profiler;
  readonly views: GraphViews;
  readonly kernelCode: KernelCode;
  readonly fileTree: FileTree;
  readonly profileCommand: ProfileCommand;
  readonly tuneCommand: TuneCommand;
  readonly log: vscode.LogOutputChannel;
}

export class Commands extends Owner {
  constructor(private readonly services: CommandServices) {
    super();
    const { measurements, profiler, views, kernelCode, profileCommand } = services;
    this.add('fusionLens.showGraph', async (target, nodes) => {
      const uri = this.graph(target);
      if (uri)
        await views.show(uri, {
          ...(isTexts(nodes) ? { nodes } : {}),
          preserveFocus: isTexts(nodes),
        });
    });
    this.add('fusionLens.profile', async (target) => {
      const uri = this.graph(target);
      return uri && profileCommand.run(uri);
    });
    this.add('fusionLens.tune', async (target, seconds) => {
      const uri = this.graph(target);
      return (
        uri && services.tuneCommand.run(uri, typeof seconds === 'number' ? seconds : undefined)
      );
    });
    this.add('fusionLens.cancelProfile', () => {
      if (profiler.running !== undefined) profiler.cancel(profiler.running);
    });
    this.add('fusionLens.clearMeasurements', (target) => {
      const uri = target === undefined ? undefined : this.graph(target);
      if (uri) measurements.clear(keyOf(uri));
      else measurements.clearAll();
    });
    this.add('fusionLens.openKernelCode', async (target, kernel) => {
      const item = isTreeItem(target) ? target : undefined;
      const uri = this.graph(item ? undefined : target);
      if (!uri) return;
      const id = item?.kernel ?? (typeof kernel === 'string' ? kernel : await this.pickKernel(uri));
      if (id !== undefined) await kernelCode.open(uri, id);
    });
    this.add('fusionLens.goToSource', async (target) => {
      if (isTreeItem(target)) await this.goToSource(target.nodes);
    });
    this.add('fusionLens.toggleCodeLens', async () => {
      const section = vscode.workspace.getConfiguration(SECTION);
      const on = section.get<boolean>('codeLens.enabled') !== false;
      await section.update('codeLens.enabled', !on, vscode.ConfigurationTarget.Global);
    });
    this.add('fusionLens.refresh', () => {
      services.fileTree.refresh();
      services.results.touchAll();
    });
    this.add('fusionLens.openExample', () => openExample(services.extensionUri));
    this.add('fusionLens.openWalkthrough', () =>
      vscode.commands.executeCommand(
        'workbench.action.openWalkthrough',
        'fusion-lens.fusion-lens#fusionLens.start',
        false,
      ),
    );
    this.add('fusionLens.showLog', () => services.log.show());
  }

  private add(id: string, run: (...args: unknown[]) => unknown): void {
    this.register(vscode.commands.registerCommand(id, run));
  }

  /** What a command is about: its argument, or the graph that the person is looking at. */
  private graph(target: unknown): vscode.Uri | undefined {
    const uri = toUri(target) ?? this.services.active.uri;
    if (!uri) void notify('info', 'Open a graph first: a .fuse or an .onnx file.');
    return uri;
  }

  private async pickKernel(uri: vscode.Uri): Promise<string | undefined> {
    const { result } = await this.services.results.fresh(keyOf(uri));
    const kernels = [...(result?.after.kernels ?? []), ...(result?.after.prepared ?? [])];
    if (kernels.length === 0) {
      void notify('info', `${fileName(uri)} has no kernels.`);
      return undefined;
    }
    const picked = await vscode.window.showQuickPick(
      kernels.map(({ id, label, pattern }) => ({ label: id, description: label, detail: pattern })),
      { title: `Kernels of ${fileName(uri)}`, matchOnDescription: true },
    );
    return picked?.label;
  }

  private async goToSource(nodes: readonly string[]): Promise<void> {
    const { uri } = this.services.active;
    const result = uri && this.services.results.get(keyOf(uri))?.result;
    if (!result) return;
    const range = nodes.map((id) => indexOf(result).nodes.get(id)?.range).find(Boolean);
    if (!range) {
      void notify('info', 'This op has no line in a text file.');
      return;
    }
    const start = new vscode.Position(range.start.line, range.start.column);
    await vscode.window.showTextDocument(uri, { selection: new vscode.Range(start, start) });
  }
}

function toUri(target: unknown): vscode.Uri | undefined {
  if (target instanceof vscode.Uri)
    return isGraphUri(target) || hasFuse(target) ? target : undefined;
  if (typeof target !== 'string') return undefined;
  try {
    return vscode.Uri.parse(target, true);
  } catch {
    return undefined;
  }
}

/** A document may be Fuse by its language, whatever its name. */
function hasFuse(uri: vscode.Uri): boolean {
  return vscode.workspace.textDocuments.some(
    (document) => document.languageId === 'fuse' && document.uri.toString() === uri.toString(),
  );
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string');
}

function isTreeItem(value: unknown): value is TreeItem {
  return typeof value === 'object' && value !== null && 'kind' in value && 'nodes' in value;
}
