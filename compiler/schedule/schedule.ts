/**
 * L2 → L3: which template makes a group one kernel, with which parameters, at what price; or why
 * none does.
 *
 * Templates are tried where they can apply, and the cheapest by the cost model wins. What every
 * template must respect (the adapter's limits) is checked on the built kernel, so that what legality
 * says is what the code generator does.
 */
import { usText, type Verdict } from '../fusion/verdicts';
import type { Compute, Value } from '../ir/compute';
import type { ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import type { DeviceProfile } from '../result';
import type { Builder, BuilderOptions } from './builder';
import { countFeatures, type Features, type Tiling } from './features';
import { bound, boundElements, extents, type GroupSpec, visitLoads } from './group';
import { joinFeatures, joinKernels } from './horizontal';
import type { KernelIr } from './kernelIr';
import { buildLoop, type LoopParams, type LoopPlan, planLoop, spaceVars } from './loop';
import { place, type Placement } from './placement';
import { Screen } from './screen';
import { buildRow, type RowParams, rowVectorsToCache } from './row';
import { rowPasses } from './rowPass';
import { partsWanted, sequenceFeatures, splitGroups } from './splitReduce';
import { buildStream } from './stream';
import { planStream, streamParams, type StreamParams, type StreamPlan } from './streamPlan';
import { type ContractionTile, contractionTile, CPU_LANES, linearTile } from './tiles';

export type Schedule =
  | {
      readonly kind: 'loop';
      readonly plan: LoopPlan;
      readonly params: LoopParams;
      readonly contraction: boolean;
    }
  | { readonly kind: 'row'; readonly placement: Placement; readonly params: RowParams }
  | { readonly kind: 'stream'; readonly plan: StreamPlan; readonly params: StreamParams }
  | { readonly kind: 'horizontal'; readonly parts: readonly SchedulePart[] }
  | {
      readonly kind: 'split';
      /** Per result of the reduction. */
      readonly shares: number;
      /** The dispatches, in order. */
      readonly parts: readonly [SchedulePart, SchedulePart];
      readonly scratch: readonly Value[];
    };

export interface SchedulePart {
  readonly spec: GroupSpec;
  readonly schedule: Schedule & { kind: 'loop' | 'row' | 'stream' };
}

export interface Scheduled {
  readonly schedule: Schedule;
  readonly features: Features;
  /** Estimated time, picoseconds, an integer: so that plans are the same on every machine. */
  readonly cost: number;
}

export type ScheduleResult =
  | { readonly ok: true; readonly value: Scheduled }
  | { readonly ok: false; readonly verdicts: readonly Verdict[] };

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

export function kernelTimeUs(
  f: Features,
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
  const work = f.work + f.sharedAccesses * d.sharedAccessWork + f.barriers * d.barrierWork;
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

/** A reduction whose operands are each shared by many of its results: matmul, convolution. */
export function isContraction(c: Compute): boolean {
  return contractionDims(c) !== undefined;
}

/**
 * For a sum of products: the two parallel dims to block in registers. Each of two operands is
 * independent of one of them, so that a block of A×B results loads A + B elements.
 */
export function contractionDims(c: Compute): { row: number; column: number } | undefined {
  if (c.monoid?.kind !== 'sum' || c.dims.length < 2) return undefined;
  const uses: boolean[][] = [];
  visitLoads(c.body, (l) => {
    const names = new Set<string>();
    for (const i of l.index) I.visitAtoms(i, (a) => a.kind === 'var' && names.add(a.name));
    if (![...names].some((n) => n.startsWith('r'))) return;
    uses.push(c.dims.map((d) => names.has(d.name)));
  });
  if (uses.length < 2) return undefined;
  const big = (i: number): boolean => !I.isConst(c.dims[i]?.extent ?? I.num(1), 1);
  for (let column = c.dims.length - 1; column >= 0; column--) {
    if (!big(column)) continue;
    for (let row = c.dims.length - 1; row >= 0; row--) {
      if (row === column || !big(row)) continue;
      const onlyColumn = uses.some((u) => u[column] && !u[row]);
      const onlyRow = uses.some((u) => u[row] && !u[column]);
      if (onlyColumn && onlyRow) return { row, column };
    }
  }
  return undefined;
}

/** The register tile over the space in which the group's contraction is blocked, when its index is the space's. */
function blocking(
  group: GroupSpec,
  plan: LoopPlan,
  device: DeviceProfile,
): { sizes: number[]; row: number; column: number; tile: ContractionTile } | undefined {
  const main = group.members.find((m) => contractionDims(m) !== undefined);
  if (!main) return undefined;
  const dims = contractionDims(main);
  if (!dims) return undefined;
  // Where the contraction's dims are in the space: element for element, or by a permutation.
  const map = indexFromSpace(group, plan, main);
  if (!map) return undefined;
  const sizes = plan.space.map(() => 1);
  const vars = spaceVars(plan.space);
  const where = (dim: number): number => vars.findIndex((v) => v.key === map[dim]?.key);
  const row = where(dims.row);
  const column = where(dims.column);
  if (row < 0 || column < 0) return undefined;
  const size = (i: number): number => bound(group.program, plan.space[i] ?? I.num(1));
  const tile = contractionTile(
    size(row),
    size(column),
    boundElements(group.program, plan.space),
    boundElements(
      group.program,
      main.reduce.map((r) => r.extent),
    ),
    device,
  );
  sizes[row] = tile.row;
  sizes[column] = tile.column;
  return { sizes, row, column, tile };
}

/** The index of `c`'s value over the space's variables, by following one chain of reads from the primary output. */
function indexFromSpace(
  group: GroupSpec,
  plan: LoopPlan,
  c: Compute,
): readonly IndexExpr[] | undefined {
  const byValue = new Map(group.members.map((m) => [m.value, m]));
  const at = new Map<ValueId, readonly IndexExpr[]>();
  for (const s of plan.stores) at.set(s.value, s.point);
  for (const m of [...group.members].reverse()) {
    const point = at.get(m.value);
    if (!point) continue;
    if (m === c) return point;
    const env = new Map(m.dims.map((d, i) => [d.name, point[i] ?? I.num(0)]));
    visitLoads(m.body, (l) => {
      if (at.has(l.value) || !byValue.has(l.value)) return;
      at.set(
        l.value,
        l.index.map((i) => I.rewrite(i, (a) => (a.kind === 'var' ? env.get(a.name) : undefined))),
      );
    });
  }
  return at.get(c.value);
}

const LOOP_WORKGROUP = 64;

export interface ScheduleOptions {
  readonly device: DeviceProfile;
  readonly f16: boolean;
}

/**
 * Schedules the group, or says all that stands against it. A *screened* answer is the same where the
 * group can be scheduled, and may come without reasons where it can't: see screen.ts.
 */
export function scheduleGroup(
  group: GroupSpec,
  options: ScheduleOptions,
  screened = false,
  /** One dispatch and no more. */
  whole = false,
): ScheduleResult {
  const { program } = group;
  const screen = screened ? new Screen(group) : undefined;
  if (screen && screen.buffers > options.device.limits.maxStorageBuffersPerShaderStage)
    return { ok: false, verdicts: [] };
  const nodes = [...new Set(group.members.flatMap((m) => m.origin))];
  const candidates: Scheduled[] = [];
  const verdicts: Verdict[] = [];
  const reductions = group.members.filter((m) => m.monoid);
  const builder: BuilderOptions = { f16: options.f16, draft: true };
  const consider = (schedule: Schedule, ir: KernelIr, b: Builder, tiling: Tiling = {}): void => {
    const features = countFeatures(group, ir, b, options.f16, options.device.loadWork, tiling);
    const bad = [
      ...repeatVerdicts(group, features, nodes),
      ...limitVerdicts(features, options.device, nodes),
    ];
    if (bad.length > 0) {
      for (const v of bad) if (!verdicts.some((w) => w.code === v.code)) verdicts.push(v);
      return;
    }
    candidates.push({
      schedule,
      features,
      cost: Math.round(kernelTimeUs(features, options.device).us * 1e6),
    });
  };

  const plan = screen?.repeatsInLoop(LOOP_WORKGROUP) ? undefined : planLoop(group);
  if (plan) {
    const tile = reductions.length > 0 ? blocking(group, plan, options.device) : undefined;
    // Priced untiled: a register tile only lets each load serve several products.
    const built = buildLoop(
      'k',
      group,
      plan,
      { workgroup: LOOP_WORKGROUP, tile: { kind: 'linear', size: 1 }, unroll: 0 },
      builder,
    );
    const linear = (): number =>
      reductions.length > 0
        ? 1
        : linearTile(
            boundElements(group.program, plan.space),
            built.ir.body.length,
            options.device,
          );
    const schedule: Schedule = {
      kind: 'loop',
      plan,
      contraction: tile !== undefined,
      params: {
        workgroup: LOOP_WORKGROUP,
        tile: tile
          ? { kind: 'dims', sizes: tile.sizes, row: tile.row, column: tile.column }
          : { kind: 'linear', size: linear() },
        unroll: options.device.unroll,
      },
    };
    consider(schedule, built.ir, built.builder, tile ? { tile: tile.tile } : {});
  }
  if (
    reductions.length > 0 &&
    !(candidates[0]?.schedule.kind === 'loop' && candidates[0].schedule.contraction)
  ) {
    const placement = placeRows(group);
    if (placement) {
      const params = rowParams(group, placement, options);
      const open = symbolicRow(group, placement, params);
      if (open) verdicts.push(open);
      else if (!screen?.repeatsInRows(placement, new Set(params.cached))) {
        const tried = [params, ...rowsAcross(group, placement, params, options.device)];
        for (const params of tried) {
          const built = buildRow('k', group, placement, params, builder);
          consider({ kind: 'row', placement, params }, built.ir, built.builder);
          if (walksTogether(group, placement, params)) {
            const online = { ...params, online: true };
            const together = buildRow('k', group, placement, online, builder);
            consider({ kind: 'row', placement, params: online }, together.ir, together.builder);
          }
        }
      }
      // A row that must be kept can be walked in tiles instead.
      if (params.cached.length > 0) {
        const plan = planStream(group, placement);
        const tiles = 'fault' in plan ? undefined : streamParams(group, plan, options.device);
        if ('fault' in plan) explainTiles(verdicts, plan.fault);
        else if (!tiles) explainTiles(verdicts, TOO_MANY_COLUMNS);
        else {
          const built = buildStream('k', group, plan, tiles, builder);
          const padding = streamPadding(program, plan, tiles);
          consider({ kind: 'stream', plan, params: tiles }, built.ir, built.builder, { padding });
        }
      }
    }
  }
  let best: Scheduled | undefined;
  for (const c of candidates) if (!best || c.cost < best.cost * alike(c)) best = c;
  if (best) {
    const inTwo = whole ? undefined : splitSchedule(group, options, best.features);
    return { ok: true, value: inTwo && inTwo.cost < best.cost ? inTwo : best };
  }
  if (verdicts.length === 0 && !screened) {
    verdicts.push({
      code: 'MAP_NOT_COMPOSABLE',
      nodes,
      message: 'their results lie in index spaces that no single kernel covers element for element',
      counterfactual:
        'would fuse if both results had one shape, or one were a row-wise reduction of the other',
      confidence: 'proved',
    });
  }
  return { ok: false, verdicts };
}

/** One walk along a row may cost this much more: that memory moves again with each walk isn't in the price. */
const FEWER_WALKS = 1.05;

function alike({ schedule }: Scheduled): number {
  return schedule.kind === 'row' && schedule.params.online ? FEWER_WALKS : 1;
}

/** Whether some reductions of a row, too long for registers, can walk along it together. */
function walksTogether(group: GroupSpec, placement: Placement, params: RowParams): boolean {
  return (
    params.unrolled === 0 &&
    group.members.filter((m) => m.monoid).length > 1 &&
    rowPasses(group, placement, new Set(params.cached)).size > 0
  );
}

/**
 * What two dispatches may take of the time of one: the model must be sure, for a second launch is. The
 * margin is part of the price, so that a group doesn't become cheaper by growing until it is split.
 */
const WORTH_SPLITTING = 0.6;

function splitSchedule(
  group: GroupSpec,
  options: ScheduleOptions,
  alone: Features,
): Scheduled | undefined {
  const wanted = partsWanted(group, options.device, alone);
  const groups = wanted === undefined ? undefined : splitGroups(group, wanted);
  if (!groups) return undefined;
  const dispatch = (spec: GroupSpec): { part: SchedulePart; features: Features } | undefined => {
    const r = scheduleGroup(spec, options, true, true);
    if (!r.ok) return undefined;
    const { schedule, features } = r.value;
    if (schedule.kind === 'horizontal' || schedule.kind === 'split') return undefined;
    return { part: { spec, schedule }, features };
  };
  const first = dispatch(groups.first);
  const second = first && dispatch(groups.second);
  if (!first || !second) return undefined;
  const features = sequenceFeatures(first.features, second.features, groups.scratch);
  const us = [first, second].reduce((t, p) => t + kernelTimeUs(p.features, options.device).us, 0);
  return {
    schedule: {
      kind: 'split',
      shares: groups.parts,
      parts: [first.part, second.part],
      scratch: groups.scratch,
    },
    features,
    cost: Math.round((us * 1e6) / WORTH_SPLITTING),
  };
}

/**
 * The group's price with a given schedule, counted on the code as it will be built; or what the
 * adapter's limits say against it. Prices of two schedules of one group compare; the scheduler's own
 * ({@link scheduleGroup}) are counted on untiled drafts.
 */
export function priceSchedule(
  group: GroupSpec,
  schedule: Schedule,
  options: ScheduleOptions,
): ScheduleResult {
  const draft: BuilderOptions = { f16: options.f16, draft: true };
  const count = (part: SchedulePart): Features => {
    const { ir, builder } = buildOne('k', part, draft);
    return countFeatures(part.spec, ir, builder, options.f16, options.device.loadWork);
  };
  const counted = (): Features => {
    switch (schedule.kind) {
      case 'horizontal':
        return joinFeatures(group.program, group.slices, options.f16, schedule.parts.map(count));
      case 'split': {
        const [first, second] = schedule.parts;
        return sequenceFeatures(count(first), count(second), schedule.scratch);
      }
      case 'loop':
      case 'row':
      case 'stream':
        return count({ spec: group, schedule });
    }
  };
  const features = counted();
  const nodes = [...new Set(group.members.flatMap((m) => m.origin))];
  const verdicts = limitVerdicts(features, options.device, nodes);
  if (verdicts.length > 0) return { ok: false, verdicts };
  const cost = Math.round(kernelTimeUs(features, options.device).us * 1e6);
  return { ok: true, value: { schedule, features, cost } };
}

/** The group over the rows of one of its reductions, with every result stored once. */
function placeRows(group: GroupSpec): Placement | undefined {
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
    if (stored !== boundElements(program, shape)) return undefined;
  }
  return placement;
}

/** Workgroup memory has a fixed size: a row vector that is kept must have a known length. */
function symbolicRow(
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

const TOO_MANY_COLUMNS =
  'a reduction along the row has more results in a row than the invocations of a workgroup can accumulate';

/** Why a row that is too long to be kept can't be walked in tiles either. */
function explainTiles(verdicts: Verdict[], fault: string): void {
  verdicts.forEach((v, i) => {
    if (v.code !== 'WORKGROUP_MEMORY') return;
    verdicts[i] = { ...v, message: `${v.message}; nor can the row be walked in tiles: ${fault}` };
  });
}

/** How many times over a row and position is evaluated because tiles are not all full. */
function streamPadding(program: GroupSpec['program'], plan: StreamPlan, p: StreamParams): number {
  const whole = (n: number, by: number): number => (Math.ceil(n / by) * by) / Math.max(1, n);
  const dim = plan.blocked === undefined ? undefined : plan.placement.rows[plan.blocked];
  return (
    whole(bound(program, plan.online.length), p.tile) * whole(dim ? bound(program, dim) : 1, p.rows)
  );
}

function rowParams(group: GroupSpec, placement: Placement, options: ScheduleOptions): RowParams {
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
      return { threads: 1, rows: together, block: 1, unrolled: 0, cached, online: false };
    }
    return { threads: 64, rows: 1, block: 1, unrolled: 0, cached, online: false };
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
    };
  }
  const workgroup = Math.max(threads, Math.min(64, maxThreads));
  const chunk = Math.ceil(length / threads);
  return {
    threads,
    rows: workgroup / threads,
    block: 1,
    unrolled: chunk <= 16 ? chunk : 0,
    cached,
    online: false,
  };
}

