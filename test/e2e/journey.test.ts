// A person's path through the product, in the real VS Code: read the lens, open the graph, profile,
// read a verified time, edit, see the lens change, open a binary model. Writes the pictures of the
// README.

import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { poll, useWorkbench } from '../harness/workbench';
import { squeezeNet } from './squeezeNet';

for (const theme of ['dark', 'light'] as const)
  describe(`a person's path (${theme})`, () => {
    const workbench = useWorkbench({
      theme,
      files: { 'light_squeezenet.onnx': squeezeNet() },
      settings: { 'fusionLens.profile.seconds': 1, 'editor.minimap.enabled': false },
    });

    it('reads what fuses at the line of code', async () => {
      await workbench().openFile('linear.fuse');
      const file = await workbench().waitForCodeLens(/3 ops → 1 kernel\b/);
      assert.match(file, /est\. \d+(\.\d+)?×/);
      const op = await workbench().waitForCodeLens(/fused into k0/);
      assert.match(op, /saves .*(KiB|MiB), 2 launches/);
    });

    it('sees the graph before and after', async () => {
      await workbench().runCommand('Fusion Lens: Show Graph');
      const frame = await workbench().webviewFrame('svg');
      const text = await poll(20_000, async () => {
        const t = await frame.evaluate(() => document.body.innerText);
        const drawn = await frame.$$eval('svg text', (all) => all.map((x) => x.textContent ?? ''));
        return drawn.some((d) => d.includes('k0')) ? `${t}\n${drawn.join('\n')}` : undefined;
      });
      assert.ok(text, 'the graph shows no kernel');
      assert.match(text, /epilogue/);
    });

    it('profiles with one click and reads a verified time', async () => {
      await workbench().clickCodeLens(/^Profile$/);
      const summary = await workbench().waitForCodeLens(/measured/, 90_000);
      assert.match(summary, /measured \d+(\.\d+)?×/);
      assert.match(summary, /verified/);
      assert.match(summary, /software adapter/);
      await workbench().waitForCodeLens(/k0.*(µs|ms) measured/);
      const picture = await workbench().screenshot(`journey-linear-${theme}.png`);
      assert.ok(statSync(picture).size > 20_000);
    });

    it('replays how the plan came about, and an edit ends that', async () => {
      const frame = await workbench().webviewFrame('.replay');
      await frame.$eval('[aria-label^="Replay the fusion search"]', (b) =>
        (b as HTMLElement).click(),
      );
      const says = (pattern: RegExp): Promise<string | undefined> =>
        poll(20_000, async () => {
          const t = await frame.$eval('.replay-text', (e) => e.textContent ?? '');
          return pattern.test(t) ? t : undefined;
        });
      assert.ok(await says(/^Before the first of \d steps? · 3 kernels/));
      await frame.$eval('.replay [aria-label="After the last step"]', (b) =>
        (b as HTMLElement).click(),
      );
      assert.ok(await says(/^Step \d of \d: .*, gains .* · 1 kernel/));
      const title = await poll(20_000, async () => {
        const t = await frame.$eval('.drawing-title', (e) => e.textContent ?? '');
        return /^After \d of \d steps? 1 kernel/.test(t) ? t : undefined;
      });
      assert.ok(title, 'the drawing never came to the last step');
      await workbench().screenshot(`journey-replay-${theme}.png`);
    });

    it('edits the file and sees the lens change', async () => {
      await workbench().openFile('linear.fuse');
      await workbench().typeAtEnd('\nS = softmax(Z, axis=-1)\noutput S\n');
      await workbench().waitForCodeLens(/4 ops → \d kernels/);
      const frame = await workbench().webviewFrame('.replay');
      const ended = await poll(20_000, () => frame.$('.replay[hidden]'));
      assert.ok(ended, 'the replay of the old plan goes on');
      const said = await poll(20_000, async () => {
        const notices = await frame.$$eval('.notice', (all) => all.map((e) => e.textContent ?? ''));
        return notices.some((n) => n.startsWith('The replay has ended')) || undefined;
      });
      assert.ok(said, 'the replay ended without a word');
    });

    it('opens a binary model as a graph', async () => {
      await workbench().openFile('light_squeezenet.onnx');
      const frame = await workbench().webviewFrame('svg');
      const kernels = await poll(30_000, async () => {
        const n = await frame.$$eval('svg text', (all) => all.length);
        return n > 10 ? n : undefined;
      });
      assert.ok(kernels, 'the model is not drawn');
      const picture = await workbench().screenshot(`journey-squeezenet-${theme}.png`);
      assert.ok(statSync(picture).size > 20_000);
    });
  });
