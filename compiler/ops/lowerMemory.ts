/**
 * What a host may keep of lowering between versions of a file: for each node what came of it.
 *
 * What a node is lowered to depends on the node (its place in the file aside), on the handles of what it
 * reads, and on what the symbolic sizes stand for. Where all of these are as they were, the very same
 * handles and computes are taken again, so that what follows knows them by identity, too. Nodes with
 * something to say (a fault, a note) are lowered anew: what they say has a place in the file.
 */
import type { AttrValue, ConstTensor, Graph, Node, NodeId, Tensor, TensorId } from '../graph/graph';
import type { Compute, ConstData, Value } from '../ir/compute';
import type { ValueId } from '../ir/expr';
import type { Dim } from '../ir/indexExpr';
import type { NodeKind } from '../result';
import type { LTensor } from './op';

/** What came of a node. */
export interface NodeRecord {
  readonly node: Node;
  /** Of its operands and results, in this order. */
  readonly tensors: readonly (Tensor | undefined)[];
  readonly operands: readonly (LTensor | undefined)[];
  readonly results: readonly (LTensor | undefined)[];
  readonly kind: NodeKind;
  readonly computes: readonly Compute[];
  /** All computes that were made, with those that folding has taken the place of. */
  readonly made: readonly Compute[];
  readonly values: ReadonlyMap<ValueId, Value>;
  readonly decoded: ReadonlyMap<ValueId, readonly number[] | undefined>;
}

/** What became of an input, a parameter or a constant of the file. */
export interface TensorRecord {
  readonly tensor: Tensor;
  readonly value: Value;
  readonly handle: LTensor;
  readonly decoded: readonly number[] | undefined;
}

export class LoweringMemory {
  private readonly nodes = new Map<NodeId, NodeRecord>();
  private readonly tensors = new Map<TensorId, TensorRecord>();

  /** @param old that of the version before */
  constructor(
    private readonly dims: ReadonlyMap<string, number>,
    private old?: LoweringMemory,
  ) {
    if (old && !sameSizes(old.dims, dims)) this.old = undefined;
  }

  node(n: Node, graph: Graph, handles: ReadonlyMap<TensorId, LTensor>): NodeRecord | undefined {
    const record = this.old?.nodes.get(n.id);
    if (!record || !sameNode(record.node, n)) return undefined;
    for (let i = 0; i < n.operands.length; i++) {
      const o = n.operands[i];
      if (o !== undefined && handles.get(o) !== record.operands[i]) return undefined;
    }
    const { tensors } = record;
    for (let i = 0; i < tensors.length; i++) {
      const t = n.operands.length > i ? n.operands[i] : n.results[i - n.operands.length];
      if (!sameTensor(tensors[i], t === undefined ? undefined : graph.tensors.get(t)))
        return undefined;
    }
    this.nodes.set(n.id, record);
    return record;
  }

  /**
   * The handle that the node's result had, where the new one is the same: what reads it then needn't be
   * lowered anew, even where the result is computed in another way than before.
   */
  handle(n: Node, result: number, h: LTensor): LTensor {
    const record = this.old?.nodes.get(n.id);
    const before = record?.results[result];
    if (!record || !before) return h;
    const same =
      h.value !== undefined &&
      h.value === before.value &&
      // Of what isn't known, the handle is all that the readers see.
      record.values.get(h.value)?.role === 'computed' &&
      h.known === undefined &&
      before.known === undefined &&
      h.dtype === before.dtype &&
      sameDims(h.shape, before.shape);
    return same ? before : h;
  }

  tensor(t: Tensor): TensorRecord | undefined {
    const record = this.old?.tensors.get(t.id);
    if (!record || !sameTensor(record.tensor, t)) return undefined;
    this.tensors.set(t.id, record);
    return record;
  }

  keepNode(record: NodeRecord): void {
    this.nodes.set(record.node.id, record);
  }

  keepTensor(record: TensorRecord): void {
    this.tensors.set(record.tensor.id, record);
  }

  /** The graph is lowered: the version before is of no more use. */
  close(): void {
    this.old = undefined;
  }
}

/** Whether the symbolic sizes stand for the same numbers. */
export function sameSizes(a: ReadonlyMap<string, number>, b: ReadonlyMap<string, number>): boolean {
  if (a.size !== b.size) return false;
  for (const [name, n] of a) if (b.get(name) !== n) return false;
  return true;
}

function sameNode(a: Node, b: Node): boolean {
  if (a === b) return true;
  return (
    a.op === b.op &&
    a.sourceOp === b.sourceOp &&
    a.name === b.name &&
    a.unsupported === b.unsupported &&
    a.body === b.body &&
    a.control === b.control &&
    sameList(a.operands, b.operands) &&
    sameList(a.results, b.results) &&
    sameAttrs(a.attrs, b.attrs)
  );
}

function sameList(a: readonly unknown[], b: readonly unknown[]): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (!Object.is(a[i], b[i])) return false;
  return true;
}

function sameAttrs(a: Node['attrs'], b: Node['attrs']): boolean {
  if (a === b) return true;
  const keys = Object.keys(a);
  if (keys.length !== Object.keys(b).length) return false;
  return keys.every((k) => Object.hasOwn(b, k) && sameAttr(a[k], b[k]));
}

function sameAttr(a: AttrValue | undefined, b: AttrValue | undefined): boolean {
  if (Object.is(a, b)) return true;
  if (typeof a !== 'object' || typeof b !== 'object') return false;
  if ('dims' in a) return 'dims' in b && sameDims(a.dims, b.dims);
  if ('tensor' in a) return 'tensor' in b && sameContents(a.tensor, b.tensor);
  return !('dims' in b) && !('tensor' in b) && sameList(a, b);
}

function sameDims(a: readonly Dim[], b: readonly Dim[]): boolean {
  return a.length === b.length && a.every((d, i) => d.key === b[i]?.key);
}

function sameContents(a: ConstTensor, b: ConstTensor): boolean {
  return (
    a.type.dtype === b.type.dtype &&
    sameDims(a.type.shape, b.type.shape) &&
    sameData(a.data, b.data)
  );
}

/** All but the place in the file. */
function sameTensor(a: Tensor | undefined, b: Tensor | undefined): boolean {
  if (a === b) return true;
  if (!a || !b || a.name !== b.name || a.role !== b.role || a.weak !== b.weak) return false;
  if (!sameData(a.data, b.data)) return false;
  if (!a.type || !b.type) return a.type === b.type;
  return a.type.dtype === b.type.dtype && sameDims(a.type.shape, b.type.shape);
}

/** Where that is quickly told. */
function sameData(a: ConstData | undefined, b: ConstData | undefined): boolean {
  if (a === b) return true;
  if (a?.kind === 'fill') return b?.kind === 'fill' && Object.is(a.value, b.value);
  return a?.kind === 'numbers' && b?.kind === 'numbers' && sameList(a.values, b.values);
}
