import assert from 'node:assert/strict';
import { binary, cast, constant, load, unary } from '../../../compiler/ir/expr';
import type { Program } from '../../../compiler/ir/compute';
import * as I from '../../../compiler/ir/indexExpr';
import { interpret } from '../../../compiler/reference';
import { ContentSource } from '../../../runner/core/contents';
import type { Host, Watch } from '../../../runner/core/device';
import { toStorage, type StorageArray } from '../../../runner/core/storage';
import { compare, expectations, uncancelled } from '../../../runner/core/tolerance';
import { KeptResults, verify, type StoredResult } from '../../../runner/core/verify';
import type { CancelSignal, ProfileJob, Verification } from '../../../runner/core/types';
import type { BufferSpec, ExecPlan } from '../../../compiler/result';
import { Builder } from '../reference/programs';

const host: Host = {
  gpu: undefined,
  kind: 'node',
  name: 'test',
  now: () => 0,
  pause: () => Promise.resolve(),
};
const watch: Watch = { progress: () => undefined, working: () => undefined };
const never: CancelSignal = {
  aborted: false,
  addEventListener: () => undefined,
  removeEventListener: () => undefined,
};
const SHAPE = [6, 50];

/** v0 = tanh(x), v1 = v0 > 0.5, v2 = argmax of its rows. */
function program(): ReturnType<Builder['program']> {
  const b = new Builder();
  b.input('x', SHAPE);
  b.compute(SHAPE, (d) => unary('tanh', load('x', d, 'f32')));
  b.compute(SHAPE, (d) => binary('gt', load('v0', d, 'f32'), constant(0.5, 'f32')));
  b.compute(
    [6],
    (d, r) => load('v0', [...d, ...r], 'f32'),
    [50],
    { kind: 'argmax', last: false },
    'i64',
  );
  b.compute(SHAPE, (d) => cast(load('v1', d, 'bool'), 'f32'));
  return b.program();
}

type Change = (value: string, data: StorageArray) => StorageArray;
const same: Change = (_, data) => data;

async function verified(fused: Change, unfused: Change = same): Promise<Verification> {
  const p = program();
  const inputs = await new ContentSource(p, {}, host).forReference();
  const values = interpret(p, inputs);
  const specs = p.computes.map((c): BufferSpec => {
    const dtype = c.dtype;
    const storage = dtype === 'f32' ? 'f32' : dtype === 'bool' ? 'u32' : 'i32';
    const shape = c.dims.map((d) => d.extent.c);
    const elements = shape.reduce((a, n) => a * n, 1);
    const role = 'output' as const;
    return {
      id: `buf-${c.value}`,
      value: c.value,
      name: c.value,
      dtype,
      storage,
      shape,
      elements,
      bytes: 4 * elements,
      role,
    };
  });
  const stored = (change: Change, prefix: string): StoredResult[] =>
    specs.map((spec, i) => {
      const right = toStorage(values.get(spec.value ?? '') ?? [], spec.storage).slice();
      return { kernel: `${prefix}${i}`, spec, data: change(spec.value ?? '', right) };
    });
  const exec: ExecPlan = {
    buffers: specs,
    dispatches: [],
    outputs: specs.map((s) => ({ name: s.name, buffer: s.id, shape: s.shape })),
  };
  const job: ProfileJob = {
    fused: { exec, kernels: [] },
    unfused: { exec, kernels: [] },
    program: p,
    options: {},
  };
  const all = { fused: stored(fused, 'k'), unfused: stored(unfused, 'b') };
  return verify(job, all, host, watch, never);
}

/** Adds to one element of one value. */
const off =
  (value: string, at: number, by: number): Change =>
  (v, data) => {
    if (v === value) data[at] = (data[at] ?? 0) + by;
    return data;
  };

