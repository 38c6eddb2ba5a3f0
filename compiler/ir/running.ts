/**
 * Running reductions (scans): what a loop nest can only say as a reduction over all places up to one's
 * own, and what takes one walk along the row.
 *
 * They are found by their algebra, whatever op they come from: a reduction over `r` whose body is the
 * monoid's identity but where `r <= d` (or `r < d`, `r >= d`, `r > d`) for one of its own dims `d`, and
 * which doesn't otherwise depend on `d`. Then the result at `d` is that at its neighbour, combined with
 * one more element.
 */
import type { Compute, Monoid } from './compute';
import { type Expr, type IndexCond, rewriteExpr } from './expr';
import * as I from './indexExpr';
import type { IndexExpr } from './indexExpr';

export type RunningMonoid = Monoid & { readonly kind: 'sum' | 'prod' | 'max' | 'min' };

export interface Running {
  readonly monoid: RunningMonoid;
  /** The dim it runs along. */
  readonly axis: number;
  /** From the end of the row to its beginning. */
  readonly reverse: boolean;
  /** Without the place itself. */
  readonly exclusive: boolean;
  /** One element, over the reduction's variable and the other dims. */
  readonly term: Expr;
}

/** What the compute runs over, and how; undefined where it is no running reduction. */
export function runningOf(c: Compute): Running | undefined {
  const { monoid, body } = c;
  const [over] = c.reduce;
  if (!monoid || !over || c.reduce.length > 1 || body.op !== 'when') return undefined;
  if (!combines(monoid) || !isIdentity(monoid, body.else)) return undefined;
  const [cond] = body.conds;
  const bound = cond && body.conds.length === 1 ? boundOf(cond, over.name) : undefined;
  if (!bound) return undefined;
  const axis = c.dims.findIndex((d) => d.name === bound.dim);
  const own = c.dims[axis];
  if (!own || !I.same(own.extent, over.extent) || mentions(body.then, own.name)) return undefined;
  const { reverse, exclusive } = bound;
  return { monoid, axis, reverse, exclusive, term: body.then };
}

function combines(m: Monoid): m is RunningMonoid {
  return m.kind === 'sum' || m.kind === 'prod' || m.kind === 'max' || m.kind === 'min';
}

function isIdentity(m: RunningMonoid, e: Expr): boolean {
  if (e.op !== 'const') return false;
  switch (m.kind) {
    case 'sum':
      return e.value === 0;
    case 'prod':
      return e.value === 1;
    case 'max':
      return e.value === -Infinity;
    case 'min':
      return e.value === Infinity;
  }
}

interface Bound {
  readonly dim: string;
  readonly reverse: boolean;
  readonly exclusive: boolean;
}

/** Which of the places `r` a condition lets count, by one of the dims: all up to it, or all from it on. */
function boundOf(cond: IndexCond, r: string): Bound | undefined {
  // Both are to be at least 0; the one that isn't so anyway is the bound.
  const gaps = [I.sub(cond.index, cond.lo), I.sub(I.sub(cond.hi, cond.index), 1)];
  const open = gaps.filter((gap) => !I.provablyNonNegative(gap));
  const [gap] = open;
  return gap && open.length === 1 ? boundOfGap(gap, r) : undefined;
}

/** `d - r + c` or `r - d + c`, of which c is 0, or -1 where the place itself doesn't count. */
function boundOfGap(gap: IndexExpr, r: string): Bound | undefined {
  if (gap.terms.length !== 2 || (gap.c !== 0 && gap.c !== -1)) return undefined;
  let dim: string | undefined;
  let [ofDim, ofR] = [0, 0];
  for (const { coef, factors } of gap.terms) {
    const [v] = factors;
    if (v?.kind !== 'var' || factors.length !== 1) return undefined;
    if (v.name === r) ofR = coef;
    else {
      dim = v.name;
      ofDim = coef;
    }
  }
  if (dim === undefined || Math.abs(ofR) !== 1 || ofDim !== -ofR) return undefined;
  return { dim, reverse: ofR > 0, exclusive: gap.c === -1 };
}

/** Whether an expression depends on a loop variable. */
export function mentions(e: Expr, variable: string): boolean {
  let found = false;
  rewriteExpr(e, (a) => {
    if (a.kind === 'var' && a.name === variable) found = true;
    return undefined;
  });
  return found;
}
