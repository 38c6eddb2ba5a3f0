/**
 * Which groups the `stream` template can make a kernel, and with which tiles.
 *
 * Vocabulary: that of online.ts, and
 *  - *scalar*, *vector*: a streamed reduction with one result a row, or with several (the product of
 *    attention's weights with its values has one per column of the values).
 *  - *blocked* dim: the dim of the rows along which a workgroup takes several, chosen so that most of
 *    what is read at a position is the same for all of them.
 *  - *heavy*: an expression with a reduction in it, evaluated once for a tile and kept.
 */
import type { Compute, Program } from '../ir/compute';
import { type Expr, printExpr, rewriteExpr, type ValueId, visitExpr } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import type { AdapterLimits, DeviceProfile } from '../result';
import { bound, type GroupSpec, strideOf } from './group';
import { type Online, online, type OnlineFault, POSITION, type Streamed } from './online';
import { type Parameter, type ParameterSpace, powersOfTwo } from './parameters';
import type { Placement } from './placement';
import { endOfRow } from './streamEnd';

export interface StreamParams {
  /** Invocations of a workgroup. These numbers are powers of two. */
  readonly threads: number;
  /** Rows of a workgroup. */
  readonly rows: number;
  /** Positions of a tile. */
  readonly tile: number;
  /** Of a tile's rows and positions, those that one invocation evaluates together. */
  readonly together: { readonly rows: number; readonly positions: number };
  /** Rows whose vectors one invocation accumulates together. */
  readonly outRows: number;
}

/** What vectors multiply by at a row and a position: their weight, and the factors that go with it. */
export interface Coefficient {
  readonly key: string;
  readonly of: Streamed;
  readonly factors: readonly Expr[];
  readonly divisors: readonly Expr[];
  readonly conds: readonly Expr[];
}

export interface VectorPlan {
  readonly streamed: Streamed;
  /** Place in the plan's coefficients. */
  readonly coefficient?: number;
  /** Factors that vary with the vector's own dims, or with the position alone. */
  readonly factors: readonly Expr[];
  readonly divisors: readonly Expr[];
  readonly conds: readonly Expr[];
  readonly columns: number;
}

export interface StreamPlan {
  readonly placement: Placement;
  readonly online: Online;
  readonly scalars: readonly Streamed[];
  readonly vectors: readonly VectorPlan[];
  readonly coefficients: readonly Coefficient[];
  /** Heavy expressions: kept in workgroup memory for each tile. */
  readonly kept: readonly Expr[];
  /** The blocked dim's place among the placement's rows. */
  readonly blocked: number | undefined;
  /**
   * Whether the blocked dim is a digit of some index: then that a row is less than the dim is what
   * makes indices simplify.
   */
  readonly digits: boolean;
  /** Columns of outputs that are vectors. */
  readonly outputs: ReadonlyMap<ValueId, number>;
  /** From this position on a mask hides everything: it grows with the blocked dim, if at all. */
  readonly end?: IndexExpr;
}

/** Accumulators of an invocation, at most: more would not stay in registers. */
const MOST_ACCUMULATORS = 64;

