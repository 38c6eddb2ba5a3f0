/** Between the compiler's positions and the editor's: both count from 0. */
import * as vscode from 'vscode';
import type { SourcePosition, SourceRange } from '../../compiler/diagnostics';

export function toRange({ start, end }: SourceRange): vscode.Range {
  return new vscode.Range(start.line, start.column, end.line, end.column);
}

export function toSourcePosition({ line, character }: vscode.Position): SourcePosition {
  return { line, column: character };
}
