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
import { type DType, isUnsigned, storageOf } from '../graph/dtype';
import type { Compute, Monoid, Program } from '../ir/compute';
import type { Expr, IndexCond, ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { Atom, IndexExpr } from '../ir/indexExpr';
import { Known } from './known';
import {
  type IntFn,
  type KExpr,
  type KType,
  printK,
  type SharedArray,
  type Stmt,
} from './kernelIr';

export type Point = readonly IndexExpr[];
type Env = ReadonlyMap<string, IndexExpr>;

interface Scope {
  readonly stmts: Stmt[];
  /** A branch: loads inside must not move out of it. */
  readonly guard: boolean;
}

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
  /** Code that is only counted: its names mean nothing. */
  readonly draft?: boolean;
  /** Step of innermost reduction loops whose extent is a multiple of it. */
  readonly unroll?: number;
}

export function ktype(d: DType): KType {
  if (d === 'bool') return 'bool';
  if (d === 'f32' || d === 'f16' || d === 'bf16' || d === 'f64') return 'f32';
  return isUnsigned(d) ? 'u32' : 'i32';
}

export function lit(value: number, type: KType): KExpr {
  return { k: 'lit', value, type, depth: 0 };
}

function safeName(name: string): string {
  const s = name
    .replace(/[^A-Za-z0-9]+/g, '_')
    .replace(/^_+|_+$/g, '')
    .slice(0, 24);
  return /^[A-Za-z]/.test(s) ? s : `v${s ? `_${s}` : ''}`;
}

const MONOID_OP = {
  sum: 'add',
  prod: 'mul',
  max: 'max',
  min: 'min',
  and: 'and',
  or: 'or',
} as const;

export class Builder {
  private readonly scopes: Scope[] = [{ stmts: [], guard: false }];
  /** What is computed already: index expressions by key; atoms, elements and loads by what they are. */
  private readonly indices = new Known();
  private readonly known = new Known();
  private readonly loopVars: IndexExpr[] = [];
  private readonly varDepth = new Map<string, number>();
  private readonly used = new Set<string>();
  /** The last number given to a name. */
  private readonly suffixes = new Map<string, number>();
  private names = 0;
  readonly symbols = new Set<string>();
  readonly shared: SharedArray[] = [];
  readonly loads = new Set<ValueId>();
  readonly stores = new Set<ValueId>();
  /** Reductions evaluated inside, by serial loops. */
  readonly serial: Demand[] = [];
  /** Where each load touched memory: for footprints and for choosing vector bindings. */
  readonly accesses: {
    readonly value: ValueId;
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
    this.members = new Map(members.map((c) => [c.value, c]));
  }

  get body(): Stmt[] {
    return this.scope(0).stmts;
  }

  private scope(i: number): Scope {
    const s = this.scopes[i];
    if (!s) throw new Error(`no scope ${i}`);
    return s;
  }

  get depth(): number {
    return this.scopes.length - 1;
  }

  /** A name that nothing else in the kernel has; drafts are never read, and count. */
  fresh(hint: string): string {
    if (this.options.draft) return `t${this.names++}`;
    const base = safeName(hint);
    let n = this.suffixes.get(base) ?? 0;
    let name = base;
    while (this.used.has(name)) name = `${base}_${++n}`;
    this.suffixes.set(base, n);
    this.used.add(name);
    return name;
  }

  // -- Scopes and statements --------------------------------------------------------------------

  emit(s: Stmt, depth = this.depth): void {
    this.scope(depth).stmts.push(s);
  }

  private within<T>(stmts: Stmt[], guard: boolean, f: () => T): T {
    this.scopes.push({ stmts, guard });
    this.indices.enter();
    this.known.enter();
    const r = f();
    this.scopes.pop();
    this.indices.leave();
    this.known.leave();
    return r;
  }

