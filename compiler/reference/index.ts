/**
 * The float64 reference: the oracle that GPU results are compared with.
 *
 * It runs an L1 program compute by compute, each as generated loops (see codegen.ts), in the order of
 * the program, without any fusion. Floats are computed and kept in float64; only explicit casts to f16
 * and bf16 round. Integers of up to 32 bits wrap as on the GPU; i64 and u64 are exact up to 2^53.
 *
 * {@link interpretSteps} is the interruptible form: a generator that rests after each compute, and
 * inside long ones, so that its host can report progress, answer a cancellation, or take each result
 * as it comes and let it go. What isn't to be kept is released after its last use.
 */
import type { BodyId } from '../graph/graph';
import type { Compute, ComputeId, ConstData, Program, Value } from '../ir/compute';
import { visitExpr, type ValueId } from '../ir/expr';
import { type Dim, evaluate } from '../ir/indexExpr';
import {
  bodiesOf,
  innerNeeds,
  outerNeeds,
  type ProgramLoop,
  type ProgramRegion,
  resultsOf,
  withRegions,
} from '../ir/region';
import { integerRange } from '../graph/dtype';
import type { Running } from '../ir/running';
import { generate, type Generated } from './codegen';
import { decode } from './contents';
import { HELPERS } from './math';
import { identityOf, makeNest, shapesOf, type Packing } from './nest';
import { asElements, runAlong } from './running';

export { decode, f16FromBits, type Contents } from './contents';

export interface InterpretOptions {
  /** Values to keep; all computed ones by default. */
  readonly keep?: ReadonlySet<ValueId>;
}

export interface InterpretHooks extends InterpretOptions {
  readonly onProgress?: (step: Step) => void;
  /** Asked between steps; true ends the run with {@link InterpretCancelled}. */
  readonly cancelled?: () => boolean;
}

export class InterpretCancelled extends Error {}

export interface Step {
  /** Absent for what a branch or a loop gives. */
  readonly compute?: ComputeId;
  readonly value: ValueId;
  /** Computes finished, and their number. */
  readonly done: number;
  readonly total: number;
  /** The result, when the compute is finished. */
  readonly data?: Float64Array;
}

export type Inputs = ReadonlyMap<ValueId, ArrayLike<number>>;

/** Points evaluated between two rests: some 50 ms. */
const CHUNK = 2e7;

type Kernel = (
  helpers: typeof HELPERS,
  out: Float64Array,
  arrays: readonly ArrayLike<number>[],
  lo: number,
  hi: number,
) => void;

/** Runs the whole program. Inputs (and external contents) that are missing are a caller's bug. */
export function interpret(
  program: Program,
  inputs: Inputs,
  options: InterpretHooks = {},
): Map<ValueId, Float64Array> {
  const steps = interpretSteps(program, inputs, options);
  for (;;) {
    const next = steps.next();
    if (next.done) return next.value;
    options.onProgress?.(next.value);
    if (options.cancelled?.()) throw new InterpretCancelled();
  }
}

export function* interpretSteps(
  program: Program,
  inputs: Inputs,
  options: InterpretOptions = {},
): Generator<Step, Map<ValueId, Float64Array>> {
  const run = new Interpretation(program, inputs, options.keep);
  if (program.regions) yield* run.body(undefined);
  else for (const c of program.computes) yield* run.compute(c);
  return run.results();
}

interface MadeCompute {
  readonly nest: NonNullable<ReturnType<typeof makeNest>>;
  readonly code: Generated;
  readonly kernel: Kernel;
  /** What the code has written are elements, which are yet to be run over. */
  readonly running?: Running;
}

class Interpretation {
  private readonly shapes: ReadonlyMap<ValueId, readonly number[]>;
  private readonly arrays = new Map<ValueId, ArrayLike<number>>();
  private readonly kept = new Map<ValueId, Float64Array>();
  private readonly lastUse: ReadonlyMap<ValueId, ComputeId>;
  private readonly kernels = new Map<string, Kernel>();
  private readonly made = new Map<ComputeId, MadeCompute>();
  private done = 0;

  constructor(
    private readonly program: Program,
    private readonly inputs: Inputs,
    private readonly keep: ReadonlySet<ValueId> | undefined,
  ) {
    this.shapes = shapesOf(program);
    this.lastUse = lastUses(program);
  }

  *compute(c: Compute): Generator<Step, void> {
    const step = { compute: c.id, value: c.value, total: this.program.computes.length };
    const out = this.allocate(c.value);
    const made = this.made.get(c.id) ?? this.make(c);
    if (!made) {
      out.fill(emptyResult(c));
    } else {
      const { nest, code, kernel } = made;
      const arrays = code.loads.map((v) => this.packed(v, nest.packings.get(v)));
      const perRow = Math.max(1, (nest.elements / code.rows) * nest.trips);
      const rows = Math.max(1, Math.round(CHUNK / perRow / code.align)) * code.align;
      for (let lo = 0; lo < code.rows; lo += rows) {
        kernel(HELPERS, out, arrays, lo, Math.min(code.rows, lo + rows));
        if (lo + rows < code.rows) yield { ...step, done: this.done };
      }
      if (made.running) runAlong(out, this.shapeOf(c.value), made.running, c.accumulator);
    }
    this.done++;
    this.arrays.set(c.value, out);
    if (!this.keep || this.keep.has(c.value)) this.kept.set(c.value, out);
    this.release(c);
    yield { ...step, done: this.done, data: out };
  }

