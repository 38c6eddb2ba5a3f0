/**
 * What an editor asks of a `.fuse` text: its outline, the symbol under the cursor, and where a name
 * is defined and used.
 *
 * Vocabulary
 *  - *occurrence*: one place where a name stands: its definition, or a use. Names have one meaning in
 *    the whole file, so equal names are the same symbol. Op names, dtypes and argument names are no
 *    symbols.
 *
 * Everything works on the syntax tree: a text with faults has an outline too.
 */
import type { SourcePosition, SourceRange } from '../../diagnostics';
import {
  definedNames,
  type Expression,
  type Named,
  partsOf,
  type Statement,
  type SyntaxTree,
} from './ast';
import type { SymbolKind } from './binder';
import { lex } from './lexer';
import { parseFuse } from './parser';
import { dtypeOf } from './values';

export interface OutlineSymbol {
  readonly kind: SymbolKind | 'output' | 'directive';
  readonly name: string;
  /** Beside the name: a type, a value, the outermost op. */
  readonly detail: string;
  /** The whole statement. */
  readonly range: SourceRange;
  /** The name itself. */
  readonly selectionRange: SourceRange;
}

export interface Occurrence extends Named {
  readonly role: 'definition' | 'use';
  /** Of the symbol it names; undefined when nothing defines it. */
  readonly kind?: SymbolKind;
}

// ---------------------------------------------------------------------------------------------
// Outline

export function outlineFuse(source: string): OutlineSymbol[] {
  const text = source.charCodeAt(0) === 0xfeff ? source.slice(1) : source;
  const lines = text.split(/\r\n|\r|\n/);
  return parseFuse(text).statements.flatMap((s) => outlineOf(s, lines));
}

function outlineOf(s: Statement, lines: readonly string[]): OutlineSymbol[] {
  const { range } = s;
  const symbol = (kind: OutlineSymbol['kind'], n: Named, detail: string): OutlineSymbol => ({
    kind,
    name: n.name,
    detail,
    range,
    selectionRange: n.range,
  });
  switch (s.kind) {
    case 'dim':
      return [symbol('dim', s.name, s.value ? `= ${slice(lines, s.value.range)}` : '')];
    case 'input':
    case 'param': {
      const type = s.type ? slice(lines, s.type.range) : '';
      return s.names.map((n) => symbol(s.kind, n, type));
    }
    case 'const':
      return [symbol('const', s.name, s.value ? `= ${slice(lines, s.value.range)}` : '')];
    case 'assign': {
      const detail = outermost(s.value);
      return s.targets.filter((t) => t.name !== '_').map((t) => symbol('value', t, detail));
    }
    case 'output':
      return s.names.map((n) => symbol('output', n, ''));
    case 'expect':
    case 'materialize':
    case 'recompute':
    case 'fuse':
    case 'nofuse':
    case 'schedule': {
      const text = s.text.replaceAll(/\s+/g, ' ');
      const name = text.length > 80 ? `${text.slice(0, 80)}…` : text;
      return [{ kind: 'directive', name, detail: '', range, selectionRange: range }];
    }
    case 'faulty':
      return [];
  }
}

/** The op that gives the value, in a word. */
function outermost(e: Expression): string {
  switch (e.kind) {
    case 'call':
      return e.callee;
    case 'chain':
      return e.rest[e.rest.length - 1]?.operator ?? '';
    case 'negate':
      return '-';
    case 'index':
      return '[]';
    default:
      return '';
  }
}

/** The text of a range; of several lines the first. */
function slice(lines: readonly string[], { start, end }: SourceRange): string {
  const line = lines[start.line] ?? '';
  if (start.line === end.line) return line.slice(start.column, end.column);
  return `${line.slice(start.column).trim()} …`;
}

// ---------------------------------------------------------------------------------------------
// Occurrences

/** Every name in the text, in source order. */
export function occurrences(tree: SyntaxTree): Occurrence[] {
  const kinds = new Map<string, SymbolKind>();
  for (const s of tree.statements) {
    for (const n of definedNames(s)) {
      const kind = kindOf(s);
      if (kind && !kinds.has(n.name)) kinds.set(n.name, kind);
    }
  }
  const out: Occurrence[] = [];
  const put = (n: Named, role: Occurrence['role']): void => {
    const kind = kinds.get(n.name);
    if (!kind && dtypeOf(n.name)) return;
    out.push({ name: n.name, range: n.range, role, ...(kind ? { kind } : {}) });
  };
  for (const s of tree.statements) {
    const defined = definedNames(s);
    for (const n of defined) put(n, 'definition');
    // The y of `y += 1` is both.
    for (const n of usesIn(s)) if (!defined.some((d) => sameStart(d, n))) put(n, 'use');
  }
  return out;
}

