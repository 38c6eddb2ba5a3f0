/**
 * L0: the imported graph, as the file said it.
 *
 * Vocabulary
 *  - *node*: one op of the file. A composite op (softmax, layer_norm, attention) stays one node, so
 *    that people see what they wrote.
 *  - *value*: a tensor: a graph input, a parameter, a constant, or one result of a node.
 *  - *id*: `n<k>` and `v<k>`-like keys made by the importer. They are never the file's names: an ONNX
 *    node may have an empty or a repeated name. For text formats ids derive from the defined name and
 *    the position inside its statement, so that an edit elsewhere leaves them as they are.
 *  - *region*: control flow that stays: a branch or a loop whose *bodies* run as often as the data
 *    says. Nodes of a body stand in the graph's one list, each with its body's id.
 */
import type { Diagnostic, SourceRange } from '../diagnostics';
import type { ConstData } from '../ir/compute';
import type { Dim } from '../ir/indexExpr';
import type { DType } from './dtype';

export type NodeId = string;
export type TensorId = string;
/** The id of the node that gives the region's results. */
export type RegionId = NodeId;
/** `n3/then`, `n3/else`, `n3/body`. */
export type BodyId = string;

export interface TensorType {
  readonly dtype: DType;
  readonly shape: readonly Dim[];
}

export type AttrValue =
  | number
  | string
  | boolean
  | readonly number[]
  | readonly string[]
  | { readonly tensor: ConstTensor }
  /** Sizes, of which some may be symbolic: `reshape(x, [B, -1])`. */
  | { readonly dims: readonly Dim[] };

export interface ConstTensor {
  readonly type: TensorType;
  readonly data: ConstData;
}

export type Attrs = Readonly<Record<string, AttrValue | undefined>>;

export interface Tensor {
  readonly id: TensorId;
  /** As the file names it; made up (`relu_1`) where it doesn't. */
  readonly name: string;
  /** Of inputs, parameters and constants always; of results only where the file declares it (lowering infers the rest). */
  readonly type?: TensorType;
  readonly role: 'input' | 'param' | 'const' | 'result';
  readonly data?: ConstData;
  /** A number literal: it takes the dtype of the tensors it is combined with. */
  readonly weak?: boolean;
  /** Where the file declares it. */
  readonly range?: SourceRange;
}

export interface Node {
  readonly id: NodeId;
  /** The canonical op name, a key of the op table: `matmul`, `layer_norm`, `conv`… */
  readonly op: string;
  /** As the file spells it: `LayerNormalization`, `layernorm`. */
  readonly sourceOp: string;
  /** A name for people; may be empty or repeated. */
  readonly name: string;
  readonly attrs: Attrs;
  /** undefined: an optional operand that was left out. */
  readonly operands: readonly (TensorId | undefined)[];
  readonly results: readonly TensorId[];
  /** The op's own place in the source: the lens goes there. */
  readonly range?: SourceRange;
  /** What has no lowering stays in the graph and is shown; the reason is a diagnostic's message. */
  readonly unsupported?: string;
  /** The body that it is in; absent at the top. */
  readonly body?: BodyId;
  /**
   * Of a region: `enter` hands a loop's operands to its body, and its results are what the body sees;
   * `exit` takes what the bodies give, and its results are the region's.
   */
  readonly control?: { readonly kind: 'enter' | 'exit'; readonly region: RegionId };
}

/** Runs one of two bodies, by a condition; both give as many results. */
export interface BranchRegion {
  readonly kind: 'branch';
  readonly id: RegionId;
  /** The body around it. */
  readonly parent?: BodyId;
  readonly condition: TensorId;
  /** Taken when the condition holds, and when it doesn't. */
  readonly then: { readonly body: BodyId; readonly gives: readonly TensorId[] };
  readonly else: { readonly body: BodyId; readonly gives: readonly TensorId[] };
  readonly results: readonly TensorId[];
}

/** Runs its body again and again: ONNX's Loop and Scan. */
export interface LoopRegion {
  readonly kind: 'loop';
  readonly id: RegionId;
  readonly parent?: BodyId;
  readonly body: BodyId;
  /** At most how often, and whether at all; absent: no limit but the condition; always. */
  readonly trips?: TensorId;
  readonly condition?: TensorId;
  /** What the body sees of these: the number of the iteration, and that it runs. */
  readonly iteration?: TensorId;
  readonly running?: TensorId;
  /** Whether the body is to run again. */
  readonly goesOn?: TensorId;
  /** Values that an iteration hands to the next. */
  readonly carried: readonly {
    readonly initial: TensorId;
    readonly formal: TensorId;
    readonly next: TensorId;
    readonly result: TensorId;
  }[];
  /** Tensors of which each iteration sees one slice: these say how often the body runs. */
  readonly sliced: readonly {
    readonly source: TensorId;
    readonly formal: TensorId;
    readonly axis: number;
    readonly reverse: boolean;
  }[];
  /** Results that are made up of a slice from each iteration. */
  readonly stacked: readonly {
    readonly element: TensorId;
    readonly result: TensorId;
    readonly axis: number;
    readonly reverse: boolean;
  }[];
}

export type Region = BranchRegion | LoopRegion;

/** What the file (or its side file) asks of the compiler. */
export type Directive = { readonly range?: SourceRange; readonly text: string } & (
  | { readonly kind: 'expect'; readonly expectation: Expectation }
  | { readonly kind: 'materialize'; readonly value: TensorId }
  | { readonly kind: 'nofuse'; readonly from: TensorId; readonly to: TensorId }
  | { readonly kind: 'fuse'; readonly values: readonly TensorId[] }
  | { readonly kind: 'recompute'; readonly value: TensorId }
  | {
      readonly kind: 'schedule';
      readonly value: TensorId;
      readonly params: Readonly<Record<string, number | string>>;
    }
);

export type Relation = '<=' | '<' | '==' | '>=' | '>' | '!=';

export type Expectation =
  | { readonly kind: 'kernels'; readonly relation: Relation; readonly count: number }
  | { readonly kind: 'bytes'; readonly relation: Relation; readonly bytes: number }
  | { readonly kind: 'fused'; readonly values: readonly TensorId[] }
  | { readonly kind: 'pattern'; readonly value: TensorId; readonly pattern: string };

export interface Graph {
  readonly format: 'fuse' | 'onnx';
  readonly name: string;
  readonly nodes: readonly Node[];
  readonly tensors: ReadonlyMap<TensorId, Tensor>;
  readonly inputs: readonly TensorId[];
  readonly outputs: readonly {
    readonly name: string;
    readonly tensor: TensorId;
    readonly range?: SourceRange;
  }[];
  /** Symbolic sizes with the value to profile with. */
  readonly dims: ReadonlyMap<string, number>;
  readonly directives: readonly Directive[];
  /** Those inside another before it. */
  readonly regions?: readonly Region[];
}

export interface ImportResult {
  readonly graph: Graph;
  readonly diagnostics: readonly Diagnostic[];
}
