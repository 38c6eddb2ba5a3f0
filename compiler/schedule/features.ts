/**
 * What a built kernel does, counted on its L3: operations, memory touched, registers.
 *
 * Bytes are *footprints*: each element of a value that the kernel touches counts once, however often
 * it is read (what a cache that works would move). Operations count once per execution: trips of the
 * enclosing loops times the invocations.
 */
import { storageBytes, storageOf } from '../graph/dtype';
import type { ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import type { Builder, Point } from './builder';
import { wasteOf } from './coalescing';
import { bound, type GroupSpec, sizesOf } from './group';
import type { KernelIr, KExpr, Stmt } from './kernelIr';
import { type Pressure, pressures } from './liveness';
import { REPEAT_LIMIT } from './screen';
import type { ContractionTile } from './tiles';

export interface Features {
  /** Arithmetic on floats (a multiply-add is two), once per execution. */
  readonly flops: number;
  /** Cost-weighted operations: transcendental functions, divisions, index arithmetic, loads and barriers included. */
  readonly work: number;
  /** Accesses to workgroup memory, and barriers, once per invocation: dear on adapters that are CPUs. */
  readonly sharedAccesses: number;
  readonly barriers: number;
  readonly threads: number;
  readonly workgroups: number;
  readonly dispatches: number;
  readonly bytesRead: number;
  readonly bytesWritten: number;
  readonly bytesOf: ReadonlyMap<ValueId, number>;
  readonly buffers: number;
  readonly sharedBytes: number;
  /** Values live at once in an invocation, at most: 32-bit registers. See liveness.ts. */
  readonly registers: number;
  /** The kernel and its loops as far as they have many. */
  readonly pressure: readonly Pressure[];
  /** Statements: a measure of code size. */
  readonly size: number;
  /** Reductions evaluated more often than they have elements: value and factor. */
  readonly repeated: readonly { readonly value: ValueId; readonly factor: number }[];
  /** Bytes that a GPU's memory moves besides, since neighbouring invocations are far apart in memory. */
  readonly wastedBytes: number;
}

/** Weights in units of one add. */
const UNARY_WEIGHT: Readonly<Record<string, number>> = {
  exp: 8,
  expm1: 12,
  log: 8,
  log1p: 12,
  sqrt: 6,
  rsqrt: 4,
  recip: 4,
  sin: 12,
  cos: 12,
  tan: 16,
  asin: 20,
  acos: 20,
  atan: 20,
  sinh: 16,
  cosh: 16,
  tanh: 14,
  asinh: 20,
  acosh: 20,
  atanh: 20,
  erf: 24,
};

export function unaryWeight(fn: string): number {
  return UNARY_WEIGHT[fn] ?? 1;
}

/** Below this no adapter spills: nothing is kept of a loop that needs fewer. */
const FEW_REGISTERS = 32;

/** What of the final code the draft that is counted doesn't show. */
export interface Tiling {
  /** What the code will be tiled with: its loads serve several products, its loops several results. */
  readonly tile?: ContractionTile;
  /** How many evaluations there are for each element because tiles are not all full. */
  readonly padding?: number;
}

/** Exchanges that combining a whole subgroup takes, about. */
const COMBINING = 4;

/** All but the registers, which are most of the counting: nobody asks for those of a kernel that can't be. */
export type Counts = Omit<Features, 'registers' | 'pressure'>;

export function countFeatures(
  group: GroupSpec,
  ir: KernelIr,
  b: Builder,
  f16: boolean,
  /** What a load costs, in adds. */
  loadWork: number,
  tiling: Tiling = {},
): Features {
  const counts = countWork(group, ir, b, f16, loadWork, tiling);
  return { ...counts, ...countRegisters(group, ir, counts, tiling) };
}

export function countRegisters(
  { program }: GroupSpec,
  ir: KernelIr,
  { threads }: Counts,
  { tile }: Tiling = {},
): Pick<Features, 'registers' | 'pressure'> {
  const at = (e: IndexExpr): number => bound(program, e);
  const pressure = pressures(ir.body, threads, at, tile?.products).map((p) => tiled(p, tile));
  return {
    registers: pressure[0]?.registers ?? 0,
    pressure: pressure.filter((p) => p.registers > FEW_REGISTERS),
  };
}

export function countWork(
  group: GroupSpec,
  ir: KernelIr,
  b: Builder,
  f16: boolean,
  loadWork: number,
  { tile, padding = 1 }: Tiling = {},
): Counts {
  const { program } = group;
  const reuse = tile?.reuse ?? 1;
  // Results that share a turn of a loop.
  const abreast = tile ? tile.row * tile.column : 1;
  const at = (e: IndexExpr): number => bound(program, e);
  const invocations = ir.workgroup[0] * ir.workgroup[1] * ir.workgroup[2];
  const workgroups = at(ir.workgroups);
  const threads = workgroups * invocations;
  const c = {
    flops: 0,
    work: 0,
    shared: 0,
    barriers: 0,
    size: 0,
  };
  // Inside the loops, loads and what they are indexed by serve several products.
  const shared = (times: number, among = reuse): number =>
    times > threads ? times / among : times;
  const indexing = tile?.indexReuse ?? 1;
  const stmts = (list: readonly Stmt[], times: number): void => {
    for (const s of list) {
      c.size++;
      switch (s.s) {
        case 'let':
          expr(s.expr, times);
          break;
        case 'load':
        case 'loadVec': {
          c.work += shared(times) * loadWork;
          expr(s.index, shared(times, reuse / indexing));
          break;
        }
        case 'var':
          expr(s.init, times);
          break;
        case 'set':
          expr(s.expr, times);
          break;
        case 'for':
          stmts(s.body, times * Math.max(0, at(s.trips)));
          c.work += (times * 2 * Math.max(0, at(s.trips))) / abreast;
          break;
        case 'if':
          expr(s.cond, times);
          stmts(s.then, times);
          stmts(s.else, times);
          break;
        case 'store':
          c.work += times * loadWork;
          expr(s.value, times);
          break;
        case 'storeVec':
          c.work += times * loadWork;
          for (const v of s.values) expr(v, times);
          break;
        case 'setShared':
          c.shared += times;
          break;
        case 'barrier':
          c.barriers += times;
          break;
        case 'subgroup':
          // Combining is some exchanges; each is about an access to workgroup memory.
          c.shared += times * (typeof s.how === 'string' ? COMBINING : 1);
          expr(s.value, times);
          break;
        case 'parts':
          // Counted part by part before they are put together: see horizontal.ts.
          throw new Error('a kernel of parts is counted by its parts');
        case 'exitUnless':
        case 'comment':
          break;
      }
    }
  };
  const expr = (e: KExpr, times: number): void => {
    switch (e.k) {
      case 'lit':
      case 'ref':
      case 'sym':
        return;
      case 'unary': {
        if (e.type === 'f32') c.flops += times;
        c.work += times * unaryWeight(e.fn);
        expr(e.a, times);
        return;
      }
      case 'binary': {
        if (e.a.type === 'f32') c.flops += times;
        c.work += times * (e.fn === 'div' ? 4 : e.fn === 'pow' ? 20 : 1);
        expr(e.a, times);
        expr(e.b, times);
        return;
      }
      case 'int':
        c.work += shared(times, indexing) * (e.fn === 'idiv' || e.fn === 'imod' ? 2 : 0.5);
        expr(e.a, times);
        expr(e.b, times);
        return;
      case 'floor':
        c.work += shared(times, indexing) * 4;
        expr(e.a, times);
        expr(e.b, times);
        return;
      case 'select':
        c.work += times;
        expr(e.cond, times);
        expr(e.then, times);
        expr(e.else, times);
        return;
      case 'convert':
      case 'narrow':
        c.work += times;
        expr(e.a, times);
        return;
      case 'within':
        c.work += times * 2;
        expr(e.a, times);
        return;
      case 'all':
        for (const t of e.terms) expr(t, times);
        return;
      case 'lane':
        return;
      case 'shared':
        c.shared += times;
        return;
    }
  };
  stmts(ir.body, threads);

  // Footprints.
  const points = new Map<ValueId, Point[]>();
  const stored = new Set<ValueId>();
  for (const a of b.accesses) {
    if (a.store) stored.add(a.value);
    const list = points.get(a.value);
    if (a.point) {
      if (list) list.push(a.point);
      else points.set(a.value, [a.point]);
    }
  }
  const bytesOf = new Map<ValueId, number>();
  let bytesRead = 0;
  let bytesWritten = 0;
  for (const [value, list] of points) {
    const v = program.values.get(value);
    if (!v) continue;
    const bytes =
      footprint(sizesOf(program), v.shape, list) * storageBytes(storageOf(v.dtype, f16));
    bytesOf.set(value, bytes);
    if (stored.has(value)) bytesWritten += bytes;
    else bytesRead += bytes;
  }

  let wastedBytes = 0;
  for (const [value, waste] of wasteOf(program, b.accesses, b.lanes, invocations))
    wastedBytes += waste * (bytesOf.get(value) ?? 0);

  const repeated: { value: ValueId; factor: number }[] = [];
  const evaluations = new Map<ValueId, number>();
  for (const d of b.serial) {
    let n = threads;
    for (const l of d.loops) {
      const atom = l.terms[0]?.factors[0];
      if (atom?.kind === 'var') n *= Math.max(1, at(atom.extent));
    }
    evaluations.set(d.value, (evaluations.get(d.value) ?? 0) + n);
  }
  for (const [value, n] of evaluations) {
    const v = program.values.get(value);
    if (!v) continue;
    let elements = 1;
    for (const d of v.shape) elements *= Math.max(1, at(d));
    // The last workgroup's idle invocations don't count.
    const factor = n / padding / (Math.ceil(elements / invocations) * invocations);
    if (factor > REPEAT_LIMIT) repeated.push({ value, factor: n / padding / elements });
  }
  return {
    flops: c.flops,
    work: c.work,
    sharedAccesses: c.shared,
    barriers: c.barriers,
    threads,
    workgroups,
    dispatches: 1,
    bytesRead,
    bytesWritten,
    bytesOf,
    buffers: ir.buffers.length,
    sharedBytes: ir.shared.reduce((s, a) => s + 4 * a.length, 0),
    size: c.size,
    repeated,
    wastedBytes,
  };
}

/** In a tiled kernel each invocation has the operands of its tile, and there are fewer. */
function tiled(p: Pressure, tile: ContractionTile | undefined): Pressure {
  if (!tile) return p;
  return {
    // Untiled there were two.
    registers: p.registers + tile.operands - 2,
    times: p.times / tile.products,
  };
}

/** Distinct elements that reads at the points touch, at most: per dim, the spread of the index or what its variables can take. */
export function footprint(
  sizes: I.SizeValues,
  shape: readonly IndexExpr[],
  points: readonly Point[],
): number {
  let total = 1;
  for (let i = 0; i < shape.length; i++) {
    const size = sizes.of(shape[i] ?? I.num(1));
    let lo = Infinity;
    let hi = -Infinity;
    let combos = 0;
    const seen = new Set<string>();
    for (const p of points) {
      const e = p[i];
      if (!e || seen.has(e.key)) continue;
      seen.add(e.key);
      const l = I.lowerBound(e);
      const u = I.upperBound(e, sizes);
      lo = Math.min(lo, l);
      hi = Math.max(hi, u);
      combos += values(e, sizes);
    }
    const spread = Number.isFinite(hi - lo) ? hi - lo + 1 : size;
    total *= Math.max(0, Math.min(size, spread, combos));
  }
  return total;
}

/** How many values an index can take, at most: the product of its variables' extents. */
function values(e: IndexExpr, sizes: I.SizeValues): number {
  let n = 1;
  const seen = new Set<string>();
  const visit = (x: IndexExpr): void => {
    for (const t of x.terms) {
      for (const f of t.factors) {
        if (seen.has(f.key)) continue;
        seen.add(f.key);
        if (f.kind === 'var' || f.kind === 'dyn') n *= Math.max(0, sizes.of(f.extent));
        else if (f.kind === 'mod')
          n *= Math.max(1, Math.min(sizes.of(f.b) || Infinity, valuesOf(f.a)));
        else if (f.kind === 'floordiv')
          n *= Math.max(
            1,
            Math.min(
              Math.ceil(I.upperBound(f.a, sizes) / Math.max(1, sizes.of(f.b))) + 1,
              valuesOf(f.a),
            ),
          );
        else if (f.kind === 'min' || f.kind === 'max') {
          visit(f.a);
          visit(f.b);
        }
      }
    }
  };
  const valuesOf = (x: IndexExpr): number => values(x, sizes);
  visit(e);
  return n;
}
