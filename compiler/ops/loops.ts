/**
 * Loops that an op makes of itself: a recurrence too long to be written out.
 *
 * In L1 they are regions like those of control flow in the file (see `../ir/region.ts`): the body's
 * computes stand once, and what goes in and comes out is handed over in memory.
 */
import type { DType } from '../graph/dtype';
import type { BodyId } from '../graph/graph';
import type { Compute } from '../ir/compute';
import { type ValueId, visitExpr } from '../ir/expr';
import type { Dim } from '../ir/indexExpr';
import type { ProgramLoop } from '../ir/region';
import type { LoopNext, LoopResult, LoopSpec, LoopStep, LTensor } from './op';

/** What the op's context does for it. */
export interface LoopHost {
  readonly id: string;
  readonly around: BodyId | undefined;
  /** A value that the loop hands over. */
  handed: (key: string, dtype: DType, shape: readonly Dim[]) => LTensor;
  /** A copy in memory, in the body at hand. */
  store(h: LTensor): LTensor;
  /** Has what is lowered be in a body; `made` gives its computes so far. */
  inside(body: BodyId, lower: (made: () => readonly Compute[]) => void): void;
}

export function makeLoop(
  spec: LoopSpec,
  body: (step: LoopStep) => LoopNext,
  host: LoopHost,
): { readonly result: LoopResult; readonly region: ProgramLoop } {
  const { id, around, handed } = host;
  const inMemory = (h: LTensor): ValueId => h.value ?? valueOf(host.store(h));
  const initial = spec.initial.map(inMemory);
  const sources = spec.sliced.map((s) => inMemory(s.source));
  const step: LoopStep = {
    iteration: handed('iteration', 'i64', []),
    states: spec.initial.map((h, k) => handed(`state${k}`, h.dtype, h.shape)),
    slices: spec.sliced.map(({ source }, k) =>
      handed(`slice${k}`, source.dtype, source.shape.slice(1)),
    ),
  };
  const inner = `${id}/body`;
  let next: LoopNext = { states: [], rows: [] };
  let states: readonly ValueId[] = [];
  let rows: readonly ValueId[] = [];
  let counted = false;
  host.inside(inner, (made) => {
    next = body(step);
    // All states are handed over at once: what the body itself made is surely none of them.
    const own = (h: LTensor): ValueId =>
      made().find((c) => c.value === h.value)?.value ?? valueOf(host.store(h));
    states = next.states.map(own);
    rows = next.rows.map(own);
    counted = made().some((c) => reads(c, step.iteration.value));
  });
  const result: LoopResult = {
    states: spec.initial.map((h, k) => handed(`last${k}`, h.dtype, h.shape)),
    stacked: next.rows.map((h, k) => handed(`rows${k}`, h.dtype, [spec.trips, ...h.shape])),
  };
  const region: ProgramLoop = {
    kind: 'loop',
    id,
    ...(around === undefined ? {} : { parent: around }),
    body: inner,
    trips: spec.trips,
    ...(counted ? { iteration: valueOf(step.iteration) } : {}),
    carried: initial.map((value, k) => ({
      initial: value,
      formal: valueOf(step.states[k]),
      next: states[k] ?? '',
      result: valueOf(result.states[k]),
    })),
    sliced: spec.sliced.map(({ reverse }, k) => ({
      source: sources[k] ?? '',
      formal: valueOf(step.slices[k]),
      reverse,
    })),
    stacked: rows.map((element, k) => ({
      element,
      result: valueOf(result.stacked[k]),
      reverse: spec.stacked[k]?.reverse ?? false,
    })),
  };
  return { result, region };
}

function valueOf(h: LTensor | undefined): ValueId {
  if (h?.value === undefined) throw new Error('a value of a loop that is not in memory');
  return h.value;
}

function reads(c: Compute, value: ValueId | undefined): boolean {
  let found = false;
  visitExpr(c.body, (e) => {
    if (e.op === 'load') found ||= e.value === value;
  });
  return found;
}
