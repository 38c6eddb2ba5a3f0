/**
 * Template `row`: rows of one or more reductions, worked on by `threads` invocations each.
 *
 * The stages follow the program: a reduction is a share of the row per invocation, then a tree
 * through workgroup memory; what depends on its result comes after, in the same kernel. Elements
 * that fit in registers (`unrolled` per invocation) are evaluated once and kept for all stages.
 * Short rows share a workgroup; with one invocation a row there are no barriers at all.
 *
 * Vocabulary
 *  - *row vector*: a member with a value per position in the row.
 *  - *cached* row vector: kept in workgroup memory, because invocations other than the one that
 *    computed an element need it: what makes attention one kernel (scores, then weights, are row
 *    vectors; the product with the values sums over all of them).
 *  - *block*: rows that the same invocations work on together, so that what doesn't depend on the
 *    row (keys and values, a weight matrix) is loaded once for all of them.
 *
 * A barrier must be reached by all, so rows beyond the end run along and store nothing.
 */
import type { Compute, Monoid } from '../ir/compute';
import type { ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import type { Accumulator } from './accumulators';
import { Builder, type BuilderOptions, type Point } from './builder';
import { finishKernel } from './grid';
import { type GroupSpec, substPoint, visitLoads } from './group';
import { equal, less, select } from './expressions';
import {
  type KernelIr,
  type KExpr,
  type KType,
  SUBGROUP_SIZE,
  SUBGROUP_SIZES,
  type SubgroupFn,
} from './kernelIr';
import { type ParameterSpace, powersOfTwo } from './parameters';
import type { Streamed } from './online';
import type { Placed, Placement } from './placement';
import { rowPasses, walkRow } from './rowPass';
import { convert, identity, ktype, lit, total } from './scalars';

export interface RowParams {
  /** Invocations a row: a power of two. */
  readonly threads: number;
  /** Rows a workgroup has side by side. */
  readonly rows: number;
  /** Rows that the same invocations work on together. */
  readonly block: number;
  /** Elements an invocation keeps in registers; 0: a loop instead. */
  readonly unrolled: number;
  /** Row vectors kept in workgroup memory, in program order. */
  readonly cached: readonly ValueId[];
  /**
   * Neighbouring invocations have neighbouring rows, not neighbouring positions of one row: for rows
   * that lie across memory, as of a softmax over a dim that isn't the last.
   */
  readonly across?: boolean;
  /**
   * Partial results are combined within subgroups first, and across them in workgroup memory. Absent
   * where the adapter has no subgroups, or a row's invocations are no neighbours.
   */
  readonly subgroups?: boolean;
  /** Reductions that can go along with each other walk along a row together. */
  readonly online: boolean;
  /** Vectors of four neighbours (positions where there are none) that an invocation takes in at once, where the row divides into so many. */
  readonly vectors: number;
}

/** The sizes by which a `row` kernel's parameters are chosen. */
export interface RowSizes {
  readonly rows: number;
  /** Elements of the longest reduction or vector in a row. */
  readonly length: number;
}

const BLOCKS = [1, 2, 4, 8];
const VECTORS = [1, 2, 4];

/** What can be set of a `row` kernel. */
export const ROW_SPACE: ParameterSpace<RowParams, RowSizes> = {
  parameters: [
    {
      name: 'threads',
      doc: 'invocations a row',
      read: (p) => p.threads,
      tried: (_, { length }, most) => powersOfTwo(1, Math.min(most, length)),
      write: (p, threads) =>
        (threads & (threads - 1)) === 0
          ? // Registers were counted for the share of a row that an invocation had.
            { ...p, threads, unrolled: threads === p.threads ? p.unrolled : 0 }
          : { refused: THREADS_WANTED },
      wanted: () => THREADS_WANTED,
    },
    {
      name: 'rows',
      doc: 'rows a workgroup has side by side',
      read: (p) => p.rows,
      tried: (p, { rows }, most) =>
        p.cached.length > 0 ? [1] : powersOfTwo(1, Math.min(most, 64, 2 * rows)),
      write: (p, rows) => ({ ...p, rows }),
      wanted: () => 'rows (rows a workgroup) must be a whole number from 1',
    },
    {
      name: 'block',
      doc: 'rows that the same invocations work on together',
      read: (p) => p.block,
      tried: (_, { rows }) => BLOCKS.filter((b) => b <= rows),
      write: (p, block) => (BLOCKS.includes(block) ? { ...p, block } : { refused: BLOCK_WANTED }),
      wanted: () => BLOCK_WANTED,
    },
    {
      name: 'vectors',
      doc: 'vectors of four neighbours (single elements where rows lie across memory) that an invocation takes in at once',
      read: (p) => p.vectors,
      tried: (p, { length }) =>
        p.cached.length > 0 || p.unrolled > 0
          ? []
          : VECTORS.filter((n) => length % ((p.across ? 1 : VECTOR) * n * p.threads) === 0),
      write: (p, vectors) =>
        VECTORS.includes(vectors) ? { ...p, vectors } : { refused: VECTORS_WANTED },
      wanted: () => VECTORS_WANTED,
    },
    {
      name: 'subgroups',
      doc: '1 where partial results are combined within subgroups first, 0 where all in workgroup memory',
      least: 0,
      read: (p) => (p.subgroups === undefined ? undefined : Number(p.subgroups)),
      tried: (p) => (p.threads > 1 ? [0, 1] : []),
      write: (p, on) =>
        p.subgroups === undefined
          ? {
              refused: 'subgroups can be set where the adapter has them, and rows lie along memory',
            }
          : on > 1
            ? { refused: SUBGROUPS_WANTED }
            : { ...p, subgroups: on === 1 },
      wanted: () => SUBGROUPS_WANTED,
    },
  ],
  together: ({ threads, rows, cached }, most) => {
    if (threads * rows > most)
      return `threads × rows is ${threads * rows}, and the adapter allows ${most} invocations a workgroup`;
    if (rows > 1 && cached.length > 0)
      return 'rows must be 1, since this kernel keeps whole rows in workgroup memory';
    return undefined;
  },
};

const THREADS_WANTED = 'threads (invocations a row) must be a power of two';
const SUBGROUPS_WANTED = 'subgroups must be 1 (used) or 0 (not used)';
const VECTORS_WANTED = `vectors (taken in at once) must be one of ${VECTORS.join(', ')}`;
const BLOCK_WANTED = `block (rows worked on together) must be one of ${BLOCKS.join(', ')}`;

/** What subgroups combine by themselves; the rest goes by exchanges. */
const SUBGROUP_FN: Readonly<Partial<Record<Monoid['kind'], SubgroupFn>>> = {
  sum: 'add',
  prod: 'mul',
  max: 'max',
  min: 'min',
};
/** Invocations in a subgroup on most GPUs: what is counted with. */
const USUAL_WIDTH = 32;

/** Neighbours that one access to memory moves. */
const VECTOR = 4;
/** Positions that are evaluated together when a row vector is filled, to share what depends on the row only. */
const FILL_BATCH = 4;

export function buildRow(
  name: string,
  group: GroupSpec,
  placement: Placement,
  params: RowParams,
  options: BuilderOptions,
): { ir: KernelIr; builder: Builder } {
  const b = new Builder(group.program, group.members, {
    ...options,
    slices: group.slices,
    unroll: options.draft ? 0 : VECTOR,
  });
  return new RowKernel(name, group, placement, params, options, b).build();
}

/**
 * The row vectors that other invocations need: those that a reduction inside the row reads along its
 * own reduction dims, and results of such reductions that later stages read again.
 */
export function rowVectorsToCache(group: GroupSpec, placement: Placement): ValueId[] {
  const inside = (v: ValueId): boolean => (placement.placed.get(v)?.free.length ?? 0) > 0;
  const out = new Set<ValueId>();
  const members = new Map(group.members.map((m) => [m.value, m]));
  for (const m of group.members) {
    const heavy = m.monoid !== undefined && inside(m.value);
    visitLoads(m.body, (l) => {
      const of = members.get(l.value);
      if (!of || !inside(l.value)) return;
      // Summed over within the row; or itself a sum, too dear to be computed once per stage.
      if (heavy || of.monoid) out.add(l.value);
    });
  }
  return group.members.filter((m) => out.has(m.value)).map((m) => m.value);
}

interface Position {
  readonly at: IndexExpr;
  readonly inside: KExpr | undefined;
}

class RowKernel {
  private readonly lane: IndexExpr;
  private readonly slot: KExpr;
  /** How far apart the slots of a row's neighbouring lanes are. */
  private readonly stride: number;
  private readonly rowsTotal: IndexExpr;
  /** Per row of the block: where its row variables are, and whether the row exists. */
  private readonly rows: {
    readonly env: Map<string, IndexExpr>;
    readonly exists: KExpr | undefined;
  }[] = [];

  constructor(
    private readonly name: string,
    private readonly group: GroupSpec,
    private readonly placement: Placement,
    private readonly params: RowParams,
    private readonly options: BuilderOptions,
    private readonly b: Builder,
  ) {
    const { threads, rows, block } = params;
    const wg = b.ref('wg', 'i32', 0);
    const lid = b.ref('lid', 'i32', 0);
    this.rowsTotal = I.product(placement.rows);
    let row: KExpr = wg;
    const across = params.across === true && rows > 1;
    if (rows > 1) {
      const within = across
        ? b.int('imod', lid, lit(rows, 'i32'))
        : threads === 1
          ? lid
          : b.int('idiv', lid, lit(threads, 'i32'));
      row = b.int('iadd', b.int('imul', wg, lit(rows, 'i32')), within);
    }
    const blocks = I.ceilDiv(this.rowsTotal, block);
    const rowVar = b.bindVar(
      'row',
      blocks,
      row,
      (local) => (across ? local % rows : Math.floor(local / threads)),
      { perWorkgroup: rows },
    );
    const lane =
      threads === 1
        ? lit(0, 'i32')
        : rows === 1
          ? lid
          : across
            ? b.int('idiv', lid, lit(rows, 'i32'))
            : b.int('imod', lid, lit(threads, 'i32'));
    this.lane =
      threads === 1
        ? I.num(0)
        : b.bindVar('lane', I.num(threads), lane, (local) =>
            across ? Math.floor(local / rows) : local % threads,
          );
    this.stride = across ? rows : 1;
    this.slot = lid;
    const end = b.index(this.rowsTotal);
    // With one invocation a row, those without any have ended.
    const whole = threads === 1 && I.exactDiv(this.rowsTotal, block) !== undefined;
    for (let k = 0; k < block; k++) {
      const at = I.add(I.mul(rowVar, block), k);
      const env = new Map<string, IndexExpr>();
      I.delinearise(at, placement.rows).forEach((e, i) => env.set(`p${i}`, e));
      const exists: KExpr = {
        k: 'binary',
        fn: 'lt',
        a: b.index(at),
        b: end,
        type: 'bool',
        depth: 0,
      };
      this.rows.push({ env, exists: whole ? undefined : exists });
    }
    if (threads === 1) b.exitUnless(rowVar, blocks);
  }

  build(): { ir: KernelIr; builder: Builder } {
    const { b, group, placement, params } = this;
    const cached = new Set(params.cached);
    const walks = params.online ? rowPasses(group, placement, cached) : new Map<ValueId, never>();
    const done = new Set<ValueId>();
    for (const m of group.members) {
      const p = placement.placed.get(m.value);
      if (!p || done.has(m.value)) continue;
      const walk = walks.get(m.value);
      if (walk && !this.inRegisters(m)) {
        this.walk(walk);
        for (const s of walk) done.add(s.compute.value);
      } else if (cached.has(m.value)) this.fill(m, p);
      else if (m.monoid && p.free.length === 0) this.reduction(m, p);
    }
    for (const v of group.outputs) {
      const p = placement.placed.get(v);
      if (!p) throw new Error(`output ${v} has no place`);
      this.output(v, p);
    }
    const workgroups = I.ceilDiv(this.rowsTotal, params.rows * params.block);
    const ir = finishKernel(this.name, b, params.threads * params.rows, workgroups, this.options);
    return { ir, builder: b };
  }

  /**
   * Calls `f` with the positions in [0, extent) that are this invocation's, `batch` at a time; where
   * the row divides into fours, an invocation has four neighbours, so that memory moves in vectors.
   */
  private elements(
    extent: IndexExpr,
    batch: number,
    f: (positions: readonly Position[]) => void,
  ): void {
    const { b, params } = this;
    const { threads, unrolled } = params;
    const neighbours = this.inVectors(extent) ? VECTOR : 1;
    const chunk = threads * batch * neighbours;
    const exact = I.exactDiv(extent, chunk) !== undefined;
    const at = (round: IndexExpr, k: number): Position => {
      const lane = I.add(I.mul(this.lane, neighbours), k % neighbours);
      const beyond = Math.floor(k / neighbours) * threads * neighbours;
      const e = I.add(I.add(I.mul(round, chunk), lane), beyond);
      const x = b.index(e);
      const n = b.index(extent);
      const depth = Math.max(x.depth, n.depth);
      return {
        at: e,
        inside: exact ? undefined : { k: 'binary', fn: 'lt', a: x, b: n, type: 'bool', depth },
      };
    };
    const together = batch * neighbours;
    const round = (i: IndexExpr): Position[] =>
      Array.from({ length: together }, (_, k) => at(i, k));
    const n = I.constOf(extent);
    if (unrolled > 0 && n !== undefined && Math.ceil(n / threads) <= unrolled) {
      const rounds = Math.ceil(n / chunk);
      f(Array.from({ length: rounds }, (_, i) => round(I.num(i))).flat());
      return;
    }
    b.loop('e', I.ceilDiv(extent, chunk), (i) => f(round(i)));
  }

  private pointsOf(p: Placed, position: IndexExpr): Point[] {
    const over = I.delinearise(
      position,
      p.free.map((f) => f.extent),
    );
    return this.rows.map((row) => {
      const env = new Map(row.env);
      p.free.forEach((f, i) => env.set(f.name, over[i] ?? I.num(0)));
      return substPoint(p.point, env);
    });
  }

  /** Whether an invocation has neighbours along the row, four at a time. */
  private inVectors(extent: IndexExpr): boolean {
    const { threads, cached } = this.params;
    return (
      cached.length === 0 && this.stride === 1 && I.exactDiv(extent, threads * VECTOR) !== undefined
    );
  }

  /** Vectors that are taken in at once, or positions where there are none; as many as the row divides into. */
  private together(extent: IndexExpr): number {
    const { threads, unrolled, cached } = this.params;
    if (unrolled > 0 || cached.length > 0) return 1;
    const each = this.inVectors(extent) ? VECTOR : 1;
    let n = this.params.vectors;
    while (n > 1 && !I.exactDiv(extent, threads * each * n)) n /= 2;
    return n;
  }

  /** Whether an invocation keeps its share of the elements of a reduction in registers. */
  private inRegisters(c: Compute): boolean {
    const n = I.constOf(I.product(c.reduce.map((r) => r.extent)));
    const { threads, unrolled } = this.params;
    return unrolled > 0 && n !== undefined && Math.ceil(n / threads) <= unrolled;
  }

  // -- Reductions of the row ----------------------------------------------------------------------

  private walk(pass: readonly Streamed[]): void {
    const { b, params, group, rows } = this;
    walkRow(
      {
        b,
        rows,
        nameOf: (v) => group.program.values.get(v)?.name ?? v,
        // Several at a time: what is done once for all of them is most of the work otherwise.
        positions: (length, f) =>
          this.elements(length, this.inVectors(length) ? this.together(length) : VECTOR, f),
        together: (s, accs) => {
          if (params.threads > 1) this.tree(s.compute, accs);
        },
      },
      pass,
    );
  }

  private reduction(c: Compute, p: Placed): void {
    const { b, params } = this;
    const monoid = c.monoid;
    if (!monoid) return;
    const points = this.rows.map((row) => substPoint(p.point, row.env));
    const over = c.reduce.map((r) => r.extent);
    const name = this.group.program.values.get(c.value)?.name ?? c.value;
    const accs = points.map(() => b.accumulator(c, monoid, name));
    const arg = monoid.kind === 'argmax' || monoid.kind === 'argmin';
    this.elements(I.product(over), this.together(I.product(over)), (positions) => {
      const take = (points: readonly Point[], accs: readonly Accumulator[]): void => {
        const taken = accs.map((): KExpr[] => []);
        for (const e of positions) {
          const bodies = b.bodies(c, points, I.delinearise(e.at, over));
          bodies.forEach((body, i) => {
            const acc = accs[i];
            if (!acc) return;
            const position = (): KExpr => b.index(e.at);
            const { inside } = e;
            if (arg && inside) b.guarded(inside, () => b.accumulate(acc, monoid, body, position));
            else if (arg) b.accumulate(acc, monoid, body, position);
            else {
              const x = convert(body, acc.value.type);
              // Positions beyond the row contribute the identity.
              taken[i]?.push(inside ? select(inside, x, identity(monoid, x.type)) : x);
            }
          });
        }
        taken.forEach((values, i) => {
          const acc = accs[i];
          if (acc && values.length > 0)
            b.accumulate(acc, monoid, total(monoid, values), () => lit(0, 'i32'));
        });
      };
      if (params.cached.length > 0) take(points, accs);
      else
        points.forEach((point, i) => {
          const acc = accs[i];
          if (acc) take([point], [acc]);
        });
    });
    if (params.threads > 1) this.tree(c, accs);
    points.forEach((point, i) => {
      const acc = accs[i];
      if (acc) b.define(c.value, point, b.finish(c, acc));
    });
  }

  /** Combines the invocations' partial results: a tree in workgroup memory, for all rows of the block at once. */
  private tree(c: Compute, accs: readonly Accumulator[]): void {
    const { b, params } = this;
    const monoid = c.monoid;
    const first = accs[0];
    if (!monoid || !first) return;
    if (params.subgroups) {
      this.inSubgroups(monoid, accs);
      return;
    }
    const size = params.threads * params.rows;
    const values = this.scratch(first.value.type, size * params.block);
    const places = first.at ? this.scratch('i32', size * params.block, 'places') : undefined;
    const cell = (index: KExpr, k: number): KExpr =>
      k === 0 ? index : b.int('iadd', index, lit(k * size, 'i32'));
    const put = (): void => {
      accs.forEach((acc, k) => {
        const index = cell(this.slot, k);
        b.emit({ s: 'setShared', name: values, index, value: acc.value });
        if (places && acc.at) b.emit({ s: 'setShared', name: places, index, value: acc.at });
      });
    };
    b.emit({ s: 'barrier' });
    put();
    const lane = b.index(this.lane);
    for (let half = params.threads >> 1; half >= 1; half >>= 1) {
      b.emit({ s: 'barrier' });
      const cond: KExpr = {
        k: 'binary',
        fn: 'lt',
        a: lane,
        b: lit(half, 'i32'),
        type: 'bool',
        depth: 0,
      };
      b.guarded(cond, () => {
        const other = b.int('iadd', this.slot, lit(half * this.stride, 'i32'));
        accs.forEach((acc, k) => {
          b.combine(acc, monoid, {
            value: this.shared(values, acc.value.type, cell(other, k)),
            ...(places ? { at: this.shared(places, 'i32', cell(other, k)) } : {}),
          });
        });
        put();
      });
    }
    b.emit({ s: 'barrier' });
    const fromRoot = this.stride === 1 ? lane : b.int('imul', lane, lit(this.stride, 'i32'));
    const root = params.rows === 1 ? lit(0, 'i32') : b.int('isub', this.slot, fromRoot);
    accs.forEach((acc, k) => {
      b.set(acc.value, this.shared(values, acc.value.type, cell(root, k)));
      if (places && acc.at) b.set(acc.at, this.shared(places, 'i32', cell(root, k)));
    });
  }

  /**
   * Combines partial results within subgroups, then across those of a row: each subgroup leaves one in
   * workgroup memory, and every invocation goes over them. Invocations of a subgroup are taken to be
   * neighbours, and a row's either fill subgroups or share one.
   */
  private inSubgroups(monoid: Monoid, accs: readonly Accumulator[]): void {
    const { b, params } = this;
    const { threads, rows } = params;
    const width = b.ref(SUBGROUP_SIZE, 'i32', 0);
    const { least, most } = SUBGROUP_SIZES;
    for (const acc of accs) {
      const fn = SUBGROUP_FN[monoid.kind];
      // A subgroup has no other row's invocations where a workgroup has one row.
      if (fn && (rows === 1 || threads >= most)) {
        b.set(acc.value, this.ofSubgroup(acc.value, fn));
        continue;
      }
      for (let distance = 1; distance < Math.min(threads, most); distance *= 2) {
        const other = this.ofSubgroup(acc.value, { distance });
        const at = acc.at && this.ofSubgroup(acc.at, { distance });
        const there = less(lit(distance, 'i32'), width);
        const kept = (x: KExpr, none: KExpr): KExpr =>
          distance < least ? x : select(there, x, none);
        b.combine(acc, monoid, {
          value: kept(other, identity(monoid, other.type)),
          ...(at ? { at: kept(at, lit(-1, 'i32')) } : {}),
        });
      }
    }
    const [first] = accs;
    if (threads <= least || !first) return;
    const together = b.let('together', b.int('imin', width, lit(threads, 'i32')));
    const cells = Math.max(1, (threads / least) * rows);
    const values = this.scratch(first.value.type, cells * params.block);
    const places = first.at ? this.scratch('i32', cells * params.block, 'places') : undefined;
    const cell = (index: KExpr, k: number): KExpr =>
      k === 0 ? index : b.int('iadd', index, lit(k * cells, 'i32'));
    b.emit({ s: 'barrier' });
    b.guarded(equal(b.int('imod', this.slot, together), lit(0, 'i32')), () => {
      const own = b.int('idiv', this.slot, together);
      accs.forEach((acc, k) => {
        const index = cell(own, k);
        b.emit({ s: 'setShared', name: values, index, value: acc.value });
        if (places && acc.at) b.emit({ s: 'setShared', name: places, index, value: acc.at });
      });
    });
    b.emit({ s: 'barrier' });
    for (const acc of accs) {
      b.set(acc.value, identity(monoid, acc.value.type));
      if (acc.at) b.set(acc.at, lit(-1, 'i32'));
    }
    const row = rows === 1 ? lit(0, 'i32') : b.int('isub', this.slot, b.index(this.lane));
    const from = rows === 1 ? row : b.let('first', b.int('idiv', row, together));
    b.loop(
      'part',
      I.num(Math.max(1, threads / USUAL_WIDTH)),
      (part) => {
        const at = rows === 1 ? b.index(part) : b.int('iadd', from, b.index(part));
        accs.forEach((acc, k) => {
          b.combine(acc, monoid, {
            value: this.shared(values, acc.value.type, cell(at, k)),
            ...(places ? { at: this.shared(places, 'i32', cell(at, k)) } : {}),
          });
        });
      },
      b.int('idiv', lit(threads, 'i32'), together),
    );
  }

  private ofSubgroup(value: KExpr, how: SubgroupFn | { readonly distance: number }): KExpr {
    const name = this.b.fresh('others');
    this.b.emit({ s: 'subgroup', name, value, how });
    return this.b.ref(name, value.type);
  }

  /** One array per type serves all the reductions of the kernel, which come one after the other. */
  private scratch(type: KType, length: number, purpose = 'partial'): string {
    const name = `${purpose}_${type}`;
    if (!this.b.shared.some((s) => s.name === name)) this.b.shared.push({ name, type, length });
    return name;
  }

  private shared(name: string, type: KType, index: KExpr): KExpr {
    return { k: 'shared', name, index, type, depth: Math.max(this.b.depth, index.depth) };
  }

  // -- Row vectors in workgroup memory ------------------------------------------------------------

  /** Arrays of cached row vectors, by value. */
  private readonly arrays = new Map<ValueId, string>();

  private fill(m: Compute, p: Placed): void {
    const { b, params } = this;
    const extent = I.product(p.free.map((f) => f.extent));
    const length = I.constOf(extent);
    if (length === undefined) throw new Error('a row vector of unknown length');
    const type = ktype(m.dtype);
    const replaced = this.replaceable(m, length, type);
    const name =
      replaced?.name ?? b.fresh(`row_${this.group.program.values.get(m.value)?.name ?? 'v'}`);
    if (!replaced) {
      const perRow = params.rows * params.block;
      b.shared.push({ name, type, length: length * perRow });
    }
    this.elements(extent, m.monoid ? FILL_BATCH : 1, (positions) => {
      const points = positions.flatMap((e) => this.pointsOf(p, e.at));
      const values = b.valueMany(m.value, points);
      let next = 0;
      for (const e of positions) {
        const store = (): void => {
          for (let k = 0; k < params.block; k++) {
            const value = values[next++];
            if (value)
              b.emit({ s: 'setShared', name, index: this.cellOf(b.index(e.at), k, length), value });
          }
        };
        if (e.inside) b.guarded(e.inside, store);
        else store();
      }
    });
    b.emit({ s: 'barrier' });
    if (replaced) {
      b.rowCache.delete(replaced.value);
      this.arrays.delete(replaced.value);
    }
    this.arrays.set(m.value, name);
    b.rowCache.set(m.value, (point) => this.lookUp(p, point, name, type, length));
  }

  /** Where position `at` of row `k` of the block is in a row vector's array. */
  private cellOf(at: KExpr, k: number, length: number): KExpr {
    const { b, params } = this;
    let index = at;
    if (k > 0) index = b.int('iadd', index, lit(k * length, 'i32'));
    if (params.rows > 1) {
      const within = b.int('idiv', this.slot, lit(params.threads, 'i32'));
      index = b.int('iadd', index, b.int('imul', within, lit(params.block * length, 'i32')));
    }
    return index;
  }

  /** A cached vector that only `m` still reads, each element by the invocation that replaces it: its array serves on. */
  private replaceable(
    m: Compute,
    length: number,
    type: KType,
  ): { value: ValueId; name: string } | undefined {
    if (m.monoid) return undefined;
    const later = this.group.members.slice(this.group.members.indexOf(m) + 1);
    const cells = length * this.params.rows * this.params.block;
    for (const [value, name] of this.arrays) {
      const array = this.b.shared.find((s) => s.name === name);
      if (!array || array.length !== cells || array.type !== type) continue;
      if (!this.group.outputs.includes(value) && !this.dependents(value, later))
        return { value, name };
    }
    return undefined;
  }

  /** Whether any of `later` reads the value, or reads through members that are not cached themselves. */
  private dependents(value: ValueId, later: readonly Compute[]): boolean {
    const tainted = new Set<ValueId>([value]);
    const cached = new Set(this.params.cached);
    let found = false;
    for (const m of this.group.members) {
      if (this.arrays.has(m.value) && m.value !== value) continue;
      let reads = false;
      visitLoads(m.body, (l) => (reads = reads || tainted.has(l.value)));
      if (!reads) continue;
      // A scalar of the row, or a vector with its own array, stands for what it read.
      const p = this.placement.placed.get(m.value);
      const inline = !m.monoid && (p?.free.length ?? 0) > 0 && !cached.has(m.value);
      if (inline) tainted.add(m.value);
      if (later.includes(m)) found = true;
    }
    return found || this.group.outputs.some((o) => tainted.has(o));
  }

  private lookUp(
    p: Placed,
    point: Point,
    name: string,
    type: KType,
    length: number,
  ): KExpr | undefined {
    for (let k = 0; k < this.rows.length; k++) {
      const row = this.rows[k];
      if (!row) continue;
      const captured = new Map<string, IndexExpr>();
      const fits = p.point.every((e, i) => {
        const wanted = point[i];
        if (!wanted) return false;
        const free = p.free.find((f) => f.name === e.key);
        if (free) {
          captured.set(free.name, wanted);
          return true;
        }
        const [here] = substPoint([e], row.env);
        return here !== undefined && here.key === wanted.key;
      });
      if (!fits || captured.size !== p.free.length) continue;
      const at = I.linearise(
        p.free.map((f) => captured.get(f.name) ?? I.num(0)),
        p.free.map((f) => f.extent),
      );
      return this.shared(name, type, this.cellOf(this.b.index(at), k, length));
    }
    return undefined;
  }

  // -- Results ------------------------------------------------------------------------------------

  private output(value: string, p: Placed): void {
    const { b, params } = this;
    const guard = (k: number, f: () => void, more?: KExpr): void => {
      const exists = this.rows[k]?.exists;
      const needed = params.threads > 1 || params.block > 1;
      const terms = [...(needed && exists ? [exists] : []), ...(more ? [more] : [])];
      const one = terms[0];
      if (!one) f();
      else if (terms.length === 1) b.guarded(one, f);
      else
        b.guarded(
          { k: 'all', terms, type: 'bool', depth: Math.max(...terms.map((t) => t.depth)) },
          f,
        );
    };
    if (p.free.length === 0) {
      this.rows.forEach((row, k) => {
        const point = substPoint(p.point, row.env);
        const e = b.value(value, point);
        const first: KExpr | undefined =
          params.threads === 1
            ? undefined
            : {
                k: 'binary',
                fn: 'eq',
                a: b.index(this.lane),
                b: lit(0, 'i32'),
                type: 'bool',
                depth: 0,
              };
        guard(k, () => b.store(value, point, e), first);
      });
      return;
    }
    const extent = I.product(p.free.map((f) => f.extent));
    // Where nothing is summed up for several rows at once, one row after the other: fewer values wait.
    const rowByRow = params.cached.length === 0;
    this.elements(extent, this.together(extent), (positions) => {
      const points = positions.map((e) => this.pointsOf(p, e.at));
      const values = rowByRow ? [] : b.valueMany(value, points.flat());
      for (let k = 0; k < this.rows.length; k++) {
        const at = points.map((list) => list[k] ?? []);
        const mine = rowByRow
          ? b.valueMany(value, at)
          : positions.map((_, i) => values[i * this.rows.length + k]);
        if (positions.every((e) => e.inside === undefined)) {
          guard(k, () =>
            b.storeMany(
              value,
              at,
              mine.flatMap((v) => v ?? []),
            ),
          );
          continue;
        }
        positions.forEach((e, i) => {
          const v = mine[i];
          const point = at[i];
          if (v && point) guard(k, () => b.store(value, point, v), e.inside);
        });
      }
    });
  }
}
