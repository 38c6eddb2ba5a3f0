/**
 * Jobs for the page, which has no files: contents that the compiler left in files are put into the job.
 * Each is read once, whoever names it; what can't be read here stays, and the page says so.
 */
import { type DType, isFloat } from '../../compiler/graph/dtype';
import { decodeVarints } from '../../compiler/import/onnx/tensors';
import type { ConstData, Program } from '../../compiler/ir/compute';
import type { ExecPlan } from '../../compiler/result';
import type { ProfileJob, ProfileOptions, RunJob, TrialJob } from '../../runner/core/types';

type InFile = Extract<ConstData, { kind: 'external' | 'inModel' }>;

/** Undefined where it can't be read here. Throws faults of the runner. */
export type ReadContents = (
  data: InFile,
  options: ProfileOptions,
) => Promise<Uint8Array | undefined>;

class Filler {
  private readonly read = new Map<string, Promise<ConstData>>();

  constructor(
    private readonly readContents: ReadContents,
    private readonly options: ProfileOptions,
  ) {}

  async plan(plan: ExecPlan): Promise<ExecPlan> {
    return { ...plan, buffers: await Promise.all(plan.buffers.map((b) => this.owner(b))) };
  }

  async program(program: Program): Promise<Program> {
    const values = [...program.values].map(async ([id, v]) => [id, await this.owner(v)] as const);
    return { ...program, values: new Map(await Promise.all(values)) };
  }

  private async owner<T extends { readonly dtype: DType; readonly data?: ConstData }>(
    owner: T,
  ): Promise<T> {
    const { data } = owner;
    if (data?.kind !== 'external' && data?.kind !== 'inModel') return owner;
    // Those are made up.
    if (this.options.randomWeights === true && isFloat(owner.dtype)) return owner;
    const key = JSON.stringify([data, owner.dtype]);
    let read = this.read.get(key);
    if (!read) this.read.set(key, (read = this.contents(data, owner.dtype)));
    return { ...owner, data: await read };
  }

  private async contents(data: InFile, dtype: DType): Promise<ConstData> {
    const bytes = await this.readContents(data, this.options);
    if (!bytes) return data;
    if (data.kind === 'external' || data.form === 'elements') return { kind: 'bytes', bytes };
    return decodeVarints(bytes, dtype) ?? data;
  }
}

export async function profileWithContents(
  job: ProfileJob,
  read: ReadContents,
): Promise<ProfileJob> {
  const { fused, unfused, program, options } = job;
  const filler = new Filler(read, options);
  return {
    ...job,
    fused: { ...fused, exec: await filler.plan(fused.exec) },
    unfused: { ...unfused, exec: await filler.plan(unfused.exec) },
    program: await filler.program(program),
  };
}

export async function runWithContents(job: RunJob, read: ReadContents): Promise<RunJob> {
  return { ...job, exec: await new Filler(read, job.options).plan(job.exec) };
}

export async function trialWithContents(job: TrialJob, read: ReadContents): Promise<TrialJob> {
  const filler = new Filler(read, job.options);
  const candidates = job.candidates.map(async (c) => ({ ...c, exec: await filler.plan(c.exec) }));
  return {
    ...job,
    program: await filler.program(job.program),
    base: await filler.plan(job.base),
    candidates: await Promise.all(candidates),
  };
}
