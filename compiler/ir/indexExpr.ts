/**
 * Index expressions: the quasi-affine language of shapes and of index maps.
 *
 * Vocabulary
 *  - *atom*: what cannot be split by addition: a loop variable, a symbolic size, a floor division,
 *    a modulo, a minimum or maximum, or an integer that is only known at run time (`dyn`, a gather).
 *  - *term*: an integer coefficient times a product of atoms.
 *  - *index expression*: a constant plus a sum of terms, kept canonical (terms sorted by key, equal
 *    terms merged, no zero coefficients), so that two expressions are equal when their keys are.
 *  - *dim*: an index expression without loop variables: the size of a tensor's dimension.
 *
 * A loop variable carries its extent, a symbolic size is at least 1; the simplifier uses these
 * ranges to remove divisions and modulos, which is how reshapes, transposes and slices compose
 * into plain reads. All operations are pure; nothing here throws on user input.
 */
import type { Expr } from './expr';

export type Atom = (
  | { readonly kind: 'var'; readonly name: string; readonly extent: IndexExpr }
  | { readonly kind: 'sym'; readonly name: string }
  | { readonly kind: 'floordiv' | 'min' | 'max'; readonly a: IndexExpr; readonly b: IndexExpr }
  | {
      readonly kind: 'mod';
      readonly a: IndexExpr;
      readonly b: IndexExpr;
      /** floor(a / b), kept once it was asked for. */
      quotient: IndexExpr | undefined;
    }
  /** An integer read at run time, promised to lie in [0, extent). */
  | { readonly kind: 'dyn'; readonly expr: Expr; readonly extent: IndexExpr }
) & {
  readonly key: string;
  /** Its bounds, whatever the sizes are: asked for again and again, so found once. */
  readonly low: number;
  readonly high: number;
  /** Whether it is made of sizes and numbers alone. */
  readonly sized: boolean;
};

export interface Term {
  readonly coef: number;
  /** Sorted by key; never empty. */
  readonly factors: readonly Atom[];
  readonly key: string;
}

export interface IndexExpr {
  readonly c: number;
  readonly terms: readonly Term[];
  readonly key: string;
}

export type Dim = IndexExpr;
/** What the builders accept: a number stands for a constant. */
export type IndexLike = IndexExpr | number;

const NO_NUMBER: IndexExpr = { c: NaN, terms: [], key: 'NaN' };
const SMALL: IndexExpr[] = [];
for (let i = 0; i <= 1024; i++) SMALL.push({ c: i, terms: [], key: String(i) });

/** The constant `n`. */
export function num(n: number): IndexExpr {
  // Looked up only where it is there: a miss would make every look-up slow.
  if (n >= 0 && n <= 1024 && Number.isInteger(n)) return SMALL[n] ?? NO_NUMBER;
  return { c: n, terms: [], key: String(n) };
}

export function ix(e: IndexLike): IndexExpr {
  return typeof e === 'number' ? num(e) : e;
}

function ofSizes(e: IndexExpr): boolean {
  return e.terms.every((t) => t.factors.every((f) => f.sized));
}

function fromAtom(atom: Atom): IndexExpr {
  return { c: 0, terms: [{ coef: 1, factors: [atom], key: atom.key }], key: atom.key };
}

/** A loop variable ranging over [0, extent). Its name is its identity within one compute or kernel. */
export function loopVar(name: string, extent: IndexLike): IndexExpr {
  const e = ix(extent);
  const high = upperBound(e) - 1;
  return fromAtom({ kind: 'var', name, extent: e, key: name, low: 0, high, sized: false });
}

/** A symbolic size (at least 1). */
export function sym(name: string): IndexExpr {
  return fromAtom({
    ...{ kind: 'sym', name, key: `$${name}` },
    ...{ low: 1, high: Infinity, sized: true },
  });
}

/** An integer known only at run time, in [0, extent); `key` must identify the expression. */
export function dyn(expr: Expr, extent: IndexLike, exprKey: string): IndexExpr {
  const e = ix(extent);
  const [key, high] = [`dyn(${exprKey})`, upperBound(e) - 1];
  return fromAtom({ kind: 'dyn', expr, extent: e, key, low: 0, high, sized: false });
}

