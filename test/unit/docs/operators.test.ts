// docs/operators.md is made from the op tables: it is up to date, and it leaves none out.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { OPS } from '../../../compiler/ops';

describe('docs/operators.md', () => {
  const page = readFileSync('docs/operators.md', 'utf8');

  it('is what scripts/docs.mjs writes', () => {
    const args = ['scripts/docs.mjs', '--check', 'docs/operators.md'];
    const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
    assert.equal(status, 0, stderr);
  });

  it('names every form of `.fuse` and every ONNX type', () => {
    for (const op of OPS) {
      for (const type of op.onnx ?? []) assert.ok(page.includes(`\`${type}\``), type);
      for (const { names } of op.fuse ?? []) {
        const [name = '', ...others] = names;
        assert.ok(page.includes(`\`${name}(`), name);
        for (const other of others) assert.ok(page.includes(`\`${other}\``), other);
      }
    }
  });
});
