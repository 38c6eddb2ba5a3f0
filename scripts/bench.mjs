// `npm run bench`: builds and runs bench/main.ts on this machine's GPU, or on the software one.
// Arguments are handed on. With --peers, the programs that are compared with are installed first, into
// bench/peers, from the npm registry; the bench itself looks for adapters then.

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { runCommand } from './processes.mjs';
import { root } from './root.mjs';
import { gpuEnvironment } from './software-gpu.mjs';

const flags = process.argv.slice(2);
const withPeers = flags.includes('--peers');

/** Nothing to do where what is installed is what the lock file says. */
async function installPeers() {
  const folder = path.join(root, 'bench/peers');
  const mark = path.join(folder, 'node_modules/.installed.json');
  const lock = readFileSync(path.join(folder, 'package-lock.json'), 'utf8');
  if (existsSync(mark) && readFileSync(mark, 'utf8') === lock) return 0;
  console.error('Installing what is compared with into bench/peers/node_modules (220 MB, once)…');
  const { code } = await runCommand('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], {
    cwd: folder,
    // The package's native binaries aren't used.
    env: { ONNXRUNTIME_NODE_INSTALL: 'skip' },
  });
  if (code === 0) writeFileSync(mark, lock);
  return code;
}

// The compiler's worker has this much room for what is young (extension/worker/startWorker.ts): a third
// of what is allowed it in all is one half of the space.
const memory = withPeers ? [] : ['--max-semi-space-size=42'];

const build = await runCommand(
  process.execPath,
  ['esbuild.mjs', '--only=bench,benchPeer,runnerChild'],
  { cwd: root },
);
const ready = build.code === 0 && withPeers ? await installPeers() : build.code;
if (ready === 0) {
  const { code } = await runCommand(
    process.execPath,
    [...memory, path.join(root, 'dist/bench.mjs'), ...flags],
    {
      cwd: root,
      env: withPeers ? {} : await gpuEnvironment(),
    },
  );
  process.exitCode = code;
  if (withPeers && flags.includes('--write')) {
    const prettier = path.join(root, 'node_modules/prettier/bin/prettier.cjs');
    await runCommand(process.execPath, [prettier, '--write', 'docs/performance.md'], { cwd: root });
  }
} else {
  process.exitCode = ready;
}
