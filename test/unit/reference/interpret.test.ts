import assert from 'node:assert/strict';
import { decode, interpret, interpretSteps } from '../../../compiler/reference';
import { erf, roundEven, toBf16, toF16 } from '../../../compiler/reference/math';
import { printProgram } from '../../../compiler/ir/print';
import { verifyProgram } from '../../../compiler/ir/verify';
import { binary, cast, constant, dynIndex, load, unary, when } from '../../../compiler/ir/expr';
import { add, num, sub, sym } from '../../../compiler/ir/indexExpr';
import { naive } from './naive';
import { Builder, random, randomProgram } from './programs';

function close(got: ArrayLike<number>, expected: ArrayLike<number>, what: string): void {
  assert.equal(got.length, expected.length, what);
  for (let i = 0; i < got.length; i++) {
    const [a, b] = [got[i] ?? NaN, expected[i] ?? NaN];
    const ok = Object.is(a, b) || a === b || Math.abs(a - b) <= 1e-11 * Math.max(1, Math.abs(b));
    assert.ok(ok, `${what}[${i}]: ${a} instead of ${b}`);
  }
}

const values = (rnd: () => number, n: number): Float64Array =>
  Float64Array.from({ length: n }, () => rnd() * 2 - 1);

describe('the float64 reference', () => {
  it('agrees with a point by point evaluation on random programs', () => {
    let points = 0;
    for (let seed = 1; seed <= 200; seed++) {
      const { program, inputs } = randomProgram(seed);
      assert.deepEqual(verifyProgram(program), [], printProgram(program));
      const expected = naive(program, inputs);
      const got = interpret(program, inputs);
      for (const [id, data] of expected) {
        points += data.length;
        const array = got.get(id);
        assert.ok(array);
        close(array, data, `seed ${seed}, ${id} of\n${printProgram(program)}\n`);
      }
    }
    assert.ok(points > 10_000, `only ${points} points`);
  });

  for (const [name, stride, pad] of [
    ['a padded', 1, 1],
    ['an unpadded', 1, 0],
    ['a strided', 2, 2],
  ] as const) {
    it(`computes ${name} convolution (jammed, packed, with two copies of its inner loop)`, () => {
      const [N, C, H, O, K] = [2, 20, 9, 7, 3];
      const out = Math.floor((H + 2 * pad - K) / stride) + 1;
      const b = new Builder();
      b.input('x', [N, C, H, H]);
      b.input('w', [O, C, K, K]);
      b.compute(
        [N, O, out, out],
        ([n, o, y, x], [c, ky, kx]) => {
          assert.ok(n && o && y && x && c && ky && kx);
          const at = (p: typeof y, k: typeof ky): typeof y =>
            sub(add(stride === 1 ? p : add(p, p), k), pad);
          const [iy, ix] = [at(y, ky), at(x, kx)];
          const read = load('x', [n, c, iy, ix], 'f32');
          const guards = [iy, ix].map((index) => ({ index, lo: num(0), hi: num(H) }));
          const safe = pad === 0 ? read : when(guards, read, constant(0, 'f32'));
          return binary('mul', safe, load('w', [o, c, ky, kx], 'f32'));
        },
        [C, K, K],
        { kind: 'sum' },
      );
      const program = b.program();
      assert.deepEqual(verifyProgram(program), []);
      const rnd = random(7);
      const inputs = new Map([
        ['x', values(rnd, N * C * H * H)],
        ['w', values(rnd, O * C * K * K)],
      ]);
      close(
        interpret(program, inputs).get('v0') ?? [],
        naive(program, inputs).get('v0') ?? [],
        'y',
      );
    });
  }

  it('binds symbolic sizes to the program’s values', () => {
    const b = new Builder(new Map([['B', 3]]));
    b.input('x', [sym('B'), 5]);
    b.compute([sym('B')], (d, r) => load('x', [...d, ...r], 'f32'), [5], { kind: 'sum' });
    const x = Float64Array.from({ length: 15 }, (_, i) => i);
    assert.deepEqual(
      [...(interpret(b.program(), new Map([['x', x]])).get('v0') ?? [])],
      [10, 35, 60],
    );
  });

  it('keeps a branch that is out of range unevaluated', () => {
    const b = new Builder();
    b.input('x', [4]);
    b.input('i', [8], 'i32');
    // The guard fails exactly where the index read at run time would be out of range.
    b.compute([8], ([d]) => {
      assert.ok(d);
      const row = dynIndex(load('i', [d], 'i32'), num(16));
      return when(
        [{ index: row, lo: num(0), hi: num(4) }],
        load('x', [row], 'f32'),
        constant(-1, 'f32'),
      );
    });
    const got = interpret(
      b.program(),
      new Map([
        ['x', [10, 11, 12, 13]],
        ['i', [3, 9, 0, 15, 1, 4, 2, 12]],
      ]),
    );
    assert.deepEqual([...(got.get('v0') ?? [])], [13, -1, 10, -1, 11, -1, 12, -1]);
  });

  it('gives identities for empty reductions and nothing for empty results', () => {
    const b = new Builder();
    b.input('x', [2, 0]);
    const kinds = ['sum', 'prod', 'max', 'min'] as const;
    for (const kind of kinds)
      b.compute([2], (d, r) => load('x', [...d, ...r], 'f32'), [0], { kind });
    b.compute([2, 0], (d) => load('x', d, 'f32'));
    const got = interpret(b.program(), new Map([['x', []]]));
    assert.deepEqual(
      [0, 1, 2, 3, 4].map((k) => [...(got.get(`v${k}`) ?? [NaN])]),
      [[0, 0], [1, 1], [-Infinity, -Infinity], [Infinity, Infinity], []],
    );
  });

  it('propagates NaN through min and max, as values and as reductions', () => {
    const b = new Builder();
    b.input('x', [2, 3]);
    b.compute([2], (d, r) => load('x', [...d, ...r], 'f32'), [3], { kind: 'max' });
    b.compute([2], (d, r) => load('x', [...d, ...r], 'f32'), [3], { kind: 'min' });
    b.compute([2], ([d]) => {
      assert.ok(d);
      return binary('max', load('x', [d, num(0)], 'f32'), load('x', [d, num(1)], 'f32'));
    });
    const got = interpret(b.program(), new Map([['x', [1, NaN, 5, 3, 2, 1]]]));
    assert.deepEqual([...(got.get('v0') ?? [])], [NaN, 3]);
    assert.deepEqual([...(got.get('v1') ?? [])], [NaN, 1]);
    assert.deepEqual([...(got.get('v2') ?? [])], [NaN, 3]);
  });

  it('breaks ties of arg reductions as asked', () => {
    const b = new Builder();
    b.input('x', [2, 2, 2]);
    for (const last of [false, true])
      b.compute(
        [2],
        (d, r) => load('x', [...d, ...r], 'f32'),
        [2, 2],
        { kind: 'argmax', last },
        'i64',
      );
    const got = interpret(b.program(), new Map([['x', [1, 7, 7, 0, 5, 5, 5, 5]]]));
    assert.deepEqual([...(got.get('v0') ?? [])], [1, 0]);
    assert.deepEqual([...(got.get('v1') ?? [])], [2, 3]);
  });

  it('wraps 32-bit integers and rounds at casts to narrow floats', () => {
    const b = new Builder();
    b.input('i', [2], 'i32');
    b.input('x', [2]);
    b.compute([2], (d) => binary('mul', load('i', d, 'i32'), load('i', d, 'i32')));
    b.compute([2], (d) => cast(load('i', d, 'i32'), 'u8'));
    b.compute([2], (d) => cast(cast(load('x', d, 'f32'), 'f16'), 'f32'));
    b.compute([2], (d) => cast(cast(load('x', d, 'f32'), 'bf16'), 'f32'));
    b.compute([2], (d) => unary('round', load('x', d, 'f32')));
    const got = interpret(
      b.program(),
      new Map([
        ['i', [123456789, -3]],
        ['x', [1.0009765625 + 2 ** -12, 2.5]],
      ]),
    );
    const list = (k: number): number[] => [...(got.get(`v${k}`) ?? [])];
    assert.deepEqual(list(0), [Math.imul(123456789, 123456789), 9]);
    assert.deepEqual(list(1), [123456789 & 255, 253]);
    assert.deepEqual(list(2), [1.0009765625, 2.5]);
    assert.deepEqual(list(3), [1, 2.5]);
    assert.deepEqual(list(4), [1, 2]);
  });

  it('reads constants of every kind, and keeps only what is asked for', () => {
    const b = new Builder();
    const bytes = new Uint8Array(new BigInt64Array([-2n, 3_000_000_000n]).buffer);
    b.constant('k', [2], 'i64', { kind: 'bytes', bytes });
    b.constant('f', [2], 'i64', { kind: 'fill', value: 5 });
    b.constant('n', [2], 'i64', { kind: 'numbers', values: [10, 20] });
    b.compute([2], (d) => binary('add', load('k', d, 'i64'), load('f', d, 'i64')));
    b.compute([2], (d) => binary('add', load('v0', d, 'i64'), load('n', d, 'i64')));
    const got = interpret(b.program(), new Map(), { keep: new Set(['v1', 'k']) });
    assert.deepEqual([...got.keys()].sort(), ['k', 'v1']);
    assert.deepEqual([...(got.get('v1') ?? [])], [13, 3_000_000_025]);
    assert.deepEqual([...(got.get('k') ?? [])], [-2, 3_000_000_000]);
  });

  it('rests inside long computes', () => {
    const b = new Builder();
    b.input('x', [4000]);
    b.compute(
      [4000],
      ([d], [r]) => {
        assert.ok(d && r);
        return binary('mul', load('x', [d], 'f32'), load('x', [r], 'f32'));
      },
      [4000],
      { kind: 'sum' },
    );
    b.compute(
      [400, 400],
      ([d, e], [r]) => {
        assert.ok(d && e && r);
        return binary('mul', load('v0', [add(d, r)], 'f32'), load('v0', [add(e, r)], 'f32'));
      },
      [400],
      { kind: 'sum' },
    );
    const x = values(random(3), 4000);
    const steps = interpretSteps(b.program(), new Map([['x', x]]));
    let rests = 0;
    let step = steps.next();
    for (; !step.done; step = steps.next()) if (!step.value.data) rests++;
    assert.ok(rests >= 2, `${rests} rests`);
    const v0 = step.value.get('v0') ?? [];
    const sum = x.reduce((a, c) => a + c, 0);
    close(
      v0,
      x.map((a) => a * sum),
      'v0',
    );
  });
});

