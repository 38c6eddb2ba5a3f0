/**
 * Where graph files come from and when they change: open documents with their unsaved edits first,
 * otherwise the file system of the workspace, whatever provides it.
 *
 * It tells {@link GraphResults} about every change, and retains the files that an editor shows. Files
 * that nobody looks at are not read: a folder with thousands of models costs one watcher.
 */
import * as vscode from 'vscode';
import { type Disposable, Owner } from '../common/lifecycle';
import type { GraphResults, GraphSource, SourceRead } from './results';
import {
  fileName,
  GRAPH_GLOB,
  graphOfSideFile,
  isBinaryGraph,
  isGraphDocument,
  isGraphUri,
  keyOf,
  openDocument,
  SIDE_FILE_GLOB,
  sideFileOf,
} from './graphUris';

/** One buffer of V8 can't be larger. */
const LARGEST_FILE = 2 ** 31 - 1;

/** Reads a model without the contents of its tensors: by ranges, which `workspace.fs` doesn't know. */
export type OpenModel = (path: string) => Promise<
  | {
      readonly ok: true;
      readonly value: Pick<Extract<SourceRead, { kind: 'read' }>, 'bytes' | 'cuts' | 'modelFile'>;
    }
  | { readonly ok: false; readonly message: string }
>;

/** @param openModel where files of this machine can be read by ranges */
export function graphSource(openModel: OpenModel | undefined): GraphSource {
  return {
    async read(key: string): Promise<SourceRead> {
      const document = openDocument(key);
      if (document) {
        const name = fileName(document.uri);
        return {
          kind: 'read',
          bytes: new TextEncoder().encode(document.getText()),
          documentVersion: document.version,
          ...(isGraphUri(document.uri) ? {} : { file: `${name}.fuse` }),
        };
      }
      const uri = vscode.Uri.parse(key, true);
      return openModel && uri.scheme === 'file' && isBinaryGraph(uri)
        ? readModel(uri, openModel)
        : readFile(uri);
    },
  };
}

async function readModel(uri: vscode.Uri, openModel: OpenModel): Promise<SourceRead> {
  try {
    const { type } = await vscode.workspace.fs.stat(uri);
    // Opening a pipe would wait for whoever writes to it.
    if (!(type & vscode.FileType.File))
      return { kind: 'unavailable', message: `${fileName(uri)} is no file.` };
    const opened = await openModel(uri.fsPath);
    if (!opened.ok)
      return { kind: 'unavailable', message: `${fileName(uri)} can't be read: ${opened.message}.` };
    const sideFile = await readSideFile(uri);
    return { kind: 'read', ...opened.value, ...(sideFile === undefined ? {} : { sideFile }) };
  } catch (error) {
    return { kind: 'unavailable', message: explain(error, uri) };
  }
}

async function readFile(uri: vscode.Uri): Promise<SourceRead> {
  try {
    const { size } = await vscode.workspace.fs.stat(uri);
    if (size > LARGEST_FILE) {
      const gib = (size / 2 ** 30).toFixed(1);
      return {
        kind: 'unavailable',
        message:
          `${fileName(uri)} has ${gib} GiB; a file can be read up to 2 GiB. ` +
          'Save the model with its weights as external data: then the graph itself is small.',
      };
    }
    const bytes = await vscode.workspace.fs.readFile(uri);
    const sideFile = isBinaryGraph(uri) ? await readSideFile(uri) : undefined;
    return { kind: 'read', bytes, ...(sideFile === undefined ? {} : { sideFile }) };
  } catch (error) {
    return { kind: 'unavailable', message: explain(error, uri) };
  }
}

async function readSideFile(graph: vscode.Uri): Promise<string | undefined> {
  const uri = sideFileOf(graph);
  const open = vscode.workspace.textDocuments.find((d) => d.uri.toString() === uri.toString());
  if (open) return open.getText();
  try {
    return new TextDecoder().decode(await vscode.workspace.fs.readFile(uri));
  } catch (error) {
    if (error instanceof vscode.FileSystemError && error.code === 'FileNotFound') return undefined;
    throw error;
  }
}

