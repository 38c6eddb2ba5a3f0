/**
 * Where an invocation of the `stream` template is: its rows, positions and columns in each layout, how
 * the lanes of a row come together, and the expressions that all its stages write.
 *
 * A workgroup has `rows` rows along the blocked dim, and one point of the others. In the *fill* layout
 * an invocation has a register tile of rows and positions; in the *rows* layout a row and a lane of it;
 * in the *columns* layout a register tile of rows and columns.
 */
import type { Monoid } from '../ir/compute';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import type { Accumulator } from './accumulators';
import type { Builder } from './builder';
import { all, equal, less } from './expressions';
import type { GroupSpec } from './group';
import type { KExpr, KType } from './kernelIr';
import { POSITION } from './online';
import type { Env } from './onlineCode';
import type { FreeVar } from './placement';
import { lit } from './scalars';
import type { StreamParams, StreamPlan } from './streamPlan';

/** Workgroups that the kernel is dispatched in. */
export function streamWorkgroups(plan: StreamPlan, params: StreamParams): IndexExpr {
  return I.product(blockCounts(plan, params));
}

function blockCounts(plan: StreamPlan, params: StreamParams): IndexExpr[] {
  return plan.placement.rows.map((d, i) => (i === plan.blocked ? I.ceilDiv(d, params.rows) : d));
}

/** A row as an invocation knows it. */
export interface Row {
  readonly env: Env;
  /** Its number among the workgroup's rows. */
  readonly local: IndexExpr;
}
export abstract class StreamLayout {
  private readonly block: IndexExpr;
  private readonly blocks: readonly IndexExpr[];
  private readonly blocksTotal: IndexExpr;
  protected readonly lanes: number;
  protected readonly row: Row;
  protected readonly lane: IndexExpr;
  protected readonly outLanes: number;
  protected readonly outLane: IndexExpr;
  protected readonly outRows: readonly Row[];
  /** The invocation's lane among those of a row in the columns layout, by how many lanes have a column. */
  private readonly columnLanes = new Map<number, IndexExpr>();
  private readonly slot: KExpr;
  /** In the fill layout: the rows of the register tile, and the first of the positions. */
  protected readonly fillRows: readonly Row[];
  protected readonly fillFirst: IndexExpr;
  private partials: string | undefined;

  constructor(
    protected readonly group: GroupSpec,
    protected readonly plan: StreamPlan,
    protected readonly params: StreamParams,
    protected readonly b: Builder,
  ) {
    const { threads, rows, outRows } = params;
    const counts = blockCounts(plan, params);
    this.blocksTotal = I.product(counts);
    this.block = b.bindVar('block', this.blocksTotal, b.ref('wg', 'i32', 0), undefined, {
      perWorkgroup: 1,
    });
    this.blocks = I.delinearise(this.block, counts);
    this.slot = b.ref('lid', 'i32', 0);
    this.lanes = threads / rows;
    const [row, lane] = this.split('row', 'lane', rows, this.lanes);
    this.row = this.rowAt(row);
    this.lane = lane;
    const { together, tile } = params;
    if (plan.kept.length > 0) {
      const [fill, at] = this.split('fill', 'at', rows / together.rows, tile / together.positions);
      this.fillRows = Array.from({ length: together.rows }, (_, i) =>
        this.rowAt(I.add(I.mul(fill, together.rows), i)),
      );
      this.fillFirst = at;
    } else {
      this.fillRows = [];
      this.fillFirst = I.num(0);
    }
    this.outLanes = (threads * outRows) / rows;
    if (plan.vectors.length + plan.outputs.size > 0) {
      const [first, column] = this.split('rows_of', 'column', rows / outRows, this.outLanes);
      this.outLane = column;
      this.columnLanes.set(this.outLanes, column);
      const columns = [...plan.vectors.map((v) => v.columns), ...plan.outputs.values()];
      for (const n of columns) this.lastColumns(n, column);
      this.outRows = Array.from({ length: outRows }, (_, i) =>
        this.rowAt(I.add(I.mul(first, outRows), i)),
      );
    } else {
      this.outLane = I.num(0);
      this.outRows = [];
    }
  }

  /**
   * The lanes that have a column when the last of `columns` are shared out: those without one run
   * along, and their index is taken to be in range, as it is where results are stored.
   */
  private lastColumns(columns: number, lane: IndexExpr): void {
    const rest = columns % this.outLanes;
    if (rest === 0 || this.columnLanes.has(rest)) return;
    const at =
      rest === 1
        ? I.num(0)
        : this.b.bindVar('column', I.num(rest), this.b.index(lane), (lid) => lid % this.outLanes);
    this.columnLanes.set(rest, at);
  }

  /** The `round`-th of the invocation's columns among `columns`. */
  protected columnAt(columns: number, round: number): IndexExpr {
    const left = Math.min(this.outLanes, columns - round * this.outLanes);
    const lane = this.columnLanes.get(left);
    if (!lane) throw new Error(`no lanes for ${left} columns`);
    return I.add(lane, round * this.outLanes);
  }

