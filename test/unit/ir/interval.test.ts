// Interval arithmetic on index expressions holds every value that they take.

import assert from 'node:assert/strict';
import * as I from '../../../compiler/ir/indexExpr';
import { intervalOf } from '../../../compiler/ir/interval';
import { randomNumbers } from '../../gpu/programs';

const noSizes = (): undefined => undefined;

describe('intervals of indices', () => {
  it('hold every value, on random expressions', () => {
    const random = randomNumbers(3);
    const below = (n: number): number => Math.floor(random() * n);
    const a = I.loopVar('a', 24);
    const b = I.loopVar('b', 7);
    const expr = (depth: number): I.IndexExpr => {
      if (depth === 0) return [a, b, I.num(below(9) - 4)][below(3)] ?? a;
      const x = expr(depth - 1);
      const y = expr(depth - 1);
      switch (below(7)) {
        case 0:
          return I.add(x, y);
        case 1:
          return I.sub(x, y);
        case 2:
          return I.mul(x, below(7) - 3);
        case 3:
          return I.floorDiv(x, 1 + below(5));
        case 4:
          return I.mod(x, 1 + below(5));
        case 5:
          return I.min(x, y);
        default:
          return I.max(x, y);
      }
    };
    for (let i = 0; i < 400; i++) {
      const e = expr(3);
      const from = below(24);
      const to = from + below(24 - from);
      const [lo, hi] = intervalOf(e, (n) => (n === 'a' ? [from, to] : undefined), noSizes);
      for (let x = from; x <= to; x++)
        for (let y = 0; y < 7; y++) {
          const v = I.evaluate(e, (n) => (n === 'a' ? x : y));
          assert.ok(lo <= v && v <= hi, `${I.printIndex(e)} is ${v} at ${x}, ${y}: ${lo} to ${hi}`);
        }
    }
  });

  it('are tight where an index is taken apart and put together again', () => {
    const t = I.loopVar('t', 600);
    const [i = I.num(0), j = I.num(0)] = I.delinearise(t, [I.num(20), I.num(30)]);
    const of = (e: I.IndexExpr, from: number, to: number): readonly [number, number] =>
      intervalOf(e, () => [from, to], noSizes);
    assert.deepEqual(of(I.linearise([i, j], [I.num(20), I.num(30)]), 90, 119), [90, 119]);
    assert.deepEqual(of(i, 90, 119), [3, 3]);
    assert.deepEqual(of(j, 95, 100), [5, 10]);
    assert.deepEqual(of(j, 95, 130), [0, 29]);
  });

  it('know sizes that are bound', () => {
    const n = I.sym('N');
    const x = I.loopVar('x', n);
    assert.deepEqual(
      intervalOf(I.mul(x, 2), noSizes, (s) => (s === 'N' ? 5 : undefined)),
      [0, 8],
    );
  });
});
