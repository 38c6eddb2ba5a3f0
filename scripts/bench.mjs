// `npm run bench`: builds and runs bench/main.ts on this machine's GPU, or on the software one.
// Arguments are handed on.

import path from 'node:path';
import { runCommand } from './processes.mjs';
import { root } from './root.mjs';
import { gpuEnvironment } from './software-gpu.mjs';

const build = await runCommand(process.execPath, ['esbuild.mjs', '--only=bench,runnerChild'], {
  cwd: root,
});
if (build.code === 0) {
  const program = path.join(root, 'dist/bench.mjs');
  const { code } = await runCommand(process.execPath, [program, ...process.argv.slice(2)], {
    cwd: root,
    env: await gpuEnvironment(),
  });
  process.exitCode = code;
} else {
  process.exitCode = build.code;
}
