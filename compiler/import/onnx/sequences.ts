/**
 * Sequences and optional values, followed while importing.
 *
 * A GPU has tensors only. But what most files do with a sequence is known when compiling: how many
 * elements it has, and which one is taken. Then its ops are names for tensors: inserting is a longer
 * list, SequenceAt is the element itself. Where a position is data, the op is unsupported, by name.
 */
import type { TensorId } from '../../graph/graph';
import { constOf } from '../../ir/indexExpr';
import type { NodeAttributes } from './attributes';
import { ASKED } from './knowledge';
import type { OnnxNode } from './proto';
import type { Builder, Frame } from './scope';

type Items = readonly TensorId[];
type Outcome = { readonly problem: string } | 'done';

const DATA = 'the position or the length is only known when the model runs';

export class Sequences {
  /** By the id of the sequence's value. */
  private readonly items = new Map<TensorId, Items>();
  /** Optional values that hold nothing. */
  private readonly empty = new Set<TensorId>();

  constructor(private readonly builder: Builder) {}

  readonly isSequence = (id: TensorId): boolean => this.items.has(id) || this.empty.has(id);

  /** Whether the node was one of these; if it can't be followed, it is added as unsupported. */
  add(n: OnnxNode, id: string, frame: Frame, attributes: NodeAttributes): boolean {
    if (n.domain !== '') return false;
    const act = this.actionOf(n, id, frame, attributes);
    if (!act) return false;
    const outcome = act();
    if (outcome !== 'done') this.builder.plain(n, id, frame, attributes, outcome.problem);
    return true;
  }

  private actionOf(
    n: OnnxNode,
    id: string,
    frame: Frame,
    attributes: NodeAttributes,
  ): (() => Outcome) | undefined {
    const { builder } = this;
    const operand = (i: number): TensorId | undefined =>
      builder.resolve(builder.operands(n, id, frame)[i]);
    const attr = (name: string, fallback: number): number => {
      const v = attributes.attrs[name];
      return typeof v === 'number' ? v : fallback;
    };
    switch (n.opType) {
      case 'SequenceEmpty':
        return () => this.define(n, id, []);
      case 'SequenceConstruct':
        return () =>
          this.define(
            n,
            id,
            n.inputs.flatMap((_, i) => operand(i) ?? []),
          );
      case 'SequenceInsert':
        return () => this.splice(n, id, operand(0), operand(2), operand(1));
      case 'SequenceErase':
        return () => this.splice(n, id, operand(0), operand(1), undefined);
      case 'SequenceAt':
        return () => {
          const list = this.list(operand(0));
          const at = this.position(operand(1), list?.length ?? 0);
          if (!list || at === undefined) return { problem: DATA };
          const item = list[at];
          if (item === undefined)
            return { problem: `there is no element ${at} in a sequence of ${list.length}` };
          builder.alias(n, id, [item]);
          return 'done';
        };
      case 'SequenceLength':
        return () => {
          const list = this.list(operand(0));
          if (!list) return { problem: DATA };
          builder.alias(n, id, [
            builder.constant(`${id}/n`, n.outputs[0] ?? '', 'i64', [], [list.length]),
          ]);
          return 'done';
        };
      case 'ConcatFromSequence':
        return () => {
          const list = this.list(operand(0));
          if (!list || list.length === 0) return { problem: DATA };
          const op = attr('new_axis', 0) === 1 ? 'stack' : 'concat';
          const attrs = { axis: attr('axis', 0) };
          builder.alias(n, id, builder.make(n, `${id}/s`, frame, { op, attrs, operands: list }));
          return 'done';
        };
      case 'SplitToSequence':
        return () => this.split(n, id, frame, operand(0), operand(1), attr);
      case 'SequenceMap':
        return () => this.map(n, id, frame, attributes);
      case 'Identity': {
        const x = operand(0);
        if (x === undefined || !this.isSequence(x)) return undefined;
        return () => this.same(n, id, x);
      }
      case 'Optional':
        return () => {
          const x = n.inputs.length === 0 ? undefined : operand(0);
          if (x !== undefined) return this.same(n, id, x);
          this.empty.add(`${id}.0`);
          return 'done';
        };
      case 'OptionalHasElement':
        return () => {
          const x = n.inputs.length === 0 ? undefined : operand(0);
          const has = x !== undefined && !this.empty.has(x);
          builder.alias(n, id, [
            builder.constant(`${id}/h`, n.outputs[0] ?? '', 'bool', [], [has ? 1 : 0]),
          ]);
          return 'done';
        };
      case 'OptionalGetElement':
        return () => {
          const x = operand(0);
          if (x === undefined || this.empty.has(x))
            return { problem: 'the optional value holds nothing' };
          return this.same(n, id, x);
        };
      default:
        return undefined;
    }
  }

