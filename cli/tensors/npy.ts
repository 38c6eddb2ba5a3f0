/**
 * NumPy's `.npy` files: a magic string, a version, the length of a header, the header (a Python
 * dictionary: element type, order, shape), then the elements.
 *
 * Read: versions 1 to 3, both byte orders, both element orders. bfloat16, which NumPy doesn't know,
 * is written by others as two raw bytes (`V2`). Written: version 1, little-endian, row-major.
 */
import { type DType, dtypeBytes } from '../../compiler/graph/dtype';
import {
  bad,
  elementCount,
  encodeNumbers,
  good,
  type HostTensor,
  type Outcome,
  toNumbers,
} from './tensor';

const TYPES: Readonly<Record<string, DType>> = {
  f4: 'f32',
  f2: 'f16',
  f8: 'f64',
  V2: 'bf16',
  b1: 'bool',
  i1: 'i8',
  u1: 'u8',
  i2: 'i16',
  u2: 'u16',
  i4: 'i32',
  u4: 'u32',
  i8: 'i64',
  u8: 'u64',
};

const MAGIC = [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59];

export function readNpy(bytes: Uint8Array, name: string): Outcome<HostTensor> {
  if (bytes.length < 10 || MAGIC.some((b, i) => bytes[i] !== b)) return bad('it is no .npy file');
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const version = bytes[6] ?? 0;
  if (version < 1 || version > 3) return bad(`version ${version} of .npy isn't known`);
  if (version > 1 && bytes.length < 12) return bad('it ends within its header');
  const start = version === 1 ? 10 : 12;
  const length = version === 1 ? view.getUint16(8, true) : view.getUint32(8, true);
  if (start + length > bytes.length) return bad('it ends within its header');
  const header = readHeader(new TextDecoder().decode(bytes.subarray(start, start + length)));
  if (!header.ok) return header;
  const { dtype, bigEndian, fortran, shape } = header.value;
  const size = dtypeBytes(dtype);
  const wanted = elementCount(shape) * size;
  let data = bytes.subarray(start + length);
  if (data.length < wanted)
    return bad(`it has ${data.length} bytes of elements where its shape asks for ${wanted}`);
  data = data.subarray(0, wanted);
  if (bigEndian) data = swapped(data, size);
  if (fortran) data = rowMajor(data, shape, size);
  return good({ name, dtype, shape, bytes: data });
}

interface Header {
  readonly dtype: DType;
  readonly bigEndian: boolean;
  readonly fortran: boolean;
  readonly shape: readonly number[];
}

function readHeader(text: string): Outcome<Header> {
  const descr = /['"]descr['"]\s*:\s*['"]([<>|=])?(\w+)['"]/.exec(text);
  const order = /['"]fortran_order['"]\s*:\s*(True|False)/.exec(text);
  const shape = /['"]shape['"]\s*:\s*\(([^)]*)\)/.exec(text);
  if (!order || !shape) return bad('its header lacks the order or the shape');
  if (!descr) return bad('its element type is not a plain one');
  const dtype = TYPES[descr[2] ?? ''];
  if (!dtype) return bad(`its element type, ${descr[2] ?? ''}, isn't supported`);
  const sizes = (shape[1] ?? '')
    .split(',')
    .map((s) => s.trim().replace(/L$/, ''))
    .filter((s) => s !== '')
    .map(Number);
  if (sizes.some((s) => !Number.isSafeInteger(s) || s < 0) || elementCount(sizes) > 2 ** 40)
    return bad(`its shape, (${shape[1] ?? ''}), is not possible`);
  return good({ dtype, bigEndian: descr[1] === '>', fortran: order[1] === 'True', shape: sizes });
}

function swapped(data: Uint8Array, size: number): Uint8Array {
  const out = new Uint8Array(data.length);
  for (let i = 0; i < data.length; i++)
    out[i] = data[i - (i % size) + (size - 1 - (i % size))] ?? 0;
  return out;
}

function rowMajor(data: Uint8Array, shape: readonly number[], size: number): Uint8Array {
  const out = new Uint8Array(data.length);
  const index = new Array<number>(shape.length).fill(0);
  const strides: number[] = [];
  let stride = 1;
  for (const d of shape) {
    strides.push(stride);
    stride *= d;
  }
  const n = elementCount(shape);
  for (let i = 0; i < n; i++) {
    let from = 0;
    for (let k = 0; k < shape.length; k++) from += (index[k] ?? 0) * (strides[k] ?? 0);
    out.set(data.subarray(from * size, (from + 1) * size), i * size);
    for (let k = shape.length - 1; k >= 0; k--) {
      index[k] = (index[k] ?? 0) + 1;
      if ((index[k] ?? 0) < (shape[k] ?? 0)) break;
      index[k] = 0;
    }
  }
  return out;
}

const CODES: Readonly<Partial<Record<DType, string>>> = {
  f16: '<f2',
  f32: '<f4',
  f64: '<f8',
  bool: '|b1',
  i8: '|i1',
  u8: '|u1',
  i16: '<i2',
  u16: '<u2',
  i32: '<i4',
  u32: '<u4',
  i64: '<i8',
  u64: '<u8',
};

/** What types that NumPy lacks are written as: the next one that holds them exactly. */
const WIDER: Readonly<Partial<Record<DType, DType>>> = { bf16: 'f32', i4: 'i8', u4: 'u8' };

export function writeNpy(t: HostTensor): Uint8Array {
  const wider = WIDER[t.dtype];
  const code = CODES[wider ?? t.dtype];
  const bytes = wider === undefined ? t.bytes : encodeNumbers(toNumbers(t), wider);
  const shape = t.shape.length === 1 ? `(${t.shape[0] ?? 0},)` : `(${t.shape.join(', ')})`;
  let header = `{'descr': '${code ?? '<f4'}', 'fortran_order': False, 'shape': ${shape}, }`;
  // The elements start at a multiple of 64.
  header = header.padEnd(Math.ceil((10 + header.length + 1) / 64) * 64 - 11) + '\n';
  const out = new Uint8Array(10 + header.length + bytes.length);
  out.set([...MAGIC, 1, 0, header.length & 0xff, header.length >> 8]);
  out.set(new TextEncoder().encode(header), 10);
  out.set(bytes, 10 + header.length);
  return out;
}
