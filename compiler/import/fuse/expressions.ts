/**
 * The expression parser: precedence climbing over one statement's tokens.
 *
 * From loosest to tightest: comparisons (not chained), `|`, `^`, `&`, `+ -`, `* / // % @`, unary `-` and
 * `~`, `**` (to the right), calls, methods and indexing. Recursion happens only where brackets, minus signs or `**` nest, and that is
 * limited: a deeper expression is a diagnostic, not a stack overflow.
 */
import type {
  Argument,
  BinaryOperator,
  ChainLink,
  Expression,
  Named,
  OpSite,
  Subscript,
} from './ast';
import { OPERATOR_OPS } from './ast';
import type { Cursor } from './cursor';
import { tokenRange, type Token } from './lexer';

/** Brackets within brackets; far beyond what a person reads, far below what the stack bears. */
export const MAX_NESTING = 100;

const LEVELS = new Map<string, number>([
  ...(['<', '<=', '>', '>=', '==', '!='] as const).map((o) => [o, 1] as const),
  ['|', 2],
  ['^', 3],
  ['&', 4],
  ...(['+', '-'] as const).map((o) => [o, 5] as const),
  ...(['*', '/', '//', '%', '@'] as const).map((o) => [o, 6] as const),
]);
const COMPARISON = 1;

/** Module names that people paste along with a call; they say nothing here. */
const MODULES = new Set([
  'torch',
  'nn',
  'functional',
  'F',
  'np',
  'numpy',
  'jnp',
  'jax',
  'tf',
  'math',
  'ops',
  'aten',
  'linalg',
  'special',
]);

function isOperator(text: string): text is BinaryOperator {
  return text in OPERATOR_OPS;
}

/** A name at the cursor; a fault that says what should stand there otherwise. */
export function parseNamed(c: Cursor, what: string): Named | undefined {
  if (!c.isName()) {
    c.fail('EXPECTED_NAME', `Here should stand ${what}, not ${c.found()}.`);
    return undefined;
  }
  const t = c.next();
  return { name: t.text, range: tokenRange(t) };
}

/** One name or more, with commas between. */
export function parseNames(c: Cursor, what: string): Named[] {
  const names: Named[] = [];
  do {
    const name = parseNamed(c, what);
    if (!name) break;
    names.push(name);
  } while (c.accept(','));
  return names;
}

/** The operator of `y += …` and the like, where that is what a token says. */
export function augmentedOperator(text: string): BinaryOperator | undefined {
  const operator = text.length > 1 && text.endsWith('=') ? text.slice(0, -1) : undefined;
  return operator !== undefined && isOperator(operator) && LEVELS.get(operator) !== COMPARISON
    ? operator
    : undefined;
}

/** What `y += …` gives y. */
export function parseAugmented(c: Cursor, target: Named, operator: BinaryOperator): Expression {
  const site = operatorSite(c, operator, c.next());
  const right = parseExpression(c);
  const first: Expression = { kind: 'name', name: target.name, range: target.range };
  const range = { start: target.range.start, end: right.range.end };
  return { kind: 'chain', first, rest: [{ operator, site, right }], range };
}

export function parseExpression(c: Cursor): Expression {
  return parseChain(c, COMPARISON, 0);
}

function parseChain(c: Cursor, lowest: number, depth: number): Expression {
  const start = c.peek();
  let first = parseUnary(c, depth);
  let rest: ChainLink[] | undefined;
  let level = 0;
  for (;;) {
    const t = c.peek();
    const here = t.kind === 'punctuation' ? LEVELS.get(t.text) : undefined;
    if (here === undefined || here < lowest || !isOperator(t.text)) break;
    if (here === COMPARISON && level === COMPARISON) {
      c.fail(
        'CHAINED_COMPARISON',
        'A comparison can’t be compared again: use brackets, or two comparisons.',
      );
      break;
    }
    if (rest && here !== level) {
      first = { kind: 'chain', first, rest, range: c.rangeFrom(start) };
      rest = undefined;
    }
    level = here;
    c.next();
    const site = operatorSite(c, t.text, t);
    const link = { operator: t.text, site, right: parseChain(c, here + 1, depth) };
    if (rest) rest.push(link);
    else rest = [link];
  }
  return rest ? { kind: 'chain', first, rest, range: c.rangeFrom(start) } : first;
}

