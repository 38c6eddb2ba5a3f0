/**
 * What fusion gains when it runs: whole plans on this machine's GPU, fused and unfused, each verified
 * against the float64 reference.
 */
import { adapterText } from '../cli/gpu';
import { table } from '../cli/format/table';
import { factorText, timeText } from '../cli/format/units';
import type { AdapterInfo } from '../runner/core/types';
import type { Case } from './compileTimes';
import { profileEach, type Profiled } from './onGpu';

export interface GpuTime {
  readonly name: string;
  readonly kernelsUnfused: number;
  readonly kernelsFused: number;
  readonly unfusedUs: number;
  readonly fusedUs: number;
  readonly spreadUs: number;
  readonly estimatedUnfusedUs: number;
  readonly estimatedFusedUs: number;
  readonly speedup: number;
  readonly verified: boolean;
}

export interface GpuTimes {
  readonly adapter?: AdapterInfo;
  readonly times: readonly GpuTime[];
  readonly faults: readonly string[];
}

export async function measureGpu(
  cases: readonly Case[],
  seconds: number,
  onCase: (name: string) => void,
): Promise<GpuTimes> {
  const { results, adapter, faults } = await profileEach(cases, { seconds }, onCase, timeOf);
  return { times: results, faults, ...(adapter ? { adapter } : {}) };
}

function timeOf(c: Case, { compilation, profile }: Profiled): GpuTime {
  const { before, after } = compilation.result;
  const { fused, unfused, speedup, verification } = profile;
  return {
    name: c.name,
    kernelsUnfused: before.kernels.length,
    kernelsFused: after.kernels.length,
    unfusedUs: unfused.wallUs,
    fusedUs: fused.wallUs,
    spreadUs: fused.wallSpreadUs,
    estimatedUnfusedUs: before.estimatedUs,
    estimatedFusedUs: after.estimatedUs,
    speedup,
    verified: verification.ok,
  };
}

export function gpuTable(t: GpuTimes): string[] {
  const head = ['graph', 'kernels', 'unfused', 'fused', '', 'speed-up', 'estimated', 'results'];
  const lines = t.times.map((r) => [
    r.name,
    `${r.kernelsUnfused} → ${r.kernelsFused}`,
    timeText(r.unfusedUs),
    timeText(r.fusedUs),
    `±${timeText(r.spreadUs)}`,
    factorText(r.speedup),
    factorText(r.estimatedUnfusedUs / r.estimatedFusedUs),
    r.verified ? 'right' : 'WRONG',
  ]);
  const { adapter } = t;
  return [
    adapter ? `Adapter: ${adapterText(adapter)}` : 'No adapter.',
    ...(lines.length > 0
      ? table(
          [head, ...lines],
          ['left', 'right', 'right', 'right', 'left', 'right', 'right', 'left'],
        )
      : []),
    ...t.faults,
  ];
}
