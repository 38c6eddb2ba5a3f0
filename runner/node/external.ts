/**
 * Weights in files beside a model. The path comes from the model file, so it is not trusted: after
 * following links it must stay inside the model's own folder.
 */
import { open, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { fail, Faulted, type ExternalRequest } from '../core';
import { readRange } from './ranges';

export async function readExternal(request: ExternalRequest): Promise<Uint8Array> {
  const { location, offset, length } = request;
  const file = await contained(request);
  // Opening a pipe would wait for whoever writes to it.
  if (!(await stat(file)).isFile()) fail('BAD_INPUT', `${location} is no ordinary file: not read.`);
  const handle = await open(file, 'r');
  try {
    const { size } = await handle.stat();
    if (offset < 0 || offset + length > size)
      fail(
        'BAD_INPUT',
        `${location} has ${size} bytes; the model wants bytes ${offset} to ${offset + length} of it.`,
      );
    const bytes = await readRange(handle, { offset, length });
    if (bytes.length < length) fail('BAD_INPUT', `${location} ended while it was read.`);
    return bytes;
  } finally {
    await handle.close();
  }
}

async function contained({ folder, location }: ExternalRequest): Promise<string> {
  try {
    const root = await realpath(folder);
    const file = await realpath(path.resolve(root, location));
    const relative = path.relative(root, file);
    if (relative === '' || relative.startsWith('..') || path.isAbsolute(relative))
      fail('BAD_INPUT', `The model refers to ${location}, which is outside its folder: not read.`);
    return file;
  } catch (e) {
    if (e instanceof Faulted) throw e;
    return fail('BAD_INPUT', `The weights file ${location} can’t be read.`, {
      advice: 'It belongs into the model’s folder.',
    });
  }
}
