/**
 * Code of online reductions (see online.ts), whatever template walks along the row: what a piece of
 * the row adds to them, and how sums go over to another shift.
 *
 * Vocabulary: that of online.ts, and
 *  - *piece*: the positions that an invocation looks at between two shifts.
 *
 * A shift that isn't a finite number (no position so far that is let through by a mask) is not gone
 * by: what was summed relative to the last finite one is kept, and the correction at the end gives
 * what the shift makes of it, NaN where a row has no maximum.
 */
import type { Monoid } from '../ir/compute';
import { type Expr, printExpr } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import type { Accumulator } from './accumulators';
import type { Builder } from './builder';
import { all, binary, equal, exp, infinite, less, odd, select } from './expressions';
import type { KExpr } from './kernelIr';
import { type After, asKey, type Linear, type Streamed, type Weight } from './online';
import { convert, identity, ktype, lit, narrow, total } from './scalars';

export type Env = Map<string, IndexExpr>;

/** Positions of a piece: where each is, and whether it is within the row (undefined: it is). */
export interface Place {
  readonly env: Env;
  readonly inside: KExpr | undefined;
}

export class Piece<P extends Place = Place> {
  private readonly known = new Map<string, KExpr[]>();
  private readonly totals = new Map<readonly KExpr[], { monoid: string; total: KExpr }>();

  constructor(
    private readonly b: Builder,
    readonly places: readonly P[],
    /** What is kept elsewhere, by expression; all else is evaluated. */
    private readonly lookUp: (key: string, e: Expr, place: P) => KExpr | undefined = () =>
      undefined,
  ) {}

  /** The expression at each position. */
  values(e: Expr): KExpr[] {
    const { b, places } = this;
    const key = printExpr(e);
    const known = this.known.get(key);
    if (known) return known;
    const kept = places.flatMap((p) => this.lookUp(key, e, p) ?? []);
    const values =
      kept.length === places.length
        ? kept
        : b.exprMany(
            e,
            places.map((p) => p.env),
          );
    const named = values.map((x) => b.let('u', x));
    this.known.set(key, named);
    return named;
  }

  sums(l: Linear): KExpr[] {
    const key = asKey(l);
    const known = this.known.get(key);
    if (known) return known;
    const sums = this.addedUp(l);
    const named = l.terms.length > 1 ? sums.map((x) => this.b.let('u', x)) : sums;
    this.known.set(key, named);
    return named;
  }

  private addedUp(l: Linear): KExpr[] {
    const type = ktype(l.terms[0]?.e.dtype ?? 'f32');
    const out: (KExpr | undefined)[] = this.places.map(() => undefined);
    for (const t of l.terms) {
      this.values(t.e).forEach((x, i) => {
        const y = convert(x, type);
        const c = Math.abs(t.c);
        const scaled = c === 1 ? y : binary('mul', y, lit(c, type));
        const sum = out[i];
        if (sum) out[i] = binary(t.c < 0 ? 'sub' : 'add', sum, scaled);
        else
          out[i] =
            t.c < 0 ? { k: 'unary', fn: 'neg', a: scaled, type, depth: scaled.depth } : scaled;
      });
    }
    return out.map((x) => {
      const constant = lit(l.constant, type);
      if (!x) return constant;
      return l.constant === 0 ? x : binary('add', x, constant);
    });
  }

  /** What is accumulated at each position, given the weights there. */
  products(p: ProductExpr, none: KExpr, weights?: readonly KExpr[]): KExpr[] {
    const fs = p.factors.map((e) => this.values(e));
    const ds = p.divisors.map((e) => this.values(e));
    const cs = p.conds.map((e) => this.values(e));
    return this.places.map((_, i) =>
      product(
        [...(weights?.[i] ? [weights[i]] : []), ...fs.flatMap((f) => f[i] ?? [])],
        ds.flatMap((d) => d[i] ?? []),
        cs.flatMap((c) => c[i] ?? []),
        none,
      ),
    );
  }

  /** What a reduction without weight takes in. */
  elements(s: Streamed, none: KExpr): KExpr[] {
    return s.element ? this.sums(s.element) : this.products(s, none);
  }

