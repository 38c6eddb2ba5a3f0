// docs/fuse-language.md is checked, not trusted: its codes, ops and examples are those of the program.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { importFuse } from '../../../compiler/import/fuse';
import { fuseFormsByName } from '../../../compiler/ops/index';

const DOC = readFileSync('docs/fuse-language.md', 'utf8');

describe('fuse: docs', () => {
  it('name every diagnostic code of the importer', () => {
    const folder = 'compiler/import/fuse';
    const sources = readdirSync(folder).map((f) => readFileSync(`${folder}/${f}`, 'utf8'));
    const codes = new Set(
      sources.flatMap((s) =>
        [...s.matchAll(/'([A-Z]+(?:_[A-Z]+)+|UNUSED|REDEFINED)'/g)].map((m) => m[1] ?? ''),
      ),
    );
    assert.ok(codes.size > 40);
    for (const code of codes) assert.ok(DOC.includes(`\`${code}\``), `${code} is not in the docs`);
  });

  it('list ops that exist', () => {
    const names = [...DOC.matchAll(/^- `(\w+)\(/gm)].map((m) => m[1] ?? '');
    assert.ok(names.length > 150);
    for (const name of names) assert.ok(fuseFormsByName(name).length > 0, name);
  });

  it('open with an example that reads without a fault', () => {
    const example = /```python\n([\s\S]*?)```/.exec(DOC)?.[1] ?? '';
    const { graph, diagnostics } = importFuse(example, 'doc.fuse');
    assert.deepEqual(diagnostics, []);
    assert.equal(graph.nodes.length, 4);
  });
});
