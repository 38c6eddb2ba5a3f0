/** How a group lies over rows, and the parameters that its row kernel has by default. */
import type { Verdict } from '../fusion/verdicts';
import type { ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { DeviceProfile } from '../result';
import { bound, boundElements, extents, type GroupSpec, hasDyn, visitLoads } from './group';
import { SUBGROUP_SIZES } from './kernelIr';
import { place, type Placement, storesOnce } from './placement';
import { type RowParams, rowVectorsToCache } from './row';
import { rowPasses } from './rowPass';
import type { ScheduleOptions } from './schedule';
import { CPU_LANES } from './tiles';

/** The group over the rows of one of its reductions, with every result stored once. */
export function placeRows(group: GroupSpec): Placement | undefined {
  const { program } = group;
  const reductions = group.members.filter((m) => m.monoid);
  // Rows are those of the reduction that keeps the least: the others then lie inside a row.
  const byRows = [...reductions].sort(
    (a, b) => boundElements(program, extents(a)) - boundElements(program, extents(b)),
  );
  const anchor = byRows[0];
  if (!anchor) return undefined;
  const placement = place(group, anchor);
  if ('reason' in placement) return undefined;
  for (const o of group.outputs) {
    const p = placement.placed.get(o);
    const shape = p && extents(p.compute);
    if (!p || !shape) return undefined;
    const stored =
      boundElements(program, placement.rows) *
      boundElements(
        program,
        p.free.map((f) => f.extent),
      );
    if (stored !== boundElements(program, shape) || !storesOnce(placement, p)) return undefined;
  }
  return placement;
}

/** Workgroup memory has a fixed size: a row vector that is kept must have a known length. */
export function symbolicRow(
  group: GroupSpec,
  placement: Placement,
  params: RowParams,
): Verdict | undefined {
  for (const v of params.cached) {
    const open = placement.placed.get(v)?.free.find((f) => I.constOf(f.extent) === undefined);
    if (!open) continue;
    const c = group.members.find((m) => m.value === v);
    const size = I.printIndex(open.extent);
    return {
      code: 'WORKGROUP_MEMORY',
      nodes: c ? [...c.origin] : [],
      limitSource: 'WGSL: arrays in workgroup memory have a size known when compiling',
      // No names: verdicts of equal groups differ in their nodes alone.
      message: `a whole row of a result between the ops would have to be kept in workgroup memory, and its length ${size} is not known when compiling`,
      counterfactual: `would be considered if ${size} were a number`,
      confidence: 'proved',
    };
  }
  return undefined;
}

/** Whether some reductions of a row, too long for registers, can walk along it together. */
function walksTogether(group: GroupSpec, placement: Placement, params: RowParams): boolean {
  return (
    params.unrolled === 0 &&
    group.members.filter((m) => m.monoid).length > 1 &&
    rowPasses(group, placement, new Set(params.cached)).size > 0
  );
}

/** Parameters for reductions that walk along a row together. */
export function onlineParams(
  group: GroupSpec,
  placement: Placement,
  params: RowParams,
  device: DeviceProfile,
): RowParams | undefined {
  if (!walksTogether(group, placement, params)) return undefined;
  const walks = [...rowPasses(group, placement, new Set(params.cached)).values()].flat();
  // Going over to another shift takes about as much as one more vector.
  const rescaled = walks.some((s) => s.weight);
  const many = device.software ? rescaled && params.block === 1 : true;
  return { ...params, online: true, vectors: many ? 4 : 1 };
}

/**
 * Some rows for each invocation, so that what they have in common (a bias, a scale) is loaded once for
 * all. For CPUs, whose gathers are dear; a GPU's caches serve them, and it wants its invocations.
 */
export function rowBlocks(
  group: GroupSpec,
  placement: Placement,
  params: RowParams,
  device: DeviceProfile,
): RowParams[] {
  const { threads, rows, block, cached } = params;
  if (!device.software || threads > 1 || block > 1 || cached.length > 0) return [];
  if (!commonToRows(group, placement)) return [];
  const all = boundElements(group.program, placement.rows);
  return all < BLOCKED_ROWS * rows * LEAST_BLOCKS ? [] : [{ ...params, block: BLOCKED_ROWS }];
}

/** As many rows as registers hold vectors and sums of. */
const BLOCKED_ROWS = 4;
/** Workgroups for every core. */
const LEAST_BLOCKS = 4;

/** Whether something that isn't a row's own is read along it. */
function commonToRows(group: GroupSpec, placement: Placement): boolean {
  const members = new Set(group.members.map((m) => m.value));
  const own = new Set(placement.rows.map((_, i) => `p${i}`));
  let found = false;
  for (const { compute, point } of placement.placed.values()) {
    const env = new Map(compute.dims.map((d, i) => [d.name, point[i] ?? I.num(0)]));
    visitLoads(compute.body, (l) => {
      if (members.has(l.value) || hasDyn(l.index)) return;
      const names = new Set<string>();
      for (const e of l.index)
        I.visitAtoms(
          I.rewrite(e, (a) => (a.kind === 'var' ? env.get(a.name) : undefined)),
          (a) => {
            if (a.kind === 'var') names.add(a.name);
          },
        );
      found ||= names.size > 0 && ![...names].some((n) => own.has(n));
    });
  }
  return found;
}

/** How the rows are shared out, and how their invocations put together what each has. */
export function rowParams(
  group: GroupSpec,
  placement: Placement,
  options: ScheduleOptions,
): RowParams {
  const params = sharedOut(group, placement, options);
  if (!options.device.limits.subgroups) return params;
  return { ...params, subgroups: subgroupsPay(params.threads, options.device) };
}

/** Whether subgroups put the parts of a row together sooner than a tree in workgroup memory does. */
function subgroupsPay(threads: number, d: DeviceProfile): boolean {
  if (threads === 1) return false;
  const levels = Math.log2(threads);
  const tree = (3 * levels + 2) * d.sharedAccessWork + (levels + 2) * d.barrierWork;
  const within = Math.min(levels, 5) * d.sharedAccessWork;
  const across = (threads / 32 + 2) * d.sharedAccessWork + 2 * d.barrierWork;
  return within + (threads > SUBGROUP_SIZES.least ? across : 0) < tree;
}

function sharedOut(group: GroupSpec, placement: Placement, options: ScheduleOptions): RowParams {
  const { program } = group;
  const { anchor } = placement;
  const { limits } = options.device;
  const cached = rowVectorsToCache(group, placement);
  let length = boundElements(
    program,
    anchor.reduce.map((r) => r.extent),
  );
  const rows = boundElements(program, placement.rows);
  const maxThreads = Math.min(
    limits.maxComputeInvocationsPerWorkgroup,
    limits.maxComputeWorkgroupSizeX,
    256,
  );
  if (options.device.software && cached.length === 0) {
    // Barriers are dear on a CPU: one invocation a row while there are rows enough for its lanes.
    if (rows >= 2 * CPU_LANES || length <= 64) {
      // Workgroups enough for the cores, of whole vectors.
      let together = 64;
      while (together > CPU_LANES && rows < 4 * together) together /= 2;
      return {
        threads: 1,
        rows: together,
        block: 1,
        unrolled: 0,
        cached,
        online: false,
        vectors: 1,
      };
    }
    return { threads: 64, rows: 1, block: 1, unrolled: 0, cached, online: false, vectors: 1 };
  }
  // A reduction inside the row keeps as many invocations busy as it has results.
  for (const p of placement.placed.values()) {
    if (p.compute.monoid && p.free.length > 0)
      length = Math.min(
        length,
        4 *
          boundElements(
            program,
            p.free.map((f) => f.extent),
          ),
      );
  }
  let threads = 1;
  while (threads < maxThreads && threads * 4 < length) threads *= 2;
  const kept = keepsElements(group, placement);
  if (cached.length === 0) threads = asFewAs(threads, rows, length, kept, options.device);
  if (cached.length > 0) {
    const cells = cached.reduce((n, v) => n + vectorLength(program, placement, v), 0);
    // Without knowing yet which arrays can serve twice, half of them may be counted on.
    let block = 4;
    while (
      block > 1 &&
      (4 * block * cells) / 2 + 4 * block * threads > limits.maxComputeWorkgroupStorageSize
    )
      block /= 2;
    while (block > 1 && rows < block * 8) block /= 2;
    return {
      threads: Math.max(threads, Math.min(32, maxThreads)),
      rows: 1,
      block,
      unrolled: 0,
      cached,
      online: false,
      vectors: 1,
    };
  }
  const workgroup = Math.max(threads, Math.min(64, maxThreads));
  const chunk = Math.ceil(length / threads);
  const unrolled = chunk <= MOST_KEPT ? chunk : 0;
  return {
    threads,
    rows: workgroup / threads,
    block: 1,
    unrolled,
    cached,
    online: false,
    // So many loads are on their way at once.
    vectors: unrolled > 0 ? 1 : IN_FLIGHT,
  };
}

/** Elements that an invocation keeps in registers for the stages that follow. */
const MOST_KEPT = 16;
/** Vectors that a GPU's invocation reads at once where it loops. */
const IN_FLIGHT = 4;
/** Invocations of a row that step together on most GPUs. */
const ABREAST = 32;

/**
 * As few invocations a row as keep the device busy, since each halving is a barrier less; and so many
 * that each has whole vectors of a row that divides into vectors.
 */
function asFewAs(
  most: number,
  rows: number,
  length: number,
  kept: boolean,
  device: DeviceProfile,
): number {
  let threads = most;
  const fits = (n: number): boolean => n >= 1 && (!kept || Math.ceil(length / n) <= MOST_KEPT);
  const enough = (n: number): boolean => n >= ABREAST && rows * n >= 2 * device.saturatingThreads;
  while (enough(threads / 2) && fits(threads / 2)) threads /= 2;
  if (length % 4 !== 0) return threads;
  let whole = threads;
  while (whole > 1 && length % (4 * whole) !== 0) whole /= 2;
  return 4 * whole >= threads && fits(whole) ? whole : threads;
}

/** Whether a row's elements are needed again once something of it is known. */
function keepsElements(group: GroupSpec, placement: Placement): boolean {
  const reductions = group.members.filter((m) => m.monoid);
  return (
    reductions.length > 1 ||
    group.outputs.some((o) => (placement.placed.get(o)?.free.length ?? 0) > 0)
  );
}

/** Rows that lie across memory: as many side by side as fill sectors. For GPUs; what it gains is priced. */
export function rowsAcross(
  group: GroupSpec,
  placement: Placement,
  params: RowParams,
  device: DeviceProfile,
): RowParams[] {
  const { program } = group;
  const last = placement.rows[placement.rows.length - 1];
  const beside = last ? bound(program, last) : 1;
  if (device.software || params.cached.length > 0 || params.threads === 1 || beside < 8) return [];
  const length = boundElements(
    program,
    placement.anchor.reduce.map((r) => r.extent),
  );
  const { limits } = device;
  const workgroup = Math.min(
    limits.maxComputeInvocationsPerWorkgroup,
    limits.maxComputeWorkgroupSizeX,
    256,
  );
  const all = boundElements(program, placement.rows);
  let rows = 8;
  // Sectors are full with eight; more save barriers, as long as the device stays busy.
  while (
    rows < 32 &&
    rows * 2 <= beside &&
    (all / (rows * 2)) * workgroup >= device.saturatingThreads
  )
    rows *= 2;
  let threads = 1;
  while (threads * 2 * rows <= workgroup && threads * 4 < length) threads *= 2;
  if (threads < 2) return [];
  const chunk = params.unrolled > 0 ? Math.ceil((params.unrolled * params.threads) / threads) : 0;
  const unrolled = chunk <= MOST_KEPT ? chunk : 0;
  const { subgroups: _, ...along } = params;
  const vectors = unrolled > 0 ? 1 : IN_FLIGHT;
  return [{ ...along, rows, threads, across: true, unrolled, vectors }];
}

function vectorLength(program: GroupSpec['program'], placement: Placement, v: ValueId): number {
  return boundElements(program, placement.placed.get(v)?.free.map((f) => f.extent) ?? []);
}
