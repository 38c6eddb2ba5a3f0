// The records' file: readable, merged line by line, and never used where it doesn't fit or can't be read.

import assert from 'node:assert/strict';
import {
  adapterLabel,
  adapterName,
  keyOfRecord,
  type KernelRecord,
  mergeRecords,
  type PlanRecord,
  readRecords,
  type Records,
  recordsText,
  type RunPlace,
  tuningFor,
  type TuningRecord,
  unreadable,
} from '../../../tuner/records';

const GPU = 'maker / model / Some GPU';

function kernel(structure: string, more: Partial<KernelRecord> = {}): KernelRecord {
  return {
    kind: 'kernel',
    structure,
    adapter: GPU,
    version: '1.0.0',
    label: 'matmul + relu',
    files: ['a.fuse'],
    dims: {},
    default: { workgroup: 64, tile: 4 },
    defaultUs: 20,
    best: { params: { workgroup: 128, tile: 4 }, us: 10, defaultUs: 20 },
    tried: { 'tile=4 workgroup=128': { us: 10, spreadUs: 1, speedup: 2, speedupSpread: 0.1 } },
    ...more,
  };
}

const PLAN: PlanRecord = {
  kind: 'plan',
  change: { kind: 'cut', from: 'a#relu', to: 'b#exp' },
  replaces: ['s1'],
  makes: ['s2', 's3'],
  adapter: GPU,
  version: '1.0.0',
  label: 'relu and exp in two kernels',
  files: ['a.fuse'],
  dims: { B: 4 },
  best: { us: 5, defaultUs: 6 },
  tried: { us: 5, spreadUs: 0.1, speedup: 1.2, speedupSpread: 0.01 },
};

const of = (...list: TuningRecord[]): Records => new Map(list.map((r) => [keyOfRecord(r), r]));
const AT: RunPlace = { file: 'a.fuse', adapter: GPU, version: '1.0.0', dims: {} };

function read(text: string): Records {
  const r = readRecords(text);
  if (!r.ok) assert.fail(r.reason);
  return r.records;
}

describe('tuning records on disk', () => {
  it('are one a line, in a stable order, and come back as they were', () => {
    const records = of(kernel('s9'), PLAN, kernel('s1'));
    const text = recordsText(records);
    assert.equal(text, recordsText(of(kernel('s1'), kernel('s9'), PLAN)));
    const lines = text.split('\n').filter((l) => l.startsWith('    "'));
    assert.equal(lines.length, 3);
    assert.deepEqual([...lines].sort(), lines);
    assert.deepEqual(read(text), records);
    assert.equal(recordsText(read(text)), text);
    assert.deepEqual(read(recordsText(new Map())), new Map());
  });

  it('are refused whole where something is wrong, with what it is', () => {
    const bad = (text: string): string => {
      const r = readRecords(text);
      return r.ok ? 'read' : r.reason;
    };
    const text = recordsText(of(kernel('s1')));
    assert.match(bad(''), /no JSON/);
    assert.match(bad(text.slice(0, -5)), /no JSON/);
    assert.match(bad('[]'), /"schema"/);
    assert.match(
      bad(text.replace('tuning@1', 'tuning@2')),
      /"schema" is not "fusion-lens\/tuning@1"/,
    );
    assert.match(
      bad(text.replace('"us":10', '"us":"ten"')),
      /field "best" of the record "kernel s1/,
    );
    assert.match(bad(text.replace('"files":["a.fuse"]', '"files":"a"')), /field "files"/);
    assert.match(
      bad(text.replace('"structure":"s1"', '"structure":"s2"')),
      /says something else inside/,
    );
    assert.match(bad(text.replace('"kind":"kernel"', '"kind":"other"')), /field "kind"/);
    assert.match(bad('<<<<<<< HEAD\n' + text), /no JSON/);
    const [note] = unreadable('x/tuning.json', 'it is no JSON').notes;
    assert.equal(note?.severity, 'warning');
    assert.match(note.message, /x\/tuning\.json are not used, and are left as they are/);
  });

  it('merge with what others wrote meanwhile', () => {
    const theirs = of(
      kernel('s1', {
        files: ['b.fuse'],
        tried: { 'tile=1 workgroup=64': { failed: 'no' } },
      }),
      kernel('s2'),
    );
    const merged = mergeRecords(theirs, [{ record: kernel('s1'), settled: true }], AT);
    assert.equal(merged.size, 2);
    const one = merged.get(keyOfRecord(kernel('s1')));
    assert.deepEqual(one?.files, ['a.fuse', 'b.fuse']);
    assert.deepEqual(Object.keys(one.tried).sort(), [
      'tile=1 workgroup=64',
      'tile=4 workgroup=128',
    ]);
  });

  it('keep the best of before when a run was cancelled, and lose it when one found nothing', () => {
    const there = of(kernel('s1'));
    const { best: _, ...rest } = kernel('s1');
    const after = (settled: boolean) =>
      mergeRecords(there, [{ record: rest, settled }], AT).get(keyOfRecord(rest))?.best;
    assert.deepEqual(after(false), kernel('s1').best);
    assert.equal(after(true), undefined);
    // Measured against another default, the old best says nothing.
    const other = { ...rest, default: { workgroup: 32, tile: 1 } };
    const changed = mergeRecords(there, [{ record: other, settled: false }], AT);
    assert.equal(changed.get(keyOfRecord(other))?.best, undefined);
  });

  it('drop what another version measured of the same, and orphans of the file', () => {
    const there = of(
      kernel('s1', { version: '0.9.0' }),
      kernel('gone'),
      kernel('shared', { files: ['a.fuse', 'b.fuse'] }),
      kernel('other', { files: ['b.fuse'] }),
      kernel('sized', { dims: { B: 7 } }),
    );
    const updates = [{ record: kernel('s1'), settled: true }];
    const merged = mergeRecords(there, updates, { ...AT, structures: new Set(['s1']) });
    const left = [...merged.values()].map(
      (r) => `${r.kind === 'kernel' ? r.structure : ''} ${r.version} ${r.files.join()}`,
    );
    assert.deepEqual(left.sort(), [
      'other 1.0.0 b.fuse',
      's1 1.0.0 a.fuse',
      'shared 1.0.0 b.fuse',
      'sized 1.0.0 a.fuse',
    ]);
    // A run that was cancelled doesn't know what the plan has.
    assert.equal(mergeRecords(there, updates, AT).size, 5);
  });
});

