/** Lines above the drawing that say what a person must know about what they see. */
import { OFF_FACTOR } from '../render/graphIndex';
import type { State } from '../state/state';
import { progressRing } from './components';
import { h, link } from './dom';

export interface NoticeEvents {
  readonly profile: () => void;
  readonly dismiss: () => void;
  readonly replay: () => void;
  readonly dismissReplay: () => void;
}

/** `faults` are those of the page itself. */
export function notices(
  state: State,
  faults: readonly string[],
  events: NoticeEvents,
): readonly HTMLElement[] {
  const shown: HTMLElement[] = [];
  const add = (kind: 'info' | 'warning' | 'error', ...children: (Node | string)[]): void => {
    shown.push(h('div', { class: `notice notice-${kind}` }, ...children));
  };
  if (state.busy !== undefined)
    add(
      'info',
      progressRing('Compiling'),
      h('span', {}, `${state.busy} The graph shown is that of the text before.`),
    );
  else if (state.unavailable !== undefined && state.index)
    add('error', `${state.unavailable} The graph shown is the last that could be read.`);
  else if (state.stale) add('warning', 'The graph is older than the text.');
  if (!state.trusted)
    add(
      'info',
      'Restricted Mode: the graph is analysed and shown, but nothing runs on the GPU until you trust this workspace.',
    );
  if (state.profile.kind === 'failed' && state.profile.fault.code !== 'CANCELLED') {
    const { code, message, kernel, advice } = state.profile.fault;
    add(
      'error',
      h('code', {}, code),
      h('span', {}, ` ${message}${kernel === undefined ? '' : ` (kernel ${kernel})`}`),
      ...(advice === undefined ? [] : [h('span', { class: 'advice' }, ` ${advice}`)]),
      ' ',
      link('Try again', events.profile),
    );
  }
  if (state.replayLost)
    add(
      'info',
      h('span', {}, 'The replay has ended: the text has changed, and its plan with it.'),
      ' ',
      link('Replay the new plan', events.replay),
      ' ',
      link('Dismiss', events.dismissReplay),
    );
  const profile = state.times?.profile;
  if (
    profile &&
    state.times?.current &&
    !profile.verification.ok &&
    profile.verification.outputs.length > 0
  )
    add(
      'error',
      'An output disagrees with the float64 reference: see Verification in the overview.',
    );
  if (profile?.adapter.software)
    add(
      'info',
      h(
        'span',
        {
          class: 'one-line',
          title: `${profile.adapter.description || 'A software adapter'}: a CPU stands in for a GPU; predictions may be off by more than ${OFF_FACTOR}×.`,
        },
        'Measured on a software adapter: its times say little about a GPU.',
      ),
    );
  for (const fault of faults) add('error', fault, ' ', link('Dismiss', events.dismiss));
  return shown;
}
