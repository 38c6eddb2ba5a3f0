/**
 * Reading constant tensors: from the file's bytes to numbers.
 *
 * Only small tensors are decoded by the compiler (shapes, axes, scalars); weights stay bytes.
 */
import type { ConstData } from '../ir/compute';
import { contentBytes, type DType } from './dtype';

/** IEEE 754 binary16 to a number. */
export function halfToNumber(h: number): number {
  const sign = h & 0x8000 ? -1 : 1;
  const exponent = (h >> 10) & 0x1f;
  const fraction = h & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** The element i of which a byte holds two, the even one in its low bits. */
export function nibble(byte: number, i: number): number {
  return i % 2 === 0 ? byte & 15 : (byte >> 4) & 15;
}

export function signedNibble(n: number): number {
  return n < 8 ? n : n - 16;
}

const word = new DataView(new ArrayBuffer(4));

/** bfloat16 is the upper half of an f32. */
export function bfloatToNumber(b: number): number {
  word.setUint32(0, b << 16);
  return word.getFloat32(0);
}

function reader(view: DataView, dtype: DType): (i: number) => number {
  switch (dtype) {
    case 'f32':
      return (i) => view.getFloat32(4 * i, true);
    case 'f64':
      return (i) => view.getFloat64(8 * i, true);
    case 'f16':
      return (i) => halfToNumber(view.getUint16(2 * i, true));
    case 'bf16':
      return (i) => bfloatToNumber(view.getUint16(2 * i, true));
    case 'i4':
      return (i) => signedNibble(nibble(view.getUint8(i >> 1), i));
    case 'u4':
      return (i) => nibble(view.getUint8(i >> 1), i);
    case 'i8':
      return (i) => view.getInt8(i);
    case 'u8':
      return (i) => view.getUint8(i);
    case 'bool':
      return (i) => (view.getUint8(i) ? 1 : 0);
    case 'i16':
      return (i) => view.getInt16(2 * i, true);
    case 'u16':
      return (i) => view.getUint16(2 * i, true);
    case 'i32':
      return (i) => view.getInt32(4 * i, true);
    case 'u32':
      return (i) => view.getUint32(4 * i, true);
    case 'i64':
      return (i) => Number(view.getBigInt64(8 * i, true));
    case 'u64':
      return (i) => Number(view.getBigUint64(8 * i, true));
  }
}

/**
 * The `elements` numbers of a constant, row-major; undefined when they aren't at hand (in a file), or
 * the bytes are fewer than the shape asks for. i64 beyond 2^53 lose their last bits.
 */
export function decodeConst(data: ConstData, dtype: DType, elements: number): number[] | undefined {
  switch (data.kind) {
    case 'external':
    case 'inModel':
      return undefined;
    case 'fill':
      return new Array<number>(elements).fill(data.value);
    case 'numbers':
      return data.values.length === elements ? [...data.values] : undefined;
    case 'bytes': {
      if (data.bytes.byteLength < contentBytes(dtype, elements)) return undefined;
      const view = new DataView(data.bytes.buffer, data.bytes.byteOffset, data.bytes.byteLength);
      const read = reader(view, dtype);
      const out = new Array<number>(elements);
      for (let i = 0; i < elements; i++) out[i] = read(i);
      return out;
    }
  }
}
