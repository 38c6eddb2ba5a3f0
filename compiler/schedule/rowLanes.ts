/**
 * Rows of a space along one of its dims, each worked on by some invocations of a workgroup: where an
 * invocation is, and where in the space a place of its row is.
 */
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import type { Builder, Point } from './builder';
import { less } from './expressions';
import type { KExpr } from './kernelIr';
import { spaceVars } from './loop';
import { lit } from './scalars';

export interface RowSharing {
  /** Invocations a row: a power of two. */
  readonly threads: number;
  /** Rows a workgroup. */
  readonly rows: number;
}

export interface RowLanes {
  readonly lid: KExpr;
  /** The invocation's number within its row, and the row's within the workgroup. */
  readonly x: IndexExpr;
  readonly y: IndexExpr;
  /** What must hold for the row to be one: beyond the last, invocations work along with it and store nothing. */
  readonly inside: readonly KExpr[];
  /** The variables of the space at a position of the row. */
  readonly envAt: (position: IndexExpr) => ReadonlyMap<string, IndexExpr>;
}

/** The dims of a space but for the one that rows lie along. */
export function rowDims(space: readonly IndexExpr[], axis: number): IndexExpr[] {
  return space.filter((_, i) => i !== axis);
}

export function rowWorkgroups(
  space: readonly IndexExpr[],
  axis: number,
  { rows }: RowSharing,
): IndexExpr {
  return I.ceilDiv(I.product(rowDims(space, axis)), rows);
}

/** Begins the code of a kernel whose invocations share rows. */
export function rowLanes(
  b: Builder,
  space: readonly IndexExpr[],
  axis: number,
  sharing: RowSharing,
): RowLanes {
  const { threads, rows } = sharing;
  const shape = rowDims(space, axis);
  const count = I.product(shape);
  const lid = b.ref('lid', 'i32', 0);
  const group = b.bindVar(
    'rowGroup',
    rowWorkgroups(space, axis, sharing),
    b.ref('wg', 'i32', 0),
    undefined,
    { perWorkgroup: 1 },
  );
  const side = lit(threads, 'i32');
  const y =
    rows === 1
      ? I.num(0)
      : b.bindVar('y', I.num(rows), threads === 1 ? lid : b.int('idiv', lid, side), (l) =>
          Math.floor(l / threads),
        );
  const x =
    threads === 1
      ? I.num(0)
      : b.bindVar(
          'x',
          I.num(threads),
          rows === 1 ? lid : b.int('imod', lid, side),
          (l) => l % threads,
        );
  const number = I.add(I.mul(group, rows), y);
  const whole = I.exactDiv(count, rows) !== undefined;
  const row =
    rows === 1
      ? group
      : b.bindVar(
          'row',
          count,
          whole ? b.index(number) : b.int('imin', b.index(number), b.index(I.sub(count, 1))),
          (l) => Math.floor(l / threads),
          { perWorkgroup: rows },
        );
  const vars = spaceVars(space);
  const place = I.delinearise(row, shape);
  return {
    lid,
    x,
    y,
    inside: whole ? [] : [less(b.index(number), b.index(count))],
    envAt: (position) => {
      const env = new Map<string, IndexExpr>();
      let k = 0;
      vars.forEach((v, i) => env.set(v.key, i === axis ? position : (place[k++] ?? I.num(0))));
      return env;
    },
  };
}

/** A point over the variables of a space where these have values. */
export function pointAt(point: Point, env: ReadonlyMap<string, IndexExpr>): Point {
  return point.map((e) => I.rewrite(e, (a) => (a.kind === 'var' ? env.get(a.name) : undefined)));
}

/** A number below `end` as a variable: what is beyond counts as the last, and whether it isn't; undefined where all are below. */
export function clampedVar(
  b: Builder,
  hint: string,
  e: IndexExpr,
  end: IndexExpr,
  ofLocal: (lid: number) => number,
): { readonly at: IndexExpr; readonly valid: KExpr } {
  const last = b.index(I.sub(end, 1));
  return {
    at: b.bindVar(hint, end, b.int('imin', b.index(e), last), ofLocal),
    valid: less(b.index(e), b.index(end)),
  };
}
