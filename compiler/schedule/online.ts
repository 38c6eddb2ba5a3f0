/**
 * Online reductions: which reductions over one dim can be done in one pass over it, though some need
 * the results of others.
 *
 * Vocabulary
 *  - *position*: a point of the dim (or dims, taken as one) that is reduced over, the variable `s`.
 *  - *streamed* reduction: one over the positions. *Running*: its value over the positions so far.
 *  - *reference*: a streamed maximum (or minimum) that exponentials are taken relative to.
 *  - *weight*: exp(u + v) with `u`, the *exponent*, of the position, and `v`, the *shift*, of
 *    references alone. When they grow and the shift goes from v to v', what was summed so far is
 *    rescaled by exp(v' - v).
 *  - *afterwards*: factors that are the same at all positions; they come out of the sum.
 *  - *spread*: a sum of squared distances of a position's number from something of the row.
 *
 * The rules are algebra, not names. Distributivity: Σ q·p_k = q·Σ p_k where q is of the row
 * alone, so a q made of streamed results may come when they are complete. And exp(u + v) is
 * exp(u)·exp(v), where v, though of the row alone, must not wait, or exp(u) would overflow: it is
 * taken at its running value and corrected. A shift may be corrected in this way when the exponent is
 * provably at most (nearly) 0 at every position already seen: each reference is a maximum of the very
 * thing it is subtracted from. A softmax, its product with values, logarithms of such sums and
 * divisions by them are all made of these.
 *
 * For norms there is a third. Σ (u + v)² with v of the row is Σ (u - m)² + n·(m + v)², m the mean of
 * the n numbers u; and of two shares of a row that have their own, the whole is their sum and the
 * square of how far their means are apart, times a·b / (a + b) for shares of a and b numbers (Chan,
 * Golub and LeVeque, 1979). No term is negative, so nothing cancels, however large u is beside its
 * spread. The mean is that of a sum of the same u, which must be streamed as well: it costs nothing.
 */
import type { DType } from '../graph/dtype';
import type { Compute } from '../ir/compute';
import {
  binary,
  constant,
  type Expr,
  printExpr,
  rewriteExpr,
  unary,
  type ValueId,
  visitExpr,
} from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import { type GroupSpec, visitLoads } from './group';
import type { Placed, Placement } from './placement';

/** The variable of the positions. */
export const POSITION = 's';

/** `c` times an expression. */
export interface Term {
  readonly c: number;
  readonly e: Expr;
}

/** A sum of terms and a constant. */
export interface Linear {
  readonly terms: readonly Term[];
  readonly constant: number;
}

export interface Weight {
  /** Equal for equal weights. */
  readonly key: string;
  readonly exponent: Linear;
  /** Over loads of references, that it goes by while they are incomplete. */
  readonly shift: Expr;
  /** What the shift is in the end: another where something stands for a reference that isn't finite. */
  readonly last: Expr;
  readonly references: readonly ValueId[];
}

export type After =
  | { readonly op: 'mul' | 'div'; readonly e: Expr }
  /** The result where the condition holds, else 0. */
  | { readonly op: 'keep'; readonly cond: Expr };

/** (u + v)². */
export interface Spread {
  /** Of the position. */
  readonly u: Linear;
  /** Of the row, made of complete results. */
  readonly v: Linear;
  /** The streamed sum of all u. */
  readonly sum: ValueId;
}

/**
 * A streamed reduction: over the positions where all of `conds` hold, it combines weight × factors ÷
 * divisors; what comes `after` is applied to the whole.
 */
export interface Streamed {
  readonly compute: Compute;
  readonly placed: Placed;
  readonly weight?: Weight;
  /** What the weight is rounded to, of the 16-bit floats. */
  readonly rounded?: DType;
  /** The only factor of one that needs no other result, as a sum. */
  readonly element?: Linear;
  /** Of a sum of squares: what is squared. Nothing of the above is then given. */
  readonly spread?: Spread;
  readonly factors: readonly Expr[];
  readonly divisors: readonly Expr[];
  readonly conds: readonly Expr[];
  readonly after: readonly After[];
}

