/**
 * `.fusion-lens/tuning.json` on disk: where it is for a file, and reading and writing it.
 *
 * It lies in the nearest folder, from the graph's upwards, that has a `.fusion-lens` already or is the
 * root of a Git repository; else beside the graph.
 */
import { existsSync } from 'node:fs';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Tuning } from '../compiler/tuning';
import {
  mergeRecords,
  readRecords,
  type Records,
  recordsText,
  TUNING_FILE,
  TUNING_FOLDER,
  tuningFor,
  unreadable,
} from '../tuner/records';
import type { Tuned } from '../tuner/search';
import { type Flag, one, type ParsedArgs } from './args';

import { reason } from './load';
import { bad, good, type Outcome } from './tensors/tensor';
import { programVersion } from './version';

export interface TuningPlace {
  /** The records' file. */
  readonly path: string;
  /** The graph's file, as records name it. */
  readonly file: string;
}

export function tuningPlace(file: string): TuningPlace {
  const full = path.resolve(file);
  const home = homeOf(path.dirname(full));
  return {
    path: path.join(home, TUNING_FOLDER, TUNING_FILE),
    file: path.relative(home, full).split(path.sep).join('/'),
  };
}

function homeOf(start: string): string {
  for (let folder = start; ;) {
    if ([TUNING_FOLDER, '.git'].some((name) => existsSync(path.join(folder, name)))) return folder;
    const parent = path.dirname(folder);
    if (parent === folder) return start;
    folder = parent;
  }
}

/** No records where there is no file. */
export async function readTuning(place: TuningPlace): Promise<Outcome<Records>> {
  let text: string;
  try {
    text = await readFile(place.path, 'utf8');
  } catch (e) {
    const code = e instanceof Error && 'code' in e ? e.code : undefined;
    return code === 'ENOENT' ? good(new Map()) : bad(reason(e));
  }
  const r = readRecords(text);
  return r.ok ? good(r.records) : bad(r.reason);
}

/** Writes what a run found out to what the file holds by now; a reader sees the old file or the new one. */
export async function writeTuning(place: TuningPlace, tuned: Tuned): Promise<Outcome<string>> {
  const there = await readTuning(place);
  if (!there.ok) return there;
  const records = mergeRecords(there.value, tuned.updates, tuned.at);
  const part = `${place.path}.${process.pid}.part`;
  try {
    await mkdir(path.dirname(place.path), { recursive: true });
    await writeFile(part, recordsText(records));
    await rename(part, place.path);
  } catch (e) {
    await rm(part, { force: true });
    return bad(`can't write ${place.path}: ${reason(e)}`);
  }
  return good(place.path);
}

export const NO_TUNING_FLAG: Flag = {
  name: 'no-tuning',
  doc: `leave out what "tune" found (${TUNING_FOLDER}/${TUNING_FILE})`,
};
export const ADAPTER_FLAG: Flag = {
  name: 'adapter',
  value: 'NAME',
  doc: 'whose tuning records to use, where there are several adapters’',
};

/** What a compile of the file is to use; nothing with `--no-tuning`. `adapter`: whose, where one is at hand. */
export async function tuningOf(
  args: ParsedArgs,
  file: string,
  adapter: string | undefined,
): Promise<Tuning | undefined> {
  if (args.switches.has('no-tuning')) return undefined;
  const place = tuningPlace(file);
  const records = await readTuning(place);
  if (!records.ok) return unreadable(place.path, records.message);
  if (records.value.size === 0) return undefined;
  const named = one(args, 'adapter');
  const use = { file: place.file, version: programVersion(), adapter };
  return tuningFor(records.value, named === undefined ? use : { ...use, chosen: named });
}
