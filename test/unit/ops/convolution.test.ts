import assert from 'node:assert/strict';
import { close, faults, Naive, points, run } from './fixture';
import { naive, nodeFaults, type Operand, runNode, tensor } from './node';

interface ConvOptions {
  readonly strides: readonly number[];
  readonly dilations: readonly number[];
  /** All begins, then all ends. */
  readonly pads: readonly number[];
  readonly group: number;
}

/** A convolution by its definition, in any number of dims. */
function convolve(x: Naive, w: Naive, o: ConvOptions, bias?: Naive): Naive {
  const rank = x.shape.length - 2;
  const k = w.shape.slice(2);
  const out = k.map((size, i) => {
    const room =
      (x.shape[i + 2] ?? 0) +
      (o.pads[i] ?? 0) +
      (o.pads[rank + i] ?? 0) -
      (size - 1) * (o.dilations[i] ?? 1) -
      1;
    return Math.floor(room / (o.strides[i] ?? 1)) + 1;
  });
  const inGroup = w.shape[1] ?? 1;
  const outGroup = (w.shape[0] ?? 1) / o.group;
  return Naive.make([x.shape[0] ?? 1, w.shape[0] ?? 1, ...out], ([n = 0, oc = 0, ...p]) => {
    let sum = bias?.at(oc) ?? 0;
    const g = Math.floor(oc / outGroup);
    for (let c = 0; c < inGroup; c++) {
      for (const t of points(k)) {
        const at = p.map(
          (q, i) =>
            q * (o.strides[i] ?? 1) - (o.pads[i] ?? 0) + (t[i] ?? 0) * (o.dilations[i] ?? 1),
        );
        if (at.some((a, i) => a < 0 || a >= (x.shape[i + 2] ?? 0))) continue;
        sum += x.at(n, g * inGroup + c, ...at) * w.at(oc, c, ...t);
      }
    }
    return sum;
  });
}

const ones = (n: number): number[] => new Array<number>(n).fill(1);

function check(x: Operand, w: Operand, o: Partial<ConvOptions>, bias?: Operand): string {
  const rank = x.shape.length - 2;
  const full: ConvOptions = {
    strides: o.strides ?? ones(rank),
    dilations: o.dilations ?? ones(rank),
    pads: o.pads ?? new Array<number>(2 * rank).fill(0),
    group: o.group ?? 1,
  };
  const { results, text } = runNode('Conv', bias ? [x, w, bias] : [x, w], { ...full });
  const want = convolve(naive(x), naive(w), full, bias && naive(bias));
  assert.deepEqual(results[0]?.shape, want.shape);
  close(results[0]?.values ?? [], want.values);
  return text;
}

