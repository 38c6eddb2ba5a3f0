/**
 * Generates the JavaScript that computes one {@link Nest}: plain nested loops over typed arrays.
 *
 * What makes it quick: index arithmetic is hoisted to the loop it depends on and runs along in the
 * innermost one; conditions that don't vary in the innermost loop choose between two copies of that
 * loop; and contractions are *jammed*: a few neighbouring results are computed together, so that
 * what they share is loaded once.
 *
 * The generated function is called as f(H, out, arrays, lo, hi) and fills the results whose outermost
 * parallel loop lies in [lo, hi); `arrays` are the values in the order of `loads`.
 */
import { integerRange, isFloat } from '../graph/dtype';
import { visitExpr, type Expr, type IndexCond, type ValueId } from '../ir/expr';
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
import { Block, literal, RunningIndices, type Operand } from './blocks';
import { entersOnlyAffinely, identityOf, usesVar, variablesOf, type Loop, type Nest } from './nest';
import { binaryText, castText, unaryText, wrap } from './scalar';

export interface Generated {
  readonly source: string;
  readonly loads: readonly ValueId[];
  /** Trips of the outermost parallel loop; 1 when there is none. */
  readonly rows: number;
  /** Chunks of rows begin at multiples of this. */
  readonly align: number;
}

/** One of the results computed together: its offsets along the jammed loops. */
type Copy = ReadonlyMap<string, number>;

interface Decision {
  readonly key: string;
  readonly holds: boolean;
}

const NO_OFFSETS: Copy = new Map();
/** More copies of the innermost loop than 2^2 aren't worth their compile time. */
const MAX_UNSWITCHED = 2;

export function generate(nest: Nest, fill: (value: ValueId) => number | undefined): Generated {
  return new Generator(nest, fill).run();
}

class Generator {
  private readonly loads: ValueId[] = [];
  private readonly levels = new Map<string, number>();
  private readonly jam: ReadonlyMap<string, number>;
  private readonly exprVariables = new Map<Expr, ReadonlySet<string>>();
  private readonly ids = new Map<Expr, number>();
  private counter = 0;
  /** Conditions settled by the copy of the innermost loop that is being generated. */
  private decisions: readonly Decision[] = [];
  private copy: Copy = NO_OFFSETS;

  constructor(
    private readonly nest: Nest,
    private readonly fill: (value: ValueId) => number | undefined,
  ) {
    [...nest.parallel, ...nest.reduce].forEach((l, i) => this.levels.set(l.name, i));
    this.jam = chooseJam(nest);
  }

  run(): Generated {
    const top = new Block(undefined, -1, false, undefined);
    const [first] = this.nest.parallel;
    this.parallelLoops(top, 0, [NO_OFFSETS]);
    const params = this.loads.map((_, i) => `const a${i} = arrays[${i}];`);
    const source = ["'use strict';", ...params, ...top.lines()].join('\n');
    return {
      source,
      loads: this.loads,
      rows: first?.extent ?? 1,
      align: (first && this.jam.get(first.name)) ?? 1,
    };
  }

  private fresh(): string {
    return `t${this.counter++}`;
  }

  // -------------------------------------------------------------------------------------------
  // Loops

  private parallelLoops(parent: Block, level: number, copies: readonly Copy[]): void {
    const loop = this.nest.parallel[level];
    if (!loop) {
      this.element(parent, copies);
      return;
    }
    const factor = this.jam.get(loop.name) ?? 1;
    const from = level === 0 ? 'lo' : '0';
    const to = level === 0 ? 'hi' : String(loop.extent);
    if (factor === 1) {
      if (this.nest.reduce.length === 0 && level === this.nest.parallel.length - 1) {
        this.innermost(parent, loop, from, to, (block) => this.element(block, copies));
        return;
      }
      const block = new Block(parent, level, false, undefined);
      this.parallelLoops(block, level + 1, copies);
      parent.rest.push(
        `for (let ${loop.name} = ${from}; ${loop.name} < ${to}; ${loop.name}++) {`,
        ...block.lines(),
        '}',
      );
      return;
    }
    // Whole groups, then what is left one by one.
    const groups = Math.floor(loop.extent / factor) * factor;
    const split = level === 0 ? `(lo + Math.floor((hi - lo) / ${factor}) * ${factor})` : groups;
    const main = new Block(parent, level, false, undefined);
    const together = copies.flatMap((c) =>
      Array.from({ length: factor }, (_, u) => new Map([...c, [loop.name, u]])),
    );
    this.parallelLoops(main, level + 1, together);
    parent.rest.push(
      `for (let ${loop.name} = ${from}, end = ${split}; ${loop.name} < end; ${loop.name} += ${factor}) {`,
      ...main.lines(),
      '}',
    );
    if (groups === loop.extent) return;
    const rest = new Block(parent, level, false, undefined);
    this.parallelLoops(rest, level + 1, copies);
    parent.rest.push(
      `for (let ${loop.name} = ${split}; ${loop.name} < ${to}; ${loop.name}++) {`,
      ...rest.lines(),
      '}',
    );
  }

