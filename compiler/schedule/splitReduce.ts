/**
 * Template `split-reduce`: long reductions with few results, in two dispatches.
 *
 * A sum of ten million elements to one number is one row: one workgroup would walk it while the rest
 * of the device is idle. Here the reduced dims are cut into parts; a first dispatch reduces each part
 * of each result into a scratch buffer, a second one reduces the parts and goes on with what follows.
 * The same serves products with few results and a long sum (split along k). Each dispatch is a group
 * of its own, made by rewriting the computes, and has one of the other templates.
 *
 * Vocabulary
 *  - *part*: a share of a reduction's points; *parts*: how many there are per result.
 *  - *partial*: the value of all parts' results, parts first: shape [parts, …result].
 */
import { constant, load, rewriteExpr, type ValueId, visitExpr, when } from '../ir/expr';
import type { Compute, Monoid, Program, Value } from '../ir/compute';
import * as I from '../ir/indexExpr';
import type { DeviceProfile } from '../result';
import type { Features } from './features';
import { bound, boundElements, extents, type GroupSpec, visitLoads } from './group';
import { CPU_LANES } from './tiles';

export interface SplitGroups {
  readonly parts: number;
  readonly first: GroupSpec;
  readonly second: GroupSpec;
  /** What the first dispatch hands to the second: no values of the program. */
  readonly scratch: readonly Value[];
}

/** Points of a part, at least: shorter ones cost more to combine than they save. */
const LEAST_POINTS = 64;
const MOST_PARTS = 1024;
/** Reductions of fewer points than this in all are over before a second launch is. */
const LEAST_WORK = 1 << 15;

/**
 * How many parts would keep the device busy; undefined where it is busy without, or the group isn't of
 * this kind. `alone` is what the kernel does in one dispatch.
 */
export function partsWanted(
  group: GroupSpec,
  device: DeviceProfile,
  alone: Features,
): number | undefined {
  const main = splittable(group);
  if (!main) return undefined;
  const { program } = group;
  const results = boundElements(program, extents(main));
  const points = boundElements(
    program,
    main.reduce.map((r) => r.extent),
  );
  if (results < 1 || results * points < LEAST_WORK) return undefined;
  const most = Math.min(MOST_PARTS, Math.floor(points / LEAST_POINTS));
  // What runs side by side now: on a CPU whole workgroups, a row each. On a GPU, where rows spread
  // over invocations waste what memory moves, one invocation a result.
  const wasteful = alone.wastedBytes > alone.bytesRead + alone.bytesWritten;
  const now = device.software
    ? Math.ceil(results / 64) * CPU_LANES
    : wasteful
      ? results
      : alone.threads;
  const wanted = Math.ceil(device.saturatingThreads / now);
  let parts = 1;
  while (parts < wanted && parts * 2 <= most) parts *= 2;
  // A few more than cores, so that none waits long for the last.
  if (device.software && parts > 1) parts = Math.min(4 * parts, most);
  return parts >= 2 ? parts : undefined;
}

/**
 * The reduction that the group is about, when it can be split: all reductions have the same dims, none
 * needs another's result, and everything stored needs one of them.
 */
export function splittable(group: GroupSpec): Compute | undefined {
  const reductions = group.members.filter((m) => m.monoid);
  const [main] = reductions;
  if (!main) return undefined;
  const alike = (a: Compute, b: Compute): boolean =>
    a.dims.length === b.dims.length &&
    a.reduce.length === b.reduce.length &&
    a.dims.every((d, i) => I.same(d.extent, b.dims[i]?.extent ?? I.num(-1))) &&
    a.reduce.every((d, i) => I.same(d.extent, b.reduce[i]?.extent ?? I.num(-1)));
  if (!reductions.every((r) => alike(main, r) && combinable(r.monoid))) return undefined;
  const after = new Set<ValueId>();
  for (const m of group.members) {
    let reads = false;
    visitLoads(m.body, (l) => (reads = reads || after.has(l.value)));
    if (m.monoid && reads) return undefined;
    if (m.monoid || reads) after.add(m.value);
  }
  return group.outputs.every((o) => after.has(o)) ? main : undefined;
}

/** Whether partial results combine by the monoid itself: positions don't. */
function combinable(
  m: Monoid | undefined,
): m is Monoid & { kind: 'sum' | 'prod' | 'max' | 'min' | 'and' | 'or' } {
  return m !== undefined && m.kind !== 'argmax' && m.kind !== 'argmin';
}

/** The two groups; undefined where no reduced dim has that many points. */
export function splitGroups(group: GroupSpec, wanted: number): SplitGroups | undefined {
  const main = splittable(group);
  if (!main) return undefined;
  const { program } = group;
  const at = main.reduce.findIndex((r) => bound(program, r.extent) >= wanted);
  const cut = main.reduce[at];
  if (!cut) return undefined;
  const parts = partsThatDivide(I.constOf(cut.extent), wanted);
  const partials: Compute[] = [];
  const finals = new Map<ValueId, Compute>();
  const scratch: Value[] = [];
  for (const c of group.members) {
    if (!combinable(c.monoid)) continue;
    const partial = partialOf(program, c, at, parts);
    if (!partial) return undefined;
    scratch.push(partial.value);
    partials.push(partial.compute);
    finals.set(c.value, finalOf(c, partial.value, parts));
  }
  const before = group.members.filter((m) => !m.monoid);
  const values = new Map<ValueId, Value>();
  for (const m of group.members) {
    const touch = (id: ValueId): void => {
      const v = program.values.get(id);
      if (v) values.set(id, v);
      const slice = group.slices?.get(id);
      if (slice) touch(slice.into);
    };
    touch(m.value);
    visitExpr(m.body, (e) => {
      if (e.op === 'load') touch(e.value);
    });
  }
  for (const v of scratch) values.set(v.id, v);
  const own: Program = { ...program, values };
  const slices = group.slices ? { slices: group.slices } : {};
  return {
    parts,
    first: {
      program: own,
      members: [...upstream(before, partials), ...partials],
      outputs: scratch.map((s) => s.id),
      literals: group.literals,
      ...slices,
    },
    second: {
      program: own,
      members: group.members.map((m) => finals.get(m.value) ?? m),
      outputs: group.outputs,
      literals: group.literals,
      ...slices,
    },
    scratch,
  };
}

