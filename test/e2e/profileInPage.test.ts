// Profiling with the graph page's own GPU: chosen by the setting, and the only way in a web host.

import assert from 'node:assert/strict';
import { delay, useWorkbench } from '../harness/workbench';

const source = `input x: f32[64, 256]
param w: f32[256, 256]
a = matmul(x, w)
y = softmax(relu(a), axis=-1)
output y
`;

for (const webHost of [false, true])
  describe(`profiling in the page${webHost ? ' of a web host' : ''}`, () => {
    const workbench = useWorkbench({
      webHost,
      files: { 'page.fuse': source },
      settings: { 'fusionLens.profile.seconds': 0.3, 'fusionLens.profile.runner': 'page' },
    });

    it('measures, verifies in the worker, and labels the adapter', async () => {
      await workbench().openFile('page.fuse');
      await workbench().waitForCodeLens(/3 ops → \d kernels?/);
      await workbench().clickCodeLens(/^Profile$/);
      const summary = await workbench().waitForCodeLens(/measured/, 90_000);
      assert.match(summary, /measured \d+\.\d+× \(est\. .*verified/);
      assert.match(summary, /software adapter/);
    });

    it('brings the panel back after a reload of the window', async () => {
      // A browser's VS Code writes its state every five seconds.
      await delay(6000);
      await workbench().page.reload({ waitUntil: 'domcontentloaded' });
      await workbench().waitUntilReady();
      await workbench().webviewFrame('svg');
      await workbench().waitForCodeLens(/3 ops → \d kernels?/);
    });
  });
