/**
 * Running reductions in one walk: the elements first, each at its own place, by the code that any
 * pointwise compute has; then each combined with all before it. As a reduction over all places up to
 * one's own, a row of n would take n²/2 steps.
 */
import { type DType, isFloat } from '../graph/dtype';
import type { Compute } from '../ir/compute';
import { rewriteExpr } from '../ir/expr';
import { loopVar } from '../ir/indexExpr';
import { type Running, runningOf } from '../ir/running';

/** The elements that a running reduction combines; undefined where it is none, or isn't exact this way. */
export function asElements(
  c: Compute,
): { readonly elements: Compute; readonly running: Running } | undefined {
  const running = oneWalk(c) ? runningOf(c) : undefined;
  const own = running && c.dims[running.axis];
  const [over] = c.reduce;
  if (!running || !own || !over) return undefined;
  const here = loopVar(own.name, own.extent);
  const body = rewriteExpr(running.term, (a) =>
    a.kind === 'var' && a.name === over.name ? here : undefined,
  );
  const { monoid: _, ...rest } = c;
  return { elements: { ...rest, dtype: c.accumulator, reduce: [], body }, running };
}

/** Whether results may be combined from one another: in float64 or, wrapping, in 32 bits. */
function oneWalk(c: Compute): boolean {
  return isFloat(c.accumulator)
    ? isFloat(c.dtype)
    : c.accumulator === 'i32' && c.dtype === 'i32' && c.monoid?.kind === 'sum';
}

/** Combines elements along an axis, each with all before it, in place. */
export function runAlong(
  out: Float64Array,
  shape: readonly number[],
  { monoid, axis, reverse, exclusive }: Running,
  accumulator: DType,
): void {
  const combine = combining(monoid.kind, !isFloat(accumulator));
  const start = { sum: 0, prod: 1, max: -Infinity, min: Infinity }[monoid.kind];
  const length = shape[axis] ?? 1;
  const inner = shape.slice(axis + 1).reduce((a, b) => a * b, 1);
  const step = reverse ? -inner : inner;
  for (let base = 0; base < out.length; base += length * inner)
    for (let row = 0; row < inner; row++) {
      let at = base + row + (reverse ? (length - 1) * inner : 0);
      let met = start;
      for (let i = 0; i < length; i++, at += step) {
        const next = combine(met, out[at] ?? 0);
        out[at] = exclusive ? met : next;
        met = next;
      }
    }
}

function combining(
  kind: Running['monoid']['kind'],
  integers: boolean,
): (a: number, b: number) => number {
  switch (kind) {
    case 'sum':
      return integers ? (a, b) => (a + b) | 0 : (a, b) => a + b;
    case 'prod':
      return (a, b) => a * b;
    // A NaN once met stays.
    case 'max':
      return (a, b) => (b > a || Number.isNaN(b) ? b : a);
    case 'min':
      return (a, b) => (b < a || Number.isNaN(b) ? b : a);
  }
}
