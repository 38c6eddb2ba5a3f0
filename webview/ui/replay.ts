/**
 * The replay: the bar that steps through the search, and what has to be fetched for it.
 *
 * Plans are made by the compiler when they are first looked at, and kept while the replay lasts. One is
 * asked for at a time: a slider that is dragged passes over the steps in between.
 */
import type { FusionStep, PlanAtStep } from '../../compiler/result';
import type { Host } from '../host';
import { formatUs, plural } from '../render/format';
import { currentStep, type Action, type State } from '../state/state';
import { button, progressRing, type ButtonControl } from './components';
import { h } from './dom';
import { gainText, MOVE_NAMES, sideText } from './details/step';

export interface ReplayHost {
  readonly state: () => State;
  readonly dispatch: (action: Action) => void;
  readonly fault: (message: string) => void;
  /** Brings ops into view. */
  readonly reveal: (nodes: readonly string[]) => void;
}

export class ReplayControl {
  readonly element: HTMLElement;
  private readonly slider = h('input', {
    type: 'range',
    class: 'replay-slider',
    aria: { label: 'Step of the search' },
  });
  private readonly text = h('span', { class: 'replay-text', role: 'status' });
  private readonly wait = progressRing('Replaying the search');
  private readonly back: readonly ButtonControl[];
  private readonly forth: readonly ButtonControl[];
  private readonly plans = new Map<number, PlanAtStep>();
  private fetching = false;

  constructor(
    private readonly host: Host,
    private readonly panel: ReplayHost,
  ) {
    const to = (sign: string, label: string, at: () => number): ButtonControl =>
      button(sign, { kind: 'icon', label, onClick: () => this.go(at()) });
    const now = (): number => panel.state().replay?.at ?? 0;
    this.back = [
      to('⇤', 'Before the first step', () => 0),
      to('◂', 'One step back', () => now() - 1),
    ];
    this.forth = [
      to('▸', 'One step on', () => now() + 1),
      to('⇥', 'After the last step', () => Infinity),
    ];
    this.slider.min = '0';
    this.slider.addEventListener('input', () => this.go(Number(this.slider.value)));
    this.element = h(
      'div',
      { class: 'replay', role: 'group', aria: { label: 'Replay of the search' }, hidden: true },
      ...this.back.map(({ element }) => element),
      this.slider,
      ...this.forth.map(({ element }) => element),
      this.wait,
      this.text,
      button('Close', { onClick: () => this.close() }).element,
    );
  }

  /** Shows the plan without fusion, and asks for the steps that lead away from it. */
  start(): void {
    this.panel.dispatch({ type: 'replay', on: true });
    this.fetchSteps();
  }

  /** Asks for the steps of the plan that is replayed now, be it the first or one that took its place. */
  fetchSteps(): void {
    this.plans.clear();
    const finished = this.panel.state().replay?.finished;
    if (!finished) return;
    this.host.requestSteps().then(
      (steps) => {
        if (this.panel.state().replay?.finished !== finished) return;
        if ('error' in steps) {
          this.fail(steps.error);
          return;
        }
        this.panel.dispatch({ type: 'steps', steps });
        this.fetch();
      },
      (error: unknown) => this.fail(String(error)),
    );
  }

  close(): void {
    this.panel.dispatch({ type: 'replay', on: false });
  }

  go(at: number): void {
    this.panel.dispatch({ type: 'step', at });
    this.fetch();
  }

  /** Brings the drawing to the step that is wanted by now. */
  private fetch(): void {
    const { replay } = this.panel.state();
    if (!replay?.steps) return;
    const { at, finished } = replay;
    const known = this.plans.get(at);
    if (known) {
      this.show(known);
      return;
    }
    if (this.fetching) return;
    this.fetching = true;
    this.host
      .requestPlanAt(at)
      .then(
        (plan) => {
          if (this.panel.state().replay?.finished !== finished) return;
          if ('error' in plan) {
            this.fail(plan.error);
            return;
          }
          this.plans.set(at, plan);
          this.show(plan);
        },
        (error: unknown) => this.fail(String(error)),
      )
      .finally(() => {
        this.fetching = false;
        const wanted = this.panel.state().replay;
        if (wanted && (wanted.at !== at || wanted.finished !== finished)) this.fetch();
      });
  }

  private show(planAt: PlanAtStep): void {
    this.panel.dispatch({ type: 'planAt', planAt });
    const step = currentStep(this.panel.state());
    if (step) this.panel.reveal([...step.left, ...step.right]);
  }

  private fail(message: string): void {
    this.close();
    this.panel.fault(`The search could not be replayed: ${message}`);
  }

  update(state: State): void {
    const { replay, index } = state;
    this.element.hidden = !replay;
    if (!replay) return;
    const { steps, at } = replay;
    const last = steps?.length ?? 0;
    this.wait.hidden = steps !== undefined;
    this.slider.max = String(last);
    this.slider.value = String(at);
    this.slider.disabled = last === 0;
    for (const control of this.back) control.setDisabled(at === 0);
    for (const control of this.forth) control.setDisabled(at >= last);
    const step = currentStep(state);
    // The search begins with what weights alone give already taken out.
    const start = this.plans.get(0)?.plan ?? replay.finished.result.before;
    const plan = step ?? { kernels: start.kernels.length, estimatedUs: start.estimatedUs };
    const says =
      steps === undefined
        ? 'Replaying the search…'
        : last === 0
          ? 'The search made no step: nothing could be fused, or nothing would pay.'
          : `${step && index ? whatText(step, at, last, (n) => index.nodes.get(n)?.op ?? n) : `Before the first of ${plural(last, 'step')}`} · ${plural(plan.kernels, 'kernel')}, ≈ ${formatUs(plan.estimatedUs)}`;
    this.slider.setAttribute('aria-valuetext', says);
    this.text.textContent = says;
    // It is cut where there is little room.
    this.text.title = says;
  }
}

function whatText(
  step: FusionStep,
  at: number,
  last: number,
  opOf: (node: string) => string,
): string {
  const what = `${sideText(step.left, opOf)} with ${sideText(step.right, opOf)}`;
  return `Step ${at} of ${last}: ${MOVE_NAMES[step.kind]}, ${what}, ${gainText(step.gainUs)}`;
}