export interface Online {
  /** How many positions there are. */
  readonly length: IndexExpr;
  /** In program order. */
  readonly streamed: readonly Streamed[];
  /** Reductions that are evaluated at a position, such as scores. */
  readonly inner: ReadonlySet<ValueId>;
}

/** Why reductions can't be one pass: the value that stands in the way, and what it does. */
export interface OnlineFault {
  readonly value: ValueId;
  readonly fault: string;
}

/** Expressions are printed to be compared: none may be larger than this when members are inlined. */
const LARGEST = 400;
/** An exponential of at most this is far from overflow. */
const BOUND = 40;

const FLOATS: ReadonlySet<DType> = new Set<DType>(['f16', 'bf16', 'f32', 'f64']);

/**
 * The reductions of the group over the positions of the placement's anchor as one pass, in the
 * placement's row variables, {@link POSITION} and the free variables of each.
 */
export function online(group: GroupSpec, placement: Placement): Online | OnlineFault {
  const inner = innerReductions(group.members);
  const length = I.product(placement.anchor.reduce.map((r) => r.extent));
  const pass = new Pass(group, length, false);
  for (const c of group.members) {
    if (!c.monoid || inner.has(c.value)) continue;
    const refuse = (fault: string): OnlineFault => ({ value: c.value, fault });
    const placed = placement.placed.get(c.value);
    if (!placed) return refuse('its results lie elsewhere than the rows');
    if (!I.same(I.product(c.reduce.map((r) => r.extent)), length))
      return refuse('it reduces over another dim than the others');
    if (c.monoid.kind === 'argmax' || c.monoid.kind === 'argmin')
      return refuse('it looks for a position');
    const fault = pass.join(c, placed);
    if (fault !== undefined) return refuse(fault);
  }
  return { length, streamed: pass.streamed, inner };
}

/**
 * The reductions in as few passes over their positions as go after each other: each joins the last
 * pass if it can.
 */
export function passes(group: GroupSpec, reductions: readonly Placed[]): Streamed[][] {
  const out: Pass[] = [];
  for (const placed of reductions) {
    const c = placed.compute;
    const length = I.product(c.reduce.map((r) => r.extent));
    const last = out[out.length - 1];
    if (last && I.same(last.length, length) && last.join(c, placed) === undefined) continue;
    const next = new Pass(group, length, true);
    next.join(c, placed);
    out.push(next);
  }
  return out.map((p) => p.streamed);
}

/** Reductions that some other reads at an index that varies with what it reduces over. */
export function innerReductions(members: readonly Compute[]): Set<ValueId> {
  const byValue = new Map(members.map((m) => [m.value, m]));
  const inner = new Set<ValueId>();
  for (const root of [...members].reverse()) {
    if (!root.monoid || inner.has(root.value)) continue;
    const seen = new Set<string>();
    const follow = (m: Compute, tainted: ReadonlySet<string>): void => {
      visitLoads(m.body, (l) => {
        const of = byValue.get(l.value);
        if (!of) return;
        const dims = new Set<string>();
        l.index.forEach((e, i) => {
          if (mentions(e, tainted)) dims.add(`d${i}`);
        });
        if (dims.size === 0) return;
        if (of.monoid) {
          inner.add(of.value);
          return;
        }
        const key = `${of.value} ${[...dims].join()}`;
        if (seen.has(key)) return;
        seen.add(key);
        follow(of, dims);
      });
    };
    follow(root, new Set(root.reduce.map((r) => r.name)));
  }
  return inner;
}

/** Whether the index varies with one of the variables, by what it reads at run time too. */
function mentions(i: IndexExpr, names: ReadonlySet<string>): boolean {
  let found = false;
  I.visitAtoms(i, (a) => {
    if (a.kind === 'var') found ||= names.has(a.name);
    if (a.kind === 'dyn') {
      visitExpr(a.expr, (x) => {
        if (x.op === 'load') found ||= x.index.some((j) => mentions(j, names));
        if (x.op === 'index') found ||= mentions(x.index, names);
      });
    }
  });
  return found;
}

