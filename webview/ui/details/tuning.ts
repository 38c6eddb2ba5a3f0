/** What the tuner found: every candidate with its time, or why it has none, and the winners marked. */
import type { CandidateView, TunedKernelView } from '../../../tuner/types';
import { formatFactor, formatUs } from '../../render/format';
import { button } from '../components';
import { h, table, type Column } from '../dom';
import { type DetailsContext, kernelLink, section } from './context';

/** Rows of one kernel, at most. */
const MOST = 300;

export function tuning(context: DetailsContext): HTMLElement {
  const { tuned, trusted, index } = context;
  const run =
    trusted && index.result.runnable.ok
      ? button(tuned ? 'Tune again' : 'Tune', { onClick: () => context.tune() }).element
      : undefined;
  if (!tuned)
    return section(
      'Tuning',
      h(
        'p',
        { class: 'hint' },
        'Searches faster parameters and plans for this GPU, and keeps them.',
      ),
      run,
    );
  const { total, kernels, plans, notes } = tuned;
  const won = kernels.some((k) => k.winner) || plans.some((p) => p.winner);
  return section(
    'Tuning',
    h(
      'p',
      {},
      won
        ? `${formatUs(total.defaultUs)} → ${formatUs(total.tunedUs)}, ${formatFactor(total.speedup)}, verified`
        : 'Nothing was found that is faster.',
    ),
    ...notes.map((note) => h('p', { class: 'hint' }, note)),
    ...plans.map((p) =>
      h(
        'p',
        {},
        `${p.winner ? '★ ' : ''}${p.label}: ${p.speedup === undefined ? p.status : formatFactor(p.speedup)}${p.reason === undefined ? '' : ` (${p.reason})`}`,
      ),
    ),
    ...kernels.map((k) => candidates(context, k)),
    run,
  );
}

function candidates(context: DetailsContext, k: TunedKernelView): HTMLElement {
  const winner = k.winner && paramsText(k.winner.params);
  const wins = (c: CandidateView): boolean => paramsText(c.params) === winner;
  const columns: Column<CandidateView>[] = [
    {
      title: 'Parameters',
      cell: (c) => {
        const text = `${wins(c) ? '★ ' : ''}${paramsText(c.params)}`;
        // Why it has no time goes below: a sentence in a column of its own would hide the numbers.
        const why = c.speedup === undefined ? (c.reason ?? c.status) : undefined;
        return h(
          'span',
          {
            class: 'clip',
            title:
              why === undefined
                ? text
                : `${text}
${why}`,
          },
          text,
          why === undefined ? '' : h('span', { class: 'clip hint' }, why),
        );
      },
      key: (c) => paramsText(c.params),
    },
    {
      title: 'Pred.',
      number: true,
      cell: (c) => (c.predictedUs === undefined ? '–' : formatUs(c.predictedUs)),
      key: (c) => c.predictedUs ?? Infinity,
    },
    {
      title: 'Meas.',
      number: true,
      cell: (c) => (c.medianUs === undefined ? '–' : formatUs(c.medianUs)),
      key: (c) => c.medianUs ?? Infinity,
    },
    {
      title: 'Speed-up',
      number: true,
      cell: (c) => (c.speedup === undefined ? '–' : formatFactor(c.speedup)),
      key: (c) => c.speedup ?? -1,
    },
  ];
  const own = `default: ${paramsText(k.default.params)}, ${formatUs(k.default.medianUs)}`;
  return h(
    'details',
    { class: 'tuned' },
    h(
      'summary',
      {},
      kernelLink(context, k.id),
      ` ${winner === undefined ? (k.note ?? own) : `★ ${winner}`}`,
    ),
    h('p', { class: 'hint' }, own),
    table(`Candidates of ${k.id}`, columns, k.candidates, {
      sort: { column: 3, down: true },
      rowClass: (c) => (wins(c) ? 'winner' : ''),
      most: MOST,
    }),
  );
}

function paramsText(params: CandidateView['params']): string {
  return Object.entries(params)
    .map(([name, value]) => `${name} = ${value}`)
    .join(', ');
}
