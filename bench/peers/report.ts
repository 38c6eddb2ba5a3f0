/** The tables of the bench: for the terminal, and for docs/performance.md. */
import { shorten, table, type Align } from '../../cli/format/table';
import { bytesText, factorText, timeText } from '../../cli/format/units';
import type { ContestantName } from './protocol';
import {
  against,
  againstBest,
  bestPeer,
  median,
  PEERS,
  ratesOf,
  ratioToOurs,
  relativeSpread,
  shareOf,
  type Entry,
  type Row,
  type Run,
  type Standing,
} from './summary';

export const TITLES: Readonly<Record<ContestantName, string>> = {
  fused: 'Fusion Lens',
  unfused: 'unfused',
  onnxruntime: 'onnxruntime-web',
  tfjs: 'TensorFlow.js',
  jax: 'jax-js',
  floor: 'floor',
};

const time = (ms: number): string => timeText(1000 * ms);
const percent = (x: number): string => `${(100 * x).toFixed(x < 0.1 ? 1 : 0)} %`;

const HEAD = [
  '',
  'median',
  'spread',
  'to ours',
  'dispatches',
  'bound',
  'of the adapter',
  'submit',
  'set-up',
  '',
];
const ALIGN: readonly Align[] = [
  'left',
  ...Array.from({ length: HEAD.length - 2 }, () => 'right' as const),
  'left',
];

/** The first line says what happened; the rest is where, in a library's own code. */
const reasonOf = (failure: string): string => shorten(failure.split('\n')[0] ?? '', 160);

/** One line a contestant. */
export function entryCells(row: Row, e: Entry): string[] {
  const name = TITLES[e.contestant];
  if (e.failure !== undefined) return [name, '–', '', '', '', '', '', '', '', reasonOf(e.failure)];
  const ms = median(e.samples);
  const share = shareOf(row, e.samples);
  return [
    name,
    time(ms),
    `±${percent(relativeSpread(e.samples))}`,
    e.contestant === 'fused' ? '1' : factorText(ratioToOurs(row, e.contestant)),
    String(e.dispatches),
    bytesText(e.boundBytes),
    share ? `${percent(share.share)} of ${share.of}` : '',
    time(e.submitMs),
    time(e.setupMs),
    e.note ?? '',
  ];
}

export function headLines(run: Run): string[] {
  const rates = ratesOf(run);
  return [
    `${run.adapter}: ${run.software ? 'a SOFTWARE adapter (the CPU); its times say little about a GPU' : 'a hardware adapter'}`,
    `${run.machine}; load ${run.load.map((l) => l.toFixed(1)).join(' to ')}; ${run.date}`,
    ...(rates
      ? [
          `copy ${(rates.copyBytesPerMs / 1e6).toFixed(1)} GB/s, multiply-add ${(rates.flopsPerMs / 1e6).toFixed(1)} GFLOP/s`,
        ]
      : []),
    ...Object.values(run.versions),
  ];
}

export function rowLines(row: Row): string[] {
  const cells = row.entries.map((e) => entryCells(row, e));
  return ['', row.workload, ...table([HEAD, ...cells], ALIGN).map((l) => `  ${l}`)];
}

function standingText(name: string, s: Standing | undefined): string[] {
  if (!s) return [];
  return [
    `${name}: ${factorText(s.mean)} its speed (geometric mean of ${s.workloads}), at worst ${factorText(s.worst)} (${s.worstWorkload})`,
  ];
}

export function summaryLines(run: Run): string[] {
  const { rows } = run;
  const failures = rows.flatMap((r) =>
    r.entries.flatMap((e) => (e.contestant === 'fused' && e.failure ? [r.workload] : [])),
  );
  return [
    ...standingText('against the best peer of each workload', againstBest(rows)),
    ...PEERS.flatMap((p) => standingText(`against ${TITLES[p]}`, against(rows, p))),
    ...standingText('against our unfused plan', against(rows, 'unfused')),
    ...standingText('against the floor', against(rows, 'floor')),
    ...(failures.length > 0 ? [`without times of ours: ${failures.join('; ')}`] : []),
  ];
}

// docs/performance.md --------------------------------------------------------------------------

