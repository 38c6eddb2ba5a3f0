/**
 * What a kernel of a plan would cost on another device: the same code, priced anew.
 *
 * A plan is made for one device; comparing cost models (or fitting one to measured times) needs the
 * price of a given kernel under many.
 */
import type { DeviceProfile, KernelCounts } from '../result';
import { kernelTimeUs } from '../schedule/time';

/** The part of a kernel's view that its price depends on. */
export interface Priced {
  readonly bytesRead: number;
  readonly bytesWritten: number;
  readonly flops: number;
  readonly counts: KernelCounts;
}

const NO_BYTES: ReadonlyMap<string, number> = new Map();

export function priceUs(k: Priced, device: DeviceProfile): number {
  const { us } = kernelTimeUs(
    {
      ...k.counts,
      flops: k.flops,
      bytesRead: k.bytesRead,
      bytesWritten: k.bytesWritten,
      bytesOf: NO_BYTES,
      buffers: 0,
      sharedBytes: 0,
      registers: 0,
      size: 0,
      repeated: [],
    },
    device,
  );
  return us;
}
