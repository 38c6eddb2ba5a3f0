/**
 * Writing results into a folder: only the files that are named, never over an existing one unless
 * asked, and all or none of them checked before the first is written.
 */
import { access, mkdir, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { reason } from './load';
import { bad, good, type Outcome } from './tensors/tensor';

export interface NewFile {
  readonly name: string;
  readonly contents: string | Uint8Array;
}

/** Gives the paths written. */
export async function writeFiles(
  folder: string,
  files: readonly NewFile[],
  force: boolean,
): Promise<Outcome<readonly string[]>> {
  const targets = files.map((f) => path.join(folder, f.name));
  if (!force) {
    const existing: string[] = [];
    for (const t of targets) if (await exists(t)) existing.push(t);
    if (existing.length > 0)
      return bad(
        `nothing was written, because there is already ${existing.join(', ')}; --force replaces`,
      );
  }
  try {
    await makeFolder(folder);
    for (const [i, f] of files.entries())
      await writeFile(targets[i] ?? '', f.contents, { flag: force ? 'w' : 'wx' });
  } catch (e) {
    return bad(`can't write to ${folder}: ${reason(e)}`);
  }
  return good(targets);
}

/**
 * Makes the folder and those that it is in, from the outermost on. Node's own `recursive` goes round
 * for ever in places that take no folders (/proc), and says of a file in the way only that it is there.
 */
async function makeFolder(folder: string): Promise<void> {
  const missing: string[] = [];
  let at = path.resolve(folder);
  for (; !(await exists(at)); at = path.dirname(at)) missing.unshift(at);
  if (!(await stat(at)).isDirectory()) throw new Error(`${at} is a file, not a folder`);
  for (const next of missing) await mkdir(next);
}

async function exists(file: string): Promise<boolean> {
  try {
    await access(file);
    return true;
  } catch {
    return false;
  }
}

/** A name from a graph as a file name: one path component, no surprises. */
export function fileName(name: string): string {
  const safe = name.replace(/[^\p{L}\p{N}._-]/gu, '_').slice(0, 120);
  return safe === '' || /^\.+$/.test(safe) ? `_${safe}` : safe;
}
