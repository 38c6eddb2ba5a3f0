/** The whole graph at a glance: what fusion gains, what was measured, and where the time goes. */
import type { KernelView, NodeView } from '../../../compiler/result';
import type { OutputCheck } from '../../../runner/core/types';
import type { Pattern } from '../../../compiler/fusion/verdicts';
import {
  formatBytes,
  formatBytesChange,
  formatFactor,
  formatNumber,
  formatUs,
  plural,
} from '../../render/format';
import { isOff } from '../../render/graphIndex';
import { PATTERN_MEANING, PATTERNS } from '../../render/patterns';
import { h, link, table, type Column } from '../dom';
import { tuning } from './tuning';
import { glyph } from '../glyph';
import { roofline } from '../roofline';
import { facts, kernelLink, section, type DetailsContext } from './context';

export function overview(context: DetailsContext): HTMLElement {
  const { index, times } = context;
  const { graph, before, after, device, expectations, diagnostics, runnable, file } = index.result;
  const profile = times?.profile;
  const current = times?.current === true;
  const bytes = (plan: typeof before) => plan.bytesRead + plan.bytesWritten;
  const gain = after.estimatedUs > 0 ? before.estimatedUs / after.estimatedUs : NaN;
  const faults = diagnostics.filter(
    ({ severity }) => severity === 'error' || severity === 'warning',
  );
  return h(
    'div',
    { class: 'details-page overview' },
    h('h2', {}, graph.name || file),
    h(
      'div',
      { class: 'tiles' },
      tile('Kernels', `${before.kernels.length} → ${after.kernels.length}`, opsText(graph.nodes)),
      tile(
        'Memory traffic',
        formatBytesChange(bytes(before), bytes(after)),
        shareText(bytes(after), bytes(before)),
      ),
      profile && current
        ? tile(
            'Measured',
            formatFactor(profile.speedup),
            `${formatUs(profile.unfused.wallUs)} → ${formatUs(profile.fused.wallUs)}`,
          )
        : tile(
            'Predicted',
            formatFactor(gain),
            `${formatUs(before.estimatedUs)} → ${formatUs(after.estimatedUs)}`,
          ),
      tile('Peak memory', formatBytes(after.peakBytes), `${formatBytes(before.peakBytes)} before`),
      before.intermediateBytes > 0
        ? tile(
            'Between kernels',
            formatBytesChange(before.arenaBytes, after.arenaBytes),
            `${formatBytes(before.intermediateBytes)} → ${formatBytes(after.intermediateBytes)} if no buffers were shared`,
          )
        : undefined,
      profile && !current
        ? tile('Measured, stale', formatFactor(profile.speedup), 'before the last edit', true)
        : undefined,
    ),
    profile && !current ? staleMeasurements(context) : undefined,
    runnable.ok ? undefined : h('p', { class: 'warning' }, runnable.reason),
    faults.length > 0
      ? section(
          'Problems',
          h(
            'ul',
            {},
            ...faults
              .slice(0, 20)
              .map(({ code, message }) => h('li', {}, h('code', {}, code), ` ${message}`)),
          ),
        )
      : undefined,
    expectations.length > 0
      ? section(
          'Expectations',
          h(
            'ul',
            { class: 'checks' },
            ...expectations.map(({ text, held, actual }) =>
              h(
                'li',
                { class: held ? 'ok' : 'bad' },
                held ? '✓ ' : '✕ ',
                h('code', {}, text),
                held ? '' : ` – ${actual}`,
              ),
            ),
          ),
        )
      : undefined,
    section('Adapter', adapter(context, gain)),
    profile && current
      ? verification(profile.verification.ok, profile.verification.outputs)
      : undefined,
    section('Kernels by time', kernelTable(context)),
    after.prepared
      ? section(
          'Once, at load',
          h('p', { class: 'hint' }, 'Of weights alone: in no run, and in none of the sums above.'),
          h(
            'ul',
            { class: 'ops' },
            ...after.prepared.map(({ id }) => h('li', {}, kernelLink(context, id))),
          ),
        )
      : undefined,
    section(
      'How the plan came about',
      h(
        'p',
        {},
        link('Replay the search', context.startReplay),
        ' step by step: each move with its price, and what else could have been done.',
      ),
    ),
    tuning(context),
    section(
      'Roofline',
      roofline(after.kernels, device, times, undefined, (kernel) =>
        context.select({ kind: 'kernel', kernel }),
      ),
    ),
    section('Signs', legend(after.kernels)),
    section('Keys', keys()),
  );
}

