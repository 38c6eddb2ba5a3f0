/**
 * Template `loop`: invocations spread over the space of the outputs, each computing a small tile of
 * it in registers; reductions run as serial loops whose accumulators cover the tile.
 *
 * With a linear tile of four it is the vectorised pointwise kernel, whose invocations may take several
 * turns along a dim, far apart: what doesn't depend on that dim is loaded once. With a tile over two dims of a
 * contraction it is the register-blocked matmul or convolution: loads that don't depend on one of
 * the tile's dims are shared across it, and what follows the contraction is its epilogue.
 */
import type { ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import { Builder, type BuilderOptions, type Point } from './builder';
import { extents, type GroupSpec, isBijection } from './group';
import { finishKernel, flatWorkgroup } from './grid';
import type { KernelIr, KExpr } from './kernelIr';
import { type ParameterSpace, powersOfTwo } from './parameters';
import { lit } from './scalars';
import { blockThreads, multiply, type StagedProduct, stagedProduct } from './staging';

export interface LoopPlan {
  /** The output whose dims are the space. */
  readonly primary: ValueId;
  readonly space: readonly IndexExpr[];
  /** Where each output is stored, over the variables p0… of the space. */
  readonly stores: readonly { readonly value: ValueId; readonly point: Point }[];
}

export interface LoopParams {
  readonly workgroup: number;
  /** Elements per invocation: of the flattened space, or per dim of it. */
  readonly tile:
    | {
        readonly kind: 'linear';
        readonly size: number;
        /** Of pointwise work: how many turns an invocation takes, and along which dim of the space. */
        readonly turns?: { readonly dim: number; readonly count: number };
      }
    | {
        readonly kind: 'dims';
        /** By dim of the space: 1 but for the two that are tiled. */
        readonly sizes: readonly number[];
        /** Which those are; along `column` neighbours lie side by side in memory. */
        readonly row: number;
        readonly column: number;
        /** Reductions over few positions are written out whole: see windows.ts. */
        readonly windows?: boolean;
      };
  /** Turns of innermost reduction loops written out together. */
  readonly unroll: number;
  /** Of a product that allows it: whether its operands go through workgroup memory (see staging.ts). */
  readonly staging?: boolean;
}

/** Elements of a tile along a dim, or of a linear tile, that a search tries; and the most of them. */
const TILES = [1, 2, 4, 8, 16];
const LONGEST_TILE = 16;
/** Elements of a tile: each is a register at least. */
const LARGEST_TILE = 128;
/** Workgroups smaller than a subgroup leave lanes idle. */
const LEAST_WORKGROUP = 32;

/** What can be set of a `loop` kernel; the kernel is known by the extents of its space. */
export const LOOP_SPACE: ParameterSpace<LoopParams, readonly number[]> = {
  parameters: [
    {
      name: 'workgroup',
      doc: 'invocations a workgroup',
      unpriced: true,
      read: (p) => p.workgroup,
      // More than twice what there are elements would only idle.
      tried: (_, extents, most) =>
        powersOfTwo(LEAST_WORKGROUP, Math.min(most, 2 * elementsOf(extents))),
      write: (p, workgroup, most) =>
        workgroup <= most ? { ...p, workgroup } : { refused: workgroupWanted(most) },
      wanted: workgroupWanted,
    },
    {
      name: 'tile',
      doc: 'elements an invocation computes: side by side, or along each of the two tiled dims',
      read: ({ tile }) => (tile.kind === 'linear' ? tile.size : (tile.sizes[tile.column] ?? 1)),
      tried: ({ tile }, extents) => {
        const room = tile.kind === 'linear' ? elementsOf(extents) : (extents[tile.column] ?? 1);
        return TILES.filter((t) => t <= room);
      },
      write: (p, size) => {
        if (size > LONGEST_TILE) return { refused: tileWanted('tile') };
        const { tile } = p;
        if (tile.kind === 'linear') return { ...p, tile: { ...tile, size } };
        return withTile(p, tile, [tile.row, tile.column], size);
      },
      wanted: () => tileWanted('tile'),
    },
    {
      name: 'tileRows',
      doc: 'elements along the outer of the two tiled dims, where that differs',
      read: ({ tile }) => (tile.kind === 'linear' ? undefined : (tile.sizes[tile.row] ?? 1)),
      tried: ({ tile }, extents) =>
        tile.kind === 'linear' ? [] : TILES.filter((t) => t <= (extents[tile.row] ?? 1)),
      write: (p, size) => {
        const { tile } = p;
        if (tile.kind === 'linear')
          return { refused: 'tileRows is for products, and this kernel has no two tiled dims' };
        if (size > LONGEST_TILE) return { refused: tileWanted('tileRows') };
        return withTile(p, tile, [tile.row], size);
      },
      wanted: () => tileWanted('tileRows'),
    },
    {
      name: 'turns',
      doc: 'tiles an invocation of pointwise work computes one after the other, as far apart as can be',
      read: ({ tile }) => (tile.kind === 'linear' ? tile.turns?.count : undefined),
      tried: ({ tile }, extents) =>
        tile.kind === 'linear' && tile.turns
          ? TURNS.filter((t) => t === 1 || t <= (extents[tile.turns?.dim ?? 0] ?? 1))
          : [],
      write: (p, count) => {
        const { tile } = p;
        return tile.kind === 'linear' && tile.turns
          ? { ...p, tile: { ...tile, turns: { ...tile.turns, count } } }
          : { refused: 'turns are for pointwise work, and this kernel sums' };
      },
      wanted: () => 'turns must be a whole number from 1',
    },
    {
      name: 'staging',
      doc: '1 where the operands of a product go through workgroup memory, 0 where each invocation reads its own',
      least: 0,
      read: (p) => (p.staging === undefined ? undefined : Number(p.staging)),
      tried: () => [0, 1],
      write: (p, on) =>
        p.staging === undefined
          ? {
              refused:
                'staging is for products, and this kernel has none that it could be used for',
            }
          : on > 1
            ? { refused: STAGING_WANTED }
            : { ...p, staging: on === 1 },
      wanted: () => STAGING_WANTED,
    },
  ],
  together: ({ tile, staging, workgroup }) => {
    if (staging && !blockThreads(workgroup))
      return 'with staging, workgroup must be a power of two, up to 256';
    const elements = tile.kind === 'linear' ? tile.size : elementsOf(tile.sizes);
    return elements > LARGEST_TILE
      ? `an invocation would keep ${elements} results in registers, and more than ${LARGEST_TILE} are not built`
      : undefined;
  },
};

/** Turns that a search tries. */
const TURNS = [1, 8, 32, 128, 512];

const STAGING_WANTED = 'staging must be 1 (used) or 0 (not used)';

function withTile(
  p: LoopParams,
  tile: LoopParams['tile'] & { kind: 'dims' },
  dims: readonly number[],
  size: number,
): LoopParams {
  const sizes = tile.sizes.map((s, i) => (dims.includes(i) ? size : s));
  return { ...p, tile: { ...tile, sizes } };
}

function tileWanted(name: string): string {
  return `${name} must be a whole number from 1 to ${LONGEST_TILE}`;
}

function workgroupWanted(most: number): string {
  return `workgroup must be a whole number from 1 to ${most}, what the adapter allows`;
}

function elementsOf(extents: readonly number[]): number {
  return extents.reduce((n, d) => n * d, 1);
}

export function spaceVars(space: readonly IndexExpr[]): IndexExpr[] {
  return space.map((d, i) => I.loopVar(`p${i}`, d));
}

/**
 * Finds the space and where every output lies in it; undefined when some output can't be stored from
 * the others' space.
 */
export function planLoop(group: GroupSpec): LoopPlan | undefined {
  const { program, outputs } = group;
  let primary: ValueId | undefined;
  // The last one in program order among the largest: what it depends on is reached from it.
  let most = -1;
  for (const m of group.members) {
    if (!outputs.includes(m.value)) continue;
    const n = m.dims.reduce(
      (p, d) =>
        p * Math.max(1, I.constOf(d.extent) ?? I.evaluate(d.extent, (s) => program.dims.get(s))),
      1,
    );
    if (n >= most) {
      most = n;
      primary = m.value;
    }
  }
  const main = group.members.find((m) => m.value === primary);
  if (!main || primary === undefined) return undefined;
  const space = extents(main);
  const vars = spaceVars(space);
  if (outputs.length === 1) return { primary, space, stores: [{ value: primary, point: vars }] };

  const stores: { value: ValueId; point: Point }[] = [{ value: primary, point: vars }];
  const trace = new Builder(program, group.members);
  vars.forEach((_, i) => trace.bindVar(`p${i}`, space[i] ?? I.num(1), lit(0, 'i32')));
  const reached = new Map<ValueId, Point[]>();
  trace.onEvaluate = (value, point) => {
    const list = reached.get(value);
    if (list) list.push(point);
    else reached.set(value, [point]);
  };
  trace.value(primary, vars);
  for (const m of [...group.members].reverse()) {
    if (m.value === primary || !outputs.includes(m.value)) continue;
    const shape = extents(m);
    const points = reached.get(m.value) ?? [];
    let point = points.find((p) => isBijection(p, shape, vars, space));
    // A sibling that the primary doesn't need: element for element, when the shapes agree.
    const aligned =
      shape.length === space.length && shape.every((d, i) => I.same(d, space[i] ?? I.num(-1)));
    if (!point && aligned) point = vars;
    if (!point && I.same(I.product(shape), I.product(space)))
      point = I.delinearise(I.linearise(vars, space), shape);
    if (!point) return undefined;
    stores.push({ value: m.value, point });
    trace.value(m.value, point);
  }
  return { primary, space, stores: stores.reverse() };
}

/** Builds the kernel. */
export function buildLoop(
  name: string,
  group: GroupSpec,
  plan: LoopPlan,
  params: LoopParams,
  options: BuilderOptions,
): { ir: KernelIr; builder: Builder } {
  const b = new Builder(group.program, group.members, {
    ...options,
    slices: group.slices,
    unroll: params.unroll,
    windows: params.tile.kind === 'dims' && params.tile.windows === true,
  });
  const { tile } = params;
  const points: Point[] = [];
  const inside: (Guard | undefined)[] = [];
  let workgroups: IndexExpr;
  let turns: Turns | undefined;
  const product = params.staging && tile.kind === 'dims' ? stagedProduct(group, plan) : undefined;
  const rectangle = product && blockThreads(params.workgroup);
  if (tile.kind === 'linear') {
    turns = turnsOf(plan, tile.turns);
    // The space of one turn.
    const space = plan.space.map((d, i) => (i === turns?.dim ? turns.length : d));
    const total = I.product(space);
    const threads = I.ceilDiv(total, tile.size);
    workgroups = I.ceilDiv(threads, params.workgroup);
    const thread = flatWorkgroup(b, params.workgroup, threads);
    const whole = I.exactDiv(total, tile.size) !== undefined;
    for (let t = 0; t < tile.size; t++) {
      const lin = I.add(I.mul(thread, tile.size), t);
      points.push(I.delinearise(lin, space));
      inside.push(whole ? undefined : { cond: less(b, lin, total), key: lin.key });
    }
  } else {
    /** Invocations of a workgroup along each dim: one, but for those of a block. */
    const beside = plan.space.map((_, i) =>
      !rectangle ? 1 : i === tile.row ? rectangle.row : i === tile.column ? rectangle.column : 1,
    );
    const sizes = plan.space.map((_, i) => (tile.sizes[i] ?? 1) * (beside[i] ?? 1));
    const counts = plan.space.map((d, i) => I.ceilDiv(d, sizes[i] ?? 1));
    let starts: IndexExpr[];
    if (product && rectangle) {
      workgroups = I.product(counts);
      starts = inBlock(b, group, plan, tile, product, rectangle, counts);
    } else {
      const threads = I.product(counts);
      workgroups = I.ceilDiv(threads, params.workgroup);
      const thread = flatWorkgroup(b, params.workgroup, threads);
      starts = I.delinearise(thread, counts).map((x, i) => I.mul(x, tile.sizes[i] ?? 1));
    }
    const offsets: number[][] = [[]];
    plan.space.forEach((_, i) => {
      const size = tile.sizes[i] ?? 1;
      const next: number[][] = [];
      for (const o of offsets) for (let t = 0; t < size; t++) next.push([...o, t]);
      offsets.splice(0, offsets.length, ...next);
    });
    for (const o of offsets) {
      const point = starts.map((s, i) => I.add(s, o[i] ?? 0));
      const terms: KExpr[] = [];
      const keys: string[] = [];
      plan.space.forEach((d, i) => {
        const size = sizes[i] ?? 1;
        if (size === 1 || I.exactDiv(d, size)) return;
        const x = point[i] ?? I.num(0);
        terms.push(less(b, x, d));
        keys.push(x.key);
      });
      points.push(point);
      inside.push(
        terms.length === 0
          ? undefined
          : {
              cond: {
                k: 'all',
                terms,
                type: 'bool',
                depth: Math.max(...terms.map((t) => t.depth)),
              },
              key: keys.join(', '),
            },
      );
    }
  }
  if (turns) takeTurns(b, plan, turns, points, inside);
  else computeAt(b, plan, points, inside);
  return {
    ir: finishKernel(name, b, params.workgroup, workgroups, options),
    builder: b,
  };
}

/** Whether a point is inside the space: a condition, and a key that equal conditions share. */
interface Guard {
  readonly cond: KExpr;
  readonly key: string;
}

/** How a dim is shared out among the turns of an invocation. */
interface Turns {
  readonly dim: number;
  readonly count: IndexExpr;
  /** Positions of the dim that one turn covers. */
  readonly length: IndexExpr;
}

function turnsOf(
  plan: LoopPlan,
  wanted: { readonly dim: number; readonly count: number } | undefined,
): Turns | undefined {
  const extent = wanted && plan.space[wanted.dim];
  if (!extent || wanted.count <= 1) return undefined;
  const length = I.ceilDiv(extent, wanted.count);
  return { dim: wanted.dim, length, count: I.ceilDiv(extent, length) };
}

/** What is computed at the points of each turn; loads that are the same in all move out of the loop. */
function takeTurns(
  b: Builder,
  plan: LoopPlan,
  { dim, count, length }: Turns,
  points: readonly Point[],
  inside: readonly (Guard | undefined)[],
): void {
  const extent = plan.space[dim] ?? I.num(1);
  const whole = I.exactDiv(extent, length) !== undefined;
  b.loop('turn', count, (turn) => {
    const start = I.mul(turn, length);
    const at = points.map((p) => p.map((e, i) => (i === dim ? I.add(e, start) : e)));
    const guards = whole ? inside : at.map((p, i) => also(b, inside[i], p[dim], extent));
    computeAt(b, plan, at, guards);
  });
}

/** The guard, and that `x` is before the end. */
function also(
  b: Builder,
  guard: Guard | undefined,
  x: IndexExpr = I.num(0),
  end: IndexExpr,
): Guard {
  const cond = less(b, x, end);
  if (!guard) return { cond, key: x.key };
  const terms = [guard.cond, cond];
  const depth = Math.max(...terms.map((t) => t.depth));
  return { cond: { k: 'all', terms, type: 'bool', depth }, key: `${guard.key}, ${x.key}` };
}

/** Evaluates and stores all outputs at the points of the space. */
function computeAt(
  b: Builder,
  plan: LoopPlan,
  points: readonly Point[],
  inside: readonly (Guard | undefined)[],
): void {
  const names = spaceVars(plan.space);
  for (const s of plan.stores) {
    const at = points.map((p) => {
      const env = new Map(names.map((v, i) => [v.key, p[i] ?? I.num(0)]));
      return s.point.map((e) =>
        I.rewrite(e, (a) => (a.kind === 'var' ? env.get(a.name) : undefined)),
      );
    });
    const values = b.valueMany(s.value, at);
    // Points under one condition are stored together: neighbours among them as vectors.
    const batches = new Map<
      string,
      { cond: KExpr | undefined; points: Point[]; values: KExpr[] }
    >();
    values.forEach((value, i) => {
      const at1 = at[i] ?? [];
      const guard = inside[i];
      const key = guard?.key ?? '';
      const batch = batches.get(key) ?? { cond: guard?.cond, points: [], values: [] };
      batches.set(key, batch);
      batch.points.push(at1);
      batch.values.push(value);
    });
    for (const batch of batches.values()) {
      const store = (): void => b.storeMany(s.value, batch.points, batch.values);
      if (batch.cond) b.guarded(batch.cond, store);
      else store();
    }
  }
}

/** Where the invocation's tile begins, in a workgroup that has a block; the product is computed here. */
function inBlock(
  b: Builder,
  group: GroupSpec,
  plan: LoopPlan,
  tile: LoopParams['tile'] & { kind: 'dims' },
  product: StagedProduct,
  threads: { readonly row: number; readonly column: number },
  counts: readonly IndexExpr[],
): IndexExpr[] {
  const lid = b.ref('lid', 'i32', 0);
  const block = b.bindVar('block', I.product(counts), b.ref('wg', 'i32', 0), undefined, {
    perWorkgroup: 1,
  });
  const columns = lit(threads.column, 'i32');
  const y = b.bindVar('y', I.num(threads.row), b.int('idiv', lid, columns), (l) =>
    Math.floor(l / threads.column),
  );
  const x = b.bindVar(
    'x',
    I.num(threads.column),
    b.int('imod', lid, columns),
    (l) => l % threads.column,
  );
  const own = { row: tile.sizes[tile.row] ?? 1, column: tile.sizes[tile.column] ?? 1 };
  const first = { row: I.mul(y, own.row), column: I.mul(x, own.column) };
  const corner = I.delinearise(block, counts).map((e, i) =>
    i === tile.row
      ? I.mul(e, own.row * threads.row)
      : i === tile.column
        ? I.mul(e, own.column * threads.column)
        : e,
  );
  const vars = spaceVars(plan.space);
  const shifted = (row: IndexExpr, column: IndexExpr): IndexExpr[] =>
    corner.map((e, i) => I.add(e, i === tile.row ? row : i === tile.column ? column : 0));
  multiply(b, group, product, {
    threads,
    tile: own,
    first,
    at: (row, column) => {
      const place = shifted(row, column);
      return new Map(vars.map((v, i) => [v.key, place[i] ?? I.num(0)]));
    },
  });
  return shifted(first.row, first.column);
}

function less(b: Builder, a: IndexExpr, n: IndexExpr): KExpr {
  const x = b.index(a);
  const y = b.index(n);
  return { k: 'binary', fn: 'lt', a: x, b: y, type: 'bool', depth: Math.max(x.depth, y.depth) };
}
