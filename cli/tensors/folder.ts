/**
 * Tensor files in a folder: `<name>.npy`, `<name>.pb`, or ONNX's `input_<i>.pb` by position.
 */
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { fileName } from '../files';
import { readBytes, reason } from '../load';
import { readNpy } from './npy';
import { readPb } from './pb';
import { bad, good, type HostTensor, type Outcome } from './tensor';

export async function readTensorFile(file: string): Promise<Outcome<HostTensor>> {
  const bytes = await readBytes(file);
  if (!bytes.ok) return bytes;
  const name = path.basename(file, path.extname(file));
  const r = file.endsWith('.pb') ? readPb(bytes.value) : readNpy(bytes.value, name);
  return r.ok ? r : bad(`${file}: ${r.message}`);
}

export interface Wanted {
  /** What it is called in messages and by its own file. */
  readonly name: string;
  /** `input_3`; undefined where only the name counts. */
  readonly positional?: string;
  readonly required: boolean;
}

/** The tensor for each of `wanted`, undefined for those that need none and have none. */
export async function readTensors(
  folder: string,
  wanted: readonly Wanted[],
): Promise<Outcome<readonly (HostTensor | undefined)[]>> {
  let present: Set<string>;
  try {
    present = new Set(await readdir(folder));
  } catch (e) {
    return bad(`can't read the folder ${folder}: ${reason(e)}`);
  }
  const out: (HostTensor | undefined)[] = [];
  for (const w of wanted) {
    const stems = [w.name, fileName(w.name), ...(w.positional === undefined ? [] : [w.positional])];
    const names = stems.flatMap((s) => [`${s}.npy`, `${s}.pb`]);
    const found = names.find((n) => present.has(n));
    if (found === undefined) {
      if (!w.required) {
        out.push(undefined);
        continue;
      }
      return bad(
        `${folder} has no tensor for ${w.name}: it may be called ${unique(names).join(', ')}`,
      );
    }
    const t = await readTensorFile(path.join(folder, found));
    if (!t.ok) return t;
    out.push(t.value);
  }
  return good(out);
}

function unique(list: readonly string[]): string[] {
  return [...new Set(list)];
}
