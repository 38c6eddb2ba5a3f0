/**
 * What the features need to know of a `.fuse` text at once, without a compile: where its ops stand
 * and which names it defines. Cheap enough for every keystroke, and it never fails.
 */
import type { SourcePosition, SourceRange } from '../../compiler/diagnostics';
import { definedNames as namesOf, parseFuse } from '../../compiler/import/fuse';
import type { Expression, OpSite } from '../../compiler/import/fuse/ast';
import type { OpLine } from './lensText';

/** Lines with ops, from top to bottom, each once. */
export function opLines(text: string): readonly OpLine[] {
  const lines = new Map<number, string[]>();
  for (const statement of parseFuse(text).statements) {
    if (statement.kind !== 'assign') continue;
    const base = statement.targets[0]?.name ?? '';
    for (const { spelling, ordinal, range } of sitesOf(statement.value)) {
      const id = `${base}#${spelling}${ordinal > 0 ? `/${ordinal}` : ''}`;
      const { line } = range.start;
      const ids = lines.get(line);
      if (ids) ids.push(id);
      else lines.set(line, [id]);
    }
  }
  return [...lines].sort(([a], [b]) => a - b).map(([line, ops]) => ({ line, ops }));
}

function sitesOf(expression: Expression): OpSite[] {
  switch (expression.kind) {
    case 'call':
      return [expression.site, ...expression.args.flatMap(({ value }) => sitesOf(value))];
    case 'chain':
      return [
        ...sitesOf(expression.first),
        ...expression.rest.flatMap(({ site, right }) => [site, ...sitesOf(right)]),
      ];
    case 'negate':
      return [expression.site, ...sitesOf(expression.operand)];
    case 'list':
      return expression.items.flatMap(sitesOf);
    case 'number':
    case 'string':
    case 'bool':
    case 'none':
    case 'name':
    case 'unknown':
    case 'faulty':
      return [];
  }
}

/** Names that a directive can refer to. */
export function definedNames(text: string): ReadonlySet<string> {
  const names = new Set<string>();
  for (const statement of parseFuse(text).statements)
    for (const { name } of namesOf(statement)) names.add(name);
  return names;
}

/** The name at a position, whole. */
export function nameAt(
  text: string,
  at: SourcePosition,
): { readonly name: string; readonly range: SourceRange } | undefined {
  const line = text.split(/\r\n|\n|\r/, at.line + 1)[at.line] ?? '';
  for (const match of line.matchAll(/[\p{L}_][\p{L}\p{N}_]*/gu)) {
    const end = match.index + match[0].length;
    if (at.column >= match.index && at.column <= end)
      return {
        name: match[0].normalize('NFC'),
        range: {
          start: { line: at.line, column: match.index },
          end: { line: at.line, column: end },
        },
      };
  }
  return undefined;
}
