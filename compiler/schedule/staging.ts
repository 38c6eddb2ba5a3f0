/**
 * Products whose operands go through workgroup memory: a variant of the register-tiled `loop` kernel.
 *
 * The invocations of a workgroup lie in a rectangle over the two tiled dims, so that together they
 * have a block of the results. Step by step along the sum they read what the block needs of each
 * operand once, together, and then each multiplies what its own tile needs of it. Memory is read once
 * for a block, not once for a tile; what that is worth depends on the caches of the GPU.
 *
 * Vocabulary
 *  - *operand*: a read of the product's body that varies along the sum and along one of the two dims.
 *  - *side*: the dim of the block that an operand varies along.
 *  - *step*: the positions of the sum that are in workgroup memory at a time.
 */
import type { Compute } from '../ir/compute';
import type { Expr } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import type { Builder, Point } from './builder';
import { contractionDims, indexFromSpace } from './contraction';
import { less, select } from './expressions';
import { type GroupSpec, hasDyn, strideOf, substPoint, visitLoads } from './group';
import type { DeviceProfile } from '../result';
import type { KExpr } from './kernelIr';
import { type LoopPlan, spaceVars } from './loop';
import { identity, lit } from './scalars';
import { locate } from './slices';
import type { ContractionTile } from './tiles';

type Side = 'row' | 'column';

export interface StagedProduct {
  readonly main: Compute;
  /** Its index over the variables of the space. */
  readonly point: Point;
  readonly operands: readonly {
    readonly load: Expr & { op: 'load' };
    readonly side: Side;
    /** Neighbours along the sum are neighbours in memory. */
    readonly alongSum: boolean;
  }[];
}

/** Positions of the sum in a step, at most. */
const STEP = 16;

/** The product of the group, where its operands can be read for a whole block. */
export function stagedProduct(group: GroupSpec, plan: LoopPlan): StagedProduct | undefined {
  const reductions = group.members.filter((m) => m.monoid);
  const [main] = reductions;
  const dims = main && contractionDims(main);
  if (!main || !dims || reductions.length !== 1) return undefined;
  const point = indexFromSpace(group, plan, main);
  const names = new Set(spaceVars(plan.space).map((v) => v.key));
  if (!point?.every((e) => e.terms.length === 0 || names.has(e.key))) return undefined;
  const members = new Set(group.members.map((m) => m.value));
  const row = main.dims[dims.row]?.name ?? '';
  const column = main.dims[dims.column]?.name ?? '';
  const over = new Set(main.reduce.map((r) => r.name));
  const last = main.reduce[main.reduce.length - 1];
  const operands: StagedProduct['operands'][number][] = [];
  let fits = true;
  visitLoads(main.body, (load) => {
    if (hasDyn(load.index)) fits = false;
    const used = new Set<string>();
    for (const i of load.index) I.visitAtoms(i, (a) => a.kind === 'var' && used.add(a.name));
    if (used.has(row) && used.has(column)) fits = false;
    if (![...used].some((n) => over.has(n)) || used.has(row) === used.has(column)) return;
    const linear = members.has(load.value)
      ? undefined
      : locate(group.program, group.slices, load.value, load.index).linear;
    const side = used.has(row) ? 'row' : 'column';
    const stride = linear && last && strideOf(linear, I.loopVar(last.name, last.extent));
    operands.push({
      load,
      side,
      alongSum: stride ? I.isConst(stride, 1) : side === 'row',
    });
  });
  const sides = new Set(operands.map((o) => o.side));
  return fits && sides.size === 2 ? { main, point, operands } : undefined;
}

/** How the invocations of a workgroup lie over the block; undefined for numbers that make no rectangle. */
export function blockThreads(workgroup: number): { row: number; column: number } | undefined {
  if (workgroup < 1 || (workgroup & (workgroup - 1)) !== 0) return undefined;
  const row = 2 ** Math.floor(Math.log2(workgroup) / 2);
  const column = workgroup / row;
  return row <= STEP && column <= STEP ? { row, column } : undefined;
}

/**
 * Whether a block's operands are had sooner through workgroup memory than by each invocation for
 * itself, by the device's rates: work for each product.
 */
export function stagingPays(
  tile: ContractionTile,
  rows: number,
  columns: number,
  workgroup: number,
  d: DeviceProfile,
): boolean {
  const threads = blockThreads(workgroup);
  if (!threads || d.software) return false;
  const [height, width] = [tile.row * threads.row, tile.column * threads.column];
  const vectors = tile.column % 4 === 0 ? 1.5 / 4 : 1;
  const direct = (d.loadWork * (tile.row + tile.column * vectors)) / tile.products;
  const own = (d.sharedAccessWork * (tile.row + tile.column)) / tile.products;
  const filling = ((d.loadWork + d.sharedAccessWork) * (height + width)) / (height * width);
  const waiting = (2 * d.barrierWork) / (STEP * tile.products);
  const whole = (n: number, by: number): number => (Math.ceil(n / by) * by) / Math.max(1, n);
  const waste =
    (whole(rows, height) * whole(columns, width)) /
    (whole(rows, tile.row) * whole(columns, tile.column));
  return (1 + own + filling + waiting) * waste < 1 + direct;
}

