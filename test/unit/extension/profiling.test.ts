import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { ProfileResult, Runner, RunnerReply } from '../../../runner/core/types';
import { toWire } from '../../../runner/core/wire';
import { findNode } from '../../../extension/services/findNode';
import { Measurements, timeOf } from '../../../extension/services/measurements';
import { Profiler } from '../../../extension/services/profiler';
import type { GraphResults } from '../../../extension/services/results';
import { openRunner, type RunnerSources } from '../../../extension/services/runners';
import type { HostToWebview } from '../../../extension/contracts/webview';
import { PageJobs } from '../../../extension/webviewHost/pageJobs';
import { kernel, profile, result } from './fixture';

const job = {} as never;

/** A runner whose profile ends as told, or when it is cancelled. */
function runner(end?: RunnerReply<ProfileResult>): Runner & { disposed: number } {
  const made = {
    disposed: 0,
    adapter: () => Promise.resolve({ ok: true as const, value: profile().adapter }),
    run: () => Promise.reject(new Error('not asked')),
    profile: ((_job, onProgress, signal) => {
      onProgress({ stage: 'fused', done: 1, total: 2 });
      return new Promise((resolve) => {
        if (end) resolve(end);
        else
          signal.addEventListener('abort', () =>
            resolve({ ok: false, fault: { code: 'CANCELLED', message: 'cancelled' } }),
          );
      });
    }) as Runner['profile'],
    trial: () => Promise.reject(new Error('not asked for')),
    dispose: () => {
      made.disposed++;
    },
  };
  return made;
}

function results(state: unknown = { result: result() }): GraphResults {
  const partial: Partial<GraphResults> = {
    fresh: () => Promise.resolve(state as never),
    ask: () => Promise.resolve({ ok: true, value: job }),
  };
  return partial as GraphResults;
}

describe('profile runs', () => {
  const start = (open: () => Promise<RunnerReply<Runner>>, state?: unknown) => {
    const measurements = new Measurements();
    const adapters: string[] = [];
    const profiler = new Profiler(
      results(state),
      measurements,
      open,
      () => ({}),
      ({ description }) => adapters.push(description),
    );
    const states: string[] = [];
    profiler.onDidChange((uri) => states.push(profiler.state(uri).kind));
    return { profiler, measurements, states, adapters };
  };

  it('keep the result and end their runner', async () => {
    const used = runner({ ok: true, value: profile() });
    const { profiler, measurements, states, adapters } = start(() =>
      Promise.resolve({ ok: true, value: used }),
    );
    const reply = await profiler.profile('a');
    assert.ok(reply.ok);
    assert.equal(measurements.get('a'), reply.value);
    assert.equal(used.disposed, 1);
    assert.deepEqual(adapters, ['Acme One']);
    assert.deepEqual(states, ['running', 'running', 'idle']);
  });

  it('can be cancelled; meanwhile a second one is refused', async () => {
    const used = runner();
    const { profiler, states } = start(() => Promise.resolve({ ok: true, value: used }));
    const running = profiler.profile('a');
    assert.equal(profiler.running, 'a');
    assert.ok(!(await profiler.profile('b')).ok);
    await new Promise((resolve) => setTimeout(resolve, 0));
    profiler.cancel('b');
    profiler.cancel('a');
    const reply = await running;
    assert.ok(!reply.ok && reply.fault.code === 'CANCELLED');
    assert.equal(used.disposed, 1);
    assert.equal(profiler.running, undefined);
    assert.equal(states.at(-1), 'failed');
  });

  it('turn everything that goes wrong into a fault, after which the next run works', async () => {
    let broken = true;
    const { profiler } = start(() =>
      broken
        ? Promise.reject(new Error('spawn failed'))
        : Promise.resolve({ ok: true, value: runner({ ok: true, value: profile() }) }),
    );
    const reply = await profiler.profile('a');
    assert.ok(!reply.ok && reply.fault.message === 'spawn failed');
    broken = false;
    assert.ok((await profiler.profile('a')).ok);
  });

  it('say when the graph can’t be run', async () => {
    const open = () => Promise.reject(new Error('must not be asked'));
    const opaque = {
      result: result({ runnable: { ok: false, reason: 'NonZero is not supported' } }),
    };
    const first = await start(open, opaque).profiler.profile('a');
    assert.ok(!first.ok && first.fault.code === 'UNSUPPORTED');
    assert.equal(first.fault.message, 'NonZero is not supported');
    const second = await start(open, { problem: 'a no longer exists.' }).profiler.profile('a');
    assert.ok(!second.ok && second.fault.message === 'a no longer exists.');
  });
});

