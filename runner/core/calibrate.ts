/**
 * Measures the adapter at hand: what the cost model wants to know of it, as a device profile.
 *
 * It goes through a runner's ordinary `profile` jobs, so medians, repeats against a coarse clock, wall
 * times where there are no timestamps, cancelling and the watchdog are the same as everywhere. First
 * come hand-written kernels (microKernels.ts) for one parameter each: an empty dispatch, copies from
 * 64 KiB upwards, multiply-adds in registers, a chain of them with ever more invocations, workgroup
 * memory and barriers. Then kernels that the compiler itself generated (pointwise with transcendental
 * functions, row reductions, softmax, a normalisation, products, a convolution, and two that keep rows
 * in workgroup memory) are timed, and the rate of arithmetic and the price of workgroup memory are
 * fitted so that the model predicts those best (fitProfile.ts).
 *
 * Sizes follow what has been measured so far, so that a data centre's GPU isn't asked for trifles and
 * a CPU not for an hour.
 */
import { compile } from '../../compiler';
import type { AdapterLimits, BufferSpec, DeviceProfile, DispatchSpec } from '../../compiler/result';
import { type Fit, fitProfile, type Measurements, withoutLaunch } from './fitProfile';
import type { CopyTime, ChainTime, GeneratedTime } from './fitProfile';
import {
  CHAIN_FLOPS,
  chainKernel,
  copyKernel,
  emptyKernel,
  fillKernel,
  type MicroKernel,
  microPlan,
  MULTIPLY_ADD_FLOPS,
  multiplyAddKernel,
  SHARED_ACCESSES,
  sharedKernel,
  WORKGROUP,
} from './microKernels';
import type {
  CancelSignal,
  PlanForRun,
  PlanTimes,
  Runner,
  RunnerFault,
  RunnerReply,
} from './types';

export interface Calibration extends Fit {
  readonly measurements: Measurements;
  /** Medians and the half widths of their confidence intervals, µs, by kernel. */
  readonly times: readonly {
    readonly id: string;
    readonly medianUs: number;
    readonly spreadUs: number;
    readonly samples: number;
  }[];
  readonly notes: readonly string[];
}

export interface CalibrationStep {
  readonly step: string;
  readonly done: number;
  readonly total: number;
}

const STEPS = ['launch', 'memory', 'arithmetic', 'saturation', 'workgroup memory', 'kernels'];
type Step = 'launch' | 'memory' | 'arithmetic' | 'saturation' | 'workgroup memory' | 'kernels';

const KIB = 1024;
const SMALL_COPIES = [64 * KIB, 256 * KIB, 1024 * KIB, 4096 * KIB, 16384 * KIB];
const LARGE_COPIES = [65536 * KIB, 262144 * KIB];
/** Larger copies follow only where the largest so far is faster than this. */
const LARGE_IF_UNDER_US = 5000;
/** What a measured kernel should take: long against its dispatch, short against people's patience. */
const TARGET_US = 2000;
const MIN_TRIPS = 16;
const MAX_TRIPS = 65536;
const EMPTIES = 64;
/** Above this rate the generated kernels are made large. */
const FAST_FLOPS_PER_US = 200_000;

/** `base` gives what isn't measured: the limits, and whether it is a CPU. */
export async function calibrate(
  runner: Pick<Runner, 'profile'>,
  base: DeviceProfile,
  onStep: (s: CalibrationStep) => void,
  signal: CancelSignal,
): Promise<RunnerReply<Calibration>> {
  const timer = new Timer(runner, signal);
  try {
    const step = (s: Step): void =>
      onStep({ step: s, done: STEPS.indexOf(s), total: STEPS.length });
    step('launch');
    const launch = await timer.micro(
      Array.from({ length: EMPTIES }, () => emptyKernel('empty')),
      1,
    );
    const launchUs = launch.wallUs / EMPTIES;
    const aloneUs = timer.of('empty') / EMPTIES;
    step('memory');
    const copies = await copyTimes(timer, base.limits);
    step('arithmetic');
    const peakFlopsPerUs = await peakRate(timer, aloneUs);
    step('saturation');
    const chains = await chainTimes(timer, peakFlopsPerUs, base.software);
    step('workgroup memory');
    const shared = await sharedTimes(timer, aloneUs, base.software);
    step('kernels');
    const generated = await generatedTimes(timer, base, peakFlopsPerUs > FAST_FLOPS_PER_US);
    const measurements: Measurements = {
      launchUs,
      aloneUs,
      copies,
      chains,
      peakFlopsPerUs,
      ...shared,
      generated,
    };
    return {
      ok: true,
      value: {
        ...fitProfile(measurements, base),
        measurements,
        times: timer.all(),
        notes: [...timer.notes],
      },
    };
  } catch (e) {
    if (e instanceof Fault) return { ok: false, fault: e.fault };
    throw e;
  }
}

class Fault extends Error {
  constructor(readonly fault: RunnerFault) {
    super(fault.message);
  }
}

/** Times plans and remembers each kernel's time by its id. */
class Timer {
  private readonly times = new Map<string, PlanTimes['kernels'][number]>();
  readonly notes = new Set<string>();

