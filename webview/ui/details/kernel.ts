/** A kernel: what it holds, what it costs, what fusing it saves, and its code. */
import type { KernelView } from '../../../compiler/result';
import {
  formatBytes,
  formatFactor,
  formatFlops,
  formatNumber,
  formatUs,
  plural,
} from '../../render/format';
import { isOff } from '../../render/graphIndex';
import { PATTERN_MEANING } from '../../render/patterns';
import { codeView } from '../codeView';
import { h } from '../dom';
import { glyph } from '../glyph';
import {
  facts,
  kernelLink,
  nodeLink,
  section,
  tensorList,
  verdictCard,
  type DetailsContext,
} from './context';

export function kernelDetails(context: DetailsContext, kernel: KernelView): HTMLElement {
  const bytes = kernel.bytesRead + kernel.bytesWritten;
  const measured = context.times?.of(kernel);
  const off = measured !== undefined && isOff(kernel.estimatedUs, measured.medianUs);
  const schedule = Object.entries(kernel.schedule).map(([name, value]) => `${name} ${value}`);
  const replaced = [
    ...new Set(
      kernel.nodes.flatMap((node) =>
        context.index.kernelsHolding(node, kernel.id.startsWith('b') ? 'after' : 'before'),
      ),
    ),
  ].filter(({ id }) => id !== kernel.id);
  return h(
    'div',
    { class: `details-page p-${kernel.pattern}` },
    h('h2', {}, glyph(kernel.pattern), ` ${kernel.id} · ${kernel.pattern}`),
    h('p', { class: 'lead' }, kernel.label),
    h('p', { class: 'muted' }, PATTERN_MEANING[kernel.pattern]),
    off && measured
      ? h(
          'p',
          { class: 'warning' },
          `The model is off by ${formatFactor(
            Math.max(
              measured.medianUs / kernel.estimatedUs,
              kernel.estimatedUs / measured.medianUs,
            ),
          )}: trust the measurement.`,
        )
      : undefined,
    kernel.atLoad
      ? h('p', {}, 'Runs once, when weights are loaded: no run’s time has it.')
      : undefined,
    facts([
      [
        'Time',
        measured
          ? `${formatUs(measured.medianUs)} ± ${formatUs(measured.spreadUs)} measured, ${formatUs(kernel.estimatedUs)} predicted` +
            (measured.runs === undefined ? '' : `; ran ${plural(measured.runs, 'time')}`)
          : `${formatUs(kernel.estimatedUs)} predicted`,
      ],
      ['Bound by', kernel.bound],
      ['Reads', formatBytes(kernel.bytesRead)],
      ['Writes', formatBytes(kernel.bytesWritten)],
      ['Arithmetic', formatFlops(kernel.flops)],
      ['Intensity', bytes > 0 ? `${formatNumber(kernel.flops / bytes)} flop/byte` : ''],
      [
        'Reached',
        measured
          ? `${formatNumber(measured.gbps)} GB/s, ${formatNumber(measured.gflops)} GFLOP/s`
          : '',
      ],
      [
        'Fusing saves',
        kernel.savedLaunches > 0 || kernel.savedBytes > 0
          ? `${formatBytes(kernel.savedBytes)}, ${plural(kernel.savedLaunches, 'launch', 'launches')}` +
            (kernel.estimatedUs > 0 && kernel.estimatedUnfusedUs > 0
              ? `; ${formatFactor(kernel.estimatedUnfusedUs / kernel.estimatedUs)} by the model`
              : '')
          : '',
      ],
      ['Template', kernel.template],
      [
        'Grid',
        `${kernel.grid.join('×')} workgroups of ${kernel.workgroup.join('×')}` +
          (kernel.dispatches > 1 ? `, ${kernel.dispatches} dispatches` : ''),
      ],
      ['Schedule', schedule.join(', ')],
      [
        'Tuned',
        kernel.tuned
          ? `${Object.entries(kernel.tuned.params)
              .map(([name, value]) => `${name} = ${value}`)
              .join(
                ', ',
              )}: ${formatFactor(kernel.tuned.defaultUs / kernel.tuned.medianUs)} on ${kernel.tuned.adapter}`
          : '',
      ],
      ['Registers', `${kernel.registers} of 32 bits an invocation`],
    ]),
    kernel.notes.length > 0 ? section('Notes', ...kernel.notes.map(verdictCard)) : undefined,
    section(
      `Ops (${kernel.nodes.length})`,
      h(
        'ol',
        { class: 'ops' },
        ...kernel.nodes.slice(0, 200).map((node) => h('li', {}, nodeLink(context, node))),
      ),
      kernel.nodes.length > 200
        ? h('p', { class: 'hint' }, `The first 200 of ${kernel.nodes.length} ops.`)
        : undefined,
    ),
    replaced.length > 0 && replaced.length <= 60
      ? section(
          kernel.id.startsWith('b') ? 'After fusion' : 'Before fusion',
          h(
            'ul',
            { class: 'ops' },
            ...replaced.map(({ id }) => h('li', {}, kernelLink(context, id))),
          ),
        )
      : undefined,
    section('Inputs', tensorList(context, kernel.inputs)),
    section('Outputs', tensorList(context, kernel.outputs)),
    codeSection(context, kernel),
  );
}

function codeSection(context: DetailsContext, kernel: KernelView): HTMLElement {
  const { runnable } = context.index.result;
  const body = h('div');
  const details = h('details', { class: 'code-section' }, h('summary', {}, 'WGSL'), body);
  details.addEventListener('toggle', () => {
    if (!details.open || body.childElementCount > 0) return;
    body.replaceChildren(
      runnable.ok || kernel.pattern !== 'opaque'
        ? codeView(kernel.id, context.requestCode, context.openCode, context.fault)
        : h('p', { class: 'hint' }, runnable.reason),
    );
  });
  return details;
}
