/**
 * Control flow in L1: which bodies there are, what goes into them and what comes out.
 *
 * Computes stand in one list, each with the body it is in. A region says how often its bodies run and
 * which values are handed over; handing over is a copy of a stored value, so both ends are values in
 * memory. Kernels never reach across a body's border.
 *
 * Vocabulary
 *  - *formal*: a value that the body is given anew in each iteration.
 *  - *needs*, *makes*: the values that a region reads and gives, on its outer side and in its bodies.
 */
import type { BodyId, RegionId } from '../graph/graph';
import type { ValueId } from './expr';
import type { Dim } from './indexExpr';

export interface ProgramArm {
  readonly body: BodyId;
  readonly gives: readonly ValueId[];
}

export interface ProgramBranch {
  readonly kind: 'branch';
  readonly id: RegionId;
  readonly parent?: BodyId;
  readonly condition: ValueId;
  /** Taken when the condition holds, and when it doesn't. */
  readonly arms: readonly [ProgramArm, ProgramArm];
  readonly results: readonly ValueId[];
}

export interface ProgramLoop {
  readonly kind: 'loop';
  readonly id: RegionId;
  readonly parent?: BodyId;
  readonly body: BodyId;
  /** How often at most: a size, a value that says so, or neither. */
  readonly trips?: Dim;
  readonly tripsValue?: ValueId;
  /** Whether it runs at all; absent: it does. */
  readonly condition?: ValueId;
  readonly iteration?: ValueId;
  readonly running?: ValueId;
  /** Whether it goes on after an iteration; absent: it does. */
  readonly goesOn?: ValueId;
  readonly carried: readonly {
    readonly initial: ValueId;
    readonly formal: ValueId;
    readonly next: ValueId;
    readonly result: ValueId;
  }[];
  /** Slices along the first dim. */
  readonly sliced: readonly {
    readonly source: ValueId;
    readonly formal: ValueId;
    readonly reverse: boolean;
  }[];
  readonly stacked: readonly {
    readonly element: ValueId;
    readonly result: ValueId;
    readonly reverse: boolean;
  }[];
}

export type ProgramRegion = ProgramBranch | ProgramLoop;

export function bodiesOf(r: ProgramRegion): readonly BodyId[] {
  return r.kind === 'loop' ? [r.body] : r.arms.map((a) => a.body);
}

function present(...values: readonly (ValueId | undefined)[]): ValueId[] {
  return values.flatMap((v) => v ?? []);
}

/** What must be there before it starts. */
export function outerNeeds(r: ProgramRegion): readonly ValueId[] {
  return r.kind === 'branch'
    ? [r.condition]
    : [
        ...present(r.tripsValue, r.condition),
        ...r.carried.map((c) => c.initial),
        ...r.sliced.map((s) => s.source),
      ];
}

/** What its bodies hand over. */
export function innerNeeds(r: ProgramRegion): readonly ValueId[] {
  return r.kind === 'branch'
    ? r.arms.flatMap((a) => a.gives)
    : [...present(r.goesOn), ...r.carried.map((c) => c.next), ...r.stacked.map((s) => s.element)];
}

/** What its body is given. */
export function formalsOf(r: ProgramRegion): readonly ValueId[] {
  return r.kind === 'branch'
    ? []
    : [
        ...present(r.iteration, r.running),
        ...r.carried.map((c) => c.formal),
        ...r.sliced.map((s) => s.formal),
      ];
}

export function resultsOf(r: ProgramRegion): readonly ValueId[] {
  return r.kind === 'branch'
    ? r.results
    : [...r.carried.map((c) => c.result), ...r.stacked.map((s) => s.result)];
}

/**
 * The units of one body (computes, or kernels) in their order, with the regions of that body between
 * them: each right before the first unit that reads what it makes, the rest at the end.
 */
export function withRegions<T>(
  units: readonly T[],
  readsOf: (unit: T) => Iterable<ValueId>,
  regions: readonly ProgramRegion[],
  /** All that a region reads, what is read inside it included. */
  needsOf: (r: ProgramRegion) => Iterable<ValueId>,
): ({ readonly unit: T } | { readonly region: ProgramRegion })[] {
  const maker = new Map<ValueId, ProgramRegion>();
  for (const r of regions) for (const v of resultsOf(r)) maker.set(v, r);
  const pending = new Set(regions);
  const out: ({ readonly unit: T } | { readonly region: ProgramRegion })[] = [];
  const place = (r: ProgramRegion): void => {
    if (!pending.delete(r)) return;
    before(needsOf(r));
    out.push({ region: r });
  };
  const before = (values: Iterable<ValueId>): void => {
    for (const v of values) {
      const r = maker.get(v);
      if (r) place(r);
    }
  };
  for (const unit of units) {
    before(readsOf(unit));
    out.push({ unit });
  }
  for (const r of regions) place(r);
  return out;
}