export function planStream(group: GroupSpec, placement: Placement): StreamPlan | OnlineFault {
  const o = online(group, placement);
  if ('fault' in o) return o;
  const outputs = new Map<ValueId, number>();
  for (const v of group.outputs) {
    const p = placement.placed.get(v);
    const columns = I.constOf(I.product(p?.free.map((f) => f.extent) ?? []));
    if (!p || columns === undefined)
      return { value: v, fault: 'its results are as long as the row, and must be stored' };
    if (p.free.length > 0) outputs.set(v, columns);
  }
  const scalars = o.streamed.filter((s) => s.placed.free.length === 0);
  const heavy = heaviness(group, o);
  const coefficients: Coefficient[] = [];
  const vectors: VectorPlan[] = [];
  for (const s of o.streamed) {
    if (s.placed.free.length === 0) continue;
    const columns = I.constOf(I.product(s.placed.free.map((f) => f.extent)));
    if (columns === undefined)
      return { value: s.compute.value, fault: 'the number of its results in a row is not known' };
    const own = new Set(s.placed.free.map((f) => f.name));
    // What is the same for all columns is evaluated once, with the weight.
    const early = (e: Expr): boolean => !mentions(e, own) && (heavy(e) || mentionsRow(e));
    const pick = (list: readonly Expr[]): Expr[] => list.filter(early);
    const keep = (list: readonly Expr[]): Expr[] => list.filter((e) => !early(e));
    const c = { of: s, factors: pick(s.factors), divisors: pick(s.divisors), conds: pick(s.conds) };
    const any = s.weight || c.factors.length + c.divisors.length + c.conds.length > 0;
    let coefficient: number | undefined;
    if (any) {
      const print = (list: readonly Expr[]): string => list.map(printExpr).join(' * ');
      const key = `${s.weight?.key ?? ''} ${s.rounded ?? ''} | ${print(c.factors)} | ${print(c.divisors)} | ${print(c.conds)}`;
      coefficient = coefficients.findIndex((x) => x.key === key);
      if (coefficient < 0) coefficient = coefficients.push({ key, ...c }) - 1;
    }
    vectors.push({
      streamed: s,
      ...(coefficient === undefined ? {} : { coefficient }),
      factors: keep(s.factors),
      divisors: keep(s.divisors),
      conds: keep(s.conds),
      columns,
    });
  }
  const kept = new Map<string, Expr>();
  const consider = (e: Expr): void => {
    if (heavy(e)) kept.set(printExpr(e), e);
  };
  for (const s of o.streamed) for (const t of s.weight?.exponent.terms ?? []) consider(t.e);
  for (const s of scalars) {
    if (s.element) for (const t of s.element.terms) consider(t.e);
    else [...s.factors, ...s.divisors, ...s.conds].forEach(consider);
  }
  for (const c of coefficients) [...c.factors, ...c.divisors, ...c.conds].forEach(consider);
  const blocked = blockedDim(group, placement, o);
  const dim = blocked === undefined ? undefined : placement.rows[blocked];
  const end = endOfRow(group, o);
  return {
    ...(end && growsWith(end, blocked, dim) ? { end } : {}),
    placement,
    online: o,
    scalars,
    vectors,
    coefficients,
    kept: [...kept.values()],
    blocked,
    digits: dim !== undefined && isDigit(group, dim),
    outputs,
  };
}

/** Whether the last of neighbouring rows has the greatest end. */
function growsWith(
  end: IndexExpr,
  blocked: number | undefined,
  dim: IndexExpr | undefined,
): boolean {
  if (blocked === undefined || !dim) return true;
  const stride = I.constOf(strideOf(end, I.loopVar(`p${blocked}`, dim)) ?? I.num(-1));
  return stride !== undefined && stride >= 0;
}

/** Elements of a tile that an invocation evaluates together, at most. */
const TOGETHER = 16;
/** With fewer rows at a time what is read at a position would serve too few of them. */
const FEWEST_ROWS = 4;

/** Tiles for the sizes that are profiled with; undefined when an invocation would hold too much. */
export function streamParams(
  group: GroupSpec,
  plan: StreamPlan,
  device: DeviceProfile,
): StreamParams | undefined {
  const { program } = group;
  const { limits } = device;
  const most = floorPower(
    Math.min(limits.maxComputeInvocationsPerWorkgroup, limits.maxComputeWorkgroupSizeX, 256),
  );
  const columns = columnsOf(plan);
  const length = Math.max(1, bound(program, plan.online.length));
  const dim = plan.blocked === undefined ? undefined : plan.placement.rows[plan.blocked];
  const rowCount = dim ? Math.max(1, bound(program, dim)) : 1;
  let threads = Math.min(64, most);
  while (threads < most && threads < columns) threads *= 2;
  let rows = 16;
  while (rows > 1 && rows / 2 >= rowCount) rows /= 2;
  // Too few rows to fill the device: more invocations for each.
  const all = plan.placement.rows.reduce((n, d) => n * Math.max(1, bound(program, d)), 1);
  const invocations = (): number => Math.ceil(all / rows) * threads;
  while (invocations() < device.saturatingThreads) {
    if (threads < Math.min(128, most)) threads *= 2;
    else if (rows > FEWEST_ROWS) rows /= 2;
    else break;
  }
  for (; rows >= 1; rows /= 2) {
    // Some elements of a tile for each invocation, fewer for short rows or little memory.
    const least = Math.max(1, threads / rows);
    let tile = Math.max(least, Math.min(rows === 1 ? 256 : 64, (TOGETHER * threads) / rows));
    while (tile > least && tile / 2 >= length) tile /= 2;
    for (; tile >= least; tile /= 2) {
      const p = tilesOf(plan, threads, rows, tile);
      if (tilesFault(plan, p, limits) === undefined) return p;
    }
  }
  return undefined;
}