/** The value when the expression is a constant. */
export function constOf(e: IndexExpr): number | undefined {
  return e.terms.length === 0 ? e.c : undefined;
}

export function isConst(e: IndexExpr, n: number): boolean {
  return e.terms.length === 0 && e.c === n;
}

export function same(a: IndexExpr, b: IndexExpr): boolean {
  return a.key === b.key;
}

function build(c: number, terms: readonly Term[]): IndexExpr {
  const first = terms[0];
  if (!first) return num(c);
  let key = first.coef === 1 ? first.key : `${first.coef}*${first.key}`;
  if (terms.length === 1 && c === 0) return { c, terms, key };
  for (let i = 1; i < terms.length; i++) {
    const t = terms[i];
    if (t) key += t.coef === 1 ? ` + ${t.key}` : ` + ${t.coef}*${t.key}`;
  }
  return { c, terms, key: c === 0 ? `(${key})` : `(${key} + ${c})` };
}

/** Sorts terms by key, merges those with equal factors and drops zeros, in place. */
function collect(terms: Term[]): void {
  // Insertion: the lists are short and often sorted already.
  let n = 0;
  for (const t of terms) {
    let i = n;
    while (i > 0 && (terms[i - 1]?.key ?? '') > t.key) i--;
    const old = i > 0 ? terms[i - 1] : undefined;
    if (old?.key === t.key) {
      terms[i - 1] = { coef: old.coef + t.coef, factors: t.factors, key: t.key };
      continue;
    }
    for (let j = n; j > i; j--) terms[j] = terms[j - 1] ?? t;
    terms[i] = t;
    n++;
  }
  let kept = 0;
  for (let i = 0; i < n; i++) {
    const t = terms[i];
    if (t && t.coef !== 0) terms[kept++] = t;
  }
  terms.length = kept;
}

/** The sum of terms in any order; the list becomes part of the result. */
function sumOf(c: number, terms: Term[]): IndexExpr {
  if (terms.length > 1) collect(terms);
  else if (terms[0]?.coef === 0) return num(c);
  return recombine(c, terms);
}

/** Makes `k*x` of `k*b*(x floordiv b) + k*(x mod b)`; the terms are sorted. */
function recombine(c: number, terms: readonly Term[]): IndexExpr {
  if (terms.length > 1 && terms.some(hasQuotient)) {
    for (const t of terms) {
      const m = t.factors.find((f) => f.kind === 'mod');
      if (m?.kind !== 'mod') continue;
      const whole = (m.quotient ??= floorDiv(m.a, m.b));
      const [w] = whole.terms;
      // What isn't one term here is none as a product either.
      if (!w || !isTerm(whole) || !(m.b.terms.length === 0 || isTerm(m.b))) continue;
      const [b] = m.b.terms;
      const coef = t.coef * (b ? b.coef : m.b.c) * w.coef;
      const factors = t.factors.length - 1 + (b ? b.factors.length : 0) + w.factors.length;
      const like = (u: Term): boolean => u.coef === coef && u.factors.length === factors;
      if (!terms.some(like)) continue;
      const k = without(t, m);
      const [p] = mul(mul(k, m.b), whole).terms;
      const q = p && terms.find((u) => like(u) && u.key === p.key);
      if (!q) continue;
      const rest = terms.filter((u) => u !== t && u !== q);
      return add(recombine(c, rest), mul(k, m.a));
    }
  }
  return build(c, terms);
}

function isTerm(e: IndexExpr): boolean {
  return e.c === 0 && e.terms.length === 1;
}

/** The term with one factor taken out. */
function without(t: Term, factor: Atom): IndexExpr {
  if (t.factors.length === 1) return num(t.coef);
  const at = t.factors.indexOf(factor);
  const factors = t.factors.filter((_, i) => i !== at);
  return build(0, [{ coef: t.coef, factors, key: keyOf(factors) }]);
}

function keyOf(factors: readonly Atom[]): string {
  let key = factors[0]?.key ?? '';
  for (let i = 1; i < factors.length; i++) key += `*${factors[i]?.key ?? ''}`;
  return key;
}

function hasQuotient(t: Term): boolean {
  for (const f of t.factors) if (f.kind === 'floordiv') return true;
  return false;
}

