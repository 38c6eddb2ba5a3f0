import assert from 'node:assert/strict';
import * as vscode from 'vscode';

describe('activation', () => {
  it('activates in the extension host', async () => {
    const extension = vscode.extensions.getExtension('fusion-lens.fusion-lens');
    assert.ok(extension, 'the extension is loaded');
    await extension.activate();
    assert.ok(extension.isActive);
  });

  it('runs in a real VS Code with a folder open', () => {
    assert.match(vscode.version, /^1\.\d+\.\d+$/);
    assert.equal(vscode.workspace.workspaceFolders?.length, 1);
    assert.equal(vscode.workspace.isTrusted, true);
  });
});
