// The mocha reporter of every test stage: prints like "spec", and writes the totals as JSON to the
// file named by FUSION_LENS_TEST_REPORT, so that scripts/test.mjs need not scrape any output.

'use strict';

const { writeFileSync } = require('node:fs');
const Mocha = require('mocha');

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
