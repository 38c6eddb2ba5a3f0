/**
 * Settings of a kernel's schedule: as a `schedule y { … }` line, a tuning record or the tuner's search
 * asks for them.
 *
 * What can be set depends on the template the kernel has: each declares it beside its code. A
 * parameter that it doesn't have, or a value that the adapter can't run, is refused with what would be
 * possible.
 */
import type { Program } from '../ir/compute';
import type { AdapterLimits } from '../result';
import { boundElements } from './group';
import { mostInvocations } from './limits';
import { LOOP_SPACE } from './loop';
import { applySettings, type KernelParameter, parametersOf, type Settings } from './parameters';
import { type Placement } from './placement';
import { ROW_SPACE, type RowSizes } from './row';
import { SCAN_SPACE } from './scan';
import type { Schedule } from './schedule';
import { SORT_SPACE } from './sort';
import { STREAM_SPACE } from './streamPlan';
import { TRANSPOSE_SPACE } from './transpose';

export type Overridden =
  | { readonly ok: true; readonly schedule: Schedule }
  | { readonly ok: false; readonly reason: string };

export function overrideSchedule(
  schedule: Schedule,
  set: Settings,
  limits: AdapterLimits,
): Overridden {
  const most = mostInvocations(limits);
  switch (schedule.kind) {
    case 'horizontal':
      return {
        ok: false,
        reason: 'it is one of several small kernels on one grid, which has no parameters',
      };
    // The settings are those of the first dispatch, which has nearly all of the work.
    case 'split': {
      const [first, second] = schedule.parts;
      const r = overrideSchedule(first.schedule, set, limits);
      if (!r.ok || r.schedule.kind === 'horizontal' || r.schedule.kind === 'split') return r;
      const parts = [{ ...first, schedule: r.schedule }, second] as const;
      return { ok: true, schedule: { ...schedule, parts } };
    }
    case 'loop': {
      const r = applySettings('loop', LOOP_SPACE, schedule.params, set, most);
      return r.ok ? { ok: true, schedule: { ...schedule, params: r.params } } : r;
    }
    case 'transpose': {
      const r = applySettings('transpose', TRANSPOSE_SPACE, schedule.params, set, most);
      return r.ok ? { ok: true, schedule: { ...schedule, params: r.params } } : r;
    }
    case 'scan': {
      const r = applySettings('scan', SCAN_SPACE, schedule.params, set, most);
      return r.ok ? { ok: true, schedule: { ...schedule, params: r.params } } : r;
    }
    case 'sort': {
      const r = applySettings('sort', SORT_SPACE, schedule.params, set, most);
      return r.ok ? { ok: true, schedule: { ...schedule, params: r.params } } : r;
    }
    case 'row': {
      const r = applySettings('row', ROW_SPACE, schedule.params, set, most);
      return r.ok ? { ok: true, schedule: { ...schedule, params: r.params } } : r;
    }
    case 'stream': {
      const { plan, params } = schedule;
      const r = applySettings('stream', STREAM_SPACE, { plan, params, limits }, set, most);
      return r.ok ? { ok: true, schedule: { ...schedule, params: r.params.params } } : r;
    }
  }
}

/** The parameters of a kernel and the values worth trying, at the sizes that the program's dims have. */
export function scheduleParameters(
  program: Program,
  schedule: Schedule,
  limits: AdapterLimits,
): KernelParameter[] {
  const most = mostInvocations(limits);
  switch (schedule.kind) {
    case 'loop': {
      const extents = schedule.plan.space.map((d) => boundElements(program, [d]));
      return parametersOf(LOOP_SPACE, schedule.params, extents, most);
    }
    case 'split':
      return scheduleParameters(schedule.parts[0].spec.program, schedule.parts[0].schedule, limits);
    // Each part is as it would be alone.
    case 'horizontal':
      return [];
    case 'stream': {
      const { plan, params } = schedule;
      return parametersOf(STREAM_SPACE, { plan, params, limits }, program, most);
    }
    case 'transpose':
      return parametersOf(TRANSPOSE_SPACE, schedule.params, null, most);
    case 'scan':
      return parametersOf(SCAN_SPACE, schedule.params, null, most);
    case 'sort':
      return parametersOf(SORT_SPACE, schedule.params, null, most);
    case 'row':
      return parametersOf(ROW_SPACE, schedule.params, rowSizes(program, schedule.placement), most);
  }
}

function rowSizes(program: Program, placement: Placement): RowSizes {
  let length = 1;
  for (const { compute, free } of placement.placed.values()) {
    const over = compute.monoid && compute.reduce.map((r) => r.extent);
    const along = over && over.length > 0 ? over : free.map((f) => f.extent);
    length = Math.max(length, boundElements(program, along));
  }
  return { rows: boundElements(program, placement.rows), length };
}
