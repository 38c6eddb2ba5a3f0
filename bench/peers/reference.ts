/** The float64 reference's outputs of a workload, in files that the contestants read. */
import { closeSync, mkdirSync, openSync, readdirSync, rmSync, writeSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { root } from '../../scripts/root.mjs';
import { interpret } from '../../compiler/reference';
import { expectations, rootMeanSquare } from '../../runner/core/tolerance';
import type { Expected } from './protocol';
import {
  allContents,
  compileWorkload,
  signatureOf,
  type Signature,
  type Workload,
} from './workloads';

export interface Reference {
  readonly signature: Signature;
  readonly expected: Expected;
}

/** The same bound for everybody: what honest arithmetic in f32 may cost, and some (tolerance.ts). */
export async function reference(w: Workload, folder: string): Promise<Reference> {
  const bytes = w.kind === 'model' ? new Uint8Array(await readFile(w.file)) : undefined;
  const c = compileWorkload(w, bytes);
  const errors = c.result.diagnostics.filter((d) => d.severity === 'error');
  if (errors.length > 0) throw new Error(`${w.name}: ${errors[0]?.message ?? ''}`);
  const signature = signatureOf(c);
  const contents = allContents(signature);
  const { program } = c;
  const inputs = new Map<string, ArrayLike<number>>();
  for (const v of program.values.values()) {
    const data = contents.get(v.name);
    if (data && v.role !== 'computed') inputs.set(v.id, data);
  }
  const values = program.outputs.map((o) => o.value);
  const results = interpret(program, inputs, { keep: new Set(values) });
  const limits = expectations(program);
  const outputs = values.map((value, i) => {
    const data = results.get(value);
    const limit = limits.get(value);
    if (!data || !limit) throw new Error(`${w.name}: the reference has no ${value}`);
    const file = path.join(folder, `${i}.f64`);
    writeNumbers(file, data);
    return {
      file,
      elements: data.length,
      scale: rootMeanSquare(data),
      tolerance: Math.min(limit.cap, MOST),
    };
  });
  return { signature, expected: { outputs } };
}

/**
 * A folder of this process for such files, which may have a gigabyte. What a process left that was
 * ended in the midst of it goes at the same time.
 */
export function scratchFolder(): string {
  const all = path.join(root, '.cache/bench');
  mkdirSync(all, { recursive: true });
  for (const name of readdirSync(all))
    if (!isAlive(Number(name))) rmSync(path.join(all, name), { recursive: true, force: true });
  const mine = path.join(all, String(process.pid));
  mkdirSync(mine, { recursive: true });
  return mine;
}

function isAlive(pid: number): boolean {
  try {
    return pid > 0 && process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** Where the model of errors has no bound. */
const MOST = 1e-2;

function writeNumbers(file: string, data: Float64Array): void {
  const fd = openSync(file, 'w');
  try {
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    for (let at = 0; at < bytes.length;)
      at += writeSync(fd, bytes, at, Math.min(2 ** 26, bytes.length - at));
  } finally {
    closeSync(fd);
  }
}
