/**
 * What the `stream` template keeps along a row, and what it does with each tile: fill in what is
 * heavy, bring references up to date, go over to the new shifts, and add the tile's share to the
 * scalars of each row and to its vectors. Between layouts stands a barrier, which is the caller's.
 */
import type { Compute, Monoid } from '../ir/compute';
import { type Expr, printExpr } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import type { Accumulator } from './accumulators';
import { binary, less } from './expressions';
import { substPoint } from './group';
import type { KExpr } from './kernelIr';
import type { Streamed, Weight } from './online';
import {
  add,
  type Env,
  Piece,
  type Place,
  product,
  rescale,
  roundedFor,
  shiftVariable,
} from './onlineCode';
import { convert, identity, ktype, lit } from './scalars';
import { type Row, StreamLayout } from './streamLayout';
import type { Coefficient, VectorPlan } from './streamPlan';

export interface ScalarState {
  readonly streamed: Streamed;
  readonly monoid: Monoid;
  readonly acc: Accumulator;
}

export interface WeightState {
  readonly weight: Weight;
  /** The shift that sums are relative to; infinite before the first. */
  readonly at: KExpr;
  /** In workgroup memory, per row: what vectors are rescaled by. */
  readonly factors: string | undefined;
}

export interface VectorState {
  readonly plan: VectorPlan;
  readonly monoid: Monoid;
  /** Per row of the register tile, per column of it. */
  readonly accs: readonly (readonly Accumulator[])[];
}
export abstract class StreamTiles extends StreamLayout {
  /** Arrays of kept expressions and of coefficients, by key. */
  protected readonly arrays = new Map<string, string>();

  // -- State --------------------------------------------------------------------------------------

  protected weights(): WeightState[] {
    const { b, plan } = this;
    const out: WeightState[] = [];
    for (const s of plan.online.streamed) {
      const w = s.weight;
      if (!w || out.some((x) => x.weight.key === w.key)) continue;
      const forVectors = plan.vectors.some((v) => v.streamed.weight?.key === w.key);
      const factors = forVectors ? this.perRow('rescale', 'f32') : undefined;
      out.push({ weight: w, at: shiftVariable(b), factors });
    }
    return out;
  }

  /** Where coefficients go: in place of the exponent where that was kept and is needed no more. */
  protected coefficientArrays(): string[] {
    const { plan } = this;
    const free = new Set(this.arrays.values());
    return plan.coefficients.map((c) => {
      const only = c.of.weight?.exponent.terms[0];
      const name = only && this.arrays.get(printExpr(only.e));
      const type = ktype(c.of.compute.accumulator);
      if (name !== undefined && type === 'f32' && free.delete(name)) return name;
      return this.array('weight', type);
    });
  }

  protected nameOf(c: Compute): string {
    return this.group.program.values.get(c.value)?.name ?? c.value;
  }

  protected scalar(s: Streamed): ScalarState {
    const monoid = monoidOf(s.compute);
    return {
      streamed: s,
      monoid,
      acc: this.b.accumulator(s.compute, monoid, this.nameOf(s.compute)),
    };
  }

  protected vector(plan: VectorPlan): VectorState {
    const c = plan.streamed.compute;
    const monoid = monoidOf(c);
    const columns = Math.ceil(plan.columns / this.outLanes);
    const accs = this.outRows.map(() =>
      Array.from({ length: columns }, () => this.b.accumulator(c, monoid, this.nameOf(c))),
    );
    return { plan, monoid, accs };
  }

  // -- A tile -------------------------------------------------------------------------------------

  protected fill(base: IndexExpr): void {
    const { b, params, plan } = this;
    const { together, tile } = params;
    const across = tile / together.positions;
    const cells = this.fillRows.flatMap((row) =>
      Array.from({ length: together.positions }, (_, p) => ({
        row,
        at: I.add(this.fillFirst, p * across),
      })),
    );
    const envs = cells.map((c) => this.at(c.row, I.add(base, c.at)));
    for (const e of plan.kept) {
      const name = this.arrays.get(printExpr(e)) ?? '';
      b.exprMany(e, envs).forEach((value, i) => {
        const c = cells[i];
        if (!c) return;
        const index = b.index(I.add(I.mul(c.row.local, tile), c.at));
        b.emit({ s: 'setShared', name, index, value: convert(value, ktype(e.dtype)) });
      });
    }
  }

  /** The positions of the tile that are the invocation's in the rows layout: what was filled in is looked up. */
  protected piece(base: IndexExpr, exact: boolean): Piece<Position> {
    const { b, params } = this;
    const n = b.index(this.plan.online.length);
    const places = Array.from({ length: params.tile / this.lanes }, (_, j) => {
      const inTile = I.add(this.lane, j * this.lanes);
      const at = I.add(base, inTile);
      return {
        env: this.at(this.row, at),
        cell: I.add(I.mul(this.row.local, params.tile), inTile),
        inside: exact ? undefined : less(b.index(at), n),
      };
    });
    return new Piece(b, places, (key, e, place) => {
      const name = this.arrays.get(key);
      return name === undefined
        ? undefined
        : this.sharedAt(name, ktype(e.dtype), b.index(place.cell));
    });
  }

  /** Adds the tile's share to reductions that need no others; references are complete for the tile. */
  protected goOn(scalars: readonly ScalarState[], piece: Piece<Position>): void {
    for (const { streamed, acc, monoid } of scalars)
      piece.add(acc, monoid, piece.elements(streamed, identity(monoid, acc.value.type)));
  }

  protected isReference(s: Streamed, weights: readonly WeightState[]): boolean {
    return weights.some((w) => w.weight.references.includes(s.compute.value));
  }

