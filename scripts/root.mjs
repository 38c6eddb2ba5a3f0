// The folder of the repository. The scripts are also bundled into the tests (dist/test/…), so their
// own place says nothing: the nearest package.json above does.

import { existsSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

function find() {
  for (let folder = path.dirname(fileURLToPath(import.meta.url)); ; folder = path.dirname(folder)) {
    if (existsSync(path.join(folder, 'package.json'))) return folder;
    if (folder === path.dirname(folder)) throw new Error('No package.json above the scripts.');
  }
}

export const root = find();
