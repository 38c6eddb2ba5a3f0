/** The row of controls above the drawings. */
import type { ProfileState } from '../../extension/contracts/webview';
import type { Progress } from '../../runner/core/types';
import { weightsShown, type ShownViews, type State } from '../state/state';
import { button, checkbox, searchField, type ButtonControl, type Control } from './components';
import { h } from './dom';

export interface ToolbarEvents {
  readonly show: (views: ShownViews) => void;
  readonly search: (query: string) => void;
  readonly nextHit: (backwards: boolean) => void;
  readonly leaveSearch: () => void;
  readonly heat: (on: boolean) => void;
  readonly weights: (on: boolean) => void;
  readonly fit: () => void;
  readonly zoom: (factor: number) => void;
  readonly toSelection: () => void;
  readonly foldAll: (folded: boolean) => void;
  readonly exportSvg: () => void;
  readonly replay: () => void;
  readonly profile: () => void;
  readonly cancelProfile: () => void;
  readonly toggleDetails: () => void;
}

const VIEWS: readonly (readonly [ShownViews, string, string])[] = [
  ['before', 'Before', 'Every op its own kernel'],
  ['after', 'After', 'The kernels that fusion makes'],
  ['both', 'Both', 'Before and after side by side'],
];

const STAGES: Readonly<Record<Progress['stage'], string>> = {
  device: 'Asking for the adapter',
  compile: 'Compiling shaders',
  reference: 'Computing the reference',
  unfused: 'Timing the unfused kernels',
  fused: 'Timing the fused kernels',
  trial: 'Timing candidates',
  verify: 'Comparing',
};

export class Toolbar {
  readonly element: HTMLElement;
  private readonly views = new Map<ShownViews, HTMLButtonElement>();
  private readonly searchInput: Control<string>;
  private readonly hits = h('span', { class: 'hits', role: 'status' });
  private readonly heat: Control<boolean>;
  private readonly weights: Control<boolean>;
  private readonly profile: ButtonControl;
  private readonly details: HTMLButtonElement;
  private readonly bar = h('progress', { class: 'progress' });
  private readonly stage = h('span', { class: 'stage' });
  private readonly running: HTMLElement;

  constructor(events: ToolbarEvents) {
    const segments = h('div', {
      class: 'segments',
      role: 'group',
      aria: { label: 'Which graph' },
    });
    for (const [value, text, title] of VIEWS) {
      const segment = h(
        'button',
        { type: 'button', class: 'segment', title, onClick: () => events.show(value) },
        text,
      );
      this.views.set(value, segment);
      segments.append(segment);
    }
    this.searchInput = searchField({
      placeholder: 'Search name, op, k2, 64x1024',
      label: 'Search the graph by name, op, kernel or shape',
      onInput: events.search,
      onEnter: events.nextHit,
      onEscape: events.leaveSearch,
    });
    this.searchInput.element.classList.add('search');
    this.heat = checkbox('Heat', {
      title: 'Colour kernels by their share of the time',
      onChange: events.heat,
    });
    this.weights = checkbox('Weights', {
      title: 'Show parameters and constants as nodes',
      onChange: events.weights,
    });
    this.profile = button('Profile', { kind: 'primary', onClick: events.profile });
    this.profile.element.classList.add('profile-button');
    const cancel = button('Cancel', { onClick: events.cancelProfile });
    this.running = h(
      'div',
      { class: 'running', role: 'status', hidden: true },
      this.stage,
      this.bar,
      cancel.element,
    );
    const icon = (text: string, label: string, onClick: () => void): HTMLElement =>
      button(text, { kind: 'icon', label, onClick }).element;
    this.details = h(
      'button',
      { type: 'button', class: 'segment alone', onClick: events.toggleDetails },
      'Details',
    );
    this.element = h(
      'header',
      { class: 'toolbar', role: 'toolbar', aria: { label: 'Graph' } },
      segments,
      h('div', { class: 'group search-group' }, this.searchInput.element, this.hits),
      h(
        'div',
        { class: 'group icons' },
        icon('−', 'Zoom out (-)', () => events.zoom(1 / 1.4)),
        icon('+', 'Zoom in (+)', () => events.zoom(1.4)),
        icon('⤢', 'Fit the whole graph (0)', events.fit),
        icon('◎', 'Zoom to the selection', events.toSelection),
        icon('⊟', 'Fold all kernels', () => events.foldAll(true)),
        icon('⊞', 'Unfold all kernels', () => events.foldAll(false)),
        icon('⤓', 'Export as SVG', events.exportSvg),
        icon('▷', 'Replay the fusion search, step by step', events.replay),
      ),
      h('div', { class: 'group' }, this.weights.element, this.heat.element),
      h('div', { class: 'group end' }, this.running, this.profile.element, this.details),
    );
  }

  update(state: State, hits: number | undefined, at: number, detailsOpen: boolean): void {
    for (const [value, segment] of this.views)
      segment.setAttribute('aria-pressed', String(state.shown === value));
    this.heat.set(state.heat);
    this.weights.set(weightsShown(state));
    this.details.setAttribute('aria-pressed', String(detailsOpen));
    this.searchInput.set(state.query);
    this.hits.textContent =
      hits === undefined ? '' : hits === 0 ? 'no match' : at < 0 ? `${hits}` : `${at + 1}/${hits}`;
    this.updateProfile(state);
  }

  private updateProfile(state: State): void {
    const running = state.profile.kind === 'running';
    this.running.hidden = !running;
    this.profile.element.hidden = running;
    if (state.profile.kind === 'running') this.showProgress(state.profile);
    const why = whyNotProfile(state);
    this.profile.setDisabled(why !== undefined, why);
    if (why === undefined)
      this.profile.element.title =
        'Run the fused and the unfused kernels, time them and verify them';
  }

  private showProgress({ progress }: Extract<ProfileState, { kind: 'running' }>): void {
    const { stage, done, total, kernel } = progress;
    const count = total > 1 ? ` ${done}/${total}` : '';
    this.stage.textContent = `${STAGES[stage]}${kernel === undefined ? '' : ` ${kernel}`}${count}`;
    // Where there is no room for all of it.
    this.stage.title = this.stage.textContent;
    if (total > 0) {
      this.bar.max = total;
      this.bar.value = done;
    } else {
      this.bar.removeAttribute('value');
    }
  }
}

/** Why profiling isn't possible now, in words for a person. */
export function whyNotProfile(state: State): string | undefined {
  if (!state.trusted)
    return 'Nothing runs on the GPU in Restricted Mode. Trust this workspace to profile.';
  const { index } = state;
  if (!index) return 'There is no graph yet.';
  if (!index.result.runnable.ok) return index.result.runnable.reason;
  return undefined;
}
