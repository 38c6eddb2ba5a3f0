/**
 * How each kind of mark looks: the one table that the page's style sheet and exported files are both
 * made from.
 *
 * A paint is a name in the palette; `accent`, `fill` and `band` are those of the item's pattern.
 */
import type { Pattern } from '../../compiler/fusion/verdicts';
import type { Palette, PatternColours } from './palette';

export type Paint = Exclude<keyof Palette, 'kind' | 'patterns'> | keyof PatternColours | 'none';

export interface MarkStyle {
  readonly fill?: Paint;
  readonly stroke?: Paint;
  readonly width?: number;
  readonly dash?: string;
  readonly opacity?: number;
  readonly size?: number;
  readonly bold?: boolean;
  readonly mono?: boolean;
  readonly italic?: boolean;
  readonly anchor?: 'start' | 'middle' | 'end';
  /** A rim in the background's colour, that parts a text from what it lies on. */
  readonly halo?: boolean;
}

export const MARKS = {
  frame: { fill: 'none', stroke: 'muted', width: 1.2, dash: '6 4' },
  'frame-title': { fill: 'muted', size: 12, italic: true, halo: true },
  'kernel-box': { fill: 'fill', stroke: 'accent', width: 1.5 },
  'kernel-band': { fill: 'band' },
  'kernel-glyph': { fill: 'accent' },
  'kernel-title': { fill: 'foreground', size: 12.5, bold: true },
  'kernel-label': { fill: 'muted', size: 11 },
  'kernel-time': { fill: 'foreground', size: 11, anchor: 'end' },
  'kernel-big': { fill: 'foreground', bold: true, anchor: 'middle' },
  'kernel-heat': { fill: 'heat' },
  'fold-button': { fill: 'background', stroke: 'accent', width: 1.2 },
  'fold-sign': { fill: 'none', stroke: 'foreground', width: 1.4 },
  'flag-off': { fill: 'warning' },
  leaf: { fill: 'nodeFill', stroke: 'nodeStroke', width: 1 },
  'leaf-view': { fill: 'background', stroke: 'nodeStroke', width: 1, dash: '4 3' },
  'leaf-opaque': { fill: 'background', stroke: 'error', width: 1.5, dash: '2 2' },
  'leaf-dead': { fill: 'background', stroke: 'faint', width: 1, dash: '1.5 3' },
  'leaf-data': { fill: 'background', stroke: 'edge', width: 1.2 },
  'leaf-param': { fill: 'background', stroke: 'nodeStroke', width: 1 },
  'leaf-output': { fill: 'background', stroke: 'edge', width: 2 },
  'leaf-stripe': { fill: 'accent' },
  'leaf-title': { fill: 'foreground', size: 12.5, bold: true },
  'leaf-title-soft': { fill: 'muted', size: 12, italic: true },
  'leaf-name': { fill: 'muted', size: 11 },
  'leaf-data-title': { fill: 'foreground', size: 12, anchor: 'middle' },
  'leaf-data-type': { fill: 'muted', size: 10.5, anchor: 'middle' },
  'leaf-tag': { fill: 'accent', size: 10, bold: true, anchor: 'end' },
  'leaf-big': { fill: 'foreground', bold: true, anchor: 'middle' },
  'edge-memory': { fill: 'none', stroke: 'edge' },
  'edge-leg': { fill: 'none', stroke: 'edge', width: 1 },
  'edge-free': { fill: 'none', stroke: 'edgeFree', width: 1, dash: '3 3' },
  'edge-rejected': { fill: 'none', stroke: 'warning' },
  arrow: { fill: 'edge' },
  'arrow-free': { fill: 'edgeFree' },
  'arrow-rejected': { fill: 'warning' },
  'edge-label': { fill: 'muted', size: 10.5, anchor: 'middle', halo: true },
  'stub-label': { fill: 'muted', size: 10, anchor: 'middle', italic: true, halo: true },
  'stub-dot': { fill: 'background', stroke: 'edge', width: 1.2 },
  'reject-pill': { fill: 'background', stroke: 'warning', width: 1.3 },
  'reject-sign': { fill: 'warning' },
  'reject-code': { fill: 'foreground', size: 9.5, mono: true },
  'bulk-kernel': { fill: 'band', stroke: 'accent', width: 1 },
  'bulk-leaf': { fill: 'nodeFill', stroke: 'nodeStroke', width: 1 },
  'bulk-edge': { fill: 'none', stroke: 'edgeFree', width: 1 },
} as const satisfies Record<string, MarkStyle>;

