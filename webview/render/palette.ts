/**
 * Colours: one hue per family of fusion, after Okabe and Ito's set that colour-blind people can tell
 * apart, made lighter or darker until it stands out on the theme's background. Colour is never the
 * only carrier: each pattern also has its glyph (glyphs.ts) and its name.
 *
 * Everything is computed here, from a theme's own colours, so that the page, an exported SVG and the
 * command line show the same picture.
 */
import type { Pattern } from '../../compiler/fusion/verdicts';

export type ThemeKind = 'dark' | 'light' | 'hc-dark' | 'hc-light';

/** What is taken from the theme (VS Code's variables), as #rrggbb. */
export interface ThemeColours {
  readonly kind: ThemeKind;
  readonly background: string;
  readonly foreground: string;
  readonly focus: string;
  readonly warning: string;
  readonly error: string;
  /** The border that high contrast themes put round everything. */
  readonly contrast?: string;
}

export interface PatternColours {
  /** Borders, stripes, glyphs. */
  readonly accent: string;
  /** The inside of a box. */
  readonly fill: string;
  /** The band behind its title. */
  readonly band: string;
}

export interface Palette {
  readonly kind: ThemeKind;
  readonly background: string;
  readonly foreground: string;
  readonly muted: string;
  readonly faint: string;
  readonly nodeFill: string;
  readonly nodeStroke: string;
  readonly edge: string;
  readonly edgeFree: string;
  readonly focus: string;
  readonly warning: string;
  readonly error: string;
  readonly heat: string;
  readonly patterns: Readonly<Record<Pattern, PatternColours>>;
}

const HUES: Readonly<Record<Pattern, string>> = {
  pointwise: '#56b4e9',
  'into-reduction': '#009e73',
  'after-reduction': '#4fc3a1',
  composite: '#cc79a7',
  horizontal: '#d9c01f',
  epilogue: '#e69f00',
  prologue: '#b8860b',
  'multi-output': '#4a86e8',
  attention: '#d55e00',
  view: '#8a8a8a',
  single: '#8f98a3',
  opaque: '#8a8a8a',
};

export const LIGHT_THEME: ThemeColours = {
  kind: 'light',
  background: '#ffffff',
  foreground: '#3b3b3b',
  focus: '#005fb8',
  warning: '#bf8803',
  error: '#e51400',
};
export const DARK_THEME: ThemeColours = {
  kind: 'dark',
  background: '#1f1f1f',
  foreground: '#cccccc',
  focus: '#0078d4',
  warning: '#cca700',
  error: '#f14c4c',
};

export function makePalette(theme: ThemeColours): Palette {
  const { kind, background, foreground } = theme;
  const dark = kind === 'dark' || kind === 'hc-dark';
  const high = kind === 'hc-dark' || kind === 'hc-light';
  const on = (share: number): string => mix(foreground, background, share);
  const border = theme.contrast ?? foreground;
  const patterns = Object.fromEntries(
    Object.entries(HUES).map(([pattern, hue]): [string, PatternColours] => {
      const accent = readable(hue, background, high ? 4.5 : 3);
      return [
        pattern,
        {
          accent,
          fill: high ? background : mix(accent, background, dark ? 0.09 : 0.07),
          band: high ? background : mix(accent, background, dark ? 0.24 : 0.2),
        },
      ];
    }),
  ) as Record<Pattern, PatternColours>;
  return {
    kind,
    background,
    foreground: high ? foreground : readable(foreground, background, 7),
    muted: high ? foreground : readable(on(0.74), background, 4.6),
    faint: on(high ? 0.6 : 0.3),
    nodeFill: high ? background : mix(foreground, background, dark ? 0.07 : 0.02),
    nodeStroke: high ? border : on(0.34),
    edge: high ? foreground : on(0.62),
    edgeFree: high ? foreground : on(0.42),
    focus: theme.focus,
    warning: readable(theme.warning, background, 3),
    error: readable(theme.error, background, 3),
    heat: readable('#d55e00', background, 3),
    patterns,
  };
}

type Rgb = readonly [number, number, number];

/** Accepts #rgb, #rrggbb, #rrggbbaa and rgb()/rgba(); anything else is black. */
export function parseColour(text: string): Rgb {
  const hex = /^#([0-9a-f]{3,8})$/i.exec(text.trim())?.[1];
  if (hex) {
    const full = hex.length <= 4 ? [...hex].map((c) => c + c).join('') : hex;
    const at = (i: number): number => parseInt(full.slice(i, i + 2), 16) || 0;
    return [at(0), at(2), at(4)];
  }
  const numbers = text.match(/[\d.]+/g)?.map(Number) ?? [];
  return [numbers[0] ?? 0, numbers[1] ?? 0, numbers[2] ?? 0];
}

function hexOf(rgb: Rgb): string {
  const two = (v: number): string =>
    Math.round(Math.max(0, Math.min(255, v)))
      .toString(16)
      .padStart(2, '0');
  return `#${rgb.map(two).join('')}`;
}

export function mix(a: string, b: string, share: number): string {
  const [x, y] = [parseColour(a), parseColour(b)];
  const at = (i: 0 | 1 | 2): number => x[i] * share + y[i] * (1 - share);
  return hexOf([at(0), at(1), at(2)]);
}

function luminance(colour: string): number {
  const [r, g, b] = parseColour(colour).map((v) => {
    const s = v / 255;
    return s <= 0.03928 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * (r ?? 0) + 0.7152 * (g ?? 0) + 0.0722 * (b ?? 0);
}

export function contrastRatio(a: string, b: string): number {
  const [x, y] = [luminance(a), luminance(b)];
  return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
}

/** Moves a colour towards black or white until it has the contrast. */
export function readable(colour: string, background: string, ratio: number): string {
  const towards = luminance(background) > 0.4 ? '#000000' : '#ffffff';
  let result = colour;
  for (let i = 0; i < 12 && contrastRatio(result, background) < ratio; i++)
    result = mix(towards, result, 0.15);
  return result;
}