/** A constant added: the terms stay. */
function shifted(x: IndexExpr, by: number): IndexExpr {
  return by === 0 ? x : build(x.c + by, x.terms);
}

export function add(a: IndexLike, b: IndexLike): IndexExpr {
  const x = ix(a);
  const y = ix(b);
  if (y.terms.length === 0) return x.terms.length === 0 ? num(x.c + y.c) : shifted(x, y.c);
  if (x.terms.length === 0) return shifted(y, x.c);
  return sumOf(x.c + y.c, [...x.terms, ...y.terms]);
}

export function neg(a: IndexLike): IndexExpr {
  return mul(a, -1);
}

export function sub(a: IndexLike, b: IndexLike): IndexExpr {
  const x = ix(a);
  const y = ix(b);
  if (y.terms.length === 0) return x.terms.length === 0 ? num(x.c - y.c) : shifted(x, -y.c);
  const terms = [...x.terms];
  for (const t of y.terms) terms.push(times(t, -1));
  return x.terms.length === 0 ? build(x.c - y.c, terms) : sumOf(x.c - y.c, terms);
}

export function mul(a: IndexLike, b: IndexLike): IndexExpr {
  const x = ix(a);
  const y = ix(b);
  if (y.terms.length === 0) return x.terms.length === 0 ? num(x.c * y.c) : scale(x, y.c);
  if (x.terms.length === 0) return scale(y, x.c);
  const out: Term[] = [];
  for (const t of x.terms) {
    for (const u of y.terms) {
      const factors = [...t.factors, ...u.factors];
      if (factors.length > 1) factors.sort((p, q) => (p.key < q.key ? -1 : p.key > q.key ? 1 : 0));
      out.push({ coef: t.coef * u.coef, factors, key: keyOf(factors) });
    }
    if (y.c !== 0) out.push(times(t, y.c));
  }
  if (x.c !== 0) for (const u of y.terms) out.push(times(u, x.c));
  return sumOf(x.c * y.c, out);
}

function times(t: Term, k: number): Term {
  return k === 1 ? t : { coef: t.coef * k, factors: t.factors, key: t.key };
}

function scale(x: IndexExpr, k: number): IndexExpr {
  if (k === 0) return num(0);
  if (k === 1) return x;
  return build(
    x.c * k,
    x.terms.map((t) => times(t, k)),
  );
}

/** The product of dims; 1 for none. */
export function product(dims: readonly IndexLike[]): IndexExpr {
  let p = num(1);
  for (const d of dims) p = mul(p, d);
  return p;
}

// ---------------------------------------------------------------------------------------------
// Ranges

/** Values for symbolic sizes: bounds are then those of the expression with the sizes bound. */
export class SizeValues {
  /** Sizes come as quotients of quotients (one for each pooling), in every index of a kernel. */
  private readonly known = new Map<Atom, number>();

  constructor(readonly dims: ReadonlyMap<string, number>) {}

  /** Of an expression without loop variables; NaN where a size has no value. */
  of(e: IndexExpr): number {
    return e.terms.length === 0 ? e.c : evaluate(e, () => undefined, this);
  }

  /** Of an atom that is made of sizes alone. */
  ofAtom(a: Atom): number {
    if (a.kind === 'sym') return this.dims.get(a.name) ?? NaN;
    let v = this.known.get(a);
    if (v === undefined) {
      v = evalAtom(a, (name) => this.dims.get(name));
      this.known.set(a, v);
    }
    return v;
  }
}

function lower(a: Atom, sizes: SizeValues | undefined): number {
  if (!sizes) return a.low;
  const value = a.sized ? sizes.ofAtom(a) : NaN;
  if (!Number.isNaN(value)) return value;
  switch (a.kind) {
    case 'var':
    case 'sym':
    case 'dyn':
    case 'mod':
      return a.low;
    case 'floordiv':
      return quotientLower(a.a, a.b, sizes);
    case 'min':
      return Math.min(lowerBound(a.a, sizes), lowerBound(a.b, sizes));
    case 'max':
      return Math.max(lowerBound(a.a, sizes), lowerBound(a.b, sizes));
  }
}

