/**
 * L1 scalar expressions: what one element of a {@link Compute} is, as a pure tree.
 *
 * Vocabulary
 *  - *load*: one element of an L1 value, at an index map (one index expression per dim of that value).
 *    The index is always inside the value's shape: where it might not be, the load stands in a `when`.
 *  - *when*: a piecewise expression by index conditions (pad, concat, causal mask). Its branches are
 *    lazy: a load in a branch that is not taken must not be evaluated out of bounds.
 *  - *select*: chooses by a run-time value; both branches may be evaluated.
 *
 * Every expression has a dtype. Integers narrower than 32 bits wrap by an explicit `cast`, which the
 * lowering puts after each operation that can overflow; i64 is computed in 32 bits.
 */
import type { DType } from '../graph/dtype';
import { type IndexExpr, dyn, rewrite, type LeafRewrite, printIndex } from './indexExpr';

export type ValueId = string;

export const UNARY_FNS = [
  'neg',
  'abs',
  'sign',
  'exp',
  'expm1',
  'log',
  'log1p',
  'sqrt',
  'rsqrt',
  'recip',
  'sin',
  'cos',
  'tan',
  'asin',
  'acos',
  'atan',
  'sinh',
  'cosh',
  'tanh',
  'asinh',
  'acosh',
  'atanh',
  'floor',
  'ceil',
  'round',
  'trunc',
  'erf',
  'not',
  'bitnot',
  'isnan',
  'isinf',
  'bitsof',
  'floatof',
] as const;
/**
 * `round` is to nearest, ties to even. `not` is logical. `bitsof` gives the bits of an f32 as u32,
 * `floatof` the f32 of such bits.
 */
export type UnaryFn = (typeof UNARY_FNS)[number];

export const BINARY_FNS = [
  'add',
  'sub',
  'mul',
  'div',
  'mod',
  'fmod',
  'pow',
  'min',
  'max',
  'atan2',
  'eq',
  'ne',
  'lt',
  'le',
  'gt',
  'ge',
  'and',
  'or',
  'xor',
  'bitand',
  'bitor',
  'bitxor',
  'shl',
  'shr',
] as const;
/**
 * `div` of integers truncates towards zero; `mod` has the sign of the divisor, `fmod` of the
 * dividend. `min` and `max` of floats give NaN when either side is NaN. `and`, `or`, `xor` are
 * logical on bool. Comparisons give bool.
 */
export type BinaryFn = (typeof BINARY_FNS)[number];

/** lo <= index < hi. */
export interface IndexCond {
  readonly index: IndexExpr;
  readonly lo: IndexExpr;
  readonly hi: IndexExpr;
}

export type Expr =
  | { readonly op: 'const'; readonly value: number; readonly dtype: DType }
  /** An index expression as a number. */
  | { readonly op: 'index'; readonly index: IndexExpr; readonly dtype: DType }
  | {
      readonly op: 'load';
      readonly value: ValueId;
      readonly index: readonly IndexExpr[];
      readonly dtype: DType;
    }
  | { readonly op: 'unary'; readonly fn: UnaryFn; readonly a: Expr; readonly dtype: DType }
  | {
      readonly op: 'binary';
      readonly fn: BinaryFn;
      readonly a: Expr;
      readonly b: Expr;
      readonly dtype: DType;
    }
  | {
      readonly op: 'select';
      readonly cond: Expr;
      readonly then: Expr;
      readonly else: Expr;
      readonly dtype: DType;
    }
  | {
      readonly op: 'when';
      /** All must hold. */
      readonly conds: readonly IndexCond[];
      readonly then: Expr;
      readonly else: Expr;
      readonly dtype: DType;
    }
  /** Numeric conversion: to an integer truncates towards zero and wraps; to bool is `!= 0`; narrowing floats round. */
  | { readonly op: 'cast'; readonly a: Expr; readonly dtype: DType };

// ---------------------------------------------------------------------------------------------
// Builders (with the few foldings that keep the trees small)

