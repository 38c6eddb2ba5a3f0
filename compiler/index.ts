/**
 * The compiler's front door: bytes of a graph file in, a {@link Compilation} out.
 *
 * `compile` never throws on user input: faults are in `result.diagnostics`. The compilation keeps the
 * inner representations, from which code and execution plans are made when asked for.
 */
import type { Graph } from './graph/graph';
import type { Program } from './ir/compute';
import type { CompileResult, DeviceProfile, ExecPlan } from './result';

export interface CompileSource {
  /** Name for people and for picking the format by its ending. */
  readonly file: string;
  readonly bytes: Uint8Array;
  readonly sideFile?: string;
}

export interface CompileOptions {
  readonly version?: number;
  /** Profiling values for symbolic dims; they win over the file's. */
  readonly dims?: Readonly<Record<string, number>>;
  readonly device?: DeviceProfile;
  /** Milliseconds from any origin; given by the host, since the compiler has no clock. */
  readonly now?: () => number;
}

export interface Compilation {
  readonly result: CompileResult;
  readonly graph: Graph;
  readonly program: Program;
  /** The code of a kernel of either plan, one text per dispatch; undefined for an unknown id. */
  kernelCode(kernel: string): readonly string[] | undefined;
  /** The plan as buffers and dispatches, with symbolic dims bound (by `dims`, or the profiling values). */
  execPlan(which: 'fused' | 'unfused', dims?: Readonly<Record<string, number>>): ExecPlan;
}

export type Compile = (source: CompileSource, options?: CompileOptions) => Compilation;

export { compile } from './compile';