/** The parameters that follow from the workgroup and its tile; all three are powers of two. */
export function tilesOf(
  plan: StreamPlan,
  threads: number,
  rows: number,
  tile: number,
): StreamParams {
  const columns = columnsOf(plan);
  let outRows = Math.min(4, rows);
  while (outRows > 1 && (threads * outRows) / rows > columns) outRows /= 2;
  const each = (rows * tile) / threads;
  const together = Math.min(rows, each, 4);
  return { threads, rows, tile, together: { rows: together, positions: each / together }, outRows };
}

/** A kernel of the template with its parameters, and the limits that they must keep to. */
export interface StreamSetting {
  readonly plan: StreamPlan;
  readonly params: StreamParams;
  readonly limits: AdapterLimits;
}

/** What can be set of a `stream` kernel. */
export const STREAM_SPACE: ParameterSpace<StreamSetting, Program> = {
  parameters: [
    power('threads', 'invocations of a workgroup', (most) => powersOfTwo(32, most)),
    power('rows', 'rows that a workgroup walks along together', () => powersOfTwo(1, 32)),
    power('tile', 'positions of a row between barriers', () => powersOfTwo(8, 256)),
  ],
  together: ({ plan, params, limits }, most) => {
    if (params.threads > most)
      return `threads is ${params.threads}, and the adapter allows ${most} invocations a workgroup`;
    return tilesFault(plan, params, limits);
  },
};

function power(
  name: 'threads' | 'rows' | 'tile',
  doc: string,
  values: (most: number) => readonly number[],
): Parameter<StreamSetting, Program> {
  const wanted = `${name} (${doc}) must be a power of two`;
  const at = (s: StreamSetting, n: number): StreamSetting => {
    const sizes: Pick<StreamParams, typeof name> = { ...s.params, [name]: n };
    const { threads, rows, tile } = sizes;
    return { ...s, params: tilesOf(s.plan, threads, rows, tile) };
  };
  return {
    name,
    doc,
    read: (s) => s.params[name],
    tried: (s, _, most) =>
      values(most).filter((n) => tilesFault(s.plan, at(s, n).params, s.limits) === undefined),
    write: (s, n) => ((n & (n - 1)) === 0 ? at(s, n) : { refused: wanted }),
    wanted: () => wanted,
  };
}

/** Why the template can't have the parameters. */
export function tilesFault(
  plan: StreamPlan,
  p: StreamParams,
  limits: AdapterLimits,
): string | undefined {
  if (p.rows > p.threads) return `rows must be at most threads, which is ${p.threads}`;
  if (p.rows * p.tile < p.threads)
    return `rows × tile is ${p.rows * p.tile}, fewer elements than the ${p.threads} invocations`;
  const lanes = (p.threads * p.outRows) / p.rows;
  const accumulators = plan.vectors.reduce(
    (n, v) => n + p.outRows * Math.ceil(v.columns / lanes),
    0,
  );
  const stored = [...plan.outputs.values()].map((c) => p.outRows * Math.ceil(c / lanes));
  const each = Math.max(accumulators, (p.rows * p.tile) / p.threads, ...stored);
  if (each > MOST_ACCUMULATORS)
    return `an invocation would keep ${each} results at once, more than ${MOST_ACCUMULATORS}`;
  const bytes =
    4 *
    ((plan.kept.length + plan.coefficients.length) * p.rows * p.tile + 2 * p.threads + 8 * p.rows);
  if (bytes > limits.maxComputeWorkgroupStorageSize)
    return `it would need ${bytes} bytes of workgroup memory, and the adapter has ${limits.maxComputeWorkgroupStorageSize}`;
  return undefined;
}

