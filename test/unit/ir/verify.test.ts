import assert from 'node:assert/strict';
import { printProgram } from '../../../compiler/ir/print';
import { verifyProgram } from '../../../compiler/ir/verify';
import { binary, cast, constant, load, when } from '../../../compiler/ir/expr';
import { add, loopVar, mul, num, sub, sym } from '../../../compiler/ir/indexExpr';
import { Builder } from '../reference/programs';
import type { Program } from '../../../compiler/ir/compute';

/** matmul, then a padded shift of it, then an argmax: with a symbolic size. */
function sound(): Program {
  const b = new Builder(new Map([['B', 64]]));
  const B = sym('B');
  b.input('x', [B, 512], 'f16');
  b.input('w', [512, 1024], 'f16');
  b.compute(
    [B, 1024],
    ([i, j], [k]) => {
      assert.ok(i && j && k);
      const f = (value: string, index: readonly (typeof i)[]): ReturnType<typeof cast> =>
        cast(load(value, index, 'f16'), 'f32');
      return binary('mul', f('x', [i, k]), f('w', [k, j]));
    },
    [512],
    { kind: 'sum' },
  );
  b.compute([B, 1024], ([i, j]) => {
    assert.ok(i && j);
    const at = sub(add(i, mul(2, j)), 3);
    return when(
      [{ index: at, lo: num(0), hi: B }],
      load('v0', [at, j], 'f32'),
      constant(-0, 'f32'),
    );
  });
  b.compute(
    [B],
    (d, r) => load('v1', [...d, ...r], 'f32'),
    [1024],
    { kind: 'argmax', last: true },
    'i64',
  );
  return b.program();
}

describe('the L1 printer', () => {
  it('writes one line per compute', () => {
    assert.equal(
      printProgram(sound()),
      [
        'c0: v0[d0:B, d1:1024] f32 = sum(r0:512) mul(f32(x[d0, r0]), f32(w[r0, d1]))  # n0',
        'c1: v1[d0:B, d1:1024] f32 = when(0 <= d0 + 2*d1 + -3 < B ? v0[d0 + 2*d1 + -3, d1] : -0:f32)  # n1',
        'c2: v2[d0:B] i64 = argmax_last(r0:1024, acc f32) v1[d0, r0]  # n2',
      ].join('\n'),
    );
  });
});

describe('the L1 verifier', () => {
  it('finds nothing in a sound program', () => {
    assert.deepEqual(verifyProgram(sound()), []);
  });

  const broken: [string, () => Program, RegExp][] = [
    [
      'a load before its compute',
      () => ({ ...sound(), computes: [...sound().computes].reverse() }),
      /c2: it loads v1 before that is computed/,
    ],
    [
      'an unbound variable',
      () => {
        const b = new Builder();
        b.input('x', [8]);
        b.compute([8], () => load('x', [loopVar('d7', 8)], 'f32'));
        return b.program();
      },
      /c0: the variable d7 is not one of its dims/,
    ],
    [
      'an index that may leave its dim',
      () => {
        const b = new Builder();
        b.input('x', [8]);
        b.compute([8], ([d]) => load('x', [add(d ?? 0, 1)], 'f32'));
        return b.program();
      },
      /c0: x: the index d0 \+ 1 may leave \[0, 8\) in dim 0/,
    ],
    [
      'a wrong rank',
      () => {
        const b = new Builder();
        b.input('x', [8, 2]);
        b.compute([8], (d) => load('x', d, 'f32'));
        return b.program();
      },
      /c0: it loads x with 1 indices, not 2/,
    ],
    [
      'operands of two dtypes',
      () => {
        const b = new Builder();
        b.input('x', [8], 'f16');
        b.compute([8], (d) => binary('add', load('x', d, 'f16'), constant(1, 'f32')));
        return b.program();
      },
      /c0: add\(f16, f32\)/,
    ],
    [
      'reduction dims without a monoid',
      () => {
        const b = new Builder();
        b.input('x', [8]);
        b.compute([], (_, r) => load('x', r, 'f32'), [8]);
        return b.program();
      },
      /c0: it has reduction dims but no monoid/,
    ],
    [
      'a constant of the wrong length',
      () => {
        const b = new Builder(new Map([['N', 3]]));
        b.constant('k', [sym('N')], 'i32', { kind: 'bytes', bytes: new Uint8Array(8) });
        b.compute([sym('N')], (d) => load('k', d, 'i32'));
        return b.program();
      },
      /k: 8 bytes of contents instead of 12/,
    ],
    [
      'a size without a value',
      () => {
        const b = new Builder();
        b.input('x', [sym('Q')]);
        b.compute([sym('Q')], (d) => load('x', d, 'f32'));
        return b.program();
      },
      /the size Q has no value/,
    ],
  ];
  for (const [what, make, fault] of broken)
    it(`finds ${what}`, () => assert.match(verifyProgram(make()).join('\n'), fault));
});
