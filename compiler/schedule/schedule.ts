/**
 * L2 → L3: which template makes a group one kernel, with which parameters, at what price; or why
 * none does.
 *
 * Templates are tried where they can apply, and the cheapest by the cost model wins. What every
 * template must respect (the adapter's limits) is checked on the built kernel, so that what legality
 * says is what the code generator does.
 */
import type { Verdict } from '../fusion/verdicts';
import type { Value } from '../ir/compute';
import * as I from '../ir/indexExpr';
import type { DeviceProfile } from '../result';
import { buildOne, finalCode } from './build';
import type { Builder, BuilderOptions } from './builder';
import { blocking } from './contraction';
import {
  countFeatures,
  countRegisters,
  type Counts,
  countWork,
  type Features,
  type Tiling,
} from './features';
import { bound, boundElements, type GroupSpec } from './group';
import { joinFeatures } from './horizontal';
import type { KernelIr } from './kernelIr';
import { type Least, leastOf, leastRowMemory, leastRowPs, leastStreamPs } from './least';
import { chunkedDispatches, limitVerdicts, mostInvocations, repeatVerdicts } from './limits';
import { buildLoop, type LoopParams, type LoopPlan, planLoop } from './loop';
import type { Placement } from './placement';
import { buildRow, type RowParams } from './row';
import {
  onlineParams,
  placeRows,
  rowBlocks,
  rowParams,
  rowsAcross,
  symbolicRow,
} from './rowParams';
import { buildScan, planScan, type ScanParams, scanParams, type ScanPlan } from './scan';
import { Screen } from './screen';
import { buildSort, planSort, type SortParams, sortParams, type SortPlan } from './sort';
import { partsWanted, sequenceFeatures, splitGroups, splittable } from './splitReduce';
import { stagedProduct, stagingPays } from './staging';
import { buildStream } from './stream';
import { planStream, streamParams, type StreamParams, type StreamPlan } from './streamPlan';
import { linearTile, unrolledTurns } from './tiles';
import { kernelTimeUs } from './time';
import {
  buildTranspose,
  planTranspose,
  type TransposeParams,
  transposeParams,
  type TransposePlan,
} from './transpose';
import { pointwiseTurns } from './turns';
import { windowTile } from './windows';

export type Schedule =
  | {
      readonly kind: 'loop';
      readonly plan: LoopPlan;
      readonly params: LoopParams;
      readonly contraction: boolean;
    }
  | { readonly kind: 'row'; readonly placement: Placement; readonly params: RowParams }
  | { readonly kind: 'stream'; readonly plan: StreamPlan; readonly params: StreamParams }
  | { readonly kind: 'scan'; readonly plan: ScanPlan; readonly params: ScanParams }
  | { readonly kind: 'sort'; readonly plan: SortPlan; readonly params: SortParams }
  | {
      readonly kind: 'transpose';
      readonly plan: TransposePlan;
      readonly params: TransposeParams;
    }
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
  readonly schedule: Schedule & { kind: 'loop' | 'row' | 'stream' | 'scan' | 'sort' | 'transpose' };
}

export interface Scheduled {
  readonly schedule: Schedule;
  readonly features: Features;
  /** Estimated time, picoseconds, an integer: so that plans are the same on every machine. */
  readonly cost: number;
}

export type ScheduleResult =
  | { readonly ok: true; readonly value: Scheduled }
  | {
      readonly ok: false;
      readonly verdicts: readonly Verdict[];
      /** It may well be possible, at this price or more: nobody would take it. */
      readonly leastPs?: number;
    };

const LOOP_WORKGROUP = 64;

/** Code that is only counted, of a schedule that is weighed. */
interface Draft {
  readonly schedule: SchedulePart['schedule'];
  readonly ir: KernelIr;
  readonly builder: Builder;
  readonly tiling: Tiling | undefined;
}

export interface ScheduleOptions {
  readonly device: DeviceProfile;
  readonly f16: boolean;
}

