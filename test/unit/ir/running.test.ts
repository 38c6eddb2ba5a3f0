/** Running reductions: what is taken for one, what isn't, and that one walk gives the same. */
import assert from 'node:assert/strict';
import { binary, constant, type Expr, indexValue, load, when } from '../../../compiler/ir/expr';
import { add, type IndexExpr, num, sub } from '../../../compiler/ir/indexExpr';
import { runningOf } from '../../../compiler/ir/running';
import { verifyProgram } from '../../../compiler/ir/verify';
import { interpret } from '../../../compiler/reference';
import { naive } from '../reference/naive';
import { Builder, random } from '../reference/programs';

type Kind = 'sum' | 'prod' | 'max' | 'min';
const NEUTRAL = { sum: 0, prod: 1, max: -Infinity, min: Infinity } as const;

interface Form {
  readonly kind?: Kind;
  /** lo <= index < hi, of the place d and the reduction's r. */
  readonly cond: (d: IndexExpr, r: IndexExpr) => { index: IndexExpr; lo: IndexExpr; hi: IndexExpr };
  readonly otherwise?: number;
  readonly element?: (at: Expr, d: IndexExpr) => Expr;
}

const N = 9;

/** A reduction over the middle dim of [2, 9, 3] under a condition. */
function programOf({ kind = 'sum', cond, otherwise = NEUTRAL[kind], element }: Form): Builder {
  const b = new Builder();
  b.input('x', [2, N, 3]);
  b.compute(
    [2, N, 3],
    ([i = num(0), d = num(0), j = num(0)], [r = num(0)]) => {
      const at = load('x', [i, r, j], 'f32');
      return when([cond(d, r)], element?.(at, d) ?? at, constant(otherwise, 'f32'));
    },
    [N],
    { kind },
  );
  return b;
}

function running(form: Form): string | undefined {
  const [c] = programOf(form).program().computes;
  assert.ok(c);
  const found = runningOf(c);
  if (!found) return undefined;
  const ends = found.exclusive ? 'without itself' : 'with itself';
  return `${found.monoid.kind} along ${found.axis} ${found.reverse ? 'backwards' : 'forwards'} ${ends}`;
}

const FORMS: Readonly<Record<string, Form & { readonly is: string }>> = {
  'up to the place': {
    cond: (d, r) => ({ index: r, lo: num(0), hi: add(d, 1) }),
    is: 'sum along 1 forwards with itself',
  },
  'before the place': {
    cond: (d, r) => ({ index: r, lo: num(0), hi: d }),
    is: 'sum along 1 forwards without itself',
  },
  'from the place on': {
    cond: (d, r) => ({ index: r, lo: d, hi: num(N) }),
    is: 'sum along 1 backwards with itself',
  },
  'behind the place': {
    cond: (d, r) => ({ index: r, lo: add(d, 1), hi: num(N) }),
    is: 'sum along 1 backwards without itself',
  },
  'by the distance': {
    cond: (d, r) => ({ index: sub(d, r), lo: num(0), hi: num(N) }),
    is: 'sum along 1 forwards with itself',
  },
  'the greatest so far': {
    kind: 'max',
    cond: (d, r) => ({ index: r, lo: num(0), hi: add(d, 1) }),
    is: 'max along 1 forwards with itself',
  },
  'the least from here on': {
    kind: 'min',
    cond: (d, r) => ({ index: r, lo: d, hi: num(N) }),
    is: 'min along 1 backwards with itself',
  },
  'a product': {
    kind: 'prod',
    cond: (d, r) => ({ index: d, lo: r, hi: num(N) }),
    is: 'prod along 1 forwards with itself',
  },
};

describe('running reductions', () => {
  for (const [name, { is, ...form }] of Object.entries(FORMS))
    it(`are found: ${name}; one walk gives what a point by point evaluation does`, () => {
      assert.equal(running(form), is);
      const program = programOf(form).program();
      assert.deepEqual(verifyProgram(program), []);
      const rnd = random(11);
      const inputs = new Map([
        ['x', Float64Array.from({ length: 2 * N * 3 }, () => rnd() * 2 - 1)],
      ]);
      const got = interpret(program, inputs).get('v0') ?? [];
      const expected = naive(program, inputs).get('v0') ?? [];
      assert.equal(got.length, expected.length);
      for (let i = 0; i < got.length; i++) {
        const [a, b] = [got[i] ?? NaN, expected[i] ?? NaN];
        assert.ok(a === b || Math.abs(a - b) < 1e-12, `${name}[${i}]: ${a} instead of ${b}`);
      }
    });

  const upTo: Form['cond'] = (d, r) => ({ index: r, lo: num(0), hi: add(d, 1) });
  const NOT: Readonly<Record<string, Form>> = {
    'a window': { cond: (d, r) => ({ index: sub(d, r), lo: num(0), hi: num(3) }) },
    'up to two places on': { cond: (d, r) => ({ index: r, lo: num(0), hi: add(d, 3) }) },
    everything: { cond: (_, r) => ({ index: r, lo: num(0), hi: num(N) }) },
    'what counts something elsewhere too': { cond: upTo, otherwise: 1 },
    'elements that depend on the place': {
      cond: upTo,
      element: (at, d) => binary('mul', at, indexValue(d, 'f32')),
    },
  };
  for (const [name, form] of Object.entries(NOT))
    it(`are not: ${name}`, () => assert.equal(running(form), undefined));
});
