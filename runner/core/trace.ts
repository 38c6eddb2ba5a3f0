/**
 * What the host did in one run of a plan with branches and loops, so that the same run can be timed
 * again without asking the data: the GPU gets all of it in one submit.
 */
import type { BufferCopy, StepHost } from './control';
import { fail } from './faults';
import type { LoadedDispatch, LoadedPlan } from './loaded';

export type TraceCommand =
  | { readonly kind: 'dispatch'; readonly dispatch: number }
  | { readonly kind: 'copy'; readonly copies: readonly BufferCopy[] }
  | { readonly kind: 'write'; readonly buffer: string; readonly value: number };

export interface Trace {
  readonly commands: readonly TraceCommand[];
  /** Numbers that the host read back to decide. */
  readonly reads: number;
  /** By dispatch of the plan: how often it ran. */
  readonly runs: readonly number[];
}

/** Made-up inputs may well keep a loop from ending. */
const MOST_ITERATIONS = 1024;
const MOST_COMMANDS = 2 ** 18;
const ADVICE =
  'The inputs are made up. Run it on inputs of your own (fusion-lens run), or bound its iterations.';

/** The host as it is, with all that it does written down. */
export function recording(
  host: StepHost,
  dispatches: number,
): { readonly host: StepHost; trace(): Trace } {
  const commands: TraceCommand[] = [];
  const runs = new Array<number>(dispatches).fill(0);
  let reads = 0;
  const note = (c: TraceCommand): void => {
    if (commands.push(c) > MOST_COMMANDS)
      fail(
        'UNSUPPORTED',
        `A run of it takes more than ${MOST_COMMANDS} steps on made-up inputs: too many to be timed.`,
        { advice: ADVICE },
      );
  };
  return {
    host: {
      mostIterations: MOST_ITERATIONS,
      adviceOnEndless: ADVICE,
      dispatch: async (dispatch) => {
        note({ kind: 'dispatch', dispatch });
        runs[dispatch] = (runs[dispatch] ?? 0) + 1;
        await host.dispatch(dispatch);
      },
      copy: async (copies) => {
        const some = copies.filter((c) => c.bytes > 0);
        if (some.length === 0) return;
        note({ kind: 'copy', copies: some });
        await host.copy(some);
      },
      read: (buffer) => {
        reads++;
        return host.read(buffer);
      },
      write: (buffer, value) => {
        note({ kind: 'write', buffer, value });
        host.write(buffer, value);
      },
    },
    trace: () => ({ commands, reads, runs }),
  };
}

/** A trace with what encoding it needs. */
export interface Replay {
  readonly trace: Trace;
  /** Each number that is written, once, as 32-bit integers. */
  readonly numbers: GPUBuffer | undefined;
  readonly offsetOf: ReadonlyMap<number, number>;
}

export function numbersWritten(trace: Trace): Int32Array<ArrayBuffer> {
  const all = new Set(trace.commands.flatMap((c) => (c.kind === 'write' ? [c.value] : [])));
  return Int32Array.from(all);
}

export function encodeCopies(
  encoder: GPUCommandEncoder,
  copies: readonly BufferCopy[],
  loaded: LoadedPlan,
): void {
  for (const { from, fromOffset, to, toOffset, bytes } of copies)
    encoder.copyBufferToBuffer(loaded.buffer(from), fromOffset, loaded.buffer(to), toOffset, bytes);
}

/** Encodes the run: dispatches in passes, copies between them. */
export function encodeReplay(
  encoder: GPUCommandEncoder,
  { trace, numbers, offsetOf }: Replay,
  loaded: LoadedPlan,
  encode: (pass: GPUComputePassEncoder, d: LoadedDispatch) => void,
): void {
  let pass: GPUComputePassEncoder | undefined;
  const between = (): void => {
    pass?.end();
    pass = undefined;
  };
  for (const c of trace.commands) {
    switch (c.kind) {
      case 'dispatch': {
        pass ??= encoder.beginComputePass();
        const d = loaded.dispatches[c.dispatch];
        if (d) encode(pass, d);
        break;
      }
      case 'copy':
        between();
        encodeCopies(encoder, c.copies, loaded);
        break;
      case 'write':
        between();
        if (numbers)
          encoder.copyBufferToBuffer(
            numbers,
            offsetOf.get(c.value) ?? 0,
            loaded.buffer(c.buffer),
            0,
            4,
          );
        break;
    }
  }
  between();
}
