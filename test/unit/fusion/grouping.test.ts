/** Groups of computes: cycles, what is stored and the order, against brute force. */
import assert from 'node:assert/strict';
import { Grouping, union } from '../../../compiler/fusion/grouping';
import type { Compute, Program, Value } from '../../../compiler/ir/compute';
import { binary, constant, type Expr, load } from '../../../compiler/ir/expr';
import * as I from '../../../compiler/ir/indexExpr';
import { random } from './fixture';

/** A program of elementwise computes, by what each reads. */
function programOf(reads: readonly (readonly number[])[]): Program {
  const shape = [I.num(8)];
  const i = I.loopVar('d0', 8);
  const values = new Map<string, Value>();
  values.set('x', { id: 'x', name: 'x', dtype: 'f32', shape, role: 'input' });
  const computes: Compute[] = reads.map((from, n) => {
    const value = `v${n}`;
    values.set(value, { id: value, name: value, dtype: 'f32', shape, role: 'computed' });
    const terms: Expr[] = from.map((p) => load(`v${p}`, [i], 'f32'));
    const body = terms.reduce<Expr>(
      (a, b) => binary('add', a, b),
      from.length === 0 ? load('x', [i], 'f32') : constant(0, 'f32'),
    );
    return {
      id: `c:${value}`,
      value,
      dims: [{ name: 'd0', extent: I.num(8) }],
      reduce: [],
      body,
      dtype: 'f32',
      accumulator: 'f32',
      origin: [`n${n}`],
    };
  });
  return { values, computes, inputs: ['x'], outputs: [], dims: new Map() };
}

/** A random program: each compute reads up to three earlier ones, mostly near ones. */
function randomReads(pick: (below: number) => number, n: number): number[][] {
  return Array.from({ length: n }, (_, i) => {
    const from = new Set<number>();
    for (let k = pick(4); k > 0 && i > 0; k--)
      from.add(pick(3) === 0 ? pick(i) : Math.max(0, i - 1 - pick(4)));
    return [...from].sort((a, b) => a - b);
  });
}

/** Edges between groups, from their members. */
function edges(g: Grouping): Map<number, Set<number>> {
  const out = new Map<number, Set<number>>();
  for (const a of g.groups.values()) {
    const next = new Set<number>();
    for (const m of a.members) {
      for (const r of g.readers[m] ?? []) {
        for (const b of g.groups.values()) {
          if (b.id !== a.id && b.members.includes(r) && !b.members.includes(m)) next.add(b.id);
        }
      }
    }
    out.set(a.id, next);
  }
  return out;
}

/** Whether a path of more than one edge leads from `a` to `b`. */
function pathAround(next: Map<number, Set<number>>, a: number, b: number): boolean {
  const seen = new Set<number>();
  const stack = [...(next.get(a) ?? [])].filter((x) => x !== b);
  for (let x = stack.pop(); x !== undefined; x = stack.pop()) {
    if (seen.has(x)) continue;
    seen.add(x);
    for (const y of next.get(x) ?? []) {
      if (y === b) return true;
      stack.push(y);
    }
  }
  return false;
}

function checkGroups(g: Grouping): void {
  const next = edges(g);
  for (const id of g.groups.keys()) {
    const sorted = (s: Iterable<number>): number[] => [...s].sort((x, y) => x - y);
    assert.deepEqual(sorted(g.consumers(id)), sorted(next.get(id) ?? []));
    const before = [...next].filter(([, s]) => s.has(id)).map(([x]) => x);
    assert.deepEqual(sorted(g.producers(id)), sorted(before));
  }
  const place = new Map(g.ordered().map((x, i) => [x.id, i]));
  assert.equal(place.size, g.groups.size);
  for (const [a, s] of next)
    for (const b of s) assert.ok((place.get(a) ?? 0) < (place.get(b) ?? 0), `${a} before ${b}`);
}

