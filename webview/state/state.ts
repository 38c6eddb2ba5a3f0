/**
 * The panel's state, and the one function that changes it. Pure: what follows from a change (drawing,
 * messages to the host) is the panel's business.
 */
import type { TuneResult } from '../../tuner/types';
import type { HostToWebview, PanelState, ProfileState } from '../../extension/contracts/webview';
import type { FusionStep, KernelView, PlanAtStep } from '../../compiler/result';
import { plural } from '../render/format';
import { GraphIndex, Times, type View } from '../render/graphIndex';
import { NOTHING, selectedNodes, selectionFromHost, stillThere, type Selection } from './selection';

export type ShownViews = PanelState['view'];

export interface State {
  readonly uri: string;
  readonly shown: ShownViews;
  readonly index: GraphIndex | undefined;
  readonly times: Times | undefined;
  readonly stale: boolean;
  readonly busy: string | undefined;
  readonly unavailable: string | undefined;
  readonly profile: ProfileState;
  /** What the last tuning run found. */
  readonly tuned: TuneResult | undefined;
  readonly trusted: boolean;
  /** Which adapter the estimates are for. */
  readonly deviceNote: string | undefined;
  readonly selection: Selection;
  /** Kernels (by their first node) that a person folded or unfolded against the default. */
  readonly toggled: ReadonlySet<string>;
  readonly heat: boolean;
  /** Undefined: as the graph's size suggests. */
  readonly weights: boolean | undefined;
  readonly query: string;
  readonly replay: Replay | undefined;
  /** An edit has put an end to a replay, and nobody has taken note yet. */
  readonly replayLost: boolean;
}

/** The search shown step by step: `index` is then of the plan behind the step, `times` go with it. */
export interface Replay {
  /** The finished plan, to which the panel goes back. */
  readonly finished: GraphIndex;
  readonly finishedTimes: Times | undefined;
  /** Undefined until the compiler has found them. */
  readonly steps: readonly FusionStep[] | undefined;
  /** How many of them the person wants to see done; the drawing follows. */
  readonly at: number;
}

/** What the drawing of the fused plan is called: in a replay, how far that is. */
export function afterTitle({ replay }: State): string {
  return replay
    ? `After ${replay.at} of ${plural(replay.steps?.length ?? 0, 'step')}`
    : 'After fusion';
}

/** The step that the replay has come to; undefined before the first. */
export function currentStep({ replay }: State): FusionStep | undefined {
  return replay?.steps?.[replay.at - 1];
}

export type Action =
  | { readonly type: 'host'; readonly message: HostToWebview }
  | { readonly type: 'show'; readonly shown: ShownViews }
  | { readonly type: 'select'; readonly selection: Selection }
  | { readonly type: 'fold'; readonly kernel: string }
  | { readonly type: 'foldAll'; readonly folded: boolean }
  | { readonly type: 'heat'; readonly on: boolean }
  | { readonly type: 'weights'; readonly on: boolean }
  | { readonly type: 'search'; readonly query: string }
  | { readonly type: 'replay'; readonly on: boolean }
  | { readonly type: 'replayLossSeen' }
  | { readonly type: 'steps'; readonly steps: readonly FusionStep[] }
  | { readonly type: 'step'; readonly at: number }
  | { readonly type: 'planAt'; readonly planAt: PlanAtStep };

/** With more ops than this the first paint shows kernels alone. */
export const UNFOLD_LIMIT = 300;
/** A kernel with more ops than this starts folded whatever the graph's size. */
export const KERNEL_UNFOLD_LIMIT = 60;
/** With more weights than this they start hidden. */
const WEIGHTS_LIMIT = 60;

export function initialState(uri: string, saved: Partial<PanelState> | undefined): State {
  const mine = saved?.uri === uri ? saved : undefined;
  const shown = mine?.view ?? 'after';
  const selection: Selection =
    mine?.kernel !== undefined
      ? { kind: 'kernel', kernel: mine.kernel }
      : mine?.selection && mine.selection.length > 0
        ? { kind: 'nodes', nodes: mine.selection }
        : NOTHING;
  return {
    uri,
    shown,
    index: undefined,
    times: undefined,
    stale: false,
    busy: undefined,
    unavailable: undefined,
    profile: { kind: 'idle' },
    tuned: undefined,
    trusted: true,
    deviceNote: undefined,
    selection,
    toggled: new Set(mine?.collapsed ?? []),
    heat: false,
    weights: undefined,
    query: '',
    replay: undefined,
    replayLost: false,
  };
}

export function update(state: State, action: Action): State {
  switch (action.type) {
    case 'host':
      return receive(state, action.message);
    case 'show':
      return { ...state, shown: action.shown };
    case 'select':
      return { ...state, selection: action.selection };
    case 'fold': {
      const key = state.index?.kernels.get(action.kernel)?.nodes[0];
      if (key === undefined) return state;
      const toggled = new Set(state.toggled);
      if (!toggled.delete(key)) toggled.add(key);
      return { ...state, toggled };
    }
    case 'foldAll': {
      const { index } = state;
      if (!index) return state;
      const toggled = new Set<string>();
      for (const kernel of index.result.after.kernels)
        if (foldedByDefault(index, kernel) !== action.folded && kernel.nodes[0] !== undefined)
          toggled.add(kernel.nodes[0]);
      return { ...state, toggled };
    }
    case 'heat':
      return { ...state, heat: action.on };
    case 'weights':
      return { ...state, weights: action.on };
    case 'search':
      return { ...state, query: action.query };
    case 'replay':
      return action.on ? startReplay(state) : endReplay(state);
    case 'replayLossSeen':
      return { ...state, replayLost: false };
    case 'steps': {
      const { replay } = state;
      const { steps } = action;
      return replay
        ? { ...state, replay: { ...replay, steps, at: Math.min(replay.at, steps.length) } }
        : state;
    }
    case 'step': {
      const { replay } = state;
      const at = Math.max(0, Math.min(action.at, replay?.steps?.length ?? 0));
      return replay && at !== replay.at
        ? { ...state, replay: { ...replay, at }, selection: NOTHING }
        : state;
    }
    case 'planAt':
      return showPlanAt(state, action.planAt);
  }
}

