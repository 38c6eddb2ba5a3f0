import assert from 'node:assert/strict';
import { close, faults, numbers, run } from './fixture';

/** One statement `y = …` over x and z. */
function of(
  expression: string,
  x: readonly number[],
  dtype = 'f32',
  z: readonly number[] = x,
): readonly number[] {
  const n = x.length;
  const source = `input x: ${dtype}[${n}]\ninput z: ${dtype}[${n}]\ny = ${expression}\noutput y`;
  return run(source, { x, z }).y.values;
}

describe('ops: elementwise', () => {
  const x = numbers(24, 3);
  const positive = x.map((v) => Math.abs(v) + 0.01);

  const functions: readonly (readonly [
    name: string,
    f: (v: number) => number,
    values?: readonly number[],
  ])[] = [
    ['neg', (v) => -v],
    ['abs', Math.abs],
    ['sign', Math.sign],
    ['exp', Math.exp],
    ['expm1', Math.expm1],
    ['log', Math.log, positive],
    ['log1p', Math.log1p, positive],
    ['log2', Math.log2, positive],
    ['log10', Math.log10, positive],
    ['exp2', (v) => 2 ** v],
    ['sqrt', Math.sqrt, positive],
    ['rsqrt', (v) => 1 / Math.sqrt(v), positive],
    ['reciprocal', (v) => 1 / v, positive],
    ['sin', Math.sin],
    ['tan', Math.tan],
    ['atan', Math.atan],
    ['sinh', Math.sinh],
    ['acosh', Math.acosh, positive.map((v) => v + 1)],
    ['asinh', Math.asinh],
    ['tanh', Math.tanh],
    ['floor', Math.floor],
    ['ceil', Math.ceil],
    ['trunc', Math.trunc],
    ['square', (v) => v * v],
  ];
  for (const [name, f, values = x] of functions) {
    it(`${name} of floats`, () => {
      close(of(`${name}(x)`, values), values.map(f));
    });
  }

  it('rounds to the nearest, ties to even', () => {
    const ties = [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.4999];
    close(of('round(x)', ties), [-2, -2, 0, 0, 2, 2, 2]);
  });

  it('takes a function of half floats through f32 and rounds once', () => {
    const r = run('input x: f16[8]\ny = exp(x)\noutput y');
    assert.equal(r.y.dtype, 'f16');
    assert.match(r.text, /f16\(exp\(f32\(x\[d0\]\)\)\)/);
  });

  it('keeps arithmetic of f16 in f16, and rounds that of bf16 through f32', () => {
    assert.match(run('input x: f16[8]\ny = x + x\noutput y').text, /= add\(x\[d0\], x\[d0\]\)/);
    assert.match(
      run('input x: bf16[8]\ny = x + x\noutput y').text,
      /bf16\(add\(f32\(x\[d0\]\), f32\(x\[d0\]\)\)\)/,
    );
  });

  it('wraps integers that are stored wider than they are', () => {
    const r = run('input x: u8[4]\ny = x + x\nz = x * x\noutput y\noutput z', {
      x: [1, 127, 128, 200],
    });
    assert.deepEqual(r.outputs['y']?.values, [2, 254, 0, 144]);
    assert.deepEqual(r.outputs['z']?.values, [1, 1, 0, 64]);
    const i8 = run('input x: i8[3]\ny = -x\noutput y', { x: [-128, 127, 5] });
    assert.deepEqual(i8.y.values, [-128, -127, -5]);
  });
});