function operatorSite(c: Cursor, operator: BinaryOperator, t: Token): OpSite {
  const spelling = OPERATOR_OPS[operator][0] ?? operator;
  return { spelling, range: tokenRange(t), ordinal: c.ordinal(spelling) };
}

function parseUnary(c: Cursor, depth: number): Expression {
  const start = c.peek();
  if (start.kind === 'punctuation' && (start.text === '-' || start.text === '+')) {
    c.next();
    if (tooDeep(c, depth)) return faulty(c, start);
    // A minus before a number is part of the number, except that -2 ** 2 is -(2 ** 2).
    const literal = c.peek().kind === 'number' && !c.is('**', 1);
    if (start.text === '+' || literal) {
      const operand = parseUnary(c, depth + 1);
      if (start.text === '+' || operand.kind !== 'number') return operand;
      const range = c.rangeFrom(start);
      return { ...operand, value: -operand.value, text: `-${operand.text}`, range };
    }
    const site = { spelling: 'neg', range: tokenRange(start), ordinal: c.ordinal('neg') };
    const operand = parseUnary(c, depth + 1);
    return { kind: 'negate', operand, site, range: c.rangeFrom(start) };
  }
  if (c.accept('~')) {
    if (tooDeep(c, depth)) return faulty(c, start);
    const name = 'bitwise_not';
    const site = { spelling: name, range: tokenRange(start), ordinal: c.ordinal(name) };
    const operand = parseUnary(c, depth + 1);
    return { kind: 'negate', operand, site, range: c.rangeFrom(start) };
  }
  const base = parsePostfix(c, parsePrimary(c, depth), start, depth);
  const t = c.peek();
  if (!c.accept('**')) return base;
  if (tooDeep(c, depth)) return faulty(c, start);
  const site = operatorSite(c, '**', t);
  const right = parseUnary(c, depth + 1);
  return {
    kind: 'chain',
    first: base,
    rest: [{ operator: '**', site, right }],
    range: c.rangeFrom(start),
  };
}

/** `x[…]` and `relu(x).sum()`, also several in a row. A bracket after a blank is a list of its own. */
function parsePostfix(c: Cursor, first: Expression, start: Token, depth: number): Expression {
  let base = first;
  while (!c.failed && canBeIndexed(base)) {
    if (c.is('.') && c.isName(1) && c.is('(', 2)) {
      c.next();
      const method = c.next();
      base = callOf(c, [method], method, start, depth, base);
      continue;
    }
    const attribute = c.is('.') && c.isName(1) ? attributeOf(c.peek(1)) : undefined;
    if (attribute) {
      c.next();
      base = attributeCall(c, attribute, c.next(), start, base);
      continue;
    }
    if (!c.is('[') || !adjacent(c.previous(), c.peek())) break;
    const open = c.next();
    if (tooDeep(c, depth)) return faulty(c, start);
    const items: Subscript[] = [];
    while (!c.is(']') && !c.done) {
      items.push(parseSubscript(c, depth + 1));
      if (!c.accept(',')) break;
    }
    expectClose(c, open, ']');
    if (c.failed) return faulty(c, start);
    const site = { spelling: 'index', range: c.rangeFrom(open), ordinal: c.ordinal('index') };
    if (items.length === 0) {
      c.fail(
        'EXPECTED_EXPRESSION',
        'A place or a range should stand here, as in x[0] or x[:, 1:].',
        site.range,
      );
      return faulty(c, start);
    }
    base = { kind: 'index', base, items, site, range: c.rangeFrom(start) };
  }
  if (!c.failed && c.is('.') && c.isName(1)) {
    c.fail(
      'NO_ATTRIBUTES',
      'The attributes of a tensor are T, mT, shape and ndim here: write a call such as transpose(x, 0, 1).',
    );
  }
  return base;
}

function canBeIndexed(e: Expression): boolean {
  return e.kind !== 'number' && e.kind !== 'string' && e.kind !== 'bool' && e.kind !== 'none';
}

