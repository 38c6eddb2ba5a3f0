/**
 * Reading models and compiling them, with the faults of both put into words.
 */
import { existsSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { type Compilation, compile, type CompileSource, type Cut } from '../compiler';
import type { DeviceProfile } from '../compiler/result';
import type { Tuning } from '../compiler/tuning';
import type { ModelFile, ProfileOptions } from '../runner/core/types';
import { type OpenedModel, openModel } from '../runner/node/ranges';
import { suggestion } from './args';
import { bad, good, type Outcome } from './tensors/tensor';

export interface Model {
  /** As the user wrote it. */
  readonly file: string;
  readonly folder: string;
  /** What the compiler reads: of a binary format without the contents of large tensors. */
  readonly bytes: Uint8Array;
  readonly cuts?: readonly Cut[];
  /** Where those contents are. */
  readonly modelFile?: ModelFile;
  readonly sideFile?: string;
}

/** Codes of diagnostics about values that have no place here: strings, sequences, floats of 8 bits. */
export const UNSUPPORTED_TYPES: readonly string[] = [
  'UNSUPPORTED_DTYPE',
  'UNSUPPORTED_TYPE',
  'SPARSE_TENSOR',
];

/** Node reads no more into one buffer. */
const MAX_FILE_BYTES = 2 ** 31 - 1;

export async function loadModel(file: string): Promise<Outcome<Model>> {
  const ending = path.extname(file).toLowerCase();
  if (ending !== '.fuse' && ending !== '.onnx')
    return bad(`${file}: graph files end in .fuse or .onnx`);
  const folder = path.dirname(path.resolve(file));
  if (ending === '.fuse') {
    // Directives of a text format stand in the file itself.
    const bytes = await readBytes(file);
    return bytes.ok ? good({ file, folder, bytes: bytes.value }) : bytes;
  }
  const opened = await readOnnx(file);
  if (!opened.ok) return opened;
  const model = { file, folder, ...opened.value };
  const sideFile = `${file}.fusion.json`;
  if (!existsSync(sideFile)) return good(model);
  const side = await readBytes(sideFile);
  return side.ok ? good({ ...model, sideFile: new TextDecoder().decode(side.value) }) : side;
}

export async function readBytes(file: string): Promise<Outcome<Uint8Array>> {
  try {
    const info = await stat(file);
    if (!info.isFile()) return bad(`${file} is no file`);
    if (info.size > MAX_FILE_BYTES) return bad(`${file} has more than 2 GiB`);
    return good(await readFile(file));
  } catch (e) {
    return bad(`can't read ${file}: ${reason(e)}`);
  }
}

async function readOnnx(file: string): Promise<Outcome<OpenedModel>> {
  try {
    // Opening a pipe would wait for whoever writes to it.
    if (!(await stat(file)).isFile()) return bad(`${file} is no file`);
    const opened = await openModel(path.resolve(file));
    return opened.ok ? opened : bad(`can't read ${file}: ${opened.message}`);
  } catch (e) {
    return bad(`can't read ${file}: ${reason(e)}`);
  }
}

/** A system error in words. */
export function reason(e: unknown): string {
  const code = e instanceof Error && 'code' in e ? e.code : undefined;
  if (code === 'ENOENT') return 'there is no such file';
  if (code === 'EACCES' || code === 'EPERM') return 'it may not be accessed';
  if (code === 'ENOTDIR') return 'a part of its path is no folder';
  return e instanceof Error ? e.message : String(e);
}

export function compileModel(
  model: Model,
  options: {
    readonly dims?: Readonly<Record<string, number>>;
    readonly device?: DeviceProfile;
    readonly tuning?: Tuning | undefined;
  },
): Compilation {
  const { tuning, ...rest } = options;
  return compile(sourceOf(model), {
    ...rest,
    ...(tuning ? { tuning } : {}),
    now: () => performance.now(),
  });
}

/** What the compiler is given of a model. */
export function sourceOf({ file, bytes, cuts, sideFile }: Model): CompileSource {
  return {
    ...{ file, bytes },
    ...(cuts ? { cuts } : {}),
    ...(sideFile === undefined ? {} : { sideFile }),
  };
}

/** What a runner is told, so that it finds contents that the compiler left in files. */
export function placesOf({
  folder,
  modelFile,
}: Model): Pick<ProfileOptions, 'modelFolder' | 'modelFile'> {
  return { modelFolder: folder, ...(modelFile ? { modelFile } : {}) };
}

/** What is wrong with the names of `--dim`; undefined when the graph has them all. */
export function unknownDim(
  dims: Readonly<Record<string, number>>,
  compilation: Compilation,
): string | undefined {
  const known = [...compilation.graph.dims.keys()];
  const wrong = Object.keys(dims).find((name) => !known.includes(name));
  if (wrong === undefined) return undefined;
  const have =
    known.length === 0 ? 'it has none' : `it has ${known.join(', ')}${suggestion(wrong, known)}`;
  return `the graph has no symbolic size "${wrong}": ${have}`;
}
