// Runs `fusion-lens conformance` over folders of ONNX backend tests, on the software GPU where there
// is no other, and sums up: what failed, what isn't supported and why. A case that the compiler
// says it can't do is no failure; a wrong result is.
//
//   node scripts/conformance.mjs FOLDER…

import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { root } from './root.mjs';
import { gpuEnvironment } from './software-gpu.mjs';

const folders = process.argv.slice(2);
const { stdout, stderr, error, status } = spawnSync(
  process.execPath,
  [path.join(root, 'dist/cli.js'), 'conformance', ...folders, '--json'],
  {
    encoding: 'utf8',
    env: { ...process.env, ...(await gpuEnvironment()) },
    maxBuffer: 256 * 2 ** 20,
    timeout: 14 * 60_000,
  },
);

/** @type {{passed: number, failed: number, unsupported: number, cases: Array<{name: string, status: string, code?: string, message?: string}>}} */
let result;
try {
  result = JSON.parse(stdout);
} catch {
  console.error(stderr.slice(-4000));
  console.error(`No result: ${error?.message ?? `exit code ${status}`}`);
  console.log('0 passed, 1 failed');
  process.exit(1);
}

for (const { name, status, code, message } of result.cases)
  if (status === 'failed' || status === 'error')
    console.log(`✗ ${name}: ${[code, message].filter(Boolean).join(' ')}`);
/** @type {Map<string, number>} */
const reasons = new Map();
for (const { status, code } of result.cases)
  if (status === 'unsupported')
    reasons.set(code ?? 'unknown', (reasons.get(code ?? 'unknown') ?? 0) + 1);
for (const [reason, count] of [...reasons].sort((a, b) => b[1] - a[1]))
  console.log(`${count} unsupported: ${reason}`);

const errors = result.cases.filter(({ status }) => status === 'error').length;
const failed = Math.max(
  result.failed,
  result.cases.filter(({ status }) => status === 'failed').length + errors,
);
console.log(`${result.passed} passed, ${failed} failed, ${result.unsupported} unsupported`);
console.log(`${result.passed} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
