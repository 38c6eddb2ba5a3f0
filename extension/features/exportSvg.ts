/** Saves the picture that the page has drawn. */
import * as vscode from 'vscode';
import { fileName } from '../services/graphUris';
import { notify } from './notify';

export async function exportSvg(graph: vscode.Uri, svg: string): Promise<void> {
  const name = `${fileName(graph).replace(/\.[^.]*$/, '')}.svg`;
  const folder =
    graph.scheme === 'untitled'
      ? vscode.workspace.workspaceFolders?.[0]?.uri
      : vscode.Uri.joinPath(graph, '..');
  const target = await vscode.window.showSaveDialog({
    ...(folder ? { defaultUri: vscode.Uri.joinPath(folder, name) } : {}),
    filters: { 'SVG picture': ['svg'] },
    title: `Export the Graph of ${fileName(graph)}`,
  });
  if (!target) return;
  try {
    await vscode.workspace.fs.writeFile(target, new TextEncoder().encode(svg));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    void notify('error', `${fileName(target)} could not be written: ${reason}`);
    return;
  }
  await notify('info', `Saved ${fileName(target)}.`, [
    { title: 'Open', run: () => vscode.commands.executeCommand('vscode.open', target) },
  ]);
}