  /** One element, or the jammed group of them, inside all parallel loops. */
  private element(block: Block, copies: readonly Copy[]): void {
    const { monoid, compute } = this.nest;
    const outAt = (copy: Copy): string => {
      this.enter(copy);
      return this.index(block, this.nest.position).text;
    };
    if (!monoid) {
      for (const copy of copies) {
        this.enter(copy);
        const v = this.expr(block, this.nest.body);
        block.rest.push(
          `out[${outAt(copy)}] = ${castText(v.text, this.nest.body.dtype, compute.dtype)};`,
        );
      }
      return;
    }
    const accs = copies.map(() => this.fresh());
    const arg = monoid.kind === 'argmax' || monoid.kind === 'argmin';
    const identity = identityOf({
      monoid,
      accumulator: compute.accumulator,
      integer: integerRange(compute.accumulator),
    });
    for (const a of accs) {
      block.pre.push(`let ${a} = ${literal(identity)};`);
      if (arg) block.pre.push(`let ${a}b = NaN, ${a}n = 0;`);
    }
    this.reduceLoops(block, 0, copies, accs);
    copies.forEach((copy, i) => {
      const acc = accs[i] ?? '';
      const from = arg ? compute.dtype : compute.accumulator;
      const value = isFloat(from) ? acc : castText(acc, from, compute.dtype);
      block.rest.push(`out[${outAt(copy)}] = ${value};`);
    });
  }

  private reduceLoops(
    parent: Block,
    depth: number,
    copies: readonly Copy[],
    accs: readonly string[],
  ): void {
    const loop = this.nest.reduce[depth];
    const body = (block: Block): void =>
      copies.forEach((copy, i) => {
        this.enter(copy);
        const v = this.expr(block, this.nest.body);
        block.rest.push(this.combine(block, accs[i] ?? '', v.text));
      });
    if (!loop) {
      // All reduction loops have one trip.
      const block = new Block(parent, parent.level, false, parent.loop);
      body(block);
      parent.rest.push('{', ...block.lines(), '}');
      return;
    }
    const level = this.nest.parallel.length + depth;
    if (depth === this.nest.reduce.length - 1) {
      this.innermost(parent, loop, '0', String(loop.extent), body);
      return;
    }
    const block = new Block(parent, level, false, undefined);
    this.reduceLoops(block, depth + 1, copies, accs);
    parent.rest.push(
      `for (let ${loop.name} = 0; ${loop.name} < ${loop.extent}; ${loop.name}++) {`,
      ...block.lines(),
      '}',
    );
  }

  /** The innermost loop, in one copy for each outcome of the conditions that don't vary in it. */
  private innermost(
    parent: Block,
    loop: Loop,
    from: string,
    to: string,
    fill: (block: Block) => void,
  ): void {
    const level = this.levels.get(loop.name) ?? -1;
    const condition =
      this.decisions.length < MAX_UNSWITCHED ? this.openCondition(parent, level) : undefined;
    if (condition) {
      const before = this.decisions;
      const branches = [true, false].map((holds) => {
        this.decisions = [...before, { key: condition, holds }];
        const branch = new Block(parent, parent.level, true, parent.loop);
        this.innermost(branch, loop, from, to, fill);
        return branch.lines();
      });
      this.decisions = before;
      parent.rest.push(
        `if (${condition}) {`,
        ...(branches[0] ?? []),
        '} else {',
        ...(branches[1] ?? []),
        '}',
      );
      return;
    }
    const running = new RunningIndices(loop.name, level);
    const block = new Block(parent, level, false, running);
    fill(block);
    parent.rest.push(
      ...running.inits,
      `for (let ${loop.name} = ${from}; ${loop.name} < ${to}; ${loop.name}++) {`,
      ...block.lines(),
      ...running.steps,
      '}',
    );
  }

