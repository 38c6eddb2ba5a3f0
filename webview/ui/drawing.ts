/**
 * One of the two drawings with its title: makes the scene, has it laid out, and shows it.
 *
 * The newest scene wins: a layout that comes back late is thrown away. What takes long says so and
 * can be cancelled, which leaves the drawing as it was.
 */
import type { LayoutClient } from '../layout/client';
import { formatBytes, formatGain, formatUs, plural } from '../render/format';
import type { GraphIndex, View } from '../render/graphIndex';
import { GraphView, type GraphViewEvents } from '../render/graphView';
import { DARK_THEME, makePalette, type Palette } from '../render/palette';
import { placeScene, seedsOf, type PlacedScene } from '../render/placed';
import { buildScene } from '../render/scene';
import type { Scene } from '../render/sceneTypes';
import type { Hit } from '../state/search';
import { highlightIn, itemsOf, type Selection } from '../state/selection';
import { afterTitle, currentStep, isKernelFolded, weightsShown, type State } from '../state/state';
import { button, progressRing } from './components';
import { h } from './dom';

/** A layout that takes longer than this says that it is under way. */
const PATIENCE_MS = 250;

export class Drawing {
  readonly element: HTMLElement;
  readonly view: GraphView;
  placed: PlacedScene | undefined;
  private readonly title = h('h2', { class: 'drawing-title' });
  private readonly note = h('p', { class: 'drawing-note', hidden: true });
  private readonly wait: HTMLElement;
  private readonly waitText = h('span');
  private palette = makePalette(DARK_THEME);
  private sceneKey: readonly unknown[] = [];
  private request = 0;
  private unsettled: (() => void)[] = [];

  constructor(
    private readonly which: View,
    private readonly layouts: LayoutClient,
    events: GraphViewEvents,
    private readonly onFault: (message: string) => void,
  ) {
    const cancel = button('Cancel', { onClick: () => this.cancel() });
    this.wait = h(
      'div',
      { class: 'drawing-wait', role: 'status', hidden: true },
      progressRing('Laying out'),
      this.waitText,
      cancel.element,
    );
    const canvas = h('div', { class: 'canvas' });
    this.element = h(
      'section',
      { class: 'drawing', dataset: { view: which }, aria: { label: titleOf(which) } },
      this.title,
      canvas,
      this.note,
      this.wait,
    );
    this.view = new GraphView(canvas, titleOf(which), events);
  }

  private cancel(): void {
    this.request++;
    this.layouts.cancel(this.which);
    this.wait.hidden = true;
    // The next change starts again.
    this.sceneKey = [];
    this.settle();
  }

  /** Resolves when the layout under way, if any, is shown. */
  settled(): Promise<void> {
    if (this.unsettled.length === 0 && this.wait.dataset['busy'] !== 'true')
      return Promise.resolve();
    return new Promise((resolve) => this.unsettled.push(resolve));
  }

  private settle(): void {
    delete this.wait.dataset['busy'];
    for (const resolve of this.unsettled.splice(0)) resolve();
  }

  /** Shows the state; lays out only when what is drawn changed. */
  update(state: State, hits: readonly Hit[] | undefined, palette: Palette): void {
    this.palette = palette;
    const { index } = state;
    if (!index) return;
    this.latest = { state, hits };
    this.title.replaceChildren(...titleLine(index, this.which, state));
    // It is cut where there is little room.
    this.title.title = this.title.textContent ?? '';
    const weights = weightsShown(state);
    const key = [index, weights, this.which === 'after' ? state.toggled : undefined];
    if (key.some((part, i) => part !== this.sceneKey[i])) {
      this.sceneKey = key;
      const scene = buildScene(index, {
        view: this.which,
        weights,
        isFolded: (kernel) => isKernelFolded(state, kernel),
      });
      this.note.hidden = scene.boxes.length > 0;
      this.note.textContent = index.result.diagnostics.some(({ severity }) => severity === 'error')
        ? 'No op could be read. The Problems panel says why.'
        : 'This graph computes nothing yet.';
      this.layOut(scene, state, hits)
        .catch((error: unknown) => this.onFault(`The graph could not be drawn: ${String(error)}`))
        .finally(() => this.settle());
      return;
    }
    if (!this.placed) return;
    this.view.setLook({ index, times: state.times, heat: state.heat, palette });
    this.mark(state, hits);
  }

