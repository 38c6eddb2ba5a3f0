/**
 * Measured times joined with a compile result, after edits too.
 *
 * A time belongs to a kernel by what the kernel does and how much: its structural hash together with
 * the bytes and the arithmetic at the bound sizes (a hash knows symbolic sizes by name alone). So
 * kernels that an edit leaves alone keep their times, and changed ones lose them. Totals and the
 * speed-up are of whole plans: they hold only as long as every kernel of both plans is one that was
 * measured in that plan.
 */
import type { CompileResult, KernelView, PlanView } from '../../compiler/result';
import type { KernelTime, PlanTimes, ProfileResult } from './types';

export class JoinedTimes {
  private readonly alike = new Map<string, KernelTime[]>();

  constructor(readonly profile: ProfileResult) {
    for (const { kernels } of [profile.fused, profile.unfused])
      for (const time of kernels) {
        const key = keyOfTime(time);
        const list = this.alike.get(key);
        if (list) list.push(time);
        else this.alike.set(key, [time]);
      }
  }

  /** Kernels that are alike are told apart by their id, where that still fits. */
  of(kernel: KernelView): KernelTime | undefined {
    const alike = this.alike.get(keyOfKernel(kernel));
    return alike?.find(({ id }) => id === kernel.id) ?? alike?.[0];
  }

  /** Whether both plans are the ones that were measured. */
  covers({ before, after }: CompileResult): boolean {
    return isSamePlan(after, this.profile.fused) && isSamePlan(before, this.profile.unfused);
  }
}

function isSamePlan({ kernels }: PlanView, measured: PlanTimes): boolean {
  if (kernels.length !== measured.kernels.length) return false;
  const left = new Map<string, number>();
  for (const time of measured.kernels) {
    const key = keyOfTime(time);
    left.set(key, (left.get(key) ?? 0) + 1);
  }
  return kernels.every((kernel) => {
    const key = keyOfKernel(kernel);
    const count = left.get(key) ?? 0;
    left.set(key, count - 1);
    return count > 0;
  });
}

function keyOfTime({ hash, bytes, flops }: KernelTime): string {
  return `${hash} ${bytes} ${flops}`;
}

function keyOfKernel({ hash, bytesRead, bytesWritten, flops }: KernelView): string {
  return `${hash} ${bytesRead + bytesWritten} ${flops}`;
}