function upper(a: Atom, sizes: SizeValues | undefined): number {
  if (!sizes) return a.high;
  const value = a.sized ? sizes.ofAtom(a) : NaN;
  if (!Number.isNaN(value)) return value;
  switch (a.kind) {
    case 'var':
    case 'dyn':
      return upperBound(a.extent, sizes) - 1;
    case 'sym':
      return a.high;
    case 'mod':
      return remainderUpper(a.a, a.b, sizes);
    case 'floordiv':
      return quotientUpper(a.a, a.b, sizes);
    case 'min':
      return Math.min(upperBound(a.a, sizes), upperBound(a.b, sizes));
    case 'max':
      return Math.max(upperBound(a.a, sizes), upperBound(a.b, sizes));
  }
}

function quotientLower(a: IndexExpr, b: IndexExpr, sizes?: SizeValues): number {
  const l = lowerBound(a, sizes);
  // A negative number over a larger divisor is closer to zero.
  const d = l >= 0 ? upperBound(b, sizes) : lowerBound(b, sizes);
  return d > 0 ? Math.floor(l / d) : l;
}

function quotientUpper(a: IndexExpr, b: IndexExpr, sizes?: SizeValues): number {
  const u = upperBound(a, sizes);
  const d = u >= 0 ? lowerBound(b, sizes) : upperBound(b, sizes);
  return d > 0 ? (d === Infinity ? -1 : Math.floor(u / d)) : u;
}

function remainderUpper(a: IndexExpr, b: IndexExpr, sizes?: SizeValues): number {
  const u = upperBound(b, sizes) - 1;
  return lowerBound(a, sizes) >= 0 ? Math.min(u, upperBound(a, sizes)) : u;
}

/** A product with 0 * Infinity = 0, which is right for bounds. */
function bounded(a: number, b: number): number {
  return a === 0 || b === 0 ? 0 : a * b;
}

/** The least (or greatest) value of a term. */
function termBound(t: Term, most: boolean, sizes?: SizeValues): number {
  const first = t.factors[0];
  if (first && t.factors.length === 1) {
    const up = t.coef >= 0 ? most : !most;
    return bounded(t.coef, up ? upper(first, sizes) : lower(first, sizes));
  }
  let lo = 1;
  let hi = 1;
  for (const f of t.factors) {
    const l = lower(f, sizes);
    const h = upper(f, sizes);
    const a = bounded(lo, l);
    const b = bounded(lo, h);
    const c = bounded(hi, l);
    const d = bounded(hi, h);
    lo = Math.min(a, b, c, d);
    hi = Math.max(a, b, c, d);
  }
  return bounded(t.coef, t.coef >= 0 === most ? hi : lo);
}

/** The greatest number known to be at most the expression; -Infinity when none is. */
export function lowerBound(e: IndexExpr, sizes?: SizeValues): number {
  let s = e.c;
  for (const t of e.terms) s += termBound(t, false, sizes);
  return s;
}

/** The least number known to be at least the expression; Infinity when none is. */
export function upperBound(e: IndexExpr, sizes?: SizeValues): number {
  let s = e.c;
  for (const t of e.terms) s += termBound(t, true, sizes);
  return s;
}

/** A symbolic upper bound: loop variables replaced by their last value; undefined when unknown. */
function symbolicUpper(e: IndexExpr): IndexExpr | undefined {
  let s: IndexExpr = num(e.c);
  for (const t of e.terms) {
    let p: IndexExpr = num(t.coef);
    for (const f of t.factors) {
      if (f.kind === 'sym') p = mul(p, fromAtom(f));
      else if (f.low < 0) return undefined;
      else if (t.coef < 0) p = mul(p, f.low);
      else if (f.kind === 'var' || f.kind === 'dyn') p = mul(p, sub(f.extent, 1));
      else if (f.kind === 'mod') p = mul(p, sub(f.b, 1));
      else {
        const u = f.high;
        if (!Number.isFinite(u)) {
          // floor(x / b) with x <= q*b - 1 is at most q - 1
          if (f.kind !== 'floordiv') return undefined;
          const ua = symbolicUpper(f.a);
          const q = ua && exactDiv(add(ua, 1), f.b);
          if (!q) return undefined;
          p = mul(p, sub(q, 1));
        } else p = mul(p, u);
      }
    }
    s = add(s, p);
  }
  return s;
}

