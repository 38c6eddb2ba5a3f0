/**
 * The contents of a job's inputs, parameters and constants: from the plan or the program, from a file
 * beside the model, or made up from the seed. The GPU and the reference get the same numbers.
 */
import { contentBytes, isFloat } from '../../compiler/graph/dtype';
import { decodeVarints } from '../../compiler/import/onnx/tensors';
import type { ConstData, Program } from '../../compiler/ir/compute';
import type { ValueId } from '../../compiler/ir/expr';
import { constOf, product, rewrite, num } from '../../compiler/ir/indexExpr';
import { decode } from '../../compiler/reference';
import type { BufferSpec } from '../../compiler/result';
import type { Host } from './device';
import { fail } from './faults';
import { madeUp } from './random';
import { contentsOf, toStorage, type StorageArray } from './storage';
import { inferTraits, type Traits } from './traits';
import type { DType } from '../../compiler/graph/dtype';
import type { ProfileOptions } from './types';

export const DEFAULT_SEED = 20240229;

/** What the contents are asked for by: a value of L1, or a buffer of a plan. */
interface Described {
  readonly key: string;
  readonly name: string;
  readonly dtype: DType;
  readonly elements: number;
  readonly role: string;
  readonly data?: ConstData | undefined;
  readonly traits: Traits;
}

export class ContentSource {
  private readonly known = new Map<string, ArrayLike<number>>();
  private readonly described = new Map<ValueId, Described>();

  constructor(
    program: Program | undefined,
    private readonly options: ProfileOptions,
    private readonly host: Host,
  ) {
    if (program) this.describe(program);
  }

  /** Elements of the values that the reference needs to be given. */
  async forReference(): Promise<Map<ValueId, ArrayLike<number>>> {
    const out = new Map<ValueId, ArrayLike<number>>();
    for (const [id, d] of this.described) {
      if (!d.data || isInFile(d.data) || this.replaced(d)) out.set(id, await this.numbers(d));
    }
    return out;
  }

  /** Elements of a buffer, as its storage has them. */
  async forBuffer(spec: BufferSpec): Promise<StorageArray> {
    const value = this.described.get(spec.value ?? spec.id);
    if (value && value.elements === spec.elements)
      return toStorage(await this.numbers(value), spec.storage);
    const traits: Traits = {
      ...(spec.valueBound === undefined ? {} : { bound: spec.valueBound }),
      ...(spec.distribution === 'positive' ? { positive: true } : {}),
    };
    return toStorage(
      await this.numbers({ key: spec.id, ...spec, data: spec.data, traits }),
      spec.storage,
    );
  }

  private describe(program: Program): void {
    const traits = inferTraits(program);
    for (const v of program.values.values()) {
      // What kernels make, or a branch or a loop hands over.
      if (v.role === 'computed' || v.role === 'region') continue;
      const elements = constOf(
        rewrite(product(v.shape), (a) => {
          const n = a.kind === 'sym' ? program.dims.get(a.name) : undefined;
          return n === undefined ? undefined : num(n);
        }),
      );
      if (elements === undefined) fail('INTERNAL', `${v.name} has a size without a value.`);
      this.described.set(v.id, {
        key: v.id,
        name: v.name,
        dtype: v.dtype,
        elements,
        role: v.role,
        data: v.data,
        traits: traits.get(v.id) ?? {},
      });
    }
  }

  private replaced(d: Described): boolean {
    return this.options.randomWeights === true && isFloat(d.dtype) && d.elements > 1;
  }

  private async numbers(d: Described): Promise<ArrayLike<number>> {
    const old = this.known.get(d.key);
    if (old) return old;
    const made = await this.make(d);
    if (made.length !== d.elements)
      fail('BAD_INPUT', `${d.name} has ${made.length} elements instead of ${d.elements}.`);
    this.known.set(d.key, made);
    return made;
  }

  private async make(d: Described): Promise<ArrayLike<number>> {
    if (!d.data || this.replaced(d)) {
      const seed = this.options.seed ?? DEFAULT_SEED;
      return madeUp(d.key, seed, d.dtype, d.elements, d.traits, d.role !== 'input');
    }
    if (!isInFile(d.data)) return contentsOf(d.data, d.dtype, d.elements);
    if (d.data.kind === 'inModel') return this.fromModel(d, d.data);
    const { location, offset } = d.data;
    const length = contentBytes(d.dtype, d.elements);
    const folder = this.options.modelFolder;
    if (folder === undefined || !this.host.readExternal)
      fail('BAD_INPUT', `The contents of ${d.name} are in ${location}, which can’t be read here.`, {
        advice: 'Profile with random weights, or open the model from its own folder.',
      });
    const bytes = await this.host.readExternal({ folder, location, offset, length });
    return decode(bytes, d.dtype, d.elements);
  }

  private async fromModel(
    d: Described,
    { offset, length, form }: Extract<ConstData, { kind: 'inModel' }>,
  ): Promise<ArrayLike<number>> {
    const { modelFile } = this.options;
    if (!modelFile || !this.host.readModel)
      fail(
        'BAD_INPUT',
        `The contents of ${d.name} are in the model’s file, which can’t be read here.`,
        {
          advice: 'Profile with random weights.',
        },
      );
    const bytes = await this.host.readModel(modelFile, { offset, length });
    if (form === 'elements') return decode(bytes, d.dtype, d.elements);
    const data =
      decodeVarints(bytes, d.dtype) ??
      fail('BAD_INPUT', `The contents of ${d.name} are damaged: they are no list of integers.`);
    return contentsOf(data, d.dtype, d.elements);
  }
}

function isInFile(data: ConstData): data is Extract<ConstData, { kind: 'external' | 'inModel' }> {
  return data.kind === 'external' || data.kind === 'inModel';
}
