/**
 * Template `transpose`: pointwise work whose results lie along one dim in memory, and some operands
 * along another: a transpose, a change between NCHW and NHWC, a sum with a transposed operand.
 *
 * Invocations that are neighbours along one of the two are far apart along the other, and memory would
 * move eight times what is used. So a workgroup takes a square of both: it reads those operands with
 * its invocations along *their* dim, into workgroup memory, and computes with its invocations along the
 * results'. A row of the square there is one element longer than it need be, so that a column of it
 * doesn't lie in one bank.
 *
 * Vocabulary
 *  - *across*, *along*: the dims of the space that the two sides of the square run over: along the
 *    results, and across them, which is along the operands. Each is one dim, or several that lie one
 *    inside the other both ways (height and width) and count as one.
 *  - *staged*: read through workgroup memory.
 */
import type { ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import { Builder, type BuilderOptions, type Point } from './builder';
import { all, less } from './expressions';
import { finishKernel } from './grid';
import { boundElements, type GroupSpec, strideOf } from './group';
import type { KernelIr, KExpr } from './kernelIr';
import { type LoopPlan, spaceVars } from './loop';
import type { ParameterSpace } from './parameters';
import { lit } from './scalars';
import { locate } from './slices';

export interface TransposePlan extends LoopPlan {
  /** Dims of the space, outermost first. */
  readonly along: readonly number[];
  readonly across: readonly number[];
}

export interface TransposeParams {
  /** Elements of a side of the square. */
  readonly tile: number;
  readonly workgroup: number;
}

const TILES = [8, 16, 32, 64];
const WORKGROUPS = [64, 128, 256];
const TILE_WANTED = `tile (a side of the square) must be one of ${TILES.join(', ')}`;

/** What can be set of a `transpose` kernel. */
export const TRANSPOSE_SPACE: ParameterSpace<TransposeParams, null> = {
  parameters: [
    {
      name: 'tile',
      doc: 'elements of a side of the square that a workgroup takes',
      read: (p) => p.tile,
      tried: () => TILES,
      write: (p, tile) => (TILES.includes(tile) ? { ...p, tile } : { refused: TILE_WANTED }),
      wanted: () => TILE_WANTED,
    },
    {
      name: 'workgroup',
      doc: 'invocations a workgroup',
      read: (p) => p.workgroup,
      tried: (_, __, most) => WORKGROUPS.filter((w) => w <= most),
      write: (p, workgroup, most) =>
        workgroup <= most ? { ...p, workgroup } : { refused: workgroupWanted(most) },
      wanted: workgroupWanted,
    },
  ],
  together: ({ tile, workgroup }) =>
    workgroup % tile === 0 && workgroup <= tile * tile
      ? undefined
      : `workgroup must be whole sides of the square: a multiple of ${tile}, up to ${tile * tile}`,
};

function workgroupWanted(most: number): string {
  return `workgroup must be a whole number from 1 to ${most}, what the adapter allows`;
}

/** The parameters by default; fewer invocations where the adapter has no more. */
export function transposeParams(most: number): TransposeParams {
  return { tile: 32, workgroup: most >= 256 ? 256 : most >= 128 ? 128 : 64 };
}

interface Staged {
  readonly value: ValueId;
  /** Over the variables of the space. */
  readonly point: Point;
}

/** What the group reads from memory, at which point of the space, and where that is. */
function readsOf(group: GroupSpec, plan: LoopPlan): (Staged & { readonly linear: IndexExpr })[] {
  const trace = new Builder(group.program, group.members, { slices: group.slices });
  const vars = spaceVars(plan.space);
  vars.forEach((_, i) => trace.bindVar(`p${i}`, plan.space[i] ?? I.num(1), lit(0, 'i32')));
  for (const s of plan.stores) trace.value(s.value, s.point);
  return trace.accesses.flatMap(({ value, point, linear }) =>
    point ? [{ value, point, linear }] : [],
  );
}

/** The dims of the square, where the group's operands lie across its results; undefined where they don't. */
export function planTranspose(group: GroupSpec, plan: LoopPlan): TransposePlan | undefined {
  const { program, slices } = group;
  const vars = spaceVars(plan.space);
  const size = (dim: number): number => boundElements(program, plan.space.slice(dim, dim + 1));
  let last = plan.space.length - 1;
  while (last >= 0 && size(last) === 1) last--;
  const fastest = vars[last];
  if (!fastest) return undefined;
  const one = (linear: IndexExpr, v: IndexExpr): boolean => {
    const stride = strideOf(linear, v);
    return stride !== undefined && I.isConst(stride, 1);
  };
  const results = plan.stores.map((s) => locate(program, slices, s.value, s.point).linear);
  if (!results.every((linear) => one(linear, fastest))) return undefined;
  const reads = readsOf(group, plan);
  const across = vars.findIndex(
    (v, i) => i !== last && reads.some((r) => staged(r.linear, v, fastest)),
  );
  const side = vars[across];
  if (!side) return undefined;
  const operands = reads.filter((r) => staged(r.linear, side, fastest)).map((r) => r.linear);
  /** Dims that lie one inside the other both ways, outermost first. */
  const merged = (
    dim: number,
    indices: readonly IndexExpr[],
    taken: readonly number[],
  ): number[] => {
    const out = [dim];
    for (let d = dim - 1; d >= 0 && !taken.includes(d); d--) {
      const [outer, inner] = [vars[d], vars[d + 1]];
      const extent = plan.space[d + 1];
      const inside = (linear: IndexExpr): boolean => {
        const [a, b] = [outer && strideOf(linear, outer), inner && strideOf(linear, inner)];
        return !!a && !!b && !!extent && I.same(a, I.mul(b, extent));
      };
      if (!indices.every(inside)) break;
      out.unshift(d);
    }
    return out;
  };
  const wide = merged(across, operands, [last]);
  return { ...plan, across: wide, along: merged(last, [...results, ...operands], wide) };
}

/** Whether neighbours along `side` are neighbours in memory, and those along `fastest` aren't. */
function staged(linear: IndexExpr, side: IndexExpr, fastest: IndexExpr): boolean {
  const [along, across] = [strideOf(linear, fastest), strideOf(linear, side)];
  const steps = (stride: IndexExpr | undefined, ...of: number[]): boolean =>
    stride !== undefined && of.some((n) => I.isConst(stride, n));
  return along !== undefined && steps(across, 1, -1) && !steps(along, 0, 1, -1);
}

/** Workgroups: squares of each place of the other dims. */
function squaresOf(
  plan: TransposePlan,
  { tile }: TransposeParams,
): {
  readonly outer: readonly number[];
  readonly counts: readonly IndexExpr[];
  readonly along: IndexExpr;
  readonly across: IndexExpr;
} {
  const extent = (dims: readonly number[]): IndexExpr =>
    I.product(dims.map((d) => plan.space[d] ?? I.num(1)));
  const outer = plan.space.flatMap((_, d) =>
    plan.along.includes(d) || plan.across.includes(d) ? [] : [d],
  );
  const [along, across] = [extent(plan.along), extent(plan.across)];
  return {
    outer,
    along,
    across,
    counts: [
      ...outer.map((d) => plan.space[d] ?? I.num(1)),
      I.ceilDiv(across, tile),
      I.ceilDiv(along, tile),
    ],
  };
}

export function transposeWorkgroups(plan: TransposePlan, params: TransposeParams): IndexExpr {
  return I.product(squaresOf(plan, params).counts);
}

export function buildTranspose(
  name: string,
  group: GroupSpec,
  plan: TransposePlan,
  params: TransposeParams,
  options: BuilderOptions,
): { ir: KernelIr; builder: Builder } {
  const { tile, workgroup } = params;
  const b = new Builder(group.program, group.members, { ...options, slices: group.slices });
  const { outer, counts, along, across } = squaresOf(plan, params);
  const squares = I.product(counts);
  const square = b.bindVar('square', squares, b.ref('wg', 'i32', 0), undefined, {
    perWorkgroup: 1,
  });
  const lid = b.ref('lid', 'i32', 0);
  const side = lit(tile, 'i32');
  // Neighbouring invocations differ in `x`.
  const x = b.bindVar('x', I.num(tile), b.int('imod', lid, side), (l) => l % tile);
  const lines = workgroup / tile;
  const y =
    lines === 1
      ? I.num(0)
      : b.bindVar('y', I.num(lines), b.int('idiv', lid, side), (l) => Math.floor(l / tile));
  const blocks = I.delinearise(square, counts);
  const first = (i: number): IndexExpr => I.mul(blocks[outer.length + i] ?? I.num(0), tile);
  const [acrossFirst, alongFirst] = [first(0), first(1)];
  const vars = spaceVars(plan.space);
  /** The variables of the space at a place of the square. */
  const envAt = (onAcross: IndexExpr, onAlong: IndexExpr): ReadonlyMap<string, IndexExpr> => {
    const env = new Map<string, IndexExpr>();
    outer.forEach((d, i) => env.set(vars[d]?.key ?? '', blocks[i] ?? I.num(0)));
    const spread = (dims: readonly number[], at: IndexExpr): void =>
      I.delinearise(
        at,
        dims.map((d) => plan.space[d] ?? I.num(1)),
      ).forEach((e, i) => env.set(vars[dims[i] ?? -1]?.key ?? '', e));
    spread(plan.across, I.add(acrossFirst, onAcross));
    spread(plan.along, I.add(alongFirst, onAlong));
    return env;
  };
  const pointAt = (point: Point, env: ReadonlyMap<string, IndexExpr>): Point =>
    point.map((e) => I.rewrite(e, (a) => (a.kind === 'var' ? env.get(a.name) : undefined)));
  const rounds = Array.from({ length: tile / lines }, (_, r) => I.add(y, r * lines));
  const cell = (onAlong: IndexExpr, onAcross: IndexExpr): KExpr =>
    b.index(I.add(I.mul(onAlong, tile + 1), onAcross));

  const fastest = vars[plan.along[plan.along.length - 1] ?? -1];
  const crossing = vars[plan.across[plan.across.length - 1] ?? -1];
  const reads = readsOf(group, plan).filter(
    (r) => fastest && crossing && staged(r.linear, crossing, fastest),
  );
  const squaresIn = reads.map((r): { read: Staged; array: string } => {
    const array = b.fresh('square');
    rounds.forEach((line, i) => {
      const value = b.value(r.value, pointAt(r.point, envAt(x, line)));
      if (i === 0) b.shared.push({ name: array, type: value.type, length: tile * (tile + 1) });
      b.emit({ s: 'setShared', name: array, index: cell(line, x), value });
    });
    return { read: r, array };
  });
  b.emit({ s: 'barrier' });
  const inRange = (at: IndexExpr, end: IndexExpr): KExpr[] =>
    I.exactDiv(end, tile) ? [] : [less(b.index(at), b.index(end))];
  for (const line of rounds) {
    const env = envAt(line, x);
    for (const { read, array } of squaresIn) {
      const type = b.shared.find((s) => s.name === array)?.type ?? 'f32';
      const index = cell(x, line);
      const shared: KExpr = { k: 'shared', name: array, index, type, depth: b.depth };
      b.defineLoad(read.value, pointAt(read.point, env), b.frozen('crossed', shared));
    }
    const inside = [
      ...inRange(I.add(acrossFirst, line), across),
      ...inRange(I.add(alongFirst, x), along),
    ];
    const points = plan.stores.map((s) => ({ ...s, point: pointAt(s.point, env) }));
    const values = points.map((s) => b.value(s.value, s.point));
    b.guarded(inside.length === 0 ? lit(1, 'bool') : all(inside), () =>
      points.forEach((s, i) => {
        const value = values[i];
        if (value) b.store(s.value, s.point, value);
      }),
    );
  }
  return { ir: finishKernel(name, b, workgroup, squares, options), builder: b };
}
