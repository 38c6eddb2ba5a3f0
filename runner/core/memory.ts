/**
 * GPU memory: sizes checked before anything is allocated, buffers pooled between jobs (a fresh buffer
 * must be zeroed, which costs several times a kernel on a software adapter), and one buffer for each
 * L1 value, shared by the plans of a job.
 *
 * Vocabulary
 *  - *slot*: what a buffer of a plan stands for: its L1 value, or the buffer itself for scratch.
 *  - *place*: what intermediates of a plan share that are never live together. Plans run in turn, so
 *    the places of one serve the next too.
 *  - *poison*: a bit pattern written to every result before a run; found afterwards, it tells of
 *    elements that no kernel wrote.
 */
import type { Storage } from '../../compiler/graph/dtype';
import type { BufferSpec, DispatchSpec, ExecPlan, Share } from '../../compiler/result';
import { placesOf } from '../../compiler/schedule/shares';
import { USAGE, type Device, MAP_READ } from './device';
import { bytesText, fail, Faulted } from './faults';
import { storageArray, viewStorage, type StorageArray } from './storage';
import type { RunnerFault } from './types';

const STORAGE_USAGE = USAGE.storage | USAGE.copySrc | USAGE.copyDst;
/** Idle buffers kept for the next job. */
const POOL_BYTES = 512 * 2 ** 20;
const STAGING_BYTES = 32 * 2 ** 20;
const POISON_BYTES = 4 * 2 ** 20;
/** Word patterns: quiet NaNs with an unlikely payload, an unlikely integer. */
const POISON: Record<Storage, number> = {
  f32: 0x7fedbeef,
  f16: 0x7fab7fab,
  i32: 0x5ee7a55e,
  u32: 0x5ee7a55e,
};

/** Faults with TOO_LARGE when a buffer or a grid exceeds the adapter's limits. */
export function checkSizes(device: Device, plan: ExecPlan): void {
  const { limits } = device;
  const refuse = (what: string, kernel: string | undefined): never =>
    fail('TOO_LARGE', what, {
      kernel,
      advice: 'Profile with smaller sizes (--dim, or the `dim` lines of the file).',
    });
  const byId = new Map(plan.buffers.map((b) => [b.id, b]));
  const tooLarge = (
    b: BufferSpec,
    what: string,
    limit: 'maxBufferSize' | 'maxStorageBufferBindingSize',
    kernel: string | undefined,
  ): never =>
    refuse(
      `${b.name} [${b.shape.join(', ')}] ${what}; the adapter’s ${limit} is ${bytesText(limits[limit])}.`,
      kernel,
    );
  for (const b of plan.buffers) {
    if (b.bytes <= limits.maxBufferSize) continue;
    const kernel = everyDispatch(plan).find((d) =>
      d.bindings.some((x) => x.buffer === b.id),
    )?.kernel;
    tooLarge(b, `needs ${bytesText(b.bytes)}`, 'maxBufferSize', kernel);
  }
  for (const d of everyDispatch(plan)) {
    for (const { buffer, window } of d.bindings) {
      const b = byId.get(buffer);
      if (!b) fail('INTERNAL', `${d.kernel} binds ${buffer}, which isn’t in the plan`);
      const bytes = window?.bytes ?? b.bytes;
      if (bytes > limits.maxStorageBufferBindingSize)
        tooLarge(
          b,
          `would be bound with ${bytesText(bytes)} at once`,
          'maxStorageBufferBindingSize',
          d.kernel,
        );
    }
    if (d.bindings.length > limits.maxStorageBuffersPerShaderStage)
      refuse(
        `${d.label} binds ${d.bindings.length} buffers; the adapter’s maxStorageBuffersPerShaderStage is ${limits.maxStorageBuffersPerShaderStage}.`,
        d.kernel,
      );
    const most = Math.max(...d.workgroups);
    if (most > limits.maxComputeWorkgroupsPerDimension)
      refuse(
        `${d.label} needs ${most} workgroups in one dimension; the adapter’s maxComputeWorkgroupsPerDimension is ${limits.maxComputeWorkgroupsPerDimension}.`,
        d.kernel,
      );
  }
}

export class BufferPool {
  private readonly idle = new Map<number, GPUBuffer[]>();
  private idleBytes = 0;
  private staging: GPUBuffer | undefined;
  private readonly poisons = new Map<number, GPUBuffer>();

  constructor(private readonly device: Device) {}