/** One of `0`, `1:`, `:n`, `a:b:step`, `...`, `none`, `indices`. */
function parseSubscript(c: Cursor, depth: number): Subscript {
  const start = c.peek();
  if (c.accept('...')) return { kind: 'rest', range: tokenRange(start) };
  const value = c.is(':') ? undefined : parseChain(c, COMPARISON, depth);
  if (value && !c.is(':')) return { kind: 'at', value, range: value.range };
  const bound = (): Expression | undefined =>
    c.is(':') || c.is(',') || c.is(']') || c.done ? undefined : parseChain(c, COMPARISON, depth);
  c.accept(':');
  const stop = bound();
  const step = c.accept(':') ? bound() : undefined;
  return {
    kind: 'range',
    ...(value ? { start: value } : {}),
    ...(stop ? { stop } : {}),
    ...(step ? { step } : {}),
    range: c.rangeFrom(start),
  };
}

function parsePrimary(c: Cursor, depth: number): Expression {
  const start = c.peek();
  switch (start.kind) {
    case 'number':
      c.next();
      return numberOf(c, start);
    case 'string':
      c.next();
      return { kind: 'string', value: start.text, range: tokenRange(start) };
    case 'name':
      return parseName(c, depth);
    case 'punctuation':
      if (start.text === '(' || start.text === '[') return parseBracket(c, start.text, depth);
      if (start.text === '?') {
        c.next();
        return { kind: 'unknown', range: tokenRange(start) };
      }
      break;
    case 'newline':
    case 'end':
      break;
  }
  const hint = start.text === '!' ? ' Write ~ or logical_not.' : '';
  c.fail('EXPECTED_EXPRESSION', `A value should stand here, not ${c.found()}.${hint}`);
  return faulty(c, start);
}

function numberOf(c: Cursor, t: Token): Expression {
  const text = t.text.includes('_') ? t.text.replaceAll('_', '') : t.text;
  const value = Number(text);
  const whole = /^(0[xX][0-9a-fA-F]+|\d+)$/.test(text);
  const range = tokenRange(t);
  if (Number.isNaN(value)) c.fail('INVALID_NUMBER', `“${t.text}” is no number.`, range);
  else if (!Number.isFinite(value) || (whole && value > Number.MAX_SAFE_INTEGER)) {
    c.fail(
      'NUMBER_TOO_LARGE',
      whole
        ? 'This whole number is over 2^53 - 1, beyond which not every number is exact.'
        : 'This number is over the greatest that a 64-bit float holds; write inf for infinity.',
      range,
    );
    return { kind: 'faulty', range };
  }
  return { kind: 'number', value, text, whole, range };
}

/** `( … )` and `[ … ]`: brackets around one expression, or a list. */
function parseBracket(c: Cursor, open: '(' | '[', depth: number): Expression {
  const start = c.next();
  if (tooDeep(c, depth)) return faulty(c, start);
  const close = open === '(' ? ')' : ']';
  const items: Expression[] = [];
  let comma = false;
  while (!c.is(close) && !c.done) {
    items.push(parseChain(c, COMPARISON, depth + 1));
    if (!c.accept(',')) break;
    comma = true;
  }
  expectClose(c, start, close);
  const only = items[0];
  if (open === '(' && only && !comma) return only;
  return { kind: 'list', items, range: c.rangeFrom(start) };
}

/** Consumes the closing bracket, or says that it is missing. */
export function expectClose(c: Cursor, open: Token, close: string): void {
  if (c.accept(close) || c.failed) return;
  if (!c.done) {
    c.fail('EXPECTED_TOKEN', `A comma or ${close} should stand here, not ${c.found()}.`);
    return;
  }
  const end = tokenRange(c.peek()).start;
  c.fail('MISSING_BRACKET', `This ${open.text} is never closed.`, tokenRange(open), [
    { title: `Insert ${close}`, edits: [{ range: { start: end, end }, newText: close }] },
  ]);
}

