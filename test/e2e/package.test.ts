// The packed extension, installed into a server as a person installs it: it opens a graph and runs
// its kernels with what travels in the package.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { root } from '../../scripts/root.mjs';
import { openWorkbench, type Workbench } from '../harness/workbench';

describe('the packed extension', function () {
  this.timeout(300_000);
  let workbench: Workbench | undefined;

  before(async () => {
    execFileSync(process.execPath, ['scripts/package.mjs'], { cwd: root, stdio: 'pipe' });
    workbench = await openWorkbench({
      vsix: path.join(root, 'dist/fusion-lens.vsix'),
      withoutExtension: true,
      settings: { 'fusionLens.profile.seconds': 0.5 },
    });
  });
  after(async () => {
    await workbench?.close();
  });

  it('shows lenses and profiles', async () => {
    assert.ok(workbench);
    await workbench.openFile('softmax.fuse');
    await workbench.waitForCodeLens(/5 ops → 1 kernel/);
    await workbench.clickCodeLens(/^Profile$/);
    const summary = await workbench.waitForCodeLens(/measured/, 90_000);
    assert.match(summary, /verified/);
  });
});
