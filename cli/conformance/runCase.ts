/**
 * One conformance case: compile, run the fused plan, compare every output of every data set.
 */
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import type { Compilation } from '../../compiler';
import { evaluate } from '../../compiler/ir/indexExpr';
import { type DeviceProfile, opsOneByOne } from '../../compiler/result';
import type { CancelSignal, Runner } from '../../runner/core/types';
import { execute } from '../execute';
import { compileModel, loadModel, type Model, placesOf, UNSUPPORTED_TYPES } from '../load';
import { compareTensors } from '../tensors/compare';
import { readTensorFile } from '../tensors/folder';
import {
  bad,
  elementCount,
  encodeNumbers,
  good,
  type HostTensor,
  type Outcome,
} from '../tensors/tensor';
import type { Case } from './cases';
import { expectationIsInexact } from './exactness';

export interface CaseResult {
  readonly name: string;
  readonly status: 'passed' | 'failed' | 'unsupported' | 'error';
  readonly code?: string;
  readonly message?: string;
  readonly kernelsBefore: number;
  readonly kernelsAfter: number;
  readonly maxAbsErr?: number;
  readonly maxRelErr?: number;
  /** Inputs whose contents were compiled in, because an op needs them when compiling. */
  readonly specialised?: readonly string[];
}

interface DataSet {
  readonly inputs: readonly HostTensor[];
  readonly outputs: readonly HostTensor[];
}

export async function runCase(
  c: Case,
  runner: Runner,
  device: DeviceProfile,
  signal: CancelSignal,
): Promise<CaseResult> {
  const none = { name: c.name, kernelsBefore: 0, kernelsAfter: 0 };
  const model = await loadModel(c.model);
  if (!model.ok) return { ...none, status: 'error', code: 'UNREADABLE', message: model.message };
  let compilation: Compilation;
  try {
    compilation = compileModel(model.value, { device });
  } catch (e) {
    return { ...none, status: 'error', code: 'INTERNAL', message: describe(e) };
  }
  const base = { name: c.name, ...kernelCounts(compilation) };
  // Their files can't be read either.
  const type = compilation.result.diagnostics.find((d) => UNSUPPORTED_TYPES.includes(d.code));
  if (type) return { ...base, status: 'unsupported', code: type.code, message: type.message };
  const sets = await dataSets(c, compilation);
  if (!sets.ok) return { ...base, status: 'error', code: 'BAD_DATA', message: sets.message };
  try {
    return await runSets(c.name, model.value, compilation, sets.value, runner, device, signal);
  } catch (e) {
    return { ...base, status: 'error', code: 'INTERNAL', message: describe(e) };
  }
}

/** A bug of this program: the case says so and the others go on. */
function describe(e: unknown): string {
  if (!(e instanceof Error)) return String(e);
  const place = e.stack?.split('\n')[1]?.trim() ?? '';
  return `${e.name}: ${e.message} ${place}`.trim();
}

function kernelCounts(c: Compilation): { kernelsBefore: number; kernelsAfter: number } {
  return {
    kernelsBefore: opsOneByOne(c.result),
    kernelsAfter: c.result.after.kernels.length,
  };
}

