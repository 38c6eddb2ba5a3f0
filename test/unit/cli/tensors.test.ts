/**
 * Tensor files, conversions to storage and back, comparison, and binding inputs in a model file.
 */
import assert from 'node:assert/strict';
import { compareTensors } from '../../../cli/tensors/compare';
import { readNpy, writeNpy } from '../../../cli/tensors/npy';
import { readPb } from '../../../cli/tensors/pb';
import { specialise } from '../../../cli/tensors/specialise';
import {
  encodeNumbers,
  fromStorage,
  type HostTensor,
  numberToBfloat,
  numberToHalf,
  toNumbers,
  toStorage,
} from '../../../cli/tensors/tensor';
import { halfToNumber } from '../../../compiler/graph/constData';
import { type DType, DTYPES } from '../../../compiler/graph/dtype';
import { importOnnx } from '../../../compiler/import/onnx';
import { FLOAT, floatBits, INT64, message, model, node, raw, tensor, value } from '../onnx/encoder';
import { printImport } from '../onnx/print';

const host = (dtype: DType, shape: number[], values: number[]): HostTensor => ({
  name: 't',
  dtype,
  shape,
  bytes: encodeNumbers(values, dtype),
});

/** A file as NumPy writes it, with the header given. */
function npy(header: string, data: Uint8Array, version = 1): Uint8Array {
  const text = new TextEncoder().encode(`${header}\n`);
  const length = version === 1 ? [text.length & 255, text.length >> 8] : [text.length, 0, 0, 0];
  return Uint8Array.from([0x93, ...Buffer.from('NUMPY'), version, 0, ...length, ...text, ...data]);
}

describe('.npy files', () => {
  it('are read back as they were written, in every type', () => {
    for (const dtype of DTYPES) {
      const t = host(dtype, [2, 3], [0, 1, 1, 0, 1, 1]);
      const r = readNpy(writeNpy(t), 't');
      assert(r.ok, dtype);
      const wider: Partial<Record<DType, DType>> = { bf16: 'f32', i4: 'i8', u4: 'u8' };
      assert.equal(r.value.dtype, wider[dtype] ?? dtype);
      assert.deepEqual(r.value.shape, [2, 3]);
      assert.deepEqual(toNumbers(r.value), toNumbers(t));
    }
    for (const shape of [[], [6], [0, 3]]) {
      const n = shape.reduce((a, b) => a * b, 1);
      const r = readNpy(writeNpy(host('i32', shape, new Array<number>(n).fill(4))), 't');
      assert(r.ok);
      assert.deepEqual(r.value.shape, shape);
    }
  });

  it('are read in the other order of elements and of bytes, and in later versions', () => {
    const columnMajor = npy(
      "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }",
      encodeNumbers([1, 4, 2, 5, 3, 6], 'i32'),
      2,
    );
    const r = readNpy(columnMajor, 't');
    assert(r.ok);
    assert.deepEqual(toNumbers(r.value), [1, 2, 3, 4, 5, 6]);
    const bigEndian = npy(
      "{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}",
      Uint8Array.from([0x3f, 0xc0, 0, 0]),
      3,
    );
    const b = readNpy(bigEndian, 't');
    assert(b.ok);
    assert.deepEqual(toNumbers(b.value), [1.5]);
  });

  it('are refused with a reason when they are damaged or of another kind', () => {
    const data = encodeNumbers([1], 'f32');
    const plainHeader = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}";
    for (const [bytes, words] of [
      [Uint8Array.from([1, 2, 3]), /no \.npy/],
      [npy(plainHeader, data), /4 bytes of elements where its shape asks for 8/],
      [npy(plainHeader, data, 9), /version 9/],
      [npy(plainHeader, data).subarray(0, 30), /ends within its header/],
      [npy("{'descr': '<U4', 'fortran_order': False, 'shape': (1,)}", data), /U4, isn't supported/],
      [
        npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", data),
        /not a plain one/,
      ],
      [
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999, 99999999)}", data),
        /shape/,
      ],
    ] as const) {
      const r = readNpy(bytes, 't');
      assert(!r.ok);
      assert.match(r.message, words);
    }
  });
});

describe('.pb tensors', () => {
  it('are read, from raw and from typed fields', () => {
    const a = readPb(Uint8Array.from(tensor('a', FLOAT, [2], raw(...floatBits(1, -2)))));
    assert(a.ok);
    assert.deepEqual([a.value.name, toNumbers(a.value)], ['a', [1, -2]]);
    const b = readPb(Uint8Array.from(tensor('b', INT64, [3], message(7, [1, 2, 3]))));
    assert(b.ok);
    assert.deepEqual(toNumbers(b.value), [1, 2, 3]);
  });

  it('keep the greatest 64-bit integer, which is no double', () => {
    const bytes = tensor(
      'b',
      INT64,
      [1],
      message(7, [255, 255, 255, 255, 255, 255, 255, 255, 127]),
    );
    const t = readPb(Uint8Array.from(bytes));
    assert(t.ok);
    assert.equal(new DataView(t.value.bytes.buffer).getBigInt64(0, true), 2n ** 63n - 1n);
  });

  it('are refused when damaged', () => {
    assert.equal(readPb(Uint8Array.from([10, 200])).ok, false);
    assert.equal(readPb(Uint8Array.from(tensor('a', FLOAT, [3], raw(1, 2)))).ok, false);
  });
});

