/**
 * What profiling found, per file. A time belongs to a kernel by its structural hash: after an edit,
 * kernels that are still the same keep their times, and changed ones lose them.
 */
import type { CompileResult, KernelView } from '../../compiler/result';
import type { KernelTime, ProfileResult } from '../../runner/core/types';
import { Emitter, Owner } from '../common/lifecycle';

export class Measurements extends Owner {
  private readonly profiles = new Map<string, ProfileResult>();

  private readonly changes = this.register(new Emitter<string>());
  readonly onDidChange = this.changes.event;

  get(uri: string): ProfileResult | undefined {
    return this.profiles.get(uri);
  }

  set(uri: string, profile: ProfileResult): void {
    this.profiles.set(uri, profile);
    this.changes.fire(uri);
  }

  clear(uri: string): void {
    if (this.profiles.delete(uri)) this.changes.fire(uri);
  }

  clearAll(): void {
    for (const uri of [...this.profiles.keys()]) this.clear(uri);
  }

  get size(): number {
    return this.profiles.size;
  }

  move(from: string, to: string): void {
    const profile = this.profiles.get(from);
    if (!profile) return;
    this.clear(from);
    this.set(to, profile);
  }
}

/** Kernels that are alike in structure are told apart by their id, where that still fits. */
export function timeOf(
  kernel: KernelView,
  profile: ProfileResult | undefined,
): KernelTime | undefined {
  const alike = [...(profile?.fused.kernels ?? []), ...(profile?.unfused.kernels ?? [])].filter(
    ({ hash }) => hash === kernel.hash,
  );
  return alike.find(({ id }) => id === kernel.id) ?? alike[0];
}

/** Whether every kernel of the plan is one that was measured: then the totals hold as well. */
export function coversPlan(result: CompileResult, profile: ProfileResult): boolean {
  const { kernels } = result.after;
  return (
    kernels.length === profile.fused.kernels.length &&
    kernels.every((kernel) => timeOf(kernel, profile) !== undefined)
  );
}
