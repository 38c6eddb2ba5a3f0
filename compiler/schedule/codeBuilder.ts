/**
 * Writes L3: scopes, names, statements and index arithmetic, with what is computed already remembered
 * where it was computed. Pure code moves out to the outermost scope that has its operands.
 */
import type { Expr } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { Atom, IndexExpr } from '../ir/indexExpr';
import { Known } from './known';
import {
  type GridVar,
  type IntFn,
  type KExpr,
  type KType,
  printK,
  type SharedArray,
  type Stmt,
} from './kernelIr';
import { convert, lit } from './scalars';

interface Scope {
  readonly stmts: Stmt[];
  /** A branch: loads inside must not move out of it. */
  readonly guard: boolean;
}

function safeName(name: string): string {
  const s = name
    .replace(/[^A-Za-z0-9]+/g, '_')
    .replace(/^_+|_+$/g, '')
    .slice(0, 24);
  return /^[A-Za-z]/.test(s) ? s : `v${s ? `_${s}` : ''}`;
}

export abstract class CodeBuilder {
  private readonly scopes: Scope[] = [{ stmts: [], guard: false }];
  /** What is computed already: index expressions by key; atoms, elements and loads by what they are. */
  protected readonly indices = new Known();
  protected readonly known = new Known();
  /** The counters of the loops around, outermost first. */
  protected readonly loopVars: IndexExpr[] = [];
  protected readonly varDepth = new Map<string, number>();
  private readonly used = new Set<string>();
  /** The last number given to a name. */
  private readonly suffixes = new Map<string, number>();
  private names = 0;
  /** The variables that differ between the invocations of a workgroup. */
  readonly lanes = new Map<string, (lid: number) => number>();
  /** The variables that tell where a workgroup is. */
  readonly grid = new Map<string, GridVar>();
  readonly symbols = new Set<string>();
  readonly shared: SharedArray[] = [];

  constructor(
    /** Code that is only counted: its names mean nothing. */
    private readonly draft: boolean,
  ) {}

  /** A run-time integer inside an index, evaluated. */
  protected abstract runTimeIndex(e: Expr): KExpr;

  get body(): Stmt[] {
    return this.scope(0).stmts;
  }

  protected scope(i: number): Scope {
    const s = this.scopes[i];
    if (!s) throw new Error(`no scope ${i}`);
    return s;
  }

  get depth(): number {
    return this.scopes.length - 1;
  }

  /** A name that nothing else in the kernel has; drafts are never read, and count. */
  fresh(hint: string): string {
    if (this.draft) return `t${this.names++}`;
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

  protected within<T>(stmts: Stmt[], guard: boolean, f: () => T): T {
    this.scopes.push({ stmts, guard });
    this.indices.enter();
    this.known.enter();
    const r = f();
    this.scopes.pop();
    this.indices.leave();
    this.known.leave();
    return r;
  }

  /** A counted loop; `f` gets the counter as an index expression. `end`: where it ends, if before its extent. */
  loop(
    hint: string,
    extent: IndexExpr,
    f: (i: IndexExpr) => void,
    end?: KExpr,
    /** Turns on average, where it mostly ends before. */
    trips = extent,
  ): void {
    const name = this.fresh(hint);
    const v = I.loopVar(name, extent);
    const to = end ?? this.index(extent);
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
      step: 1,
      trips,
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
  bindVar(
    hint: string,
    extent: IndexExpr,
    value: KExpr,
    /** The same for an invocation of the first workgroup, by its number. */
    ofLocal?: (lid: number) => number,
    grid?: GridVar,
  ): IndexExpr {
    const name = this.fresh(hint);
    if (grid) this.grid.set(name, grid);
    if (ofLocal) this.lanes.set(name, ofLocal);
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

  /** What a variable is now. */
  frozen(hint: string, e: KExpr): KExpr {
    const name = this.fresh(hint);
    this.emit({ s: 'let', name, expr: e });
    return this.ref(name, e.type);
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

  protected recall(key: string): KExpr | undefined {
    return this.known.get(key);
  }

  protected remember(key: string, e: KExpr): void {
    this.known.set(key, e, e.depth);
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
        const v = this.let('at', convert(this.runTimeIndex(a.expr), 'i32'));
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

  /** A named condition; equal ones in reach are one. */
  protected condition(cond: KExpr): KExpr {
    return this.shareable(cond, 'inside');
  }

  /** Named, and one with equal expressions in reach: a register tile asks for the same many times. */
  protected shareable(e: KExpr, hint = 'w'): KExpr {
    const key = `same ${printK(e)}`;
    const known = this.recall(key);
    if (known) return known;
    const named = this.let(hint, e);
    this.remember(key, named);
    return named;
  }
}
