/**
 * A placed scene as an SVG file that looks right anywhere: no style sheet, no script, the colours
 * spelt out. The panel exports it; the command line can too.
 */
import type { Pattern } from '../../compiler/fusion/verdicts';
import { kernelUs, type Times } from './graphIndex';
import {
  edgeMarks,
  frameMarks,
  kernelMarks,
  leafMarks,
  overlayMarks,
  patternOf,
  type Mark,
  type MarkContext,
} from './marks';
import { chooseLabels } from './lod';
import type { Palette } from './palette';
import type { PlacedScene } from './placed';
import { markAttributes, UI_FONT } from './styles';

export interface SvgPart {
  readonly title: string;
  readonly placed: PlacedScene;
}

const MARGIN = 24;
const TITLE = 28;

/** One or more drawings beside each other, each with its title. */
export function svgText(
  parts: readonly SvgPart[],
  palette: Palette,
  options: { readonly times?: Times; readonly heat?: boolean; readonly caption?: string } = {},
): string {
  const body: string[] = [];
  let x = MARGIN;
  let height = 0;
  for (const { title, placed } of parts) {
    body.push(
      `<g transform="translate(${x},${MARGIN})">`,
      `<text x="0" y="14" font-size="15" font-weight="600" fill="${palette.foreground}">${escapeXml(title)}</text>`,
      `<g transform="translate(0,${TITLE})">`,
      ...sceneText(placed, palette, options),
      '</g>',
      '</g>',
    );
    x += Math.max(placed.width, title.length * 8) + 2 * MARGIN;
    height = Math.max(height, placed.height);
  }
  const width = Math.ceil(Math.max(x - MARGIN, 200));
  const tall = Math.ceil(height + TITLE + 2 * MARGIN);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${tall}" viewBox="0 0 ${width} ${tall}" font-family='${UI_FONT}'>`,
    `<title>${escapeXml(options.caption ?? parts.map((part) => part.title).join(', '))}</title>`,
    `<rect width="${width}" height="${tall}" fill="${palette.background}"/>`,
    ...body,
    '</svg>',
    '',
  ].join('\n');
}

function sceneText(
  placed: PlacedScene,
  palette: Palette,
  options: { readonly times?: Times; readonly heat?: boolean },
): readonly string[] {
  const totalUs = placed.kernels.reduce(
    (sum, { box }) => sum + kernelUs(box.kernel, options.times),
    0,
  );
  const context: MarkContext = {
    detail: 'near',
    heat: options.heat ?? false,
    totalUs,
    ...(options.times ? { times: options.times } : {}),
  };
  const lines: string[] = [];
  const group = (
    item: { x: number; y: number },
    tooltip: string,
    marks: readonly string[],
  ): void => {
    lines.push(
      `<g transform="translate(${item.x},${item.y})"><title>${escapeXml(tooltip)}</title>`,
      ...marks,
      '</g>',
    );
  };
  const draw = (marks: readonly Mark[], pattern: Pattern): string[] =>
    marks
      // A file can't be unfolded.
      .filter(({ action }) => action === undefined)
      .map((mark) => markText(mark, palette, pattern));
  for (const item of placed.frames) group(item, item.title, draw(frameMarks(item), 'single'));
  for (const item of placed.kernels)
    group(item, item.box.tooltip, draw(kernelMarks(item, context), patternOf(item)));
  for (const item of placed.edges) lines.push(...draw(edgeMarks(item, context), 'single'));
  for (const item of placed.leaves)
    group(item, item.leaf.tooltip, draw(leafMarks(item, context), patternOf(item)));
  const labels = chooseLabels(placed.edges);
  for (const item of placed.edges)
    lines.push(...draw(overlayMarks(item, { ...context, label: labels.has(item.id) }), 'single'));
  return lines;
}

function markText({ tag, mark, at, text }: Mark, palette: Palette, pattern: Pattern): string {
  const attributes = { ...markAttributes(mark, palette, pattern), ...at };
  const list = Object.entries(attributes)
    .map(([name, value]) => `${name}="${escapeXml(String(value))}"`)
    .join(' ');
  return text === undefined ? `<${tag} ${list}/>` : `<${tag} ${list}>${escapeXml(text)}</${tag}>`;
}

export function escapeXml(text: string): string {
  let result = '';
  for (const c of text) {
    const code = c.codePointAt(0) ?? 0;
    if ('&<>"\''.includes(c)) result += `&#${code};`;
    // XML cannot hold control characters at all.
    else result += code < 32 && !'\t\n\r'.includes(c) ? '\ufffd' : c;
  }
  return result;
}
