import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import * as vscode from 'vscode';
import type { ProfileResult, RunnerReply } from '../../runner/core/types';
import { activate, closeEverything, freshLenses, openText, until, write } from './support';

const source = `input x: f32[64, 256]
param w: f32[256, 256]
param bias: f32[256]
a = matmul(x, w)
y = relu(a + bias)
output y
`;

const profile = (uri: vscode.Uri) =>
  vscode.commands.executeCommand<RunnerReply<ProfileResult> | undefined>(
    'fusionLens.profile',
    uri.toString(),
  );

const settings = () => vscode.workspace.getConfiguration('fusionLens');
const set = (key: string, value: unknown) =>
  settings().update(key, value, vscode.ConfigurationTarget.Global);

/** The process that this one started to run a script. */
function childOf(script: string): number | undefined {
  for (const pid of readdirSync('/proc').map(Number).filter(Boolean)) {
    try {
      const [, parent] = /\) \S (\d+) /.exec(readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? [];
      const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
      if (Number(parent) === process.pid && command.includes(script)) return pid;
    } catch {
      // It ended meanwhile.
    }
  }
  return undefined;
}

describe('profiling', () => {
  before(async () => {
    await activate();
    await set('profile.seconds', 0.3);
  });
  afterEach(async () => {
    await set('nodePath', undefined);
    await closeEverything();
  });
  after(() => set('profile.seconds', undefined));

  it('measures in a process, verifies, and puts the times on the lenses', async () => {
    const uri = await write('profile.fuse', source);
    await openText(uri);
    const reply = await profile(uri);
    assert.ok(reply?.ok, JSON.stringify(reply));
    const { verification, adapter, fused } = reply.value;
    assert.equal(verification.ok, true);
    assert.equal(adapter.runner, 'node');
    assert.ok(fused.kernels.length > 0);
    const lenses = await freshLenses(uri);
    assert.match(lenses[0]?.title ?? '', /measured \d+\.\d+× \(est\. .*verified/);
    if (adapter.software) assert.match(lenses[0]?.title ?? '', /software adapter/);
    assert.ok(lenses.some(({ line, title }) => line === 4 && /measured \(est\./.test(title)));

    const { measurements } = await activate();
    await vscode.commands.executeCommand('fusionLens.clearMeasurements', uri.toString());
    assert.equal(measurements.get(uri.toString()), undefined);
    assert.ok((await freshLenses(uri)).every(({ title }) => !/measured/.test(title)));
  });

  it('keeps the times of kernels that an edit leaves alone', async () => {
    const uri = await write('edit.fuse', source);
    const editor = await openText(uri);
    assert.ok((await profile(uri))?.ok);
    await editor.edit((edit) => edit.insert(new vscode.Position(0, 0), '# a comment\n\n'));
    const lenses = await freshLenses(uri);
    assert.ok(lenses.some(({ line, title }) => line === 6 && /measured/.test(title)));
  });

  it('can be cancelled, and runs again afterwards', async () => {
    const { profiler } = await activate();
    const uri = await write('cancel.fuse', source);
    await openText(uri);
    const running = profile(uri);
    await until('the run', () => profiler.running === uri.toString());
    await vscode.commands.executeCommand('fusionLens.cancelProfile');
    const reply = await running;
    assert.ok(reply && !reply.ok && reply.fault.code === 'CANCELLED', JSON.stringify(reply));
    assert.ok((await profile(uri))?.ok);
  });

  it('outlives the end of the process that runs the kernels', async () => {
    const { profiler } = await activate();
    const uri = await write('killed.fuse', source);
    await openText(uri);
    const running = profile(uri);
    const child = await until('the process', () => childOf('runnerChild.mjs'));
    process.kill(child, 'SIGKILL');
    const reply = await running;
    assert.ok(reply && !reply.ok && reply.fault.code === 'CRASHED', JSON.stringify(reply));
    assert.equal(profiler.running, undefined);
    assert.ok((await profile(uri))?.ok);
  });

  it('says what is wrong with the configured Node, and works again without it', async () => {
    const uri = await write('node.fuse', source);
    await set('nodePath', '/nowhere/node');
    const reply = await profile(uri);
    assert.ok(reply && !reply.ok);
    assert.match(reply.fault.message, /fusionLens\.nodePath names no program/);
    await set('nodePath', undefined);
    assert.ok((await profile(uri))?.ok);
  });

  it('tells why a graph can’t run', async () => {
    const uri = await write('unrunnable.fuse', 'input x: f32[4]\ny = nonsense(x)\noutput y\n');
    const reply = await profile(uri);
    assert.ok(reply && !reply.ok);
    assert.notEqual(reply.fault.message, '');
  });
});
