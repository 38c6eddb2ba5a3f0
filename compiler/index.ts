/**
 * The compiler's front door: bytes of a graph file in, a {@link Compilation} out.
 *
 * `compile` never throws on user input: faults are in `result.diagnostics`. The compilation keeps the
 * inner representations, from which code and execution plans are made when asked for.
 */
import type { CompileMemory } from './fusion/memory';
import type { Graph } from './graph/graph';
import type { Cut } from './import/onnx/outline';
import type { Program } from './ir/compute';
import type { KernelIr } from './schedule/kernelIr';
import type { KernelSpace } from './fusion/space';
import type {
  CompileResult,
  DeviceProfile,
  ExecPlan,
  FusionStep,
  PlanAtStep,
  PlanPart,
} from './result';
import type { Settings } from './schedule/parameters';
import type { NearTie, Tuning } from './tuning';

export interface CompileSource {
  /** Name for people and for picking the format by its ending. */
  readonly file: string;
  /** The file's bytes; those of its outline, where it has `cuts`. */
  readonly bytes: Uint8Array;
  /** Of a binary format: what `bytes` leave out, as `readOutline` found it. */
  readonly cuts?: readonly Cut[];
  readonly sideFile?: string;
}

export interface CompileOptions {
  readonly version?: number;
  /** Profiling values for symbolic dims; they win over the file's. */
  readonly dims?: Readonly<Record<string, number>>;
  readonly device?: DeviceProfile;
  /** What was measured to be faster on that device. */
  readonly tuning?: Tuning;
  /** Milliseconds from any origin; given by the host, since the compiler has no clock. */
  readonly now?: () => number;
  /** Kept by the host between compilations of one file: they are quicker, and their results the same. */
  readonly memory?: CompileMemory;
}

export interface Compilation {
  readonly result: CompileResult;
  readonly graph: Graph;
  readonly program: Program;
  /** What results are compared with: the program, and beside it what is computed at load. */
  readonly reference: Program;
  /** How the plan came about, and what each step was weighed against. The search is run again for it. */
  steps(): readonly FusionStep[];
  /** The plan behind the first `step` steps (none: the plan without fusion), for a replay. */
  planAt(step: number): PlanAtStep;
  /** The code of a kernel of either plan, one text per dispatch; undefined for an unknown id. */
  kernelCode(kernel: string): readonly string[] | undefined;
  /** The same as L3, before it is any language's text. */
  kernelIr(kernel: string): readonly KernelIr[] | undefined;
  /** Where the search was of two minds, nearest first. */
  nearTies(): readonly NearTie[];
  /** What can be tuned of a kernel of the fused plan; undefined for an unknown id. */
  space(kernel: string): KernelSpace | undefined;
  /**
   * Kernels of the fused plan to be run by themselves, each with other settings where given. Settings
   * must be ones that {@link space} gives as possible.
   */
  part(kernels: readonly { readonly id: string; readonly settings?: Settings }[]): PlanPart;
  /** The plan as buffers and dispatches, with symbolic dims bound (by `dims`, or the profiling values). */
  execPlan(which: 'fused' | 'unfused', dims?: Readonly<Record<string, number>>): ExecPlan;
}

export type Compile = (source: CompileSource, options?: CompileOptions) => Compilation;

export { compile } from './compile';
export { type ByteRange, type Cut, readOutline } from './import/onnx/outline';
export { CompileMemory } from './fusion/memory';
