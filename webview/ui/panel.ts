/**
 * The panel: holds the state, sends what people do through `update`, and brings toolbar, notices,
 * drawings and details in line with what came out.
 */
import type { HostToWebview } from '../../extension/contracts/webview';
import type { Host } from '../host';
import { LayoutClient } from '../layout/client';
import type { View } from '../render/graphIndex';
import type { GraphViewEvents } from '../render/graphView';
import type { PlacedItem } from '../render/placed';
import { svgText } from '../render/svgText';
import { search, type Hit } from '../state/search';
import { NOTHING, selectedNodes, selectionOf, type Selection } from '../state/selection';
import {
  afterTitle,
  initialState,
  shownViews,
  toSave,
  update,
  type Action,
  type State,
} from '../state/state';
import { detailsPage } from './details';
import type { DetailsContext } from './details/context';
import { h } from './dom';
import { Drawing } from './drawing';
import { ReplayControl } from './replay';
import { notices } from './notices';
import { splitter } from './splitter';
import { Theme } from './theme';
import { Toolbar } from './toolbar';

/** At this zoom, a folded kernel in the middle of the view is unfolded by itself. */
const UNFOLD_ZOOM = 1.7;

export class Panel {
  private state: State;
  private readonly theme: Theme;
  private readonly toolbar: Toolbar;
  private readonly replay: ReplayControl;
  private readonly notices = h('div', { class: 'notices', aria: { live: 'polite' } });
  private readonly graphs = h('div', { class: 'graphs' });
  private readonly placeholder = h('p', { class: 'placeholder' }, 'Waiting for the graph…');
  private readonly details = h('aside', { class: 'details', aria: { label: 'Details' } });
  private readonly announcer = h('div', { class: 'sr-only', role: 'status' });
  private readonly body: HTMLElement;
  private readonly drawings = new Map<View, Drawing>();
  private readonly layouts: LayoutClient;
  private hits: readonly Hit[] | undefined;
  private hitAt = -1;
  private detailsOpen = true;
  private detailsKey: readonly unknown[] = [];
  private faults: string[] = [];
  private transform: { x: number; y: number; k: number } | undefined;
  private readonly unfoldedByZoom = new Set<string>();

  constructor(
    root: HTMLElement,
    private readonly host: Host,
    options: { readonly uri: string; readonly layoutWorker: string | undefined },
  ) {
    this.state = initialState(options.uri, host.saved);
    this.transform = host.saved?.uri === options.uri ? host.saved.transform : undefined;
    this.layouts = new LayoutClient(options.layoutWorker, (message) => host.log('error', message));
    this.theme = new Theme(() => this.render(true));
    this.toolbar = this.makeToolbar();
    this.replay = new ReplayControl(host, {
      state: () => this.state,
      dispatch: (action) => this.dispatch(action),
      fault: (message) => this.fault(message),
      reveal: (nodes) => this.reveal({ kind: 'nodes', nodes }),
    });
    const bar = splitter({
      label: 'Width of the details',
      least: 120,
      size: () => (this.stacked ? this.details.offsetHeight : this.details.offsetWidth),
      room: () => (this.stacked ? this.body.clientHeight : this.body.clientWidth),
      stacked: () => this.stacked,
      // Each of the two arrangements keeps a size of its own.
      onSize: (size) =>
        this.details.style.setProperty(
          this.stacked ? '--details-height' : '--details-width',
          `${size}px`,
        ),
    });
    this.body = h('div', { class: 'body' }, this.graphs, bar, this.details);
    root.classList.add('panel');
    root.append(
      this.toolbar.element,
      this.replay.element,
      this.notices,
      this.body,
      this.placeholder,
      this.announcer,
    );
    addEventListener('keydown', (event) => this.key(event));
    this.render(true);
  }

  private get stacked(): boolean {
    return getComputedStyle(this.body).flexDirection === 'column';
  }

  private makeToolbar(): Toolbar {
    return new Toolbar({
      show: (shown) => this.dispatch({ type: 'show', shown }),
      search: (query) => this.dispatch({ type: 'search', query }),
      nextHit: (backwards) => this.nextHit(backwards),
      leaveSearch: () => this.dispatch({ type: 'search', query: '' }),
      heat: (on) => this.dispatch({ type: 'heat', on }),
      weights: (on) => this.dispatch({ type: 'weights', on }),
      fit: () => this.eachDrawing((drawing) => drawing.view.fit()),
      zoom: (factor) => this.eachDrawing((drawing) => drawing.view.zoomBy(factor)),
      toSelection: () => this.reveal(),
      foldAll: (folded) => this.dispatch({ type: 'foldAll', folded }),
      exportSvg: () => this.exportSvg(),
      replay: () => (this.state.replay ? this.replay.close() : this.replay.start()),
      profile: () => this.profile(),
      cancelProfile: () => this.host.post({ type: 'cancelProfile' }),
      toggleDetails: () => {
        this.detailsOpen = !this.detailsOpen;
        this.render(false);
      },
    });
  }

