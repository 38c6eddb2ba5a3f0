/**
 * Computes that only put values together (concat, stack, padding at an end), read off their maps: which
 * box of the result each operand fills.
 *
 * Vocabulary
 *  - *joined* compute: pointwise, and piecewise by index conditions that cut its dims into boxes.
 *  - *part*: one of the boxes. Its *source* is the value whose elements it is, all of them, once each.
 *  - *copy*: a compute of a part's own shape that fills it, for parts without a source that can be
 *    stored there by whatever makes it. The planner's program has one for each part, behind all other
 *    computes; most are never used.
 */
import type { Compute, Program, Value } from '../ir/compute';
import { type Expr, type IndexCond, rewriteExpr, type ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import { hasDyn } from '../schedule/group';
import type { Slice } from '../schedule/slices';

export interface JoinedPart {
  readonly source?: { readonly value: ValueId; readonly slice: Slice };
  /** Position of the compute that fills the part by itself, and where its value lies. */
  readonly copy: number;
  readonly copySlice: Slice;
}

export interface Joined {
  /** Position of the compute. */
  readonly compute: number;
  readonly parts: readonly JoinedPart[];
}

export interface PlannedProgram {
  /** The program with a copy for each part of a joined compute, behind the program's own computes. */
  readonly program: Program;
  readonly joined: readonly Joined[];
  /** How many of the computes are the program's own. */
  readonly own: number;
}

/** Parts of one compute, at most: what is beyond is no concatenation that people write. */
const MOST_PARTS = 512;

export function planProgram(program: Program): PlannedProgram {
  const own = program.computes.length;
  // What goes into a branch or a loop, or comes out of it, is in buffers of its own.
  if ((program.regions ?? []).length > 0) return { program, joined: [], own };
  const copies: Compute[] = [];
  const values: Value[] = [];
  const joined: Joined[] = [];
  program.computes.forEach((c, compute) => {
    const boxes = boxesOf(c);
    if (!boxes) return;
    const parts = boxes.map((box, k): JoinedPart => {
      const source = sourceOf(program, c, box);
      const { copy, value } = copyOf(program, c, box, k);
      copies.push(copy);
      values.push(value);
      return {
        ...(source ? { source } : {}),
        copy: own + copies.length - 1,
        copySlice: wholeBox(c, box),
      };
    });
    joined.push({ compute, parts });
  });
  if (joined.length === 0) return { program, joined, own };
  const all = new Map(program.values);
  for (const v of values) all.set(v.id, v);
  return {
    program: { ...program, values: all, computes: [...program.computes, ...copies] },
    joined,
    own,
  };
}

/** A box of a compute's dims, and what its elements are there. */
interface Box {
  readonly lo: readonly IndexExpr[];
  readonly hi: readonly IndexExpr[];
  readonly expr: Expr;
}

function boxesOf(c: Compute): readonly Box[] | undefined {
  if (c.monoid || c.body.op !== 'when') return undefined;
  const out: Box[] = [];
  const go = (box: Box): boolean => {
    const { expr } = box;
    if (expr.op !== 'when') {
      out.push(box);
      return out.length <= MOST_PARTS;
    }
    const [cond] = expr.conds;
    // More conditions at once leave what is no box.
    const cut = cond && expr.conds.length === 1 ? cutBox(c, box, cond) : undefined;
    if (!cut) {
      out.push(box);
      return out.length <= MOST_PARTS;
    }
    return (
      go({ ...cut.inside, expr: expr.then }) &&
      (!cut.outside || go({ ...cut.outside, expr: expr.else }))
    );
  };
  const whole = { lo: c.dims.map(() => I.num(0)), hi: c.dims.map((d) => d.extent), expr: c.body };
  return go(whole) && out.length > 1 ? out : undefined;
}

/** A condition on one dim that leaves a box on either side of one cut. */
function cutBox(
  c: Compute,
  box: Box,
  cond: IndexCond,
): { inside: Omit<Box, 'expr'>; outside: Omit<Box, 'expr'> | undefined } | undefined {
  const dim = c.dims.findIndex((d) => {
    const [term] = cond.index.terms;
    const [atom] = term?.factors ?? [];
    return (
      cond.index.terms.length === 1 &&
      term?.coef === 1 &&
      term.factors.length === 1 &&
      atom?.kind === 'var' &&
      atom.name === d.name
    );
  });
  if (dim < 0) return undefined;
  const lo = box.lo[dim];
  const hi = box.hi[dim];
  if (!lo || !hi) return undefined;
  const from = later(lo, I.sub(cond.lo, cond.index.c));
  const to = earlier(hi, I.sub(cond.hi, cond.index.c));
  if (!from || !to || !I.provablyLe(from, to)) return undefined;
  const within = (a: IndexExpr, b: IndexExpr): Omit<Box, 'expr'> => ({
    lo: box.lo.map((x, i) => (i === dim ? a : x)),
    hi: box.hi.map((x, i) => (i === dim ? b : x)),
  });
  const startsHere = I.same(from, lo);
  const endsHere = I.same(to, hi);
  if (startsHere && endsHere) return { inside: within(from, to), outside: undefined };
  if (startsHere) return { inside: within(from, to), outside: within(to, hi) };
  if (endsHere) return { inside: within(from, to), outside: within(lo, from) };
  return undefined;
}

function later(a: IndexExpr, b: IndexExpr): IndexExpr | undefined {
  return I.provablyLe(a, b) ? b : I.provablyLe(b, a) ? a : undefined;
}

function earlier(a: IndexExpr, b: IndexExpr): IndexExpr | undefined {
  return I.provablyLe(a, b) ? a : I.provablyLe(b, a) ? b : undefined;
}

function sizes(box: Box): IndexExpr[] {
  return box.hi.map((h, i) => I.sub(h, box.lo[i] ?? I.num(0)));
}

/** Replaces the compute's dims by places inside the box. */
function insideBox(c: Compute, box: Box, names: readonly IndexExpr[]): Map<string, IndexExpr> {
  return new Map(
    c.dims.map((d, i) => [d.name, I.add(names[i] ?? I.num(0), box.lo[i] ?? I.num(0))]),
  );
}

function wholeBox(c: Compute, box: Box): Slice {
  return {
    into: c.value,
    counts: sizes(box),
    dims: box.lo.map((offset, count) => ({ count, offset })),
  };
}

/** The value that fills the box, when each of its elements is there once. */
function sourceOf(
  program: Program,
  c: Compute,
  box: Box,
): { value: ValueId; slice: Slice } | undefined {
  const { expr } = box;
  if (expr.op !== 'load' || hasDyn(expr.index)) return undefined;
  const v = program.values.get(expr.value);
  if (v?.dtype !== c.dtype) return undefined;
  const shape = sizes(box);
  const places = shape.map((d, i) => I.loopVar(`d${i}`, d));
  const env = insideBox(c, box, places);
  const index = expr.index.map((e) =>
    I.rewrite(e, (a) => (a.kind === 'var' ? env.get(a.name) : undefined)),
  );
  const slice = byDims(c, box, shape, places, v.shape, index);
  if (slice) return { value: v.id, slice };
  // The same elements in the same order, in another shape.
  const ordered =
    I.same(I.product(v.shape), I.product(shape)) &&
    I.same(I.linearise(index, v.shape), I.linearise(places, shape));
  return ordered ? { value: v.id, slice: wholeBox(c, box) } : undefined;
}

/** Each dim of the value runs along one of the box's, all of it. */
function byDims(
  c: Compute,
  box: Box,
  shape: readonly IndexExpr[],
  places: readonly IndexExpr[],
  valueShape: readonly IndexExpr[],
  index: readonly IndexExpr[],
): Slice | undefined {
  const along = new Map<number, number>();
  for (const [i, e] of index.entries()) {
    const size = valueShape[i] ?? I.num(1);
    if (I.isConst(size, 1)) continue;
    const dim = places.findIndex((p) => p.key === e.key);
    if (dim < 0 || along.has(dim) || !I.same(shape[dim] ?? I.num(-1), size)) return undefined;
    along.set(dim, i);
  }
  if (shape.some((d, i) => !along.has(i) && !I.isConst(d, 1))) return undefined;
  return {
    into: c.value,
    counts: valueShape,
    dims: box.lo.map((offset, i) => {
      const count = along.get(i);
      return count === undefined ? { offset } : { count, offset };
    }),
  };
}

function copyOf(
  program: Program,
  c: Compute,
  box: Box,
  k: number,
): { copy: Compute; value: Value } {
  const shape = sizes(box);
  const dims = shape.map((extent, i) => ({ name: `d${i}`, extent }));
  const env = insideBox(
    c,
    box,
    dims.map((d) => I.loopVar(d.name, d.extent)),
  );
  const id = `${c.value}#${k}`;
  return {
    copy: {
      id: `c:${id}`,
      value: id,
      dims,
      reduce: [],
      body: rewriteExpr(box.expr, (a) => (a.kind === 'var' ? env.get(a.name) : undefined)),
      dtype: c.dtype,
      accumulator: c.accumulator,
      origin: c.origin,
    },
    value: {
      id,
      name: program.values.get(c.value)?.name ?? c.value,
      dtype: c.dtype,
      shape,
      role: 'computed',
    },
  };
}