describe('ops: two operands', () => {
  it('broadcasts over several dims', () => {
    const r = run('input x: f32[4, 1, 3]\ninput z: f32[5, 1]\ny = x - z\noutput y', {
      x: numbers(12),
      z: [1, 2, 3, 4, 5],
    });
    assert.deepEqual(r.y.shape, [4, 5, 3]);
    const x = numbers(12);
    const want = Array.from(
      { length: 60 },
      (_, i) => (x[Math.floor(i / 15) * 3 + (i % 3)] ?? 0) - (1 + (Math.floor(i / 3) % 5)),
    );
    close(r.y.values, want);
    assert.match(r.text, /sub\(x\[d0, 0, d2\], z\[d1, 0\]\)/);
  });

  it('says which dim does not broadcast, and what would', () => {
    assert.deepEqual(faults('input x: f32[4, 3]\ninput z: f32[5]\ny = x + z\noutput y'), [
      "+ 'y': operands of shapes [4, 3] and [5] don't broadcast: dim 1 is 3 on one side and 5 on the other; they must be equal, or one of them 1",
    ]);
  });

  it('takes two symbolic sizes for equal, and says so', () => {
    const r = run('dim A = 4\ndim B = 4\ninput x: f32[A]\ninput z: f32[B]\ny = x + z\noutput y');
    assert.equal(r.notes.filter((n) => /taken to be equal/.test(n)).length, 1);
  });

  it('promotes as PyTorch does; numbers take the dtype of the tensor', () => {
    const dtypeOf = (a: string, b: string): string =>
      run(`input x: ${a}[2]\ninput z: ${b}[2]\ny = x * z\noutput y`).y.dtype;
    assert.equal(dtypeOf('f16', 'f32'), 'f32');
    assert.equal(dtypeOf('f16', 'bf16'), 'f32');
    assert.equal(dtypeOf('i32', 'f16'), 'f16');
    assert.equal(dtypeOf('u8', 'i8'), 'i16');
    assert.equal(dtypeOf('bool', 'i8'), 'i8');
    assert.equal(run('input x: f16[2]\ny = x * 0.5 + 1\noutput y').y.dtype, 'f16');
  });

  it('divides: integers in floats, or truncating or flooring where asked', () => {
    const x = [7, -7, 8, -8];
    const z = [2, 2, -3, -3];
    close(of('x / z', x, 'i32', z), [3.5, -3.5, -8 / 3, 8 / 3]);
    assert.deepEqual(of('div(x, z, rounding_mode="trunc")', x, 'i32', z), [3, -3, -2, 2]);
    assert.deepEqual(of('floor_divide(x, z)', x, 'i32', z), [3, -4, -3, 2]);
    assert.deepEqual(of('floor_divide(x, z)', x, 'f32', z), [3, -4, -3, 2]);
  });

  it('takes remainders with the sign of the divisor, or of the dividend', () => {
    const x = [7, -7, 7, -7];
    const z = [3, 3, -3, -3];
    for (const t of ['i32', 'f32']) {
      assert.deepEqual(of('remainder(x, z)', x, t, z), [1, 2, -2, -1]);
      assert.deepEqual(of('fmod(x, z)', x, t, z), [1, -1, 1, -1]);
    }
  });

  it('makes products of small powers, and roots of halves', () => {
    const x = numbers(9, 5).map(Math.abs);
    close(
      of('x ** 3', x),
      x.map((v) => v ** 3),
    );
    close(of('x ** 0.5', x), x.map(Math.sqrt));
    close(
      of('pow(x, z)', x),
      x.map((v) => v ** v),
    );
    assert.match(run('input x: f32[4]\ny = x ** 2\noutput y').text, /mul\(x\[d0\], x\[d0\]\)/);
    assert.deepEqual(of('x ** z', [2, 3, -2, 5], 'i32', [10, 4, 3, 0]), [1024, 81, -8, 1]);
  });

  it('compares and combines bools', () => {
    const x = [1, 2, 3, 4];
    const z = [4, 2, 3, 1];
    assert.deepEqual(of('x >= z', x, 'f32', z), [0, 1, 1, 1]);
    assert.deepEqual(of('logical_and(x > 1, x != z)', x, 'i32', z), [0, 0, 0, 1]);
    assert.deepEqual(of('logical_xor(x > 1, z > 1)', x, 'i32', z), [1, 0, 0, 1]);
    assert.equal(run('input x: f32[4]\ny = x > 0\noutput y').y.dtype, 'bool');
  });

  it('works on bits, and only of integers', () => {
    assert.deepEqual(of('bitwise_xor(x, z)', [12, 255, 7], 'u8', [10, 1, 7]), [6, 254, 0]);
    assert.deepEqual(of('bitwise_not(x)', [0, 1, 254], 'u8'), [255, 254, 1]);
    assert.deepEqual(of('bitwise_left_shift(x, z)', [1, 200, 255], 'u8', [3, 1, 4]), [8, 144, 240]);
    assert.match(faults('input x: f32[2]\ny = bitwise_and(x, x)\noutput y')[0] ?? '', /integers/);
  });

  it('lets NaN through minimum and maximum', () => {
    close(of('maximum(x, z)', [1, NaN, 3], 'f32', [2, 2, NaN]), [2, NaN, NaN]);
  });

  it('tells the two meanings of max apart', () => {
    const source =
      'input x: f32[2, 3]\na = max(x, axis=1)\nb = max(x, x * 2)\nc = max(x)\noutput a\noutput b\noutput c';
    const r = run(source, { x: [1, -2, 3, -4, 5, -6] });
    assert.deepEqual(r.outputs['a']?.values, [3, 5]);
    assert.deepEqual(r.outputs['b']?.values, [2, -2, 6, -4, 10, -6]);
    assert.deepEqual(r.outputs['c']?.values, [5]);
  });
});

describe('ops: conversions and choice', () => {
  it('casts towards zero and wraps', () => {
    assert.deepEqual(of('cast(x, i8)', [1.9, -1.9, 130, 300]), [1, -1, -126, 44]);
    assert.deepEqual(of('cast(x, bool)', [0, 0.5, -3]), [0, 1, 1]);
  });

  it('does nothing where nothing changes', () => {
    const r = run('input x: f32[3]\ny = relu(cast(x, f32))\noutput y');
    assert.equal(r.computes, 1);
  });

  it('clamps on one side or both', () => {
    const x = [-3, -1, 0, 2, 5];
    assert.deepEqual(of('clamp(x, min=-2, max=1)', x), [-2, -1, 0, 1, 1]);
    assert.deepEqual(of('clamp(x, max=0.5)', x), [-3, -1, 0, 0.5, 0.5]);
  });

  it('chooses by a condition, broadcasting all three', () => {
    const source =
      'input x: f32[3]\ninput z: f32[2, 1]\ny = where(x > 0, x, z)\nm = masked_fill(x, x > 1, -9)\noutput y\noutput m';
    const r = run(source, { x: [-1, 1, 2], z: [10, 20] });
    assert.deepEqual(r.outputs['y']?.values, [10, 1, 2, 20, 1, 2]);
    assert.deepEqual(r.outputs['m']?.values, [-1, 1, -9]);
  });
});