describe('Grouping', () => {
  it('a shortcut around another group is a cycle; the path is what lies between', () => {
    // 0 → 1 → 2 → 3, and 0 → 3
    const g = new Grouping(programOf([[], [0], [1], [0, 2]]), new Set(['v3']));
    assert.deepEqual(g.cycle(0, 3), [1, 2]);
    assert.deepEqual(g.cycle(3, 0), [1, 2]);
    assert.equal(g.cycle(0, 1), undefined);
    assert.equal(g.cycle(2, 3), undefined);
    const all = g.merge(g.merge(g.merge(0, 1), 2), 3);
    assert.deepEqual(g.group(all).members, [0, 1, 2, 3]);
    assert.equal(g.groups.size, 1);
  });

  it('a group with early and late members leads backwards in the program', () => {
    // 0 → 3 and 1 → 2: with 0 and 1 one group, 3 comes after what precedes 2.
    const g = new Grouping(programOf([[], [], [1], [0], [2], [3]]), new Set());
    const a = g.merge(0, 1);
    const b = g.merge(2, 3);
    // From {0, 1} to {2, 3} to 4 and 5.
    assert.deepEqual([...g.consumers(a)], [b]);
    assert.equal(g.cycle(4, 5), undefined);
    assert.deepEqual(g.cycle(a, 5), [b]);
    checkGroups(g);
  });

  it('cycles are what brute force finds, through random merges', () => {
    for (let seed = 1; seed <= 30; seed++) {
      const pick = random(seed);
      const g = new Grouping(programOf(randomReads(pick, 24)), new Set());
      for (let step = 0; step < 60 && g.groups.size > 1; step++) {
        const ids = [...g.groups.keys()];
        const a = ids[pick(ids.length)] ?? 0;
        const b = ids[pick(ids.length)] ?? 0;
        if (a === b) continue;
        const next = edges(g);
        const found = g.cycle(a, b);
        const there = pathAround(next, a, b) || pathAround(next, b, a);
        assert.equal(found !== undefined, there, `seed ${seed}, step ${step}`);
        if (found) {
          // It is a path indeed.
          const forwards = next.get(a)?.has(found[0] ?? -1) === true;
          const chain = forwards ? [a, ...found, b] : [b, ...found, a];
          for (let i = 1; i < chain.length; i++)
            assert.ok(next.get(chain[i - 1] ?? -1)?.has(chain[i] ?? -1), `seed ${seed}`);
          continue;
        }
        g.merge(a, b);
        checkGroups(g);
      }
    }
  });

  it('a value is stored when a group without a copy of it reads it, or when it is kept', () => {
    // 0 is read by 1 and 2, 1 by 3.
    const g = new Grouping(programOf([[], [0], [0], [1]]), new Set(['v3']));
    assert.deepEqual(g.stored([0, 1]), [true, true]);
    assert.deepEqual(g.stored([0, 1, 2]), [false, true, false]);
    assert.deepEqual(g.stored([0, 1, 2, 3]), [false, false, false, true]);
    // 0 is copied into both readers: nobody stores it.
    const copies = g.duplicate(0, [1, 2]);
    assert.equal(copies.length, 2);
    for (const c of copies) {
      const { members } = g.group(c);
      assert.equal(g.stored(members)[members.indexOf(0)], false);
    }
    assert.deepEqual(
      copies.map((c) => g.group(c).members),
      [
        [0, 1],
        [0, 2],
      ],
    );
    checkGroups(g);
  });

  it('copies take the place of their readers in the order', () => {
    for (let seed = 1; seed <= 20; seed++) {
      const pick = random(seed + 100);
      const g = new Grouping(programOf(randomReads(pick, 16)), new Set());
      for (let step = 0; step < 12; step++) {
        const ids = [...g.groups.keys()];
        const a = ids[pick(ids.length)] ?? 0;
        const readers = [...g.consumers(a)];
        if (readers.length > 1 && pick(2) === 0) g.duplicate(a, readers);
        else {
          const b = readers[0];
          if (b === undefined || g.cycle(a, b)) continue;
          g.merge(a, b);
        }
        checkGroups(g);
      }
    }
  });

  it('unions of ascending lists are ascending, without repeats', () => {
    assert.deepEqual(union([1, 3, 5], [2, 3, 6]), [1, 2, 3, 5, 6]);
    assert.deepEqual(union([], [4]), [4]);
    assert.deepEqual(union([0, 1], [0, 1]), [0, 1]);
  });
});
