/**
 * Template `sort`: rows put in order in workgroup memory (see ir/ordering.ts), with what the keys are
 * computed from and what reads the elements in their order.
 *
 * The invocations that share a row write the keys and the positions of its elements to workgroup memory
 * and sort them there by a bitonic network (Batcher 1968): log²(n) steps of n/2 exchanges, where counting
 * ranks takes n² comparisons, and looking the ranks up as many again. A row has as many cells as the next
 * power of two; those beyond its end come last.
 *
 * Vocabulary
 *  - *ranks*, *placing*: the two computes that the network takes the place of.
 *  - *cell*: a key and a position in workgroup memory.
 */
import type { Compute } from '../ir/compute';
import type { ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import { placingOf, type Ranking, rankingOf } from '../ir/ordering';
import type { DeviceProfile } from '../result';
import { Builder, type BuilderOptions, type Point } from './builder';
import { all, equal, less, select } from './expressions';
import { finishKernel } from './grid';
import { boundElements, extents, type GroupSpec, visitLoads } from './group';
import type { KernelIr, KExpr, KType } from './kernelIr';
import { mostInvocations } from './limits';
import { type LoopPlan, planLoop, spaceVars } from './loop';
import { type ParameterSpace, powersOfTwo } from './parameters';
import {
  clampedVar,
  pointAt,
  rowDims,
  type RowLanes,
  rowLanes,
  type RowSharing,
  rowWorkgroups,
} from './rowLanes';
import { identity, ktype, lit } from './scalars';
import { REPEAT_LIMIT } from './screen';

export interface SortPlan extends LoopPlan {
  /** The dim of the space that is ordered along. */
  readonly axis: number;
  readonly ranks: Compute;
  readonly ranking: Ranking;
  readonly placing: ValueId;
  /** Where the placing is asked for, over the variables of the space. */
  readonly point: Point;
  /** Elements of a row. */
  readonly length: number;
}

export interface SortParams extends RowSharing {
  /** Of a row: a power of two. */
  readonly cells: number;
}

/** Cells of a row, at most: more don't fit in any adapter's workgroup memory. */
const MOST_CELLS = 8192;

/** Exchanges of a step that an invocation does, at most. */
const MOST_EXCHANGES = 16;

/** What can be set of a `sort` kernel. */
export const SORT_SPACE: ParameterSpace<SortParams, null> = {
  parameters: [
    {
      name: 'threads',
      doc: 'invocations that sort a row together',
      read: (p) => p.threads,
      tried: ({ cells }, _, most) => powersOfTwo(leastThreads(cells), Math.min(most, cells / 2)),
      write: (p, threads, most) =>
        Number.isInteger(Math.log2(threads)) && threads <= most
          ? { ...p, threads }
          : { refused: threadsWanted(most) },
      wanted: threadsWanted,
    },
  ],
  together: ({ threads, rows, cells }, most) => {
    const [from, to] = [leastThreads(cells), cells / 2];
    if (threads < from || threads > to)
      return `a row has ${cells} cells, so that threads must be from ${from} to ${to}`;
    return threads * rows <= most
      ? undefined
      : `a workgroup has ${rows} rows, so that threads can be at most ${Math.floor(most / rows)}`;
  },
};

/** So that no invocation has too many exchanges of a step to be written out. */
function leastThreads(cells: number): number {
  return Math.max(1, cells / 2 / MOST_EXCHANGES);
}

function threadsWanted(most: number): string {
  return `threads must be a power of two from 1 to ${most}`;
}

export function cellsOf({ length }: SortPlan): number {
  return 2 ** Math.ceil(Math.log2(Math.max(2, length)));
}

/** How the group's rows are sorted; undefined where it isn't an order and work place for place. */
export function planSort(group: GroupSpec): SortPlan | undefined {
  const { program, members } = group;
  const reductions = members.filter((m) => m.monoid);
  const [ranks, placing] = reductions;
  if (!ranks || !placing || reductions.length > 2) return undefined;
  const ranking = rankingOf(ranks);
  const placed = ranking && placingOf(placing);
  if (!ranking || placed?.ranks !== ranks.value || placed.axis !== ranking.axis) return undefined;
  const length = I.constOf(ranks.dims[ranking.axis]?.extent ?? I.num(0));
  if (length === undefined || length < 2 || length > MOST_CELLS) return undefined;
  if (group.outputs.includes(ranks.value)) return undefined;
  for (const m of members) {
    let reads = false;
    visitLoads(m.body, (l) => (reads ||= l.value === ranks.value));
    if (reads && m !== placing) return undefined;
  }
  const plan = planLoop(group);
  if (!plan) return undefined;

  const vars = spaceVars(plan.space);
  const trace = new Builder(program, members);
  vars.forEach((_, i) => trace.bindVar(`p${i}`, plan.space[i] ?? I.num(1), lit(0, 'i32')));
  const points = new Map<string, Point>();
  trace.onEvaluate = (value, point) => {
    if (value === placing.value) points.set(point.map((p) => p.key).join(), point);
  };
  for (const s of plan.stores) trace.value(s.value, s.point);
  const [point] = [...points.values()];
  const axis = vars.findIndex((v) => v.key === point?.[ranking.axis]?.key);
  const along = vars[axis];
  if (!point || points.size > 1 || !along) return undefined;
  const elsewhere = point.some((p, i) => {
    let found = false;
    I.visitAtoms(
      p,
      (a) => (found ||= a.kind === 'dyn' || (a.kind === 'var' && a.key === along.key)),
    );
    return found && i !== ranking.axis;
  });
  // Rows that share an order would sort it again and again.
  const again =
    boundElements(program, plan.space) > REPEAT_LIMIT * boundElements(program, extents(placing));
  if (elsewhere || again) return undefined;
  return { ...plan, axis, ranks, ranking, placing: placing.value, point, length };
}

/** The parameters to be priced. */
export function sortParams(
  { program }: GroupSpec,
  plan: SortPlan,
  device: DeviceProfile,
): SortParams[] {
  const most = mostInvocations(device.limits);
  const pairs = cellsOf(plan) / 2;
  const rows = boundElements(program, rowDims(plan.space, plan.axis));
  const room = device.limits.maxComputeWorkgroupStorageSize / (8 * cellsOf(plan));
  const beside = (threads: number): number =>
    2 ** Math.max(0, Math.floor(Math.log2(Math.min(64 / threads, rows, room))));
  return [
    ...new Set([64, 256].map((t) => Math.min(Math.max(t, leastThreads(2 * pairs)), pairs, most))),
  ].map((threads) => ({
    threads,
    rows: beside(threads),
    cells: cellsOf(plan),
  }));
}

export function buildSort(
  name: string,
  group: GroupSpec,
  plan: SortPlan,
  params: SortParams,
  options: BuilderOptions,
): { ir: KernelIr; builder: Builder } {
  const { threads, rows } = params;
  const cells = cellsOf(plan);
  const b = new Builder(group.program, group.members, { ...options, slices: group.slices });
  const lanes = rowLanes(b, plan.space, plan.axis, params);
  const type = ktype(plan.ranking.key.dtype);
  const row: Row = {
    b,
    lanes,
    keys: b.fresh('keys'),
    places: b.fresh('places'),
    type,
    first: b.index(I.mul(lanes.y, cells)),
    descending: plan.ranking.descending,
  };
  b.shared.push({ name: row.keys, type, length: cells * rows });
  b.shared.push({ name: row.places, type: 'i32', length: cells * rows });

  fill(row, plan, params, cells);
  network(row, params, cells);

  const results = plan.space[plan.axis] ?? I.num(1);
  const turn = (i: IndexExpr): void => {
    const at = I.add(I.mul(i, threads), lanes.x);
    const clamped = I.exactDiv(results, threads)
      ? undefined
      : clampedVar(b, 'rank', at, results, (l) => l % threads);
    const env = lanes.envAt(clamped?.at ?? at);
    const found = read(row, row.places, b.index(clamped?.at ?? at), 'i32');
    b.define(plan.placing, pointAt(plan.point, env), b.frozen('place', found));
    const conds = [...(clamped ? [clamped.valid] : []), ...lanes.inside];
    for (const s of plan.stores) {
      const point = pointAt(s.point, env);
      const value = b.value(s.value, point);
      const store = (): void => b.store(s.value, point, value);
      if (conds.length === 0) store();
      else b.guarded(all(conds), store);
    }
  };
  const turns = I.ceilDiv(results, threads);
  if (I.isConst(turns, 1)) turn(I.num(0));
  else b.loop('turn', turns, turn);
  const workgroups = rowWorkgroups(plan.space, plan.axis, params);
  return { ir: finishKernel(name, b, threads * rows, workgroups, options), builder: b };
}

/** A row in workgroup memory. */
interface Row {
  readonly b: Builder;
  readonly lanes: RowLanes;
  readonly keys: string;
  readonly places: string;
  readonly type: KType;
  /** Its first cell. */
  readonly first: KExpr;
  readonly descending: boolean;
}

function cell({ b, first }: Row, at: KExpr): KExpr {
  return first.k === 'lit' && first.value === 0 ? at : b.int('iadd', first, at);
}

function read(row: Row, name: string, at: KExpr, type: KType): KExpr {
  const { b } = row;
  return b.frozen('cell', { k: 'shared', name, index: cell(row, at), type, depth: b.depth });
}

function write(row: Row, name: string, at: KExpr, value: KExpr): void {
  row.b.emit({ s: 'setShared', name, index: cell(row, at), value });
}

/** Writes the row's keys and places, in the order in which they are. */
function fill(row: Row, plan: SortPlan, { threads }: SortParams, cells: number): void {
  const { b, lanes } = row;
  const length = I.num(plan.length);
  const { ranks, ranking } = plan;
  const last = identity({ kind: ranking.descending ? 'max' : 'min' }, row.type);
  const some = (i: IndexExpr): void => {
    const turn = I.add(I.mul(i, threads), lanes.x);
    const at =
      cells === plan.length ? turn : clampedVar(b, 'at', turn, length, (l) => l % threads).at;
    // The ranks' row is the placing's, whatever its length.
    const point = pointAt(plan.point, lanes.envAt(I.num(0)));
    const env = new Map(
      ranks.dims.map((d, k) => [d.name, k === ranking.axis ? at : (point[k] ?? I.num(0))]),
    );
    const own = b.expr(ranking.key, env);
    // What is beyond the end has the last of all keys, and a place behind those that have it too.
    const key =
      cells === plan.length ? own : select(less(b.index(turn), b.index(length)), own, last);
    write(row, row.keys, b.index(turn), b.frozen('key', key));
    write(row, row.places, b.index(turn), b.index(turn));
  };
  if (cells === threads) some(I.num(0));
  else b.loop('fill', I.num(cells / threads), some);
  b.emit({ s: 'barrier' });
}

/**
 * The network: blocks of 2, 4, 8… cells are merged, each by exchanges over half of it, a quarter, and so
 * on; every other block the other way round, so that two make a sequence that rises and falls. One loop
 * over all steps, with the exchanges of a step written out: loops within each other, with barriers, take
 * some shader compilers seconds.
 */
function network(row: Row, { threads }: SortParams, cells: number): void {
  const { b, lanes } = row;
  const levels = Math.log2(cells);
  const one = lit(1, 'i32');
  const level = b.variable('level', 'i32', lit(0, 'i32'));
  const step = b.variable('step', 'i32', lit(0, 'i32'));
  b.loop('turn', I.num((levels * (levels + 1)) / 2), () => {
    const size = b.frozen('size', bits('shl', lit(2, 'i32'), level));
    const distance = b.frozen('distance', bits('shl', one, b.int('isub', level, step)));
    for (let i = 0; i < cells / 2 / threads; i++) {
      const pair = b.index(I.add(lanes.x, i * threads));
      const low = b.frozen('low', bits('bitand', pair, b.int('isub', distance, one)));
      const a = b.frozen('a', b.int('isub', b.int('imul', pair, lit(2, 'i32')), low));
      const c = b.frozen('c', b.int('iadd', a, distance));
      exchange(row, a, c, equal(bits('bitand', a, size), lit(0, 'i32')));
    }
    const done = b.frozen('done', equal(step, level));
    b.set(step, select(done, lit(0, 'i32'), b.int('iadd', step, one)));
    b.set(level, select(done, b.int('iadd', level, one), level));
    b.emit({ s: 'barrier' });
  });
}

function bits(fn: 'shl' | 'bitand', a: KExpr, b: KExpr): KExpr {
  return { k: 'binary', fn, a, b, type: 'i32', depth: Math.max(a.depth, b.depth) };
}

/** Exchanges two cells where the second comes before the first just when they should rise. */
function exchange(row: Row, a: KExpr, c: KExpr, rising: KExpr): void {
  const { b, keys, places, type } = row;
  const [keyA, keyC] = [read(row, keys, a, type), read(row, keys, c, type)];
  const [placeA, placeC] = [read(row, places, a, 'i32'), read(row, places, c, 'i32')];
  const logic = (fn: 'and' | 'or', x: KExpr, y: KExpr): KExpr => ({
    k: 'binary',
    fn,
    a: x,
    b: y,
    type: 'bool',
    depth: b.depth,
  });
  const earlier = row.descending ? less(keyA, keyC) : less(keyC, keyA);
  const before = logic('or', earlier, logic('and', equal(keyA, keyC), less(placeC, placeA)));
  // Written back in any case: what a branch would save is less than what it costs.
  const swap = b.frozen('swap', equal(before, rising));
  write(row, keys, a, select(swap, keyC, keyA));
  write(row, keys, c, select(swap, keyA, keyC));
  write(row, places, a, select(swap, placeC, placeA));
  write(row, places, c, select(swap, placeA, placeC));
}
