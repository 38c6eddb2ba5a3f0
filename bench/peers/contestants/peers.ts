/**
 * The peers' modules, loaded from the bench's own node_modules (../load.mjs). Only what is used of
 * them is typed here: the packages need not be installed for the rest of the project to be checked.
 */
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { root } from '../../../scripts/root.mjs';

// onnxruntime-web ------------------------------------------------------------------------------

export interface OrtTensor {
  dispose(): void;
}

export interface OrtSession {
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  run(feeds: Record<string, OrtTensor>, fetches: Record<string, OrtTensor>): Promise<unknown>;
  release(): Promise<void>;
}

export interface Ort {
  readonly env: {
    logLevel: string;
    readonly webgpu: { readonly device: GPUDevice | Promise<GPUDevice> };
  };
  readonly InferenceSession: {
    create(bytes: Uint8Array, options: Record<string, unknown>): Promise<OrtSession>;
  };
  readonly Tensor: {
    fromGpuBuffer(
      buffer: GPUBuffer,
      options: { dataType: 'float32'; dims: readonly number[] },
    ): OrtTensor;
  };
}

// TensorFlow.js --------------------------------------------------------------------------------

export interface TfTensor {
  readonly shape: readonly number[];
  data(): Promise<ArrayLike<number>>;
  dispose(): void;
}

export interface Tf {
  setBackend(name: string): Promise<boolean>;
  ready(): Promise<void>;
  getBackend(): string;
  backend(): { endComputePassEncoder(): void; submitQueue(): void };
  tidy<T>(work: () => T): T;
  tensor(data: Float32Array, shape: readonly number[]): TfTensor;
  scalar(x: number): TfTensor;
  add(a: TfTensor, b: TfTensor): TfTensor;
  sub(a: TfTensor, b: TfTensor): TfTensor;
  mul(a: TfTensor, b: TfTensor): TfTensor;
  relu(x: TfTensor): TfTensor;
  sqrt(x: TfTensor): TfTensor;
  rsqrt(x: TfTensor): TfTensor;
  abs(x: TfTensor): TfTensor;
  erf(x: TfTensor): TfTensor;
  softmax(x: TfTensor, axis: number): TfTensor;
  moments(x: TfTensor, axis: number, keepDims: boolean): { mean: TfTensor; variance: TfTensor };
  matMul(a: TfTensor, b: TfTensor, transposeA?: boolean, transposeB?: boolean): TfTensor;
  readonly fused: {
    matMul(options: {
      a: TfTensor;
      b: TfTensor;
      bias?: TfTensor;
      activation?: 'relu' | 'linear';
    }): TfTensor;
  };
  conv2d(
    x: TfTensor,
    filter: TfTensor,
    strides: number,
    pad: 'same',
    dataFormat: 'NHWC' | 'NCHW',
  ): TfTensor;
  reshape(x: TfTensor, shape: readonly number[]): TfTensor;
  transpose(x: TfTensor, order: readonly number[]): TfTensor;
  split(x: TfTensor, pieces: number, axis: number): TfTensor[];
}

// jax-js ---------------------------------------------------------------------------------------

export interface JaxArray {
  /** The same array, with one more owner: every use takes one. */
  readonly ref: JaxArray;
  add(other: JaxArray | number): JaxArray;
  sub(other: JaxArray | number): JaxArray;
  mul(other: JaxArray | number): JaxArray;
  reshape(shape: readonly number[]): JaxArray;
  transpose(order: readonly number[]): JaxArray;
  /** Submits what is pending. */
  gpuBuffer(): Promise<GPUBuffer>;
  data(): Promise<ArrayLike<number>>;
  dispose(): void;
}

export interface Jax {
  init(...devices: string[]): Promise<readonly string[]>;
  defaultDevice(device: string): string;
  jit<A extends JaxArray[]>(f: (...args: A) => JaxArray[]): (...args: A) => JaxArray[];
  readonly numpy: {
    array(data: Float32Array): JaxArray;
    sqrt(x: JaxArray): JaxArray;
    abs(x: JaxArray): JaxArray;
    matmul(a: JaxArray, b: JaxArray): JaxArray;
    split(x: JaxArray, sections: number, axis: number): JaxArray[];
  };
  readonly nn: {
    relu(x: JaxArray): JaxArray;
    softmax(x: JaxArray, axis: number): JaxArray;
    gelu(x: JaxArray, options: { approximate: boolean }): JaxArray;
    standardize(x: JaxArray, axis: number, options: { epsilon: number }): JaxArray;
  };
  readonly lax: {
    conv(x: JaxArray, w: JaxArray, strides: readonly number[], padding: 'SAME'): JaxArray;
  };
}

// ----------------------------------------------------------------------------------------------

interface Loader {
  onnxruntime(): Promise<Ort>;
  jax(): Promise<Jax>;
  tfjs(): Promise<Tf>;
  versionOf(name: string): Promise<string>;
}

export const PEERS_FOLDER = path.join(root, 'bench/peers');

export async function loader(): Promise<Loader> {
  const file = pathToFileURL(path.join(PEERS_FOLDER, 'load.mjs')).href;
  // The file's own exports; it isn't bundled, so that packages are found from where it lies.
  return (await import(file)) as Loader;
}
