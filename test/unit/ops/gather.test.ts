import assert from 'node:assert/strict';
import { close, faults, Naive, points, run } from './fixture';
import { constant, naive, nodeFaults, runNode, tensor } from './node';

const X = tensor([3, 4, 2]);

describe('gathers', () => {
  it('picks slices by indices of any rank, negative ones from the end', () => {
    const indices = tensor([2, 2], [3, -1, 0, -4], 'i64');
    const { results } = runNode('Gather', [X, indices], { axis: 1 });
    const want = Naive.make([3, 2, 2, 2], ([a = 0, i = 0, j = 0, c = 0]) => {
      const k = naive(indices).at(i, j);
      return naive(X).at(a, k < 0 ? k + 4 : k, c);
    });
    assert.deepEqual(results[0]?.shape, want.shape);
    close(results[0]?.values ?? [], want.values);
  });

  it('is a view when known indices step evenly', () => {
    const { text, results } = runNode('Gather', [X, constant([0, 2])], { axis: 1 });
    assert.match(text, /= v0\[d0, 2\*d1, d2\]/);
    assert.deepEqual(results[0]?.shape, [3, 2, 2]);
    assert.match(
      runNode('Gather', [X, constant([-1], 'i64', [])], { axis: 0 }).text,
      /= v0\[2, d0, d1\]/,
    );
  });

  it('refuses known indices that are outside', () => {
    const [fault] = nodeFaults('Gather', [X, constant([1, 4])], { axis: 1 });
    assert.match(fault ?? '', /index 4 is outside the gathered dim of 4: it must lie in \[-4, 3\]/);
  });

  it('reads nothing outside when run-time indices are', () => {
    const { results } = runNode('Gather', [tensor([3]), tensor([2], [7, -9], 'i64')]);
    close(results[0]?.values ?? [], [tensor([3]).values[2] ?? NaN, tensor([3]).values[0] ?? NaN]);
  });

  it('gathers element by element, with fewer indices than data', () => {
    const indices = tensor([2, 3, 2], [0, -1, 2, 3, 1, 1, -4, 0, 3, 2, 2, 0], 'i64');
    const { results } = runNode('GatherElements', [X, indices], { axis: 1 });
    const want = Naive.make([2, 3, 2], ([a = 0, b = 0, c = 0]) => {
      const k = naive(indices).at(a, b, c);
      return naive(X).at(a, k < 0 ? k + 4 : k, c);
    });
    close(results[0]?.values ?? [], want.values);
  });

  it('gathers at positions, after batch dims', () => {
    const indices = tensor([3, 2, 1], [0, -1, 2, 3, 1, 1], 'i64');
    const { results } = runNode('GatherND', [X, indices], { batch_dims: 1 });
    assert.deepEqual(results[0]?.shape, [3, 2, 2]);
    const want = Naive.make([3, 2, 2], ([b = 0, i = 0, c = 0]) => {
      const k = naive(indices).at(b, i, 0);
      return naive(X).at(b, k < 0 ? k + 4 : k, c);
    });
    close(results[0]?.values ?? [], want.values);
  });

  it('tells the two forms of gather apart by where the axis stands', () => {
    const source = (call: string): string => `input x: f32[3, 4]
input i: i64[2, 4]
y = ${call}
output y`;
    const feeds = { i: [0, 1, 2, 0, 1, 1, 1, 2] };
    assert.deepEqual(run(source('gather(x, 0, i)'), feeds).y.shape, [2, 4]);
    assert.deepEqual(run(source('gather(x, i, axis=0)'), feeds).y.shape, [2, 4, 4]);
    assert.deepEqual(run(source('embedding(i, x)'), feeds).y.shape, [2, 4, 4]);
    assert.match(
      faults(source('embedding(x, x)'))[0] ?? '',
      /indices of a gather must be integers, but are f32/,
    );
  });
});

describe('one-hot', () => {
  it('puts the new dim anywhere, and nothing where the index is outside', () => {
    const { results } = runNode(
      'OneHot',
      [tensor([2, 2], [0, -1, 5, 2], 'i64'), constant([3], 'i64', []), tensor([2], [-7, 4])],
      { axis: 1 },
    );
    assert.deepEqual(results[0]?.shape, [2, 3, 2]);
    assert.deepEqual(results[0].values, [4, -7, -7, -7, -7, 4, -7, -7, -7, -7, -7, 4]);
  });
});

