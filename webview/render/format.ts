/** Numbers, sizes and shapes as people read them, short enough for a label. */
import type { ShownDim, TensorView } from '../../compiler/result';

/** U+00A0: keeps a number and its unit on one line. */
const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const;
const COUNT_UNITS = ['', 'k', 'M', 'G', 'T', 'P'] as const;

function scale(value: number, step: number, units: readonly string[]): readonly [string, string] {
  let rest = Math.abs(value);
  let unit = 0;
  while (unit < units.length - 1 && Number(rest.toPrecision(3)) >= step) {
    rest /= step;
    unit++;
  }
  const digits =
    unit === 0 && Number.isInteger(rest)
      ? String(rest)
      : rest >= 100
        ? rest.toFixed(0)
        : rest.toFixed(1);
  return [`${value < 0 ? '−' : ''}${digits}`, units[unit] ?? ''];
}

export function formatBytes(bytes: number): string {
  return scale(Math.round(bytes), 1024, BYTE_UNITS).join(' ');
}

/** `3.3 → 1.3 MiB`: the unit once where both have it. */
export function formatBytesChange(from: number, to: number): string {
  const [before, unit] = scale(Math.round(from), 1024, BYTE_UNITS);
  const [after, other] = scale(Math.round(to), 1024, BYTE_UNITS);
  return unit === other ? `${before} → ${after} ${unit}` : `${before} ${unit} → ${after} ${other}`;
}

/** `1.40× faster`, `1.40× slower`, or that it makes no difference. */
export function formatGain(factor: number): string {
  if (!Number.isFinite(factor) || factor <= 0) return '';
  if (Math.abs(factor - 1) < 0.005) return 'no faster';
  return factor > 1 ? `${formatFactor(factor)} faster` : `${formatFactor(1 / factor)} slower`;
}

export function formatFlops(flops: number): string {
  const [digits, unit] = scale(flops, 1000, COUNT_UNITS);
  return `${digits} ${unit}flop`;
}

export function formatUs(us: number): string {
  if (!Number.isFinite(us)) return '–';
  if (us < 9.95) return `${us.toFixed(1)} µs`;
  if (us < 999.5) return `${us.toFixed(0)} µs`;
  if (us < 999_500) return `${(us / 1000).toPrecision(3)} ms`;
  return `${(us / 1e6).toPrecision(3)} s`;
}

export function formatFactor(factor: number): string {
  if (!Number.isFinite(factor)) return '–';
  return `${factor >= 99.5 ? factor.toFixed(0) : factor >= 9.95 ? factor.toFixed(1) : factor.toFixed(2)}×`;
}

/** At most three digits that mean something. */
export function formatNumber(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size < 1e-3 || size >= 1e7) return value.toExponential(1);
  if (size >= 100) return Math.round(value).toLocaleString('en-US');
  return String(Number(value.toPrecision(3)));
}

export function formatPercent(share: number): string {
  return `${(share * 100).toFixed(share < 0.0995 ? 1 : 0)} %`;
}

/** `64×(H + 1) // 2` could be read two ways: a dim that is itself an expression is put in brackets. */
export function formatShape(shape: readonly ShownDim[]): string {
  if (shape.length === 0) return 'scalar';
  const bracketed = shape.length > 1;
  return shape
    .map((dim) => (bracketed && typeof dim === 'string' && dim.includes(' ') ? `(${dim})` : dim))
    .join('×');
}

/** The shape in `width` px of text: where its names are too long, the sizes that they stand for now. */
export function fitShape({ shape, sizes }: TensorView, width: number, size: number): string {
  const named = formatShape(shape);
  return textWidth(named, size) <= width || !sizes
    ? fitText(named, width, size)
    : fitText(formatShape(sizes), width, size);
}

/** The shape as it is written, and what its names stand for now. */
export function shapeText({ shape, sizes }: TensorView): string {
  return `${formatShape(shape)}${sizes ? ` (now ${formatShape(sizes)})` : ''}`;
}

export function plural(n: number, one: string, many = `${one}s`): string {
  return `${n.toLocaleString('en-US')} ${n === 1 ? one : many}`;
}

/** One line of at most `limit` characters. */
export function shorten(text: string, limit: number): string {
  const characters = [...text.replace(/\s+/g, ' ').trim()];
  return characters.length <= limit
    ? characters.join('')
    : `${characters.slice(0, Math.max(1, limit - 1)).join('')}…`;
}

/** Widths of the printable ASCII characters, in em. */
const WIDTHS: readonly number[] = Array.from({ length: 128 }, (_, code) => {
  const c = String.fromCharCode(code);
  if (/[ijlft.,:;|!'()[\]{} ]/.test(c)) return 0.34;
  if (/[mwMW@%]/.test(c)) return 0.92;
  if (/[+=<>_~]/.test(c)) return 0.84;
  return /[A-Z0-9]/.test(c) ? 0.66 : 0.6;
});

function charWidth(code: number): number {
  if (code < 128) return WIDTHS[code] ?? 0.58;
  // Beyond Latin, Greek and Cyrillic come wide scripts.
  return code === 0xb7 ? 0.34 : code > 0x2e80 ? 1.05 : 0.84;
}

/**
 * Width of a text in a sans-serif interface font, estimated: the layout runs in a worker and in the
 * command line, where nothing can be measured. Errs on the wide side.
 */
export function textWidth(text: string, size: number, bold = false): number {
  let em = 0;
  for (let i = 0; i < text.length; i++) em += charWidth(text.charCodeAt(i));
  return em * size * (bold ? 1.07 : 1);
}

/** Cuts a text so that it fits a width. */
export function fitText(text: string, width: number, size: number, bold = false): string {
  // Nobody reads more of it, and some tools make names of thousands of characters.
  const line = text.slice(0, 600).replace(/\s+/g, ' ').trim();
  if (textWidth(line, size, bold) <= width && text.length <= 600) return line;
  let used = textWidth('…', size, bold);
  let kept = '';
  for (const c of line) {
    used += textWidth(c, size, bold);
    if (used > width) break;
    kept += c;
  }
  return `${kept.trimEnd()}…`;
}