/** Kernels keep their times by what they do; the plan as a whole doesn't. */
function staleMeasurements({ index, times, trusted, profile }: DetailsContext): HTMLElement {
  const { kernels } = index.result.after;
  const kept = kernels.filter((kernel) => times?.of(kernel)).length;
  return h(
    'p',
    { class: 'hint stale-measurements' },
    `Measured before the last edit: ${formatFactor(times?.profile.speedup ?? NaN)}. `,
    kept === 0
      ? 'No kernel is still the one that was measured. '
      : `${kept} of ${plural(kernels.length, 'kernel')} ${kept === 1 ? 'is' : 'are'} unchanged and keep${kept === 1 ? 's its time' : ' their times'}. `,
    trusted ? link('Profile again', profile) : '',
  );
}

function tile(title: string, value: string, note: string, stale = false): HTMLElement {
  return h(
    'div',
    { class: stale ? 'tile is-stale' : 'tile' },
    h('span', { class: 'tile-title' }, title),
    h('span', { class: 'tile-value' }, value),
    h('span', { class: 'tile-note' }, note),
  );
}

/** Ops that cost a kernel when alone, as everywhere else; views and the like apart. */
function opsText(nodes: readonly NodeView[]): string {
  const ops = nodes.filter(({ kind }) => kind === 'compute' || kind === 'opaque').length;
  const free = nodes.length - ops;
  return free > 0 ? `${plural(ops, 'op')} and ${free} that cost nothing` : plural(ops, 'op');
}

function shareText(part: number, whole: number): string {
  return whole > 0 ? `${((part / whole) * 100).toFixed(0)} % of before` : '';
}

function adapter(context: DetailsContext, gain: number): HTMLElement {
  const { device } = context.index.result;
  const profile = context.times?.profile;
  const info = profile?.adapter;
  const software = info?.software ?? device.software;
  const quantum = info?.timestampQuantumUs ?? 0;
  return h(
    'div',
    {},
    software
      ? h(
          'p',
          { class: 'warning' },
          'Software adapter: a CPU computes what a GPU would. Its times say little about one.',
        )
      : undefined,
    context.deviceNote === undefined ? undefined : h('p', { class: 'hint' }, context.deviceNote),
    facts([
      ['Device', info ? info.description || `${info.vendor} ${info.architecture}` : device.name],
      [
        'Machine',
        info
          ? `${info.host}, ${info.runner === 'node' ? 'Dawn in Node' : 'navigator.gpu of the panel'}`
          : '',
      ],
      [
        'Model',
        `${formatNumber(device.bytesPerUs / 1000)} GB/s, ${formatNumber(device.flopsPerUs / 1000)} GFLOP/s, ${formatUs(device.launchUs)} a launch (${device.source})`,
      ],
      ['Predicted', profile ? formatFactor(gain) : ''],
      [
        'Clock',
        info
          ? quantum > 0
            ? `steps of ${formatUs(quantum)}`
            : 'no GPU timestamps: wall time'
          : '',
      ],
      [
        'Runs',
        profile
          ? `${profile.iterations} repeats, pipelines compiled in ${formatNumber(profile.compileMs)} ms`
          : '',
      ],
    ]),
    ...(profile?.notes ?? []).map((note) => h('p', { class: 'hint' }, note)),
  );
}