const COLUMNS: readonly ContestantName[] = [
  'floor',
  'fused',
  'unfused',
  'onnxruntime',
  'tfjs',
  'jax',
];

const escaped = (s: string): string => s.replace(/[|\\`*_<>[\]]/g, (c) => `\\${c}`);

function pageCell(e: Entry | undefined): string {
  if (!e) return '';
  if (e.failure !== undefined) return '–';
  return `${time(median(e.samples))} ±${percent(relativeSpread(e.samples))} (${e.dispatches})`;
}

function pageRow(row: Row): string {
  const of = (c: ContestantName): Entry | undefined => row.entries.find((e) => e.contestant === c);
  const best = bestPeer(row);
  const ours = of('fused');
  const share = ours && shareOf(row, ours.samples);
  const cells = [
    escaped(row.workload),
    ...COLUMNS.map((c) => pageCell(of(c))),
    best ? `${factorText(best.ratio)} (${TITLES[best.contestant]})` : '–',
    share ? `${percent(share.share)} of ${share.of}` : '–',
  ];
  return `| ${cells.join(' | ')} |`;
}

function pageNotes(run: Run): string[] {
  const notes = run.rows.flatMap((r) =>
    r.entries.flatMap((e) => {
      const reason = e.failure === undefined ? undefined : reasonOf(e.failure);
      const what = reason ?? (e.contestant === 'floor' ? e.note : undefined);
      return what === undefined ? [] : [{ who: TITLES[e.contestant], what, where: r.workload }];
    }),
  );
  const grouped = new Map<string, string[]>();
  for (const n of notes) {
    const key = `${n.who}: ${n.what}`;
    grouped.set(key, [...(grouped.get(key) ?? []), n.where]);
  }
  return [...grouped].map(([key, where]) => `- ${escaped(key)}: ${escaped(where.join('; '))}.`);
}

function pageSection(run: Run): string[] {
  const head = [
    'workload',
    ...COLUMNS.map((c) => TITLES[c]),
    'best peer to ours',
    'ours, of the adapter',
  ];
  return [
    `## ${escaped(run.adapter)}${run.software ? ': a software adapter' : ''}`,
    '',
    ...headLines(run).map((l) => `- ${escaped(l)}`),
    '',
    `| ${head.join(' | ')} |`,
    `| --- | ${head
      .slice(1)
      .map(() => '---:')
      .join(' | ')} |`,
    ...run.rows.map((r) => pageRow(r)),
    '',
    ...summaryLines(run).map((l) => `- ${escaped(l)}`),
    '',
    ...pageNotes(run),
  ];
}

/** The page; `licences` names the packages compared with. */
export function performancePage(runs: readonly Run[], licences: readonly string[]): string {
  return `${[
    '# Performance',
    '',
    '<!-- Written by the command below: not to be edited by hand. -->',
    '',
    'What our kernels cost beside what one could run instead, on one adapter under Node with Dawn. To measure it anew, with DIR a folder of ONNX models:',
    '',
    '```sh',
    'npm run bench -- --peers --models DIR --write',
    '```',
    '',
    'Each contestant has a process of its own and rests while another is timed; the rounds are interleaved. Inputs and outputs stay on the GPU; one timing is as many runs as fill 0.1 s, then a wait for the GPU. Every result was compared with the float64 reference before it was timed. A cell is the median of one run, half of the interquartile range, and in brackets the dispatches of one run. “Best peer to ours” is the quickest peer’s time over that of our fused plan, round by round: above 1, ours is quicker.',
    '',
    'The floor is hand-written WGSL: a copy of the input where a workload is bound by memory, else the quickest of several register-blocked matmuls. “Of the adapter” is how near our fused plan comes to the rate of that copy, or to that of multiply-adds in registers, whichever is nearer.',
    '',
    'Load is the number of threads that wanted a core. Where it is above the number of cores, others used the machine: then times are longer than on a machine of one’s own, and ratios nearer to 1 than the spread say nothing.',
    '',
    'The networks are “light” models: their weights are made by ConstantOfShape nodes, so all that counts is the time. Of the peers only onnxruntime-web reads ONNX files.',
    '',
    ...runs.flatMap((r) => [...pageSection(r), '']),
    '## Compared with',
    '',
    ...licences.map((l) => `- ${l}`),
  ].join('\n')}\n`;
}
