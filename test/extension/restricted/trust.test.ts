import assert from 'node:assert/strict';
import * as vscode from 'vscode';
import { activate, closeEverything, freshLenses, openText, write } from '../support';

const source = 'input x: f32[64, 256]\ny = exp(relu(x))\noutput y\n';

describe('a workspace that is not trusted', () => {
  afterEach(closeEverything);

  it('still loads and activates the extension', async () => {
    assert.equal(vscode.workspace.isTrusted, false);
    await activate();
  });

  it('has lenses, problems and graphs', async () => {
    const uri = await write('restricted.fuse', source);
    await openText(uri);
    const lenses = await freshLenses(uri);
    assert.match(lenses[0]?.title ?? '', /^2 ops → 1 kernel/);
    await vscode.commands.executeCommand('fusionLens.showGraph', uri.toString());
    assert.ok((await activate()).views.get(uri.toString()));
  });

  it('runs no kernels, whoever asks', async () => {
    const { profiler, measurements } = await activate();
    const uri = await write('restricted.fuse', source);
    assert.equal(
      await vscode.commands.executeCommand('fusionLens.profile', uri.toString()),
      undefined,
    );
    for (const choice of [undefined, 'node', 'page'] as const) {
      const reply = await profiler.profile(uri.toString(), choice);
      assert.ok(!reply.ok);
      assert.match(reply.fault.message, /not trusted/);
    }
    assert.equal(measurements.size, 0);
  });
});
