// The edge that was not fused: why, force it, and what it then measures.

import assert from 'node:assert/strict';
import { poll, useWorkbench } from '../harness/workbench';

const source = `input x: f32[128, 256]
param w: f32[256, 768]
n = layer_norm(x, axis=-1)
y = relu(n @ w)
output y
`;

describe('an edge that was not fused', () => {
  const workbench = useWorkbench({
    files: { 'force.fuse': source },
    settings: {
      'fusionLens.device': 'software',
      'fusionLens.profile.seconds': 0.5,
      'editor.minimap.enabled': false,
    },
  });

  it('says why, is forced by a click, and is measured', async () => {
    await workbench().openFile('force.fuse');
    await workbench().waitForCodeLens(/3 ops → 2 kernels/);
    await workbench().runCommand('Fusion Lens: Show Graph');
    const frame = await workbench().webviewFrame('.drawing[data-layout-ms]');
    const badge = await poll(20_000, async () => {
      for (const text of await frame.$$('svg text'))
        if (await text.evaluate((t) => /^[A-Z_]{6,}$/.test(t.textContent ?? ''))) return text;
      return undefined;
    });
    assert.ok(badge, 'no edge shows a verdict');
    await badge.click();
    const details = () => frame.$eval('.details', (e) => e.textContent ?? '');
    assert.ok(await poll(5000, async () => /Why not fused/.test(await details()) || undefined));
    assert.match(await details(), /What would change it/);
    await frame.evaluate(() => {
      for (const button of document.querySelectorAll<HTMLElement>('vscode-button'))
        if (button.textContent?.includes('Force and measure')) button.click();
    });
    await workbench().waitForCodeLens(/3 ops → 1 kernel · measured .* verified/, 90_000);
    assert.ok((await workbench().editorLines()).includes('fuse n, y'));
    // The graph tells it: no notification stands over it.
    assert.deepEqual(await workbench().notifications(), []);
    await workbench().screenshot('force.png');
  });

  it('keeps what was measured as what it is, when the text changes', async () => {
    await workbench().openFile('force.fuse');
    await workbench().typeAtEnd('\nz = sum(y)\noutput z\n');
    await workbench().waitForCodeLens(
      /4 ops → 2 kernels · est\. .* · measured before the last edit/,
    );
    // The kernel is still the same one.
    await workbench().waitForCodeLens(/k0.*measured \(est/);
    const frame = await workbench().webviewFrame('.details');
    const overview = await poll(10_000, async () => {
      await frame.evaluate(() => document.querySelector<HTMLElement>('.back')?.click());
      const text = await frame.$eval('.details', (e) => e.textContent ?? '');
      return /Measured before the last edit/.test(text) ? text : undefined;
    });
    assert.match(overview ?? '', /1 of 2 kernels is unchanged and keeps its time/);
    assert.match(overview ?? '', /Profile again/);
    await workbench().screenshot('stale.png');
  });
});
