/**
 * The lexer of `.fuse`: text to tokens, with a diagnostic for each character it can't place.
 *
 * Vocabulary
 *  - *token*: a name, number, string or piece of punctuation. Comments and blanks make none; line
 *    ends do, since a statement ends with its line (unless a bracket is open).
 *  - *column*: counted in UTF-16 code units from 0, as editors do; a tab is one.
 *
 * Nothing here fails: a character that starts no token is reported (a run of them once) and skipped.
 */
import { error, type Diagnostic, type SourceRange } from '../../diagnostics';

export type TokenKind = 'name' | 'number' | 'string' | 'punctuation' | 'newline' | 'end';

export interface Token {
  readonly kind: TokenKind;
  /** The name (NFC), the punctuation, the number as written, or the string's value. */
  readonly text: string;
  /** Offsets into the text. */
  readonly start: number;
  readonly end: number;
  readonly line: number;
  readonly column: number;
}

export interface Lexed {
  readonly tokens: readonly Token[];
  /** The source without a byte order mark: what offsets count in. */
  readonly text: string;
  readonly diagnostics: Diagnostic[];
}

/** Longest first, so that `**` isn't read as two `*`, nor `**=` as `**` and `=`. */
const PUNCTUATION = [
  ...['...', '**=', '//='],
  ...['+=', '-=', '*=', '/=', '@=', '%=', '&=', '|=', '^='],
  ...['->', '**', '//', '<=', '>=', '==', '!=', '&&', '||'],
  ...[
    '+',
    '-',
    '*',
    '/',
    '@',
    '%',
    '<',
    '>',
    '=',
    '(',
    ')',
    '[',
    ']',
    '{',
    '}',
    ',',
    ':',
    '.',
    ';',
  ],
  ...['?', '&', '|', '~', '^', '!'],
];
const BY_FIRST = new Map<string, string[]>();
for (const p of PUNCTUATION) {
  const first = p.charAt(0);
  BY_FIRST.set(first, [...(BY_FIRST.get(first) ?? []), p]);
}

/** ASCII characters by what they can be part of: most of any file is told by its characters' codes. */
const LETTER = 1;
const DIGIT = 2;
const CLASS = new Uint8Array(128);
for (let c = 0; c < 128; c++) {
  if (/[A-Za-z_]/.test(String.fromCharCode(c))) CLASS[c] = LETTER;
  else if (/[0-9]/.test(String.fromCharCode(c))) CLASS[c] = DIGIT;
}

/** The end of the ASCII name that starts at `i`, or `i` where the patterns must tell. */
function asciiName(text: string, i: number): number {
  if (CLASS[text.charCodeAt(i)] !== LETTER) return i;
  let end = i + 1;
  for (; end < text.length; end++) {
    const c = text.charCodeAt(end);
    // It may go on with letters or marks of other scripts.
    if (c >= 128) return i;
    if (CLASS[c] === 0) break;
  }
  return end;
}

/** The end of the plain number (`64`, `0.5`) that starts at `i`, or `i` where the pattern must tell. */
function plainNumber(text: string, i: number): number {
  const digits = (from: number): number => {
    let end = from;
    while (CLASS[text.charCodeAt(end)] === DIGIT) end++;
    return end;
  };
  let end = digits(i);
  if (end === i) return i;
  if (text.charCodeAt(end) === POINT) {
    const fraction = digits(end + 1);
    if (fraction === end + 1) return i;
    end = fraction;
  }
  // Hexadecimal, an exponent, separated digits, or a fault.
  return CLASS[text.charCodeAt(end)] === LETTER ? i : end;
}
const POINT = 0x2e;

/** What people paste from papers and word processors, and what it means here. */
const LOOKALIKES = new Map<string, string>([
  ['×', '*'],
  ['·', '*'],
  ['⋅', '*'],
  ['−', '-'],
  ['–', '-'],
  ['÷', '/'],
  ['→', '->'],
  ['≤', '<='],
  ['≥', '>='],
  ['≠', '!='],
  ['，', ','],
  ['（', '('],
  ['）', ')'],
]);

const NAME = /[\p{L}_][\p{L}\p{M}\p{N}_]*/uy;
const NUMBER =
  /(?:0[xX][0-9a-fA-F_]+|\d[\d_]*(?:\.\d[\d_]*|\.(?![\p{L}_.]))?(?:[eE][+-]?\d+)?|\.\d[\d_]*(?:[eE][+-]?\d+)?)/uy;
const ESCAPES = new Map([
  ['n', '\n'],
  ['t', '\t'],
  ['\\', '\\'],
  ["'", "'"],
  ['"', '"'],
]);

/** After so many mistakes the rest of a file isn't read: it is something else than a model. */
export const MOST_FAULTS = 10_000;

export function tokenRange(t: Token): SourceRange {
  return rangeBetween(t, t);
}

/** From the first token's start to the last one's end. */
export function rangeBetween(first: Token, last: Token): SourceRange {
  return {
    start: { line: first.line, column: first.column },
    end: { line: last.line, column: last.column + (last.end - last.start) },
  };
}

