// Hand-made compile results for the graph panel: a small builder with honest byte and flop counts,
// and a few graphs made with it. Nothing here runs the compiler.

import type {
  CompileResult,
  Decision,
  DeviceProfile,
  KernelView,
  NodeKind,
  NodeView,
  PlanView,
  ShownDim,
  TensorView,
} from '../../../compiler/result';
import type { Pattern, Verdict } from '../../../compiler/fusion/verdicts';
import type { DType } from '../../../compiler/graph/dtype';
import type { KernelTime, PlanTimes, ProfileResult } from '../../../runner/core/types';

export const device: DeviceProfile = {
  name: 'NVIDIA GeForce RTX 3060',
  source: 'measured',
  software: false,
  launchUs: 4,
  bytesPerUs: 320_000,
  flopsPerUs: 9_000_000,
  saturatingThreads: 43_008,
  sharedAccessWork: 2,
  barrierWork: 40,
  barrierFactor: 1,
  registers: 128,
  cacheBytes: 3 * 1024 * 1024,
  unroll: 4,
  straightCode: 4096,
  loadWork: 3,
  limits: {
    maxStorageBuffersPerShaderStage: 8,
    maxStorageBufferBindingSize: 134_217_728,
    maxBufferSize: 268_435_456,
    maxComputeWorkgroupStorageSize: 16_384,
    maxComputeInvocationsPerWorkgroup: 256,
    maxComputeWorkgroupSizeX: 256,
    maxComputeWorkgroupsPerDimension: 65_535,
    f16: false,
    subgroups: true,
  },
};

interface OpOptions {
  name?: string;
  shape?: readonly ShownDim[];
  dtype?: DType;
  kind?: NodeKind;
  attrs?: string;
  flops?: number;
  unsupported?: string;
}

const dimOf = (dim: ShownDim): number => (typeof dim === 'number' ? dim : 64);
const BYTES: Partial<Record<DType, number>> = { f16: 2, bf16: 2, i64: 8, f64: 8, u8: 1, bool: 1 };

export class FixtureBuilder {
  readonly nodes: NodeView[] = [];
  readonly tensors = new Map<string, TensorView>();
  private readonly inputs: string[] = [];
  private readonly outputs: { name: string; tensor: string }[] = [];
  private readonly kernels: { pattern: Pattern; nodes: string[]; more: Partial<KernelView> }[] = [];
  private readonly rejected = new Map<string, Verdict[]>();
  private line = 4;

  constructor(private readonly file = 'model.fuse') {}

  private tensor(
    name: string,
    dtype: DType,
    shape: readonly ShownDim[],
    role: TensorView['role'],
  ): string {
    const id = `v${this.tensors.size}`;
    const elements = shape.reduce<number>((product, dim) => product * dimOf(dim), 1);
    const bytes = elements * (BYTES[dtype] ?? 4);
    this.tensors.set(id, { id, name, dtype, shape, elements, bytes, role });
    return id;
  }

  input(name: string, shape: readonly ShownDim[], dtype: DType = 'f32'): string {
    const id = this.tensor(name, dtype, shape, 'input');
    this.inputs.push(id);
    return id;
  }

  param(name: string, shape: readonly ShownDim[], dtype: DType = 'f32'): string {
    return this.tensor(name, dtype, shape, 'param');
  }

  constant(name: string, shape: readonly ShownDim[] = []): string {
    return this.tensor(name, 'f32', shape, 'const');
  }

  /** Adds an op with one result of the shape of its first operand, or as told. */
  op(op: string, operands: readonly (string | undefined)[], options: OpOptions = {}): string {
    const id = `n${this.nodes.length}`;
    const first = operands.map((t) => t && this.tensors.get(t)).find((t) => t);
    const model = typeof first === 'object' ? first : undefined;
    const name = options.name ?? `${op}_${this.nodes.length}`;
    const shape = options.shape ?? model?.shape ?? [];
    const result = this.tensor(name, options.dtype ?? model?.dtype ?? 'f32', shape, 'result');
    const elements = this.tensors.get(result)?.elements ?? 0;
    const line = this.line++;
    this.nodes.push({
      id,
      op,
      sourceOp: op,
      name,
      kind: options.kind ?? 'compute',
      operands,
      results: [result],
      attrs: options.attrs ?? '',
      flops: options.flops ?? (options.kind === 'view' ? 0 : elements),
      range: { start: { line, column: 0 }, end: { line, column: 20 } },
      ...(options.unsupported === undefined ? {} : { unsupported: options.unsupported }),
    });
    return result;
  }