/** True only when `a <= b` holds for every value of the variables and sizes. */
export function provablyLe(a: IndexLike, b: IndexLike): boolean {
  const x = ix(a);
  const y = ix(b);
  if (x.terms.length === 0) return lowerBound(y) >= x.c;
  const most = upperBound(x);
  if (most <= (y.terms.length === 0 ? y.c : lowerBound(y))) return true;
  if (y.terms.length > 0 && lowerBound(sub(y, x)) >= 0) return true;
  // A finite bound has no sizes in it that could cancel.
  if (y.terms.length === 0 && most < Infinity) return false;
  const ua = symbolicUpper(x);
  if (ua !== undefined && lowerBound(sub(y, ua)) >= 0) return true;
  const least = withoutQuotients(sub(y, ua ?? x));
  return least !== undefined && lowerBound(least) >= 0;
}

/**
 * A symbolic lower bound that has no quotients by numbers, whose multiples are nearly what was divided:
 * `a - b + 1 <= b * floor(a / b) <= a`. Undefined where there are none.
 */
function withoutQuotients(e: IndexExpr): IndexExpr | undefined {
  let found = false;
  let s: IndexExpr = num(e.c);
  for (const t of e.terms) {
    const [f] = t.factors;
    const b = f?.kind === 'floordiv' && t.factors.length === 1 ? constOf(f.b) : undefined;
    if (f?.kind !== 'floordiv' || b === undefined || b <= 0 || t.coef % b !== 0) {
      s = add(s, build(0, [t]));
      continue;
    }
    found = true;
    s = add(s, mul(t.coef > 0 ? sub(f.a, b - 1) : f.a, t.coef / b));
  }
  return found ? s : undefined;
}

export function provablyNonNegative(e: IndexExpr): boolean {
  return lowerBound(e) >= 0;
}

// ---------------------------------------------------------------------------------------------
// Division

function divAtom(a: IndexExpr, b: IndexExpr): Atom {
  const [low, high] = [quotientLower(a, b), quotientUpper(a, b)];
  const sized = ofSizes(a) && ofSizes(b);
  return { kind: 'floordiv', a, b, key: `(${a.key} // ${b.key})`, low, high, sized };
}

/** `t / b` for a b with terms that is a monomial and divides the term. */
function divideTerm(t: Term, b: IndexExpr): Term | number | undefined {
  const bt = b.terms[0];
  if (!bt || b.terms.length > 1 || b.c !== 0 || t.coef % bt.coef !== 0) return undefined;
  const left = [...t.factors];
  for (const f of bt.factors) {
    const i = left.findIndex((g) => g.key === f.key);
    if (i < 0) return undefined;
    left.splice(i, 1);
  }
  const coef = t.coef / bt.coef;
  return left.length === 0 ? coef : { coef, factors: left, key: keyOf(left) };
}

/** `a / b` when b divides a without remainder, as polynomials. */
export function exactDiv(a: IndexLike, b: IndexLike): IndexExpr | undefined {
  const x = ix(a);
  const y = ix(b);
  if (y.terms.length === 0) {
    const d = y.c;
    if (d === 1) return x;
    if (d === 0) return undefined;
    if (x.c % d !== 0) return undefined;
    for (const t of x.terms) if (t.coef % d !== 0) return undefined;
    return x.terms.length === 0 ? num(x.c / d) : divided(x, d);
  }
  if (isConst(x, 0)) return x;
  if (x.key === y.key) return num(1);
  if (x.c !== 0 || y.terms.length > 1 || y.c !== 0) return undefined;
  const { c, terms, rest } = quotient(x, y);
  return rest.length === 0 ? sumOf(c, terms) : undefined;
}

/** All coefficients over a number that divides them. */
function divided(x: IndexExpr, d: number): IndexExpr {
  return build(
    x.c / d,
    x.terms.map((t) => ({ coef: t.coef / d, factors: t.factors, key: t.key })),
  );
}

