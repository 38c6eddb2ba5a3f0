import assert from 'node:assert/strict';
import type { ConstData, Program } from '../../../compiler/ir/compute';
import type { BufferSpec, ExecPlan } from '../../../compiler/result';
import { profileWithContents, type ReadContents } from '../../../extension/services/pageContents';
import type { ProfileJob } from '../../../runner/core/types';

const inModel = (offset: number, form: 'elements' | 'varints' = 'elements'): ConstData => ({
  kind: 'inModel',
  offset,
  length: 4,
  form,
});
const external: ConstData = { kind: 'external', location: 'w.bin', offset: 1, length: 8 };

function jobWith(data: Readonly<Record<string, ConstData>>, randomWeights = false): ProfileJob {
  const own = Object.entries(data);
  const dtype = (id: string): 'f32' | 'i64' => (id.startsWith('i') ? 'i64' : 'f32');
  const buffers = own.map(([id, d]): BufferSpec => ({
    ...{ id, name: id, dtype: dtype(id), storage: 'f32', shape: [1], elements: 1, bytes: 4 },
    ...{ role: 'param', data: d },
  }));
  const exec: ExecPlan = { buffers, dispatches: [], outputs: [] };
  const program: Program = {
    values: new Map(
      own.map(([id, d]) => [
        id,
        { id, name: id, dtype: dtype(id), shape: [], role: 'param', data: d },
      ]),
    ),
    computes: [],
    inputs: [],
    outputs: [],
    dims: new Map(),
  };
  const plan = { exec, kernels: [] };
  const options = { randomWeights, modelFolder: '/m' };
  return { fused: plan, unfused: plan, program, options };
}

const kinds = (job: ProfileJob): unknown => [
  ...[job.fused, job.unfused].map((p) => p.exec.buffers.map((b) => b.data?.kind)),
  [...job.program.values.values()].map((v) => v.data?.kind),
];

describe('jobs for a page', () => {
  const asked: number[] = [];
  const read: ReadContents = (data) => {
    asked.push(data.offset);
    return Promise.resolve(Uint8Array.of(1, 2, 3, 4));
  };
  beforeEach(() => asked.splice(0));

  it('have contents put in that are in files, each read once', async () => {
    const fill: ConstData = { kind: 'fill', value: 1 };
    const job = await profileWithContents(
      jobWith({ w: inModel(7), e: external, f: fill, i: inModel(9, 'varints') }),
      read,
    );
    assert.deepEqual(kinds(job), Array(3).fill(['bytes', 'bytes', 'fill', 'numbers']));
    assert.deepEqual(asked, [7, 1, 9]);
    const list = job.fused.exec.buffers[3]?.data;
    assert.deepEqual(list?.kind === 'numbers' && list.values, [1, 2, 3, 4]);
  });

  it('keep those that are made up in any case', async () => {
    const job = await profileWithContents(jobWith({ w: inModel(7), i: inModel(9) }, true), read);
    assert.deepEqual(kinds(job), Array(3).fill(['inModel', 'bytes']));
    assert.deepEqual(asked, [9]);
  });

  it('keep what can’t be read here: the page says so', async () => {
    const job = await profileWithContents(jobWith({ w: inModel(7) }), () =>
      Promise.resolve(undefined),
    );
    assert.deepEqual(kinds(job), Array(3).fill(['inModel']));
  });
});
