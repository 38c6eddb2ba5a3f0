// The lint rule that guards the dependencies between folders: what it lets through and what not.

import assert from 'node:assert/strict';
import path from 'node:path';
import { Linter } from 'eslint';
import tseslint from 'typescript-eslint';
import { layersRule } from '../../scripts/eslint-layers.mjs';

function faults(file: string, code: string): string[] {
  const linter = new Linter();
  return linter
    .verify(
      code,
      [
        {
          files: ['**/*.ts'],
          languageOptions: { parser: tseslint.parser },
          plugins: { project: { rules: { layers: layersRule } } },
          rules: { 'project/layers': 'error' },
        },
      ],
      path.resolve(file),
    )
    .map(({ message }) => message);
}

describe('dependencies between folders', () => {
  const allowed: [string, string][] = [
    ['compiler/fusion/cost.ts', `import { f } from '../ir/compute';`],
    ['extension/contracts/host.ts', `import type { T } from '../../compiler/result';`],
    ['webview/main.ts', `import type { T } from '../compiler/result';`],
    ['webview/main.ts', `import { type T } from '../extension/contracts/webview';`],
    ['extension/worker/compilerWorker.ts', `import { f } from '../../compiler/index';`],
    ['runner/node/child.ts', `import('webgpu');`],
  ];
  const refused: [string, string][] = [
    ['compiler/index.ts', `import fs from 'node:fs';`],
    ['compiler/index.ts', `import type { T } from '../extension/contracts/host';`],
    ['compiler/a/b.ts', `export { f } from '../../runner/core/run';`],
    ['extension/contracts/host.ts', `import { f } from '../../compiler/result';`],
    ['webview/main.ts', `import { f } from '../compiler/result';`],
    ['webview/main.ts', `import * as vscode from 'vscode';`],
    ['webview/main.ts', `export * from '../compiler/result';`],
    ['runner/core/run.ts', `import { create } from 'webgpu';`],
    ['runner/core/run.ts', `import('../node/child');`],
  ];
  for (const [file, code] of allowed)
    it(`${file} may ${code}`, () => assert.deepEqual(faults(file, code), []));
  for (const [file, code] of refused)
    it(`${file} may not ${code}`, () => assert.equal(faults(file, code).length, 1));
});
