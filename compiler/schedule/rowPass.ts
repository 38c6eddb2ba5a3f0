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
import { binary, select } from './expressions';
import { type GroupSpec, substPoint } from './group';
import type { KExpr } from './kernelIr';
import { asExpr, passes, POSITION, type Spread, type Streamed, type Weight } from './online';
import { afterwards, correction, Piece, rescale, roundedFor, shiftVariable } from './onlineCode';
import type { Placed, Placement } from './placement';
import { convert, identity, lit, total } from './scalars';

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
  const sums = new Set(pass.flatMap((s) => s.spread?.sum ?? []));
  // How many positions the invocation has seen.
  const seen = sums.size > 0 ? b.variable('seen', 'f32', lit(0, 'f32')) : undefined;

  walk.positions(length, (positions) => {
    const joining = seen && join(b, seen, positions);
    rows.forEach((row, r) => {
      const places = positions.map(({ at, inside }) => ({
        env: new Map(row.env).set(POSITION, at),
        inside,
      }));
      const piece = new Piece(b, places);
      const before = new Map<ValueId, KExpr>();
      for (const { s, monoid, accs } of states) {
        const acc = accs[r];
        if (s.weight || !acc) continue;
        if (sums.has(s.compute.value)) before.set(s.compute.value, b.frozen('before', acc.value));
        if (s.spread) {
          const sum = before.get(s.spread.sum);
          if (sum && joining)
            b.accumulate(acc, monoid, spreadOf(b, piece, s.spread, sum, joining), NO_POSITION);
          continue;
        }
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

  /** Per row: what the invocation itself has of a sum. */
  const own = new Map<ValueId, KExpr[]>();
  const count = seen && b.frozen('seen', seen);
  const perCount = count && inverse(b, count);
  for (const { s, accs } of states) {
    const { weight, after, placed, compute, spread } = s;
    if (sums.has(compute.value))
      own.set(
        compute.value,
        accs.map((acc) => b.frozen('own', acc.value)),
      );
    const shares = spread && own.get(spread.sum);
    if (spread && shares && count && perCount)
      rows.forEach((row, r) => {
        const [acc, share] = [accs[r], shares[r]];
        if (!acc || !share) return;
        // Of its own mean, and of how far that is from where all distances are taken from.
        const mean = binary('mul', share, perCount);
        const far = b.let(
          'far',
          binary('add', mean, convert(b.expr(asExpr(spread.v), new Map(row.env)), 'f32')),
        );
        b.accumulate(acc, monoidOf(s), binary('mul', count, binary('mul', far, far)), NO_POSITION);
      });
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

const NO_POSITION = (): KExpr => lit(0, 'i32');

/** How a piece joins what the invocation has seen before, for all rows. */
interface Joining {
  /** Positions of the piece, as one over their number. */
  readonly one: KExpr;
  /** One over how many were seen. */
  readonly seen: KExpr;
  /** What the squared distance of the two means is multiplied by. */
  readonly apart: KExpr;
}

function join(
  b: Builder,
  seen: KExpr,
  positions: readonly { inside: KExpr | undefined }[],
): Joining {
  const one = lit(1, 'f32');
  const number = total(
    { kind: 'sum' },
    positions.map((p) => (p.inside ? select(p.inside, one, lit(0, 'f32')) : one)),
  );
  const whole = positions.every((p) => !p.inside);
  const piece = whole ? lit(positions.length, 'f32') : b.let('count', number);
  const before = b.frozen('had', seen);
  const both = b.let('both', binary('add', before, piece));
  b.set(seen, both);
  return {
    one: whole ? lit(1 / positions.length, 'f32') : inverse(b, piece),
    seen: inverse(b, before),
    apart: b.let('apart', binary('mul', before, binary('mul', piece, inverse(b, both)))),
  };
}

/** One over a number of positions; of none it doesn't matter what, but that it is finite. */
function inverse(b: Builder, count: KExpr): KExpr {
  const one = lit(1, 'f32');
  const some: KExpr = { k: 'binary', fn: 'max', a: count, b: one, type: 'f32', depth: count.depth };
  return b.let('per', binary('div', one, some));
}

/** What a piece adds to a spread: its own, and how far its mean is from that of all before. */
function spreadOf(b: Builder, piece: Piece, s: Spread, before: KExpr, joining: Joining): KExpr {
  const sum: Monoid = { kind: 'sum' };
  const values = piece.sums(s.u);
  const mean = b.let('mean', binary('mul', piece.total(sum, values), joining.one));
  const own = piece.total(
    sum,
    values.map((x) => {
      const far = b.let('far', binary('sub', x, mean));
      return binary('mul', far, far);
    }),
  );
  const apart = b.let('far', binary('sub', mean, binary('mul', before, joining.seen)));
  return binary('add', own, binary('mul', binary('mul', apart, apart), joining.apart));
}

function monoidOf(s: Streamed): Monoid {
  if (!s.compute.monoid) throw new Error(`${s.compute.value} is no reduction`);
  return s.compute.monoid;
}
