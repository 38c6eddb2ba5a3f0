// The pictures of the README, taken from the product itself: a text graph beside its fused graph with
// measured times, and a binary model in its own editor. scripts/pictures.mjs copies them to media/.

import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { delay, poll, useWorkbench, type Workbench } from '../harness/workbench';
import { squeezeNet } from './squeezeNet';

const calm = {
  'editor.minimap.enabled': false,
  'breadcrumbs.enabled': false,
  'workbench.layoutControl.enabled': false,
};

/** Waits until a graph page has drawn a text that matches. */
async function drawn({ page }: Workbench, pattern: RegExp): Promise<void> {
  const found = await poll(30_000, async () => {
    for (const frame of page.frames()) {
      const texts = await frame
        .$$eval('svg text', (all) => all.map((text) => text.textContent ?? ''))
        // A frame that is being replaced.
        .catch(() => []);
      if (texts.some((text) => pattern.test(text))) return true;
    }
    return undefined;
  });
  assert.ok(found, `no page shows ${String(pattern)}`);
}

async function take(workbench: Workbench, file: string): Promise<void> {
  await workbench.runCommand('Notifications: Clear All Notifications');
  // Away from everything that has a tooltip.
  await workbench.page.mouse.move(300, 700);
  // Transitions of the page and of the workbench.
  await delay(2000);
  const picture = await workbench.screenshot(file);
  assert.ok(statSync(picture).size > 20_000);
}

describe('pictures of the README: a text graph', () => {
  const workbench = useWorkbench({
    theme: 'dark',
    width: 1400,
    height: 980,
    settings: { ...calm, 'fusionLens.profile.seconds': 5 },
  });

  it('with lenses, graph and measured times', async () => {
    await workbench().openFile('softmax.fuse');
    await workbench().waitForCodeLens(/5 ops → 1 kernel\b/);
    await workbench().runCommand('View: Toggle Primary Side Bar Visibility');
    await workbench().runCommand('Fusion Lens: Show Graph');
    await drawn(workbench(), /^k0/);
    await workbench().clickCodeLens(/^Profile$/);
    await workbench().waitForCodeLens(/k0.*(µs|ms) measured/, 90_000);
    await take(workbench(), 'readme-softmax-dark.png');
  });
});

describe('pictures of the README: a binary model', () => {
  const workbench = useWorkbench({
    theme: 'light',
    width: 1400,
    height: 900,
    files: { 'light_squeezenet.onnx': squeezeNet() },
    settings: { ...calm, 'fusionLens.device': 'integrated' },
  });

  it('in its own editor', async () => {
    await workbench().runCommand('View: Toggle Primary Side Bar Visibility');
    await workbench().openFile('light_squeezenet.onnx');
    await drawn(workbench(), /conv/);
    await take(workbench(), 'readme-squeezenet-light.png');
  });
});