  /** Makes the reference known for what follows in the tile. */
  protected reference(s: ScalarState): void {
    this.combine(s.acc, s.monoid);
    this.define(s, this.row, s.acc);
  }

  protected define(s: ScalarState, row: Row, acc: Accumulator): void {
    const { compute, placed } = s.streamed;
    this.b.define(compute.value, substPoint(placed.point, row.env), this.b.finish(compute, acc));
  }

  /** Goes over to the shift of now; gives what sums are multiplied by, and what exponents are shifted by. */
  protected rescaled(w: WeightState): { factor: KExpr; shift: KExpr } {
    const { b } = this;
    const r = rescale(b, w.weight, w.at, this.row.env);
    if (w.factors !== undefined) {
      const name = w.factors;
      this.firstLane(() =>
        b.emit({ s: 'setShared', name, index: b.index(this.row.local), value: r.factor }),
      );
    }
    return r;
  }

  protected weighted(
    scalars: readonly ScalarState[],
    weights: readonly WeightState[],
    factors: readonly { factor: KExpr; shift: KExpr }[],
    piece: Piece<Position>,
    coefficients: readonly string[],
  ): void {
    const { b, plan } = this;
    const values = weights.map((w, i) =>
      piece.weights(w.weight, factors[i]?.shift ?? lit(0, 'f32')),
    );
    const of = (s: Streamed): number => weights.findIndex((w) => w.weight.key === s.weight?.key);
    const weightsOf = (s: Streamed): readonly KExpr[] | undefined => {
      const exact = values[of(s)];
      return exact && roundedFor(b, s, exact);
    };
    for (const s of scalars) {
      const factor = factors[of(s.streamed)]?.factor;
      if (!factor) continue;
      b.set(s.acc.value, binary('mul', s.acc.value, factor));
      const zero = lit(0, s.acc.value.type);
      piece.add(s.acc, s.monoid, piece.products(s.streamed, zero, weightsOf(s.streamed)));
    }
    // All are read before any is written: arrays serve twice.
    const out = plan.coefficients.map((c) => {
      const none = lit(0, ktype(c.of.compute.accumulator));
      return piece.products(c, none, weightsOf(c.of)).map((x) => b.let('w', convert(x, none.type)));
    });
    out.forEach((list, i) => {
      const name = coefficients[i] ?? '';
      list.forEach((value, k) => {
        const cell = piece.places[k]?.cell;
        if (cell) b.emit({ s: 'setShared', name, index: b.index(cell), value });
      });
    });
  }

  /** Adds the tile's share to vectors: position by position, a register tile of rows and columns. */
  protected vectorsOn(
    vectors: readonly VectorState[],
    weights: readonly WeightState[],
    base: IndexExpr,
    exact: boolean,
    coefficients: readonly string[],
  ): void {
    const { b, params, plan } = this;
    for (const v of vectors) {
      const w = weights.find((x) => x.weight.key === v.plan.streamed.weight?.key);
      if (!w) continue;
      const name = w.factors ?? '';
      v.accs.forEach((list, r) => {
        const row = this.outRows[r];
        if (!row) return;
        const factor = b.let('factor', this.sharedAt(name, 'f32', b.index(row.local)));
        for (const a of list) b.set(a.value, binary('mul', a.value, factor));
      });
    }
    const count = exact
      ? undefined
      : b.int(
          'imin',
          lit(params.tile, 'i32'),
          b.int('isub', b.index(plan.online.length), b.index(base)),
        );
    b.loop(
      'k',
      I.num(params.tile),
      (k) => {
        const at = I.add(base, k);
        const read = new Map<number, KExpr[]>();
        for (const v of vectors) {
          const i = v.plan.coefficient;
          if (i === undefined || read.has(i)) continue;
          const c: Coefficient | undefined = plan.coefficients[i];
          const type = ktype(c?.of.compute.accumulator ?? 'f32');
          read.set(
            i,
            this.outRows.map((row) => {
              const cell = I.add(I.mul(row.local, params.tile), k);
              return b.let('w', this.sharedAt(coefficients[i] ?? '', type, b.index(cell)));
            }),
          );
        }
        for (const v of vectors) this.vectorOn(v, at, read.get(v.plan.coefficient ?? -1));
      },
      count,
    );
  }

  private vectorOn(v: VectorState, at: IndexExpr, weights: readonly KExpr[] | undefined): void {
    const { b } = this;
    const { plan, accs, monoid } = v;
    const envs: Env[] = [];
    const targets: { acc: Accumulator; row: number }[] = [];
    accs.forEach((list, r) => {
      const row = this.outRows[r];
      if (!row) return;
      list.forEach((acc, c) => {
        envs.push(
          this.columnEnv(
            this.at(row, at),
            plan.streamed.placed.free,
            this.columnAt(plan.columns, c),
          ),
        );
        targets.push({ acc, row: r });
      });
    });
    const many = (list: readonly Expr[]): KExpr[][] => list.map((e) => b.exprMany(e, envs));
    const fs = many(plan.factors);
    const ds = many(plan.divisors);
    const cs = many(plan.conds);
    targets.forEach(({ acc, row }, i) => {
      const w = weights?.[row];
      const x = product(
        [...(w ? [w] : []), ...fs.flatMap((f) => f[i] ?? [])],
        ds.flatMap((d) => d[i] ?? []),
        cs.flatMap((c) => c[i] ?? []),
        identity(monoid, acc.value.type),
      );
      add(b, acc, monoid, x);
    });
  }
}

interface Position extends Place {
  /** Its place in a tile's array. */
  readonly cell: IndexExpr;
}

function monoidOf(c: Compute): Monoid {
  if (!c.monoid) throw new Error(`${c.value} is no reduction`);
  return c.monoid;
}