describe('the reference’s scalar functions', () => {
  it('erf is right to 1e-15', () => {
    // Independent: Simpson's rule on the defining integral.
    const simpson = (x: number): number => {
      const n = 4000;
      const h = x / n;
      let s = 1 + Math.exp(-x * x);
      for (let i = 1; i < n; i++) s += (i % 2 ? 4 : 2) * Math.exp(-((i * h) ** 2));
      return ((s * h) / 3) * (2 / Math.sqrt(Math.PI));
    };
    for (let x = 0.01; x < 5; x += 0.0371) {
      assert.ok(Math.abs(erf(x) - simpson(x)) < 2e-14, `erf(${x})`);
      assert.equal(erf(-x), -erf(x));
    }
    assert.ok(Math.abs(erf(0.5) - 0.5204998778130465) <= 2 ** -52);
    assert.ok(Math.abs(erf(1) - 0.8427007929497149) <= 2 ** -52);
    assert.ok(Math.abs(erf(1e-10) / 1.1283791670955126e-10 - 1) < 1e-15);
    assert.deepEqual([erf(7), erf(-Infinity), erf(NaN)], [1, -1, NaN]);
  });

  it('narrow floats round to nearest, ties to even', () => {
    assert.equal(toF16(65519), 65504);
    assert.equal(toF16(65520), Infinity);
    assert.equal(toF16(2 ** -25), 0);
    assert.equal(toF16(2 ** -24), 2 ** -24);
    assert.equal(toF16(-0.1), -0.0999755859375);
    assert.equal(toBf16(1 + 2 ** -8), 1);
    assert.equal(toBf16(1 + 3 * 2 ** -8), 1 + 2 ** -6);
    assert.deepEqual([0.5, 1.5, -0.5, -1.5, 2.4].map(roundEven), [0, 2, -0, -2, 2]);
    for (let bits = 0; bits < 0x7c00; bits += 7) {
      const [x] = decode(new Uint8Array([bits & 255, bits >> 8]), 'f16');
      assert.equal(toF16(x ?? NaN), x);
    }
  });
});
