/**
 * What goes into a profile run and what comes out: plain data, the same for both hosts.
 *
 * Times are microseconds, rates GB/s (1e9 bytes) and GFLOP/s (1e9 operations; a multiply-add is two).
 */
import type { AdapterLimits, BufferSpec, DeviceProfile, ExecPlan } from '../../compiler/result';
import type { Program } from '../../compiler/ir/compute';

export interface AdapterInfo {
  readonly vendor: string;
  readonly architecture: string;
  readonly description: string;
  /** A CPU pretending to be a GPU: its times say little about one. */
  readonly software: boolean;
  /** The machine: this one's name, or the remote host's. */
  readonly host: string;
  /** `node` (Dawn) or `browser` (the webview's navigator.gpu). */
  readonly runner: 'node' | 'browser';
  /** Smallest step of its GPU clock, µs; 0 when timestamps aren't available (then wall times are used, and said so). */
  readonly timestampQuantumUs: number;
  /** What legality asks about: the compiler should be given these. */
  readonly limits?: AdapterLimits;
  /** What was measured of it before, where the host keeps such; told when the adapter is asked for. */
  readonly measured?: DeviceProfile;
  /** Why there is such a file, and it isn't used. */
  readonly measuredNote?: string;
}

export interface KernelTime {
  readonly id: string;
  readonly hash: string;
  readonly nodes: readonly string[];
  readonly medianUs: number;
  readonly minUs: number;
  /** Half width of the 95 % confidence interval of the median, µs. */
  readonly spreadUs: number;
  readonly samples: number;
  readonly bytes: number;
  readonly flops: number;
  readonly gbps: number;
  readonly gflops: number;
  readonly estimatedUs: number;
  /** In a plan with branches or loops: how often a run of the plan ran it. Its time is of one of them. */
  readonly runs?: number;
}

export interface PlanTimes {
  readonly kernels: readonly KernelTime[];
  /** Sum of the kernels' medians, each as often as it ran. */
  readonly totalUs: number;
  /** The whole plan in one submit, buffers resident on the GPU: median from first to last timestamp, or wall time. */
  readonly wallUs: number;
  readonly wallSpreadUs: number;
}

export interface OutputCheck {
  readonly name: string;
  readonly maxAbsErr: number;
  readonly maxRelErr: number;
  readonly unfusedMaxRelErr: number;
  readonly tolerance: number;
  readonly ok: boolean;
  /** Where the worst element is, and what stood there, when not ok. */
  readonly worst?: {
    readonly index: readonly number[];
    readonly got: number;
    readonly expected: number;
  };
}

export interface Verification {
  readonly ok: boolean;
  readonly outputs: readonly OutputCheck[];
  /** Every kernel's stored result against the reference, in execution order of the fused plan. */
  readonly kernels: readonly (OutputCheck & { readonly kernel: string })[];
}

export interface ProfileResult {
  readonly adapter: AdapterInfo;
  readonly unfused: PlanTimes;
  readonly fused: PlanTimes;
  /** unfused.wallUs / fused.wallUs */
  readonly speedup: number;
  readonly verification: Verification;
  readonly iterations: number;
  readonly seed: number;
  /** Pipelines' compile time, apart from run time. */
  readonly compileMs: number;
  readonly notes: readonly string[];
}

export interface PlanForRun {
  readonly exec: ExecPlan;
  /** Per kernel: what the times are joined with. */
  readonly kernels: readonly {
    readonly id: string;
    readonly hash: string;
    readonly nodes: readonly string[];
    readonly bytes: number;
    readonly flops: number;
    readonly estimatedUs: number;
  }[];
}

export interface ProfileJob {
  readonly fused: PlanForRun;
  readonly unfused: PlanForRun;
  /** L1 with its symbolic dims bound: what the float64 reference runs. */
  readonly program: Program;
  readonly options: ProfileOptions;
}

export interface ProfileOptions {
  /** Upper limit on timed repeats per kernel. */
  readonly iterations?: number;
  /** Time budget for all measuring, seconds. Default 3. */
  readonly seconds?: number;
  readonly seed?: number;
  /** Replace constant and parameter contents by seeded random values scaled by 1/sqrt(fan-in). */
  readonly randomWeights?: boolean;
  /** Folder that external data must stay inside. */
  readonly modelFolder?: string;
  /** The model's file, for contents that the compiler left in it. */
  readonly modelFile?: ModelFile;
  /** Skip the reference (its time is long for big graphs); the result then says so and is not ok. */
  readonly verify?: boolean;
}