function verification(ok: boolean, outputs: readonly OutputCheck[]): HTMLElement {
  const columns: readonly Column<OutputCheck>[] = [
    { title: 'Output', cell: ({ name }) => name || '(unnamed)', key: ({ name }) => name },
    {
      title: 'Fused',
      cell: (o) => formatNumber(o.maxRelErr),
      key: (o) => o.maxRelErr,
      number: true,
    },
    {
      title: 'Unfused',
      cell: (o) => formatNumber(o.unfusedMaxRelErr),
      key: (o) => o.unfusedMaxRelErr,
      number: true,
    },
    {
      title: 'Limit',
      cell: (o) => formatNumber(o.tolerance),
      key: (o) => o.tolerance,
      number: true,
    },
    { title: 'Holds', cell: (o) => (o.ok ? '✓' : `✕${worst(o)}`), key: (o) => (o.ok ? 1 : 0) },
  ];
  return section(
    'Verification',
    h(
      'p',
      { class: ok ? 'ok' : 'bad' },
      ok
        ? '✓ Every output agrees with the float64 reference.'
        : '✕ Not every output agrees with the float64 reference.',
    ),
    table('Greatest relative error per output', columns, outputs, {
      rowClass: (o) => (o.ok ? '' : 'bad'),
    }),
  );
}

function worst({ worst }: OutputCheck): string {
  return worst
    ? ` at [${worst.index.join(', ')}]: ${formatNumber(worst.got)} for ${formatNumber(worst.expected)}`
    : '';
}

function kernelTable(context: DetailsContext): HTMLElement {
  const { times } = context;
  const { kernels } = context.index.result.after;
  const bytes = (k: KernelView): number => k.bytesRead + k.bytesWritten;
  const columns: readonly Column<KernelView>[] = [
    { title: 'Kernel', cell: ({ id }) => id, key: ({ id }) => Number(id.slice(1)) || 0 },
    {
      title: 'Ops',
      cell: ({ label, pattern }) =>
        h('span', { class: 'clip', title: label }, glyph(pattern), ` ${label}`),
      key: ({ label }) => label,
    },
    { title: 'Bytes', cell: (k) => formatBytes(bytes(k)), key: bytes, number: true },
    {
      title: 'Pred.',
      cell: (k) => formatUs(k.estimatedUs),
      key: (k) => k.estimatedUs,
      number: true,
    },
    ...(times
      ? [
          {
            title: 'Meas.',
            number: true,
            key: (k: KernelView) => times.of(k)?.medianUs ?? -1,
            cell: (k: KernelView) => {
              const time = times.of(k);
              if (!time) return '–';
              const off = isOff(k.estimatedUs, time.medianUs);
              return off
                ? h(
                    'span',
                    { class: 'off', title: 'The model is off by more than 2×.' },
                    `▲ ${formatUs(time.medianUs)}`,
                  )
                : formatUs(time.medianUs);
            },
          },
        ]
      : []),
  ];
  return table('Kernels after fusion', columns, kernels, {
    sort: { column: times ? 4 : 3, down: true },
    onRow: ({ id }) => context.select({ kind: 'kernel', kernel: id }),
    most: 100,
  });
}

function legend(kernels: readonly KernelView[]): HTMLElement {
  const used = new Set<Pattern>(kernels.map(({ pattern }) => pattern));
  return h(
    'ul',
    { class: 'legend' },
    ...PATTERNS.filter((pattern) => used.has(pattern)).map((pattern) =>
      h('li', {}, glyph(pattern), h('b', {}, ` ${pattern}`), ` ${PATTERN_MEANING[pattern]}`),
    ),
    h(
      'li',
      {},
      h('span', { class: 'sample sample-memory' }),
      ' goes through memory: the wider, the more bytes',
    ),
    h('li', {}, h('span', { class: 'sample sample-free' }), ' stays in registers: free'),
    h(
      'li',
      {},
      h('span', { class: 'sample sample-rejected' }),
      ' could not be fused, or would not pay: click it',
    ),
  );
}

const KEYS: readonly (readonly [string, string])[] = [
  ['↓ ↑', 'follow an edge to the next op, or back'],
  ['← →', 'along the row'],
  ['⇧ ↓ ↑', 'onto the edge below or above'],
  ['Alt ↓ ↑', 'into a kernel, and out of it'],
  ['Enter', 'select; once more: show in the editor'],
  ['Space', 'fold or unfold a kernel'],
  ['Esc', 'select nothing'],
  ['+ − 0', 'zoom, fit'],
  ['Ctrl F', 'search'],
];

function keys(): HTMLElement {
  return h(
    'dl',
    { class: 'keys' },
    ...KEYS.flatMap(([key, what]) => [h('dt', {}, h('kbd', {}, key)), h('dd', {}, what)]),
  );
}
