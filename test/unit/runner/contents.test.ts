import assert from 'node:assert/strict';
import { binary, cast, constant, dynIndex, load, unary } from '../../../compiler/ir/expr';
import { num } from '../../../compiler/ir/indexExpr';
import type { BufferSpec } from '../../../compiler/result';
import { ContentSource } from '../../../runner/core/contents';
import type { Host } from '../../../runner/core/device';
import { f16Bits, numbersOf, toStorage } from '../../../runner/core/storage';
import { f16FromBits } from '../../../compiler/reference';
import { quantumOf, summarise } from '../../../runner/core/statistics';
import { Builder } from '../reference/programs';

const host: Host = {
  gpu: undefined,
  kind: 'node',
  name: 'test',
  now: () => 0,
  pause: () => Promise.resolve(),
};

/** embedding(ids) @ w / sqrt(var): one of each kind of operand. */
function program(): ReturnType<Builder['program']> {
  const b = new Builder();
  b.input('ids', [50], 'i64');
  b.input('table', [7, 256]);
  b.input('w', [256, 10]);
  b.input('var', [10]);
  b.input('mask', [50], 'bool');
  b.compute([50], (d) => cast(load('ids', d, 'i64'), 'i32'));
  b.compute([50, 256], ([i, k]) => {
    assert.ok(i && k);
    return load('table', [dynIndex(load('v0', [i], 'i32'), num(7)), k], 'f32');
  });
  b.compute(
    [50, 10],
    ([i, j], [k]) => {
      assert.ok(i && j && k);
      return binary('mul', load('v1', [i, k], 'f32'), load('w', [k, j], 'f32'));
    },
    [256],
    { kind: 'sum' },
  );
  b.compute([50, 10], ([i, j]) => {
    assert.ok(i && j);
    const scale = unary('rsqrt', binary('add', load('var', [j], 'f32'), constant(1e-5, 'f32')));
    return binary('mul', load('v2', [i, j], 'f32'), scale);
  });
  const p = b.program();
  const values = new Map(p.values);
  for (const id of ['table', 'w', 'var']) {
    const v = values.get(id);
    if (v) values.set(id, { ...v, role: 'param' });
  }
  return { ...p, values };
}

const spec = (id: string, more: Partial<BufferSpec>): BufferSpec => ({
  id,
  name: id,
  dtype: 'f32',
  storage: 'f32',
  shape: [more.elements ?? 0],
  elements: 0,
  bytes: 4,
  role: 'input',
  ...more,
});

describe('made-up contents', () => {
  it('make sense for the program', async () => {
    const given = await new ContentSource(program(), {}, host).forReference();
    const list = (id: string): number[] => Array.from(given.get(id) ?? []);
    const rms = (x: number[]): number => Math.sqrt(x.reduce((s, v) => s + v * v, 0) / x.length);
    assert.ok(list('ids').every((i) => Number.isInteger(i) && i >= 0 && i < 7));
    assert.equal(new Set(list('ids')).size, 7);
    assert.ok(list('table').every((x) => x !== 0 && Math.abs(x) <= 1));
    assert.ok(list('var').every((x) => x >= 0.5 && x <= 1.5));
    // Scaled by 1/sqrt(256).
    assert.ok(Math.abs(rms(list('w')) * 16 - rms(list('table'))) < 0.05);
    assert.deepEqual(new Set(list('mask')), new Set([0, 1]));
    assert.ok(list('table').every((x) => Math.fround(x) === x));
  });

  it('depend on the seed and the value alone, and are the same for a buffer', async () => {
    const one = new ContentSource(program(), { seed: 1 }, host);
    const again = new ContentSource(program(), { seed: 1 }, host);
    const other = new ContentSource(program(), { seed: 2 }, host);
    const w = (await one.forReference()).get('w');
    assert.deepEqual((await again.forReference()).get('w'), w);
    assert.notDeepEqual((await other.forReference()).get('w'), w);
    const buffer = await one.forBuffer(spec('buf9', { value: 'w', elements: 2560 }));
    assert.deepEqual(Array.from(buffer), Array.from(w ?? []));
    const ids = await one.forBuffer(spec('ids', { storage: 'i32', dtype: 'i64', elements: 50 }));
    assert.ok(ids instanceof Int32Array);
  });

  it('follow the hints of a buffer where there is no program', async () => {
    const source = new ContentSource(undefined, {}, host);
    const i = await source.forBuffer(
      spec('i', { dtype: 'i32', storage: 'i32', elements: 100, valueBound: 3 }),
    );
    assert.ok(i.every((x) => x >= 0 && x < 3));
    const p = await source.forBuffer(spec('p', { elements: 100, distribution: 'positive' }));
    assert.ok(p.every((x) => x > 0));
  });

  it('replace weights of the file by random ones only when asked', async () => {
    const data = { kind: 'fill', value: 0.25 } as const;
    const param = spec('p', { role: 'param', elements: 4, data });
    const plain = await new ContentSource(undefined, {}, host).forBuffer(param);
    assert.deepEqual([...plain], [0.25, 0.25, 0.25, 0.25]);
    const random = await new ContentSource(undefined, { randomWeights: true }, host).forBuffer(
      param,
    );
    assert.equal(new Set(random).size, 4);
  });
});

describe('storage', () => {
  it('clamps integers that need more than 32 bits and rounds floats', () => {
    assert.deepEqual([...toStorage([2 ** 62, -(2 ** 40), 5], 'i32')], [2147483647, -2147483648, 5]);
    assert.deepEqual([...toStorage([-1, 2 ** 33], 'u32')], [0, 4294967295]);
    assert.deepEqual([...toStorage([0.1], 'f32')], [Math.fround(0.1)]);
  });

  it('converts to f16 words and back', () => {
    for (let bits = 0; bits < 65536; bits++) {
      const x = f16FromBits(bits);
      if (x === x) assert.equal(f16Bits(x), bits);
    }
    assert.deepEqual(Array.from(numbersOf(toStorage([1, -0.1, 65520, 1e-8, NaN], 'f16'))), [
      1,
      Math.fround(-0.0999755859375),
      Infinity,
      0,
      NaN,
    ]);
  });
});

describe('statistics', () => {
  it('median, minimum and the interval of the median', () => {
    assert.deepEqual(summarise([5]), { median: 5, min: 5, spread: 0, samples: 1 });
    const { median, min, spread } = summarise([9, 1, 2, 3, 4, 5, 6, 7, 8, 100]);
    assert.deepEqual([median, min], [5.5, 1]);
    assert.ok(spread > 1 && spread < 5);
  });

  it('finds the step of a clock', () => {
    assert.equal(quantumOf([0n, 65536n, 327680n, 196608n]), 65536n);
    assert.equal(quantumOf([7n, 7n, 7n]), 0n);
  });
});
