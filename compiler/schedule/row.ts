/**
 * Template `row`: rows of one or more reductions, worked on by `threads` invocations each.
 *
 * The stages follow the program: a reduction is a share of the row per invocation, then a tree
 * through workgroup memory; what depends on its result comes after, in the same kernel. Elements
 * that fit in registers (`unrolled` per invocation) are evaluated once and kept for all stages.
 * Short rows share a workgroup; with one invocation a row there are no barriers at all.
 *
 * A barrier must be reached by all, so rows beyond the end run along and store nothing.
 */
import type { Compute } from '../ir/compute';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import { type Accumulator, Builder, type BuilderOptions, identity, lit, type Point } from './builder';
import { finishKernel } from './grid';
import { type GroupSpec, substPoint } from './group';
import type { KernelIr, KExpr } from './kernelIr';
import type { Placed, Placement } from './placement';

export interface RowParams {
  /** Invocations a row: a power of two. */
  readonly threads: number;
  /** Rows a workgroup. */
  readonly rows: number;
  /** Neighbouring elements an invocation takes at a time: 4 where accesses are to be vectors. */
  readonly vector: 1 | 4;
  /** Elements an invocation keeps in registers; 0: a loop instead. */
  readonly unrolled: number;
}

export function buildRow(name: string, group: GroupSpec, placement: Placement, params: RowParams, options: BuilderOptions): { ir: KernelIr; builder: Builder } {
  const b = new Builder(group.program, group.members, { ...options, unroll: 1 });
  return new RowKernel(name, group, placement, params, options, b).build();
}

class RowKernel {
  private readonly lane: IndexExpr;
  private readonly slot: KExpr;
  private readonly inRow: KExpr;
  private readonly rowsTotal: IndexExpr;
  private readonly rowEnv = new Map<string, IndexExpr>();

  constructor(
    private readonly name: string,
    private readonly group: GroupSpec,
    private readonly placement: Placement,
    private readonly params: RowParams,
    private readonly options: BuilderOptions,
    private readonly b: Builder,
  ) {
    const { threads, rows } = params;
    const wg = b.ref('wg', 'i32', 0);
    const lid = b.ref('lid', 'i32', 0);
    this.rowsTotal = I.product(placement.rows);
    let row: KExpr = wg;
    if (rows > 1) {
      const within = threads === 1 ? lid : b.int('idiv', lid, lit(threads, 'i32'));
      row = b.int('iadd', b.int('imul', wg, lit(rows, 'i32')), within);
    }
    const rowVar = b.bindVar('row', this.rowsTotal, row);
    const lane = threads === 1 ? lit(0, 'i32') : rows === 1 ? lid : b.int('imod', lid, lit(threads, 'i32'));
    this.lane = threads === 1 ? I.num(0) : b.bindVar('lane', I.num(threads), lane);
    this.slot = lid;
    const end = b.index(this.rowsTotal);
    this.inRow = { k: 'binary', fn: 'lt', a: b.index(rowVar), b: end, type: 'bool', depth: 0 };
    I.delinearise(rowVar, placement.rows).forEach((e, i) => this.rowEnv.set(`p${i}`, e));
  }

  build(): { ir: KernelIr; builder: Builder } {
    const { b, group, placement, params } = this;
    if (params.threads === 1) {
      const row = I.loopVar('row', this.rowsTotal);
      b.exitUnless(row, this.rowsTotal);
    }
    for (const m of group.members) {
      const p = placement.placed.get(m.value);
      if (m.monoid && p && p.free.length === 0) this.reduction(m, p);
    }
    for (const v of group.outputs) {
      const p = placement.placed.get(v);
      if (!p) throw new Error(`output ${v} has no place`);
      this.output(v, p);
    }
    const workgroups = I.ceilDiv(this.rowsTotal, params.rows);
    return { ir: finishKernel(this.name, b, params.threads * params.rows, workgroups, this.options), builder: b };
  }

  /** Calls `f` with the positions in [0, extent) that are this invocation's, some at a time. */
  private elements(extent: IndexExpr, f: (positions: readonly { at: IndexExpr; inside: KExpr | undefined }[]) => void): void {
    const { b, params } = this;
    const { threads, vector, unrolled } = params;
    const chunk = threads * vector;
    const exact = I.exactDiv(extent, chunk) !== undefined;
    const at = (round: IndexExpr): { at: IndexExpr; inside: KExpr | undefined }[] => {
      const out: { at: IndexExpr; inside: KExpr | undefined }[] = [];
      for (let l = 0; l < vector; l++) {
        const e = I.add(I.add(I.mul(round, chunk), I.mul(this.lane, vector)), l);
        const x = b.index(e);
        const n = b.index(extent);
        out.push({ at: e, inside: exact ? undefined : { k: 'binary', fn: 'lt', a: x, b: n, type: 'bool', depth: Math.max(x.depth, n.depth) } });
      }
      return out;
    };
    const n = I.constOf(extent);
    if (unrolled > 0 && n !== undefined && Math.ceil(n / chunk) * vector <= unrolled) {
      const all: { at: IndexExpr; inside: KExpr | undefined }[] = [];
      for (let i = 0; i < Math.ceil(n / chunk); i++) all.push(...at(I.num(i)));
      f(all);
      return;
    }
    b.loop('e', I.ceilDiv(extent, chunk), (i) => f(at(i)));
  }