/**
 * Schedules the group, or says all that stands against it. A *screened* answer is the same where the
 * group can be scheduled for less than the *budget*, and may come without reasons where it can't: see
 * screen.ts and least.ts.
 */
export function scheduleGroup(
  group: GroupSpec,
  options: ScheduleOptions,
  screened = false,
  /** One dispatch and no more. */
  whole = false,
  budgetPs = Infinity,
): ScheduleResult {
  const { program } = group;
  const { device, f16 } = options;
  const memory = device.limits.maxComputeWorkgroupStorageSize;
  const screen = screened ? new Screen(group) : undefined;
  if (screen && screen.buffers > device.limits.maxStorageBuffersPerShaderStage)
    return { ok: false, verdicts: [] };
  const nodes = [...new Set(group.members.flatMap((m) => m.origin))];
  let first: Scheduled | undefined;
  let best: Scheduled | undefined;
  const verdicts: Verdict[] = [];
  const reductions = group.members.filter((m) => m.monoid);
  const builder: BuilderOptions = { f16, draft: true };
  const price = (f: Features): number => Math.round(kernelTimeUs(f, device).us * 1e6);
  /** What a draft does, and what stands against it. */
  const counted = ({ schedule, ir, builder: b, tiling }: Draft): [Counts, readonly Verdict[]] => {
    const { dispatches, verdicts: unbound } = chunkedDispatches(
      group,
      ir,
      () => finalCode('k', { spec: group, schedule }, f16),
      device,
      nodes,
    );
    const counts = {
      ...countWork(group, ir, b, f16, device.loadWork, tiling),
      dispatches,
    };
    const bad = [
      ...repeatVerdicts(group, counts, nodes),
      ...limitVerdicts(counts, device, nodes),
      ...unbound,
    ];
    return [counts, bad];
  };
  const priced = ({ schedule, ir, tiling }: Draft, counts: Counts): Scheduled => {
    const features = { ...counts, ...countRegisters(group, ir, counts, tiling) };
    return { schedule, features, cost: price(features) };
  };
  const refuse = (bad: readonly Verdict[]): void => {
    for (const v of bad) addVerdict(verdicts, v);
  };
  const take = (candidate: Scheduled): void => {
    first ??= candidate;
    if (!best || pays(candidate.schedule, candidate.cost, best.cost)) best = candidate;
  };
  const consider = (
    schedule: SchedulePart['schedule'],
    built: { readonly ir: KernelIr; readonly builder: Builder },
    tiling?: Tiling,
  ): void => {
    const draft = { schedule, ...built, tiling };
    const [counts, bad] = counted(draft);
    if (bad.length > 0) refuse(bad);
    // Registers can only add to its price.
    else if (!best || pays(schedule, price({ ...counts, registers: 0, pressure: [] }), best.cost))
      take(priced(draft, counts));
  };

  let bounds: Least | undefined;
  const least = (): Least => (bounds ??= leastOf(group, f16));
  // Two dispatches may take less time than any one.
  const budget = budgetPs < Infinity && screened && !splittable(group) ? budgetPs : Infinity;
  let overBudget = false;
  /** Whether a schedule would cost more than what there is, and needn't be built to know. */
  const loses = (schedule: Schedule, leastPs: number): boolean => {
    if (best !== undefined && !pays(schedule, leastPs, best.cost)) return true;
    const over = leastPs >= FEWER_WALKS * budget;
    overBudget ||= over;
    return over;
  };

  const plan = screen?.repeatsInLoop(LOOP_WORKGROUP) ? undefined : planLoop(group);
  if (plan) {
    const product = reductions.length > 0 ? blocking(group, plan, device) : undefined;
    const windows = reductions.length > 0 && !product ? windowTile(group, plan, device) : undefined;
    const tile = product ?? windows;
    // Priced untiled: a register tile only lets each load serve several products.
    const built = buildLoop(
      'k',
      group,
      plan,
      { workgroup: LOOP_WORKGROUP, tile: { kind: 'linear', size: 1 }, unroll: 0 },
      builder,
    );
    const linear = (): LoopParams['tile'] => {
      const kind = 'linear';
      if (reductions.length > 0) return { kind, size: 1 };
      const bound = built.ir.buffers.map((b) => b.value);
      const turns = pointwiseTurns(group, plan, bound, device);
      if (turns) return { kind, size: 4, turns };
      const elements = boundElements(group.program, plan.space);
      const size = linearTile(elements, built.ir.body, device);
      return { kind, size, turns: { dim: 0, count: 1 } };
    };
    const schedule: SchedulePart['schedule'] = {
      kind: 'loop',
      plan,
      contraction: product !== undefined,
      params: {
        workgroup: LOOP_WORKGROUP,
        tile: tile
          ? {
              kind: 'dims',
              sizes: tile.sizes,
              row: tile.row,
              column: tile.column,
              ...(windows ? { windows: true } : {}),
            }
          : linear(),
        unroll: unrolledTurns(tile?.tile, device),
        ...(product && stagedProduct(group, plan)
          ? {
              staging: stagingPays(
                product.tile,
                bound(program, plan.space[product.row] ?? I.num(1)),
                bound(program, plan.space[product.column] ?? I.num(1)),
                LOOP_WORKGROUP,
                device,
              ),
            }
          : {}),
      },
    };
    consider(schedule, built, tile ? { tile: tile.tile } : {});
  }
  const walk = plan && reductions.length > 0 ? planScan(group, plan) : undefined;
  if (walk)
    for (const params of scanParams(group, walk, device)) {
      consider({ kind: 'scan', plan: walk, params }, buildScan('k', group, walk, params, builder));
    }
  const order = reductions.length === 2 ? planSort(group) : undefined;
  if (order)
    for (const params of sortParams(group, order, device)) {
      consider(
        { kind: 'sort', plan: order, params },
        buildSort('k', group, order, params, builder),
      );
    }
  // Operands that lie across the results, where memory moves in sectors.
  const direct = first;
  if (plan && direct && reductions.length === 0 && direct.features.wastedBytes > 0) {
    const crossing = planTranspose(group, plan);
    const params = transposeParams(mostInvocations(device.limits));
    if (crossing)
      consider(
        { kind: 'transpose', plan: crossing, params },
        buildTranspose('k', group, crossing, params, builder),
      );
  }
  if (reductions.length > 0 && !tiled(first)) {
    const placement = placeRows(group);
    if (placement) {
      const params = rowParams(group, placement, options);
      const open = symbolicRow(group, placement, params);
      if (open) verdicts.push(open);
      const cached = new Set(params.cached);
      const along = open || screen?.repeatsInRows(placement, cached) ? [] : [params];
      const rows = [
        ...along,
        ...along.flatMap((p) => rowsAcross(group, placement, p, device)),
        ...along.flatMap((p) => rowBlocks(group, placement, p, device)),
      ]
        .flatMap((p) => [p, onlineParams(group, placement, p, device) ?? []].flat())
        .filter((p) => !screen || leastRowMemory(placement, p, program) <= memory)
        .map((p) => ({ p, leastPs: leastRowPs(group, placement, p, least(), device) }));
      // A row that must be kept can be walked in tiles instead.
      const plan = cached.size > 0 ? planStream(group, placement) : undefined;
      const tiles = !plan || 'fault' in plan ? undefined : streamParams(group, plan, device);
      const stream = (): Draft | undefined => {
        if (!plan || 'fault' in plan || !tiles) return undefined;
        const schedule = { kind: 'stream', plan, params: tiles } as const;
        const leastPs = leastStreamPs(group, plan, tiles, least(), device);
        // What it is weighed against may yet be a walk that costs more than what there is now.
        if (loses(schedule, leastPs / FEWER_WALKS)) return undefined;
        const tiling = { padding: streamPadding(program, plan, tiles) };
        return { schedule, ...buildStream('k', group, plan, tiles, builder), tiling };
      };
      // Tiles are mostly quicker by far than rows that don't fit: then the latter needn't be built.
      const draft = stream();
      const [counts, bad] = draft ? counted(draft) : [undefined, []];
      const tiled = draft && counts && bad.length === 0 ? priced(draft, counts) : undefined;
      for (const { p, leastPs } of rows) {
        const schedule = { kind: 'row', placement, params: p } as const;
        if (tiled && leastPs >= FEWER_WALKS * tiled.cost) continue;
        if (loses(schedule, leastPs)) continue;
        consider(schedule, buildRow('k', group, placement, p, builder));
      }
      if (plan && 'fault' in plan) explainTiles(verdicts, plan.fault);
      else if (plan && !tiles) explainTiles(verdicts, TOO_MANY_COLUMNS);
      refuse(bad);
      if (tiled) take(tiled);
    }
  }
  // What wasn't built may be the cheapest of them.
  if (overBudget && !(best && best.cost < budget))
    return { ok: false, verdicts: [], leastPs: budget };
  if (best) {
    const inTwo = whole ? undefined : splitSchedule(group, options, best.features);
    const two = inTwo && inTwo.cost < WORTH_SPLITTING * best.cost;
    return { ok: true, value: two ? inTwo : best };
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

/** Whether it is a loop whose results share what they read in a register tile. */
function tiled(s: Scheduled | undefined): boolean {
  return s?.schedule.kind === 'loop' && s.schedule.params.tile.kind === 'dims';
}

/** What a square through workgroup memory may take of the time of the plain loop. */
const WORTH_CROSSING = 0.9;

/** One walk along a row may cost this much more: that memory moves again with each walk isn't in the price. */
const FEWER_WALKS = 1.05;

/** Whether a schedule is taken in the place of one that takes `before`. */
function pays(schedule: Schedule, cost: number, before: number): boolean {
  // One that only its launch takes time is better left as it can share a grid.
  if (schedule.kind === 'transpose') return cost <= before * WORTH_CROSSING;
  const online = schedule.kind === 'row' && schedule.params.online;
  return cost < before * (online ? FEWER_WALKS : 1);
}

/**
 * What two dispatches may take of the time of one: the model must be sure, for a second launch is. A
 * merge that makes one of the two of kernels that weren't is held to it as well, so that no group
 * becomes cheaper by growing until it is split.
 */
export const WORTH_SPLITTING = 0.6;

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
  return {
    schedule: {
      kind: 'split',
      shares: groups.parts,
      parts: [first.part, second.part],
      scratch: groups.scratch,
    },
    features,
    // As whoever shows the kernel has it, from its features.
    cost: Math.round(kernelTimeUs(features, options.device).us * 1e6),
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
  const nodes = [...new Set(group.members.flatMap((m) => m.origin))];
  const unbound: Verdict[] = [];
  const count = (part: SchedulePart): Features => {
    const { ir, builder } = buildOne('k', part, draft);
    const { dispatches, verdicts } = chunkedDispatches(
      part.spec,
      ir,
      () => finalCode('k', part, options.f16),
      options.device,
      nodes,
    );
    unbound.push(...verdicts);
    const counted = countFeatures(part.spec, ir, builder, options.f16, options.device.loadWork);
    return { ...counted, dispatches };
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
      case 'scan':
      case 'sort':
      case 'transpose':
        return count({ spec: group, schedule });
    }
  };
  const features = counted();
  const verdicts = [...limitVerdicts(features, options.device, nodes), ...unbound];
  if (verdicts.length > 0) return { ok: false, verdicts };
  const cost = Math.round(kernelTimeUs(features, options.device).us * 1e6);
  return { ok: true, value: { schedule, features, cost } };
}

const TOO_MANY_COLUMNS =
  'a reduction along the row has more results in a row than the invocations of a workgroup can accumulate';

/** Of what stands against several templates, that of the one which comes nearest. */
function addVerdict(verdicts: Verdict[], v: Verdict): void {
  const at = verdicts.findIndex((w) => w.code === v.code);
  const old = verdicts[at];
  if (!old) verdicts.push(v);
  else if ((v.quantity ?? Infinity) < (old.quantity ?? Infinity)) verdicts[at] = v;
}

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
