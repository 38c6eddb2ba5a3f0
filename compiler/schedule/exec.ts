/**
 * From a plan to what a runner executes: buffers and dispatches, with symbolic dims bound.
 */
import { type DType, type Storage, storageBytes, storageOf } from '../graph/dtype';
import { boundElementBytes, emitWgsl } from '../codegen/wgsl/emit';
import type { BodyId } from '../graph/graph';
import type { Program, Value } from '../ir/compute';
import type { ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type {
  AdapterLimits,
  BindingSpec,
  BufferSpec,
  DispatchSpec,
  ExecPlan,
  Share,
} from '../result';
import { type Chunk, type Chunking, planChunks } from './chunks';
import type { KernelIr } from './kernelIr';
import { type MemoryStep, planMemory } from './memoryPlan';
import { type Slices, stepsOf } from './slices';
import { execSteps, type StepUnit } from './steps';

export interface PlannedKernel {
  readonly id: string;
  readonly label: string;
  /** One per dispatch. */
  readonly code: readonly KernelIr[];
  /** The body of a region that it is in. */
  readonly body?: BodyId;
}

/** WebGPU's own limit on workgroups along one dim of the grid. */
const GRID_LIMIT = 65535;

/** A buffer without elements is bound all the same, and an array of vectors needs one of them. */
const LEAST_BYTES = 16;

/** Folds a flat count of workgroups over two grid dims; the kernel undoes it. */
export function foldGrid(count: number): [number, number, number] {
  if (count <= GRID_LIMIT) return [count, 1, 1];
  const y = Math.ceil(count / GRID_LIMIT);
  return [Math.ceil(count / y), y, 1];
}

/** What a buffer takes: whole 32-bit words. */
export function bufferBytes(elements: number, storage: Storage): number {
  return Math.max(LEAST_BYTES, Math.ceil((elements * storageBytes(storage)) / 4) * 4);
}

export function bufferSpec(
  v: Value,
  dims: ReadonlyMap<string, number>,
  f16: boolean,
  role: BufferSpec['role'],
): BufferSpec {
  const shape = v.shape.map((d) => I.evaluate(d, (s) => dims.get(s)));
  const elements = shape.reduce((a, b) => a * b, 1);
  const storage = storageOf(v.dtype, f16);
  return {
    id: v.id,
    name: v.name,
    dtype: v.dtype satisfies DType,
    storage,
    shape,
    elements,
    bytes: bufferBytes(elements, storage),
    role,
    ...(v.data ? { data: v.data } : {}),
  };
}

export function makeExecPlan(
  program: Program,
  kernels: readonly PlannedKernel[],
  sliced: {
    readonly slices: Slices;
    /** The program that results are compared with. */
    readonly verified: Program;
  },
  dims: ReadonlyMap<string, number>,
  limits: AdapterLimits,
): ExecPlan {
  const { f16 } = limits;
  const outputs = new Set(program.outputs.map((o) => o.value));
  const buffers = new Map<ValueId, BufferSpec>();
  const use = (id: ValueId): void => {
    if (buffers.has(id)) return;
    const v = program.values.get(id);
    if (!v) throw new Error(`no value ${id}`);
    const role =
      v.role === 'computed'
        ? outputs.has(id)
          ? 'output'
          : 'intermediate'
        : v.role === 'opaque'
          ? 'intermediate'
          : v.role === 'region'
            ? outputs.has(id)
              ? 'output'
              : 'intermediate'
            : v.role;
    buffers.set(id, bufferSpec(v, dims, f16, role));
  };
  const bind = (s: string): number | undefined => dims.get(s);
  const share = (id: ValueId): Share => {
    const v = program.values.get(id);
    if (!v) throw new Error(`no value ${id}`);
    const shape = v.shape.map((d) => I.evaluate(d, bind));
    return {
      ...(sliced.verified.values.has(id) ? { value: id } : {}),
      name: v.name,
      shape,
      elements: shape.reduce((a, b) => a * b, 1),
      steps: stepsOf(program, sliced.slices, id, bind),
    };
  };
  const dispatches: DispatchSpec[] = [];
  const units: StepUnit[] = [];
  for (const k of kernels) {
    for (const ir of k.code) {
      for (const v of ir.scratch ?? [])
        if (!buffers.has(v.id)) buffers.set(v.id, bufferSpec(v, dims, f16, 'scratch'));
      for (const b of ir.buffers) use(b.value);
      const count = I.evaluate(ir.workgroups, (s) => dims.get(s));
      // Nothing to compute: every result is empty.
      if (count <= 0) continue;
      const whole = {
        kernel: k.id,
        label: k.label,
        entryPoint: 'main',
        bindings: ir.buffers.map((b) => ({
          buffer: b.value,
          access: b.access,
          ...(b.slices
            ? {
                shares: { reads: b.slices.reads.map(share), writes: b.slices.writes.map(share) },
              }
            : {}),
        })),
        uniforms: ir.symbols.map((s) => dims.get(s) ?? 1),
      } as const;
      const chunking = planChunks(
        ir,
        {
          workgroups: count,
          bytes: (v) => buffers.get(v)?.bytes ?? 0,
          elementBytes: (v) => storageBytes(buffers.get(v)?.storage ?? 'f32'),
          bind,
        },
        limits,
      );
      // What can't be bound in chunks either is refused by the runner, with the limit.
      const all =
        chunking && 'chunks' in chunking
          ? inChunks(ir, whole, chunking)
          : [{ ...whole, wgsl: emitWgsl(ir), workgroups: foldGrid(count) }];
      for (const d of all) {
        units.push({
          dispatch: dispatches.length,
          body: k.body,
          reads: ir.buffers.flatMap((b) => (b.access === 'read' ? [b.value] : [])),
        });
        dispatches.push(d);
      }
    }
  }
  for (const o of program.outputs) use(o.value);
  const regions = (program.regions ?? []).length > 0;
  const bufferOf = (v: ValueId): BufferSpec => {
    use(v);
    const b = buffers.get(v);
    if (!b) throw new Error(`no buffer for ${v}`);
    return b;
  };
  const steps = regions ? execSteps({ ...program, dims }, units, bufferOf) : undefined;
  return {
    ...(steps ? { steps } : {}),
    // A body's lifetimes go round: nothing shares memory there.
    buffers: steps ? [...buffers.values()] : placed([...buffers.values()], dispatches),
    dispatches,
    outputs: program.outputs.map((o) => ({
      name: o.name,
      buffer: o.value,
      shape: o.shape.map((d) => I.evaluate(d, (s) => dims.get(s))),
    })),
  };
}

/** A dispatch for each chunk, each with its windows. */
function inChunks(
  ir: KernelIr,
  whole: Omit<DispatchSpec, 'wgsl' | 'workgroups'>,
  { chunks, pieces }: Chunking,
): DispatchSpec[] {
  const wgsl = emitWgsl(
    ir,
    new Map([...pieces].map(([v, p]) => [v, { pieces: p.count, pieceBytes: p.bytes }])),
  );
  const bindingsOf = (c: Chunk): BindingSpec[] =>
    whole.bindings.flatMap((b) => {
      const window = c.windows.get(b.buffer);
      const cut = pieces.get(b.buffer);
      if (!window || !cut) return [b];
      const end = window.offset + window.bytes;
      return Array.from({ length: cut.count }, (_, i): BindingSpec => {
        const offset = window.offset + i * cut.bytes;
        return { ...b, window: { offset, bytes: Math.min(end - offset, cut.bytes) } };
      });
    });
  return chunks.map((c, index) => {
    const starts = ir.buffers.flatMap((b) => {
      const window = c.windows.get(b.value);
      return window ? [window.offset / boundElementBytes(b)] : [];
    });
    return {
      ...whole,
      wgsl,
      bindings: bindingsOf(c),
      uniforms: [...whole.uniforms, c.first, c.first + c.count, ...starts],
      workgroups: foldGrid(c.count),
      chunk: { index, count: chunks.length },
    };
  });
}

/** The plan with another one before it, which makes what it reads as parameters, once. */
export function withPreparing(run: ExecPlan, preparing: ExecPlan): ExecPlan {
  const given = (b: BufferSpec): boolean => b.role === 'param' || b.role === 'const';
  const made = preparing.buffers
    .filter((b) => !given(b))
    .map(({ place: _, ...b }): BufferSpec => ({
      ...b,
      role: b.role === 'scratch' ? 'scratch' : 'prepared',
    }));
  const ids = new Set(made.map((b) => b.id));
  const own = run.buffers.filter((b) => !ids.has(b.id));
  const known = new Set(own.map((b) => b.id));
  const weights = preparing.buffers.filter((b) => given(b) && !known.has(b.id));
  return {
    ...run,
    buffers: [...own, ...weights, ...made],
    prepare: preparing.dispatches,
  };
}

/** Intermediates whose lifetimes don't overlap get one place; see `memoryPlan.ts`. */
function placed(
  buffers: readonly BufferSpec[],
  dispatches: readonly DispatchSpec[],
): readonly BufferSpec[] {
  const byId = new Map(buffers.map((b) => [b.id, b]));
  const steps = dispatches.map((d): MemoryStep => {
    const of = (access: 'read' | 'read_write'): string[] =>
      d.bindings.filter((b) => b.access === access).map((b) => b.buffer);
    return { reads: of('read'), writes: of('read_write') };
  });
  const { placeOf } = planMemory(
    steps,
    (id) => byId.get(id)?.role === 'intermediate',
    (id) => byId.get(id)?.bytes ?? 0,
  );
  return buffers.map((b) => {
    const place = placeOf.get(b.id);
    return place === undefined ? b : { ...b, place };
  });
}
