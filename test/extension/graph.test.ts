import assert from 'node:assert/strict';
import * as vscode from 'vscode';
import { forceFuse } from '../../extension/features/forceFuse';
import { PANEL_TYPE } from '../../extension/webviewHost/graphViews';
import {
  activate,
  closeEverything,
  extensionId,
  freshLenses,
  openText,
  until,
  write,
} from './support';

const source = `input x: f32[64, 256]
param w: f32[256, 256]
a = matmul(x, w)
b = relu(a)
c = exp(b)
nofuse b -> c
output c
`;

const panels = () =>
  vscode.window.tabGroups.all
    .flatMap(({ tabs }) => tabs)
    .filter(
      ({ input }) => input instanceof vscode.TabInputWebview && input.viewType.endsWith(PANEL_TYPE),
    );

describe('the graph', () => {
  before(activate);
  afterEach(closeEverything);

  it('opens beside the editor, one panel for each file', async () => {
    const uri = await write('panel.fuse', source);
    await openText(uri);
    await vscode.commands.executeCommand('fusionLens.showGraph', uri);
    await until('the panel', () => panels().length === 1);
    await vscode.commands.executeCommand('fusionLens.showGraph', uri.toString(), ['b#relu']);
    assert.equal(panels().length, 1);
    assert.equal(panels()[0]?.label, 'Graph of panel.fuse');
    const other = await write('panel2.fuse', source);
    await vscode.commands.executeCommand('fusionLens.showGraph', other);
    await until('the second panel', () => panels().length === 2);
  });

  it('follows its file when that is renamed', async () => {
    const uri = await write('before.fuse', source);
    await vscode.commands.executeCommand('fusionLens.showGraph', uri);
    await until('the panel', () => panels().length === 1);
    const target = uri.with({ path: uri.path.replace('before', 'after') });
    const edit = new vscode.WorkspaceEdit();
    edit.renameFile(uri, target, { overwrite: true });
    await vscode.workspace.applyEdit(edit);
    await until('the new title', () => panels()[0]?.label === 'Graph of after.fuse');
    const { views } = await activate();
    assert.ok(views.get(target.toString()));
    assert.equal(views.get(uri.toString()), undefined);
  });

  it('shows the code of a kernel as a document that follows the graph', async () => {
    const uri = await write('code.fuse', source);
    await openText(uri);
    await vscode.commands.executeCommand('fusionLens.openKernelCode', uri.toString(), 'k0');
    const document = vscode.window.activeTextEditor?.document;
    assert.equal(document?.uri.scheme, 'fusion-lens-kernel');
    assert.match(document.uri.path, /^\/code\.fuse\/k0 .*\.wgsl$/);
    assert.match(document.getText(), /@compute/);
    const before = document.getText();
    await write('code.fuse', source.replace('relu(a)', 'tanh(a)'));
    await until(
      'the new code',
      () => document.getText() !== before && /tanh/.test(document.getText()),
    );
  });

  it('forces an edge by a line in the file, which can be undone', async () => {
    const { results } = await activate();
    const uri = await write('force.fuse', source.replace('nofuse b -> c\n', ''));
    const editor = await openText(uri);
    await forceFuse(uri, 'a#matmul', 'c#exp', results);
    assert.match(editor.document.getText(), /output c\nfuse a, c\n$/);
    await freshLenses(uri);
    await vscode.commands.executeCommand('undo');
    assert.doesNotMatch(editor.document.getText(), /fuse/);
  });

  it('names an op inside a nested call by what its kernel defines', async () => {
    const { results } = await activate();
    const uri = await write(
      'nested.fuse',
      'input x: f32[64, 256]\nparam w: f32[256, 256]\na = relu(x @ w)\nb = sum(relu(a @ w))\noutput b\n',
    );
    const editor = await openText(uri);
    await freshLenses(uri);
    // The relu of b is in the kernel of its product, and the sum, which has the name, is not.
    await forceFuse(uri, 'a#matmul', 'b#matmul', results);
    assert.doesNotMatch(editor.document.getText(), /fuse/);
    // A sum over everything can't join: the line is there, and the compiler's reasons as well.
    assert.equal(await forceFuse(uri, 'a#matmul', 'b#sum', results), false);
    assert.match(editor.document.getText(), /\nfuse a, b\n$/);
  });

  it('explains ops in hovers', async () => {
    const uri = await write('hover.fuse', source);
    await openText(uri);
    const hovers = await vscode.commands.executeCommand<vscode.Hover[]>(
      'vscode.executeHoverProvider',
      uri,
      new vscode.Position(3, 5),
    );
    const text = hovers
      .flatMap(({ contents }) => contents)
      .map((content) => (content instanceof vscode.MarkdownString ? content.value : ''))
      .join('\n');
    assert.match(text, /\*\*relu\*\*/);
    assert.match(text, /f32\[64, 256\]/);
    assert.match(text, /FORBIDDEN/);
  });
});

describe('commands', () => {
  it('are all there', async () => {
    await activate();
    const extension = vscode.extensions.getExtension(extensionId);
    const { contributes } = extension?.packageJSON as {
      contributes: { commands: { command: string }[] };
    };
    const registered = new Set(await vscode.commands.getCommands(true));
    for (const { command } of contributes.commands) assert.ok(registered.has(command), command);
  });
});