  /** The invocation's number as two. */
  private split(
    outer: string,
    inner: string,
    outerExtent: number,
    innerExtent: number,
  ): [IndexExpr, IndexExpr] {
    const { b } = this;
    const one = (
      hint: string,
      extent: number,
      e: () => KExpr,
      ofLocal: (lid: number) => number,
    ): IndexExpr => (extent === 1 ? I.num(0) : b.bindVar(hint, I.num(extent), e(), ofLocal));
    const n = lit(innerExtent, 'i32');
    const a = one(
      outer,
      outerExtent,
      () => (innerExtent === 1 ? this.slot : b.int('idiv', this.slot, n)),
      (lid) => Math.floor(lid / innerExtent),
    );
    const c = one(
      inner,
      innerExtent,
      () => (outerExtent === 1 ? this.slot : b.int('imod', this.slot, n)),
      (lid) => lid % innerExtent,
    );
    return [a, c];
  }

  protected rowAt(local: IndexExpr): Row {
    const env: Env = new Map();
    const { plan, params, b } = this;
    plan.placement.rows.forEach((size, i) => {
      let at = this.blocks[i] ?? I.num(0);
      if (i === plan.blocked) {
        at = I.add(I.mul(at, params.rows), local);
        // A row beyond the end is taken to be in range, as it is where results are stored.
        if (plan.digits) at = b.bindVar('row_at', size, b.index(at), undefined, { as: at });
      }
      env.set(`p${i}`, at);
    });
    return { env, local };
  }

  protected at(row: Row, position: IndexExpr): Env {
    return new Map(row.env).set(POSITION, position);
  }

  /** Whether the row is one of the program's. */
  protected exists(row: Row): KExpr {
    const { b, plan } = this;
    const terms = [less(b.index(this.block), b.index(this.blocksTotal))];
    const size = plan.blocked === undefined ? undefined : plan.placement.rows[plan.blocked];
    if (size && plan.blocked !== undefined && I.exactDiv(size, this.params.rows) === undefined)
      terms.push(less(b.index(row.env.get(`p${plan.blocked}`) ?? I.num(0)), b.index(size)));
    return all(terms);
  }

  protected columnEnv(env: Env, free: readonly FreeVar[], column: IndexExpr): Env {
    const at = I.delinearise(
      column,
      free.map((f) => f.extent),
    );
    free.forEach((f, i) => env.set(f.name, at[i] ?? I.num(0)));
    return env;
  }

  // -- Workgroup memory ---------------------------------------------------------------------------

  protected array(hint: string, type: KType): string {
    const name = this.b.fresh(hint);
    this.b.shared.push({ name, type, length: this.params.rows * this.params.tile });
    return name;
  }

  protected perRow(hint: string, type: KType): string {
    const name = this.b.fresh(hint);
    this.b.shared.push({ name, type, length: this.params.rows });
    return name;
  }

  // -- Lanes --------------------------------------------------------------------------------------

  /** Combines the lanes of each row; all of them then have the row's own value. */
  protected combine(acc: Accumulator, monoid: Monoid): void {
    const { b, lanes } = this;
    if (lanes === 1) return;
    const { type } = acc.value;
    const name = this.scratch(type);
    const put = (): void => b.emit({ s: 'setShared', name, index: this.slot, value: acc.value });
    if (this.partials !== undefined) this.barrier();
    this.partials = name;
    put();
    if (lanes > MOST_FOLDED) {
      const lane = b.index(this.lane);
      for (let half = lanes >> 1; half >= 1; half >>= 1) {
        this.barrier();
        b.guarded(less(lane, lit(half, 'i32')), () => {
          const other = this.sharedAt(name, type, b.int('iadd', this.slot, lit(half, 'i32')));
          b.combine(acc, monoid, { value: other });
          put();
        });
      }
    }
    this.barrier();
    this.partials = name;
    const first = b.index(I.mul(this.row.local, lanes));
    b.set(acc.value, this.sharedAt(name, type, first));
    if (lanes > MOST_FOLDED) return;
    for (let i = 1; i < lanes; i++)
      b.combine(acc, monoid, {
        value: this.sharedAt(name, type, b.int('iadd', first, lit(i, 'i32'))),
      });
  }

  private scratch(type: KType): string {
    const name = `partial_${type}`;
    if (!this.b.shared.some((s) => s.name === name))
      this.b.shared.push({ name, type, length: this.params.threads });
    return name;
  }

  protected firstLane(f: () => void): void {
    if (this.lanes === 1) f();
    else this.b.guarded(equal(this.b.index(this.lane), lit(0, 'i32')), f);
  }

  protected barrier(): void {
    this.b.emit({ s: 'barrier' });
    // Whoever read partial results has read them.
    this.partials = undefined;
  }

  // -- Expressions --------------------------------------------------------------------------------

  protected sharedAt(name: string, type: KType, index: KExpr): KExpr {
    return { k: 'shared', name, index, type, depth: Math.max(this.b.depth, index.depth) };
  }
}

/** Lanes of a row that are combined by each of them reading all. */
const MOST_FOLDED = 8;