  receive(message: HostToWebview): void {
    const replayed = this.state.replay?.finished;
    this.dispatch({ type: 'host', message });
    const now = this.state.replay?.finished;
    if (now && now !== replayed) this.replay.fetchSteps();
    if (message.type === 'select' && message.reveal) this.reveal();
  }

  fault(message: string): void {
    this.faults = [...this.faults.filter((other) => other !== message), message];
    this.host.log('error', message);
    this.render(false);
  }

  private dispatch(action: Action): void {
    const before = this.state;
    this.state = update(before, action);
    if (this.state === before) return;
    if (action.type === 'search' || this.state.index !== before.index) this.searchAgain();
    this.render(false);
    this.save();
  }

  private save(): void {
    // Without a result there is nothing to keep, and what was kept must stay.
    if (this.state.index) this.host.save(toSave(this.state, this.transform));
  }

  // -------------------------------------------------------------------------------------------
  // What people do

  private profile(): void {
    this.host.post({ type: 'profile' });
  }

  /** Selects, tells the host, and shows the same thing in the other drawing. */
  private select(selection: Selection, from: View | undefined, reveal: boolean): void {
    this.dispatch({ type: 'select', selection });
    const { index } = this.state;
    if (!index) return;
    this.host.post({
      type: 'selected',
      nodes: selectedNodes(index, selection),
      ...(selection.kind === 'kernel' ? { kernel: selection.kernel } : {}),
      reveal,
    });
    this.announce(selection);
    if (selection.kind === 'none') return;
    for (const [view, drawing] of this.drawings)
      if (view !== from) drawing.reveal(index, selection);
  }

  private announce(selection: Selection): void {
    const heading = this.details.querySelector('h2')?.textContent ?? '';
    this.announcer.textContent =
      selection.kind === 'none' ? 'Nothing selected' : `Selected ${heading}`;
  }

  private showInEditor(nodes: readonly string[]): void {
    this.host.post({ type: 'selected', nodes, reveal: true });
  }

  private reveal(selection = this.state.selection): void {
    const { index } = this.state;
    if (index) this.eachDrawing((drawing) => drawing.reveal(index, selection));
  }

  private searchAgain(): void {
    const { index, query } = this.state;
    this.hits = index && query.trim() !== '' ? search(index, query) : undefined;
    this.hitAt = -1;
  }

  private nextHit(backwards: boolean): void {
    const { hits } = this;
    if (!hits || hits.length === 0) return;
    this.hitAt = (this.hitAt + (backwards ? -1 : 1) + hits.length) % hits.length;
    const hit = hits[this.hitAt];
    if (!hit) return;
    switch (hit.kind) {
      case 'node':
        return this.select({ kind: 'nodes', nodes: [hit.id] }, undefined, false);
      case 'kernel':
        return this.select({ kind: 'kernel', kernel: hit.id }, undefined, false);
      case 'tensor':
        return this.select({ kind: 'tensor', tensor: hit.id }, undefined, false);
    }
  }

  private exportSvg(): void {
    const { index, times, heat } = this.state;
    const parts = [...this.drawings].flatMap(([view, { placed }]) =>
      placed
        ? [{ title: view === 'before' ? 'Before fusion' : afterTitle(this.state), placed }]
        : [],
    );
    if (!index || parts.length === 0) return;
    this.host.post({
      type: 'exportSvg',
      svg: svgText(parts, this.theme.palette, {
        heat,
        caption: index.result.file,
        ...(times ? { times } : {}),
      }),
    });
  }

  private key(event: KeyboardEvent): void {
    const typing =
      event.target instanceof Element &&
      event.target.closest('input, textarea, vscode-text-field') !== null;
    if (event.key === 'f' && (event.ctrlKey || event.metaKey)) {
      const field = this.toolbar.element.querySelector('.search');
      if (field instanceof HTMLElement) field.focus();
      event.preventDefault();
    } else if (event.key === 'Escape' && !typing && this.state.selection.kind !== 'none') {
      this.select(NOTHING, undefined, false);
    }
  }

  private eachDrawing(act: (drawing: Drawing) => void): void {
    for (const drawing of this.drawings.values()) act(drawing);
  }

  private eventsOf(view: View): GraphViewEvents {
    return {
      onSelect: (item) => this.select(item ? selectionOf(item) : NOTHING, view, item !== undefined),
      onOpen: (item) => this.open(item, view),
      onFold: (kernel) => this.dispatch({ type: 'fold', kernel }),
      onTransform: (transform) => {
        if (view === (shownViews(this.state)[0] ?? 'after')) {
          this.transform = transform;
          this.save();
        }
        this.unfoldAtCentre(view, transform);
      },
    };
  }

  private open(item: PlacedItem, view: View): void {
    if (item.kind === 'kernel' && !item.box.solo) {
      this.dispatch({ type: 'fold', kernel: item.id });
      return;
    }
    this.select(selectionOf(item), view, true);
  }

