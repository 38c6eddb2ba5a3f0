import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { replyOf } from '../../../runner/core';
import { readExternal } from '../../../runner/node/external';

describe('weights beside a model', () => {
  let base = '';
  before(() => {
    base = mkdtempSync(path.join(tmpdir(), 'external-'));
    mkdirSync(path.join(base, 'model', 'folder'), { recursive: true });
    writeFileSync(path.join(base, 'secret'), 'secret');
    writeFileSync(path.join(base, 'model', 'w.bin'), new Uint8Array([1, 2, 3, 4, 5, 6]));
    symlinkSync('../secret', path.join(base, 'model', 'link.bin'));
  });
  after(() => rmSync(base, { recursive: true }));

  const read = (location: string, offset = 0, length = 2): ReturnType<typeof replyOf<Uint8Array>> =>
    replyOf(() => readExternal({ folder: path.join(base, 'model'), location, offset, length }));

  it('are read where they are', async () => {
    const r = await read('w.bin', 2, 3);
    assert.deepEqual(r.ok && [...r.value], [3, 4, 5]);
  });

  for (const location of ['../secret', 'link.bin', '/etc/hostname', '.'])
    it(`are refused outside the folder: ${location}`, async () => {
      const r = await read(location);
      assert.ok(!r.ok);
      assert.equal(r.fault.code, 'BAD_INPUT');
      assert.match(r.fault.message, /outside its folder/);
    });

  it('are refused where they are no files', async () => {
    const r = await read('folder');
    assert.match(r.ok ? '' : r.fault.message, /folder is no ordinary file/);
  });

  it('are refused when missing or too short', async () => {
    const missing = await read('none.bin');
    assert.match(missing.ok ? '' : missing.fault.message, /none\.bin can’t be read/);
    const short = await read('w.bin', 4, 8);
    assert.match(short.ok ? '' : short.fault.message, /has 6 bytes; the model wants bytes 4 to 12/);
  });
});
