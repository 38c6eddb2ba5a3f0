import assert from 'node:assert/strict';
import * as vscode from 'vscode';
import { activate, closeEverything, openText, write } from './support';

const source = `dim B = 8
input x: f32[B, 16]
h = relu(x)
y = softmax(h, axis=-1) + h  # a comment
output y
`;

describe('the language .fuse', () => {
  let uri: vscode.Uri;
  before(async () => {
    await activate();
    uri = await write('language.fuse', source);
    await openText(uri);
  });
  after(closeEverything);

  const ask = <T>(command: string, ...args: unknown[]) =>
    vscode.commands.executeCommand<T>(command, uri, ...args);
  const places = (locations: readonly vscode.Location[]) =>
    locations.map(({ range: { start } }) => `${start.line}:${start.character}`);

  it('has an outline', async () => {
    const symbols = await ask<vscode.DocumentSymbol[]>('vscode.executeDocumentSymbolProvider');
    assert.deepEqual(
      symbols.map(({ name, detail }) => `${name} ${detail}`.trim()),
      ['B = 8', 'x f32[B, 16]', 'h relu', 'y +', 'y'],
    );
  });

  it('goes to definitions and finds uses', async () => {
    const use = new vscode.Position(3, 12);
    assert.deepEqual(places(await ask('vscode.executeDefinitionProvider', use)), ['2:0']);
    assert.deepEqual(places(await ask('vscode.executeReferenceProvider', use)), [
      '2:0',
      '3:12',
      '3:26',
    ]);
  });

  it('renames a value everywhere, and only to a free name', async () => {
    const at = new vscode.Position(2, 0);
    const edit = await ask<vscode.WorkspaceEdit>(
      'vscode.executeDocumentRenameProvider',
      at,
      'hidden',
    );
    assert.equal(edit.get(uri).length, 3);
    for (const bad of ['x', '1x', 'a b'])
      await assert.rejects(Promise.resolve(ask('vscode.executeDocumentRenameProvider', at, bad)));
  });

  it('completes ops with their signatures, names, and nothing in comments', async () => {
    const complete = async (line: number, character: number) => {
      const list = await ask<vscode.CompletionList>(
        'vscode.executeCompletionItemProvider',
        new vscode.Position(line, character),
      );
      return list.items.filter(({ kind }) => kind !== vscode.CompletionItemKind.Text);
    };
    const items = await complete(2, 4);
    const matmul = items.find(({ label }) => label === 'matmul');
    assert.match(matmul?.detail ?? '', /matmul\(/);
    assert.ok(items.some(({ label }) => label === 'x'));
    assert.deepEqual(await complete(3, 36), []);
  });

  it('shows the signature of a call', async () => {
    const help = await ask<vscode.SignatureHelp>(
      'vscode.executeSignatureHelpProvider',
      new vscode.Position(3, 15),
    );
    assert.match(help.signatures[0]?.label ?? '', /^softmax\(/);
    assert.equal(help.activeParameter, 1);
  });
});