/** A number of parts near the wanted one, without a rest where there is one. */
function partsThatDivide(extent: number | undefined, wanted: number): number {
  if (extent === undefined) return wanted;
  for (let d = 0; d <= wanted / 2; d++) {
    if (extent % (wanted + d) === 0) return wanted + d;
    if (extent % (wanted - d) === 0) return wanted - d;
  }
  return wanted;
}

/** Those of the members (in order) that the computes need. */
function upstream(members: readonly Compute[], of: readonly Compute[]): Compute[] {
  const needed = new Set<ValueId>();
  const note = (c: Compute): void => visitLoads(c.body, (l) => needed.add(l.value));
  of.forEach(note);
  const out: Compute[] = [];
  for (const m of [...members].reverse()) {
    if (!needed.has(m.value)) continue;
    out.unshift(m);
    note(m);
  }
  return out;
}

const IDENTITY = { sum: 0, prod: 1, max: -Infinity, min: Infinity, and: 1, or: 0 } as const;

/** Part s of the points: those of the cut dim from s · chunk on. */
function partialOf(
  program: Program,
  c: Compute,
  at: number,
  parts: number,
): { readonly compute: Compute; readonly value: Value } | undefined {
  const cut = c.reduce[at];
  const named = program.values.get(c.value);
  if (!cut || !named || !combinable(c.monoid)) return undefined;
  const chunk = I.ceilDiv(cut.extent, parts);
  const exact = I.exactDiv(cut.extent, parts) !== undefined;
  // Integers have no infinity to stand for what isn't there.
  const { kind } = c.monoid;
  if (!exact && (kind === 'max' || kind === 'min') && c.body.dtype !== 'f32') return undefined;
  const part = I.loopVar('d0', I.num(parts));
  const point = I.add(I.mul(part, chunk), I.loopVar(cut.name, chunk));
  const env = new Map<string, I.IndexExpr>([[cut.name, point]]);
  c.dims.forEach((d, i) => env.set(d.name, I.loopVar(`d${i + 1}`, d.extent)));
  const moved = rewriteExpr(c.body, (a) => (a.kind === 'var' ? env.get(a.name) : undefined));
  const body = exact
    ? moved
    : when(
        [{ index: point, lo: I.num(0), hi: cut.extent }],
        moved,
        constant(IDENTITY[kind], c.body.dtype),
      );
  const id = `${c.value}~parts`;
  return {
    compute: {
      ...c,
      id: `${c.id}~parts`,
      value: id,
      dims: [
        { name: 'd0', extent: I.num(parts) },
        ...c.dims.map((d, i) => ({ name: `d${i + 1}`, extent: d.extent })),
      ],
      reduce: c.reduce.map((r, i) => (i === at ? { name: r.name, extent: chunk } : r)),
      body,
      dtype: c.accumulator,
    },
    value: {
      id,
      name: `${named.name}_parts`,
      dtype: c.accumulator,
      shape: [I.num(parts), ...extents(c)],
      role: 'computed',
    },
  };
}

function finalOf(c: Compute, partial: Value, parts: number): Compute {
  const index = [I.loopVar('r0', I.num(parts)), ...c.dims.map((d) => I.loopVar(d.name, d.extent))];
  return {
    ...c,
    reduce: [{ name: 'r0', extent: I.num(parts) }],
    body: load(partial.id, index, c.accumulator),
  };
}

/** What both dispatches do together. */
export function sequenceFeatures(
  first: Features,
  second: Features,
  scratch: readonly Value[],
): Features {
  const bytesOf = new Map(first.bytesOf);
  for (const [v, bytes] of second.bytesOf) bytesOf.set(v, Math.max(bytes, bytesOf.get(v) ?? 0));
  for (const s of scratch) bytesOf.delete(s.id);
  return {
    ...first,
    dispatches: first.dispatches + second.dispatches,
    flops: first.flops + second.flops,
    work: first.work + second.work,
    sharedAccesses: first.sharedAccesses + second.sharedAccesses,
    barriers: first.barriers + second.barriers,
    bytesRead: first.bytesRead + second.bytesRead,
    bytesWritten: first.bytesWritten + second.bytesWritten,
    wastedBytes: first.wastedBytes + second.wastedBytes,
    bytesOf,
    buffers: Math.max(first.buffers, second.buffers),
    sharedBytes: Math.max(first.sharedBytes, second.sharedBytes),
    registers: Math.max(first.registers, second.registers),
    pressure: [...first.pressure, ...second.pressure],
    size: first.size + second.size,
    repeated: [...first.repeated, ...second.repeated],
  };
}
