/**
 * Which values an index takes when some of its variables are kept to a range: interval arithmetic.
 * What comes out holds every value, and mostly not many more.
 */
import type { Atom, IndexExpr } from './indexExpr';

/** Both ends included; empty where the first is the greater. */
export type Interval = readonly [number, number];

/** The range of a variable; undefined for those that run over all of their extent. */
export type RangeOf = (name: string) => Interval | undefined;

export function intervalOf(
  e: IndexExpr,
  rangeOf: RangeOf,
  bind: (symbol: string) => number | undefined,
): Interval {
  let lo = e.c;
  let hi = e.c;
  for (const t of e.terms) {
    let p: Interval = [t.coef, t.coef];
    for (const f of t.factors) p = times(p, ofAtom(f, rangeOf, bind));
    lo += p[0];
    hi += p[1];
  }
  return [lo, hi];
}

function ofAtom(a: Atom, rangeOf: RangeOf, bind: (symbol: string) => number | undefined): Interval {
  const of = (e: IndexExpr): Interval => intervalOf(e, rangeOf, bind);
  switch (a.kind) {
    case 'sym': {
      const n = bind(a.name);
      return n === undefined ? [-Infinity, Infinity] : [n, n];
    }
    case 'var': {
      const [, most] = of(a.extent);
      const [lo, hi] = rangeOf(a.name) ?? [0, most - 1];
      return [Math.max(0, lo), Math.max(0, Math.min(hi, most - 1))];
    }
    case 'dyn':
      return [0, Math.max(0, of(a.extent)[1] - 1)];
    case 'floordiv': {
      const [lo, hi] = of(a.a);
      const [least, most] = of(a.b);
      if (least < 1) return [-Infinity, Infinity];
      return [Math.floor(lo / (lo < 0 ? least : most)), Math.floor(hi / (hi < 0 ? most : least))];
    }
    case 'mod': {
      const [lo, hi] = of(a.a);
      const [least, most] = of(a.b);
      if (least < 1) return [-Infinity, Infinity];
      const turn = Math.floor(lo / most);
      // All in one turn: as they lie.
      if (least === most && turn === Math.floor(hi / most))
        return [lo - turn * most, hi - turn * most];
      return [0, most - 1];
    }
    case 'min':
    case 'max': {
      const [x, y] = [of(a.a), of(a.b)];
      const f = a.kind === 'min' ? Math.min : Math.max;
      return [f(x[0], y[0]), f(x[1], y[1])];
    }
  }
}

function times(a: Interval, b: Interval): Interval {
  // Nothing times anything is nothing, even without bounds.
  const by = (x: number, y: number): number => (x === 0 || y === 0 ? 0 : x * y);
  const all = [by(a[0], b[0]), by(a[0], b[1]), by(a[1], b[0]), by(a[1], b[1])];
  return [Math.min(...all), Math.max(...all)];
}