function columnsOf(plan: StreamPlan): number {
  return Math.max(1, ...plan.vectors.map((v) => v.columns), ...plan.outputs.values());
}

function floorPower(n: number): number {
  let p = 1;
  while (p * 2 <= n) p *= 2;
  return p;
}

function mentions(e: Expr, names: ReadonlySet<string>): boolean {
  let found = false;
  visitIndices(e, (i) =>
    I.visitAtoms(i, (a) => {
      if (a.kind === 'var' && names.has(a.name)) found = true;
    }),
  );
  return found;
}

function mentionsRow(e: Expr): boolean {
  let found = false;
  visitIndices(e, (i) =>
    I.visitAtoms(i, (a) => {
      if (a.kind === 'var' && a.name.startsWith('p')) found = true;
    }),
  );
  return found;
}

function visitIndices(e: Expr, f: (i: IndexExpr) => void): void {
  visitExpr(e, (x) => {
    if (x.op === 'load') x.index.forEach(f);
    if (x.op === 'index') f(x.index);
    if (x.op === 'when') {
      for (const c of x.conds) {
        f(c.index);
        f(c.lo);
        f(c.hi);
      }
    }
  });
}

/** Tells whether an expression has an inner reduction in it. */
function heaviness(group: GroupSpec, o: Online): (e: Expr) => boolean {
  const byValue = new Map(group.members.map((m) => [m.value, m]));
  const known = new Map<ValueId, boolean>();
  const ofValue = (v: ValueId): boolean => {
    if (o.inner.has(v)) return true;
    const k = known.get(v);
    if (k !== undefined) return k;
    const m = byValue.get(v);
    const r = m !== undefined && !m.monoid && heavy(m.body);
    known.set(v, r);
    return r;
  };
  const heavy = (e: Expr): boolean => {
    let found = false;
    visitExpr(e, (x) => {
      if (x.op === 'load' && !found) found = ofValue(x.value);
    });
    return found;
  };
  return heavy;
}

/** Whether some index is divided by the size, or by a product with it. */
function isDigit(group: GroupSpec, size: IndexExpr): boolean {
  let found = false;
  for (const m of group.members)
    visitIndices(m.body, (i) =>
      I.visitAtoms(i, (a) => {
        if (a.kind === 'floordiv' || a.kind === 'mod')
          found ||= I.exactDiv(a.b, size) !== undefined;
      }),
    );
  return found;
}

/** The dim of the rows that the fewest reads at a position depend on; among equals the last. */
function blockedDim(group: GroupSpec, placement: Placement, o: Online): number | undefined {
  const byValue = new Map(group.members.map((m) => [m.value, m]));
  const shared = placement.rows.map(() => 0);
  const seen = new Set<string>();
  const walk = (e: Expr): void =>
    visitExpr(e, (x) => {
      if (x.op !== 'load') return;
      const key = `${x.value} ${x.index.map((i) => i.key).join()}`;
      if (seen.has(key)) return;
      seen.add(key);
      const m = byValue.get(x.value);
      if (m && o.streamed.some((s) => s.compute === m)) return;
      if (m) {
        walk(bodyAt(m, x.index));
        return;
      }
      const names = new Set<string>();
      for (const i of x.index) I.visitAtoms(i, (a) => a.kind === 'var' && names.add(a.name));
      if (![...names].some((n) => n === POSITION)) return;
      placement.rowVars.forEach((v, i) => {
        if (v.terms.length > 0 && !names.has(v.key)) shared[i] = (shared[i] ?? 0) + 1;
      });
    });
  for (const s of o.streamed) {
    for (const e of [...s.factors, ...s.divisors, ...s.conds]) walk(e);
    for (const t of s.weight?.exponent.terms ?? []) walk(t.e);
  }
  let best: number | undefined;
  shared.forEach((n, i) => {
    if (n > 0 && n >= (best === undefined ? 0 : (shared[best] ?? 0))) best = i;
  });
  return best;
}

function bodyAt(m: Compute, index: readonly IndexExpr[]): Expr {
  const env = new Map<string, IndexExpr>();
  m.dims.forEach((d, i) => env.set(d.name, index[i] ?? I.num(0)));
  return rewriteExpr(m.body, (a) => (a.kind === 'var' ? env.get(a.name) : undefined));
}
