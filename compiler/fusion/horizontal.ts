/**
 * Horizontal moves: small kernels that have nothing to do with each other go on one grid.
 *
 * A kernel that takes less time than its launch is best launched along with others. Groups at one
 * depth of the plan can't depend on each other, so that any of them may share a dispatch; which do is
 * decided in one pass over them, in a fixed order, with a few open bundles at a time: no pairs are
 * tried.
 *
 * Vocabulary
 *  - *depth* of a group: the edges on the longest path that leads to it.
 *  - *bundle*: groups that become one dispatch.
 */
import { storageOf } from '../graph/dtype';
import type { ValueId } from '../ir/expr';
import { bufferBytes } from '../schedule/exec';
import type { Features } from '../schedule/features';
import { boundElements } from '../schedule/group';
import { joinFeatures } from '../schedule/horizontal';
import { MAX_STATEMENTS } from '../schedule/limits';
import type { Scheduled } from '../schedule/schedule';
import { kernelTimeUs } from '../schedule/time';
import { rootOf } from '../schedule/slices';
import type { Group } from './grouping';
import { MEMBER_LIMIT, type Search } from './search';

interface Candidate {
  readonly group: Group;
  readonly scheduled: Scheduled;
  /** The values whose buffers it binds. */
  readonly buffers: readonly ValueId[];
}

interface Open {
  groups: Group[];
  parts: Features[];
  members: number;
  size: number;
  cost: number;
  readonly buffers: Set<ValueId>;
}

/** Bundles that are open at a time, in which a group may find its place. */
const OPEN_BUNDLES = 8;

/**
 * The bundles with one more: groups that a `fuse` line wants in one kernel, which no other template can
 * make of them, put on one grid where they don't need each other. Undefined where that can't be.
 */
export function bundleAsked(
  search: Search,
  computes: readonly number[],
  bundles: readonly (readonly number[])[],
): (readonly number[])[] | undefined {
  const { grouping } = search;
  const wanted = new Set(computes.flatMap((c) => grouping.homes[c] ?? []));
  if (search.halted || [...wanted].some((id) => !grouping.groups.has(id))) return undefined;
  // Two lines that name the same op mean one kernel.
  const met = bundles.filter((b) => b.some((id) => wanted.has(id)));
  const alone = search.byRank(wanted).filter((id) => !met.some((b) => b.includes(id)));
  const units = [...met, ...alone.map((id) => [id])];
  const whole = units.flat();
  if (units.length < 2) return whole.length < 2 ? undefined : [...bundles];
  const others = bundles.filter((b) => !met.includes(b));
  if (!grouping.bundleOrder([...others, whole])) return undefined;
  const parts = whole.map((id) => candidateOf(search, grouping.group(id)));
  const [first, ...rest] = parts;
  if (!first) return undefined;
  const bundle = opened(first);
  const costs = [first.scheduled.cost];
  for (const next of rest) {
    if (next?.workgroup !== first.workgroup) return undefined;
    const { cost, excluded } = joined(search, bundle, next);
    if (excluded) return undefined;
    put(bundle, next, cost);
    costs.push(cost);
  }
  let left: number[] = [];
  for (const unit of units) {
    const apart = unit.length > 1 ? priceOf(search, unit) : (search.cost(unit[0] ?? -1) ?? 0);
    const before = left.length > 0 ? (costs[left.length - 1] ?? 0) : 0;
    const now = [...left, ...unit];
    const gainPs = before + apart - (costs[now.length - 1] ?? 0);
    if (left.length > 0) noteJoin(search, left, unit, gainPs);
    left = now;
  }
  return [...others, whole];
}

function priceOf(search: Search, ids: readonly number[]): number {
  const features = ids.flatMap((id) => search.price(id)?.features ?? []);
  return joinPrices(search, features).cost;
}

