import assert from 'node:assert/strict';
import * as vscode from 'vscode';

describe('a workspace that is not trusted', () => {
  it('still loads and activates the extension', async () => {
    assert.equal(vscode.workspace.isTrusted, false);
    const extension = vscode.extensions.getExtension('fusion-lens.fusion-lens');
    await extension?.activate();
    assert.equal(extension?.isActive, true);
  });
});
