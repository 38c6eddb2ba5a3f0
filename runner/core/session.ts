/**
 * A session: one open device with its compiled pipelines and pooled buffers, which serves one job after
 * another. When the device is lost the session says so; the next job opens a new one.
 *
 * A profile is made in two steps, so that they can happen on two machines: {@link Session.measure} runs
 * and times the plans and reads back what they stored; {@link finishProfile} compares that with the
 * reference.
 */
import type { ValueId } from '../../compiler/ir/expr';
import type { BufferSpec, ExecPlan } from '../../compiler/result';
import { Clock } from './clock';
import { ContentSource, DEFAULT_SEED } from './contents';
import { Device, type Host, type Watch } from './device';
import { fail, Faulted, replyOf, throwIfCancelled } from './faults';
import { encodeDispatch, JobMemory, type LoadedPlan } from './loaded';
import { runSteps, type StepHost, writtenBySteps } from './control';
import { measure, type Contestant } from './measure';
import {
  BufferPool,
  checkSizes,
  gather,
  writesByDispatch,
  writtenBuffers,
  writtenShares,
} from './memory';
import { PipelineCache } from './pipelines';
import { Resident } from './resident';
import { toStorage, type StorageArray } from './storage';
import { encodeCopies, recording, type Trace } from './trace';
import { Agreement, OVERRUN, race, type Racer, type Stored } from './trial';
import type {
  AdapterInfo,
  CancelSignal,
  PlanForRun,
  PlanTimes,
  ProfileJob,
  ProfileResult,
  Progress,
  RunJob,
  RunnerFault,
  RunOutput,
  TrialJob,
  TrialOutcome,
  TrialResult,
} from './types';
import { KeptResults, verify, type StoredResult, type StoredResults } from './verify';

/** A profile before verification. It survives structured cloning. */
export interface MeasuredProfile {
  readonly adapter: AdapterInfo;
  readonly unfused: PlanTimes;
  readonly fused: PlanTimes;
  readonly rounds: number;
  readonly seed: number;
  readonly compileMs: number;
  readonly notes: readonly string[];
  /** Empty when verification was not asked for. */
  readonly stored: StoredResults;
}

const DEFAULT_SECONDS = 3;
const DEFAULT_ITERATIONS = 200;
/** What a dispatch is expected to take before anything is known about it: then the watchdog's own time must do. */
const EXPECTED_FIRST_MS = 0;

/** What the base of a trial is called in faults and progress. */
const BASE = 'default';
/** After these nothing else can be tried on this device, or is to be. */
const FATAL: ReadonlySet<RunnerFault['code']> = new Set([
  'CANCELLED',
  'CRASHED',
  'DEVICE_LOST',
  'HUNG',
  'INTERNAL',
  'NO_ADAPTER',
]);

const SILENT: Watch = { progress: () => undefined, working: () => undefined };
const NEVER: CancelSignal = {
  aborted: false,
  addEventListener: () => undefined,
  removeEventListener: () => undefined,
};

export class Session {
  private readonly pipelines: PipelineCache;
  private readonly pool: BufferPool;
  /** Step of the GPU's clock. */
  private stepUs = 0;

  private constructor(
    private readonly host: Host,
    readonly device: Device,
  ) {
    this.pipelines = new PipelineCache(device);
    this.pool = new BufferPool(device);
  }

  static async open(host: Host): Promise<Session> {
    const device = await Device.open(host);
    const session = new Session(host, device);
    const clock = new Clock(device, host, SILENT, NEVER);
    try {
      await clock.findStep();
    } finally {
      clock.dispose();
    }
    session.stepUs = clock.quantumUs;
    return session;
  }

  get lost(): boolean {
    return this.device.lost !== undefined;
  }

  get adapter(): AdapterInfo {
    return { ...this.device.info, timestampQuantumUs: this.stepUs };
  }

  dispose(): void {
    this.device.destroy();
  }