async function runSets(
  name: string,
  model: Model,
  compilation: Compilation,
  sets: readonly DataSet[],
  runner: Runner,
  device: DeviceProfile,
  signal: CancelSignal,
): Promise<CaseResult> {
  let counts = kernelCounts(compilation);
  let maxAbsErr = 0;
  let maxRelErr = 0;
  const specialised = new Set<string>();
  for (const set of sets) {
    const given = new Map<string, HostTensor>();
    compilation.graph.inputs.forEach((id, i) => {
      const t = set.inputs[i];
      if (t) given.set(id, t);
    });
    const options = placesOf(model);
    const r = await execute(model, compilation, given, runner, options, signal, device);
    if (!r.ok) {
      const status =
        r.kind === 'unsupported' ? 'unsupported' : r.kind === 'fault' ? 'failed' : 'error';
      return { name, status, code: r.code, message: r.message, ...kernelCounts(r.compilation) };
    }
    counts = kernelCounts(r.value.prepared.compilation);
    for (const s of r.value.prepared.specialised) specialised.add(s);
    for (const [i, expected] of set.outputs.entries()) {
      const got = r.value.outputs[i];
      if (!got)
        return {
          name,
          status: 'failed',
          code: 'NO_OUTPUT',
          message: `there is no output ${i}`,
          ...counts,
        };
      const check = compareTensors(got, expected);
      maxAbsErr = Math.max(maxAbsErr, check.maxAbsErr);
      maxRelErr = Math.max(maxRelErr, check.maxRelErr);
      // Only numbers can be excused: a wrong shape or type is wrong, also where it has no element.
      const numbersDiffer = !check.ok && check.wrong > 0;
      if (numbersDiffer && expectationIsInexact(r.value.prepared, i, got, expected))
        return {
          name,
          status: 'unsupported',
          code: 'EXPECTED_INEXACT',
          message: `output ${i} (${got.name}): ${check.message ?? 'it differs'}; the exact result misses the expected values too, by rounding errors that are in the file`,
          ...counts,
          maxAbsErr,
          maxRelErr,
        };
      if (numbersDiffer && isRandom(r.value.prepared.compilation))
        return {
          name,
          status: 'unsupported',
          code: 'RANDOM',
          message: `output ${i} (${got.name}) is random: its numbers are others in every runtime`,
          ...counts,
        };
      if (!check.ok)
        return {
          name,
          status: 'failed',
          code: 'MISMATCH',
          message: `output ${i} (${got.name}): ${check.message ?? 'it differs'}`,
          ...counts,
          maxAbsErr,
          maxRelErr,
        };
    }
  }
  return {
    name,
    status: 'passed',
    ...counts,
    maxAbsErr,
    maxRelErr,
    ...(specialised.size > 0 ? { specialised: [...specialised] } : {}),
  };
}

function isRandom(c: Compilation): boolean {
  return c.result.diagnostics.some((d) => d.code === 'RANDOM');
}

async function dataSets(c: Case, compilation: Compilation): Promise<Outcome<readonly DataSet[]>> {
  if (c.data.kind === 'ramp') {
    const outputs = await readAll(c.data.outputs);
    if (!outputs.ok) return outputs;
    const input = ramp(compilation);
    return input.ok ? good([{ inputs: [input.value], outputs: outputs.value }]) : input;
  }
  if (c.data.folders.length === 0) return bad('there is no test_data_set_* beside the model');
  const sets: DataSet[] = [];
  for (const folder of c.data.folders) {
    const inputs = await readNumbered(folder, 'input');
    if (!inputs.ok) return inputs;
    const outputs = await readNumbered(folder, 'output');
    if (!outputs.ok) return outputs;
    if (outputs.value.length === 0) return bad(`${folder} has no output_0.pb`);
    sets.push({ inputs: inputs.value, outputs: outputs.value });
  }
  return good(sets);
}

/** `input_0.pb`, `input_1.pb`… until one is missing. */
async function readNumbered(folder: string, stem: string): Promise<Outcome<readonly HostTensor[]>> {
  const present = new Set(await readdir(folder));
  const files: string[] = [];
  while (present.has(`${stem}_${files.length}.pb`))
    files.push(path.join(folder, `${stem}_${files.length}.pb`));
  return readAll(files);
}

async function readAll(files: readonly string[]): Promise<Outcome<readonly HostTensor[]>> {
  const out: HostTensor[] = [];
  for (const file of files) {
    const t = await readTensorFile(file);
    if (!t.ok) return t;
    out.push(t.value);
  }
  return good(out);
}

function ramp(c: Compilation): Outcome<HostTensor> {
  const id = c.graph.inputs[0];
  const t = id === undefined ? undefined : c.graph.tensors.get(id);
  if (!t?.type || c.graph.inputs.length !== 1) return bad('it must have one input with a type');
  const shape = t.type.shape.map((d) => evaluate(d, () => 1));
  const n = elementCount(shape);
  const values = Float32Array.from({ length: n }, (_, i) => i / n);
  return good({ name: t.name, dtype: 'f32', shape, bytes: encodeNumbers(values, 'f32') });
}
