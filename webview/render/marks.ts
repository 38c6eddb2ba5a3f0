/**
 * From items to marks: the shapes and texts that one kernel, leaf or edge is drawn with. Pure; the
 * page turns marks into elements, the exporter into text, so both show the same.
 *
 * Marks of kernels and leaves are relative to the item's top left corner, those of edges absolute.
 */
import type { Pattern } from '../../compiler/fusion/verdicts';
import type { Route } from '../layout/graph';
import { fitText, formatPercent, formatUs, textWidth } from './format';
import { isOff, kernelUs, type Times } from './graphIndex';
import type { PlacedFrame } from './frames';
import { GLYPHS } from './glyphs';
import type { Detail } from './lod';
import { STUB, type PlacedEdge, type PlacedKernel, type PlacedLeaf } from './placed';
import { HEADER_HEIGHT } from './scene';
import type { LeafKind } from './sceneTypes';
import type { MarkClass } from './styles';

export interface Mark {
  readonly tag: 'rect' | 'path' | 'text' | 'circle';
  readonly mark: MarkClass;
  readonly at: Readonly<Record<string, number | string>>;
  readonly text?: string;
  /** What a click on it does, where that isn't selecting the item. */
  readonly action?: 'fold';
}

export interface MarkContext {
  readonly detail: Exclude<Detail, 'bulk'>;
  readonly times?: Times;
  readonly heat: boolean;
  /** Time of the whole plan: what shares are counted against. */
  readonly totalUs: number;
}

function text(mark: MarkClass, x: number, y: number, content: string, size?: number): Mark {
  return {
    tag: 'text',
    mark,
    at: { x, y, ...(size === undefined ? {} : { 'font-size': size }) },
    text: content,
  };
}

function path(mark: MarkClass, d: string): Mark {
  return { tag: 'path', mark, at: { d } };
}

/** A word as big as its box allows. */
function bigText(mark: MarkClass, content: string, width: number, height: number): Mark {
  const perUnit = Math.max(1, textWidth(content, 1, true));
  const size = Math.max(8, Math.min(height * 0.6, (width * 0.86) / perUnit, 64));
  return text(mark, width / 2, height / 2 + size * 0.35, content, Math.round(size));
}

export function frameMarks({ title, width, height }: PlacedFrame): readonly Mark[] {
  return [
    { tag: 'rect', mark: 'frame', at: { x: 0, y: 0, width, height, rx: 10 } },
    text('frame-title', 10, 15, fitText(title, Math.max(60, width - 20), 12)),
  ];
}

export function kernelMarks(item: PlacedKernel, context: MarkContext): readonly Mark[] {
  const { box, width, height } = item;
  const { kernel, folded } = box;
  const measured = context.times?.of(kernel);
  const us = kernelUs(kernel, context.times);
  const share = context.totalUs > 0 ? us / context.totalUs : 0;
  const heat: readonly Mark[] = context.heat
    ? [
        {
          tag: 'rect',
          mark: 'kernel-heat',
          at: { x: 0, y: 0, width, height, rx: 8, 'fill-opacity': heatOpacity(share) },
        },
      ]
    : [];
  const frame: Mark = { tag: 'rect', mark: 'kernel-box', at: { x: 0, y: 0, width, height, rx: 8 } };
  if (context.detail === 'far')
    // An unfolded kernel's word stands where its title would, above the ops.
    return [
      frame,
      ...(folded ? [] : [path('kernel-band', band(width, HEADER_HEIGHT, false))]),
      ...heat,
      bigText('kernel-big', box.id, width, folded ? height : HEADER_HEIGHT),
    ];
  const room = width - 62;
  const time = kernel.atLoad ? '' : `${measured ? '' : '≈ '}${formatUs(us)}`;
  const timeText = context.heat && time !== '' ? `${time} · ${formatPercent(share)}` : time;
  const timeWidth = textWidth(timeText, 11);
  const off = measured !== undefined && isOff(kernel.estimatedUs, measured.medianUs);
  const right = box.solo ? width - 10 : width - 28;
  return [
    frame,
    path('kernel-band', band(width, folded ? height : HEADER_HEIGHT, folded)),
    ...heat,
    { ...path('kernel-glyph', GLYPHS[kernel.pattern]), at: moved(GLYPHS[kernel.pattern], 15, 16) },
    text('kernel-title', 27, 20, fitText(box.title, room - timeWidth + 18, 12.5, true)),
    text('kernel-time', right, 20, timeText),
    ...(off ? [path('flag-off', `M${right - timeWidth - 12},20 l4.5,-8 l4.5,8 Z`)] : []),
    text('kernel-label', 10, 37, fitText(box.label, width - 20, 11)),
    ...(folded ? [text('kernel-label', 10, 54, box.counts)] : []),
    ...(box.solo ? [] : foldButton(width - 15, 16, folded)),
  ];
}

