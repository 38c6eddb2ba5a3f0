/**
 * Timing of loaded plans: by the GPU's timestamps, one compute pass a dispatch, or by wall time where
 * the adapter has none. Times are microseconds.
 *
 * A coarse clock (browsers round to about 100 µs) is met by repeating each dispatch inside its pass
 * until the clock's step is under 1 % of what is measured.
 */
import { MAP_READ, USAGE, type Device, type Host, type Watch } from './device';
import { throwIfCancelled } from './faults';
import { encodeDispatch, type LoadedPlan } from './loaded';
import { quantumOf } from './statistics';
import { encodeReplay } from './trace';
import type { CancelSignal } from './types';

/** WebGPU's limit on a query set, in pairs. */
const PAIRS = 2048;
/** What a repeated dispatch should take: this many steps of the clock. */
const STEPS = 100;
/** Without timestamps: long enough for the cost of a submit to vanish. */
const WALL_TARGET_US = 5000;
const MAX_REPEATS = 4096;
const MAX_TRIES = 8;
/** One repeated measurement never takes longer than this because of repeats. */
const MAX_REPEATED_US = 500_000;

interface Queries {
  readonly set: GPUQuerySet;
  readonly resolve: GPUBuffer;
  readonly read: GPUBuffer;
}

export class Clock {
  private readonly queries: Queries[] = [];
  /** Timestamps kept to find the clock's step. */
  private readings: bigint[] | undefined;

  constructor(
    private readonly device: Device,
    private readonly host: Host,
    private readonly watch: Watch,
    private readonly signal: CancelSignal,
    /** Step of the timestamps, µs; 0 where there are none. */
    public quantumUs = 0,
  ) {}

  get timestamps(): boolean {
    return this.device.timestamps;
  }

  /** Time of each dispatch; `repeats` says how often each runs in a row. */
  async dispatches(loaded: LoadedPlan, repeats: readonly number[]): Promise<number[]> {
    return this.timestamps
      ? this.passes(
          loaded.dispatches.map((d, i) => (pass) => {
            for (let k = 0; k < (repeats[i] ?? 1); k++) encodeDispatch(pass, d);
          }),
          repeats,
        )
      : this.walls(loaded, repeats);
  }

  /**
   * Time of the whole plan in one submit: in one pass, or with branches and loops as they went when it
   * was traced.
   */
  async whole(loaded: LoadedPlan, repeats: number): Promise<number> {
    const { replay } = loaded;
    if (replay) {
      const run = (encoder: GPUCommandEncoder): void => {
        for (let k = 0; k < repeats; k++) encodeReplay(encoder, replay, loaded, encodeDispatch);
      };
      const us = this.timestamps ? await this.between(run) : await this.wallOf(run);
      return us / repeats;
    }
    const all = (pass: GPUComputePassEncoder): void => {
      for (let k = 0; k < repeats; k++) for (const d of loaded.dispatches) encodeDispatch(pass, d);
    };
    if (this.timestamps) {
      const [t] = await this.passes([all], [repeats]);
      return t ?? 0;
    }
    return (await this.wall(all)) / repeats;
  }

  /** Measures the step of the timestamps, on empty passes. */
  async findStep(): Promise<void> {
    if (!this.timestamps) return;
    this.readings = [];
    const empty = new Array<() => void>(16).fill(() => undefined);
    // A coarse clock may show the same time throughout a submit.
    for (let i = 0; i < 32 && new Set(this.readings).size < 8; i++) await this.passes(empty, []);
    this.quantumUs = Number(quantumOf(this.readings)) / 1000;
    this.readings = undefined;
  }

  /**
   * How often to repeat each dispatch, found by trying, and the times of the last try. `measure`
   * gives the time of one run of each at given repeats.
   */
  async repeatsFor(
    count: number,
    measure: (repeats: readonly number[]) => Promise<readonly number[]>,
  ): Promise<{ repeats: readonly number[]; times: readonly number[] }> {
    let repeats = new Array<number>(count).fill(1);
    let times: readonly number[] = [];
    for (let round = 0; ; round++) {
      throwIfCancelled(this.signal);
      times = await measure(repeats);
      const target = this.timestamps ? STEPS * this.quantumUs : WALL_TARGET_US;
      let grew = false;
      const more = repeats.map((r, i) => {
        const total = (times[i] ?? 0) * r;
        if (total >= target || r >= MAX_REPEATS) return r;
        const wanted = total > 0 ? Math.ceil((r * target) / total) : r * 16;
        const affordable = total > 0 ? Math.floor((r * MAX_REPEATED_US) / total) : MAX_REPEATS;
        const next = Math.max(r, Math.min(wanted, r * 16, MAX_REPEATS, affordable));
        grew ||= next > r;
        return next;
      });
      if (!grew || round === MAX_TRIES) return { repeats, times };
      repeats = more;
    }
  }