interface Reference {
  readonly of: Streamed;
  /** What the shift goes by. */
  readonly running: Expr;
}

interface Factors {
  readonly factors: Expr[];
  readonly divisors: Expr[];
  readonly conds: Expr[];
  readonly exponents: Term[];
  readonly after: After[];
  rounded: DType | undefined;
}

/** Reductions over the same positions that are done together. What others have computed before is of the row. */
class Pass {
  private readonly byValue: ReadonlyMap<ValueId, Compute>;
  private readonly joined = new Map<ValueId, Streamed>();
  /** Members by value: whether they need a result of the pass. */
  private readonly needs = new Map<ValueId, boolean>();
  /** The first thing that stands in the way. */
  private fault: string | undefined;

  constructor(
    private readonly group: GroupSpec,
    readonly length: IndexExpr,
    /** Whether whoever makes code of it can do spreads. */
    private readonly spreads: boolean,
  ) {
    this.byValue = new Map(group.members.map((m) => [m.value, m]));
  }

  get streamed(): Streamed[] {
    return [...this.joined.values()];
  }

  /** Adds a reduction; or says why it can't be done along with the others. */
  join(c: Compute, placed: Placed): string | undefined {
    this.fault = undefined;
    const s = this.analyse(c, placed);
    if (this.fault !== undefined) return this.fault;
    this.joined.set(c.value, s);
    this.needs.clear();
    return undefined;
  }

  private refuse(fault: string): void {
    this.fault ??= fault;
  }

  private analyse(c: Compute, placed: Placed): Streamed {
    const body = this.bodyAt(c, placed);
    if (!this.tainted(body)) {
      const element = this.linear(body, false);
      return { compute: c, placed, element, factors: [body], divisors: [], conds: [], after: [] };
    }
    if (c.monoid?.kind !== 'sum' || !FLOATS.has(c.accumulator) || !FLOATS.has(c.dtype))
      this.refuse('its elements need a result that is complete only at the end of the row');
    const spread = this.spreads && this.fault === undefined ? this.spread(body) : undefined;
    if (spread)
      return {
        compute: c,
        placed,
        spread,
        factors: [],
        divisors: [],
        conds: [],
        after: [],
      };
    const f = noFactors();
    this.factor(body, f, false);
    const { factors, divisors, conds, after, rounded } = f;
    const weight = this.weigh(f);
    if (rounded && !weight) this.refuse(rounding(rounded));
    return {
      compute: c,
      placed,
      ...(weight ? { weight } : {}),
      ...(rounded ? { rounded } : {}),
      factors,
      divisors,
      conds,
      after,
    };
  }

  /** The reduction's body over row variables, the position and its own free variables. */
  private bodyAt(c: Compute, placed: Placed): Expr {
    const env = new Map<string, IndexExpr>();
    c.dims.forEach((d, i) => env.set(d.name, placed.point[i] ?? I.num(0)));
    const at = I.delinearise(
      I.loopVar(POSITION, this.length),
      c.reduce.map((r) => r.extent),
    );
    c.reduce.forEach((r, i) => env.set(r.name, at[i] ?? I.num(0)));
    return rewriteExpr(c.body, (a) => (a.kind === 'var' ? env.get(a.name) : undefined));
  }

  // -- What expressions depend on -----------------------------------------------------------------

  private inlined(l: Expr & { op: 'load' }): Expr | undefined {
    const m = this.byValue.get(l.value);
    if (!m || m.monoid) return undefined;
    const env = new Map<string, IndexExpr>();
    m.dims.forEach((d, i) => env.set(d.name, l.index[i] ?? I.num(0)));
    return rewriteExpr(m.body, (a) => (a.kind === 'var' ? env.get(a.name) : undefined));
  }

