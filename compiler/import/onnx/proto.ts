/**
 * The part of ONNX's schema that the importer needs, decoded from the wire.
 *
 * Names are those of onnx.proto without the `Proto`. Documentation strings, metadata, training
 * information and quantisation notes are skipped. A tensor's contents stay views of the file, or
 * references to where they are in it.
 */
import type { ByteRange } from './outline';
import { type Contents, DELIMITED, type WireReader } from './wire';

export interface OnnxModel {
  irVersion: number;
  /** Version by domain; the default domain is `''`. */
  readonly opsets: Map<string, number>;
  graph?: OnnxGraph;
  readonly functions: OnnxFunction[];
}

export interface OnnxGraph {
  name: string;
  readonly nodes: OnnxNode[];
  readonly initializers: OnnxTensor[];
  /** Names of initializers in sparse form, which isn't supported. */
  readonly sparse: string[];
  readonly inputs: OnnxValueInfo[];
  readonly outputs: OnnxValueInfo[];
  readonly valueInfo: OnnxValueInfo[];
}

export interface OnnxNode {
  readonly inputs: string[];
  readonly outputs: string[];
  name: string;
  opType: string;
  domain: string;
  overload: string;
  readonly attributes: OnnxAttribute[];
}

/** AttributeProto.AttributeType */
export const ATTR = {
  FLOAT: 1,
  INT: 2,
  STRING: 3,
  TENSOR: 4,
  GRAPH: 5,
  FLOATS: 6,
  INTS: 7,
  STRINGS: 8,
} as const;

export interface OnnxAttribute {
  name: string;
  /** Inside a function: the attribute of the call that it takes its value from. */
  refName: string;
  /** AttributeProto.AttributeType; 0 where an old file doesn't say, then see what is set. */
  type: number;
  f?: number;
  i?: number;
  s?: string;
  t?: OnnxTensor;
  g?: OnnxGraph;
  readonly floats: number[];
  readonly ints: number[];
  readonly strings: string[];
  readonly graphs: OnnxGraph[];
  /** Holds something that has no form here: a sparse tensor, a type, a list of tensors. */
  other: boolean;
}

/** `int32_data`, `int64_data`, `uint64_data`. */
export type IntField = 5 | 7 | 11;

export interface OnnxTensor {
  name: string;
  readonly dims: number[];
  /** TensorProto.DataType */
  dataType: number;
  raw?: Contents;
  /** `float_data` and `double_data` when packed: the very bytes of the elements. */
  packedFloats?: Contents;
  packedDoubles?: Contents;
  /** `int32_data`, `int64_data` or `uint64_data`, packed, where the outline has left them out. */
  readonly varints: Partial<Record<IntField, ByteRange>>;
  readonly floats: number[];
  readonly doubles: number[];
  readonly int32s: number[];
  readonly int64s: number[];
  readonly uint64s: number[];
  external: boolean;
  readonly externalData: Map<string, string>;
}

export interface OnnxDim {
  value?: number;
  param?: string;
}

export interface OnnxValueInfo {
  name: string;
  /** TensorProto.DataType; undefined when the value is no dense tensor or the type isn't given. */
  elemType?: number;
  /** undefined: not even the rank is known. */
  dims?: OnnxDim[];
  /** `sequence`, `map`, `optional`, `sparse tensor`: what it is instead of a tensor. */
  otherKind?: string;
}

export interface OnnxFunction {
  name: string;
  domain: string;
  overload: string;
  readonly inputs: string[];
  readonly outputs: string[];
  readonly nodes: OnnxNode[];
  readonly opsets: Map<string, number>;
  /** Attributes with defaults. */
  readonly defaults: OnnxAttribute[];
}