describe('half precision', () => {
  it('rounds to nearest, ties to even, and back', () => {
    for (let bits = 0; bits < 0x7c00; bits += 7) {
      const x = halfToNumber(bits);
      assert.equal(numberToHalf(x), bits, String(x));
      const next = halfToNumber(bits + 1);
      if (Number.isFinite(next)) assert.equal(numberToHalf((x + next) / 2), bits + (bits % 2));
    }
    assert.equal(numberToHalf(65519), 0x7bff);
    assert.equal(numberToHalf(65520), 0x7c00);
    assert.equal(numberToHalf(-0), 0x8000);
    assert.equal(numberToHalf(2 ** -25), 0);
    assert.equal(numberToHalf(2 ** -25 * 1.001), 1);
    assert(Number.isNaN(halfToNumber(numberToHalf(NaN))));
    assert.deepEqual(
      [1, -2, 3.140625, Infinity].map(numberToBfloat),
      [0x3f80, 0xc000, 0x4049, 0x7f80],
    );
  });
});

describe('storage', () => {
  it('narrows integers that fit and refuses the rest', () => {
    const fits = toStorage(host('i64', [2], [-5, 7]), 'i64', 'i32');
    assert(fits.ok);
    assert.deepEqual([...fits.value], [-5, 7]);
    const wide = toStorage(host('i64', [1], [2 ** 40]), 'i64', 'i32');
    assert(!wide.ok);
    assert.match(wide.message, /1099511627776 doesn't fit/);
    assert.equal(toStorage(host('i32', [1], [-1]), 'u32', 'u32').ok, false);
  });

  it('changes precision but not kind', () => {
    const f = toStorage(host('f64', [1], [0.1]), 'f32', 'f32');
    assert(f.ok);
    assert.deepEqual([...f.value], [Math.fround(0.1)]);
    assert.equal(toStorage(host('i32', [1], [1]), 'f32', 'f32').ok, false);
    assert.equal(toStorage(host('bool', [1], [1]), 'i32', 'i32').ok, false);
  });

  it('gives back halves from both of their storages', () => {
    const t = host('f16', [3], [1, 0.5, -2]);
    for (const storage of ['f16', 'f32'] as const) {
      const s = toStorage(t, 'f16', storage);
      assert(s.ok);
      const back = fromStorage('t', 'f16', [3], s.value, storage);
      assert.deepEqual(toNumbers(back), [1, 0.5, -2]);
    }
  });
});

describe('comparison', () => {
  const f32 = (...v: number[]): HostTensor => host('f32', [v.length], v);

  it('follows ONNX: relative and absolute tolerance, NaN equal to NaN', () => {
    assert(compareTensors(f32(1.0009, NaN, Infinity, 0), f32(1, NaN, Infinity, 5e-8)).ok);
    const c = compareTensors(f32(1, 2.01, NaN), f32(1, 2, 3));
    assert.equal(c.ok, false);
    assert.equal(c.message, '2 of 3 elements differ; at [2] it is NaN, expected is 3');
    assert.equal(compareTensors(f32(1e30), f32(Infinity)).ok, false);
    assert.equal(compareTensors(f32(-Infinity), f32(Infinity)).ok, false);
  });

  it('compares type and shape first', () => {
    assert.match(
      compareTensors(host('i32', [1], [1]), f32(1)).message ?? '',
      /it is i32, expected is f32/,
    );
    assert.match(
      compareTensors(host('f32', [1, 2], [1, 2]), f32(1, 2)).message ?? '',
      /shape is \[1, 2\], expected is \[2\]/,
    );
  });
});

describe('binding an input in a model file', () => {
  it('makes it a constant and leaves the rest', () => {
    const bytes = model({
      inputs: [value('x', FLOAT, [4]), value('shape', INT64, [2])],
      nodes: [node('Reshape', ['x', 'shape'], ['y'])],
      outputs: [value('y', FLOAT)],
    });
    const bound = specialise(bytes, [{ ...host('i64', [2], [2, -1]), name: 'shape' }]);
    assert.deepEqual(printImport(importOnnx(bound, 'm')), [
      "const w0 'shape' i64[2] 16 bytes",
      "input in0 'x' f32[4]",
      "n0.0 'y' = reshape(in0, w0)",
      "output 'y' = n0.0",
    ]);
  });
});
