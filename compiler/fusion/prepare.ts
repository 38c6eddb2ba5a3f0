/**
 * Load time: what depends on weights alone is computed once, when they are loaded, and not in each run.
 *
 * A program becomes two. *Preparing* computes values of weights; the *run* reads them as if they were
 * parameters. Both are planned, scheduled and checked by what plans all others. The reference goes on
 * computing the program as it was, and the prepared values beside it.
 *
 * Whole computes are prepared (a cast, a norm of weights), and parts of bodies: `rsqrt(var + eps)` of a
 * batch norm stands inside of what reads it. affine.ts moves factors into the weights of products
 * beforehand, which makes more such parts.
 *
 * Never prepared is what would make a run read more bytes: a weight that is spread out, or widened (of
 * eight bits, say) stays where it is and is computed in the kernel that reads it.
 *
 * The run has the same computes at the same positions, so that both plans can be compared; those that
 * it doesn't need are *idle*, and in no kernel.
 */
import type { NodeId } from '../graph/graph';
import type { Compute, Program, Value } from '../ir/compute';
import { type Expr, load, printExpr, rewriteExpr, sameExpr, type ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import { valuesRead } from '../ir/reads';
import { visitLoads } from '../schedule/group';
import { foldAffine, FoldMemory } from './affine';
import { dimsUsed, type Weight, WeightMemory, Weights } from './weights';

export interface Prepared {
  readonly run: Program;
  /** Its outputs are the values that the run reads. */
  readonly preparing: Program;
  /** The program as it was, with the prepared values that it didn't have. */
  readonly reference: Program;
  /** Positions of the computes that the run doesn't have. */
  readonly idle: ReadonlySet<number>;
  /** By the position of a compute that had a factor: the nodes whose weights have it now. */
  readonly foldedInto: ReadonlyMap<number, readonly NodeId[]>;
  /** Values of the run that differ from those of the program by a factor, and what they are called there. */
  readonly scaled: ReadonlyMap<ValueId, ValueId>;
}

/**
 * @param stays nodes that directives name: what a person asks of them is asked of a run
 * @param keep values that must be in memory in each run
 * @param past what was made of the version before: where the same is made again, it is the very same
 */
export function prepareWeights(
  program: Program,
  stays: ReadonlySet<NodeId>,
  keep: ReadonlySet<ValueId>,
  f16: boolean,
  past = new PreparedParts(),
): Prepared | undefined {
  // What goes into a branch or a loop is handed over in buffers of its own.
  if ((program.regions ?? []).length > 0) return undefined;
  // Without inputs all of it would be load time.
  if (![...program.values.values()].some((v) => v.role === 'input')) return undefined;
  return new Preparing(program, stays, keep, f16, past).run();
}

/** A part of a body that is computed at load. */
interface Part {
  readonly text: string;
  readonly dims: Compute['dims'];
  readonly body: Expr;
}

/** The same with the value that stands in its place. */
interface PartUse extends Part {
  readonly value: ValueId;
}

/** A body of a compute without its prepared parts. */
interface Without {
  readonly of: Compute;
  readonly body: Expr;
  /** By value that the body reads. */
  readonly weights: readonly (Weight | undefined)[];
  readonly parts: readonly PartUse[];
  readonly rest: Expr;
}

/** The computes that were made for load time, and in the place of others for the run. */
export class PreparedParts {
  private readonly parts = new Map<ValueId, { text: string; value: Value; compute: Compute }>();
  private readonly inRun = new Map<ValueId, { of: Compute; compute: Compute }>();
  private readonly rest = new Map<ValueId, Without>();
  readonly weights: WeightMemory;
  readonly folds: FoldMemory;

  constructor(private old?: PreparedParts) {
    this.weights = new WeightMemory(old?.weights);
    this.folds = new FoldMemory(old?.folds);
  }

  /** @param make where it isn't the same as before: of a value of that id and name */
  made(
    part: { readonly text: string; readonly id: ValueId; readonly name: string },
    origin: Compute['origin'],
    make: () => { value: Value; compute: Compute },
  ): { value: Value; compute: Compute } {
    const { text, id, name } = part;
    const before = this.old?.parts.get(id);
    const same =
      before?.text === text &&
      before.value.name === name &&
      sameList(before.compute.origin, origin);
    const made = same ? before : { text, ...make() };
    this.parts.set(id, made);
    return made;
  }

  /**
   * What a body was without its prepared parts. `made` is to make the parts again: it says whether they are
   * called what they were called.
   */
  without(
    of: Compute,
    body: Expr,
    weights: readonly (Weight | undefined)[],
    made: (parts: readonly PartUse[]) => boolean,
  ): Expr | undefined {
    const before = this.rest.get(of.value) ?? this.old?.rest.get(of.value);
    if (before?.of !== of || before.body !== body || !sameList(before.weights, weights))
      return undefined;
    if (!made(before.parts)) return undefined;
    this.rest.set(of.value, before);
    return before.rest;
  }

  keepWithout(w: Without): void {
    this.rest.set(w.of.value, w);
  }

  changed(of: Compute, value: ValueId, body: Expr): Compute {
    const before = this.old?.inRun.get(value);
    const part =
      before?.of === of && sameExpr(before.compute.body, body)
        ? before
        : { of, compute: { ...of, id: `c:${value}`, value, body } };
    this.inRun.set(value, part);
    return part.compute;
  }

  /** All is prepared: the version before is of no more use. */
  close(): void {
    this.old = undefined;
    this.weights.close();
    this.folds.close();
  }
}

function sameList(a: readonly unknown[], b: readonly unknown[]): boolean {
  return a.length === b.length && a.every((x, i) => x === b[i]);
}

/** Functions that cost about as much as an addition. */
const LIGHT: ReadonlySet<string> = new Set([
  ...['neg', 'abs', 'sign', 'floor', 'ceil', 'round', 'trunc', 'not', 'bitnot', 'isnan', 'isinf'],
  ...['bitsof', 'floatof', 'add', 'sub', 'mul', 'min', 'max', 'eq', 'ne', 'lt', 'le', 'gt', 'ge'],
  ...['and', 'or', 'xor', 'bitand', 'bitor', 'bitxor', 'shl', 'shr'],
]);

class Preparing {
  private readonly weights: Weights;
  private readonly made: Compute[] = [];
  private readonly madeValues: Value[] = [];
  private readonly byText = new Map<string, Value>();
  /** By value: how many parts were made of its compute. */
  private readonly parts = new Map<ValueId, number>();
  /** Parts of the body at hand. */
  private used: PartUse[] = [];

  constructor(
    private readonly program: Program,
    private readonly stays: ReadonlySet<NodeId>,
    private readonly keep: ReadonlySet<ValueId>,
    f16: boolean,
    private readonly past: PreparedParts,
  ) {
    this.weights = new Weights(program, stays, keep, f16, past.weights);
  }

  run(): Prepared | undefined {
    const { program, weights } = this;
    const { computes } = program;
    const folding = foldAffine(
      program,
      weights,
      this.keep,
      this.stays,
      (e, c) => this.space(e, c) !== undefined,
      this.past.folds,
    );
    const bodies = computes.map((c, i) => {
      const body = folding.bodies.get(i) ?? c.body;
      if (!weights.touches(body)) return body;
      // What is to be in memory in each run, or stays by a person's word, is computed there.
      const asItIs = weights.ofBody(c) !== undefined || c.origin.some((o) => this.stays.has(o));
      return asItIs ? body : this.withoutParts(body, c);
    });
    const position = new Map(computes.map((c, i) => [c.value, i]));
    // What a run computes of weights after all, since it would be larger than they are.
    const inRun = new Set<number>();
    const read = new Set<ValueId>();
    const open = computes.flatMap((c, i) => (weights.made(c.value) ? [] : [i]));
    for (let i = open.pop(); i !== undefined; i = open.pop()) {
      const body = bodies[i];
      if (!body) continue;
      for (const v of valuesRead(body)) {
        const p = weights.made(v) ? position.get(v) : undefined;
        if (p === undefined) continue;
        if (weights.wanted(v)) read.add(v);
        else if (!inRun.has(p)) {
          inRun.add(p);
          const c = computes[p];
          if (c) bodies[p] = this.withoutParts(c.body, c);
          open.push(p);
        }
      }
    }
    if (read.size === 0 && this.made.length === 0) return undefined;
    const idle = new Set<number>();
    computes.forEach((c, i) => {
      if (weights.made(c.value) && !inRun.has(i)) idle.add(i);
    });
    return {
      run: this.runOf(bodies, read, folding.renamed),
      preparing: this.preparingOf(read),
      reference: this.referenceOf(),
      idle,
      foldedInto: folding.into,
      scaled: new Map([...folding.renamed].map(([old, now]) => [now, old])),
    };
  }

  /** The body with parts that are worth it replaced by prepared values; as before, where nothing has changed. */
  private withoutParts(body: Expr, c: Compute): Expr {
    const weights = valuesRead(body).map((v) => this.weights.of(v));
    const before = this.past.without(c, body, weights, (parts) =>
      parts.every((p) => this.valueFor(p, c).id === p.value),
    );
    if (before) return before;
    this.used = [];
    const rest = this.without(body, c);
    this.past.keepWithout({ of: c, body, weights, parts: this.used, rest });
    return rest;
  }

  private without(e: Expr, c: Compute): Expr {
    if (this.isWorthIt(e)) {
      const prepared = this.prepare(e, c);
      if (prepared) return prepared;
    }
    switch (e.op) {
      case 'const':
      case 'index':
      case 'load':
        return e;
      case 'when':
        // In a branch a read may be in range only where the branch is taken.
        return e;
      case 'unary':
      case 'cast': {
        const a = this.without(e.a, c);
        return a === e.a ? e : { ...e, a };
      }
      case 'binary': {
        const a = this.without(e.a, c);
        const b = this.without(e.b, c);
        return a === e.a && b === e.b ? e : { ...e, a, b };
      }
      case 'select': {
        const cond = this.without(e.cond, c);
        const then = this.without(e.then, c);
        const otherwise = this.without(e.else, c);
        const same = cond === e.cond && then === e.then && otherwise === e.else;
        return same ? e : { ...e, cond, then, else: otherwise };
      }
    }
  }

  /** Whether a run without it reads fewer values, or is spared more than an addition. */
  private isWorthIt(e: Expr): boolean {
    const leaves = this.weights.leaves(e);
    if (!leaves || leaves.size === 0 || e.op === 'load') return false;
    const loads = new Set<string>();
    visitLoads(e, (l) => loads.add(`${l.value} ${l.index.map((i) => i.key).join()}`));
    return loads.size > 1 || heavy(e);
  }

  /** The dims that a part would have as a value; undefined where it can't be one. */
  private space(e: Expr, c: Compute): readonly { name: string; extent: IndexExpr }[] | undefined {
    const leaves = this.weights.leaves(e);
    // Narrower floats would be rounded where they now aren't.
    if (!leaves || leaves.size === 0 || e.dtype === 'f16' || e.dtype === 'bf16') return undefined;
    const dims = dimsUsed(e, c);
    const bytes = this.weights.bytesOf(
      dims.map((d) => d.extent),
      e.dtype,
    );
    return bytes !== undefined && bytes <= this.weights.readBytes(e) ? dims : undefined;
  }

  private prepare(e: Expr, c: Compute): Expr | undefined {
    const used = this.space(e, c);
    if (!used) return undefined;
    const names = new Map(used.map((d, i) => [d.name, I.loopVar(`d${i}`, d.extent)]));
    const dims = used.map((d, i) => ({ name: `d${i}`, extent: d.extent }));
    const body = rewriteExpr(e, (a) => (a.kind === 'var' ? names.get(a.name) : undefined));
    const shape = dims.map((d) => d.extent);
    const text = `${shape.map((d) => d.key).join()} ${printExpr(body)}`;
    const part: Part = { text, dims, body };
    const value = this.valueFor(part, c);
    this.used.push({ ...part, value: value.id });
    const index = used.map((d) => I.loopVar(d.name, d.extent));
    return load(value.id, index, e.dtype);
  }

  /** The value that is computed at load for the part: one for all that compute the same. */
  private valueFor({ text, dims, body }: Part, c: Compute): Value {
    const known = this.byText.get(text);
    if (known) return known;
    const nth = this.parts.get(c.value) ?? 0;
    this.parts.set(c.value, nth + 1);
    const id = `${c.value}~${nth}`;
    const whole = this.program.values.get(c.value)?.name ?? c.value;
    const { dtype } = body;
    const { origin } = c;
    const name = `${whole} (weights)`;
    const made = this.past.made({ text, id, name }, origin, () => ({
      value: { id, name, dtype, shape: dims.map((d) => d.extent), role: 'computed' },
      compute: {
        ...{ id: `c:${id}`, value: id, dims, reduce: [], body, origin },
        ...{ dtype, accumulator: dtype },
      },
    }));
    this.byText.set(text, made.value);
    this.madeValues.push(made.value);
    this.made.push(made.compute);
    return made.value;
  }

  private runOf(
    bodies: readonly Expr[],
    read: ReadonlySet<ValueId>,
    renamed: ReadonlyMap<ValueId, ValueId>,
  ): Program {
    const { program } = this;
    const values = new Map<ValueId, Value>();
    for (const v of program.values.values()) {
      const id = renamed.get(v.id) ?? v.id;
      values.set(id, read.has(v.id) ? { ...v, role: 'param' } : id === v.id ? v : { ...v, id });
    }
    for (const v of this.madeValues) values.set(v.id, { ...v, role: 'param' });
    const computes = program.computes.map((c, i) => {
      const value = renamed.get(c.value) ?? c.value;
      const body = bodies[i] ?? c.body;
      return value === c.value && body === c.body ? c : this.past.changed(c, value, body);
    });
    return { ...program, values, computes };
  }

  private preparingOf(read: ReadonlySet<ValueId>): Program {
    const { program, weights } = this;
    const needed = new Set<ValueId>(read);
    const note = (c: Compute): void => valuesRead(c.body).forEach((v) => needed.add(v));
    this.made.forEach(note);
    const own: Compute[] = [];
    for (const c of [...program.computes].reverse()) {
      if (!weights.made(c.value) || !needed.has(c.value)) continue;
      own.push(c);
      note(c);
    }
    const computes = [...own.reverse(), ...this.made];
    const values = new Map<ValueId, Value>();
    for (const v of program.values.values()) if (needed.has(v.id)) values.set(v.id, v);
    for (const v of this.madeValues) values.set(v.id, v);
    const outputs = [...read, ...this.madeValues.map((v) => v.id)].flatMap((value) => {
      const v = values.get(value);
      return v ? [{ name: v.name, value, shape: v.shape }] : [];
    });
    return { values, computes, inputs: [], outputs, dims: program.dims };
  }

  private referenceOf(): Program {
    const { program } = this;
    if (this.made.length === 0) return program;
    const values = new Map(program.values);
    for (const v of this.madeValues) values.set(v.id, v);
    return { ...program, values, computes: [...program.computes, ...this.made] };
  }
}

function heavy(e: Expr): boolean {
  switch (e.op) {
    case 'const':
    case 'index':
    case 'load':
      return false;
    case 'unary':
      return !LIGHT.has(e.fn) || heavy(e.a);
    case 'cast':
      return heavy(e.a);
    case 'binary':
      return !LIGHT.has(e.fn) || heavy(e.a) || heavy(e.b);
    case 'select':
      return heavy(e.cond) || heavy(e.then) || heavy(e.else);
    case 'when':
      return heavy(e.then) || heavy(e.else);
  }
}
