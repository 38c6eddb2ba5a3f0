/**
 * Register tiles of windows: reductions over few positions (depthwise convolutions, pools, stencils),
 * whose results side by side read mostly the same elements and the same weights.
 *
 * An invocation has a tile of results along two dims. The window is written out whole, so that an
 * element that several results read is loaded once, and weights stay in registers. How many elements a
 * tile reads follows from the maps: along each dim of an operand, the positions that its index takes.
 *
 * Vocabulary
 *  - *window*: the positions that one result is reduced over.
 *  - *row* and *column*: the two dims of the tile; along the column, results are neighbours in memory.
 */
import type { Compute } from '../ir/compute';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import type { DeviceProfile } from '../result';
import { indexFromSpace } from './contraction';
import { bound, boundElements, type GroupSpec, hasDyn, visitLoads } from './group';
import { type LoopPlan, spaceVars } from './loop';
import { ACCESS_CODE, type ContractionTile, LARGEST_WINDOW, VECTOR_LOAD } from './tiles';

/** Results of a tile along a dim. */
const SIDES = [1, 2, 4, 8];
const MOST_RESULTS = 16;
/** Results that each load serves, at least: else invocations with one each spread better. */
const LEAST_REUSE = 1.25;

export interface WindowTile {
  readonly sizes: readonly number[];
  readonly row: number;
  readonly column: number;
  readonly tile: ContractionTile;
}

/** How many positions a result is reduced over, if they are few, and known. */
function windowOf(c: Compute): number | undefined {
  if (!c.monoid || c.monoid.kind === 'argmax' || c.monoid.kind === 'argmin') return undefined;
  const n = I.constOf(I.product(c.reduce.map((r) => r.extent)));
  return n !== undefined && n >= 2 && n <= LARGEST_WINDOW ? n : undefined;
}

/** The tile with the least modelled time; undefined where the group has no windows, or a tile gains nothing. */
export function windowTile(
  group: GroupSpec,
  plan: LoopPlan,
  device: DeviceProfile,
): WindowTile | undefined {
  // With another, perhaps one that needs this one's results, a tile's loads can't be told from one alone.
  const [main, other] = group.members.filter((m) => m.monoid);
  const window = main && windowOf(main);
  if (!main || other || window === undefined) return undefined;
  const operands = operandsOf(main);
  if (!operands.some((o) => slides(o, main))) return undefined;
  const map = indexFromSpace(group, plan, main);
  if (!map) return undefined;
  // The compute's own dim for each dim of the space.
  const own = spaceVars(plan.space).map((v) => main.dims[map.findIndex((e) => e.key === v.key)]);
  const size = (i: number): number => bound(group.program, plan.space[i] ?? I.num(1));
  const dims = plan.space.flatMap((_, i) => (own[i] && size(i) > 1 ? [i] : []));
  const column = dims[dims.length - 1];
  if (column === undefined) return undefined;
  const results = boundElements(group.program, plan.space);
  let best: WindowTile | undefined;
  let least = Infinity;
  for (const row of dims.length > 1 ? dims.slice(0, -1) : [column]) {
    for (const rows of row === column ? [1] : SIDES) {
      for (const columns of SIDES) {
        const count = rows * columns;
        if (count > MOST_RESULTS || rows > size(row) || columns > size(column)) continue;
        const sides = new Map([
          [own[row]?.name ?? '', rows],
          [own[column]?.name ?? '', columns],
        ]);
        const vectors = columns % 4 === 0 && size(column) % 4 === 0;
        const loads = operands.reduce(
          (n, o) => n + elementsOf(o, main, sides, vectors ? own[column]?.name : undefined),
          0,
        );
        const products = count * window;
        const code = ACCESS_CODE * loads + products;
        const reuse = (products * operands.length) / Math.max(1, loads);
        if (count > 1 && (code > device.straightCode || reuse < LEAST_REUSE)) continue;
        const stores = vectors ? (count / 4) * VECTOR_LOAD : count;
        const whole = (n: number, by: number): number => (Math.ceil(n / by) * by) / n;
        const waste = whole(size(row), rows) * whole(size(column), columns);
        const use = Math.min(1, Math.max(1, results / Math.sqrt(count)) / device.saturatingThreads);
        const time = ((1 + (device.loadWork * (loads + stores)) / products) * waste) / use;
        if (time >= least) continue;
        least = time;
        best = {
          sizes: plan.space.map((_, i) => (i === column ? columns : i === row ? rows : 1)),
          row,
          column,
          tile: {
            row: rows,
            column: columns,
            reuse: Math.max(1, reuse),
            indexReuse: device.software ? Math.max(1, reuse) : 1,
            products: count,
            operands: Math.ceil(loads),
          },
        };
      }
    }
  }
  return best && best.tile.products > 1 ? best : undefined;
}

/** What is read for each position: the indices, or nothing of an index that is only known at run time. */
function operandsOf(c: Compute): (readonly IndexExpr[] | undefined)[] {
  const out = new Map<string, readonly IndexExpr[] | undefined>();
  visitLoads(c.body, (l) => {
    const key = `${l.value} ${l.index.map((e) => e.key).join(', ')}`;
    out.set(key, hasDyn(l.index) ? undefined : l.index);
  });
  return [...out.values()];
}

/** Whether the window moves along with the result, so that neighbours' windows overlap. */
function slides(index: readonly IndexExpr[] | undefined, c: Compute): boolean {
  return (index ?? []).some((e) => {
    const names = new Set<string>();
    I.visitAtoms(e, (a) => {
      if (a.kind === 'var') names.add(a.name);
    });
    return c.reduce.some((r) => names.has(r.name)) && c.dims.some((d) => names.has(d.name));
  });
}

/** Loads of an operand that a tile takes, vectors counted by what they take. */
function elementsOf(
  index: readonly IndexExpr[] | undefined,
  c: Compute,
  sides: ReadonlyMap<string, number>,
  /** The dim along which results are whole vectors. */
  vectors: string | undefined,
): number {
  const window = new Map(c.reduce.map((r) => [r.name, I.constOf(r.extent) ?? 1]));
  const all = [...sides.values(), ...window.values()].reduce((n, x) => n * x, 1);
  if (!index) return all;
  let n = 1;
  index.forEach((e, i) => {
    let places = new Set([0]);
    const names = new Set<string>();
    I.visitAtoms(e, (a) => {
      if (a.kind === 'var') names.add(a.name);
    });
    const at = (name: string, x: number): number => I.evaluate(e, (v) => (v === name ? x : 0));
    for (const name of names) {
      const extent = sides.get(name) ?? window.get(name) ?? 1;
      const next = new Set<number>();
      for (const p of places)
        for (let x = 0; x < extent; x++) next.add(p + at(name, x) - at(name, 0));
      places = next;
    }
    const alone = names.size === 1 && vectors !== undefined && names.has(vectors);
    n *= alone && i === index.length - 1 ? (places.size / 4) * VECTOR_LOAD : places.size;
  });
  return Math.min(all, n);
}
