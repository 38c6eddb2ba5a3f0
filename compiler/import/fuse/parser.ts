/**
 * The statement parser: text in, syntax tree and diagnostics out. It never fails: a statement that
 * can't be read is reported, and what it would have defined is kept as faulty, so that its uses
 * aren't reported as well.
 */
import { error, type Diagnostic } from '../../diagnostics';
import { decodeUtf8, isLonger } from '../utf8';
import {
  KEYWORDS,
  type Expression,
  type Keyword,
  type Named,
  type Statement,
  type SyntaxTree,
  type TypeSyntax,
  type UnplacedStatement as Unplaced,
} from './ast';
import { Cursor, isKeyword, type Part, partsOf } from './cursor';
import { parseDirective } from './directives';
import {
  augmentedOperator,
  expectClose,
  parseAugmented,
  parseExpression,
  parseNamed,
  parseNames,
} from './expressions';
import { lex, MOST_FAULTS, rangeBetween, tokenRange, type Token } from './lexer';
import { nearest } from './suggest';

/** Words that other languages open statements with, and what to write here. */
const FOREIGN = new Map([
  ['return', 'output'],
  ['outputs', 'output'],
  ['inputs', 'input'],
  ['let', ''],
  ['var', ''],
  ['parameter', 'param'],
  ['weight', 'param'],
  ['constant', 'const'],
  ['size', 'dim'],
  ['assert', 'expect'],
]);

/** A text beyond this is no model that someone wrote, and its tokens would fill the memory. */
const LONGEST_SOURCE = 16 * 2 ** 20;

function tooLong(): SyntaxTree {
  const start = { line: 0, column: 0 };
  const range = { start, end: start };
  const message = `The file is too long to be read: it has over ${LONGEST_SOURCE / 2 ** 20} Mi characters.`;
  return {
    statements: [{ kind: 'faulty', range, text: '' }],
    diagnostics: [error('FILE_TOO_LONG', message, range)],
  };
}

/** The file's bytes (UTF-8): what is too long isn't even decoded. */
export function parseFuseBytes(
  bytes: Uint8Array,
  parse: (source: string) => SyntaxTree = parseText,
): SyntaxTree {
  if (isLonger(bytes, LONGEST_SOURCE)) return tooLong();
  const source = decodeUtf8(bytes);
  return source.length > LONGEST_SOURCE ? tooLong() : parse(source);
}

export function parseFuse(source: string): SyntaxTree {
  return source.length > LONGEST_SOURCE ? tooLong() : parseText(source);
}

/** @param told is told of each part that was read */
export function parseText(
  source: string,
  told?: (part: Part, statements: readonly Statement[], faulty: boolean) => void,
): SyntaxTree {
  const { tokens, text, diagnostics } = lex(source);
  const statements: Statement[] = [];
  for (const part of partsOf(tokens)) {
    const first = part.tokens[0];
    if (first && diagnostics.length > MOST_FAULTS) {
      diagnostics.push(
        error(
          'TOO_MANY_MISTAKES',
          'There are too many mistakes before this line: nothing is read from here on.',
          tokenRange(first),
        ),
      );
      break;
    }
    const faults = diagnostics.length;
    const read = parsePart(part, text, diagnostics);
    for (const s of read) statements.push(s);
    told?.(part, read, diagnostics.length > faults);
  }
  return { statements, diagnostics };
}

export function parsePart(
  { tokens }: Part,
  text: string,
  diagnostics: Diagnostic[],
): readonly Statement[] {
  const first = tokens[0];
  const last = tokens[tokens.length - 1];
  if (!first || !last) return [];
  const c = new Cursor(tokens, text, diagnostics);
  const parsed = parseParts(c);
  if (!c.failed && !c.done) {
    c.fail('UNEXPECTED_TOKEN', `The statement should end here, not go on with ${c.found()}.`);
  }
  const place = { range: rangeBetween(first, last), text: text.slice(first.start, last.end) };
  return parsed.map((p): Statement => ({ ...p, ...place }));
}

function parseParts(c: Cursor): Unplaced[] {
  const first = c.peek();
  if (first.kind !== 'name') {
    const comment = first.text === '//' ? ' Comments start with #.' : '';
    c.fail('EXPECTED_STATEMENT', `A statement can’t start with ${c.found()}.${comment}`);
    return [{ kind: 'faulty' }];
  }
  // `output = …` and `fuse, y = …` are assignments, whatever the word.
  const gives = c.is('=', 1) || augmentedOperator(c.peek(1).text) !== undefined;
  const named = gives || (c.is(',', 1) && !isKeyword(first.text));
  if (isKeyword(first.text) && !named) {
    c.next();
    return parseKeyword(c, first.text as Keyword, first);
  }
  return [parseAssignment(c)];
}

