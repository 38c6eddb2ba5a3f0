// Packs the extension into dist/fusion-lens.vsix, and looks into it: Dawn's prebuilt binaries must
// travel with it (they are loaded at run time), and nothing that is bundled anyway.

import { existsSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { createVSIX, listFiles } from '@vscode/vsce';
import { root } from './root.mjs';

const vsix = path.join(root, 'dist/fusion-lens.vsix');
const platforms = ['linux-x64', 'linux-arm64', 'darwin-universal', 'win32-x64', 'win32-arm64'];
const required = [
  'package.json',
  'LICENSE',
  'README.md',
  'CHANGELOG.md',
  'dist/extension.js',
  'dist/extension.web.js',
  'dist/compilerWorker.js',
  'dist/compilerWorker.web.js',
  'dist/runnerChild.mjs',
  'dist/cli.js',
  'dist/webview.js',
  'dist/layoutWorker.js',
  'node_modules/webgpu/index.js',
  ...platforms.map((platform) => `node_modules/webgpu/dist/${platform}/dawn.node`),
];
const forbidden = /^(?!node_modules\/webgpu\/)node_modules\/|\.map$|^test\/|^dist\/test\/|\.ts$/;

rmSync(vsix, { force: true });
// Runs the production build by itself (the script vscode:prepublish).
await createVSIX({
  cwd: root,
  packagePath: vsix,
  allowMissingRepository: true,
  // Pictures and pages that the README links to travel in the package.
  rewriteRelativeLinks: false,
  skipLicense: false,
  dependencies: true,
});

const files = await listFiles({ cwd: root });
const problems = [
  ...required.filter((file) => !files.includes(file)).map((file) => `${file} is missing`),
  ...files.filter((file) => forbidden.test(file)).map((file) => `${file} doesn't belong in it`),
];
if (!existsSync(vsix)) problems.push('vsce wrote no file');
if (problems.length > 0) {
  for (const problem of problems) console.error(`dist/fusion-lens.vsix: ${problem}`);
  process.exitCode = 1;
} else {
  const megabytes = (statSync(vsix).size / 2 ** 20).toFixed(1);
  console.log(`dist/fusion-lens.vsix: ${files.length} files, ${megabytes} MiB`);
}