export type MarkClass = keyof typeof MARKS;

export const UI_FONT = '-apple-system, "Segoe UI", "Noto Sans", Ubuntu, "DejaVu Sans", sans-serif';
export const MONO_FONT = 'ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace';

/** Everything but colours and fonts, as SVG attributes. */
function geometry(style: MarkStyle): Record<string, string> {
  return {
    ...(style.width === undefined ? {} : { 'stroke-width': String(style.width) }),
    ...(style.dash === undefined ? {} : { 'stroke-dasharray': style.dash }),
    ...(style.opacity === undefined ? {} : { opacity: String(style.opacity) }),
    ...(style.size === undefined ? {} : { 'font-size': String(style.size) }),
    ...(style.bold ? { 'font-weight': '600' } : {}),
    ...(style.italic ? { 'font-style': 'italic' } : {}),
    ...(style.anchor === undefined ? {} : { 'text-anchor': style.anchor }),
    ...(style.halo
      ? { 'paint-order': 'stroke', 'stroke-width': '7', 'stroke-linejoin': 'round' }
      : {}),
  };
}

/** For files that stand alone: every property spelt out. */
export function markAttributes(
  mark: MarkClass,
  palette: Palette,
  pattern: Pattern,
): Readonly<Record<string, string>> {
  const style: MarkStyle = MARKS[mark];
  const colour = (paint: Paint): string =>
    paint === 'none'
      ? 'none'
      : paint === 'accent' || paint === 'fill' || paint === 'band'
        ? palette.patterns[pattern][paint]
        : palette[paint];
  const stroke = style.halo ? 'background' : style.stroke;
  return {
    ...(style.fill === undefined ? {} : { fill: colour(style.fill) }),
    ...(stroke === undefined ? {} : { stroke: colour(stroke) }),
    ...(style.mono ? { 'font-family': MONO_FONT } : {}),
    ...geometry(style),
  };
}

/** For the page: the same, with the palette as CSS variables that {@link paletteVariables} sets. */
export function markSheet(): string {
  const rules: string[] = [];
  for (const [name, style] of Object.entries(MARKS) as [MarkClass, MarkStyle][]) {
    const colour = (paint: Paint): string => (paint === 'none' ? 'none' : `var(--fl-${paint})`);
    const stroke = style.halo ? 'background' : style.stroke;
    const declarations = {
      ...(style.fill === undefined ? {} : { fill: colour(style.fill) }),
      ...(stroke === undefined ? {} : { stroke: colour(stroke) }),
      ...(style.mono ? { 'font-family': `var(--vscode-editor-font-family, ${MONO_FONT})` } : {}),
      ...geometry(style),
    };
    const body = Object.entries(declarations).map(
      ([key, value]) => `${key}: ${value}${key === 'font-size' ? 'px' : ''};`,
    );
    rules.push(`.${name} { ${body.join(' ')} }`);
  }
  return rules.join('\n');
}

export function paletteVariables(palette: Palette): ReadonlyMap<string, string> {
  const variables = new Map<string, string>();
  for (const [name, value] of Object.entries(palette))
    if (typeof value === 'string') variables.set(`--fl-${name}`, value);
  for (const [pattern, colours] of Object.entries(palette.patterns))
    for (const [name, value] of Object.entries(colours))
      variables.set(`--fl-${pattern}-${name}`, value as string);
  return variables;
}

/** Binds accent, fill and band to a pattern's colours: one rule per pattern. */
export function patternSheet(patterns: readonly Pattern[]): string {
  return patterns
    .map(
      (pattern) =>
        `.p-${pattern} { ${['accent', 'fill', 'band']
          .map((name) => `--fl-${name}: var(--fl-${pattern}-${name});`)
          .join(' ')} }`,
    )
    .join('\n');
}