/** A group that can be a part of a kernel with others, whatever it costs. */
function candidateOf(
  search: Search,
  group: Group,
): (Candidate & { workgroup: number }) | undefined {
  if (search.policy.hasScheduleLine(group.members)) return undefined;
  const scheduled = search.schedule(group.id);
  if (!scheduled.ok) return undefined;
  const { schedule, features } = scheduled.value;
  switch (schedule.kind) {
    case 'loop':
    case 'row':
    case 'stream':
    case 'scan':
    case 'sort':
    case 'transpose': {
      const workgroup = features.threads / Math.max(1, features.workgroups);
      return { ...candidate(search, group, scheduled.value), workgroup };
    }
    case 'horizontal':
    case 'split':
      return undefined;
  }
}

/** The bundles of several groups, beside those that were asked for; all other groups stay on their own. */
export function bundleSmall(
  search: Search,
  asked: readonly (readonly number[])[] = [],
): number[][] {
  const { grouping } = search;
  const depth = new Map<number, number>();
  const buckets = new Map<string, Candidate[]>();
  const structures = new Map<object, number>();
  for (const groups of grouping.orderedBundles(asked)) {
    let d = 0;
    for (const group of groups)
      for (const p of grouping.producers(group.id)) d = Math.max(d, (depth.get(p) ?? 0) + 1);
    for (const group of groups) depth.set(group.id, d);
    const [group] = groups;
    if (!group || groups.length > 1) continue;
    const kind = kindOf(search, group, structures);
    if (kind === undefined) continue;
    const key = `${d} ${kind}`;
    const scheduled = search.schedule(group.id);
    if (!scheduled.ok) continue;
    const list = buckets.get(key);
    const c = candidate(search, group, scheduled.value);
    if (list) list.push(c);
    else buckets.set(key, [c]);
  }
  const out: number[][] = asked.map((ids) => [...ids]);
  for (const list of buckets.values()) {
    if (list.length < 2) continue;
    list.sort((a, b) => a.group.rank - b.group.rank || a.group.id - b.group.id);
    for (const bundle of pack(search, list))
      if (bundle.groups.length > 1) out.push(bundle.groups.map((g) => g.id));
  }
  return out;
}

/**
 * What a group may be bundled with: undefined for nothing. Loops go with any loops. Rows go with rows
 * of the same structure only: each has workgroup memory and barriers, of which a kernel has what its
 * most demanding part needs.
 */
function kindOf(search: Search, group: Group, structures: Map<object, number>): string | undefined {
  const s = search.price(group.id);
  if (!s) return undefined;
  // Copies into one result were one kernel before.
  const copies = group.members.every((m) => search.isCopy(m));
  if (!copies && kernelTimeUs(s.features, search.options.device).bound !== 'launch')
    return undefined;
  if (search.policy.hasScheduleLine(group.members)) return undefined;
  if (overLimit(search, s.features)) return undefined;
  switch (s.schedule.kind) {
    case 'loop':
      return `loop ${s.schedule.params.workgroup}`;
    case 'row':
    case 'scan':
    case 'sort':
    case 'stream': {
      const structure = search.structure(group.id);
      const number = structures.get(structure) ?? structures.size;
      structures.set(structure, number);
      const literals = search.memo.signatures.literalsOf(group.members);
      return `${s.schedule.kind} ${number} ${literals}`;
    }
    case 'transpose':
    case 'horizontal':
    case 'split':
      return undefined;
  }
}

/** Whether it needs a buffer that can't be bound whole: such kernels run in chunks, which parts can't. */
function overLimit(search: Search, f: Features): boolean {
  const { program, memo, options } = search;
  return [...f.bytesOf.keys()].some((v) => {
    const root = program.values.get(rootOf(memo.slices, v));
    if (!root) return false;
    const bytes = bufferBytes(
      boundElements(program, root.shape),
      storageOf(root.dtype, options.f16),
    );
    return bytes > options.device.limits.maxStorageBufferBindingSize;
  });
}