function parseKeyword(c: Cursor, keyword: Keyword, word: Token): Unplaced[] {
  switch (keyword) {
    case 'dim':
      return separated(c, () => {
        const name = parseNamed(c, 'a size’s name, as in dim B = 64');
        if (!name) return { kind: 'faulty' };
        if (!c.accept('=')) {
          c.fail(
            'MISSING_VALUE',
            `A dim needs a value to profile with: dim ${name.name} = 64.`,
            name.range,
            [
              {
                title: 'Give it the value 64',
                edits: [
                  { range: { start: name.range.end, end: name.range.end }, newText: ' = 64' },
                ],
              },
            ],
          );
          return { kind: 'dim', name };
        }
        return { kind: 'dim', name, value: parseExpression(c) };
      });
    case 'input':
    case 'param': {
      const names = parseNames(c, `a name, as in ${keyword} x: f32[64, 64]`);
      if (names.length === 0) return [{ kind: 'faulty' }];
      const type = parseTypeAfterColon(c, keyword, names);
      return [{ kind: keyword, names, ...(type ? { type } : {}) }];
    }
    case 'const': {
      const name = parseNamed(c, 'a name, as in const c = 0.5');
      if (!name) return [{ kind: 'faulty' }];
      const type = c.accept(':') ? parseType(c) : undefined;
      if (!c.accept('=')) {
        c.fail('MISSING_VALUE', `A const needs a value: const ${name.name} = 0.5.`, name.range);
        return [{ kind: 'const', name, ...(type ? { type } : {}) }];
      }
      return [{ kind: 'const', name, ...(type ? { type } : {}), value: parseExpression(c) }];
    }
    case 'output': {
      const names = parseNames(c, 'the name of a value, as in output y');
      if (c.is('(')) {
        c.fail(
          'OUTPUT_IS_A_NAME',
          'An output is a name: give the call’s result one, then write output and the name.',
        );
      }
      return [{ kind: 'output', names }];
    }
    case 'expect':
    case 'materialize':
    case 'nofuse':
    case 'fuse':
    case 'recompute':
    case 'schedule':
      return parseDirective(c, keyword, word);
  }
}

function separated(c: Cursor, one: () => Unplaced): Unplaced[] {
  const out = [one()];
  while (c.accept(',')) out.push(one());
  return out;
}

function parseTypeAfterColon(
  c: Cursor,
  keyword: string,
  names: readonly Named[],
): TypeSyntax | undefined {
  if (c.accept(':')) return parseType(c);
  if (c.failed) return undefined;
  const name = names[names.length - 1];
  if (c.done && name) {
    const at = { start: name.range.end, end: name.range.end };
    c.fail(
      'MISSING_TYPE',
      `${name.name} needs a type: ${keyword} ${name.name}: f32[64, 64].`,
      name.range,
      [{ title: 'Add a type', edits: [{ range: at, newText: ': f32[?]' }] }],
    );
  } else c.fail('EXPECTED_TOKEN', `A colon and a type should stand here, not ${c.found()}.`);
  return undefined;
}

function parseType(c: Cursor): TypeSyntax | undefined {
  const start = c.peek();
  const dtype = parseNamed(c, 'an element type, as f32 in f32[64, 64]');
  if (!dtype) return undefined;
  const open = c.peek();
  if (!c.accept('[')) return { dtype, range: dtype.range };
  const shape: Expression[] = [];
  while (!c.is(']') && !c.done) {
    shape.push(parseExpression(c));
    if (!c.accept(',')) break;
  }
  expectClose(c, open, ']');
  return { dtype, shape, range: c.rangeFrom(start) };
}

/** `y = …`, `q, k, v = …`, `y += …`; else the nearest thing that was meant. */
function parseAssignment(c: Cursor): Unplaced {
  const first = c.peek();
  const operator = c.isName() ? augmentedOperator(c.peek(1).text) : undefined;
  if (operator !== undefined) {
    const target: Named = { name: c.next().text, range: tokenRange(first) };
    return { kind: 'assign', targets: [target], value: parseAugmented(c, target, operator) };
  }
  let targets = 0;
  while (c.isName(2 * targets) && c.is(',', 2 * targets + 1)) targets++;
  if (!c.isName(2 * targets) || !c.is('=', 2 * targets + 1)) {
    noAssignment(c, first);
    return { kind: 'faulty' };
  }
  const names = parseNames(c, 'a name');
  c.next();
  return { kind: 'assign', targets: names, value: parseExpression(c) };
}

function noAssignment(c: Cursor, first: Token): void {
  const range = tokenRange(first);
  if (c.is(':', 1)) {
    const at = { start: range.start, end: range.start };
    c.fail(
      'EXPECTED_STATEMENT',
      'Only input, param and const have a type: start the line with one of them.',
      range,
      [
        { title: 'Make it an input', edits: [{ range: at, newText: 'input ' }] },
        { title: 'Make it a param', edits: [{ range: at, newText: 'param ' }] },
      ],
    );
  } else if (c.is('(', 1) || c.is('.', 1)) {
    const at = { start: range.start, end: range.start };
    c.fail('UNNAMED_RESULT', 'The result needs a name: y = …', range, [
      { title: 'Name it y', edits: [{ range: at, newText: 'y = ' }] },
    ]);
  } else if (c.isName(1)) {
    const word = FOREIGN.get(first.text) ?? nearest(first.text, KEYWORDS);
    if (word === undefined) {
      c.fail(
        'UNKNOWN_STATEMENT',
        `No statement starts with ${first.text}; there are: ${KEYWORDS.join(', ')}, and name = value.`,
        range,
      );
      return;
    }
    const next = tokenRange(c.peek(1)).start;
    const edit =
      word === ''
        ? { range: { start: range.start, end: next }, newText: '' }
        : { range, newText: word };
    const message =
      word === '' ? `Leave out ${first.text}: write name = value.` : `Did you mean ${word}?`;
    c.fail('UNKNOWN_STATEMENT', `No statement starts with ${first.text}. ${message}`, range, [
      { title: word === '' ? `Remove ${first.text}` : `Change to ${word}`, edits: [edit] },
    ]);
  } else if (c.peek(1).kind === 'end') {
    c.fail(
      'EXPECTED_STATEMENT',
      `${first.text} alone says nothing: write output ${first.text}, or ${first.text} = value.`,
      range,
    );
  } else {
    c.next();
    c.fail('EXPECTED_TOKEN', `An = should stand here, not ${c.found()}.`);
  }
}