function foldButton(x: number, y: number, folded: boolean): readonly Mark[] {
  return [
    { tag: 'circle', mark: 'fold-button', at: { cx: x, cy: y, r: 7 }, action: 'fold' },
    {
      ...path('fold-sign', `M${x - 3.5},${y} h7${folded ? ` M${x},${y - 3.5} v7` : ''}`),
      action: 'fold',
    },
  ];
}

function moved(d: string, x: number, y: number): Record<string, string> {
  return { d, transform: `translate(${x},${y})` };
}

export function heatOpacity(share: number): number {
  return Math.round(Math.min(0.75, Math.sqrt(Math.max(0, share)) * 0.8) * 100) / 100;
}

/** The title's background: round at the top, and below too where there is nothing below. */
function band(width: number, height: number, closed: boolean): string {
  const [w, h] = [width - 1.5, height - (closed ? 1.5 : 0)];
  const bottom = closed ? `V${h - 7} q0,7 -7,7 H8.5 q-7,0 -7,-7` : `V${h} H1.5`;
  return `M1.5,8.5 q0,-7 7,-7 H${w - 7} q7,0 7,7 ${bottom} Z`;
}

const LEAF_CLASS: Readonly<Record<LeafKind, MarkClass>> = {
  compute: 'leaf',
  view: 'leaf-view',
  constant: 'leaf-view',
  region: 'leaf',
  opaque: 'leaf-opaque',
  dead: 'leaf-dead',
  input: 'leaf-data',
  param: 'leaf-param',
  const: 'leaf-param',
  output: 'leaf-output',
};

function leafShape(kind: LeafKind, w: number, h: number): Mark {
  const mark = LEAF_CLASS[kind];
  switch (kind) {
    case 'input': // points down, into the graph
      return path(mark, `M0,0 H${w} V${h - 8} L${w / 2},${h} L0,${h - 8} Z`);
    case 'output': // is pointed at
      return path(mark, `M0,8 L${w / 2},0 L${w},8 V${h} H0 Z`);
    case 'param':
    case 'const': // cut corners
      return path(mark, `M8,0 H${w - 8} L${w},8 V${h - 8} L${w - 8},${h} H8 L0,${h - 8} V8 Z`);
    case 'region': // pointed at both ends, as a decision in a flow chart
      return path(mark, `M8,0 H${w - 8} L${w},${h / 2} L${w - 8},${h} H8 L0,${h / 2} Z`);
    case 'view':
    case 'constant':
      return { tag: 'rect', mark, at: { x: 0, y: 0, width: w, height: h, rx: h / 2.4 } };
    case 'compute':
    case 'opaque':
    case 'dead':
      return { tag: 'rect', mark, at: { x: 0, y: 0, width: w, height: h, rx: 5 } };
  }
}

export function leafMarks(item: PlacedLeaf, context: MarkContext): readonly Mark[] {
  const { leaf, width: w, height: h } = item;
  const shape = leafShape(leaf.kind, w, h);
  const data = leaf.node === undefined;
  const stripe: readonly Mark[] =
    leaf.kind === 'compute' && leaf.pattern !== undefined
      ? [path('leaf-stripe', `M5,0 h-0 q-5,0 -5,5 v${h - 10} q0,5 5,5 Z`)]
      : [];
  if (context.detail === 'far') return [shape, ...stripe, bigText('leaf-big', leaf.title, w, h)];
  if (data) {
    const y = leaf.kind === 'input' ? 0 : leaf.kind === 'output' ? 8 : 4;
    const second =
      leaf.subtitle === '' ? [] : [text('leaf-data-type', w / 2, y + 30, leaf.subtitle)];
    return [
      shape,
      text('leaf-data-title', w / 2, y + (second.length > 0 ? 16 : 15), leaf.title),
      ...second,
    ];
  }
  const soft = leaf.kind !== 'compute' && leaf.kind !== 'opaque';
  const title = soft ? 'leaf-title-soft' : 'leaf-title';
  const two = leaf.subtitle !== '';
  const x = soft && !two ? 14 : 12;
  return [
    shape,
    ...stripe,
    text(title, x, two ? 18 : h / 2 + 4.5, leaf.title),
    ...(two ? [text('leaf-name', x, 33, leaf.subtitle)] : []),
    ...(leaf.future === undefined ? [] : [text('leaf-tag', w - 7, 16, leaf.future)]),
  ];
}

/** Width by the order of magnitude of what flows. */
export function edgeWidth(bytes: number): number {
  return (
    Math.round(Math.max(1.2, Math.min(6, 0.6 + Math.log2(Math.max(1, bytes / 1024)) * 0.28)) * 10) /
    10
  );
}

