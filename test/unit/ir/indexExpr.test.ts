/** Index expressions: canonical forms by their text, and meaning against brute-force enumeration. */
import assert from 'node:assert/strict';
import * as I from '../../../compiler/ir/indexExpr';
import type { IndexExpr } from '../../../compiler/ir/indexExpr';

const S = I.sym('S');
const B = I.sym('B');

/** Numbers from a seed: the same in every run. */
function random(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

type Tree =
  | { readonly op: 'num'; readonly value: number }
  | { readonly op: 'var' | 'sym'; readonly name: string }
  | {
      readonly op: 'add' | 'sub' | 'mul' | 'floorDiv' | 'mod' | 'ceilDiv' | 'min' | 'max';
      readonly a: Tree;
      readonly b: Tree;
    };

const VARS: readonly (readonly [string, IndexExpr])[] = [
  ['i', I.num(6)],
  ['j', I.num(8)],
  ['k', S],
  ['l', I.mul(B, 4)],
];

function grow(pick: (below: number) => number, depth: number): Tree {
  if (depth === 0 || pick(6) === 0) {
    const leaf = pick(4);
    if (leaf === 0) return { op: 'num', value: pick(20) - 5 };
    if (leaf === 1) return { op: 'sym', name: pick(2) === 0 ? 'S' : 'B' };
    return { op: 'var', name: VARS[pick(VARS.length)]?.[0] ?? 'i' };
  }
  const ops = ['add', 'add', 'sub', 'mul', 'floorDiv', 'mod', 'ceilDiv', 'min', 'max'] as const;
  const op = ops[pick(ops.length)] ?? 'add';
  const a = grow(pick, depth - 1);
  // Divisors are positive: constants, sizes and their multiples.
  if (op === 'floorDiv' || op === 'mod' || op === 'ceilDiv') {
    const size: Tree = { op: 'sym', name: pick(2) === 0 ? 'S' : 'B' };
    const n: Tree = { op: 'num', value: 1 + pick(12) };
    const b: Tree = pick(3) > 0 ? n : pick(2) > 0 ? size : { op: 'mul', a: size, b: n };
    return { op, a, b };
  }
  return { op, a, b: grow(pick, depth - 1) };
}

function build(t: Tree): IndexExpr {
  switch (t.op) {
    case 'num':
      return I.num(t.value);
    case 'sym':
      return I.sym(t.name);
    case 'var':
      return I.loopVar(t.name, new Map(VARS).get(t.name) ?? 1);
    default:
      return I[t.op](build(t.a), build(t.b));
  }
}

function meaning(t: Tree, bind: ReadonlyMap<string, number>): number {
  switch (t.op) {
    case 'num':
      return t.value;
    case 'sym':
    case 'var':
      return bind.get(t.name) ?? NaN;
    default: {
      const a = meaning(t.a, bind);
      const b = meaning(t.b, bind);
      switch (t.op) {
        case 'add':
          return a + b;
        case 'sub':
          return a - b;
        case 'mul':
          return a * b;
        case 'floorDiv':
          return Math.floor(a / b);
        case 'ceilDiv':
          return Math.ceil(a / b);
        case 'mod':
          return a - b * Math.floor(a / b);
        case 'min':
          return Math.min(a, b);
        case 'max':
          return Math.max(a, b);
      }
    }
  }
}

/** Points of the space of the variables, with sizes bound. */
function* bindings(pick: (below: number) => number, count: number): Generator<Map<string, number>> {
  for (let n = 0; n < count; n++) {
    const bind = new Map<string, number>();
    bind.set('S', 1 + pick(9));
    bind.set('B', 1 + pick(5));
    for (const [name, extent] of VARS) bind.set(name, pick(I.evaluate(extent, (s) => bind.get(s))));
    yield bind;
  }
}

describe('Index expressions', () => {
  const [i, j, k] = [I.loopVar('i', 6), I.loopVar('j', 8), I.loopVar('k', 12)];
  const text = (e: IndexExpr): string => I.printIndex(e);

  it('sums and products have one form whatever the order they were built in', () => {
    const a = I.add(I.add(I.mul(i, 3), j), I.sub(5, i));
    const b = I.sub(I.add(j, I.mul(2, i)), -5);
    assert.equal(text(a), '2*i + j + 5');
    assert.equal(a.key, b.key);
    assert.equal(text(I.mul(I.add(i, S), I.sub(S, i))), '$S*$S + -1*i*i'.replaceAll('$', ''));
    assert.equal(text(I.sub(a, b)), '0');
    assert.equal(text(I.mul(I.add(i, 1), 0)), '0');
  });

  it('a quotient and its remainder make the number again', () => {
    const x = I.add(I.mul(i, 8), j);
    const y = I.loopVar('y', 100);
    assert.equal(text(I.add(I.mul(I.floorDiv(y, 7), 7), I.mod(y, 7))), 'y');
    assert.equal(text(I.add(I.mul(I.floorDiv(y, S), S), I.mod(y, S))), 'y');
    assert.equal(text(I.floorDiv(x, 8)), 'i');
    assert.equal(text(I.mod(x, 8)), 'j');
    assert.equal(text(I.floorDiv(x, 4)), '(j // 4) + 2*i');
    assert.equal(text(I.mod(x, 16)), '8*(i % 2) + j');
  });

  it('a reshape and the reshape back cancel', () => {
    for (const [from, to] of [
      [
        [6, 8, 12],
        [48, 12],
      ],
      [[6, 8, 12], [576]],
      [
        [6, 8, 12],
        [6, 96],
      ],
      [
        [6, 8, 12],
        [12, 4, 12],
      ],
      [
        [6, 8, 12],
        [2, 3, 2, 4, 3, 4],
      ],
    ] as const) {
      const index = [i, j, k];
      const there = I.delinearise(I.linearise(index, from.map(I.num)), to.map(I.num));
      const back = I.delinearise(I.linearise(there, to.map(I.num)), from.map(I.num));
      assert.deepEqual(back.map(text), ['i', 'j', 'k'], to.join('×'));
    }
  });

  it('a reshape and the reshape back cancel with symbolic sizes', () => {
    const n = I.loopVar('n', B);
    const s = I.loopVar('s', S);
    const c = I.loopVar('c', 256);
    const shape = [B, S, I.num(256)];
    for (const to of [
      [B, S, I.num(4), I.num(64)],
      [I.mul(B, S), I.num(256)],
      [B, I.mul(S, 256)],
      [I.mul(I.mul(B, S), 256)],
    ]) {
      const there = I.delinearise(I.linearise([n, s, c], shape), to);
      const back = I.delinearise(I.linearise(there, to), shape);
      assert.deepEqual(back.map(text), ['n', 's', 'c'], I.printShape(to));
    }
  });

  it('heads split off, transposed and joined again are a plain read', () => {
    const s = I.loopVar('s', S);
    const c = I.loopVar('c', 256);
    // [S, 256] → [S, 4, 64] → [4, S, 64] → [S, 4, 64] → [S, 256]
    const [s1, h, d] = I.delinearise(I.linearise([s, c], [S, I.num(256)]), [
      S,
      I.num(4),
      I.num(64),
    ]);
    assert.ok(s1 && h && d);
    assert.deepEqual([s1, h, d].map(text), ['s', 'c // 64', 'c % 64']);
    const joined = I.delinearise(I.linearise([s1, h, d], [S, I.num(4), I.num(64)]), [
      S,
      I.num(256),
    ]);
    assert.deepEqual(joined.map(text), ['s', 'c']);
  });

  it('ranges decide comparisons', () => {
    const s = I.loopVar('s', S);
    assert.equal(I.provablyLe(s, I.sub(S, 1)), true);
    assert.equal(I.provablyLe(s, I.sub(S, 2)), false);
    assert.equal(I.provablyLe(I.mul(s, 4), I.sub(I.mul(S, 4), 4)), true);
    assert.equal(I.provablyLe(I.add(I.mul(i, 8), j), 47), true);
    assert.equal(I.provablyLe(I.add(I.mul(i, 8), j), 46), false);
    // Halves of a size, as of rotary embeddings.
    assert.equal(I.provablyLe(I.mul(I.floorDiv(S, 2), 2), S), true);
    assert.equal(I.provablyLe(I.sub(S, 1), I.mul(I.floorDiv(S, 2), 2)), true);
    assert.equal(I.provablyLe(S, I.mul(I.floorDiv(S, 2), 2)), false);
    assert.equal(I.provablyLe(I.add(I.mul(I.floorDiv(S, 2), 2), 1), S), false);
    assert.equal(text(I.min(i, 7)), 'i');
    assert.equal(text(I.max(I.sub(i, 6), 0)), '0');
    assert.equal(text(I.min(s, S)), 's');
  });

  it('a variable may get another extent under its name', () => {
    const before = I.floorDiv(I.loopVar('x', 100), 8);
    const after = I.rewrite(before, (a) => (a.kind === 'var' ? I.loopVar('x', 8) : undefined));
    assert.equal(text(before), 'x // 8');
    assert.equal(text(after), '0');
  });

  it('simplified expressions mean what was built, at random points of random expressions', () => {
    const pick = random(1);
    for (let n = 0; n < 3000; n++) {
      const tree = grow(pick, 1 + pick(4));
      const e = build(tree);
      for (const bind of bindings(pick, 12)) {
        // No sign on zero.
        const want = meaning(tree, bind) + 0;
        const got = I.evaluate(e, (name) => bind.get(name)) + 0;
        assert.equal(
          got,
          want,
          `${JSON.stringify(tree)} became ${e.key} at ${JSON.stringify([...bind])}`,
        );
      }
    }
  });

  it('bounds hold, and comparisons that are proved are true', () => {
    const pick = random(2);
    for (let n = 0; n < 2000; n++) {
      const e = build(grow(pick, 1 + pick(3)));
      const f = build(grow(pick, 1 + pick(2)));
      const lo = I.lowerBound(e);
      const hi = I.upperBound(e);
      const le = I.provablyLe(e, f);
      for (const bind of bindings(pick, 12)) {
        const value = I.evaluate(e, (name) => bind.get(name));
        const sizes = new I.SizeValues(bind);
        const within = [I.lowerBound(e, sizes), I.upperBound(e, sizes)] as const;
        assert.ok(within[0] <= value && value <= within[1], `${e.key} with sizes bound`);
        assert.equal(
          I.evaluate(e, (name) => bind.get(name), sizes),
          value,
        );
        assert.ok(lo <= value && value <= hi, `${e.key} is ${value}, not in ${lo}…${hi}`);
        if (le) assert.ok(value <= I.evaluate(f, (name) => bind.get(name)), `${e.key} <= ${f.key}`);
      }
    }
  });

  it('rewriting leaves is evaluating with them bound', () => {
    const pick = random(3);
    for (let n = 0; n < 1500; n++) {
      const e = build(grow(pick, 1 + pick(4)));
      // i becomes a mix of the others that stays in its range.
      const into = I.mod(I.add(I.mul(I.loopVar('j', 8), 2), I.loopVar('p', 3)), 6);
      const r = I.rewrite(e, (a) => (a.kind === 'var' && a.name === 'i' ? into : undefined));
      for (const bind of bindings(pick, 8)) {
        bind.set('p', pick(3));
        const inner = new Map(bind);
        inner.set(
          'i',
          I.evaluate(into, (name) => bind.get(name)),
        );
        const want = I.evaluate(e, (name) => inner.get(name)) + 0;
        assert.equal(I.evaluate(r, (name) => bind.get(name)) + 0, want, `${e.key} became ${r.key}`);
      }
    }
  });

  it('a reshape of any index is the same element, by enumeration', () => {
    const pick = random(4);
    for (let n = 0; n < 200; n++) {
      const sizes = [1 + pick(4), 1 + pick(4), 1 + pick(4)];
      const total = sizes.reduce((p, x) => p * x, 1);
      const divisors = Array.from({ length: total }, (_, x) => x + 1).filter(
        (x) => total % x === 0,
      );
      const first = divisors[pick(divisors.length)] ?? 1;
      const to = [first, total / first].map(I.num);
      const vars = sizes.map((s, d) => I.loopVar(`v${d}`, s));
      const index = I.delinearise(I.linearise(vars, sizes.map(I.num)), to);
      const seen = new Set<string>();
      for (let p = 0; p < total; p++) {
        const at = I.delinearise(I.num(p), sizes.map(I.num)).map((e) => e.c);
        const bind = (name: string): number | undefined => at[Number(name.slice(1))];
        const got = index.map((e) => I.evaluate(e, bind));
        assert.equal((got[0] ?? 0) * (to[1]?.c ?? 1) + (got[1] ?? 0), p);
        seen.add(got.join());
      }
      assert.equal(seen.size, total);
    }
  });
});
