/**
 * Writes index expressions and scalar expressions as JavaScript, into the blocks that hold them. The
 * loops around them are codegen.ts's business.
 *
 * Vocabulary
 *  - *copy*: one of the results that are computed together, given by its offsets along the jammed loops.
 *  - *decision*: the outcome of a condition that the surrounding copy of a loop was made for.
 */
import type { Expr, IndexCond, ValueId } from '../ir/expr';
import {
  add,
  lowerBound,
  num,
  sub,
  upperBound,
  type Atom,
  type IndexExpr,
  type Term,
} from '../ir/indexExpr';
import { Block, literal, type Operand } from './blocks';
import { variablesOf, type Loop } from './nest';
import { binaryText, castText, unaryText } from './scalar';

export type Copy = ReadonlyMap<string, number>;

export interface Decision {
  readonly key: string;
  readonly holds: boolean;
}

export const NO_OFFSETS: Copy = new Map();

export class ExpressionWriter {
  /** The values read, in the order of the arrays that the generated function is given. */
  readonly loads: ValueId[] = [];
  decisions: readonly Decision[] = [];
  private copy: Copy = NO_OFFSETS;
  private readonly levels = new Map<string, number>();
  private readonly exprVariables = new Map<Expr, ReadonlySet<string>>();
  private readonly ids = new Map<Expr, number>();
  private counter = 0;

  constructor(
    loops: readonly Loop[],
    private readonly fill: (value: ValueId) => number | undefined,
  ) {
    loops.forEach((l, i) => this.levels.set(l.name, i));
  }

  levelOf(variable: string): number {
    return this.levels.get(variable) ?? -1;
  }

  fresh(): string {
    return `t${this.counter++}`;
  }

  // -------------------------------------------------------------------------------------------
  // Names

  enter(copy: Copy): void {
    this.copy = copy;
  }

  /** Gives the text a name in the outermost block that may hold it. */
  private name(block: Block, text: string, level: number, pinned: boolean): Operand {
    const old = block.find(text);
    if (old) return { text: old, level, pinned };
    const home = block.home(level, pinned);
    const name = this.fresh();
    home.pre.push(`const ${name} = ${text};`);
    home.names.set(text, name);
    return { text: name, level, pinned };
  }

  private arrayOf(value: ValueId): string {
    let i = this.loads.indexOf(value);
    if (i < 0) i = this.loads.push(value) - 1;
    return `a${i}`;
  }

  // -------------------------------------------------------------------------------------------
  // Index expressions

  levelOfIndex(e: IndexExpr): number {
    let level = -1;
    for (const v of variablesOf(e)) level = Math.max(level, this.levels.get(v) ?? -1);
    return level;
  }

  /** The index as an operand, ready to stand in brackets or in a comparison. */
  index(block: Block, e: IndexExpr): Operand {
    let { c } = e;
    const byLevel = new Map<number, Operand[]>();
    let stride = 0;
    const running = block.loop;
    for (const t of e.terms) {
      const [f] = t.factors;
      if (t.factors.length === 1 && f?.kind === 'var') {
        c += t.coef * (this.copy.get(f.name) ?? 0);
        if (running?.variable === f.name) {
          stride += t.coef;
          continue;
        }
      }
      const o = this.term(block, t);
      byLevel.set(o.level, [...(byLevel.get(o.level) ?? []), o]);
    }
    let sum: Operand = { text: '', level: -1, pinned: false };
    for (const level of [...byLevel.keys()].sort((a, b) => a - b)) {
      for (const o of byLevel.get(level) ?? []) {
        const pinned = sum.pinned || o.pinned;
        sum = sum.text
          ? this.name(block, `(${sum.text} + ${o.text}) | 0`, level, pinned)
          : { ...o, level, pinned };
      }
    }
    if (stride !== 0 && running) {
      if (sum.level < running.level && !sum.pinned)
        sum = {
          text: running.index(sum.text || '0', stride, () => this.fresh()),
          level: running.level,
          pinned: false,
        };
      else {
        const step = `Math.imul(${running.variable}, ${stride})`;
        const text = sum.text ? `(${sum.text} + ${step}) | 0` : step;
        sum = this.name(block, text, running.level, sum.pinned);
      }
    }
    if (!sum.text) return { text: literal(c), level: -1, pinned: false };
    return c === 0 ? sum : { ...sum, text: `((${sum.text} + ${literal(c)}) | 0)` };
  }

