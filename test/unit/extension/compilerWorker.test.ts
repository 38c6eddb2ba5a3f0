import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Compilation, CompileOptions, CompileSource } from '../../../compiler';
import type { WorkerAnswer, WorkerCall } from '../../../extension/contracts/compiler';
import { CompilerClient } from '../../../extension/worker/client';
import type { WorkerEvents } from '../../../extension/worker/port';
import { threadStarter } from '../../../extension/worker/startWorker';
import { CompilerService } from '../../../extension/worker/service';
import { result } from './fixture';

/** A compiler that counts its work, and fails as bugs do on the text "bug". */
function fakeCompiler() {
  const compiled: string[] = [];
  const compile = (source: CompileSource, options?: CompileOptions): Compilation => {
    const text = new TextDecoder().decode(source.bytes);
    compiled.push(`${source.file}: ${text}`);
    if (text === 'bug') throw new Error('a fault of ours');
    const program = {
      ...{ values: new Map(), computes: [], inputs: [], outputs: [], dims: new Map() },
    };
    const made = result({ file: source.file, version: options?.version ?? 0 });
    return {
      result: made,
      graph: undefined as never,
      program,
      reference: program,
      kernelCode: (kernel) => (kernel === 'k0' ? [`// ${text}`, '// second'] : undefined),
      steps: () => [],
      planAt: () => {
        throw new Error('not asked for');
      },
      nearTies: () => [],
      space: () => undefined,
      part: () => {
        throw new Error('not asked for');
      },
      kernelIr: () => undefined,
      execPlan: () => ({ buffers: [], dispatches: [], outputs: [] }),
    };
  };
  return { compile, compiled };
}

const request = (text: string, version: number, uri = 'file:///w/a.fuse') => ({
  uri,
  version,
  bytes: new TextEncoder().encode(text),
});

function startService() {
  const { compile, compiled } = fakeCompiler();
  const answers: WorkerAnswer[] = [];
  const turns: (() => void)[] = [];
  const service = new CompilerService(
    compile,
    (message) => {
      if ('reply' in message) answers.push(message);
    },
    (turn) => turns.push(turn),
    () => 0,
  );
  const drain = () => {
    for (let turn = turns.shift(); turn; turn = turns.shift()) turn();
  };
  return { service, answers, compiled, drain };
}

describe('the compiler in the worker', () => {
  it('answers an outdated compile without doing it', () => {
    const { service, answers, compiled, drain } = startService();
    service.receive({ id: 1, method: 'compile', argument: request('one', 1) });
    service.receive({
      id: 2,
      method: 'compile',
      argument: request('other file', 1, 'file:///w/b.fuse'),
    });
    service.receive({ id: 3, method: 'compile', argument: request('two', 2) });
    drain();
    assert.deepEqual(compiled, ['b.fuse: other file', 'a.fuse: two']);
    assert.deepEqual(
      answers.map(({ id, reply }) => [id, reply.ok || reply.error.kind]),
      [
        [1, 'stale'],
        [2, true],
        [3, true],
      ],
    );
  });

  it('gives code and jobs of the newest compile, and says when it has none', () => {
    const { service, answers, drain } = startService();
    const at = { uri: 'file:///w/a.fuse', version: 1 };
    service.receive({ id: 1, method: 'code', argument: { ...at, kernel: 'k0' } });
    service.receive({ id: 2, method: 'compile', argument: request('one', 1) });
    drain();
    service.receive({ id: 3, method: 'code', argument: { ...at, kernel: 'k0' } });
    service.receive({ id: 4, method: 'code', argument: { ...at, kernel: 'k9' } });
    service.receive({ id: 5, method: 'code', argument: { ...at, version: 0, kernel: 'k0' } });
    service.receive({ id: 6, method: 'job', argument: { ...at, options: { seconds: 1 } } });
    service.receive({ id: 7, method: 'forget', argument: { uri: at.uri } });
    service.receive({ id: 8, method: 'plan', argument: { ...at, which: 'fused' } });
    drain();
    const reply = (id: number) => answers.find((answer) => answer.id === id)?.reply;
    assert.deepEqual(reply(1), { ok: false, error: { kind: 'unknown-uri' } });
    assert.deepEqual(reply(3), {
      ok: true,
      value: [
        { kernel: 'k0', language: 'wgsl', code: '// one' },
        { kernel: 'k0', language: 'wgsl', code: '// second' },
      ],
    });
    assert.deepEqual(reply(4), { ok: true, value: [] });
    assert.deepEqual(reply(5), { ok: false, error: { kind: 'stale' } });
    const job = reply(6);
    assert.ok(job?.ok);
    const { fused, options, program } = job.value as {
      fused: { kernels: { id: string; bytes: number }[] };
      options: unknown;
      program: { dims: Map<string, number> };
    };
    assert.deepEqual(
      fused.kernels.map(({ id, bytes }) => [id, bytes]),
      [
        ['k0', 2048],
        ['k1', 2048],
      ],
    );
    assert.deepEqual(options, { seconds: 1 });
    assert.deepEqual([...program.dims], [['B', 64]]);
    assert.deepEqual(reply(8), { ok: false, error: { kind: 'unknown-uri' } });
  });

  it('reports a fault of the compiler as a value and goes on', () => {
    const { service, answers, drain } = startService();
    service.receive({ id: 1, method: 'compile', argument: request('bug', 1) });
    service.receive({
      id: 2,
      method: 'compile',
      argument: { ...request('fine', 1, 'untitled:Untitled-1'), file: 'Untitled-1.fuse' },
    });
    drain();
    const [first, second] = answers;
    assert.ok(first && !first.reply.ok && first.reply.error.kind === 'bug');
    assert.match(first.reply.error.message, /a fault of ours/);
    assert.ok(second?.reply.ok);
  });
});