  /** A counted loop; `f` gets the counter as an index expression. */
  loop(hint: string, extent: IndexExpr, f: (i: IndexExpr) => void, step = 1): void {
    const name = this.fresh(hint);
    const v = I.loopVar(name, extent);
    const to = this.index(extent);
    const stmts: Stmt[] = [];
    this.varDepth.set(name, this.depth + 1);
    this.loopVars.push(v);
    this.within(stmts, false, () => f(v));
    this.loopVars.pop();
    this.emit({
      s: 'for',
      name,
      from: lit(0, 'i32'),
      to,
      step,
      trips: I.ceilDiv(extent, step),
      body: stmts,
    });
  }

  guarded(cond: KExpr, f: () => void): void {
    if (cond.k === 'lit') {
      if (cond.value) f();
      return;
    }
    const stmts: Stmt[] = [];
    this.within(stmts, true, f);
    this.emit({ s: 'if', cond, then: stmts, else: [] });
  }

  /** Declares an index variable that the template computed itself (from a builtin id). */
  bindVar(hint: string, extent: IndexExpr, value: KExpr): IndexExpr {
    const name = this.fresh(hint);
    this.emit({ s: 'let', name, expr: value });
    this.varDepth.set(name, this.depth);
    return I.loopVar(name, extent);
  }

  /** Invocations at or beyond `end` have nothing to do. */
  exitUnless(i: IndexExpr, end: IndexExpr): void {
    this.emit({ s: 'exitUnless', index: this.index(i), end: this.index(end) });
  }

  comment(text: string): void {
    this.emit({ s: 'comment', text });
  }

  ref(name: string, type: KType, depth = this.depth): KExpr {
    return { k: 'ref', name, type, depth };
  }

  /** A mutable variable in the current scope. */
  variable(hint: string, type: KType, init: KExpr): KExpr {
    const name = this.fresh(hint);
    this.emit({ s: 'var', name, type, init });
    return this.ref(name, type);
  }

  set(target: KExpr, expr: KExpr): void {
    if (target.k === 'ref') this.emit({ s: 'set', name: target.name, expr });
  }

  /** Names a pure expression in the outermost scope that has its operands. */
  let(hint: string, expr: KExpr): KExpr {
    if (expr.k === 'lit' || expr.k === 'ref' || expr.k === 'sym') return expr;
    const name = this.fresh(hint);
    this.emit({ s: 'let', name, expr }, expr.depth);
    return this.ref(name, expr.type, expr.depth);
  }

  private recall(key: string): KExpr | undefined {
    return this.known.get(key);
  }

  private remember(key: string, e: KExpr): void {
    this.known.set(key, e, e.depth);
  }

  /** Makes `value` at `point` known to be `e`: how templates hand in what they computed together. */
  define(value: ValueId, point: Point, e: KExpr): void {
    this.known.set(pointKey(value, point), e, this.depth);
  }

  // -- Index expressions ------------------------------------------------------------------------

  index(e: IndexExpr): KExpr {
    if (e.terms.length === 0) return lit(e.c, 'i32');
    const known = this.indices.get(e.key);
    if (known) return known;
    // Outer loops' shares first, each sum named where it is known: inside a loop only its own share
    // is added, and reads that differ by a constant have one base.
    const parts = e.terms.map((t) => {
      let p: KExpr | undefined;
      for (const f of t.factors) {
        const a = this.atom(f);
        p = p ? this.int('imul', p, a) : a;
      }
      return { expr: p ?? lit(1, 'i32'), coef: t.coef, key: `${t.coef}*${t.key}` };
    });
    if (parts.length > 1) parts.sort((x, y) => x.expr.depth - y.expr.depth);
    let sum: KExpr | undefined;
    let key = '+';
    parts.forEach((part, i) => {
      const negative = sum !== undefined && part.coef < 0;
      const c = negative ? -part.coef : part.coef;
      const p = c === 1 ? part.expr : this.int('imul', part.expr, lit(c, 'i32'));
      sum = sum ? this.int(negative ? 'isub' : 'iadd', sum, p) : p;
      key += ` ${part.key}`;
      const next = parts[i + 1];
      if (next && next.expr.depth === part.expr.depth) return;
      const named = this.indices.get(key) ?? this.let('i', sum);
      this.indices.set(key, named, named.depth);
      sum = named;
    });
    let r = sum ?? lit(0, 'i32');
    if (e.c !== 0) r = this.int(e.c < 0 ? 'isub' : 'iadd', r, lit(Math.abs(e.c), 'i32'));
    this.indices.set(e.key, r, r.depth);
    return r;
  }