  /**
   * A buffer for each spec. New ones are created together, since waiting for the GPU's answer to each
   * would take longer than making them.
   */
  async takeAll(specs: readonly BufferSpec[]): Promise<GPUBuffer[]> {
    const made = specs.map((spec) => this.take(spec));
    const fates = await this.device.guard(Promise.all(made.map((m) => m.fault)));
    const short = fates.some((fault) => fault?.code === 'OUT_OF_MEMORY');
    // Perhaps what earlier jobs left idle is in the way.
    if (short && this.idleBytes > 0) this.drain();
    const buffers: GPUBuffer[] = [];
    for (const [i, m] of made.entries()) {
      let fault = fates[i];
      let { buffer } = m;
      const spec = specs[i];
      if (fault && short && spec) {
        const again = this.take(spec);
        fault = await this.device.guard(again.fault);
        ({ buffer } = again);
      }
      if (fault) {
        for (const b of buffers) b.destroy();
        throw new Faulted(fault);
      }
      buffers.push(buffer);
    }
    return buffers;
  }

  private take(spec: BufferSpec): { buffer: GPUBuffer; fault: Promise<RunnerFault | undefined> } {
    const size = roundUp(spec.bytes);
    const old = this.idle.get(size)?.pop();
    if (old) {
      this.idleBytes -= size;
      return { buffer: old, fault: Promise.resolve(undefined) };
    }
    const { gpu } = this.device;
    gpu.pushErrorScope('out-of-memory');
    gpu.pushErrorScope('validation');
    const buffer = gpu.createBuffer({ label: spec.name, size, usage: STORAGE_USAGE });
    const errors = Promise.all([gpu.popErrorScope(), gpu.popErrorScope()]);
    return {
      buffer,
      fault: errors.then(([invalid, memory]) => creationFault(spec, invalid, memory)),
    };
  }

  private drain(): void {
    for (const list of this.idle.values()) for (const b of list) b.destroy();
    this.idle.clear();
    this.idleBytes = 0;
  }

  give(buffer: GPUBuffer): void {
    if (this.idleBytes + buffer.size > POOL_BYTES) {
      buffer.destroy();
      return;
    }
    this.idleBytes += buffer.size;
    const list = this.idle.get(buffer.size);
    if (list) list.push(buffer);
    else this.idle.set(buffer.size, [buffer]);
  }

  /** Fills the buffer with the poison of its storage type. */
  poison(encoder: GPUCommandEncoder, buffer: GPUBuffer, spec: BufferSpec): void {
    const word = POISON[spec.storage];
    let source = this.poisons.get(word);
    if (!source) {
      source = this.device.gpu.createBuffer({
        label: 'poison',
        size: POISON_BYTES,
        usage: USAGE.copySrc | USAGE.copyDst,
      });
      this.device.gpu.queue.writeBuffer(source, 0, new Uint32Array(POISON_BYTES / 4).fill(word));
      this.poisons.set(word, source);
    }
    for (let at = 0; at < spec.bytes; at += POISON_BYTES)
      encoder.copyBufferToBuffer(source, 0, buffer, at, Math.min(POISON_BYTES, spec.bytes - at));
  }

  /** The elements of a buffer, read back in pieces. */
  async read(buffer: GPUBuffer, spec: BufferSpec): Promise<StorageArray> {
    const { gpu } = this.device;
    this.staging ??= gpu.createBuffer({
      label: 'staging',
      size: STAGING_BYTES,
      usage: USAGE.mapRead | USAGE.copyDst,
    });
    const { staging } = this;
    const bytes = new Uint8Array(new ArrayBuffer(spec.bytes));
    for (let at = 0; at < spec.bytes; at += STAGING_BYTES) {
      const n = Math.min(STAGING_BYTES, spec.bytes - at);
      const encoder = gpu.createCommandEncoder();
      encoder.copyBufferToBuffer(buffer, at, staging, 0, n);
      gpu.queue.submit([encoder.finish()]);
      await this.device.guard(staging.mapAsync(MAP_READ, 0, n));
      bytes.set(new Uint8Array(staging.getMappedRange(0, n)), at);
      staging.unmap();
    }
    return viewStorage(spec.storage, bytes.buffer, spec.elements);
  }
}

function creationFault(
  spec: BufferSpec,
  invalid: GPUError | null,
  memory: GPUError | null,
): RunnerFault | undefined {
  const error = memory ?? invalid;
  if (!error) return undefined;
  return {
    code: memory ? 'OUT_OF_MEMORY' : 'VALIDATION',
    message: `${spec.name} [${spec.shape.join(', ')}], ${bytesText(spec.bytes)}, could not be allocated: ${error.message}`,
    advice: 'Profile with smaller sizes, or close other programs that use the GPU.',
  };
}