export function constant(value: number, dtype: DType): Expr {
  return { op: 'const', value, dtype };
}

export function indexValue(index: IndexExpr, dtype: DType = 'i32'): Expr {
  return index.terms.length === 0 ? constant(index.c, dtype) : { op: 'index', index, dtype };
}

export function load(value: ValueId, index: readonly IndexExpr[], dtype: DType): Expr {
  return { op: 'load', value, index, dtype };
}

export function unary(fn: UnaryFn, a: Expr): Expr {
  return { op: 'unary', fn, a, dtype: unaryDtype(fn, a.dtype) };
}

/** What a function makes of an operand. */
export function unaryDtype(fn: UnaryFn, operand: DType): DType {
  if (fn === 'not' || fn === 'isnan' || fn === 'isinf') return 'bool';
  return fn === 'bitsof' ? 'u32' : fn === 'floatof' ? 'f32' : operand;
}

const COMPARISONS: ReadonlySet<BinaryFn> = new Set<BinaryFn>(['eq', 'ne', 'lt', 'le', 'gt', 'ge']);

export function isComparison(fn: BinaryFn): boolean {
  return COMPARISONS.has(fn);
}

/** Both sides must have one dtype (the caller casts); the result has it too, or bool for comparisons. */
export function binary(fn: BinaryFn, a: Expr, b: Expr): Expr {
  return { op: 'binary', fn, a, b, dtype: isComparison(fn) ? 'bool' : a.dtype };
}

export function select(cond: Expr, then: Expr, otherwise: Expr): Expr {
  return { op: 'select', cond, then, else: otherwise, dtype: then.dtype };
}

export function when(conds: readonly IndexCond[], then: Expr, otherwise: Expr): Expr {
  return conds.length === 0
    ? then
    : { op: 'when', conds, then, else: otherwise, dtype: then.dtype };
}

export function cast(a: Expr, dtype: DType): Expr {
  return a.dtype === dtype ? a : { op: 'cast', a, dtype };
}

/** A run-time integer in [0, extent) for use inside index expressions. */
export function dynIndex(expr: Expr, extent: IndexExpr): IndexExpr {
  return dyn(expr, extent, printExpr(expr));
}

// ---------------------------------------------------------------------------------------------
// Traversal

/** Visits every node, outer before inner, entering `dyn` indices and conditions too. */
export function visitExpr(e: Expr, visit: (e: Expr) => void): void {
  visit(e);
  switch (e.op) {
    case 'const':
      return;
    case 'index':
      visitDyn(e.index, visit);
      return;
    case 'load':
      for (const i of e.index) visitDyn(i, visit);
      return;
    case 'unary':
    case 'cast':
      visitExpr(e.a, visit);
      return;
    case 'binary':
      visitExpr(e.a, visit);
      visitExpr(e.b, visit);
      return;
    case 'select':
      visitExpr(e.cond, visit);
      visitExpr(e.then, visit);
      visitExpr(e.else, visit);
      return;
    case 'when':
      for (const c of e.conds) {
        visitDyn(c.index, visit);
        visitDyn(c.lo, visit);
        visitDyn(c.hi, visit);
      }
      visitExpr(e.then, visit);
      visitExpr(e.else, visit);
      return;
  }
}

function visitDyn(i: IndexExpr, visit: (e: Expr) => void): void {
  for (const t of i.terms) {
    for (const f of t.factors) {
      if (f.kind === 'dyn') visitExpr(f.expr, visit);
      else if (f.kind === 'floordiv' || f.kind === 'mod' || f.kind === 'min' || f.kind === 'max') {
        visitDyn(f.a, visit);
        visitDyn(f.b, visit);
      }
    }
  }
}

/**
 * Rebuilds the tree with index leaves replaced by `leaf` and loads replaced by `onLoad` (which gets
 * the load with its index already rewritten; undefined keeps it).
 */