  constructor(
    private readonly runner: Pick<Runner, 'profile'>,
    private readonly signal: CancelSignal,
  ) {}

  micro(kernels: readonly MicroKernel[], seconds: number, large = 0): Promise<PlanTimes> {
    return this.plan(microPlan(kernels, large), seconds);
  }

  async plan(fused: PlanForRun, seconds: number): Promise<PlanTimes> {
    const reply = await this.runner.profile(
      {
        fused,
        // A job is of two plans; this one costs nothing.
        unfused: microPlan([emptyKernel('none')], 0),
        program: {
          values: new Map(),
          computes: [],
          inputs: [],
          outputs: [],
          dims: new Map(),
        },
        options: { seconds, verify: false },
      },
      () => undefined,
      this.signal,
    );
    if (!reply.ok) throw new Fault(reply.fault);
    for (const k of reply.value.fused.kernels) this.times.set(k.id, k);
    for (const n of reply.value.notes) if (!n.includes('verified')) this.notes.add(n);
    return reply.value.fused;
  }

  /** Median, µs. */
  of(id: string): number {
    return Math.max(this.timeOf(id).medianUs, 1e-3);
  }

  spreadOf(id: string): number {
    return this.timeOf(id).spreadUs;
  }

  private timeOf(id: string): PlanTimes['kernels'][number] {
    const t = this.times.get(id);
    if (!t) throw new Error(`the kernel ${id} was not measured`);
    return t;
  }

  all(): Calibration['times'] {
    return [...this.times.values()].map(({ id, medianUs, spreadUs, samples }) => ({
      id,
      medianUs,
      spreadUs,
      samples,
    }));
  }
}

async function copyTimes(timer: Timer, limits: AdapterLimits): Promise<CopyTime[]> {
  const most = Math.min(limits.maxStorageBufferBindingSize, limits.maxBufferSize);
  const fits = (n: number): boolean => n <= most;
  const out: CopyTime[] = [];
  const run = async (sizes: readonly number[], seconds: number): Promise<void> => {
    const largest = Math.max(...sizes);
    await timer.micro([fillKernel(largest), ...sizes.map(copyKernel)], seconds, largest);
    for (const bytes of sizes) out.push({ bytes, us: timer.of(copyKernel(bytes).id) });
  };
  await run(SMALL_COPIES.filter(fits), 1.5);
  for (const bytes of LARGE_COPIES) {
    if (!fits(bytes) || (out.at(-1)?.us ?? Infinity) > LARGE_IF_UNDER_US) break;
    try {
      await run([bytes], 0.5);
    } catch (e) {
      // A GPU with less memory is measured by what it holds.
      if (e instanceof Fault && e.fault.code === 'OUT_OF_MEMORY') break;
      throw e;
    }
  }
  return out;
}

const PEAK_THREADS = 1 << 16;

async function peakRate(timer: Timer, aloneUs: number): Promise<number> {
  let trips = MIN_TRIPS;
  for (;;) {
    const kernel = multiplyAddKernel(PEAK_THREADS, trips);
    await timer.micro([kernel], 0.3);
    const us = timer.of(kernel.id);
    if (us < TARGET_US / 2 && trips < MAX_TRIPS) {
      const factor = Math.min(64, Math.max(2, TARGET_US / us));
      trips = Math.min(MAX_TRIPS, Math.ceil(trips * factor));
      continue;
    }
    return (PEAK_THREADS * trips * MULTIPLY_ADD_FLOPS) / withoutLaunch(us, aloneUs);
  }
}

async function chainTimes(timer: Timer, peak: number, software: boolean): Promise<ChainTime[]> {
  const most = software ? 1 << 14 : 1 << 20;
  const counts: number[] = [];
  for (let threads = WORKGROUP; threads <= most; threads *= 4) counts.push(threads);
  // Scalars do a quarter of what vectors did, where lanes are those of vectors.
  const flops = (threads: number, trips: number): number => threads * trips * CHAIN_FLOPS;
  const trips = (threads: number): number => clampTrips((peak * TARGET_US) / 2 / flops(threads, 1));
  await timer.micro(
    counts.map((n) => chainKernel(n, trips(n))),
    1.5,
  );
  return counts.map((threads) => ({
    threads,
    flops: flops(threads, trips(threads)),
    us: timer.of(`chain ${threads}`),
  }));
}

async function sharedTimes(
  timer: Timer,
  aloneUs: number,
  software: boolean,
): Promise<Pick<Measurements, 'sharedAccessUs' | 'barrierUs'>> {
  const threads = software ? 1 << 10 : 1 << 18;
  const trial = [
    sharedKernel('base', threads, MIN_TRIPS),
    sharedKernel('barrier', threads, MIN_TRIPS),
  ];
  await timer.micro(trial, 0.2);
  const slow = withoutLaunch(timer.of('barrier'), aloneUs);
  const trips = clampTrips((MIN_TRIPS * 2 * TARGET_US) / slow);
  await timer.micro(
    (['base', 'shared', 'barrier'] as const).map((kind) => sharedKernel(kind, threads, trips)),
    1.5,
  );
  const more = (kind: 'shared' | 'barrier'): number =>
    Math.max(0, timer.of(kind) - timer.of('base')) / (threads * trips);
  return { sharedAccessUs: more('shared') / SHARED_ACCESSES, barrierUs: more('barrier') };
}

