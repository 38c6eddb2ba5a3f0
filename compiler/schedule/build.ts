/** From a schedule to the code of its dispatches. */
import type { ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import type { Builder, BuilderOptions } from './builder';
import type { GroupSpec } from './group';
import { joinKernels } from './horizontal';
import type { KernelIr } from './kernelIr';
import { buildLoop } from './loop';
import { buildRow } from './row';
import { buildScan } from './scan';
import type { Schedule, SchedulePart } from './schedule';
import { buildSort } from './sort';
import { buildStream } from './stream';
import { buildTranspose } from './transpose';

/** Builds the final code of a scheduled group: tiles and vectors included. One kernel per dispatch. */
export function buildKernel(
  name: string,
  group: GroupSpec,
  schedule: Schedule,
  f16: boolean,
): KernelIr[] {
  switch (schedule.kind) {
    case 'loop':
    case 'row':
    case 'stream':
    case 'scan':
    case 'sort':
    case 'transpose':
      return [finalCode(name, { spec: group, schedule }, f16)];
    case 'split':
      return schedule.parts.map((p) => ({
        ...finalCode(name, p, f16),
        scratch: schedule.scratch,
      }));
    case 'horizontal':
      return [onOneGrid(name, group, schedule.parts, f16)];
  }
}

function onOneGrid(
  name: string,
  group: GroupSpec,
  parts: readonly SchedulePart[],
  f16: boolean,
): KernelIr {
  const built = parts.map((p) => finalCode(name, p, f16));
  // A buffer has one width for all parts: that of vectors only where each of them that uses it can.
  const scalar = new Set<ValueId>();
  for (const ir of built) for (const b of ir.buffers) if (!b.vector) scalar.add(b.value);
  return joinKernels(
    name,
    group.program,
    built.map((ir, i) => {
      const part = parts[i];
      const narrow = ir.buffers.some((b) => b.vector && scalar.has(b.value));
      return part && narrow ? finalCode(name, part, f16, scalar) : ir;
    }),
  );
}

/** One part's code, with vectors where they can be, but for the buffers in `scalar`. */
export function finalCode(
  name: string,
  part: SchedulePart,
  f16: boolean,
  scalar?: ReadonlySet<ValueId>,
): KernelIr {
  const first = buildOne(name, part, { f16 });
  const vector = vectorBuffers(first.builder, part.spec);
  for (const v of scalar ?? []) vector.delete(v);
  return vector.size === 0 ? first.ir : buildOne(name, part, { f16, vector }).ir;
}

export function buildOne(
  name: string,
  { spec, schedule }: SchedulePart,
  options: BuilderOptions,
): { ir: KernelIr; builder: Builder } {
  switch (schedule.kind) {
    case 'loop':
      return buildLoop(name, spec, schedule.plan, schedule.params, options);
    case 'row':
      return buildRow(name, spec, schedule.placement, schedule.params, options);
    case 'stream':
      return buildStream(name, spec, schedule.plan, schedule.params, options);
    case 'scan':
      return buildScan(name, spec, schedule.plan, schedule.params, options);
    case 'sort':
      return buildSort(name, spec, schedule.plan, schedule.params, options);
    case 'transpose':
      return buildTranspose(name, spec, schedule.plan, schedule.params, options);
  }
}

/**
 * The buffers to bind as vectors of four: all stores come as aligned neighbours, and reads are at a
 * lane known at compile time.
 */
function vectorBuffers(b: Builder, group: GroupSpec): Set<ValueId> {
  const out = new Set<ValueId>();
  const by = new Map<ValueId, { linear: IndexExpr; store: boolean; batch: number }[]>();
  for (const a of b.accesses) {
    const list = by.get(a.buffer);
    if (list) list.push(a);
    else by.set(a.buffer, [a]);
  }
  for (const [value, list] of by) {
    const v = group.program.values.get(value);
    if (!v || !I.exactDiv(I.product(v.shape), 4)) continue;
    const lanes = new Map<string, Set<number>>();
    let ok = list.length >= 4;
    for (const a of list) {
      const lane = I.constOf(I.mod(a.linear, 4));
      if (lane === undefined) {
        ok = false;
        break;
      }
      const q = `${a.batch} ${I.floorDiv(a.linear, 4).key}`;
      const set = lanes.get(q) ?? new Set<number>();
      set.add(lane);
      lanes.set(q, set);
    }
    // A store of part of a vector isn't possible; a read of one lane only would waste the rest.
    if (ok && [...lanes.values()].every((s) => s.size === 4)) out.add(value);
  }
  return out;
}