  /** Whether the expression needs a streamed result. */
  private tainted(e: Expr): boolean {
    let found = false;
    visitExpr(e, (x) => {
      if (x.op === 'load' && !found) found = this.taintedValue(x.value);
    });
    return found;
  }

  private taintedValue(v: ValueId): boolean {
    if (this.joined.has(v)) return true;
    const known = this.needs.get(v);
    if (known !== undefined) return known;
    const m = this.byValue.get(v);
    const found = m ? this.tainted(m.body) : false;
    this.needs.set(v, found);
    return found;
  }

  /** Whether it is the same at all positions: reads of streamed results must be of the row's own. */
  private ofRow(e: Expr): boolean {
    let fixed = true;
    const index = (i: IndexExpr): void =>
      I.visitAtoms(i, (a) => {
        if (a.kind === 'var' && (a.name === POSITION || a.name.startsWith('f'))) fixed = false;
      });
    visitExpr(e, (x) => {
      if (x.op === 'index') index(x.index);
      if (x.op === 'when') for (const c of x.conds) [c.index, c.lo, c.hi].forEach(index);
      if (x.op !== 'load') return;
      x.index.forEach(index);
      const s = this.joined.get(x.value);
      if (s && !this.own(s, x)) this.refuse('it reads a result of another row');
      const body = s || !this.taintedValue(x.value) ? undefined : this.inlined(x);
      if (body && !this.ofRow(body)) fixed = false;
    });
    return fixed;
  }

  private own(s: Streamed, l: Expr & { op: 'load' }): boolean {
    return s.placed.free.length === 0 && l.index.every((e, i) => e.key === s.placed.point[i]?.key);
  }

  // -- Squares ------------------------------------------------------------------------------------

  private spread(body: Expr): Spread | undefined {
    const root = this.rootOf(body);
    if (!root) return undefined;
    const { terms, constant: rest } = this.linear(root, false);
    const u: Linear = { terms: terms.filter((t) => !this.tainted(t.e)), constant: rest };
    const v: Linear = { terms: terms.filter((t) => this.tainted(t.e)), constant: 0 };
    if (u.terms.length === 0 || !v.terms.every((t) => this.ofRow(t.e))) return undefined;
    for (const s of this.joined.values()) {
      const plain = s.compute.monoid?.kind === 'sum' && s.placed.free.length === 0;
      if (plain && s.element && FLOATS.has(s.compute.dtype) && asKey(s.element) === asKey(u))
        return { u, v, sum: s.compute.value };
    }
    return undefined;
  }

  /** What a square is of. */
  private rootOf(e: Expr): Expr | undefined {
    let x = e;
    for (let i = 0; i < 16; i++) {
      if (x.op === 'cast' && widens(x.a.dtype, x.dtype)) x = x.a;
      else if (x.op === 'load') {
        const body = this.inlined(x);
        if (!body || sizeOf(body) > LARGEST) return undefined;
        x = body;
      } else break;
    }
    if (x.op !== 'binary' || !FLOATS.has(x.dtype)) return undefined;
    if (x.fn === 'mul') return printExpr(x.a) === printExpr(x.b) ? x.a : undefined;
    if (x.fn !== 'pow' || x.b.op !== 'const') return undefined;
    this.group.literals.read = true;
    return x.b.value === 2 ? x.a : undefined;
  }

  // -- Products -----------------------------------------------------------------------------------

