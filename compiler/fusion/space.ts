/**
 * The space that a kernel can be tuned in: every combination of the values that its template would
 * try, each with what the model says of it, or what stands against it.
 */
import type { Program } from '../ir/compute';
import type { KernelIr } from '../schedule/kernelIr';
import { overrideSchedule, scheduleParameters } from '../schedule/override';
import type { KernelParameter, Settings } from '../schedule/parameters';
import { buildKernel } from '../schedule/build';
import {
  priceSchedule,
  type Schedule,
  type ScheduleOptions,
  type ScheduleResult,
} from '../schedule/schedule';
import { ownSettings } from './overrides';
import type { PlanKernel } from './plan';

export interface KernelSpace {
  readonly kernel: string;
  readonly structure: string;
  readonly parameters: readonly KernelParameter[];
  /** The scheduler's choice, as settings would say it. */
  readonly own: Settings;
  /** All but the scheduler's choice; the first parameter varies slowest. */
  readonly candidates: readonly Candidate[];
  /** The line of the file that sets the parameters: then there are no candidates. */
  readonly pinned?: string;
  /** The symbolic sizes of the graph that its structure was taken at. */
  readonly dims: Readonly<Record<string, number>>;
}

export interface Candidate {
  readonly settings: Settings;
  /** By the model, µs: in proportion to the estimate of the kernel as it is. Absent where it can't be built. */
  readonly predictedUs?: number;
  /** Why it can't be. */
  readonly refused?: string;
}

export function kernelSpace(
  program: Program,
  k: PlanKernel,
  options: ScheduleOptions,
): KernelSpace {
  const schedule = k.ownSchedule();
  const parameters = scheduleParameters(program, schedule, options.device.limits);
  const space = {
    kernel: k.id,
    structure: k.facts.structure,
    parameters,
    own: ownSettings(k, schedule, options),
    dims: Object.fromEntries(program.dims),
  };
  if (k.pinned !== undefined) return { ...space, candidates: [], pinned: k.pinned };
  if (parameters.length === 0) return { ...space, candidates: [] };
  const self = priceSchedule(k.spec, schedule, options);
  const scale = self.ok ? k.scheduled.cost / Math.max(1, self.value.cost) : 1;
  const same = text(schedule);
  // Drafts take their time: one serves all settings that cost the same.
  const prices = new Map<string, ScheduleResult>();
  const price = (settings: Settings, s: Schedule): ScheduleResult => {
    const seen = parameters.filter((p) => !p.unpriced).map((p) => settings[p.name]);
    const key = seen.join(' ');
    const known = prices.get(key) ?? priceSchedule(k.spec, s, options);
    prices.set(key, known);
    return known;
  };
  const candidates = combinations(parameters).flatMap((settings): Candidate[] => {
    const set = overrideSchedule(schedule, settings, options.device.limits);
    if (!set.ok) return [{ settings, refused: set.reason }];
    if (text(set.schedule) === same) return [];
    const priced = price(settings, set.schedule);
    if (priced.ok) return [{ settings, predictedUs: (priced.value.cost * scale) / 1e6 }];
    const [first] = priced.verdicts;
    return [{ settings, refused: first ? `${first.code}: ${first.message}` : 'no template' }];
  });
  return { ...space, candidates };
}

/** The kernel's code with settings that {@link kernelSpace} found possible. */
export function codeWith(
  k: PlanKernel,
  settings: Settings,
  options: ScheduleOptions,
): readonly KernelIr[] {
  const set = overrideSchedule(k.ownSchedule(), settings, options.device.limits);
  if (!set.ok) throw new Error(`kernel ${k.id} can't have these settings: ${set.reason}`);
  return buildKernel(k.id, k.spec, set.schedule, options.f16);
}

function text(s: Schedule): string {
  switch (s.kind) {
    case 'horizontal':
      return s.kind;
    case 'split':
      return text(s.parts[0].schedule);
    case 'loop':
    case 'row':
    case 'stream':
    case 'scan':
    case 'sort':
    case 'transpose':
      return JSON.stringify(s.params);
  }
}

function combinations(parameters: readonly KernelParameter[]): Settings[] {
  let out: Settings[] = [{}];
  for (const p of parameters)
    out = out.flatMap((s) => p.tried.map((value) => ({ ...s, [p.name]: value })));
  return parameters.length === 0 ? [] : out;
}
