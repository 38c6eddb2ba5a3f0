/**
 * How many turns an invocation of a pointwise kernel takes, and along which dim: what a kernel has when
 * nobody set it.
 *
 * A CPU pays for every invocation that is started, for finding its place, and for code that is too
 * long to stay decoded: a short loop over tiles that are far apart has none of these costs. What is
 * the same in all turns (a bias along another dim) is loaded once. On the software adapters that were
 * measured such a loop takes 0.3 to 0.8 of the time of tiles that are written out. A GPU has its
 * invocations take turns by itself.
 */
import type { ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { DeviceProfile } from '../result';
import { Builder } from './builder';
import { boundElements, bound, type GroupSpec } from './group';
import type { LoopPlan } from './loop';
import { lit } from './scalars';

/** Elements of one turn: a vector. */
const TILE = 4;
/** Fewer turns don't outweigh what the loop itself takes. */
const LEAST_TURNS = 32;
/** Enough for every core of a CPU to have several workgroups. */
const LEAST_INVOCATIONS = 8192;

export interface TurnsPlan {
  readonly dim: number;
  readonly count: number;
}

export function pointwiseTurns(
  group: GroupSpec,
  plan: LoopPlan,
  buffers: Iterable<ValueId>,
  device: DeviceProfile,
): TurnsPlan | undefined {
  if (!device.software) return undefined;
  const { program } = group;
  const most = Math.floor(boundElements(program, plan.space) / TILE / LEAST_INVOCATIONS);
  if (most < LEAST_TURNS || overLimit(group, buffers, device)) return undefined;
  const needs = loadsByDim(group, plan);
  let best: TurnsPlan | undefined;
  let least = Infinity;
  plan.space.forEach((d, dim) => {
    const n = bound(program, d);
    const length = lengthOfTurn(n, most, dim === plan.space.length - 1);
    const count = Math.ceil(n / length);
    const loads = needs[dim] ?? 0;
    if (count < LEAST_TURNS || loads >= least) return;
    least = loads;
    best = { dim, count };
  });
  return best;
}

/** Positions of a dim for one turn: about as few as `most` turns leave, and best so many that the dim is a multiple. */
function lengthOfTurn(extent: number, most: number, last: boolean): number {
  const step = last && extent % TILE === 0 ? TILE : 1;
  const least = Math.ceil(extent / most / step) * step;
  for (let n = least; n <= 2 * least; n += step) if (extent % n === 0) return n;
  return least;
}

/** By dim of the space: the loads that depend on it, and so are made in each turn along it. */
function loadsByDim(group: GroupSpec, plan: LoopPlan): number[] {
  const trace = new Builder(group.program, group.members);
  const names = plan.space.map((d, i) => {
    const name = `p${i}`;
    trace.bindVar(name, d, lit(0, 'i32'));
    return name;
  });
  for (const s of plan.stores) trace.value(s.value, s.point);
  const counts = plan.space.map(() => 0);
  for (const a of trace.accesses) {
    const used = new Set<string>();
    let anywhere = false;
    I.visitAtoms(a.linear, (atom) => {
      if (atom.kind === 'var') used.add(atom.name);
      if (atom.kind === 'dyn') anywhere = true;
    });
    names.forEach((n, i) => {
      if (anywhere || used.has(n)) counts[i] = (counts[i] ?? 0) + 1;
    });
  }
  return counts;
}

/** A kernel with a buffer that can't be bound whole runs in ranges of its grid: each turn would be in all of them. */
function overLimit(
  { program }: GroupSpec,
  buffers: Iterable<ValueId>,
  device: DeviceProfile,
): boolean {
  for (const b of buffers) {
    const v = program.values.get(b);
    if (v && 4 * boundElements(program, v.shape) > device.limits.maxStorageBufferBindingSize)
      return true;
  }
  return false;
}
