/**
 * Runs the steps of a plan with branches and loops: the host dispatches, copies between buffers, and
 * reads back the numbers by which it decides.
 */
import type { CopyStep, ExecStep, SliceStep } from '../../compiler/result';
import { fail } from './faults';

export interface StepHost {
  dispatch(index: number): Promise<void>;
  /** Copies bytes from one buffer to another, all of them in order. */
  copy(copies: readonly BufferCopy[]): Promise<void>;
  /** The first element of a buffer. */
  read(buffer: string): Promise<number>;
  /** Sets the first element, of an integer type. */
  write(buffer: string, value: number): void;
  /** A loop that nothing bounds and that goes on for longer is taken to be endless. */
  readonly mostIterations?: number;
  readonly adviceOnEndless?: string;
}

export interface BufferCopy {
  readonly from: string;
  readonly fromOffset: number;
  readonly to: string;
  readonly toOffset: number;
  readonly bytes: number;
}

/** Where the host doesn't say. */
const MOST_ITERATIONS = 2 ** 20;

type Loop = ExecStep & { kind: 'loop' };

export async function runSteps(steps: readonly ExecStep[], host: StepHost): Promise<void> {
  for (const s of steps) {
    switch (s.kind) {
      case 'dispatch':
        await host.dispatch(s.dispatch);
        break;
      case 'copy':
        await host.copy([whole(s)]);
        break;
      case 'branch':
        await runSteps((await host.read(s.condition)) !== 0 ? s.then : s.else, host);
        break;
      case 'loop':
        await runLoop(s, host);
        break;
    }
  }
}

async function runLoop(s: Loop, host: StepHost): Promise<void> {
  const counted = s.tripsBuffer === undefined ? Infinity : await host.read(s.tripsBuffer);
  const trips = Math.min(s.trips ?? Infinity, counted);
  const most = trips < Infinity ? MOST_ITERATIONS : (host.mostIterations ?? MOST_ITERATIONS);
  let on = s.condition === undefined || (await host.read(s.condition)) !== 0;
  await host.copy(s.start.map(whole));
  for (let i = 0; on && i < trips; i++) {
    if (i >= most)
      fail('UNSUPPORTED', `The loop ${s.region} has not ended after ${most} iterations.`, {
        advice: host.adviceOnEndless,
      });
    if (s.iteration !== undefined) host.write(s.iteration, i);
    if (s.running !== undefined) host.write(s.running, 1);
    await host.copy(
      s.slices.map((x) => ({
        from: x.whole,
        fromOffset: offset(x, i),
        to: x.part,
        toOffset: 0,
        bytes: x.bytes,
      })),
    );
    await runSteps(s.body, host);
    await host.copy([
      ...s.rows.map((x) => ({
        from: x.part,
        fromOffset: 0,
        to: x.whole,
        toOffset: offset(x, i),
        bytes: x.bytes,
      })),
      ...s.next.map(whole),
    ]);
    on = s.goesOn === undefined || (await host.read(s.goesOn)) !== 0;
  }
  await host.copy(s.end.map(whole));
}

function whole(c: CopyStep): BufferCopy {
  return { from: c.from, fromOffset: 0, to: c.to, toOffset: 0, bytes: c.bytes };
}

function offset(s: SliceStep, i: number): number {
  return (s.reverse ? s.rows - 1 - i : i) * s.bytes;
}

/** The buffers that steps write without a dispatch. */
export function writtenBySteps(steps: readonly ExecStep[]): Set<string> {
  const out = new Set<string>();
  const visit = (list: readonly ExecStep[]): void => {
    for (const s of list) {
      if (s.kind === 'copy') out.add(s.to);
      else if (s.kind === 'branch') {
        visit(s.then);
        visit(s.else);
      } else if (s.kind === 'loop') {
        for (const b of [s.iteration, s.running]) if (b !== undefined) out.add(b);
        for (const c of [...s.start, ...s.next, ...s.end]) out.add(c.to);
        for (const c of s.slices) out.add(c.part);
        for (const c of s.rows) out.add(c.whole);
        visit(s.body);
      }
    }
  };
  visit(steps);
  return out;
}
