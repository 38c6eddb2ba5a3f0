/** Windows against enumeration: which results read elements in common. */
import assert from 'node:assert/strict';
import * as I from '../../../compiler/ir/indexExpr';
import { overlap } from '../../../compiler/ir/windows';

describe('windows', () => {
  it('overlap where two results read one element, and only there', () => {
    for (const step of [1, 2, 3, 5])
      for (const dilation of [1, 2, 3])
        for (const size of [1, 2, 3, 4])
          for (const offset of [0, -1]) {
            const count = 4;
            const d = I.loopVar('d0', count);
            const r = I.loopVar('r0', size);
            const e = I.add(I.add(I.mul(d, step), I.mul(r, dilation)), offset);
            const span = dilation * (size - 1);
            // A gap of one window may hold a part of the next: 2·r between 3·d. They count as overlapping.
            const expected = size > 1 && step <= span;
            assert.equal(overlap(e), expected, `${step}·d + ${dilation}·r, ${size} wide`);
            const read = new Map<number, number>();
            let common = false;
            for (let i = 0; i < count; i++)
              for (let k = 0; k < size; k++) {
                const at = step * i + dilation * k;
                common ||= (read.get(at) ?? i) !== i;
                read.set(at, i);
              }
            if (common) assert.ok(overlap(e));
          }
  });

  it('of symbolic sizes are compared as far as can be proved', () => {
    const n = I.sym('N');
    const rows = I.add(I.mul(I.loopVar('d0', 8), n), I.loopVar('r0', n));
    assert.equal(overlap(rows), false);
    assert.equal(overlap(I.add(I.loopVar('d0', n), I.loopVar('r0', n))), true);
    const nested = I.floorDiv(I.add(I.loopVar('d0', 8), I.loopVar('r0', 2)), 2);
    assert.equal(overlap(nested), true);
  });

  it('are none where only one kind of variable is there', () => {
    assert.equal(overlap(I.add(I.mul(I.loopVar('d0', 4), 2), I.loopVar('d1', 4))), false);
    assert.equal(overlap(I.add(I.mul(I.loopVar('r0', 4), 2), I.loopVar('r1', 4))), false);
  });
});