  /** Splits a tainted product into what varies along the row and what doesn't. */
  private factor(e: Expr, out: Factors, inverse: boolean): void {
    if (!this.tainted(e)) {
      (inverse ? out.divisors : out.factors).push(e);
      return;
    }
    if (this.ofRow(e)) {
      out.after.push({ op: inverse ? 'div' : 'mul', e });
      return;
    }
    const stuck = (): void =>
      this.refuse(
        'its elements are no product of one part that is the same along the row and one that needs no result of the row',
      );
    switch (e.op) {
      case 'load': {
        const body = this.inlined(e);
        if (!body || sizeOf(body) > LARGEST) return stuck();
        this.factor(body, out, inverse);
        return;
      }
      case 'binary':
        if (e.fn !== 'mul' && e.fn !== 'div') return stuck();
        this.factor(e.a, out, inverse);
        this.factor(e.b, out, e.fn === 'div' ? !inverse : inverse);
        return;
      case 'unary':
        if (e.fn === 'neg') {
          out.factors.push(constant(-1, e.dtype));
          this.factor(e.a, out, inverse);
        } else if (e.fn === 'recip') this.factor(e.a, out, !inverse);
        else if (e.fn === 'exp') {
          const l = this.linear(e.a, false);
          const sign = inverse ? -1 : 1;
          for (const t of l.terms) out.exponents.push({ c: sign * t.c, e: t.e });
          if (l.constant !== 0) out.factors.push(constant(Math.exp(sign * l.constant), e.dtype));
        } else stuck();
        return;
      case 'cast':
        if (widens(e.a.dtype, e.dtype)) this.factor(e.a, out, inverse);
        else if (FLOATS.has(e.dtype) && FLOATS.has(e.a.dtype))
          this.round(e.a, e.dtype, out, inverse);
        else stuck();
        return;
      case 'select': {
        if (inverse) return stuck();
        const kept = isZero(e.else) ? e.then : isZero(e.then) ? e.else : undefined;
        if (!kept) return stuck();
        const cond = kept === e.then ? e.cond : unary('not', e.cond);
        if (!this.tainted(cond)) out.conds.push(cond);
        else if (this.ofRow(cond)) out.after.push({ op: 'keep', cond });
        else return stuck();
        this.factor(kept, out, false);
        return;
      }
      case 'when': {
        if (inverse || this.tainted({ ...e, then: ZERO, else: ZERO })) return stuck();
        const kept = isZero(e.else) ? e.then : isZero(e.then) ? e.else : undefined;
        if (!kept) return stuck();
        const yes = constant(1, 'bool');
        const no = constant(0, 'bool');
        out.conds.push(
          kept === e.then
            ? { ...e, then: yes, else: no, dtype: 'bool' }
            : { ...e, then: no, else: yes, dtype: 'bool' },
        );
        this.factor(kept, out, false);
        return;
      }
      case 'const':
      case 'index':
        return stuck();
    }
  }

  /**
   * A rounding of a weight to a 16-bit float comes before the factors of the row rather than after:
   * it is relative to the number's size, so that either way it errs by as much.
   */
  private round(e: Expr, to: DType, out: Factors, inverse: boolean): void {
    const inside = noFactors();
    this.factor(e, inside, inverse);
    const weightAlone =
      inside.divisors.length === 0 && inside.factors.every((f) => f.op === 'const');
    if (inverse || out.rounded || inside.rounded || !weightAlone) this.refuse(rounding(to));
    out.factors.push(...inside.factors);
    out.conds.push(...inside.conds);
    out.exponents.push(...inside.exponents);
    out.after.push(...inside.after);
    out.rounded = to;
  }

  /** Makes the exponents a weight; those that need sums of the row come afterwards. */
  private weigh(f: Factors): Weight | undefined {
    const exponent: Term[] = [];
    const shifts: { readonly term: Term; readonly reference: Reference }[] = [];
    let tainted = false;
    for (const term of f.exponents) {
      if (!this.tainted(term.e)) {
        exponent.push(term);
        continue;
      }
      tainted = true;
      const reference = this.referenceOf(term);
      if (!this.ofRow(term.e))
        this.refuse('its exponents are no sum of a part of the row and one of the position');
      else if (reference) shifts.push({ term, reference });
      else f.after.push({ op: 'mul', e: unary('exp', scaled(term)) });
    }
    if (!tainted) return undefined;
    const u: Linear = { terms: exponent, constant: 0 };
    const references = shifts.map((s) => ({ c: s.term.c, of: s.reference.of }));
    // Without a reference nothing keeps the exponent small.
    if (
      shifts.length === 0 ||
      (!this.bounded(u, references, false) && !this.bounded(u, references, true))
    ) {
      this.refuse(
        'its exponents are not known to stay small while the maximum is still incomplete',
      );
      return undefined;
    }
    const shift = asExpr({
      terms: shifts.map((s) => ({ c: s.term.c, e: s.reference.running })),
      constant: 0,
    });
    const last = asExpr({ terms: shifts.map((s) => s.term), constant: 0 });
    return {
      key: `${asKey(u)} ; ${printExpr(shift)} ; ${printExpr(last)}`,
      exponent: u,
      shift,
      last,
      references: references.map((r) => r.of.compute.value),
    };
  }