  // -- Branches and loops -------------------------------------------------------------------------

  /** The computes of a body in their order, and the regions among them. */
  *body(body: BodyId | undefined): Generator<Step, void> {
    const { program } = this;
    const items = withRegions(
      program.computes.filter((c) => c.region === body),
      loadsOf,
      (program.regions ?? []).filter((r) => r.parent === body),
      (r) => this.needsOf(r),
    );
    for (const x of items) {
      if ('unit' in x) yield* this.compute(x.unit);
      else yield* x.region.kind === 'loop' ? this.loop(x.region) : this.branch(x.region);
    }
  }

  private needsOf(r: ProgramRegion): ValueId[] {
    const { computes, regions = [] } = this.program;
    const bodies = bodiesOf(r);
    const within = (b: BodyId | undefined): boolean => b !== undefined && bodies.includes(b);
    return [
      ...outerNeeds(r),
      ...innerNeeds(r),
      ...computes.flatMap((c) => (within(c.region) ? [...loadsOf(c)] : [])),
      ...regions.flatMap((x) => (within(x.parent) ? this.needsOf(x) : [])),
    ];
  }

  private *branch(r: ProgramRegion & { kind: 'branch' }): Generator<Step, void> {
    const arm = r.arms[this.first(r.condition) !== 0 ? 0 : 1];
    yield* this.body(arm.body);
    r.results.forEach((v, k) => this.set(v, this.arrayOf(arm.gives[k] ?? '')));
    yield* this.given(r);
  }

  private *given(r: ProgramRegion): Generator<Step, void> {
    const total = this.program.computes.length;
    for (const value of resultsOf(r))
      yield { value, done: this.done, total, data: Float64Array.from(this.arrayOf(value)) };
  }

  private *loop(r: ProgramLoop): Generator<Step, void> {
    const bound = r.trips === undefined ? undefined : this.sizes(r.trips);
    const counted = r.tripsValue === undefined ? Infinity : this.first(r.tripsValue);
    const trips = Math.min(bound ?? Infinity, counted);
    let on = r.condition === undefined || this.first(r.condition) !== 0;
    for (const c of r.carried) this.set(c.formal, this.arrayOf(c.initial));
    const rows = r.stacked.map((s) => this.allocate(s.result));
    const place = (n: number, length: number, reverse: boolean, i: number): number =>
      (reverse ? n - 1 - i : i) * length;
    for (let i = 0; on && i < trips; i++) {
      if (r.iteration !== undefined) this.set(r.iteration, [i]);
      if (r.running !== undefined) this.set(r.running, [1]);
      for (const s of r.sliced) {
        const length = this.sizeOf(s.formal);
        const at = place(trips, length, s.reverse, i);
        const all = this.arrayOf(s.source);
        this.set(
          s.formal,
          Float64Array.from({ length }, (_, k) => all[at + k] ?? 0),
        );
      }
      yield* this.body(r.body);
      r.stacked.forEach((s, k) => {
        const row = this.arrayOf(s.element);
        rows[k]?.set(Float64Array.from(row), place(trips, row.length, s.reverse, i));
      });
      const next = r.carried.map((c) => this.arrayOf(c.next));
      r.carried.forEach((c, k) => this.set(c.formal, next[k] ?? []));
      on = r.goesOn === undefined || this.first(r.goesOn) !== 0;
    }
    for (const c of r.carried) this.set(c.result, this.arrayOf(c.formal));
    r.stacked.forEach((s, k) => this.set(s.result, rows[k] ?? []));
    yield* this.given(r);
  }

  private first(value: ValueId): number {
    return this.arrayOf(value)[0] ?? 0;
  }

  private sizes(d: Dim): number {
    return evaluate(d, (s) => this.program.dims.get(s));
  }

  private set(value: ValueId, array: ArrayLike<number>): void {
    this.arrays.set(value, array);
  }

  /** The compute's code; undefined when it has no points. */
  private make(c: Compute): MadeCompute | undefined {
    const walk = asElements(c);
    const nest = makeNest(walk?.elements ?? c, this.program.dims, (v) => this.shapeOf(v));
    if (!nest) return undefined;
    const code = generate(nest, (v) => this.fillOf(v));
    const made = {
      nest,
      code,
      kernel: this.compile(code),
      ...(walk ? { running: walk.running } : {}),
    };
    // Only what is in a loop is computed again.
    if (c.region !== undefined) this.made.set(c.id, made);
    return made;
  }

