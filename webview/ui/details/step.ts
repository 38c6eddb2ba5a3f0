/** A step of the search: what was put together, for what price, and what else there was to do. */
import type { FusionAlternative, FusionStep } from '../../../compiler/result';
import { formatUs, plural } from '../../render/format';
import { h, link, table, type Child, type Column } from '../dom';
import { facts, section, type DetailsContext } from './context';

export const MOVE_NAMES: Readonly<Record<FusionStep['kind'], string>> = {
  vertical: 'producer into consumer',
  sibling: 'siblings',
  recompute: 'copied into its readers',
  required: 'asked for by a directive',
  destination: 'stored in its destination',
  horizontal: 'on one grid',
};

const MOVE_MEANING: Readonly<Record<FusionStep['kind'], string>> = {
  vertical: 'What one kernel makes and the other reads needn’t go through memory.',
  sibling: 'Both read the same values: one kernel reads them once.',
  recompute: 'Cheap enough to be computed again wherever it is read, so that it is never stored.',
  required: 'A fuse line, or a measured change of the plan, wants this to be one kernel.',
  destination:
    'Whatever makes an operand stores it where it belongs in the result: nothing is copied.',
  horizontal: 'Small kernels that don’t need each other share one launch.',
};

/** Ops that are named, at most. */
const NAMED = 4;

export function sideText(nodes: readonly string[], opOf: (node: string) => string): string {
  const named = nodes.slice(0, NAMED).map(opOf).join(' + ');
  const rest = nodes.length - NAMED;
  const text = rest > 0 ? `${named} + ${rest} more` : named;
  return nodes.length > 1 ? `(${text})` : text;
}

export function gainText(us: number): string {
  return us >= 0 ? `gains ${formatUs(us)}` : `loses ${formatUs(-us)}`;
}

export interface ReplayPage {
  readonly steps: readonly FusionStep[] | undefined;
  readonly at: number;
  readonly go: (at: number) => void;
}

export function stepDetails(context: DetailsContext, { steps, at, go }: ReplayPage): HTMLElement {
  const step = steps?.[at - 1];
  const title = step
    ? `Step ${at} of ${steps.length} · ${MOVE_NAMES[step.kind]}`
    : 'Before the first step';
  return h(
    'div',
    { class: 'details-page replay-page' },
    h('h2', {}, title),
    ...(step ? stepParts(context, step) : [beginning(steps)]),
    steps && steps.length > 0 ? section('All steps', stepTable(context, steps, at, go)) : undefined,
  );
}

function beginning(steps: readonly FusionStep[] | undefined): HTMLElement {
  return h(
    'p',
    { class: 'hint' },
    steps === undefined
      ? 'The search is run again, to see what each step was weighed against…'
      : 'Every op is a kernel of its own, or a few where one can’t hold it. From here the search makes the move that gains most by the model, again and again, until none gains anything.',
  );
}

function stepParts(context: DetailsContext, step: FusionStep): readonly Child[] {
  const { apartUs, togetherUs } = step;
  return [
    h('p', { class: 'lead' }, side(context, step.left), ' with ', side(context, step.right)),
    h('p', { class: 'muted' }, MOVE_MEANING[step.kind]),
    facts([
      ['Apart', apartUs === undefined ? '' : formatUs(apartUs)],
      ['As one', togetherUs === undefined ? '' : formatUs(togetherUs)],
      [
        'Gain',
        step.weighed
          ? formatUs(step.gainUs)
          : `${formatUs(step.gainUs)}; made at once, as a chain of elementwise ops is always better as one`,
      ],
      ['Plan behind it', `${plural(step.kernels, 'kernel')}, ≈ ${formatUs(step.estimatedUs)}`],
    ]),
    section('Instead', instead(context, step)),
  ];
}

function instead(context: DetailsContext, step: FusionStep): HTMLElement {
  if (step.alternatives.length === 0)
    return h('p', { class: 'hint' }, 'There was nothing else to do with these kernels.');
  const columns: readonly Column<FusionAlternative>[] = [
    {
      title: 'Merge',
      cell: (a) => h('span', {}, side(context, a.left), ' with ', side(context, a.right)),
    },
    {
      title: 'Gain',
      cell: ({ gainUs }) => (gainUs === undefined ? '–' : signed(gainUs)),
      number: true,
      key: ({ gainUs }) => gainUs ?? -Infinity,
    },
    {
      title: '',
      cell: ({ verdict, madeLater }) =>
        verdict
          ? h('code', { title: verdict.message }, verdict.code)
          : madeLater
            ? 'made later'
            : 'given up for this',
    },
  ];
  const all = table('What else could be done with these kernels', columns, step.alternatives);
  return step.more > 0
    ? h('div', {}, all, h('p', { class: 'hint' }, `And ${step.more} more.`))
    : all;
}

function signed(us: number): string {
  return us < 0 ? `−${formatUs(-us)}` : formatUs(us);
}

/** The ops of one side; a click shows them in the drawing. */
function side(context: DetailsContext, nodes: readonly string[]): HTMLElement {
  const text = sideText(nodes, (n) => context.index.nodes.get(n)?.op ?? n);
  const names = nodes.map((n) => context.index.nodeName(n)).join(', ');
  return link(text, () => context.select({ kind: 'nodes', nodes }), names);
}

function stepTable(
  context: DetailsContext,
  steps: readonly FusionStep[],
  at: number,
  go: (at: number) => void,
): HTMLElement {
  const opOf = (n: string): string => context.index.nodes.get(n)?.op ?? n;
  const rows = steps.map((step, i) => ({ step, number: i + 1 }));
  type Row = (typeof rows)[number];
  const columns: readonly Column<Row>[] = [
    { title: 'Step', cell: ({ number }) => String(number), key: ({ number }) => number },
    {
      title: 'What',
      cell: ({ step: { left, right, kind } }) => {
        const text = `${sideText(left, opOf)} with ${sideText(right, opOf)}`;
        return h('span', { class: 'clip', title: `${text}: ${MOVE_NAMES[kind]}` }, text);
      },
    },
    {
      title: 'Gain',
      cell: ({ step }) => signed(step.gainUs),
      key: ({ step }) => step.gainUs,
      number: true,
    },
    {
      title: 'Kernels',
      cell: ({ step }) => String(step.kernels),
      number: true,
    },
  ];
  return table('Steps of the search', columns, rows, {
    onRow: ({ number }) => go(number),
    rowClass: ({ number }) => (number === at ? 'is-current' : ''),
    most: 500,
  });
}
