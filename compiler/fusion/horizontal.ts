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

/** The bundles of several groups; all other groups stay on their own. */
export function bundleSmall(search: Search): number[][] {
  const { grouping } = search;
  const depth = new Map<number, number>();
  const buckets = new Map<string, Candidate[]>();
  const structures = new Map<object, number>();
  for (const group of grouping.ordered()) {
    let d = 0;
    for (const p of grouping.producers(group.id)) d = Math.max(d, (depth.get(p) ?? 0) + 1);
    depth.set(group.id, d);
    const kind = kindOf(search, group, structures);
    if (kind === undefined) continue;
    const key = `${d} ${kind}`;
    const scheduled = search.schedule(group.id);
    if (!scheduled.ok) continue;
    const list = buckets.get(key);
    const candidate = { group, scheduled: scheduled.value };
    if (list) list.push(candidate);
    else buckets.set(key, [candidate]);
  }
  const out: number[][] = [];
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
    case 'stream': {
      const structure = search.structure(group.id);
      const number = structures.get(structure) ?? structures.size;
      structures.set(structure, number);
      return `${s.schedule.kind} ${number}`;
    }
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
    const { scheduled, group } = c;
    const { slices } = search.memo;
    const values = [
      ...new Set([...scheduled.features.bytesOf.keys()].map((v) => rootOf(slices, v))),
    ];
    let best: { bundle: Open; added: number; cost: number } | undefined;
    for (const bundle of search.halted ? [] : open) {
      const added = values.filter((v) => !bundle.buffers.has(v)).length;
      if (best && best.added <= added) continue;
      const cost = joined(search, bundle, c, added);
      if (cost !== undefined) best = { bundle, added, cost };
    }
    if (!best) {
      const fresh: Open = {
        groups: [group],
        parts: [scheduled.features],
        members: group.members.length,
        size: scheduled.features.size,
        cost: scheduled.cost,
        buffers: new Set(values),
      };
      all.push(fresh);
      open = [...open.slice(open.length < OPEN_BUNDLES ? 0 : 1), fresh];
      continue;
    }
    const { bundle, cost } = best;
    search.note(
      {
        kind: 'horizontal',
        left: bundle.groups.flatMap((g) => g.members),
        right: group.members,
        gainPs: bundle.cost + scheduled.cost - cost,
      },
      bundle.groups.map((g) => g.id),
      [group.id],
    );
    bundle.groups.push(group);
    bundle.parts.push(scheduled.features);
    bundle.members += group.members.length;
    bundle.size += scheduled.features.size;
    bundle.cost = cost;
    for (const v of values) bundle.buffers.add(v);
  }
  return all;
}

/** What the bundle costs with one more group; undefined where it has no room for it or nothing is gained. */
function joined(
  search: Search,
  bundle: Open,
  { group, scheduled }: Candidate,
  added: number,
): number | undefined {
  const { device } = search.options;
  if (bundle.buffers.size + added > device.limits.maxStorageBuffersPerShaderStage) return undefined;
  if (bundle.members + group.members.length > MEMBER_LIMIT) return undefined;
  if (bundle.size + scheduled.features.size > MAX_STATEMENTS) return undefined;
  const excludes = (g: Group): boolean =>
    // With copies of one compute in both, what they share is computed twice: siblings would share it.
    g.members.some((m) => group.members.includes(m)) ||
    !search.policy.allows(g.members, group.members);
  if (bundle.groups.some(excludes)) return undefined;
  const { cost } = joinPrices(search, [...bundle.parts, scheduled.features]);
  return cost < bundle.cost + scheduled.cost ? cost : undefined;
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
