/**
 * Kernels whose buffers are larger than the adapter lets a binding be.
 *
 * A kernel runs over a flat number of workgroups. Cut into ranges, each a dispatch of its own, a range
 * touches a part of each buffer: how much follows from the index of each access, by interval
 * arithmetic with the variables of the grid kept to the range. That part is bound, and the code counts
 * from where it begins. Where it is too large however short the ranges are (a table that is looked up
 * in at run time, what is read across), it is bound in several pieces, and each access finds its own.
 *
 * Vocabulary
 *  - *chunk*: a range of workgroups, dispatched by itself.
 *  - *window*: the bytes of a buffer that a chunk binds; they start at a multiple of {@link ALIGNMENT}.
 *  - *piece*: one of the bindings that a window larger than the limit takes, side by side.
 */
import type { ValueId } from '../ir/expr';
import type { IndexExpr } from '../ir/indexExpr';
import { type Interval, intervalOf } from '../ir/interval';
import type { GridVar, KernelIr, Stmt } from './kernelIr';

/** Where a binding may start: WebGPU lets no adapter ask for more. */
export const ALIGNMENT = 256;

export interface BindingLimits {
  readonly maxStorageBufferBindingSize: number;
  readonly maxStorageBuffersPerShaderStage: number;
}

export interface Window {
  readonly offset: number;
  readonly bytes: number;
}

export interface Chunk {
  readonly first: number;
  readonly count: number;
  /** Of the buffers that aren't bound whole in one binding. */
  readonly windows: ReadonlyMap<ValueId, Window>;
}

export interface Chunking {
  readonly chunks: readonly Chunk[];
  /** By buffer with windows: how many bindings each takes, and how much each but the last holds. */
  readonly pieces: ReadonlyMap<ValueId, { readonly count: number; readonly bytes: number }>;
}

/** What can't be bound: the least window of it that was found, and the bindings that all would take. */
export interface Unbindable {
  readonly buffer: ValueId;
  readonly bytes: number;
  readonly bindings: number;
}

export interface KernelSizes {
  readonly workgroups: number;
  /** Of a buffer as it is bound. */
  readonly bytes: (buffer: ValueId) => number;
  readonly elementBytes: (buffer: ValueId) => number;
  readonly bind: (symbol: string) => number | undefined;
}

/** Undefined where all can be bound whole. */
export function planChunks(
  ir: KernelIr,
  sizes: KernelSizes,
  limits: BindingLimits,
): Chunking | { readonly fault: Unbindable } | undefined {
  const most = limits.maxStorageBufferBindingSize;
  const over = new Set(ir.buffers.map((b) => b.value).filter((v) => sizes.bytes(v) > most));
  if (over.size === 0 || sizes.workgroups < 1) return undefined;
  const touched = accessesOf(ir, over);
  let best: { chunking: Chunking; bindings: number } | undefined;
  for (const count of countsUpTo(sizes.workgroups)) {
    const found = cut(ir, touched, over, count, sizes, most);
    // Few pieces before few chunks: a launch is cheaper than a choice at each access.
    if (!best || found.bindings < best.bindings) best = found;
    if (best.bindings === ir.buffers.length) break;
  }
  if (!best) return undefined;
  const { chunking, bindings } = best;
  if (bindings <= limits.maxStorageBuffersPerShaderStage) return chunking;
  return { fault: widest(chunking, bindings) };
}

function widest({ chunks }: Chunking, bindings: number): Unbindable {
  let found: Unbindable = { buffer: '', bytes: 0, bindings };
  for (const c of chunks)
    for (const [buffer, { bytes }] of c.windows)
      if (bytes > found.bytes) found = { buffer, bytes, bindings };
  return found;
}

/** Chunks that are tried: all small numbers, since outer dims often are; then ever more. */
function countsUpTo(workgroups: number): number[] {
  const out: number[] = [];
  for (let n = 1; n <= Math.min(workgroups, MOST_CHUNKS); n = n < 16 ? n + 1 : n * 2) out.push(n);
  return out;
}

/** Launches beyond this would take longer than anything gained. */
const MOST_CHUNKS = 1024;

/** The indices at which each of the buffers is touched. */
function accessesOf(
  ir: KernelIr,
  buffers: ReadonlySet<ValueId>,
): ReadonlyMap<ValueId, readonly IndexExpr[]> {
  const found = new Map<ValueId, Map<string, IndexExpr>>();
  const walk = (stmts: readonly Stmt[]): void => {
    for (const s of stmts) {
      switch (s.s) {
        case 'load':
        case 'loadVec':
        case 'store':
        case 'storeVec': {
          if (!buffers.has(s.buffer)) break;
          const of = found.get(s.buffer) ?? new Map<string, IndexExpr>();
          found.set(s.buffer, of);
          of.set(s.linear.key, s.linear);
          break;
        }
        case 'for':
          walk(s.body);
          break;
        case 'if':
          walk(s.then);
          walk(s.else);
          break;
        case 'parts':
          for (const p of s.parts) walk(p.body);
          break;
        case 'let':
        case 'var':
        case 'set':
        case 'setShared':
        case 'subgroup':
        case 'barrier':
        case 'exitUnless':
        case 'comment':
          break;
      }
    }
  };
  walk(ir.body);
  return new Map([...found].map(([v, by]) => [v, [...by.values()]]));
}