  private term(block: Block, t: Term): Operand {
    let text = '';
    let level = -1;
    let pinned = false;
    const single = t.factors.length === 1;
    for (const f of t.factors) {
      // The offset of a single variable is in the constant already.
      const o = this.atom(block, f, single);
      text = text ? `Math.imul(${text}, ${o.text})` : o.text;
      level = Math.max(level, o.level);
      pinned ||= o.pinned;
    }
    if (t.coef !== 1) text = `Math.imul(${text}, ${literal(t.coef)})`;
    return text.startsWith('Math')
      ? this.name(block, text, level, pinned)
      : { text, level, pinned };
  }

  private atom(block: Block, f: Atom, plain: boolean): Operand {
    switch (f.kind) {
      case 'var': {
        const offset = plain ? 0 : (this.copy.get(f.name) ?? 0);
        const level = this.levels.get(f.name) ?? -1;
        return { text: offset ? `(${f.name} + ${offset})` : f.name, level, pinned: false };
      }
      case 'sym':
        throw new Error(`the size ${f.name} has no value`);
      case 'dyn': {
        const o = this.expr(block, f.expr);
        return this.name(block, `${o.text} | 0`, o.level, o.pinned);
      }
      case 'floordiv':
      case 'mod':
      case 'min':
      case 'max': {
        const a = this.index(block, f.a);
        const b = this.index(block, f.b);
        const level = Math.max(a.level, b.level);
        return this.name(block, divText(f, a.text, b.text), level, a.pinned || b.pinned);
      }
    }
  }

  /** All conditions as one boolean operand, or its value where the ranges settle it. */
  condition(block: Block, conds: readonly IndexCond[]): Operand | boolean {
    const parts: string[] = [];
    let level = -1;
    let pinned = false;
    for (const c of conds) {
      const below = sub(c.index, c.lo);
      const above = sub(c.hi, add(c.index, 1));
      if (upperBound(below) < 0 || upperBound(above) < 0) return false;
      const index = this.index(block, c.index);
      for (const [difference, bound, op] of [
        [below, c.lo, '>='],
        [above, c.hi, '<'],
      ] as const) {
        if (lowerBound(difference) >= 0) continue;
        const o = this.index(block, bound);
        parts.push(`${index.text} ${op} ${o.text}`);
        level = Math.max(level, index.level, o.level);
        pinned ||= index.pinned || o.pinned;
      }
    }
    if (parts.length === 0) return true;
    return this.name(block, parts.join(' && '), level, pinned);
  }

  // -------------------------------------------------------------------------------------------
  // Expressions

  /** The loop variables an expression depends on. */
  private variablesOfExpr(e: Expr): ReadonlySet<string> {
    const old = this.exprVariables.get(e);
    if (old) return old;
    const names = new Set<string>();
    const take = (more: Iterable<string>): void => {
      for (const n of more) names.add(n);
    };
    switch (e.op) {
      case 'const':
        break;
      case 'index':
        take(variablesOf(e.index));
        break;
      case 'load':
        for (const i of e.index) take(variablesOf(i));
        break;
      case 'unary':
      case 'cast':
        take(this.variablesOfExpr(e.a));
        break;
      case 'binary':
        for (const x of [e.a, e.b]) take(this.variablesOfExpr(x));
        break;
      case 'select':
        for (const x of [e.cond, e.then, e.else]) take(this.variablesOfExpr(x));
        break;
      case 'when':
        for (const c of e.conds) for (const i of [c.index, c.lo, c.hi]) take(variablesOf(i));
        for (const x of [e.then, e.else]) take(this.variablesOfExpr(x));
        break;
    }
    this.exprVariables.set(e, names);
    return names;
  }

  private levelOfExpr(e: Expr): number {
    let level = -1;
    for (const v of this.variablesOfExpr(e)) level = Math.max(level, this.levels.get(v) ?? -1);
    return level;
  }

