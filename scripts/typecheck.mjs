// Type-checks every folder against its own tsconfig, then everything together (which also covers
// the tests). Two compilers run at a time; results are kept in .cache/tsc, so a second run is quick.

import { spawn } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { root } from './root.mjs';

const projects = [
  'tsconfig.json',
  'extension/tsconfig.json',
  'cli/tsconfig.json',
  'webview/tsconfig.json',
  'extension/tsconfig.web.json',
  'runner/node/tsconfig.json',
  'runner/browser/tsconfig.json',
  'runner/core/tsconfig.json',
  'compiler/tsconfig.json',
  'tuner/tsconfig.json',
  'extension/contracts/tsconfig.json',
];

/**
 * @param {string} project
 * @returns {Promise<{project: string, ok: boolean, output: string}>}
 */
function check(project) {
  return new Promise((resolve) => {
    const tsc = path.join(root, 'node_modules/typescript/bin/tsc');
    const child = spawn(process.execPath, [tsc, '-p', project, '--pretty', 'false'], { cwd: root });
    let output = '';
    child.stdout.on('data', (chunk) => (output += chunk));
    child.stderr.on('data', (chunk) => (output += chunk));
    child.on('error', (error) => resolve({ project, ok: false, output: String(error) }));
    child.on('close', (code) => {
      // A folder that holds no source yet isn't a fault.
      const empty = output.includes('error TS18003');
      resolve({ project, ok: code === 0 || empty, output: empty ? '' : output });
    });
  });
}

mkdirSync(path.join(root, '.cache/tsc'), { recursive: true });
const queue = [...projects];
const failed = [];
/** The same fault shows in every project that reaches the file: print each line once. */
const seen = new Set();
const workers = Array.from({ length: Math.min(2, availableParallelism()) }, async () => {
  for (let project = queue.shift(); project; project = queue.shift()) {
    const result = await check(project);
    if (!result.ok) failed.push(project);
    for (const line of result.output.split('\n').filter((text) => text && !seen.has(text))) {
      seen.add(line);
      console.error(line);
    }
  }
});
await Promise.all(workers);

if (failed.length > 0) {
  console.error(`Type errors in: ${failed.sort().join(', ')}`);
  process.exitCode = 1;
} else {
  console.log(`Types are sound in ${projects.length} projects.`);
}
