// Runs in the extension host: VS Code calls run(). Mocha loads every bundle beside this file.

import { readdirSync } from 'node:fs';
import path from 'node:path';
import Mocha from 'mocha';
import * as vscode from 'vscode';

const extensionId = 'fusion-lens.fusion-lens';

export async function run(): Promise<void> {
  const root = vscode.extensions.getExtension(extensionId)?.extensionPath;
  if (root === undefined) throw new Error(`The extension ${extensionId} is not loaded.`);
  const restricted = process.env['FUSION_LENS_TEST_SUITE'] === 'restricted';
  const files = readdirSync(__dirname, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.js'))
    .filter((name) => name.startsWith(`restricted${path.sep}`) === restricted)
    .sort();

  const mocha = new Mocha({
    ui: 'bdd',
    timeout: 30_000,
    color: false,
    reporter: path.join(root, 'scripts/mocha-reporter.cjs'),
  });
  const grep = process.env['FUSION_LENS_TEST_GREP'];
  if (grep) mocha.fgrep(grep);
  for (const file of files) mocha.addFile(path.join(__dirname, file));

  const failures = await new Promise<number>((resolve) => mocha.run(resolve));
  if (failures > 0) throw new Error(`${failures} tests failed.`);
}
