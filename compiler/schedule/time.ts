/** How long a kernel takes, by the device's rates: see “Cost model” in ARCHITECTURE.md. */
import { usText, type Verdict } from '../fusion/verdicts';
import type { DeviceProfile } from '../result';
import type { Features } from './features';
import { CPU_LANES } from './tiles';

/** Values that don't fit in registers and are written and read again instead, once per execution. */
function spilled(f: Pick<Features, 'pressure'>, d: DeviceProfile): number {
  return f.pressure.reduce((n, p) => n + Math.max(0, p.registers - d.registers) * p.times, 0);
}

/** What its spilled values add to a kernel's time, as a verdict; undefined where all fit in registers. */
export function spillVerdict(
  f: Features,
  d: DeviceProfile,
  nodes: readonly string[],
  counterfactual: string,
): { readonly verdict: Verdict; readonly us: number } | undefined {
  if (spilled(f, d) === 0) return undefined;
  const us = kernelTimeUs(f, d).us - kernelTimeUs({ ...f, pressure: [] }, d).us;
  return {
    us,
    verdict: {
      code: 'SPILL_RISK',
      nodes,
      quantity: f.registers,
      limit: d.registers,
      unit: 'registers',
      limitSource: `device profile: ${d.name}, registers`,
      message: `an invocation of one kernel would have ${f.registers} values live at once, and ${d.registers} fit in registers: writing the others to memory and reading them again is estimated at ${usText(us)}`,
      counterfactual,
      confidence: 'modelled',
    },
  };
}

/**
 * Bytes of main memory's traffic that a spilled value stands for: four written and four read, in a
 * cache that is about four times as fast.
 */
const SPILL_BYTES = 2;

/** What a kernel's time depends on. */
export type Timed = Pick<
  Features,
  | 'threads'
  | 'workgroups'
  | 'dispatches'
  | 'bytesRead'
  | 'bytesWritten'
  | 'wastedBytes'
  | 'work'
  | 'sharedAccesses'
  | 'barriers'
  | 'pressure'
>;

export function kernelTimeUs(
  f: Timed,
  d: DeviceProfile,
): { us: number; memoryUs: number; computeUs: number; bound: 'memory' | 'compute' | 'launch' } {
  // A CPU gives a core to a workgroup, a GPU its units to invocations.
  const abreast = d.software ? Math.min(f.threads, CPU_LANES * f.workgroups) : f.threads;
  const use = Math.min(1, Math.max(abreast, 1) / d.saturatingThreads);
  // A quarter of a GPU's invocations keep its memory busy; a CPU's cores each have their share.
  const reach = d.software ? use : Math.min(1, 4 * use);
  const bytes =
    f.bytesRead +
    f.bytesWritten +
    SPILL_BYTES * spilled(f, d) +
    // A CPU’s gathers cost the same everywhere.
    (d.software ? 0 : WASTE * f.wastedBytes);
  const memoryUs = bytes / (d.bytesPerUs * Math.max(reach, 1e-3));
  const work =
    f.work * (f.barriers > 0 ? d.barrierFactor : 1) +
    f.sharedAccesses * d.sharedAccessWork +
    f.barriers * d.barrierWork;
  const computeUs = work / (d.flopsPerUs * Math.max(use, 1e-4));
  const body = Math.max(memoryUs, computeUs) + 0.1 * Math.min(memoryUs, computeUs);
  const launches = d.launchUs * f.dispatches;
  const us = launches + body;
  return {
    us,
    memoryUs,
    computeUs,
    bound: body < launches ? 'launch' : memoryUs >= computeUs ? 'memory' : 'compute',
  };
}

/** Of what memory moves in vain, the share that the caches don't serve to others later on. */
const WASTE = 0.15;
