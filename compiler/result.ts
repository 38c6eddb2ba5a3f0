/**
 * The compiler's answer, as plain data: one result feeds lenses, hovers, problems, the graph panel,
 * the command line and the tests. Everything here survives structured cloning and JSON.
 *
 * Sizes are in bytes, times in microseconds. Dims are numbers where known, text where symbolic.
 */
import type { Diagnostic, SourceRange } from './diagnostics';
import type { DType, Storage } from './graph/dtype';
import type { NodeId, TensorId } from './graph/graph';
import type { Pattern, Verdict } from './fusion/verdicts';
import type { ConstData, Program } from './ir/compute';
import type { TunedKernel, TunedPlan } from './tuning';

export type ShownDim = number | string;

export interface TensorView {
  readonly id: TensorId;
  readonly name: string;
  readonly dtype: DType;
  readonly shape: readonly ShownDim[];
  /** The shape with symbolic dims bound to their profiling values; absent where it has none. */
  readonly sizes?: readonly number[];
  /** With symbolic dims bound to their profiling values. */
  readonly elements: number;
  readonly bytes: number;
  readonly role: 'input' | 'param' | 'const' | 'result';
  readonly range?: SourceRange;
}

/**
 * compute: costs a kernel when alone. view: an index map. constant: folded. region: a branch or a loop,
 * whose bodies have kernels of their own. opaque: not supported. dead: no output needs it.
 */
export type NodeKind = 'compute' | 'view' | 'constant' | 'region' | 'opaque' | 'dead';

export interface NodeView {
  readonly id: NodeId;
  readonly op: string;
  readonly sourceOp: string;
  readonly name: string;
  readonly kind: NodeKind;
  readonly operands: readonly (TensorId | undefined)[];
  readonly results: readonly TensorId[];
  /** Short text of the attributes for people, e.g. `axis=-1, eps=1e-5`. */
  readonly attrs: string;
  readonly flops: number;
  readonly range?: SourceRange;
  /** The body of a branch or a loop that it is in: `n3/then`, `n3/else`, `n3/body` of node n3. */
  readonly region?: string;
  /** The kernel it is in, after fusion (the first, when duplicated); absent for views outside kernels, constants, dead nodes. */
  readonly kernel?: string;
  /** Index class of its main compute. */
  readonly indexClass?: IndexClass;
  readonly unsupported?: string;
}

export type IndexClass =
  | 'elementwise'
  | 'broadcast'
  | 'injective'
  | 'reduction'
  | 'contraction'
  | 'stencil'
  | 'gather'
  | 'scatter'
  | 'opaque';

export interface KernelView {
  /** `k0`… in execution order (of `after`; `b0`… of `before`). */
  readonly id: string;
  /** Structural: equal for equal kernels, in any file. */
  readonly hash: string;
  /** The hash without schedule parameters, at the sizes that symbolic dims have: what tuning records go by. */
  readonly structure: string;
  /** For people: `matmul + add + relu`. */
  readonly label: string;
  readonly pattern: Pattern;
  readonly template: string;
  /** The body of a branch or a loop that it is in; it may run many times, or never. */
  readonly region?: string;
  /** It runs once, when weights are loaded: see {@link PlanView.prepared}. */
  readonly atLoad?: true;
  /** L0 nodes, in order. A node duplicated into several kernels is in each. */
  readonly nodes: readonly NodeId[];
  readonly inputs: readonly TensorId[];
  readonly outputs: readonly TensorId[];
  readonly bytesRead: number;
  readonly bytesWritten: number;
  readonly flops: number;
  readonly estimatedUs: number;
  readonly bound: 'memory' | 'compute' | 'launch';
  /** Dispatches it takes (2 for split reductions). */
  readonly dispatches: number;
  /** What the fusion saves against its ops one by one; 0 for single ones. */
  readonly savedBytes: number;
  readonly savedLaunches: number;
  readonly estimatedUnfusedUs: number;
  /** Verdicts about the kernel as a whole, e.g. COMPUTE_BOUND: fusing gains nothing. */
  readonly notes: readonly Verdict[];
  readonly workgroup: readonly [number, number, number];
  /** The grid with symbolic dims at their profiling values. */
  readonly grid: readonly [number, number, number];
  readonly schedule: Readonly<Record<string, number | string>>;
  /** The tuning record that its parameters are from. */
  readonly tuned?: TunedKernel;
  /** 32-bit values that an invocation has live at once, at most, by the model. */
  readonly registers: number;
  /** What the estimate was made from besides bytes: with it a kernel can be priced for another device. */
  readonly counts?: KernelCounts;
}