  async measure(job: ProfileJob, watch: Watch, signal: CancelSignal): Promise<MeasuredProfile> {
    const { host, device } = this;
    const { options, program } = job;
    const notes: string[] = [];
    const plans = [job.unfused.exec, job.fused.exec];
    for (const p of plans) checkSizes(device, p);
    const compileStart = host.now();
    await this.pipelines.compileAll(plans, watch, signal);
    const compileMs = host.now() - compileStart;

    const source = new ContentSource(program, options, host);
    const values = new Set(program.values.keys());
    const memory = new JobMemory(device, this.pool, values);
    const clock = new Clock(device, host, watch, signal, this.stepUs);
    try {
      const load = async (name: 'unfused' | 'fused'): Promise<Contestant> => ({
        which: name,
        plan: job[name],
        loaded: await memory.load(name, job[name].exec, this.pipelines, (spec) =>
          source.forBuffer(spec),
        ),
      });
      const unfused = await load('unfused');
      const fused = await load('fused');
      const stored = { unfused: [] as StoredResult[], fused: [] as StoredResult[] };
      const contestants: Contestant[] = [];
      for (const c of [unfused, fused]) {
        const results = options.verify === false ? undefined : stored[c.which];
        const trace = await this.runOnce(c.loaded, c.which, watch, signal, results, true);
        const replay = trace && memory.replayOf(trace);
        contestants.push(replay ? { ...c, loaded: { ...c.loaded, replay } } : c);
        if (trace && c.which === 'fused') notes.push(...traceNotes(trace, job.fused));
      }
      const budget = {
        iterations: Math.max(1, options.iterations ?? DEFAULT_ITERATIONS),
        seconds: options.seconds ?? DEFAULT_SECONDS,
      };
      const { times, rounds } = await measure(contestants, clock, budget, host, watch, signal);
      if (device.uncaptured !== undefined) notes.push(`WebGPU error: ${device.uncaptured}`);
      this.clockNotes(clock, notes);
      const unfusedTimes = times.get('unfused');
      const fusedTimes = times.get('fused');
      if (!unfusedTimes || !fusedTimes) throw new Error('a plan was not measured');
      return {
        adapter: this.adapter,
        unfused: unfusedTimes,
        fused: fusedTimes,
        rounds,
        seed: options.seed ?? DEFAULT_SEED,
        compileMs,
        notes,
        stored,
      };
    } finally {
      device.current = undefined;
      clock.dispose();
      memory.release();
    }
  }

  /** Runs the plan once on given tensors. */
  async run(job: RunJob, watch: Watch, signal: CancelSignal): Promise<RunOutput[]> {
    const resident = await this.resident(job, watch, signal);
    try {
      return await resident.read(signal);
    } finally {
      resident.release();
    }
  }

  /**
   * The plan kept on the GPU, to be run again and again: pipelines, buffers and bind groups are made
   * here, once. It has run once when this returns, kernel by kernel on poisoned results.
   */
  async resident(
    job: RunJob,
    watch: Watch = SILENT,
    signal: CancelSignal = NEVER,
  ): Promise<Resident> {
    const { device } = this;
    checkSizes(device, job.exec);
    const given = new Map(job.inputs.map((i) => [i.buffer, i.data]));
    for (const i of job.inputs) checkGiven(job.exec, i.buffer, i.data.length);
    await this.pipelines.compileAll([job.exec], watch, signal);
    const source = new ContentSource(undefined, job.options, this.host);
    const memory = new JobMemory(device, this.pool, new Set());
    try {
      const loaded = await memory.load('run', job.exec, this.pipelines, async (spec) => {
        const data = given.get(spec.id);
        return data ? toStorageOf(spec, data) : source.forBuffer(spec);
      });
      await this.runOnce(loaded, 'fused', watch, signal);
      return new Resident(device, this.pool, loaded, memory);
    } catch (e) {
      memory.release();
      throw e;
    } finally {
      device.current = undefined;
    }
  }

  /** Times candidates against the base: those that store what the base stores. */
  async trial(job: TrialJob, watch: Watch, signal: CancelSignal): Promise<TrialResult> {
    const { device, host } = this;
    const { options, program } = job;
    const source = new ContentSource(program, options, host);
    const memory = new JobMemory(device, this.pool, new Set(program.values.keys()));
    const clock = new Clock(device, host, watch, signal, this.stepUs);
    /** Compiles, runs once, reads back. */
    const enter = async (id: string, exec: ExecPlan): Promise<{ racer: Racer; stored: Stored }> => {
      const named = { ...exec, dispatches: exec.dispatches.map((d) => ({ ...d, kernel: id })) };
      checkSizes(device, named);
      await this.pipelines.compileAll([named], watch, signal);
      const loaded = await memory.load(id, named, this.pipelines, (spec) => source.forBuffer(spec));
      const results: StoredResult[] = [];
      await this.runOnce(loaded, 'trial', watch, signal, results);
      const stored = new Map<ValueId, { spec: BufferSpec; data: StorageArray }>();
      for (const { spec, data } of results) stored.set(spec.value ?? spec.id, { spec, data });
      return { racer: { id, loaded }, stored };
    };
    try {
      const base = await enter(BASE, job.base);
      const agreement = new Agreement(program, base.stored, await source.forReference());
      const failed = new Map<string, string>();
      const budget = {
        iterations: Math.max(1, options.iterations ?? DEFAULT_ITERATIONS),
        seconds: options.seconds ?? DEFAULT_SECONDS,
      };
      const racers: Racer[] = [];
      const start = host.now();
      for (const { id, exec } of job.candidates) {
        const late = host.now() - start > OVERRUN * 1000 * budget.seconds;
        if (racers.length > 0 && late) break;
        const entered = await replyOf(() => enter(id, exec));
        if (!entered.ok && FATAL.has(entered.fault.code)) throw new Faulted(entered.fault);
        const fault = entered.ok ? agreement.fault(entered.value.stored) : undefined;
        if (!entered.ok)
          failed.set(id, `${entered.fault.code}: ${firstLine(entered.fault.message)}`);
        else if (fault !== undefined) failed.set(id, fault);
        else racers.push(entered.value.racer);
      }
      const r = await race(base.racer, racers, clock, budget, host, watch, signal);
      const timed = new Map(r.others.map((o) => [o.id, o]));
      const candidates = job.candidates.flatMap(({ id }): TrialOutcome[] => {
        const reason = failed.get(id);
        const outcome = timed.get(id);
        if (outcome) return [outcome];
        return reason === undefined ? [] : [{ id, ok: false, reason }];
      });
      return { base: r.base, candidates };
    } finally {
      device.current = undefined;
      clock.dispose();
      memory.release();
    }
  }

