/**
 * Evaluation of small L1 expressions at compile time: numbers where known, sizes where symbolic.
 *
 * This is what folds the shape arithmetic of exported models (Shape → Gather → Concat → Reshape):
 * no op knows about folding, the computes and views that it lowered to are simply evaluated.
 */
import { type DType, isFloat, isUnsigned } from '../graph/dtype';
import type { Compute } from '../ir/compute';
import { type BinaryFn, type Expr, isComparison, type UnaryFn, type ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { Atom, IndexExpr } from '../ir/indexExpr';
import { highest, lowest } from './products';

/** A number, or a size that is not a constant. */
export type Known = number | IndexExpr;

export interface Definitions {
  known(value: ValueId): readonly Known[] | undefined;
  compute(value: ValueId): Compute | undefined;
  shape(value: ValueId): readonly I.Dim[] | undefined;
}

/** Bounds how much work folding may be: steps are expression nodes. */
export interface Budget {
  steps: number;
}

const norm = (e: IndexExpr): Known => I.constOf(e) ?? e;

/** Row-major contents of a value; undefined when something in it isn't known or it costs too much. */
export function evaluateValue(
  value: ValueId,
  defs: Definitions,
  budget: Budget,
  memo: Map<ValueId, readonly Known[] | undefined>,
): readonly Known[] | undefined {
  const known = defs.known(value);
  if (known) return known;
  if (memo.has(value)) return memo.get(value);
  memo.set(value, undefined);
  const c = defs.compute(value);
  const shape = c?.dims.map((d) => I.constOf(d.extent));
  if (!c || !shape) return undefined;
  const sizes: number[] = [];
  for (const s of shape) {
    if (s === undefined) return undefined;
    sizes.push(s);
  }
  const out: Known[] = [];
  const ok = forEachPoint(sizes, (p) => {
    const bind = new Map<string, number>();
    c.dims.forEach((d, i) => bind.set(d.name, p[i] ?? 0));
    const v = evaluatePoint(c, bind, defs, budget, memo);
    if (v === undefined) return false;
    out.push(v);
    return true;
  });
  if (!ok) return undefined;
  memo.set(value, out);
  return out;
}

/** Calls `f` for each index of the box in row-major order; stops when it gives false. */
export function forEachPoint(
  sizes: readonly number[],
  f: (p: readonly number[]) => boolean,
): boolean {
  const p = sizes.map(() => 0);
  if (sizes.some((s) => s <= 0)) return true;
  for (;;) {
    if (!f(p)) return false;
    let i = sizes.length - 1;
    for (; i >= 0; i--) {
      const n = (p[i] ?? 0) + 1;
      if (n < (sizes[i] ?? 0)) {
        p[i] = n;
        break;
      }
      p[i] = 0;
    }
    if (i < 0) return true;
  }
}

function evaluatePoint(
  c: Compute,
  bind: Map<string, number>,
  defs: Definitions,
  budget: Budget,
  memo: Map<ValueId, readonly Known[] | undefined>,
): Known | undefined {
  if (!c.monoid) return evaluateExpr(c.body, bind, defs, budget, memo);
  const sizes: number[] = [];
  for (const r of c.reduce) {
    const n = I.constOf(r.extent);
    if (n === undefined) return undefined;
    sizes.push(n);
  }
  const monoid = c.monoid;
  let acc: Known | undefined;
  let best = 0;
  let position = 0;
  const ok = forEachPoint(sizes, (p) => {
    c.reduce.forEach((r, i) => bind.set(r.name, p[i] ?? 0));
    const v = evaluateExpr(c.body, bind, defs, budget, memo);
    if (v === undefined) return false;
    if (monoid.kind === 'argmax' || monoid.kind === 'argmin') {
      if (typeof v !== 'number' || (acc !== undefined && typeof acc !== 'number')) return false;
      const better =
        acc === undefined ||
        (monoid.kind === 'argmax' ? v > acc : v < acc) ||
        (monoid.last && v === acc);
      if (better) {
        acc = v;
        best = position;
      }
      position++;
      return true;
    }
    const fn = MONOID_FN[monoid.kind];
    acc = acc === undefined ? v : applyBinary(fn, acc, v, c.accumulator);
    return acc !== undefined;
  });
  if (!ok) return undefined;
  if (monoid.kind === 'argmax' || monoid.kind === 'argmin') return best;
  return acc ?? identityOf(monoid.kind, c.accumulator);
}

const MONOID_FN = {
  sum: 'add',
  prod: 'mul',
  max: 'max',
  min: 'min',
  and: 'and',
  or: 'or',
} as const;
const MONOID_IDENTITY = { sum: 0, prod: 1, and: 1, or: 0 } as const;

/** What nothing at all combines to. */
function identityOf(kind: keyof typeof MONOID_FN, t: DType): number {
  if (kind === 'max') return lowest(t);
  return kind === 'min' ? highest(t) : MONOID_IDENTITY[kind];
}

/** One expression with loop variables bound; undefined when it needs something unknown. */
export function evaluateExpr(
  e: Expr,
  bind: ReadonlyMap<string, number>,
  defs: Definitions,
  budget: Budget,
  memo: Map<ValueId, readonly Known[] | undefined>,
): Known | undefined {
  if (--budget.steps < 0) return undefined;
  const go = (x: Expr): Known | undefined => evaluateExpr(x, bind, defs, budget, memo);
  let failed = false;
  const leaf = (a: Atom): IndexExpr | undefined => {
    if (a.kind === 'var') {
      const v = bind.get(a.name);
      if (v === undefined) failed = true;
      return I.num(v ?? 0);
    }
    if (a.kind === 'dyn') {
      const v = go(a.expr);
      if (v === undefined) failed = true;
      return I.ix(v ?? 0);
    }
    return undefined;
  };
  const index = (i: IndexExpr): IndexExpr | undefined => {
    const r = I.rewrite(i, leaf);
    return failed ? undefined : r;
  };
  switch (e.op) {
    case 'const':
      return e.value;
    case 'index': {
      const i = index(e.index);
      return i && norm(i);
    }
    case 'load': {
      const contents = evaluateValue(e.value, defs, budget, memo);
      const shape = defs.shape(e.value);
      if (!contents || !shape) return undefined;
      let lin: IndexExpr = I.num(0);
      for (let k = 0; k < shape.length; k++) {
        const i = index(e.index[k] ?? I.num(0));
        if (!i) return undefined;
        lin = I.add(I.mul(lin, shape[k] ?? 1), i);
      }
      const at = I.constOf(lin);
      return at === undefined ? undefined : contents[at];
    }
    case 'unary': {
      const a = go(e.a);
      return a === undefined ? undefined : applyUnary(e.fn, a);
    }
    case 'binary': {
      const a = go(e.a);
      const b = a === undefined ? undefined : go(e.b);
      return a === undefined || b === undefined ? undefined : applyBinary(e.fn, a, b, e.a.dtype);
    }
    case 'select': {
      const c = go(e.cond);
      if (typeof c !== 'number') return undefined;
      return go(c ? e.then : e.else);
    }
    case 'when': {
      for (const c of e.conds) {
        const i = index(c.index);
        const lo = index(c.lo);
        const hi = index(c.hi);
        if (!i || !lo || !hi) return undefined;
        const in1 = I.provablyLe(lo, i) ? true : I.provablyLe(I.add(i, 1), lo) ? false : undefined;
        const in2 = I.provablyLe(I.add(i, 1), hi) ? true : I.provablyLe(hi, i) ? false : undefined;
        if (in1 === false || in2 === false) return go(e.else);
        if (in1 === undefined || in2 === undefined) return undefined;
      }
      return go(e.then);
    }
    case 'cast': {
      const a = go(e.a);
      if (a === undefined || typeof a !== 'number')
        return isFloat(e.dtype) || e.dtype === 'bool' ? undefined : a;
      if (e.dtype === 'bool') return a ? 1 : 0;
      // No integer is infinite: what it becomes is the GPU's to say.
      if (!isFloat(e.dtype) && !Number.isFinite(a)) return undefined;
      return isFloat(e.dtype) ? a : wrapped(isFloat(e.a.dtype) ? Math.trunc(a) : a, e.dtype);
    }
  }
}

function applyUnary(fn: UnaryFn, a: Known): Known | undefined {
  if (typeof a !== 'number')
    return fn === 'neg' ? norm(I.neg(a)) : fn === 'abs' && I.provablyNonNegative(a) ? a : undefined;
  switch (fn) {
    case 'neg':
      return -a;
    case 'abs':
      return Math.abs(a);
    case 'sign':
      return Math.sign(a);
    case 'exp':
      return Math.exp(a);
    case 'log':
      return Math.log(a);
    case 'sqrt':
      return Math.sqrt(a);
    case 'rsqrt':
      return 1 / Math.sqrt(a);
    case 'recip':
      return 1 / a;
    case 'floor':
      return Math.floor(a);
    case 'ceil':
      return Math.ceil(a);
    case 'trunc':
      return Math.trunc(a);
    case 'not':
      return a ? 0 : 1;
    case 'isnan':
      return Number.isNaN(a) ? 1 : 0;
    case 'isinf':
      return Math.abs(a) === Infinity ? 1 : 0;
    case 'round': {
      const r = Math.round(a);
      return Math.abs(a % 1) === 0.5 && r % 2 !== 0 ? r - 1 : r;
    }
    default:
      // The rest are transcendental functions: nothing that shapes are made of.
      return undefined;
  }
}

/** What is left of a whole number in a type of at most 32 bits, as the GPU and the reference have it. */
function wrapped(v: number, t: DType): number {
  // "To the end", as files write it, is no number to take bits of.
  if (!Number.isSafeInteger(v)) return v;
  switch (t) {
    case 'i4':
      return (v << 28) >> 28;
    case 'u4':
      return v & 0xf;
    case 'i8':
      return (v << 24) >> 24;
    case 'u8':
      return v & 0xff;
    case 'i16':
      return (v << 16) >> 16;
    case 'u16':
      return v & 0xffff;
    case 'i32':
      return v | 0;
    case 'u32':
      return v >>> 0;
    default:
      // Sizes and places are i64, and exact; so are flags.
      return v;
  }
}

function applyBinary(fn: BinaryFn, a: Known, b: Known, t: DType): Known | undefined {
  const float = isFloat(t);
  if (typeof a === 'number' && typeof b === 'number') {
    if (fn === 'mul' && (t === 'i32' || t === 'u32')) return wrapped(Math.imul(a, b), t);
    if (fn === 'shr' && isUnsigned(t)) return b < 32 ? wrapped(a >>> b, t) : 0;
    const v = numberBinary(fn, a, b, float);
    return typeof v === 'number' && !float && !isComparison(fn) ? wrapped(v, t) : v;
  }
  if (float) return undefined;
  switch (fn) {
    case 'add':
      return norm(I.add(a, b));
    case 'sub':
      return norm(I.sub(a, b));
    case 'mul':
      return norm(I.mul(a, b));
    case 'div':
      return I.provablyNonNegative(I.ix(a)) && I.provablyLe(1, b)
        ? norm(I.floorDiv(a, b))
        : undefined;
    case 'mod':
    case 'fmod':
      return I.provablyNonNegative(I.ix(a)) && I.provablyLe(1, b) ? norm(I.mod(a, b)) : undefined;
    case 'min':
      return norm(I.min(a, b));
    case 'max':
      return norm(I.max(a, b));
    case 'eq':
    case 'ne': {
      const x = I.ix(a);
      const y = I.ix(b);
      const different = I.provablyLe(I.add(x, 1), y) || I.provablyLe(I.add(y, 1), x);
      if (!I.same(x, y) && !different) return undefined;
      return I.same(x, y) === (fn === 'eq') ? 1 : 0;
    }
    case 'lt':
      return order(a, b, 1, 0);
    case 'le':
      return order(a, b, 0, 1);
    case 'gt':
      return order(b, a, 1, 0);
    case 'ge':
      return order(b, a, 0, 1);
    default:
      return undefined;
  }
}

/** a + yes <= b proves it; b + no <= a refutes it. */
function order(a: Known, b: Known, yes: number, no: number): Known | undefined {
  if (I.provablyLe(I.add(a, yes), b)) return 1;
  return I.provablyLe(I.add(b, no), a) ? 0 : undefined;
}

function numberBinary(fn: BinaryFn, a: number, b: number, float: boolean): Known | undefined {
  switch (fn) {
    case 'add':
      return a + b;
    case 'sub':
      return a - b;
    case 'mul':
      return a * b;
    case 'div':
      return float ? a / b : b === 0 ? undefined : Math.trunc(a / b);
    case 'mod':
      return b === 0 ? undefined : a - b * Math.floor(a / b);
    case 'fmod':
      return b === 0 ? undefined : a % b;
    case 'pow':
      return Math.pow(a, b);
    case 'min':
      return Math.min(a, b);
    case 'max':
      return Math.max(a, b);
    case 'atan2':
      return Math.atan2(a, b);
    case 'eq':
      return a === b ? 1 : 0;
    case 'ne':
      return a !== b ? 1 : 0;
    case 'lt':
      return a < b ? 1 : 0;
    case 'le':
      return a <= b ? 1 : 0;
    case 'gt':
      return a > b ? 1 : 0;
    case 'ge':
      return a >= b ? 1 : 0;
    case 'and':
      return a && b ? 1 : 0;
    case 'or':
      return a || b ? 1 : 0;
    case 'xor':
      return !!a !== !!b ? 1 : 0;
    case 'bitand':
      return a & b;
    case 'bitor':
      return a | b;
    case 'bitxor':
      return a ^ b;
    case 'shl':
      return a << b;
    case 'shr':
      return a >> b;
  }
}
