/**
 * Faults: what goes wrong on the way to a result, as {@link RunnerFault} values.
 *
 * Inside the runner a fault travels as an exception, {@link Faulted}, and becomes a value again at the
 * runner's edge ({@link replyOf}). Any other exception there is a bug, reported as INTERNAL.
 */
import type { CancelSignal, RunnerFault, RunnerReply } from './types';

export class Faulted extends Error {
  constructor(readonly fault: RunnerFault) {
    super(fault.message);
  }
}

export function fail(
  code: RunnerFault['code'],
  message: string,
  more: { kernel?: string | undefined; advice?: string | undefined } = {},
): never {
  throw new Faulted({
    code,
    message,
    ...(more.kernel === undefined ? {} : { kernel: more.kernel }),
    ...(more.advice === undefined ? {} : { advice: more.advice }),
  });
}

export async function replyOf<T>(work: () => Promise<T>): Promise<RunnerReply<T>> {
  try {
    return { ok: true, value: await work() };
  } catch (e) {
    return { ok: false, fault: faultOf(e) };
  }
}

export function faultOf(e: unknown): RunnerFault {
  if (e instanceof Faulted) return e.fault;
  const message = e instanceof Error ? (e.stack ?? e.message) : String(e);
  return { code: 'INTERNAL', message };
}

export function throwIfCancelled(signal: CancelSignal): void {
  if (signal.aborted) fail('CANCELLED', 'Cancelled.');
}

/** 1536 → `1.5 KiB`: sizes as messages show them. */
export function bytesText(n: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = n;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${Number.isInteger(value) ? value : value.toFixed(1)} ${units[unit] ?? ''}`;
}