  /** Zooming in far enough opens what is in the middle; once, so that folding it again is respected. */
  private unfoldAtCentre(view: View, { x, y, k }: { x: number; y: number; k: number }): void {
    const drawing = this.drawings.get(view);
    if (k < UNFOLD_ZOOM || !drawing?.placed) return;
    const { clientWidth, clientHeight } = drawing.view.element.parentElement ?? drawing.element;
    const [cx, cy] = [(clientWidth / 2 - x) / k, (clientHeight / 2 - y) / k];
    const kernel = drawing.placed.kernels.find(
      (at) =>
        at.box.folded &&
        !at.box.solo &&
        cx >= at.x &&
        cx <= at.x + at.width &&
        cy >= at.y &&
        cy <= at.y + at.height,
    );
    if (!kernel || this.unfoldedByZoom.has(kernel.id)) return;
    this.unfoldedByZoom.add(kernel.id);
    this.dispatch({ type: 'fold', kernel: kernel.id });
  }

  // -------------------------------------------------------------------------------------------
  // Drawing

  private render(force: boolean): void {
    const { state } = this;
    this.toolbar.update(state, this.hits?.length, this.hitAt, this.detailsOpen);
    this.notices.replaceChildren(
      ...notices(state, this.faults, {
        profile: () => this.profile(),
        dismiss: () => {
          this.faults = [];
          this.render(false);
        },
        replay: () => this.replay.start(),
        dismissReplay: () => this.dispatch({ type: 'replayLossSeen' }),
      }),
    );
    this.replay.update(state);
    const ready = state.index !== undefined;
    this.placeholder.hidden = ready;
    this.body.hidden = !ready;
    if (!ready) {
      this.placeholder.textContent = state.unavailable ?? state.busy ?? 'Waiting for the graph…';
      this.placeholder.classList.toggle('fault', state.unavailable !== undefined);
      return;
    }
    this.renderDrawings();
    this.body.classList.toggle('without-details', !this.detailsOpen);
    this.graphs.classList.toggle('is-stale', state.stale);
    this.renderDetails(force);
  }

  private renderDrawings(): void {
    const shown = shownViews(this.state);
    for (const [view, drawing] of [...this.drawings])
      if (!shown.includes(view)) {
        drawing.dispose();
        this.drawings.delete(view);
      }
    shown.forEach((view, i) => {
      let drawing = this.drawings.get(view);
      if (!drawing) {
        drawing = new Drawing(view, this.layouts, this.eventsOf(view), (message) =>
          this.fault(message),
        );
        this.drawings.set(view, drawing);
        if (i === 0 && this.graphs.firstChild) this.graphs.prepend(drawing.element);
        else this.graphs.append(drawing.element);
        if (i === 0 && this.transform) {
          drawing.view.restore(this.transform);
          // The place belongs to the drawing it was saved for.
          this.transform = undefined;
        }
      }
      drawing.update(this.state, this.hits, this.theme.palette);
    });
  }

  private renderDetails(force: boolean): void {
    if (!this.detailsOpen) return;
    const { index, times, selection, trusted, stale, deviceNote, tuned, replay } = this.state;
    if (!index) return;
    const key = [index, times, selection, trusted, stale, deviceNote, tuned, replay];
    if (!force && key.every((part, i) => part === this.detailsKey[i])) return;
    const same = selection === this.detailsKey[2];
    this.detailsKey = key;
    const { scrollTop } = this.details;
    const openCode = same && this.details.querySelector('details.code-section[open]') !== null;
    const context: DetailsContext = {
      index,
      times,
      trusted,
      deviceNote,
      stale,
      tuned,
      tune: () => this.host.post({ type: 'tune' }),
      startReplay: () => this.replay.start(),
      replay: replay && { ...replay, go: (at) => this.replay.go(at) },
      profile: () => this.profile(),
      select: (next) => this.select(next, undefined, true),
      showInEditor: (nodes) => this.showInEditor(nodes),
      requestCode: (kernel) =>
        replay && kernel.startsWith('s')
          ? Promise.resolve({ error: 'A plan in the making has no code: close the replay first.' })
          : this.host.requestCode(kernel),
      openCode: (kernel) => this.host.post({ type: 'openCode', kernel }),
      forceFuse: (from, to) => this.host.post({ type: 'forceFuse', from, to }),
      fault: (message) => this.fault(message),
    };
    const crumbs =
      selection.kind === 'none'
        ? []
        : [
            h(
              'button',
              {
                type: 'button',
                class: 'link back',
                onClick: () => this.select(NOTHING, undefined, false),
              },
              replay ? `‹ Step ${replay.at}` : '‹ Overview',
            ),
          ];
    this.details.replaceChildren(...crumbs, detailsPage(context, selection));
    const code = this.details.querySelector('details.code-section');
    if (openCode && code instanceof HTMLDetailsElement) code.open = true;
    this.details.scrollTop = same ? scrollTop : 0;
  }
}