  /** The reduction that a shift goes by, if it falls as the reduction goes on. */
  private referenceOf(t: Term): Reference | undefined {
    let e = t.e;
    // A maximum that something else stands for when it is not finite: until then it is gone by.
    if (e.op === 'select') {
      const kept = e.then.op === 'const' ? e.else : e.else.op === 'const' ? e.then : undefined;
      return kept && this.referenceOf({ c: t.c, e: kept });
    }
    const running = e;
    if (e.op === 'cast' && widens(e.a.dtype, e.dtype)) e = e.a;
    // A maximum that is kept above (a minimum below) some number.
    let kept: 'max' | 'min' | undefined;
    if (e.op === 'binary' && (e.fn === 'max' || e.fn === 'min')) {
      kept = e.fn;
      e = e.b.op === 'const' ? e.a : e.a.op === 'const' ? e.b : e;
    }
    if (e.op === 'cast' && widens(e.a.dtype, e.dtype)) e = e.a;
    if (e.op !== 'load') return undefined;
    const of = this.joined.get(e.value);
    if (!of) {
      const body = kept === undefined ? this.inlined(e) : undefined;
      return body && sizeOf(body) <= LARGEST ? this.referenceOf({ c: t.c, e: body }) : undefined;
    }
    const kind = of.compute.monoid?.kind;
    if (kind !== (t.c < 0 ? 'max' : 'min') || (kept !== undefined && kept !== kind))
      return undefined;
    const plain = !of.weight && of.after.length === 0 && of.placed.free.length === 0;
    return plain ? { of, running } : undefined;
  }

  /** Whether the exponent is at most a small number when each reference is at least (a minimum: at most) its own element here. */
  private bounded(
    u: Linear,
    references: readonly { readonly c: number; readonly of: Streamed }[],
    deep: boolean,
  ): boolean {
    const sum = new Map<string, number>();
    let rest = 0;
    const add = (l: Linear, c: number): void => {
      rest += c * l.constant;
      for (const t of l.terms) {
        const key = printExpr(t.e);
        sum.set(key, (sum.get(key) ?? 0) + c * t.c);
      }
    };
    // A choice between a number and minus infinity is at most the number.
    const most = (e: Expr): Expr => {
      if (e.op === 'select' || e.op === 'when') {
        if (isLowest(e.else)) return most(e.then);
        if (isLowest(e.then)) return most(e.else);
      }
      return e;
    };
    for (const t of u.terms)
      add(this.linear(deep && t.c > 0 ? this.opened(t.e, most) : t.e, deep), t.c);
    for (const { c, of } of references) {
      const element = of.factors[0];
      if (!element) return false;
      add(this.linear(deep ? this.opened(element, most) : element, deep), c);
    }
    return rest <= BOUND && [...sum.values()].every((c) => Math.abs(c) < 1e-6);
  }

  /** The expression with `f` applied at its outside, behind pointwise members. */
  private opened(e: Expr, f: (e: Expr) => Expr): Expr {
    let x = f(e);
    for (let i = 0; i < 16; i++) {
      const body = x.op === 'load' ? this.inlined(x) : undefined;
      if (!body || sizeOf(body) > LARGEST) return x;
      x = f(body);
    }
    return x;
  }

