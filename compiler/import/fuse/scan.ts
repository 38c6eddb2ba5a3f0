/**
 * A scan of a `.fuse` text for lenses: where its ops stand, found from the tokens alone.
 *
 * It runs at each keystroke while the compiler is busy or the file doesn't parse, so it looks up no
 * names and builds no tree. The ids are those that the importer gives, so that what is known of a
 * node from the last compilation can be shown at its place in the new text at once.
 */
import type { SourceRange } from '../../diagnostics';
import { OPERATOR_OPS } from './ast';
import { isKeyword, statementsOf } from './cursor';
import { augmentedOperator } from './expressions';
import { lex, tokenRange, type Token } from './lexer';

export interface ScannedOp {
  readonly line: number;
  /** The function's name or the operator's sign. */
  readonly range: SourceRange;
  /** What the statement defines. */
  readonly name: string;
  /** As spelled: `relu`, or `add` for `+`. */
  readonly op: string;
  /** The id that the importer gives the op's node. */
  readonly id: string;
}

export interface FuseScan {
  /** Where what is said of the whole file goes. */
  readonly header: number;
  readonly ops: readonly ScannedOp[];
}

const OPERATORS: ReadonlyMap<string, string> = new Map(
  Object.entries(OPERATOR_OPS).map(([sign, names]) => [sign, names[0] ?? sign]),
);

export function scanFuse(text: string): FuseScan {
  const ops: ScannedOp[] = [];
  const seen = new Map<string, number>();
  for (const statement of statementsOf(lex(text).tokens)) scanStatement(statement, seen, ops);
  return { header: 0, ops };
}

const DECLARATIONS: ReadonlySet<string> = new Set(['dim', 'input', 'param', 'const']);

/** `dim B = 4, C = 8`, `input x, y: f32[B, C]`: the names outside of brackets that start a part. */
function declaredNames(tokens: readonly Token[]): string[] {
  const names: string[] = [];
  let depth = 0;
  tokens.forEach((t, i) => {
    if (t.kind === 'name' && depth === 0 && (i === 1 || tokens[i - 1]?.text === ','))
      names.push(t.text);
    if (t.text === '[' || t.text === '(') depth++;
    else if (t.text === ']' || t.text === ')') depth--;
  });
  return names;
}

function scanStatement(
  tokens: readonly Token[],
  seen: Map<string, number>,
  ops: ScannedOp[],
): void {
  if (DECLARATIONS.has(tokens[0]?.text ?? '') && tokens[1]?.kind === 'name') {
    for (const name of declaredNames(tokens)) seen.set(name, (seen.get(name) ?? 0) + 1);
    return;
  }
  const targets: string[] = [];
  let i = 0;
  while (tokens[i]?.kind === 'name' && tokens[i + 1]?.text === ',') {
    targets.push(tokens[i]?.text ?? '');
    i += 2;
  }
  const sign = tokens[i + 1];
  const operator = targets.length === 0 && sign ? augmentedOperator(sign.text) : undefined;
  if (tokens[i]?.kind !== 'name' || (sign?.text !== '=' && operator === undefined)) return;
  targets.push(tokens[i]?.text ?? '');
  if (targets.length > 1 && isKeyword(targets[0] ?? '')) return;
  const name = targets.find((t) => t !== '_') ?? targets[0] ?? '';
  for (const t of targets) if (t !== '_') seen.set(t, (seen.get(t) ?? 0) + 1);
  const times = seen.get(name) ?? 1;
  const base = times > 1 ? `${name}~${times}` : name;
  const ordinals = new Map<string, number>();
  const first = operator === undefined ? undefined : OPERATORS.get(operator);
  for (i += 1; i < tokens.length; i++) {
    const t = tokens[i];
    const op = t && (t === sign ? first : opAt(tokens, i));
    if (!t || op === undefined) continue;
    const n = ordinals.get(op) ?? 0;
    ordinals.set(op, n + 1);
    const id = `${base}#${op}${n > 0 ? `/${n}` : ''}`;
    ops.push({ line: t.line, range: tokenRange(t), name, op, id });
  }
}

/** The op that the token at `i` spells, if it spells one. */
function opAt(tokens: readonly Token[], i: number): string | undefined {
  const t = tokens[i];
  if (t?.kind === 'name') return tokens[i + 1]?.text === '(' ? t.text : undefined;
  if (t?.kind !== 'punctuation') return undefined;
  if (t.text === '~') return 'bitwise_not';
  const op = OPERATORS.get(t.text);
  if (op === undefined || endsOperand(tokens[i - 1])) return op;
  // A sign: minus before a number belongs to the number, except in -2 ** 2; plus says nothing.
  const number = tokens[i + 1]?.kind === 'number' && tokens[i + 2]?.text !== '**';
  return t.text === '-' && !number ? 'neg' : undefined;
}

function endsOperand(t: Token | undefined): boolean {
  if (!t) return false;
  if (t.kind !== 'punctuation') return true;
  return t.text === ')' || t.text === ']' || t.text === '?';
}
