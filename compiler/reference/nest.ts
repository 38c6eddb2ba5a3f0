/**
 * From a compute to the loop nest that the reference runs: sizes bound to numbers, loads made
 * one-dimensional, loops of one trip removed, neighbouring loops merged where every index allows it.
 *
 * Vocabulary
 *  - *nest*: the loops of one compute, parallel ones outside, and its body.
 *  - *linear load*: a load whose single index is the row-major position.
 *  - *packing*: a copy of an operand with one axis moved last, so that the innermost loop of a
 *    contraction walks through memory one element at a time.
 */
import { isFloat } from '../graph/dtype';
import type { Compute, Monoid, Program } from '../ir/compute';
import { rewriteExpr, visitExpr, type Expr, type ValueId } from '../ir/expr';
import {
  constOf,
  linearise,
  loopVar,
  num,
  rewrite,
  visitAtoms,
  type Dim,
  type IndexExpr,
  type LeafRewrite,
} from '../ir/indexExpr';

export interface Loop {
  readonly name: string;
  readonly extent: number;
}

export interface Packing {
  readonly value: ValueId;
  /** The axis that becomes the last. */
  readonly axis: number;
}

export interface Nest {
  readonly compute: Compute;
  readonly parallel: readonly Loop[];
  readonly reduce: readonly Loop[];
  readonly monoid?: Monoid;
  readonly body: Expr;
  /** Row-major position of the result, over the parallel loops. */
  readonly position: IndexExpr;
  /** For arg reductions: row-major position over the reduction loops. */
  readonly reducePosition: IndexExpr;
  /** What the loads of these made-up values mean. */
  readonly packings: ReadonlyMap<ValueId, Packing>;
  readonly elements: number;
  /** Points of the reduction for each element; 1 without one. */
  readonly trips: number;
}

export type Shapes = (value: ValueId) => readonly number[];

export function bindDim(d: Dim, dims: ReadonlyMap<string, number>): number {
  const n = constOf(rewrite(d, sizes(dims)));
  if (n === undefined) throw new Error(`a size of ${d.key} has no value`);
  return n;
}

function sizes(dims: ReadonlyMap<string, number>): LeafRewrite {
  return (a) => {
    if (a.kind !== 'sym') return undefined;
    const n = dims.get(a.name);
    return n === undefined ? undefined : num(n);
  };
}

export function shapesOf(program: Program): Map<ValueId, readonly number[]> {
  const out = new Map<ValueId, readonly number[]>();
  for (const v of program.values.values())
    out.set(
      v.id,
      v.shape.map((d) => bindDim(d, program.dims)),
    );
  return out;
}

/** Undefined when the result or the reduction has no points: then there is no loop to run. */
export function makeNest(
  c: Compute,
  dims: ReadonlyMap<string, number>,
  shapes: Shapes,
): Nest | undefined {
  const bound = (l: { name: string; extent: Dim }): Loop => ({
    name: l.name,
    extent: bindDim(l.extent, dims),
  });
  const parallel = c.dims.map(bound);
  const reduce = c.reduce.map(bound);
  if ([...parallel, ...reduce].some((l) => l.extent === 0)) return undefined;

  const extents = new Map([...parallel, ...reduce].map((l) => [l.name, l.extent]));
  const size = sizes(dims);
  const leaf: LeafRewrite = (a) => {
    if (a.kind !== 'var') return size(a);
    const n = extents.get(a.name);
    if (n === undefined) throw new Error(`${c.id}: the variable ${a.name} is not bound`);
    return n === 1 ? num(0) : loopVar(a.name, n);
  };
  const elements = parallel.reduce((n, l) => n * l.extent, 1);
  const trips = reduce.reduce((n, l) => n * l.extent, 1);
  const bodyOfRank = rewriteExpr(c.body, leaf);
  const longReduce = reduce.filter((l) => l.extent !== 1);
  const order = inOrder(c.monoid, longReduce, bodyOfRank);
  const packings = new Map<ValueId, Packing>();
  const inner = c.monoid?.kind === 'sum' ? order.at(-1) : undefined;
  const body = rewriteExpr(
    bodyOfRank,
    () => undefined,
    (load) => {
      const shape = shapes(load.value);
      const reuse = (elements * trips) / shape.reduce((n, d) => n * d, 1);
      const axis =
        inner && reuse >= WORTH_PACKING ? axisToPack(load.index, shape, inner) : undefined;
      if (axis === undefined)
        return { ...load, index: [linearise(load.index, shape.map(num))], op: 'load' };
      const value = `${load.value}@${axis}`;
      packings.set(value, { value: load.value, axis });
      const index = lastAxis(load.index, axis);
      return { ...load, value, index: [linearise(index, lastAxis(shape, axis).map(num))] };
    },
  );
  const vars = (loops: readonly Loop[]): IndexExpr[] =>
    loops.map((l) => (l.extent === 1 ? num(0) : loopVar(l.name, l.extent)));
  const row = (loops: readonly Loop[]): IndexExpr =>
    linearise(
      vars(loops),
      loops.map((l) => num(l.extent)),
    );
  return merge({
    compute: c,
    parallel: parallel.filter((l) => l.extent !== 1),
    reduce: order,
    ...(c.monoid ? { monoid: c.monoid } : {}),
    body,
    position: row(parallel),
    reducePosition: row(reduce),
    packings,
    elements,
    trips,
  });
}

