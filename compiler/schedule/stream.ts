/**
 * Template `stream`: a workgroup walks along rows of any length in tiles, and keeps what it has so
 * far: the reductions of the row are online (see online.ts). With scores as what is computed at a
 * position, and a product with values as one of the reductions, it is attention that never stores its
 * scores; the length of the row may be a symbolic size.
 *
 * Vocabulary: that of online.ts and streamPlan.ts, and
 *  - *tile*: the positions that are worked on between barriers, for all rows of the workgroup.
 *  - three *layouts* say which rows, positions and columns are an invocation's: when a tile's heavy
 *    expressions are filled in (*fill*: a register tile, as in a product), when the scalars of a row
 *    go on (*rows*: some lanes share each row), and when vectors do (*columns*: a register tile of
 *    rows and columns).
 *
 * Positions beyond the row contribute nothing, and rows beyond the end run along and store nothing:
 * a barrier must be reached by all.
 */
import { printExpr, type ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import { Builder, type BuilderOptions } from './builder';
import { all, binary, less } from './expressions';
import { finishKernel } from './grid';
import { type GroupSpec, substPoint } from './group';
import type { KernelIr, KExpr } from './kernelIr';
import type { Weight } from './online';
import { afterwards, correction } from './onlineCode';
import { ktype, lit } from './scalars';
import { streamWorkgroups } from './streamLayout';
import type { StreamParams, StreamPlan } from './streamPlan';
import { type ScalarState, StreamTiles, type VectorState, type WeightState } from './streamTiles';

/** Turns of an innermost loop that are written out, so that what it reads comes in vectors. */
const VECTOR = 4;

export function buildStream(
  name: string,
  group: GroupSpec,
  plan: StreamPlan,
  params: StreamParams,
  options: BuilderOptions,
): { ir: KernelIr; builder: Builder } {
  const b = new Builder(group.program, group.members, {
    ...options,
    slices: group.slices,
    unroll: options.draft ? 0 : VECTOR,
    eager: true,
  });
  return new StreamKernel(name, group, plan, params, options, b).build();
}

class StreamKernel extends StreamTiles {
  constructor(
    private readonly name: string,
    group: GroupSpec,
    plan: StreamPlan,
    params: StreamParams,
    private readonly options: BuilderOptions,
    b: Builder,
  ) {
    super(group, plan, params, b);
  }

  build(): { ir: KernelIr; builder: Builder } {
    const { b, plan, params } = this;
    const { length } = plan.online;
    for (const e of plan.kept) this.arrays.set(printExpr(e), this.array('tile', ktype(e.dtype)));
    const weights = this.weights();
    const coefficients = this.coefficientArrays();
    const scalars = plan.scalars.map((s) => this.scalar(s));
    const vectors = plan.vectors.map((v) => this.vector(v));
    const exact = I.exactDiv(length, params.tile) !== undefined;
    const tiles = I.ceilDiv(length, params.tile);
    const end = this.lastTile(tiles);
    const walk = (tile: IndexExpr): void => {
      const base = I.mul(tile, params.tile);
      if (plan.kept.length > 0) {
        this.fill(base);
        this.barrier();
      }
      const piece = this.piece(base, exact);
      const plain = scalars.filter((s) => !s.streamed.weight);
      this.goOn(plain, piece);
      for (const s of plain) if (this.isReference(s.streamed, weights)) this.reference(s);
      const factors = weights.map((w) => this.rescaled(w));
      this.weighted(scalars, weights, factors, piece, coefficients);
      if (vectors.length > 0) {
        this.barrier();
        this.vectorsOn(vectors, weights, base, exact, coefficients);
      }
      this.barrier();
    };
    // Under a causal mask, half of the tiles on average.
    b.loop('tile', tiles, walk, end, end ? I.ceilDiv(I.add(tiles, 1), 2) : tiles);
    this.finish(scalars, vectors, weights);
    const ir = finishKernel(
      this.name,
      b,
      params.threads,
      streamWorkgroups(plan, params),
      this.options,
    );
    return { ir, builder: b };
  }

  /** Where a mask hides all that comes after for all rows of the workgroup: the tile before which to end. */
  private lastTile(tiles: IndexExpr): KExpr | undefined {
    const { b, plan, params } = this;
    if (!plan.end) return undefined;
    const last = this.rowAt(I.num(params.rows - 1));
    const end = I.rewrite(plan.end, (a) => (a.kind === 'var' ? last.env.get(a.name) : undefined));
    return b.let('tiles', b.index(I.min(tiles, I.ceilDiv(end, params.tile))));
  }

  // -- The end of the row -------------------------------------------------------------------------

  private finish(
    scalars: readonly ScalarState[],
    vectors: readonly VectorState[],
    weights: readonly WeightState[],
  ): void {
    const { b, group, plan } = this;
    const corrections = new Map<string, KExpr>();
    const corrected = (w: Weight): KExpr | undefined => {
      const state = weights.find((x) => x.weight.key === w.key);
      const known = corrections.get(w.key);
      if (known || !state) return known;
      const e = correction(b, w, state.at, this.row.env, plan.online.length);
      corrections.set(w.key, e);
      return e;
    };
    for (const s of scalars) {
      if (!this.isReference(s.streamed, weights)) this.combine(s.acc, s.monoid);
      const { weight, after } = s.streamed;
      const by = weight && corrected(weight);
      if (by) b.set(s.acc.value, binary('mul', s.acc.value, by));
      if (after.length > 0) b.set(s.acc.value, afterwards(b, s.acc.value, after, this.row.env));
      this.define(s, this.row, s.acc);
    }
    const rowOutputs = group.outputs.filter((v) => !plan.outputs.has(v));
    if (this.outRows.length > 0) this.handOver(scalars, vectors, corrected);
    for (const v of rowOutputs) {
      const p = plan.placement.placed.get(v);
      if (!p) throw new Error(`output ${v} has no place`);
      const point = substPoint(p.point, this.row.env);
      const e = b.value(v, point);
      b.guarded(this.exists(this.row), () => this.firstLane(() => b.store(v, point, e)));
    }
    for (const [v, columns] of plan.outputs) this.outputVector(v, columns);
  }

  /** From the rows layout to that of columns: scalars through workgroup memory; vectors are completed. */
  private handOver(
    scalars: readonly ScalarState[],
    vectors: readonly VectorState[],
    corrected: (w: Weight) => KExpr | undefined,
  ): void {
    const { b } = this;
    const put = (hint: string, value: KExpr): string => {
      const name = this.perRow(hint, value.type);
      this.firstLane(() => b.emit({ s: 'setShared', name, index: b.index(this.row.local), value }));
      return name;
    };
    const results = scalars.map((s) => {
      const { compute, placed } = s.streamed;
      const value = b.value(compute.value, substPoint(placed.point, this.row.env));
      return { streamed: s.streamed, type: value.type, name: put('result', value) };
    });
    const corrections = new Map<string, string>();
    for (const v of vectors) {
      const w = v.plan.streamed.weight;
      const e = w && !corrections.has(w.key) ? corrected(w) : undefined;
      if (w && e) corrections.set(w.key, put('correction', e));
    }
    if (results.length + corrections.size > 0) this.barrier();
    for (const r of results) {
      const { compute, placed } = r.streamed;
      for (const row of this.outRows) {
        const value = b.let(
          this.nameOf(compute),
          this.sharedAt(r.name, r.type, b.index(row.local)),
        );
        b.define(compute.value, substPoint(placed.point, row.env), value);
      }
    }
    for (const v of vectors) {
      const { compute, placed, weight, after } = v.plan.streamed;
      const name = weight && corrections.get(weight.key);
      v.accs.forEach((list, r) => {
        const row = this.outRows[r];
        if (!row) return;
        const by = name && b.let('by', this.sharedAt(name, 'f32', b.index(row.local)));
        list.forEach((acc, c) => {
          if (by) b.set(acc.value, binary('mul', acc.value, by));
          if (after.length > 0) b.set(acc.value, afterwards(b, acc.value, after, row.env));
          const column = this.columnAt(v.plan.columns, c);
          const env = this.columnEnv(new Map(row.env), placed.free, column);
          b.define(compute.value, substPoint(placed.point, env), b.finish(compute, acc));
        });
      });
    }
  }

  private outputVector(v: ValueId, columns: number): void {
    const { b, plan } = this;
    const p = plan.placement.placed.get(v);
    if (!p) throw new Error(`output ${v} has no place`);
    const each = Math.ceil(columns / this.outLanes);
    const cells = this.outRows.flatMap((row) =>
      Array.from({ length: each }, (_, c) => ({
        row,
        column: c,
        point: substPoint(
          p.point,
          this.columnEnv(new Map(row.env), p.free, this.columnAt(columns, c)),
        ),
      })),
    );
    const values = b.valueMany(
      v,
      cells.map((c) => c.point),
    );
    const exists = this.outRows.map((row) => this.exists(row));
    cells.forEach((c, i) => {
      const value = values[i];
      const there = exists[this.outRows.indexOf(c.row)];
      if (!value || !there) return;
      const end = (c.column + 1) * this.outLanes;
      const at = b.index(I.add(this.outLane, c.column * this.outLanes));
      const cond = end <= columns ? there : all([there, less(at, lit(columns, 'i32'))]);
      b.guarded(cond, () => b.store(v, c.point, value));
    });
  }
}
