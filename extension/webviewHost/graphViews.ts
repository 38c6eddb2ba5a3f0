/**
 * All graph pages that are open: panels beside an editor, and editors of binary graphs.
 *
 * One panel per file. Panels come back after a reload of the window (the page keeps the file's URI),
 * and follow the file when it is renamed.
 */
import * as vscode from 'vscode';
import type { PanelState } from '../contracts/webview';
import { Emitter, Owner } from '../common/lifecycle';
import { fileName, isBinaryGraph, keyOf } from '../services/graphUris';
import { GraphView, type GraphViewServices } from './graphView';

/** The panel beside a text editor. */
export const PANEL_TYPE = 'fusionLens.graphPanel';
/** The editor of a binary graph, as the manifest declares it. */
export const EDITOR_TYPE = 'fusionLens.graph';

export class GraphViews extends Owner {
  private readonly views = new Map<string, GraphView>();
  private readonly selections = new Map<string, readonly string[]>();

  private readonly changes = this.register(new Emitter<void>());
  /** A view was opened, closed, shown, hidden or focused. */
  readonly onDidChange = this.changes.event;

  constructor(private readonly services: () => GraphViewServices) {
    super();
    this.register(
      vscode.window.registerWebviewPanelSerializer(PANEL_TYPE, {
        deserializeWebviewPanel: (panel, state: Partial<PanelState> | undefined) => {
          this.restore(panel, state);
          return Promise.resolve();
        },
      }),
    );
    this.register(
      vscode.window.registerCustomEditorProvider(
        EDITOR_TYPE,
        {
          openCustomDocument: (uri) => ({ uri, dispose: () => undefined }),
          resolveCustomEditor: ({ uri }, panel) => {
            this.adopt(panel, uri);
          },
        },
        { supportsMultipleEditorsPerDocument: false },
      ),
    );
    this.register(
      vscode.workspace.onDidRenameFiles(({ files }) => {
        for (const { oldUri, newUri } of files) this.follow(oldUri, newUri);
      }),
    );
    this.register({
      dispose: () => {
        for (const view of [...this.views.values()]) view.dispose();
      },
    });
  }

  get(key: string): GraphView | undefined {
    return this.views.get(key);
  }

  /** The file whose page has the focus. */
  get active(): vscode.Uri | undefined {
    return [...this.views.values()].find(({ panel }) => panel.active)?.uri;
  }

  /** A page that is there, whichever it is: all have the same GPU. */
  get anyReady(): GraphView | undefined {
    return [...this.views.values()].find(({ isReady }) => isReady);
  }

  isVisible(key: string): boolean {
    return this.views.get(key)?.panel.visible === true;
  }

  /** Shows the file's graph and selects nodes in it. */
  async show(
    uri: vscode.Uri,
    options: { readonly nodes?: readonly string[]; readonly preserveFocus?: boolean } = {},
  ): Promise<GraphView | undefined> {
    const key = keyOf(uri);
    const { nodes, preserveFocus = false } = options;
    const open = this.views.get(key);
    if (open) {
      if (!open.panel.visible || !preserveFocus) open.panel.reveal(undefined, preserveFocus);
    } else if (isBinaryGraph(uri)) {
      await vscode.commands.executeCommand('vscode.openWith', uri, EDITOR_TYPE, { preserveFocus });
    } else {
      this.open(uri, preserveFocus);
    }
    const view = this.views.get(key);
    if (nodes) {
      if (view) view.select(nodes, true);
      else this.selections.set(key, nodes);
    }
    return view;
  }

  private open(uri: vscode.Uri, preserveFocus: boolean): void {
    const panel = vscode.window.createWebviewPanel(
      PANEL_TYPE,
      titleOf(uri),
      { viewColumn: vscode.ViewColumn.Beside, preserveFocus },
      { enableScripts: true },
    );
    this.adopt(panel, uri);
  }

  private restore(panel: vscode.WebviewPanel, state: Partial<PanelState> | undefined): void {
    if (typeof state?.uri !== 'string') {
      // Nothing says which file it showed.
      panel.dispose();
      return;
    }
    let uri: vscode.Uri;
    try {
      uri = vscode.Uri.parse(state.uri, true);
    } catch {
      panel.dispose();
      return;
    }
    if (this.views.has(keyOf(uri))) panel.dispose();
    else this.adopt(panel, uri);
  }

  private adopt(panel: vscode.WebviewPanel, uri: vscode.Uri): void {
    const key = keyOf(uri);
    const services = this.services();
    this.views.get(key)?.dispose();
    const view = new GraphView(panel, uri, services);
    this.views.set(key, view);
    if (panel.viewType === PANEL_TYPE) {
      panel.title = titleOf(uri);
      const icon = (theme: string) =>
        vscode.Uri.joinPath(services.extensionUri, 'media', `graph-${theme}.svg`);
      panel.iconPath = { light: icon('light'), dark: icon('dark') };
    }
    panel.onDidChangeViewState(() => this.changes.fire());
    panel.onDidDispose(() => {
      view.dispose();
      if (this.views.get(key) === view) this.views.delete(key);
      this.changes.fire();
    });
    const nodes = this.selections.get(key);
    this.selections.delete(key);
    if (nodes) view.select(nodes, true);
    this.changes.fire();
  }

  /** Editors of renamed files are reopened by VS Code; panels are ours. */
  private follow(from: vscode.Uri, to: vscode.Uri): void {
    const oldKey = keyOf(from);
    for (const [key, view] of [...this.views]) {
      // A folder's rename moves every file under it.
      if (view.panel.viewType !== PANEL_TYPE) continue;
      if (key !== oldKey && !key.startsWith(`${oldKey}/`)) continue;
      const target = key === oldKey ? to : vscode.Uri.parse(keyOf(to) + key.slice(oldKey.length));
      const { panel } = view;
      this.views.delete(key);
      view.dispose();
      this.adopt(panel, target);
    }
  }
}

function titleOf(uri: vscode.Uri): string {
  return `Graph of ${fileName(uri)}`;
}
