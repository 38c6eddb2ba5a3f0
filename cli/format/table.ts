/**
 * Aligned columns of text, by the width that terminals give to characters.
 */
import { stripColours } from './colour';

export type Align = 'left' | 'right';

/** Lines with two spaces between columns; trailing spaces are cut. */
export function table(rows: readonly (readonly string[])[], align: readonly Align[]): string[] {
  const widths: number[] = [];
  for (const row of rows)
    row.forEach((cell, i) => (widths[i] = Math.max(widths[i] ?? 0, displayWidth(cell))));
  return rows.map((row) =>
    row
      .map((cell, i) => {
        const space = ' '.repeat((widths[i] ?? 0) - displayWidth(cell));
        return align[i] === 'right' ? space + cell : cell + space;
      })
      .join('  ')
      .trimEnd(),
  );
}

/** Most text is of these characters alone, each a cell wide. */
const PRINTABLE = /^[ -~]*$/;

/** Cells that a terminal uses: two for wide East Asian characters and emoji, none for marks. */
export function displayWidth(text: string): number {
  if (PRINTABLE.test(text)) return text.length;
  let width = 0;
  for (const ch of stripColours(text)) {
    const c = ch.codePointAt(0) ?? 0;
    if (c < 0x20 || (c >= 0x7f && c < 0xa0)) continue;
    if (c >= 0x300 && /^[\p{Mn}\p{Me}\p{Cf}]$/u.test(ch)) continue;
    width += isWide(c) ? 2 : 1;
  }
  return width;
}

const WIDE: readonly (readonly [number, number])[] = [
  [0x1100, 0x115f],
  [0x2e80, 0x303e],
  [0x3041, 0xa4cf],
  [0xa960, 0xa97f],
  [0xac00, 0xd7a3],
  [0xf900, 0xfaff],
  [0xfe30, 0xfe6f],
  [0xff00, 0xff60],
  [0xffe0, 0xffe6],
  [0x1f300, 0x1f64f],
  [0x1f680, 0x1f6ff],
  [0x1f900, 0x1f9ff],
  [0x20000, 0x3fffd],
];

function isWide(c: number): boolean {
  return c >= 0x1100 && WIDE.some(([from, to]) => c >= from && c <= to);
}

/** At most `width` cells, with `…` where something was cut. */
export function shorten(text: string, width: number): string {
  if (displayWidth(text) <= width) return text;
  if (PRINTABLE.test(text)) return `${text.slice(0, Math.max(0, width - 1))}…`;
  let out = '';
  for (const ch of text) {
    if (displayWidth(out + ch) > width - 1) break;
    out += ch;
  }
  return `${out}…`;
}

/** Names come from files: control characters would reach the terminal. */
export function plain(text: string): string {
  return text.replace(/\p{Cc}/gu, ' ');
}
