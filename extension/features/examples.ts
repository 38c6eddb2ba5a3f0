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
  if (!picked) return;
  const document = await vscode.workspace.openTextDocument({
    language: 'fuse',
    content: picked.text,
  });
  await vscode.window.showTextDocument(document);
}

/** What the example says of itself in its first comment that is not its own name. */
function firstComment(text: string): string {
  const comments = text
    .split('\n')
    .filter((line) => line.startsWith('#'))
    .map((line) => line.replace(/^#+\s*/, '').trim());
  return comments.find((line) => line !== '' && !/^\S+\.fuse$/.test(line)) ?? '';
}