export function readModel(r: WireReader): OnnxModel {
  const m: OnnxModel = { irVersion: 0, opsets: new Map(), functions: [] };
  while (r.next()) {
    if (r.field === 1) m.irVersion = r.int();
    else if (r.field === 7) m.graph = readGraph(r.message(), m.graph);
    else if (r.field === 8) readOpset(r.message(), m.opsets);
    else if (r.field === 25) m.functions.push(readFunction(r.message()));
    else r.skip();
  }
  return m;
}

function readOpset(r: WireReader, into: Map<string, number>): void {
  let domain = '';
  let version = 0;
  while (r.next()) {
    if (r.field === 1) domain = r.string();
    else if (r.field === 2) version = r.int();
    else r.skip();
  }
  into.set(plainDomain(domain), version);
}

/** `ai.onnx` is the long name of the default domain. */
export function plainDomain(domain: string): string {
  return domain === 'ai.onnx' ? '' : domain;
}

function readGraph(r: WireReader, onto?: OnnxGraph): OnnxGraph {
  // A message field that occurs twice is merged, as protobuf asks.
  const g: OnnxGraph = onto ?? {
    name: '',
    nodes: [],
    initializers: [],
    sparse: [],
    inputs: [],
    outputs: [],
    valueInfo: [],
  };
  while (r.next()) {
    if (r.field === 1) g.nodes.push(readNode(r.message()));
    else if (r.field === 2) g.name = r.string();
    else if (r.field === 5) g.initializers.push(readTensor(r.message()));
    else if (r.field === 11) g.inputs.push(readValueInfo(r.message()));
    else if (r.field === 12) g.outputs.push(readValueInfo(r.message()));
    else if (r.field === 13) g.valueInfo.push(readValueInfo(r.message()));
    else if (r.field === 15) g.sparse.push(readSparseName(r.message()));
    else r.skip();
  }
  return g;
}

function readSparseName(r: WireReader): string {
  let name = '';
  while (r.next()) {
    if (r.field === 1) name = readTensor(r.message()).name;
    else r.skip();
  }
  return name;
}

function readNode(r: WireReader): OnnxNode {
  const n: OnnxNode = {
    inputs: [],
    outputs: [],
    name: '',
    opType: '',
    domain: '',
    overload: '',
    attributes: [],
  };
  while (r.next()) {
    if (r.field === 1) n.inputs.push(r.string());
    else if (r.field === 2) n.outputs.push(r.string());
    else if (r.field === 3) n.name = r.string();
    else if (r.field === 4) n.opType = r.string();
    else if (r.field === 5) n.attributes.push(readAttribute(r.message()));
    else if (r.field === 7) n.domain = plainDomain(r.string());
    else if (r.field === 8) n.overload = r.string();
    else r.skip();
  }
  return n;
}

function readAttribute(r: WireReader): OnnxAttribute {
  const a: OnnxAttribute = {
    name: '',
    refName: '',
    type: 0,
    floats: [],
    ints: [],
    strings: [],
    graphs: [],
    other: false,
  };
  while (r.next()) {
    if (r.field === 1) a.name = r.string();
    else if (r.field === 2) a.f = r.float();
    else if (r.field === 3) a.i = r.int();
    else if (r.field === 4) a.s = r.string();
    else if (r.field === 5) a.t = readTensor(r.message());
    else if (r.field === 6) a.g = readGraph(r.message(), a.g);
    else if (r.field === 7) r.floats(a.floats);
    else if (r.field === 8) r.ints(a.ints);
    else if (r.field === 9) a.strings.push(r.string());
    else if (r.field === 11) a.graphs.push(readGraph(r.message()));
    else if (r.field === 20) a.type = r.int();
    else if (r.field === 21) a.refName = r.string();
    else if (r.field === 10 || r.field === 14 || r.field === 15 || r.field === 22) {
      a.other = true;
      r.skip();
    } else r.skip();
  }
  return a;
}

