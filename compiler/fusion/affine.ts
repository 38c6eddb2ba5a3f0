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
import { namesUsed, type Weights } from './weights';

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

/** Whether an expression would be computed at load, if it stood in the compute. */
export type Prepares = (e: Expr, c: Compute) => boolean;

export function foldAffine(
  program: Program,
  weights: Weights,
  keep: ReadonlySet<ValueId>,
  stays: ReadonlySet<NodeId>,
  prepares: Prepares,
): Folding {
  return new Folder(program, weights, keep, stays, prepares).run();
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
  private readonly bodies = new Map<number, Expr>();
  private readonly renamed = new Map<ValueId, ValueId>();
  private readonly into = new Map<number, readonly NodeId[]>();

  constructor(
    private readonly program: Program,
    private readonly weights: Weights,
    private readonly keep: ReadonlySet<ValueId>,
    private readonly stays: ReadonlySet<NodeId>,
    private readonly prepares: Prepares,
  ) {
    program.computes.forEach((c, i) => {
      this.positions.set(c.value, i);
      for (const v of valuesRead(c.body)) this.readers.set(v, (this.readers.get(v) ?? 0) + 1);
    });
    program.computes.forEach((c, i) => (this.ofProduct[i] = this.comesFromProduct(c)));
  }

  run(): Folding {
    const { computes } = this.program;
    // The last first: it takes what is before it along.
    for (let i = computes.length - 1; i >= 0; i--) {
      const c = computes[i];
      if (!c || c.monoid || c.dtype !== 'f32' || c.region !== undefined || this.bodies.has(i))
        continue;
      if (!this.ofProduct[i] && !this.weights.touches(c.body)) continue;
      if (c.origin.some((o) => this.stays.has(o))) continue;
      if (this.weights.leaves(c.body)) continue;
      const form = this.affine(c.body);
      if (form.leaf === c.body) continue;
      if (!this.ofProduct[i] || !this.fold(c, i, form)) this.compact(c, i, form);
    }
    return { bodies: this.bodies, renamed: this.renamed, into: this.into };
  }

  private comesFromProduct(c: Compute): boolean {
    if (c.monoid || c.dtype !== 'f32') return false;
    const leaf = this.leafOf(c.body);
    if (leaf.op !== 'load') return false;
    const at = this.positions.get(leaf.value);
    const p = at === undefined ? undefined : this.program.computes[at];
    if (at === undefined || !p || !this.mayChange(p, at)) return false;
    return p.monoid
      ? p.monoid.kind === 'sum' && this.weights.touches(p.body)
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

  /** Folds the scale into the product that the form's leaf comes from. */
  private fold(c: Compute, position: number, form: Affine): boolean {
    /** The scale in the dims of the compute at hand, and in those of `c`. */
    let scale = form.scale;
    let outerScale = form.scale;
    let shift = form.shift;
    let { leaf } = form;
    let outer: ReadonlyMap<string, IndexExpr> = new Map(
      c.dims.map((d) => [d.name, I.loopVar(d.name, d.extent)]),
    );
    const between: { readonly position: number; readonly compute: Compute }[] = [];
    for (;;) {
      if (leaf.op !== 'load') return false;
      const at = this.positions.get(leaf.value);
      const p = at === undefined ? undefined : this.program.computes[at];
      if (at === undefined || !p || !this.mayChange(p, at)) return false;
      const inner = placesIn(leaf, p);
      if (!inner) return false;
      scale &&= moved(scale, inner);
      if (scale && !onlyDims(scale, p)) return false;
      const index = leaf.index;
      const here = outer;
      outer = new Map(
        p.dims.map((d, k) => [d.name, rewriteIndex(index[k] ?? I.num(0), here)] as const),
      );
      between.push({ position: at, compute: p });
      if (p.monoid) break;
      const own = this.affine(p.body);
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
    const target = between[between.length - 1];
    if (!scale || !this.hasLeaves(scale)) return false;
    const folded = target && this.withFactor(target.compute, scale);
    if (!target || !folded) return false;
    this.bodies.set(target.position, folded);
    for (const { compute } of between) this.renamed.set(compute.value, `${compute.value}~scaled`);
    // What was between hands its operand on.
    between.slice(0, -1).forEach(({ position: at, compute }) => {
      const { leaf: source } = this.affine(compute.body);
      this.bodies.set(at, this.renamedLoads(source));
    });
    const first = this.renamedLoads(form.leaf);
    this.bodies.set(position, shift ? binary('add', first, shift) : first);
    this.into.set(position, target.compute.origin);
    return true;
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

  /** The product with its weights multiplied by the factor, where those are nobody else's. */
  private withFactor(c: Compute, factor: Expr): Expr | undefined {
    const { body } = c;
    if (c.monoid?.kind !== 'sum' || body.op !== 'binary' || body.fn !== 'mul') return undefined;
    const [a, b] = [this.weights.leaves(body.a), this.weights.leaves(body.b)];
    const left = a !== undefined && a.size > 0;
    const own = left ? a : b;
    // With weights on both sides it is computed at load as a whole.
    if (!own || own.size === 0 || (left && b !== undefined)) return undefined;
    const [data, weight] = left ? [body.b, body.a] : [body.a, body.b];
    // Someone else would read the weights as they were: both would be in memory.
    for (const v of own) if (this.readers.get(v) !== 1) return undefined;
    const both = mul(weight, factor);
    if (!this.prepares(both, c)) return undefined;
    return left ? mul(both, data) : mul(data, both);
  }

  /** leaf · scale + shift, where that reads fewer weights than what stood there. */
  private compact(c: Compute, position: number, { leaf, scale, shift }: Affine): void {
    const inLeaf = this.weightLoads(leaf);
    const before = new Set([...this.weightLoads(c.body)].filter((l) => !inLeaf.has(l)));
    const parts = [scale, shift].filter((e) => e !== undefined && this.hasLeaves(e));
    if (before.size <= parts.length) return;
    if (parts.some((e) => e && e.op !== 'load' && !this.prepares(e, c))) return;
    const scaled = scale ? mul(leaf, scale) : leaf;
    this.bodies.set(position, shift ? binary('add', scaled, shift) : scaled);
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

  private renamedLoads(e: Expr): Expr {
    return rewriteExpr(
      e,
      () => undefined,
      (l) => {
        const value = this.renamed.get(l.value);
        return value === undefined ? undefined : { ...l, value };
      },
    );
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
