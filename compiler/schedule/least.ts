/**
 * What a kernel takes at least, told before any code of it is built.
 *
 * The search weighs many kernels that come to nothing: rows of nine elements that meet in workgroup
 * memory, a product computed row by row because a softmax stands beside it. Of these a few counts that
 * the parameters alone say (invocations, barriers, the arithmetic without which there is no result)
 * are often enough to be dearer than what there is. A bound here is never above the price that
 * schedule.ts counts on the draft: what it rules out could not have been taken.
 *
 * Vocabulary
 *  - *whole* member: all of its elements are computed in any case.
 *  - arithmetic is counted by the dims that it *varies* with: it is done at least once for each
 *    position along them.
 */
import { storageBytes, storageOf } from '../graph/dtype';
import type { Compute, Program } from '../ir/compute';
import type { Expr, ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { DeviceProfile } from '../result';
import { unaryWeight } from './features';
import { bound, boundElements, extents, type GroupSpec, visitLoads } from './group';
import type { Placement } from './placement';
import type { RowParams } from './row';
import { streamWorkgroups } from './streamLayout';
import type { StreamParams, StreamPlan } from './streamPlan';
import { kernelTimeUs, type Timed } from './time';

/** What each kernel of a group does, whatever the template. */
export interface Least {
  readonly bytesWritten: number;
  readonly members: ReadonlySet<ValueId>;
  readonly reductions: readonly Reduction[];
}

/** A whole reduction. */
interface Reduction {
  readonly compute: Compute;
  /** Elements of it, times what each sums up. */
  readonly evaluations: number;
  readonly work: number;
  /** The same where what doesn't vary along a row may come out of its sums (see online.ts). */
  readonly onlineWork: number;
  /** What is read anew for each point that is summed up, with the dims it varies with. */
  readonly reads: readonly { readonly value: ValueId; readonly names: ReadonlySet<string> }[];
}

export function leastOf(group: GroupSpec, f16: boolean): Least {
  const { program, members, outputs } = group;
  let bytesWritten = 0;
  const reductions: Reduction[] = [];
  const whole = wholeMembers(group);
  for (const m of members) {
    if (outputs.includes(m.value))
      bytesWritten +=
        boundElements(program, extents(m)) *
        storageBytes(storageOf(program.values.get(m.value)?.dtype ?? m.dtype, f16));
    if (m.monoid && whole.has(m.value)) reductions.push(reductionOf(group, m));
  }
  return { bytesWritten, members: new Set(members.map((m) => m.value)), reductions };
}

/** Outputs, and what whole members read as a whole and without a condition. */
function wholeMembers({ members, outputs }: GroupSpec): Set<ValueId> {
  const byValue = new Map(members.map((m) => [m.value, m]));
  const whole = new Set(outputs);
  for (let i = members.length - 1; i >= 0; i--) {
    const m = members[i];
    if (!m || !whole.has(m.value)) continue;
    visitLoads(m.body, (l, conditional) => {
      const of = byValue.get(l.value);
      if (of && !conditional && covers(l.index, of)) whole.add(of.value);
    });
  }
  return whole;
}

/** Whether an index goes over all elements of the value: a variable of its own for each dim. */
function covers(index: readonly I.IndexExpr[], of: Compute): boolean {
  const used = new Set<string>();
  return of.dims.every((d, i) => {
    const e = index[i];
    const [t] = e?.terms ?? [];
    const [v] = t?.factors ?? [];
    if (!e || e.c !== 0 || e.terms.length > 1) return false;
    if (!t) return I.isConst(d.extent, 1);
    if (v?.kind !== 'var' || t.factors.length > 1 || t.coef !== 1 || used.has(v.name)) return false;
    used.add(v.name);
    return I.same(v.extent, d.extent);
  });
}

/** Bytes of workgroup memory that a row kernel needs, at least. */
export function leastRowMemory(placement: Placement, params: RowParams, program: Program): number {
  const abreast = params.rows * params.block;
  let most = 0;
  // Arrays may serve several vectors, one after the other.
  for (const v of params.cached) {
    const free = placement.placed.get(v)?.free.map((f) => f.extent) ?? [];
    most = Math.max(most, boundElements(program, free) * abreast);
  }
  return 4 * most;
}

/** The price of a row kernel with the parameters, at least; picoseconds. */
export function leastRowPs(
  group: GroupSpec,
  placement: Placement,
  params: RowParams,
  least: Least,
  device: DeviceProfile,
): number {
  const { program, members } = group;
  const { threads, rows, block } = params;
  const workgroups = Math.ceil(boundElements(program, placement.rows) / (rows * block));
  const invocations = workgroups * threads * rows;
  const kept = new Set(params.cached);
  const together = members.filter(
    (m) => m.monoid && placement.placed.get(m.value)?.free.length === 0 && !kept.has(m.value),
  ).length;
  // A tree in workgroup memory: all put their share there, half of what is left is added at each level.
  const trees = threads > 1 && params.subgroups !== true ? together : 0;
  const levels = Math.log2(threads);
  const positions = Math.max(params.unrolled, MOST_POSITIONS * params.vectors);
  const abreast = { rows: block, positions };
  const { loads, kept: looked } = readsOf(least, placement, kept, () => abreast);
  const work = least.reductions.reduce((n, r) => n + (params.online ? r.onlineWork : r.work), 0);
  return leastPs(
    {
      ...{ threads: invocations, workgroups, bytesWritten: least.bytesWritten },
      work: work + loads * device.loadWork,
      barriers: invocations * (trees * (levels + 2) + kept.size),
      sharedAccesses: looked + invocations * trees * block * (2 * levels + 2),
    },
    device,
  );
}

/** Positions of a row that an invocation takes in at once: a vector, or as many without one. */
const MOST_POSITIONS = 4;

/** The price of a stream kernel with the parameters, at least; picoseconds. */
export function leastStreamPs(
  { program }: GroupSpec,
  plan: StreamPlan,
  params: StreamParams,
  least: Least,
  device: DeviceProfile,
): number {
  const workgroups = bound(program, streamWorkgroups(plan, params));
  const invocations = workgroups * params.threads;
  const tiles = Math.ceil(bound(program, plan.online.length) / params.tile);
  // Where a mask hides what comes after, about half of a row is walked along.
  const walked = plan.end ? 0.5 : 1;
  const lanes = (params.threads * params.outRows) / params.rows;
  const columns = new Map(
    plan.vectors.map((v) => [v.streamed.compute.value, Math.ceil(v.columns / lanes)]),
  );
  const { loads } = readsOf(least, plan.placement, NONE, ({ value }) => {
    const positions = columns.get(value);
    return positions === undefined ? params.together : { rows: params.outRows, positions };
  });
  const work = least.reductions.reduce((n, r) => n + r.onlineWork, 0);
  return leastPs(
    {
      ...{ threads: invocations, workgroups, bytesWritten: least.bytesWritten },
      work: (work + loads * device.loadWork) * walked,
      barriers: invocations * tiles * walked,
      sharedAccesses: 0,
    },
    device,
  );
}

/**
 * How often reductions read memory and what is kept for a row, at least. `abreast`: the rows, and the
 * positions of each, that an invocation evaluates a reduction for together: what it reads may serve
 * all of them.
 */
function readsOf(
  { members, reductions }: Least,
  { placed }: Placement,
  keptRows: ReadonlySet<ValueId>,
  abreast: (c: Compute) => { readonly rows: number; readonly positions: number },
): { loads: number; kept: number } {
  const times = new Map<ValueId, number>();
  for (const { compute, evaluations, reads } of reductions) {
    const p = placed.get(compute.value);
    if (!p) continue;
    const { rows, positions } = abreast(compute);
    const [free, second] = p.free;
    /** Whether it is another element at each position. */
    const apart = (names: ReadonlySet<string>): boolean =>
      !free ||
      (!second && compute.dims.some((d, i) => names.has(d.name) && p.point[i]?.key === free.name));
    for (const { value, names } of reads) {
      const n = evaluations / (rows * (apart(names) ? 1 : positions));
      // What one reduction reads another may know.
      times.set(value, Math.max(times.get(value) ?? 0, n));
    }
  }
  let [loads, kept] = [0, 0];
  for (const [value, n] of times) {
    if (keptRows.has(value)) kept += n;
    else if (!members.has(value)) loads += n;
  }
  return { loads, kept };
}

function leastPs(
  counts: Pick<
    Timed,
    'threads' | 'workgroups' | 'bytesWritten' | 'work' | 'barriers' | 'sharedAccesses'
  >,
  device: DeviceProfile,
): number {
  const least = { ...counts, dispatches: 1, bytesRead: 0, wastedBytes: 0, pressure: [] };
  // Sums in another order may differ in their last digits.
  return Math.floor(kernelTimeUs(least, device).us * 1e6) - 1;
}

function reductionOf({ program }: GroupSpec, compute: Compute): Reduction {
  const { dims, reduce, body } = compute;
  const sizes = new Map<string, number>();
  for (const d of [...dims, ...reduce]) sizes.set(d.name, Math.max(0, bound(program, d.extent)));
  const times = (names: Iterable<string>): number => {
    let n = 1;
    for (const name of names) n *= sizes.get(name) ?? 1;
    return n;
  };
  const along = (names: ReadonlySet<string>): boolean => reduce.some((r) => names.has(r.name));
  let [work, onlineWork] = [0, 0];
  const reads: { value: ValueId; names: ReadonlySet<string> }[] = [];
  /** The dims that the value varies with; what is done for it is added. */
  const visit = (e: Expr): ReadonlySet<string> => {
    switch (e.op) {
      case 'const':
        return NONE;
      case 'index':
        return variables([e.index]);
      case 'load': {
        const names = variables(e.index);
        if (isPlain(e.index) && reduce.every((r) => names.has(r.name)))
          reads.push({ value: e.value, names });
        return names;
      }
      case 'unary': {
        const a = visit(e.a);
        work += times(a) * unaryWeight(e.fn);
        return a;
      }
      case 'binary': {
        const [a, b] = [visit(e.a), visit(e.b)];
        const both = new Set([...a, ...b]);
        work += times(both);
        if (e.fn === 'mul' && along(a) && along(b)) onlineWork += times(both);
        return both;
      }
      case 'cast':
        return visit(e.a);
      case 'select':
        return new Set([...visit(e.cond), ...visit(e.then), ...visit(e.else)]);
      // Either side may never be taken.
      case 'when':
        return NONE;
    }
  };
  const sums = times(new Set([...visit(body), ...reduce.map((r) => r.name)]));
  return {
    ...{ compute, reads, evaluations: times(sizes.keys()) },
    ...{ work: work + sums, onlineWork: onlineWork + sums },
  };
}

const NONE: ReadonlySet<string> = new Set();

function variables(index: readonly I.IndexExpr[]): Set<string> {
  const names = new Set<string>();
  for (const i of index)
    I.visitAtoms(i, (a) => {
      if (a.kind === 'var') names.add(a.name);
    });
  return names;
}

/** Whether no two points are at one element: each entry is a variable of its own, or a number. */
function isPlain(index: readonly I.IndexExpr[]): boolean {
  return index.every((e) => {
    const [t, more] = e.terms;
    return !t || (!more && t.factors.length === 1 && t.factors[0]?.kind === 'var');
  });
}
