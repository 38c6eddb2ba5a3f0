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

export function priceUs(k: Priced, device: DeviceProfile): number {
  const { bytesRead, bytesWritten } = k;
  return kernelTimeUs({ ...k.counts, bytesRead, bytesWritten }, device).us;
}