function clampTrips(n: number): number {
  return Math.round(Math.min(MAX_TRIPS, Math.max(MIN_TRIPS, n)));
}

// ---------------------------------------------------------------------------------------------
// Generated kernels

interface Sample {
  readonly name: string;
  readonly text: string;
  /** One kernel only where workgroup memory is cheap: compiled as if it were. */
  readonly shared?: boolean;
}

/** Each compiles to one kernel, of a kind of work. `n` is even. */
function samples(n: number): Sample[] {
  const square = `input x: f32[${n}, ${n}]\n`;
  return [
    { name: 'pointwise', text: `${square}y = tanh(exp(x) * 0.1) + sin(x) * sigmoid(x)\noutput y` },
    { name: 'gelu', text: `${square}param b: f32[${n}]\ny = gelu(x + b)\noutput y` },
    { name: 'row sum', text: `${square}y = sum(x * x, axis=-1)\noutput y` },
    { name: 'softmax', text: `${square}y = softmax(x, axis=-1)\noutput y` },
    {
      name: 'layer norm',
      text: `${square}param g: f32[${n}]\nparam b: f32[${n}]\ny = layer_norm(x, g, b, axis=-1)\noutput y`,
    },
    {
      name: 'product',
      text: `${square}param w: f32[${n}, ${n}]\nparam b: f32[${n}]\ny = relu(x @ w + b)\noutput y`,
    },
    {
      name: 'batched product',
      text: `input x: f32[4, ${n / 2}, 64]\ninput z: f32[4, ${n / 2}, 64]\ny = x @ transpose(z, -1, -2)\noutput y`,
    },
    {
      name: 'convolution',
      text: `input x: f32[1, 32, ${n / 8}, ${n / 8}]\nparam w: f32[32, 32, 3, 3]\ny = conv2d(x, w, padding=1)\noutput y`,
    },
    {
      name: 'norm into product',
      text: `input x: f32[${n / 2}, ${n}]\nparam g: f32[${n}]\nparam b: f32[${n}]\nparam w: f32[${n}, ${n}]\ny = layer_norm(x, g, b, axis=-1) @ w\noutput y`,
      shared: true,
    },
    {
      name: 'attention',
      text: `input q: f32[2, ${n / 2}, 64]\ninput k: f32[2, ${n / 2}, 64]\ninput v: f32[2, ${n / 2}, 64]\ny = softmax(q @ transpose(k, -1, -2), axis=-1) @ v\noutput y`,
      shared: true,
    },
  ];
}

async function generatedTimes(
  timer: Timer,
  base: DeviceProfile,
  fast: boolean,
): Promise<GeneratedTime[]> {
  const dispatches: DispatchSpec[] = [];
  const prepare: DispatchSpec[] = [];
  const buffers: BufferSpec[] = [];
  const kernels: PlanForRun['kernels'][number][] = [];
  const known: { id: string; label: string; kernel: GeneratedTime['kernel'] }[] = [];
  const cheap = { ...base, sharedAccessWork: 0.25, barrierWork: 1 };
  for (const { name, text, shared } of samples(fast ? 1024 : 256)) {
    const c = compile(
      { file: `${name}.fuse`, bytes: Uint8Array.from(text, (c) => c.charCodeAt(0)) },
      { device: shared ? cheap : base },
    );
    const broken = c.result.diagnostics.find((d) => d.severity === 'error');
    if (broken) throw new Error(`${name}: ${broken.message}`);
    const exec = c.execPlan('fused');
    const own = (id: string): string => `${name}:${id}`;
    for (const b of exec.buffers) {
      // Nothing of these is read back.
      const role = b.role === 'output' || b.role === 'intermediate' ? 'scratch' : b.role;
      buffers.push({ ...b, id: own(b.id), value: own(b.value ?? b.id), role });
    }
    const named = (d: DispatchSpec): DispatchSpec => ({
      ...d,
      kernel: own(d.kernel),
      bindings: d.bindings.map((b) => ({ ...b, buffer: own(b.buffer) })),
    });
    prepare.push(...(exec.prepare ?? []).map(named));
    dispatches.push(...exec.dispatches.map(named));
    for (const k of c.result.after.kernels) {
      if (!k.counts) continue;
      const { id, hash, label, flops, estimatedUs, counts, bytesRead, bytesWritten } = k;
      kernels.push({
        id: own(id),
        hash,
        nodes: [],
        bytes: bytesRead + bytesWritten,
        flops,
        estimatedUs,
      });
      known.push({ id: own(id), label, kernel: { bytesRead, bytesWritten, flops, counts } });
    }
  }
  await timer.plan({ exec: { buffers, prepare, dispatches, outputs: [] }, kernels }, 3);
  return known.map(({ id, label, kernel }) => ({
    label,
    kernel,
    us: timer.of(id),
    spreadUs: timer.spreadOf(id),
  }));
}
