/** Opens one of the shipped examples as a document of its own, which can be changed freely. */
import * as vscode from 'vscode';

export async function openExample(extensionUri: vscode.Uri): Promise<void> {
  const folder = vscode.Uri.joinPath(extensionUri, 'examples');
  const entries = await vscode.workspace.fs.readDirectory(folder).then(
    (found) => found,
    () => [],
  );
  const names = entries
    .filter(([name, type]) => type === vscode.FileType.File && name.endsWith('.fuse'))
    .map(([name]) => name)
    .sort();
  const picks = await Promise.all(
    names.map(async (name) => {
      const bytes = await vscode.workspace.fs.readFile(vscode.Uri.joinPath(folder, name));
      const text = new TextDecoder().decode(bytes);
      return { label: name, description: firstComment(text), text };
    }),
  );
  const picked = await vscode.window.showQuickPick(picks, {
    title: 'Open an Example Graph',
    matchOnDescription: true,
  });
  if (picked) await showExample(picked.label, picked.text);
}

/**
 * A document with the example's name, to be saved into the workspace, where that name is free there;
 * otherwise one without a name.
 */
export async function showExample(name: string, text: string): Promise<void> {
  const named = await freeName(name);
  if (!named) {
    const document = await vscode.workspace.openTextDocument({ language: 'fuse', content: text });
    await vscode.window.showTextDocument(document);
    return;
  }
  const document = await vscode.workspace.openTextDocument(named);
  // It may be open already, changed or not.
  if (document.getText() === '') {
    const edit = new vscode.WorkspaceEdit();
    edit.insert(named, new vscode.Position(0, 0), text);
    await vscode.workspace.applyEdit(edit);
  }
  await vscode.window.showTextDocument(document);
}

async function freeName(name: string): Promise<vscode.Uri | undefined> {
  const [folder] = vscode.workspace.workspaceFolders ?? [];
  if (folder?.uri.scheme !== 'file') return undefined;
  const target = vscode.Uri.joinPath(folder.uri, name);
  const taken = await vscode.workspace.fs.stat(target).then(
    () => true,
    () => false,
  );
  return taken ? undefined : target.with({ scheme: 'untitled' });
}

/** What the example says of itself in its first comment that is not its own name. */
function firstComment(text: string): string {
  const comments = text
    .split('\n')
    .filter((line) => line.startsWith('#'))
    .map((line) => line.replace(/^#+\s*/, '').trim());
  return comments.find((line) => line !== '' && !/^\S+\.fuse$/.test(line)) ?? '';
}