  // -- Sums ---------------------------------------------------------------------------------------

  /** As a sum of terms; members are looked into where they are tainted, or (`deep`) always. */
  private linear(e: Expr, deep: boolean): Linear {
    const terms: Term[] = [];
    let rest = 0;
    const go = (x: Expr, c: number, depth: number): void => {
      if (x.op === 'const') {
        this.group.literals.read = true;
        rest += c * x.value;
        return;
      }
      if (x.op === 'binary' && FLOATS.has(x.dtype)) {
        if (x.a.op === 'const' || x.b.op === 'const') this.group.literals.read = true;
        const number = x.b.op === 'const' ? x.b.value : undefined;
        if (x.fn === 'add' || x.fn === 'sub') {
          go(x.a, c, depth);
          go(x.b, x.fn === 'add' ? c : -c, depth);
          return;
        }
        if (x.fn === 'mul' && number !== undefined && Number.isFinite(number)) {
          go(x.a, c * number, depth);
          return;
        }
        if (x.fn === 'mul' && x.a.op === 'const' && Number.isFinite(x.a.value)) {
          go(x.b, c * x.a.value, depth);
          return;
        }
        if (x.fn === 'div' && number !== undefined && Number.isFinite(1 / number)) {
          go(x.a, c / number, depth);
          return;
        }
      }
      if (x.op === 'unary' && x.fn === 'neg' && FLOATS.has(x.dtype)) {
        go(x.a, -c, depth);
        return;
      }
      if (x.op === 'cast' && widens(x.a.dtype, x.dtype)) {
        go(x.a, c, depth);
        return;
      }
      if (x.op === 'load' && depth < 16 && (deep || this.taintedValue(x.value))) {
        const body = this.joined.has(x.value) ? undefined : this.inlined(x);
        if (body && sizeOf(body) <= LARGEST) {
          go(body, c, depth + 1);
          return;
        }
      }
      terms.push({ c, e: x });
    };
    go(e, 1, 0);
    return { terms, constant: rest };
  }
}

// ---------------------------------------------------------------------------------------------

function noFactors(): Factors {
  return {
    factors: [],
    divisors: [],
    conds: [],
    exponents: [],
    after: [],
    rounded: undefined,
  };
}

function rounding(to: DType): string {
  return `its elements are rounded to ${to} once they depend on a result of the row`;
}

const ZERO = constant(0, 'f32');

function isZero(e: Expr): boolean {
  return e.op === 'const' ? e.value === 0 : e.op === 'cast' && isZero(e.a);
}

function isLowest(e: Expr): boolean {
  return e.op === 'const' && e.value === -Infinity;
}

/** A conversion between floats that loses nothing as computed. */
function widens(from: DType, to: DType): boolean {
  if (from === to) return true;
  return FLOATS.has(from) && (to === 'f32' || to === 'f64');
}

function sizeOf(e: Expr): number {
  let n = 0;
  visitExpr(e, () => n++);
  return n;
}

function scaled(t: Term): Expr {
  if (t.c === 1) return t.e;
  if (t.c === -1) return unary('neg', t.e);
  return binary('mul', t.e, constant(t.c, t.e.dtype));
}

/** The sum as an expression. */
export function asExpr(l: Linear): Expr {
  let sum: Expr | undefined;
  for (const t of l.terms) {
    if (sum && t.c < 0) sum = binary('sub', sum, scaled({ c: -t.c, e: t.e }));
    else sum = sum ? binary('add', sum, scaled(t)) : scaled(t);
  }
  if (!sum) return constant(l.constant, 'f32');
  return l.constant === 0 ? sum : binary('add', sum, constant(l.constant, sum.dtype));
}

/** Equal for equal sums. */
export function asKey(l: Linear): string {
  return `${l.terms.map((t) => `${t.c}*${printExpr(t.e)}`).join(' + ')} + ${l.constant}`;
}
