// `fusion-lens tune` on a GPU: what it prints, what it keeps, and that a second run and `profile` go by it.

import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { readRecords } from '../../tuner/records';
import type { TuneResult } from '../../tuner/types';
import { cli } from '../harness/cli';

type Tuned = TuneResult & { readonly schema: string; readonly written?: string };

describe('fusion-lens tune', function () {
  this.timeout(240_000);
  let folder = '';
  let file = '';
  before(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'fusion-lens-tune-'));
    file = path.join(folder, 'model.fuse');
    await writeFile(
      file,
      'dim B = 48\ninput x: f32[B, 96]\nparam w: f32[96, 160]\ny = softmax(relu(x @ w), axis=-1)\noutput y\n',
    );
  });
  after(() => rm(folder, { recursive: true, force: true }));

  it('measures, verifies, keeps what it measured; a second run skips it, and profile goes by it', async () => {
    const first = await cli(['tune', file, '--seconds', '4', '--json']);
    assert.equal(first.code, 0, first.err);
    const r = JSON.parse(first.out) as Tuned;
    assert.equal(r.schema, 'fusion-lens/tune@1');
    assert.ok(r.kernels.length >= 2);
    for (const k of r.kernels) {
      assert.ok(k.default.medianUs > 0);
      for (const c of k.candidates) {
        assert.ok(c.status === 'measured' ? (c.medianUs ?? 0) > 0 : c.reason, JSON.stringify(c));
        assert.notEqual(c.status, 'failed', JSON.stringify(c));
      }
    }
    assert.ok(r.kernels.some((k) => k.candidates.some((c) => c.status === 'measured')));
    assert.ok(r.total.tunedUs <= r.total.defaultUs);
    assert.equal(r.written, path.join(folder, '.fusion-lens', 'tuning.json'));
    const kept = readRecords(await readFile(r.written, 'utf8'));
    assert.ok(kept.ok);
    const winners = r.kernels.filter((k) => k.winner).map((k) => k.structure);
    const best = [...kept.records.values()].flatMap((x) =>
      x.kind === 'kernel' && x.best ? [x.structure] : [],
    );
    assert.deepEqual(best.sort(), winners.sort());

    const second = await cli(['tune', file, '--seconds', '1', '--json']);
    assert.equal(second.code, 0, second.err);
    const again = JSON.parse(second.out) as Tuned;
    const before = again.kernels
      .flatMap((k) => k.candidates)
      .filter((c) => /before/.test(c.reason ?? ''));
    assert.ok(before.length > 0 && before.every((c) => c.status === 'skipped'));

    const profile = await cli(['profile', file, '--seconds', '0.2', '--json']);
    assert.equal(profile.code, 0, profile.err);
    const profiled = JSON.parse(profile.out) as { verification: { ok: boolean } };
    assert.ok(profiled.verification.ok);
    const text = await cli(['profile', file, '--seconds', '0.2']);
    const stillBest = again.kernels.filter((k) => k.winner).length;
    assert.equal((text.out.match(/ tuned: /g) ?? []).length, stillBest);
  });

  it('shows every candidate in a table, and keeps nothing on a dry run', async () => {
    const other = path.join(folder, 'chain.fuse');
    await writeFile(other, 'input x: f32[33, 7]\ny = exp(x) * 2.0\noutput y\n');
    const before = await readFile(path.join(folder, '.fusion-lens', 'tuning.json'), 'utf8');
    const r = await cli(['tune', other, '--seconds', '1', '--dry-run']);
    assert.equal(r.code, 0, r.err);
    const rows = r.out.split('\n').filter((l) => /workgroup = \d+, tile = \d+/.test(l));
    assert.ok(rows.length >= 10 && /\(default\)/.test(r.out), r.out);
    assert.equal(await readFile(path.join(folder, '.fusion-lens', 'tuning.json'), 'utf8'), before);
  });

  it('keeps what was measured when it is interrupted', async () => {
    const long = path.join(folder, 'long.fuse');
    await writeFile(long, 'input x: f32[2048, 1024]\ny = softmax(x, axis=-1)\noutput y\n');
    const r = await cli(['tune', long, '--seconds', '120', '--json'], {
      interruptAfterMs: 20_000,
    });
    assert.equal(r.code, 1, r.err);
    const result = JSON.parse(r.out) as Tuned;
    assert.ok(result.cancelled);
    const measured = result.kernels[0]?.candidates.filter((c) => c.status === 'measured') ?? [];
    assert.ok(measured.length > 0, JSON.stringify(result.kernels[0]?.note));
    const kept = readRecords(
      await readFile(path.join(folder, '.fusion-lens', 'tuning.json'), 'utf8'),
    );
    assert.ok(kept.ok);
    const record = [...kept.records.values()].find((x) => x.files.includes('long.fuse'));
    assert.ok(record?.kind === 'kernel' && record.best === undefined);
    assert.equal(Object.keys(record.tried).length, measured.length);
  });
});