/** The terms of `a` that `b`, which has terms itself, divides, and those that it doesn't. */
function quotient(a: IndexExpr, b: IndexExpr): { c: number; terms: Term[]; rest: Term[] } {
  let c = 0;
  const terms: Term[] = [];
  const rest: Term[] = [];
  for (const t of a.terms) {
    const p = divideTerm(t, b);
    if (p === undefined) rest.push(t);
    else if (typeof p === 'number') c += p;
    else terms.push(p);
  }
  return { c, terms, rest };
}

/** Splits `a` into `q*b + rest`, with every term that b divides in q. */
function splitBy(a: IndexExpr, b: IndexExpr): { q: IndexExpr; rest: IndexExpr } {
  if (b.terms.length > 0) {
    const { c, terms, rest } = quotient(a, b);
    if (rest.length === a.terms.length) return { q: num(0), rest: a };
    return { q: sumOf(c, terms), rest: build(a.c, rest) };
  }
  const d = b.c;
  if (d === 0) return { q: num(0), rest: a };
  let rest: Term[] | undefined;
  const q: Term[] = [];
  for (const t of a.terms) {
    if (t.coef % d === 0) q.push({ coef: t.coef / d, factors: t.factors, key: t.key });
    else (rest ??= []).push(t);
  }
  const k = d > 0 ? Math.floor(a.c / d) : 0;
  if (q.length === 0 && k === 0) return { q: num(0), rest: a };
  const c = a.c - k * d;
  return { q: recombine(k, q), rest: rest ? build(c, rest) : num(c) };
}

function gcd(a: number, b: number): number {
  while (b !== 0) [a, b] = [b, a % b];
  return Math.abs(a);
}

/**
 * For a constant divisor d: the largest g > 1 that divides d and all of some terms of `e`, while
 * what is left lies in [0, g): then e // d = (e / g) // (d / g).
 */
function commonGranule(
  e: IndexExpr,
  d: number,
): { g: number; high: IndexExpr; low: IndexExpr } | undefined {
  const candidates = new Set<number>();
  for (const t of e.terms) {
    const g = gcd(Math.abs(t.coef), d);
    if (g > 1 && g < d) candidates.add(g);
  }
  for (const g of [...candidates].sort((x, y) => y - x)) {
    const { q, rest } = splitBy(e, num(g));
    if (q.terms.length === 0) continue;
    if (provablyNonNegative(rest) && provablyLe(rest, g - 1)) return { g, high: q, low: rest };
  }
  return undefined;
}

/** floor(a / b), for b > 0. */
export function floorDiv(a: IndexLike, b: IndexLike): IndexExpr {
  const x = ix(a);
  const y = ix(b);
  const xc = constOf(x);
  const yc = constOf(y);
  if (yc === 1) return x;
  if (xc !== undefined && yc !== undefined && yc !== 0) return num(Math.floor(xc / yc));
  if (xc === 0) return x;
  const exact = exactDiv(x, y);
  if (exact) return exact;
  const { q, rest } = splitBy(x, y);
  if (provablyNonNegative(rest) && provablyLe(rest, sub(y, 1))) return q;
  if (!isConst(q, 0)) return add(q, floorDiv(rest, y));
  if (yc !== undefined) {
    const one = rest.c === 0 && rest.terms.length === 1 ? rest.terms[0] : undefined;
    const inner = one?.coef === 1 && one.factors.length === 1 ? one.factors[0] : undefined;
    if (inner?.kind === 'floordiv') {
      const d = constOf(inner.b);
      if (d !== undefined) return floorDiv(inner.a, d * yc);
    }
    const granule = commonGranule(rest, yc);
    if (granule) return floorDiv(granule.high, yc / granule.g);
  }
  return fromAtom(divAtom(rest, y));
}

