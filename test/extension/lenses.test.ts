import assert from 'node:assert/strict';
import * as vscode from 'vscode';
import {
  activate,
  closeEverything,
  freshLenses,
  lensesOf,
  openText,
  until,
  write,
} from './support';

const source = `dim B = 64
input x: f32[B, 1024]
param w: f32[1024, 1024]
param bias: f32[1024]

a = matmul(x, w)
y = softmax(relu(a + bias), axis=-1)

output y
`;

describe('lenses', () => {
  before(activate);
  afterEach(closeEverything);

  it('stand at the lines of the ops at once, and stay there when their words come', async () => {
    const uri = await write('lenses.fuse', source);
    await openText(uri);
    const first = (await lensesOf(uri)).map(({ line }) => line);
    const lenses = await freshLenses(uri);
    assert.deepEqual(
      lenses.map(({ line }) => line),
      first,
    );
    assert.deepEqual([...new Set(first)], [0, 5, 6]);
    const [top, show, profile] = lenses;
    assert.match(top?.title ?? '', /^4 ops → \d kernels? · est\. \d+\.\d+×$/);
    assert.equal(show?.title, 'Show graph');
    assert.equal(profile?.title, 'Profile');
    const matmul = lenses.find(({ line }) => line === 5);
    assert.match(matmul?.title ?? '', /k\d/);
    assert.equal(matmul?.command.command, 'fusionLens.showGraph');
    assert.deepEqual(matmul?.command.arguments, [uri.toString(), ['a#matmul']]);
  });

  it('follow unsaved edits: marked at first, then up to date', async () => {
    const uri = await write('edited.fuse', source);
    const editor = await openText(uri);
    await freshLenses(uri);
    await editor.edit((edit) => edit.insert(new vscode.Position(5, 0), 'z = exp(x)\n\n'));
    const stale = await lensesOf(uri);
    const fresh = await freshLenses(uri);
    const lines = (lenses: typeof fresh) => [...new Set(lenses.map(({ line }) => line))];
    assert.deepEqual(lines(stale), [0, 5, 7, 8]);
    assert.deepEqual(lines(fresh), [0, 5, 7, 8]);
    assert.ok(stale.some(({ title }) => title.endsWith('updating…')));
    assert.ok(fresh.some(({ line, title }) => line === 5 && /no output needs it/.test(title)));
    assert.ok(editor.document.isDirty);
  });

  it('can be switched off, or to the summary alone', async () => {
    const uri = await write('settings.fuse', source);
    await openText(uri);
    await freshLenses(uri);
    const settings = vscode.workspace.getConfiguration('fusionLens');
    const set = (key: string, value: unknown) =>
      settings.update(key, value, vscode.ConfigurationTarget.Workspace);
    await set('codeLens.detail', 'top');
    assert.ok((await lensesOf(uri)).every(({ line }) => line === 0));
    await set('codeLens.detail', undefined);
    await set('codeLens.enabled', false);
    assert.deepEqual(await lensesOf(uri), []);
    await set('codeLens.enabled', undefined);
    assert.ok((await lensesOf(uri)).length > 3);
  });

  it('come for text that can’t be read, too', async () => {
    const uri = await write(
      'broken.fuse',
      'input x f32[4\ny = relu(x)\nz = nonsense(((y\noutput z\n',
    );
    await openText(uri);
    const lenses = await freshLenses(uri);
    assert.ok(lenses.some(({ title }) => /error/.test(title)));
  });

  it('use sizes from the settings', async () => {
    const uri = await write('dims.fuse', source);
    const app = await activate();
    const bytes = async () => (await app.results.fresh(uri.toString())).result?.before.bytesRead;
    const small = await bytes();
    assert.ok(small);
    const settings = vscode.workspace.getConfiguration('fusionLens');
    await settings.update('dims', { B: 640 }, vscode.ConfigurationTarget.Workspace);
    await until('the result with B = 640', async () => ((await bytes()) ?? 0) > small);
    await settings.update('dims', undefined, vscode.ConfigurationTarget.Workspace);
  });
});
