/**
 * The text of `profile`: adapter, both plans kernel by kernel, predicted beside measured, verification.
 */
import type { CompileResult, KernelView } from '../../compiler/result';
import type { PlanTimes, ProfileResult } from '../../runner/core/types';
import { adapterText, ratesText } from '../gpu';
import type { Paint } from './colour';
import { plain, shorten, table } from './table';
import { tunedText } from './tunedText';
import { bytesText, factorText, timeText, valueText } from './units';

export function profileText(c: CompileResult, p: ProfileResult, paint: Paint): string {
  const blocks = [
    [
      paint(
        'bold',
        `${plain(c.file)}: ${timeText(p.unfused.wallUs)} unfused → ${timeText(p.fused.wallUs)} fused, ${factorText(p.speedup)}`,
      ),
      `  adapter  ${paint(p.adapter.software ? 'yellow' : 'cyan', adapterText(p.adapter))}`,
      `  rates    ${ratesText(c.device)}`,
      `  clock    ${clockText(p)}; pipelines compiled in ${timeText(p.compileMs * 1000)}; seed ${p.seed}`,
      ...p.notes.map((n) => `  note     ${plain(n)}`),
    ],
    plan('Fused', p.fused, c.after.kernels, paint),
    ...preparedText(c.after.prepared, paint),
    plan('Unfused', p.unfused, c.before.kernels, paint),
    verification(p, paint),
  ];
  return blocks.map((b) => b.join('\n')).join('\n\n');
}

/** Run once before all else, verified, and in no time above. */
function preparedText(prepared: readonly KernelView[] | undefined, paint: Paint): string[][] {
  if (!prepared) return [];
  const rows = prepared.map((k) => [`  ${k.id}`, shorten(plain(k.label), 50)]);
  return [
    [
      paint('bold', 'Once, when weights are loaded (verified; in no time)'),
      ...table(rows, ['left', 'left']),
    ],
  ];
}

function clockText(p: ProfileResult): string {
  return p.adapter.timestampQuantumUs === 0
    ? 'wall time (the adapter has no timestamps)'
    : `GPU timestamps, steps of ${timeText(p.adapter.timestampQuantumUs)}`;
}

function plan(
  title: string,
  times: PlanTimes,
  views: readonly KernelView[],
  paint: Paint,
): string[] {
  const byId = new Map(views.map((k) => [k.id, k]));
  const looped = times.kernels.some((k) => k.runs !== undefined);
  const rows = times.kernels.map((k) => [
    `  ${k.id}`,
    shorten(plain(byId.get(k.id)?.label ?? ''), 50),
    ...(looped ? [`${k.runs ?? 1} ×`] : []),
    timeText(k.medianUs),
    `±${timeText(k.spreadUs)}`,
    timeText(k.minUs),
    timeText(k.estimatedUs),
    k.estimatedUs > 0 ? factorText(k.medianUs / k.estimatedUs) : '–',
    bytesText(k.bytes),
    k.gbps.toPrecision(3),
    k.gflops.toPrecision(3),
  ]);
  const head = [
    '  id',
    'ops',
    ...(looped ? ['runs'] : []),
    'median',
    '',
    'min',
    'estimated',
    'off by',
    'traffic',
    'GB/s',
    'GFLOP/s',
  ];
  const lines = table(
    [head, ...rows],
    [
      ...(['left', 'left'] as const),
      ...(looped ? (['right'] as const) : []),
      ...(['right', 'left', 'right', 'right', 'right', 'right', 'right', 'right'] as const),
    ],
  );
  const tuned = views.flatMap((k) => (k.tuned ? [`  ${k.id}: ${tunedText(k.tuned)}`] : []));
  return [
    `${paint('bold', title)}  sum of kernels ${timeText(times.totalUs)}, as one plan ${timeText(times.wallUs)} ±${timeText(times.wallSpreadUs)}`,
    paint('dim', lines[0] ?? ''),
    ...lines.slice(1),
    ...tuned,
  ];
}

function verification(p: ProfileResult, paint: Paint): string[] {
  const v = p.verification;
  const rows = v.outputs.map((o) => [
    `  ${o.ok ? paint('green', 'right') : paint('red', 'WRONG')}`,
    shorten(plain(o.name), 40),
    `max. abs. error ${valueText(o.maxAbsErr)}`,
    `rel. ${valueText(o.maxRelErr)}`,
    `unfused ${valueText(o.unfusedMaxRelErr)}`,
    `tolerance ${valueText(o.tolerance)}`,
    o.worst
      ? `at [${o.worst.index.join(', ')}]: ${valueText(o.worst.got)} instead of ${valueText(o.worst.expected)}`
      : '',
  ]);
  const wrong = v.kernels.filter((k) => !k.ok);
  return [
    `${paint('bold', 'Verification')} against the float64 reference: ${v.ok ? paint('green', 'all right') : paint('red', 'FAILED')}`,
    ...table(rows, ['left', 'left', 'left', 'left', 'left', 'left', 'left']),
    ...wrong.map((k) => `  ${paint('red', 'WRONG')} kernel ${k.kernel}: ${plain(k.name)}`),
  ];
}
