/**
 * Element types: what a file may say, and what WGSL can store.
 *
 * WGSL storage buffers hold f32, i32, u32 and, with a feature, f16. Every other type is *stored*
 * wider (i8 in i32) or narrower (i64 in i32, f64 in f32); {@link storageOf} says how, and the
 * compiler reports it once per graph as a diagnostic.
 */

export const DTYPES = [
  'f32',
  'f16',
  'bf16',
  'f64',
  'i4',
  'u4',
  'i8',
  'u8',
  'i16',
  'u16',
  'i32',
  'u32',
  'i64',
  'u64',
  'bool',
] as const;
export type DType = (typeof DTYPES)[number];

/** The element type of a storage buffer. f16 is used only where the adapter has `shader-f16`. */
export type Storage = 'f32' | 'f16' | 'i32' | 'u32';

export function isFloat(t: DType): boolean {
  return t === 'f32' || t === 'f16' || t === 'bf16' || t === 'f64';
}

export function isUnsigned(t: DType): boolean {
  return t === 'u4' || t === 'u8' || t === 'u16' || t === 'u32' || t === 'u64';
}

export function isInteger(t: DType): boolean {
  return !isFloat(t) && t !== 'bool';
}

/** Bytes per element as the file's format stores it; half a byte for those of which two share one. */
export function dtypeBytes(t: DType): number {
  switch (t) {
    case 'i4':
    case 'u4':
      return 0.5;
    case 'i8':
    case 'u8':
    case 'bool':
      return 1;
    case 'f16':
    case 'bf16':
    case 'i16':
    case 'u16':
      return 2;
    case 'f32':
    case 'i32':
    case 'u32':
      return 4;
    case 'f64':
    case 'i64':
    case 'u64':
      return 8;
  }
}

/** Whether two elements share a byte in a file, and an integer of an ONNX tensor's typed field. */
export function sharesByte(t: DType): t is 'i4' | 'u4' {
  return t === 'i4' || t === 'u4';
}

/** Bytes of a tensor's contents in a file. */
export function contentBytes(t: DType, elements: number): number {
  return Math.ceil(elements * dtypeBytes(t));
}

/** How values of the type lie in a storage buffer; `f16` says whether the adapter has shader-f16. */
export function storageOf(t: DType, f16: boolean): Storage {
  switch (t) {
    case 'f16':
      return f16 ? 'f16' : 'f32';
    case 'f32':
    case 'bf16':
    case 'f64':
      return 'f32';
    case 'u4':
    case 'u8':
    case 'u16':
    case 'u32':
    case 'u64':
      return 'u32';
    case 'bool':
      return 'u32';
    case 'i4':
    case 'i8':
    case 'i16':
    case 'i32':
    case 'i64':
      return 'i32';
  }
}

export function storageBytes(s: Storage): number {
  return s === 'f16' ? 2 : 4;
}

/** Smallest and largest integer of the type; undefined for floats. i64 and u64 are given as they are stored: 32 bits. */
export function integerRange(t: DType): readonly [number, number] | undefined {
  switch (t) {
    case 'bool':
      return [0, 1];
    case 'i4':
      return [-8, 7];
    case 'u4':
      return [0, 15];
    case 'i8':
      return [-128, 127];
    case 'u8':
      return [0, 255];
    case 'i16':
      return [-32768, 32767];
    case 'u16':
      return [0, 65535];
    case 'i32':
    case 'i64':
      return [-2147483648, 2147483647];
    case 'u32':
    case 'u64':
      return [0, 4294967295];
    default:
      return undefined;
  }
}
