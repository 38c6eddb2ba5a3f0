/**
 * “Did you mean”: the known word nearest to an unknown one.
 */
import type { Diagnostic, SourceRange } from '../../diagnostics';

/**
 * Edits (insert, delete, replace, swap neighbours) from `a` to `b`; `limit + 1` as soon as it is
 * known to be more than `limit`.
 */
export function editDistance(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) > limit) return limit + 1;
  let older: number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    let least = i;
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      let d = Math.min(
        (previous[j] ?? 0) + 1,
        (row[j - 1] ?? 0) + 1,
        (previous[j - 1] ?? 0) + (same ? 0 : 1),
      );
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        d = Math.min(d, (older[j - 2] ?? 0) + 1);
      }
      row.push(d);
      if (d < least) least = d;
    }
    if (least > limit) return limit + 1;
    older = previous;
    previous = row;
  }
  return previous[b.length] ?? limit + 1;
}

/** Longer words than this are no typing mistakes of a known one. */
const LONGEST = 40;

/** The candidate nearest to `word`, when it is near enough to be a slip; the first of equals. */
export function nearest(word: string, candidates: Iterable<string>): string | undefined {
  if (word.length > LONGEST) return undefined;
  const lower = word.toLowerCase();
  // A third of the letters, so that a short name isn't "near" every other short name.
  let limit = word.length <= 2 ? 0 : Math.min(3, Math.floor((word.length + 1) / 3));
  let best: string | undefined;
  for (const c of candidates) {
    if (c === word) continue;
    const other = c.toLowerCase();
    if (other === lower) return c;
    if (limit === 0) continue;
    const d = editDistance(lower, other, limit);
    if (d > limit || (best !== undefined && d >= limit)) continue;
    best = c;
    limit = d;
  }
  return best;
}

/** The replacement of a range, as a quick fix; nothing when there is no suggestion. */
export function replaceFix(range: SourceRange, text: string | undefined): Partial<Diagnostic> {
  return text === undefined
    ? {}
    : { fixes: [{ title: `Change to ${text}`, edits: [{ range, newText: text }] }] };
}