function pack(search: Search, list: readonly Candidate[]): Open[] {
  const all: Open[] = [];
  let open: Open[] = [];
  for (const c of list) {
    let best: { bundle: Open; added: number; cost: number } | undefined;
    for (const bundle of search.halted ? [] : open) {
      const added = c.buffers.filter((v) => !bundle.buffers.has(v)).length;
      if (best && best.added <= added) continue;
      const { cost, excluded } = joined(search, bundle, c);
      if (!excluded && cost < bundle.cost + c.scheduled.cost) best = { bundle, added, cost };
    }
    if (best) {
      const { bundle, cost } = best;
      const left = bundle.groups.map((g) => g.id);
      noteJoin(search, left, [c.group.id], bundle.cost + c.scheduled.cost - cost);
      put(bundle, c, cost);
      continue;
    }
    const fresh = opened(c);
    all.push(fresh);
    open = [...open.slice(open.length < OPEN_BUNDLES ? 0 : 1), fresh];
  }
  return all;
}

function candidate(search: Search, group: Group, scheduled: Scheduled): Candidate {
  const { slices } = search.memo;
  const values = [...scheduled.features.bytesOf.keys()];
  const buffers = slices.size === 0 ? values : [...new Set(values.map((v) => rootOf(slices, v)))];
  return { group, scheduled, buffers };
}

/** A bundle that begins with the group. */
function opened(c: Candidate): Open {
  const { group, scheduled } = c;
  return {
    groups: [group],
    parts: [scheduled.features],
    members: group.members.length,
    size: scheduled.features.size,
    cost: scheduled.cost,
    buffers: new Set(c.buffers),
  };
}

function put(bundle: Open, c: Candidate, cost: number): void {
  const { group, scheduled } = c;
  bundle.groups.push(group);
  bundle.parts.push(scheduled.features);
  bundle.members += group.members.length;
  bundle.size += scheduled.features.size;
  bundle.cost = cost;
  for (const v of c.buffers) bundle.buffers.add(v);
}

function noteJoin(
  search: Search,
  left: readonly number[],
  right: readonly number[],
  gainPs: number,
): void {
  const members = (ids: readonly number[]): number[] =>
    ids.flatMap((id) => search.grouping.group(id).members);
  search.note(
    { kind: 'horizontal', left: members(left), right: members(right), gainPs },
    left,
    right,
  );
}

/** What the bundle costs with one more group, and whether it has no room for it or mustn't have it. */
function joined(
  search: Search,
  bundle: Open,
  c: Candidate,
): { readonly cost: number; readonly excluded: boolean } {
  const { group, scheduled } = c;
  const { limits } = search.options.device;
  const refused = { cost: 0, excluded: true };
  let added = 0;
  for (const v of c.buffers) if (!bundle.buffers.has(v)) added++;
  if (bundle.buffers.size + added > limits.maxStorageBuffersPerShaderStage) return refused;
  if (bundle.members + group.members.length > MEMBER_LIMIT) return refused;
  if (bundle.size + scheduled.features.size > MAX_STATEMENTS) return refused;
  const excludes = (g: Group): boolean =>
    // With copies of one compute in both, what they share is computed twice: siblings would share it.
    g.members.some((m) => group.members.includes(m)) ||
    !search.policy.allows(g.members, group.members);
  if (bundle.groups.some(excludes)) return refused;
  const { cost } = joinPrices(search, [...bundle.parts, scheduled.features]);
  return { cost, excluded: false };
}

/** What the kernel of all parts does, and what it costs by the model. */
export function joinPrices(
  search: Search,
  parts: readonly Features[],
): { features: Features; cost: number } {
  const { device, f16 } = search.options;
  const features = joinFeatures(search.program, search.memo.slices, f16, parts);
  return { features, cost: Math.round(kernelTimeUs(features, device).us * 1e6) };
}