  /** A condition of a `when` that doesn't vary in the loop at `level` and isn't settled yet. */
  private openCondition(parent: Block, level: number): string | undefined {
    const go = (e: Expr): string | undefined => {
      switch (e.op) {
        case 'const':
        case 'index':
        case 'load':
          return undefined;
        case 'unary':
        case 'cast':
          return go(e.a);
        case 'binary':
          return go(e.a) ?? go(e.b);
        case 'select':
          return go(e.cond) ?? go(e.then) ?? go(e.else);
        case 'when': {
          const [first] = e.conds;
          const varies = e.conds.some((c) =>
            [c.index, c.lo, c.hi].some((i) => this.levelOfIndex(i) >= level || hasDyn(i)),
          );
          if (!first || varies) return go(e.then) ?? go(e.else);
          const known = this.condition(parent, e.conds);
          if (known === true) return go(e.then);
          if (known === false) return go(e.else);
          const settled = this.decisions.find((d) => d.key === known.text);
          if (!settled) return known.text;
          return go(settled.holds ? e.then : e.else);
        }
      }
    };
    this.enter(NO_OFFSETS);
    return go(this.nest.body);
  }

  private combine(block: Block, acc: string, v: string): string {
    const { monoid, compute } = this.nest;
    const t = compute.accumulator;
    if (!monoid) return '';
    switch (monoid.kind) {
      case 'sum':
        return `${acc} = ${isFloat(t) ? `${acc} + ${v}` : wrap(`${acc} + ${v}`, t)};`;
      case 'prod':
        return `${acc} = ${binaryText('mul', acc, v, t)};`;
      // A NaN once met stays: no comparison with it holds.
      case 'max':
        return `if (${v} > ${acc} || ${v} !== ${v}) ${acc} = ${v};`;
      case 'min':
        return `if (${v} < ${acc} || ${v} !== ${v}) ${acc} = ${v};`;
      case 'and':
        return `${acc} &= ${v};`;
      case 'or':
        return `${acc} |= ${v};`;
      case 'argmax':
      case 'argmin': {
        const at = this.index(block, this.nest.reducePosition).text;
        const better = monoid.kind === 'argmax' ? '>' : '<';
        const op = monoid.last ? `${better}=` : better;
        const best = `${acc}b`;
        // The first NaN wins (the last one when the last is asked for).
        const nan = monoid.last ? `${v} !== ${v}` : `${v} !== ${v} && ${best} === ${best}`;
        return (
          `if (${acc}n === 0 || ${v} ${op} ${best} || (${nan})) ` +
          `{ ${best} = ${v}; ${acc} = ${at}; ${acc}n = 1; }`
        );
      }
    }
  }

  // -------------------------------------------------------------------------------------------
  // Names

  private enter(copy: Copy): void {
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

  private levelOfIndex(e: IndexExpr): number {
    let level = -1;
    for (const v of variablesOf(e)) level = Math.max(level, this.levels.get(v) ?? -1);
    return level;
  }

  /** The index as an operand, ready to stand in brackets or in a comparison. */
  private index(block: Block, e: IndexExpr): Operand {
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
  private condition(block: Block, conds: readonly IndexCond[]): Operand | boolean {
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

  private expr(block: Block, e: Expr): Operand {
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

function hasDyn(e: IndexExpr): boolean {
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

/**
 * Which parallel loops to unroll and jam into the reduction: those along which some load of the
 * reduction doesn't change, so that it is shared. Two such loops make 4×2 results at a time, one
 * makes 4. Loops that enter conditions or divisions are left alone.
 */
function chooseJam(nest: Nest): Map<string, number> {
  const jam = new Map<string, number>();
  const { monoid } = nest;
  if (!monoid || monoid.kind === 'argmax' || monoid.kind === 'argmin' || nest.trips < 8) return jam;
  const reduced: IndexExpr[] = [];
  visitExpr(nest.body, (e) => {
    if (e.op !== 'load') return;
    const [i] = e.index;
    if (i && nest.reduce.some((r) => usesVar(i, r.name))) reduced.push(i);
  });
  const shared = (l: Loop): number => reduced.filter((i) => !usesVar(i, l.name)).length;
  const good = nest.parallel
    .filter((l) => l.extent >= 2 && shared(l) > 0 && entersOnlyAffinely(nest.body, l.name))
    .sort((a, b) => shared(b) - shared(a) || b.extent - a.extent);
  const [first, second] = good;
  if (first) jam.set(first.name, Math.min(4, first.extent));
  if (second) jam.set(second.name, 2);
  return jam;
}
