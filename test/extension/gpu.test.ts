// The extension host hands its environment to the processes that it starts: a runner must find the
// adapter, be it the software one.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import * as vscode from 'vscode';

describe('the environment of the extension host', () => {
  it('lets a child process find a GPU adapter', async () => {
    const root = vscode.extensions.getExtension('fusion-lens.fusion-lens')?.extensionPath;
    const program = `
      import { create } from 'webgpu';
      const adapter = await create([]).requestAdapter();
      console.log(adapter ? adapter.info.vendor : 'none');
      process.exit(0);`;
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['--input-type=module', '--eval', program],
      { cwd: root, timeout: 20_000 },
    );
    assert.notEqual(stdout.trim(), '');
    assert.notEqual(stdout.trim(), 'none');
  });
});
