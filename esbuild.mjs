// Builds every bundle of the project and the tests.
//
//   node esbuild.mjs [--production] [--watch] [--no-tests] [--only=unit,webview,…]
//
// One row of `bundles` is one output. Tests are bundled file by file into dist/test, so that mocha
// can load them without a TypeScript loader.

import { existsSync } from 'node:fs';
import { readdir, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import * as esbuild from 'esbuild';

const root = path.dirname(fileURLToPath(import.meta.url));
const flags = process.argv.slice(2);
const production = flags.includes('--production');
const watch = flags.includes('--watch');
const withTests = !production && !flags.includes('--no-tests');
const only = flags
  .find((flag) => flag.startsWith('--only='))
  ?.slice('--only='.length)
  .split(',');

/** @type {esbuild.BuildOptions} */
const shared = {
  absWorkingDir: root,
  bundle: true,
  charset: 'utf8',
  logLevel: 'silent',
  metafile: true,
  minify: production,
  sourcemap: production ? false : 'linked',
  sourcesContent: false,
  target: 'es2022',
  tsconfigRaw: { compilerOptions: { target: 'ES2022', verbatimModuleSyntax: true } },
  define: { 'process.env.NODE_ENV': production ? '"production"' : '"development"' },
};

/** @type {esbuild.BuildOptions} */
const node = { ...shared, platform: 'node', target: 'node20', format: 'cjs' };
/** @type {esbuild.BuildOptions} */
const browser = { ...shared, platform: 'browser', format: 'iife' };

/**
 * An ESM bundle has no `require` and no `__dirname`, but CommonJS packages inside it may want them.
 */
const esmPrelude = [
  "import { createRequire as $createRequire } from 'node:module';",
  "import { fileURLToPath as $fileURLToPath } from 'node:url';",
  'const require = $createRequire(import.meta.url);',
  'const __filename = $fileURLToPath(import.meta.url);',
  "const __dirname = $fileURLToPath(new URL('.', import.meta.url));",
].join('\n');

/** @type {Array<{name: string, entry: string, options: esbuild.BuildOptions}>} */
const bundles = [
  {
    name: 'extension.js',
    entry: 'extension/extension.ts',
    options: { ...node, external: ['vscode'] },
  },
  {
    name: 'extension.web.js',
    entry: 'extension/extension.web.ts',
    options: { ...browser, format: 'cjs', external: ['vscode'] },
  },
  { name: 'compilerWorker.js', entry: 'extension/worker/compilerWorker.ts', options: node },
  {
    name: 'compilerWorker.web.js',
    entry: 'extension/worker/compilerWorker.web.ts',
    options: browser,
  },
  {
    name: 'runnerChild.mjs',
    entry: 'runner/node/child.ts',
    options: { ...node, format: 'esm', external: ['webgpu'], banner: { js: esmPrelude } },
  },
  {
    name: 'cli.js',
    entry: 'cli/main.ts',
    options: { ...node, external: ['webgpu'], banner: { js: '#!/usr/bin/env node' } },
  },
  {
    name: 'bench.mjs',
    entry: 'bench/main.ts',
    options: { ...node, format: 'esm', external: ['webgpu'], banner: { js: esmPrelude } },
  },
  {
    name: 'benchPeer.mjs',
    entry: 'bench/peers/child.ts',
    options: { ...node, format: 'esm', external: ['webgpu'], banner: { js: esmPrelude } },
  },
  { name: 'webview.js', entry: 'webview/main.ts', options: browser },
  { name: 'layoutWorker.js', entry: 'webview/layout/worker.ts', options: browser },
];

/** Suites and the module format in which their host loads them. */
const suites = /** @type {const} */ ({
  unit: 'esm',
  gpu: 'esm',
  extension: 'cjs',
  e2e: 'esm',
  // Not a suite, but what starts one.
  harness: 'esm',
});
/** Files that aren't tests, but are loaded by themselves like tests. */
const extraTestEntries = ['test/extension/index.ts', 'test/harness/runExtensionTests.ts'];
const testExternals = [
  ...['vscode', 'webgpu', 'mocha', 'puppeteer-core', '@sparticuz/chromium'],
  ...['eslint', 'typescript-eslint', 'typescript'],
];

/** @param {string} folder @returns {Promise<string[]>} paths of its test files from the root */
async function testFiles(folder) {
  if (!existsSync(path.join(root, folder))) return [];
  const names = await readdir(path.join(root, folder), { recursive: true });
  return names
    .map((name) => `${folder}/${name.split(path.sep).join('/')}`)
    .filter((name) => name.endsWith('.test.ts'))
    .sort();
}

/** @returns {Promise<Array<{name: string, options: esbuild.BuildOptions}>>} one build per suite */
async function testBuilds() {
  const builds = [];
  for (const [suite, format] of Object.entries(suites)) {
    const entries = [
      ...(await testFiles(`test/${suite}`)),
      ...extraTestEntries.filter((entry) => entry.startsWith(`test/${suite}/`)),
    ];
    const esm = format === 'esm';
    const extension = esm ? '.mjs' : '.js';
    await removeStale(suite, entries, extension);
    if (entries.length === 0) continue;
    builds.push({
      name: `test/${suite}`,
      options: {
        ...node,
        format: /** @type {esbuild.Format} */ (format),
        entryPoints: entries,
        outbase: 'test',
        outdir: 'dist/test',
        outExtension: { '.js': extension },
        external: testExternals,
        sourcemap: /** @type {const} */ ('linked'),
        minify: false,
        ...(esm ? { banner: { js: esmPrelude } } : {}),
      },
    });
  }
  return builds;
}

/**
 * Removes bundles of tests that no longer exist: mocha would still run them.
 * @param {string} suite @param {string[]} entries @param {string} extension
 */
async function removeStale(suite, entries, extension) {
  const folder = path.join(root, 'dist/test', suite);
  if (!existsSync(folder)) return;
  const wanted = new Set(
    entries.map((entry) => entry.slice('test/'.length).replace(/\.ts$/, extension)),
  );
  for (const name of await readdir(folder, { recursive: true })) {
    const file = `${suite}/${name.split(path.sep).join('/')}`;
    if (/\.m?js$/.test(file) && !wanted.has(file)) {
      await rm(path.join(root, 'dist/test', file), { force: true });
      await rm(path.join(root, 'dist/test', `${file}.map`), { force: true });
    }
  }
}

/** @param {string} name */
const wanted = (name) =>
  !only ||
  only.some((word) => name === word || name.startsWith(`${word}.`) || name === `test/${word}`);

const builds = bundles
  .filter(({ name, entry }) => {
    if (!wanted(name)) return false;
    if (existsSync(path.join(root, entry))) return true;
    console.warn(`skipped dist/${name}: there is no ${entry} yet`);
    return false;
  })
  .map(({ name, entry, options }) => ({
    name,
    options: { ...options, entryPoints: [entry], outfile: `dist/${name}` },
  }));
if (withTests) builds.push(...(await testBuilds()).filter(({ name }) => wanted(name)));

/** @param {number} bytes */
const kilobytes = (bytes) => `${(bytes / 1024).toFixed(1)} kB`.padStart(10);

/** @param {string} name @param {esbuild.BuildResult} result */
async function report(name, result) {
  const outputs = Object.entries(result.metafile?.outputs ?? {}).filter(
    ([file]) => !file.endsWith('.map'),
  );
  if (name.startsWith('test/')) {
    const bytes = outputs.reduce((sum, [, output]) => sum + output.bytes, 0);
    console.log(`${kilobytes(bytes)}  dist/${name} (${outputs.length} files)`);
    return;
  }
  for (const [file, { bytes }] of outputs) {
    const zipped = production
      ? `, ${kilobytes(gzipSync(await readFile(path.join(root, file))).length).trim()} gzipped`
      : '';
    console.log(`${kilobytes(bytes)}  ${file}${zipped}`);
  }
}

/** @param {{errors: esbuild.Message[], warnings: esbuild.Message[]}} messages */
async function printMessages({ errors, warnings }) {
  const color = process.stderr.isTTY;
  const texts = [
    ...(await esbuild.formatMessages(warnings, { kind: 'warning', color })),
    ...(await esbuild.formatMessages(errors, { kind: 'error', color })),
  ];
  for (const text of texts) console.error(text);
}

if (watch) {
  let pending = 0;
  /** @param {string} name @returns {esbuild.Plugin} */
  const reporter = (name) => ({
    name: 'report',
    setup(build) {
      // The problem matcher in .vscode/tasks.json waits for the two [watch] lines.
      build.onStart(() => {
        if (pending++ === 0) console.log('[watch] build started');
      });
      build.onEnd(async (result) => {
        await printMessages(result);
        if (result.errors.length === 0) await report(name, result);
        if (--pending === 0) console.log('[watch] all builds finished');
      });
    },
  });
  const contexts = await Promise.all(
    builds.map(({ name, options }) =>
      esbuild.context({ ...options, plugins: [...(options.plugins ?? []), reporter(name)] }),
    ),
  );
  await Promise.all(contexts.map((context) => context.watch()));
} else {
  const started = performance.now();
  let failed = false;
  const results = await Promise.allSettled(builds.map(({ options }) => esbuild.build(options)));
  for (const [index, { name }] of builds.entries()) {
    const result = results[index];
    if (result.status === 'fulfilled') {
      await printMessages(result.value);
      await report(name, result.value);
    } else {
      failed = true;
      await printMessages(result.reason);
    }
  }
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  console.log(failed ? `Build failed after ${seconds} s.` : `Built in ${seconds} s.`);
  if (failed) process.exitCode = 1;
}
