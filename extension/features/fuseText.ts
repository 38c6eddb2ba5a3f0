/**
 * What lenses and edits need to know of a `.fuse` text at once, without a compile. Cheap enough for
 * every keystroke, and it never fails.
 */
import { parseFuse } from '../../compiler/import/fuse';
import { occurrences } from '../../compiler/import/fuse/outline';
import { scanFuse } from '../../compiler/import/fuse/scan';
import type { OpLine } from './lensText';

/** Lines with ops, from top to bottom, each once. */
export function opLines(text: string): readonly OpLine[] {
  const lines = new Map<number, string[]>();
  for (const { line, id } of scanFuse(text).ops) {
    const ids = lines.get(line);
    if (ids) ids.push(id);
    else lines.set(line, [id]);
  }
  return [...lines].sort(([a], [b]) => a - b).map(([line, ops]) => ({ line, ops }));
}

/** Names that a directive can refer to. */
export function definedNames(text: string): ReadonlySet<string> {
  const defined = occurrences(parseFuse(text)).filter(({ role }) => role === 'definition');
  return new Set(defined.map(({ name }) => name));
}