/** To a power of two up to 1 MiB, then to whole MiB: few sizes, so that buffers are found again. */
function roundUp(bytes: number): number {
  const mib = 2 ** 20;
  if (bytes >= mib) return bytes;
  return Math.max(256, 2 ** Math.ceil(Math.log2(bytes)));
}

/** Whether an element still holds the poison; the index of the first that does. */
export function findPoison(data: StorageArray, storage: Storage): number | undefined {
  const word = POISON[storage];
  if (data instanceof Uint16Array) {
    const half = word & 0xffff;
    const at = data.indexOf(half);
    return at < 0 ? undefined : at;
  }
  const at = new Uint32Array(data.buffer, data.byteOffset, data.length).indexOf(word);
  return at < 0 ? undefined : at;
}

/** What is stored by itself inside a buffer that holds more, with the kernel that stores it. */
export function writtenShares(
  plan: ExecPlan,
): { readonly buffer: string; readonly share: Share; readonly kernel: string }[] {
  // Chunks of a kernel, and pieces of a buffer, store one share together.
  return everyDispatch(plan).flatMap((d) =>
    d.bindings.flatMap(({ buffer, shares }, i) =>
      (d.chunk?.index ?? 0) > 0 || d.bindings.findIndex((b) => b.buffer === buffer) < i
        ? []
        : (shares?.writes ?? []).flatMap((share) =>
            share.steps.length > 0 ? [{ buffer, share, kernel: d.kernel }] : [],
          ),
    ),
  );
}

/** The elements of a share, out of those of the buffer that it lies in: bit for bit. */
export function gather(data: StorageArray, share: Share, storage: Storage): StorageArray {
  const out = storageArray(storage, share.elements);
  // As numbers, NaNs might lose what tells one from another.
  const words = (x: StorageArray): Uint16Array | Uint32Array =>
    x instanceof Uint16Array ? x : new Uint32Array(x.buffer, x.byteOffset, x.length);
  const from = words(data);
  const to = words(out);
  placesOf(share, (place, i) => {
    to[i] = from[place] ?? 0;
  });
  return out;
}

/** What a buffer stands for: equal slots of two plans are one buffer. */
export function slotOf(spec: BufferSpec, values: ReadonlySet<string>, plan: string): string {
  const value = spec.value ?? (values.has(spec.id) ? spec.id : undefined);
  return value === undefined || spec.role === 'scratch'
    ? `${plan}/${spec.id}`
    : `${value} ${spec.storage} ${spec.bytes}`;
}

/** What runs at load, then what runs each time. */
export function everyDispatch(plan: ExecPlan): readonly DispatchSpec[] {
  return plan.prepare ? [...plan.prepare, ...plan.dispatches] : plan.dispatches;
}

/** By dispatch (of {@link everyDispatch}): the buffers that it is the first to write, and those that none after it writes. */
export function writesByDispatch(
  plan: ExecPlan,
): { readonly first: readonly BufferSpec[]; readonly last: readonly BufferSpec[] }[] {
  const byId = new Map(plan.buffers.map((b) => [b.id, b]));
  const dispatches = everyDispatch(plan);
  const out = dispatches.map(() => ({ first: [] as BufferSpec[], last: [] as BufferSpec[] }));
  const started = new Set<string>();
  const lastAt = new Map<string, number>();
  dispatches.forEach((d, i) => {
    for (const { buffer, access } of d.bindings) {
      if (access !== 'read_write') continue;
      const spec = byId.get(buffer);
      if (spec && !started.has(buffer)) out[i]?.first.push(spec);
      started.add(buffer);
      lastAt.set(buffer, i);
    }
  });
  for (const [buffer, i] of lastAt) {
    const spec = byId.get(buffer);
    if (spec) out[i]?.last.push(spec);
  }
  return out;
}

/** The buffers that some dispatch writes, with the last kernel that does, in execution order. */
export function writtenBuffers(
  plan: ExecPlan,
): { readonly spec: BufferSpec; readonly kernel: string }[] {
  const byId = new Map(plan.buffers.map((b) => [b.id, b]));
  const last = new Map<string, DispatchSpec>();
  for (const d of everyDispatch(plan))
    for (const b of d.bindings)
      if (b.access === 'read_write') {
        last.delete(b.buffer);
        last.set(b.buffer, d);
      }
  return [...last].flatMap(([id, d]) => {
    const spec = byId.get(id);
    return spec ? [{ spec, kernel: d.kernel }] : [];
  });
}
