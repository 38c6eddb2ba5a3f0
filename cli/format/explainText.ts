/**
 * The text of `explain`: summary, kernels, edges that weren't fused with their reasons, problems.
 */
import {
  type CompileResult,
  type KernelView,
  type Decision,
  type FusionStep,
  type NodeView,
  opsOneByOne,
  type PlanView,
  type OverrideView,
} from '../../compiler/result';
import { diagnosticText } from '../commands/command';
import type { Paint } from './colour';
import { stepsText } from './stepsText';
import { plain, shorten, table } from './table';
import { gainText, tunedText } from './tunedText';
import { bytesText, countText, factorText, flopsText, timeText } from './units';

export function explainText(
  r: CompileResult,
  options: {
    readonly paint: Paint;
    readonly all: boolean;
    readonly steps: readonly FusionStep[];
    readonly start?: PlanView;
  },
): string {
  const { paint } = options;
  const blocks = [
    summary(r, paint),
    kernels(r, paint),
    prepared(r, paint),
    regions(r, paint),
    [...stepsText(r, options.steps, options.start, paint)],
    decisions(r, options),
  ];
  if (r.overrides.length > 0)
    blocks.push([
      paint('bold', 'Overrides'),
      ...r.overrides.map((o) => `  ${plain(o.text)}  ${paint('dim', overrideText(o))}`),
    ]);
  if (r.expectations.length > 0)
    blocks.push([
      paint('bold', 'Expectations'),
      ...r.expectations.map((e) =>
        e.held
          ? `  ${paint('green', 'held')}    ${plain(e.text)}`
          : `  ${paint('red', 'failed')}  ${plain(e.text)} (it is ${plain(e.actual)})`,
      ),
    ]);
  if (r.diagnostics.length > 0)
    blocks.push([
      paint('bold', 'Problems'),
      ...r.diagnostics.map((d) => `  ${diagnosticText(r.file, d, paint)}`),
    ]);
  return blocks
    .filter((b) => b.length > 0)
    .map((b) => b.join('\n'))
    .join('\n\n');
}

/** What a line costs or gains, against the plan without it. */
function overrideText({ estimatedUs, withoutUs }: OverrideView): string {
  if (withoutUs === undefined)
    return `${timeText(estimatedUs)}; not weighed, the graph is too large`;
  const saved = withoutUs - estimatedUs;
  const against = `${timeText(estimatedUs)} with it, ${timeText(withoutUs)} without`;
  if (Math.abs(saved) < 0.005 * withoutUs) return `makes no difference: ${against}`;
  return `${saved > 0 ? 'saves' : 'costs'} ${timeText(Math.abs(saved))}: ${against}`;
}

function summary(r: CompileResult, paint: Paint): string[] {
  const { before, after } = r;
  const traffic = (p: typeof before): number => p.bytesRead + p.bytesWritten;
  const lines = [
    paint(
      'bold',
      `${plain(r.file)}: ${countText(r.graph.nodes.length, 'op')}, ` +
        `${countText(opsOneByOne(r), 'kernel')} unfused → ${after.kernels.length} fused`,
    ),
    ...table(
      [
        ['', 'unfused', 'fused', ''],
        ['  kernels', String(opsOneByOne(r)), String(after.kernels.length), split(r)],
        [
          '  memory traffic',
          bytesText(traffic(before)),
          bytesText(traffic(after)),
          ratio(traffic(before), traffic(after), 'less'),
        ],
        ['  flops', flopsText(before.flops), flopsText(after.flops), ''],
        ['  peak memory', bytesText(before.peakBytes), bytesText(after.peakBytes), ''],
        [
          '  intermediates',
          bytesText(before.intermediateBytes),
          bytesText(after.intermediateBytes),
          '',
        ],
        ['    sharing buffers', bytesText(before.arenaBytes), bytesText(after.arenaBytes), ''],
        [
          '  estimated time',
          timeText(before.estimatedUs),
          timeText(after.estimatedUs),
          ratio(before.estimatedUs, after.estimatedUs, 'faster'),
        ],
      ],
      ['left', 'right', 'right', 'left'],
    ),
  ];
  const dims = Object.entries(r.dims).map(([name, size]) => `${plain(name)} = ${size}`);
  if (dims.length > 0) lines.push(`  sizes           ${dims.join(', ')}`);
  lines.push(`  estimated for   ${plain(r.device.name)} (${r.device.source} profile)`);
  return lines;
}

/** Where ops need several kernels each even alone, the unfused plan has more than there are ops. */
function split(r: CompileResult): string {
  const kernels = r.before.kernels.length;
  return kernels > opsOneByOne(r) ? `(one an op; run one by one they take ${kernels})` : '';
}

function ratio(before: number, after: number, word: string): string {
  const tells = before > 0 && after > 0 && Math.abs(before / after - 1) >= 0.005;
  return tells ? `${factorText(before / after)} ${word}` : '';
}