/** Reads of each element from which on a packed copy pays. */
const WORTH_PACKING = 8;

/** The axis that the loop walks along alone, when that isn't the last one already. */
function axisToPack(
  index: readonly IndexExpr[],
  shape: readonly number[],
  inner: Loop,
): number | undefined {
  const along = index.flatMap((e, axis) => (usesVar(e, inner.name) ? [axis] : []));
  const [axis] = along;
  if (axis === undefined || along.length > 1 || strideOf(index[axis] ?? num(0), inner.name) !== 1)
    return undefined;
  return shape.slice(axis + 1).some((d) => d !== 1) ? axis : undefined;
}

export function lastAxis<T>(list: readonly T[], axis: number): T[] {
  return [...list.slice(0, axis), ...list.slice(axis + 1), ...list.slice(axis, axis + 1)];
}

/** Every index expression of the nest, those of conditions and of dynamic indices too. */
export function indicesOf(body: Expr): IndexExpr[] {
  const out: IndexExpr[] = [];
  visitExpr(body, (e) => {
    if (e.op === 'index') out.push(e.index);
    if (e.op === 'load') out.push(...e.index);
    if (e.op === 'when') for (const c of e.conds) out.push(c.index, c.lo, c.hi);
  });
  return out;
}

/** The coefficient with which the variable enters; undefined when it isn't a plain sum. */
export function strideOf(e: IndexExpr, name: string): number | undefined {
  let stride = 0;
  for (const t of e.terms) {
    const [f] = t.factors;
    if (t.factors.length === 1 && f?.kind === 'var') {
      if (f.name === name) stride += t.coef;
    } else if (termUses(t.factors, name)) return undefined;
  }
  return stride;
}

function termUses(factors: IndexExpr['terms'][number]['factors'], name: string): boolean {
  let found = false;
  for (const f of factors) {
    if (f.kind === 'dyn') {
      visitExpr(f.expr, (e) => {
        const inner = e.op === 'load' ? e.index : e.op === 'index' ? [e.index] : [];
        if (inner.some((i) => usesVar(i, name))) found = true;
        if (e.op === 'when')
          for (const c of e.conds)
            if ([c.index, c.lo, c.hi].some((i) => usesVar(i, name))) found = true;
      });
    } else if (f.kind === 'var') found ||= f.name === name;
    else if (f.kind !== 'sym') found ||= usesVar(f.a, name) || usesVar(f.b, name);
  }
  return found;
}

export function usesVar(e: IndexExpr, name: string): boolean {
  return e.terms.some((t) => termUses(t.factors, name));
}

