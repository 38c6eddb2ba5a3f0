/**
 * The language features of `.fuse` that need the text alone: outline, definition, references,
 * rename, highlights, completion and signatures. Parsing a file takes less time than asking the
 * worker would, so they run here.
 */
import * as vscode from 'vscode';
import { callHelpAt, type Suggestion, suggestionsAt } from '../../compiler/import/fuse/completion';
import {
  definitionOf,
  isValidName,
  type Occurrence,
  outlineFuse,
  type OutlineSymbol,
  referencesOf,
  symbolAt,
} from '../../compiler/import/fuse/outline';
import { Owner } from '../common/lifecycle';
import { toRange, toSourcePosition } from '../common/ranges';
import { FUSE_SELECTOR } from '../services/graphUris';

export class LanguageFeatures extends Owner {
  constructor() {
    super();
    const { languages } = vscode;
    this.register(languages.registerDocumentSymbolProvider(FUSE_SELECTOR, outline));
    this.register(languages.registerDefinitionProvider(FUSE_SELECTOR, definition));
    this.register(languages.registerReferenceProvider(FUSE_SELECTOR, references));
    this.register(languages.registerDocumentHighlightProvider(FUSE_SELECTOR, highlights));
    this.register(languages.registerRenameProvider(FUSE_SELECTOR, rename));
    this.register(
      languages.registerCompletionItemProvider(FUSE_SELECTOR, completion, '(', ',', ':', '=', '['),
    );
    this.register(languages.registerSignatureHelpProvider(FUSE_SELECTOR, signatures, '(', ','));
  }
}

type At = readonly [document: vscode.TextDocument, position: vscode.Position];

function occurrencesAt(...[document, position]: At): Occurrence[] {
  return referencesOf(document.getText(), toSourcePosition(position));
}

const SYMBOL_KINDS: Readonly<Record<OutlineSymbol['kind'], vscode.SymbolKind>> = {
  dim: vscode.SymbolKind.Number,
  input: vscode.SymbolKind.Interface,
  param: vscode.SymbolKind.Property,
  const: vscode.SymbolKind.Constant,
  value: vscode.SymbolKind.Variable,
  output: vscode.SymbolKind.Event,
  directive: vscode.SymbolKind.Key,
};

const outline: vscode.DocumentSymbolProvider = {
  provideDocumentSymbols: (document) =>
    outlineFuse(document.getText()).map(
      ({ name, detail, kind, range, selectionRange }) =>
        new vscode.DocumentSymbol(
          name,
          detail,
          SYMBOL_KINDS[kind],
          toRange(range),
          toRange(selectionRange),
        ),
    ),
};

const definition: vscode.DefinitionProvider = {
  provideDefinition: (document, position) => {
    const range = definitionOf(document.getText(), toSourcePosition(position));
    return range && new vscode.Location(document.uri, toRange(range));
  },
};

const references: vscode.ReferenceProvider = {
  provideReferences: (document, position, { includeDeclaration }) =>
    occurrencesAt(document, position)
      .filter(({ role }) => includeDeclaration || role === 'use')
      .map(({ range }) => new vscode.Location(document.uri, toRange(range))),
};

const highlights: vscode.DocumentHighlightProvider = {
  provideDocumentHighlights: (document, position) =>
    occurrencesAt(document, position).map(
      ({ range, role }) =>
        new vscode.DocumentHighlight(
          toRange(range),
          role === 'definition'
            ? vscode.DocumentHighlightKind.Write
            : vscode.DocumentHighlightKind.Read,
        ),
    ),
};

const rename: vscode.RenameProvider = {
  prepareRename: (document, position) => {
    const symbol = symbolAt(document.getText(), toSourcePosition(position));
    if (!symbol?.kind) throw new Error('Only names that the file defines can be renamed.');
    return { range: toRange(symbol.range), placeholder: symbol.name };
  },
  provideRenameEdits: (document, position, newName) => {
    if (!isValidName(newName)) throw new Error(`"${newName}" is not a name.`);
    const text = document.getText();
    const places = occurrencesAt(document, position);
    const [place] = places;
    if (!place) return undefined;
    if (
      newName !== place.name &&
      outlineFuse(text).some((s) => s.kind !== 'directive' && s.name === newName)
    )
      throw new Error(`The file already defines ${newName}.`);
    const edit = new vscode.WorkspaceEdit();
    for (const { range } of places) edit.replace(document.uri, toRange(range), newName);
    return edit;
  },
};

const COMPLETION_KINDS: Readonly<Record<Suggestion['kind'], vscode.CompletionItemKind>> = {
  keyword: vscode.CompletionItemKind.Keyword,
  op: vscode.CompletionItemKind.Function,
  argument: vscode.CompletionItemKind.Property,
  dtype: vscode.CompletionItemKind.TypeParameter,
  word: vscode.CompletionItemKind.Value,
  dim: vscode.CompletionItemKind.Unit,
  input: vscode.CompletionItemKind.Interface,
  param: vscode.CompletionItemKind.Field,
  const: vscode.CompletionItemKind.Constant,
  value: vscode.CompletionItemKind.Variable,
};

const completion: vscode.CompletionItemProvider = {
  provideCompletionItems: (document, position) => {
    const line = document.lineAt(position.line).text;
    if (line.slice(0, position.character).includes('#')) return [];
    const hasArguments = /^[\p{L}\p{N}_]*\s*\(/u.test(line.slice(position.character));
    return suggestionsAt(document.getText(), toSourcePosition(position)).map((suggestion, i) =>
      completionItem(suggestion, i, hasArguments),
    );
  },
};

function completionItem(
  { kind, label, detail, documentation }: Suggestion,
  rank: number,
  hasArguments: boolean,
): vscode.CompletionItem {
  const item = new vscode.CompletionItem(label, COMPLETION_KINDS[kind]);
  item.detail = detail;
  if (documentation !== undefined) item.documentation = documentation;
  // What fits best comes first.
  item.sortText = String(rank).padStart(5, '0');
  if (kind === 'op' && !hasArguments) {
    item.insertText = new vscode.SnippetString(`${label}($0)`);
    item.command = { title: 'Signature', command: 'editor.action.triggerParameterHints' };
  }
  return item;
}

const signatures: vscode.SignatureHelpProvider = {
  provideSignatureHelp: (document, position) => {
    const call = callHelpAt(document.getText(), toSourcePosition(position));
    if (!call) return undefined;
    const help = new vscode.SignatureHelp();
    help.signatures = call.forms.map(({ label, params, doc }) => {
      const signature = new vscode.SignatureInformation(label, doc);
      signature.parameters = params.map((param) => new vscode.ParameterInformation(param));
      return signature;
    });
    help.activeSignature = 0;
    help.activeParameter = call.activeParameter;
    return help;
  },
};