export function readTensor(r: WireReader): OnnxTensor {
  const t: OnnxTensor = {
    name: '',
    dims: [],
    dataType: 0,
    floats: [],
    doubles: [],
    int32s: [],
    int64s: [],
    uint64s: [],
    varints: {},
    external: false,
    externalData: new Map(),
  };
  while (r.next()) {
    if (r.field === 1) r.ints(t.dims);
    else if (r.field === 2) t.dataType = r.int();
    else if (r.field === 4) {
      // One packed run, which is what every writer makes, stays a view.
      if (r.wireType === DELIMITED && !t.packedFloats) t.packedFloats = r.contents();
      else r.floats(t.floats);
    } else if (r.field === 5) t.varints[5] = r.ints(t.int32s);
    else if (r.field === 7) t.varints[7] = r.ints(t.int64s);
    else if (r.field === 8) t.name = r.string();
    else if (r.field === 9) t.raw = r.contents();
    else if (r.field === 10) {
      if (r.wireType === DELIMITED && !t.packedDoubles) t.packedDoubles = r.contents();
      else r.doubles(t.doubles);
    } else if (r.field === 11) t.varints[11] = r.ints(t.uint64s, false);
    else if (r.field === 13) readEntry(r.message(), t.externalData);
    else if (r.field === 14) t.external = r.int() === 1;
    else r.skip();
  }
  return t;
}

function readEntry(r: WireReader, into: Map<string, string>): void {
  let key = '';
  let value = '';
  while (r.next()) {
    if (r.field === 1) key = r.string();
    else if (r.field === 2) value = r.string();
    else r.skip();
  }
  into.set(key, value);
}

function readValueInfo(r: WireReader): OnnxValueInfo {
  const v: OnnxValueInfo = { name: '' };
  while (r.next()) {
    if (r.field === 1) v.name = r.string();
    else if (r.field === 2) readType(r.message(), v);
    else r.skip();
  }
  return v;
}

const OTHER_TYPES: Readonly<Record<number, string>> = {
  4: 'sequence',
  5: 'map',
  7: 'opaque type',
  8: 'sparse tensor',
  9: 'optional',
};

function readType(r: WireReader, v: OnnxValueInfo): void {
  while (r.next()) {
    const other = OTHER_TYPES[r.field];
    if (r.field === 1) readTensorType(r.message(), v);
    else {
      if (other !== undefined) v.otherKind = other;
      r.skip();
    }
  }
}

function readTensorType(r: WireReader, v: OnnxValueInfo): void {
  while (r.next()) {
    if (r.field === 1) v.elemType = r.int();
    else if (r.field === 2) v.dims = readShape(r.message());
    else r.skip();
  }
}

function readShape(r: WireReader): OnnxDim[] {
  const dims: OnnxDim[] = [];
  while (r.next()) {
    if (r.field === 1) dims.push(readDim(r.message()));
    else r.skip();
  }
  return dims;
}

function readDim(r: WireReader): OnnxDim {
  const d: OnnxDim = {};
  while (r.next()) {
    if (r.field === 1) d.value = r.int();
    else if (r.field === 2) d.param = r.string();
    else r.skip();
  }
  return d;
}

function readFunction(r: WireReader): OnnxFunction {
  const f: OnnxFunction = {
    name: '',
    domain: '',
    overload: '',
    inputs: [],
    outputs: [],
    nodes: [],
    opsets: new Map(),
    defaults: [],
  };
  while (r.next()) {
    if (r.field === 1) f.name = r.string();
    else if (r.field === 4) f.inputs.push(r.string());
    else if (r.field === 5) f.outputs.push(r.string());
    else if (r.field === 7) f.nodes.push(readNode(r.message()));
    else if (r.field === 9) readOpset(r.message(), f.opsets);
    else if (r.field === 10) f.domain = plainDomain(r.string());
    else if (r.field === 11) f.defaults.push(readAttribute(r.message()));
    else if (r.field === 13) f.overload = r.string();
    else r.skip();
  }
  return f;
}