  /**
   * Runs kernel by kernel, so that what hangs or fails is known by name. Each result is poisoned before
   * the kernel that first writes it and read back, where `results` are asked for, after the last that
   * does: in between its memory is its own, before and afterwards it may be another's. Of what a loop
   * runs again and again, the first few results are kept and the last. Branches and loops are traced.
   */
  private async runOnce(
    loaded: LoadedPlan,
    stage: Progress['stage'],
    watch: Watch,
    signal: CancelSignal,
    results?: StoredResult[],
    traced = false,
  ): Promise<Trace | undefined> {
    const { device } = this;
    const { queue } = device.gpu;
    const all = [...loaded.preparing, ...loaded.dispatches];
    const total = all.length;
    const writes = writesByDispatch(loaded.plan);
    const shares = results ? writtenShares(loaded.plan) : [];
    const kept = results && new KeptResults(results);
    const dispatch = async (i: number): Promise<void> => {
      const d = all[i];
      if (!d) throw new Error(`there is no dispatch ${i}`);
      throwIfCancelled(signal);
      const { kernel } = d.spec;
      device.current = kernel;
      watch.working(kernel, EXPECTED_FIRST_MS);
      watch.progress({ stage, done: i, total, kernel });
      await device.scoped(kernel, () => {
        const encoder = device.gpu.createCommandEncoder();
        for (const spec of writes[i]?.first ?? [])
          if (!spec.data) this.pool.poison(encoder, loaded.buffer(spec.id), spec);
        const pass = encoder.beginComputePass();
        encodeDispatch(pass, d);
        pass.end();
        queue.submit([encoder.finish()]);
      });
      await device.guard(queue.onSubmittedWorkDone());
      for (const spec of kept ? (writes[i]?.last ?? []) : []) {
        if (spec.role === 'scratch') continue;
        throwIfCancelled(signal);
        watch.working(kernel, EXPECTED_FIRST_MS);
        const data = await this.pool.read(loaded.buffer(spec.id), spec);
        kept?.add({ kernel, spec, data });
        // Of a buffer that several kernels fill, each one's share is a result of its own.
        for (const r of shares) {
          if (r.buffer !== spec.id || r.share.value === undefined) continue;
          const { value, name, shape, elements } = r.share;
          kept?.add({
            kernel: r.kernel,
            spec: { ...spec, id: value, name, shape, elements },
            data: gather(data, r.share, spec.storage),
          });
        }
      }
    };
    const { steps } = loaded.plan;
    const first = loaded.preparing.length;
    for (let i = 0; i < first; i++) await dispatch(i);
    const later = (i: number): Promise<void> => dispatch(first + i);
    let trace: Trace | undefined;
    if (steps) {
      const host = this.stepHost(loaded, later, watch, signal);
      const recorder = traced ? recording(host, loaded.dispatches.length) : undefined;
      await runSteps(steps, recorder?.host ?? host);
      trace = recorder?.trace();
      for (const spec of kept ? copiedOutputs(loaded.plan) : []) {
        const data = await this.pool.read(loaded.buffer(spec.id), spec);
        kept?.add({ spec, data });
      }
    } else for (const i of loaded.dispatches.keys()) await later(i);
    if (results) watch.progress({ stage, done: total, total });
    device.current = undefined;
    return trace;
  }

