/**
 * Template `scan`: running reductions (see ir/running.ts) along one dim of the space, with what feeds
 * them and what follows place for place.
 *
 * Some invocations of a workgroup walk along a row together, in *strides* of as many *chunks* of
 * neighbours as there are invocations. Each combines its chunk by itself; the totals of the chunks are
 * scanned in workgroup memory, doubling the distance from step to step (Hillis and Steele 1986); what
 * has been met in earlier strides is carried along. One invocation a row needs neither workgroup memory
 * nor barriers: right where rows are many, or lie side by side in memory.
 *
 * A running reduction over n places takes n steps this way, where the loop over all places up to one's
 * own takes n²/2.
 */
import type { Compute } from '../ir/compute';
import type { ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import { type Running, runningOf } from '../ir/running';
import type { DeviceProfile } from '../result';
import { Builder, type BuilderOptions, type Point } from './builder';
import { all, less, select } from './expressions';
import { finishKernel } from './grid';
import { bound, boundElements, extents, type GroupSpec, visitLoads } from './group';
import type { KernelIr, KExpr, KType } from './kernelIr';
import { mostInvocations } from './limits';
import { type LoopPlan, spaceVars } from './loop';
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
import { convert, identity, ktype, lit, MONOID_OP, narrow } from './scalars';
import { REPEAT_LIMIT } from './screen';

export interface ScanPlan extends LoopPlan {
  /** The dim of the space that is walked along. */
  readonly axis: number;
  readonly reverse: boolean;
  readonly scans: readonly {
    readonly compute: Compute;
    readonly running: Running;
    /** Over the variables of the space. */
    readonly point: Point;
  }[];
}

export type ScanParams = RowSharing;

/** Neighbours an invocation takes together: a vector. */
const CHUNK = 4;
const ROWS = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/** What can be set of a `scan` kernel. */
export const SCAN_SPACE: ParameterSpace<ScanParams, null> = {
  parameters: [
    {
      name: 'threads',
      doc: 'invocations that walk along a row together',
      read: (p) => p.threads,
      tried: (_, __, most) => powersOfTwo(1, Math.min(most, 256)),
      write: (p, threads, most) =>
        Number.isInteger(Math.log2(threads)) && threads <= most
          ? { ...p, threads }
          : { refused: threadsWanted(most) },
      wanted: threadsWanted,
    },
    {
      name: 'rows',
      doc: 'rows a workgroup',
      read: (p) => p.rows,
      tried: (_, __, most) => ROWS.filter((r) => r <= most),
      write: (p, rows, most) => (rows <= most ? { ...p, rows } : { refused: rowsWanted(most) }),
      wanted: rowsWanted,
    },
  ],
  together: ({ threads, rows }, most) =>
    threads * rows <= most
      ? undefined
      : `threads × rows must be at most ${most}, what the adapter allows`,
};

function threadsWanted(most: number): string {
  return `threads must be a power of two from 1 to ${most}`;
}

function rowsWanted(most: number): string {
  return `rows must be a whole number from 1 to ${most}`;
}

/** How the group is walked along; undefined where it isn't running reductions and work place for place. */
export function planScan(group: GroupSpec, plan: LoopPlan): ScanPlan | undefined {
  const { program } = group;
  const found: { compute: Compute; running: Running }[] = [];
  for (const compute of group.members) {
    if (!compute.monoid) continue;
    const running = runningOf(compute);
    if (!running) return undefined;
    found.push({ compute, running });
  }
  const [first] = found;
  if (!first) return undefined;
  const { reverse } = first.running;
  if (found.some((f) => f.running.reverse !== reverse || readsScan(group, f.compute)))
    return undefined;

  const vars = spaceVars(plan.space);
  const trace = new Builder(program, group.members);
  vars.forEach((_, i) => trace.bindVar(`p${i}`, plan.space[i] ?? I.num(1), lit(0, 'i32')));
  const points = new Map<ValueId, Map<string, Point>>();
  trace.onEvaluate = (value, point) => {
    const at = points.get(value) ?? new Map<string, Point>();
    points.set(value, at.set(point.map((p) => p.key).join(), point));
  };
  for (const s of plan.stores) trace.value(s.value, s.point);
  let axis: number | undefined;
  const scans: ScanPlan['scans'][number][] = [];
  for (const { compute, running } of found) {
    const at = [...(points.get(compute.value)?.values() ?? [])];
    const [point] = at;
    if (!point || at.length > 1) return undefined;
    const along = vars.findIndex((v) => v.key === point[running.axis]?.key);
    const own = vars[along];
    if (!own || (axis !== undefined && axis !== along)) return undefined;
    axis = along;
    if (point.some((p, i) => i !== running.axis && dependsOn(p, own))) return undefined;
    // Each place once: rows that share one would walk it again and again.
    if (
      boundElements(program, plan.space) >
      REPEAT_LIMIT * boundElements(program, extents(compute))
    )
      return undefined;
    scans.push({ compute, running, point });
  }
  return axis === undefined ? undefined : { ...plan, axis, reverse, scans };
}

/** Whether a running reduction's elements need another one of the group. */
function readsScan(group: GroupSpec, c: Compute): boolean {
  const members = new Map(group.members.map((m) => [m.value, m]));
  const seen = new Set<ValueId>();
  const reaches = (m: Compute): boolean => {
    let found = false;
    visitLoads(m.body, (l) => {
      const producer = members.get(l.value);
      if (found || !producer || seen.has(l.value)) return;
      seen.add(l.value);
      found = producer.monoid !== undefined || reaches(producer);
    });
    return found;
  };
  return reaches(c);
}

function dependsOn(e: IndexExpr, variable: IndexExpr): boolean {
  let found = false;
  I.visitAtoms(e, (a) => {
    if (a.kind === 'dyn' || (a.kind === 'var' && a.key === variable.key)) found = true;
  });
  return found;
}

/** The parameters to be priced, at the sizes that the program's dims have. */
export function scanParams(
  { program }: GroupSpec,
  plan: ScanPlan,
  device: DeviceProfile,
): ScanParams[] {
  const most = mostInvocations(device.limits);
  const chunks = Math.ceil(bound(program, plan.space[plan.axis] ?? I.num(1)) / chunkOf(plan));
  const fits = (threads: number): number =>
    Math.max(1, Math.min(threads, most, 2 ** Math.ceil(Math.log2(Math.max(1, chunks)))));
  const rows = boundElements(program, rowDims(plan.space, plan.axis));
  const beside = (threads: number): number =>
    Math.max(1, Math.min(Math.floor(64 / threads), 2 ** Math.ceil(Math.log2(Math.max(1, rows)))));
  return [...new Set([1, 64, 256].map(fits))].map((threads) => ({
    threads,
    rows: beside(threads),
  }));
}

function chunkOf(plan: ScanPlan): number {
  return I.exactDiv(plan.space[plan.axis] ?? I.num(1), CHUNK) ? CHUNK : 1;
}

/** A running reduction while the code walks along the row. */
interface Walker {
  readonly compute: Compute;
  readonly running: Running;
  readonly point: Point;
  readonly type: KType;
  /** All that was met in earlier strides. */
  readonly carry: KExpr;
  /** In workgroup memory: the totals of chunks, twice. */
  readonly totals: string | undefined;
}

export function buildScan(
  name: string,
  group: GroupSpec,
  plan: ScanPlan,
  params: ScanParams,
  options: BuilderOptions,
): { ir: KernelIr; builder: Builder } {
  const { threads, rows } = params;
  const workgroup = threads * rows;
  const b = new Builder(group.program, group.members, { ...options, slices: group.slices });
  const length = plan.space[plan.axis] ?? I.num(1);
  const chunk = chunkOf(plan);
  const chunks = I.exactDiv(length, chunk) ?? length;
  const lanes = rowLanes(b, plan.space, plan.axis, params);
  const { x, inside } = lanes;

  const walkers = plan.scans.map((s): Walker => {
    const type = ktype(s.compute.accumulator);
    const totals = threads === 1 ? undefined : b.fresh('totals');
    if (totals !== undefined) b.shared.push({ name: totals, type, length: 2 * workgroup });
    return {
      ...s,
      type,
      totals,
      carry: b.variable('carry', type, identity(s.running.monoid, type)),
    };
  });

  const strides = I.ceilDiv(chunks, threads);
  const wholeStrides = threads === 1 || I.exactDiv(chunks, threads) !== undefined;
  const stride = (i: IndexExpr): void => {
    const turn = I.add(I.mul(i, threads), x);
    const clamped = wholeStrides
      ? undefined
      : clampedVar(b, 'chunk', turn, chunks, (l) => l % threads);
    const at = clamped?.at ?? turn;
    const valid = clamped?.valid;
    const from = I.mul(plan.reverse ? I.sub(I.sub(chunks, 1), at) : at, chunk);
    /** The places of the chunk in the order in which they are met. */
    const envs = Array.from({ length: chunk }, (_, u) =>
      lanes.envAt(I.add(from, plan.reverse ? chunk - 1 - u : u)),
    );
    for (const w of walkers) step(b, w, envs, { valid, threads, workgroup, lanes });
    for (const s of plan.stores) {
      const points = envs.map((env) => pointAt(s.point, env));
      const values = b.valueMany(s.value, points);
      const conds = [...(valid ? [valid] : []), ...inside];
      const store = (): void => b.storeMany(s.value, points, values);
      if (conds.length === 0) store();
      else b.guarded(all(conds), store);
    }
    // The next stride writes what slower invocations may still read.
    if (threads > 1 && !I.isConst(strides, 1)) b.emit({ s: 'barrier' });
  };
  if (I.isConst(strides, 1)) stride(I.num(0));
  else b.loop('stride', strides, stride);
  const workgroups = rowWorkgroups(plan.space, plan.axis, params);
  return { ir: finishKernel(name, b, workgroup, workgroups, options), builder: b };
}

interface Stride {
  /** Whether the invocation has a chunk in this stride; undefined where all have. */
  readonly valid: KExpr | undefined;
  readonly threads: number;
  readonly workgroup: number;
  readonly lanes: RowLanes;
}

/** One running reduction at the places of the invocation's chunk; afterwards the builder knows its values there. */
function step(
  b: Builder,
  w: Walker,
  envs: readonly ReadonlyMap<string, IndexExpr>[],
  s: Stride,
): void {
  const { compute, running, type } = w;
  const { lid, x, y } = s.lanes;
  const neutral = identity(running.monoid, type);
  const combined = (a: KExpr, c: KExpr): KExpr => ({
    k: 'binary',
    fn: MONOID_OP[running.monoid.kind],
    a,
    b: c,
    type,
    depth: Math.max(a.depth, c.depth),
  });
  const points = envs.map((env) => pointAt(w.point, env));
  const upTo: KExpr[] = [];
  points.forEach((point, u) => {
    const env = new Map(compute.dims.map((d, i) => [d.name, point[i] ?? I.num(0)]));
    for (const r of compute.reduce) env.set(r.name, point[running.axis] ?? I.num(0));
    const element = convert(b.expr(running.term, env), type);
    const counted = s.valid ? select(s.valid, element, neutral) : element;
    const before = upTo[u - 1];
    upTo.push(b.frozen('upTo', before ? combined(before, counted) : counted));
  });
  const total = upTo[upTo.length - 1] ?? neutral;

  const { totals } = w;
  let base: KExpr;
  if (totals === undefined) {
    base = b.frozen('base', w.carry);
    b.set(w.carry, combined(base, total));
  } else {
    let half = 0;
    const cell = (at: KExpr): KExpr => (half === 0 ? at : b.int('iadd', at, lit(half, 'i32')));
    const read = (at: KExpr): KExpr => ({
      k: 'shared',
      name: totals,
      index: cell(at),
      type,
      depth: b.depth,
    });
    const write = (value: KExpr): void =>
      b.emit({ s: 'setShared', name: totals, index: cell(lid), value });
    /** What the invocation that many places before in the row has. */
    const back = (distance: number): KExpr => {
      const at = b.int('imax', b.int('isub', lid, lit(distance, 'i32')), lit(0, 'i32'));
      const there = less(lit(distance - 1, 'i32'), b.index(x));
      return select(there, b.frozen('earlier', read(at)), neutral);
    };
    let own = total;
    write(own);
    b.emit({ s: 'barrier' });
    for (let distance = 1; distance < s.threads; distance *= 2) {
      own = b.frozen('scanned', combined(back(distance), own));
      half = s.workgroup - half;
      write(own);
      b.emit({ s: 'barrier' });
    }
    const last = I.add(I.mul(y, s.threads), s.threads - 1);
    base = b.frozen('base', combined(w.carry, back(1)));
    b.set(w.carry, combined(w.carry, b.frozen('all', read(b.index(last)))));
  }
  points.forEach((point, u) => {
    const before = running.exclusive ? upTo[u - 1] : upTo[u];
    const raw = before ? combined(base, before) : base;
    const value = narrow(convert(raw, ktype(compute.dtype)), compute.accumulator, compute.dtype);
    b.define(compute.value, point, b.frozen('running', value));
  });
}
