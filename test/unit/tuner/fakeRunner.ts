/** A runner without a GPU: what kernels take is read off their code by a rule that the test gives. */
import type { ExecPlan } from '../../../compiler/result';
import type {
  AdapterInfo,
  PlanForRun,
  PlanTimes,
  ProfileJob,
  ProfileResult,
  Runner,
  RunnerReply,
  TrialJob,
  TrialOutcome,
} from '../../../runner/core';

export const ADAPTER: AdapterInfo = {
  vendor: 'test',
  architecture: 'unit',
  description: 'Test GPU',
  software: false,
  host: 'here',
  runner: 'node',
  timestampQuantumUs: 0,
};

export interface Rules {
  /** What a kernel takes, µs, by its WGSL. */
  readonly time: (wgsl: string) => number;
  /** As part of the whole plan, where that differs. */
  readonly timeInPlan?: (wgsl: string) => number;
  /** Half width of every ratio's confidence interval. */
  readonly noise?: number;
  /** What is wrong with a candidate: found before it is timed. */
  readonly fault?: (wgsl: string) => string | undefined;
  /** Brings the process down. */
  readonly hangs?: (wgsl: string) => boolean;
  readonly verified?: boolean;
  /** Seconds that a trial takes, of the fake clock. */
  readonly trialSeconds?: number;
}

export class FakeRunner implements Pick<Runner, 'profile' | 'trial'> {
  seconds = 0;
  trials = 0;
  profiles = 0;
  readonly timed: string[] = [];
  /** Called before each trial: a test may cancel there. */
  beforeTrial: () => void = () => undefined;

  constructor(private readonly rules: Rules) {}

  readonly now = (): number => this.seconds;

  async profile(
    job: ProfileJob,
    _: unknown,
    signal: { readonly aborted: boolean },
  ): Promise<RunnerReply<ProfileResult>> {
    await Promise.resolve();
    this.profiles++;
    this.seconds += 0.1;
    if (signal.aborted) return cancelled();
    const { verified = true } = this.rules;
    const times = this.rules.timeInPlan ?? this.rules.time;
    const fused = planTimes(job.fused, times);
    const unfused = planTimes(job.unfused, times);
    return {
      ok: true,
      value: {
        adapter: ADAPTER,
        unfused,
        fused,
        speedup: unfused.wallUs / fused.wallUs,
        verification: { ok: verified, outputs: [], kernels: [] },
        iterations: 1,
        seed: 1,
        compileMs: 1,
        notes: [],
      },
    };
  }

  async trial(
    job: TrialJob,
    _: unknown,
    signal: { readonly aborted: boolean },
  ): Promise<RunnerReply<import('../../../runner/core').TrialResult>> {
    await Promise.resolve();
    this.beforeTrial();
    if (signal.aborted) return cancelled();
    this.trials++;
    const { rules } = this;
    this.seconds += rules.trialSeconds ?? 0.1;
    const hung = job.candidates.find((c) => rules.hangs?.(codeOf(c.exec)));
    if (hung) return { ok: false, fault: { code: 'HUNG', message: 'it hangs', kernel: hung.id } };
    const base = timeOf(job.base, rules.time);
    const candidates = job.candidates.map(({ id, exec }): TrialOutcome => {
      const code = codeOf(exec);
      const reason = rules.fault?.(code);
      if (reason !== undefined) return { id, ok: false, reason };
      this.timed.push(code);
      const us = timeOf(exec, rules.time);
      return {
        id,
        ok: true,
        time: { medianUs: us, spreadUs: us * (rules.noise ?? 0), samples: 9 },
        speedup: base / us,
        speedupSpread: (base / us) * (rules.noise ?? 0.001),
      };
    });
    return {
      ok: true,
      value: { base: { medianUs: base, spreadUs: 0, samples: 9 }, candidates },
    };
  }
}

function cancelled(): {
  readonly ok: false;
  readonly fault: { code: 'CANCELLED'; message: string };
} {
  return { ok: false, fault: { code: 'CANCELLED', message: 'Cancelled.' } };
}

function codeOf(exec: ExecPlan): string {
  return exec.dispatches.map((d) => d.wgsl).join('\n');
}

function timeOf(exec: ExecPlan, time: Rules['time']): number {
  return exec.dispatches.reduce((sum, d) => sum + time(d.wgsl), 0);
}

function planTimes(plan: PlanForRun, time: Rules['time']): PlanTimes {
  const kernels = plan.kernels.map((k) => {
    const own = plan.exec.dispatches.filter((d) => d.kernel === k.id);
    const us = own.reduce((sum, d) => sum + time(d.wgsl), 0);
    return { ...k, medianUs: us, minUs: us, spreadUs: 0, samples: 9, gbps: 0, gflops: 0 };
  });
  const totalUs = kernels.reduce((sum, k) => sum + k.medianUs, 0);
  return { kernels, totalUs, wallUs: totalUs, wallSpreadUs: 0 };
}

/** The workgroup's size in the code of a kernel. */
export function workgroupOf(wgsl: string): number {
  return Number(/@workgroup_size\((\d+)/.exec(wgsl)?.[1] ?? 0);
}
