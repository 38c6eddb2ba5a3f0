/**
 * AttributeProto to {@link AttrValue}, names kept as in ONNX.
 *
 * Two attributes are added for the op tables, whose forms differ by version of the operator set:
 * `opset`, the version of the node's domain, and `flatten2d` on Softmax, LogSoftmax and Hardmax
 * before version 13, which flattened their operand to a matrix at `axis`.
 */
import type { Attrs, AttrValue } from '../../graph/graph';
import { ATTR, type OnnxAttribute, type OnnxGraph } from './proto';
import { convertTensor } from './tensors';

export interface NodeAttributes {
  readonly attrs: Attrs;
  readonly graphs: ReadonlyMap<string, OnnxGraph>;
  /** Attributes that have no form here, each with its reason. */
  readonly problems: readonly string[];
}

/** What a function call gives its body: attribute name to the value of this call. */
export type AttributeEnv = ReadonlyMap<string, OnnxAttribute>;

/** Replaces references to the call's attributes; those that the call leaves out are left out. */
export function resolveReferences(
  list: readonly OnnxAttribute[],
  env: AttributeEnv | undefined,
): OnnxAttribute[] {
  const out: OnnxAttribute[] = [];
  for (const a of list) {
    if (a.refName === '') out.push(a);
    else {
      const value = env?.get(a.refName);
      if (value) out.push({ ...value, name: a.name });
    }
  }
  return out;
}

const FLATTENING: ReadonlySet<string> = new Set(['Softmax', 'LogSoftmax', 'Hardmax']);

export function nodeAttributes(
  list: readonly OnnxAttribute[],
  opType: string,
  domain: string,
  opset: number,
): NodeAttributes {
  const entries = new Map<string, AttrValue>();
  const graphs = new Map<string, OnnxGraph>();
  const problems: string[] = [];
  for (const a of list) {
    if (a.g && (a.type === ATTR.GRAPH || a.type === 0)) {
      graphs.set(a.name, a.g);
      continue;
    }
    const v = attributeValue(a);
    if (typeof v === 'object' && 'problem' in v) problems.push(v.problem);
    else entries.set(a.name, v);
  }
  // An op of another domain may say itself which version of an ONNX op it stands for.
  if (domain === '' || !entries.has('opset')) entries.set('opset', opset);
  if (domain === '' && opset < 13 && FLATTENING.has(opType)) {
    entries.set('flatten2d', true);
    if (!entries.has('axis')) entries.set('axis', 1);
  }
  // fromEntries makes plain properties even of names like __proto__.
  return { attrs: Object.fromEntries(entries), graphs, problems };
}

function attributeValue(a: OnnxAttribute): AttrValue | { readonly problem: string } {
  const kind = a.type === 0 ? guessType(a) : a.type;
  switch (kind) {
    case ATTR.FLOAT:
      return a.f ?? 0;
    case ATTR.INT:
      return a.i ?? 0;
    case ATTR.STRING:
      return a.s ?? '';
    case ATTR.FLOATS:
      return a.floats;
    case ATTR.INTS:
      return a.ints;
    case ATTR.STRINGS:
      return a.strings;
    case ATTR.TENSOR: {
      if (!a.t) return { problem: `its attribute '${a.name}' has no tensor` };
      const r = convertTensor(a.t);
      return r.ok ? { tensor: r.tensor } : { problem: `its attribute '${a.name}': ${r.message}` };
    }
    default:
      return { problem: `its attribute '${a.name}' has a type that isn't supported` };
  }
}

/** Files before IR version 2 don't say the type. */
function guessType(a: OnnxAttribute): number {
  if (a.f !== undefined) return ATTR.FLOAT;
  if (a.i !== undefined) return ATTR.INT;
  if (a.s !== undefined) return ATTR.STRING;
  if (a.t) return ATTR.TENSOR;
  if (a.floats.length > 0) return ATTR.FLOATS;
  if (a.strings.length > 0) return ATTR.STRINGS;
  if (a.graphs.length > 0 || a.other) return -1;
  return ATTR.INTS;
}
