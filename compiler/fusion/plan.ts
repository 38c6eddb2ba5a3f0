/**
 * L2: the finished plan: kernels in execution order, each with its schedule, its price and its name.
 */
import type { Diagnostic } from '../diagnostics';
import { storageBytes, storageOf } from '../graph/dtype';
import type { BodyId, Graph, NodeId, TensorId } from '../graph/graph';
import type { Compute, Program, Value } from '../ir/compute';
import type { ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import { overlap } from '../ir/windows';
import type { IndexExpr } from '../ir/indexExpr';
import type { DeviceProfile, IndexClass, KernelView, PlanView } from '../result';
import { bufferBytes, foldGrid, type PlannedKernel } from '../schedule/exec';
import { boundElements, type GroupSpec, visitLoads } from '../schedule/group';
import type { KernelIr } from '../schedule/kernelIr';
import { planMemory } from '../schedule/memoryPlan';
import { rootOf, type Slices } from '../schedule/slices';
import type { Settings } from '../schedule/parameters';
import { buildKernel } from '../schedule/build';
import { contractionDims, isContraction } from '../schedule/contraction';
import type { Schedule, SchedulePart, Scheduled } from '../schedule/schedule';
import { kernelTimeUs, spillVerdict } from '../schedule/time';
import { rowWorkgroups } from '../schedule/rowLanes';
import { transposeWorkgroups } from '../schedule/transpose';
import { blockThreads } from '../schedule/staging';
import { streamWorkgroups } from '../schedule/streamLayout';
import type { KernelTuning, TunedKernel } from '../tuning';
import type { KernelFacts } from './facts';
import { fnv, structuralHash } from './hash';
import { type Group, union } from './grouping';
import { joinPrices } from './horizontal';
import { specOf } from './memo';
import { type Applied, applySchedules, applyTuning } from './overrides';
import type { Search } from './search';
import type { Signatures } from './signature';
import { type Pattern, usText, type Verdict } from './verdicts';

export interface PlanKernel {
  readonly id: string;
  /** The search's groups that it was made of: several where small ones share a grid. */
  readonly parts: readonly Group[];
  readonly members: readonly number[];
  /** Assembled computes of whose values it stores slices; and those that are whole when it is done. */
  readonly joins: readonly number[];
  readonly completes: readonly number[];
  readonly spec: GroupSpec;
  /** Its price and parameters. Code is built from {@link ownSchedule}. */
  readonly scheduled: Scheduled;
  readonly ownSchedule: () => Schedule;
  /** What kernels of the same structure have in common. */
  readonly facts: KernelFacts;
  /** The `schedule` line that sets its parameters. */
  readonly pinned?: string;
  /** The record that its parameters are from. */
  readonly tuned?: TunedKernel;
}

export interface Plan {
  readonly kernels: readonly PlanKernel[];
  /** Whether values lie in others' buffers. */
  readonly sliced: boolean;
  /** By compute: the kernels that it is in. */
  readonly kernelsOf: readonly (readonly PlanKernel[])[];
  /** Groups that no template can run, with the reasons. */
  readonly impossible: readonly {
    readonly members: readonly number[];
    readonly verdicts: readonly Verdict[];
  }[];
}

/** What is asked of the fused plan's kernels, and where to say what can't be. */
export interface Asked {
  /** Groups that become one kernel. */
  readonly bundles: readonly (readonly number[])[];
  readonly faults: Diagnostic[];
  readonly tuning: readonly KernelTuning[];
}

/** The plan of the search's groups as they are; those of a bundle become one kernel. */
export function snapshot(search: Search, prefix: string, asked?: Asked): Plan {
  const tuning = new Map(asked?.tuning.map((t) => [t.structure, t]));
  const kernels: PlanKernel[] = [];
  const impossible: { members: readonly number[]; verdicts: readonly Verdict[] }[] = [];
  const kernelsOf: PlanKernel[][] = search.program.computes.map(() => []);
  for (const groups of search.grouping.orderedBundles(asked?.bundles ?? [])) {
    const parts: PlanKernel[] = [];
    for (const g of groups) {
      const s = search.schedule(g.id);
      if (s.ok) parts.push(kernelOfGroup(search, g, s.value));
      else impossible.push({ members: g.members, verdicts: s.verdicts });
    }
    const [first] = parts;
    if (!first) continue;
    const id = `${prefix}${kernels.length}`;
    const own = { ...(parts.length === 1 ? first : bundled(search, parts)), id };
    kernels.push(asked ? scheduledAs(search, own, asked.faults, tuning) : own);
  }
  // The last of those that store slices of a result completes it.
  const last = new Map<number, string>();
  for (const k of kernels) for (const d of k.joins) last.set(d, k.id);
  const done = kernels.map((k) =>
    k.joins.length === 0 ? k : { ...k, completes: k.joins.filter((d) => last.get(d) === k.id) },
  );
  for (const k of done) for (const m of [...k.members, ...k.joins]) kernelsOf[m]?.push(k);
  return { kernels: done, sliced: last.size > 0, kernelsOf, impossible };
}

function kernelOfGroup(search: Search, g: Group, scheduled: Scheduled): PlanKernel {
  const stored = search.grouping.stored(g.members);
  const { signatures, slices, facts: known } = search.memo;
  const spec = specOf(search.program, g.members, stored, slices);
  const joins = search.grouping.joins(g.members);
  const facts = known.of(search.structure(g.id), signatures.literalsOf(g.members), () => ({
    hash: structuralHash(
      signatures,
      g.members,
      stored,
      JSON.stringify(paramsOf(scheduled.schedule)),
      slices,
    ),
    structure: structureOf(search, g.members, stored, spec),
    pattern: patternOf(search.program, g.members, spec, joins),
  }));
  return {
    id: '',
    parts: [g],
    members: g.members,
    joins,
    completes: [],
    spec,
    scheduled,
    ownSchedule: search.ownSchedule(g.id, spec),
    facts,
  };
}

/** Several kernels as one, on one grid. */
function bundled(search: Search, parts: readonly PlanKernel[]): PlanKernel {
  const members = parts.map((p) => p.members).reduce(union);
  const outputs = new Set(parts.flatMap((p) => p.spec.outputs));
  const stored = members.map((m) => outputs.has(search.program.computes[m]?.value ?? ''));
  return {
    id: '',
    parts: parts.flatMap((p) => p.parts),
    members,
    joins: search.grouping.joins(members),
    completes: [],
    spec: specOf(search.program, members, stored, search.memo.slices),
    scheduled: {
      schedule: horizontal(parts, (p) => p.scheduled.schedule),
      ...joinPrices(
        search,
        parts.map((p) => p.scheduled.features),
      ),
    },
    ownSchedule: () => horizontal(parts, (p) => p.ownSchedule()),
    facts: {
      hash: fnv(['horizontal', ...parts.map((p) => p.facts.hash)].join(' ')),
      structure: fnv(['horizontal', ...parts.map((p) => p.facts.structure)].join(' ')),
      pattern: 'horizontal',
    },
  };
}

function horizontal(
  parts: readonly PlanKernel[],
  scheduleOf: (p: PlanKernel) => Schedule,
): Schedule {
  return {
    kind: 'horizontal',
    parts: parts.flatMap((p) => {
      const schedule = scheduleOf(p);
      switch (schedule.kind) {
        case 'horizontal':
          return schedule.parts;
        case 'loop':
        case 'row':
        case 'stream':
        case 'scan':
        case 'sort':
        case 'transpose':
          return [{ spec: p.spec, schedule }];
        case 'split':
          throw new Error('a kernel of two dispatches on a shared grid');
      }
    }),
  };
}

/** The kernel as `schedule` lines want it, or else as it was measured to be fastest. */
function scheduledAs(
  search: Search,
  k: PlanKernel,
  faults: Diagnostic[],
  tuning: ReadonlyMap<string, KernelTuning>,
): PlanKernel {
  const { policy, options, program } = search;
  const lines = kernelNodes(program, k).flatMap((n) => policy.schedules.get(n) ?? []);
  const record = tuning.get(k.facts.structure);
  const set = applySchedules(k, lines, options, faults);
  if (!record) return withSchedule(k, set);
  return withSchedule(k, applyTuning(k, record, set, options, faults));
}

function withSchedule(k: PlanKernel, a: Applied): PlanKernel {
  if (a.settings === undefined) return k;
  return {
    ...k,
    scheduled: { ...k.scheduled, schedule: a.schedule() },
    ownSchedule: a.schedule,
    facts: { ...k.facts, hash: a.hash(k.facts.hash) },
    ...(a.pinned === undefined ? {} : { pinned: a.pinned }),
    ...(a.tuned ? { tuned: a.tuned } : {}),
  };
}

/** See {@link KernelFacts.structure}. */
function structureOf(
  search: Search,
  members: readonly number[],
  stored: readonly boolean[],
  spec: GroupSpec,
): string {
  const { program, memo } = search;
  const names = new Set<string>();
  const meet = (d: IndexExpr): void => I.symbolsOf(d).forEach((s) => names.add(s));
  for (const c of spec.members) {
    for (const d of [...c.dims, ...c.reduce]) meet(d.extent);
    visitLoads(c.body, (l) => program.values.get(l.value)?.shape.forEach(meet));
  }
  const sizes = [...names].sort().map((s) => `${s}=${program.dims.get(s) ?? '?'}`);
  return structuralHash(memo.signatures, members, stored, sizes.join(' '), memo.slices);
}

/** The body of a region that a kernel is in: all its members are. */
function bodyOfKernel(k: PlanKernel): BodyId | undefined {
  return k.spec.members[0]?.region;
}

/** The kernel with a buffer for each value: as it runs by itself. */
export function alone(k: PlanKernel): PlanKernel {
  if (!k.spec.slices) return k;
  const own = (spec: GroupSpec): GroupSpec => {
    const { slices: _, ...rest } = spec;
    return rest;
  };
  const part = (p: SchedulePart): SchedulePart => ({ ...p, spec: own(p.spec) });
  const schedule = (s: Schedule): Schedule => {
    switch (s.kind) {
      case 'horizontal':
        return { ...s, parts: s.parts.map(part) };
      case 'split':
        return { ...s, parts: [part(s.parts[0]), part(s.parts[1])] };
      case 'loop':
      case 'row':
      case 'stream':
      case 'scan':
      case 'sort':
      case 'transpose':
        return s;
    }
  };
  return { ...k, spec: own(k.spec), ownSchedule: () => schedule(k.ownSchedule()) };
}

/** Code of kernels, built when first asked for. */
export class CodeCache {
  private readonly built = new Map<string, readonly KernelIr[]>();
  constructor(private readonly f16: boolean) {}
  code(k: PlanKernel): readonly KernelIr[] {
    const known = this.built.get(k.id);
    if (known) return known;
    const code = buildKernel(k.id, k.spec, k.ownSchedule(), this.f16);
    this.built.set(k.id, code);
    return code;
  }
  planned(kernels: readonly PlanKernel[], label: (k: PlanKernel) => string): PlannedKernel[] {
    return kernels.map((k) => {
      const body = bodyOfKernel(k);
      return {
        id: k.id,
        label: label(k),
        code: this.code(k),
        ...(body === undefined ? {} : { body }),
      };
    });
  }
}

/** The L0 nodes that the computes come from, in order. */
export function nodesOf(program: Program, members: readonly number[]): NodeId[] {
  const out: NodeId[] = [];
  const seen = members.length > 8 ? new Set<NodeId>() : undefined;
  for (const m of members) {
    for (const o of program.computes[m]?.origin ?? []) {
      if (seen ? seen.has(o) : out.includes(o)) continue;
      seen?.add(o);
      out.push(o);
    }
  }
  return out;
}

/** The L0 nodes of a kernel: what it computes, and what it stores slices of the results of. */
export function kernelNodes(program: Program, k: PlanKernel): NodeId[] {
  return nodesOf(program, k.joins.length === 0 ? k.members : [...k.members, ...k.joins]);
}

// ---------------------------------------------------------------------------------------------
// Names

export function patternOf(
  program: Program,
  positions: readonly number[],
  spec: GroupSpec,
  /** Computes of whose values it stores slices: a step after all others. */
  joins: readonly number[] = [],
): Pattern {
  const { members } = spec;
  if (nodesOf(program, [...positions, ...joins]).length <= 1) return 'single';
  const contractions = members.filter(isContraction);
  const reductions = members.filter((m) => m.monoid);
  if (
    contractions.length >= 2 &&
    reductions.length >= 4 &&
    contractions.some((c) => reaches(members, contractions[0], c))
  )
    return 'attention';
  const main = contractions[0] ?? reductions[0];
  if (!main) {
    if (spec.outputs.length > 1) return connected(members) ? 'multi-output' : 'horizontal';
    return 'pointwise';
  }
  const reductive = new Set(reductions.flatMap((r) => r.origin));
  const before = dependenciesOf(members, reductions);
  const pointwise = members.filter((m) => !m.monoid && !m.origin.some((o) => reductive.has(o)));
  const into = pointwise.some((m) => before.has(m.value));
  const after = joins.length > 0 || pointwise.some((m) => !before.has(m.value));
  if (reductive.size > 1 && !connected(members)) return 'horizontal';
  if (reductive.size > 1) return 'composite';
  if (contractions.length > 0) return after ? 'epilogue' : 'prologue';
  // A layer norm or softmax goes on along the row after its own reductions; a mean's division doesn't.
  const size = (c: Compute): number =>
    boundElements(
      spec.program,
      c.dims.map((d) => d.extent),
    );
  const results = Math.max(...reductions.map(size));
  const goesOn = members.some(
    (m) =>
      !m.monoid &&
      !before.has(m.value) &&
      m.origin.some((o) => reductive.has(o)) &&
      size(m) > results,
  );
  if (into && (after || goesOn)) return 'composite';
  return into ? 'into-reduction' : 'after-reduction';
}

/** Values that some of `roots` need. */
function dependenciesOf(members: readonly Compute[], roots: readonly Compute[]): Set<ValueId> {
  const need = new Set<ValueId>();
  const wanted = new Set(roots.map((r) => r.value));
  for (const m of [...members].reverse()) {
    if (!wanted.has(m.value) && !need.has(m.value)) continue;
    visitLoads(m.body, (l) => need.add(l.value));
  }
  return need;
}

function reaches(members: readonly Compute[], from: Compute | undefined, to: Compute): boolean {
  return from !== undefined && from !== to && dependenciesOf(members, [to]).has(from.value);
}

/** Whether the members hang together by values of the group. */
function connected(members: readonly Compute[]): boolean {
  const parent = new Map<ValueId, ValueId>(members.map((m) => [m.value, m.value]));
  const find = (v: ValueId): ValueId => {
    let x = v;
    for (let p = parent.get(x); p !== undefined && p !== x; p = parent.get(x)) x = p;
    return x;
  };
  for (const m of members) {
    visitLoads(m.body, (l) => {
      if (parent.has(l.value)) parent.set(find(l.value), find(m.value));
    });
  }
  return new Set(members.map((m) => find(m.value))).size <= 1;
}

/** The ops of a graph by node. */
export type OpNames = ReadonlyMap<NodeId, string>;

export function opNames(graph: Graph): OpNames {
  return new Map(graph.nodes.map((n) => [n.id, n.op]));
}

/** What people call a kernel: its ops, `matmul + add + relu`. */
export function labelOf(names: OpNames, nodes: readonly NodeId[]): string {
  if (nodes.length === 0) return 'copy';
  const ops = nodes.map((n) => names.get(n) ?? 'copy');
  const runs: { op: string; n: number }[] = [];
  for (const op of ops) {
    const last = runs[runs.length - 1];
    if (last?.op === op) last.n++;
    else runs.push({ op, n: 1 });
  }
  const text = runs.map((r) => (r.n > 1 ? `${r.op} ×${r.n}` : r.op));
  return text.length <= 6
    ? text.join(' + ')
    : `${text.slice(0, 5).join(' + ')} + ${text.length - 5} more`;
}

/** The classes of all computes, by position. */
export function classesOf(program: Program, signatures: Signatures): IndexClass[] {
  const known = new Map<number, IndexClass>();
  return program.computes.map((c, i) => {
    const { id } = signatures.of(i);
    let found = known.get(id);
    if (!found) {
      found = classOf(program, c);
      known.set(id, found);
    }
    return found;
  });
}

/** The class of a compute, from its maps alone. */
function classOf(program: Program, c: Compute): IndexClass {
  if (isContraction(c) || contractionDims(c)) return 'contraction';
  let gather = false;
  let injective = false;
  let broadcast = false;
  let stencil = false;
  visitLoads(c.body, (l) => {
    const shape = program.values.get(l.value)?.shape ?? [];
    let vars = 0;
    let plain = l.index.length === c.dims.length;
    l.index.forEach((e, i) => {
      I.visitAtoms(e, (a) => {
        if (a.kind === 'dyn') gather = true;
        if (a.kind === 'var') vars++;
      });
      if (overlap(e)) stencil = true;
      if (e.key !== `d${i}` && !I.isConst(shape[i] ?? I.num(0), 1)) plain = false;
    });
    if (vars < c.dims.filter((d) => !I.isConst(d.extent, 1)).length) broadcast = true;
    else if (!plain) injective = true;
  });
  if (stencil) return 'stencil';
  if (c.monoid) return 'reduction';
  if (gather) return 'gather';
  if (injective) return 'injective';
  return broadcast ? 'broadcast' : 'elementwise';
}

// ---------------------------------------------------------------------------------------------
// Views

export interface ViewContext {
  readonly names: OpNames;
  /** The planner's, with copies. */
  readonly program: Program;
  readonly slices: Slices;
  readonly device: DeviceProfile;
  readonly f16: boolean;
  readonly code: CodeCache;
  /** L0 tensors that an L1 value stands for. */
  readonly tensorOf: ReadonlyMap<ValueId, TensorId>;
  /** What kernels of one schedule have in common, once: most kernels of a network are like others. */
  readonly alike: Map<Schedule, AlikeViews>;
}

/** Of a schedule: its time, and the parts of the view in which no names are. */
interface AlikeViews extends Pick<KernelView, 'workgroup' | 'grid' | 'schedule' | 'counts'> {
  readonly time: ReturnType<typeof kernelTimeUs>;
}

function alikeViews(ctx: ViewContext, { schedule, features: f }: Scheduled): AlikeViews {
  const known = ctx.alike.get(schedule);
  if (known) return known;
  const made: AlikeViews = {
    time: kernelTimeUs(f, ctx.device),
    workgroup: [invocationsOf(schedule), 1, 1],
    grid: foldGrid(gridOf(ctx.program, schedule)),
    schedule: paramsOf(schedule),
    counts: {
      work: f.work,
      sharedAccesses: f.sharedAccesses,
      barriers: f.barriers,
      threads: f.threads,
      workgroups: f.workgroups,
      dispatches: f.dispatches,
      wastedBytes: Math.round(f.wastedBytes),
      pressure: f.pressure,
    },
  };
  ctx.alike.set(schedule, made);
  return made;
}

function paramsOf(s: Schedule): Settings {
  switch (s.kind) {
    case 'row':
      return {
        threads: s.params.threads,
        rows: s.params.rows,
        ...(s.params.block > 1 ? { block: s.params.block } : {}),
        unrolled: s.params.unrolled,
        ...(s.params.subgroups === undefined ? {} : { subgroups: Number(s.params.subgroups) }),
        ...(s.params.online ? { online: 1 } : {}),
        ...(s.params.vectors > 1 ? { vectors: s.params.vectors } : {}),
      };
    case 'horizontal':
      return { parts: s.parts.length, workgroup: invocationsOf(s) };
    case 'split':
      return { ...paramsOf(s.parts[0].schedule), split: s.shares };
    case 'stream':
      return { threads: s.params.threads, rows: s.params.rows, tile: s.params.tile };
    case 'scan':
    case 'sort':
      return { threads: s.params.threads, rows: s.params.rows };
    case 'transpose':
      return { tile: s.params.tile, workgroup: s.params.workgroup };
    case 'loop': {
      const { workgroup, tile, staging } = s.params;
      return {
        workgroup,
        tile: tile.kind === 'linear' ? tile.size : tile.sizes.join('×'),
        ...(tile.kind === 'linear' && tile.turns && tile.turns.count > 1
          ? { turns: tile.turns.count }
          : {}),
        ...(staging ? { staging: 1 } : {}),
      };
    }
  }
}

/** Invocations of a workgroup. */
function invocationsOf(s: Schedule): number {
  switch (s.kind) {
    case 'horizontal':
    case 'split':
      return s.parts[0] ? invocationsOf(s.parts[0].schedule) : 1;
    case 'row':
    case 'scan':
    case 'sort':
      return s.params.threads * s.params.rows;
    case 'stream':
      return s.params.threads;
    case 'loop':
    case 'transpose':
      return s.params.workgroup;
  }
}

/** Workgroups, with symbolic sizes at their profiling values. */
function gridOf(program: Program, s: Schedule): number {
  const size = (d: IndexExpr): number => boundElements(program, [d]);
  switch (s.kind) {
    case 'horizontal':
      return s.parts.reduce((n, part) => n + gridOf(program, part.schedule), 0);
    case 'split':
      return gridOf(program, s.parts[0].schedule);
    case 'row':
      return Math.ceil(boundElements(program, s.placement.rows) / (s.params.rows * s.params.block));
    case 'stream':
      return size(streamWorkgroups(s.plan, s.params));
    case 'scan':
    case 'sort':
      return size(rowWorkgroups(s.plan.space, s.plan.axis, s.params));
    case 'transpose':
      return size(transposeWorkgroups(s.plan, s.params));
    case 'loop': {
      const { tile, workgroup, staging } = s.params;
      const beside = staging ? blockThreads(workgroup) : undefined;
      if (beside && tile.kind === 'dims')
        return s.plan.space.reduce((n, d, i) => {
          const together = i === tile.row ? beside.row : i === tile.column ? beside.column : 1;
          return n * Math.ceil(size(d) / ((tile.sizes[i] ?? 1) * together));
        }, 1);
      const threads =
        tile.kind === 'linear'
          ? Math.ceil(boundElements(program, s.plan.space) / tile.size)
          : s.plan.space.reduce((n, d, i) => n * Math.ceil(size(d) / (tile.sizes[i] ?? 1)), 1);
      return Math.ceil(threads / workgroup);
    }
  }
}

const NO_NOTES: readonly Verdict[] = [];

export function kernelView(ctx: ViewContext, k: PlanKernel, unfused: Plan | undefined): KernelView {
  const { program, device } = ctx;
  const f = k.scheduled.features;
  const alike = alikeViews(ctx, k.scheduled);
  const { time } = alike;
  const { outputs } = k.spec;
  const stored = outputs.length > 4 ? new Set(outputs) : undefined;
  const inputs: ValueId[] = [];
  for (const v of f.bytesOf.keys())
    if (stored ? !stored.has(v) : !outputs.includes(v)) inputs.push(v);
  const tensors = (values: readonly ValueId[]): TensorId[] => {
    const list = values.map((v) => ctx.tensorOf.get(v) ?? v);
    return list.length < 2 ? list : [...new Set(list)];
  };
  const nodes = kernelNodes(program, k);
  let alone: PlanKernel[] = [];
  if (unfused) {
    const parts = new Set<PlanKernel>();
    for (const m of [...k.members, ...k.completes])
      for (const p of unfused.kernelsOf[m] ?? []) parts.add(p);
    alone = [...parts];
  }
  const aloneUs = alone.reduce((s, p) => s + alikeViews(ctx, p.scheduled).time.us, 0);
  const aloneBytes = alone.reduce(
    (s, p) => s + p.scheduled.features.bytesRead + p.scheduled.features.bytesWritten,
    0,
  );
  const fused = alone.length > 1;
  const schedule = k.scheduled.schedule;
  const region = bodyOfKernel(k);
  const notes: Verdict[] = [];
  if (fused && aloneUs > 0 && time.us > 0.9 * aloneUs) {
    const gain = Math.max(0, 100 * (1 - time.us / aloneUs));
    notes.push({
      code: 'COMPUTE_BOUND',
      nodes,
      quantity: Math.round(gain * 10) / 10,
      limit: 10,
      unit: '% saved',
      limitSource: 'cost model',
      message: `arithmetic takes ${usText(time.computeUs)} and memory ${usText(time.memoryUs)}: the kernel is bound by arithmetic, so fusing saves only ${gain.toFixed(1)} % of ${usText(aloneUs)}`,
      counterfactual:
        'would gain more if the product were smaller against the tensors that it reads and writes',
      confidence: 'modelled',
    });
  }
  const moved = f.bytesRead + f.bytesWritten;
  if (!device.software && f.wastedBytes > moved && time.bound === 'memory') {
    const factor = Math.round((10 * (moved + f.wastedBytes)) / moved) / 10;
    notes.push({
      code: 'UNCOALESCED',
      nodes,
      quantity: factor,
      limit: 1,
      unit: '× the bytes used',
      limitSource: 'memory moves in sectors of 32 bytes',
      message: `neighbouring invocations touch elements that are far apart in memory, which moves up to ${factor} times the bytes that are used, less what caches keep`,
      counterfactual:
        'would move less if the fastest dim of what is read were that of what is written, as after a transpose that is kept in memory',
      confidence: 'modelled',
    });
  }
  const spill = spillVerdict(
    f,
    device,
    nodes,
    `would be faster if at most ${device.registers} values were live at once: materialize one that several ops read`,
  );
  if (spill && fused) notes.push(spill.verdict);
  return {
    id: k.id,
    hash: k.facts.hash,
    structure: k.facts.structure,
    label: labelOf(ctx.names, nodes),
    pattern: k.facts.pattern,
    ...(region === undefined ? {} : { region }),
    template: schedule.kind === 'loop' && schedule.contraction ? 'contraction' : schedule.kind,
    nodes,
    inputs: tensors(inputs),
    outputs: tensors(outputs),
    bytesRead: f.bytesRead,
    bytesWritten: f.bytesWritten,
    flops: f.flops,
    estimatedUs: time.us,
    bound: time.bound,
    dispatches: f.dispatches,
    savedBytes: fused ? Math.max(0, aloneBytes - f.bytesRead - f.bytesWritten) : 0,
    savedLaunches: fused ? alone.length - 1 : 0,
    estimatedUnfusedUs: fused ? aloneUs : time.us,
    notes: notes.length === 0 ? NO_NOTES : notes,
    workgroup: alike.workgroup,
    grid: alike.grid,
    schedule: alike.schedule,
    ...(k.tuned ? { tuned: k.tuned } : {}),
    registers: f.registers,
    counts: alike.counts,
  };
}

export function planView(ctx: ViewContext, plan: Plan, unfused: Plan | undefined): PlanView {
  const kernels = plan.kernels.map((k) => kernelView(ctx, k, unfused));
  const sum = (g: (k: KernelView) => number): number => kernels.reduce((s, k) => s + g(k), 0);
  return {
    kernels,
    bytesRead: sum((k) => k.bytesRead),
    bytesWritten: sum((k) => k.bytesWritten),
    flops: sum((k) => k.flops),
    estimatedUs: sum((k) => k.estimatedUs),
    peakBytes: peakBytes(ctx, plan),
    ...intermediates(ctx, plan),
  };
}

/** By value: the one whose buffer it is in, and with which it is there. */
function rootIn(ctx: ViewContext, plan: Plan): (v: ValueId) => ValueId {
  return (v) => rootOf(plan.sliced ? ctx.slices : undefined, v);
}

/** What lies between the kernels: with a buffer for each tensor, and with buffers shared. */
function intermediates(
  ctx: ViewContext,
  plan: Plan,
): Pick<PlanView, 'intermediateBytes' | 'arenaBytes'> {
  const { program } = ctx;
  const outputs = new Set(program.outputs.map((o) => o.value));
  const elements = (v: ValueId): number =>
    boundElements(program, program.values.get(v)?.shape ?? []);
  const root = rootIn(ctx, plan);
  const steps = plan.kernels.map((k) => {
    const writes = [...new Set(k.spec.outputs.map(root))];
    const reads = [...k.scheduled.features.bytesOf.keys()]
      .map(root)
      .filter((v) => !writes.includes(v));
    return { reads, writes };
  });
  const memory = planMemory(
    steps,
    (v) => program.values.get(v)?.role === 'computed' && !outputs.has(v),
    (v) => bufferBytes(elements(v), storageOf(program.values.get(v)?.dtype ?? 'f32', ctx.f16)),
  );
  // Where a loop goes round, nothing shares memory.
  const arenaBytes = program.regions ? memory.ownBytes : memory.arenaBytes;
  return { intermediateBytes: memory.ownBytes, arenaBytes };
}

/** Greatest sum of live intermediates and outputs, with each freed after its last reader; inputs and parameters stay. */
function peakBytes(ctx: ViewContext, plan: Plan): number {
  const { program } = ctx;
  const bytes = (value: Value | undefined): number =>
    value ? boundElements(program, value.shape) * storageBytes(storageOf(value.dtype, ctx.f16)) : 0;
  const root = rootIn(ctx, plan);
  const last = new Map<ValueId, number>();
  plan.kernels.forEach((k, i) => {
    for (const v of k.scheduled.features.bytesOf.keys()) last.set(root(v), i);
  });
  for (const o of program.outputs) last.set(o.value, plan.kernels.length);
  let live = 0;
  for (const v of program.values.values()) if (v.role !== 'computed') live += bytes(v);
  let peak = live;
  // Only slices are stored in the buffer of one value by several kernels.
  const made = plan.sliced ? new Set<ValueId>() : undefined;
  plan.kernels.forEach((k, i) => {
    for (const o of k.spec.outputs) {
      const v = root(o);
      if (made?.has(v) !== true) live += bytes(program.values.get(v));
      made?.add(v);
    }
    peak = Math.max(peak, live);
    for (const read of k.scheduled.features.bytesOf.keys()) {
      const v = root(read);
      if (last.get(v) !== i) continue;
      // It is freed once.
      last.delete(v);
      const value = program.values.get(v);
      if (value?.role === 'computed') live -= bytes(value);
    }
  });
  return peak;
}
