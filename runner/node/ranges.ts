/**
 * Parts of files: what is read of models, without reading all of them.
 *
 * A part may be larger than what one call of the system reads, and a file may be larger than any buffer.
 */
import { type FileHandle, open } from 'node:fs/promises';
import { type ByteRange, type Cut, readOutline } from '../../compiler';
import { fail, type ModelFile } from '../core';

/** The system reads no more at once: 2 GiB less a page. */
const ONE_READ = 2 ** 30;

/** Fewer bytes than asked for only where the file ends. */
export async function readRange(
  handle: FileHandle,
  { offset, length }: ByteRange,
): Promise<Uint8Array> {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length;) {
    const count = Math.min(length - at, ONE_READ);
    const { bytesRead } = await handle.read(bytes, at, count, offset + at);
    if (bytesRead === 0) return bytes.subarray(0, at);
    at += bytesRead;
  }
  return bytes;
}

/** A model in a binary format, without the contents of its large tensors. */
export interface OpenedModel {
  readonly bytes: Uint8Array;
  readonly cuts: readonly Cut[];
  readonly modelFile: ModelFile;
}

/** @throws what the system says; a model without contents that is too large is a message */
export async function openModel(
  path: string,
): Promise<
  | { readonly ok: true; readonly value: OpenedModel }
  | { readonly ok: false; readonly message: string }
> {
  const handle = await open(path, 'r');
  try {
    const { size, mtimeMs: modified } = await handle.stat();
    const r = await readOutline(size, (range) => readRange(handle, range));
    if (!r.ok) return r;
    const after = await handle.stat();
    if (after.size !== size || after.mtimeMs !== modified)
      return { ok: false, message: 'it changed while it was read' };
    return { ok: true, value: { ...r.outline, modelFile: { path, size, modified } } };
  } finally {
    await handle.close();
  }
}

/** Contents that the compiler left where they are. */
export async function readModel(file: ModelFile, range: ByteRange): Promise<Uint8Array> {
  const { path, size, modified } = file;
  let handle: FileHandle;
  try {
    handle = await open(path, 'r');
  } catch {
    return fail('BAD_INPUT', `The model ${path} can’t be read any more.`);
  }
  try {
    const now = await handle.stat();
    if (now.size !== size || now.mtimeMs !== modified)
      fail('BAD_INPUT', `The model ${path} has changed since it was compiled.`, {
        advice: 'Run again: then it is compiled anew.',
      });
    const bytes = await readRange(handle, range);
    if (bytes.length < range.length)
      fail('BAD_INPUT', `The model ${path} ended while it was read.`);
    return bytes;
  } finally {
    await handle.close();
  }
}
