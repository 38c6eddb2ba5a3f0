/**
 * Numbers and counts as people read them. One place, so that a lens, a hover and the status bar
 * never word the same quantity differently.
 */

const BINARY_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const;
const FLOP_UNITS = ['flop', 'kflop', 'Mflop', 'Gflop', 'Tflop', 'Pflop'] as const;

/** `0 B`, `512 B`, `12.0 MiB`. */
export function formatBytes(bytes: number): string {
  return scaled(bytes, 1024, BINARY_UNITS);
}

export function formatFlops(flops: number): string {
  return scaled(flops, 1000, FLOP_UNITS);
}

function scaled(value: number, step: number, units: readonly string[]): string {
  let unit = 0;
  let rest = Math.abs(value);
  while (unit < units.length - 1 && Math.round(rest) >= step) {
    rest /= step;
    unit++;
  }
  const sign = value < 0 ? '-' : '';
  const digits =
    unit === 0 ? String(Math.round(rest)) : rest >= 100 ? rest.toFixed(0) : rest.toFixed(1);
  return `${sign}${digits} ${units[unit] ?? ''}`;
}

/** Microseconds: `0.8 µs`, `41 µs`, `1.25 ms`, `3.10 s`. */
export function formatMicroseconds(us: number): string {
  if (us < 9.95) return `${us.toFixed(1)} µs`;
  if (us < 999.5) return `${us.toFixed(0)} µs`;
  if (us < 999_500) return `${(us / 1000).toPrecision(3)} ms`;
  return `${(us / 1e6).toPrecision(3)} s`;
}

/** `3.1×`, near to one `1.03×`; a big factor needs no digit after the point. */
export function formatFactor(factor: number): string {
  return `${factor.toFixed(factor >= 99.5 ? 0 : factor >= 1.95 ? 1 : 2)}×`;
}

/** `1 kernel`, `2 kernels`. */
export function count(n: number, singular: string, plural = `${singular}s`): string {
  return `${n.toLocaleString('en-US')} ${n === 1 ? singular : plural}`;
}

/** One line, at most `limit` characters, cut with an ellipsis. */
export function shorten(text: string, limit: number): string {
  const line = text.replace(/\s+/g, ' ').trim();
  const characters = [...line];
  return characters.length <= limit ? line : `${characters.slice(0, limit - 1).join('')}…`;
}

/** What comes before the first comma, colon or full stop that leaves enough: for places with one line. */
export function firstClause(text: string): string {
  const end = /(?<=.{20})[.;:,](?=\s|$)/.exec(text);
  const clause = end ? text.slice(0, end.index) : text;
  const open = clause.lastIndexOf('(');
  // Half an aside says nothing.
  return open > 20 && !clause.includes(')', open) ? clause.slice(0, open).trimEnd() : clause;
}

/** `f32[B, 1024]`. */
export function formatType(dtype: string, shape: readonly (number | string)[]): string {
  return `${dtype}[${shape.join(', ')}]`;
}
