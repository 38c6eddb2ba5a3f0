// Runs the checks of the project, all or some, each in a child process with a time limit.
//
//   node scripts/test.mjs                      everything
//   node scripts/test.mjs build unit           those stages
//   node scripts/test.mjs build unit -g relu   what follows the stage names goes to mocha
//
// A failing stage doesn't stop the next one. The last line is "N passed, N failed": the totals of
// all tests, where a stage that isn't made of tests (lint, build, …) counts as one.

import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { runCommand } from './processes.mjs';
import { root } from './root.mjs';
import { gpuEnvironment } from './software-gpu.mjs';

const reportFolder = path.join(root, '.cache/test-reports');
const bin = (/** @type {string} */ name) => path.join(root, 'node_modules', name);

/**
 * @typedef {object} Stage
 * @property {string[]} args         arguments to node
 * @property {number} minutes        its time limit
 * @property {boolean} [tests]       it is made of tests: read its totals
 * @property {boolean} [gpu]         it needs a GPU, be it a software one
 */

/** @param {string} suite @param {number} timeoutMs for one test */
const mocha = (suite, timeoutMs) => [
  '--enable-source-maps',
  bin('mocha/bin/mocha.js'),
  `dist/test/${suite}/**/*.test.mjs`,
  '--reporter',
  'scripts/mocha-reporter.cjs',
  '--timeout',
  String(timeoutMs),
  // A GPU process or a browser that a failed test left open must not hold the stage.
  '--exit',
];

/** @type {Record<string, Stage>} */
const stages = {
  format: { args: [bin('prettier/bin/prettier.cjs'), ...prettierArgs()], minutes: 3 },
  lint: { args: [bin('eslint/bin/eslint.js'), ...eslintArgs()], minutes: 5 },
  typecheck: { args: ['scripts/typecheck.mjs'], minutes: 5 },
  build: { args: ['esbuild.mjs'], minutes: 2 },
  unit: { args: mocha('unit', 20_000), minutes: 8, tests: true },
  gpu: { args: mocha('gpu', 60_000), minutes: 12, tests: true, gpu: true },
  extension: {
    args: ['--enable-source-maps', 'dist/test/harness/runExtensionTests.mjs'],
    minutes: 8,
    tests: true,
    gpu: true,
  },
  // A browser on a busy machine may miss a moment: a step that fails is tried once more.
  e2e: {
    args: [...mocha('e2e', 120_000), '--retries', '1'],
    minutes: 15,
    tests: true,
    gpu: true,
  },
};

function prettierArgs() {
  const cache = ['--cache', '--cache-location', '.cache/prettier'];
  return ['--check', ...cache, '--log-level', 'warn', '.'];
}

function eslintArgs() {
  return ['--cache', '--cache-location', '.cache/eslint', '--max-warnings', '0', '.'];
}

/** @param {string[]} args @returns {{names: string[], mochaArgs: string[]}} */
function parseArguments(args) {
  const firstOther = args.findIndex((arg) => !(arg in stages));
  const names = firstOther === -1 ? args : args.slice(0, firstOther);
  return {
    names: names.length > 0 ? names : Object.keys(stages),
    mochaArgs: firstOther === -1 ? [] : args.slice(firstOther),
  };
}

/** @param {string} file @returns {{passed: number, failed: number} | undefined} */
function readTotals(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return undefined;
  }
}

/**
 * @param {string} name
 * @param {string[]} mochaArgs
 * @returns {Promise<{passed: number, failed: number, note: string}>}
 */
async function runStage(name, mochaArgs) {
  const stage = stages[name];
  const report = path.join(reportFolder, `${name}.json`);
  rmSync(report, { force: true });
  /** @type {NodeJS.ProcessEnv} */
  const env = {
    FUSION_LENS_TEST_REPORT: report,
    // What a developer has measured must not change what tests see.
    FUSION_LENS_CACHE: path.join(root, '.cache/test-profiles'),
  };
  if (stage.gpu) Object.assign(env, await gpuEnvironment());
  const { code, timedOut } = await runCommand(
    process.execPath,
    [...stage.args, ...(stage.tests ? mochaArgs : [])],
    { cwd: root, env, timeoutMs: stage.minutes * 60_000 },
  );
  const limit = timedOut ? `stopped after ${stage.minutes} minutes` : '';
  if (!stage.tests)
    return code === 0
      ? { passed: 1, failed: 0, note: '' }
      : { passed: 0, failed: 1, note: limit || `exit code ${code}` };

  const totals = readTotals(report);
  if (!totals) return { passed: 0, failed: 1, note: limit || `no result, exit code ${code}` };
  if (totals.passed + totals.failed === 0) return { passed: 0, failed: 1, note: 'no test ran' };
  // Tests all green, but the process ended badly: that is a fault too.
  if (code !== 0 && totals.failed === 0)
    return { passed: totals.passed, failed: 1, note: limit || `exit code ${code}` };
  return { ...totals, note: limit };
}

const { names, mochaArgs } = parseArguments(process.argv.slice(2));
mkdirSync(reportFolder, { recursive: true });
const rows = [];
for (const name of names) {
  console.log(`\n── ${name}`);
  const started = performance.now();
  let result;
  try {
    result = await runStage(name, mochaArgs);
  } catch (error) {
    console.error(error);
    result = { passed: 0, failed: 1, note: error instanceof Error ? error.message : String(error) };
  }
  rows.push({ name, ...result, seconds: (performance.now() - started) / 1000 });
}

console.log('\n── summary');
for (const { name, passed, failed, note, seconds } of rows)
  console.log(
    `${failed > 0 ? '✗' : '✓'} ${name.padEnd(10)} ${String(passed).padStart(5)} passed ` +
      `${String(failed).padStart(4)} failed ${seconds.toFixed(1).padStart(7)} s  ${note}`,
  );
const passed = rows.reduce((sum, row) => sum + row.passed, 0);
const failed = rows.reduce((sum, row) => sum + row.failed, 0);
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
