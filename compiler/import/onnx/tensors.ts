/**
 * TensorProto to {@link ConstTensor}: element types, lengths checked, contents kept as views.
 *
 * ONNX stores a tensor's elements in one of three places: `raw_data` (little-endian bytes), a typed
 * field (`float_data`… where half floats are bit patterns in `int32_data`), or a file beside the
 * model. The first, and packed floats, are used as they lie in the file. What the file's outline has
 * left out (outline.ts) becomes a reference to where it is.
 */
import {
  bfloatToNumber,
  decodeConst,
  halfToNumber,
  nibble,
  signedNibble,
} from '../../graph/constData';
import { contentBytes, type DType, sharesByte } from '../../graph/dtype';
import type { ConstTensor } from '../../graph/graph';
import type { ConstData } from '../../ir/compute';
import { constOf, num } from '../../ir/indexExpr';
import { ONNX_DTYPES } from '../../ops/shared';
import type { IntField, OnnxTensor } from './proto';
import { type Contents, packedInts } from './wire';

const OTHER_ELEMENT_TYPES: Readonly<Record<number, string>> = {
  0: 'undefined',
  8: 'string',
  14: 'complex64',
  15: 'complex128',
  17: 'float8e4m3fn',
  18: 'float8e4m3fnuz',
  19: 'float8e5m2',
  20: 'float8e5m2fnuz',
  23: 'float4e2m1',
  24: 'float8e8m0',
  25: 'uint2',
  26: 'int2',
};

/** By TensorProto.DataType. */
export function elementType(code: number): DType | undefined {
  return ONNX_DTYPES[code];
}

/** What a code is called, for messages. */
export function elementTypeName(code: number): string {
  return ONNX_DTYPES[code] ?? OTHER_ELEMENT_TYPES[code] ?? `number ${code}`;
}

export type TensorResult =
  | { readonly ok: true; readonly tensor: ConstTensor }
  | { readonly ok: false; readonly code: string; readonly message: string };

/** No buffer of any adapter holds more, and numbers beyond it aren't exact. */
export const MAX_ELEMENTS = 2 ** 40;

const refuse = (code: string, message: string): TensorResult => ({ ok: false, code, message });

/** The number of elements, or why there can't be that many. */
export function countElements(dims: readonly number[]): number | string {
  let n = 1;
  for (const d of dims) {
    if (!Number.isSafeInteger(d) || d < 0) return `${d} is no size of a dimension`;
    n *= d;
  }
  return n <= MAX_ELEMENTS ? n : `[${dims.join(', ')}] has too many elements`;
}

export function convertTensor(t: OnnxTensor): TensorResult {
  const dtype = elementType(t.dataType);
  if (!dtype)
    return refuse(
      'UNSUPPORTED_DTYPE',
      `its element type, ${elementTypeName(t.dataType)}, isn't supported`,
    );
  const elements = countElements(t.dims);
  if (typeof elements === 'string') return refuse('BAD_SHAPE', elements);
  const data = contents(t, dtype, elements);
  if ('message' in data) return refuse(data.code, data.message);
  return { ok: true, tensor: { type: { dtype, shape: t.dims.map((d) => num(d)) }, data } };
}

function contents(
  t: OnnxTensor,
  dtype: DType,
  elements: number,
): ConstData | { readonly code: string; readonly message: string } {
  const wanted = contentBytes(dtype, elements);
  if (t.external) return externalData(t, wanted);
  if (t.raw && (t.raw.length > 0 || elements === 0)) return exactBytes(t.raw, wanted, 'raw_data');
  if (dtype === 'f32' && t.packedFloats && t.floats.length === 0)
    return exactBytes(t.packedFloats, wanted, 'float_data');
  if (dtype === 'f64' && t.packedDoubles && t.doubles.length === 0)
    return exactBytes(t.packedDoubles, wanted, 'double_data');
  const field = intField(dtype);
  const ints = field && t.varints[field];
  const count = sharesByte(dtype) ? wanted : elements;
  // Each takes ten bytes at most and one at least; how many they are shows when they are read.
  if (ints && ints.length >= count && ints.length <= 10 * count)
    return { kind: 'inModel', offset: ints.offset, length: ints.length, form: 'varints' };
  const given = typedValues(t, dtype);
  const values = sharesByte(dtype) && given.length === elements + 1 ? given.slice(0, -1) : given;
  if (values.length !== elements)
    return {
      code: 'TENSOR_DATA',
      message: `it has ${values.length} elements in the file where its shape asks for ${elements}`,
    };
  return { kind: 'numbers', values };
}