describe('convolution', () => {
  it('is a plain product of loads when nothing can be outside', () => {
    const text = check(tensor([2, 3, 7, 9]), tensor([4, 3, 3, 2]), { strides: [2, 3] });
    assert.equal(
      text.replace(/.* = /, '').replace(/ +#.*/, ''),
      'sum(r0:3, r1:3, r2:2) mul(v0[d0, r0, 2*d2 + r1, 3*d3 + r2], v1[d1, r0, r1, r2])',
    );
  });

  it('guards only the dims that are padded', () => {
    const text = check(tensor([1, 2, 6, 5]), tensor([3, 2, 3, 3]), { pads: [0, 1, 0, 2] });
    assert.match(text, /when\(0 <= d3 \+ r2 \+ -1 < 5 \? v0\[/);
    assert.doesNotMatch(text, /< 6/);
  });

  it('adds the bias in a compute of its own', () => {
    const text = check(tensor([1, 2, 5]), tensor([3, 2, 2]), { dilations: [2] }, tensor([3]));
    assert.equal(text.split('\n').length, 2);
  });

  it('indexes groups without division where a group has one channel', () => {
    const text = check(tensor([2, 4, 5, 5]), tensor([4, 1, 3, 3]), {
      group: 4,
      pads: [1, 1, 1, 1],
    });
    assert.doesNotMatch(text, /\/\//);
    check(tensor([1, 6, 5, 4]), tensor([4, 3, 2, 2]), { group: 2, strides: [2, 1] });
    check(tensor([1, 6, 8]), tensor([9, 2, 3]), { group: 3, pads: [2, 0], dilations: [3] });
  });

  it('is a contraction over the channels alone when the kernel is 1×1', () => {
    const text = check(tensor([1, 5, 3, 3]), tensor([2, 5, 1, 1]), {});
    assert.match(text, /sum\(r0:5\) mul\(v0\[d0, r0, d2, d3\], v1\[d1, r0, 0, 0\]\)/);
  });

  it('works in three dims with uneven padding', () => {
    check(tensor([1, 2, 4, 5, 6]), tensor([2, 2, 2, 3, 2]), {
      pads: [1, 0, 2, 0, 2, 1],
      strides: [1, 2, 3],
      dilations: [2, 1, 2],
    });
  });

  it('derives SAME padding, the odd one at the end or at the begin', () => {
    for (const [auto, pads] of [
      ['SAME_UPPER', [0, 1, 1, 1]],
      ['SAME_LOWER', [1, 1, 0, 1]],
    ] as const) {
      const [x, w] = [tensor([1, 1, 4, 5]), tensor([1, 1, 3, 3])];
      const { results } = runNode('Conv', [x, w], { auto_pad: auto, strides: [2, 2] });
      const want = convolve(naive(x), naive(w), {
        strides: [2, 2],
        dilations: [1, 1],
        pads,
        group: 1,
      });
      close(results[0]?.values ?? [], want.values);
    }
  });

  it('says which shapes do not fit', () => {
    const [fault] = nodeFaults('Conv', [tensor([1, 3, 8, 8]), tensor([4, 2, 3, 3])]);
    assert.match(fault ?? '', /channels per group \(3 \/ 1\).*\[4, 2, 3, 3\].*3 and 2 differ/);
    assert.match(
      nodeFaults('Conv', [tensor([1, 2, 2, 2]), tensor([4, 2, 3, 3])])[0] ?? '',
      /window covers 3, more than the padded input's 2/,
    );
  });

  it('keeps symbolic sizes symbolic, and unguarded without padding', () => {
    const r = run(`dim H = 9
input x: f32[1, 2, H, H]
param w: f32[3, 2, 3, 3]
y = conv2d(x, w, stride=2)
output y`);
    assert.deepEqual(r.y.shape, [1, 3, 4, 4]);
    assert.doesNotMatch(r.text, /when/);
  });

  it('has PyTorch form: numbers, lists, and padding by name', () => {
    const source = (call: string): string => `input x: f32[1, 2, 8, 7]
param w: f32[3, 2, 3, 3]
param b: f32[3]
y = ${call}
output y`;
    const feeds = {
      x: naive(tensor([1, 2, 8, 7])).values,
      w: naive(tensor([3, 2, 3, 3])).values,
      b: [1, 2, 3],
    };
    const got = run(source('conv2d(x, w, b, 1, "same")'), feeds);
    const same = run(source('conv2d(x, w, bias=b, padding=1)'), feeds);
    close(got.y.values, same.y.values);
    assert.deepEqual(
      run(source('conv2d(x, w, padding="valid", stride=[2, 1])')).y.shape,
      [1, 3, 3, 5],
    );
    assert.match(
      faults(source('conv2d(x, w, padding="wide")'))[0] ?? '',
      /auto_pad 'wide' is none of/,
    );
  });
});

/** Scatters every input element over the output. */
function transposed(x: Naive, w: Naive, o: ConvOptions, out: readonly number[]): Naive {
  const k = w.shape.slice(2);
  const [inGroup, outGroup] = [(x.shape[1] ?? 1) / o.group, w.shape[1] ?? 1];
  const channels = outGroup * o.group;
  const sums = new Map<string, number>();
  for (const [n = 0, c = 0, ...p] of points(x.shape)) {
    const g = Math.floor(c / inGroup);
    for (let oc = 0; oc < outGroup; oc++) {
      for (const t of points(k)) {
        const to = p.map(
          (q, i) =>
            q * (o.strides[i] ?? 1) - (o.pads[i] ?? 0) + (t[i] ?? 0) * (o.dilations[i] ?? 1),
        );
        const key = [n, g * outGroup + oc, ...to].join();
        sums.set(key, (sums.get(key) ?? 0) + x.at(n, c, ...p) * w.at(c, oc, ...t));
      }
    }
  }
  return Naive.make([x.shape[0] ?? 1, channels, ...out], (i) => sums.get(i.join()) ?? 0);
}

describe('transposed convolution', () => {
  const cases: readonly [Operand, Operand, ConvOptions, object, readonly number[]][] = [
    [
      tensor([1, 2, 3, 4]),
      tensor([2, 3, 3, 2]),
      { strides: [2, 3], dilations: [1, 1], pads: [1, 0, 0, 1], group: 1 },
      { output_padding: [1, 0] },
      [7, 10],
    ],
    [
      tensor([2, 4, 5]),
      tensor([4, 3, 3]),
      { strides: [2], dilations: [2], pads: [2, 1], group: 2 },
      {},
      [10],
    ],
  ];
  for (const [x, w, o, more, out] of cases) {
    it(`gathers what a scatter would add: ${x.shape.join('×')} by ${w.shape.join('×')}`, () => {
      const { results } = runNode('ConvTranspose', [x, w], { ...o, ...more });
      const want = transposed(naive(x), naive(w), o, out);
      assert.deepEqual(results[0]?.shape, want.shape);
      close(results[0]?.values ?? [], want.values);
    });
  }

  it('finds the padding of a wanted output shape', () => {
    const [x, w] = [tensor([1, 1, 3, 3]), tensor([1, 2, 3, 3])];
    const { results } = runNode('ConvTranspose', [x, w], {
      strides: [3, 2],
      output_shape: [10, 8],
    });
    const o = { strides: [3, 2], dilations: [1, 1], pads: [0, 0, 0, 0], group: 1 };
    close(results[0]?.values ?? [], transposed(naive(x), naive(w), o, [10, 8]).values);
    const same = runNode('ConvTranspose', [x, w], { strides: [2, 2], auto_pad: 'SAME_UPPER' });
    const p = { ...o, strides: [2, 2], pads: [0, 0, 1, 1] };
    close(same.results[0]?.values ?? [], transposed(naive(x), naive(w), p, [6, 6]).values);
  });
});
