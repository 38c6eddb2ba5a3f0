/**
 * The syntax of directives: what a file asks of the compiler about names that it defines.
 *
 * Names are resolved later, at the end of the file, so that directives may stand anywhere.
 */
import { PATTERNS } from '../../fusion/verdicts';
import type { Relation } from '../../graph/graph';
import type {
  ExpectSyntax,
  Expression,
  Keyword,
  Setting,
  UnplacedStatement as Unplaced,
} from './ast';
import type { Cursor } from './cursor';
import { expectClose, parseExpression, parseNamed, parseNames } from './expressions';
import { tokenRange, type Token } from './lexer';
import { nearest } from './suggest';

export const RELATIONS: readonly Relation[] = ['<=', '<', '==', '>=', '>', '!='];

export const EXPECTATIONS = ['kernels', 'bytes', 'fused', 'pattern'] as const;

export const BYTE_UNITS: ReadonlyMap<string, number> = new Map([
  ['B', 1],
  ['byte', 1],
  ['bytes', 1],
  ['kB', 1e3],
  ['KB', 1e3],
  ['MB', 1e6],
  ['GB', 1e9],
  ['TB', 1e12],
  ['KiB', 2 ** 10],
  ['MiB', 2 ** 20],
  ['GiB', 2 ** 30],
  ['TiB', 2 ** 40],
]);

export type DirectiveKeyword = Extract<
  Keyword,
  'expect' | 'materialize' | 'nofuse' | 'fuse' | 'recompute' | 'schedule'
>;

export function parseDirective(c: Cursor, keyword: DirectiveKeyword, word: Token): Unplaced[] {
  switch (keyword) {
    case 'expect': {
      const expectation = parseExpectation(c);
      return [{ kind: 'expect', ...(expectation ? { expectation } : {}) }];
    }
    case 'materialize':
    case 'recompute':
    case 'fuse': {
      const values = parseNames(c, `the name of a value, as in ${keyword} y`);
      if (keyword === 'fuse' && values.length === 1 && !c.failed) {
        c.fail('FUSE_NEEDS_TWO', 'fuse takes two values or more: fuse a, y.', tokenRange(word));
      }
      return [{ kind: keyword, values }];
    }
    case 'nofuse': {
      const out: Unplaced[] = [];
      do {
        const from = parseNamed(c, 'the name of a value, as in nofuse a -> y');
        if (!from) break;
        if (!c.accept('->')) {
          c.fail(
            'EXPECTED_TOKEN',
            `An arrow should stand here, not ${c.found()}: nofuse ${from.name} -> y.`,
          );
          break;
        }
        const to = parseNamed(c, 'the name of the value that uses it');
        if (!to) break;
        out.push({ kind: 'nofuse', from, to });
      } while (c.accept(','));
      return out;
    }
    case 'schedule':
      return parseSchedule(c);
  }
}

function parseExpectation(c: Cursor): ExpectSyntax | undefined {
  const what = parseNamed(c, 'kernels, bytes, fused or pattern, as in expect kernels <= 2');
  if (!what) return undefined;
  switch (what.name) {
    case 'kernels': {
      const relation = parseRelation(c);
      if (!relation) return undefined;
      const count = parseCount(c, 'a number of kernels');
      return count === undefined ? undefined : { kind: 'kernels', relation, count };
    }
    case 'bytes': {
      const relation = parseRelation(c);
      if (!relation) return undefined;
      const amount = parseAmount(c);
      return amount === undefined ? undefined : { kind: 'bytes', relation, bytes: amount };
    }
    case 'fused': {
      const values = parseNames(c, 'the name of a value, as in expect fused a, y');
      if (values.length === 1 && !c.failed) {
        c.fail(
          'FUSE_NEEDS_TWO',
          'expect fused takes two values or more: expect fused a, y.',
          what.range,
        );
      }
      return values.length > 1 ? { kind: 'fused', values } : undefined;
    }
    case 'pattern':
      return parsePattern(c);
    default: {
      const meant = nearest(what.name, EXPECTATIONS);
      c.fail(
        'UNKNOWN_EXPECTATION',
        `${what.name} can’t be expected; there are kernels, bytes, fused and pattern.`,
        what.range,
        meant === undefined
          ? []
          : [{ title: `Change to ${meant}`, edits: [{ range: what.range, newText: meant }] }],
      );
      return undefined;
    }
  }
}

