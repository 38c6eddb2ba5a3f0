/**
 * The tuning records of the workspace, `.fusion-lens/tuning.json`, as compiles get them. They lie in the
 * nearest folder, from the graph's upwards, that has a `.fusion-lens`; else they will lie in the
 * workspace folder.
 */
import * as vscode from 'vscode';
import type { Tuning } from '../../compiler/tuning';
import type { AdapterInfo } from '../../runner/core/types';
import {
  adapterName,
  readRecords,
  type Records,
  TUNING_FILE,
  TUNING_FOLDER,
  tuningFor,
  unreadable,
} from '../../tuner/records';
import { type Disposable, Owner } from '../common/lifecycle';

export interface TuningPlace {
  /** The records' file. */
  readonly uri: vscode.Uri;
  /** The graph's file, as records name it. */
  readonly file: string;
}

const GLOB = `**/${TUNING_FOLDER}/${TUNING_FILE}`;

export class TuningRecords extends Owner {
  constructor(
    /** Of this program. */
    readonly version: string,
    changed: () => void,
  ) {
    super();
    const watcher = this.register(vscode.workspace.createFileSystemWatcher(GLOB));
    const listen = (event: (f: () => void) => Disposable): void =>
      void this.register(event(changed));
    listen((f) => watcher.onDidChange(f));
    listen((f) => watcher.onDidCreate(f));
    listen((f) => watcher.onDidDelete(f));
  }

  /** Undefined for documents that lie nowhere. */
  async placeOf(key: string): Promise<TuningPlace | undefined> {
    const graph = vscode.Uri.parse(key, true);
    if (graph.scheme === 'untitled') return undefined;
    const start = vscode.Uri.joinPath(graph, '..');
    let home = vscode.workspace.getWorkspaceFolder(graph)?.uri ?? start;
    for (let folder = start; ;) {
      if (await exists(vscode.Uri.joinPath(folder, TUNING_FOLDER))) {
        home = folder;
        break;
      }
      const parent = vscode.Uri.joinPath(folder, '..');
      if (parent.path === folder.path) break;
      folder = parent;
    }
    const root = home.path.endsWith('/') ? home.path : `${home.path}/`;
    const file = graph.path.startsWith(root) ? graph.path.slice(root.length) : graph.path;
    return { uri: vscode.Uri.joinPath(home, TUNING_FOLDER, TUNING_FILE), file };
  }

  async read({ uri }: TuningPlace): Promise<ReturnType<typeof readRecords>> {
    try {
      return readRecords(new TextDecoder().decode(await vscode.workspace.fs.readFile(uri)));
    } catch (error) {
      if (error instanceof vscode.FileSystemError && error.code === 'FileNotFound')
        return { ok: true, records: new Map() satisfies Records };
      return { ok: false, reason: error instanceof Error ? error.message : String(error) };
    }
  }

  /** What a compile of the file for this adapter is to use; nothing as long as none is known. */
  async tuningOf(key: string, adapter: AdapterInfo | undefined): Promise<Tuning | undefined> {
    if (!adapter) return undefined;
    const place = await this.placeOf(key);
    if (!place) return undefined;
    const read = await this.read(place);
    if (!read.ok) return unreadable(vscode.workspace.asRelativePath(place.uri), read.reason);
    if (read.records.size === 0) return undefined;
    const { version } = this;
    return tuningFor(read.records, { file: place.file, version, adapter: adapterName(adapter) });
  }
}

async function exists(uri: vscode.Uri): Promise<boolean> {
  try {
    await vscode.workspace.fs.stat(uri);
    return true;
  } catch {
    return false;
  }
}