/** Merges loop i into loop i+1 where stride(i) = stride(i+1) · extent(i+1) in every index. */
function merge(nest: Nest): Nest {
  let { parallel, reduce, body, position, reducePosition } = nest;
  const pass = (loops: readonly Loop[]): Loop[] => {
    const out = [...loops];
    for (let i = out.length - 2; i >= 0; i--) {
      const outer = out[i];
      const inner = out[i + 1];
      if (!outer || !inner) continue;
      const fits = [position, reducePosition, ...indicesOf(body)].every((e) => {
        const a = strideOf(e, outer.name);
        const b = strideOf(e, inner.name);
        return a !== undefined && b !== undefined && a === b * inner.extent;
      });
      if (!fits) continue;
      const both: Loop = { name: inner.name, extent: outer.extent * inner.extent };
      const leaf: LeafRewrite = (a) => {
        if (a.kind !== 'var') return undefined;
        if (a.name === outer.name) return num(0);
        return a.name === inner.name ? loopVar(both.name, both.extent) : undefined;
      };
      body = rewriteExpr(body, leaf);
      position = rewrite(position, leaf);
      reducePosition = rewrite(reducePosition, leaf);
      out.splice(i, 2, both);
    }
    return out;
  };
  parallel = pass(parallel);
  reduce = pass(reduce);
  return { ...nest, parallel, reduce, body, position, reducePosition };
}

/** A short innermost loop costs more in its bounds than in its body. */
const SHORT = 16;

/**
 * Puts reduction loops that conditions depend on outside, so that the conditions leave the innermost
 * loop, and a long loop innermost. Only where the order of combining doesn't matter: never for the
 * positions of arg reductions.
 */
function inOrder(monoid: Monoid | undefined, reduce: readonly Loop[], body: Expr): readonly Loop[] {
  if (reduce.length < 2 || monoid?.kind === 'argmax' || monoid?.kind === 'argmin') return reduce;
  const conditions: IndexExpr[] = [];
  visitExpr(body, (e) => {
    if (e.op === 'when') for (const c of e.conds) conditions.push(c.index, c.lo, c.hi);
  });
  const guarded = reduce.filter((l) => conditions.some((e) => usesVar(e, l.name)));
  const free = reduce.filter((l) => !guarded.includes(l));
  const last = free.at(-1);
  if (last && last.extent < SHORT) {
    const longest = free.reduce((a, b) => (b.extent > a.extent ? b : a));
    free.splice(free.indexOf(longest), 1);
    free.push(longest);
  }
  return [...guarded, ...free];
}

/** Whether the variable stands inside a division, a condition or a dynamic index somewhere. */
export function entersOnlyAffinely(body: Expr, name: string): boolean {
  let ok = true;
  visitExpr(body, (e) => {
    if (e.op === 'load') for (const i of e.index) ok &&= strideOf(i, name) !== undefined;
    if (e.op === 'index') ok &&= strideOf(e.index, name) !== undefined;
    if (e.op === 'when')
      for (const c of e.conds) ok &&= ![c.index, c.lo, c.hi].some((i) => usesVar(i, name));
  });
  return ok;
}

/** The loop variables of an index expression, those inside dynamic indices too. */
export function variablesOf(e: IndexExpr): Set<string> {
  const names = new Set<string>();
  const go = (x: IndexExpr): void =>
    visitAtoms(x, (a) => {
      if (a.kind === 'var') names.add(a.name);
      if (a.kind === 'dyn') for (const i of indicesOf(a.expr)) go(i);
    });
  go(e);
  return names;
}

/** The value a reduction starts from, in the accumulator's dtype. */
export function identityOf(nest: {
  monoid: Monoid;
  accumulator: Compute['accumulator'];
  integer: readonly [number, number] | undefined;
}): number {
  switch (nest.monoid.kind) {
    case 'sum':
    case 'or':
    case 'argmax':
    case 'argmin':
      return 0;
    case 'prod':
    case 'and':
      return 1;
    case 'max':
      return isFloat(nest.accumulator) ? -Infinity : (nest.integer?.[0] ?? 0);
    case 'min':
      return isFloat(nest.accumulator) ? Infinity : (nest.integer?.[1] ?? 0);
  }
}
