/** What a contestant must be able to do, and what several of them need for it. */
import type { Contents, Signature, Workload } from '../workloads';

export interface Contestant {
  /** Name, version and build, for people. The device is asked for here, or at the first workload. */
  open(gpu: GPU): Promise<string>;
  /** Compiles and uploads; what a library does at its first run it does there. */
  prepare(task: Task): Promise<Prepared>;
}

export interface Task {
  readonly workload: Workload;
  /** Of a model's file. */
  readonly bytes: Uint8Array | undefined;
  readonly signature: Signature;
  readonly contents: Contents;
}

export interface Prepared {
  /** Puts one run on the GPU's queue. Results stay on the GPU. */
  run(): void | Promise<void>;
  /** The outputs of the last run, in the workload's order. */
  outputs(): Promise<readonly ArrayLike<number>[]>;
  release(): void | Promise<void>;
  readonly note?: string;
}

/** Something that a peer has no means for; the table says so. */
export class Unsupported extends Error {}

export function given(contents: Contents, name: string): Float32Array<ArrayBuffer> {
  const data = contents.get(name);
  if (!data) throw new Error(`the workload has no tensor ${name}`);
  return data;
}

const STORAGE = 0x0080 | 0x0004 | 0x0008;
const READ = 0x0001 | 0x0008;
const PIECE = 64 * 2 ** 20;

export function makeBuffer(device: GPUDevice, elements: number): GPUBuffer {
  return device.createBuffer({ size: Math.max(16, Math.ceil(elements / 4) * 16), usage: STORAGE });
}

export function upload(device: GPUDevice, data: Float32Array<ArrayBuffer>): GPUBuffer {
  const buffer = makeBuffer(device, data.length);
  const step = PIECE / 4;
  for (let at = 0; at < data.length; at += step)
    device.queue.writeBuffer(buffer, 4 * at, data.subarray(at, at + step));
  return buffer;
}

export async function readBack(
  device: GPUDevice,
  buffer: GPUBuffer,
  elements: number,
): Promise<Float32Array> {
  const out = new Float32Array(elements);
  const staging = device.createBuffer({ size: Math.min(PIECE, buffer.size), usage: READ });
  for (let at = 0; at < 4 * elements; at += PIECE) {
    const n = Math.min(PIECE, 4 * elements - at);
    const encoder = device.createCommandEncoder();
    encoder.copyBufferToBuffer(buffer, at, staging, 0, n);
    device.queue.submit([encoder.finish()]);
    await staging.mapAsync(1, 0, n);
    out.set(new Float32Array(staging.getMappedRange(0, n)), at / 4);
    staging.unmap();
  }
  staging.destroy();
  return out;
}