function kernels(r: CompileResult, paint: Paint): string[] {
  if (r.after.kernels.length === 0) return [];
  const rows = kernelRows(r.after.kernels);
  const lines = table([KERNEL_HEAD, ...rows], KERNEL_COLUMNS);
  const out = [paint('bold', 'Kernels'), paint('dim', lines[0] ?? ''), ...lines.slice(1)];
  for (const k of r.after.kernels) if (k.tuned) out.push(`  ${k.id}: ${tunedText(k.tuned)}`);
  const nodes = new Map(r.graph.nodes.map((n) => [n.id, n.op]));
  const op = (id: string): string => plain(nodes.get(id) ?? id);
  for (const { change, ...measured } of r.tunedPlans)
    out.push(
      `  tuned plan: ${op(change.from)} and ${op(change.to)} in ${change.kind === 'cut' ? 'two kernels' : 'one kernel'} (${gainText(measured)})`,
    );
  for (const k of r.after.kernels)
    for (const note of k.notes) out.push(`  ${k.id}: ${note.code}: ${plain(note.message)}`);
  return out;
}

/** What runs once; no figure above counts it. */
function prepared(r: CompileResult, paint: Paint): string[] {
  if (!r.after.prepared) return [];
  const lines = table([KERNEL_HEAD, ...kernelRows(r.after.prepared)], KERNEL_COLUMNS);
  return [
    paint('bold', 'Once, when weights are loaded (of weights alone; not in the figures above)'),
    paint('dim', lines[0] ?? ''),
    ...lines.slice(1),
  ];
}

const KERNEL_HEAD = [
  ...['  id', 'pattern', 'ops', 'read', 'written', 'flops', 'est. time', 'bound by', ''],
];
const KERNEL_COLUMNS = [
  ...(['left', 'left', 'left', 'right', 'right', 'right', 'right', 'left', 'left'] as const),
];

function kernelRows(list: readonly KernelView[]): string[][] {
  return list.map((k) => [
    `  ${k.id}`,
    k.pattern,
    shorten(plain(k.label), 60),
    bytesText(k.bytesRead),
    bytesText(k.bytesWritten),
    flopsText(k.flops),
    timeText(k.estimatedUs),
    k.bound,
    k.savedBytes > 0 || k.savedLaunches > 0
      ? `saves ${bytesText(k.savedBytes)}, ${countText(k.savedLaunches, 'launch', 'launches')}`
      : '',
  ]);
}

/** Branches and loops, each body with its kernels: their times and bytes count one run. */
function regions(r: CompileResult, paint: Paint): string[] {
  if (!r.regions) return [];
  const rows = r.regions.flatMap((region) =>
    region.bodies.map((b) => [
      `  ${plain(b.title)}`,
      region.kind === 'branch'
        ? 'by its condition'
        : region.trips === undefined
          ? 'as often as the data says'
          : `at most ${countText(region.trips, 'time')}`,
      `${b.kernelsBefore.length} → ${countText(b.kernels.length, 'kernel')}`,
      b.kernels.join(', '),
    ]),
  );
  return [
    paint('bold', 'Bodies of branches and loops (figures are for one run of each)'),
    ...table(rows, ['left', 'left', 'left', 'left']),
  ];
}

function decisions(
  r: CompileResult,
  options: { readonly paint: Paint; readonly all: boolean },
): string[] {
  const { paint } = options;
  const tensors = new Map(r.graph.tensors.map((t) => [t.id, t.name]));
  const nodes = new Map(r.graph.nodes.map((n) => [n.id, n]));
  const own = (n: NodeView): string => {
    const result = n.results[0];
    return plain(n.name || ((result === undefined ? undefined : tensors.get(result)) ?? n.id));
  };
  const times = new Map<string, number>();
  for (const n of nodes.values()) times.set(own(n), (times.get(own(n)) ?? 0) + 1);
  const nameOf = (id: string): string => {
    const n = nodes.get(id);
    if (!n) return plain(tensors.get(id) ?? id);
    const name = own(n);
    // A name that is taken again says little: x → x.
    if ((times.get(name) ?? 0) < 2) return name;
    return `${name} (${n.op}${n.range ? `, line ${n.range.start.line + 1}` : ''})`;
  };
  // Edges from inputs and weights are reads of memory in any plan; they are no missed fusions.
  const between = r.decisions.filter((d) => nodes.has(d.from));
  const list = options.all ? between : between.filter((d) => !d.fused);
  if (list.length === 0) return [];
  const title = options.all ? 'Edges' : `Not fused (${list.length} of ${between.length} edges)`;
  // Edges with the very same reasons share one paragraph.
  const groups = new Map<
    string,
    { readonly edges: string[]; readonly reasons: readonly string[] }
  >();
  for (const d of list) {
    const edge =
      `${shorten(nameOf(d.from), 40)} → ${shorten(nameOf(d.to), 40)}` +
      (d.fused
        ? paint('green', `  ${d.kernel === undefined ? plain(d.summary) : `fused in ${d.kernel}`}`)
        : '');
    const why = reasons(d, paint);
    const group = groups.get(why.join('\n'));
    if (group) group.edges.push(edge);
    else groups.set(why.join('\n'), { edges: [edge], reasons: why });
  }
  const lines = [paint('bold', title)];
  for (const g of groups.values()) lines.push(...g.edges.map((e) => `  ${e}`), ...g.reasons);
  return lines;
}

function reasons(d: Decision, paint: Paint): string[] {
  if (d.verdicts.length === 0) return d.fused ? [] : [`      ${plain(d.summary)}`];
  return d.verdicts.map(
    (v) =>
      `      ${paint('yellow', v.code)} ${plain(v.message)}` +
      (v.counterfactual === undefined ? '' : paint('dim', ` (${plain(v.counterfactual)})`)),
  );
}
