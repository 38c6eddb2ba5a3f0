/**
 * What depends on weights alone: found in the maps and loads of L1, by no op's name.
 *
 * Vocabulary
 *  - *weight*: a parameter or a constant, of a size known when compiling. It is the same in every run.
 *  - *leaves* of an expression or a value: the weights that it comes from, through whatever is computed
 *    of them. Something has leaves only if it comes from nothing else.
 */
import { storageBytes, storageOf } from '../graph/dtype';
import type { NodeId } from '../graph/graph';
import type { Compute, LoopDim, Program, Value } from '../ir/compute';
import type { Expr, ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import { valuesRead } from '../ir/reads';
import { visitLoads } from '../schedule/group';

const NONE: ReadonlySet<ValueId> = new Set();

/** What is known of a value that is a weight, or computed of weights alone. */
export interface Weight {
  readonly leaves: ReadonlySet<ValueId>;
  /** What reading all of it moves: itself, or what it is computed from, where that is less. */
  readonly bytes: number;
  /** Whether it has no more bytes than what it is computed from. */
  readonly lean: boolean;
}

/**
 * Weights of one version of a file after the other: what is one for the same reasons as before is the very
 * same object.
 */
export class WeightMemory {
  private readonly params = new Map<ValueId, { of: Value; weight: Weight | undefined }>();
  private readonly computed = new Map<
    ValueId,
    { of: Compute; from: readonly Weight[]; weight: Weight | undefined }
  >();

  constructor(private old?: WeightMemory) {}

  ofParam(of: Value, make: () => Weight | undefined): Weight | undefined {
    const before = this.old?.params.get(of.id);
    const record = before?.of === of ? before : { of, weight: make() };
    this.params.set(of.id, record);
    return record.weight;
  }

  ofCompute(
    of: Compute,
    from: readonly Weight[],
    make: () => Weight | undefined,
  ): Weight | undefined {
    const before = this.old?.computed.get(of.value);
    const same = before?.of === of && before.from.every((w, i) => w === from[i]);
    const record = same ? before : { of, from, weight: make() };
    this.computed.set(of.value, record);
    return record.weight;
  }

  close(): void {
    this.old = undefined;
  }
}

export class Weights {
  private readonly known = new Map<ValueId, Weight>();
  private readonly ofExpr = new Map<Expr, ReadonlySet<ValueId> | undefined>();

  /**
   * @param stays nodes whose computes are left in the run
   * @param keep values that must be in memory as they are
   */
  constructor(
    readonly program: Program,
    stays: ReadonlySet<NodeId>,
    keep: ReadonlySet<ValueId>,
    readonly f16: boolean,
    memory = new WeightMemory(),
  ) {
    for (const v of program.values.values()) {
      if (v.role !== 'param' && v.role !== 'const') continue;
      const weight = memory.ofParam(v, () => {
        const bytes = this.bytesOf(v.shape, v.dtype);
        return bytes === undefined ? undefined : { leaves: new Set([v.id]), bytes, lean: false };
      });
      if (weight) this.known.set(v.id, weight);
    }
    for (const c of program.computes) {
      if (c.region !== undefined || keep.has(c.value)) continue;
      const from = this.among(valuesRead(c.body));
      if (!from || c.origin.some((o) => stays.has(o))) continue;
      const weight = memory.ofCompute(c, from, () => this.ofCompute(c));
      if (weight) this.known.set(c.value, weight);
    }
  }

  /** The weights that the values are; undefined where one of them is none. */
  private among(values: readonly ValueId[]): Weight[] | undefined {
    const out: Weight[] = [];
    for (const v of values) {
      const w = this.known.get(v);
      if (!w) return undefined;
      out.push(w);
    }
    return out;
  }

  private ofCompute(c: Compute): Weight | undefined {
    if ([...c.dims, ...c.reduce].some((d) => I.constOf(d.extent) === undefined)) return undefined;
    const leaves = this.leaves(c.body);
    if (!leaves || leaves.size === 0) return undefined;
    const own = this.bytesOf(
      c.dims.map((d) => d.extent),
      c.dtype,
    );
    const read = this.readBytes(c.body);
    const lean = own !== undefined && own <= read;
    return { leaves, lean, bytes: Math.min(own ?? read, read) };
  }

  /** {@link leaves} of a compute's body. */
  ofBody(c: Compute): ReadonlySet<ValueId> | undefined {
    const known = this.known.get(c.value);
    if (known) return known.leaves;
    // Mostly it reads something that is no weight: that is quickly told.
    return valuesRead(c.body).every((v) => this.known.has(v)) ? this.leaves(c.body) : undefined;
  }

  of(value: ValueId): Weight | undefined {
    return this.known.get(value);
  }

  /** Undefined where something else goes in, or a size that isn't known; empty for plain numbers. */
  leaves(e: Expr): ReadonlySet<ValueId> | undefined {
    // What is quickly told isn't worth remembering.
    if (e.op === 'const' || e.op === 'index' || e.op === 'load') return this.find(e);
    if (this.ofExpr.has(e)) return this.ofExpr.get(e);
    const found = this.find(e);
    this.ofExpr.set(e, found);
    return found;
  }

  /** Whether weights, or what is computed of them, are among what an expression reads. */
  touches(e: Expr): boolean {
    return valuesRead(e).some((v) => this.known.has(v));
  }

  /** Whether the value is computed, from weights alone. */
  made(value: ValueId): boolean {
    return this.known.has(value) && this.program.values.get(value)?.role === 'computed';
  }

  /** Bytes of what a value, or an expression at some loop dims, would be in memory. */
  bytesOf(shape: readonly IndexExpr[], dtype: Expr['dtype']): number | undefined {
    const elements = I.constOf(I.product(shape));
    return elements === undefined ? undefined : elements * storageBytes(storageOf(dtype, this.f16));
  }

  /** Bytes of weights that an expression reads: of each, no more than its index can reach. */
  readBytes(e: Expr): number {
    const touched = new Map<ValueId, number>();
    visitLoads(e, (l) => {
      const reach = new Map<string, IndexExpr>();
      let dynamic = false;
      for (const i of l.index)
        I.visitAtoms(i, (a) => {
          if (a.kind === 'var') reach.set(a.name, a.extent);
          else if (a.kind === 'dyn') dynamic = true;
        });
      const whole = this.known.get(l.value)?.bytes ?? 0;
      const part = dynamic ? whole : (this.bytesOf([...reach.values()], l.dtype) ?? whole);
      touched.set(l.value, Math.min(whole, (touched.get(l.value) ?? 0) + part));
    });
    return [...touched.values()].reduce((a, b) => a + b, 0);
  }

  /** A value that is read in place of its weights mustn't have more bytes than they have. */
  wanted(value: ValueId): boolean {
    return this.known.get(value)?.lean === true;
  }

  private find(e: Expr): ReadonlySet<ValueId> | undefined {
    switch (e.op) {
      case 'const':
        return NONE;
      case 'index':
        return this.ofIndices([e.index]);
      case 'load': {
        const own = this.known.get(e.value)?.leaves;
        return own && join(own, this.ofIndices(e.index));
      }
      case 'unary':
      case 'cast':
        return this.leaves(e.a);
      case 'binary':
        return join(this.leaves(e.a), this.leaves(e.b));
      case 'select':
        return join(this.leaves(e.cond), join(this.leaves(e.then), this.leaves(e.else)));
      case 'when':
        return join(
          this.ofIndices(e.conds.flatMap((c) => [c.index, c.lo, c.hi])),
          join(this.leaves(e.then), this.leaves(e.else)),
        );
    }
  }

  private ofIndices(list: readonly IndexExpr[]): ReadonlySet<ValueId> | undefined {
    let out: ReadonlySet<ValueId> | undefined = NONE;
    for (const i of list)
      I.visitAtoms(i, (a) => {
        if (a.kind === 'sym') out = undefined;
        else if (a.kind === 'dyn') out = join(out, this.leaves(a.expr));
      });
    return out;
  }
}

function join(
  a: ReadonlySet<ValueId> | undefined,
  b: ReadonlySet<ValueId> | undefined,
): ReadonlySet<ValueId> | undefined {
  if (!a || !b) return undefined;
  if (b.size === 0) return a;
  if (a.size === 0) return b;
  return new Set([...a, ...b]);
}

/** The loop dims that an expression depends on, in their order. */
export function dimsUsed(e: Expr, c: Compute): LoopDim[] {
  const names = namesUsed(e);
  return [...c.dims, ...c.reduce].filter((d) => names.has(d.name));
}

/** The names of the loop variables in an expression. */
export function namesUsed(e: Expr): Set<string> {
  const names = new Set<string>();
  const inIndex = (i: IndexExpr): void =>
    I.visitAtoms(i, (a) => {
      if (a.kind === 'var') names.add(a.name);
      else if (a.kind === 'dyn') go(a.expr);
    });
  const go = (x: Expr): void => {
    switch (x.op) {
      case 'const':
        return;
      case 'index':
        inIndex(x.index);
        return;
      case 'load':
        x.index.forEach(inIndex);
        return;
      case 'unary':
      case 'cast':
        go(x.a);
        return;
      case 'binary':
        go(x.a);
        go(x.b);
        return;
      case 'select':
        go(x.cond);
        go(x.then);
        go(x.else);
        return;
      case 'when':
        for (const k of x.conds) [k.index, k.lo, k.hi].forEach(inIndex);
        go(x.then);
        go(x.else);
    }
  };
  go(e);
  return names;
}