export function rewriteExpr(
  e: Expr,
  leaf: LeafRewrite,
  onLoad?: (load: Expr & { op: 'load' }) => Expr | undefined,
): Expr {
  const atom: LeafRewrite = (a) =>
    a.kind === 'dyn' ? dynIndex(go(a.expr), rewrite(a.extent, leaf)) : leaf(a);
  const index = (i: IndexExpr): IndexExpr => rewrite(i, atom);
  const go = (x: Expr): Expr => {
    switch (x.op) {
      case 'const':
        return x;
      case 'index':
        return indexValue(index(x.index), x.dtype);
      case 'load': {
        const r = { ...x, index: x.index.map(index) };
        return onLoad?.(r) ?? r;
      }
      case 'unary':
      case 'cast':
        return { ...x, a: go(x.a) };
      case 'binary':
        return { ...x, a: go(x.a), b: go(x.b) };
      case 'select':
        return { ...x, cond: go(x.cond), then: go(x.then), else: go(x.else) };
      case 'when':
        return {
          ...x,
          conds: x.conds.map((c) => ({ index: index(c.index), lo: index(c.lo), hi: index(c.hi) })),
          then: go(x.then),
          else: go(x.else),
        };
    }
  };
  return go(e);
}

/** Whether two expressions over the same loop dims are the same, node for node. */
export function sameExpr(a: Expr, b: Expr): boolean {
  if (a === b) return true;
  if (a.dtype !== b.dtype) return false;
  switch (a.op) {
    case 'const':
      return b.op === 'const' && Object.is(a.value, b.value);
    case 'index':
      return b.op === 'index' && a.index.key === b.index.key;
    case 'load':
      return b.op === 'load' && a.value === b.value && sameIndices(a.index, b.index);
    case 'unary':
      return b.op === 'unary' && a.fn === b.fn && sameExpr(a.a, b.a);
    case 'cast':
      return b.op === 'cast' && sameExpr(a.a, b.a);
    case 'binary':
      return b.op === 'binary' && a.fn === b.fn && sameExpr(a.a, b.a) && sameExpr(a.b, b.b);
    case 'select':
      return (
        b.op === 'select' &&
        sameExpr(a.cond, b.cond) &&
        sameExpr(a.then, b.then) &&
        sameExpr(a.else, b.else)
      );
    case 'when':
      return (
        b.op === 'when' &&
        a.conds.length === b.conds.length &&
        a.conds.every((c, i) => {
          const d = b.conds[i];
          return d !== undefined && sameIndices([c.index, c.lo, c.hi], [d.index, d.lo, d.hi]);
        }) &&
        sameExpr(a.then, b.then) &&
        sameExpr(a.else, b.else)
      );
  }
}

function sameIndices(a: readonly IndexExpr[], b: readonly IndexExpr[]): boolean {
  return a.length === b.length && a.every((i, k) => i.key === b[k]?.key);
}

// ---------------------------------------------------------------------------------------------
// Printing

/** One line; equal expressions print equally, so the text also serves as a structural key. */
export function printExpr(e: Expr): string {
  switch (e.op) {
    case 'const':
      return `${Object.is(e.value, -0) ? '-0' : String(e.value)}:${e.dtype}`;
    case 'index':
      return `idx(${printIndex(e.index)}):${e.dtype}`;
    case 'load':
      return `${e.value}[${e.index.map(printIndex).join(', ')}]`;
    case 'unary':
      return `${e.fn}(${printExpr(e.a)})`;
    case 'binary':
      return `${e.fn}(${printExpr(e.a)}, ${printExpr(e.b)})`;
    case 'select':
      return `select(${printExpr(e.cond)}, ${printExpr(e.then)}, ${printExpr(e.else)})`;
    case 'when':
      return `when(${e.conds.map(printCond).join(' && ')} ? ${printExpr(e.then)} : ${printExpr(e.else)})`;
    case 'cast':
      return `${e.dtype}(${printExpr(e.a)})`;
  }
}

function printCond(c: IndexCond): string {
  return `${printIndex(c.lo)} <= ${printIndex(c.index)} < ${printIndex(c.hi)}`;
}