  private reduction(c: Compute, p: Placed): void {
    const { b, params } = this;
    const monoid = c.monoid;
    if (!monoid) return;
    const point = substPoint(p.point, this.rowEnv);
    const over = c.reduce.map((r) => r.extent);
    const name = this.group.program.values.get(c.value)?.name ?? c.value;
    const acc = b.accumulator(c, monoid, name);
    this.elements(I.product(over), (positions) => {
      for (const e of positions) {
        const [body] = b.bodies(c, [point], I.delinearise(e.at, over));
        if (!body) continue;
        const arg = monoid.kind === 'argmax' || monoid.kind === 'argmin';
        // Positions beyond the row contribute the identity.
        if (e.inside && arg) b.guarded(e.inside, () => b.accumulate(acc, monoid, body, () => b.index(e.at)));
        else if (e.inside) {
          const id = identity(monoid, body.type);
          b.accumulate(acc, monoid, { k: 'select', cond: e.inside, then: body, else: id, type: body.type, depth: Math.max(body.depth, e.inside.depth) }, () => b.index(e.at));
        } else b.accumulate(acc, monoid, body, () => b.index(e.at));
      }
    });
    const total = params.threads === 1 ? acc : this.tree(c, acc);
    b.define(c.value, point, b.finish(c, total));
  }

  /** Combines the invocations' partial results: a tree in workgroup memory. */
  private tree(c: Compute, acc: Accumulator): Accumulator {
    const { b, params } = this;
    const monoid = c.monoid;
    if (!monoid) return acc;
    const size = params.threads * params.rows;
    const values = this.scratch(acc.value.type, size);
    const places = acc.at ? this.scratch('i32', size) : undefined;
    const put = (): void => {
      b.emit({ s: 'setShared', name: values, index: this.slot, value: acc.value });
      if (places && acc.at) b.emit({ s: 'setShared', name: places, index: this.slot, value: acc.at });
    };
    b.emit({ s: 'barrier' });
    put();
    const lane = b.index(this.lane);
    for (let half = params.threads >> 1; half >= 1; half >>= 1) {
      b.emit({ s: 'barrier' });
      const cond: KExpr = { k: 'binary', fn: 'lt', a: lane, b: lit(half, 'i32'), type: 'bool', depth: 0 };
      b.guarded(cond, () => {
        const other = b.int('iadd', this.slot, lit(half, 'i32'));
        b.combine(acc, monoid, {
          value: this.shared(values, acc.value.type, other),
          ...(places ? { at: this.shared(places, 'i32', other) } : {}),
        });
        put();
      });
    }
    b.emit({ s: 'barrier' });
    const first = params.rows === 1 ? lit(0, 'i32') : b.int('isub', this.slot, lane);
    b.set(acc.value, this.shared(values, acc.value.type, first));
    if (places && acc.at) b.set(acc.at, this.shared(places, 'i32', first));
    return acc;
  }

  /** One array per type serves all the reductions of the kernel, which come one after the other. */
  private scratch(type: KExpr['type'], length: number): string {
    const name = `partial_${type}`;
    if (!this.b.shared.some((s) => s.name === name)) this.b.shared.push({ name, type, length });
    return name;
  }

  private shared(name: string, type: KExpr['type'], index: KExpr): KExpr {
    return { k: 'shared', name, index, type, depth: this.b.depth };
  }

  private output(value: string, p: Placed): void {
    const { b, params } = this;
    const guard = (f: () => void, more?: KExpr): void => {
      const terms = [...(params.threads === 1 ? [] : [this.inRow]), ...(more ? [more] : [])];
      const one = terms[0];
      if (!one) f();
      else b.guarded(terms.length === 1 ? one : { k: 'all', terms, type: 'bool', depth: Math.max(...terms.map((t) => t.depth)) }, f);
    };
    if (p.free.length === 0) {
      const point = substPoint(p.point, this.rowEnv);
      const e = b.value(value, point);
      const first: KExpr | undefined = params.threads === 1 ? undefined : { k: 'binary', fn: 'eq', a: b.index(this.lane), b: lit(0, 'i32'), type: 'bool', depth: 0 };
      guard(() => b.store(value, point, e), first);
      return;
    }
    const over = p.free.map((f) => f.extent);
    this.elements(I.product(over), (positions) => {
      const points: Point[] = positions.map((e) => {
        const env = new Map(this.rowEnv);
        I.delinearise(e.at, over).forEach((x, i) => {
          const f = p.free[i];
          if (f) env.set(f.name, x);
        });
        return substPoint(p.point, env);
      });
      const values = b.valueMany(value, points);
      if (positions.every((e) => e.inside === undefined)) {
        guard(() => b.storeMany(value, points, values));
        return;
      }
      positions.forEach((e, i) => {
        const v = values[i];
        const at = points[i];
        if (v && at) guard(() => b.store(value, at, v), e.inside);
      });
    });
  }
}
