/**
 * Where a plan's intermediates lie: values that are never live at the same time share memory.
 *
 * Vocabulary
 *  - *lifetime*: from the first dispatch that stores a value to the last that touches it, both
 *    included. As both ends are included, a value that a dispatch reads and one that it stores never
 *    share, so no dispatch sees a buffer through two bindings.
 *  - *place*: one allocation, as large as the largest value in it, which holds one value after another.
 *
 * What may share: values that a dispatch stores before any reads them, and that nobody asks for when
 * the plan is through. Inputs, parameters, constants and outputs keep memory of their own.
 */
import type { ValueId } from '../ir/expr';

/** What one dispatch (or kernel) touches. A value in both lists is read and stored. */
export interface MemoryStep {
  readonly reads: readonly ValueId[];
  readonly writes: readonly ValueId[];
}

export interface MemoryPlan {
  /** By value: its place. Values not listed have memory of their own. */
  readonly placeOf: ReadonlyMap<ValueId, number>;
  /** Bytes by place. */
  readonly places: readonly number[];
  /** Sum of the places: what the values in them take together. */
  readonly arenaBytes: number;
  /** What they would take with memory of their own each. */
  readonly ownBytes: number;
}

interface Lifetime {
  readonly value: ValueId;
  readonly bytes: number;
  readonly first: number;
  last: number;
}

/**
 * Largest values first, each into the smallest place that is free throughout its lifetime (of equals
 * the oldest), else into a new one. Ties go by the order of storing.
 * `shares` says which values may lie in a place at all; `bytes` gives the size of one.
 */
export function planMemory(
  steps: readonly MemoryStep[],
  shares: (value: ValueId) => boolean,
  bytes: (value: ValueId) => number,
): MemoryPlan {
  const lifetimes = lifetimesOf(steps, shares, bytes);
  const bySize = [...lifetimes].sort((a, b) => b.bytes - a.bytes || a.first - b.first);
  const placeOf = new Map<ValueId, number>();
  const places: { readonly bytes: number; readonly held: Lifetime[] }[] = [];
  for (const l of bySize) {
    let best: number | undefined;
    places.forEach((p, i) => {
      const least = best === undefined ? Infinity : (places[best]?.bytes ?? Infinity);
      if (p.bytes < least && freeDuring(p.held, l)) best = i;
    });
    if (best === undefined) {
      best = places.length;
      places.push({ bytes: l.bytes, held: [] });
    }
    const held = places[best]?.held;
    held?.splice(positionOf(held, l.first), 0, l);
    placeOf.set(l.value, best);
  }
  return {
    placeOf,
    places: places.map((p) => p.bytes),
    arenaBytes: places.reduce((sum, p) => sum + p.bytes, 0),
    ownBytes: lifetimes.reduce((sum, l) => sum + l.bytes, 0),
  };
}

/** In the order of storing. A value that is read before any dispatch stores it has none. */
function lifetimesOf(
  steps: readonly MemoryStep[],
  shares: (value: ValueId) => boolean,
  bytes: (value: ValueId) => number,
): Lifetime[] {
  const found = new Map<ValueId, Lifetime>();
  const excluded = new Set<ValueId>();
  steps.forEach((step, at) => {
    for (const v of step.reads) {
      const l = found.get(v);
      if (l) l.last = at;
      else excluded.add(v);
    }
    for (const v of step.writes) {
      const l = found.get(v);
      if (l) l.last = at;
      else if (!excluded.has(v) && shares(v))
        found.set(v, { value: v, bytes: bytes(v), first: at, last: at });
    }
  });
  return [...found.values()];
}

/** `held` is sorted and free of overlaps, so only the neighbours can be in the way. */
function freeDuring(held: readonly Lifetime[], l: Lifetime): boolean {
  const at = positionOf(held, l.first);
  const before = held[at - 1];
  const after = held[at];
  return (
    (before === undefined || before.last < l.first) && (after === undefined || after.first > l.last)
  );
}

/** Where a lifetime starting at `first` stands among those held: after all that start no later. */
function positionOf(held: readonly Lifetime[], first: number): number {
  let lo = 0;
  let hi = held.length;
  while (lo < hi) {
    const mid = (lo + hi) >> 1;
    if ((held[mid]?.first ?? 0) <= first) lo = mid + 1;
    else hi = mid;
  }
  return lo;
}