/** What a kernel does, in the cost model's units: one add is one. */
export interface KernelCounts {
  readonly work: number;
  readonly sharedAccesses: number;
  readonly barriers: number;
  readonly threads: number;
  readonly workgroups: number;
  readonly dispatches: number;
  /** Bytes that a GPU's memory moves besides those used. */
  readonly wastedBytes: number;
  /** Of the kernel and of its loops, where many: values live at once, and how often that is entered. */
  readonly pressure: readonly { readonly registers: number; readonly times: number }[];
}

export interface PlanView {
  readonly kernels: readonly KernelView[];
  /**
   * Kernels that run once, when weights are loaded: what depends on weights alone. No sum of the plan
   * has them. Absent where there are none, and in the plan without fusion.
   */
  readonly prepared?: readonly KernelView[];
  readonly bytesRead: number;
  readonly bytesWritten: number;
  readonly flops: number;
  readonly estimatedUs: number;
  /** Greatest sum of live tensors while the plan runs. */
  readonly peakBytes: number;
  /** What the tensors between kernels take with a buffer each. */
  readonly intermediateBytes: number;
  /** What they take where those that are never live together share buffers, as they do when run. */
  readonly arenaBytes: number;
}

/** Every L0 edge (producer node → consumer node) has one. */
export interface Decision {
  readonly from: NodeId;
  readonly to: NodeId;
  readonly tensor: TensorId;
  readonly fused: boolean;
  readonly kernel?: string;
  /** How the edge moves data: one-to-one, one-to-many ×r, many-to-one, stencil, gather, view. */
  readonly edgeClass?: string;
  readonly verdicts: readonly Verdict[];
  /** One line for people. */
  readonly summary: string;
}

export interface ExpectationView {
  readonly text: string;
  readonly held: boolean;
  readonly actual: string;
  readonly range?: SourceRange;
}

/** A branch or a loop that stays: only the data says which body runs, or how often. */
export interface RegionView {
  /** The node that gives its results. */
  readonly id: NodeId;
  readonly kind: 'branch' | 'loop';
  /** The body that it is in itself. */
  readonly parent?: string;
  /** How often its body runs at most, with sizes at their profiling values; absent where only data says. */
  readonly trips?: number;
  readonly bodies: readonly {
    /** What nodes and kernels name as their `region`. */
    readonly id: string;
    /** For people: `Loop decode: body`. */
    readonly title: string;
    readonly nodes: readonly NodeId[];
    /** Of the plan without fusion, and of the one with it. Regions inside have their own. */
    readonly kernelsBefore: readonly string[];
    readonly kernels: readonly string[];
  }[];
}

/** A directive that asks something of the plan, weighed against the compiler's own choice. */
export interface OverrideView {
  readonly kind: 'fuse' | 'nofuse' | 'materialize' | 'recompute' | 'schedule';
  readonly text: string;
  /** Absent where it stands in a side file. */
  readonly range?: SourceRange;
  /** Of the whole plan, with this line and all others. */
  readonly estimatedUs: number;
  /** Of the plan made without this line and with all others; absent where the graph is too large to weigh so many lines. */
  readonly withoutUs?: number;
}

export interface CompileResult {
  readonly file: string;
  readonly format: 'fuse' | 'onnx';
  readonly version: number;
  readonly diagnostics: readonly Diagnostic[];
  readonly dims: Readonly<Record<string, number>>;
  readonly graph: {
    readonly name: string;
    readonly nodes: readonly NodeView[];
    readonly tensors: readonly TensorView[];
    readonly inputs: readonly TensorId[];
    readonly outputs: readonly { readonly name: string; readonly tensor: TensorId }[];
  };
  readonly before: PlanView;
  readonly after: PlanView;
  readonly decisions: readonly Decision[];
  /** Branches and loops that stay; absent where there are none. */
  readonly regions?: readonly RegionView[];
  readonly expectations: readonly ExpectationView[];
  readonly overrides: readonly OverrideView[];
  /** Whether the kernels can be run, and if not, why. */
  readonly runnable: { readonly ok: true } | { readonly ok: false; readonly reason: string };
  readonly device: DeviceProfile;
  /** Changes of the plan that were measured to be faster, as far as they were made. */
  readonly tunedPlans: readonly TunedPlan[];
  /** Milliseconds by stage, when the host gave a clock. */
  readonly stages: Readonly<Record<string, number>>;
}