  private async layOut(
    scene: Scene,
    state: State,
    hits: readonly Hit[] | undefined,
  ): Promise<void> {
    const request = ++this.request;
    const { index } = state;
    if (!index) return;
    this.wait.dataset['busy'] = 'true';
    this.waitText.textContent = `Laying out ${plural(scene.boxes.length, 'node')}…`;
    const timer = setTimeout(() => {
      if (request === this.request) this.wait.hidden = false;
    }, PATIENCE_MS);
    const seeds = this.placed ? seedsOf(this.placed) : {};
    const outcome = await this.layouts.layout(this.which, scene.layout, seeds);
    clearTimeout(timer);
    if (request !== this.request) return;
    this.wait.hidden = true;
    if (outcome.kind === 'done') {
      this.placed = placeScene(scene, outcome.result);
      this.element.dataset['layoutMs'] = outcome.ms.toFixed(0);
      const latest = this.latest ?? { state, hits };
      this.view.setLabel(
        `${titleOf(this.which)}: ${plural(index.result.graph.nodes.length, 'op')} in ` +
          `${plural(index.plan(this.which).kernels.length, 'kernel')}. Arrow keys follow the edges, ` +
          `Enter selects, plus, minus and 0 zoom.`,
      );
      this.mark(latest.state, latest.hits);
      this.view.setScene(this.placed, {
        index,
        times: latest.state.times,
        heat: latest.state.heat,
        palette: this.palette,
      });
    } else if (outcome.kind === 'failed') {
      this.onFault(`The graph could not be laid out: ${outcome.message}`);
    }
  }

  /** The newest state, for a layout that comes back after it changed. */
  private latest: { state: State; hits: readonly Hit[] | undefined } | undefined;

  private mark(state: State, hits: readonly Hit[] | undefined): void {
    const { placed } = this;
    const { index } = state;
    if (!placed || !index) return;
    this.view.setHighlight(
      highlightIn(placed, index, marked(state)),
      hits && new Set(hits.flatMap((hit) => this.itemsOfHit(placed, index, hit))),
    );
  }

  private itemsOfHit(placed: PlacedScene, index: GraphIndex, hit: Hit): readonly string[] {
    switch (hit.kind) {
      case 'node':
        return itemsOf(placed, index, hit.id);
      case 'kernel':
        return placed.byId.has(hit.id)
          ? [hit.id]
          : (index.kernels.get(hit.id)?.nodes ?? []).flatMap((n) => itemsOf(placed, index, n));
      case 'tensor':
        return placed.byId.has(`t:${hit.id}`)
          ? [`t:${hit.id}`]
          : index.readersOf(hit.id).flatMap(({ node }) => itemsOf(placed, index, node.id));
    }
  }

  reveal(index: GraphIndex, selection: Selection): void {
    void this.settled().then(() => {
      if (this.placed) this.view.reveal(highlightIn(this.placed, index, selection).selected);
    });
  }

  dispose(): void {
    this.layouts.cancel(this.which);
    this.view.dispose();
    this.element.remove();
  }
}

/** What is selected; in a replay, what the step has put together. */
function marked(state: State): Selection {
  const step = currentStep(state);
  return step && state.selection.kind === 'none'
    ? { kind: 'nodes', nodes: [...step.left, ...step.right] }
    : state.selection;
}

function titleOf(view: View): string {
  return view === 'before' ? 'Before fusion' : 'After fusion';
}

function titleLine(index: GraphIndex, view: View, state: State): readonly Node[] {
  const { times } = state;
  const plan = index.plan(view);
  const current = times?.current ? times.profile : undefined;
  const measured = view === 'before' ? current?.unfused : current?.fused;
  const gain =
    view === 'before' || plan.estimatedUs === 0
      ? ''
      : current
        ? ` · ${formatGain(current.speedup)}`
        : ` · ${formatGain(index.result.before.estimatedUs / plan.estimatedUs)} by the model`;
  const facts = [
    plural(plan.kernels.length, 'kernel'),
    formatBytes(plan.bytesRead + plan.bytesWritten),
    measured ? `${formatUs(measured.wallUs)} measured` : `≈ ${formatUs(plan.estimatedUs)}`,
  ].join(' · ');
  const title = view === 'after' ? afterTitle(state) : titleOf(view);
  return [h('b', {}, title), h('span', { class: 'muted' }, ` ${facts}${gain}`)];
}