/** The non-negative remainder of a by b, for b > 0. */
export function mod(a: IndexLike, b: IndexLike): IndexExpr {
  const x = ix(a);
  const y = ix(b);
  const xc = constOf(x);
  const yc = constOf(y);
  if (yc === 1) return num(0);
  if (xc !== undefined && yc !== undefined && yc !== 0) return num(((xc % yc) + yc) % yc);
  const { rest } = splitBy(x, y);
  if (isConst(rest, 0)) return rest;
  if (provablyNonNegative(rest) && provablyLe(rest, sub(y, 1))) return rest;
  if (yc !== undefined) {
    const one = rest.c === 0 && rest.terms.length === 1 ? rest.terms[0] : undefined;
    const inner = one?.coef === 1 && one.factors.length === 1 ? one.factors[0] : undefined;
    if (inner?.kind === 'mod') {
      const d = constOf(inner.b);
      if (d !== undefined && d % yc === 0) return mod(inner.a, yc);
    }
    const granule = commonGranule(rest, yc);
    if (granule) return add(mul(mod(granule.high, yc / granule.g), granule.g), granule.low);
  }
  const [key, high] = [`(${rest.key} % ${y.key})`, remainderUpper(rest, y)];
  const sized = ofSizes(rest) && ofSizes(y);
  return fromAtom({ kind: 'mod', a: rest, b: y, quotient: undefined, key, low: 0, high, sized });
}

/** ceil(a / b), for b > 0. */
export function ceilDiv(a: IndexLike, b: IndexLike): IndexExpr {
  return floorDiv(add(a, sub(b, 1)), b);
}

export function min(a: IndexLike, b: IndexLike): IndexExpr {
  return extremum('min', a, b);
}

export function max(a: IndexLike, b: IndexLike): IndexExpr {
  return extremum('max', a, b);
}

function extremum(kind: 'min' | 'max', a: IndexLike, b: IndexLike): IndexExpr {
  const x = ix(a);
  const y = ix(b);
  if (provablyLe(x, y)) return kind === 'min' ? x : y;
  if (provablyLe(y, x)) return kind === 'min' ? y : x;
  const [p, q] = x.key < y.key ? [x, y] : [y, x];
  const take = kind === 'min' ? Math.min : Math.max;
  return fromAtom({
    ...{ kind, a: p, b: q, key: `${kind}(${p.key}, ${q.key})` },
    low: take(lowerBound(p), lowerBound(q)),
    high: take(upperBound(p), upperBound(q)),
    sized: ofSizes(p) && ofSizes(q),
  });
}

// ---------------------------------------------------------------------------------------------
// Rewriting and evaluation

/** How {@link mapAtoms} rewrites a leaf; undefined keeps it. `dyn` leaves are asked too. */
export type LeafRewrite = (atom: Atom) => IndexExpr | undefined;

/** Rebuilds the expression with leaves (var, sym, dyn) replaced, simplifying on the way. */
export function rewrite(e: IndexExpr, leaf: LeafRewrite): IndexExpr {
  if (e.terms.length === 0) return e;
  let changed = false;
  let c = e.c;
  const out: Term[] = [];
  for (const t of e.terms) {
    let p: IndexExpr | undefined;
    let same = true;
    for (const f of t.factors) {
      // Keys don't tell what has changed: a variable may be given another extent under its old name.
      const r = rewriteAtom(f, leaf);
      if (r) same = false;
      const x = r ?? fromAtom(f);
      p = p ? mul(p, x) : x;
    }
    if (same || !p) {
      out.push(t);
      continue;
    }
    changed = true;
    c += t.coef * p.c;
    for (const u of p.terms) out.push(times(u, t.coef));
  }
  return changed ? sumOf(c, out) : e;
}

/** What an atom becomes; undefined when nothing in it changes. */
function rewriteAtom(a: Atom, leaf: LeafRewrite): IndexExpr | undefined {
  switch (a.kind) {
    case 'var':
    case 'sym':
    case 'dyn':
      return leaf(a);
    case 'floordiv':
    case 'mod':
    case 'min':
    case 'max': {
      const x = rewrite(a.a, leaf);
      const y = rewrite(a.b, leaf);
      if (x === a.a && y === a.b) return undefined;
      if (a.kind === 'floordiv') return floorDiv(x, y);
      return a.kind === 'mod' ? mod(x, y) : extremum(a.kind, x, y);
    }
  }
}

/** Visits every atom, outer before inner; `dyn` expressions are not entered. */
export function visitAtoms(e: IndexExpr, visit: (a: Atom) => void): void {
  for (const t of e.terms) {
    for (const f of t.factors) {
      visit(f);
      if (f.kind === 'floordiv' || f.kind === 'mod' || f.kind === 'min' || f.kind === 'max') {
        visitAtoms(f.a, visit);
        visitAtoms(f.b, visit);
      }
    }
  }
}

