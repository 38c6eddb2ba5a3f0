// Results as the compiler makes them, small enough to read: x → matmul → add → relu | softmax.

import type {
  CompileResult,
  Decision,
  DeviceProfile,
  KernelView,
  NodeView,
  TensorView,
} from '../../../compiler/result';
import type { ProfileResult } from '../../../runner/core/types';

const device: DeviceProfile = {
  name: 'test',
  source: 'shipped',
  software: false,
  launchUs: 5,
  bytesPerUs: 100_000,
  flopsPerUs: 1e6,
  saturatingThreads: 8192,
  sharedAccessWork: 2,
  barrierWork: 40,
  barrierFactor: 1,
  registers: 128,
  cacheBytes: 0,
  unroll: 4,
  straightCode: 4096,
  loadWork: 3,
  limits: {
    maxStorageBuffersPerShaderStage: 8,
    maxStorageBufferBindingSize: 2 ** 27,
    maxBufferSize: 2 ** 28,
    maxComputeWorkgroupStorageSize: 16384,
    maxComputeInvocationsPerWorkgroup: 256,
    maxComputeWorkgroupSizeX: 256,
    maxComputeWorkgroupsPerDimension: 65535,
    f16: false,
    subgroups: false,
  },
};

export function tensor(name: string, more: Partial<TensorView> = {}): TensorView {
  return {
    id: name,
    name,
    dtype: 'f32',
    shape: ['B', 1024],
    elements: 65536,
    bytes: 262144,
    role: 'result',
    ...more,
  };
}

/** An op of its own line, with one result of its name. */
export function node(
  op: string,
  name: string,
  operands: readonly string[],
  line: number,
  more: Partial<NodeView> = {},
): NodeView {
  return {
    id: `${name}#${op}`,
    op,
    sourceOp: op,
    name,
    kind: 'compute',
    operands,
    results: [name],
    attrs: '',
    flops: 1000,
    range: { start: { line, column: 4 }, end: { line, column: 4 + op.length } },
    ...more,
  };
}

export function kernel(
  id: string,
  nodes: readonly string[],
  more: Partial<KernelView> = {},
): KernelView {
  return {
    id,
    hash: `hash-${nodes.join('+')}`,
    structure: `structure-${nodes.join('+')}`,
    label: nodes.map((n) => n.replace(/^.*#/, '')).join(' + '),
    pattern: nodes.length > 1 ? 'epilogue' : 'single',
    template: 'contraction',
    nodes,
    inputs: [],
    outputs: [],
    bytesRead: 1024,
    bytesWritten: 1024,
    flops: 1000,
    estimatedUs: 38,
    bound: 'memory',
    dispatches: 1,
    savedBytes: 0,
    savedLaunches: 0,
    estimatedUnfusedUs: 60,
    notes: [],
    workgroup: [64, 1, 1],
    grid: [1, 1, 1],
    schedule: {},
    registers: 12,
    ...more,
  };
}

export const decisions: readonly Decision[] = [
  {
    from: 'a#matmul',
    to: 'b#add',
    tensor: 'a',
    fused: true,
    kernel: 'k0',
    verdicts: [],
    summary: 'fused in k0',
  },
  {
    from: 'c#relu',
    to: 'y#softmax',
    tensor: 'c',
    fused: false,
    summary: 'kept apart',
    verdicts: [
      {
        code: 'MODEL_SLOWER',
        nodes: [],
        message: 'It would be slower.',
        confidence: 'modelled',
      },
      {
        code: 'NEEDS_GLOBAL_SYNC',
        nodes: [],
        message: 'softmax needs the whole row first; rows span 4 workgroups.',
        counterfactual: 'would fuse if a row had at most 256 elements',
        limitSource: 'adapter: maxComputeInvocationsPerWorkgroup',
        confidence: 'proved',
      },
    ],
  },
];

export function result(more: Partial<CompileResult> = {}): CompileResult {
  const nodes = [
    node('matmul', 'a', ['x', 'w'], 3),
    node('add', 'b', ['a'], 4),
    node('relu', 'c', ['b'], 4, { id: 'c#relu' }),
    node('softmax', 'y', ['c'], 5),
  ];
  const plan = {
    bytesRead: 1,
    bytesWritten: 1,
    flops: 1,
    peakBytes: 1,
    intermediateBytes: 0,
    arenaBytes: 0,
  };
  return {
    file: 'graph.fuse',
    format: 'fuse',
    version: 1,
    diagnostics: [],
    dims: { B: 64 },
    graph: {
      name: 'graph',
      nodes,
      tensors: [
        tensor('x', {
          role: 'input',
          range: { start: { line: 0, column: 6 }, end: { line: 0, column: 7 } },
        }),
        tensor('w', { role: 'param' }),
        ...['a', 'b', 'c', 'y'].map((name) => tensor(name)),
      ],
      inputs: ['x'],
      outputs: [{ name: 'y', tensor: 'y' }],
    },
    before: {
      ...plan,
      estimatedUs: 124,
      kernels: nodes.map(({ id }, i) => kernel(`b${i}`, [id])),
    },
    after: {
      ...plan,
      estimatedUs: 40,
      kernels: [
        kernel('k0', ['a#matmul', 'b#add', 'c#relu'], {
          savedBytes: 12 * 2 ** 20,
          savedLaunches: 2,
        }),
        kernel('k1', ['y#softmax']),
      ],
    },
    decisions,
    overrides: [],
    expectations: [],
    runnable: { ok: true },
    device,
    tunedPlans: [],
    stages: {},
    ...more,
  };
}

export function profile(software = false): ProfileResult {
  const time = (id: string, hash: string, medianUs: number) => ({
    id,
    hash,
    nodes: [],
    medianUs,
    minUs: medianUs,
    spreadUs: 1,
    samples: 10,
    bytes: 2048,
    flops: 1000,
    gbps: 120,
    gflops: 3,
    estimatedUs: 38,
  });
  return {
    adapter: {
      vendor: 'acme',
      architecture: 'one',
      description: software ? 'SwiftShader' : 'Acme One',
      software,
      host: 'devbox',
      runner: 'node',
      timestampQuantumUs: 0,
    },
    unfused: {
      kernels: result().before.kernels.map(({ id, hash }) => time(id, hash, 30)),
      totalUs: 120,
      wallUs: 140,
      wallSpreadUs: 1,
    },
    fused: {
      kernels: [time('k0', 'hash-a#matmul+b#add+c#relu', 41.2), time('k1', 'hash-y#softmax', 7)],
      totalUs: 48,
      wallUs: 50,
      wallSpreadUs: 1,
    },
    speedup: 2.8,
    verification: { ok: true, outputs: [], kernels: [] },
    iterations: 10,
    seed: 1,
    compileMs: 5,
    notes: [],
  };
}