  private define(n: OnnxNode, id: string, items: Items): Outcome {
    if (n.outputs.length > 0) this.items.set(`${id}.0`, items);
    return 'done';
  }

  /** The node's result is its operand. */
  private same(n: OnnxNode, id: string, x: TensorId): Outcome {
    this.builder.alias(n, id, [x]);
    return 'done';
  }

  private list(id: TensorId | undefined): Items | undefined {
    return id === undefined ? undefined : this.items.get(id);
  }

  private contents(id: TensorId): readonly number[] | undefined {
    const known = this.builder.known(id) ?? this.builder.knowledge.contentsOf(id);
    return known === ASKED ? undefined : known;
  }

  /** A position that may count from the end; `fallback` where the operand is left out. */
  private position(id: TensorId | undefined, length: number): number | undefined {
    if (id === undefined) return undefined;
    const p = this.contents(id)?.[0];
    return p !== undefined && p < 0 ? p + length : p;
  }

  /** An element put in, or taken out, at a position: the end, where none is given. */
  private splice(
    n: OnnxNode,
    id: string,
    sequence: TensorId | undefined,
    where: TensorId | undefined,
    item: TensorId | undefined,
  ): Outcome {
    const list = this.list(sequence);
    if (!list) return { problem: DATA };
    const end = item === undefined ? list.length - 1 : list.length;
    const at = where === undefined ? end : this.position(where, list.length);
    if (at === undefined) return { problem: DATA };
    if (at < 0 || at > end)
      return { problem: `position ${at} is outside a sequence of ${list.length}` };
    const rest = list.slice(item === undefined ? at + 1 : at);
    return this.define(n, id, [
      ...list.slice(0, at),
      ...(item === undefined ? [] : [item]),
      ...rest,
    ]);
  }

  private split(
    n: OnnxNode,
    id: string,
    frame: Frame,
    x: TensorId | undefined,
    sizes: TensorId | undefined,
    attr: (name: string, fallback: number) => number,
  ): Outcome {
    const { builder } = this;
    if (x === undefined) return { problem: 'its operand is missing' };
    const shape = builder.tensor(x)?.type?.shape ?? builder.knowledge.shapeOf(x);
    if (shape === ASKED || shape === undefined) return { problem: DATA };
    const given = attr('axis', 0);
    const axis = given < 0 ? given + shape.length : given;
    const dim = shape[axis];
    const length = dim && constOf(dim);
    const known = sizes === undefined ? undefined : this.contents(sizes);
    if (length === undefined || (sizes !== undefined && !known)) return { problem: DATA };
    if (known === undefined && attr('keepdims', 1) === 0) {
      const made = { op: 'unbind', attrs: { axis }, operands: [x], results: length };
      return this.define(n, id, builder.make(n, `${id}/s`, frame, made));
    }
    const scalar = known === undefined || this.isScalar(sizes);
    const step = scalar ? Math.max(1, known?.[0] ?? 1) : 0;
    const parts = scalar
      ? Array.from({ length: Math.ceil(length / step) }, (_, i) =>
          Math.min(step, length - i * step),
        )
      : (known ?? []);
    const made = {
      op: 'split',
      attrs: { axis, split: parts },
      operands: [x],
      results: parts.length,
    };
    return this.define(n, id, builder.make(n, `${id}/s`, frame, made));
  }

  /** One size for all parts has rank 0. */
  private isScalar(sizes: TensorId | undefined): boolean {
    const type = sizes === undefined ? undefined : this.builder.tensor(sizes)?.type;
    return type?.shape.length === 0;
  }

  /** The body once for each element, with the elements of further sequences beside it. */
  private map(n: OnnxNode, id: string, frame: Frame, attributes: NodeAttributes): Outcome {
    const { builder } = this;
    const body = attributes.graphs.get('body');
    const operands = builder.operands(n, id, frame).map((o) => builder.resolve(o));
    const first = this.list(operands[0]);
    if (!body || !first) return { problem: body ? DATA : 'it has no body' };
    const out: TensorId[][] = body.outputs.map(() => []);
    first.forEach((_, i) => {
      const inputs = operands.map((o) => this.list(o)?.[i] ?? o);
      const scope = builder.inline(body, frame, `${id}/${i}/`, inputs);
      body.outputs.forEach((o, k) => {
        const found = builder.resolve(scope.find(o.name));
        if (found !== undefined) out[k]?.push(found);
      });
    });
    out.forEach((list, k) => this.items.set(`${id}.${k}`, list));
    return 'done';
  }
}
