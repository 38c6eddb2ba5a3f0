// The manifest is checked, not trusted: every file that package.json names exists.

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';

interface Manifest {
  version: string;
  engines: { vscode: string };
  devDependencies: Record<string, string>;
  contributes: {
    languages: { id: string; configuration: string }[];
    grammars: { language: string; path: string }[];
  };
}

describe('package.json', () => {
  const manifest = JSON.parse(readFileSync('package.json', 'utf8')) as Manifest;

  it('pins the API types to the oldest supported VS Code', () => {
    const types = manifest.devDependencies['@types/vscode'] ?? '';
    assert.equal(manifest.engines.vscode, `^${types}`);
  });

  it('names language files that exist and are JSON', () => {
    const { languages, grammars } = manifest.contributes;
    const files = [...languages.map((l) => l.configuration), ...grammars.map((g) => g.path)];
    assert.ok(files.length > 0);
    for (const file of files) {
      assert.ok(existsSync(file), `${file} is missing`);
      JSON.parse(readFileSync(file, 'utf8'));
    }
  });
});
