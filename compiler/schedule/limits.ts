/** What stands against a kernel that was built: the adapter's limits, and results computed over and over. */
import type { Verdict } from '../fusion/verdicts';
import { storageBytes, storageOf } from '../graph/dtype';
import type { ValueId } from '../ir/expr';
import type { AdapterLimits, DeviceProfile } from '../result';
import { planChunks } from './chunks';
import { isContraction } from './contraction';
import { bufferBytes } from './exec';
import type { Counts } from './features';
import { bound, boundElements, type GroupSpec } from './group';
import type { KernelIr } from './kernelIr';

/** Invocations a workgroup may have, in one dim. */
export function mostInvocations(limits: AdapterLimits): number {
  return Math.min(limits.maxComputeInvocationsPerWorkgroup, limits.maxComputeWorkgroupSizeX);
}

export function limitVerdicts(f: Counts, d: DeviceProfile, nodes: readonly string[]): Verdict[] {
  const out: Verdict[] = [];
  const l = d.limits;
  if (f.buffers > l.maxStorageBuffersPerShaderStage) {
    out.push({
      code: 'STORAGE_BUFFERS',
      nodes,
      quantity: f.buffers,
      limit: l.maxStorageBuffersPerShaderStage,
      unit: 'buffers',
      limitSource: 'adapter: maxStorageBuffersPerShaderStage',
      message: `one kernel would bind ${f.buffers} buffers, and the adapter allows ${l.maxStorageBuffersPerShaderStage}`,
      counterfactual: `would fuse if the adapter allowed ${f.buffers} storage buffers`,
      confidence: 'proved',
    });
  }
  if (f.sharedBytes > l.maxComputeWorkgroupStorageSize) {
    out.push({
      code: 'WORKGROUP_MEMORY',
      nodes,
      quantity: f.sharedBytes,
      limit: l.maxComputeWorkgroupStorageSize,
      unit: 'bytes',
      limitSource: 'adapter: maxComputeWorkgroupStorageSize',
      message: `one kernel would need ${f.sharedBytes} bytes of workgroup memory, and the adapter has ${l.maxComputeWorkgroupStorageSize}`,
      counterfactual: `would fuse if the adapter had ${f.sharedBytes} bytes of workgroup memory`,
      confidence: 'proved',
    });
  }
  if (f.size > MAX_STATEMENTS) {
    out.push({
      code: 'CODE_SIZE',
      nodes,
      quantity: f.size,
      limit: MAX_STATEMENTS,
      unit: 'statements',
      limitSource: 'compiler: size budget of one kernel',
      message: `one kernel would have ${f.size} statements, over the budget of ${MAX_STATEMENTS} that keeps shader compile time in bounds`,
      counterfactual: 'would fuse if the chain were shorter',
      confidence: 'modelled',
    });
  }
  return out;
}

export const MAX_STATEMENTS = 1500;

function mib(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(1)} MiB`;
}

/**
 * The dispatches that a kernel takes so that no binding is over the adapter's limit (see chunks.ts), at
 * the sizes that the program's dims have; or why there are none.
 */
export function chunkedDispatches(
  { program }: GroupSpec,
  /** Whose buffers it has. */
  draft: KernelIr,
  /** The code as it will be: its workgroups do more than those of a draft. */
  final: () => KernelIr,
  d: DeviceProfile,
  nodes: readonly string[],
): { readonly dispatches: number; readonly verdicts: readonly Verdict[] } {
  const { limits } = d;
  const storage = (v: ValueId): ReturnType<typeof storageOf> =>
    storageOf(program.values.get(v)?.dtype ?? 'f32', limits.f16);
  const bytesOf = (v: ValueId): number =>
    bufferBytes(boundElements(program, program.values.get(v)?.shape ?? []), storage(v));
  if (draft.buffers.every((b) => bytesOf(b.value) <= limits.maxStorageBufferBindingSize))
    return { dispatches: 1, verdicts: [] };
  const ir = final();
  const chunking = planChunks(
    ir,
    {
      workgroups: bound(program, ir.workgroups),
      bytes: bytesOf,
      elementBytes: (v) => storageBytes(storage(v)),
      bind: (s) => program.dims.get(s),
    },
    limits,
  );
  if (!chunking) return { dispatches: 1, verdicts: [] };
  if ('chunks' in chunking) return { dispatches: chunking.chunks.length, verdicts: [] };
  const { bytes, bindings } = chunking.fault;
  const most = limits.maxStorageBufferBindingSize;
  return {
    dispatches: 1,
    verdicts: [
      {
        code: 'BINDING_SIZE',
        nodes,
        quantity: bytes,
        limit: most,
        unit: 'bytes',
        limitSource: 'adapter: maxStorageBufferBindingSize',
        message: `one kernel would need ${mib(bytes)} of one buffer at a time, however few workgroups a dispatch has, and the adapter lets a binding have ${mib(most)}; in pieces, it would bind ${bindings} buffers, and the adapter allows ${limits.maxStorageBuffersPerShaderStage}`,
        counterfactual: `would fuse if a binding could have ${mib(bytes)}, or a kernel ${bindings} bindings`,
        confidence: 'proved',
      },
    ],
  };
}

export function repeatVerdicts(group: GroupSpec, f: Counts, nodes: readonly string[]): Verdict[] {
  const worst = [...f.repeated].sort((a, b) => b.factor - a.factor)[0];
  if (!worst) return [];
  const c = group.members.find((m) => m.value === worst.value);
  const what = c?.monoid?.kind === 'sum' && c && isContraction(c) ? 'product' : 'reduction';
  const factor = Math.round(worst.factor * 10) / 10;
  return [
    {
      code: 'NEEDS_GLOBAL_SYNC',
      nodes: c ? [...c.origin] : nodes,
      quantity: factor,
      limit: 1,
      unit: '× recomputed',
      limitSource: 'WebGPU has no barrier across workgroups',
      message: `every result of the ${what} is needed by invocations of other workgroups, which can't wait for each other inside one kernel; without waiting, it would be computed ${factor} times over`,
      counterfactual:
        'would fuse if what follows used each result only within the row (or tile) that computed it',
      confidence: 'proved',
    },
  ];
}
