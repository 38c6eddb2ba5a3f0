/**
 * Nodes and tensors of the graph under construction, and their ids.
 *
 * Ids. The statement that defines `y` makes tensor `y` and, for its outermost op, a node named by
 * the op's spelling: `y#layer_norm`. An inner op `relu` makes node `y#relu` and tensor `y/relu`; a
 * second one `y#relu/1` and `y/relu.1`. A literal is the tensor `y/=0.5`. A name that is defined
 * again (an error, but the rest is still read) goes on as `y~2`.
 */
import type { Attrs, Node, NodeId, Tensor, TensorId } from '../../graph/graph';
import type { SourceRange } from '../../diagnostics';
import { type Dim, printIndex } from '../../ir/indexExpr';
import type { Named, OpSite } from './ast';
import type { Value } from './values';

/** The names before the `=` that an expression's outermost op gives its results to. */
export interface Destination {
  readonly targets: readonly Named[];
}

/** An op where the text has it. */
export interface OpUse {
  /** The name that the statement's ids build on. */
  readonly base: string;
  readonly site: OpSite;
  /** As written: `F.relu`, `+`. */
  readonly callee: string;
  readonly to?: Destination;
}

export class GraphBuilder {
  readonly nodes: Node[] = [];
  private readonly all = new Map<TensorId, Tensor>();
  /** Told of the tensors that the statement at hand makes or needs. */
  traced: Tensor[] | undefined;

  get tensors(): ReadonlyMap<TensorId, Tensor> {
    return this.all;
  }

  addTensor(t: Tensor): void {
    this.all.set(t.id, t);
    this.traced?.push(t);
  }

  /** Whether the tensor is there; it is one that the statement at hand needs. */
  hasTensor(id: TensorId): boolean {
    const t = this.all.get(id);
    if (t) this.traced?.push(t);
    return t !== undefined;
  }

  add(
    use: OpUse,
    op: string,
    attrs: Attrs,
    operands: readonly (TensorId | undefined)[],
    count: number,
    unsupported?: string,
  ): Value {
    const { base, site, callee, to } = use;
    const nth = site.ordinal;
    const id: NodeId = `${base}#${site.spelling}${nth > 0 ? `/${nth}` : ''}`;
    const targets = to?.targets.length === count ? to.targets : [];
    const results: TensorId[] = [];
    for (let i = 0; i < count; i++) {
      const target = targets[i];
      const tensor =
        target && target.name !== '_'
          ? { id: target.name, name: displayName(target.name), range: target.range }
          : innerTensor(use, count > 1 ? i : undefined);
      this.addTensor({ ...tensor, role: 'result' });
      results.push(tensor.id);
    }
    this.nodes.push({
      id,
      op,
      sourceOp: callee,
      name: to ? displayName(base) : '',
      attrs,
      operands,
      results,
      range: site.range,
      ...(unsupported === undefined ? {} : { unsupported }),
    });
    const only = results[0];
    return count === 1 && only !== undefined
      ? { kind: 'tensor', id: only }
      : { kind: 'results', ids: results, op: callee };
  }

  /** A size as a number to calculate with; like a literal it has the dtype of what it stands with. */
  size(dim: Dim, base: string, range: SourceRange): TensorId {
    const name = printIndex(dim);
    const id = `${base}/=${name}`;
    if (this.tensors.has(id)) return id;
    this.addTensor({ id, name, role: 'result', weak: true, range });
    this.nodes.push({
      id: `${base}#=${name}`,
      op: 'dim',
      sourceOp: 'dim',
      name: '',
      attrs: { size: { dims: [dim] } },
      operands: [],
      results: [id],
      range,
    });
    return id;
  }

  /** A node that stays in the graph although it can't be lowered; its results are as many as are used. */
  unsupported(
    use: OpUse,
    op: string,
    operands: readonly (TensorId | undefined)[],
    reason: string,
  ): Value {
    return this.add(use, op, {}, operands, use.to?.targets.length ?? 1, reason);
  }
}

/** A result that no name is given to: `y/relu.1`, shown as `y.relu_1`. */
function innerTensor(
  { base, site }: OpUse,
  index: number | undefined,
): Pick<Tensor, 'id' | 'name' | 'range'> {
  const nth = site.ordinal;
  const id = `${base}/${site.spelling}${nth > 0 ? `.${nth}` : ''}`;
  const name = `${displayName(base)}.${site.spelling}${nth > 0 ? `_${nth}` : ''}`;
  return index === undefined
    ? { id, name, range: site.range }
    : { id: `${id}:${index}`, name: `${name}_${index}`, range: site.range };
}

/** The name without the mark of a repeated definition. */
function displayName(id: string): string {
  const at = id.indexOf('~');
  return at < 0 ? id : id.slice(0, at);
}
