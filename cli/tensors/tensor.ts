/**
 * Tensors on the host: as files hold them, and as storage buffers hold them.
 *
 * Vocabulary
 *  - *host tensor*: dtype, shape and the elements as little-endian bytes in row-major order.
 *  - *storage array*: the elements as a storage buffer of the plan wants them: 32-bit floats, signed or
 *    unsigned integers, or raw 16-bit halves. Wider integers are narrowed, and refused when they don't fit.
 */
import { decodeConst } from '../../compiler/graph/constData';
import {
  type DType,
  contentBytes,
  dtypeBytes,
  sharesByte,
  isFloat,
  isInteger,
  type Storage,
} from '../../compiler/graph/dtype';

export interface HostTensor {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

export type StorageArray = Float32Array | Int32Array | Uint32Array | Uint16Array;

/** What reading a file or converting it gives: a value, or a sentence for a person. */
export type Outcome<T> =
  { readonly ok: true; readonly value: T } | { readonly ok: false; readonly message: string };

export const good = <T>(value: T): Outcome<T> => ({ ok: true, value });
export const bad = (message: string): Outcome<never> => ({ ok: false, message });

export function elementCount(shape: readonly number[]): number {
  return shape.reduce((n, d) => n * d, 1);
}

/** The elements as doubles; 64-bit integers beyond 2^53 lose their last bits. */
export function toNumbers(t: HostTensor): readonly number[] {
  return decodeConst({ kind: 'bytes', bytes: t.bytes }, t.dtype, elementCount(t.shape)) ?? [];
}

/** Little-endian bytes of numbers. Narrow integers wrap as a C cast does: check ranges before. */
export function encodeNumbers(values: ArrayLike<number>, dtype: DType): Uint8Array {
  const size = dtypeBytes(dtype);
  const bytes = new Uint8Array(contentBytes(dtype, values.length));
  if (sharesByte(dtype)) {
    for (let i = 0; i < values.length; i++) {
      const half = ((values[i] ?? 0) & 15) << (4 * (i % 2));
      bytes[i >> 1] = (bytes[i >> 1] ?? 0) | half;
    }
    return bytes;
  }
  const v = new DataView(bytes.buffer);
  for (let i = 0; i < values.length; i++) setElement(v, i * size, values[i] ?? 0, dtype);
  return bytes;
}

function setElement(v: DataView, at: number, x: number, dtype: Exclude<DType, 'i4' | 'u4'>): void {
  switch (dtype) {
    case 'f32':
      v.setFloat32(at, x, true);
      return;
    case 'f64':
      v.setFloat64(at, x, true);
      return;
    case 'f16':
      v.setUint16(at, numberToHalf(x), true);
      return;
    case 'bf16':
      v.setUint16(at, numberToBfloat(x), true);
      return;
    case 'bool':
      v.setUint8(at, x === 0 ? 0 : 1);
      return;
    case 'i8':
    case 'u8':
      v.setUint8(at, x & 0xff);
      return;
    case 'i16':
    case 'u16':
      v.setUint16(at, x & 0xffff, true);
      return;
    case 'i32':
    case 'u32':
      v.setUint32(at, x >>> 0, true);
      return;
    case 'i64':
      v.setBigInt64(at, wide(x, -(2n ** 63n), 2n ** 63n - 1n), true);
      return;
    case 'u64':
      v.setBigUint64(at, wide(x, 0n, 2n ** 64n - 1n), true);
      return;
  }
}

/** Held to the type's range: the greatest i64 is no double, and the nearest one lies beyond it. */
function wide(x: number, low: bigint, high: bigint): bigint {
  if (!Number.isFinite(x)) return x > 0 ? high : x < 0 ? low : 0n;
  const n = BigInt(Math.trunc(x));
  return n < low ? low : n > high ? high : n;
}

const scratch = new DataView(new ArrayBuffer(4));

/** Round to nearest, ties to even, to IEEE half precision's 16 bits. */
export function numberToHalf(x: number): number {
  if (Number.isNaN(x)) return 0x7e00;
  const sign = x < 0 || Object.is(x, -0) ? 0x8000 : 0;
  const a = Math.abs(x);
  // Half of the step above the largest half, 65504, rounds to infinity.
  if (a >= 65520) return sign | 0x7c00;
  if (a < 2 ** -14) return sign | roundEven(a * 2 ** 24);
  let exponent = Math.floor(Math.log2(a));
  if (2 ** exponent > a) exponent--;
  else if (2 ** (exponent + 1) <= a) exponent++;
  // A fraction that rounds up to 1024 carries into the exponent, as it should.
  return sign | (((exponent + 15) << 10) + roundEven((a / 2 ** exponent - 1) * 1024));
}

function roundEven(x: number): number {
  const f = Math.floor(x);
  const d = x - f;
  return d > 0.5 || (d === 0.5 && f % 2 === 1) ? f + 1 : f;
}

/** Round to nearest, ties to even, to bfloat16's 16 bits. */
export function numberToBfloat(x: number): number {
  scratch.setFloat32(0, x);
  const bits = scratch.getUint32(0);
  if (Number.isNaN(x)) return ((bits >>> 16) | 0x40) & 0xffff;
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;
}

/**
 * The elements in a buffer's storage type. Floats may change precision and integers width (a NumPy
 * file often holds f64 or i64 where the graph has f32 or i32), but not one into the other.
 */
export function toStorage(t: HostTensor, dtype: DType, storage: Storage): Outcome<StorageArray> {
  const kind = (d: DType): string => (isFloat(d) ? 'float' : isInteger(d) ? 'integer' : 'bool');
  if (kind(t.dtype) !== kind(dtype))
    return bad(`its elements are ${t.dtype}, but the graph has ${dtype}`);
  const n = elementCount(t.shape);
  if (storage === 'f16' && t.dtype === 'f16')
    return good(new Uint16Array(aligned(t.bytes, 2), 0, n));
  if (storage === 'f32' && t.dtype === 'f32' && dtype === 'f32')
    return good(new Float32Array(aligned(t.bytes, 4), 0, n));
  const values = toNumbers(t);
  switch (storage) {
    case 'f16':
      return good(Uint16Array.from(values, numberToHalf));
    case 'f32':
      return good(Float32Array.from(values));
    case 'i32':
      return integers(values, -(2 ** 31), 2 ** 31 - 1, (v) => Int32Array.from(v), dtype);
    case 'u32':
      return integers(values, 0, 2 ** 32 - 1, (v) => Uint32Array.from(v), dtype);
  }
}

function integers(
  values: readonly number[],
  low: number,
  high: number,
  make: (v: readonly number[]) => StorageArray,
  dtype: DType,
): Outcome<StorageArray> {
  const wrong = values.find((v) => v < low || v > high);
  if (wrong === undefined) return good(make(values));
  return bad(`its element ${wrong} doesn't fit: ${dtype} is stored in 32 bits, ${low} to ${high}`);
}

/** A buffer of its own that starts at the first element. */
function aligned(bytes: Uint8Array, size: number): ArrayBuffer {
  const copy = new Uint8Array(Math.ceil(bytes.length / size) * size);
  copy.set(bytes);
  return copy.buffer;
}

/** Back from a buffer's storage to the graph's own type. */
export function fromStorage(
  name: string,
  dtype: DType,
  shape: readonly number[],
  data: StorageArray,
  storage: Storage,
): HostTensor {
  const n = elementCount(shape);
  if (storage === 'f16' && dtype === 'f16') {
    const bytes = new Uint8Array(data.buffer, data.byteOffset, n * 2);
    return { name, dtype, shape, bytes: bytes.slice() };
  }
  return { name, dtype, shape, bytes: encodeNumbers(data.subarray(0, n), dtype) };
}
