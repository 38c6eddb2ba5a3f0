/**
 * What every bench on the GPU begins with: a runner, its adapter, the device that graphs are compiled
 * for, then one graph after another; and what a graph that can't be run or a fault becomes.
 */
import { cpus } from 'node:os';
import { startRunner } from '../cli/gpu';
import { type Compilation, compile } from '../compiler';
import type { DeviceProfile } from '../compiler/result';
import { deviceForAdapter } from '../runner/core/deviceProfile';
import { planForRun } from '../runner/core/planForRun';
import type { AdapterInfo, ProfileOptions, ProfileResult, Runner } from '../runner/core/types';
import type { Case } from './compileTimes';

export function machineText(): string {
  return `${cpus()[0]?.model.trim() ?? 'unknown CPU'} (${cpus().length} cores), Node ${process.version}`;
}

export interface Bench<T> {
  readonly adapter?: AdapterInfo;
  readonly device?: DeviceProfile;
  readonly results: readonly T[];
  readonly faults: readonly string[];
}

export interface Profiled {
  readonly compilation: Compilation;
  readonly profile: ProfileResult;
}

/** Profiles each graph and makes a result of it; what can't be run is among the faults. */
export async function profileEach<T>(
  cases: readonly Case[],
  options: ProfileOptions,
  onCase: (name: string) => void,
  resultOf: (c: Case, p: Profiled, adapter: AdapterInfo) => T,
): Promise<Bench<T>> {
  const runner = startRunner({});
  try {
    const reply = await runner.adapter();
    if (!reply.ok) return { results: [], faults: [reply.fault.message] };
    const adapter = reply.value;
    const device = deviceForAdapter(adapter, undefined);
    const results: T[] = [];
    const faults = adapter.measuredNote === undefined ? [] : [adapter.measuredNote];
    for (const c of cases) {
      onCase(c.name);
      const p = await profileOne(runner, device, c, options);
      if (typeof p === 'string') faults.push(`${c.name}: ${p}`);
      else results.push(resultOf(c, p, adapter));
    }
    return { adapter, device, results, faults };
  } finally {
    runner.dispose();
  }
}

async function profileOne(
  runner: Runner,
  device: DeviceProfile,
  c: Case,
  options: ProfileOptions,
): Promise<Profiled | string> {
  const compilation = compile({ file: c.file, bytes: await c.bytes() }, { device });
  const { runnable } = compilation.result;
  if (!runnable.ok) return runnable.reason;
  const reply = await runner.profile(
    {
      fused: planForRun(compilation, 'fused'),
      unfused: planForRun(compilation, 'unfused'),
      program: compilation.reference,
      options,
    },
    () => undefined,
    new AbortController().signal,
  );
  return reply.ok ? { compilation, profile: reply.value } : reply.fault.message;
}
