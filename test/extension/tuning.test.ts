// Tuning records of the workspace in the real extension host: used by the next compile, shown by the
// lenses, read again when their file changes, and told about where it can't be read.

import assert from 'node:assert/strict';
import * as vscode from 'vscode';
import {
  adapterName,
  keyOfRecord,
  type KernelRecord,
  readRecords,
  recordsText,
} from '../../tuner/records';
import type { TuneResult } from '../../tuner/types';
import {
  activate,
  closeEverything,
  freshLenses,
  lensesOf,
  openText,
  until,
  workspaceFile,
  write,
} from './support';

interface Outcome {
  readonly ok: boolean;
  readonly value?: TuneResult;
}

describe('tuning', () => {
  afterEach(async () => {
    await closeEverything();
    const folder = workspaceFile('.fusion-lens');
    await vscode.workspace.fs.delete(folder, { recursive: true });
  });

  it('searches, keeps what it measured in the workspace, and the next compile uses it', async () => {
    const { results, tuner } = await activate();
    const source = 'input x: f32[96, 128]\nparam w: f32[128, 96]\ny = relu(x @ w)\noutput y\n';
    const uri = await write('search.fuse', source);
    await openText(uri);
    const lenses = await freshLenses(uri);
    const lens = lenses.find(({ title }) => title === 'Tune');
    assert.equal(lens?.command.command, 'fusionLens.tune');
    const reply = await vscode.commands.executeCommand<Outcome>(
      'fusionLens.tune',
      uri.toString(),
      2,
    );
    assert.ok(reply.ok, JSON.stringify(reply));
    const [kernel] = reply.value?.kernels ?? [];
    const measured = kernel?.candidates.filter((c) => c.status === 'measured') ?? [];
    assert.ok(measured.length > 0, JSON.stringify(kernel?.note));
    assert.deepEqual(tuner.get(uri.toString()), reply.value);
    const file = await vscode.workspace.fs.readFile(workspaceFile('.fusion-lens/tuning.json'));
    const kept = readRecords(new TextDecoder().decode(file));
    assert.ok(kept.ok && kept.records.size > 0);
    const [record] = kept.records.values();
    assert.deepEqual(record?.files, ['search.fuse']);
    await until('a compile that goes by it', async () => {
      const { result } = await results.fresh(uri.toString());
      const tuned = result?.after.kernels[0]?.tuned?.params;
      return JSON.stringify(sorted(tuned)) === JSON.stringify(sorted(kernel?.winner?.params));
    });
  });

  const sorted = (params: object | undefined): unknown =>
    params && Object.entries(params).sort(([a], [b]) => (a < b ? -1 : 1));
});

describe('tuning records', () => {
  afterEach(async () => {
    await closeEverything();
    const folder = workspaceFile('.fusion-lens');
    await vscode.workspace.fs.delete(folder, { recursive: true });
  });

  it('of the adapter at hand are used, shown, and followed when their file changes', async () => {
    const { devices, results } = await activate();
    const uri = await write('tuned.fuse', 'input x: f32[64, 256]\ny = exp(x) * 2.0\noutput y\n');
    await openText(uri);
    await freshLenses(uri);
    const adapter = await until('the adapter', () => devices.adapter, 30_000);
    const { result } = await results.fresh(uri.toString());
    const [kernel] = result?.after.kernels ?? [];
    assert.ok(kernel && kernel.tuned === undefined);
    const { workgroup = 0, tile = 0, turns = 1 } = kernel.schedule;
    const own = { workgroup, tile, turns };
    const manifest = vscode.extensions.getExtension('fusion-lens.fusion-lens')?.packageJSON as {
      readonly version: string;
    };
    const record: KernelRecord = {
      kind: 'kernel',
      structure: kernel.structure,
      adapter: adapterName(adapter),
      version: manifest.version,
      label: kernel.label,
      files: ['tuned.fuse'],
      dims: {},
      default: own,
      defaultUs: 13,
      best: { params: { workgroup: 32, tile: 2 }, us: 10, defaultUs: 13 },
      tried: {},
    };
    await write('.fusion-lens/tuning.json', recordsText(new Map([[keyOfRecord(record), record]])));
    await until('a lens that says so', async () =>
      (await lensesOf(uri)).some(({ title }) => /tuned: .*workgroup = 32.*1\.30×/.test(title)),
    );
    const tuned = (await results.fresh(uri.toString())).result;
    assert.equal(tuned?.after.kernels[0]?.schedule['workgroup'], 32);

    await write('.fusion-lens/tuning.json', '{ "schema": <<<<<<<');
    await until('a problem', () =>
      vscode.languages
        .getDiagnostics(uri)
        .some(({ message }) => /tuning records .* are not used/.test(message)),
    );
    const plain = (await results.fresh(uri.toString())).result;
    assert.equal(plain?.after.kernels[0]?.tuned, undefined);
  });
});