  output(tensor: string, name = this.tensors.get(tensor)?.name ?? ''): void {
    this.outputs.push({ name, tensor });
  }

  producer(tensor: string): string {
    return this.nodes.find((node) => node.results.includes(tensor))?.id ?? tensor;
  }

  /** Fuses the producers of these tensors. */
  kernel(pattern: Pattern, tensors: readonly string[], more: Partial<KernelView> = {}): void {
    this.kernels.push({ pattern, nodes: tensors.map((t) => this.producer(t)), more });
  }

  /** The edge from this tensor to the op that makes the other is not fused, because. */
  reject(tensor: string, consumer: string, ...verdicts: readonly Omit<Verdict, 'nodes'>[]): void {
    const to = this.producer(consumer);
    const nodes = [this.producer(tensor), to];
    this.rejected.set(
      `${tensor}>${to}`,
      verdicts.map((verdict) => ({ ...verdict, nodes })),
    );
  }

  private makeKernel(
    id: string,
    pattern: Pattern,
    nodes: readonly NodeView[],
    more: Partial<KernelView> = {},
  ): KernelView {
    const inside = new Set(nodes.map((node) => node.id));
    const made = new Set(nodes.flatMap((node) => node.results));
    const read = new Set(
      nodes.flatMap((node) => node.operands.filter((t): t is string => t !== undefined)),
    );
    const inputs = [...read].filter((t) => !made.has(t));
    const outputs = [...made].filter(
      (t) =>
        this.outputs.some((out) => out.tensor === t) ||
        this.nodes.some((node) => !inside.has(node.id) && node.operands.includes(t)),
    );
    const bytes = (ids: readonly string[]) =>
      ids.reduce((sum, t) => sum + (this.tensors.get(t)?.bytes ?? 0), 0);
    const flops = nodes.reduce((sum, node) => sum + node.flops, 0);
    const memoryUs = (bytes(inputs) + bytes(outputs)) / device.bytesPerUs;
    const computeUs = flops / device.flopsPerUs;
    return {
      id,
      hash: `h${nodes.map((node) => node.op).join('-')}-${nodes[0]?.id ?? ''}`,
      structure: `s${nodes.map((node) => node.op).join('-')}-${nodes[0]?.id ?? ''}`,
      label: nodes.map((node) => node.op).join(' + '),
      pattern,
      template: nodes.some((n) => /matmul|linear|conv/.test(n.op))
        ? 'contraction'
        : nodes.some((n) => /softmax|norm|sum|mean/.test(n.op))
          ? 'row-reduce'
          : 'loop',
      nodes: nodes.map((node) => node.id),
      inputs,
      outputs,
      bytesRead: bytes(inputs),
      bytesWritten: bytes(outputs),
      flops,
      estimatedUs: device.launchUs + Math.max(memoryUs, computeUs),
      bound: computeUs > memoryUs ? 'compute' : memoryUs < device.launchUs ? 'launch' : 'memory',
      dispatches: 1,
      savedBytes: 0,
      savedLaunches: nodes.length - 1,
      estimatedUnfusedUs: 0,
      notes: [],
      workgroup: [64, 1, 1],
      grid: [1024, 1, 1],
      registers: 12,
      schedule: { vector: 4, workgroup: 64 },
      ...more,
    };
  }

  build(): CompileResult {
    const fusedNodes = new Set(this.kernels.flatMap((kernel) => kernel.nodes));
    const groups = [
      ...this.kernels,
      ...this.nodes
        .filter((node) => node.kind === 'compute' && !fusedNodes.has(node.id))
        .map((node): { pattern: Pattern; nodes: string[]; more: Partial<KernelView> } => ({
          pattern: 'single',
          nodes: [node.id],
          more: {},
        })),
    ].sort((a, b) => this.indexOf(a.nodes.at(-1)) - this.indexOf(b.nodes.at(-1)));
    const before = this.nodes
      .filter((node) => node.kind === 'compute')
      .map((node, i) => this.makeKernel(`b${i}`, 'single', [node]));
    const alone = new Map(before.map((kernel) => [kernel.nodes[0], kernel]));
    const after = groups.map(({ pattern, nodes, more }, i) => {
      const views = this.nodes.filter((node) => nodes.includes(node.id));
      const kernel = this.makeKernel(`k${i}`, pattern, views, more);
      const singles = nodes.map((id) => alone.get(id)).filter((k) => k !== undefined);
      const sum = (f: (k: KernelView) => number) => singles.reduce((s, k) => s + f(k), 0);
      return {
        ...kernel,
        savedBytes:
          sum((k) => k.bytesRead + k.bytesWritten) - kernel.bytesRead - kernel.bytesWritten,
        savedLaunches: singles.length - 1,
        estimatedUnfusedUs: sum((k) => k.estimatedUs),
      };
    });
    const kernelOf = new Map<string, string>();
    for (const kernel of after)
      for (const node of kernel.nodes) if (!kernelOf.has(node)) kernelOf.set(node, kernel.id);
    const nodes = this.nodes.map((node) => {
      const kernel = kernelOf.get(node.id);
      return kernel === undefined ? node : { ...node, kernel };
    });
    return {
      file: this.file,
      format: this.file.endsWith('.onnx') ? 'onnx' : 'fuse',
      version: 1,
      diagnostics: [],
      dims: { B: 64 },
      graph: {
        name: this.file.replace(/\..*/, ''),
        nodes,
        tensors: [...this.tensors.values()],
        inputs: this.inputs,
        outputs: this.outputs,
      },
      before: plan(before),
      after: plan(after),
      decisions: this.decisions(after),
      overrides: [],
      expectations: [],
      runnable: { ok: true },
      device,
      tunedPlans: [],
      stages: {},
    };
  }

