// The mocha reporter of every test stage: prints like "spec", and writes the totals as JSON to the
// file named by FUSION_LENS_TEST_REPORT, so that scripts/test.mjs need not scrape any output.

'use strict';

const { writeFileSync } = require('node:fs');
const { format } = require('node:util');
const Mocha = require('mocha');

// Inside the extension host the console carries much else: mark the lines, for
// test/harness/extensionHost.ts to find them.
if (process.env['FUSION_LENS_TEST_SUITE'])
  Mocha.reporters.Base.consoleLog = (...args) => console.log(`[mocha] ${format(...args)}`);

class TotalsReporter extends Mocha.reporters.Spec {
  /** @param {Mocha.Runner} runner @param {Mocha.MochaOptions} options */
  constructor(runner, options) {
    super(runner, options);
    runner.once('end', () => {
      const file = process.env['FUSION_LENS_TEST_REPORT'];
      if (!file) return;
      const { passes, failures, pending } = runner.stats ?? { passes: 0, failures: 1, pending: 0 };
      writeFileSync(file, JSON.stringify({ passed: passes, failed: failures, pending }));
    });
  }
}

module.exports = TotalsReporter;
