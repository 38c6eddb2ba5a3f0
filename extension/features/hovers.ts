/** Hovers over ops and tensors of a `.fuse` file. */
import * as vscode from 'vscode';
import { symbolAt } from '../../compiler/import/fuse/outline';
import { contains, nodesAt, tensorAt } from '../common/locate';
import { Owner } from '../common/lifecycle';
import { escapeMarkdown } from '../common/markdown';
import { toRange, toSourcePosition } from '../common/ranges';
import { indexOf } from '../common/resultIndex';
import { FUSE_SELECTOR, keyOf } from '../services/graphUris';
import type { Measurements } from '../services/measurements';
import type { GraphResults } from '../services/results';
import { overrideText } from './explain';
import { HOVER_COMMANDS, type HoverContext, nodeHover, tensorHover } from './hoverText';

export class Hovers extends Owner implements vscode.HoverProvider {
  constructor(
    private readonly results: GraphResults,
    private readonly measurements: Measurements,
  ) {
    super();
    this.register(vscode.languages.registerHoverProvider(FUSE_SELECTOR, this));
  }

  async provideHover(
    document: vscode.TextDocument,
    position: vscode.Position,
    token: vscode.CancellationToken,
  ): Promise<vscode.Hover | undefined> {
    const key = keyOf(document.uri);
    const { version } = document;
    const state = await this.results.fresh(key);
    // Ranges of another text would point at the wrong op.
    if (token.isCancellationRequested || !state.result || state.documentVersion !== version)
      return undefined;
    const { result } = state;
    const profile = this.measurements.get(key);
    const context: HoverContext = { uri: key, result, ...(profile ? { profile } : {}) };
    const at = toSourcePosition(position);
    const [node] = nodesAt(result, at);
    if (node?.range) return hover(nodeHover(node, context), toRange(node.range));
    const override = result.overrides.find(({ range }) => range && contains(range, at));
    if (override?.range)
      return hover(escapeMarkdown(overrideText(override)), toRange(override.range));
    const name = symbolAt(document.getText(), at);
    const tensor =
      tensorAt(result, at) ??
      (name && result.graph.tensors.find((candidate) => candidate.name === name.name));
    if (!tensor) return undefined;
    const producer = result.graph.nodes.find(({ results }) => results.includes(tensor.id));
    const text = [
      tensorHover(tensor, context),
      ...(producer && indexOf(result).nodes.has(producer.id) ? [nodeHover(producer, context)] : []),
    ].join('\n\n---\n\n');
    return hover(text, name ? toRange(name.range) : undefined);
  }
}

function hover(text: string, range: vscode.Range | undefined): vscode.Hover {
  const markdown = new vscode.MarkdownString(text);
  markdown.isTrusted = { enabledCommands: HOVER_COMMANDS };
  return new vscode.Hover(markdown, range);
}