describe('verification', () => {
  it('accepts what rounding explains', async () => {
    const v = await verified((_, data) =>
      data instanceof Float32Array ? data.map((x, i) => x * (1 + (i % 3) * 1e-7)) : data,
    );
    assert.equal(v.ok, true);
    assert.deepEqual(
      v.kernels.map((k) => [k.kernel, k.name, k.ok]),
      [
        ['k0', 'v0', true],
        ['k1', 'v1', true],
        ['k2', 'v2', true],
        ['k3', 'v3', true],
      ],
    );
    assert.ok(v.outputs.every((o) => o.tolerance < 1e-2));
  });

  it('finds one wrong element and says where', async () => {
    const v = await verified(off('v0', 123, 0.001));
    assert.equal(v.ok, false);
    const bad = v.kernels.filter((k) => !k.ok);
    assert.deepEqual(
      bad.map((k) => [k.kernel, k.worst?.index]),
      [['k0', [2, 23]]],
    );
    assert.ok(Math.abs((bad[0]?.maxAbsErr ?? 0) - 0.001) < 1e-6);
  });

  it('lets a fused kernel reach twice the unfused error, but not when both are wrong', async () => {
    assert.equal((await verified(off('v0', 7, 3e-5), off('v0', 7, 2e-5))).ok, true);
    const both = await verified(off('v0', 7, 0.1), off('v0', 7, 0.1));
    assert.equal(both.ok, false);
    assert.deepEqual(
      both.kernels.filter((k) => !k.ok).map((k) => k.kernel),
      ['k0', 'b0'],
    );
  });

  it('fails NaN, infinity and poison, but not a NaN that is right', async () => {
    for (const wrong of [NaN, Infinity])
      assert.equal((await verified(off('v0', 5, wrong))).ok, false);
    const poisoned = await verified((v, data) => {
      if (v === 'v1') data[299] = 0x5ee7a55e;
      return data;
    });
    assert.equal(poisoned.ok, false);
    assert.deepEqual(poisoned.kernels.find((k) => !k.ok)?.worst?.index, [5, 49]);
    assert.deepEqual(compare([NaN, 1], [NaN, 1], 'f32', 'float').maxRel, 0);
    assert.equal(compare([Infinity], [1e39], 'f32', 'float').maxRel, 0);
    assert.ok(compare([-Infinity], [1e39], 'f32', 'float').maxRel > 1);
  });

  it('counts tipped elements of what comes from comparisons, and demands the rest exactly', async () => {
    const e = expectations(program());
    assert.deepEqual(
      ['v0', 'v1', 'v2'].map((v) => e.get(v)?.kind),
      ['float', 'counted', 'counted'],
    );
    const tipped = await verified(off('v1', 3, 1), off('v1', 3, 1));
    assert.equal(tipped.outputs.find((o) => o.name === 'v1')?.ok, true);
    const more = await verified((v, data) => (v === 'v1' ? data.map((x) => 1 - x) : data));
    assert.equal(more.outputs.find((o) => o.name === 'v1')?.ok, false);
    const b = new Builder();
    b.input('i', [4], 'i32');
    b.compute([4], (d) => binary('add', load('i', d, 'i32'), constant(1, 'i32')));
    assert.equal(expectations(b.program()).get('v0')?.kind, 'exact');
  });

  it('measures what cancels by what was added up, and no other value', () => {
    const b = new Builder();
    b.input('x', [16]);
    b.compute([16], (d) => binary('sub', load('x', d, 'f32'), load('x', d, 'f32')));
    b.compute([], (_, r) => load('x', r, 'f32'), [16], { kind: 'sum' });
    b.compute([16], (d) => binary('mul', load('v0', d, 'f32'), constant(-2, 'f32')));
    b.compute([16], (d) => unary('tanh', load('x', d, 'f32')));
    b.compute([], (_, r) => load('x', r, 'f32'), [16], { kind: 'max' });
    const p = b.program();
    const scales = new Map([
      ['x', 3],
      ['v0', 5],
    ]);
    const sizes = p.computes.map((c) => uncancelled(p, c, (v) => scales.get(v)));
    assert.deepEqual(sizes, [Math.hypot(3, 3), 12, 10, 0, 3]);
    // A sum that is 0 but for rounding: judged by its terms, of 1 each.
    assert.ok(compare([1.2e-7], [-4e-16], 'f32', 'float').maxRel > 1e8);
    assert.ok(compare([1.2e-7], [-4e-16], 'f32', 'float', 4).maxRel < 1e-7);
    assert.ok(compare([1.2e-7, 5], [-4e-16, 4], 'f32', 'float', 4).maxRel > 0.2);
  });

  it('compares a loop’s body run by run, and how often it ran', async () => {
    const b = new Builder();
    b.input('x', [4]);
    b.input('f', [4]);
    b.compute([4], (d) =>
      binary('add', binary('mul', load('f', d, 'f32'), constant(0.5, 'f32')), constant(1, 'f32')),
    );
    const p = b.program();
    const x = p.values.get('x');
    assert.ok(x);
    const region = (id: string): [string, typeof x] => [id, { ...x, id, name: id, role: 'region' }];
    const TRIPS = 7;
    const carried = [{ initial: 'x', formal: 'f', next: 'v0', result: 'r' }];
    const looped: Program = {
      ...p,
      values: new Map([...p.values, region('f'), region('r')]),
      computes: p.computes.map((c) => ({ ...c, region: 'n/body' })),
      inputs: ['x'],
      outputs: [{ name: 'r', value: 'r', shape: x.shape }],
      regions: [
        {
          kind: 'loop',
          id: 'n',
          body: 'n/body',
          trips: I.num(TRIPS),
          carried,
          sliced: [],
          stacked: [],
        },
      ],
    };
    const start = (await new ContentSource(looped, {}, host).forReference()).get('x') ?? [];
    const spec = (id: string): BufferSpec => ({
      ...{ id, name: id, dtype: 'f32', storage: 'f32', shape: [4], elements: 4, bytes: 16 },
      role: 'output',
    });
    const runs = async (
      trips: number,
      change: (run: number, data: Float32Array) => void,
    ): Promise<Verification> => {
      const results: StoredResult[] = [];
      const kept = new KeptResults(results);
      let at = Float32Array.from(start);
      for (let run = 0; run < trips; run++) {
        at = at.map((v) => v * 0.5 + 1);
        change(run, at);
        kept.add({ kernel: 'k0', spec: spec('v0'), data: at });
      }
      kept.add({ spec: spec('r'), data: at });
      assert.deepEqual(
        results.map((r) => r.run),
        [undefined, 1, 2, trips - 1, undefined],
      );
      const exec: ExecPlan = {
        buffers: [spec('v0'), spec('r')],
        dispatches: [],
        outputs: [{ name: 'r', buffer: 'r', shape: [4] }],
      };
      const plan = { exec, kernels: [] };
      const job = { fused: plan, unfused: plan, program: looped, options: {} };
      return verify(job, { fused: results, unfused: results }, host, watch, never);
    };
    const right = await runs(TRIPS, () => undefined);
    assert.ok(right.ok, JSON.stringify(right));
    assert.deepEqual(
      right.kernels.map((k) => [k.kernel, k.name, k.ok]),
      [['k0', 'v0', true]],
    );
    const wrong = await runs(TRIPS, (run, data) => {
      if (run === 2) data[1] = (data[1] ?? 0) + 0.01;
    });
    assert.equal(wrong.kernels.find((k) => !k.ok)?.kernel, 'k0');
    assert.equal((await runs(TRIPS + 1, () => undefined)).ok, false);
    assert.equal((await runs(TRIPS - 1, () => undefined)).ok, false);
  });
});
