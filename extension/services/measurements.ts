/**
 * What profiling found, per file. It outlives edits: kernels that are still the same keep their
 * times, changed ones lose them, and the whole counts as stale (see runner/core/joined.ts).
 */
import type { CompileResult, KernelView } from '../../compiler/result';
import { JoinedTimes } from '../../runner/core/joined';
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

/** Looked up many times for each result: joined once. */
const joined = new WeakMap<ProfileResult, JoinedTimes>();

function timesOf(profile: ProfileResult): JoinedTimes {
  let times = joined.get(profile);
  if (!times) {
    times = new JoinedTimes(profile);
    joined.set(profile, times);
  }
  return times;
}

export function timeOf(
  kernel: KernelView,
  profile: ProfileResult | undefined,
): KernelTime | undefined {
  return profile && timesOf(profile).of(kernel);
}

/** Whether the plans are still the ones that were measured: then totals and the speed-up hold as well. */
export function coversPlan(result: CompileResult, profile: ProfileResult): boolean {
  return timesOf(profile).covers(result);
}