function startReplay(state: State): State {
  const { index, times } = state;
  if (!index || state.replay) return state;
  return {
    ...state,
    // The steps lead from the one drawing to the other.
    shown: state.shown === 'before' ? 'after' : state.shown,
    selection: NOTHING,
    replay: { finished: index, finishedTimes: times, steps: undefined, at: 0 },
    replayLost: false,
  };
}

/**
 * What a replay is when a new plan arrives: of the same ops it begins again, at the same step (another
 * adapter, a directive, a tuned record: their plan has steps of its own); of others there is none.
 */
function replayOf(
  replay: Replay,
  finished: GraphIndex,
  finishedTimes: Times | undefined,
): Replay | undefined {
  const ops = ({ result }: GraphIndex): string =>
    JSON.stringify([
      result.graph.nodes.map(({ id, op, operands, attrs }) => [id, op, operands, attrs]),
      result.graph.tensors.map(({ id, name, shape }) => [id, name, shape]),
    ]);
  return ops(replay.finished) === ops(finished)
    ? { finished, finishedTimes, steps: undefined, at: replay.at }
    : undefined;
}

function endReplay(state: State): State {
  const { replay } = state;
  if (!replay) return state;
  return {
    ...state,
    index: replay.finished,
    times: replay.finishedTimes,
    selection: stillThere(replay.finished, state.selection),
    replay: undefined,
  };
}

function showPlanAt(state: State, { step, plan, decisions }: PlanAtStep): State {
  const { replay, selection } = state;
  // A plan that comes late is of no interest.
  if (!replay || replay.at !== step) return state;
  const index = new GraphIndex({ ...replay.finished.result, after: plan, decisions });
  const profile = replay.finishedTimes?.profile;
  return {
    ...state,
    index,
    times: profile && new Times(profile, index.result),
    selection: stillThere(index, selection),
  };
}

function receive(state: State, message: HostToWebview): State {
  switch (message.type) {
    case 'result': {
      const index = new GraphIndex(message.result);
      const times = message.profile && new Times(message.profile, message.result);
      const replay = state.replay && replayOf(state.replay, index, times);
      return {
        ...state,
        index,
        times,
        stale: message.stale,
        busy: undefined,
        unavailable: undefined,
        replay,
        replayLost: state.replayLost || (state.replay !== undefined && replay === undefined),
        selection: stillThere(index, state.selection),
      };
    }
    case 'unavailable':
      return { ...state, unavailable: message.message, busy: undefined, stale: true };
    case 'busy':
      return { ...state, busy: message.message, unavailable: undefined, stale: true };
    case 'profile': {
      const { replay } = state;
      const now = replay && {
        ...replay,
        finishedTimes: new Times(message.profile, replay.finished.result),
      };
      return {
        ...state,
        replay: now,
        times: state.index && new Times(message.profile, state.index.result),
        profile: { kind: 'idle' },
      };
    }
    case 'profileState':
      return { ...state, profile: message.state };
    case 'tuned':
      return { ...state, tuned: message.tuned };
    case 'select':
      return state.index
        ? { ...state, selection: selectionFromHost(state.index, message.nodes) }
        : { ...state, selection: { kind: 'nodes', nodes: message.nodes } };
    case 'trust':
      return { ...state, trusted: message.trusted };
    case 'device':
      return { ...state, deviceNote: message.note };
    case 'code':
    case 'steps':
    case 'planAt':
    case 'runInPage':
    case 'cancelInPage':
      return state;
  }
}

export function foldedByDefault(index: GraphIndex, kernel: KernelView): boolean {
  return (
    index.result.graph.nodes.length > UNFOLD_LIMIT || kernel.nodes.length > KERNEL_UNFOLD_LIMIT
  );
}

export function isKernelFolded(state: State, kernel: KernelView): boolean {
  const { index, toggled } = state;
  if (!index) return false;
  const byDefault = foldedByDefault(index, kernel);
  const key = kernel.nodes[0];
  return key !== undefined && toggled.has(key) ? !byDefault : byDefault;
}

export function weightsShown(state: State): boolean {
  if (state.weights !== undefined) return state.weights;
  const tensors = state.index?.result.graph.tensors ?? [];
  return tensors.filter(({ role }) => role === 'param' || role === 'const').length <= WEIGHTS_LIMIT;
}

export function shownViews(state: State): readonly View[] {
  return state.shown === 'both' ? ['before', 'after'] : [state.shown];
}

export function toSave(state: State, transform: PanelState['transform']): PanelState {
  const { selection, index } = state;
  return {
    uri: state.uri,
    view: state.shown,
    selection: index ? selectedNodes(index, selection) : [],
    ...(selection.kind === 'kernel' ? { kernel: selection.kernel } : {}),
    ...(transform ? { transform } : {}),
    ...(state.toggled.size > 0 ? { collapsed: [...state.toggled] } : {}),
  };
}
