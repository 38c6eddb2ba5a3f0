/**
 * The roofline: what each kernel reaches, against what the adapter can. Flops per byte to the right,
 * flops per second upwards, both logarithmic; under the slope memory limits, under the flat part
 * arithmetic does. A ring is predicted, a filled mark measured; a line joins the two.
 */
import * as d3 from 'd3';
import type { DeviceProfile, KernelView } from '../../compiler/result';
import { formatNumber, formatUs } from '../render/format';
import type { Times } from '../render/graphIndex';
import { GLYPHS } from '../render/glyphs';
import { h } from './dom';

interface Point {
  readonly kernel: KernelView;
  readonly intensity: number;
  readonly predicted: number;
  readonly measured: number | undefined;
}

const WIDTH = 340;
const HEIGHT = 220;
const EDGE = { left: 46, right: 12, top: 12, bottom: 34 } as const;

/** GFLOP/s. */
const rate = (flops: number, us: number): number => flops / us / 1000;

export function rooflinePoints(
  kernels: readonly KernelView[],
  times: Times | undefined,
): readonly Point[] {
  return kernels
    .filter(({ flops, bytesRead, bytesWritten }) => flops > 0 && bytesRead + bytesWritten > 0)
    .map((kernel) => {
      const measured = times?.of(kernel)?.medianUs;
      return {
        kernel,
        intensity: kernel.flops / (kernel.bytesRead + kernel.bytesWritten),
        predicted: rate(kernel.flops, Math.max(kernel.estimatedUs, 1e-3)),
        measured: measured === undefined ? undefined : rate(kernel.flops, Math.max(measured, 1e-3)),
      };
    });
}

