/**
 * Binding a graph input to a known tensor, so that ops which need contents when compiling (the shape
 * of a Reshape, the axes of a Slice) get them.
 *
 * Protobuf merges messages that follow each other: a model file with another `graph` field behind it
 * is the model with that field's contents added. An initializer with the name of an input is its
 * value. So the model is specialised without decoding or copying its parts.
 */
import type { HostTensor } from './tensor';
import type { DType } from '../../compiler/graph/dtype';

const DATA_TYPES: Readonly<Record<DType, number>> = {
  f32: 1,
  u8: 2,
  i8: 3,
  u16: 4,
  i16: 5,
  i32: 6,
  i64: 7,
  bool: 9,
  f16: 10,
  f64: 11,
  u32: 12,
  u64: 13,
  bf16: 16,
  u4: 21,
  i4: 22,
};

/** The model with `tensors` as initializers, each under its own name. */
export function specialise(model: Uint8Array, tensors: readonly HostTensor[]): Uint8Array {
  const parts = tensors.map((t) => field(7, field(5, tensorProto(t))));
  return concat([model, ...parts]);
}

function tensorProto(t: HostTensor): Uint8Array {
  return concat([
    ...t.shape.map((d) => concat([varint(1 * 8), varint(d)])),
    concat([varint(2 * 8), varint(DATA_TYPES[t.dtype])]),
    field(8, new TextEncoder().encode(t.name)),
    field(9, t.bytes),
  ]);
}

function field(number: number, contents: Uint8Array): Uint8Array {
  return concat([varint(number * 8 + 2), varint(contents.length), contents]);
}

function varint(n: number): Uint8Array {
  const out: number[] = [];
  let rest = n;
  while (rest >= 128) {
    out.push((rest % 128) | 128);
    rest = Math.floor(rest / 128);
  }
  out.push(rest);
  return Uint8Array.from(out);
}

function concat(parts: readonly Uint8Array[]): Uint8Array {
  const out = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const p of parts) {
    out.set(p, at);
    at += p.length;
  }
  return out;
}