  /** What an expression's operand is remembered by: the same for all jammed copies that don't change it. */
  private memoKey(e: Expr): string {
    let id = this.ids.get(e);
    if (id === undefined) {
      id = this.ids.size;
      this.ids.set(e, id);
    }
    const variables = this.variablesOfExpr(e);
    let key = String(id);
    for (const [name, offset] of this.copy) if (variables.has(name)) key += ` ${name}+${offset}`;
    return key;
  }

  expr(block: Block, e: Expr): Operand {
    if (e.op === 'const') return { text: literal(e.value), level: -1, pinned: false };
    const key = this.memoKey(e);
    const old = block.recall(key);
    if (old) return old;
    const o = this.build(block, e);
    // Kept in this block, not further out: it may rest on the decisions made on the way here.
    block.memo.set(key, o);
    return o;
  }

  private build(block: Block, e: Exclude<Expr, { op: 'const' }>): Operand {
    switch (e.op) {
      case 'index':
        return this.index(block, e.index);
      case 'load': {
        const constant = this.fill(e.value);
        if (constant !== undefined) return { text: literal(constant), level: -1, pinned: false };
        const at = this.index(block, e.index[0] ?? num(0));
        return this.name(block, `${this.arrayOf(e.value)}[${at.text}]`, at.level, true);
      }
      case 'unary': {
        const a = this.expr(block, e.a);
        return this.name(block, unaryText(e.fn, a.text, e.a.dtype), a.level, a.pinned);
      }
      case 'cast': {
        const a = this.expr(block, e.a);
        const text = castText(a.text, e.a.dtype, e.dtype);
        return text === a.text ? a : this.name(block, text, a.level, a.pinned);
      }
      case 'binary': {
        const a = this.expr(block, e.a);
        const b = this.expr(block, e.b);
        const text = binaryText(e.fn, a.text, b.text, e.a.dtype);
        return this.name(block, text, Math.max(a.level, b.level), a.pinned || b.pinned);
      }
      case 'select': {
        const c = this.expr(block, e.cond);
        const a = this.expr(block, e.then);
        const b = this.expr(block, e.else);
        const text = `${c.text} !== 0 ? ${a.text} : ${b.text}`;
        const level = Math.max(a.level, b.level, c.level);
        return this.name(block, text, level, a.pinned || b.pinned || c.pinned);
      }
      case 'when':
        return this.when(block, e);
    }
  }

  private when(block: Block, e: Expr & { op: 'when' }): Operand {
    const known = this.condition(block, e.conds);
    if (known === true) return this.expr(block, e.then);
    if (known === false) return this.expr(block, e.else);
    const settled = this.decisions.find((d) => d.key === known.text);
    if (settled) return this.expr(block, settled.holds ? e.then : e.else);
    const level = Math.max(known.level, this.levelOfExpr(e));
    const home = block.home(level, true);
    const name = this.fresh();
    const branches = [e.then, e.else].map((x) => {
      const branch = new Block(home, home.level, true, home.loop);
      const v = this.expr(branch, x);
      return [...branch.lines(), `${name} = ${v.text};`];
    });
    home.pre.push(
      `let ${name};`,
      `if (${known.text}) {`,
      ...(branches[0] ?? []),
      '} else {',
      ...(branches[1] ?? []),
      '}',
    );
    return { text: name, level, pinned: true };
  }
}

/** In range values are never negative where that is provable: then truncation is the floor. */
function divText(
  f: Atom & { kind: 'floordiv' | 'mod' | 'min' | 'max' },
  a: string,
  b: string,
): string {
  const positive = lowerBound(f.a) >= 0 && lowerBound(f.b) >= 1;
  switch (f.kind) {
    case 'floordiv':
      return positive ? `(${a} / ${b}) | 0` : `Math.floor(${a} / ${b})`;
    case 'mod':
      return positive ? `${a} % ${b}` : `H.floorMod(${a}, ${b})`;
    case 'min':
    case 'max':
      return `Math.${f.kind}(${a}, ${b})`;
  }
}

export function hasDyn(e: IndexExpr): boolean {
  return e.terms.some((t) =>
    t.factors.some((f) =>
      f.kind === 'dyn'
        ? true
        : f.kind === 'var' || f.kind === 'sym'
          ? false
          : hasDyn(f.a) || hasDyn(f.b),
    ),
  );
}
