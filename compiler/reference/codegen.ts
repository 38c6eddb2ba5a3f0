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
import { visitExpr, type Expr, type ValueId } from '../ir/expr';
import type { IndexExpr } from '../ir/indexExpr';
import { Block, literal, RunningIndices } from './blocks';
import { ExpressionWriter, hasDyn, NO_OFFSETS, type Copy } from './expressions';
import { entersOnlyAffinely, identityOf, usesVar, type Loop, type Nest } from './nest';
import { binaryText, castText, wrap } from './scalar';

export interface Generated {
  readonly source: string;
  readonly loads: readonly ValueId[];
  /** Trips of the outermost parallel loop; 1 when there is none. */
  readonly rows: number;
  /** Chunks of rows begin at multiples of this. */
  readonly align: number;
}

/** More copies of the innermost loop than 2^2 aren't worth their compile time. */
const MAX_UNSWITCHED = 2;

export function generate(nest: Nest, fill: (value: ValueId) => number | undefined): Generated {
  return new Generator(nest, fill).run();
}

class Generator {
  private readonly write: ExpressionWriter;
  private readonly jam: ReadonlyMap<string, number>;

  constructor(
    private readonly nest: Nest,
    fill: (value: ValueId) => number | undefined,
  ) {
    this.write = new ExpressionWriter([...nest.parallel, ...nest.reduce], fill);
    this.jam = chooseJam(nest);
  }

  run(): Generated {
    const top = new Block(undefined, -1, false, undefined);
    const [first] = this.nest.parallel;
    this.parallelLoops(top, 0, [NO_OFFSETS]);
    const params = this.write.loads.map((_, i) => `const a${i} = arrays[${i}];`);
    const source = ["'use strict';", ...params, ...top.lines()].join('\n');
    return {
      source,
      loads: this.write.loads,
      rows: first?.extent ?? 1,
      align: (first && this.jam.get(first.name)) ?? 1,
    };
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
      this.write.enter(copy);
      return this.write.index(block, this.nest.position).text;
    };
    if (!monoid) {
      for (const copy of copies) {
        this.write.enter(copy);
        const v = this.write.expr(block, this.nest.body);
        block.rest.push(
          `out[${outAt(copy)}] = ${castText(v.text, this.nest.body.dtype, compute.dtype)};`,
        );
      }
      return;
    }
    const accs = copies.map(() => this.write.fresh());
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
        this.write.enter(copy);
        const v = this.write.expr(block, this.nest.body);
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
    const level = this.write.levelOf(loop.name);
    const condition =
      this.write.decisions.length < MAX_UNSWITCHED ? this.openCondition(parent, level) : undefined;
    if (condition) {
      const before = this.write.decisions;
      const branches = [true, false].map((holds) => {
        this.write.decisions = [...before, { key: condition, holds }];
        const branch = new Block(parent, parent.level, true, parent.loop);
        this.innermost(branch, loop, from, to, fill);
        return branch.lines();
      });
      this.write.decisions = before;
      parent.rest.push(
        `if (${condition}) {`,
        ...(branches[0] ?? []),
        '} else {',
        ...(branches[1] ?? []),
        '}',
      );
      return;
    }
    const running = new RunningIndices(loop.name, level, from);
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
            [c.index, c.lo, c.hi].some((i) => this.write.levelOfIndex(i) >= level || hasDyn(i)),
          );
          if (!first || varies) return go(e.then) ?? go(e.else);
          const known = this.write.condition(parent, e.conds);
          if (known === true) return go(e.then);
          if (known === false) return go(e.else);
          const settled = this.write.decisions.find((d) => d.key === known.text);
          if (!settled) return known.text;
          return go(settled.holds ? e.then : e.else);
        }
      }
    };
    this.write.enter(NO_OFFSETS);
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
        const at = this.write.index(block, this.nest.reducePosition).text;
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
