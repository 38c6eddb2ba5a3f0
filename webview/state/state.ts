/**
 * The panel's state, and the one function that changes it. Pure: what follows from a change (drawing,
 * messages to the host) is the panel's business.
 */
import type { TuneResult } from '../../tuner/types';
import type { HostToWebview, PanelState, ProfileState } from '../../extension/contracts/webview';
import type { KernelView } from '../../compiler/result';
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
}

export type Action =
  | { readonly type: 'host'; readonly message: HostToWebview }
  | { readonly type: 'show'; readonly shown: ShownViews }
  | { readonly type: 'select'; readonly selection: Selection }
  | { readonly type: 'fold'; readonly kernel: string }
  | { readonly type: 'foldAll'; readonly folded: boolean }
  | { readonly type: 'heat'; readonly on: boolean }
  | { readonly type: 'weights'; readonly on: boolean }
  | { readonly type: 'search'; readonly query: string };

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
  }
}

function receive(state: State, message: HostToWebview): State {
  switch (message.type) {
    case 'result': {
      const index = new GraphIndex(message.result);
      return {
        ...state,
        index,
        times: message.profile && new Times(message.profile, message.result),
        stale: message.stale,
        busy: undefined,
        unavailable: undefined,
        selection: stillThere(index, state.selection),
      };
    }
    case 'unavailable':
      return { ...state, unavailable: message.message, busy: undefined, stale: true };
    case 'busy':
      return { ...state, busy: message.message, unavailable: undefined, stale: true };
    case 'profile':
      return {
        ...state,
        times: state.index && new Times(message.profile, state.index.result),
        profile: { kind: 'idle' },
      };
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