function exactBytes(
  bytes: Contents,
  wanted: number,
  where: string,
): ConstData | { readonly code: string; readonly message: string } {
  if (bytes.length === wanted)
    return bytes instanceof Uint8Array
      ? { kind: 'bytes', bytes }
      : { kind: 'inModel', offset: bytes.offset, length: wanted, form: 'elements' };
  return {
    code: 'TENSOR_DATA',
    message: `${where} has ${bytes.length} bytes where its shape asks for ${wanted}`,
  };
}

function typedValues(t: OnnxTensor, dtype: DType): readonly number[] {
  const field = intField(dtype);
  switch (field) {
    case undefined:
      return dtype === 'f64'
        ? [...floatsOf(t.packedDoubles, 8), ...t.doubles]
        : [...floatsOf(t.packedFloats, 4), ...t.floats];
    case 5:
      return fromInts(t.int32s, dtype);
    case 7:
      return t.int64s;
    case 11:
      return t.uint64s;
  }
}

/** What integers in a typed field stand for. */
function fromInts(ints: readonly number[], dtype: DType): readonly number[] {
  switch (dtype) {
    case 'f16':
      return ints.map(halfToNumber);
    case 'bf16':
      return ints.map(bfloatToNumber);
    case 'bool':
      return ints.map((v) => (v === 0 ? 0 : 1));
    case 'u4':
    case 'i4':
      return ints.flatMap((v) =>
        [nibble(v, 0), nibble(v, 1)].map((n) => (dtype === 'i4' ? signedNibble(n) : n)),
      );
    default:
      return ints;
  }
}

/** The field of integers that a type's elements are in. */
function intField(dtype: DType): IntField | undefined {
  switch (dtype) {
    case 'f32':
    case 'f64':
      return undefined;
    case 'i64':
      return 7;
    case 'u32':
    case 'u64':
      return 11;
    case 'f16':
    case 'bf16':
    case 'bool':
    case 'i4':
    case 'u4':
    case 'i8':
    case 'u8':
    case 'i16':
    case 'u16':
    case 'i32':
      return 5;
  }
}

/** The contents of a field of integers that was left out when compiling; undefined where it has none. */
export function decodeVarints(
  bytes: Uint8Array,
  dtype: DType,
): Extract<ConstData, { kind: 'numbers' | 'bytes' }> | undefined {
  const ints = packedInts(bytes, dtype !== 'u32' && dtype !== 'u64');
  if (!ints) return undefined;
  return sharesByte(dtype)
    ? { kind: 'bytes', bytes: Uint8Array.from(ints) }
    : { kind: 'numbers', values: fromInts(ints, dtype) };
}

/** Of a list in several runs. One that was left out counts as missing: no writer makes such. */
function floatsOf(bytes: Contents | undefined, size: 4 | 8): number[] {
  const out: number[] = [];
  if (!(bytes instanceof Uint8Array)) return out;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let i = 0; i + size <= bytes.length; i += size)
    out.push(size === 4 ? view.getFloat32(i, true) : view.getFloat64(i, true));
  return out;
}

/** The contents as numbers, when the file itself has them and there are few enough to look into. */
export function knownNumbers(t: ConstTensor, limit = 4096): readonly number[] | undefined {
  let elements = 1;
  for (const d of t.type.shape) elements *= constOf(d) ?? NaN;
  return elements <= limit ? decodeConst(t.data, t.type.dtype, elements) : undefined;
}

/**
 * A file beside the model. Its place comes from the model file, so it is untrusted: it must stay in
 * the model's folder. (A symbolic link can still lead out; who reads the file checks that.)
 */
function externalData(
  t: OnnxTensor,
  wanted: number,
): ConstData | { readonly code: string; readonly message: string } {
  const location = t.externalData.get('location') ?? '';
  const offset = Number(t.externalData.get('offset') ?? '0');
  const lengthText = t.externalData.get('length');
  const length = lengthText === undefined ? wanted : Number(lengthText);
  const problem = locationProblem(location);
  if (problem) return { code: 'EXTERNAL_DATA_PATH', message: problem };
  if (!Number.isSafeInteger(offset) || offset < 0 || !Number.isSafeInteger(length))
    return {
      code: 'TENSOR_DATA',
      message: 'the offset or length of its external data is no number',
    };
  if (length !== wanted)
    return {
      code: 'TENSOR_DATA',
      message: `its external data has ${length} bytes where its shape asks for ${wanted}`,
    };
  return { kind: 'external', location, offset, length };
}

/** Why a location may not be used; undefined when it stays in the model's folder. */
export function locationProblem(location: string): string | undefined {
  if (location === '') return 'its external data has no location';
  if (/^[\\/]|^[A-Za-z]:/.test(location) || location.includes('\0'))
    return `its external data is at the absolute path "${location}"; only files in the model's folder are read`;
  if (location.split(/[\\/]/).includes('..'))
    return `its external data, "${location}", is outside the model's folder; only files in it are read`;
  return undefined;
}