/** A file as it was when the compiler read it. */
export interface ModelFile {
  readonly path: string;
  readonly size: number;
  /** Milliseconds. */
  readonly modified: number;
}

/** What went wrong, in a form that the editor and the command line can word and act upon. */
export interface RunnerFault {
  readonly code:
    | 'NO_ADAPTER'
    | 'DEVICE_LOST'
    | 'OUT_OF_MEMORY'
    | 'TOO_LARGE'
    | 'SHADER_ERROR'
    | 'VALIDATION'
    | 'HUNG'
    | 'CRASHED'
    | 'CANCELLED'
    | 'NO_NODE'
    | 'UNSUPPORTED'
    | 'BAD_INPUT'
    | 'INTERNAL';
  readonly message: string;
  /** The kernel that was running or compiling. */
  readonly kernel?: string;
  readonly advice?: string;
}

export type RunnerReply<T> =
  { readonly ok: true; readonly value: T } | { readonly ok: false; readonly fault: RunnerFault };

export interface Progress {
  readonly stage: 'device' | 'compile' | 'reference' | 'unfused' | 'fused' | 'trial' | 'verify';
  readonly done: number;
  readonly total: number;
  readonly kernel?: string;
}

/** Runs a plan once on given tensors and hands back its outputs. */
export interface RunJob {
  readonly exec: ExecPlan;
  /** Contents by buffer id for inputs (and parameters that are to be replaced): elements in the buffer's storage type. */
  readonly inputs: readonly {
    readonly buffer: string;
    readonly data: Float32Array | Int32Array | Uint32Array | Uint16Array;
  }[];
  readonly options: ProfileOptions;
}

export interface RunOutput {
  readonly name: string;
  readonly buffer: BufferSpec;
  /** In the storage type; f16 storage comes as raw 16-bit words. */
  readonly data: Float32Array | Int32Array | Uint32Array | Uint16Array;
}

/**
 * Several ways to compute the same, timed against each other: the kernels of a part of a plan as the
 * compiler makes them, and candidates for their place.
 */
export interface TrialJob {
  /** What the part computes, with its symbolic dims bound: inputs are made up by it. */
  readonly program: Program;
  readonly base: ExecPlan;
  readonly candidates: readonly { readonly id: string; readonly exec: ExecPlan }[];
  /** `seconds` and `iterations` are for all of them together. */
  readonly options: ProfileOptions;
}

export interface TrialTime {
  readonly medianUs: number;
  /** Half width of the 95 % confidence interval of the median, µs. */
  readonly spreadUs: number;
  readonly samples: number;
}

export type TrialOutcome =
  | {
      readonly id: string;
      readonly ok: true;
      readonly time: TrialTime;
      /** The base's time over the candidate's, of measurements made in turn: median and half width. */
      readonly speedup: number;
      readonly speedupSpread: number;
    }
  /** It can't be compiled or run here, or computes something else: then it wasn't timed. */
  | { readonly id: string; readonly ok: false; readonly reason: string };

export interface TrialResult {
  readonly base: TrialTime;
  /** In the job's order; without those that there was no time for. The first there is always time for. */
  readonly candidates: readonly TrialOutcome[];
}

/** The part of AbortSignal that the runner needs (its core has no DOM and no Node types). */
export interface CancelSignal {
  readonly aborted: boolean;
  addEventListener(type: 'abort', listener: () => void): void;
  removeEventListener(type: 'abort', listener: () => void): void;
}

/** What a host that can run kernels offers: the Node child and the webview's page both do. */
export interface Runner {
  adapter(): Promise<RunnerReply<AdapterInfo>>;
  profile(
    job: ProfileJob,
    onProgress: (p: Progress) => void,
    signal: CancelSignal,
  ): Promise<RunnerReply<ProfileResult>>;
  run(
    job: RunJob,
    onProgress: (p: Progress) => void,
    signal: CancelSignal,
  ): Promise<RunnerReply<readonly RunOutput[]>>;
  /**
   * Compares what each candidate stores with what the base stores, then times those that agree. A
   * candidate that hangs ends the job, with a fault whose kernel is the candidate's id.
   */
  trial(
    job: TrialJob,
    onProgress: (p: Progress) => void,
    signal: CancelSignal,
  ): Promise<RunnerReply<TrialResult>>;
  dispose(): void;
}
