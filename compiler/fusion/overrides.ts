/**
 * Schedules other than the scheduler's: what `schedule` lines of the file set, and what was measured to
 * be faster. A line wins over a record; both are checked on the kernel as it will be built.
 */
import { type Diagnostic, error, info } from '../diagnostics';
import type { Directive } from '../graph/graph';
import type { GroupSpec } from '../schedule/group';
import { overrideSchedule, scheduleParameters } from '../schedule/override';
import { sameSettings, type Settings, settingsKey, settingsText } from '../schedule/parameters';
import { priceSchedule, type Schedule, type ScheduleOptions } from '../schedule/schedule';
import type { KernelTuning, TunedKernel } from '../tuning';
import { fnv } from './hash';

/** A kernel whose schedule may be changed. */
export interface Schedulable {
  readonly id: string;
  readonly spec: GroupSpec;
  readonly ownSchedule: () => Schedule;
}

/** What became of a kernel's schedule; without settings nothing did. */
export interface Applied {
  readonly settings: Settings | undefined;
  readonly schedule: () => Schedule;
  /** The hash of the kernel with these settings, from that of the kernel as the scheduler made it. */
  readonly hash: (own: string) => string;
  readonly pinned?: string;
  readonly tuned?: TunedKernel;
}

/** The kernel's schedule with the settings, or why it can't have them. */
export function reschedule(
  k: Schedulable,
  schedule: Schedule,
  settings: Settings,
  options: ScheduleOptions,
):
  | { readonly ok: true; readonly schedule: Schedule }
  | { readonly ok: false; readonly reason: string } {
  const set = overrideSchedule(schedule, settings, options.device.limits);
  if (!set.ok) return set;
  const priced = priceSchedule(k.spec, set.schedule, options);
  // What is only unwise (a verdict of the model) is the choice of whoever asks.
  const beyond = priced.ok ? undefined : priced.verdicts.find((v) => v.confidence === 'proved');
  return beyond ? { ok: false, reason: beyond.message } : set;
}

type ScheduleLine = Directive & { kind: 'schedule' };

/** The kernel's schedule as the lines want it; a fault for each that can't be. */
export function applySchedules(
  k: Schedulable,
  lines: readonly ScheduleLine[],
  options: ScheduleOptions,
  faults: Diagnostic[],
): Applied {
  let out: Applied | undefined;
  for (const d of lines) {
    const r = reschedule(k, (out?.schedule ?? k.ownSchedule)(), d.params, options);
    if (!r.ok) {
      faults.push(error('BAD_SCHEDULE', `'${d.text}' can't be: ${r.reason}`, d.range));
      continue;
    }
    const before = out?.hash ?? same;
    const { schedule } = r;
    out = {
      settings: { ...out?.settings, ...d.params },
      schedule: () => schedule,
      hash: (own) => rehash(before(own), d.params),
      pinned: d.text,
    };
  }
  return out ?? { settings: undefined, schedule: k.ownSchedule, hash: same };
}

/** The kernel's schedule as it was measured to be fastest, unless the file sets it; a note where it can't be. */
export function applyTuning(
  k: Schedulable,
  record: KernelTuning,
  set: Applied,
  options: ScheduleOptions,
  notes: Diagnostic[],
): Applied {
  const ignored = (reason: string): Applied => {
    notes.push(
      info(
        'TUNING_IGNORED',
        `the tuning record of kernel ${k.id} (${settingsText(record.settings)}, measured on ${record.adapter}) is not used: ${reason}`,
      ),
    );
    return set;
  };
  if (set.pinned !== undefined) return ignored(`'${set.pinned}' in the file wins`);
  if (record.outdated !== undefined) return ignored(record.outdated);
  if (record.own && !sameSettings(record.own, ownSettings(k, set.schedule(), options)))
    return ignored('the compiler’s own choice, which it was measured against, has changed');
  const r = reschedule(k, set.schedule(), record.settings, options);
  if (!r.ok) return ignored(r.reason);
  const { schedule } = r;
  const { settings, medianUs, defaultUs, adapter } = record;
  return {
    settings,
    schedule: () => schedule,
    hash: (own) => rehash(own, settings),
    tuned: { params: settings, medianUs, defaultUs, adapter },
  };
}

/** The parameters of a schedule, as settings would say them. */
export function ownSettings(
  k: Schedulable,
  schedule: Schedule,
  { device }: ScheduleOptions,
): Settings {
  const parameters = scheduleParameters(k.spec.program, schedule, device.limits);
  return Object.fromEntries(parameters.map((p) => [p.name, p.own]));
}

function same(hash: string): string {
  return hash;
}

function rehash(hash: string, settings: Settings): string {
  return fnv(`${hash} ${settingsKey(settings)}`);
}