function explain(error: unknown, uri: vscode.Uri): string {
  const name = fileName(uri);
  if (error instanceof vscode.FileSystemError) {
    if (error.code === 'FileNotFound') return `${name} no longer exists.`;
    if (error.code === 'NoPermissions') return `${name} may not be read: permission denied.`;
    if (error.code === 'FileIsADirectory') return `${name} is a folder.`;
  }
  return `${name} can't be read: ${error instanceof Error ? error.message : String(error)}`;
}

export class GraphFiles extends Owner {
  /** What is retained because an editor shows it. */
  private readonly visible = new Map<string, Disposable>();

  constructor(
    private readonly results: GraphResults,
    private readonly delay: () => number,
  ) {
    super();
    const { workspace, window } = vscode;
    this.watch(workspace.createFileSystemWatcher(GRAPH_GLOB), (uri) => uri);
    this.watch(workspace.createFileSystemWatcher(SIDE_FILE_GLOB), graphOfSideFile);
    this.register(
      workspace.onDidChangeTextDocument(({ document, contentChanges }) => {
        if (contentChanges.length === 0) return;
        if (isGraphDocument(document)) this.results.touch(keyOf(document.uri), this.delay());
        else if (document.uri.path.endsWith('.fusion.json'))
          this.results.touch(keyOf(graphOfSideFile(document.uri)), this.delay());
      }),
    );
    this.register(
      workspace.onDidCloseTextDocument(({ uri }) => {
        // Unsaved edits are gone with it: what is left is the file on disk.
        const key = keyOf(uri);
        this.results.touch(key, 0);
        this.results.release(key);
      }),
    );
    this.register(
      workspace.onDidOpenTextDocument((document) => {
        if (isGraphDocument(document)) this.results.touch(keyOf(document.uri), 0);
      }),
    );
    this.register(window.onDidChangeVisibleTextEditors(() => this.retainVisible()));
    this.register({ dispose: () => this.visible.forEach((retained) => retained.dispose()) });
    this.retainVisible();
  }

  /** Retains a file for somebody that shows it, and watches it when it is outside the workspace. */
  retain(uri: vscode.Uri): Disposable {
    const retained = this.results.retain(keyOf(uri));
    if (vscode.workspace.getWorkspaceFolder(uri) || uri.scheme !== 'file') return retained;
    const folder = vscode.Uri.joinPath(uri, '..');
    const pattern = new vscode.RelativePattern(folder, escapeGlob(fileName(uri)));
    const watcher = vscode.workspace.createFileSystemWatcher(pattern);
    const subscription = this.listen(watcher, (changed) => changed);
    return {
      dispose: () => {
        subscription.dispose();
        watcher.dispose();
        retained.dispose();
      },
    };
  }

  private watch(watcher: vscode.FileSystemWatcher, graphOf: (uri: vscode.Uri) => vscode.Uri): void {
    this.register(watcher);
    this.register(this.listen(watcher, graphOf));
  }

  private listen(
    watcher: vscode.FileSystemWatcher,
    graphOf: (uri: vscode.Uri) => vscode.Uri,
  ): Disposable {
    const touch = (uri: vscode.Uri) => {
      const key = keyOf(graphOf(uri));
      // An open document is the truth, saved or not; its own events tell of changes.
      if (!openDocument(key)) this.results.touch(key, this.delay());
    };
    return vscode.Disposable.from(
      watcher.onDidChange(touch),
      watcher.onDidCreate(touch),
      watcher.onDidDelete(touch),
    );
  }

  private retainVisible(): void {
    const shown = new Map(
      vscode.window.visibleTextEditors
        .filter(({ document }) => isGraphDocument(document))
        .map(({ document }) => [keyOf(document.uri), document.uri]),
    );
    for (const [key, uri] of shown)
      if (!this.visible.has(key)) this.visible.set(key, this.retain(uri));
    for (const [key, retained] of this.visible) {
      if (shown.has(key)) continue;
      this.visible.delete(key);
      retained.dispose();
    }
  }
}

/** A file's name as a glob that matches it alone. */
function escapeGlob(name: string): string {
  return name.replace(/[[\]{}()*?!]/g, (character) => `[${character}]`);
}
