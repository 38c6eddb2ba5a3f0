// The command line as a process of its own, as a person runs it.

import { spawn } from 'node:child_process';
import path from 'node:path';

export const program = path.resolve('dist/cli.js');

export interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

export function cli(
  args: readonly string[],
  options: {
    readonly env?: Readonly<Record<string, string>>;
    /** Ctrl-C after this time, ms. */
    readonly interruptAfterMs?: number;
  } = {},
): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [program, ...args], {
      env: { ...process.env, FORCE_COLOR: '0', ...options.env },
    });
    let out = '';
    let err = '';
    child.stdout.on('data', (d: Buffer) => (out += d.toString()));
    child.stderr.on('data', (d: Buffer) => (err += d.toString()));
    child.on('error', reject);
    const timer =
      options.interruptAfterMs === undefined
        ? undefined
        : setTimeout(() => child.kill('SIGINT'), options.interruptAfterMs);
    child.on('close', (code) => {
      clearTimeout(timer);
      resolve({ code, out, err });
    });
  });
}