/** The names of the symbolic sizes in the expression, sorted. */
export function symbolsOf(e: IndexExpr): string[] {
  const names = new Set<string>();
  visitAtoms(e, (a) => {
    if (a.kind === 'sym') names.add(a.name);
  });
  return [...names].sort();
}

/**
 * The value with every loop variable and size bound; NaN where a name is missing or `dyn` occurs.
 * With `sizes`, `bind` is asked for loop variables only. `known` keeps what atoms come to under one
 * `bind`, for expressions that have them in common.
 */
export function evaluate(
  e: IndexExpr,
  bind: Bind,
  sizes?: SizeValues,
  known?: Map<Atom, number>,
): number {
  let s = e.c;
  for (const t of e.terms) {
    let p = t.coef;
    for (const f of t.factors) p *= evalAtom(f, bind, sizes, known);
    s += p;
  }
  return s;
}

type Bind = (name: string) => number | undefined;

function evalAtom(f: Atom, bind: Bind, sizes?: SizeValues, known?: Map<Atom, number>): number {
  if (sizes && f.sized) return sizes.ofAtom(f);
  switch (f.kind) {
    case 'var':
    case 'sym':
      return bind(f.name) ?? NaN;
    case 'dyn':
      return NaN;
    case 'floordiv':
    case 'mod':
    case 'min':
    case 'max': {
      const before = known?.get(f);
      if (before !== undefined) return before;
      const a = evaluate(f.a, bind, sizes, known);
      const value = combined(f.kind, a, evaluate(f.b, bind, sizes, known));
      known?.set(f, value);
      return value;
    }
  }
}

function combined(kind: 'floordiv' | 'mod' | 'min' | 'max', a: number, b: number): number {
  switch (kind) {
    case 'floordiv':
      return Math.floor(a / b);
    case 'mod': {
      const r = a % b;
      return r < 0 ? r + b : r;
    }
    case 'min':
      return Math.min(a, b);
    case 'max':
      return Math.max(a, b);
  }
}

/** Row-major linear index of `index` in a tensor of shape `shape`. */
export function linearise(index: readonly IndexExpr[], shape: readonly Dim[]): IndexExpr {
  const n = shape.length;
  if (n === 1) return index[0] ?? num(0);
  const out: Term[] = [];
  let c = 0;
  let stride: IndexExpr = num(1);
  for (let i = n - 1; i >= 0; i--) {
    const x = index[i] ?? num(0);
    if (stride.terms.length === 0) {
      c += x.c * stride.c;
      for (const t of x.terms) out.push(times(t, stride.c));
    } else {
      const p = mul(x, stride);
      c += p.c;
      out.push(...p.terms);
    }
    if (i > 0) stride = mul(stride, shape[i] ?? 1);
  }
  return sumOf(c, out);
}

/** The inverse of {@link linearise}: the index along each dim, for lin in [0, product(shape)). */
export function delinearise(lin: IndexExpr, shape: readonly Dim[]): IndexExpr[] {
  const out: IndexExpr[] = new Array<IndexExpr>(shape.length);
  let rest = lin;
  for (let i = shape.length - 1; i >= 0; i--) {
    const d = shape[i] ?? num(1);
    if (i === 0) out[i] = isConst(d, 1) ? num(0) : rest;
    else {
      out[i] = mod(rest, d);
      rest = floorDiv(rest, d);
    }
  }
  return out;
}

/** How a dim is shown to people: a number or an expression over symbolic names. */
export function printIndex(e: IndexExpr): string {
  if (e.terms.length === 0) return String(e.c);
  const s = e.key.replace(/\$/g, '');
  return s.startsWith('(') && s.endsWith(')') && balanced(s) ? s.slice(1, -1) : s;
}

function balanced(s: string): boolean {
  let depth = 0;
  for (let i = 0; i < s.length; i++) {
    if (s[i] === '(') depth++;
    else if (s[i] === ')' && --depth === 0) return i === s.length - 1;
  }
  return false;
}

export function printShape(shape: readonly Dim[]): string {
  return `[${shape.map(printIndex).join(', ')}]`;
}
