/**
 * The order in which a plan with branches and loops runs: dispatches, copies between buffers, and what
 * the host decides by numbers that it reads back.
 */
import { storageBytes } from '../graph/dtype';
import type { BodyId } from '../graph/graph';
import type { Program } from '../ir/compute';
import type { ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import {
  bodiesOf,
  innerNeeds,
  outerNeeds,
  type ProgramLoop,
  type ProgramRegion,
  withRegions,
} from '../ir/region';
import type { BufferSpec, CopyStep, ExecStep, SliceStep } from '../result';

/** A dispatch of the plan, as its steps see it. */
export interface StepUnit {
  /** Its place in the plan's list. */
  readonly dispatch: number;
  readonly body: BodyId | undefined;
  readonly reads: readonly ValueId[];
}

export function execSteps(
  program: Program,
  units: readonly StepUnit[],
  buffer: (v: ValueId) => BufferSpec,
): ExecStep[] {
  const regions = program.regions ?? [];
  const bind = (s: string): number | undefined => program.dims.get(s);
  const inside = (body: BodyId): readonly ProgramRegion[] =>
    regions.filter((r) => r.parent === body);
  const needsOf = (r: ProgramRegion): ValueId[] => [
    ...outerNeeds(r),
    ...innerNeeds(r),
    ...bodiesOf(r).flatMap((b) => [
      ...units.filter((u) => u.body === b).flatMap((u) => u.reads),
      ...inside(b).flatMap(needsOf),
    ]),
  ];
  const copy = (from: ValueId, to: ValueId): CopyStep => ({
    kind: 'copy',
    from: buffer(from).id,
    to: buffer(to).id,
    bytes: buffer(to).bytes,
  });
  const slice = (whole: ValueId, part: ValueId, reverse: boolean): SliceStep => {
    const { elements, storage, shape, id } = buffer(whole);
    const rows = Math.max(1, shape[0] ?? 1);
    return {
      whole: id,
      part: buffer(part).id,
      // Buffers are padded, rows are not.
      bytes: (elements / rows) * storageBytes(storage),
      rows,
      reverse,
    };
  };
  const loop = (r: ProgramLoop): ExecStep => ({
    kind: 'loop',
    region: r.id,
    ...(r.trips === undefined ? {} : { trips: I.evaluate(r.trips, bind) }),
    ...(r.tripsValue === undefined ? {} : { tripsBuffer: buffer(r.tripsValue).id }),
    ...(r.condition === undefined ? {} : { condition: buffer(r.condition).id }),
    ...(r.iteration === undefined ? {} : { iteration: buffer(r.iteration).id }),
    ...(r.running === undefined ? {} : { running: buffer(r.running).id }),
    ...(r.goesOn === undefined ? {} : { goesOn: buffer(r.goesOn).id }),
    start: r.carried.map((c) => copy(c.initial, c.formal)),
    slices: r.sliced.map((s) => slice(s.source, s.formal, s.reverse)),
    body: stepsOf(r.body),
    rows: r.stacked.map((s) => slice(s.result, s.element, s.reverse)),
    // What stays as it is needn't be handed over.
    next: r.carried.flatMap((c) => (c.next === c.formal ? [] : copy(c.next, c.formal))),
    end: r.carried.map((c) => copy(c.formal, c.result)),
  });
  const branch = (r: ProgramRegion & { kind: 'branch' }): ExecStep => {
    const arm = (k: 0 | 1): ExecStep[] => [
      ...stepsOf(r.arms[k].body),
      ...r.arms[k].gives.map((v, i) => copy(v, r.results[i] ?? v)),
    ];
    return {
      kind: 'branch',
      region: r.id,
      condition: buffer(r.condition).id,
      then: arm(0),
      else: arm(1),
    };
  };
  const stepsOf = (body: BodyId | undefined): ExecStep[] =>
    withRegions(
      units.filter((u) => u.body === body),
      (u) => u.reads,
      regions.filter((r) => r.parent === body),
      needsOf,
    ).map((x): ExecStep => {
      if ('unit' in x) return { kind: 'dispatch', dispatch: x.unit.dispatch };
      return x.region.kind === 'loop' ? loop(x.region) : branch(x.region);
    });
  return stepsOf(undefined);
}
