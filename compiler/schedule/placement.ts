/**
 * Placement: how the members of a group with reductions lie over *rows*.
 *
 * Vocabulary
 *  - *row*: one point of the kept dims of the group's anchor reduction; a workgroup (or a share of
 *    one) works on a row at a time.
 *  - *row variables* p0…: the row's position. *Free variables* f0…: positions inside the row.
 *  - *placed*: a member whose index is known as a function of row and free variables.
 *
 * A consumer of a placed value reads it at some index map over its own dims. Solving that map for the
 * dims (as variables, quotients, remainders or mixed radix sums) places the consumer: this is where
 * "softmax over axis 1 of NCHW" or "group norm through a reshape" turn out to be row-wise. Whether a
 * placement is right is checked afterwards, by evaluating: a reduction asked for at another row than
 * its own shows up as recompute.
 */
import type { Compute } from '../ir/compute';
import type { ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { Atom, IndexExpr } from '../ir/indexExpr';
import type { Point } from './builder';
import { extents, type GroupSpec, hasDyn, substPoint, visitLoads } from './group';

export interface FreeVar {
  readonly name: string;
  readonly extent: IndexExpr;
}

export interface Placed {
  readonly compute: Compute;
  readonly point: Point;
  /** Free variables in the point, in the order of the value's dims. */
  readonly free: readonly FreeVar[];
}

export interface Placement {
  readonly anchor: Compute;
  readonly rows: readonly IndexExpr[];
  readonly rowVars: readonly IndexExpr[];
  readonly placed: ReadonlyMap<ValueId, Placed>;
}

export type PlacementFault = {
  readonly value: ValueId;
  readonly reason: 'reduces-over-rows' | 'not-row-wise';
};

class Solver {
  private next = 0;
  fresh(extent: IndexExpr): { v: IndexExpr; free: FreeVar } {
    const name = `f${this.next++}`;
    return { v: I.loopVar(name, extent), free: { name, extent } };
  }
}

/** Places the group over the rows of `anchor`; or says which member can't be. */
export function place(group: GroupSpec, anchor: Compute): Placement | PlacementFault {
  const rows = extents(anchor);
  const rowVars = rows.map((d, i) => (I.isConst(d, 1) ? I.num(0) : I.loopVar(`p${i}`, d)));
  const placed = new Map<ValueId, Placed>();
  const solver = new Solver();
  placed.set(anchor.value, { compute: anchor, point: rowVars, free: [] });
  const byValue = new Map(group.members.map((m) => [m.value, m]));
  const rowNames = new Set(rowVars.map((v) => v.key));

  // Up: consumers of placed values.
  for (const m of group.members) {
    if (placed.has(m.value)) continue;
    const loads: { index: readonly IndexExpr[]; of: Placed }[] = [];
    visitLoads(m.body, (l) => {
      const of = placed.get(l.value);
      if (of && !hasDyn(l.index)) loads.push({ index: l.index, of });
    });
    if (loads.length === 0) continue;
    const r = solve(m, loads, rowNames, solver);
    if ('reason' in r) return r;
    placed.set(m.value, r);
  }

  // Down: producers whose position follows from a placed consumer's reads.
  for (const m of [...group.members].reverse()) {
    const p = placed.get(m.value);
    if (!p) continue;
    const env = new Map<string, IndexExpr>();
    m.dims.forEach((d, i) => env.set(d.name, p.point[i] ?? I.num(0)));
    const reduceFree: FreeVar[] = [];
    for (const d of m.reduce) {
      if (I.isConst(d.extent, 1)) {
        env.set(d.name, I.num(0));
        continue;
      }
      const f = solver.fresh(d.extent);
      env.set(d.name, f.v);
      reduceFree.push(f.free);
    }
    visitLoads(m.body, (l) => {
      const producer = byValue.get(l.value);
      if (!producer || placed.has(l.value) || hasDyn(l.index)) return;
      const point = substPoint(l.index, env);
      const names = new Set<string>();
      for (const e of point) I.visitAtoms(e, (a) => a.kind === 'var' && names.add(a.name));
      const free = [...p.free, ...reduceFree].filter((f) => names.has(f.name));
      placed.set(l.value, { compute: producer, point, free });
    });
  }

  // Siblings of the anchor by an operand that both read: element for element along the row.
  const operands = operandsOf(anchor, rowVars, solver);
  for (const m of group.members) {
    if (placed.has(m.value) || m.monoid || !group.outputs.includes(m.value)) continue;
    const loads: { index: readonly IndexExpr[]; of: Placed }[] = [];
    visitLoads(m.body, (l) => {
      const of = operands.get(l.value);
      if (of && !hasDyn(l.index)) loads.push({ index: l.index, of });
    });
    const r = loads.length > 0 ? solve(m, loads, rowNames, solver) : undefined;
    if (r && !('reason' in r)) placed.set(m.value, r);
  }

  // Siblings that nothing placed reads, and their own consumers.
  for (const m of group.members) {
    if (placed.has(m.value)) continue;
    if (!m.monoid && !group.outputs.includes(m.value)) continue;
    if (!sameShape(extents(m), rows)) {
      const like = [...placed.values()].find(
        (q) => q.free.length > 0 && sameShape(extents(q.compute), extents(m)),
      );
      if (!like || m.monoid) return { value: m.value, reason: 'not-row-wise' };
      placed.set(m.value, { compute: m, point: aligned(extents(m), like), free: like.free });
      continue;
    }
    if (
      m.monoid &&
      !I.same(
        I.product(m.reduce.map((r) => r.extent)),
        I.product(anchor.reduce.map((r) => r.extent)),
      )
    ) {
      return { value: m.value, reason: 'not-row-wise' };
    }
    placed.set(m.value, {
      compute: m,
      point: aligned(extents(m), { compute: anchor, point: rowVars }),
      free: [],
    });
    for (const c of group.members) {
      if (placed.has(c.value)) continue;
      const loads: { index: readonly IndexExpr[]; of: Placed }[] = [];
      visitLoads(c.body, (l) => {
        const of = placed.get(l.value);
        if (of && !hasDyn(l.index)) loads.push({ index: l.index, of });
      });
      if (loads.length === 0) continue;
      const r = solve(c, loads, rowNames, solver);
      if ('reason' in r) return r;
      placed.set(c.value, r);
    }
  }
  return { anchor, rows, rowVars, placed };
}

/**
 * Whether two points of the rows can't be the same element of the value. With as many points as there
 * are elements, each is then stored once. (Equal numbers alone prove nothing: the queries that scores
 * are made of are a third of a product, and each would be stored once for every key.)
 */
export function storesOnce({ rows, rowVars }: Placement, p: Placed): boolean {
  const sizes = new Map<string, IndexExpr>();
  rowVars.forEach((v, i) => {
    for (const t of v.terms)
      for (const f of t.factors) if (f.kind === 'var') sizes.set(f.name, rows[i] ?? I.num(1));
  });
  for (const f of p.free) sizes.set(f.name, f.extent);
  const seen = new Set<string>();
  for (const e of p.point) I.visitAtoms(e, (a) => a.kind === 'var' && seen.add(a.name));
  for (const [name, extent] of sizes) if (!seen.has(name) && !I.isConst(extent, 1)) return false;
  const digits: { readonly weight: number; readonly size: number }[] = [];
  for (const t of I.linearise(p.point, extents(p.compute)).terms) {
    const [f] = t.factors;
    const size = f?.kind === 'var' ? I.constOf(sizes.get(f.name) ?? I.num(1)) : undefined;
    // Quotients, and sizes that aren't numbers: that every variable counts must do.
    if (t.factors.length !== 1 || size === undefined) return true;
    digits.push({ weight: Math.abs(t.coef), size });
  }
  digits.sort((a, b) => a.weight - b.weight);
  let reach = 0;
  return digits.every(({ weight, size }) => {
    const apart = weight > reach;
    reach += weight * (size - 1);
    return apart;
  });
}

/** Where in its operands the anchor reads, for the row p and positions along it. */
function operandsOf(
  anchor: Compute,
  rowVars: readonly IndexExpr[],
  solver: Solver,
): Map<ValueId, Placed> {
  const env = new Map<string, IndexExpr>();
  anchor.dims.forEach((d, i) => env.set(d.name, rowVars[i] ?? I.num(0)));
  const free: FreeVar[] = [];
  for (const d of anchor.reduce) {
    const f = solver.fresh(d.extent);
    free.push(f.free);
    env.set(d.name, f.v);
  }
  const out = new Map<ValueId, Placed>();
  visitLoads(anchor.body, (l) => {
    if (out.has(l.value) || hasDyn(l.index)) return;
    out.set(l.value, { compute: anchor, point: substPoint(l.index, env), free });
  });
  return out;
}

/** Equal but for dims of size 1. */
function sameShape(a: readonly IndexExpr[], b: readonly IndexExpr[]): boolean {
  const x = a.filter((d) => !I.isConst(d, 1));
  const y = b.filter((d) => !I.isConst(d, 1));
  return x.length === y.length && x.every((d, i) => I.same(d, y[i] ?? I.num(-1)));
}

/** The point of a value of the same shape, carried over to a shape with its dims of size 1 elsewhere. */
function aligned(
  shape: readonly IndexExpr[],
  like: { readonly compute: Compute; readonly point: Point },
): Point {
  const positions = like.point.filter(
    (_, i) => !I.isConst(like.compute.dims[i]?.extent ?? I.num(1), 1),
  );
  let next = 0;
  return shape.map((d) => (I.isConst(d, 1) ? I.num(0) : (positions[next++] ?? I.num(0))));
}

/** Expresses the dims of `m` by row and free variables so that its reads of placed values meet their points. */
function solve(
  m: Compute,
  loads: readonly { index: readonly IndexExpr[]; of: Placed }[],
  rowNames: ReadonlySet<string>,
  solver: Solver,
): Placed | PlacementFault {
  const parallel = new Map(m.dims.map((d) => [d.name, d.extent]));
  const reduce = new Map(m.reduce.map((d) => [d.name, d.extent]));
  const env = new Map<string, IndexExpr>();
  const free: FreeVar[] = [];
  const usesRow = (e: IndexExpr): boolean => {
    let yes = false;
    I.visitAtoms(e, (a) => (yes = yes || (a.kind === 'var' && rowNames.has(a.name))));
    return yes;
  };
  /** The target with its free variables renamed for this member. */
  const own = (e: IndexExpr): IndexExpr => {
    const renamed = new Map<string, IndexExpr>();
    return I.rewrite(e, (a) => {
      if (a.kind !== 'var' || rowNames.has(a.name)) return undefined;
      const known = renamed.get(a.name);
      if (known) return known;
      const f = solver.fresh(a.extent);
      free.push(f.free);
      renamed.set(a.name, f.v);
      return f.v;
    });
  };
  for (const { index, of } of loads) {
    for (const [name, whole] of composed(index, of.point)) {
      const extent = parallel.get(name);
      if (!extent || env.has(name) || !whole.targets.some(usesRow)) continue;
      if (!I.same(I.product(whole.targets.map(spread)), extent)) continue;
      env.set(name, own(whole.value));
    }
    for (let i = 0; i < index.length; i++) {
      const source = index[i];
      const target = of.point[i];
      if (!source || !target || !usesRow(target) || source.terms.length === 0) continue;
      const fault = unify(source, target);
      if (fault) return { value: m.value, reason: fault };
    }
  }

  function unify(source: IndexExpr, target: IndexExpr): PlacementFault['reason'] | undefined {
    const atom = single(source);
    const part = digitOf(source);
    if (part && env.has(part.name)) return undefined;
    if (atom?.kind === 'var') {
      if (reduce.has(atom.name)) return I.isConst(atom.extent, 1) ? undefined : 'reduces-over-rows';
      // A dim that is longer than what it reads (a pad, a concat) has rows that the anchor hasn't.
      if (!I.same(spread(target), atom.extent)) return 'not-row-wise';
      env.set(atom.name, own(target));
      return undefined;
    }
    const inner =
      atom && (atom.kind === 'floordiv' || atom.kind === 'mod') ? single(atom.a) : undefined;
    if (atom && inner?.kind === 'var' && (atom.kind === 'floordiv' || atom.kind === 'mod')) {
      if (reduce.has(inner.name)) return 'reduces-over-rows';
      const outer = I.exactDiv(inner.extent, atom.b);
      if (!outer || !I.same(spread(target), atom.kind === 'floordiv' ? outer : atom.b))
        return 'not-row-wise';
      if (atom.kind === 'floordiv') {
        const f = solver.fresh(atom.b);
        free.push(f.free);
        env.set(inner.name, I.add(I.mul(own(target), atom.b), f.v));
      } else {
        const f = solver.fresh(outer);
        free.push(f.free);
        env.set(inner.name, I.add(I.mul(f.v, atom.b), own(target)));
      }
      return undefined;
    }
    // Mixed radix: the source spells the target's position by several dims.
    const digits = mixedRadix(source);
    if (!digits) return 'not-row-wise';
    if (digits.some((d) => reduce.has(d.name))) return 'reduces-over-rows';
    if (digits.some((d) => env.has(d.name))) return undefined;
    if (!I.same(I.product(digits.map((d) => d.extent)), spread(target))) return 'not-row-wise';
    const parts = I.delinearise(
      own(target),
      digits.map((d) => d.extent),
    );
    digits.forEach((d, k) => env.set(d.name, parts[k] ?? I.num(0)));
    return undefined;
  }

  const point: IndexExpr[] = [];
  for (const [name, extent] of parallel) {
    const known = env.get(name);
    if (known) {
      point.push(known);
      continue;
    }
    if (I.isConst(extent, 1)) {
      point.push(I.num(0));
      continue;
    }
    const f = solver.fresh(extent);
    free.push(f.free);
    point.push(f.v);
  }
  return { compute: m, point, free: order(point, free) };
}

/** A part of a variable, as a reshape takes it apart: (x // step) % count; without count, all above step. */
interface Digit {
  readonly name: string;
  readonly step: IndexExpr;
  readonly count: IndexExpr | undefined;
}

function digitOf(e: IndexExpr): Digit | undefined {
  const atom = single(e);
  if (atom?.kind === 'var') return { name: atom.name, step: I.num(1), count: undefined };
  if (atom?.kind !== 'floordiv' && atom?.kind !== 'mod') return undefined;
  const inner = digitOf(atom.a);
  if (!inner) return undefined;
  if (atom.kind === 'mod') return inner.count ? undefined : { ...inner, count: atom.b };
  const count = inner.count && I.exactDiv(inner.count, atom.b);
  if (inner.count && !count) return undefined;
  return { name: inner.name, step: I.mul(inner.step, atom.b), count };
}

/**
 * Variables of which an index reads all digits, put together again from where the digits must be:
 * rows joined with others by a reshape.
 */
function composed(
  index: readonly IndexExpr[],
  point: Point,
): Map<string, { value: IndexExpr; targets: readonly IndexExpr[] }> {
  const digits = new Map<string, { digit: Digit; target: IndexExpr }[]>();
  index.forEach((e, i) => {
    const digit = digitOf(e);
    const target = point[i];
    if (!digit || !target) return;
    const list = digits.get(digit.name);
    if (list) list.push({ digit, target });
    else digits.set(digit.name, [{ digit, target }]);
  });
  const out = new Map<string, { value: IndexExpr; targets: readonly IndexExpr[] }>();
  for (const [name, list] of digits) {
    if (list.length < 2) continue;
    let value: IndexExpr = I.num(0);
    let step: IndexExpr | undefined = I.num(1);
    const targets: IndexExpr[] = [];
    while (step) {
      const at: IndexExpr = step;
      const next = list.find((d) => I.same(d.digit.step, at));
      if (!next) break;
      value = I.add(value, I.mul(next.target, at));
      targets.push(next.target);
      step = next.digit.count && I.mul(at, next.digit.count);
    }
    // The last digit has no end: nothing of the variable is left out.
    if (!step && targets.length === list.length) out.set(name, { value, targets });
  }
  return out;
}

/** How many positions an index made of row and free variables takes: the product of their extents. */
function spread(e: IndexExpr): IndexExpr {
  const extents = new Map<string, IndexExpr>();
  I.visitAtoms(e, (a) => {
    if (a.kind === 'var') extents.set(a.name, a.extent);
  });
  return I.product([...extents.values()]);
}

/** Free variables in the order in which they occur in the point. */
function order(point: Point, free: readonly FreeVar[]): FreeVar[] {
  const out: FreeVar[] = [];
  for (const e of point) {
    I.visitAtoms(e, (a) => {
      if (a.kind !== 'var') return;
      const f = free.find((x) => x.name === a.name);
      if (f && !out.includes(f)) out.push(f);
    });
  }
  return out;
}

function single(e: IndexExpr): Atom | undefined {
  const t = e.terms[0];
  return e.c === 0 && e.terms.length === 1 && t?.coef === 1 && t.factors.length === 1
    ? t.factors[0]
    : undefined;
}

/** The variables of `a*x + b*y + … + z` when a, b… are the products of the extents that follow. */
function mixedRadix(e: IndexExpr): { name: string; extent: IndexExpr }[] | undefined {
  if (e.c !== 0) return undefined;
  const terms: { v: { name: string; extent: IndexExpr }; coef: IndexExpr }[] = [];
  for (const t of e.terms) {
    const vars = t.factors.filter((f) => f.kind === 'var');
    const v = vars[0];
    if (vars.length !== 1 || v?.kind !== 'var') return undefined;
    let coef = I.num(t.coef);
    for (const f of t.factors)
      if (f !== v) {
        if (f.kind !== 'sym') return undefined;
        coef = I.mul(coef, I.sym(f.name));
      }
    terms.push({ v: { name: v.name, extent: v.extent }, coef });
  }
  const out: { name: string; extent: IndexExpr }[] = [];
  let scale: IndexExpr = I.num(1);
  while (out.length < terms.length) {
    const t = terms.find((x) => I.same(x.coef, scale) && !out.some((o) => o.name === x.v.name));
    if (!t) return undefined;
    out.unshift(t.v);
    scale = I.mul(scale, t.v.extent);
  }
  return out;
}
