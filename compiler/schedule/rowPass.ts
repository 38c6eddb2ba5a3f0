/**
 * Several reductions of a row in one walk along it, for the `row` template: each invocation keeps its
 * own share of them up to date (see online.ts), and the shares come together at the end.
 */
import type { Monoid } from '../ir/compute';
import type { ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import type { Accumulator } from './accumulators';
import type { Builder } from './builder';
import { binary } from './expressions';
import { type GroupSpec, substPoint } from './group';
import type { KExpr } from './kernelIr';
import { passes, POSITION, type Streamed, type Weight } from './online';
import { afterwards, correction, Piece, rescale, roundedFor, shiftVariable } from './onlineCode';
import type { Placed, Placement } from './placement';
import { identity, lit } from './scalars';

/**
 * Reductions that go in one walk, by the first of each walk; those that walk alone are left out. What
 * is kept for the row must be there before it is read: no walk goes on beyond it.
 */
export function rowPasses(
  group: GroupSpec,
  placement: Placement,
  cached: ReadonlySet<ValueId>,
): Map<ValueId, readonly Streamed[]> {
  const out = new Map<ValueId, readonly Streamed[]>();
  let run: Placed[] = [];
  const close = (): void => {
    for (const pass of passes(group, run)) {
      const first = pass[0]?.compute.value;
      if (first !== undefined && pass.length > 1) out.set(first, pass);
    }
    run = [];
  };
  for (const m of group.members) {
    const placed = placement.placed.get(m.value);
    if (cached.has(m.value)) close();
    else if (m.monoid && placed?.free.length === 0) {
      // A position is found by a walk of its own.
      if (m.monoid.kind === 'argmax' || m.monoid.kind === 'argmin') close();
      else run.push(placed);
    }
  }
  close();
  return out;
}

/** What a walk needs of the kernel that it is part of. */
export interface RowWalk {
  readonly b: Builder;
  /** Per row of the block: where its row variables are. */
  readonly rows: readonly { readonly env: ReadonlyMap<string, IndexExpr> }[];
  nameOf(value: ValueId): string;
  /** Calls `f` with the invocation's positions, some at a time. */
  positions(
    length: IndexExpr,
    f: (positions: readonly { at: IndexExpr; inside: KExpr | undefined }[]) => void,
  ): void;
  /** Makes the invocations' shares one result, which all of them then have. */
  together(s: Streamed, accs: readonly Accumulator[]): void;
}

interface WeightState {
  readonly weight: Weight;
  /** Per row: the shift that the invocation's sums are relative to. */
  readonly at: readonly KExpr[];
}

export function walkRow(walk: RowWalk, pass: readonly Streamed[]): void {
  const { b, rows } = walk;
  const [first] = pass;
  if (!first) return;
  const length = I.product(first.compute.reduce.map((r) => r.extent));
  const states = pass.map((s) => ({
    s,
    monoid: monoidOf(s),
    accs: rows.map(() => b.accumulator(s.compute, monoidOf(s), walk.nameOf(s.compute.value))),
  }));
  const weights: WeightState[] = [];
  for (const { weight } of pass)
    if (weight && !weights.some((w) => w.weight.key === weight.key))
      weights.push({ weight, at: rows.map(() => shiftVariable(b)) });
  const references = new Set(weights.flatMap((w) => w.weight.references));

  walk.positions(length, (positions) => {
    rows.forEach((row, r) => {
      const places = positions.map(({ at, inside }) => ({
        env: new Map(row.env).set(POSITION, at),
        inside,
      }));
      const piece = new Piece(b, places);
      for (const { s, monoid, accs } of states) {
        const acc = accs[r];
        if (s.weight || !acc) continue;
        piece.add(acc, monoid, piece.elements(s, identity(monoid, acc.value.type)));
        if (references.has(s.compute.value))
          b.define(s.compute.value, substPoint(s.placed.point, row.env), b.finish(s.compute, acc));
      }
      const shifted = new Map<string, { factor: KExpr; values: readonly KExpr[] }>();
      for (const { weight, at } of weights) {
        const own = at[r];
        if (!own) continue;
        const { factor, shift } = rescale(b, weight, own, new Map(row.env));
        shifted.set(weight.key, { factor, values: piece.weights(weight, shift) });
      }
      for (const { s, monoid, accs } of states) {
        const acc = accs[r];
        const w = s.weight && shifted.get(s.weight.key);
        if (!acc || !w) continue;
        b.set(acc.value, binary('mul', acc.value, w.factor));
        const values = roundedFor(b, s, w.values);
        piece.add(acc, monoid, piece.products(s, lit(0, acc.value.type), values));
      }
    });
  });

  for (const { s, accs } of states) {
    const { weight, after, placed, compute } = s;
    const state = weights.find((w) => w.weight.key === weight?.key);
    rows.forEach((row, r) => {
      const acc = accs[r];
      const at = state?.at[r];
      if (!acc || !weight || !at) return;
      const by = correction(b, weight, at, new Map(row.env), length);
      b.set(acc.value, binary('mul', acc.value, by));
    });
    walk.together(s, accs);
    rows.forEach((row, r) => {
      const acc = accs[r];
      if (!acc) return;
      if (after.length > 0) b.set(acc.value, afterwards(b, acc.value, after, new Map(row.env)));
      b.define(compute.value, substPoint(placed.point, row.env), b.finish(compute, acc));
    });
  }
}

function monoidOf(s: Streamed): Monoid {
  if (!s.compute.monoid) throw new Error(`${s.compute.value} is no reduction`);
  return s.compute.monoid;
}