  private indexOf(node: string | undefined): number {
    return this.nodes.findIndex(({ id }) => id === node);
  }

  private decisions(kernels: readonly KernelView[]): readonly Decision[] {
    return this.nodes.flatMap((node) =>
      [...new Set(node.operands)]
        .filter((t): t is string => t !== undefined)
        .map((tensor): Decision => {
          const from = this.producer(tensor);
          const shared = kernels.find((k) => k.nodes.includes(from) && k.nodes.includes(node.id));
          const verdicts = this.rejected.get(`${tensor}>${node.id}`) ?? [];
          const first = verdicts[0];
          const base = { from, to: node.id, tensor, edgeClass: 'one-to-one' };
          if (shared)
            return {
              ...base,
              fused: true,
              kernel: shared.id,
              verdicts: [],
              summary: `fused in ${shared.id}`,
            };
          const summary = first ? `${first.code}: ${first.message}` : 'read from memory';
          return { ...base, fused: false, verdicts, summary };
        }),
    );
  }
}

function plan(kernels: readonly KernelView[]): PlanView {
  const sum = (f: (k: KernelView) => number) => kernels.reduce((s, k) => s + f(k), 0);
  return {
    kernels,
    bytesRead: sum((k) => k.bytesRead),
    bytesWritten: sum((k) => k.bytesWritten),
    flops: sum((k) => k.flops),
    estimatedUs: sum((k) => k.estimatedUs),
    intermediateBytes: 0,
    arenaBytes: 0,
    peakBytes: kernels.reduce((most, k) => Math.max(most, k.bytesRead + k.bytesWritten), 0),
  };
}

const sync: Omit<Verdict, 'nodes'> = {
  code: 'NEEDS_GLOBAL_SYNC',
  message:
    'matmul reads all 1,024 columns of this value for each result, and a WGSL kernel can’t wait for other workgroups.',
  quantity: 1024,
  limit: 1,
  unit: 'elements per result',
  limitSource: 'WGSL: no grid-wide barrier',
  counterfactual: 'would fuse if one workgroup could hold the whole row tile: 256 KiB of 16 KiB',
  confidence: 'proved',
};

