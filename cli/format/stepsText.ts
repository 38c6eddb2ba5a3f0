/**
 * The decision log as text: one line a step, with its price, the plan behind it, and below it what else
 * could have been done with the same kernels.
 */
import type { CompileResult, FusionAlternative, FusionStep, PlanView } from '../../compiler/result';
import type { Paint } from './colour';
import { plain, shorten, table } from './table';
import { timeText } from './units';

export function stepsText(
  r: CompileResult,
  steps: readonly FusionStep[],
  /** What the search began with. */
  start: PlanView | undefined,
  paint: Paint,
): readonly string[] {
  if (steps.length === 0) return [];
  const ops = new Map(r.graph.nodes.map((n) => [n.id, n.op]));
  const side = (nodes: readonly string[]): string =>
    plain(shorten(nodes.map((n) => ops.get(n) ?? n).join(' + '), 40));
  const rows = steps.flatMap((s, i) => [
    [
      `  ${i + 1}`,
      s.kind,
      side(s.left),
      side(s.right),
      priceText(s),
      `${s.kernels} ${s.kernels === 1 ? 'kernel' : 'kernels'}, ${timeText(s.estimatedUs)}`,
    ],
    ...s.alternatives.map((a) =>
      ['', `  or ${a.kind}`, side(a.left), side(a.right), alternativeText(a), ''].map((cell) =>
        cell === '' ? '' : paint('dim', cell),
      ),
    ),
    ...(s.more > 0 ? [['', paint('dim', `  and ${s.more} more`), '', '', '', '']] : []),
  ]);
  return [
    paint('bold', 'Steps'),
    ...table(
      [
        ['  ', 'move', 'of', 'with', 'by the model', 'leaves'].map((c) => paint('dim', c)),
        [
          '  0',
          '',
          '',
          '',
          '',
          `${(start ?? r.before).kernels.length} kernels, ${timeText((start ?? r.before).estimatedUs)}`,
        ],
        ...rows,
      ],
      ['right', 'left', 'left', 'left', 'left', 'left'],
    ),
  ];
}

function priceText(s: FusionStep): string {
  const gain = gainText(s.gainUs);
  if (s.apartUs === undefined || s.togetherUs === undefined)
    return s.kind === 'destination' ? gain : 'can’t run apart';
  const prices = `${timeText(s.apartUs)} → ${timeText(s.togetherUs)}`;
  return s.weighed ? `${prices}, ${gain}` : `${prices}, a chain`;
}

function alternativeText(a: FusionAlternative): string {
  const why = a.verdict ? a.verdict.code : '';
  if (a.gainUs === undefined) return a.verdict ? `refused: ${why}` : 'refused';
  const price = a.gainUs > 0 ? gainText(a.gainUs) : `${gainText(a.gainUs)}${why ? `: ${why}` : ''}`;
  return a.madeLater ? `${price}; made later` : price;
}

function gainText(us: number): string {
  return us >= 0 ? `gains ${timeText(us)}` : `loses ${timeText(-us)}`;
}
