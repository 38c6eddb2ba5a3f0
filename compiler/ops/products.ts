/**
 * Sums of products and the arithmetic that the heavier ops share.
 *
 * Vocabulary
 *  - *wide*: the dtype that products and sums of a dtype are formed in: f32 for the 16-bit floats,
 *    i32 for the narrow integers, the dtype itself otherwise.
 *  - *dynamic index*: an index read from a tensor at run time. Negative ones count from the end, and
 *    what is still outside is clamped, so that no input reads outside a buffer.
 */
import { type DType, integerRange } from '../graph/dtype';
import {
  binary,
  type BinaryFn,
  cast,
  constant,
  dynIndex,
  type Expr,
  indexValue,
  select,
  unary,
} from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { Dim, IndexExpr, IndexLike } from '../ir/indexExpr';
import type { LowerContext, LTensor, ReduceSpec } from './op';
import { arith } from './shared';

export function wide(t: DType): DType {
  switch (t) {
    case 'f16':
    case 'bf16':
      return 'f32';
    case 'i4':
    case 'u4':
    case 'i8':
    case 'u8':
    case 'i16':
    case 'u16':
    case 'bool':
      return 'i32';
    case 'f32':
    case 'f64':
    case 'i32':
    case 'i64':
    case 'u32':
    case 'u64':
      return t;
  }
}

/**
 * A reduction with the unit dims left out: a 1×1 convolution then is the contraction it really is.
 * The body still gets one index per given dim.
 */
export function reduceOver(
  ctx: LowerContext,
  spec: ReduceSpec,
  body: (index: readonly IndexExpr[], over: readonly IndexExpr[]) => Expr,
): LTensor {
  const unit = spec.over.map((d) => I.isConst(I.ix(d), 1));
  return ctx.reduce({ ...spec, over: spec.over.filter((_, i) => !unit[i]) }, (index, over) => {
    let next = 0;
    return body(
      index,
      unit.map((u) => (u ? I.num(0) : (over[next++] ?? I.num(0)))),
    );
  });
}

export interface ProductSpec {
  readonly shape: readonly IndexLike[];
  readonly over: readonly IndexLike[];
  /** dtype of the result. */
  readonly dtype: DType;
  /** dtype of the products and of the sum; the wide form of `dtype` by default. */
  readonly accumulator?: DType;
}

/** The sum over `over` of the product of the factors. */
export function sumOfProducts(
  ctx: LowerContext,
  spec: ProductSpec,
  factors: (index: readonly IndexExpr[], over: readonly IndexExpr[]) => readonly Expr[],
): LTensor {
  const acc = spec.accumulator ?? wide(spec.dtype);
  return reduceOver(
    ctx,
    { shape: spec.shape, over: spec.over, monoid: 'sum', dtype: spec.dtype, accumulator: acc },
    (index, over) => product(factors(index, over).map((f) => cast(f, acc))),
  );
}

export function product(factors: readonly Expr[]): Expr {
  return factors.reduce((a, b) => binary('mul', a, b));
}

// ---------------------------------------------------------------------------------------------
// Arithmetic on expressions

export type Operand = Expr | number;

/** A number takes the dtype of the other operand. */
function pair(fn: BinaryFn, a: Operand, b: Operand): Expr {
  const dtype: DType = typeof a !== 'number' ? a.dtype : typeof b !== 'number' ? b.dtype : 'f32';
  const x = typeof a === 'number' ? constant(a, dtype) : a;
  const y = typeof b === 'number' ? constant(b, dtype) : b;
  return arith(fn, x, y);
}

export const plus = (a: Operand, b: Operand): Expr => pair('add', a, b);
export const minus = (a: Operand, b: Operand): Expr => pair('sub', a, b);
export const times = (a: Operand, b: Operand): Expr => pair('mul', a, b);
export const over = (a: Operand, b: Operand): Expr => pair('div', a, b);
export const least = (a: Operand, b: Operand): Expr => pair('min', a, b);
export const greatest = (a: Operand, b: Operand): Expr => pair('max', a, b);
export const below = (a: Operand, b: Operand): Expr => pair('lt', a, b);
export const atMost = (a: Operand, b: Operand): Expr => pair('le', a, b);
export const equals = (a: Operand, b: Operand): Expr => pair('eq', a, b);
export const both = (a: Expr, b: Expr): Expr => binary('and', a, b);
export const either = (a: Expr, b: Expr): Expr => binary('or', a, b);

export function sigmoid(x: Expr): Expr {
  return over(1, plus(1, unary('exp', unary('neg', x))));
}

/** `lo <= x <= hi` forced on x. */
export function clamp(x: Expr, lo: Operand, hi: Operand): Expr {
  return least(greatest(x, lo), hi);
}

/** The identity of `max` for the dtype: minus infinity, or the smallest integer. */
export function lowest(t: DType): number {
  return integerRange(t)?.[0] ?? -Infinity;
}

/** The identity of `min`. */
export function highest(t: DType): number {
  return integerRange(t)?.[1] ?? Infinity;
}

// ---------------------------------------------------------------------------------------------
// Dynamic indices

/** A run-time integer expression as an index in [0, extent); negative values count from the end. */
export function wrappedIndex(value: Expr, extent: Dim): IndexExpr {
  const v = cast(value, 'i32');
  const n = indexValue(extent, 'i32');
  return clampedIndex(select(below(v, 0), plus(v, n), v), extent);
}

/** A run-time integer expression as an index, clamped into [0, extent). */
export function clampedIndex(value: Expr, extent: Dim): IndexExpr {
  if (I.isConst(extent, 1)) return I.num(0);
  const v = cast(value, 'i32');
  return dynIndex(clamp(v, 0, indexValue(I.sub(extent, 1), 'i32')), extent);
}

/** |x|^p, with the common powers written out. */
export function power(x: Expr, p: number): Expr {
  if (p === 1) return unary('abs', x);
  if (p === 2) return times(x, x);
  return binary('pow', unary('abs', x), constant(p, x.dtype));
}

/** The p-th root. */
export function root(x: Expr, p: number): Expr {
  if (p === 1) return x;
  if (p === 2) return unary('sqrt', x);
  return binary('pow', x, constant(1 / p, x.dtype));
}

// ---------------------------------------------------------------------------------------------
// Lists

/** Element i of a list that is known to have it. */
export function at<T>(list: readonly T[], i: number): T {
  const v = list[i];
  if (v === undefined) throw new Error(`there is no element ${i} of ${list.length}`);
  return v;
}

/** Sizes that must agree, one by one; `what` names both sides. */
export function requireShape(
  ctx: LowerContext,
  shape: readonly Dim[],
  wanted: readonly Dim[],
  what: string,
): void {
  if (shape.length !== wanted.length) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `${what} must have shape ${I.printShape(wanted)}, but has shape ${I.printShape(shape)}`,
    );
  }
  shape.forEach((d, i) => {
    ctx.requireEqual(d, at(wanted, i), `dim ${i} of ${what}`);
  });
}
