/**
 * Factors and shifts that depend on weights alone, moved to where they cost nothing in a run.
 *
 * A batch norm is `u·scale + shift` with both known once weights are loaded. Where u is a product with
 * weights that nothing else reads (a convolution of any kind, a matmul), the scale goes into those:
 * Σ x·w · s = Σ x·(w·s), since s doesn't depend on what is summed over. What stands between (a bias)
 * is carried along: (u + b)·s + t = u·s + (b·s + t).
 *
 * Only in f32, where reassociation costs a few roundings of the size that the sum itself has; in
 * narrower types a folded weight would be rounded to them once more, and could leave their range.
 *
 * Vocabulary
 *  - *affine form* of an expression: leaf · scale + shift, the latter two of weights alone.
 */
import type { NodeId } from '../graph/graph';
import type { Compute, Program } from '../ir/compute';
import { binary, type Expr, rewriteExpr, unary, type ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import { valuesRead } from '../ir/reads';
import { visitLoads } from '../schedule/group';
import { namesUsed, type Weight, type Weights } from './weights';

/** Functions of which an affine form of one operand, with weights for the other, is one again. */
const AFFINE: ReadonlySet<string> = new Set(['add', 'sub', 'mul', 'div']);

interface Affine {
  readonly leaf: Expr;
  /** Absent: 1. */
  readonly scale?: Expr;
  /** Absent: 0. */
  readonly shift?: Expr;
}

/** What computes become, by position. Where a value has another meaning now, it has another name. */
export interface Folding {
  readonly bodies: ReadonlyMap<number, Expr>;
  readonly renamed: ReadonlyMap<ValueId, ValueId>;
  /** By the position of a compute that had a factor: the nodes whose weights have it now. */
  readonly into: ReadonlyMap<number, readonly NodeId[]>;
}

/** What a compute is to the weights among what it reads. */
interface Reading {
  readonly compute: Compute;
  /** By value that it reads: what is known of it as a weight. */
  readonly weights: readonly (Weight | undefined)[];
  readonly leaf: Expr;
  form?: Affine;
  /** See {@link Folder.compact}; null where nothing comes of it. */
  compacted?: Expr | null;
  folded?: Folded;
}

/** What came of folding a compute's scale, and what that hung on. */
interface Folded {
  /** From the compute's operand to the product. */
  readonly chain: readonly Reading[];
  /** The weights of the product that it would go into, and whether nothing else reads them. */
  readonly own: ReadonlySet<ValueId> | undefined;
  readonly alone: boolean;
  /** Undefined where the scale can't go into the product. */
  readonly made:
    | undefined
    | {
        /** Of the compute, and of what is on the chain. */
        readonly first: Expr;
        readonly bodies: readonly Expr[];
      };
}

/**
 * Foldings of one version of a file after the other. What computes the same of the same weights is folded to
 * the very same bodies.
 */
export class FoldMemory {
  private readonly readings = new Map<ValueId, Reading>();

  constructor(private old?: FoldMemory) {}

  reading(c: Compute, weights: Weights, leafOf: () => Expr): Reading {
    const before = this.old?.readings.get(c.value);
    const read = valuesRead(c.body);
    const same = before?.compute === c && read.every((v, i) => weights.of(v) === before.weights[i]);
    const reading = same
      ? before
      : { compute: c, weights: read.map((v) => weights.of(v)), leaf: leafOf() };
    this.readings.set(c.value, reading);
    return reading;
  }

  close(): void {
    this.old = undefined;
  }
}

/** Whether an expression would be computed at load, if it stood in the compute. */
export type Prepares = (e: Expr, c: Compute) => boolean;

export function foldAffine(
  program: Program,
  weights: Weights,
  keep: ReadonlySet<ValueId>,
  stays: ReadonlySet<NodeId>,
  prepares: Prepares,
  memory = new FoldMemory(),
): Folding {
  return new Folder(program, weights, keep, stays, prepares, memory).run();
}

class Folder {
  private readonly positions = new Map<ValueId, number>();
  /** By value: how many computes read it. */
  private readonly readers = new Map<ValueId, number>();
  /**
   * By position: whether it comes from a product with weights through affine forms alone, each of which
   * nothing else reads. Whatever else stands at the end of a chain, it isn't gone along for each of its links.
   */
  private readonly ofProduct: boolean[] = [];
  private readonly readings: Reading[] = [];
  private readonly bodies = new Map<number, Expr>();
  private readonly renamed = new Map<ValueId, ValueId>();
  private readonly into = new Map<number, readonly NodeId[]>();

  constructor(
    private readonly program: Program,
    private readonly weights: Weights,
    private readonly keep: ReadonlySet<ValueId>,
    private readonly stays: ReadonlySet<NodeId>,
    private readonly prepares: Prepares,
    memory: FoldMemory,
  ) {
    program.computes.forEach((c, i) => {
      this.readings.push(memory.reading(c, weights, () => this.leafOf(c.body)));
      this.positions.set(c.value, i);
      for (const v of valuesRead(c.body)) this.readers.set(v, (this.readers.get(v) ?? 0) + 1);
    });
    program.computes.forEach((c, i) => (this.ofProduct[i] = this.comesFromProduct(c, i)));
  }

  run(): Folding {
    const { computes } = this.program;
    // The last first: it takes what is before it along.
    for (let i = computes.length - 1; i >= 0; i--) {
      const c = computes[i];
      if (!c || c.monoid || c.dtype !== 'f32' || c.region !== undefined || this.bodies.has(i))
        continue;
      const reading = this.readings[i];
      if (!reading || (!this.ofProduct[i] && !reading.weights.some((w) => w))) continue;
      if (reading.leaf === c.body || c.origin.some((o) => this.stays.has(o))) continue;
      if (this.weights.ofBody(c)) continue;
      if (!this.ofProduct[i] || !this.foldOnce(i, reading)) this.compact(i, reading);
    }
    return { bodies: this.bodies, renamed: this.renamed, into: this.into };
  }

  private comesFromProduct(c: Compute, position: number): boolean {
    if (c.monoid || c.dtype !== 'f32') return false;
    const leaf = this.readings[position]?.leaf;
    if (leaf?.op !== 'load') return false;
    const at = this.positions.get(leaf.value);
    const p = at === undefined ? undefined : this.program.computes[at];
    if (at === undefined || !p || !this.mayChange(p, at)) return false;
    return p.monoid
      ? p.monoid.kind === 'sum' && this.readings[at]?.weights.some((w) => w) === true
      : this.ofProduct[at] === true;
  }

  /** The leaf of the affine form alone. */
  private leafOf(e: Expr): Expr {
    if (e.dtype !== 'f32') return e;
    if (e.op === 'unary' && e.fn === 'neg') {
      const leaf = this.leafOf(e.a);
      return leaf === e.a ? e : leaf;
    }
    if (e.op !== 'binary' || !AFFINE.has(e.fn)) return e;
    const [a, b] = [this.isWeight(e.a), this.isWeight(e.b)];
    if (a === b || (e.fn === 'div' && a)) return e;
    return this.leafOf(a ? e.b : e.a);
  }

  private formOf(r: Reading): Affine {
    return (r.form ??= this.affine(r.compute.body));
  }

  /** Folds the scale into the product that the form's leaf comes from. */
  private foldOnce(position: number, reading: Reading): boolean {
    const chain: Reading[] = [];
    const positions: number[] = [];
    let { leaf } = reading;
    for (;;) {
      if (leaf.op !== 'load') return false;
      const at = this.positions.get(leaf.value);
      const r = at === undefined ? undefined : this.readings[at];
      if (at === undefined || !r || !this.mayChange(r.compute, at)) return false;
      chain.push(r);
      positions.push(at);
      if (r.compute.monoid) break;
      leaf = r.leaf;
    }
    const product = chain[chain.length - 1];
    if (!product) return false;
    const before =
      reading.folded && sameList(reading.folded.chain, chain) ? reading.folded : undefined;
    const own = before ? before.own : this.ownWeights(product.compute);
    const alone = own !== undefined && this.readOnce(own);
    const folded =
      before?.alone === alone
        ? before
        : { chain, own, alone, made: alone ? this.fold(reading, chain) : undefined };
    reading.folded = folded;
    if (!folded.made) return false;
    const { first, bodies } = folded.made;
    bodies.forEach((body, i) => this.bodies.set(positions[i] ?? 0, body));
    for (const { compute } of chain) this.renamed.set(compute.value, scaledName(compute.value));
    this.bodies.set(position, first);
    this.into.set(position, product.compute.origin);
    return true;
  }

  /** The weights of one side of a product, where the other has none. */
  private ownWeights({ monoid, body }: Compute): ReadonlySet<ValueId> | undefined {
    if (monoid?.kind !== 'sum' || body.op !== 'binary' || body.fn !== 'mul') return undefined;
    const [a, b] = [this.weights.leaves(body.a), this.weights.leaves(body.b)];
    const left = a !== undefined && a.size > 0;
    const own = left ? a : b;
    // With weights on both sides it is computed at load as a whole.
    return !own || own.size === 0 || (left && b !== undefined) ? undefined : own;
  }

  /** Someone else would read the weights as they were: both would be in memory. */
  private readOnce(weights: ReadonlySet<ValueId>): boolean {
    for (const v of weights) if (this.readers.get(v) !== 1) return false;
    return true;
  }

  private fold(reading: Reading, chain: readonly Reading[]): Folded['made'] {
    const c = reading.compute;
    const form = this.formOf(reading);
    /** The scale in the dims of the compute at hand, and in those of `c`. */
    let scale = form.scale;
    let outerScale = form.scale;
    let shift = form.shift;
    let { leaf } = form;
    let outer: ReadonlyMap<string, IndexExpr> = new Map(
      c.dims.map((d) => [d.name, I.loopVar(d.name, d.extent)]),
    );
    for (const r of chain) {
      const p = r.compute;
      if (leaf.op !== 'load') return undefined;
      const inner = placesIn(leaf, p);
      if (!inner) return undefined;
      scale &&= moved(scale, inner);
      if (scale && !onlyDims(scale, p)) return undefined;
      const index = leaf.index;
      const here = outer;
      outer = new Map(
        p.dims.map((d, k) => [d.name, rewriteIndex(index[k] ?? I.num(0), here)] as const),
      );
      if (p.monoid) break;
      const own = this.formOf(r);
      if (own.shift) {
        const b = times(moved(own.shift, outer), outerScale);
        shift = shift ? binary('add', b, shift) : b;
      }
      if (own.scale) {
        outerScale = times(moved(own.scale, outer), outerScale);
        scale = times(own.scale, scale);
      }
      leaf = own.leaf;
    }
    const target = chain[chain.length - 1];
    if (!target || !scale || !this.hasLeaves(scale)) return undefined;
    const product = this.withFactor(target.compute, scale);
    if (!product) return undefined;
    const scaled = new Set(chain.map((r) => r.compute.value));
    // What was between hands its operand on.
    const between = chain.slice(0, -1).map((r) => renamedLoads(r.leaf, scaled));
    const first = renamedLoads(form.leaf, scaled);
    return {
      first: shift ? binary('add', first, shift) : first,
      bodies: [...between, product],
    };
  }

  private mayChange(p: Compute, position: number): boolean {
    return (
      p.dtype === 'f32' &&
      p.accumulator === 'f32' &&
      p.region === undefined &&
      !this.keep.has(p.value) &&
      !this.bodies.has(position) &&
      this.readers.get(p.value) === 1 &&
      !p.origin.some((o) => this.stays.has(o)) &&
      !this.weights.made(p.value)
    );
  }

  /** The product with its weights multiplied by the factor. */
  private withFactor(c: Compute, factor: Expr): Expr | undefined {
    const { body } = c;
    if (body.op !== 'binary') return undefined;
    const leaves = this.weights.leaves(body.a);
    const left = leaves !== undefined && leaves.size > 0;
    const [data, weight] = left ? [body.b, body.a] : [body.a, body.b];
    const both = mul(weight, factor);
    if (!this.prepares(both, c)) return undefined;
    return left ? mul(both, data) : mul(data, both);
  }

  /** leaf · scale + shift, where that reads fewer weights than what stood there. */
  private compact(position: number, reading: Reading): void {
    reading.compacted ??= this.compacted(reading) ?? null;
    if (reading.compacted) this.bodies.set(position, reading.compacted);
  }

  private compacted(reading: Reading): Expr | undefined {
    const c = reading.compute;
    const { leaf, scale, shift } = this.formOf(reading);
    const inLeaf = this.weightLoads(leaf);
    const before = new Set([...this.weightLoads(c.body)].filter((l) => !inLeaf.has(l)));
    const parts = [scale, shift].filter((e) => e !== undefined && this.hasLeaves(e));
    if (before.size <= parts.length) return undefined;
    if (parts.some((e) => e && e.op !== 'load' && !this.prepares(e, c))) return undefined;
    const scaled = scale ? mul(leaf, scale) : leaf;
    return shift ? binary('add', scaled, shift) : scaled;
  }

  private weightLoads(e: Expr): Set<string> {
    const out = new Set<string>();
    visitLoads(e, (l) => {
      if (this.weights.leaves(l)) out.add(`${l.value} ${l.index.map((i) => i.key).join()}`);
    });
    return out;
  }

  private hasLeaves(e: Expr): boolean {
    return (this.weights.leaves(e)?.size ?? 0) > 0;
  }

  private affine(e: Expr): Affine {
    if (e.dtype !== 'f32') return { leaf: e };
    if (e.op === 'unary' && e.fn === 'neg') {
      const { leaf, scale, shift } = this.affine(e.a);
      if (!scale && !shift) return { leaf: e };
      return {
        leaf,
        scale: scale ? unary('neg', scale) : { op: 'const', value: -1, dtype: 'f32' },
        ...(shift ? { shift: unary('neg', shift) } : {}),
      };
    }
    if (e.op !== 'binary') return { leaf: e };
    const [a, b] = [this.isWeight(e.a), this.isWeight(e.b)];
    if (a === b) return { leaf: e };
    const [data, w] = a ? [e.b, e.a] : [e.a, e.b];
    const form = this.affine(data);
    const { leaf, scale, shift } = form;
    switch (e.fn) {
      case 'add':
        return { ...form, shift: shift ? binary('add', shift, w) : w };
      case 'sub':
        if (b) return { ...form, shift: shift ? binary('sub', shift, w) : unary('neg', w) };
        return {
          leaf,
          scale: scale ? unary('neg', scale) : { op: 'const', value: -1, dtype: 'f32' },
          shift: shift ? binary('sub', w, shift) : w,
        };
      case 'mul':
        return {
          leaf,
          scale: scale ? mul(scale, w) : w,
          ...(shift ? { shift: mul(shift, w) } : {}),
        };
      case 'div':
        if (a) return { leaf: e };
        return {
          leaf,
          scale: scale ? binary('div', scale, w) : unary('recip', w),
          ...(shift ? { shift: binary('div', shift, w) } : {}),
        };
      default:
        return { leaf: e };
    }
  }

  private isWeight(e: Expr): boolean {
    const leaves = this.weights.leaves(e);
    return leaves !== undefined && (leaves.size > 0 || e.op === 'const');
  }
}

/** What a value is called in the run that has a factor in it there. */
function scaledName(v: ValueId): ValueId {
  return `${v}~scaled`;
}

function renamedLoads(e: Expr, scaled: ReadonlySet<ValueId>): Expr {
  return rewriteExpr(
    e,
    () => undefined,
    (l) => (scaled.has(l.value) ? { ...l, value: scaledName(l.value) } : undefined),
  );
}

function sameList(a: readonly unknown[], b: readonly unknown[]): boolean {
  return a.length === b.length && a.every((x, i) => x === b[i]);
}

function mul(a: Expr, b: Expr): Expr {
  return binary('mul', a, b);
}

function times(a: Expr, b: Expr | undefined): Expr {
  return b ? mul(a, b) : a;
}

/** The dims of a load's compute, by the reader's dims, where each is read whole by one of them. */
function placesIn(
  l: Extract<Expr, { op: 'load' }>,
  producer: Compute,
): ReadonlyMap<string, IndexExpr> | undefined {
  const out = new Map<string, IndexExpr>();
  for (const [k, d] of producer.dims.entries()) {
    const i = l.index[k];
    if (!i) return undefined;
    if (I.isConst(i, 0) && I.isConst(d.extent, 1)) continue;
    const [term, more] = i.terms;
    const [atom, other] = term?.factors ?? [];
    if (i.c !== 0 || more || other || term?.coef !== 1 || atom?.kind !== 'var') return undefined;
    if (!I.same(atom.extent, d.extent) || out.has(atom.name)) return undefined;
    out.set(atom.name, I.loopVar(d.name, d.extent));
  }
  return out;
}

/** The expression in other dims; those that have no place there stay, see {@link onlyDims}. */
function moved(e: Expr, dims: ReadonlyMap<string, IndexExpr>): Expr {
  return rewriteExpr(e, (a) => (a.kind === 'var' ? (dims.get(a.name) ?? LOST) : undefined));
}

function rewriteIndex(i: IndexExpr, dims: ReadonlyMap<string, IndexExpr>): IndexExpr {
  return I.rewrite(i, (a) => (a.kind === 'var' ? dims.get(a.name) : undefined));
}

/** A dim that the other compute doesn't have. */
const LOST = I.loopVar('lost', 2);

function onlyDims(e: Expr, c: Compute): boolean {
  return [...namesUsed(e)].every((name) => c.dims.some((d) => d.name === name));
}