  /** The kept values; those that no compute defines as float64 copies. */
  results(): Map<ValueId, Float64Array> {
    for (const { value } of this.program.outputs) this.keepGiven(value);
    for (const value of this.keep ?? []) this.keepGiven(value);
    return this.kept;
  }

  private keepGiven(value: ValueId): void {
    const role = this.program.values.get(value)?.role;
    if (this.kept.has(value) || role === 'computed' || role === undefined) return;
    this.kept.set(value, Float64Array.from(this.arrayOf(value)));
  }

  private release(c: Compute): void {
    // A body's operands are read again in its next iteration.
    if (this.program.regions) return;
    for (const v of loadsOf(c)) if (this.lastUse.get(v) === c.id) this.arrays.delete(v);
    if (!this.lastUse.has(c.value)) this.arrays.delete(c.value);
  }

  private allocate(value: ValueId): Float64Array {
    return new Float64Array(this.sizeOf(value));
  }

  private shapeOf(value: ValueId): readonly number[] {
    const shape = this.shapes.get(value);
    if (!shape) throw new Error(`there is no value ${value}`);
    return shape;
  }

  private sizeOf(value: ValueId): number {
    return this.shapeOf(value).reduce((a, b) => a * b, 1);
  }

  private fillOf(value: ValueId): number | undefined {
    if (this.inputs.has(value)) return undefined;
    const data = this.program.values.get(value)?.data;
    return data?.kind === 'fill' ? data.value : undefined;
  }

  private arrayOf(value: ValueId): ArrayLike<number> {
    const old = this.arrays.get(value);
    if (old) return old;
    const v = this.program.values.get(value);
    if (!v) throw new Error(`there is no value ${value}`);
    const array = this.contentsOf(v);
    const size = this.sizeOf(value);
    if (array.length !== size)
      throw new Error(`${value} has ${array.length} elements instead of ${size}`);
    this.arrays.set(value, array);
    return array;
  }

  private packed(name: ValueId, packing: Packing | undefined): ArrayLike<number> {
    if (!packing) return this.arrayOf(name);
    return moveAxisLast(this.arrayOf(packing.value), this.shapeOf(packing.value), packing.axis);
  }

  private contentsOf(v: Value): ArrayLike<number> {
    const given = this.inputs.get(v.id);
    if (given) return Array.isArray(given) ? Float64Array.from(given) : given;
    if (!v.data) throw new Error(`the ${v.role} ${v.id} has no contents`);
    return constContents(v.data, v, this.sizeOf(v.id));
  }

  private compile(code: Generated): Kernel {
    const old = this.kernels.get(code.source);
    if (old) return old;
    // The text holds nothing from a user's file but numbers: names are the generator's own.
    const made: unknown = Reflect.construct(Function, [
      'H',
      'out',
      'arrays',
      'lo',
      'hi',
      code.source,
    ]);
    const kernel = made as Kernel;
    this.kernels.set(code.source, kernel);
    return kernel;
  }
}

function constContents(data: ConstData, v: Value, elements: number): ArrayLike<number> {
  switch (data.kind) {
    case 'bytes':
      return decode(data.bytes, v.dtype, elements);
    case 'numbers':
      return Float64Array.from(data.values);
    case 'fill':
      return new Float64Array(elements).fill(data.value);
    case 'inModel':
      throw new Error(`the contents of ${v.id} are in the model file and were not given`);
    case 'external':
      throw new Error(`the contents of ${v.id} are in ${data.location} and were not given`);
  }
}

/** A copy in float64 with one axis moved behind the others. */
function moveAxisLast(
  from: ArrayLike<number>,
  shape: readonly number[],
  axis: number,
): Float64Array {
  const out = new Float64Array(from.length);
  const length = shape[axis] ?? 1;
  const inner = shape.slice(axis + 1).reduce((a, b) => a * b, 1);
  const block = length * inner;
  for (let base = 0; base < out.length; base += block) {
    for (let i = 0; i < inner; i++) {
      let to = base + i * length;
      for (let source = base + i, end = base + block; source < end; source += inner)
        out[to++] = from[source] ?? 0;
    }
  }
  return out;
}

/** What every element is when the reduction has no points. */
function emptyResult(c: Compute): number {
  if (!c.monoid) return 0;
  const integer = integerRange(c.accumulator);
  return identityOf({ monoid: c.monoid, accumulator: c.accumulator, integer });
}

function loadsOf(c: Compute): Set<ValueId> {
  const out = new Set<ValueId>();
  visitExpr(c.body, (e) => {
    if (e.op === 'load') out.add(e.value);
  });
  return out;
}

function lastUses(program: Program): Map<ValueId, ComputeId> {
  const last = new Map<ValueId, ComputeId>();
  for (const c of program.computes) for (const v of loadsOf(c)) last.set(v, c.id);
  return last;
}
