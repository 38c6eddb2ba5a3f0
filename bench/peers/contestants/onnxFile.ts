/** ONNX files of the workloads: protobuf messages as lists of byte strings, since weights are large. */
type Part = Uint8Array;

const encoder = new TextEncoder();

function varint(n: number): Part {
  const out: number[] = [];
  let rest = n;
  for (; rest >= 128; rest = Math.floor(rest / 128)) out.push((rest % 128) | 128);
  out.push(rest);
  return Uint8Array.from(out);
}

const sizeOf = (parts: readonly Part[]): number => parts.reduce((sum, p) => sum + p.length, 0);
const int = (field: number, n: number): Part[] => [varint(8 * field), varint(n)];
const message = (field: number, parts: readonly Part[]): Part[] => [
  varint(8 * field + 2),
  varint(sizeOf(parts)),
  ...parts,
];
const text = (field: number, s: string): Part[] => message(field, [encoder.encode(s)]);
const bytesOf = (x: Float32Array<ArrayBuffer> | BigInt64Array<ArrayBuffer>): Part =>
  new Uint8Array(x.buffer, x.byteOffset, x.byteLength);

const FLOAT = 1;
const INT64 = 7;

export interface OnnxTensor {
  readonly name: string;
  readonly shape: readonly number[];
}

export type OnnxConstant =
  | (OnnxTensor & { readonly floats: Float32Array<ArrayBuffer> })
  | (OnnxTensor & { readonly integers: readonly number[] });

export interface OnnxNode {
  readonly op: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes: Readonly<Record<string, number | readonly number[]>>;
}

export interface OnnxGraph {
  readonly inputs: readonly OnnxTensor[];
  readonly outputs: readonly OnnxTensor[];
  readonly constants: readonly OnnxConstant[];
  readonly nodes: readonly OnnxNode[];
}

function attribute(name: string, value: number | readonly number[]): Part[] {
  if (typeof value !== 'number')
    return [...text(1, name), ...value.flatMap((v) => int(8, v)), ...int(20, 7)];
  if (Number.isInteger(value)) return [...text(1, name), ...signed(3, value), ...int(20, 2)];
  return [...text(1, name), varint(2 * 8 + 5), bytesOf(Float32Array.of(value)), ...int(20, 1)];
}

/** Negative numbers are written as 64 bits of two's complement. */
function signed(field: number, n: number): Part[] {
  if (n >= 0) return int(field, n);
  let rest = BigInt.asUintN(64, BigInt(n));
  const out: number[] = [];
  for (; rest >= 128n; rest >>= 7n) out.push(Number(rest & 127n) | 128);
  out.push(Number(rest));
  return [varint(8 * field), Uint8Array.from(out)];
}

function constant(c: OnnxConstant): Part[] {
  const [type, data] =
    'floats' in c
      ? [FLOAT, bytesOf(c.floats)]
      : [INT64, bytesOf(BigInt64Array.from(c.integers, (v) => BigInt(v)))];
  return [
    ...c.shape.flatMap((d) => int(1, d)),
    ...int(2, type),
    ...text(8, c.name),
    ...message(9, [data]),
  ];
}

function declaration({ name, shape }: OnnxTensor): Part[] {
  const dims = shape.flatMap((d) => message(1, int(1, d)));
  return [...text(1, name), ...message(2, message(1, [...int(1, FLOAT), ...message(2, dims)]))];
}

function node(n: OnnxNode): Part[] {
  return [
    ...n.inputs.flatMap((i) => text(1, i)),
    ...n.outputs.flatMap((o) => text(2, o)),
    ...text(4, n.op),
    ...Object.entries(n.attributes).flatMap(([k, v]) => message(5, attribute(k, v))),
  ];
}

export function onnxFile(g: OnnxGraph, opset = 18): Uint8Array {
  const graph = [
    ...g.nodes.flatMap((n) => message(1, node(n))),
    ...text(2, 'workload'),
    ...g.constants.flatMap((c) => message(5, constant(c))),
    ...g.inputs.flatMap((t) => message(11, declaration(t))),
    ...g.outputs.flatMap((t) => message(12, declaration(t))),
  ];
  const parts = [
    ...int(1, 8),
    ...message(7, graph),
    ...message(8, [...text(1, ''), ...int(2, opset)]),
  ];
  const out = new Uint8Array(sizeOf(parts));
  let at = 0;
  for (const p of parts) {
    out.set(p, at);
    at += p.length;
  }
  return out;
}
