/**
 * Builds L3 from L1: evaluates values of a kernel's members *on demand* at given indices.
 *
 * How it works: a template asks for a value at a list of points (index expressions over the kernel's
 * own loop variables). A value outside the group is loaded; a pointwise member is its body with its
 * dims replaced by the point; a reduction member becomes a loop, one accumulator a point, unless the
 * template has already computed it at that point. Results are remembered per (value, point) in the
 * scope where they were computed, so that diamonds, views and register tiles share work by
 * themselves; pure code moves out to the outermost scope that has what it needs.
 */
import { storageOf } from '../graph/dtype';
import type { Compute, Monoid, Program } from '../ir/compute';
import type { Expr, IndexCond, ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { Atom, IndexExpr } from '../ir/indexExpr';
import { AccumulatingBuilder } from './accumulators';
import { hasDyn, visitLoads } from './group';
import type { KExpr, KType, Stmt } from './kernelIr';
import { LARGEST_WINDOW } from './tiles';
import { castTo, convert, ktype, lit, narrow } from './scalars';
import { locate, rootOf, type Slices } from './slices';

export type Point = readonly IndexExpr[];
type Env = ReadonlyMap<string, IndexExpr>;

/** How many times over a value was evaluated: what recompute verdicts go by. */
export interface Demand {
  readonly value: ValueId;
  readonly point: Point;
  /** The loop variables that enclosed the evaluation, outermost first. */
  readonly loops: readonly IndexExpr[];
}

export interface BuilderOptions {
  /** Which buffers are bound as vectors of four. */
  readonly vector?: ReadonlySet<ValueId>;
  readonly f16?: boolean;
  /** Values that lie in others' buffers. */
  readonly slices?: Slices | undefined;
  /** Code that is only counted: its names mean nothing. */
  readonly draft?: boolean;
  /** Turns of an innermost reduction loop that are written out together: 1, or 4 so that reads along it are vectors; all of a short one. 0: none, as in drafts. */
  readonly unroll?: number;
  /** All dims of reductions over few positions are written out. */
  readonly windows?: boolean;
  /**
   * Reductions inside branches are evaluated outside them, so that several points share their loops:
   * for templates in which branches go apart within a tile, as under a mask.
   */
  readonly eager?: boolean;
}

export class Builder extends AccumulatingBuilder {
  /** Values read from memory and stored to it, by the buffer that each is in: mostly its own. */
  readonly loads = new Map<ValueId, Set<ValueId>>();
  readonly stores = new Map<ValueId, Set<ValueId>>();
  /** Reductions evaluated inside, by serial loops. */
  readonly serial: Demand[] = [];
  /** Where each load touched memory: for footprints and for choosing vector bindings. */
  readonly accesses: {
    readonly value: ValueId;
    readonly buffer: ValueId;
    /** The element's number in the buffer. */
    readonly linear: IndexExpr;
    readonly store: boolean;
    readonly point?: Point;
    readonly batch: number;
  }[] = [];
  /** Counts calls of storeMany: what may be one vector store. */
  private batches = 0;
  readonly members: ReadonlyMap<ValueId, Compute>;
  /** Told of every evaluation of a member at a point it was not yet known at. */
  onEvaluate: ((value: ValueId, point: Point) => void) | undefined;
  /** Rows of members held in workgroup memory: asked before a member is evaluated. */
  readonly rowCache = new Map<ValueId, (point: Point) => KExpr | undefined>();

  constructor(
    readonly program: Program,
    members: readonly Compute[],
    private readonly options: BuilderOptions = {},
  ) {
    super(options.draft ?? false);
    this.members = new Map(members.map((c) => [c.value, c]));
  }

  protected override runTimeIndex(e: Expr): KExpr {
    return this.expr(e, NO_ENV);
  }

  /** Makes `value` at `point` known to be `e`: how templates hand in what they computed together. */
  define(value: ValueId, point: Point, e: KExpr): void {
    this.known.set(pointKey(value, point), e, this.depth);
  }

  // -- Values -----------------------------------------------------------------------------------

  /** The value at one point. */
  value(value: ValueId, point: Point): KExpr {
    const member = this.members.get(value);
    if (!member) return this.load(value, point);
    const key = pointKey(value, point);
    const known = this.recall(key);
    if (known) return known;
    const hit = this.rowCache.get(value)?.(point);
    if (hit) {
      this.remember(key, hit);
      return hit;
    }
    this.computeMany(member, [point], [key]);
    return this.recall(key) ?? this.load(value, point);
  }

  /** The value at several points at once: reductions among them share their loops. */
  valueMany(value: ValueId, points: readonly Point[]): KExpr[] {
    const member = this.members.get(value);
    if (!member) return points.map((p) => this.load(value, p));
    const keys = points.map((p) => pointKey(value, p));
    const missing = new Map<string, Point>();
    const cached = this.rowCache.get(value);
    points.forEach((p, i) => {
      const key = keys[i] ?? '';
      if (this.recall(key)) return;
      const hit = cached?.(p);
      if (hit) this.remember(key, hit);
      else missing.set(key, p);
    });
    if (missing.size > 0) this.computeMany(member, [...missing.values()], [...missing.keys()]);
    return points.map((p, i) => this.recall(keys[i] ?? '') ?? this.load(value, p));
  }

  private computeMany(c: Compute, points: readonly Point[], keys: readonly string[]): void {
    if (this.onEvaluate) for (const p of points) this.onEvaluate(c.value, p);
    if (c.monoid) {
      this.reduceMany(c, c.monoid, points);
      return;
    }
    const envs = points.map((p) => bindDims(c, p));
    if (points.length > 1 && this.hasReduction(c)) this.prefetch(c.body, envs);
    const name = this.nameOf(c.value);
    envs.forEach((env, i) => {
      const e = this.let(name, this.expr(c.body, env));
      this.remember(keys[i] ?? '', e);
    });
  }

  protected override nameOf(value: ValueId): string {
    return this.program.values.get(value)?.name ?? value;
  }

  private readonly reductive = new Map<ValueId, boolean>();

  /** Whether a member's value needs a reduction member's. */
  private hasReduction(c: Compute): boolean {
    const known = this.reductive.get(c.value);
    if (known !== undefined) return known;
    this.reductive.set(c.value, false);
    let found = c.monoid !== undefined;
    if (!found) {
      visitLoads(c.body, (l) => {
        const m = this.members.get(l.value);
        if (m && this.hasReduction(m)) found = true;
      });
    }
    this.reductive.set(c.value, found);
    return found;
  }

  /** Evaluates, for all environments together, the loads that lead to reductions. */
  private prefetch(e: Expr, envs: readonly Env[]): void {
    const wanted: { value: ValueId; index: readonly IndexExpr[] }[] = [];
    // Not into `when`: its branches are evaluated where they are taken, unless all are to be.
    const walk = (x: Expr): void => {
      switch (x.op) {
        case 'load': {
          const m = this.members.get(x.value);
          if (m && this.hasReduction(m)) wanted.push(x);
          return;
        }
        case 'unary':
        case 'cast':
          walk(x.a);
          return;
        case 'binary':
          walk(x.a);
          walk(x.b);
          return;
        case 'select':
          walk(x.cond);
          walk(x.then);
          walk(x.else);
          return;
        case 'when':
          if (!this.options.eager) return;
          if (!envs.every((env) => this.decided(x.conds, env) === false)) walk(x.then);
          if (!envs.every((env) => this.decided(x.conds, env) === true)) walk(x.else);
          return;
        case 'const':
        case 'index':
          return;
      }
    };
    walk(e);
    for (const w of wanted)
      this.valueMany(
        w.value,
        envs.map((env) => w.index.map((i) => this.subst(i, env))),
      );
  }

  private reduceMany(c: Compute, monoid: Monoid, points: readonly Point[]): void {
    for (const p of points)
      this.serial.push({ value: c.value, point: p, loops: [...this.loopVars] });
    const name = this.nameOf(c.value);
    const accs = points.map(() => this.accumulator(c, monoid, name));
    const over: IndexExpr[] = [];
    const innermost = c.reduce.length - 1;
    const whole = this.writtenOut(c, points.length);
    const nest = (k: number): void => {
      const r = c.reduce[k];
      if (!r) {
        const bodies = this.bodies(c, points, over);
        bodies.forEach((b, i) => {
          const acc = accs[i];
          if (acc)
            this.accumulate(acc, monoid, b, () =>
              this.index(
                I.linearise(
                  over,
                  c.reduce.map((d) => d.extent),
                ),
              ),
            );
        });
        return;
      }
      const step = whole
        ? (I.constOf(r.extent) ?? 1)
        : k === innermost
          ? this.unrollStep(c, r.extent, points.length)
          : 1;
      const turn = (at: (u: number) => IndexExpr): void => {
        for (let u = 0; u < step; u++) {
          over[k] = at(u);
          nest(k + 1);
        }
      };
      if (I.constOf(r.extent) === step) turn((u) => I.num(u));
      else if (step === 1) this.loop(r.name, r.extent, (i) => turn(() => i));
      // The counter counts groups of turns, so that an index's remainder by four is known.
      else
        this.loop(r.name, I.ceilDiv(r.extent, step), (g) => turn((u) => I.add(I.mul(g, step), u)));
      over.length = k;
    };
    nest(0);
    points.forEach((p, i) => {
      const acc = accs[i];
      if (acc) this.define(c.value, p, this.finish(c, acc));
    });
  }

  /**
   * How many turns of the innermost loop over `extent` are written out: all of a short one, four of
   * one that is a multiple of four; one where the code would grow too long.
   */
  private unrollStep(c: Compute, extent: IndexExpr, points: number): number {
    const unroll = this.options.unroll ?? 0;
    if (unroll < 1 || this.bodyReductive(c)) return 1;
    const n = I.constOf(extent);
    const fits = (step: number): boolean =>
      points * step * (1 + this.cheap(c.body)) <= MOST_UNROLLED;
    if (n !== undefined && n >= 1 && n <= SHORT && fits(n)) return n;
    return I.exactDiv(extent, unroll) && fits(unroll) ? unroll : 1;
  }

  /** Whether all turns of all its loops are written out. */
  private writtenOut(c: Compute, points: number): boolean {
    const n = I.constOf(I.product(c.reduce.map((r) => r.extent)));
    return (
      this.options.windows === true &&
      (this.options.unroll ?? 0) >= 1 &&
      n !== undefined &&
      n >= 1 &&
      n <= LARGEST_WINDOW &&
      points * n * (1 + this.cheap(c.body)) <= MOST_UNROLLED
    );
  }

  /** The reduction's body at several points with the reduction dims bound to `over`. */
  bodies(c: Compute, points: readonly Point[], over: readonly IndexExpr[]): KExpr[] {
    const envs = points.map((p) => bindAll(c, p, over));
    if (points.length > 1 && this.bodyReductive(c)) this.prefetch(c.body, envs);
    return envs.map((env) => convert(this.expr(c.body, env), ktype(c.body.dtype)));
  }

  private bodyReductive(c: Compute): boolean {
    let found = false;
    visitLoads(c.body, (l) => {
      const m = this.members.get(l.value);
      if (m && this.hasReduction(m)) found = true;
    });
    return found;
  }

  // -- Memory -----------------------------------------------------------------------------------

  /** Where an element is in memory. */
  private locate(value: ValueId, point: Point): { buffer: ValueId; linear: IndexExpr } {
    return locate(this.program, this.options.slices, value, point);
  }

  private load(value: ValueId, point: Point): KExpr {
    const v = this.program.values.get(value);
    if (!v) throw new Error(`no value ${value}`);
    const { buffer, linear: lin } = this.locate(value, point);
    note(this.loads, buffer, value);
    const key = `load ${buffer} ${lin.key}`;
    const known = this.recall(key);
    if (known) return known;
    this.accesses.push({ value, buffer, linear: lin, store: false, point, batch: 0 });
    const storage = storageOf(v.dtype, this.options.f16 ?? false);
    const type: KType = storage === 'f16' ? 'f32' : storage;
    let e: KExpr;
    if (this.options.vector?.has(buffer)) {
      const q = I.floorDiv(lin, 4);
      const lane = I.mod(lin, 4);
      const vecKey = `vec ${buffer} ${q.key}`;
      let vec = this.recall(vecKey);
      const at = this.index(q);
      if (!vec) {
        const name = this.fresh(`${v.name}_4`);
        const depth = this.loadDepth(at.depth);
        this.emit({ s: 'loadVec', name, type, buffer, index: at, linear: lin }, depth);
        vec = this.ref(name, type, depth);
        this.remember(vecKey, vec);
      }
      const l = this.index(lane);
      e = {
        k: 'lane',
        vec: vec.k === 'ref' ? vec.name : '',
        lane: l,
        type,
        depth: Math.max(vec.depth, l.depth),
      };
    } else {
      const at = this.index(lin);
      const name = this.fresh(v.name);
      const depth = this.loadDepth(at.depth);
      this.emit({ s: 'load', name, type, buffer, index: at, linear: lin }, depth);
      e = this.ref(name, type, depth);
    }
    if (v.dtype === 'bool') {
      const cond: KExpr = {
        k: 'binary',
        fn: 'ne',
        a: e,
        b: lit(0, 'u32'),
        type: 'bool',
        depth: e.depth,
      };
      e = cond;
    }
    this.remember(key, e);
    return e;
  }

  /** Makes an element of memory known, however it came about: through workgroup memory. */
  defineLoad(value: ValueId, point: Point, e: KExpr): void {
    const { buffer, linear } = this.locate(value, point);
    this.known.set(`load ${buffer} ${linear.key}`, e, this.depth);
  }

  /** Loads may move out of loops, but not out of the innermost branch. */
  private loadDepth(depth: number): number {
    let min = 0;
    for (let i = this.depth; i > 0; i--) {
      if (this.scope(i).guard) {
        min = i;
        break;
      }
    }
    return Math.max(depth, min);
  }

  store(value: ValueId, point: Point, e: KExpr): void {
    this.storeMany(value, [point], [e]);
  }

  /** Stores several elements; four that are neighbours, and aligned, go as one where the buffer is bound so. */
  storeMany(value: ValueId, points: readonly Point[], values: readonly KExpr[]): void {
    const v = this.program.values.get(value);
    if (!v) throw new Error(`no value ${value}`);
    const buffer = rootOf(this.options.slices, value);
    note(this.stores, buffer, value);
    const storage = storageOf(v.dtype, this.options.f16 ?? false);
    const type: KType = storage === 'f16' ? 'f32' : storage;
    const lins = points.map((p) => this.locate(value, p).linear);
    const out = values.map((e) => this.toStorage(e, type));
    this.batches++;
    lins.forEach((linear, i) => {
      const point = points[i];
      this.accesses.push({
        value,
        buffer,
        linear,
        store: true,
        batch: this.batches,
        ...(point ? { point } : {}),
      });
    });
    if (!this.options.vector?.has(buffer)) {
      lins.forEach((linear, i) => {
        const x = out[i];
        if (x) this.emit({ s: 'store', buffer, index: this.index(linear), value: x, linear });
      });
      return;
    }
    const groups = new Map<
      string,
      { q: IndexExpr; linear: IndexExpr; lanes: (KExpr | undefined)[] }
    >();
    lins.forEach((linear, i) => {
      const q = I.floorDiv(linear, 4);
      const lane = I.constOf(I.mod(linear, 4));
      const g = groups.get(q.key) ?? { q, linear, lanes: [] };
      groups.set(q.key, g);
      if (lane === undefined) throw new Error('a vector store with a lane that is not constant');
      g.lanes[lane] = out[i];
    });
    for (const g of groups.values()) {
      const lanes = g.lanes.filter((l): l is KExpr => l !== undefined);
      if (lanes.length !== 4) throw new Error('a vector store with lanes missing');
      this.emit({
        s: 'storeVec',
        buffer,
        index: this.index(g.q),
        values: lanes,
        linear: g.linear,
      });
    }
  }

  private toStorage(e: KExpr, type: KType): KExpr {
    return convert(e, type);
  }

  // -- Scalar expressions -----------------------------------------------------------------------

  private subst(i: IndexExpr, env: Env): IndexExpr {
    const first = i.terms[0];
    if (!first || env.size === 0) return i;
    // Most indices are a variable and no more.
    if (i.terms.length === 1 && i.c === 0 && first.coef === 1) {
      const v = first.factors[0];
      if (v?.kind === 'var' && first.factors.length === 1) return env.get(v.name) ?? i;
    }
    const elements = new Map<string, IndexExpr>();
    return I.rewrite(i, (a) => {
      if (a.kind === 'var') return env.get(a.name);
      if (a.kind !== 'dyn') return undefined;
      let e = elements.get(a.key);
      if (!e) {
        e = this.element(a, env);
        elements.set(a.key, e);
      }
      return e;
    });
  }

  /** An index read at run time. Its key says which element it is: it stays symbolic, its value is remembered under the new key. */
  private element(a: Atom & { kind: 'dyn' }, env: Env): IndexExpr {
    const named = this.let('at', convert(this.expr(a.expr, env), 'i32'));
    if (named.k === 'lit') return I.num(named.value);
    const key = named.k === 'ref' ? named.name : named.k === 'sym' ? `$${named.name}` : '?';
    this.remember(`atom dyn(${key})`, named);
    const extent = I.rewrite(a.extent, (x) => (x.kind === 'var' ? env.get(x.name) : undefined));
    return I.dyn(a.expr, extent, key);
  }

  expr(e: Expr, env: Env): KExpr {
    switch (e.op) {
      case 'const':
        return lit(e.value, ktype(e.dtype));
      case 'index':
        return convert(this.index(this.subst(e.index, env)), ktype(e.dtype));
      case 'load':
        return this.value(
          e.value,
          e.index.map((i) => this.subst(i, env)),
        );
      case 'unary': {
        const a = this.expr(e.a, env);
        return { k: 'unary', fn: e.fn, a, type: ktype(e.dtype), depth: a.depth };
      }
      case 'binary': {
        const a = this.expr(e.a, env);
        const b = this.expr(e.b, env);
        return {
          k: 'binary',
          fn: e.fn,
          a,
          b,
          type: ktype(e.dtype),
          depth: Math.max(a.depth, b.depth),
        };
      }
      case 'select': {
        const cond = this.expr(e.cond, env);
        const then = this.expr(e.then, env);
        const other = this.expr(e.else, env);
        return {
          k: 'select',
          cond,
          then,
          else: other,
          type: ktype(e.dtype),
          depth: Math.max(cond.depth, then.depth, other.depth),
        };
      }
      case 'when':
        return this.when(e, env);
      case 'cast': {
        const a = this.expr(e.a, env);
        return narrow(castTo(a, e.a.dtype, e.dtype), e.a.dtype, e.dtype);
      }
    }
  }

  /** An expression at several places at once: reductions in it share their loops. */
  exprMany(e: Expr, envs: readonly Env[]): KExpr[] {
    if (envs.length > 1) this.prefetch(e, envs);
    return envs.map((env) => this.expr(e, env));
  }

  /** Whether the conditions are known to hold, or not to. */
  private decided(conds: readonly IndexCond[], env: Env): boolean | undefined {
    let all = true;
    for (const c of conds) {
      if (hasDyn([c.index, c.lo, c.hi])) return undefined;
      const [i, lo, hi] = [this.subst(c.index, env), this.subst(c.lo, env), this.subst(c.hi, env)];
      if (I.provablyLe(I.add(i, 1), lo) || I.provablyLe(hi, i)) return false;
      all &&= I.provablyLe(lo, i) && I.provablyLe(I.add(i, 1), hi);
    }
    return all ? true : undefined;
  }

  /** Expression nodes, those of inlined members too; infinite with a reduction that is not to be evaluated in any case. */
  private cheap(e: Expr, depth = 0): number {
    if (depth > 8) return Infinity;
    switch (e.op) {
      case 'const':
      case 'index':
        return 0;
      case 'load': {
        const m = this.members.get(e.value);
        if (!m) return 1;
        if (m.monoid) return this.options.eager ? 1 : Infinity;
        return 1 + this.cheap(m.body, depth + 1);
      }
      case 'unary':
      case 'cast':
        return 1 + this.cheap(e.a, depth + 1);
      case 'binary':
        return 1 + this.cheap(e.a, depth + 1) + this.cheap(e.b, depth + 1);
      case 'select':
        return (
          1 +
          this.cheap(e.cond, depth + 1) +
          this.cheap(e.then, depth + 1) +
          this.cheap(e.else, depth + 1)
        );
      case 'when':
        return 1 + this.cheap(e.then, depth + 1) + this.cheap(e.else, depth + 1);
    }
  }

  private conds(
    conds: readonly IndexCond[],
    env: Env,
  ): { verdict: boolean | undefined; cond: KExpr } {
    const terms: KExpr[] = [];
    for (const c of conds) {
      const i = this.subst(c.index, env);
      const lo = this.subst(c.lo, env);
      const hi = this.subst(c.hi, env);
      const next = I.add(i, 1);
      const above = I.provablyLe(lo, i);
      const below = I.provablyLe(next, hi);
      if (above && below) continue;
      // What is before the end for certain isn't beyond it.
      if ((!above && I.provablyLe(next, lo)) || (!below && I.provablyLe(hi, i)))
        return { verdict: false, cond: lit(0, 'bool') };
      const a = this.index(i);
      const l = this.index(lo);
      const h = this.index(hi);
      const depth = Math.max(a.depth, l.depth, h.depth);
      if (above) terms.push({ k: 'binary', fn: 'lt', a, b: h, type: 'bool', depth });
      else if (below) terms.push({ k: 'binary', fn: 'ge', a, b: l, type: 'bool', depth });
      else terms.push({ k: 'within', a, lo: l, hi: h, type: 'bool', depth });
    }
    if (terms.length === 0) return { verdict: true, cond: lit(1, 'bool') };
    const depth = Math.max(...terms.map((t) => t.depth));
    return { verdict: undefined, cond: { k: 'all', terms, type: 'bool', depth } };
  }

  private when(e: Expr & { op: 'when' }, env: Env): KExpr {
    const { verdict, cond } = this.conds(e.conds, env);
    if (verdict !== undefined) return this.expr(verdict ? e.then : e.else, env);
    const type = ktype(e.dtype);
    const c = this.condition(cond);
    const simple = (x: Expr): boolean => x.op === 'const' || x.op === 'index';
    // Reads outside a buffer are defined (they give some element), so what is cheap is computed on
    // both sides and chosen: branches inside tiled loops cost shader compilers minutes.
    if (this.cheap(e.then) + this.cheap(e.else) <= CHEAP_BRANCHES) {
      const then = convert(this.expr(e.then, env), type);
      const other = convert(this.expr(e.else, env), type);
      const depth = Math.max(c.depth, then.depth, other.depth);
      return this.shareable({ k: 'select', cond: c, then, else: other, type, depth });
    }
    // A variable set in a branch: what is in the branch is not evaluated outside it.
    const invert = simple(e.then) && !simple(e.else);
    const start = this.expr(
      invert ? e.then : simple(e.else) ? e.else : { op: 'const', value: 0, dtype: e.dtype },
      env,
    );
    const v = this.variable('w', type, convert(start, type));
    const then: Stmt[] = [];
    const other: Stmt[] = [];
    if (!invert) {
      this.within(then, true, () => {
        this.set(v, convert(this.expr(e.then, env), type));
      });
    }
    if (invert || !simple(e.else)) {
      this.within(other, true, () => {
        this.set(v, convert(this.expr(e.else, env), type));
      });
    }
    this.emit({ s: 'if', cond: c, then, else: other });
    // It changes no more: as good as a let of this scope.
    return v;
  }
}

/** Turns of a loop that is written out whole. */
const SHORT = 8;
/** Expression nodes that the turns of an unrolled loop may have together, over all points of a register tile. */
const MOST_UNROLLED = 2048;
const NO_ENV: Env = new Map();
/** Expression nodes that a piecewise expression may hold to be computed without a branch. */
const CHEAP_BRANCHES = 24;

function note(map: Map<ValueId, Set<ValueId>>, buffer: ValueId, value: ValueId): void {
  const set = map.get(buffer);
  if (set) set.add(value);
  else map.set(buffer, new Set([value]));
}

export function pointKey(value: ValueId, point: Point): string {
  let k = `${value} @`;
  for (const p of point) k += ` ${p.key},`;
  return k;
}

function bindDims(c: Compute, point: Point): Env {
  const env = new Map<string, IndexExpr>();
  c.dims.forEach((d, i) => env.set(d.name, point[i] ?? I.num(0)));
  return env;
}

function bindAll(c: Compute, point: Point, over: readonly IndexExpr[]): Env {
  const env = new Map<string, IndexExpr>();
  c.dims.forEach((d, i) => env.set(d.name, point[i] ?? I.num(0)));
  c.reduce.forEach((d, i) => env.set(d.name, over[i] ?? I.num(0)));
  return env;
}
