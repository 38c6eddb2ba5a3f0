/** Problems: diagnostics of the compiler and expectations that don't hold, and their quick fixes. */
import * as vscode from 'vscode';
import type { Diagnostic, QuickFix, Severity } from '../../compiler/diagnostics';
import type { CompileResult } from '../../compiler/result';
import { Owner } from '../common/lifecycle';
import { toRange } from '../common/ranges';
import { FUSE_SELECTOR, keyOf } from '../services/graphUris';
import type { GraphResults, GraphState } from '../services/results';

const SOURCE = 'fusion lens';
const EXPECTATION_CODE = 'EXPECTATION_FAILED';

const SEVERITIES: Readonly<Record<Severity, vscode.DiagnosticSeverity>> = {
  error: vscode.DiagnosticSeverity.Error,
  warning: vscode.DiagnosticSeverity.Warning,
  info: vscode.DiagnosticSeverity.Information,
  hint: vscode.DiagnosticSeverity.Hint,
};

export class Problems extends Owner implements vscode.CodeActionProvider {
  private readonly collection = this.register(
    vscode.languages.createDiagnosticCollection('fusionLens'),
  );
  /** What each file's Problems were last made from. */
  private readonly shown = new Map<string, CompileResult | string>();

  constructor(private readonly results: GraphResults) {
    super();
    this.register(
      results.onDidChange((key) => {
        const state = results.get(key);
        if (state) this.update(state);
      }),
    );
    this.register(results.onDidForget((key) => this.clear(key)));
    this.register(
      vscode.languages.registerCodeActionsProvider(FUSE_SELECTOR, this, {
        providedCodeActionKinds: [vscode.CodeActionKind.QuickFix],
      }),
    );
  }

  provideCodeActions(
    document: vscode.TextDocument,
    range: vscode.Range,
    context: vscode.CodeActionContext,
  ): vscode.CodeAction[] {
    const state = this.results.get(keyOf(document.uri));
    // Edits of another text would land in the wrong place.
    if (!state?.result || state.documentVersion !== document.version) return [];
    if (context.only && !context.only.contains(vscode.CodeActionKind.QuickFix)) return [];
    return state.result.diagnostics
      .filter((diagnostic) => diagnostic.range && toRange(diagnostic.range).intersection(range))
      .flatMap((diagnostic) =>
        (diagnostic.fixes ?? []).map((fix, i) =>
          action(document.uri, fix, toDiagnostic(diagnostic), i === 0),
        ),
      );
  }

  private update({ uri, result, fresh, problem, busy }: GraphState): void {
    if (busy) return;
    const basis = fresh ? result : problem;
    if (basis === undefined || this.shown.get(uri) === basis) return;
    this.shown.set(uri, basis);
    this.collection.set(
      vscode.Uri.parse(uri),
      typeof basis === 'string' ? [faultOfFile(basis)] : problemsOf(basis),
    );
  }

  private clear(key: string): void {
    this.shown.delete(key);
    this.collection.delete(vscode.Uri.parse(key));
  }
}

export function problemsOf({ diagnostics, expectations }: CompileResult): vscode.Diagnostic[] {
  const problems = diagnostics.map(toDiagnostic);
  for (const { text, actual, held, range } of expectations) {
    if (held) continue;
    const place = range ? toRange(range) : START;
    // The compiler may have reported it itself.
    if (problems.some((problem) => problem.range.isEqual(place) && range)) continue;
    const problem = new vscode.Diagnostic(place, `Not so: ${text}. It is: ${actual}.`);
    problem.source = SOURCE;
    problem.code = EXPECTATION_CODE;
    problems.push(problem);
  }
  return problems;
}

const START = new vscode.Range(0, 0, 0, 0);

function toDiagnostic({ range, message, severity, code, subject }: Diagnostic): vscode.Diagnostic {
  const about = range === undefined && subject !== undefined ? `${subject}: ` : '';
  const diagnostic = new vscode.Diagnostic(
    range ? toRange(range) : START,
    about + message,
    SEVERITIES[severity],
  );
  diagnostic.source = SOURCE;
  diagnostic.code = code;
  return diagnostic;
}

function faultOfFile(message: string): vscode.Diagnostic {
  const diagnostic = new vscode.Diagnostic(START, message);
  diagnostic.source = SOURCE;
  return diagnostic;
}

function action(
  uri: vscode.Uri,
  fix: QuickFix,
  diagnostic: vscode.Diagnostic,
  preferred: boolean,
): vscode.CodeAction {
  const result = new vscode.CodeAction(fix.title, vscode.CodeActionKind.QuickFix);
  result.edit = new vscode.WorkspaceEdit();
  for (const { range, newText } of fix.edits) result.edit.replace(uri, toRange(range), newText);
  result.diagnostics = [diagnostic];
  result.isPreferred = preferred;
  return result;
}