describe('calls to the worker', () => {
  /** Workers by hand: each remembers what it was sent. */
  function startClient(limitMs = 60_000) {
    const workers: {
      events: WorkerEvents;
      calls: WorkerCall[];
      transfers: number;
      gone: boolean;
    }[] = [];
    const client = new CompilerClient((events) => {
      const worker = { events, calls: [] as WorkerCall[], transfers: 0, gone: false };
      workers.push(worker);
      return {
        post: (call, transfer) => {
          worker.calls.push(call);
          worker.transfers += transfer.length;
        },
        terminate: () => (worker.gone = true),
      };
    }, limitMs);
    const crashes: string[] = [];
    client.onDidCrash((reason) => crashes.push(reason));
    return { client, workers, crashes };
  }

  it('starts the worker with the first call, joins answers by id and moves the bytes', async () => {
    const { client, workers } = startClient();
    assert.equal(workers.length, 0);
    const first = client.call('compile', request('one', 1));
    const second = client.call('forget', { uri: 'b' });
    const [worker] = workers;
    assert.ok(worker);
    assert.equal(workers.length, 1);
    assert.equal(worker.transfers, 1);
    worker.events.message({ id: 2, reply: { ok: true, value: undefined } });
    worker.events.message({ id: 1, reply: { ok: false, error: { kind: 'stale' } } });
    worker.events.message({ id: 99, reply: { ok: true, value: 0 } });
    assert.deepEqual(await second, { ok: true, value: undefined });
    assert.deepEqual(await first, { ok: false, error: { kind: 'stale' } });
    client.dispose();
    assert.ok(worker.gone);
  });

  it('does not move a buffer that others share', () => {
    const { client, workers } = startClient();
    const whole = new TextEncoder().encode('a longer text');
    void client.call('compile', { uri: 'a', version: 1, bytes: whole.subarray(2, 5) });
    assert.equal(workers[0]?.transfers, 0);
    client.dispose();
  });

  it('answers every call of a worker that ends, says so, and starts another', async () => {
    const { client, workers, crashes } = startClient();
    const calls = [client.call('compile', request('one', 1)), client.call('forget', { uri: 'b' })];
    workers[0]?.events.ended('out of memory');
    for (const reply of await Promise.all(calls))
      assert.deepEqual(reply, { ok: false, error: { kind: 'crashed', message: 'out of memory' } });
    assert.deepEqual(crashes, ['out of memory']);
    const again = client.call('forget', { uri: 'c' });
    assert.equal(workers.length, 2);
    // Late words of the one that has gone mean nothing.
    workers[0]?.events.ended('again');
    workers[1]?.events.message({ id: 3, reply: { ok: true, value: undefined } });
    assert.deepEqual(await again, { ok: true, value: undefined });
    assert.equal(crashes.length, 1);
    client.dispose();
  });

  it('ends a worker that does not answer', async () => {
    const { client, workers, crashes } = startClient(20);
    const reply = await client.call('compile', request('endless', 1));
    assert.ok(!reply.ok && reply.error.kind === 'crashed');
    assert.ok(workers[0]?.gone);
    assert.equal(crashes.length, 1);
    client.dispose();
  });
});

describe('a worker thread', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'fusion-lens-worker-'));
  const script = path.join(folder, 'worker.cjs');
  before(() =>
    writeFileSync(
      script,
      `const { parentPort } = require('node:worker_threads');
      parentPort.on('message', ({ id, argument }) => {
        if (argument.uri === 'exit') process.exit(3);
        if (argument.uri === 'throw') throw new Error('a fault in the thread');
        const value = { kind: 'whole', result: argument.bytes?.byteLength };
        parentPort.postMessage({ id, reply: { ok: true, value } });
      });`,
    ),
  );
  after(() => rmSync(folder, { recursive: true, force: true }));

  it('gets the bytes, and its end is told and survived', async () => {
    const client = new CompilerClient(threadStarter(script), 10_000);
    const crashes: string[] = [];
    client.onDidCrash((reason) => crashes.push(reason));
    const sent = request('some text', 1);
    assert.deepEqual(await client.call('compile', sent), { ok: true, value: 9 });
    assert.equal(sent.bytes.byteLength, 0, 'they moved');
    for (const uri of ['exit', 'throw']) {
      const reply = await client.call('forget', { uri });
      assert.ok(!reply.ok && reply.error.kind === 'crashed');
    }
    assert.match(crashes[0] ?? '', /exit code 3/);
    assert.match(crashes[1] ?? '', /a fault in the thread/);
    assert.ok((await client.call('forget', { uri: 'fine' })).ok);
    client.dispose();
  });
});
