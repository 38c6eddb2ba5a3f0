import assert from 'node:assert/strict';
import type { CompileRequest } from '../../../extension/contracts/compiler';
import { GraphResults, type SourceRead } from '../../../extension/services/results';
import type { CallCompiler, CallReply } from '../../../extension/worker/client';
import { result } from './fixture';

const tick = (ms = 0) => new Promise((resolve) => setTimeout(resolve, ms));

/** Files by hand, and a compiler whose answers are given by hand or at once. */
function setUp() {
  const files = new Map<string, string>();
  const requests: CompileRequest[] = [];
  const forgotten: string[] = [];
  let held: ((reply: CallReply<unknown>) => void)[] | undefined;
  const answerOf = (request: CompileRequest): CallReply<unknown> => {
    const text = new TextDecoder().decode(request.bytes);
    if (text === 'crash') return { ok: false, error: { kind: 'crashed', message: 'gone' } };
    return { ok: true, value: result({ file: text, version: request.version }) };
  };
  const call = ((method: string, argument: unknown): Promise<unknown> => {
    if (method === 'compile') {
      const request = argument as CompileRequest;
      requests.push(request);
      const { length } = requests;
      if (!held) return Promise.resolve(answerOf(request));
      return new Promise((resolve) => {
        held?.push(() => resolve(answerOf(requests[length - 1] ?? request)));
      });
    }
    if (method === 'forget') forgotten.push((argument as { uri: string }).uri);
    if (method === 'code') {
      const { version } = argument as { version: number };
      return Promise.resolve(
        requests.length < 2
          ? { ok: false, error: { kind: 'unknown-uri' } }
          : { ok: true, value: [`code of ${version}`] },
      );
    }
    return Promise.resolve({ ok: true, value: undefined });
  }) as unknown as CallCompiler;
  const source = {
    read: (uri: string): Promise<SourceRead> => {
      const text = files.get(uri);
      return Promise.resolve(
        text === undefined
          ? { kind: 'unavailable', message: `${uri} no longer exists.` }
          : { kind: 'read', bytes: new TextEncoder().encode(text), documentVersion: text.length },
      );
    },
  };
  const reports: string[] = [];
  const results = new GraphResults(
    source,
    call,
    () => ({}),
    (text) => reports.push(text),
  );
  return {
    files,
    requests,
    forgotten,
    results,
    reports,
    hold: () => (held = []),
    letGo: () => {
      const waiting = held ?? [];
      held = undefined;
      for (const go of waiting) go({ ok: true, value: undefined });
    },
  };
}

describe('results', () => {
  it('compile when asked for, once, and are kept', async () => {
    const { files, requests, results } = setUp();
    files.set('a', 'text');
    assert.equal(results.get('a'), undefined);
    const [first, second] = await Promise.all([results.fresh('a'), results.fresh('a')]);
    assert.equal(first.result?.file, 'text');
    assert.equal(first.documentVersion, 4);
    assert.equal(second.result, first.result);
    await results.fresh('a');
    assert.equal(requests.length, 1);
    results.dispose();
  });

  it('compile a file that is shown at each change, a burst of changes once', async () => {
    const { files, requests, results } = setUp();
    files.set('a', 'one');
    const retained = results.retain('a');
    await results.fresh('a');
    for (const text of ['tw', 'two']) {
      files.set('a', text);
      results.touch('a', 10);
    }
    assert.equal(results.get('a')?.fresh, false);
    assert.equal(results.get('a')?.result?.file, 'one');
    await tick(30);
    assert.equal(results.get('a')?.result?.file, 'two');
    assert.equal(requests.length, 2);
    retained.dispose();
    files.set('a', 'three');
    results.touch('a', 0);
    await tick(10);
    assert.equal(requests.length, 2, 'nobody looks at it');
    assert.equal((await results.fresh('a')).result?.file, 'three');
    results.dispose();
  });

  it('show an older answer as stale and never let it replace a newer one', async () => {
    const { files, results, hold, letGo } = setUp();
    files.set('a', 'one');
    hold();
    const retained = results.retain('a');
    await tick(5);
    files.set('a', 'two');
    results.touch('a', 20);
    letGo();
    await tick(5);
    assert.equal(results.get('a')?.result?.file, 'one');
    assert.equal(results.get('a')?.fresh, false);
    assert.equal((await results.fresh('a')).result?.file, 'two');
    retained.dispose();
    results.dispose();
  });

  it('say why there is none: unreadable, or a fault of the compiler', async () => {
    const { files, results } = setUp();
    assert.equal((await results.fresh('gone')).problem, 'gone no longer exists.');
    files.set('a', 'fine');
    await results.fresh('a');
    files.set('a', 'crash');
    results.touch('a', 0);
    const state = await results.fresh('a');
    assert.match(state.problem ?? '', /stopped on this file and was restarted/);
    assert.equal(state.result?.file, 'fine');
    assert.equal(state.fresh, false);
    files.set('a', 'fine again');
    results.touch('a', 0);
    const after = await results.fresh('a');
    assert.equal(after.problem, undefined);
    assert.equal(after.result?.file, 'fine again');
    results.dispose();
  });

  it('compile once more when a restarted worker has lost the file', async () => {
    const { files, requests, results } = setUp();
    files.set('a', 'text');
    await results.fresh('a');
    const reply = await results.ask('code', 'a', (at) => ({ ...at, kernel: 'k0' }));
    assert.ok(reply.ok);
    assert.equal(requests.length, 2);
    results.dispose();
  });

  it('tell of changes and drop what nobody uses', async () => {
    const { files, forgotten, results } = setUp();
    const changed: string[] = [];
    const dropped: string[] = [];
    results.onDidChange((uri) => changed.push(uri));
    results.onDidForget((uri) => dropped.push(uri));
    files.set('kept', 'text');
    const retained = results.retain('kept');
    for (let i = 0; i < 40; i++) {
      files.set(`f${i}`, 'text');
      await results.fresh(`f${i}`);
    }
    assert.ok(changed.includes('f0') && changed.includes('kept'));
    assert.ok(dropped.includes('f0'), 'the oldest went');
    assert.ok(!dropped.includes('kept') && !dropped.includes('f39'));
    assert.deepEqual(forgotten, dropped);
    results.release('kept');
    assert.ok(results.get('kept'));
    retained.dispose();
    results.release('kept');
    assert.equal(results.get('kept'), undefined);
    results.dispose();
  });

  it('never leave anybody waiting for a file that is dropped', async () => {
    const { files, results, hold } = setUp();
    files.set('a', 'text');
    hold();
    const waiting = results.fresh('a');
    await tick(5);
    results.dispose();
    assert.equal((await waiting).result, undefined);
  });
});