export function routePath(route: Route): string {
  switch (route.kind) {
    case 'none':
      return '';
    case 'stub': {
      const [[a, b], [c, d]] = [route.from, route.to];
      return `M${a},${b} v${STUB} M${c},${d - STUB} V${d}`;
    }
    case 'path': {
      const p = route.points;
      let d = `M${p[0] ?? 0},${p[1] ?? 0}`;
      for (let i = 2; i + 1 < p.length; i += 2) {
        const [x0, y0, x, y] = [p[i - 2] ?? 0, p[i - 1] ?? 0, p[i] ?? 0, p[i + 1] ?? 0];
        if (Math.abs(x - x0) < 0.05) d += `V${y}`;
        else d += `C${x0},${(y0 + y) / 2} ${x},${(y0 + y) / 2} ${x},${y}`;
      }
      return d;
    }
  }
}

function arrow(route: Route, size: number): string {
  const [x, y] =
    route.kind === 'path'
      ? [route.points.at(-2) ?? 0, route.points.at(-1) ?? 0]
      : route.kind === 'stub'
        ? route.to
        : [0, 0];
  return `M${x},${y} l${-size * 0.55},${-size} h${size * 1.1} Z`;
}

export function edgeMarks(item: PlacedEdge, context: MarkContext): readonly Mark[] {
  const { edge, route } = item;
  const rejected = edge.rejected !== undefined && edge.kind === 'memory';
  const line: MarkClass = rejected
    ? 'edge-rejected'
    : edge.kind === 'memory'
      ? 'edge-memory'
      : edge.kind === 'leg'
        ? 'edge-leg'
        : 'edge-free';
  const width = edge.kind === 'memory' ? edgeWidth(edge.bytes) : 1;
  const marks: Mark[] = [
    { tag: 'path', mark: line, at: { d: routePath(route), 'stroke-width': width } },
  ];
  const head = edge.kind === 'memory' ? 6 + width : 5;
  const outLeg = edge.kind === 'leg' && edge.decisions.length === 0 && edge.label === '';
  if (context.detail === 'near' && !(outLeg && edge.from.includes('/')))
    marks.push(
      path(
        rejected ? 'arrow-rejected' : edge.kind === 'free' ? 'arrow-free' : 'arrow',
        arrow(route, head),
      ),
    );
  return marks;
}

/** What stands upon the lines: drawn after all of them. */
export function overlayMarks(
  item: PlacedEdge,
  context: MarkContext & { readonly label: boolean },
): readonly Mark[] {
  const { edge, route } = item;
  const marks: Mark[] = [];
  if (route.kind === 'stub' && context.detail === 'near') {
    const [[a, b], [c, d]] = [route.from, route.to];
    marks.push(
      { tag: 'circle', mark: 'stub-dot', at: { cx: a, cy: b + STUB, r: 3 } },
      { tag: 'circle', mark: 'stub-dot', at: { cx: c, cy: d - STUB, r: 3 } },
      text('stub-label', a, b + STUB + 14, `→ ${fitText(edge.toName, 90, 10)}`),
      text('stub-label', c, d - STUB - 7, `${fitText(edge.fromName, 90, 10)} →`),
    );
  } else if (context.label && edge.label !== '') {
    marks.push(text('edge-label', item.labelAt[0], item.labelAt[1] + 3.5, edge.label));
  }
  if (edge.rejected !== undefined && edge.kind === 'memory')
    marks.push(...rejectMarks(item, edge.rejected, context));
  return marks;
}

/** "Not this way" with the code of the reason. */
function rejectMarks(item: PlacedEdge, code: string, context: MarkContext): readonly Mark[] {
  const [x, y] = item.markAt;
  if (context.detail === 'far')
    return [{ tag: 'circle', mark: 'reject-sign', at: { cx: x, cy: y, r: 9 } }];
  const w = Math.round(code.length * 5.9 + 24);
  return [
    {
      tag: 'rect',
      mark: 'reject-pill',
      at: { x: x - w / 2, y: y - 8, width: w, height: 16, rx: 8 },
    },
    path(
      'reject-sign',
      `M${x - w / 2 + 5},${y - 2.6} l2.4,-2.4 h3.4 l2.4,2.4 v3.4 l-2.4,2.4 h-3.4 l-2.4,-2.4 Z`,
    ),
    text('reject-code', x - w / 2 + 17, y + 3.4, code),
  ];
}

/** The pattern that colours an item. */
export function patternOf(item: PlacedKernel | PlacedLeaf): Pattern {
  return item.kind === 'kernel' ? item.box.kernel.pattern : (item.leaf.pattern ?? 'single');
}
