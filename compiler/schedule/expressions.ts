/** L3 expressions of a few kinds, with their types and depths. */
import type { KExpr } from './kernelIr';

/** Arithmetic on two numbers of one type. */
export function binary(fn: 'add' | 'sub' | 'mul' | 'div', a: KExpr, b: KExpr): KExpr {
  return { k: 'binary', fn, a, b, type: a.type, depth: Math.max(a.depth, b.depth) };
}

export function exp(a: KExpr): KExpr {
  return { k: 'unary', fn: 'exp', a, type: a.type, depth: a.depth };
}

export function less(a: KExpr, b: KExpr): KExpr {
  return { k: 'binary', fn: 'lt', a, b, type: 'bool', depth: Math.max(a.depth, b.depth) };
}

export function equal(a: KExpr, b: KExpr): KExpr {
  return { k: 'binary', fn: 'eq', a, b, type: 'bool', depth: Math.max(a.depth, b.depth) };
}

export function select(cond: KExpr, then: KExpr, other: KExpr): KExpr {
  const depth = Math.max(cond.depth, then.depth, other.depth);
  return { k: 'select', cond, then, else: other, type: then.type, depth };
}

export function all(terms: readonly KExpr[]): KExpr {
  const [only] = terms;
  if (only && terms.length === 1) return only;
  return { k: 'all', terms, type: 'bool', depth: Math.max(0, ...terms.map((t) => t.depth)) };
}

export function infinite(a: KExpr): KExpr {
  return { k: 'unary', fn: 'isinf', a, type: 'bool', depth: a.depth };
}

/** Infinite, or no number. */
export function odd(a: KExpr): KExpr {
  const nan: KExpr = { k: 'unary', fn: 'isnan', a, type: 'bool', depth: a.depth };
  return { k: 'binary', fn: 'or', a: infinite(a), b: nan, type: 'bool', depth: a.depth };
}
