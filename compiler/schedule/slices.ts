/**
 * Values inside other values' buffers: what lets each operand of a concatenation be written where it
 * belongs, so that nothing is copied.
 *
 * Vocabulary
 *  - *slice*: where a value lies in the buffer of another: of its elements, counted row-major, each has
 *    its place in the *destination*. A destination may lie in a slice of another in turn.
 *  - *root*: the value whose buffer it is in the end.
 */
import type { Program } from '../ir/compute';
import type { ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';

export interface Slice {
  readonly into: ValueId;
  /** A shape with as many elements as the value: its elements in row-major order. */
  readonly counts: readonly IndexExpr[];
  /** Per dim of the destination: the dim of `counts` that runs along it, if any, and where it starts. */
  readonly dims: readonly { readonly count?: number; readonly offset: IndexExpr }[];
}

export type Slices = ReadonlyMap<ValueId, Slice>;

/** The value whose buffer holds this one. */
export function rootOf(slices: Slices | undefined, value: ValueId): ValueId {
  let v = value;
  for (let s = slices?.get(v); s; s = slices?.get(v)) v = s.into;
  return v;
}

/** The buffer that an element of a value is in, and its number there. */
export function locate(
  program: Program,
  slices: Slices | undefined,
  value: ValueId,
  point: readonly IndexExpr[],
): { buffer: ValueId; linear: IndexExpr } {
  const shapeOf = (v: ValueId): readonly IndexExpr[] => {
    const of = program.values.get(v);
    if (!of) throw new Error(`no value ${v}`);
    return of.shape;
  };
  let buffer = value;
  let at = point;
  for (let s = slices?.get(buffer); s; s = slices?.get(buffer)) {
    const shape = shapeOf(buffer);
    const counted = sameShape(shape, s.counts)
      ? at
      : I.delinearise(I.linearise(at, shape), s.counts);
    at = s.dims.map((d) =>
      d.count === undefined ? d.offset : I.add(counted[d.count] ?? I.num(0), d.offset),
    );
    buffer = s.into;
  }
  return { buffer, linear: I.linearise(at, shapeOf(buffer)) };
}

export function sameShape(a: readonly IndexExpr[], b: readonly IndexExpr[]): boolean {
  return a.length === b.length && a.every((d, i) => I.same(d, b[i] ?? I.num(-1)));
}

/** Equal for slices that lie alike in destinations of one shape. */
export function sliceText(program: Program, s: Slice): string {
  const into = program.values.get(s.into);
  const counts = s.counts.map((c) => c.key).join(' ');
  const dims = s.dims.map((d) => `${d.count ?? '-'}+${d.offset.key}`).join(' ');
  return `${counts} > ${dims} of ${into?.dtype ?? '?'} ${into?.shape.map((d) => d.key).join(' ') ?? ''}`;
}

/** One step from a value's elements to its destination's, in numbers: digits of the element's number by `counts`, weighted. */
export interface SliceStep {
  readonly counts: readonly number[];
  readonly strides: readonly number[];
  readonly offset: number;
}

/** The way from a value to its buffer, with symbolic sizes bound; empty for a value that has its own. */
export function stepsOf(
  program: Program,
  slices: Slices | undefined,
  value: ValueId,
  bind: (symbol: string) => number | undefined,
): SliceStep[] {
  const out: SliceStep[] = [];
  let v = value;
  for (let s = slices?.get(v); s; s = slices?.get(v)) {
    const shape = (program.values.get(s.into)?.shape ?? []).map((d) => I.evaluate(d, bind));
    const strides = new Array<number>(s.counts.length).fill(0);
    let offset = 0;
    let stride = 1;
    for (let i = shape.length - 1; i >= 0; i--) {
      const d = s.dims[i];
      offset += stride * (d ? I.evaluate(d.offset, bind) : 0);
      if (d?.count !== undefined) strides[d.count] = stride;
      stride *= shape[i] ?? 1;
    }
    out.push({ counts: s.counts.map((c) => I.evaluate(c, bind)), strides, offset });
    v = s.into;
  }
  return out;
}