  private atom(a: Atom): KExpr {
    switch (a.kind) {
      case 'var':
        return this.ref(a.name, 'i32', this.varDepth.get(a.name) ?? 0);
      case 'sym':
        this.symbols.add(a.name);
        return { k: 'sym', name: a.name, type: 'i32', depth: 0 };
      case 'dyn': {
        const known = this.recall(`atom ${a.key}`);
        if (known) return known;
        const v = this.let('at', this.convert(this.expr(a.expr, NO_ENV), 'i32'));
        this.remember(`atom ${a.key}`, v);
        return v;
      }
      case 'floordiv':
      case 'mod': {
        const known = this.recall(`atom ${a.key}`);
        if (known) return known;
        const x = this.index(a.a);
        const y = this.index(a.b);
        let e: KExpr;
        if (I.provablyNonNegative(a.a)) e = this.int(a.kind === 'mod' ? 'imod' : 'idiv', x, y);
        else
          e = {
            k: 'floor',
            fn: a.kind === 'mod' ? 'floormod' : 'floordiv',
            a: x,
            b: y,
            type: 'i32',
            depth: Math.max(x.depth, y.depth),
          };
        const r = this.let('q', e);
        this.remember(`atom ${a.key}`, r);
        return r;
      }
      case 'min':
      case 'max':
        return this.int(a.kind === 'min' ? 'imin' : 'imax', this.index(a.a), this.index(a.b));
    }
  }