describe('scatters', () => {
  const indices = tensor([2, 2, 2], [1, 1, 1, -1, 0, 2, 3, 2], 'i64');
  const updates = tensor([2, 2, 2]);
  const place = (p: number[]): number[] => {
    const k = naive(indices).at(...p);
    return [p[0] ?? 0, k < 0 ? k + 4 : k, p[2] ?? 0];
  };
  const scattered = (merge: (old: number, update: number) => number): Naive => {
    const values = [...X.values];
    for (const p of points(indices.shape)) {
      const [a = 0, b = 0, c = 0] = place(p);
      const at = (a * 4 + b) * 2 + c;
      values[at] = merge(values[at] ?? NaN, naive(updates).at(...p));
    }
    return new Naive(X.shape, values);
  };

  for (const [reduction, merge] of [
    ['none', (_: number, u: number): number => u],
    ['add', (a: number, u: number): number => a + u],
    ['mul', (a: number, u: number): number => a * u],
    ['max', Math.max],
    ['min', Math.min],
  ] as const) {
    it(`merges elements by ${reduction}, the last one last`, () => {
      const { results } = runNode('ScatterElements', [X, indices, updates], { axis: 1, reduction });
      close(results[0]?.values ?? [], scattered(merge).values);
    });
  }

  it('writes slices at positions', () => {
    const where = tensor([3, 1], [1, -1, 1], 'i64');
    const rows = tensor([3, 4, 2]);
    const { results } = runNode('ScatterND', [X, where, rows]);
    const want = Naive.make(X.shape, ([a = 0, b = 0, c = 0]) =>
      a === 0 ? naive(X).at(a, b, c) : naive(rows).at(a === 1 ? 2 : 1, b, c),
    );
    close(results[0]?.values ?? [], want.values);
  });

  it('writes a run into a cache, around its end when circular', () => {
    const [cache, run2, at] = [tensor([2, 4, 2]), tensor([2, 3, 2]), tensor([2], [1, 2], 'i64')];
    const { results } = runNode('TensorScatter', [cache, run2, at], { mode: 'circular', axis: 1 });
    const want = Naive.make([2, 4, 2], ([b = 0, s = 0, d = 0]) => {
      const own = (s - (at.values[b] ?? 0) + 4) % 4;
      return own < 3 ? naive(run2).at(b, own, d) : naive(cache).at(b, s, d);
    });
    close(results[0]?.values ?? [], want.values);
  });
});

describe('order along an axis', () => {
  const x = tensor(
    [2, 6, 2],
    [3, 1, 3, 5, -2, 5, 3, 0, 9, -1, -2, 5, 1, 1, 0, 0, 2, 2, 1, 7, 4, 4, 2, 0],
  );

  for (const largest of [1, 0]) {
    for (const k of [1, 4]) {
      it(`top ${k} of the ${largest ? 'largest' : 'smallest'}, ties in order`, () => {
        const { results } = runNode('TopK', [x, constant([k])], { axis: 1, largest }, 2);
        const sorted = (b: number, c: number): number[] =>
          [0, 1, 2, 3, 4, 5].sort((p, q) => {
            const d = naive(x).at(b, p, c) - naive(x).at(b, q, c);
            return (largest ? -d : d) || p - q;
          });
        const want = Naive.make([2, k, 2], ([b = 0, i = 0, c = 0]) => sorted(b, c)[i] ?? NaN);
        assert.deepEqual(results[1]?.values, want.values);
        const values = Naive.make([2, k, 2], ([b = 0, i = 0, c = 0]) =>
          naive(x).at(b, sorted(b, c)[i] ?? 0, c),
        );
        assert.deepEqual(results[0]?.values, values.values);
      });
    }
  }

  it('sorts', () => {
    const r = run(
      `input x: f32[5]
v, i = sort(x, descending=true)
output v
output i`,
      { x: [1, 4, 2, 4, 0] },
    );
    assert.deepEqual(r.outputs['v']?.values, [4, 4, 2, 1, 0]);
    assert.deepEqual(r.outputs['i']?.values, [1, 3, 2, 0, 4]);
  });

  it('says when k is too large', () => {
    assert.match(
      nodeFaults('TopK', [x, constant([7])], { axis: 1 })[0] ?? '',
      /k is 7, but dim 1 of \[2, 6, 2\] has 6/,
    );
  });
});

describe('what depends on contents', () => {
  it('compresses by a known condition, and refuses an unknown one', () => {
    const { results } = runNode('Compress', [X, constant([0, 1, 1, 0, 1], 'bool')], {});
    close(
      results[0]?.values ?? [],
      [1, 2, 4].map((i) => X.values[i] ?? NaN),
    );
    assert.match(
      nodeFaults('Compress', [X, tensor([3], [1, 0, 1], 'bool')], { axis: 0 })[0] ?? '',
      /size of the result depends on the condition/,
    );
    assert.match(nodeFaults('NonZero', [X])[0] ?? '', /depends on its operand's contents/);
  });
});
