/** Hand-written plans for tests of the runner: kernels whose right results are known. */
import type { BufferSpec, DispatchSpec, ExecPlan } from '../../compiler/result';
import type { CancelSignal, PlanForRun, ProfileJob } from '../../runner/core';
import { binary, constant, load } from '../../compiler/ir/expr';
import { Builder } from '../unit/reference/programs';

export function f32(
  id: string,
  shape: readonly number[],
  role: BufferSpec['role'],
  more: Partial<BufferSpec> = {},
): BufferSpec {
  const elements = shape.reduce((a, b) => a * b, 1);
  const bytes = Math.max(4, 4 * elements);
  return { id, name: id, dtype: 'f32', storage: 'f32', shape, elements, bytes, role, ...more };
}

export function dispatch(
  kernel: string,
  wgsl: string,
  reads: readonly string[],
  writes: readonly string[],
  workgroups: readonly [number, number, number],
  uniforms: readonly number[] = [],
): DispatchSpec {
  return {
    kernel,
    label: kernel,
    wgsl,
    entryPoint: 'main',
    bindings: [
      ...reads.map((buffer) => ({ buffer, access: 'read' as const })),
      ...writes.map((buffer) => ({ buffer, access: 'read_write' as const })),
    ],
    uniforms,
    workgroups,
  };
}

const pointwise = (bindings: string, statement: string, n: number): string => `
${bindings}
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
  let i = id.x;
  if (i >= ${n}u) { return; }
  ${statement}
}`;

const ARRAYS = (...names: string[]): string =>
  names
    .map(
      (name, i) =>
        `@group(0) @binding(${i}) var<storage, ${i === names.length - 1 ? 'read_write' : 'read'}> ${name}: array<f32>;`,
    )
    .join('\n');

export const N = 1000;

/** y = 2x + b, in one kernel. */
export function saxpy(statement = 'y[i] = 2.0 * x[i] + b[i];', kernel = 'k0'): ExecPlan {
  return {
    buffers: [f32('x', [N], 'input'), f32('b', [N], 'input'), f32('v1', [N], 'output')],
    dispatches: [
      dispatch(
        kernel,
        pointwise(ARRAYS('x', 'b', 'y'), statement, N),
        ['x', 'b'],
        ['v1'],
        [16, 1, 1],
      ),
    ],
    outputs: [{ name: 'y', buffer: 'v1', shape: [N] }],
  };
}

/** The same in two kernels, by way of v0 = 2x. */
export function saxpyUnfused(): ExecPlan {
  return {
    buffers: [
      f32('x', [N], 'input'),
      f32('b', [N], 'input'),
      f32('v0', [N], 'intermediate'),
      f32('v1', [N], 'output'),
    ],
    dispatches: [
      dispatch(
        'b0',
        pointwise(ARRAYS('x', 'y'), 'y[i] = 2.0 * x[i];', N),
        ['x'],
        ['v0'],
        [16, 1, 1],
      ),
      dispatch(
        'b1',
        pointwise(ARRAYS('x', 'b', 'y'), 'y[i] = x[i] + b[i];', N),
        ['v0', 'b'],
        ['v1'],
        [16, 1, 1],
      ),
    ],
    outputs: [{ name: 'y', buffer: 'v1', shape: [N] }],
  };
}

/** Row sums, with the sizes as uniforms. */
export const ROW_SUM = `
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> size: vec4<i32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
  let row = i32(id.x);
  if (row >= size.x) { return; }
  var sum = 0.0;
  for (var k = 0; k < size.y; k++) { sum += x[row * size.y + k]; }
  y[row] = sum;
}`;

export const ENDLESS = `
@group(0) @binding(0) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(1) fn main() {
  loop {
    y[0] = y[0] * 1664525u + 1013904223u;
    if (y[1] == 12345u) { break; }
  }
}`;

export function planOf(exec: ExecPlan): PlanForRun {
  const ids = [...new Set(exec.dispatches.map((d) => d.kernel))];
  return {
    exec,
    kernels: ids.map((id) => ({
      id,
      hash: `hash-${id}`,
      nodes: ['n0'],
      bytes: 12 * N,
      flops: 2 * N,
      estimatedUs: 1,
    })),
  };
}

/** The saxpy program with both of its plans. */
export function saxpyJob(
  fused: ExecPlan = saxpy(),
  options: ProfileJob['options'] = {},
): ProfileJob {
  const b = new Builder();
  b.input('x', [N]);
  b.input('b', [N]);
  b.compute([N], (d) => binary('mul', load('x', d, 'f32'), constant(2, 'f32')));
  b.compute([N], (d) => binary('add', load('v0', d, 'f32'), load('b', d, 'f32')));
  return {
    fused: planOf(fused),
    unfused: planOf(saxpyUnfused()),
    program: b.program(),
    options: { seconds: 0.5, ...options },
  };
}

export const NEVER: CancelSignal = {
  aborted: false,
  addEventListener: () => undefined,
  removeEventListener: () => undefined,
};