describe('tuning records in use', () => {
  const use = { file: 'a.fuse', version: '1.0.0', adapter: GPU };

  it('are those of the adapter that have a best', () => {
    const records = of(kernel('s1'), kernel('s2', { adapter: 'x / y / Other' }), PLAN);
    const t = tuningFor(records, use);
    assert.deepEqual(t.notes, []);
    assert.equal(t.kernels.length, 1);
    assert.deepEqual(t.kernels[0], {
      structure: 's1',
      settings: { workgroup: 128, tile: 4 },
      medianUs: 10,
      defaultUs: 20,
      adapter: 'Some GPU',
      own: { workgroup: 64, tile: 4 },
      dims: {},
      expected: true,
    });
    assert.deepEqual(t.plans[0]?.makes, ['s2', 's3']);
    const { best: _, ...without } = kernel('s3');
    assert.equal(tuningFor(of(without), use).kernels.length, 0);
    assert.equal(tuningFor(records, { ...use, file: 'b.fuse' }).kernels[0]?.expected, false);
  });

  it('of another version are handed on with the reason, unless there is one of this', () => {
    const old = kernel('s1', { version: '0.9.0' });
    assert.match(
      tuningFor(of(old), use).kernels[0]?.outdated ?? '',
      /version 0\.9\.0 measured it, and this is 1\.0\.0: tune again/,
    );
    const both = tuningFor(of(old, kernel('s1')), use).kernels;
    assert.equal(both.length, 1);
    assert.equal(both[0]?.outdated, undefined);
  });

  it('without an adapter are those of the only one; of several, one must be named', () => {
    const unknown = { ...use, adapter: undefined };
    const one = tuningFor(of(kernel('s1')), unknown);
    assert.equal(one.kernels.length, 1);
    // What the compiler chooses without an adapter needn't be what it chose there.
    assert.equal(one.kernels[0]?.own, undefined);
    const several = of(kernel('s1'), kernel('s1', { adapter: 'x / y / Other' }));
    const none = tuningFor(several, unknown);
    assert.equal(none.kernels.length, 0);
    assert.match(none.notes[0]?.message ?? '', /of 2 adapters.*Some GPU.*Other/);
    assert.equal(tuningFor(several, { ...unknown, chosen: 'other' }).kernels[0]?.adapter, 'Other');
    assert.match(
      tuningFor(several, { ...unknown, chosen: 'absent' }).notes[0]?.message ?? '',
      /no tuning records of an adapter named "absent"/,
    );
  });

  it('name adapters by what distinguishes them, and by what people know', () => {
    const name = adapterName({ vendor: 'v', architecture: ' a ', description: 'Big\n GPU' });
    assert.equal(name, 'v / a / Big GPU');
    assert.equal(adapterLabel(name), 'Big GPU');
    assert.equal(
      adapterLabel(adapterName({ vendor: 'v', architecture: 'a', description: '' })),
      'a',
    );
  });
});
