// The extension stage of `npm test`: runs dist/test/extension/index.js in the extension host, first
// in a trusted workspace, then the suite "restricted" in one that isn't.
// Arguments: -g TEXT runs only the tests whose name contains it.

import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { root } from '../../scripts/root.mjs';
import { runInExtensionHost } from './extensionHost';

interface Totals {
  passed: number;
  failed: number;
  pending: number;
}

const report = process.env['FUSION_LENS_TEST_REPORT'];
const grepAt = process.argv.findIndex((arg) => arg === '-g' || arg === '--grep');
const grep = grepAt === -1 ? '' : (process.argv[grepAt + 1] ?? '');

async function runSuite(suite: 'trusted' | 'restricted'): Promise<Totals> {
  const file = path.join(root, `.cache/extension-${suite}.json`);
  rmSync(file, { force: true });
  const { code, timedOut, logFile } = await runInExtensionHost({
    testsPath: 'dist/test/extension/index.js',
    folder: 'examples',
    restricted: suite === 'restricted',
    env: {
      FUSION_LENS_TEST_REPORT: file,
      FUSION_LENS_TEST_SUITE: suite,
      FUSION_LENS_TEST_GREP: grep,
    },
  });
  if (timedOut) console.error(`The suite "${suite}" didn't come back in time.`);
  if (code !== 0) console.error(`Everything that was printed: ${path.relative(root, logFile)}`);
  if (!existsSync(file)) return { passed: 0, failed: 1, pending: 0 };
  const totals = JSON.parse(readFileSync(file, 'utf8')) as Totals;
  return code !== 0 && totals.failed === 0 ? { ...totals, failed: 1 } : totals;
}

const all = [await runSuite('trusted')];
if (existsSync(path.join(root, 'test/extension/restricted')))
  all.push(await runSuite('restricted'));
const sum = (key: keyof Totals) => all.reduce((total, one) => total + one[key], 0);
const totals: Totals = { passed: sum('passed'), failed: sum('failed'), pending: sum('pending') };
if (report !== undefined) writeFileSync(report, JSON.stringify(totals));
process.exit(totals.failed > 0 ? 1 : 0);