describe('the choice of the runner', () => {
  const asked: string[] = [];
  const ok = (name: string) => () => {
    asked.push(name);
    return Promise.resolve({ ok: true as const, value: runner() });
  };
  const noNode = () => {
    asked.push('process');
    return Promise.resolve({
      ok: false as const,
      fault: { code: 'NO_NODE' as const, message: 'none' },
    });
  };
  const sources = (more: Partial<RunnerSources> = {}): RunnerSources => ({
    isTrusted: () => true,
    process: ok('process'),
    page: ok('page'),
    ...more,
  });
  beforeEach(() => asked.splice(0));

  it('is a process where there is a Node, else the page', async () => {
    await openRunner('auto', sources());
    await openRunner('auto', sources({ process: noNode }));
    await openRunner('page', sources());
    assert.deepEqual(asked, ['process', 'process', 'page', 'page']);
  });

  it('is never changed behind a person’s back', async () => {
    const reply = await openRunner('node', sources({ process: noNode }));
    assert.ok(!reply.ok && reply.fault.code === 'NO_NODE');
    assert.deepEqual(asked, ['process']);
  });

  it('is none in an untrusted workspace', async () => {
    for (const choice of ['auto', 'node', 'page'] as const) {
      const reply = await openRunner(choice, sources({ isTrusted: () => false }));
      assert.ok(!reply.ok);
      assert.match(reply.fault.message, /not trusted/);
    }
    assert.deepEqual(asked, []);
  });
});

describe('finding a Node', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'fusion-lens-node-'));
  const old = path.join(folder, 'old-node');
  before(() => {
    symlinkSync(process.execPath, path.join(folder, 'node'));
    writeFileSync(old, '#!/bin/sh\necho v16.20.0\n');
    chmodSync(old, 0o755);
  });
  after(() => rmSync(folder, { recursive: true, force: true }));
  const electron = { execPath: '/electron', isElectron: true, windows: false };

  it('takes the one that runs the extension, unless that is Electron', async () => {
    assert.deepEqual(
      await findNode('', { ...electron, isElectron: false, execPath: '/n', searchPath: '' }),
      { ok: true, path: '/n' },
    );
    const found = await findNode('', { ...electron, searchPath: `.:relative:/nowhere:${folder}` });
    assert.deepEqual(found, { ok: true, path: path.join(folder, 'node') });
    const none = await findNode('', { ...electron, searchPath: '/nowhere' });
    assert.ok(!none.ok && none.fault.code === 'NO_NODE');
  });

  it('checks what is configured instead of working around it', async () => {
    for (const [configured, problem] of [
      ['node', /absolute path/],
      [path.join(folder, 'missing'), /names no program/],
      [old, /not Node 20/],
    ] as const) {
      const found = await findNode(configured, { ...electron, searchPath: folder });
      assert.ok(!found.ok && found.fault.code === 'BAD_INPUT');
      assert.match(found.fault.message, problem);
    }
    assert.deepEqual(await findNode(process.execPath), { ok: true, path: process.execPath });
  });
});

describe('runs in the page', () => {
  const setUp = (silenceMs?: number) => {
    const posted: HostToWebview[] = [];
    const jobs = new PageJobs((message) => posted.push(message), silenceMs);
    const abort = new AbortController();
    const progress: string[] = [];
    const reply = jobs.run(
      { kind: 'profile', job },
      ({ stage }) => progress.push(stage),
      abort.signal,
    );
    return { jobs, posted, abort, progress, reply };
  };

  it('are joined by number and tell progress', async () => {
    const { jobs, posted, progress, reply } = setUp();
    assert.deepEqual(
      posted.map(({ type }) => type),
      ['runInPage'],
    );
    jobs.progress(1, { stage: 'fused', done: 1, total: 2 });
    jobs.done(7, toWire({ ok: true, value: 'of nobody' }));
    jobs.done(1, toWire({ ok: true, value: 'done' }));
    assert.deepEqual(await reply, { ok: true, value: 'done' });
    assert.deepEqual(progress, ['fused']);
  });

  it('end when the page is gone or silent, and tell the page when cancelled', async () => {
    const gone = setUp();
    gone.abort.abort();
    assert.deepEqual(
      gone.posted.map(({ type }) => type),
      ['runInPage', 'cancelInPage'],
    );
    gone.jobs.failAll('The graph panel was closed.');
    const first = await gone.reply;
    assert.ok(!first.ok && first.fault.code === 'CRASHED');
    const silent = await setUp(10).reply;
    assert.ok(!silent.ok && silent.fault.code === 'HUNG');
  });
});

describe('measurements', () => {
  it('tell kernels that are alike apart by their id', () => {
    const base = profile();
    const [time] = base.fused.kernels;
    assert.ok(time);
    const twins = {
      ...base,
      fused: {
        ...base.fused,
        kernels: [
          { ...time, id: 'k0', hash: 'same', medianUs: 1 },
          { ...time, id: 'k1', hash: 'same', medianUs: 2 },
        ],
      },
    };
    const times = ['k0', 'k1', 'k7'].map(
      (id) => timeOf(kernel(id, [], { hash: 'same' }), twins)?.medianUs,
    );
    assert.deepEqual(times, [1, 2, 1]);
    assert.equal(timeOf(kernel('k0', [], { hash: 'changed' }), twins), undefined);
  });

  it('follow a renamed file and can be cleared', () => {
    const measurements = new Measurements();
    measurements.set('a', profile());
    measurements.move('a', 'b');
    assert.equal(measurements.get('a'), undefined);
    assert.ok(measurements.get('b'));
    measurements.clearAll();
    assert.equal(measurements.size, 0);
  });
});