  private stepHost(
    loaded: LoadedPlan,
    dispatch: (i: number) => Promise<void>,
    watch: Watch,
    signal: CancelSignal,
  ): StepHost {
    const { gpu } = this.device;
    const specs = new Map(loaded.plan.buffers.map((b) => [b.id, b]));
    return {
      dispatch,
      copy: async (copies) => {
        const some = copies.filter((c) => c.bytes > 0);
        if (some.length === 0) return;
        await this.device.scoped(undefined, () => {
          const encoder = gpu.createCommandEncoder();
          encodeCopies(encoder, some, loaded);
          gpu.queue.submit([encoder.finish()]);
        });
      },
      read: async (id) => {
        throwIfCancelled(signal);
        watch.working(undefined, EXPECTED_FIRST_MS);
        const spec = specs.get(id);
        if (!spec) throw new Error(`there is no buffer ${id} in the plan`);
        return (await this.pool.read(loaded.buffer(id), spec))[0] ?? 0;
      },
      // Booleans and integers take 32 bits.
      write: (id, value) =>
        gpu.queue.writeBuffer(loaded.buffer(id), 0, Int32Array.of(value).buffer),
    };
  }

  private clockNotes(clock: Clock, notes: string[]): void {
    if (!clock.timestamps)
      notes.push('The adapter has no timestamps: times are wall times of repeated dispatches.');
    else if (clock.quantumUs >= 1)
      notes.push(
        `The GPU clock steps by ${clock.quantumUs.toFixed(1)} µs: dispatches were repeated until a step was under 1 % of what was measured.`,
      );
    if (this.device.info.software)
      notes.push(
        'A software adapter: a CPU ran these kernels, so the times say little about a GPU.',
      );
  }
}

function checkGiven(plan: ExecPlan, buffer: string, elements: number): void {
  const spec = plan.buffers.find((b) => b.id === buffer);
  if (!spec) fail('BAD_INPUT', `There is no buffer ${buffer} in the plan.`);
  if (spec.elements !== elements)
    fail(
      'BAD_INPUT',
      `${spec.name} takes ${spec.elements} elements [${spec.shape.join(', ')}], not ${elements}.`,
    );
}

function toStorageOf(spec: BufferSpec, data: RunJob['inputs'][number]['data']): typeof data {
  const fits =
    (spec.storage === 'f32' && data instanceof Float32Array) ||
    (spec.storage === 'i32' && data instanceof Int32Array) ||
    (spec.storage === 'u32' && data instanceof Uint32Array) ||
    (spec.storage === 'f16' && data instanceof Uint16Array);
  if (fits) return data;
  if (data instanceof Uint16Array)
    fail('BAD_INPUT', `${spec.name} is stored as ${spec.storage}, not as f16.`);
  return toStorage(data, spec.storage);
}

/** Outputs that no kernel stores: a branch or a loop hands them over. */
function copiedOutputs(plan: ExecPlan): BufferSpec[] {
  const written = new Set(writtenBuffers(plan).map((w) => w.spec.id));
  const copied = writtenBySteps(plan.steps ?? []);
  return plan.buffers.filter(
    (b) =>
      copied.has(b.id) && !written.has(b.id) && plan.outputs.some(({ buffer }) => buffer === b.id),
  );
}

function traceNotes({ reads, runs }: Trace, { exec, kernels }: PlanForRun): string[] {
  const asked = reads === 1 ? 'one number' : `${reads} numbers`;
  const idle = kernels.filter((k) =>
    exec.dispatches.every((d, i) => d.kernel !== k.id || (runs[i] ?? 0) === 0),
  );
  return [
    `Branches and loops went as the data said; the whole plan is timed with the same course, without the time in which the host reads back ${asked} to decide.`,
    ...(idle.length > 0
      ? [`Not run by these inputs, so timed but not verified: ${idle.map((k) => k.id).join(', ')}.`]
      : []),
  ];
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0] ?? '';
}

/** Verifies a measured profile and makes the result of it. */
export async function finishProfile(
  job: ProfileJob,
  measured: MeasuredProfile,
  host: Host,
  watch: Watch,
  signal: CancelSignal,
): Promise<ProfileResult> {
  const { stored, rounds, ...times } = measured;
  const notes = [...measured.notes];
  const skipped = job.options.verify === false;
  if (skipped) notes.push('The results were not verified, as asked.');
  const verification = skipped
    ? { ok: false, outputs: [], kernels: [] }
    : await verify(job, stored, host, watch, signal);
  return {
    ...times,
    speedup: measured.fused.wallUs > 0 ? measured.unfused.wallUs / measured.fused.wallUs : 1,
    verification,
    iterations: rounds,
    notes,
  };
}
