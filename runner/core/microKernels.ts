/**
 * Hand-written kernels that each load one part of an adapter: nothing (what a dispatch costs by
 * itself), memory, multiply-adds, a single chain of them, workgroup memory, barriers.
 *
 * Trip counts and operands come as uniforms, so that no driver computes a loop when compiling; what a
 * loop computed is stored under a condition that never holds and that no driver can know to.
 */
import type { BufferSpec, DispatchSpec } from '../../compiler/result';
import type { PlanForRun } from './types';

export interface MicroKernel {
  readonly id: string;
  readonly wgsl: string;
  readonly reads: readonly string[];
  readonly writes: readonly string[];
  readonly workgroups: DispatchSpec['workgroups'];
  /** Up to four integers. */
  readonly uniforms: readonly number[];
}

const UNIFORM = (binding: number): string =>
  `@group(0) @binding(${binding}) var<uniform> p: vec4<i32>;`;
const RESULT = `@group(0) @binding(0) var<storage, read_write> y: array<f32>;`;
const MAIN = (size: number): string =>
  `@compute @workgroup_size(${size}) fn main(@builtin(global_invocation_id) id: vec3u, @builtin(local_invocation_index) local: u32)`;

/** Does nothing, and depends on the dispatch before it as the kernels of a plan do. */
export function emptyKernel(id: string): MicroKernel {
  return {
    id,
    wgsl: `${RESULT}
${UNIFORM(1)}
${MAIN(64)} {
  if (i32(id.x) == p.x) { y[0] = 1.0; }
}`,
    reads: [],
    writes: ['small'],
    workgroups: [1, 1, 1],
    uniforms: [-1, 0, 0, 0],
  };
}

/** Bytes that one workgroup of a copy moves: a copy is a multiple of this. */
export const COPY_GRAIN = 16 * 64;
/** Below the limit on workgroups in one dimension of every adapter. */
const ROW_OF_GROUPS = 1 << 15;

const copyGrid = (bytes: number): MicroKernel['workgroups'] => {
  const groups = bytes / COPY_GRAIN;
  const rows = Math.ceil(groups / ROW_OF_GROUPS);
  return [Math.ceil(groups / rows), rows, 1];
};

/** One vector an invocation, as generated pointwise kernels have it. */
const COPY_MAIN = (statement: string): string => `
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) grid: vec3u, @builtin(local_invocation_index) local: u32) {
  let i = i32((group.x + group.y * grid.x) * 64u + local);
  if (i >= p.x) { return; }
  ${statement}
}`;

/** Gives the copies something to read that wasn't sent over the bus. */
export function fillKernel(bytes: number): MicroKernel {
  return {
    id: 'fill',
    wgsl: `@group(0) @binding(0) var<storage, read_write> y: array<vec4f>;
${UNIFORM(1)}
${COPY_MAIN('y[i] = vec4f(f32(i));')}`,
    reads: [],
    writes: ['x'],
    workgroups: copyGrid(bytes),
    uniforms: [bytes / 16, 0, 0, 0],
  };
}

/** Reads and writes `bytes` each, as vectors of four. */
export function copyKernel(bytes: number): MicroKernel {
  return {
    id: `copy ${bytes}`,
    wgsl: `@group(0) @binding(0) var<storage, read> x: array<vec4f>;
@group(0) @binding(1) var<storage, read_write> y: array<vec4f>;
${UNIFORM(2)}
${COPY_MAIN('y[i] = x[i];')}`,
    reads: ['x'],
    writes: ['y'],
    workgroups: copyGrid(bytes),
    uniforms: [bytes / 16, 0, 0, 0],
  };
}

export const WORKGROUP = 64;
const CHAINS = 4;
const UNROLLED = 4;
/** Operations on floats in one trip of {@link multiplyAddKernel}'s loop. */
export const MULTIPLY_ADD_FLOPS = 2 * 4 * CHAINS * UNROLLED;

