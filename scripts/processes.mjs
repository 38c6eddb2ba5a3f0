// Starting child processes with a time limit, and ending them together with everything they started.

import { spawn } from 'node:child_process';

/**
 * Ends a process that was started with `detached: true`, and its whole group. First politely.
 * @param {import('node:child_process').ChildProcess} child
 * @param {number} graceMs
 * @returns {Promise<void>} settles when the process is gone
 */
export async function stopGroup(child, graceMs = 3000) {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise((resolve) => child.once('exit', resolve));
  signalGroup(child.pid, 'SIGTERM');
  const timer = setTimeout(() => child.pid && signalGroup(child.pid, 'SIGKILL'), graceMs);
  await gone;
  clearTimeout(timer);
  // Grandchildren that ignored the polite signal.
  signalGroup(child.pid, 'SIGKILL');
}

/** @param {number} pid @param {NodeJS.Signals} signal */
function signalGroup(pid, signal) {
  try {
    // A negative id means the group; Windows has no groups.
    process.kill(process.platform === 'win32' ? pid : -pid, signal);
  } catch {
    // Already gone.
  }
}

/** Whatever runs now, so that an interrupted script leaves nothing behind. */
const running = new Set();
let hooked = false;

/**
 * Makes sure that a process which was started with `detached: true` doesn't outlive this one.
 * @param {import('node:child_process').ChildProcess} child
 */
export function trackChild(child) {
  running.add(child);
  child.once('exit', () => running.delete(child));
  if (hooked) return;
  hooked = true;
  const stopAll = () => {
    for (const each of running) if (each.pid) signalGroup(each.pid, 'SIGKILL');
  };
  process.once('exit', stopAll);
  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP']))
    process.once(signal, () => {
      stopAll();
      process.exit(130);
    });
}

/**
 * Runs a command to its end.
 * @param {string} command
 * @param {string[]} args
 * @param {{cwd?: string, env?: NodeJS.ProcessEnv, timeoutMs?: number, quiet?: boolean}} [options]
 *   quiet: collect the output instead of showing it
 * @returns {Promise<{code: number, output: string, timedOut: boolean}>}
 */
export function runCommand(command, args, { cwd, env, timeoutMs, quiet = false } = {}) {
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      cwd,
      env: { ...process.env, ...env },
      stdio: ['ignore', quiet ? 'pipe' : 'inherit', quiet ? 'pipe' : 'inherit'],
      detached: process.platform !== 'win32',
    });
    trackChild(child);
    let output = '';
    let timedOut = false;
    child.stdout?.on('data', (chunk) => (output += chunk));
    child.stderr?.on('data', (chunk) => (output += chunk));
    const timer =
      timeoutMs === undefined
        ? undefined
        : setTimeout(() => {
            timedOut = true;
            void stopGroup(child);
          }, timeoutMs);
    child.once('error', (error) => {
      clearTimeout(timer);
      resolve({ code: 127, output: `${output}${error.message}`, timedOut });
    });
    child.once('close', (code) => {
      clearTimeout(timer);
      resolve({ code: code ?? 1, output, timedOut });
    });
  });
}
