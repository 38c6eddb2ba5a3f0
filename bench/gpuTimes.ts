/**
 * What fusion gains when it runs: whole plans on this machine's GPU, fused and unfused, each verified
 * against the float64 reference.
 */
import { type Compilation, compile } from '../compiler';
import type { PlanView } from '../compiler/result';
import { adapterText, startRunner } from '../cli/gpu';
import { table } from '../cli/format/table';
import { factorText, timeText } from '../cli/format/units';
import { deviceForAdapter } from '../runner/core/deviceProfile';
import type { AdapterInfo, PlanForRun, Runner } from '../runner/core/types';
import type { Case } from './compileTimes';

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
  const runner = startRunner({});
  try {
    const adapter = await runner.adapter();
    if (!adapter.ok) return { times: [], faults: [adapter.fault.message] };
    const times: GpuTime[] = [];
    const faults: string[] = [];
    for (const c of cases) {
      onCase(c.name);
      const r = await measureOne(runner, adapter.value, c, seconds);
      if (typeof r === 'string') faults.push(`${c.name}: ${r}`);
      else times.push(r);
    }
    return { adapter: adapter.value, times, faults };
  } finally {
    runner.dispose();
  }
}

async function measureOne(
  runner: Runner,
  adapter: AdapterInfo,
  c: Case,
  seconds: number,
): Promise<GpuTime | string> {
  const device = deviceForAdapter(adapter, undefined);
  const compilation = compile({ file: c.file, bytes: await c.bytes() }, { device });
  const { runnable, before, after } = compilation.result;
  if (!runnable.ok) return runnable.reason;
  const reply = await runner.profile(
    {
      fused: planForRun(compilation, 'fused', after),
      unfused: planForRun(compilation, 'unfused', before),
      program: compilation.program,
      options: { seconds },
    },
    () => undefined,
    new AbortController().signal,
  );
  if (!reply.ok) return reply.fault.message;
  const { fused, unfused, speedup, verification } = reply.value;
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

export function planForRun(c: Compilation, which: 'fused' | 'unfused', view: PlanView): PlanForRun {
  return {
    exec: c.execPlan(which),
    kernels: view.kernels.map((k) => ({
      id: k.id,
      hash: k.hash,
      nodes: k.nodes,
      bytes: k.bytesRead + k.bytesWritten,
      flops: k.flops,
      estimatedUs: k.estimatedUs,
    })),
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
