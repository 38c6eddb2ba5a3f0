/**
 * Dawn, loaded so that it leaves the CPU to those who need it.
 *
 * Dawn polls for events by queueing `setImmediate` again and again while anything is awaited, which
 * keeps a core busy that a software adapter needs. So before Dawn is loaded `setImmediate` is replaced
 * by one that first sleeps for a moment.
 */
const SLEEP_MS = 0.2;
const immediate = globalThis.setImmediate;

export function letDawnSleep(): void {
  const cell = new Int32Array(new SharedArrayBuffer(4));
  const sleepy = <T extends unknown[]>(
    callback: (...args: T) => void,
    ...args: T
  ): NodeJS.Immediate =>
    immediate(() => {
      Atomics.wait(cell, 0, 0, SLEEP_MS);
      callback(...args);
    });
  globalThis.setImmediate = Object.assign(sleepy, {
    __promisify__: immediate.__promisify__,
  });
}

/** Lets other events be handled, without the sleep. */
export const pause = (): Promise<void> => new Promise((resolve) => immediate(resolve));

/** Puts WebGPU's classes and constants into the global scope and opens the GPU. */
export async function loadDawn(): Promise<GPU> {
  const { create, globals } = await import('webgpu');
  Object.assign(globalThis, globals);
  // Without these Dawn rounds timestamps to about 0.1 ms, as browsers do.
  return create([
    'enable-dawn-features=allow_unsafe_apis',
    'disable-dawn-features=timestamp_quantization',
  ]);
}