  dispose(): void {
    for (const q of this.queries) {
      q.set.destroy();
      q.resolve.destroy();
      q.read.destroy();
    }
  }

  // -------------------------------------------------------------------------------------------

  private async passes(
    work: readonly ((pass: GPUComputePassEncoder) => void)[],
    repeats: readonly number[],
  ): Promise<number[]> {
    const { gpu } = this.device;
    const encoder = gpu.createCommandEncoder();
    const chunks: { queries: Queries; pairs: number }[] = [];
    for (let start = 0; start < work.length; start += PAIRS) {
      const queries = this.queriesAt(chunks.length);
      const part = work.slice(start, start + PAIRS);
      part.forEach((encode, i) => {
        const pass = encoder.beginComputePass({
          timestampWrites: {
            querySet: queries.set,
            beginningOfPassWriteIndex: 2 * i,
            endOfPassWriteIndex: 2 * i + 1,
          },
        });
        encode(pass);
        pass.end();
      });
      encoder.resolveQuerySet(queries.set, 0, 2 * part.length, queries.resolve, 0);
      encoder.copyBufferToBuffer(queries.resolve, 0, queries.read, 0, 16 * part.length);
      chunks.push({ queries, pairs: part.length });
    }
    gpu.queue.submit([encoder.finish()]);
    const times: number[] = [];
    for (const { queries, pairs } of chunks) {
      const stamps = await this.stamps(queries, pairs);
      this.readings?.push(...stamps);
      for (let i = 0; i < pairs; i++) {
        const ns = Number((stamps[2 * i + 1] ?? 0n) - (stamps[2 * i] ?? 0n));
        // A clock that was reset in between gives nonsense.
        times.push(Math.max(0, ns) / 1000 / (repeats[times.length] ?? 1));
      }
    }
    return times;
  }

  /** Time from an empty pass before some work to one after it. */
  private async between(work: (encoder: GPUCommandEncoder) => void): Promise<number> {
    const encoder = this.device.gpu.createCommandEncoder();
    const queries = this.queriesAt(0);
    const stamp = (beginningOfPassWriteIndex: number, endOfPassWriteIndex: number): void => {
      const at = { beginningOfPassWriteIndex, endOfPassWriteIndex };
      encoder.beginComputePass({ timestampWrites: { querySet: queries.set, ...at } }).end();
    };
    stamp(0, 1);
    work(encoder);
    stamp(2, 3);
    encoder.resolveQuerySet(queries.set, 0, 4, queries.resolve, 0);
    encoder.copyBufferToBuffer(queries.resolve, 0, queries.read, 0, 32);
    this.device.gpu.queue.submit([encoder.finish()]);
    const [, start = 0n, end = 0n] = await this.stamps(queries, 2);
    return Math.max(0, Number(end - start)) / 1000;
  }

  private async stamps({ read }: Queries, pairs: number): Promise<BigUint64Array> {
    await this.device.guard(read.mapAsync(MAP_READ, 0, 16 * pairs));
    const stamps = new BigUint64Array(read.getMappedRange(0, 16 * pairs).slice(0));
    read.unmap();
    return stamps;
  }

  private queriesAt(i: number): Queries {
    const old = this.queries[i];
    if (old) return old;
    const { gpu } = this.device;
    const made: Queries = {
      set: gpu.createQuerySet({ type: 'timestamp', count: 2 * PAIRS }),
      resolve: gpu.createBuffer({
        size: 16 * PAIRS,
        usage: USAGE.queryResolve | USAGE.copySrc,
      }),
      read: gpu.createBuffer({ size: 16 * PAIRS, usage: USAGE.mapRead | USAGE.copyDst }),
    };
    this.queries.push(made);
    return made;
  }

  private async walls(loaded: LoadedPlan, repeats: readonly number[]): Promise<number[]> {
    const times: number[] = [];
    for (const [i, d] of loaded.dispatches.entries()) {
      const n = repeats[i] ?? 1;
      const us = await this.wall((pass) => {
        for (let k = 0; k < n; k++) encodeDispatch(pass, d);
      });
      times.push(us / n);
      this.watch.working(d.spec.kernel, us / 1000);
    }
    return times;
  }

  private async wall(encode: (pass: GPUComputePassEncoder) => void): Promise<number> {
    return this.wallOf((encoder) => {
      const pass = encoder.beginComputePass();
      encode(pass);
      pass.end();
    });
  }

  private async wallOf(encode: (encoder: GPUCommandEncoder) => void): Promise<number> {
    const { gpu } = this.device;
    const encoder = gpu.createCommandEncoder();
    encode(encoder);
    const commands = encoder.finish();
    const start = this.host.now();
    gpu.queue.submit([commands]);
    await this.device.guard(gpu.queue.onSubmittedWorkDone());
    return (this.host.now() - start) * 1000;
  }
}
