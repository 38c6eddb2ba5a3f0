// A real VS Code for `npm start` and for the tests, from the npm registry alone: the package
// code-server holds VS Code's own server (lib/vscode), which runs on plain Node and shows VS Code in
// a browser. Its own install script compiles native modules and isn't run: what they add (a
// terminal, faster logs) isn't needed here.
//
//   ensureVsCodeServer()   unpacks it once into .vscode-test/
//   startServer(options)   starts it on 127.0.0.1 and waits until it answers

import { spawn } from 'node:child_process';
import { chmodSync, copyFileSync, createWriteStream, existsSync } from 'node:fs';
import { mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import path from 'node:path';
import { runCommand, stopGroup, trackChild } from './processes.mjs';
import { root } from './root.mjs';

const cache = path.join(root, '.vscode-test');

/** VS Code 1.100, the oldest version that the manifest allows: what works here works later. */
const serverVersion = '4.100.3';
const ripgrepVersion = '1.18.0';

/** @returns {Promise<string>} the folder of VS Code's server */
export async function ensureVsCodeServer() {
  const folder = path.join(cache, `code-server-${serverVersion}`);
  if (!existsSync(folder)) await install(folder);
  return path.join(folder, 'lib/vscode');
}

/**
 * Works in a folder of its own and renames it into place at the end, so that a process that runs at
 * the same time sees all or nothing. The download is kept, so a second try continues from there.
 * @param {string} folder
 */
async function install(folder) {
  const say = (/** @type {string} */ text) => console.error(`VS Code server: ${text}`);
  await mkdir(cache, { recursive: true });
  const draft = await mkdtemp(`${folder}.`);
  try {
    say(`downloading version ${serverVersion} (42 MB, once)…`);
    await unpackPackage(`code-server@${serverVersion}`, draft);
    const server = path.join(draft, 'lib/vscode');
    say('installing its dependencies…');
    await npm(['install', '--omit=dev', '--ignore-scripts', '--no-audit', '--no-fund'], server);
    say('adding ripgrep, which searches files…');
    await addRipgrep(server);
    await rename(draft, folder).catch((error) => {
      // Another process was quicker.
      if (!existsSync(folder)) throw error;
    });
    say('ready.');
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

/**
 * Downloads a package (npm keeps it in its cache) and unpacks it.
 * @param {string} spec @param {string} target
 */
async function unpackPackage(spec, target) {
  await npm(['pack', spec, '--silent', '--pack-destination', target], root);
  const archive = (await readdir(target)).find((name) => name.endsWith('.tgz'));
  if (!archive) throw new Error(`npm pack ${spec} left no archive.`);
  const args = ['-xzf', archive, '--strip-components=1', '--no-same-owner'];
  const { code, output } = await runCommand('tar', args, {
    cwd: target,
    quiet: true,
    timeoutMs: 300_000,
  });
  if (code !== 0) throw new Error(`tar could not unpack ${spec}: ${output}`);
  await rm(path.join(target, archive));
}

/**
 * The package @vscode/ripgrep of that age downloads its program in its install script; the same
 * program lies in packages of the registry, one for each platform.
 * @param {string} server
 */
async function addRipgrep(server) {
  const draft = await mkdtemp(path.join(server, 'ripgrep.'));
  try {
    const name = `@vscode/ripgrep-${process.platform}-${process.arch}@${ripgrepVersion}`;
    await unpackPackage(name, draft);
    const program = process.platform === 'win32' ? 'rg.exe' : 'rg';
    const target = path.join(server, 'node_modules/@vscode/ripgrep/bin');
    await mkdir(target, { recursive: true });
    copyFileSync(path.join(draft, 'bin', program), path.join(target, program));
    chmodSync(path.join(target, program), 0o755);
  } catch (error) {
    console.warn(`Searching for files won't work in this VS Code: ${String(error)}`);
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

/** @param {string[]} args @param {string} cwd */
async function npm(args, cwd) {
  const command = process.platform === 'win32' ? 'npm.cmd' : 'npm';
  const { code, output, timedOut } = await runCommand(command, args, {
    cwd,
    quiet: true,
    timeoutMs: 600_000,
  });
  if (code !== 0)
    throw new Error(`npm ${args[0]} failed${timedOut ? ' (time is up)' : ''}:\n${output}`);
}

/**
 * @typedef {object} ServerOptions
 * @property {number} [port]            default: one that is free
 * @property {string} [token]           the connection token; default: none, for tests
 * @property {string} dataDir           where it keeps its data (settings, logs, state)
 * @property {string} [extensionsDir]   default: inside dataDir
 * @property {Record<string, string>} [env]   added to the environment of the server and thereby to
 *   that of the extension host and the processes it starts
 * @property {string[]} [args]          more arguments
 * @property {string} [logFile]         where its output goes; default: nowhere
 *
 * @typedef {object} RunningServer
 * @property {string} url               http://127.0.0.1:PORT
 * @property {string} authority         127.0.0.1:PORT
 * @property {number} port
 * @property {number} pid
 * @property {import('node:child_process').ChildProcess} process
 * @property {() => Promise<void>} stop ends the server and everything it started
 */

/** @param {ServerOptions} options @returns {Promise<RunningServer>} */
export async function startServer({
  port,
  token,
  dataDir,
  extensionsDir,
  env = {},
  args = [],
  logFile,
}) {
  const server = await ensureVsCodeServer();
  const chosen = port ?? (await freePort());
  await mkdir(dataDir, { recursive: true });
  const child = spawn(
    process.execPath,
    [
      path.join(server, 'out/server-main.js'),
      ...['--host', '127.0.0.1', '--port', String(chosen)],
      ...(token ? ['--connection-token', token] : ['--without-connection-token']),
      ...['--accept-server-license-terms', '--telemetry-level', 'off'],
      ...['--server-data-dir', dataDir],
      ...['--extensions-dir', extensionsDir ?? path.join(dataDir, 'extensions')],
      ...args,
    ],
    {
      cwd: server,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: process.platform !== 'win32',
    },
  );
  trackChild(child);
  let output = '';
  const log = logFile ? createWriteStream(logFile) : undefined;
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk) => {
      output = (output + chunk).slice(-4000);
      log?.write(chunk);
    });

  const url = `http://127.0.0.1:${chosen}`;
  const deadline = Date.now() + 60_000;
  for (;;) {
    if (child.exitCode !== null || child.signalCode !== null)
      throw new Error(`VS Code's server ended at once:\n${output}`);
    const answer = await fetch(`${url}/version`, { signal: AbortSignal.timeout(2000) }).catch(
      () => undefined,
    );
    if (answer?.ok) break;
    if (Date.now() > deadline) {
      await stopGroup(child);
      throw new Error(`VS Code's server didn't answer within a minute:\n${output}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return {
    url,
    authority: `127.0.0.1:${chosen}`,
    port: chosen,
    pid: /** @type {number} */ (child.pid),
    process: child,
    stop: () => stopGroup(child),
  };
}

/** @returns {Promise<number>} */
export function freePort() {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address();
      probe.close(() => resolve(typeof address === 'object' && address ? address.port : 0));
    });
  });
}

/**
 * The address that opens a folder in that server, with an extension loaded from its source folder.
 * @param {RunningServer} server
 * @param {{folder?: string, token?: string, payload?: Array<[string, string]>}} options
 */
export function workbenchUrl(server, { folder, token, payload = [] }) {
  const query = new URLSearchParams();
  if (token) query.set('tkn', token);
  if (folder) query.set('folder', folder);
  if (payload.length > 0) query.set('payload', JSON.stringify(payload));
  return `${server.url}/?${query.toString()}`;
}

/**
 * Fills a folder with links to the repository, to be loaded as the extension under development.
 *
 * VS Code takes every theme below that folder for a theme under development and switches to the
 * first. The repository itself can't be named, then: VS Code with its own themes lies in it.
 * @param {string} folder
 */
export function linkExtension(folder) {
  mkdirSync(folder, { recursive: true });
  for (const name of readdirSync(root)) {
    const link = path.join(folder, name);
    if (!name.startsWith('.') && !existsSync(link)) symlinkSync(path.join(root, name), link);
  }
}

/** @param {RunningServer} server @param {string} file an absolute path */
export const remoteUri = (server, file) => `vscode-remote://${server.authority}${file}`;
