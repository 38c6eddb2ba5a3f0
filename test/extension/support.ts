// What the tests in the extension host share.

import assert from 'node:assert/strict';
import * as vscode from 'vscode';
import type { FusionLens } from '../../extension/wiring';

export const extensionId = 'fusion-lens.fusion-lens';

export async function activate(): Promise<FusionLens> {
  const extension = vscode.extensions.getExtension<FusionLens>(extensionId);
  assert.ok(extension, 'the extension is loaded');
  return extension.activate();
}

export function workspaceFile(name: string): vscode.Uri {
  const folder = vscode.workspace.workspaceFolders?.[0];
  assert.ok(folder);
  return vscode.Uri.joinPath(folder.uri, name);
}

export async function write(name: string, content: string | Uint8Array): Promise<vscode.Uri> {
  const uri = workspaceFile(name);
  const bytes = typeof content === 'string' ? new TextEncoder().encode(content) : content;
  await vscode.workspace.fs.writeFile(uri, bytes);
  return uri;
}

export async function openText(uri: vscode.Uri): Promise<vscode.TextEditor> {
  return vscode.window.showTextDocument(uri, { preview: false, viewColumn: vscode.ViewColumn.One });
}

/** Polls until `probe` gives something, or fails with what it last gave. */
export async function until<T>(
  what: string,
  probe: () => T | undefined | false | Promise<T | undefined | false>,
  timeoutMs = 15_000,
): Promise<T> {
  const end = Date.now() + timeoutMs;
  for (;;) {
    const found = await probe();
    if (found !== undefined && found !== false) return found;
    if (Date.now() > end) assert.fail(`It did not happen in ${timeoutMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

export interface Lens {
  readonly line: number;
  readonly title: string;
  readonly command: vscode.Command;
}

export async function lensesOf(uri: vscode.Uri): Promise<Lens[]> {
  const lenses = await vscode.commands.executeCommand<vscode.CodeLens[]>(
    'vscode.executeCodeLensProvider',
    uri,
    100,
  );
  return lenses.flatMap(({ range, command }) =>
    command ? [{ line: range.start.line, title: command.title, command }] : [],
  );
}

/** The lenses once they speak of the newest text. */
export function freshLenses(uri: vscode.Uri): Promise<Lens[]> {
  return until(`fresh lenses of ${uri.path}`, async () => {
    const lenses = await lensesOf(uri);
    const waiting = lenses.some(({ title }) => /analysing…|updating…/.test(title));
    return lenses.length > 0 && !waiting && lenses;
  });
}

export async function closeEverything(): Promise<void> {
  // Unsaved edits would ask.
  for (const document of vscode.workspace.textDocuments)
    if (document.isDirty) {
      await vscode.window.showTextDocument(document);
      await vscode.commands.executeCommand('workbench.action.files.revert');
    }
  await vscode.commands.executeCommand('workbench.action.closeAllEditors');
}

/** An ONNX model of a chain of ops with one operand: enough to be opened and compiled. */
export function onnxChain(ops: readonly string[], shape: readonly number[]): Uint8Array {
  const name = (i: number) => (i === 0 ? 'x' : i === ops.length ? 'y' : `t${i}`);
  const nodes = ops.map((op, i) =>
    message(1, [text(1, name(i)), text(2, name(i + 1)), text(3, `${op}_${i}`), text(4, op)]),
  );
  const dims = shape.map((size) => message(1, [integer(1, size)]));
  const type = message(2, [message(1, [integer(1, 1), message(2, dims)])]);
  const graph = message(7, [
    ...nodes,
    text(2, 'chain'),
    message(11, [text(1, 'x'), type]),
    message(12, [text(1, 'y'), type]),
  ]);
  return Uint8Array.from([
    ...integer(1, 8),
    ...graph,
    ...message(8, [text(1, ''), integer(2, 17)]),
  ]);
}

function varint(value: number): number[] {
  return value < 128 ? [value] : [(value & 127) | 128, ...varint(value >>> 7)];
}

function integer(field: number, value: number): number[] {
  return [...varint(field << 3), ...varint(value)];
}

function text(field: number, value: string): number[] {
  return message(field, [[...new TextEncoder().encode(value)]]);
}

function message(field: number, parts: readonly number[][]): number[] {
  const bytes = parts.flat();
  return [...varint((field << 3) | 2), ...varint(bytes.length), ...bytes];
}
