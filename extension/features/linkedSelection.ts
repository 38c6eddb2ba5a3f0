/**
 * Selection linked both ways between the text and the graph: the cursor's op is selected in the page,
 * and what is selected in the page is marked in the text.
 */
import * as vscode from 'vscode';
import { nodesForCursor } from '../common/locate';
import { Owner } from '../common/lifecycle';
import { toRange, toSourcePosition } from '../common/ranges';
import { indexOf } from '../common/resultIndex';
import { isGraphDocument, keyOf } from '../services/graphUris';
import type { GraphResults } from '../services/results';
import { readSettings } from '../services/settings';
import type { GraphView } from '../webviewHost/graphView';
import type { GraphViews } from '../webviewHost/graphViews';

/** A cursor that is moving through the text needn't drag the graph along line by line. */
const SETTLE_MS = 80;

export class LinkedSelection extends Owner {
  private readonly mark = this.register(
    vscode.window.createTextEditorDecorationType({
      backgroundColor: new vscode.ThemeColor('editor.wordHighlightBackground'),
      border: '1px solid',
      borderColor: new vscode.ThemeColor('editor.wordHighlightBorder'),
      overviewRulerColor: new vscode.ThemeColor('editorOverviewRuler.wordHighlightForeground'),
    }),
  );
  private timer: ReturnType<typeof setTimeout> | undefined;
  /** Where we put the cursor ourselves: the event of that isn't sent back. */
  private ownMove: { readonly key: string; readonly line: number } | undefined;

  constructor(
    private readonly views: GraphViews,
    private readonly results: GraphResults,
  ) {
    super();
    this.register(
      vscode.window.onDidChangeTextEditorSelection(({ textEditor }) => {
        if (!isGraphDocument(textEditor.document)) return;
        clearTimeout(this.timer);
        this.timer = setTimeout(() => this.cursorMoved(textEditor), SETTLE_MS);
      }),
    );
    this.register(
      vscode.workspace.onDidChangeTextDocument(({ document, contentChanges }) => {
        if (contentChanges.length > 0 && isGraphDocument(document)) this.clearMarks(document.uri);
      }),
    );
    this.register({ dispose: () => clearTimeout(this.timer) });
  }

  /** Marks in the text what the page has selected; `reveal` also goes there. */
  selectedInPage(view: GraphView, nodes: readonly string[], reveal: boolean): void {
    const state = this.results.get(view.key);
    const { result } = state ?? {};
    if (!result || state?.fresh !== true) return;
    const known = indexOf(result).nodes;
    const ranges = nodes.flatMap((id) => {
      const range = known.get(id)?.range;
      return range ? [toRange(range)] : [];
    });
    const [first] = ranges;
    if (reveal && first)
      // A file that has gone meanwhile can't be shown: the page says so itself.
      this.reveal(view.uri, first, ranges).catch(() => undefined);
    else
      for (const editor of this.editorsOf(view.uri)) {
        editor.setDecorations(this.mark, ranges);
        if (first && readSettings(view.uri).linkedSelection)
          editor.revealRange(first, vscode.TextEditorRevealType.InCenterIfOutsideViewport);
      }
  }

  private async reveal(
    uri: vscode.Uri,
    first: vscode.Range,
    ranges: readonly vscode.Range[],
  ): Promise<void> {
    const [open] = this.editorsOf(uri);
    this.ownMove = { key: keyOf(uri), line: first.start.line };
    const editor = await vscode.window.showTextDocument(uri, {
      selection: new vscode.Range(first.start, first.start),
      viewColumn: open?.viewColumn ?? vscode.ViewColumn.One,
    });
    editor.setDecorations(this.mark, ranges);
  }

  private cursorMoved(editor: vscode.TextEditor): void {
    const { document, selection } = editor;
    const key = keyOf(document.uri);
    const own = this.ownMove?.key === key && this.ownMove.line === selection.active.line;
    this.ownMove = undefined;
    const view = this.views.get(key);
    if (own || !view) return;
    editor.setDecorations(this.mark, []);
    if (!readSettings(document.uri).linkedSelection) return;
    const state = this.results.get(key);
    if (!state?.result || state.documentVersion !== document.version) return;
    const nodes = nodesForCursor(state.result, toSourcePosition(selection.active));
    view.select(
      nodes.map(({ id }) => id),
      true,
    );
  }

  private editorsOf(uri: vscode.Uri): vscode.TextEditor[] {
    return vscode.window.visibleTextEditors.filter(
      ({ document }) => document.uri.toString() === uri.toString(),
    );
  }

  private clearMarks(uri: vscode.Uri): void {
    for (const editor of this.editorsOf(uri)) editor.setDecorations(this.mark, []);
  }
}