/** A transformer block's MLP with attention in front: every kind of kernel, some refusals. */
export function transformer(): CompileResult {
  const b = new FixtureBuilder('block.fuse');
  const x = b.input('x', ['B', 128, 1024]);
  const mask = b.input('mask', ['B', 1, 128, 128]);
  const g1 = b.param('ln1.weight', [1024]);
  const wqkv = b.param('attn.qkv.weight', [1024, 3072]);
  const wo = b.param('attn.proj.weight', [1024, 1024]);
  const bo = b.param('attn.proj.bias', [1024]);
  const g2 = b.param('ln2.weight', [1024]);
  const w1 = b.param('mlp.fc1.weight', [1024, 4096]);
  const b1 = b.param('mlp.fc1.bias', [4096]);
  const w2 = b.param('mlp.fc2.weight', [4096, 1024]);
  const b2 = b.param('mlp.fc2.bias', [1024]);
  const t = ['B', 128, 1024] as const;
  const mm = (k: number, n: number) => ({ flops: 2 * 64 * 128 * k * n });

  const h1 = b.op('layer_norm', [x, g1], { name: 'h1', attrs: 'axis=-1, eps=1e-5' });
  const qkv = b.op('matmul', [h1, wqkv], {
    name: 'qkv',
    shape: ['B', 128, 3072],
    ...mm(1024, 3072),
  });
  const heads = ['B', 16, 128, 64] as const;
  const q = b.op('slice', [qkv], { name: 'q', shape: heads, kind: 'view' });
  const k = b.op('slice', [qkv], { name: 'k', shape: ['B', 16, 64, 128], kind: 'view' });
  const v = b.op('slice', [qkv], { name: 'v', shape: heads, kind: 'view' });
  const s = b.op('matmul', [q, k], {
    name: 'scores',
    shape: ['B', 16, 128, 128],
    flops: 2 * 64 * 16 * 128 * 128 * 64,
  });
  const sm = b.op('add', [s, mask], { name: 'masked' });
  const p = b.op('softmax', [sm], { name: 'p', attrs: 'axis=-1' });
  const o = b.op('matmul', [p, v], {
    name: 'ctx',
    shape: heads,
    flops: 2 * 64 * 16 * 128 * 128 * 64,
  });
  const flat = b.op('reshape', [o], { name: 'ctx_flat', shape: t, kind: 'view' });
  const proj = b.op('matmul', [flat, wo], { name: 'proj', shape: t, ...mm(1024, 1024) });
  const projb = b.op('add', [proj, bo], { name: 'proj_b' });
  const r1 = b.op('add', [projb, x], { name: 'r1' });
  const h2 = b.op('layer_norm', [r1, g2], { name: 'h2', attrs: 'axis=-1, eps=1e-5' });
  const f1 = b.op('matmul', [h2, w1], { name: 'f1', shape: ['B', 128, 4096], ...mm(1024, 4096) });
  const f1b = b.op('add', [f1, b1], { name: 'f1_b' });
  const act = b.op('gelu', [f1b], { name: 'act', attrs: 'approximate=tanh' });
  const f2 = b.op('matmul', [act, w2], { name: 'f2', shape: t, ...mm(4096, 1024) });
  const f2b = b.op('add', [f2, b2], { name: 'f2_b' });
  const y = b.op('add', [f2b, r1], { name: 'y' });
  const stat = b.op('mean', [y], { name: 'y_mean', shape: ['B', 128], attrs: 'axis=-1' });
  b.output(y);
  b.output(stat);

  b.kernel('single', [h1]);
  b.kernel('attention', [q, k, v, s, sm, p, o]);
  b.kernel('epilogue', [flat, proj, projb, r1]);
  b.kernel('single', [h2]);
  b.kernel('epilogue', [f1, f1b, act]);
  b.kernel('multi-output', [f2, f2b, y, stat], {
    notes: [
      {
        code: 'COMPUTE_BOUND',
        nodes: [b.producer(f2)],
        quantity: 683,
        limit: 28,
        unit: 'flop/B',
        limitSource: 'device profile',
        message:
          'The matmul does 683 flops per byte; this adapter balances at 28, so saving memory traffic gains little.',
        confidence: 'modelled',
      },
    ],
  });
  b.reject(h1, qkv, sync, {
    code: 'COMPUTE_BOUND',
    message: 'qkv is bound by arithmetic (768 flop/B): the saved 32.0 MiB would not shorten it.',
    quantity: 768,
    limit: 28,
    unit: 'flop/B',
    limitSource: 'cost model',
    confidence: 'modelled',
  });
  b.reject(h2, f1, sync);
  b.reject(act, f2, {
    code: 'RECOMPUTE',
    message:
      'Each of the 1,024 columns of f2 would compute gelu(f1 + b1) again: 16 × 10⁹ more flops.',
    quantity: 1024,
    limit: 4,
    unit: '× recomputed',
    limitSource: 'cost model',
    counterfactual: 'would fuse if a workgroup kept the row: 16 KiB × 64 rows of 16 KiB',
    confidence: 'modelled',
  });
  b.reject(r1, h2, {
    code: 'MODEL_SLOWER',
    message: 'A matmul epilogue that also normalises rows needs one workgroup per 1,024 columns.',
    quantity: 211,
    limit: 143,
    unit: 'µs',
    limitSource: 'cost model',
    confidence: 'modelled',
  });
  return b.build();
}

/** The example of every fusion tutorial. */
export function mlp(): CompileResult {
  const b = new FixtureBuilder('mlp.fuse');
  const x = b.input('x', ['B', 1024]);
  const w = b.param('w', [1024, 1024]);
  const bias = b.param('bias', [1024]);
  const a = b.op('matmul', [x, w], { name: 'a', shape: ['B', 1024], flops: 2 * 64 * 1024 * 1024 });
  const s = b.op('add', [a, bias], { name: '' });
  const r = b.op('relu', [s], { name: '' });
  const y = b.op('layer_norm', [r], { name: 'y', attrs: 'axis=-1' });
  b.output(y);
  b.kernel('epilogue', [a, s, r]);
  b.kernel('single', [y]);
  b.reject(r, y, sync);
  return b.build();
}

