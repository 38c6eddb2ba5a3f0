/**
 * Reading a tensor between its elements: what GridSample, RoiAlign and deformable convolution share.
 *
 * Coordinates are run-time numbers in pixels, one per spatial dim. Every read is at a clamped dynamic
 * index; what lies outside is given weight zero where the op says so.
 */
import { cast, constant, type Expr, select, unary } from '../ir/expr';
import type { Dim, IndexExpr } from '../ir/indexExpr';
import { at, atMost, below, both, clampedIndex, minus, plus, times } from './products';
import { sizeAs } from './shared';

/** Whether a whole number `p` (as a float) lies in [0, extent). */
export function inside(p: Expr, extent: Dim): Expr {
  return both(atMost(constant(0, p.dtype), p), below(p, sizeOf(extent, p)));
}

/** A size in the dtype of `like`. */
export function sizeOf(extent: IndexExpr, like: Expr): Expr {
  return sizeAs(extent, like.dtype);
}

/** One pixel along one dim: its index and, where it isn't certainly inside, the condition that it is. */
export interface Neighbour {
  readonly index: IndexExpr;
  readonly weight: Expr;
  readonly valid?: Expr;
}

/**
 * The sum over all combinations of neighbours (one per dim) of weight * pixel; invalid ones count as
 * zero. `read` gives the pixel, in the dtype of the weights.
 */
export function blend(
  perDim: readonly (readonly Neighbour[])[],
  read: (index: readonly IndexExpr[]) => Expr,
): Expr {
  let combos: Neighbour[][] = [[]];
  for (const dim of perDim) combos = combos.flatMap((c) => dim.map((n) => [...c, n]));
  const terms = combos.map((combo): Expr => {
    const weight = combo.map((n) => n.weight).reduce((a, b) => times(a, b));
    const value = times(weight, cast(read(combo.map((n) => n.index)), weight.dtype));
    const conds = combo.flatMap((n) => (n.valid ? [n.valid] : []));
    return conds.length === 0
      ? value
      : select(
          conds.reduce((a, b) => both(a, b)),
          value,
          constant(0, value.dtype),
        );
  });
  return terms.reduce((a, b) => plus(a, b));
}

/** The two neighbours of a coordinate, zero outside. */
export function linearNeighbours(x: Expr, extent: Dim): Neighbour[] {
  const floor = unary('floor', x);
  const ratio = minus(x, floor);
  return [0, 1].map((k) => {
    const p = k === 0 ? floor : plus(floor, k);
    return {
      index: clampedIndex(cast(p, 'i32'), extent),
      weight: k === 0 ? minus(1, ratio) : ratio,
      valid: inside(p, extent),
    };
  });
}

/** Multilinear interpolation, zero outside. */
export function bilinear(
  coordinates: readonly Expr[],
  extents: readonly Dim[],
  read: (index: readonly IndexExpr[]) => Expr,
): Expr {
  return blend(
    coordinates.map((x, i) => linearNeighbours(x, at(extents, i))),
    read,
  );
}
