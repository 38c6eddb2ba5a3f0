/**
 * The graph file that the person is looking at: in a text editor, in the editor of a binary graph, or
 * in a graph panel. It stays while something else has the focus, as long as it can still be seen.
 */
import * as vscode from 'vscode';
import { Emitter, Owner } from '../common/lifecycle';
import type { GraphViews } from '../webviewHost/graphViews';
import { FUSE_LANGUAGE, isGraphDocument, isGraphUri, keyOf } from './graphUris';

/** For `when` clauses of the manifest. */
const CONTEXT_KEY = 'fusionLens.activeGraph';

export class ActiveGraph extends Owner {
  private current: vscode.Uri | undefined;

  private readonly changes = this.register(new Emitter<vscode.Uri | undefined>());
  readonly onDidChange = this.changes.event;

  constructor(private readonly views: GraphViews) {
    super();
    const { window } = vscode;
    const update = () => this.update();
    this.register(window.onDidChangeActiveTextEditor(update));
    this.register(window.onDidChangeVisibleTextEditors(update));
    this.register(window.tabGroups.onDidChangeTabs(update));
    this.register(window.tabGroups.onDidChangeTabGroups(update));
    this.register(views.onDidChange(update));
    this.update();
  }

  get uri(): vscode.Uri | undefined {
    return this.current;
  }

  private update(): void {
    const found = this.focused() ?? this.stillVisible();
    if (found?.toString() === this.current?.toString()) return;
    this.current = found;
    void vscode.commands.executeCommand('setContext', CONTEXT_KEY, found !== undefined);
    this.changes.fire(found);
  }

  private focused(): vscode.Uri | undefined {
    const panel = this.views.active;
    if (panel) return panel;
    const document = vscode.window.activeTextEditor?.document;
    if (document && isGraphDocument(document)) return document.uri;
    const input = vscode.window.tabGroups.activeTabGroup.activeTab?.input;
    if (input instanceof vscode.TabInputCustom && isGraphUri(input.uri)) return input.uri;
    return undefined;
  }

  private stillVisible(): vscode.Uri | undefined {
    const { current } = this;
    if (!current) return undefined;
    const key = keyOf(current);
    const inEditor = vscode.window.visibleTextEditors.some(
      ({ document }) => document.uri.toString() === key && document.languageId === FUSE_LANGUAGE,
    );
    return inEditor || this.views.isVisible(key) ? current : undefined;
  }
}
