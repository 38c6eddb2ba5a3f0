/**
 * A statement's tokens and the parser's place among them.
 *
 * The token list is cut into statements *before* they are parsed, so that a fault in one can't reach
 * the next: a statement ends with its line, or, while a bracket is open, at the line that closes it,
 * or before the first line that can only be a new statement (then a bracket was never closed).
 */
import { error, type Diagnostic, type QuickFix, type SourceRange } from '../../diagnostics';
import { KEYWORDS } from './ast';
import { rangeBetween, tokenRange, type Token } from './lexer';

const keywords = new Set<string>(KEYWORDS);
const OPEN = new Map([
  ['(', ')'],
  ['[', ']'],
  ['{', '}'],
]);
const CLOSE = new Set(OPEN.values());
/** `+=` and the like, but no comparison. */
const AUGMENTED = /^[^<>=!]+=$/;

export function isKeyword(word: string): boolean {
  return keywords.has(word);
}

/** The tokens of a statement, and what ends it: a line end, `;` or the end of the text. */
export interface Part {
  readonly tokens: readonly Token[];
  readonly end: Token;
}

export function statementsOf(tokens: readonly Token[]): (readonly Token[])[] {
  return partsOf(tokens).map((p) => p.tokens);
}

/** Cuts the tokens into statements; line ends and `;` between them are dropped, and empty ones left out. */
export function partsOf(tokens: readonly Token[]): Part[] {
  const out: Part[] = [];
  const open: string[] = [];
  // The statement at hand: where it starts, its last token, and whether line ends stand inside it.
  let start = 0;
  let last: Token | undefined;
  let folded = false;
  const finish = (at: number): void => {
    const end = tokens[at] ?? last;
    if (last && end) {
      const part = tokens.slice(start, at);
      out.push({ tokens: folded ? part.filter((t) => t.kind !== 'newline') : part, end });
    }
    last = undefined;
    folded = false;
    open.length = 0;
  };
  for (let i = 0; i < tokens.length; i++) {
    const t = tokens[i];
    if (!t || t.kind === 'end') finish(i);
    else if (t.kind === 'newline') {
      const first = tokens[start];
      if (!last || !first) continue;
      if (open.length === 0 || startsStatement(tokens, i + 1, first, last, open.at(-1))) finish(i);
      else folded = true;
    } else if (t.kind === 'punctuation' && t.text === ';' && open.at(-1) !== '{') finish(i);
    else {
      if (t.kind === 'punctuation') {
        if (OPEN.has(t.text)) open.push(t.text);
        else if (CLOSE.has(t.text)) open.pop();
      }
      if (!last) start = i;
      last = t;
    }
  }
  return out;
}

/**
 * Whether the line at `i` must be a new statement although a bracket is open: it isn't indented
 * deeper than the statement's `first` token, and is `input x`-like (two words in a row have no place
 * in brackets), or is `name = …` and neither follows a comma nor goes on to close the bracket
 * (`f(x,` / `axis=1)` is one call, however it is indented).
 */
function startsStatement(
  tokens: readonly Token[],
  i: number,
  { column: indent }: Token,
  previous: Token | undefined,
  bracket: string | undefined,
): boolean {
  const first = tokens[i];
  if (first?.kind !== 'name' || first.column > indent) return false;
  const second = tokens[i + 1]?.kind;
  if (second === 'name' || second === 'number') return true;
  let j = i + 1;
  while (tokens[j]?.text === ',' && tokens[j + 1]?.kind === 'name') j += 2;
  const sign = tokens[j]?.text ?? '';
  if (sign !== '=' && !(j === i + 1 && AUGMENTED.test(sign))) return false;
  const mayGoOn = previous?.text === ',' || OPEN.has(previous?.text ?? '');
  // In braces stand settings, and a line end parts them: `workgroup = 128`.
  if (!mayGoOn && bracket !== '{') return true;
  const valueAt = ++j;
  let depth = 0;
  for (; ; j++) {
    const t = tokens[j];
    if (!t || t.kind === 'newline' || t.kind === 'end') break;
    if (t.kind !== 'punctuation') continue;
    if (OPEN.has(t.text)) depth++;
    else if (CLOSE.has(t.text) && --depth < 0) return false;
  }
  if (bracket === '{' && j <= valueAt + 1) return false;
  return tokens[j - 1]?.text !== ',';
}

export class Cursor {
  private at = 0;
  private ordinals: Map<string, number> | undefined;
  /** After the first syntax fault of a statement no others are reported: they'd be its echoes. */
  failed = false;

  constructor(
    private readonly tokens: readonly Token[],
    readonly text: string,
    private readonly diagnostics: Diagnostic[],
  ) {}

  /** The token `ahead` places on; past the last one a token of kind `end` at the statement's end. */
  peek(ahead = 0): Token {
    const t = this.tokens[this.at + ahead];
    if (t) return t;
    const last = this.tokens[this.tokens.length - 1];
    const end = last?.end ?? 0;
    const column = last ? last.column + (last.end - last.start) : 0;
    return { kind: 'end', text: '', start: end, end, line: last?.line ?? 0, column };
  }

  next(): Token {
    const t = this.peek();
    if (t.kind !== 'end') this.at++;
    return t;
  }

  /** The token before the current one. */
  previous(): Token {
    return this.tokens[Math.max(0, this.at - 1)] ?? this.peek();
  }

  is(punctuation: string, ahead = 0): boolean {
    const t = this.peek(ahead);
    return t.kind === 'punctuation' && t.text === punctuation;
  }

  isName(ahead = 0): boolean {
    return this.peek(ahead).kind === 'name';
  }

  accept(punctuation: string): boolean {
    if (!this.is(punctuation)) return false;
    this.at++;
    return true;
  }

  get done(): boolean {
    return this.at >= this.tokens.length;
  }

  /** From `first` to the token before the current one. */
  rangeFrom(first: Token): SourceRange {
    const last = this.previous();
    return last.end < first.end ? tokenRange(first) : rangeBetween(first, last);
  }

  /** Counts ops of one spelling within the statement. */
  ordinal(spelling: string): number {
    this.ordinals ??= new Map();
    const n = this.ordinals.get(spelling) ?? 0;
    this.ordinals.set(spelling, n + 1);
    return n;
  }

  /** Reports the statement's first syntax fault and gives up on the rest of it. */
  fail(code: string, message: string, range?: SourceRange, fixes?: readonly QuickFix[]): void {
    if (!this.failed) {
      const more = fixes && fixes.length > 0 ? { fixes } : {};
      this.diagnostics.push(error(code, message, range ?? tokenRange(this.peek()), more));
    }
    this.failed = true;
    this.at = this.tokens.length;
  }

  /** Reports a fault of meaning: parsing goes on. */
  report(diagnostic: Diagnostic): void {
    this.diagnostics.push(diagnostic);
  }

  /** What stands at the cursor, for messages. */
  found(): string {
    const t = this.peek();
    if (t.kind === 'end') return 'the end of the statement';
    if (t.kind === 'string') return 'a string';
    const shown = t.text.length > 24 ? `${t.text.slice(0, 24)}…` : t.text;
    return `“${shown}”`;
  }
}
