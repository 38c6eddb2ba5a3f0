/**
 * Which candidates to measure next: the neighbours of the fastest so far, since times change little
 * from one value of a parameter to the next, and what the model thinks most of, so that a better part
 * of the space is found.
 */
import type { KernelSpace } from '../compiler/fusion/space';
import { BATCH, type Seen } from './contest';

/** Neighbours in a batch, at most: the rest is the model's. */
const NEIGHBOURS = BATCH / 2;

export class Frontier {
  /** By candidate: for each parameter, which of the tried values it has. */
  private readonly places: readonly (readonly number[])[];
  private readonly own: readonly number[];
  private readonly order: readonly number[];

  /** `open` are the candidates that may be measured. */
  constructor(space: KernelSpace, open: readonly number[]) {
    const placeOf = (settings: KernelSpace['own']): number[] =>
      space.parameters.map((p) => p.tried.indexOf(Number(settings[p.name] ?? p.own)));
    this.places = space.candidates.map((c) => placeOf(c.settings));
    this.own = placeOf(space.own);
    const predicted = (i: number): number => space.candidates[i]?.predictedUs ?? Infinity;
    this.order = [...open].sort((a, b) => predicted(a) - predicted(b) || a - b);
  }

  get size(): number {
    return this.order.length;
  }

  /** How many of them have been measured, or found impossible. */
  done(seen: Seen): number {
    return this.order.filter((i) => seen.tried.has(i)).length;
  }

  /** The next batch; empty when all are done. */
  next(seen: Seen): number[] {
    const left = this.order.filter((i) => !seen.tried.has(i));
    const best = this.best(seen);
    const near = left.filter((i) => isNeighbour(this.places[i] ?? [], best)).slice(0, NEIGHBOURS);
    return [...near, ...left.filter((i) => !near.includes(i))].slice(0, BATCH);
  }

  /** Where the fastest so far is: the default, as long as nothing is faster. */
  private best(seen: Seen): readonly number[] {
    let most = 1;
    let best = this.own;
    for (const [i, t] of seen.tried) {
      if ('failed' in t || t.speedup <= most) continue;
      most = t.speedup;
      best = this.places[i] ?? best;
    }
    return best;
  }
}

/** Whether one parameter differs, by one step. */
function isNeighbour(a: readonly number[], b: readonly number[]): boolean {
  const steps = a.map((x, i) => Math.abs(x - (b[i] ?? x)));
  return steps.reduce((sum, s) => sum + s, 0) === 1;
}
