/**
 * Reading a text that is nearly one that was read before: only the statements that an edit touches are
 * lexed and parsed anew, the others are taken as they were, the very same objects.
 *
 * Vocabulary
 *  - *boundary*: the start of a line at which no bracket is open: reading can begin and end there.
 *  - *middle*: what lies between the last boundary before an edit and the first one behind it.
 *
 * Whatever is unusual is read from the start: an edit that leaves a bracket open, and texts with characters that
 * start no token.
 */
import type { Statement, SyntaxTree } from './ast';
import { type Part, partsOf } from './cursor';
import { lex, type Token } from './lexer';
import { movedStatement } from './moved';
import { parsePart, parseText } from './parser';

/** A part of the text, with what it was read as. */
interface ReadPart {
  /** Where the next line starts, and its number; undefined where the part doesn't end with its line. */
  readonly next: { readonly offset: number; readonly line: number } | undefined;
  readonly statements: readonly Statement[];
  /** Whether something is wrong with it: then it is read again, so that this is said again. */
  readonly faulty: boolean;
}

interface ReadText {
  readonly text: string;
  readonly parts: readonly ReadPart[];
  readonly tree: SyntaxTree;
}

/** Of a text with more mistakes nothing is kept. */
const MOST_FAULTS = 100;

/** The text of the version before, as it was read. */
export class TextMemory {
  private last: ReadText | undefined;

  parse(source: string): SyntaxTree {
    const text = source.charCodeAt(0) === 0xfeff ? source.slice(1) : source;
    const read = (this.last && again(this.last, text)) ?? fromStart(text);
    // Faults of the lexer belong to no part: they are found again only where all is read.
    const { diagnostics } = read.tree;
    const faulty = read.parts.filter((p) => p.faulty).length;
    this.last = diagnostics.length > faulty || faulty > MOST_FAULTS ? undefined : { text, ...read };
    return read.tree;
  }
}

type Read = Omit<ReadText, 'text'>;

function fromStart(text: string): Read {
  const parts: ReadPart[] = [];
  const tree = parseText(text, (part, statements, faulty) =>
    parts.push({ next: lineAfter(part, text, 0), statements, faulty }),
  );
  return { parts, tree };
}

/** @param from where the text starts that offsets of tokens count in */
function lineAfter({ end }: Part, text: string, from: number): ReadPart['next'] {
  if (end.kind !== 'newline') return undefined;
  const long = text.charAt(end.start) === '\r' && text.charAt(end.start + 1) === '\n';
  return { offset: from + end.start + (long ? 2 : 1), line: end.line + 1 };
}

/** Undefined where all must be read from the start. */
function again(old: ReadText, text: string): Read | undefined {
  if (old.text === text) return old;
  const { parts } = old;
  const by = text.length - old.text.length;
  const { first, last } = difference(old.text, text);

  // Parts before the edit: the last of them ends with its line, whose end isn't touched.
  let before = 0;
  for (const [i, p] of parts.entries()) {
    if (p.faulty || (p.next && p.next.offset >= first)) break;
    if (p.next) before = i + 1;
  }
  // Parts behind it: they start after a boundary of which the line before isn't touched.
  let behind: number | undefined;
  for (let i = parts.length - 1; i >= before; i--) {
    const p = parts[i];
    if (p?.next && p.next.offset <= last) break;
    if (p?.next) behind = i + 1;
    if (p?.faulty) break;
  }
  const start = parts[before - 1]?.next ?? { offset: 0, line: 0 };
  const end = behind === undefined ? undefined : parts[behind - 1]?.next;

  const middle = copied(text.slice(start.offset, end && end.offset + by));
  if (start.offset > 0 && middle.charCodeAt(0) === 0xfeff) return undefined;
  const { tokens, diagnostics } = lex(middle, start.line);
  // The lines behind the edit are others where some came or went.
  const lines = end ? lastLine(tokens) - end.line : 0;
  if (end && !endsWithLine(tokens, end.line + lines)) return undefined;
  const fresh: ReadPart[] = [];
  for (const part of partsOf(tokens)) {
    // A bracket is open: the statement goes on.
    if (end && part.end.kind === 'end') return undefined;
    const faults = diagnostics.length;
    const statements = parsePart(part, middle, diagnostics);
    const next = lineAfter(part, middle, start.offset);
    fresh.push({ next, statements, faulty: diagnostics.length > faults });
  }
  const all = [
    ...parts.slice(0, before),
    ...fresh,
    ...(behind === undefined ? [] : parts.slice(behind).map((p) => moved(p, by, lines))),
  ];
  const statements = all.flatMap((p) => p.statements);
  return { parts: all, tree: { statements, diagnostics } };
}

/** Where two texts start to differ, and the end of that in the first. */
function difference(a: string, b: string): { readonly first: number; readonly last: number } {
  const most = Math.min(a.length, b.length);
  let first = 0;
  while (first < most && a.charCodeAt(first) === b.charCodeAt(first)) first++;
  let tail = 0;
  while (
    tail < most - first &&
    a.charCodeAt(a.length - 1 - tail) === b.charCodeAt(b.length - 1 - tail)
  )
    tail++;
  return { first, last: a.length - tail };
}

/** Whether the tokens end where the line of that number starts, and not in the middle of a joined line. */
function endsWithLine(tokens: readonly Token[], line: number): boolean {
  const newline = tokens.at(-2);
  return newline?.kind === 'newline' && newline.line === line - 1 && tokens.at(-1)?.line === line;
}

/** The line that what comes behind the tokens is in. */
function lastLine(tokens: readonly Token[]): number {
  return tokens.at(-1)?.line ?? 0;
}

/** @param by units of text, and lines, further on */
function moved(p: ReadPart, by: number, lines: number): ReadPart {
  if (by === 0 && lines === 0) return p;
  return {
    ...p,
    next: p.next && { offset: p.next.offset + by, line: p.next.line + lines },
    statements: lines === 0 ? p.statements : p.statements.map((s) => movedStatement(s, lines)),
  };
}

/** The same text without the one that it was cut out of, which would stay in memory with it. */
function copied(text: string): string {
  return text.split('').join('');
}