  /** The values taken together; positions beyond the row count as the identity. */
  total(monoid: Monoid, values: readonly KExpr[]): KExpr {
    const known = this.totals.get(values);
    if (known?.monoid === monoid.kind) return known.total;
    const all = total(
      monoid,
      values.map((x, i) => {
        const inside = this.places[i]?.inside;
        return inside ? select(inside, x, identity(monoid, x.type)) : x;
      }),
    );
    const named = this.b.let('all', all);
    this.totals.set(values, { monoid: monoid.kind, total: named });
    return named;
  }

  add(acc: Accumulator, monoid: Monoid, values: readonly KExpr[]): void {
    const { type } = acc.value;
    const typed = values.every((x) => x.type === type)
      ? values
      : values.map((x) => convert(x, type));
    add(this.b, acc, monoid, this.total(monoid, typed));
  }

  /** exp(exponent + shift) at each position. */
  weights(w: Weight, shift: KExpr): KExpr[] {
    return this.sums(w.exponent).map((u) =>
      this.b.let('w', exp(binary('add', convert(u, 'f32'), shift))),
    );
  }
}

/** Factors and divisors, of elements where all conditions hold. */
export interface ProductExpr {
  readonly factors: readonly Expr[];
  readonly divisors: readonly Expr[];
  readonly conds: readonly Expr[];
}

export function product(
  factors: readonly KExpr[],
  divisors: readonly KExpr[],
  conds: readonly KExpr[],
  none: KExpr,
): KExpr {
  let x: KExpr | undefined;
  for (const f of factors) {
    const y = convert(f, none.type);
    x = x ? binary('mul', x, y) : y;
  }
  x ??= lit(1, none.type);
  for (const d of divisors) x = binary('div', x, convert(d, none.type));
  return conds.length > 0 ? select(all(conds), x, none) : x;
}

export function add(b: Builder, acc: Accumulator, monoid: Monoid, x: KExpr): void {
  b.accumulate(acc, monoid, convert(x, acc.value.type), () => lit(0, 'i32'));
}

/** The weights as the reduction takes them. */
export function roundedFor(b: Builder, s: Streamed, weights: readonly KExpr[]): readonly KExpr[] {
  const { rounded } = s;
  return rounded ? weights.map((w) => b.let('w', narrow(w, 'f32', rounded))) : weights;
}

/** Where the shift that sums are relative to stands: infinite before the first. */
export function shiftVariable(b: Builder): KExpr {
  return b.variable('shift', 'f32', lit(Infinity, 'f32'));
}

/** Goes over to the shift of now; gives what sums are multiplied by, and what exponents are shifted by. */
export function rescale(
  b: Builder,
  w: Weight,
  at: KExpr,
  env: Env,
): { readonly factor: KExpr; readonly shift: KExpr } {
  const now = b.let('now', convert(b.expr(w.shift, env), 'f32'));
  const next = b.let('next', select(odd(now), at, now));
  const factor = b.let(
    'factor',
    select(equal(next, at), lit(1, 'f32'), exp(binary('sub', next, at))),
  );
  b.set(at, next);
  return { factor, shift: b.let('by', select(infinite(next), lit(0, 'f32'), next)) };
}

/** What sums relative to the shift in `at` are multiplied by when the references are complete. */
export function correction(b: Builder, w: Weight, at: KExpr, env: Env, length: IndexExpr): KExpr {
  const last = b.let('last', convert(b.expr(w.last, env), 'f32'));
  const own = b.frozen('own', at);
  const never = all([odd(last), infinite(own)]);
  const by = select(never, lit(0, 'f32'), own);
  const one = lit(1, 'f32');
  const factor = select(equal(last, by), one, exp(binary('sub', last, by)));
  if (I.lowerBound(length) >= 1) return b.let('correction', factor);
  // Nothing was summed: there is nothing to correct.
  const some = less(lit(0, 'i32'), b.index(length));
  return b.let('correction', select(some, factor, one));
}

export function afterwards(b: Builder, x: KExpr, after: readonly After[], env: Env): KExpr {
  let y = x;
  for (const a of after) {
    if (a.op === 'keep') y = select(b.expr(a.cond, env), y, lit(0, y.type));
    else y = binary(a.op, y, convert(b.expr(a.e, env), y.type));
  }
  return y;
}
