/**
 * A plan on the GPU: its buffers allocated and filled, its bind groups made, ready to be encoded as
 * often as wanted.
 */
import type { BufferSpec, DispatchSpec, ExecPlan } from '../../compiler/result';
import { writtenBySteps } from './control';
import { USAGE, type Device } from './device';
import { fail, Faulted } from './faults';
import { everyDispatch, slotOf, writtenBuffers, type BufferPool } from './memory';
import type { PipelineCache } from './pipelines';
import type { StorageArray } from './storage';
import { numbersWritten, type Replay, type Trace } from './trace';

export interface LoadedDispatch {
  readonly spec: DispatchSpec;
  readonly pipeline: GPUComputePipeline;
  readonly bindGroup: GPUBindGroup;
}

export interface LoadedPlan {
  readonly plan: ExecPlan;
  /** What is to run once, before all else. */
  readonly preparing: readonly LoadedDispatch[];
  readonly dispatches: readonly LoadedDispatch[];
  buffer(id: string): GPUBuffer;
  /** Of a plan with branches and loops: the run that is timed. */
  readonly replay?: Replay;
}

/** The buffers of a job's plans, by slot, and those that intermediates take in turn. */
export class JobMemory {
  private readonly slots = new Map<string, GPUBuffer>();
  private readonly arena: { readonly bytes: number; readonly buffer: GPUBuffer }[] = [];
  private readonly uniforms: GPUBuffer[] = [];

  constructor(
    private readonly device: Device,
    private readonly pool: BufferPool,
    private readonly values: ReadonlySet<string>,
  ) {}

  /**
   * Allocates what the plan needs and isn't there yet. `contents` gives the elements of a buffer that
   * no kernel writes.
   */
  async load(
    name: string,
    plan: ExecPlan,
    pipelines: PipelineCache,
    contents: (spec: BufferSpec) => Promise<StorageArray>,
  ): Promise<LoadedPlan> {
    const written = new Set([
      ...writtenBuffers(plan).map((w) => w.spec.id),
      ...writtenBySteps(plan.steps ?? []),
    ]);
    const sizes = new Map(plan.buffers.map((b) => [b.id, b.bytes]));
    const byId = new Map<string, GPUBuffer>();
    const fresh = new Map<string, BufferSpec>();
    const places = await this.places(plan);
    for (const spec of plan.buffers) {
      if (spec.place !== undefined) continue;
      const slot = slotOf(spec, this.values, name);
      if (!this.slots.has(slot) && !fresh.has(slot)) fresh.set(slot, spec);
    }
    const made = await this.pool.takeAll([...fresh.values()]);
    [...fresh.keys()].forEach((slot, i) => {
      const b = made[i];
      if (b) this.slots.set(slot, b);
    });
    for (const spec of plan.buffers) {
      const shared = spec.place === undefined ? undefined : places.get(spec.place);
      if (shared) {
        byId.set(spec.id, shared);
        continue;
      }
      const slot = slotOf(spec, this.values, name);
      const own = this.slots.get(slot);
      if (!own) throw new Error(`the buffer ${spec.id} was not made`);
      if (fresh.get(slot) === spec && (!written.has(spec.id) || spec.data))
        await this.upload(own, spec, contents);
      byId.set(spec.id, own);
    }
    const buffer = (id: string): GPUBuffer => {
      const b = byId.get(id);
      if (!b) throw new Error(`there is no buffer ${id} in the plan`);
      return b;
    };
    const bind = (spec: DispatchSpec): LoadedDispatch => this.bind(spec, pipelines, buffer, sizes);
    const all = everyDispatch(plan);
    let bound: LoadedDispatch[];
    try {
      bound = await this.device.scoped(undefined, () => all.map(bind));
    } catch (e) {
      if (!(e instanceof Faulted) || e.fault.code !== 'VALIDATION') throw e;
      // One by one, to name the kernel.
      for (const d of all) await this.device.scoped(d.kernel, () => bind(d));
      throw e;
    }
    const first = plan.prepare?.length ?? 0;
    return { plan, preparing: bound.slice(0, first), dispatches: bound.slice(first), buffer };
  }

  /** The trace of a run, ready to be encoded. */
  replayOf(trace: Trace): Replay {
    const words = numbersWritten(trace);
    const offsetOf = new Map([...words].map((n, i) => [n, 4 * i]));
    if (words.length === 0) return { trace, numbers: undefined, offsetOf };
    const { gpu } = this.device;
    const usage = USAGE.copySrc | USAGE.copyDst;
    const numbers = gpu.createBuffer({ label: 'numbers', size: words.byteLength, usage });
    gpu.queue.writeBuffer(numbers, 0, words);
    this.uniforms.push(numbers);
    return { trace, numbers, offsetOf };
  }

