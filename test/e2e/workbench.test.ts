// That the harness itself works: a real VS Code opens the examples.

import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { useWorkbench } from '../harness/workbench';

describe('the workbench', () => {
  const workbench = useWorkbench({
    files: {
      'hello.fuse': 'input x: f32[4]\noutput x\n',
      'page.md': '# A page in a webview\n',
    },
  });

  it('opens a graph file as text', async () => {
    await workbench().openFile('hello.fuse');
    assert.deepEqual((await workbench().editorLines()).slice(0, 2), [
      'input x: f32[4]',
      'output x',
    ]);
  });

  it('runs commands and reaches into webviews', async () => {
    await workbench().openFile('page.md');
    await workbench().runCommand('Markdown: Open Preview to the Side');
    const frame = await workbench().webviewFrame('h1');
    assert.equal(await frame.$eval('h1', (title) => title.textContent), 'A page in a webview');
    const hasGpu = await frame.evaluate(async () => {
      const adapter = await navigator.gpu.requestAdapter();
      return adapter?.features.has('timestamp-query');
    });
    assert.equal(hasGpu, true);
  });

  it('follows the colour theme of the user settings', async () => {
    for (const theme of ['light', 'hc-dark', 'dark'] as const) {
      await workbench().setTheme(theme);
      const picture = await workbench().screenshot(`workbench-${theme}.png`);
      assert.ok(statSync(picture).size > 10_000);
    }
  });

  it('offers WebGPU to pages', async () => {
    const vendor = await workbench().page.evaluate(async () => {
      const adapter = await navigator.gpu.requestAdapter();
      return adapter?.info.vendor;
    });
    assert.ok(vendor);
  });
});