/** The range of the variables of the grid in workgroups from `first` on. */
function rangesIn(
  grid: ReadonlyMap<string, GridVar>,
  first: number,
  count: number,
  bind: KernelSizes['bind'],
): (name: string) => Interval | undefined {
  const known = new Map<string, Interval>();
  const rangeOf = (name: string): Interval | undefined => {
    const v = grid.get(name);
    if (!v) return undefined;
    let range = known.get(name);
    if (!range) {
      range =
        'as' in v
          ? intervalOf(v.as, rangeOf, bind)
          : [first * v.perWorkgroup, (first + count) * v.perWorkgroup - 1];
      known.set(name, range);
    }
    return range;
  };
  return rangeOf;
}

/** The kernel in so many chunks of like size, and the bindings it then takes. */
function cut(
  ir: KernelIr,
  touched: ReadonlyMap<ValueId, readonly IndexExpr[]>,
  over: ReadonlySet<ValueId>,
  chunks: number,
  sizes: KernelSizes,
  most: number,
): { chunking: Chunking; bindings: number } {
  const starts = Array.from({ length: chunks + 1 }, (_, i) =>
    Math.floor((i * sizes.workgroups) / chunks),
  );
  const windows = starts.slice(0, -1).map(() => new Map<ValueId, Window>());
  const pieces = new Map<ValueId, { count: number; bytes: number }>();
  const grid = ir.grid ?? new Map<string, GridVar>();
  const ranges = windows.map((_, i) => {
    const first = starts[i] ?? 0;
    return rangesIn(grid, first, (starts[i + 1] ?? first) - first, sizes.bind);
  });
  for (const v of over) {
    const wanted = ranges.map((r) => {
      const element = sizes.elementBytes(v);
      let [lo, hi] = [Infinity, -Infinity];
      for (const e of touched.get(v) ?? []) {
        const [a, b] = intervalOf(e, r, sizes.bind);
        lo = Math.min(lo, a);
        hi = Math.max(hi, b);
      }
      // A vector reaches up to three elements further either way.
      return windowOf((lo - 3) * element, (hi + 4) * element, sizes.bytes(v));
    });
    const cut = inPieces(wanted, sizes.bytes(v), floorTo(most, ALIGNMENT));
    pieces.set(v, { count: cut.count, bytes: cut.bytes });
    windows.forEach((w, i) => {
      const of = cut.windows[i];
      if (of) w.set(v, of);
    });
  }
  let bindings = ir.buffers.length;
  for (const p of pieces.values()) bindings += p.count - 1;
  return {
    bindings,
    chunking: {
      chunks: windows.map((w, i) => {
        const first = starts[i] ?? 0;
        return { first, count: (starts[i + 1] ?? first) - first, windows: w };
      }),
      pieces,
    },
  };
}

function floorTo(n: number, by: number): number {
  return Math.floor(n / by) * by;
}

function ceilTo(n: number, by: number): number {
  return Math.ceil(n / by) * by;
}

function windowOf(from: number, to: number, all: number): Window {
  // What is never touched here is bound all the same.
  if (!(from < all) || to <= 0) return { offset: 0, bytes: Math.min(all, ALIGNMENT) };
  const offset = floorTo(Math.max(0, from), ALIGNMENT);
  return { offset, bytes: Math.min(all, ceilTo(to, ALIGNMENT)) - offset };
}

/**
 * How many bindings the windows of one buffer take. The code is the same for all chunks, so that their
 * windows have like many pieces, none of them empty: where there are several, all windows are made
 * about as long as the longest.
 */
function inPieces(
  wanted: readonly Window[],
  all: number,
  most: number,
): { windows: readonly Window[]; count: number; bytes: number } {
  const longest = Math.max(...wanted.map((w) => w.bytes));
  if (longest <= most) return { windows: wanted, count: 1, bytes: most };
  // A window that ends with the buffer may be longer than the others by less than an alignment.
  const count = Math.ceil((ceilTo(longest, ALIGNMENT) + ALIGNMENT) / most);
  const length = Math.max(ceilTo(longest, ALIGNMENT), (count - 1) * most + ALIGNMENT);
  if (length + ALIGNMENT >= all || most < 2 * ALIGNMENT) {
    const whole = { offset: 0, bytes: all };
    return { windows: wanted.map(() => whole), count: Math.ceil(all / most), bytes: most };
  }
  const last = floorTo(all - length, ALIGNMENT);
  const windows = wanted.map((w) => {
    const offset = Math.min(w.offset, last);
    const rest = all - offset;
    return { offset, bytes: rest < length + ALIGNMENT ? rest : length };
  });
  return { windows, count, bytes: most };
}