/** Rows that lie across memory: as many side by side as fill sectors. For GPUs; what it gains is priced. */
function rowsAcross(
  group: GroupSpec,
  placement: Placement,
  params: RowParams,
  device: DeviceProfile,
): RowParams[] {
  const { program } = group;
  const last = placement.rows[placement.rows.length - 1];
  const beside = last ? bound(program, last) : 1;
  if (device.software || params.cached.length > 0 || params.threads === 1 || beside < 8) return [];
  let rows = 8;
  while (rows < 32 && rows * 2 <= beside) rows *= 2;
  const threads = Math.max(1, Math.min(params.threads, (params.threads * params.rows) / rows));
  if (threads < 2) return [];
  const chunk = params.unrolled > 0 ? Math.ceil((params.unrolled * params.threads) / threads) : 0;
  return [{ ...params, rows, threads, across: true, unrolled: chunk <= 16 ? chunk : 0 }];
}

function vectorLength(program: GroupSpec['program'], placement: Placement, v: ValueId): number {
  return boundElements(program, placement.placed.get(v)?.free.map((f) => f.extent) ?? []);
}

function limitVerdicts(f: Features, d: DeviceProfile, nodes: readonly string[]): Verdict[] {
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

function repeatVerdicts(group: GroupSpec, f: Features, nodes: readonly string[]): Verdict[] {
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

/** Builds the final code of a scheduled group: tiles and vectors included. One kernel per dispatch. */
export function buildKernel(
  name: string,
  group: GroupSpec,
  schedule: Schedule,
  f16: boolean,
): KernelIr[] {
  switch (schedule.kind) {
    case 'loop':
    case 'row':
    case 'stream':
      return [finalCode(name, { spec: group, schedule }, f16)];
    case 'split':
      return schedule.parts.map((p) => ({
        ...finalCode(name, p, f16),
        scratch: schedule.scratch,
      }));
    case 'horizontal':
      return [onOneGrid(name, group, schedule.parts, f16)];
  }
}

function onOneGrid(
  name: string,
  group: GroupSpec,
  parts: readonly SchedulePart[],
  f16: boolean,
): KernelIr {
  const built = parts.map((p) => finalCode(name, p, f16));
  // A buffer has one width for all parts: that of vectors only where each of them that uses it can.
  const scalar = new Set<ValueId>();
  for (const ir of built) for (const b of ir.buffers) if (!b.vector) scalar.add(b.value);
  return joinKernels(
    name,
    group.program,
    built.map((ir, i) => {
      const part = parts[i];
      const narrow = ir.buffers.some((b) => b.vector && scalar.has(b.value));
      return part && narrow ? finalCode(name, part, f16, scalar) : ir;
    }),
  );
}

/** One part's code, with vectors where they can be, but for the buffers in `scalar`. */
function finalCode(
  name: string,
  part: SchedulePart,
  f16: boolean,
  scalar?: ReadonlySet<ValueId>,
): KernelIr {
  const first = buildOne(name, part, { f16 });
  const vector = vectorBuffers(first.builder, part.spec);
  for (const v of scalar ?? []) vector.delete(v);
  return vector.size === 0 ? first.ir : buildOne(name, part, { f16, vector }).ir;
}

function buildOne(
  name: string,
  { spec, schedule }: SchedulePart,
  options: BuilderOptions,
): { ir: KernelIr; builder: Builder } {
  switch (schedule.kind) {
    case 'loop':
      return buildLoop(name, spec, schedule.plan, schedule.params, options);
    case 'row':
      return buildRow(name, spec, schedule.placement, schedule.params, options);
    case 'stream':
      return buildStream(name, spec, schedule.plan, schedule.params, options);
  }
}

/**
 * The buffers to bind as vectors of four: all stores come as aligned neighbours, and reads are at a
 * lane known at compile time.
 */
function vectorBuffers(b: Builder, group: GroupSpec): Set<ValueId> {
  const out = new Set<ValueId>();
  const by = new Map<ValueId, { linear: IndexExpr; store: boolean; batch: number }[]>();
  for (const a of b.accesses) {
    const list = by.get(a.buffer);
    if (list) list.push(a);
    else by.set(a.buffer, [a]);
  }
  for (const [value, list] of by) {
    const v = group.program.values.get(value);
    if (!v || !I.exactDiv(I.product(v.shape), 4)) continue;
    const lanes = new Map<string, Set<number>>();
    let ok = list.length >= 4;
    for (const a of list) {
      const lane = I.constOf(I.mod(a.linear, 4));
      if (lane === undefined) {
        ok = false;
        break;
      }
      const q = `${a.batch} ${I.floorDiv(a.linear, 4).key}`;
      const set = lanes.get(q) ?? new Set<number>();
      set.add(lane);
      lanes.set(q, set);
    }
    // A store of part of a vector isn't possible; a read of one lane only would waste the rest.
    if (ok && [...lanes.values()].every((s) => s.size === 4)) out.add(value);
  }
  return out;
}