  int(fn: IntFn, a: KExpr, b: KExpr): KExpr {
    return { k: 'int', fn, a, b, type: 'i32', depth: Math.max(a.depth, b.depth) };
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

  private nameOf(value: ValueId): string {
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
      forEachLoad(c.body, (l) => {
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
    // Not into `when`: its branches are evaluated where they are taken.
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
        case 'const':
        case 'index':
        case 'when':
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
      const step = k === c.reduce.length - 1 ? this.unrollStep(r.extent) : 1;
      this.loop(
        r.name,
        r.extent,
        (i) => {
          for (let u = 0; u < step; u++) {
            over[k] = I.add(i, u);
            nest(k + 1);
          }
        },
        step,
      );
      over.length = k;
    };
    nest(0);
    points.forEach((p, i) => {
      const acc = accs[i];
      if (acc) this.define(c.value, p, this.finish(c, acc));
    });
  }

  private unrollStep(extent: IndexExpr): number {
    const u = this.options.unroll ?? 1;
    return u > 1 && I.exactDiv(extent, u) ? u : 1;
  }

  /** The reduction's body at several points with the reduction dims bound to `over`. */
  bodies(c: Compute, points: readonly Point[], over: readonly IndexExpr[]): KExpr[] {
    const envs = points.map((p) => bindAll(c, p, over));
    if (points.length > 1 && this.bodyReductive(c)) this.prefetch(c.body, envs);
    return envs.map((env) =>
      this.convert(
        this.expr(c.body, env),
        ktype(c.accumulator === 'bool' ? c.body.dtype : c.body.dtype),
      ),
    );
  }

  private bodyReductive(c: Compute): boolean {
    let found = false;
    forEachLoad(c.body, (l) => {
      const m = this.members.get(l.value);
      if (m && this.hasReduction(m)) found = true;
    });
    return found;
  }

  // -- Accumulators (also used by templates that reduce cooperatively) ---------------------------

  accumulator(c: Compute, monoid: Monoid, name: string): Accumulator {
    if (monoid.kind === 'argmax' || monoid.kind === 'argmin') {
      const t = ktype(c.body.dtype);
      const best = this.variable(`${name}_best`, t, identity(monoid, t));
      const at = this.variable(`${name}_at`, 'i32', lit(-1, 'i32'));
      return { value: best, at };
    }
    const t = ktype(c.accumulator);
    return { value: this.variable(name, t, identity(monoid, t)) };
  }

  accumulate(acc: Accumulator, monoid: Monoid, x: KExpr, position: () => KExpr): void {
    const depth = Math.max(acc.value.depth, x.depth);
    if (monoid.kind === 'argmax' || monoid.kind === 'argmin') {
      if (!acc.at) throw new Error('an arg reduction without a position');
      this.takeBetter(acc, monoid, { value: this.let('x', x), at: position() });
      return;
    }
    const t = acc.value.type;
    const y = this.convert(x, t);
    this.set(acc.value, {
      k: 'binary',
      fn: MONOID_OP[monoid.kind],
      a: acc.value,
      b: y,
      type: t,
      depth,
    });
  }

  /** Combines a second partial result into the first. */
  combine(acc: Accumulator, monoid: Monoid, other: { value: KExpr; at?: KExpr }): void {
    if ((monoid.kind === 'argmax' || monoid.kind === 'argmin') && other.at)
      this.takeBetter(acc, monoid, { value: other.value, at: other.at });
    else this.accumulate(acc, monoid, other.value, () => lit(0, 'i32'));
  }

  private takeBetter(
    acc: Accumulator,
    monoid: Monoid & { kind: 'argmax' | 'argmin' },
    x: { value: KExpr; at: KExpr },
  ): void {
    const at = acc.at;
    if (!at) return;
    const d = this.depth;
    const cmp = (fn: 'gt' | 'lt' | 'eq' | 'ge', a: KExpr, b: KExpr): KExpr => ({
      k: 'binary',
      fn,
      a,
      b,
      type: 'bool',
      depth: d,
    });
    const or = (a: KExpr, b: KExpr): KExpr => ({
      k: 'binary',
      fn: 'or',
      a,
      b,
      type: 'bool',
      depth: d,
    });
    const and = (a: KExpr, b: KExpr): KExpr => ({
      k: 'binary',
      fn: 'and',
      a,
      b,
      type: 'bool',
      depth: d,
    });
    const strictly = cmp(monoid.kind === 'argmax' ? 'gt' : 'lt', x.value, acc.value);
    const tie = and(cmp('eq', x.value, acc.value), cmp(monoid.last ? 'gt' : 'lt', x.at, at));
    const first = cmp('lt', at, lit(0, 'i32'));
    const valid = cmp('ge', x.at, lit(0, 'i32'));
    const better = and(valid, or(first, or(strictly, tie)));
    const stmts: Stmt[] = [];
    this.within(stmts, true, () => {
      this.set(acc.value, x.value);
      this.set(at, x.at);
    });
    this.emit({ s: 'if', cond: better, then: stmts, else: [] });
  }

  /** The reduction's result in the value's own dtype. */
  finish(c: Compute, acc: Accumulator): KExpr {
    const raw = acc.at ? this.binary('max', acc.at, lit(0, 'i32')) : acc.value;
    // A variable changes: freeze what it is now.
    const name = this.fresh(`${this.nameOf(c.value)}_r`);
    const e = this.narrow(
      this.convert(raw, ktype(c.dtype)),
      acc.at ? 'i32' : c.accumulator,
      c.dtype,
    );
    this.emit({ s: 'let', name, expr: e });
    return this.ref(name, ktype(c.dtype));
  }

  private binary(fn: 'max', a: KExpr, b: KExpr): KExpr {
    return { k: 'binary', fn, a, b, type: a.type, depth: Math.max(a.depth, b.depth) };
  }

  // -- Memory -----------------------------------------------------------------------------------

  linear(value: ValueId, point: Point): IndexExpr {
    const v = this.program.values.get(value);
    if (!v) throw new Error(`no value ${value}`);
    return I.linearise(point, v.shape);
  }

  private load(value: ValueId, point: Point): KExpr {
    const v = this.program.values.get(value);
    if (!v) throw new Error(`no value ${value}`);
    this.loads.add(value);
    const lin = this.linear(value, point);
    const key = `load ${value} ${lin.key}`;
    const known = this.recall(key);
    if (known) return known;
    this.accesses.push({ value, linear: lin, store: false, point, batch: 0 });
    const storage = storageOf(v.dtype, this.options.f16 ?? false);
    const type: KType = storage === 'f16' ? 'f32' : storage;
    let e: KExpr;
    if (this.options.vector?.has(value)) {
      const q = I.floorDiv(lin, 4);
      const lane = I.mod(lin, 4);
      const vecKey = `vec ${value} ${q.key}`;
      let vec = this.recall(vecKey);
      const at = this.index(q);
      if (!vec) {
        const name = this.fresh(`${v.name}_4`);
        const depth = this.loadDepth(at.depth);
        this.emit({ s: 'loadVec', name, type, buffer: value, index: at, linear: lin }, depth);
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
      this.emit({ s: 'load', name, type, buffer: value, index: at, linear: lin }, depth);
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
    this.stores.add(value);
    const storage = storageOf(v.dtype, this.options.f16 ?? false);
    const type: KType = storage === 'f16' ? 'f32' : storage;
    const lins = points.map((p) => this.linear(value, p));
    const out = values.map((e) => this.toStorage(e, type));
    this.batches++;
    lins.forEach((linear, i) => {
      const point = points[i];
      this.accesses.push({
        value,
        linear,
        store: true,
        batch: this.batches,
        ...(point ? { point } : {}),
      });
    });
    if (!this.options.vector?.has(value)) {
      lins.forEach((linear, i) => {
        const x = out[i];
        if (x)
          this.emit({ s: 'store', buffer: value, index: this.index(linear), value: x, linear });
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
        buffer: value,
        index: this.index(g.q),
        values: lanes,
        linear: g.linear,
      });
    }
  }

  private toStorage(e: KExpr, type: KType): KExpr {
    return this.convert(e, type);
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
    const named = this.let('at', this.convert(this.expr(a.expr, env), 'i32'));
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
        return this.convert(this.index(this.subst(e.index, env)), ktype(e.dtype));
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
        return this.narrow(this.castTo(a, e.a.dtype, e.dtype), e.a.dtype, e.dtype);
      }
    }
  }

  private castTo(a: KExpr, from: DType, to: DType): KExpr {
    const t = ktype(to);
    if (t === 'bool' && a.type !== 'bool') {
      return { k: 'binary', fn: 'ne', a, b: lit(0, a.type), type: 'bool', depth: a.depth };
    }
    if (a.type === 'f32' && t === 'u32' && from !== 'bool') {
      // Through i32, so that negative numbers wrap as they do elsewhere.
      if (to === 'u8' || to === 'u16') return this.convert(this.convert(a, 'i32'), 'u32');
    }
    return this.convert(a, t);
  }

  convert(a: KExpr, type: KType): KExpr {
    if (a.type === type) return a;
    if (a.k === 'lit') {
      if (type === 'f32') return lit(a.value, 'f32');
      if (Number.isFinite(a.value) && type !== 'bool')
        return lit(type === 'u32' ? Math.trunc(a.value) >>> 0 : Math.trunc(a.value) | 0, type);
    }
    return { k: 'convert', a, type, depth: a.depth };
  }

  private narrow(a: KExpr, from: DType, to: DType): KExpr {
    if (from === to) return a;
    switch (to) {
      case 'i8':
        return from === 'bool' ? a : { k: 'narrow', to, a, type: 'i32', depth: a.depth };
      case 'u8':
        return from === 'bool' ? a : { k: 'narrow', to, a, type: 'u32', depth: a.depth };
      case 'i16':
        return from === 'i8' || from === 'u8' || from === 'bool'
          ? a
          : { k: 'narrow', to, a, type: 'i32', depth: a.depth };
      case 'u16':
        return from === 'u8' || from === 'bool'
          ? a
          : { k: 'narrow', to, a, type: 'u32', depth: a.depth };
      case 'f16':
      case 'bf16':
        return from === 'bool' ? a : { k: 'narrow', to, a, type: 'f32', depth: a.depth };
      default:
        return a;
    }
  }

  /** A named condition; equal ones in reach are one. */
  private condition(cond: KExpr): KExpr {
    return this.shareable(cond, 'inside');
  }

  /** Named, and one with equal expressions in reach: a register tile asks for the same many times. */
  private shareable(e: KExpr, hint = 'w'): KExpr {
    const key = `same ${printK(e)}`;
    const known = this.recall(key);
    if (known) return known;
    const named = this.let(hint, e);
    this.remember(key, named);
    return named;
  }

  /** Expression nodes, those of inlined members too; infinite with a reduction in it. */
  private cheap(e: Expr, depth = 0): number {
    if (depth > 8) return Infinity;
    switch (e.op) {
      case 'const':
      case 'index':
        return 0;
      case 'load': {
        const m = this.members.get(e.value);
        if (!m) return 1;
        return m.monoid ? Infinity : 1 + this.cheap(m.body, depth + 1);
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
      const above = I.provablyLe(lo, i);
      const below = I.provablyLe(I.add(i, 1), hi);
      if (above && below) continue;
      if (I.provablyLe(I.add(i, 1), lo) || I.provablyLe(hi, i))
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
      const then = this.convert(this.expr(e.then, env), type);
      const other = this.convert(this.expr(e.else, env), type);
      const depth = Math.max(c.depth, then.depth, other.depth);
      return this.shareable({ k: 'select', cond: c, then, else: other, type, depth });
    }
    // A variable set in a branch: what is in the branch is not evaluated outside it.
    const invert = simple(e.then) && !simple(e.else);
    const start = this.expr(
      invert ? e.then : simple(e.else) ? e.else : { op: 'const', value: 0, dtype: e.dtype },
      env,
    );
    const v = this.variable('w', type, this.convert(start, type));
    const then: Stmt[] = [];
    const other: Stmt[] = [];
    if (!invert) {
      this.within(then, true, () => {
        this.set(v, this.convert(this.expr(e.then, env), type));
      });
    }
    if (invert || !simple(e.else)) {
      this.within(other, true, () => {
        this.set(v, this.convert(this.expr(e.else, env), type));
      });
    }
    this.emit({ s: 'if', cond: c, then, else: other });
    // It changes no more: as good as a let of this scope.
    return v;
  }
}

export interface Accumulator {
  readonly value: KExpr;
  /** Arg reductions: the position; negative before the first element. */
  readonly at?: KExpr;
}

const NO_ENV: Env = new Map();
/** Expression nodes that a piecewise expression may hold to be computed without a branch. */
const CHEAP_BRANCHES = 24;

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

function forEachLoad(e: Expr, f: (l: Expr & { op: 'load' }) => void): void {
  switch (e.op) {
    case 'const':
      return;
    case 'index':
      dynLoads(e.index, f);
      return;
    case 'load':
      f(e);
      for (const i of e.index) dynLoads(i, f);
      return;
    case 'unary':
    case 'cast':
      forEachLoad(e.a, f);
      return;
    case 'binary':
      forEachLoad(e.a, f);
      forEachLoad(e.b, f);
      return;
    case 'select':
      forEachLoad(e.cond, f);
      forEachLoad(e.then, f);
      forEachLoad(e.else, f);
      return;
    case 'when':
      for (const c of e.conds) dynLoads(c.index, f);
      forEachLoad(e.then, f);
      forEachLoad(e.else, f);
      return;
  }
}

function dynLoads(i: IndexExpr, f: (l: Expr & { op: 'load' }) => void): void {
  I.visitAtoms(i, (a) => {
    if (a.kind === 'dyn') forEachLoad(a.expr, f);
  });
}
