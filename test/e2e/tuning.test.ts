// Tuning as a person does it: one click on the lens, a wait, and a table of what was tried.

import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { poll, useWorkbench } from '../harness/workbench';

const source = `input x: f32[96, 128]
param w: f32[128, 96]
y = relu(x @ w)
output y
`;

/** Dawn in a process of Node; and, in a browser's own extension host, the GPU of the graph's page. */
for (const webHost of [false, true])
  describe(`tuning in the workbench${webHost ? ' of a web host' : ''}`, () => {
    const workbench = useWorkbench({ webHost, files: { 'tune.fuse': source } });

    it('shows every candidate in the panel, and profiles with what it found', async function () {
      this.timeout(180_000);
      await workbench().openFile('tune.fuse');
      await workbench().waitForCodeLens(/2 ops → 1 kernel/);
      await workbench().clickCodeLens(/^Show graph$/);
      await workbench().webviewFrame('svg');
      await workbench().clickCodeLens(/^Tune$/);
      const frame = await workbench().webviewFrame('details.tuned', 120_000);
      await frame.$eval('details.tuned', (d) => d.setAttribute('open', ''));
      const rows = await poll(10_000, async () => {
        const n = await frame.$$eval('details.tuned tbody tr', (all) => all.length);
        return n > 3 ? n : undefined;
      });
      assert.ok(rows, 'no table of candidates');
      const text = await frame.$eval('details.tuned', (d) => d.textContent ?? '');
      assert.match(text, /default: .*workgroup = 64/);
      const picture = await workbench().screenshot(webHost ? 'tuning-page.png' : 'tuning.png');
      assert.ok(statSync(picture).size > 20_000);
      await workbench().clickCodeLens(/^Profile$/);
      const summary = await workbench().waitForCodeLens(/measured/, 90_000);
      assert.match(summary, /verified/);
    });
  });
