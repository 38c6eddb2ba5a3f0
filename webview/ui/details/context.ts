/** What every page of the details pane gets, and the small pieces that they share. */
import type { TuneResult } from '../../../tuner/types';
import type { Decision, TensorView } from '../../../compiler/result';
import type { Verdict } from '../../../compiler/fusion/verdicts';
import type { CodeAnswer } from '../../host';
import { formatBytes, formatNumber, shapeText } from '../../render/format';
import type { GraphIndex, Times } from '../../render/graphIndex';
import type { Selection } from '../../state/selection';
import { button } from '../components';
import { h, link, type Child } from '../dom';
import type { ReplayPage } from './step';

export interface DetailsContext {
  readonly index: GraphIndex;
  readonly times: Times | undefined;
  readonly trusted: boolean;
  readonly deviceNote: string | undefined;
  readonly stale: boolean;
  readonly tuned: TuneResult | undefined;
  readonly profile: () => void;
  readonly tune: () => void;
  readonly startReplay: () => void;
  /** Set while the search is replayed. */
  readonly replay: ReplayPage | undefined;
  readonly select: (selection: Selection) => void;
  readonly showInEditor: (nodes: readonly string[]) => void;
  readonly requestCode: (kernel: string) => Promise<CodeAnswer>;
  readonly openCode: (kernel: string) => void;
  readonly forceFuse: (from: string, to: string) => void;
  readonly fault: (message: string) => void;
}

export function section(title: string, ...children: readonly Child[]): HTMLElement {
  return h('section', {}, h('h3', {}, title), ...children);
}

/** Facts as a description list; rows without a value are left out. */
export function facts(rows: readonly (readonly [name: string, value: Child])[]): HTMLElement {
  return h(
    'dl',
    { class: 'facts' },
    ...rows
      .filter(([, value]) => value !== undefined && value !== false && value !== '')
      .flatMap(([name, value]) => [h('dt', {}, name), h('dd', {}, value)]),
  );
}

export function nodeLink(context: DetailsContext, id: string): HTMLElement {
  const { index } = context;
  const node = index.nodes.get(id);
  if (!node) return tensorLink(context, id);
  const name = index.nodeName(id);
  return h(
    'span',
    {},
    link(node.op, () => context.select({ kind: 'nodes', nodes: [id] })),
    name === node.op ? undefined : h('span', { class: 'muted' }, ` ${name}`),
  );
}

export function kernelLink(context: DetailsContext, id: string): HTMLElement {
  const kernel = context.index.kernels.get(id);
  return h(
    'span',
    {},
    link(id, () => context.select({ kind: 'kernel', kernel: id })),
    kernel ? h('span', { class: 'muted' }, ` ${kernel.pattern}`) : undefined,
  );
}

export function tensorLink(context: DetailsContext, id: string): HTMLElement {
  const { index, select } = context;
  return h(
    'span',
    {},
    link(index.tensorName(id), () => select({ kind: 'tensor', tensor: id })),
  );
}

export function tensorFacts(tensor: TensorView): string {
  return `${tensor.dtype} ${shapeText(tensor)} · ${formatBytes(tensor.bytes)}`;
}

/** Tensors with where they come from. */
export function tensorList(context: DetailsContext, ids: readonly string[]): HTMLElement {
  return h(
    'ul',
    { class: 'tensors' },
    ...ids.map((id) => {
      const tensor = context.index.tensors.get(id);
      return h(
        'li',
        {},
        tensorLink(context, id),
        tensor
          ? h(
              'span',
              { class: 'muted' },
              ` ${tensor.role === 'result' ? '' : `${tensor.role} · `}${tensorFacts(tensor)}`,
            )
          : undefined,
      );
    }),
  );
}

export function verdictCard(verdict: Verdict): HTMLElement {
  const { code, message, quantity, limit, unit, limitSource, counterfactual, confidence } = verdict;
  const measure =
    quantity === undefined
      ? undefined
      : h(
          'p',
          { class: 'measure' },
          h('b', {}, `${formatNumber(quantity)}${unit === undefined ? '' : ` ${unit}`}`),
          limit === undefined ? '' : ` against a limit of ${formatNumber(limit)}`,
          limitSource === undefined ? '' : h('span', { class: 'muted' }, ` (${limitSource})`),
        );
  return h(
    'article',
    { class: 'verdict' },
    h(
      'header',
      {},
      h('code', {}, code),
      h('span', { class: `badge badge-${confidence}` }, confidence),
    ),
    h('p', {}, message),
    measure,
    counterfactual === undefined
      ? undefined
      : h(
          'p',
          { class: 'counterfactual' },
          h('span', { class: 'muted' }, 'What would change it: '),
          counterfactual,
        ),
  );
}

/** A decision with everything that speaks against it, and the way to try it nevertheless. */
export function decisionCard(context: DetailsContext, decision: Decision): HTMLElement {
  const { from, to, tensor, fused, kernel, edgeClass, verdicts, summary } = decision;
  const size = context.index.tensors.get(tensor);
  const can = context.index.nodes.has(from);
  return h(
    'div',
    { class: `decision ${fused ? 'is-fused' : verdicts.length > 0 ? 'is-rejected' : ''}` },
    h(
      'p',
      { class: 'decision-head' },
      h(
        'span',
        { class: 'badge' },
        fused ? '✓ fused' : verdicts.length > 0 ? '✕ not fused' : 'from memory',
      ),
      ' ',
      nodeLink(context, from),
      ' → ',
      nodeLink(context, to),
    ),
    h(
      'p',
      { class: 'muted' },
      [...(size ? [tensorFacts(size)] : []), ...(edgeClass === undefined ? [] : [edgeClass])].join(
        ' · ',
      ),
    ),
    fused && kernel !== undefined
      ? h('p', {}, 'Stays inside ', kernelLink(context, kernel), '.')
      : undefined,
    verdicts.length === 0 && !fused ? h('p', {}, summary) : undefined,
    ...verdicts.map(verdictCard),
    !fused && verdicts.length > 0 && can ? forceButton(context, from, to) : undefined,
  );
}

function forceButton(context: DetailsContext, from: string, to: string): HTMLElement {
  const force = button('Force and measure', {
    kind: 'primary',
    label: `Write a fuse directive for ${context.index.nodeName(from)} and ${context.index.nodeName(to)}, then measure`,
    onClick: () => context.forceFuse(from, to),
  });
  return h('div', { class: 'row' }, force.element);
}
