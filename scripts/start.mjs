// `npm start`: VS Code with this extension, on this machine, in the browser.
//
//   --no-open      only print the address
//   --port N       default: a free one
//   --desktop      use the VS Code that is installed (the command `code`) instead
//   FOLDER         the folder to open; default: examples
//
// The extension is loaded from this repository as an extension under development: the address asks
// for it. An installed package would have to be packed (50 MB) at each start; like this, a rebuild
// and "Developer: Reload Window" suffice. VS Code keeps the request when another folder is opened.

import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { runCommand } from './processes.mjs';
import { root } from './root.mjs';
import { gpuEnvironment, probeAdapter } from './software-gpu.mjs';
import {
  ensureVsCodeServer,
  linkExtension,
  remoteUri,
  startServer,
  workbenchUrl,
} from './vscode-server.mjs';

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    'no-open': { type: 'boolean', default: false },
    port: { type: 'string' },
    desktop: { type: 'boolean', default: false },
  },
});
const folder = path.resolve(positionals[0] ?? path.join(root, 'examples'));
const port = options.port === undefined ? undefined : Number(options.port);
if (port !== undefined && !(Number.isInteger(port) && port > 0 && port < 65536))
  fail(`--port wants a number from 1 to 65535, not "${options.port}".`, 2);
if (!existsSync(folder)) fail(`There is no folder ${folder}.`, 2);

const build = await runCommand(process.execPath, ['esbuild.mjs', '--no-tests'], { cwd: root });
if (build.code !== 0) fail('The build failed: see above.', 1);
await (options.desktop ? startDesktop() : startInBrowser());

async function startInBrowser() {
  await ensureVsCodeServer();
  const softwareGpu = await gpuEnvironment();
  const home = path.join(root, '.vscode-test/start');
  const extension = path.join(home, 'extension');
  rmSync(extension, { recursive: true, force: true });
  linkExtension(extension);
  writeFirstSettings(path.join(home, 'data'));

  const token = randomBytes(16).toString('hex');
  const server = await startServer({
    port,
    token,
    dataDir: path.join(home, 'data'),
    env: softwareGpu,
    // The folder is the user's own choice, and the server ends with this command.
    args: ['--disable-workspace-trust'],
    logFile: path.join(home, 'server.log'),
  });
  const url = workbenchUrl(server, {
    folder,
    token,
    payload: [['extensionDevelopmentPath', remoteUri(server, extension)]],
  });
  const adapter = (await probeAdapter(softwareGpu))?.description ?? 'none was found';
  console.log(`
Fusion Lens runs in VS Code at

  ${url}

Folder: ${folder}
GPU for profiling: ${adapter}
Process ${process.pid} · Ctrl-C stops it.
`);
  if (!options['no-open']) openBrowser(url);
  server.process.once('exit', (code) => fail(`VS Code's server ended (exit code ${code}).`, 1));
}

/** The first time alone: from then on they are the user's. @param {string} dataDir */
function writeFirstSettings(dataDir) {
  const file = path.join(dataDir, 'data/User/settings.json');
  if (existsSync(file)) return;
  mkdirSync(path.dirname(file), { recursive: true });
  const settings = {
    'workbench.startupEditor': 'none',
    'workbench.colorTheme': 'Default Dark Modern',
    'telemetry.telemetryLevel': 'off',
    'extensions.autoCheckUpdates': false,
    'extensions.ignoreRecommendations': true,
    'git.openRepositoryInParentFolders': 'never',
  };
  writeFileSync(file, `${JSON.stringify(settings, undefined, 2)}\n`);
}

/** Only where there is a desktop to open it on. @param {string} url */
function openBrowser(url) {
  const { platform, env } = process;
  if (platform === 'linux' && !env.DISPLAY && !env.WAYLAND_DISPLAY) return;
  const [command, ...args] =
    platform === 'darwin'
      ? ['open', url]
      : platform === 'win32'
        ? ['rundll32', 'url.dll,FileProtocolHandler', url]
        : ['xdg-open', url];
  spawn(command, args, { stdio: 'ignore', detached: true })
    .once('error', () => undefined)
    .unref();
}

async function startDesktop() {
  for (const command of ['code', 'code-insiders', 'codium']) {
    const args = [`--extensionDevelopmentPath=${root}`, '--new-window', folder];
    const { code } = await runCommand(command, args);
    if (code === 0) return;
    if (code !== 127) fail(`"${command}" ended with exit code ${code}.`, 1);
  }
  fail('There is no "code" command on the PATH. Without it: npm start.', 1);
}

/** @param {string} message @param {number} code @returns {never} */
function fail(message, code) {
  console.error(message);
  process.exit(code);
}
