/**
 * A minimal writer of ONNX files, for tests: just enough of protobuf and of ONNX's schema to say what
 * a test is about.
 */
export type Bytes = number[];

export function varint(n: number | bigint): Bytes {
  const out: Bytes = [];
  let rest = BigInt.asUintN(64, BigInt(n));
  while (rest >= 128n) {
    out.push(Number(rest & 127n) | 128);
    rest >>= 7n;
  }
  out.push(Number(rest));
  return out;
}

export function int(field: number, n: number | bigint): Bytes {
  return [...varint(field * 8), ...varint(n)];
}

export function message(field: number, ...parts: Bytes[]): Bytes {
  const contents = parts.flat();
  return [...varint(field * 8 + 2), ...varint(contents.length), ...contents];
}

export function text(field: number, s: string): Bytes {
  return message(field, [...new TextEncoder().encode(s)]);
}

export function floatBits(...values: number[]): Bytes {
  return [...new Uint8Array(Float32Array.from(values).buffer)];
}

export function int64Bits(...values: number[]): Bytes {
  return [...new Uint8Array(BigInt64Array.from(values.map((v) => BigInt(v))).buffer)];
}

export const FLOAT = 1;
export const INT64 = 7;
export const BOOL = 9;

/** TensorProto. `data` is the fields that hold the elements, `raw(...)` for one. */
export function tensor(name: string, type: number, dims: number[], ...data: Bytes[]): Bytes {
  return [...dims.flatMap((d) => int(1, d)), ...int(2, type), ...text(8, name), ...data.flat()];
}

export function raw(...bytes: number[]): Bytes {
  return message(9, bytes);
}

export type DimSpec = number | string | undefined;

/** ValueInfoProto; `dims` undefined: unknown rank; a dim undefined: neither size nor name. */
export function value(name: string, type: number, dims?: DimSpec[]): Bytes {
  const shape = dims?.map((d) =>
    message(1, d === undefined ? [] : typeof d === 'number' ? int(1, d) : text(2, d)),
  );
  const tensorType = [...int(1, type), ...(shape ? message(2, ...shape) : [])];
  return [...text(1, name), ...message(2, message(1, tensorType))];
}

export const attr = {
  int: (name: string, v: number): Bytes => [...text(1, name), ...int(3, v), ...int(20, 2)],
  ints: (name: string, v: number[]): Bytes => [
    ...text(1, name),
    ...v.flatMap((x) => int(8, x)),
    ...int(20, 7),
  ],
  float: (name: string, v: number): Bytes => [
    ...text(1, name),
    2 * 8 + 5,
    ...floatBits(v),
    ...int(20, 1),
  ],
  floats: (name: string, v: readonly number[]): Bytes => [
    ...text(1, name),
    ...v.flatMap((x) => [7 * 8 + 5, ...floatBits(x)]),
    ...int(20, 6),
  ],
  strings: (name: string, v: readonly string[]): Bytes => [
    ...text(1, name),
    ...v.flatMap((x) => text(9, x)),
    ...int(20, 8),
  ],
  string: (name: string, v: string): Bytes => [...text(1, name), ...text(4, v), ...int(20, 3)],
  tensor: (name: string, t: Bytes): Bytes => [...text(1, name), ...message(5, t), ...int(20, 4)],
  graph: (name: string, g: Bytes): Bytes => [...text(1, name), ...message(6, g), ...int(20, 5)],
  reference: (name: string, to: string, type: number): Bytes => [
    ...text(1, name),
    ...text(21, to),
    ...int(20, type),
  ],
};

export interface NodeSpec {
  readonly name?: string;
  readonly domain?: string;
  readonly attrs?: Bytes[];
}

export function node(op: string, inputs: string[], outputs: string[], more: NodeSpec = {}): Bytes {
  return [
    ...inputs.flatMap((i) => text(1, i)),
    ...outputs.flatMap((o) => text(2, o)),
    ...text(3, more.name ?? ''),
    ...text(4, op),
    ...(more.attrs ?? []).flatMap((a) => message(5, a)),
    ...text(7, more.domain ?? ''),
  ];
}

export interface GraphSpec {
  readonly nodes?: Bytes[];
  readonly inputs?: Bytes[];
  readonly outputs?: Bytes[];
  readonly initializers?: Bytes[];
  readonly valueInfo?: Bytes[];
}

export function graph(g: GraphSpec): Bytes {
  return [
    ...(g.nodes ?? []).flatMap((n) => message(1, n)),
    ...text(2, 'test graph'),
    ...(g.initializers ?? []).flatMap((t) => message(5, t)),
    ...(g.inputs ?? []).flatMap((v) => message(11, v)),
    ...(g.outputs ?? []).flatMap((v) => message(12, v)),
    ...(g.valueInfo ?? []).flatMap((v) => message(13, v)),
  ];
}

export function fn(
  domain: string,
  name: string,
  inputs: string[],
  outputs: string[],
  nodes: Bytes[],
  defaults: Bytes[] = [],
): Bytes {
  return [
    ...text(1, name),
    ...inputs.flatMap((i) => text(4, i)),
    ...outputs.flatMap((o) => text(5, o)),
    ...nodes.flatMap((n) => message(7, n)),
    ...message(9, int(2, 18)),
    ...text(10, domain),
    ...defaults.flatMap((d) => message(11, d)),
  ];
}

export function model(g: GraphSpec, opset = 18, functions: Bytes[] = []): Uint8Array {
  return Uint8Array.from([
    ...int(1, 8),
    ...message(7, graph(g)),
    ...message(8, text(1, ''), int(2, opset)),
    ...functions.flatMap((f) => message(25, f)),
  ]);
}