export function roofline(
  kernels: readonly KernelView[],
  device: DeviceProfile,
  times: Times | undefined,
  selected: string | undefined,
  onSelect: (kernel: string) => void,
): HTMLElement {
  const all = rooflinePoints(kernels, times);
  if (all.length === 0) return h('p', { class: 'hint' }, 'No kernel does arithmetic.');
  // Many points would hide each other: the ones that take longest tell most.
  const shown = [...all]
    .sort((a, b) => b.kernel.estimatedUs - a.kernel.estimatedUs)
    .slice(0, 150)
    .sort((a, b) => a.kernel.nodes.length - b.kernel.nodes.length);
  const peak = device.flopsPerUs / 1000;
  const bandwidth = device.bytesPerUs / 1000;
  const ridge = peak / bandwidth;
  const xs = [ridge / 30, ridge * 8, ...shown.map(({ intensity }) => intensity)];
  const ys = [peak, ...shown.flatMap((p) => [p.predicted, p.measured ?? p.predicted])];
  const x = d3
    .scaleLog()
    .domain([Math.min(...xs) / 1.6, Math.max(...xs) * 1.6])
    .range([EDGE.left, WIDTH - EDGE.right]);
  const y = d3
    .scaleLog()
    .domain([Math.min(...ys) / 2, Math.max(...ys) * 2])
    .range([HEIGHT - EDGE.bottom, EDGE.top]);
  const host = h('div', { class: 'roofline' });
  const svg = d3
    .select(host)
    .append('svg')
    .attr('viewBox', `0 0 ${WIDTH} ${HEIGHT}`)
    .attr('role', 'group')
    .attr(
      'aria-label',
      `Roofline of ${device.name}: ${formatNumber(peak)} GFLOP/s at most, ${formatNumber(bandwidth)} GB/s; they meet at ${formatNumber(ridge)} flop per byte.`,
    );

  const ticks = (scale: d3.ScaleLogarithmic<number, number>, most: number): readonly number[] => {
    const [low, high] = scale.domain();
    const powers = d3.range(Math.ceil(Math.log10(low ?? 1)), Math.floor(Math.log10(high ?? 1)) + 1);
    const step = Math.max(1, Math.ceil(powers.length / most));
    return powers.filter((_, i) => i % step === 0).map((p) => 10 ** p);
  };
  const grid = svg.append('g').attr('class', 'roof-grid').attr('aria-hidden', 'true');
  for (const tick of ticks(x, 6)) {
    grid
      .append('line')
      .attr('x1', x(tick))
      .attr('x2', x(tick))
      .attr('y1', EDGE.top)
      .attr('y2', HEIGHT - EDGE.bottom);
    grid
      .append('text')
      .attr('x', x(tick))
      .attr('y', HEIGHT - EDGE.bottom + 13)
      .attr('text-anchor', 'middle')
      .text(formatNumber(tick));
  }
  for (const tick of ticks(y, 5)) {
    grid
      .append('line')
      .attr('x1', EDGE.left)
      .attr('x2', WIDTH - EDGE.right)
      .attr('y1', y(tick))
      .attr('y2', y(tick));
    grid
      .append('text')
      .attr('x', EDGE.left - 5)
      .attr('y', y(tick) + 3)
      .attr('text-anchor', 'end')
      .text(formatNumber(tick));
  }
  grid
    .append('text')
    .attr('class', 'roof-title')
    .attr('x', WIDTH - EDGE.right)
    .attr('y', HEIGHT - 5)
    .attr('text-anchor', 'end')
    .text('flop / byte');
  grid.append('text').attr('class', 'roof-title').attr('x', 4).attr('y', 9).text('GFLOP/s');

  const [left = 1, right = 1] = x.domain();
  const low = y.domain()[0] ?? 1;
  const start = Math.max(left, low / bandwidth);
  svg
    .append('path')
    .attr('class', 'roof')
    .attr('aria-hidden', 'true')
    .attr(
      'd',
      `M${x(start)},${y(start * bandwidth)} L${x(ridge)},${y(peak)} H${x(Math.max(right, ridge))}`,
    );

  const points = svg
    .append('g')
    .selectAll('g')
    .data(shown)
    .join('g')
    .attr(
      'class',
      ({ kernel }) =>
        `roof-point p-${kernel.pattern}${kernel.id === selected ? ' is-selected' : ''}`,
    )
    .attr('role', 'button')
    .attr('tabindex', (_, i) => (i === 0 ? 0 : -1))
    .attr('aria-label', ({ kernel, intensity, predicted, measured }) =>
      [
        `${kernel.id}, ${kernel.pattern}`,
        `${formatNumber(intensity)} flop per byte`,
        `predicted ${formatNumber(predicted)} GFLOP/s`,
        measured === undefined ? 'not measured' : `measured ${formatNumber(measured)} GFLOP/s`,
      ].join(', '),
    )
    .on('click', (_event, { kernel }) => onSelect(kernel.id))
    .on('keydown', (event: KeyboardEvent, { kernel }) => {
      const nodes = points.nodes();
      const at = nodes.findIndex((node) => node === event.currentTarget);
      const step = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
      if (event.key === 'Enter' || event.key === ' ') onSelect(kernel.id);
      else if (step !== 0) {
        const next = nodes[(at + step + nodes.length) % nodes.length];
        if (next instanceof SVGElement) next.focus();
      } else return;
      event.preventDefault();
    });
  points.append('title').text(({ kernel, intensity, measured }) => {
    const time = times?.of(kernel);
    return [
      `${kernel.id} · ${kernel.label}`,
      `${formatNumber(intensity)} flop/byte`,
      `predicted ${formatUs(kernel.estimatedUs)}`,
      measured === undefined || !time ? 'not measured' : `measured ${formatUs(time.medianUs)}`,
    ].join('\n');
  });
  points
    .filter(({ measured }) => measured !== undefined)
    .append('line')
    .attr('class', 'roof-gap')
    .attr('x1', ({ intensity }) => x(intensity))
    .attr('x2', ({ intensity }) => x(intensity))
    .attr('y1', ({ predicted }) => y(predicted))
    .attr('y2', ({ measured, predicted }) => y(measured ?? predicted));
  points
    .append('circle')
    .attr('class', 'roof-predicted')
    .attr('cx', ({ intensity }) => x(intensity))
    .attr('cy', ({ predicted }) => y(predicted))
    .attr('r', 5);
  points
    .filter(({ measured }) => measured !== undefined)
    .append('path')
    .attr('class', 'roof-measured')
    .attr('d', ({ kernel }) => GLYPHS[kernel.pattern])
    .attr(
      'transform',
      ({ intensity, measured, predicted }) =>
        `translate(${x(intensity)},${y(measured ?? predicted)}) scale(0.8)`,
    );
  host.append(
    h(
      'p',
      { class: 'hint' },
      `○ predicted${times ? ', filled: measured' : ''}. Roofs: ${device.name}, ${device.source}.`,
    ),
  );
  return host;
}