/** @param firstLine the number of the line that the text starts with */
export function lex(source: string, firstLine = 0): Lexed {
  const text = source.charCodeAt(0) === 0xfeff ? source.slice(1) : source;
  const tokens: Token[] = [];
  const diagnostics: Diagnostic[] = [];
  let i = 0;
  let line = firstLine;
  let lineStart = 0;

  const push = (kind: TokenKind, start: number, value: string): void => {
    tokens.push({ kind, text: value, start, end: i, line, column: start - lineStart });
  };
  const report = (code: string, message: string, start: number, replacement?: string): void => {
    const range = {
      start: { line, column: start - lineStart },
      end: { line, column: i - lineStart },
    };
    const fixes =
      replacement === undefined
        ? {}
        : {
            fixes: [
              { title: `Replace by ${replacement}`, edits: [{ range, newText: replacement }] },
            ],
          };
    diagnostics.push(error(code, message, range, fixes));
  };

  while (i < text.length && diagnostics.length <= MOST_FAULTS) {
    const start = i;
    const ch = text.charAt(i);
    if (ch === ' ' || ch === '\t' || ch === '\u00a0' || ch === '\f') {
      i++;
    } else if (ch === '\n' || ch === '\r') {
      i += ch === '\r' && text.charAt(i + 1) === '\n' ? 2 : 1;
      tokens.push({
        kind: 'newline',
        text: '\n',
        start,
        end: start,
        line,
        column: start - lineStart,
      });
      line++;
      lineStart = i;
    } else if (ch === '#') {
      while (i < text.length && text.charAt(i) !== '\n' && text.charAt(i) !== '\r') i++;
    } else if (ch === '\\' && lineEndAfter(text, i + 1) > 0) {
      // A backslash at the end of a line joins it with the next.
      i = lineEndAfter(text, i + 1);
      line++;
      lineStart = i;
    } else if (ch === '"' || ch === "'") {
      push('string', start, string(ch));
    } else if ((i = asciiName(text, start)) > start) {
      push('name', start, text.slice(start, i));
    } else if ((i = plainNumber(text, start)) > start) {
      push('number', start, text.slice(start, i));
    } else {
      const name = match(NAME, text, i);
      if (name !== undefined) {
        i += name.length;
        push('name', start, isAscii(name) ? name : name.normalize('NFC'));
        continue;
      }
      const number = match(NUMBER, text, i);
      if (number !== undefined) {
        i += number.length;
        push('number', start, number);
        continue;
      }
      const p = BY_FIRST.get(ch)?.find((q) => text.startsWith(q, start));
      if (p !== undefined) {
        i += p.length;
        push('punctuation', start, p);
        continue;
      }
      stranger(start, ch);
    }
  }
  if (i < text.length) {
    report(
      'TOO_MANY_MISTAKES',
      'There are too many mistakes before this place: nothing is read from here on.',
      i,
    );
  }
  tokens.push({ kind: 'end', text: '', start: i, end: i, line, column: i - lineStart });
  return { tokens, text, diagnostics };

  /** Reads a string from its quote on; it ends at the line's end at the latest. */
  function string(quote: string): string {
    const start = i;
    let value = '';
    i++;
    for (; i < text.length; i++) {
      const ch = text.charAt(i);
      if (ch === quote) {
        i++;
        return value;
      }
      if (ch === '\n' || ch === '\r') break;
      const escaped = ch === '\\' ? ESCAPES.get(text.charAt(i + 1)) : undefined;
      if (escaped !== undefined) {
        value += escaped;
        i++;
      } else value += ch;
    }
    report('UNTERMINATED_STRING', `This string has no closing ${quote} on its line.`, start);
    return value;
  }

  /** A run of characters that start no token: one diagnostic. */
  function stranger(start: number, ch: string): void {
    const meant = LOOKALIKES.get(ch);
    if (meant !== undefined) {
      i++;
      report('UNEXPECTED_CHARACTER', `Write ${meant} in place of ${ch}.`, start, meant);
      push('punctuation', start, meant);
      return;
    }
    while (i < text.length && isStranger(text, i)) i++;
    // A lone surrogate or the like is always skipped, so that the lexer moves on.
    if (i === start) i++;
    const run = text.slice(start, Math.min(i, start + 8));
    const shown = [...run].map(printable).join('');
    report(
      'UNEXPECTED_CHARACTER',
      `${shown}${i - start > 8 ? '…' : ''} has no meaning here.`,
      start,
    );
  }
}

function match(pattern: RegExp, text: string, at: number): string | undefined {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0];
}

/** The offset after the line end that starts at `i` (blanks before it allowed); 0 when there is none. */
function lineEndAfter(text: string, i: number): number {
  while (text.charAt(i) === ' ' || text.charAt(i) === '\t') i++;
  if (text.charAt(i) === '\n') return i + 1;
  if (text.charAt(i) === '\r') return text.charAt(i + 1) === '\n' ? i + 2 : i + 1;
  return 0;
}

function isAscii(s: string): boolean {
  for (let i = 0; i < s.length; i++) if (s.charCodeAt(i) > 127) return false;
  return true;
}

function isStranger(text: string, i: number): boolean {
  const ch = text.charAt(i);
  return (
    !/[\s#"'\\0-9]/.test(ch) &&
    !BY_FIRST.has(ch) &&
    !LOOKALIKES.has(ch) &&
    match(NAME, text, i) === undefined
  );
}

function printable(ch: string): string {
  const code = ch.codePointAt(0) ?? 0;
  const hidden = code < 32 || (code >= 127 && code < 160) || (code >= 0xd800 && code < 0xe000);
  return hidden ? `U+${code.toString(16).toUpperCase().padStart(4, '0')}` : ch;
}
