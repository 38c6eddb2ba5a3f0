import assert from 'node:assert/strict';
import { counting, faults, Naive, run } from './fixture';

/** What one statement makes of x = 0, 1, 2…: its shape and values. */
function of(shape: readonly number[], expression: string): Naive {
  const count = shape.reduce((n, d) => n * d, 1);
  const r = run(`input x: f32[${shape.join(', ')}]\ny = ${expression}\noutput y`, {
    x: counting(count),
  });
  return new Naive(r.y.shape, r.y.values);
}

describe('ops: shapes', () => {
  it('reshapes with one dim inferred', () => {
    assert.deepEqual(of([4, 6], 'reshape(x, [2, -1, 3])').shape, [2, 4, 3]);
    assert.deepEqual(of([4, 6], 'reshape(x, [2, -1, 3])').values, counting(24));
    assert.deepEqual(of([2, 3, 4], 'flatten(x, start_dim=1)').shape, [2, 12]);
    assert.deepEqual(of([2, 12], 'unflatten(x, 1, [3, -1])').shape, [2, 3, 4]);
  });

  it('costs nothing: views end in the index of the load', () => {
    const r = run(
      'dim B = 3\ninput x: f32[B, 8]\ny = relu(transpose(reshape(x, [B, 2, -1]), 1, 2))\noutput y',
    );
    assert.equal(r.computes, 1);
    assert.match(r.text, /y#relu:0\[d0:B, d1:4, d2:2\] f32 = max\(x\[d0, d1 \+ 4\*d2\], 0:f32\)/);
  });

  it('undoes itself: a reshape there and back is the plain index', () => {
    const r = run(
      'dim B = 3\ndim S = 5\ninput x: f32[B, S, 8]\ny = relu(reshape(reshape(x, [B * S, 8]), [B, S, 8]))\noutput y',
    );
    assert.match(r.text, /x\[d0, d1, d2\]/);
  });

  it('says why a reshape is impossible', () => {
    const f = (e: string): string | undefined =>
      faults(`input x: f32[2, 3]\ny = ${e}\noutput y`)[0];
    assert.equal(
      f('reshape(x, [4, -1])'),
      "reshape 'y': [2, 3] has 6 elements, which the other dims of [4, -1] (4) don't divide",
    );
    assert.match(f('reshape(x, [-1, -1])') ?? '', /only one dim/);
    assert.match(f('reshape(x, [3, 3])') ?? '', /9 and 6 differ/);
  });

  it('transposes, permutes, moves', () => {
    const t = of([2, 3, 4], 'transpose(x, 0, -1)');
    assert.deepEqual(t.shape, [4, 3, 2]);
    assert.equal(t.at(3, 1, 0), 7);
    assert.equal(of([2, 3, 4], 'permute(x, [1, 2, 0])').at(2, 3, 1), 23);
    assert.equal(of([2, 3, 4], 'transpose(x, [1, 2, 0])').at(2, 3, 1), 23);
    assert.deepEqual(of([2, 3, 4], 'transpose(x)').shape, [4, 3, 2]);
    assert.deepEqual(of([2, 3, 4], 'movedim(x, 0, 2)').shape, [3, 4, 2]);
    assert.match(
      faults('input x: f32[2, 3]\ny = permute(x, [0, 0])\noutput y')[0] ?? '',
      /named twice/,
    );
  });

  it('puts dims of 1 in and takes them out', () => {
    assert.deepEqual(of([2, 3], 'unsqueeze(x, [0, -1])').shape, [1, 2, 3, 1]);
    assert.deepEqual(of([1, 2, 1, 3], 'squeeze(x)').shape, [2, 3]);
    assert.deepEqual(of([1, 2, 1, 3], 'squeeze(x, 2)').shape, [1, 2, 3]);
    assert.deepEqual(of([1, 2, 1, 3], 'squeeze(x, 1)').shape, [1, 2, 1, 3]);
  });

  it('expands, keeping dims marked -1', () => {
    const e = of([2, 1], 'expand(x, [3, -1, 4])');
    assert.deepEqual(e.shape, [3, 2, 4]);
    assert.equal(e.at(2, 1, 3), 1);
  });

  it('flips', () => {
    assert.deepEqual(of([2, 3], 'flip(x, [0, 1])').values, [5, 4, 3, 2, 1, 0]);
  });

  it('moves channels to space and back', () => {
    const shuffled = of([1, 8, 2, 3], 'pixel_shuffle(x, 2)');
    assert.deepEqual(shuffled.shape, [1, 2, 4, 6]);
    // channel c*4 + (y%2)*2 + x%2 at (y//2, x//2)
    assert.equal(shuffled.at(0, 1, 3, 4), (4 + 2) * 6 + 1 * 3 + 2);
    assert.deepEqual(
      of([1, 8, 2, 3], 'pixel_unshuffle(pixel_shuffle(x, 2), 2)').values,
      counting(48),
    );
  });
});

describe('ops: slices', () => {
  it('slices with clamped and negative ends and steps', () => {
    assert.deepEqual(of([6], 'slice(x, 0, 1, 100, 2)').values, [1, 3, 5]);
    assert.deepEqual(of([6], 'slice(x, 0, -2)').values, [4, 5]);
    assert.deepEqual(of([6], 'slice(x, axis=0, start=-1, end=-100, step=-2)').values, [5, 3, 1]);
    assert.deepEqual(of([6], 'slice(x, axis=0, start=4, end=1, step=-1)').values, [4, 3, 2]);
    assert.deepEqual(of([6], 'slice(x, axis=0, start=4, end=2)').shape, [0]);
    assert.deepEqual(of([3, 4], 'slice(x, [1, 0], [3, 2])').values, [4, 5, 8, 9]);
    assert.deepEqual(of([3, 4], 'narrow(x, 1, 1, 2)').values, [1, 2, 5, 6, 9, 10]);
  });

  it('keeps symbolic ends symbolic', () => {
    const source = (e: string): string => `dim S = 5\ninput x: f32[S, 2]\ny = relu(${e})\noutput y`;
    assert.match(run(source('slice(x, 0, 1, S)')).text, /\[d0:S \+ -1, d1:2\]/);
    assert.match(run(source('slice(x, 0, 0, -2)')).text, /\[d0:max\(\(S \+ -2\), 0\), d1:2\]/);
    assert.deepEqual(run(source('slice(x, 0, 2, S - 1)')).y.shape, [2, 2]);
  });

  it('splits by size, by sizes and into chunks', () => {
    const r = run(
      'input x: f32[2, 5]\na, b, c = split(x, 2, axis=1)\nd, e = split(x, [1, 4], axis=-1)\nf, g = chunk(x, 2, axis=1)\n' +
        ['a', 'b', 'c', 'd', 'e', 'f', 'g'].map((n) => `output ${n}`).join('\n'),
      { x: counting(10) },
    );
    assert.deepEqual(r.outputs['b']?.values, [2, 3, 7, 8]);
    assert.deepEqual(r.outputs['c']?.values, [4, 9]);
    assert.deepEqual(r.outputs['e']?.shape, [2, 4]);
    assert.deepEqual(r.outputs['f']?.shape, [2, 3]);
    assert.deepEqual(r.outputs['g']?.values, [3, 4, 8, 9]);
    assert.match(
      faults('input x: f32[2, 3]\na, b = split(x, 1, axis=1)\noutput a')[0] ?? '',
      /split into 3 parts, but there are 2 results/,
    );
  });

  it('unbinds an axis', () => {
    const r = run('input x: f32[2, 3]\na, b, c = unbind(x, dim=1)\ny = a * b + c\noutput y', {
      x: counting(6),
    });
    assert.deepEqual(r.y.values, [2, 17]);
    assert.match(
      faults('input x: f32[2, 3]\na, b = unbind(x, dim=1)\noutput a')[0] ?? '',
      /3 and 2 differ/,
    );
  });

  it('rolls', () => {
    assert.deepEqual(of([5], 'roll(x, 2, axis=0)').values, [3, 4, 0, 1, 2]);
    assert.deepEqual(of([5], 'roll(x, -6, axis=0)').values, [1, 2, 3, 4, 0]);
  });
});

describe('ops: joins', () => {
  it('joins along an axis, reading each operand only in its part', () => {
    const r = run(
      'dim N = 2\ninput x: f32[2, N]\ninput z: f32[2, 3]\ny = cat([x, z * 10, x], axis=1)\noutput y',
      { x: [1, 2, 3, 4], z: [5, 6, 7, 8, 9, 10] },
    );
    assert.deepEqual(r.y.values, [1, 2, 50, 60, 70, 1, 2, 3, 4, 80, 90, 100, 3, 4]);
    assert.match(r.text, /when\(0 <= d1 < N \? x\[d0, d1\] : when\(N <= d1 < N \+ 3/);
    assert.match(
      faults('input x: f32[2, 3]\ninput z: f32[4, 3]\ny = cat([x, z], axis=1)\noutput y')[0] ?? '',
      /dim 0 of operands of shapes \[2, 3\] and \[4, 3\]/,
    );
  });

  it('stacks along a new axis', () => {
    const r = run('input x: f32[2]\ninput z: f32[2]\ny = stack([x, z], axis=1)\noutput y', {
      x: [1, 2],
      z: [3, 4],
    });
    assert.deepEqual(
      [r.y.shape, r.y.values],
      [
        [2, 2],
        [1, 3, 2, 4],
      ],
    );
  });

  it('pads in every mode, and crops by negative pads', () => {
    assert.deepEqual(of([3], 'pad(x, [1, 2], value=9)').values, [9, 0, 1, 2, 9, 9]);
    assert.deepEqual(of([4], 'pad(x, [2, 3], mode="reflect")').values, [2, 1, 0, 1, 2, 3, 2, 1, 0]);
    assert.deepEqual(
      of([3], 'pad(x, [4, 5], mode="reflect")').values,
      [0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1],
    );
    assert.deepEqual(of([3], 'pad(x, [2, 1], mode="replicate")').values, [0, 0, 0, 1, 2, 2]);
    assert.deepEqual(
      of([3], 'pad(x, [4, 2], mode="circular")').values,
      [2, 0, 1, 2, 0, 1, 2, 0, 1],
    );
    assert.deepEqual(of([4], 'pad(x, [-1, 1], value=9)').values, [1, 2, 3, 9]);
    const two = of([2, 2], 'pad(x, [1, 0, 0, 1])');
    assert.deepEqual(
      [two.shape, two.values],
      [
        [3, 3],
        [0, 0, 1, 0, 2, 3, 0, 0, 0],
      ],
    );
  });

  it('crops and pads around the centre', () => {
    assert.deepEqual(
      of([5, 2], 'center_crop_pad(x, [2, 5])').values,
      [0, 2, 3, 0, 0, 0, 4, 5, 0, 0],
    );
  });

  it('repeats', () => {
    assert.deepEqual(of([2], 'tile(x, [2, 2])').values, [0, 1, 0, 1, 0, 1, 0, 1]);
    assert.deepEqual(of([2, 1], 'tile(x, [3])').shape, [2, 3]);
    assert.deepEqual(of([2], 'repeat_interleave(x, 2, axis=0)').values, [0, 0, 1, 1]);
  });
});

describe('ops: tensors from nothing', () => {
  it('makes ranges, fills and identities', () => {
    const r = run(
      'dim N = 4\na = arange(2, N * 2, 3)\nb = full([2, N], 0.5)\nc = eye(2, 3)\noutput a\noutput b\noutput c',
    );
    assert.deepEqual(r.outputs['a']?.values, [2, 5]);
    assert.deepEqual(r.outputs['b']?.values, new Array(8).fill(0.5));
    assert.deepEqual(r.outputs['c']?.values, [1, 0, 0, 0, 1, 0]);
  });

  it('inlines a fill where it is read', () => {
    assert.match(
      run('input x: f32[2, 3]\ny = x + ones([2, 3])\noutput y').text,
      /add\(x\[d0, d1\], 1:f32\)/,
    );
  });

  it('keeps triangles', () => {
    assert.deepEqual(of([3, 3], 'tril(x + 1)').values, [1, 0, 0, 4, 5, 0, 7, 8, 9]);
    assert.deepEqual(of([2, 3], 'triu(x + 1, 1)').values, [0, 2, 3, 0, 0, 6]);
    assert.deepEqual(of([2, 3], 'tril(x + 1, diagonal=-1)').values, [0, 0, 0, 4, 0, 0]);
  });
});
