/**
 * What a template gets: a group of computes that are to be one kernel, and where its results lie.
 *
 * Vocabulary
 *  - *output*: a member's value that must be stored: others need it, or the graph gives it out.
 *  - *space*: the loop dims that the kernel's invocations are spread over.
 *  - *point*: where in a value an invocation works: one index expression per dim of the value.
 */
import type { Compute, Program } from '../ir/compute';
import type { Expr, ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import type { Point } from './builder';
import type { Slices } from './slices';

export interface GroupSpec {
  readonly program: Program;
  /** In topological order. */
  readonly members: readonly Compute[];
  readonly outputs: readonly ValueId[];
  /** Values that lie in others' buffers. */
  readonly slices?: Slices;
  /** Set where the schedule depends on what the numbers in the bodies are, not only on where they are. */
  readonly literals: { read: boolean };
}

/** Elements of a shape with symbolic sizes at their profiling values. */
export function boundElements(program: Program, shape: readonly IndexExpr[]): number {
  let n = 1;
  for (const d of shape) n *= bound(program, d);
  return n;
}

export function bound(program: Program, e: IndexExpr): number {
  return e.terms.length === 0 ? e.c : sizesOf(program).of(e);
}

const sizes = new WeakMap<ReadonlyMap<string, number>, I.SizeValues>();

/** The profiling values of the program's sizes. */
export function sizesOf({ dims }: Program): I.SizeValues {
  let known = sizes.get(dims);
  if (!known) {
    known = new I.SizeValues(dims);
    sizes.set(dims, known);
  }
  return known;
}

export function extents(c: Compute): IndexExpr[] {
  return c.dims.map((d) => d.extent);
}

/** Replaces loop variables by name, in dynamic indices too. */
export function substPoint(
  index: readonly IndexExpr[],
  env: ReadonlyMap<string, IndexExpr>,
): IndexExpr[] {
  return index.map((i) => I.rewrite(i, (a) => (a.kind === 'var' ? env.get(a.name) : undefined)));
}

export function hasDyn(index: readonly IndexExpr[]): boolean {
  let found = false;
  for (const i of index) I.visitAtoms(i, (a) => (found = found || a.kind === 'dyn'));
  return found;
}

/**
 * Whether `point`, over the variables `space`, meets every element of `shape` exactly once: the
 * variables in some order (dims of size 1 aside), or the same row-major order.
 */
export function isBijection(
  point: Point,
  shape: readonly IndexExpr[],
  space: readonly IndexExpr[],
  spaceShape: readonly IndexExpr[],
): boolean {
  if (!I.same(I.product(shape), I.product(spaceShape))) return false;
  const left = new Set<string>();
  space.forEach((v, i) => {
    if (!I.isConst(spaceShape[i] ?? I.num(1), 1)) left.add(v.key);
  });
  let permutation = true;
  for (const p of point) {
    if (p.terms.length === 0) continue;
    if (!left.delete(p.key)) {
      permutation = false;
      break;
    }
  }
  if (permutation && left.size === 0) return true;
  return I.same(I.linearise(point, shape), I.linearise(space, spaceShape));
}

/** What an index grows by along a variable; undefined where that isn't always the same. */
export function strideOf(linear: IndexExpr, variable: IndexExpr): IndexExpr | undefined {
  const next = I.rewrite(linear, (a) =>
    a.kind === 'var' && a.key === variable.key ? I.add(variable, 1) : undefined,
  );
  const stride = I.sub(next, linear);
  let varies = false;
  I.visitAtoms(stride, (a) => (varies ||= a.kind === 'var' || a.kind === 'dyn'));
  return varies ? undefined : stride;
}

/** Visits loads outside and inside dynamic indices. */
export function visitLoads(
  e: Expr,
  f: (l: Expr & { op: 'load' }, conditional: boolean) => void,
  conditional = false,
): void {
  const inIndex = (i: IndexExpr): void =>
    I.visitAtoms(i, (a) => {
      if (a.kind === 'dyn') visitLoads(a.expr, f, conditional);
    });
  switch (e.op) {
    case 'const':
      return;
    case 'index':
      inIndex(e.index);
      return;
    case 'load':
      f(e, conditional);
      e.index.forEach(inIndex);
      return;
    case 'unary':
    case 'cast':
      visitLoads(e.a, f, conditional);
      return;
    case 'binary':
      visitLoads(e.a, f, conditional);
      visitLoads(e.b, f, conditional);
      return;
    case 'select':
      visitLoads(e.cond, f, conditional);
      visitLoads(e.then, f, conditional);
      visitLoads(e.else, f, conditional);
      return;
    case 'when':
      for (const c of e.conds) inIndex(c.index);
      visitLoads(e.then, f, true);
      visitLoads(e.else, f, true);
      return;
  }
}