/** What the cost model knows of an adapter. */
export interface DeviceProfile {
  readonly name: string;
  readonly source: 'measured' | 'shipped';
  readonly software: boolean;
  /** One empty dispatch in a plan, µs. */
  readonly launchUs: number;
  /** Bytes per µs (= MB/s / 1e0… 1 GB/s is 1000). */
  readonly bytesPerUs: number;
  /** f32 multiply-adds count as two; flops per µs. */
  readonly flopsPerUs: number;
  /** Invocations needed to reach those rates. */
  readonly saturatingThreads: number;
  /** What a load, an access to workgroup memory and a barrier cost an invocation, in units of one add. */
  readonly loadWork: number;
  readonly sharedAccessWork: number;
  readonly barrierWork: number;
  /** How much longer arithmetic takes in kernels with barriers: a CPU puts the values of each invocation aside there, and keeps fewer of them in registers all along. */
  readonly barrierFactor: number;
  /** 32-bit values that an invocation can have live before the compiler of the driver spills them to memory. */
  readonly registers: number;
  /** Cache that a working set may stay in between kernels, bytes. */
  readonly cacheBytes: number;
  /** Turns of a long sum that are written out together: 4, or 1 where the compiler can't keep so much in registers. */
  readonly unroll: number;
  /** Statements without a loop that an invocation runs at full speed; an access to memory counts as four. A CPU decodes what is beyond anew each time. */
  readonly straightCode: number;
  readonly limits: AdapterLimits;
}

/** The WebGPU limits and features that legality asks about; always the queried ones where an adapter is known. */
export interface AdapterLimits {
  readonly maxStorageBuffersPerShaderStage: number;
  readonly maxStorageBufferBindingSize: number;
  readonly maxBufferSize: number;
  readonly maxComputeWorkgroupStorageSize: number;
  readonly maxComputeInvocationsPerWorkgroup: number;
  readonly maxComputeWorkgroupSizeX: number;
  readonly maxComputeWorkgroupsPerDimension: number;
  readonly f16: boolean;
  readonly subgroups: boolean;
}

// ---------------------------------------------------------------------------------------------
// The decision log

/** One move of the fusion search, in order: which ops were put into one kernel, and what it was weighed against. */
export interface FusionStep {
  /** vertical: a producer into its consumer. sibling: two readers of one value. recompute: copies into each consumer. required: a `fuse` line. destination: operands of a concatenation stored where they belong in its result. horizontal: small independent kernels on one grid. */
  readonly kind: 'vertical' | 'sibling' | 'recompute' | 'required' | 'destination' | 'horizontal';
  readonly left: readonly NodeId[];
  readonly right: readonly NodeId[];
  /** What it gained by the model, µs. */
  readonly gainUs: number;
  /** The kernels as they were, and what they became, µs; absent where no template can run one of them. */
  readonly apartUs?: number;
  readonly togetherUs?: number;
  /** False for chains of elementwise ops, which are put together without comparing. */
  readonly weighed: boolean;
  /** Other merges of its kernels at that time: those that gain most first, then what is refused. */
  readonly alternatives: readonly FusionAlternative[];
  /** Alternatives that are not listed. */
  readonly more: number;
  /** The plan behind this step. */
  readonly kernels: number;
  readonly estimatedUs: number;
}

export interface FusionAlternative {
  readonly kind: 'vertical' | 'sibling';
  readonly left: readonly NodeId[];
  readonly right: readonly NodeId[];
  /** By the model, µs; absent where it is refused. */
  readonly gainUs?: number;
  readonly togetherUs?: number;
  /** The first reason against it. */
  readonly verdict?: Verdict;
  /** Whether a later step put the two into one kernel all the same. */
  readonly madeLater: boolean;
}

/** The plan behind one of the steps, as if the search had ended there. */
export interface PlanAtStep {
  /** Steps that were made. */
  readonly step: number;
  readonly plan: PlanView;
  /** As at the end, but for what is not fused yet. */
  readonly decisions: readonly Decision[];
}

// ---------------------------------------------------------------------------------------------
// What the runner gets

/** A buffer of an execution plan. */
export interface BufferSpec {
  readonly id: string;
  readonly name: string;
  readonly dtype: DType;
  readonly storage: Storage;
  readonly shape: readonly number[];
  readonly elements: number;
  /** Rounded up to 4; at least 4. */
  readonly bytes: number;
  /** `prepared`: stored once, by the dispatches of {@link ExecPlan.prepare}. */
  readonly role: 'input' | 'param' | 'const' | 'prepared' | 'intermediate' | 'output' | 'scratch';
  /**
   * Buffers with the same place share memory, as large as the largest of them: no two are live at
   * once. Only intermediates have one.
   */
  readonly place?: number;
  /** Contents of constants and of parameters the file has; absent: the runner makes them up from the seed. */
  readonly data?: BufferData;
  /** The L1 value it holds, by which it is verified and shared between plans; by default the one named as `id`, if there is one. */
  readonly value?: string;
  /** Made-up integers stay in [0, valueBound): they serve as indices. */
  readonly valueBound?: number;
  /** Made-up floats: about [-1, 1] around zero by default, or about 1 where a root or a logarithm is taken of them. */
  readonly distribution?: 'normal' | 'positive';
}