/** Like a real network: `blocks` blocks of 12 ops, two kernels each. */
export function deep(blocks: number): CompileResult {
  const b = new FixtureBuilder('deep.onnx');
  let x = b.input('image', [8, 64, 56, 56]);
  for (let i = 0; i < blocks; i++) {
    const w1 = b.param(`block.${i}.conv1.weight`, [64, 64, 3, 3]);
    const w2 = b.param(`block.${i}.conv2.weight`, [64, 64, 3, 3]);
    const skip = x;
    const ops = (w: string, names: readonly string[]) => {
      const made: string[] = [];
      x = b.op('conv2d', [x, w], { name: `/block.${i}/Conv`, flops: 1e9 });
      made.push(x);
      for (const op of names) {
        x = b.op(op, [x], { name: `/block.${i}/${op}` });
        made.push(x);
      }
      return made;
    };
    b.kernel('epilogue', ops(w1, ['batch_norm', 'mul', 'add', 'sigmoid', 'relu']));
    const second = ops(w2, ['batch_norm', 'mul', 'sub', 'clamp']);
    x = b.op('add', [x, skip], { name: `/block.${i}/Add` });
    b.kernel('epilogue', [...second, x]);
  }
  b.output(x, 'features');
  return b.build();
}

/** What breaks viewers: no names, endless names, markup in names, doubled operands, lonely nodes. */
export function odd(): CompileResult {
  const b = new FixtureBuilder('odd.fuse');
  let a = b.input('<b>"a" & \'b\'</b>', [16, 16]);
  const lonely = b.input('lonely', [1]);
  for (let i = 0; i < 100; i++) a = b.op('add', [a, a], { name: i === 50 ? 'n'.repeat(500) : '' });
  const orphan = b.op('frobnicate', [lonely], {
    name: '',
    kind: 'opaque',
    unsupported: 'There is no op “frobnicate”.',
  });
  b.op('exp', [orphan], { name: 'dead', kind: 'dead' });
  b.output(a, '');
  b.kernel(
    'pointwise',
    b.nodes.filter((node) => node.op === 'add').flatMap((node) => node.results),
  );
  return b.build();
}

export function empty(): CompileResult {
  return new FixtureBuilder('empty.fuse').build();
}

/** Measured times near the estimates, one kernel far off. */
export function profileOf(result: CompileResult, software = false): ProfileResult {
  const times = (planned: PlanView): PlanTimes => {
    const kernels = planned.kernels.map((kernel, i): KernelTime => {
      const medianUs = kernel.estimatedUs * (i === 1 ? 2.7 : 0.9 + ((i * 7) % 5) * 0.08);
      const bytes = kernel.bytesRead + kernel.bytesWritten;
      return {
        id: kernel.id,
        hash: kernel.hash,
        nodes: kernel.nodes,
        medianUs,
        minUs: medianUs * 0.94,
        spreadUs: medianUs * 0.02,
        samples: 120,
        bytes,
        flops: kernel.flops,
        gbps: bytes / medianUs / 1000,
        gflops: kernel.flops / medianUs / 1000,
        estimatedUs: kernel.estimatedUs,
      };
    });
    const totalUs = kernels.reduce((sum, kernel) => sum + kernel.medianUs, 0);
    return { kernels, totalUs, wallUs: totalUs * 1.04, wallSpreadUs: totalUs * 0.01 };
  };
  const unfused = times(result.before);
  const fused = times(result.after);
  return {
    adapter: {
      vendor: software ? 'google' : 'nvidia',
      architecture: software ? 'swiftshader' : 'ampere',
      description: software ? 'SwiftShader Device (LLVM 10.0.0)' : 'NVIDIA GeForce RTX 3060',
      software,
      host: 'workstation',
      runner: 'node',
      timestampQuantumUs: 1,
    },
    unfused,
    fused,
    speedup: unfused.wallUs / fused.wallUs,
    verification: {
      ok: true,
      outputs: result.graph.outputs.map(({ name }) => ({
        name,
        maxAbsErr: 3.1e-6,
        maxRelErr: 8.2e-7,
        unfusedMaxRelErr: 9.1e-7,
        tolerance: 1.8e-6,
        ok: true,
      })),
      kernels: [],
    },
    iterations: 120,
    seed: 1,
    compileMs: 84,
    notes: ['WGSL may contract multiply and add: bit equality is not promised.'],
  };
}
