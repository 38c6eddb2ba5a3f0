/**
 * "Force and measure": asks the compiler to put two ops into one kernel by writing a directive, into
 * the `.fuse` text (undoable) or into the side file of a binary graph. Whether it can be done is then
 * the compiler's answer: where it can't, its verdicts are shown, and the line can be taken back.
 */
import * as vscode from 'vscode';
import type { CompileResult } from '../../compiler/result';
import { indexOf } from '../common/resultIndex';
import { fileName, isBinaryGraph, keyOf, sideFileOf } from '../services/graphUris';
import type { GraphResults } from '../services/results';
import { definedNames } from './fuseText';
import { notify } from './notify';
import { addFuseDirective } from './sideFileEdit';

/** Whether the ops are one kernel now. */
export async function forceFuse(
  graph: vscode.Uri,
  from: string,
  to: string,
  results: GraphResults,
): Promise<boolean> {
  const known = (await results.fresh(keyOf(graph))).result;
  if (![from, to].every((id) => known && indexOf(known).nodes.has(id))) {
    void notify('warning', `${fileName(graph)} no longer has these ops.`);
    return false;
  }
  const problem = isBinaryGraph(graph)
    ? await writeSideFile(graph, from, to)
    : await writeStatement(graph, from, to, results);
  if (problem !== undefined) {
    void notify('warning', problem);
    return false;
  }
  const key = keyOf(graph);
  results.touch(key, 0);
  const { result } = await results.fresh(key);
  if (!result) return false;
  const { kernelsOf } = indexOf(result);
  if (kernelsOf(from).some((kernel) => kernelsOf(to).includes(kernel))) return true;
  // The newest directive is the last: its fault, too.
  const refusal = result.diagnostics.filter(({ code }) => code === 'REQUIRED_BUT').at(-1);
  void tellRefusal(graph, refusal?.message ?? 'The ops are still in different kernels.');
  return false;
}

async function tellRefusal(graph: vscode.Uri, message: string): Promise<void> {
  const takeBack = { title: 'Take the Line Back', run: () => removeLastFuse(graph) };
  await notify('warning', message, isBinaryGraph(graph) ? [] : [takeBack]);
}

async function removeLastFuse(graph: vscode.Uri): Promise<void> {
  const document = await vscode.workspace.openTextDocument(graph);
  for (let i = document.lineCount - 1; i >= 0; i--) {
    const line = document.lineAt(i);
    if (!/^fuse /.test(line.text)) continue;
    const edit = new vscode.WorkspaceEdit();
    edit.delete(graph, line.rangeIncludingLineBreak);
    await apply(edit, graph);
    return;
  }
}

async function writeStatement(
  graph: vscode.Uri,
  from: string,
  to: string,
  results: GraphResults,
): Promise<string | undefined> {
  const { result } = await results.fresh(keyOf(graph));
  if (!result) return 'The file has not been compiled.';
  const document = await vscode.workspace.openTextDocument(graph);
  const defined = definedNames(document.getText());
  const names: string[] = [];
  for (const id of [from, to]) {
    const name = nameInText(id, result, defined);
    if (name === undefined)
      return (
        `${indexOf(result).nameOf(id)} has no name in ${fileName(graph)}: it stands inside a ` +
        'nested call. Give it a line of its own, and it can be fused by name.'
      );
    names.push(name);
  }
  const last = document.lineAt(document.lineCount - 1);
  const newline = document.eol === vscode.EndOfLine.CRLF ? '\r\n' : '\n';
  const statement = `fuse ${names.join(', ')}`;
  const edit = new vscode.WorkspaceEdit();
  edit.insert(
    graph,
    last.range.end,
    last.isEmptyOrWhitespace ? `${statement}${newline}` : `${newline}${statement}${newline}`,
  );
  return apply(edit, graph);
}

/**
 * The name to say in a directive. An op inside a nested call has none of its own; what its kernel
 * gives a name to stands for it, since a kernel that holds that holds the op as well.
 */
export function nameInText(
  id: string,
  result: CompileResult,
  defined: ReadonlySet<string>,
): string | undefined {
  const { nameOf, kernelsOf } = indexOf(result);
  const own = nameOf(id);
  if (defined.has(own)) return own;
  const statement = id.replace(/[#~].*$/s, '');
  const sameStatement = kernelsOf(id)
    .flatMap(({ nodes }) => nodes)
    .map(nameOf);
  return sameStatement.find((name) => name === statement && defined.has(name));
}

async function writeSideFile(
  graph: vscode.Uri,
  from: string,
  to: string,
): Promise<string | undefined> {
  const target = sideFileOf(graph);
  const exists = await vscode.workspace.fs.stat(target).then(
    () => true,
    () => false,
  );
  const edit = new vscode.WorkspaceEdit();
  if (!exists) {
    const changed = addFuseDirective(undefined, [from, to]);
    if (!changed.ok) return undefined;
    edit.createFile(target, { contents: new TextEncoder().encode(changed.text) });
    return apply(edit, target);
  }
  const document = await vscode.workspace.openTextDocument(target);
  const text = document.getText();
  const changed = addFuseDirective(text, [from, to]);
  if (!changed.ok) return `${fileName(target)} was left as it is: ${changed.reason}.`;
  edit.replace(
    target,
    new vscode.Range(document.positionAt(0), document.positionAt(text.length)),
    changed.text,
  );
  const problem = await apply(edit, target);
  if (problem === undefined) await document.save();
  return problem;
}

async function apply(edit: vscode.WorkspaceEdit, target: vscode.Uri): Promise<string | undefined> {
  const applied = await vscode.workspace.applyEdit(edit);
  return applied ? undefined : `${fileName(target)} could not be edited.`;
}