export type BufferData = ConstData;

export interface BindingSpec {
  readonly buffer: string;
  readonly access: 'read' | 'read_write';
  /** The bytes of the buffer that are bound; all of them by default. */
  readonly window?: { readonly offset: number; readonly bytes: number };
  /** What of the buffer the dispatch reads and stores, where several values lie in it; all of it otherwise. */
  readonly shares?: { readonly reads: readonly Share[]; readonly writes: readonly Share[] };
}

/** A value inside a buffer that has room for more. */
export interface Share {
  /** The L1 value that lies there, when the program has it: it is verified by itself. */
  readonly value?: string;
  readonly name: string;
  readonly shape: readonly number[];
  readonly elements: number;
  /**
   * From an element's number to its place in the buffer, step after step: the digits of the number by
   * `counts` (row-major), weighted by `strides`, and `offset`. No step: they are the same.
   */
  readonly steps: readonly {
    readonly counts: readonly number[];
    readonly strides: readonly number[];
    readonly offset: number;
  }[];
}

export interface DispatchSpec {
  /** The kernel of the plan it belongs to. */
  readonly kernel: string;
  readonly label: string;
  readonly wgsl: string;
  readonly entryPoint: 'main';
  /** binding i of group 0 is bindings[i]; storage, read or read_write. */
  readonly bindings: readonly BindingSpec[];
  /** When not empty: a uniform buffer of 32-bit integers at binding bindings.length, padded to 16 bytes. */
  readonly uniforms: readonly number[];
  readonly workgroups: readonly [number, number, number];
  /** One of several dispatches that do together what one would do, were there no limit on bindings: which, and of how many. */
  readonly chunk?: { readonly index: number; readonly count: number };
}

/** All of a buffer to another one. */
export interface CopyStep {
  readonly kind: 'copy';
  readonly from: string;
  readonly to: string;
  readonly bytes: number;
}

/** One of `rows` slices of a buffer, which are `bytes` long and lie one after the other. */
export interface SliceStep {
  readonly whole: string;
  readonly part: string;
  readonly bytes: number;
  readonly rows: number;
  /** The last one first. */
  readonly reverse: boolean;
}

/** What happens in a plan with branches or loops. Conditions and counts are read back by the host. */
export type ExecStep =
  | { readonly kind: 'dispatch'; readonly dispatch: number }
  | CopyStep
  | {
      readonly kind: 'branch';
      readonly region: NodeId;
      readonly condition: string;
      readonly then: readonly ExecStep[];
      readonly else: readonly ExecStep[];
    }
  | {
      readonly kind: 'loop';
      readonly region: NodeId;
      /** At most how often; without either, only the condition ends it. */
      readonly trips?: number;
      readonly tripsBuffer?: string;
      readonly condition?: string;
      /** Written before each iteration: its number, and that it runs. */
      readonly iteration?: string;
      readonly running?: string;
      readonly goesOn?: string;
      readonly start: readonly CopyStep[];
      /** Before the body: slices to the buffers that it reads. */
      readonly slices: readonly SliceStep[];
      readonly body: readonly ExecStep[];
      /** After the body: what it made, to slices. */
      readonly rows: readonly SliceStep[];
      readonly next: readonly CopyStep[];
      readonly end: readonly CopyStep[];
    };

export interface ExecPlan {
  /** Where there are branches or loops; absent: the dispatches run once, in order. */
  readonly steps?: readonly ExecStep[];
  readonly buffers: readonly BufferSpec[];
  /** What runs once, when weights are loaded, before all else. */
  readonly prepare?: readonly DispatchSpec[];
  readonly dispatches: readonly DispatchSpec[];
  /** Graph outputs: the buffer that holds each. */
  readonly outputs: readonly {
    readonly name: string;
    readonly buffer: string;
    readonly shape: readonly number[];
  }[];
}

/** Some kernels of a plan, to be run by themselves: what they read of others is an input. */
export interface PlanPart {
  readonly program: Program;
  readonly exec: ExecPlan;
}

/**
 * How many kernels the ops make one by one: one for each op that costs any (views and constants don't,
 * unless their result must be copied out). An op that no single kernel can hold counts as one here,
 * while the unfused plan, which is run, has several for it; an op without lowering has none in either plan.
 */
export function opsOneByOne(result: CompileResult): number {
  const ops = new Set<NodeId>();
  for (const k of result.before.kernels) for (const n of k.nodes) ops.add(n);
  return ops.size;
}
