// The graph panel's page in a real browser: what a person sees and does in it, and what it tells the
// host.

import assert from 'node:assert/strict';
import { compile } from '../../compiler';
import type { CompileResult } from '../../compiler/result';
import type { RunJob, RunnerReply, RunOutput } from '../../runner/core/types';
import { deep, empty, mlp, odd, profileOf, transformer } from '../unit/webview/fixture';
import { PanelPage } from './webviewPage';

describe('the graph panel', function () {
  this.timeout(120_000);
  let panel: PanelPage;

  async function show(
    result: CompileResult,
    options: Parameters<typeof PanelPage.open>[0] = {},
  ): Promise<void> {
    panel = await PanelPage.open(options);
    await panel.post({ type: 'trust', trusted: true });
    await panel.post({ type: 'result', result, stale: false });
    if (result.graph.nodes.length > 0) await panel.settled();
  }

  afterEach(async () => {
    const { faults } = panel;
    await panel.close();
    assert.deepEqual(faults, []);
  });

  it('draws kernels, ops and edges under the panel’s policy, laid out in a worker', async () => {
    await show(transformer());
    assert.equal((await panel.sent('ready')).length, 1);
    assert.deepEqual(await panel.sent('log'), []);
    assert.ok((await panel.count('.layer-kernels .item')) >= 3);
    assert.match(await panel.text('.drawing-title'), /After fusion 7 kernels/);
    assert.match(await panel.text('.tile'), /17 → 7/);
    await panel.press('Both');
    await panel.settled();
    assert.equal(await panel.count('svg.graph'), 2);
    await panel.press('Before');
    await panel.settled();
    assert.match(await panel.text('.drawing-title'), /^Before fusion 17 kernels/);
  });

  it('says why an edge is not fused, and offers to force it', async () => {
    await show(transformer());
    await panel.click('.layer-overlay .reject-pill');
    const details = await panel.text('.details');
    assert.match(details, /Why not fused/);
    assert.match(details, /NEEDS_GLOBAL_SYNC/);
    assert.match(details, /against a limit of 1 \(WGSL: no grid-wide barrier\)/);
    assert.match(details, /What would change it/);
    assert.deepEqual((await panel.sent('selected')).at(-1), {
      type: 'selected',
      nodes: ['n0', 'n1'],
      reveal: true,
    });
    await panel.page.click('.details vscode-button');
    assert.deepEqual(await panel.sent('forceFuse'), [{ type: 'forceFuse', from: 'n0', to: 'n1' }]);
  });

  it('links both drawings, and follows the editor', async () => {
    await show(mlp());
    await panel.press('Both');
    await panel.settled();
    await panel.click('[data-view="after"] .layer-kernels [data-id="k0"] .kernel-title');
    assert.equal((await panel.sent('selected')).at(-1)?.kernel, 'k0');
    assert.equal(await panel.count('[data-view="before"] .layer-leaves .is-selected'), 3);
    await panel.post({ type: 'select', nodes: ['n3'], reveal: true });
    await new Promise((resolve) => setTimeout(resolve, 500));
    assert.equal(await panel.count('[data-view="before"] .layer-leaves .is-selected'), 1);
    assert.match(await panel.text('.details h2'), /layer_norm y/);
    // What the host selected is not told back to it.
    assert.equal((await panel.sent('selected')).length, 1);
  });

  it('can be walked by keyboard, with words for a screen reader', async () => {
    await show(mlp());
    await panel.page.evaluate(() =>
      document.querySelector<SVGElement>('svg.graph [tabindex="0"]')?.focus(),
    );
    const heard: string[] = [];
    for (const key of ['ArrowDown', 'ArrowDown', 'ArrowDown', 'ArrowDown'] as const) {
      heard.push(await label());
      await panel.page.keyboard.press(key);
      await new Promise((resolve) => setTimeout(resolve, 450));
    }
    assert.match(heard[0] ?? '', /^x, input f32 B×1024/);
    assert.match(heard[1] ?? '', /^matmul a; in kernel k0/);
    assert.match(await label(), /^Kernel k1/);
    await panel.page.keyboard.press('Enter');
    assert.equal((await panel.sent('selected')).at(-1)?.kernel, 'k1');
    await panel.page.keyboard.down('Shift');
    await panel.page.keyboard.press('ArrowUp');
    await panel.page.keyboard.up('Shift');
    await new Promise((resolve) => setTimeout(resolve, 450));
    assert.match(await label(), /not fused, NEEDS_GLOBAL_SYNC/);
    await panel.page.keyboard.press('Escape');
    assert.deepEqual((await panel.sent('selected')).at(-1)?.nodes, []);

    function label(): Promise<string> {
      return panel.page.evaluate(() => document.activeElement?.getAttribute('aria-label') ?? '');
    }
  });

  it('searches by shape and goes through the hits', async () => {
    await show(transformer());
    await panel.page.focus('vscode-text-field');
    await panel.page.keyboard.type('4096x1024');
    await panel.page.waitForFunction(() => document.querySelector('.hits')?.textContent === '1');
    await panel.page.keyboard.press('Enter');
    await new Promise((resolve) => setTimeout(resolve, 600));
    assert.match(await panel.text('.details h2'), /mlp\.fc2\.weight/);
    assert.equal(await panel.count('.item.is-match.is-selected'), 1);
    assert.ok((await panel.count('.item.is-dim')) > 5);
  });

  it('shows a kernel’s code when asked', async () => {
    await show(mlp());
    await panel.click('.layer-kernels [data-id="k0"] .kernel-title');
    await panel.page.click('.code-section summary');
    await panel.page.waitForFunction(() => document.querySelector('.code-body') !== null);
    const [request] = await panel.sent('requestCode');
    assert.equal(request?.kernel, 'k0');
    const code = 'fn main() { let x = 1u; } // <b>';
    await panel.post({
      type: 'code',
      id: request.id,
      code: [{ kernel: 'k0', language: 'wgsl', code }],
    });
    await panel.page.waitForSelector('pre.code');
    assert.equal(await panel.text('pre.code'), code);
    assert.equal(await panel.text('.wgsl-keyword'), 'fn | let');
    await panel.press('Open in editor');
    assert.equal((await panel.sent('openCode')).length, 1);
  });

  it('profiles: progress, cancel, faults with advice, times on the kernels', async () => {
    const result = transformer();
    await show(result);
    await panel.press('Profile');
    assert.equal((await panel.sent('profile')).length, 1);
    const progress = { stage: 'fused', done: 3, total: 7, kernel: 'k2' } as const;
    await panel.post({ type: 'profileState', state: { kind: 'running', progress } });
    await panel.page.waitForFunction(() => document.querySelector('.running:not([hidden])'));
    assert.equal(await panel.text('.stage'), 'Timing the fused kernels k2 3/7');
    await panel.press('Cancel');
    assert.equal((await panel.sent('cancelProfile')).length, 1);
    const fault = {
      code: 'HUNG',
      message: 'k2 did not end.',
      kernel: 'k2',
      advice: 'Try less.',
    } as const;
    await panel.post({ type: 'profileState', state: { kind: 'failed', fault } });
    await panel.page.waitForSelector('.notice-error');
    assert.match(await panel.text('.notice'), /HUNG k2 did not end\. \(kernel k2\) Try less\./);
    await panel.post({ type: 'profileState', state: { kind: 'idle' } });
    await panel.post({ type: 'profile', profile: profileOf(result, true) });
    await panel.page.waitForSelector('.roof-measured');
    // k1 takes 2.7 times what the model says.
    await panel.page.waitForSelector('.layer-kernels .flag-off');
    assert.equal(await panel.count('.layer-kernels .flag-off'), 1);
    assert.match(await panel.text('.details'), /Software adapter/);
    assert.match(await panel.text('.details'), /Every output agrees/);
    await panel.page.click('vscode-checkbox[title*="share"]');
    await panel.page.waitForSelector('.kernel-heat');
  });

  it('replays the search step by step, with what each step was weighed against', async () => {
    const file = 'residual.fuse';
    const text = `
input x: f32[1, 32, 28, 28]
param w1: f32[32, 32, 3, 3]
param b1: f32[32]
param w2: f32[32, 32, 3, 3]
a = relu(conv2d(x, w1, b1, padding=1))
b = conv2d(a, w2, padding=1)
y = relu(b + x)
z = mean(y, axis=[2, 3])
output z`;
    const compilation = compile({ file, bytes: new TextEncoder().encode(text) });
    const steps = compilation.steps();
    const { before, after } = compilation.result;
    assert.ok(steps.length >= 3 && steps.some((s) => s.alternatives.length > 0));
    await show(compilation.result, { theme: 'light' });
    /** Plays the host until the drawing has come to the step. */
    const answered = new Set<number>();
    const at = async (step: number): Promise<void> => {
      for (let tries = 0; tries < 50; tries++) {
        for (const { id, step: wanted } of await panel.sent('requestPlanAt')) {
          if (answered.has(id)) continue;
          answered.add(id);
          await panel.post({ type: 'planAt', id, planAt: compilation.planAt(wanted) });
        }
        await panel.settled();
        const kernels = steps[step - 1]?.kernels ?? before.kernels.length;
        const title = await panel.text('.drawing-title');
        if (title.startsWith(`After ${step} of ${steps.length} steps ${kernels} kernel`))
          return panel.settled();
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
      assert.fail(`never came to step ${step}: ${await panel.text('.drawing-title')}`);
    };
    await panel.press('Replay the search');
    const [request] = await panel.sent('requestSteps');
    assert.ok(request);
    assert.match(await panel.text('.details'), /The search is run again/);
    await panel.post({ type: 'steps', id: request.id, steps });
    await at(0);
    assert.match(await panel.text('.replay-text'), /^Before the first of \d+ steps · \d kernels/);
    const press = (label: string): Promise<void> =>
      panel.page.click(`.replay vscode-button[aria-label="${label}"]`);
    await press('One step on');
    await press('One step on');
    await at(2);
    assert.match(await panel.text('.replay-text'), /^Step 2 of \d+: .* with .*, gains .* kernels/);
    assert.match(await panel.text('.details h2'), /^Step 2 of/);
    assert.match(await panel.text('.details'), /Instead/);
    assert.ok((await panel.count('.layer-leaves .is-selected')) >= 2);
    await panel.screenshot('replay-light');
    // A slider that is dragged asks for one plan at a time.
    await panel.page.focus('.replay-slider');
    await panel.page.keyboard.press('End');
    await at(steps.length);
    assert.match(
      await panel.text('.drawing-title'),
      new RegExp(`steps ${after.kernels.length} kernel`),
    );
    // What is not fused at the end has its reason in the replay too; its code belongs to the end.
    await panel.click('.layer-kernels [data-id="s0"] .kernel-title');
    await panel.page.click('.code-section summary');
    await panel.page.waitForFunction(() =>
      document.querySelector('.details')?.textContent?.includes('close the replay first'),
    );
    await panel.press(`‹ Step ${steps.length}`);
    assert.match(await panel.text('.details h2'), new RegExp(`^Step ${steps.length} of`));
    await panel.press('Close');
    await panel.settled();
    assert.match(await panel.text('.drawing-title'), /^After fusion/);
    assert.equal(await panel.count('.replay:not([hidden])'), 0);
    // A new plan of the same ops begins it again; an edit ends it, and that is said.
    await panel.press('Replay the search');
    const { result } = compilation;
    const asked = (await panel.sent('requestSteps')).length;
    await panel.post({ type: 'result', result, stale: false });
    await panel.settled();
    assert.equal((await panel.sent('requestSteps')).length, asked + 1);
    assert.equal(await panel.count('.replay:not([hidden])'), 1);
    const graph = { ...result.graph, nodes: result.graph.nodes.slice(1) };
    await panel.post({ type: 'result', result: { ...result, graph }, stale: false });
    await panel.page.waitForSelector('.replay[hidden]');
    assert.match(await panel.text('.notices'), /The replay has ended/);
  });

  it('runs nothing in Restricted Mode, and says why', async () => {
    await show(mlp());
    await panel.post({ type: 'trust', trusted: false });
    await panel.page.waitForSelector('.notice');
    assert.match(await panel.text('.notice'), /Restricted Mode/);
    await panel.press('Profile');
    assert.deepEqual(await panel.sent('profile'), []);
  });

  it('says when the graph is old, on its way, or gone', async () => {
    await show(mlp());
    await panel.post({ type: 'busy', message: 'Compiling…' });
    await panel.page.waitForSelector('.notice');
    assert.match(await panel.text('.notice'), /Compiling…/);
    await panel.post({ type: 'unavailable', message: 'The file has gone.' });
    await panel.page.waitForSelector('.notice-error');
    assert.match(await panel.text('.notice'), /has gone.*last that could be read/);
    assert.equal(await panel.count('.graphs.is-stale'), 1);
    await panel.post({ type: 'result', result: { ...mlp(), version: 2 }, stale: false });
    await panel.page.waitForFunction(() => document.querySelector('.notice') === null);
  });

  it('stays small with 4,800 ops: folded, then unfolded by a click', async () => {
    await show(deep(400));
    assert.ok((await panel.count('svg.graph *')) < 6000);
    await panel.press('Fit the whole graph (0)');
    await new Promise((resolve) => setTimeout(resolve, 600));
    assert.ok((await panel.count('svg.graph *')) < 6000);
    assert.equal(await panel.count('.layer-leaves [data-id="k3/n30"]'), 0);
    await panel.post({ type: 'select', nodes: ['n20'], reveal: true });
    await new Promise((resolve) => setTimeout(resolve, 900));
    assert.equal(await panel.count('.layer-kernels .is-selected'), 1);
    await panel.click('.layer-kernels .is-selected .fold-button');
    await panel.settled();
    assert.equal(await panel.count('.layer-leaves .is-selected'), 1);
  });

  it('survives what breaks viewers', async () => {
    await show(odd());
    await panel.press('Unfold all kernels');
    await panel.settled();
    assert.ok((await panel.count('.layer-leaves .item')) > 4);
    await panel.post({ type: 'result', result: { ...empty(), version: 2 }, stale: false });
    await panel.page.waitForSelector('.drawing-note:not([hidden])');
    assert.match(await panel.text('.drawing-note'), /computes nothing yet/);
  });

  it('keeps its state over a reload, and exports what it shows', async () => {
    await show(transformer(), { theme: 'light' });
    await panel.press('Both');
    await panel.settled();
    await panel.click('[data-view="after"] .layer-kernels [data-id="k0"] .kernel-title');
    await panel.page.reload();
    await panel.post({ type: 'result', result: transformer(), stale: false });
    await panel.settled();
    assert.equal(await panel.count('svg.graph'), 2);
    assert.match(await panel.text('.details h2'), /k0 · single/);
    await panel.press('Export as SVG');
    const [exported] = await panel.sent('exportSvg');
    assert.match(exported?.svg ?? '', /^<svg .*After fusion/s);
    assert.ok(!exported?.svg.includes('var('));
  });

  it('runs kernels on the page’s own GPU', async () => {
    await show(mlp());
    const text = 'input x: f32[4, 8]\ny = relu(x) + 1\noutput y\n';
    const compilation = compile({ file: 'a.fuse', bytes: new TextEncoder().encode(text) });
    const exec = compilation.execPlan('fused');
    const input = exec.buffers.find(({ role }) => role === 'input') ?? assert.fail();
    const data = Float32Array.from({ length: input.elements }, (_, i) => i - 16);
    const job: RunJob = { exec, inputs: [{ buffer: input.id, data }], options: {} };
    const reply = (await panel.runInPage('run', job)) as RunnerReply<readonly RunOutput[]>;
    assert.ok(reply.ok, JSON.stringify(reply));
    assert.deepEqual(
      [...(reply.value[0]?.data ?? [])],
      [...data].map((v) => Math.max(v, 0) + 1),
    );
  });

  it('works in high contrast and in a narrow panel', async () => {
    await show(transformer(), { theme: 'contrast', width: 500, height: 800 });
    const { graph, details, overflow } = await panel.page.evaluate(() => {
      const box = (selector: string) =>
        document.querySelector(selector)?.getBoundingClientRect().toJSON() as DOMRect;
      return {
        graph: box('.graphs'),
        details: box('.details'),
        overflow: document.documentElement.scrollWidth - innerWidth,
      };
    });
    assert.ok(details.top >= graph.bottom, 'the details stand below');
    assert.ok(graph.height > 200 && details.height > 200);
    assert.equal(overflow, 0);
  });
});