function parseName(c: Cursor, depth: number): Expression {
  const start = c.next();
  const parts = [start];
  // Attributes are taken behind any value.
  while (c.is('.') && c.isName(1) && !(attributeOf(c.peek(1)) && !c.is('(', 2))) {
    c.next();
    parts.push(c.next());
  }
  const last = parts[parts.length - 1] ?? start;
  if (c.is('(')) return callOf(c, parts, last, start, depth);
  // A dtype or a number of a module: torch.float16, math.pi.
  if (parts.length > 1 && MODULES.has(start.text))
    return { kind: 'name', name: last.text, range: c.rangeFrom(start) };
  if (parts.length > 1) {
    c.fail(
      'NO_ATTRIBUTES',
      `The attributes of a tensor are T, mT, shape and ndim here: write a call such as transpose(${start.text}, 0, 1).`,
      c.rangeFrom(start),
    );
    return faulty(c, start);
  }
  const range = tokenRange(start);
  switch (start.text) {
    case 'true':
    case 'True':
      return { kind: 'bool', value: true, range };
    case 'false':
    case 'False':
      return { kind: 'bool', value: false, range };
    case 'none':
    case 'None':
      return { kind: 'none', range };
    default:
      return { kind: 'name', name: start.text, range };
  }
}

function adjacent(a: Token, b: Token): boolean {
  return a.end === b.start;
}

/** The call whose name has just been read; `on` is what it is a method of, where that is no name. */
function callOf(
  c: Cursor,
  parts: readonly Token[],
  last: Token,
  start: Token,
  depth: number,
  on?: Expression,
): Expression {
  const first = parts[0] ?? last;
  const site = { spelling: last.text, range: tokenRange(last), ordinal: c.ordinal(last.text) };
  const method = parts.length === 2 && !MODULES.has(first.text);
  const receiver: Named | undefined = method
    ? { name: first.text, range: tokenRange(first) }
    : undefined;
  const open = c.next();
  if (tooDeep(c, depth)) return faulty(c, start);
  const args: Argument[] = [];
  while (!c.is(')') && !c.done) {
    if (c.isName() && c.is('=', 1)) {
      const name = c.next();
      c.next();
      const value = parseChain(c, COMPARISON, depth + 1);
      args.push({ name: { name: name.text, range: tokenRange(name) }, value });
    } else args.push({ value: parseChain(c, COMPARISON, depth + 1) });
    if (!c.accept(',')) break;
  }
  expectClose(c, open, ')');
  return {
    kind: 'call',
    callee: parts.length === 1 ? last.text : parts.map((p) => p.text).join('.'),
    site,
    ...(receiver ? { receiver } : {}),
    ...(on ? { on } : {}),
    args,
    range: c.rangeFrom(start),
  };
}

/** Attributes of tensors, each the call that it stands for. */
const ATTRIBUTES: ReadonlyMap<string, { readonly call: string; readonly args: readonly number[] }> =
  new Map([
    // Without dims all are reversed.
    ['T', { call: 'transpose', args: [] }],
    ['mT', { call: 'transpose', args: [-2, -1] }],
    ['shape', { call: 'shape', args: [] }],
    ['ndim', { call: 'ndim', args: [] }],
    // Of an op that gives values and their places.
    ['values', { call: 'values', args: [] }],
    ['indices', { call: 'indices', args: [] }],
  ]);

function attributeOf(
  t: Token,
): { readonly call: string; readonly args: readonly number[] } | undefined {
  return ATTRIBUTES.get(t.text);
}

/** `x.T` as the call that it stands for. */
function attributeCall(
  c: Cursor,
  { call, args }: { readonly call: string; readonly args: readonly number[] },
  attribute: Token,
  start: Token,
  on: Expression,
): Expression {
  const range = tokenRange(attribute);
  return {
    kind: 'call',
    callee: call,
    site: { spelling: call, range, ordinal: c.ordinal(call) },
    on,
    args: args.map((d) => ({
      value: { kind: 'number', value: d, text: `${d}`, whole: true, range },
    })),
    range: c.rangeFrom(start),
  };
}

function tooDeep(c: Cursor, depth: number): boolean {
  if (depth < MAX_NESTING) return false;
  c.fail(
    'NESTED_TOO_DEEP',
    `Brackets and signs are nested more than ${MAX_NESTING} deep: name the inner values.`,
    tokenRange(c.previous()),
  );
  return true;
}

function faulty(c: Cursor, start: Token): Expression {
  return { kind: 'faulty', range: c.rangeFrom(start) };
}
