/**
 * The text of `tune`: every candidate of every kernel with its time, or why it has none, and the
 * winners marked.
 */
import { settingsText } from '../../compiler/schedule/parameters';
import { adapterLabel, adapterName } from '../../tuner/records';
import type { CandidateView, PlanView, TunedKernelView, TuneResult } from '../../tuner/types';
import { adapterText } from '../gpu';
import type { Paint } from './colour';
import { type Align, plain, shorten, table } from './table';
import { countText, factorText, timeText } from './units';

export function tuneText(file: string, r: TuneResult, paint: Paint): string {
  const { total } = r;
  const kept = r.kernels.filter((k) => k.winner).length + r.plans.filter((p) => p.winner).length;
  const outcome =
    kept > 0
      ? `${timeText(total.defaultUs)} → ${timeText(total.tunedUs)}, ${factorText(total.speedup)}, ${total.verified ? 'verified' : 'not verified'}`
      : `${timeText(total.defaultUs)}, and nothing found that is faster`;
  const blocks = [
    [
      paint('bold', `${plain(file)}: ${outcome}`),
      `  adapter  ${paint(r.adapter.software ? 'yellow' : 'cyan', adapterText(r.adapter))}`,
      `  spent    ${r.seconds.toFixed(1)} s`,
      ...r.notes.map((n) => `  note     ${plain(n)}`),
    ],
    ...(r.plans.length > 0 ? [plans(r.plans, paint)] : []),
    ...r.kernels.map((k) => kernel(k, r, paint)),
  ];
  return blocks.map((b) => b.join('\n')).join('\n\n');
}

const COLUMNS: readonly Align[] = ['left', 'left', 'right', 'right', 'left', 'right', 'left'];

function kernel(k: TunedKernelView, r: TuneResult, paint: Paint): string[] {
  const own: string[] = [
    k.winner ? '  ' : `  ${paint('green', '*')}`,
    `${settingsText(k.default.params)} (default)`,
    timeText(k.default.predictedUs),
    timeText(k.default.medianUs),
    '',
    '1.00×',
    '',
  ];
  const winner = k.winner && settingsText(k.winner.params);
  const lines = k.candidates.map((c) => candidate(c, settingsText(c.params) === winner, paint));
  // What was measured first, the fastest on top; then the rest as the space has it.
  const order = k.candidates
    .map((c, i) => ({ i, speedup: c.speedup ?? -1 }))
    .sort((a, b) => b.speedup - a.speedup || a.i - b.i);
  const rows = [
    ['  ', 'parameters', 'predicted', 'measured', '', 'speed-up', ''],
    own,
    ...order.flatMap(({ i }) => (lines[i] ? [lines[i]] : [])),
  ];
  const [head = '', ...rest] = table(rows, COLUMNS);
  const alike = k.alike.length > 0 ? `, the same as ${k.alike.join(', ')}` : '';
  const tuned = k.winner
    ? `tuned: ${settingsText(k.winner.params)} (${factorText(k.winner.speedup)} on ${plain(adapterLabel(adapterName(r.adapter)))})`
    : (k.note ?? '');
  return [
    `${paint('bold', k.id)}  ${shorten(plain(k.label), 60)}  ${counts(k.candidates)}${alike}`,
    ...(tuned === '' ? [] : [`  ${k.winner ? paint('green', tuned) : plain(tuned)}`]),
    paint('dim', head),
    ...rest,
  ];
}

function counts(candidates: readonly CandidateView[]): string {
  const parts = (['measured', 'pruned', 'failed', 'skipped'] as const).flatMap((status) => {
    const n = candidates.filter((c) => c.status === status).length;
    return n > 0 ? [`${n} ${status}`] : [];
  });
  return `${countText(candidates.length, 'candidate')}${parts.length > 0 ? `: ${parts.join(', ')}` : ''}`;
}

function candidate(c: CandidateView, wins: boolean, paint: Paint): string[] {
  const why = c.reason === undefined ? c.status : `${c.status}: ${plain(c.reason)}`;
  return [
    wins ? `  ${paint('green', '*')}` : '  ',
    settingsText(c.params),
    c.predictedUs === undefined ? '–' : timeText(c.predictedUs),
    c.medianUs === undefined ? '' : timeText(c.medianUs),
    c.spreadUs === undefined ? '' : `±${timeText(c.spreadUs)}`,
    c.speedup === undefined ? '' : factorText(c.speedup),
    c.status === 'measured' ? (wins ? paint('green', 'winner') : '') : shorten(why, 110),
  ];
}

function plans(list: readonly PlanView[], paint: Paint): string[] {
  const rows = list.map((p) => [
    p.winner ? `  ${paint('green', '*')}` : '  ',
    plain(p.label),
    p.predictedUs === undefined ? '–' : timeText(p.predictedUs),
    p.medianUs === undefined ? '' : timeText(p.medianUs),
    p.spreadUs === undefined ? '' : `±${timeText(p.spreadUs)}`,
    p.speedup === undefined ? '' : factorText(p.speedup),
    p.winner
      ? paint('green', 'winner')
      : `${p.status}${p.reason === undefined ? '' : `: ${plain(p.reason)}`}`,
  ]);
  const [head = '', ...rest] = table(
    [['  ', 'plan with', 'predicted', 'measured', '', 'speed-up', ''], ...rows],
    COLUMNS,
  );
  return [paint('bold', 'Near ties of the plan'), paint('dim', head), ...rest];
}
