/**
 * Scalars of L3: types, literals, conversions and the monoids' operations and identities.
 */
import { type DType, integerRange, isUnsigned } from '../graph/dtype';
import type { Monoid } from '../ir/compute';
import type { KExpr, KType } from './kernelIr';

/** The L3 type that a dtype is computed in. */
export function ktype(d: DType): KType {
  if (d === 'bool') return 'bool';
  if (d === 'f32' || d === 'f16' || d === 'bf16' || d === 'f64') return 'f32';
  return isUnsigned(d) ? 'u32' : 'i32';
}

export function lit(value: number, type: KType): KExpr {
  return { k: 'lit', value, type, depth: 0 };
}

/** How a monoid combines two values. */
export const MONOID_OP = {
  sum: 'add',
  prod: 'mul',
  max: 'max',
  min: 'min',
  and: 'and',
  or: 'or',
} as const;

/**
 * Several values as one, in pairs: neighbours in the code don't wait for each other, and a sum errs by
 * the logarithm of their number.
 */
export function total(m: Monoid, values: readonly KExpr[]): KExpr {
  if (m.kind === 'argmax' || m.kind === 'argmin')
    throw new Error('positions are compared one by one');
  const fn = MONOID_OP[m.kind];
  let level = values;
  while (level.length > 1) {
    const next: KExpr[] = [];
    for (let i = 0; i < level.length; i += 2) {
      const [a, b] = [level[i], level[i + 1]];
      if (a && b)
        next.push({ k: 'binary', fn, a, b, type: a.type, depth: Math.max(a.depth, b.depth) });
      else if (a) next.push(a);
    }
    level = next;
  }
  const [all] = level;
  if (!all) throw new Error('nothing to put together');
  return all;
}

/** What a monoid starts from. */
export function identity(m: Monoid, t: KType): KExpr {
  switch (m.kind) {
    case 'sum':
    case 'or':
      return lit(0, t);
    case 'prod':
    case 'and':
      return lit(1, t);
    case 'max':
    case 'argmax':
      return lit(t === 'f32' ? -Infinity : t === 'i32' ? -2147483648 : 0, t);
    case 'min':
    case 'argmin':
      return lit(
        t === 'f32' ? Infinity : t === 'i32' ? 2147483647 : t === 'u32' ? 4294967295 : 1,
        t,
      );
  }
}

/** A cast of the program: as {@link convert}, with a test against zero for bool. */
export function castTo(a: KExpr, from: DType, to: DType): KExpr {
  const t = ktype(to);
  if (t === 'bool' && a.type !== 'bool') {
    return { k: 'binary', fn: 'ne', a, b: lit(0, a.type), type: 'bool', depth: a.depth };
  }
  if (a.type === 'f32' && t === 'u32' && from !== 'bool') {
    // Through i32, so that negative numbers wrap as they do elsewhere.
    if (to === 'u4' || to === 'u8' || to === 'u16') return convert(convert(a, 'i32'), 'u32');
  }
  return convert(a, t);
}

/** Between the four types of L3; literals at once. */
export function convert(a: KExpr, type: KType): KExpr {
  if (a.type === type) return a;
  if (a.k === 'lit') {
    if (type === 'f32') return lit(a.value, 'f32');
    if (Number.isFinite(a.value) && type !== 'bool')
      return lit(type === 'u32' ? Math.trunc(a.value) >>> 0 : Math.trunc(a.value) | 0, type);
  }
  return { k: 'convert', a, type, depth: a.depth };
}

/** Whether every number of an integer type is one of another, too. */
function fits(from: DType, to: DType): boolean {
  const [a, b] = [integerRange(from), integerRange(to)];
  return a !== undefined && b !== undefined && a[0] >= b[0] && a[1] <= b[1];
}

/** Wraps or rounds to a dtype that is narrower than its L3 type. */
export function narrow(a: KExpr, from: DType, to: DType): KExpr {
  if (from === to) return a;
  switch (to) {
    case 'i4':
    case 'i8':
    case 'i16':
      return fits(from, to) ? a : { k: 'narrow', to, a, type: 'i32', depth: a.depth };
    case 'u4':
    case 'u8':
    case 'u16':
      return fits(from, to) ? a : { k: 'narrow', to, a, type: 'u32', depth: a.depth };
    case 'f16':
    case 'bf16':
      return from === 'bool' ? a : { k: 'narrow', to, a, type: 'f32', depth: a.depth };
    default:
      return a;
  }
}
