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

export type Atom =
  | {
      readonly kind: 'var';
      readonly name: string;
      readonly extent: IndexExpr;
      readonly key: string;
    }
  | { readonly kind: 'sym'; readonly name: string; readonly key: string }
  | {
      readonly kind: 'floordiv' | 'mod';
      readonly a: IndexExpr;
      readonly b: IndexExpr;
      readonly key: string;
    }
  | {
      readonly kind: 'min' | 'max';
      readonly a: IndexExpr;
      readonly b: IndexExpr;
      readonly key: string;
    }
  /** An integer read at run time, promised to lie in [0, extent). */
  | { readonly kind: 'dyn'; readonly expr: Expr; readonly extent: IndexExpr; readonly key: string };

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

function fromAtom(atom: Atom): IndexExpr {
  return { c: 0, terms: [{ coef: 1, factors: [atom], key: atom.key }], key: atom.key };
}

/** A loop variable ranging over [0, extent). Its name is its identity within one compute or kernel. */
export function loopVar(name: string, extent: IndexLike): IndexExpr {
  return fromAtom({ kind: 'var', name, extent: ix(extent), key: name });
}

/** A symbolic size (at least 1). */
export function sym(name: string): IndexExpr {
  return fromAtom({ kind: 'sym', name, key: `$${name}` });
}

