/**
 * What names mean where: the parts of the importer that its helpers share.
 */
import type { BodyId, Node, Tensor, TensorId } from '../../graph/graph';
import type { Diagnostic } from '../../diagnostics';
import type { AttributeEnv, NodeAttributes } from './attributes';
import type { Knowledge } from './knowledge';
import type { OnnxGraph, OnnxNode, OnnxValueInfo } from './proto';

export class Scope {
  /** undefined: an optional input that the call left out. */
  readonly names = new Map<string, TensorId | undefined>();
  constructor(private readonly outer?: Scope) {}

  /** The id of a name; `missing` when nothing defines it. */
  find(name: string): TensorId | undefined | typeof MISSING {
    if (this.names.has(name)) return this.names.get(name);
    return this.outer ? this.outer.find(name) : MISSING;
  }
}
export const MISSING = Symbol('missing');

export interface Frame {
  readonly scope: Scope;
  readonly opsets: ReadonlyMap<string, number>;
  /** `n` at the top, `n3/` inside node n3. */
  readonly prefix: string;
  readonly declared: ReadonlyMap<string, OnnxValueInfo>;
  readonly attributes?: AttributeEnv;
  /** Keys of the functions being inlined, outermost first. */
  readonly calls: readonly string[];
  /** The body of a region that its nodes are in. */
  readonly body?: BodyId;
}

/** A node's op, given by canonical name, with what it reads. */
export interface Made {
  readonly op: string;
  readonly attrs?: Node['attrs'];
  readonly operands: readonly (TensorId | undefined)[];
  readonly results?: number;
  /** Names of the results, for people. */
  readonly names?: readonly string[];
  readonly control?: Node['control'];
}

/** What the importer offers to those who inline. */
export interface Builder {
  readonly knowledge: Knowledge;
  /** Follows aliases. */
  resolve(id: TensorId | undefined | typeof MISSING): TensorId | undefined;
  tensor(id: TensorId): Tensor | undefined;
  /** The contents of a tensor that the file itself has. */
  known(id: TensorId): readonly number[] | undefined;
  report(d: Diagnostic): void;
  /** The nodes of an inner graph, over the names that `bind` gives its inputs (by position). */
  inline(
    g: OnnxGraph,
    frame: Frame,
    prefix: string,
    inputs: readonly (TensorId | undefined)[],
  ): Scope;
  /** A node that the file doesn't have; its results are `<id>.0`, `<id>.1`… */
  make(n: OnnxNode, id: string, frame: Frame, made: Made): readonly TensorId[];
  constant(
    id: TensorId,
    name: string,
    dtype: 'i64' | 'bool' | 'f32',
    shape: readonly number[],
    values: readonly number[],
  ): TensorId;
  /** The results of a node become other ids, under the names that the node gives them. */
  alias(n: OnnxNode, id: string, sources: readonly (TensorId | undefined)[]): void;
  plain(
    n: OnnxNode,
    id: string,
    frame: Frame,
    attributes: NodeAttributes,
    problem?: string,
    captured?: readonly TensorId[],
  ): void;
  operands(n: OnnxNode, id: string, frame: Frame): (TensorId | undefined)[];
  /** Nodes so far: what a limit counts. */
  readonly size: number;
}

export function declaredTypes(g: OnnxGraph): Map<string, OnnxValueInfo> {
  return new Map([...g.valueInfo, ...g.outputs].map((v) => [v.name, v]));
}

/** Names that a graph, or one inside it, uses but doesn't define. */
export function freeNames(g: OnnxGraph): Set<string> {
  const defined = new Set<string>();
  for (const t of g.initializers) defined.add(t.name);
  for (const v of g.inputs) defined.add(v.name);
  for (const n of g.nodes) for (const o of n.outputs) defined.add(o);
  const free = new Set<string>();
  const use = (name: string): void => {
    if (name !== '' && !defined.has(name)) free.add(name);
  };
  for (const n of g.nodes) {
    n.inputs.forEach(use);
    for (const a of n.attributes) {
      if (a.g) freeNames(a.g).forEach(use);
      for (const inner of a.graphs) freeNames(inner).forEach(use);
    }
  }
  for (const o of g.outputs) use(o.name);
  return free;
}

/** Nodes of a graph with those of the graphs inside it. */
export function countNodes(g: OnnxGraph): number {
  let n = g.nodes.length;
  for (const node of g.nodes)
    for (const a of node.attributes) {
      if (a.g) n += countNodes(a.g);
      for (const inner of a.graphs) n += countNodes(inner);
    }
  return n;
}

export function describe(n: OnnxNode, id: string): string {
  return n.name === '' ? `${n.opType} (${id})` : `${n.opType} ${quote(n.name)} (${id})`;
}

/** Names come from a file: shortened and on one line. */
export function quote(name: string): string {
  const line = name.replace(/\p{Cc}/gu, ' ');
  return `'${line.length > 80 ? `${line.slice(0, 77)}…` : line}'`;
}
