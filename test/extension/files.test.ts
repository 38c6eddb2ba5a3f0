import assert from 'node:assert/strict';
import * as vscode from 'vscode';
import { showExample } from '../../extension/features/examples';
import { writeSparseModel } from '../unit/onnx/sparse';
import { EDITOR_TYPE } from '../../extension/webviewHost/graphViews';
import {
  activate,
  closeEverything,
  freshLenses,
  onnxChain,
  openText,
  until,
  workspaceFile,
  write,
} from './support';

const relu = 'input x: f32[64]\ny = relu(x)\noutput y\n';

describe('graph files', () => {
  afterEach(closeEverything);

  it('compile when asked for, and again when the file on disk changes', async () => {
    const { results } = await activate();
    const uri = await write('disk.fuse', relu);
    const key = uri.toString();
    assert.equal(results.get(key), undefined, 'nobody has asked yet');
    assert.equal((await results.fresh(key)).result?.graph.nodes.length, 1);
    const retained = results.retain(key);
    await write('disk.fuse', relu.replace('relu(x)', 'exp(relu(x))'));
    await until('the change on disk', () => results.get(key)?.result?.graph.nodes.length === 2);
    await vscode.workspace.fs.delete(uri);
    await until('the deletion', () => /no longer exists/.test(results.get(key)?.problem ?? ''));
    await write('disk.fuse', relu);
    await until('the file again', () => results.get(key)?.problem === undefined);
    retained.dispose();
  });

  it('take unsaved text before the file, and the file again when the edits are dropped', async () => {
    const { results } = await activate();
    const uri = await write('unsaved.fuse', relu);
    const editor = await openText(uri);
    await editor.edit((edit) => edit.insert(new vscode.Position(1, 0), 'z = exp(x)\n'));
    const ops = async () => (await results.fresh(uri.toString())).result?.graph.nodes.length;
    assert.equal(await ops(), 2);
    await vscode.commands.executeCommand('workbench.action.files.revert');
    await until('the text of the file', async () => (await ops()) === 1);
  });

  it('come as examples with a name of their own, that saves into the workspace', async () => {
    const text = 'input x: f32[4]\ny = relu(x)\noutput y\n';
    await showExample('fresh_example.fuse', text);
    const { document } = vscode.window.activeTextEditor ?? assert.fail();
    assert.equal(document.uri.scheme, 'untitled');
    assert.match(document.uri.path, /\/fresh_example\.fuse$/);
    assert.equal(document.languageId, 'fuse');
    assert.equal(document.getText(), text);
    assert.match((await freshLenses(document.uri))[0]?.title ?? '', /^1 op → 1 kernel/);
    assert.ok(await document.save());
    const saved = workspaceFile('fresh_example.fuse');
    assert.equal(new TextDecoder().decode(await vscode.workspace.fs.readFile(saved)), text);
    // The name is taken now.
    await showExample('fresh_example.fuse', text);
    const second = vscode.window.activeTextEditor?.document;
    assert.doesNotMatch(second?.uri.path ?? '', /fresh_example/);
    assert.equal(second?.getText(), text);
    await vscode.workspace.fs.delete(saved);
  });

  it('need no name: an untitled document is a graph as well', async () => {
    const { results } = await activate();
    const document = await vscode.workspace.openTextDocument({ language: 'fuse', content: relu });
    await vscode.window.showTextDocument(document);
    await freshLenses(document.uri);
    assert.equal(results.get(document.uri.toString())?.result?.format, 'fuse');
  });

  it('show problems of shown files, where they are', async () => {
    const uri = await write(
      'problem.fuse',
      'input x: f32[64]\ny = rellu(x)\nexpect kernels <= 0\noutput y\n',
    );
    await openText(uri);
    const problems = await until('problems', () => {
      const found = vscode.languages.getDiagnostics(uri);
      return found.length > 0 && found;
    });
    const unknown = problems.find(({ code }) => code === 'UNKNOWN_OP');
    assert.ok(unknown);
    assert.equal(unknown.severity, vscode.DiagnosticSeverity.Error);
    assert.equal(unknown.source, 'fusion lens');
    assert.deepEqual(
      [unknown.range.start.line, unknown.range.start.character, unknown.range.end.character],
      [1, 4, 9],
    );
    const actions = await vscode.commands.executeCommand<vscode.CodeAction[]>(
      'vscode.executeCodeActionProvider',
      uri,
      unknown.range,
    );
    const fix = actions.find(({ title }) => /relu/.test(title));
    assert.ok(fix?.edit, actions.map(({ title }) => title).join());
    await vscode.workspace.applyEdit(fix.edit);
    await until('the fixed file', () =>
      vscode.languages.getDiagnostics(uri).every(({ code }) => code !== 'UNKNOWN_OP'),
    );
    const unmet = await until('the expectation', () =>
      vscode.languages
        .getDiagnostics(uri)
        .find(
          ({ range, severity }) =>
            range.start.line === 2 && severity === vscode.DiagnosticSeverity.Error,
        ),
    );
    assert.match(unmet.message, /kernel/);
  });

  it('in ONNX open as a graph, with problems and a side file', async () => {
    const { results } = await activate();
    const uri = await write('chain.onnx', onnxChain(['Relu', 'Exp', 'Neg'], [4, 256]));
    await vscode.commands.executeCommand('vscode.open', uri);
    await until('the graph editor', () => {
      const input = vscode.window.tabGroups.activeTabGroup.activeTab?.input;
      return input instanceof vscode.TabInputCustom && input.viewType === EDITOR_TYPE;
    });
    const { result } = await results.fresh(uri.toString());
    assert.equal(result?.format, 'onnx');
    assert.equal(result.after.kernels.length, 1);
    const [first] = result.graph.nodes;
    assert.ok(first);
    const directive = { kind: 'materialize', value: first.id };
    await write('chain.onnx.fusion.json', JSON.stringify({ version: 1, directives: [directive] }));
    await until(
      'the directive',
      () => (results.get(uri.toString())?.result?.after.kernels[0]?.outputs.length ?? 0) > 1,
    );
  });

  it('that are larger than any buffer open without their weights', async () => {
    const { results } = await activate();
    const uri = workspaceFile('huge.onnx');
    const { size } = writeSparseModel(uri.fsPath, 48, 4096);
    assert.ok(size > 3 * 2 ** 30);
    const before = process.memoryUsage.rss();
    const { result, problem, modelFile } = await results.fresh(uri.toString());
    assert.equal(problem, undefined);
    assert.equal(result?.graph.nodes.length, 48);
    assert.deepEqual(result.diagnostics, []);
    assert.equal(modelFile?.size, size);
    const more = process.memoryUsage.rss() - before;
    assert.ok(more < 256 * 2 ** 20, `${more} bytes more`);
    await vscode.workspace.fs.delete(uri);
  });

  it('that are damaged or missing say so and harm nothing', async () => {
    const { results } = await activate();
    const damaged = await write('damaged.onnx', Uint8Array.from([10, 255, 255, 1, 2, 3]));
    const state = await results.fresh(damaged.toString());
    assert.ok((state.result?.diagnostics ?? []).some(({ severity }) => severity === 'error'));
    const missing = await results.fresh(workspaceFile('missing.onnx').toString());
    assert.match(missing.problem ?? '', /missing\.onnx no longer exists/);
    const fine = await write('fine.fuse', relu);
    assert.equal((await results.fresh(fine.toString())).problem, undefined);
  });
});
