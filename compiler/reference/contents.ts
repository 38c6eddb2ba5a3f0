/**
 * Contents of constants and parameters as numbers: little-endian bytes in any dtype of the file
 * become an array that can be indexed. 64-bit integers become doubles (exact up to 2^53).
 */
import { nibble, signedNibble } from '../graph/constData';
import { dtypeBytes, type DType, sharesByte } from '../graph/dtype';

/** One element per tensor element, row-major. bool is 0 or 1. */
export type Contents =
  | Float64Array
  | Float32Array
  | Int32Array
  | Uint32Array
  | Int16Array
  | Uint16Array
  | Int8Array
  | Uint8Array;

const LITTLE_ENDIAN = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

/**
 * The elements; those types that JavaScript has as views, without copying where alignment allows. How
 * many there are matters only where two share a byte: the last one's other half is no element.
 */
export function decode(bytes: Uint8Array, dtype: DType, elements?: number): Contents {
  if (sharesByte(dtype)) {
    const count = Math.min(2 * bytes.length, elements ?? Infinity);
    const element = (i: number): number => nibble(bytes[i >> 1] ?? 0, i);
    return dtype === 'u4'
      ? Uint8Array.from({ length: count }, (_, i) => element(i))
      : Int8Array.from({ length: count }, (_, i) => signedNibble(element(i)));
  }
  const size = dtypeBytes(dtype);
  const n = Math.floor(bytes.byteLength / size);
  const whole = bytes.subarray(0, n * size);
  const aligned =
    LITTLE_ENDIAN && whole.byteOffset % size === 0 ? whole : reorder(new Uint8Array(whole), size);
  const { buffer, byteOffset } = aligned;
  switch (dtype) {
    case 'f32':
      return new Float32Array(buffer, byteOffset, n);
    case 'f64':
      return new Float64Array(buffer, byteOffset, n);
    case 'i8':
      return new Int8Array(buffer, byteOffset, n);
    case 'u8':
      return new Uint8Array(buffer, byteOffset, n);
    case 'i16':
      return new Int16Array(buffer, byteOffset, n);
    case 'u16':
      return new Uint16Array(buffer, byteOffset, n);
    case 'i32':
      return new Int32Array(buffer, byteOffset, n);
    case 'u32':
      return new Uint32Array(buffer, byteOffset, n);
    case 'bool':
      return Uint8Array.from(aligned, (b) => (b === 0 ? 0 : 1));
    case 'f16':
      return Float32Array.from(new Uint16Array(buffer, byteOffset, n), f16FromBits);
    case 'bf16':
      return bf16FromWords(new Uint16Array(buffer, byteOffset, n));
    case 'i64':
    case 'u64':
      return from64(new Uint32Array(buffer, byteOffset, 2 * n), dtype === 'i64');
  }
}

/** The bytes of each element turned round on a big-endian machine; as they are on others. */
function reorder(copy: Uint8Array, size: number): Uint8Array {
  if (LITTLE_ENDIAN) return copy;
  for (let i = 0; i < copy.length; i += size) copy.subarray(i, i + size).reverse();
  return copy;
}

export function f16FromBits(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return exponent === 0
    ? sign * fraction * 2 ** -24
    : sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

function bf16FromWords(words: Uint16Array): Float32Array {
  const out = new Float32Array(words.length);
  const bits = new Uint32Array(out.buffer);
  for (let i = 0; i < words.length; i++) bits[i] = (words[i] ?? 0) << 16;
  return out;
}

function from64(words: Uint32Array, signed: boolean): Float64Array {
  const out = new Float64Array(words.length / 2);
  const low = LITTLE_ENDIAN ? 0 : 1;
  for (let i = 0; i < out.length; i++) {
    const high = words[2 * i + 1 - low] ?? 0;
    out[i] = (signed ? high | 0 : high) * 2 ** 32 + (words[2 * i + low] ?? 0);
  }
  return out;
}