function parseRelation(c: Cursor): Relation | undefined {
  const t = c.peek();
  const relation = RELATIONS.find((r) => t.kind === 'punctuation' && t.text === r);
  if (relation) {
    c.next();
    return relation;
  }
  const single = t.kind === 'punctuation' && t.text === '=';
  c.fail(
    'EXPECTED_TOKEN',
    `A relation should stand here (${RELATIONS.join(' ')}), not ${c.found()}.`,
    undefined,
    single ? [{ title: 'Change to ==', edits: [{ range: tokenRange(t), newText: '==' }] }] : [],
  );
  return undefined;
}

function parseCount(c: Cursor, what: string): number | undefined {
  const start = c.peek();
  const e = parseExpression(c);
  if (e.kind === 'number' && Number.isInteger(e.value) && e.value >= 0) return e.value;
  c.fail('EXPECTED_NUMBER', `Here should stand ${what}: a whole number from 0.`, tokenRange(start));
  return undefined;
}

/** `12 MiB`, `512`, `1.5GB`. */
function parseAmount(c: Cursor): number | undefined {
  const start = c.peek();
  const e = parseExpression(c);
  if (e.kind !== 'number' || e.value < 0) {
    c.fail(
      'EXPECTED_NUMBER',
      'Here should stand an amount, as in expect bytes <= 12 MiB.',
      tokenRange(start),
    );
    return undefined;
  }
  if (!c.isName()) return e.value;
  const unit = c.next();
  const factor = BYTE_UNITS.get(unit.text);
  if (factor !== undefined) return e.value * factor;
  const meant = [...BYTE_UNITS.keys()].find((u) => u.toLowerCase() === unit.text.toLowerCase());
  c.fail(
    'UNKNOWN_UNIT',
    `${unit.text} is no unit of bytes; there are B, KiB, MiB, GiB and KB, MB, GB.`,
    tokenRange(unit),
    meant === undefined
      ? []
      : [{ title: `Change to ${meant}`, edits: [{ range: tokenRange(unit), newText: meant }] }],
  );
  return undefined;
}

function parsePattern(c: Cursor): ExpectSyntax | undefined {
  const value = parseNamed(c, 'the name of a value, as in expect pattern y = composite');
  if (!value) return undefined;
  if (!c.accept('=') && !c.accept('==')) {
    c.fail(
      'EXPECTED_TOKEN',
      `An = should stand here, not ${c.found()}: expect pattern ${value.name} = composite.`,
    );
    return undefined;
  }
  const start = c.peek();
  if (!parseNamed(c, `the name of a pattern: ${PATTERNS.join(', ')}`)) return undefined;
  // Patterns are written with hyphens: into-reduction.
  while (c.is('-') && c.isName(1)) {
    c.next();
    c.next();
  }
  const range = c.rangeFrom(start);
  const name = c.text.slice(start.start, c.previous().end).replaceAll(/\s|#.*/g, '');
  if (!PATTERNS.includes(name)) {
    const meant = nearest(name.replaceAll('_', '-'), PATTERNS);
    c.fail(
      'UNKNOWN_PATTERN',
      `${name} is no pattern; there are: ${PATTERNS.join(', ')}.`,
      range,
      meant === undefined
        ? []
        : [{ title: `Change to ${meant}`, edits: [{ range, newText: meant }] }],
    );
    return undefined;
  }
  return { kind: 'pattern', value, pattern: { name, range } };
}

function parseSchedule(c: Cursor): Unplaced[] {
  const value = parseNamed(c, 'the name of a value, as in schedule y { workgroup = 128 }');
  if (!value) return [{ kind: 'faulty' }];
  const open = c.peek();
  if (!c.accept('{')) {
    c.fail(
      'EXPECTED_TOKEN',
      `Settings in braces should stand here, not ${c.found()}: schedule ${value.name} { workgroup = 128 }.`,
    );
    return [{ kind: 'faulty' }];
  }
  const settings: Setting[] = [];
  while (!c.is('}') && !c.done) {
    const key = parseNamed(c, 'the name of a setting, as in workgroup = 128');
    if (!key) break;
    if (!c.accept('=')) {
      c.fail('EXPECTED_TOKEN', `An = should stand here, not ${c.found()}.`);
      break;
    }
    const value: Expression = parseExpression(c);
    settings.push({ key, value });
    // A comma, a semicolon or a new line parts settings.
    if (!c.accept(',')) c.accept(';');
  }
  expectClose(c, open, '}');
  return [{ kind: 'schedule', value, settings }];
}
