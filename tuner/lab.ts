/**
 * The lab: makes what the search wants to have measured, with the compiler. Pure but for the plans it
 * remembers.
 */
import {
  type Compilation,
  compile,
  CompileMemory,
  type CompileOptions,
  type CompileSource,
} from '../compiler';
import type { ExecPlan, KernelView, PlanView } from '../compiler/result';
import type { Settings } from '../compiler/schedule/parameters';
import type { KernelTuning, NearTie, PlanChange, PlanTuning, Tuning } from '../compiler/tuning';
import type { PlanForRun, ProfileJob, TrialJob } from '../runner/core/types';
import type { Choice, LabKernel, LabPlan, LabStart, LabTie } from './types';

/** Changes of the plan that are looked at, at most: each costs a compile. */
const TIES = 6;

/** What a record would say of times, where they play no part. */
const NOTHING = { kernels: [], notes: [] };
const UNMEASURED = { medianUs: 0, defaultUs: 0, adapter: '', expected: false };

export class CompilerLab {
  private readonly memory = new CompileMemory();
  private readonly base: Compilation;
  private plan: Compilation;

  /** `options` are those of the compile without tuning. */
  constructor(
    private readonly source: CompileSource,
    private readonly options: CompileOptions,
  ) {
    this.base = this.compile();
    this.plan = this.base;
  }

  private compile(tuning?: Tuning): Compilation {
    const { source, options, memory } = this;
    return compile(source, { ...options, memory, ...(tuning ? { tuning } : {}) });
  }

  get compilation(): Compilation {
    return this.base;
  }

  start(): LabStart {
    const ties = this.base.nearTies().slice(0, TIES);
    return {
      ...planOf(this.base),
      ties: ties.map((t) => ({ ...t, label: this.label(t) })),
    };
  }

  private label({ change }: NearTie): string {
    const nodes = new Map(this.base.result.graph.nodes.map((n) => [n.id, n]));
    const name = (id: string): string => nodes.get(id)?.name || nodes.get(id)?.op || id;
    const op = (id: string): string => nodes.get(id)?.op ?? id;
    const ends = [change.from, change.to].map((id) =>
      name(id) === op(id) ? op(id) : `${op(id)} (${name(id)})`,
    );
    return `${ends.join(' and ')} ${change.kind === 'cut' ? 'in two kernels' : 'in one kernel'}`;
  }

  tie(change: PlanChange): LabTie {
    const changes = this.plan.result.tunedPlans.map((p) => p.change);
    const other = this.compile({ plans: [...changes, change].map(planTuning), ...NOTHING });
    const before = apart(this.plan, other);
    const after = apart(other, this.plan);
    if (after.length === 0) return { ok: false, reason: 'the plan stays the same' };
    const ids = (list: readonly KernelView[]): { id: string }[] => list.map(({ id }) => ({ id }));
    const base = this.plan.part(ids(before));
    const candidate = other.part(ids(after));
    // They must do the same from the same.
    if (valuesOf(base.exec, 'input') !== valuesOf(candidate.exec, 'input'))
      return { ok: false, reason: 'it changes what other kernels store' };
    return {
      ok: true,
      job: {
        program: base.program,
        base: base.exec,
        candidates: [{ id: '0', exec: candidate.exec }],
      },
      replaces: before.map((k) => k.structure),
      makes: after.map((k) => k.structure),
      predictedUs: after.reduce((sum, k) => sum + k.estimatedUs, 0),
    };
  }

  choose(changes: Choice['changes']): LabPlan {
    this.plan =
      changes.length === 0
        ? this.base
        : this.compile({ plans: changes.map((c) => planTuning(c.change)), ...NOTHING });
    return planOf(this.plan);
  }

  trial(kernel: string, settings: readonly Settings[]): Omit<TrialJob, 'options'> {
    const { program, exec } = this.plan.part([{ id: kernel }]);
    return {
      program,
      base: exec,
      candidates: settings.map((s, i) => ({
        id: String(i),
        exec: this.plan.part([{ id: kernel, settings: s }]).exec,
      })),
    };
  }

  verifying(): Omit<ProfileJob, 'options'> {
    const { before, after } = this.base.result;
    return this.job(
      forRun(this.base.execPlan('unfused'), before),
      forRun(this.base.execPlan('fused'), after),
    );
  }

  confirming(choice: Choice): Omit<ProfileJob, 'options'> {
    const tuned = this.compile(tuningOf(choice));
    return this.job(
      forRun(this.base.execPlan('fused'), this.base.result.after),
      forRun(tuned.execPlan('fused'), tuned.result.after),
    );
  }

  private job(unfused: PlanForRun, fused: PlanForRun): Omit<ProfileJob, 'options'> {
    return { unfused, fused, program: this.base.reference };
  }
}

function tuningOf({ changes, kernels }: Choice): Tuning {
  return {
    plans: changes.map((c) => planTuning(c.change)),
    kernels: kernels.map((k): KernelTuning => ({ ...UNMEASURED, ...k, dims: {} })),
    notes: [],
  };
}

function planTuning(change: PlanChange): PlanTuning {
  return { ...UNMEASURED, change, makes: [], dims: {} };
}

function planOf(c: Compilation): LabPlan {
  const first = new Map<string, LabKernel & { alike: string[] }>();
  for (const k of c.result.after.kernels) {
    const known = first.get(k.structure);
    if (known) {
      known.alike.push(k.id);
      continue;
    }
    const space = c.space(k.id);
    if (!space) continue;
    const { id, hash, structure, label, nodes, estimatedUs } = k;
    first.set(structure, {
      ...{ id, hash, structure, label, nodes },
      estimatedUs,
      space,
      alike: [],
    });
  }
  return { kernels: [...first.values()] };
}

/** The kernels of one plan that the other lacks. */
function apart(a: Compilation, b: Compilation): KernelView[] {
  const key = (k: KernelView): string => `${k.hash} ${k.nodes.join(' ')} ${k.outputs.join(' ')}`;
  const there = new Set(b.result.after.kernels.map(key));
  return a.result.after.kernels.filter((k) => !there.has(key(k)));
}

function valuesOf(exec: ExecPlan, role: string): string {
  return exec.buffers
    .filter((b) => b.role === role)
    .map((b) => b.id)
    .sort()
    .join(' ');
}

function forRun(exec: ExecPlan, view: PlanView): PlanForRun {
  return {
    exec,
    kernels: view.kernels.map(
      ({ id, hash, nodes, bytesRead, bytesWritten, flops, estimatedUs }) => ({
        ...{ id, hash, nodes, flops, estimatedUs },
        bytes: bytesRead + bytesWritten,
      }),
    ),
  };
}
