/**
 * The view "Graph files": the graphs of the workspace. It searches only while it is shown, and stops
 * at a number that a person could still look through.
 */
import * as vscode from 'vscode';
import { Emitter, Owner } from '../common/lifecycle';
import { fileName, GRAPH_GLOB } from '../services/graphUris';

const MOST = 2000;
/** A build that writes hundreds of files is one refresh. */
const SETTLE_MS = 500;

export class FileTree extends Owner implements vscode.TreeDataProvider<vscode.Uri> {
  private readonly changes = this.register(new Emitter<undefined>());
  readonly onDidChangeTreeData = this.changes.event;
  private readonly view: vscode.TreeView<vscode.Uri>;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    super();
    this.view = this.register(
      vscode.window.createTreeView('fusionLens.files', { treeDataProvider: this }),
    );
    const watcher = this.register(
      vscode.workspace.createFileSystemWatcher(GRAPH_GLOB, false, true, false),
    );
    const later = () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.refresh(), SETTLE_MS);
    };
    this.register(watcher.onDidCreate(later));
    this.register(watcher.onDidDelete(later));
    this.register(vscode.workspace.onDidChangeWorkspaceFolders(later));
    this.register({ dispose: () => clearTimeout(this.timer) });
  }

  refresh(): void {
    this.changes.fire(undefined);
  }

  async getChildren(item?: vscode.Uri): Promise<vscode.Uri[]> {
    if (item) return [];
    const found = await vscode.workspace.findFiles(GRAPH_GLOB, undefined, MOST + 1);
    this.view.message =
      found.length > MOST
        ? `Only the first ${MOST.toLocaleString('en-US')} are listed.`
        : undefined;
    return found.slice(0, MOST).sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0));
  }

  getTreeItem(uri: vscode.Uri): vscode.TreeItem {
    const item = new vscode.TreeItem(uri, vscode.TreeItemCollapsibleState.None);
    item.label = fileName(uri);
    item.description = vscode.workspace.asRelativePath(uri).split('/').slice(0, -1).join('/');
    item.iconPath = vscode.ThemeIcon.File;
    item.contextValue = 'graphFile';
    item.command = { title: 'Open', command: 'vscode.open', arguments: [uri] };
    return item;
  }
}
