/**
 * Between numbers and the words of a storage buffer. A *storage array* holds the elements as the
 * buffer does: f32, i32, u32, or f16 as raw 16-bit words.
 *
 * Integers that don't fit 32 bits are clamped (files use the largest 64-bit number as "to the end"),
 * floats round as the narrower type does.
 */
import type { DType, Storage } from '../../compiler/graph/dtype';
import type { BufferData } from '../../compiler/result';
import { decode, f16FromBits } from '../../compiler/reference';
import { toBf16, toF16 } from '../../compiler/reference/math';

export type StorageArray = Float32Array | Int32Array | Uint32Array | Uint16Array;

export function storageArray(storage: Storage, elements: number): StorageArray {
  switch (storage) {
    case 'f32':
      return new Float32Array(elements);
    case 'i32':
      return new Int32Array(elements);
    case 'u32':
      return new Uint32Array(elements);
    case 'f16':
      return new Uint16Array(elements);
  }
}

/** A storage array on bytes that begin at a multiple of its element size. */
export function viewStorage(storage: Storage, bytes: ArrayBuffer, elements: number): StorageArray {
  switch (storage) {
    case 'f32':
      return new Float32Array(bytes, 0, elements);
    case 'i32':
      return new Int32Array(bytes, 0, elements);
    case 'u32':
      return new Uint32Array(bytes, 0, elements);
    case 'f16':
      return new Uint16Array(bytes, 0, elements);
  }
}

export function toStorage(values: ArrayLike<number>, storage: Storage): StorageArray {
  if (storage === 'f32' && values instanceof Float32Array) return values;
  if (storage === 'i32' && values instanceof Int32Array) return values;
  if (storage === 'u32' && values instanceof Uint32Array) return values;
  const out = storageArray(storage, values.length);
  switch (storage) {
    case 'f32':
      out.set(values);
      return out;
    case 'f16':
      for (let i = 0; i < out.length; i++) out[i] = f16Bits(values[i] ?? 0);
      return out;
    case 'i32':
      for (let i = 0; i < out.length; i++)
        out[i] = Math.max(-2147483648, Math.min(2147483647, values[i] ?? 0));
      return out;
    case 'u32':
      for (let i = 0; i < out.length; i++)
        out[i] = Math.max(0, Math.min(4294967295, values[i] ?? 0));
      return out;
  }
}

export function f16Bits(x: number): number {
  if (x !== x) return 0x7e00;
  const r = toF16(x);
  const sign = r < 0 || Object.is(r, -0) ? 0x8000 : 0;
  const a = Math.abs(r);
  if (a === Infinity) return sign | 0x7c00;
  if (a < 2 ** -14) return sign | (a * 2 ** 24);
  const exponent = Math.floor(Math.log2(a));
  return sign | ((exponent + 15) << 10) | ((a / 2 ** exponent - 1) * 1024);
}

const F16_TABLE: Float32Array[] = [];

/** Elements as numbers: storage arrays as they are, f16 words decoded. */
export function numbersOf(data: StorageArray): ArrayLike<number> {
  if (!(data instanceof Uint16Array)) return data;
  let table = F16_TABLE[0];
  if (!table) {
    table = Float32Array.from({ length: 65536 }, (_, bits) => f16FromBits(bits));
    F16_TABLE.push(table);
  }
  const out = new Float32Array(data.length);
  for (let i = 0; i < out.length; i++) out[i] = table[data[i] ?? 0] ?? 0;
  return out;
}

/** Contents that are in the plan itself, as numbers. */
export function contentsOf(
  data: Exclude<BufferData, { kind: 'external' | 'inModel' }>,
  dtype: DType,
  elements: number,
): ArrayLike<number> {
  switch (data.kind) {
    case 'bytes':
      return decode(data.bytes, dtype, elements);
    case 'fill':
      return new Float64Array(elements).fill(data.value);
    case 'numbers':
      return data.values;
  }
}

/** The number nearest to x that the dtype can hold: what a made-up input may be. */
export function representable(x: number, dtype: DType): number {
  switch (dtype) {
    case 'f16':
      return toF16(x);
    case 'bf16':
      return toBf16(x);
    default:
      return Math.fround(x);
  }
}