/** An integer known only at run time, in [0, extent); `key` must identify the expression. */
export function dyn(expr: Expr, extent: IndexLike, exprKey: string): IndexExpr {
  return fromAtom({ kind: 'dyn', expr, extent: ix(extent), key: `dyn(${exprKey})` });
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

function termKey(coef: number, fkey: string): string {
  return coef === 1 ? fkey : `${coef}*${fkey}`;
}

function build(c: number, terms: Term[]): IndexExpr {
  if (terms.length === 0) return num(c);
  let key = '';
  for (const t of terms) key += (key ? ' + ' : '') + termKey(t.coef, t.key);
  if (c !== 0) key += ` + ${c}`;
  return { c, terms, key: terms.length === 1 && c === 0 ? key : `(${key})` };
}

/** Merges terms by their factors, drops zeros, recombines `b*(x floordiv b) + (x mod b)` into `x`. */
function normalise(c: number, all: readonly Term[]): IndexExpr {
  const byKey = new Map<string, Term>();
  for (const t of all) {
    const old = byKey.get(t.key);
    byKey.set(t.key, old ? { coef: old.coef + t.coef, factors: t.factors, key: t.key } : t);
  }
  const terms = [...byKey.values()].filter((t) => t.coef !== 0);
  if (terms.length > 1) {
    for (const t of terms) {
      const m = t.factors.length === 1 ? t.factors[0] : undefined;
      if (m?.kind !== 'mod') continue;
      const partner = mul(mul(t.coef, m.b), fromAtom(divAtom(m.a, m.b)));
      const p = partner.terms[0];
      if (partner.terms.length !== 1 || partner.c !== 0 || !p) continue;
      const q = terms.find((u) => u.key === p.key && u.coef === p.coef);
      if (!q) continue;
      const rest = terms.filter((u) => u !== t && u !== q);
      return add(normalise(c, rest), mul(t.coef, m.a));
    }
    terms.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
  }
  return build(c, terms);
}

export function add(a: IndexLike, b: IndexLike): IndexExpr {
  const x = ix(a);
  const y = ix(b);
  if (x.terms.length === 0) {
    if (y.terms.length === 0) return num(x.c + y.c);
    if (x.c === 0) return y;
    return build(x.c + y.c, [...y.terms]);
  }
  if (y.terms.length === 0) return y.c === 0 ? x : build(x.c + y.c, [...x.terms]);
  return normalise(x.c + y.c, [...x.terms, ...y.terms]);
}

export function neg(a: IndexLike): IndexExpr {
  return mul(a, -1);
}

export function sub(a: IndexLike, b: IndexLike): IndexExpr {
  return add(a, neg(b));
}

export function mul(a: IndexLike, b: IndexLike): IndexExpr {
  const x = ix(a);
  const y = ix(b);
  if (x.terms.length === 0 && y.terms.length === 0) return num(x.c * y.c);
  if (y.terms.length === 0) return scale(x, y.c);
  if (x.terms.length === 0) return scale(y, x.c);
  const out: Term[] = [];
  for (const t of x.terms) {
    for (const u of y.terms) {
      const factors = [...t.factors, ...u.factors].sort((p, q) =>
        p.key < q.key ? -1 : p.key > q.key ? 1 : 0,
      );
      out.push({ coef: t.coef * u.coef, factors, key: factors.map((f) => f.key).join('*') });
    }
    if (y.c !== 0) out.push({ ...t, coef: t.coef * y.c });
  }
  if (x.c !== 0) for (const u of y.terms) out.push({ ...u, coef: u.coef * x.c });
  return normalise(x.c * y.c, out);
}

function scale(x: IndexExpr, k: number): IndexExpr {
  if (k === 0) return num(0);
  if (k === 1) return x;
  return build(
    x.c * k,
    x.terms.map((t) => ({ ...t, coef: t.coef * k })),
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

function atomLower(a: Atom): number {
  switch (a.kind) {
    case 'var':
    case 'dyn':
      return 0;
    case 'sym':
      return 1;
    case 'mod':
      return 0;
    case 'floordiv': {
      const d = constOf(a.b);
      const l = lowerBound(a.a);
      if (l >= 0) return d !== undefined && d > 0 ? Math.floor(l / d) : 0;
      return d !== undefined && d > 0 ? Math.floor(l / d) : l;
    }
    case 'min':
      return Math.min(lowerBound(a.a), lowerBound(a.b));
    case 'max':
      return Math.max(lowerBound(a.a), lowerBound(a.b));
  }
}

function atomUpper(a: Atom): number {
  switch (a.kind) {
    case 'var':
    case 'dyn':
      return upperBound(a.extent) - 1;
    case 'sym':
      return Infinity;
    case 'mod':
      return Math.min(upperBound(a.b) - 1, lowerBound(a.a) >= 0 ? upperBound(a.a) : Infinity);
    case 'floordiv': {
      const u = upperBound(a.a);
      const d = lowerBound(a.b);
      return d > 0 && u >= 0 ? Math.floor(u / d) : u;
    }
    case 'min':
      return Math.min(upperBound(a.a), upperBound(a.b));
    case 'max':
      return Math.max(upperBound(a.a), upperBound(a.b));
  }
}

/** times() with 0 * Infinity = 0, which is right for bounds. */
function times(a: number, b: number): number {
  return a === 0 || b === 0 ? 0 : a * b;
}

function termRange(t: Term): [number, number] {
  let lo = 1;
  let hi = 1;
  for (const f of t.factors) {
    const fl = atomLower(f);
    const fh = atomUpper(f);
    const c = [times(lo, fl), times(lo, fh), times(hi, fl), times(hi, fh)];
    lo = Math.min(...c);
    hi = Math.max(...c);
  }
  return t.coef >= 0
    ? [times(t.coef, lo), times(t.coef, hi)]
    : [times(t.coef, hi), times(t.coef, lo)];
}

/** The greatest number known to be at most the expression; -Infinity when none is. */
export function lowerBound(e: IndexExpr): number {
  let s = e.c;
  for (const t of e.terms) s += termRange(t)[0];
  return s;
}

/** The least number known to be at least the expression; Infinity when none is. */
export function upperBound(e: IndexExpr): number {
  let s = e.c;
  for (const t of e.terms) s += termRange(t)[1];
  return s;
}

/** A symbolic upper bound: loop variables replaced by their last value; undefined when unknown. */
function symbolicUpper(e: IndexExpr): IndexExpr | undefined {
  let s: IndexExpr = num(e.c);
  for (const t of e.terms) {
    let p: IndexExpr = num(t.coef);
    for (const f of t.factors) {
      if (f.kind === 'sym') p = mul(p, fromAtom(f));
      else if (atomLower(f) < 0) return undefined;
      else if (t.coef < 0) p = mul(p, atomLower(f));
      else if (f.kind === 'var' || f.kind === 'dyn') p = mul(p, sub(f.extent, 1));
      else if (f.kind === 'mod') p = mul(p, sub(f.b, 1));
      else {
        const u = atomUpper(f);
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
  const d = sub(b, a);
  if (lowerBound(d) >= 0) return true;
  const ua = symbolicUpper(ix(a));
  return ua !== undefined && lowerBound(sub(b, ua)) >= 0;
}

export function provablyNonNegative(e: IndexExpr): boolean {
  return lowerBound(e) >= 0;
}

// ---------------------------------------------------------------------------------------------
// Division

function divAtom(a: IndexExpr, b: IndexExpr): Atom {
  return { kind: 'floordiv', a, b, key: `(${a.key} // ${b.key})` };
}

/** `t / b` when b is a monomial that divides the term. */
function divideTerm(t: Term, b: IndexExpr): IndexExpr | undefined {
  const bt = b.terms[0];
  const bc = bt ? bt.coef : b.c;
  if (b.terms.length > 1 || (bt && b.c !== 0) || bc === 0 || t.coef % bc !== 0) return undefined;
  const left = [...t.factors];
  for (const f of bt ? bt.factors : []) {
    const i = left.findIndex((g) => g.key === f.key);
    if (i < 0) return undefined;
    left.splice(i, 1);
  }
  let p = num(t.coef / bc);
  for (const f of left) p = mul(p, fromAtom(f));
  return p;
}

/** `a / b` when b divides a without remainder, as polynomials. */
export function exactDiv(a: IndexLike, b: IndexLike): IndexExpr | undefined {
  const x = ix(a);
  const y = ix(b);
  if (isConst(y, 1)) return x;
  if (isConst(y, 0)) return undefined;
  if (isConst(x, 0)) return x;
  if (x.key === y.key) return num(1);
  if (y.terms.length + (y.c !== 0 ? 1 : 0) > 1) return undefined;
  const yc = constOf(y);
  let q = num(0);
  if (x.c !== 0) {
    if (yc === undefined || x.c % yc !== 0) return undefined;
    q = num(x.c / yc);
  }
  for (const t of x.terms) {
    const p = divideTerm(t, y);
    if (!p) return undefined;
    q = add(q, p);
  }
  return q;
}

/** Splits `a` into `q*b + rest`, with every term that b divides in q. */
function splitBy(a: IndexExpr, b: IndexExpr): { q: IndexExpr; rest: IndexExpr } {
  let q = num(0);
  const rest: Term[] = [];
  for (const t of a.terms) {
    const p = divideTerm(t, b);
    if (p) q = add(q, p);
    else rest.push(t);
  }
  let c = a.c;
  const bc = constOf(b);
  if (bc !== undefined && bc > 0 && c !== 0) {
    const k = Math.floor(c / bc);
    if (k !== 0) {
      q = add(q, k);
      c -= k * bc;
    }
  }
  return { q, rest: build(c, rest) };
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
  return fromAtom({ kind: 'mod', a: rest, b: y, key: `(${rest.key} % ${y.key})` });
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
  return fromAtom({ kind, a: p, b: q, key: `${kind}(${p.key}, ${q.key})` });
}

// ---------------------------------------------------------------------------------------------
// Rewriting and evaluation

/** How {@link mapAtoms} rewrites a leaf; undefined keeps it. `dyn` leaves are asked too. */
export type LeafRewrite = (atom: Atom) => IndexExpr | undefined;

/** Rebuilds the expression with leaves (var, sym, dyn) replaced, simplifying on the way. */
export function rewrite(e: IndexExpr, leaf: LeafRewrite): IndexExpr {
  if (e.terms.length === 0) return e;
  let changed = false;
  const memo = new Map<string, IndexExpr>();
  const atom = (a: Atom): IndexExpr => {
    const old = memo.get(a.key);
    if (old) return old;
    let r: IndexExpr;
    // Keys don't tell: a loop variable may be given another extent under its old name.
    switch (a.kind) {
      case 'var':
      case 'sym':
      case 'dyn': {
        const replaced = leaf(a);
        if (replaced) changed = true;
        r = replaced ?? fromAtom(a);
        break;
      }
      case 'floordiv':
      case 'mod':
      case 'min':
      case 'max': {
        const x = rewrite(a.a, leaf);
        const y = rewrite(a.b, leaf);
        if (x !== a.a || y !== a.b) changed = true;
        r =
          a.kind === 'floordiv'
            ? floorDiv(x, y)
            : a.kind === 'mod'
              ? mod(x, y)
              : extremum(a.kind, x, y);
        break;
      }
    }
    memo.set(a.key, r);
    return r;
  };
  let sum: IndexExpr = num(e.c);
  for (const t of e.terms) {
    let p: IndexExpr = num(t.coef);
    for (const f of t.factors) p = mul(p, atom(f));
    sum = add(sum, p);
  }
  return changed ? sum : e;
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

/** The value with every loop variable and size bound; NaN where a name is missing or `dyn` occurs. */
export function evaluate(e: IndexExpr, bind: (name: string) => number | undefined): number {
  let s = e.c;
  for (const t of e.terms) {
    let p = t.coef;
    for (const f of t.factors) p *= evalAtom(f, bind);
    s += p;
  }
  return s;
}

function evalAtom(f: Atom, bind: (name: string) => number | undefined): number {
  switch (f.kind) {
    case 'var':
    case 'sym':
      return bind(f.name) ?? NaN;
    case 'dyn':
      return NaN;
    case 'floordiv':
      return Math.floor(evaluate(f.a, bind) / evaluate(f.b, bind));
    case 'mod': {
      const b = evaluate(f.b, bind);
      const r = evaluate(f.a, bind) % b;
      return r < 0 ? r + b : r;
    }
    case 'min':
      return Math.min(evaluate(f.a, bind), evaluate(f.b, bind));
    case 'max':
      return Math.max(evaluate(f.a, bind), evaluate(f.b, bind));
  }
}

/** Row-major linear index of `index` in a tensor of shape `shape`. */
export function linearise(index: readonly IndexExpr[], shape: readonly Dim[]): IndexExpr {
  let lin = num(0);
  for (let i = 0; i < shape.length; i++) lin = add(mul(lin, shape[i] ?? 1), index[i] ?? 0);
  return lin;
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
