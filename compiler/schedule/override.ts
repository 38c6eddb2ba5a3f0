/**
 * `schedule y { … }`: parameters of one kernel's schedule, as the user set them.
 *
 * What can be set depends on the template the kernel has; a parameter that it doesn't have, or a
 * value that the adapter can't run, is refused with what would be possible.
 */
import type { AdapterLimits } from '../result';
import type { Schedule } from './schedule';

export type Overridden =
  | { readonly ok: true; readonly schedule: Schedule }
  | { readonly ok: false; readonly reason: string };

type Params = Readonly<Record<string, number | string>>;

const TILES = [1, 2, 4, 8];

export function overrideSchedule(
  schedule: Schedule,
  set: Params,
  limits: AdapterLimits,
): Overridden {
  const most = Math.min(limits.maxComputeInvocationsPerWorkgroup, limits.maxComputeWorkgroupSizeX);
  const known = schedule.kind === 'row' ? ['threads', 'rows'] : ['workgroup', 'tile'];
  for (const name of Object.keys(set)) {
    if (known.includes(name)) continue;
    return refuse(
      `its template '${schedule.kind}' has no parameter '${name}'; it has ${known.join(' and ')}`,
    );
  }
  const number = (name: string, otherwise: number): number | undefined => {
    const v = set[name] ?? otherwise;
    return typeof v === 'number' && Number.isInteger(v) && v >= 1 ? v : undefined;
  };
  switch (schedule.kind) {
    case 'loop': {
      const workgroup = number('workgroup', schedule.params.workgroup);
      if (workgroup === undefined || workgroup > most)
        return refuse(
          `workgroup must be a whole number from 1 to ${most}, what the adapter allows`,
        );
      const given = set.tile;
      if (given === undefined)
        return accept({ ...schedule, params: { ...schedule.params, workgroup } });
      const size = number('tile', 1);
      if (size === undefined || !TILES.includes(size))
        return refuse(`tile must be one of ${TILES.join(', ')}`);
      const { tile } = schedule.params;
      const own: typeof tile =
        tile.kind === 'linear'
          ? { kind: 'linear', size }
          : { kind: 'dims', sizes: tile.sizes.map((s) => (s > 1 ? size : 1)) };
      return accept({ ...schedule, params: { ...schedule.params, workgroup, tile: own } });
    }
    case 'row': {
      const threads = number('threads', schedule.params.threads);
      const rows = number('rows', schedule.params.rows);
      if (threads === undefined || (threads & (threads - 1)) !== 0)
        return refuse('threads (invocations a row) must be a power of two');
      if (rows === undefined)
        return refuse('rows (rows a workgroup) must be a whole number from 1');
      if (threads * rows > most)
        return refuse(
          `threads × rows is ${threads * rows}, and the adapter allows ${most} invocations a workgroup`,
        );
      if (rows > 1 && schedule.params.cached.length > 0)
        return refuse('rows must be 1, since this kernel keeps whole rows in workgroup memory');
      // Registers were counted for the share of a row that an invocation had.
      const unrolled = threads === schedule.params.threads ? schedule.params.unrolled : 0;
      return accept({ ...schedule, params: { ...schedule.params, threads, rows, unrolled } });
    }
  }
}

function accept(schedule: Schedule): Overridden {
  return { ok: true, schedule };
}

function refuse(reason: string): Overridden {
  return { ok: false, reason };
}
