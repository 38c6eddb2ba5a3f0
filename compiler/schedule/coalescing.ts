/**
 * What a GPU's memory moves besides what was asked for.
 *
 * Memory comes in sectors. When neighbouring invocations touch neighbouring elements, a sector serves
 * eight of them; when they are a row apart, it serves one, unless the invocation itself walks on along
 * the sector. This is found by trial: the addresses that the first invocations of a workgroup touch,
 * and go on to touch along the fastest of the loops around, are evaluated and counted.
 *
 * Vocabulary
 *  - *sector*: what memory moves at least, 32 bytes on the GPUs of today.
 *  - *waste*: bytes moved for each byte used, less one.
 */
import type { ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import type { Program } from '../ir/compute';
import { sizesOf } from './group';

/** Elements of four bytes in a sector. */
const SECTOR = 8;
/** Invocations that a GPU runs in step, at least on most. */
const TOGETHER = 32;

/**
 * Of rows that neighbouring invocations walk along, each its own: a sector is all used in the end, but
 * each access touches as many as there are invocations, and the cache must keep them all meanwhile.
 */
const WALKED = 1;

export interface Access {
  readonly value: ValueId;
  readonly linear: IndexExpr;
}

/** A variable of the invocation's place, as a function of its number in the workgroup. */
export type LaneVars = ReadonlyMap<string, (lid: number) => number>;

/** Waste by value; those without are left out, as are those read at indices that are known at run time only. */
export function wasteOf(
  program: Program,
  accesses: readonly Access[],
  lanes: LaneVars,
  invocations: number,
): Map<ValueId, number> {
  const out = new Map<ValueId, number>();
  const strided = new Map<ValueId, Access[]>();
  const place = { lid: 0, loop: '', step: 0 };
  const sizes = sizesOf(program);
  const bind = (name: string): number => {
    const lane = lanes.get(name);
    if (lane) return lane(place.lid);
    return name === place.loop ? place.step : 0;
  };
  const at = (
    e: IndexExpr,
    lid: number,
    loop = '',
    step = 0,
    known?: Map<I.Atom, number>,
  ): number => {
    place.lid = lid;
    place.loop = loop;
    place.step = step;
    return I.evaluate(e, bind, sizes, known);
  };
  const count = Math.min(TOGETHER, invocations);
  if (count < SECTOR) return out;
  // What accesses have in common: where the first three invocations are.
  const places = [0, 1, 2].map(() => new Map<I.Atom, number>());
  const early = (e: IndexExpr, lid: number): number => at(e, lid, '', 0, places[lid]);
  for (const a of accesses) {
    const first = early(a.linear, 0);
    // Neighbours side by side, or at one element: the usual case.
    const near =
      Math.abs(early(a.linear, 1) - first) <= 1 && Math.abs(early(a.linear, 2) - first) <= 2;
    if (near || Number.isNaN(first)) continue;
    const list = strided.get(a.value);
    if (list) list.push(a);
    else strided.set(a.value, [a]);
  }
  for (const [value, list] of strided) {
    const elements = new Set<number>();
    let walked = true;
    for (const { linear } of list) {
      const loop = fastestLoop(linear, lanes, (name, step) => at(linear, 0, name, step));
      walked &&= loop !== undefined;
      for (let lid = 0; lid < count; lid++)
        for (let step = 0; step < (loop === undefined ? 1 : SECTOR); step++)
          elements.add(at(linear, lid, loop, step));
    }
    const sectors = new Set<number>();
    for (const e of elements) sectors.add(Math.floor(e / SECTOR));
    const waste = (sectors.size * SECTOR) / Math.max(SECTOR, elements.size) - 1;
    if (waste > 0.25) out.set(value, waste);
    else if (walked) out.set(value, WALKED);
  }
  return out;
}

/** The loop along which the address moves least: what a cache keeps a sector for. */
function fastestLoop(
  linear: IndexExpr,
  lanes: LaneVars,
  at: (name: string, step: number) => number,
): string | undefined {
  const names = new Set<string>();
  I.visitAtoms(linear, (a) => {
    if (a.kind === 'var' && !lanes.has(a.name)) names.add(a.name);
  });
  let best: string | undefined;
  let least = Infinity;
  for (const name of names) {
    const step = Math.abs(at(name, 1) - at(name, 0));
    if (step > 0 && step < least) {
      least = step;
      best = name;
    }
  }
  return least < SECTOR ? best : undefined;
}
