/** The view "Kernels": what the active graph became. */
import * as vscode from 'vscode';
import { Emitter, Owner } from '../common/lifecycle';
import type { ActiveGraph } from '../services/activeGraph';
import { fileName, keyOf } from '../services/graphUris';
import type { Measurements } from '../services/measurements';
import type { GraphResults } from '../services/results';
import { planSummary } from './explain';
import { kernelTree, type TreeItem } from './treeModel';

export class KernelTree extends Owner implements vscode.TreeDataProvider<TreeItem> {
  private readonly changes = this.register(new Emitter<undefined>());
  readonly onDidChangeTreeData = this.changes.event;
  private readonly view: vscode.TreeView<TreeItem>;

  constructor(
    private readonly active: ActiveGraph,
    private readonly results: GraphResults,
    private readonly measurements: Measurements,
  ) {
    super();
    this.view = this.register(
      vscode.window.createTreeView('fusionLens.kernels', { treeDataProvider: this }),
    );
    // A description without a title leaves the header without one.
    this.view.title = 'Kernels';
    const refresh = () => {
      this.describe();
      this.changes.fire(undefined);
    };
    const ifActive = (key: string) => {
      if (this.active.uri && keyOf(this.active.uri) === key) refresh();
    };
    this.register(active.onDidChange(refresh));
    this.register(results.onDidChange(ifActive));
    this.register(measurements.onDidChange(ifActive));
    this.describe();
  }

  getChildren(item?: TreeItem): readonly TreeItem[] & TreeItem[] {
    if (item) return [...item.children];
    const { uri } = this.active;
    if (!uri) return [];
    const key = keyOf(uri);
    const result = this.results.get(key)?.result;
    return result ? [...kernelTree(result, this.measurements.get(key))] : [];
  }

  getTreeItem(item: TreeItem): vscode.TreeItem {
    const { uri } = this.active;
    const key = uri ? keyOf(uri) : '';
    const shown = new vscode.TreeItem(
      item.label,
      item.children.length === 0
        ? vscode.TreeItemCollapsibleState.None
        : vscode.TreeItemCollapsibleState.Collapsed,
    );
    shown.id = `${key}#${item.id}`;
    shown.description = item.description;
    shown.tooltip = item.tooltip;
    shown.iconPath = new vscode.ThemeIcon(item.icon);
    shown.contextValue = item.kind;
    shown.command = {
      title: 'Show in graph',
      command: 'fusionLens.showGraph',
      arguments: [key, item.nodes],
    };
    return shown;
  }

  private describe(): void {
    const { uri } = this.active;
    const state = uri && this.results.get(keyOf(uri));
    this.view.description = uri ? fileName(uri) : '';
    this.view.message = state?.result
      ? planSummary(state.result)
      : (state?.problem ?? (uri ? 'Analysing…' : undefined));
  }
}