export interface Block {
  readonly threads: { readonly row: number; readonly column: number };
  /** Of an invocation's tile. */
  readonly tile: { readonly row: number; readonly column: number };
  /** Where its tile begins in the block. */
  readonly first: { readonly row: IndexExpr; readonly column: IndexExpr };
  /** The variables of the space at a place of the block. */
  at(row: IndexExpr, column: IndexExpr): ReadonlyMap<string, IndexExpr>;
}

/** Computes the product for the invocation's tile, and makes it known to the builder. */
export function multiply(b: Builder, group: GroupSpec, p: StagedProduct, block: Block): void {
  const { main } = p;
  const { monoid } = main;
  if (!monoid) return;
  const members = new Set(group.members.map((m) => m.value));
  const extents = main.reduce.map((r) => r.extent);
  const length = I.product(extents);
  const known = I.constOf(length);
  const step = known === undefined || known >= STEP ? STEP : 2 ** Math.ceil(Math.log2(known || 1));
  const exact = I.exactDiv(length, step) !== undefined;
  const workgroup = block.threads.row * block.threads.column;
  const lid = b.bindVar('lane', I.num(workgroup), b.ref('lid', 'i32', 0), (l) => l);
  const pointOf = (row: IndexExpr, column: IndexExpr): Point =>
    substPoint(p.point, block.at(row, column));
  const indexOf = (load: Expr & { op: 'load' }, point: Point, over: Point): Point => {
    const env = new Map(main.dims.map((d, i) => [d.name, point[i] ?? I.num(0)]));
    main.reduce.forEach((r, i) => env.set(r.name, over[i] ?? I.num(0)));
    return substPoint(load.index, env);
  };
  const cells: { readonly row: IndexExpr; readonly column: IndexExpr; readonly point: Point }[] =
    [];
  for (let i = 0; i < block.tile.row; i++)
    for (let j = 0; j < block.tile.column; j++) {
      const row = I.add(block.first.row, i);
      const column = I.add(block.first.column, j);
      cells.push({ row, column, point: pointOf(row, column) });
    }
  const name = group.program.values.get(main.value)?.name ?? main.value;
  const accs = cells.map(() => b.accumulator(main, monoid, name));
  const arrays = p.operands.map(() => b.fresh('operand'));
  const pitch = (side: Side): number => block.threads[side] * block.tile[side] + 1;
  b.loop('step', I.ceilDiv(length, step), (at) => {
    const base = I.mul(at, step);
    p.operands.forEach(({ load, side, alongSum }, o) => {
      const across = pitch(side) - 1;
      const fast = alongSum ? step : across;
      for (let first = 0; first < across * step; first += workgroup) {
        const e = I.add(lid, first);
        const [slow, quick] = [I.floorDiv(e, fast), I.mod(e, fast)];
        const [k, s] = alongSum ? [quick, slow] : [slow, quick];
        const point = side === 'row' ? pointOf(s, I.num(0)) : pointOf(I.num(0), s);
        const over = I.delinearise(I.add(base, k), extents);
        const value = b.value(load.value, indexOf(load, point, over));
        const array = arrays[o] ?? '';
        if (!b.shared.some((x) => x.name === array))
          b.shared.push({ name: array, type: value.type, length: pitch(side) * step });
        const store = (): void =>
          b.emit({
            s: 'setShared',
            name: array,
            index: b.index(I.add(I.mul(k, pitch(side)), s)),
            value,
          });
        // The last round may be a part of one.
        if (first + workgroup <= across * step) store();
        else b.guarded(less(b.index(e), lit(across * step, 'i32')), store);
      }
    });
    b.emit({ s: 'barrier' });
    b.loop('k', I.num(step), (k) => {
      const over = I.delinearise(I.add(base, k), extents);
      p.operands.forEach(({ load, side }, o) => {
        const array = arrays[o] ?? '';
        const type = b.shared.find((x) => x.name === array)?.type ?? 'f32';
        for (let t = 0; t < block.tile[side]; t++) {
          const s = I.add(block.first[side], t);
          const cell = cells.find((c) => c[side].key === s.key);
          const index = b.index(I.add(I.mul(k, pitch(side)), s));
          const e = b.frozen('x', { k: 'shared', name: array, index, type, depth: b.depth });
          const where = indexOf(load, cell?.point ?? [], over);
          if (members.has(load.value)) b.define(load.value, where, e);
          else b.defineLoad(load.value, where, e);
        }
      });
      const bodies = b.bodies(
        main,
        cells.map((c) => c.point),
        over,
      );
      const inside: KExpr | undefined = exact
        ? undefined
        : less(b.index(I.add(base, k)), b.index(length));
      bodies.forEach((x, i) => {
        const acc = accs[i];
        const y = inside ? select(inside, x, identity(monoid, x.type)) : x;
        if (acc) b.accumulate(acc, monoid, y, () => lit(0, 'i32'));
      });
    });
    b.emit({ s: 'barrier' });
  });
  cells.forEach((c, i) => {
    const acc = accs[i];
    if (acc) b.define(main.value, c.point, b.finish(main, acc));
  });
}