/** Independent chains of multiply-adds on vectors, in registers alone. */
export function multiplyAddKernel(threads: number, trips: number): MicroKernel {
  const chains = Array.from({ length: CHAINS }, (_, c) => c);
  const step = chains.map((c) => `    a${c} = fma(a${c}, m, b);`).join('\n');
  return {
    id: 'multiply-add',
    wgsl: `${RESULT}
${UNIFORM(1)}
${MAIN(WORKGROUP)} {
  let m = vec4f(f32(p.y) * 0.001);
  let b = vec4f(f32(p.z) * 0.001);
${chains.map((c) => `  var a${c} = vec4f(f32(id.x) + ${c}.0);`).join('\n')}
  for (var k = 0; k < p.x; k++) {
${Array.from({ length: UNROLLED }, () => step).join('\n')}
  }
  let s = ${chains.map((c) => `a${c}`).join(' + ')};
  if (s.x + s.y + s.z + s.w == 12345.678) { y[0] = s.x; }
}`,
    reads: [],
    writes: ['small'],
    workgroups: [threads / WORKGROUP, 1, 1],
    uniforms: [trips, 999, 1, 0],
  };
}

/** Operations on floats in one trip of {@link chainKernel}'s loop. */
export const CHAIN_FLOPS = 2 * 4;

/** One chain of multiply-adds an invocation, as a reduction has: waiting is hidden by other invocations alone. */
export function chainKernel(threads: number, trips: number): MicroKernel {
  return {
    id: `chain ${threads}`,
    wgsl: `${RESULT}
${UNIFORM(1)}
${MAIN(WORKGROUP)} {
  let m = f32(p.y) * 0.001;
  let b = f32(p.z) * 0.001;
  var a = f32(id.x);
  for (var k = 0; k < p.x; k++) {
    a = fma(a, m, b);
    a = fma(a, m, b);
    a = fma(a, m, b);
    a = fma(a, m, b);
  }
  if (a == 12345.678) { y[0] = a; }
}`,
    reads: [],
    writes: ['small'],
    workgroups: [threads / WORKGROUP, 1, 1],
    uniforms: [trips, 999, 1, 0],
  };
}

/** Accesses to workgroup memory in one trip of the `shared` kernel's loop. */
export const SHARED_ACCESSES = 2;

/**
 * A loop that is the same in each kind but for what it is to show: nothing, a store to and a load from
 * workgroup memory, or a barrier. Invocations keep to cells of their own, so nothing races.
 */
export function sharedKernel(
  kind: 'base' | 'shared' | 'barrier',
  threads: number,
  trips: number,
): MicroKernel {
  const cells = 8;
  const body = {
    base: 'a = fma(a, m, f32(i + j));',
    shared: `w[at + i] = a;
    a = fma(w[at + j], m, f32(i + j));`,
    barrier: `a = fma(a, m, f32(i + j));
    workgroupBarrier();`,
  }[kind];
  return {
    id: kind,
    wgsl: `${RESULT}
${UNIFORM(1)}
var<workgroup> w: array<f32, ${WORKGROUP * cells}>;
${MAIN(WORKGROUP)} {
  let m = f32(p.y) * 0.001;
  let at = i32(local) * ${cells};
  var a = f32(id.x);
  w[at] = a;
  for (var k = 0; k < p.x; k++) {
    let i = k & ${cells - 1};
    let j = (k * 5 + p.z) & ${cells - 1};
    ${body}
  }
  if (a + w[at] == 12345.678) { y[0] = a; }
}`,
    reads: [],
    writes: ['small'],
    workgroups: [threads / WORKGROUP, 1, 1],
    uniforms: [trips, 999, 1, 0],
  };
}

/** The kernels as one plan, in order. `large` is the size of the buffers that are copied. */
export function microPlan(kernels: readonly MicroKernel[], large: number): PlanForRun {
  const used = new Set(kernels.flatMap((k) => [...k.reads, ...k.writes]));
  const buffers = [...used].map((id) => buffer(id, id === 'small' ? 256 : large));
  const dispatches = kernels.map((k): DispatchSpec => ({
    kernel: k.id,
    label: k.id,
    wgsl: k.wgsl,
    entryPoint: 'main',
    bindings: [
      ...k.reads.map((b) => ({ buffer: b, access: 'read' as const })),
      ...k.writes.map((b) => ({ buffer: b, access: 'read_write' as const })),
    ],
    uniforms: k.uniforms,
    workgroups: k.workgroups,
  }));
  return {
    exec: { buffers, dispatches, outputs: [] },
    kernels: [...new Set(kernels.map((k) => k.id))].map((id) => ({
      id,
      hash: id,
      nodes: [],
      bytes: 0,
      flops: 0,
      estimatedUs: 0,
    })),
  };
}

function buffer(id: string, bytes: number): BufferSpec {
  return {
    id,
    name: id,
    dtype: 'f32',
    storage: 'f32',
    shape: [bytes / 4],
    elements: bytes / 4,
    bytes,
    role: 'scratch',
  };
}