  /** A buffer for each place of the plan: what earlier plans of the job left, where large enough. */
  private async places(plan: ExecPlan): Promise<Map<number, GPUBuffer>> {
    const largest = new Map<number, BufferSpec>();
    for (const spec of plan.buffers) {
      if (spec.place === undefined) continue;
      const most = largest.get(spec.place);
      if (!most || spec.bytes > most.bytes) largest.set(spec.place, spec);
    }
    const bySize = [...largest].sort(([, a], [, b]) => b.bytes - a.bytes);
    const left = [...this.arena].sort((a, b) => a.bytes - b.bytes);
    const out = new Map<number, GPUBuffer>();
    const fresh: [number, BufferSpec][] = [];
    for (const [place, spec] of bySize) {
      const at = left.findIndex((a) => a.bytes >= spec.bytes);
      const [found] = at < 0 ? [] : left.splice(at, 1);
      if (found) out.set(place, found.buffer);
      else fresh.push([place, spec]);
    }
    const made = await this.pool.takeAll(fresh.map(([, spec]) => spec));
    fresh.forEach(([place, spec], i) => {
      const buffer = made[i];
      if (!buffer) throw new Error(`place ${place} was not made`);
      this.arena.push({ bytes: spec.bytes, buffer });
      out.set(place, buffer);
    });
    return out;
  }

  release(): void {
    for (const b of this.slots.values()) this.pool.give(b);
    for (const { buffer } of this.arena) this.pool.give(buffer);
    this.arena.length = 0;
    for (const b of this.uniforms) b.destroy();
    this.slots.clear();
  }

  private async upload(
    buffer: GPUBuffer,
    spec: BufferSpec,
    contents: (spec: BufferSpec) => Promise<StorageArray>,
  ): Promise<void> {
    const data = await contents(spec);
    if (data.length !== spec.elements)
      fail('BAD_INPUT', `${spec.name} has ${data.length} elements instead of ${spec.elements}.`);
    const { queue } = this.device.gpu;
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    // A view on shared memory is refused, and a length must be a multiple of four.
    const whole = bytes.byteLength - (bytes.byteLength % 4);
    const { buffer: memory } = bytes;
    const PIECE = 64 * 2 ** 20;
    for (let at = 0; at < whole; at += PIECE) {
      const length = Math.min(whole, at + PIECE) - at;
      const piece =
        memory instanceof ArrayBuffer
          ? new Uint8Array(memory, bytes.byteOffset + at, length)
          : new Uint8Array(bytes.subarray(at, at + length));
      queue.writeBuffer(buffer, at, piece);
    }
    if (whole < bytes.byteLength) {
      const tail = new Uint8Array(4);
      tail.set(bytes.subarray(whole));
      queue.writeBuffer(buffer, whole, tail);
    }
  }

  private bind(
    spec: DispatchSpec,
    pipelines: PipelineCache,
    buffer: (id: string) => GPUBuffer,
    sizes: ReadonlyMap<string, number>,
  ): LoadedDispatch {
    const { gpu } = this.device;
    const { pipeline, layout } = pipelines.get(spec);
    const entries: GPUBindGroupEntry[] = spec.bindings.map((b, binding) => ({
      binding,
      // The pool's buffers may be larger: kernels that ask for an array's length need the exact one.
      resource: {
        buffer: buffer(b.buffer),
        offset: b.window?.offset ?? 0,
        size: b.window?.bytes ?? sizes.get(b.buffer) ?? 4,
      },
    }));
    if (spec.uniforms.length > 0) {
      const size = Math.ceil(spec.uniforms.length / 4) * 16;
      const words = new Uint32Array(size / 4);
      spec.uniforms.forEach((u, i) => (words[i] = u));
      const uniform = gpu.createBuffer({
        label: `${spec.label} uniforms`,
        size,
        usage: USAGE.uniform | USAGE.copyDst,
      });
      gpu.queue.writeBuffer(uniform, 0, words);
      this.uniforms.push(uniform);
      entries.push({ binding: spec.bindings.length, resource: { buffer: uniform } });
    }
    return { spec, pipeline, bindGroup: gpu.createBindGroup({ layout, entries }) };
  }
}

export function encodeDispatch(pass: GPUComputePassEncoder, d: LoadedDispatch): void {
  const [x, y, z] = d.spec.workgroups;
  pass.setPipeline(d.pipeline);
  pass.setBindGroup(0, d.bindGroup);
  if (x > 0 && y > 0 && z > 0) pass.dispatchWorkgroups(x, y, z);
}