function sameStart(a: Named, b: Named): boolean {
  const [p, q] = [a.range.start, b.range.start];
  return p.line === q.line && p.column === q.column;
}

function kindOf(s: Statement): SymbolKind | undefined {
  switch (s.kind) {
    case 'dim':
    case 'input':
    case 'param':
    case 'const':
      return s.kind;
    case 'assign':
      return 'value';
    default:
      return undefined;
  }
}

function usesIn(s: Statement): Named[] {
  const out: Named[] = [];
  switch (s.kind) {
    case 'dim':
      if (s.value) namesIn(s.value, out);
      break;
    case 'input':
    case 'param':
      for (const e of s.type?.shape ?? []) namesIn(e, out);
      break;
    case 'const':
      for (const e of s.type?.shape ?? []) namesIn(e, out);
      if (s.value) namesIn(s.value, out);
      break;
    case 'assign':
      namesIn(s.value, out);
      break;
    case 'output':
      for (const n of s.names) out.push(n);
      break;
    case 'materialize':
    case 'recompute':
    case 'fuse':
      for (const n of s.values) out.push(n);
      break;
    case 'nofuse':
      out.push(s.from, s.to);
      break;
    case 'schedule':
      out.push(s.value);
      break;
    case 'expect':
      if (s.expectation?.kind === 'fused') for (const n of s.expectation.values) out.push(n);
      if (s.expectation?.kind === 'pattern') out.push(s.expectation.value);
      break;
    case 'faulty':
      break;
  }
  return out;
}

/** Names in an expression; nesting is limited by the parser, and long chains are flat. */
function namesIn(e: Expression, out: Named[]): void {
  switch (e.kind) {
    case 'name':
      out.push({ name: e.name, range: e.range });
      break;
    case 'list':
      for (const i of e.items) namesIn(i, out);
      break;
    case 'negate':
      namesIn(e.operand, out);
      break;
    case 'chain':
      namesIn(e.first, out);
      for (const l of e.rest) namesIn(l.right, out);
      break;
    case 'call':
      if (e.receiver) out.push(e.receiver);
      if (e.on) namesIn(e.on, out);
      for (const a of e.args) namesIn(a.value, out);
      break;
    case 'index':
      namesIn(e.base, out);
      for (const s of e.items) for (const part of partsOf(s)) namesIn(part, out);
      break;
    case 'number':
    case 'string':
    case 'bool':
    case 'none':
    case 'unknown':
    case 'faulty':
      break;
  }
}

/** The name under the position, or just before it. */
export function symbolAt(source: string, position: SourcePosition): Occurrence | undefined {
  return occurrences(parseFuse(source)).find((o) => contains(o.range, position));
}

/** Where the name under the position is defined: where it was last, before the statement that uses it. */
export function definitionOf(source: string, position: SourcePosition): SourceRange | undefined {
  const tree = parseFuse(source);
  const all = occurrences(tree);
  const here = all.find((o) => contains(o.range, position));
  if (here?.role !== 'use') return here?.range;
  const { start } = tree.statements.find((s) => contains(s.range, position))?.range ?? here.range;
  const defined = all.filter((o) => o.name === here.name && o.role === 'definition');
  const above = defined.filter((o) => isBefore(o.range.end, start));
  return (above.at(-1) ?? defined[0])?.range;
}

function isBefore(a: SourcePosition, b: SourcePosition): boolean {
  return a.line < b.line || (a.line === b.line && a.column <= b.column);
}

/** Every place where the name under the position stands, its definition included: what a rename edits. */
export function referencesOf(source: string, position: SourcePosition): Occurrence[] {
  const all = occurrences(parseFuse(source));
  const here = all.find((o) => contains(o.range, position));
  return here ? all.filter((o) => o.name === here.name) : [];
}

/** Whether a rename to this text gives a name that the language reads as one. */
export function isValidName(name: string): boolean {
  const { tokens, diagnostics } = lex(name);
  const [first, end] = tokens;
  return (
    diagnostics.length === 0 &&
    first?.kind === 'name' &&
    end?.kind === 'end' &&
    first.start === 0 &&
    first.end === name.length &&
    !['true', 'false', 'none', 'True', 'False', 'None', '_'].includes(name)
  );
}

function contains(range: SourceRange, p: SourcePosition): boolean {
  const after =
    p.line > range.start.line || (p.line === range.start.line && p.column >= range.start.column);
  const before =
    p.line < range.end.line || (p.line === range.end.line && p.column <= range.end.column);
  return after && before;
}
