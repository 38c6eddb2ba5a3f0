/**
 * What an op definition is, and the handles it works with.
 *
 * Vocabulary
 *  - *op definition*: one entry of an op table: its canonical name, the names other formats give it,
 *    its form in `.fuse`, and one function that checks its operands, infers its result types and
 *    lowers it to L1, all at once.
 *  - *handle* ({@link LTensor}): a tensor as lowering sees it: dtype, shape, and `at(index)`, the
 *    expression of one element. For a stored value `at` is a load; for a view it is the base's `at`
 *    with the index map applied, so that views compose away.
 *  - *fault*: a mistake in the user's graph found by an op. `ctx.fail` ends the lowering of that node;
 *    the driver turns it into a diagnostic. It is the one place where an exception carries user input.
 */
import type { Attrs, ConstTensor, Node } from '../graph/graph';
import type { DType } from '../graph/dtype';
import type { Monoid } from '../ir/compute';
import type { Expr, ValueId } from '../ir/expr';
import type { Dim, IndexExpr, IndexLike } from '../ir/indexExpr';

export interface LTensor {
  readonly dtype: DType;
  readonly shape: readonly Dim[];
  /** The element at `index` (one expression per dim, each within its dim). */
  at(index: readonly IndexExpr[]): Expr;
  /** Set when the handle is exactly a stored L1 value (no map in between). */
  readonly value?: ValueId;
  /** The contents, row-major, when they are known at compile time: numbers, or sizes. */
  readonly known?: readonly Dim[] | readonly number[];
}

export interface ReduceSpec {
  readonly shape: readonly IndexLike[];
  /** Extents of the reduction dims. */
  readonly over: readonly IndexLike[];
  readonly monoid: Monoid | 'sum' | 'prod' | 'max' | 'min' | 'and' | 'or';
  /** dtype of the result; the body's by default. */
  readonly dtype?: DType;
  /** What sums are kept in; f32 for f16 and bf16 by default. */
  readonly accumulator?: DType;
}

export interface LoopSpec {
  readonly trips: Dim;
  /** What each state is before the first iteration. */
  readonly initial: readonly LTensor[];
  /** Given to the iterations in slices along the first dim. */
  readonly sliced: readonly { readonly source: LTensor; readonly reverse: boolean }[];
  /** For each row that an iteration gives: whether the first one comes last. */
  readonly stacked: readonly { readonly reverse: boolean }[];
}

/** What an iteration of a loop is given. */
export interface LoopStep {
  /** Its number, i64. */
  readonly iteration: LTensor;
  readonly states: readonly LTensor[];
  readonly slices: readonly LTensor[];
}

export interface LoopNext {
  /** Of the types and shapes of those before. */
  readonly states: readonly LTensor[];
  readonly rows: readonly LTensor[];
}

export interface LoopResult {
  readonly states: readonly LTensor[];
  /** The rows of all iterations, along a new first dim. */
  readonly stacked: readonly LTensor[];
}

/** What an op's `lower` gets. */
export interface LowerContext {
  readonly node: Node;
  /** How many operand slots the node has (left-out ones included). */
  readonly arity: number;
  /** Operand i; a fault when it is missing. */
  input(i: number): LTensor;
  /** Operand i, or undefined when it was left out. */
  optional(i: number): LTensor | undefined;
  /**
   * The same node with these operands, and attributes, in place of its own: for an op that is another one
   * with something around it.
   */
  derive(operands: readonly (LTensor | undefined)[], attrs?: Attrs): LowerContext;
  /** The contents of operand i as sizes (for shapes, axes, pads); a fault when they aren't known at compile time. */
  sizes(i: number): readonly Dim[];
  /** The contents of operand i as plain numbers; a fault when not known or symbolic. */
  numbers(i: number): readonly number[];

  // Attributes. A missing one gives the default; a missing one without default, or a wrong kind, is a fault.
  int(name: string, fallback?: number): number;
  float(name: string, fallback?: number): number;
  bool(name: string, fallback?: boolean): boolean;
  str(name: string, fallback?: string): string;
  ints(name: string, fallback?: readonly number[]): readonly number[];
  has(name: string): boolean;
  tensorAttr(name: string): ConstTensor | undefined;
  /** `axis` made non-negative; a fault when out of range. */
  axis(axis: number, rank: number): number;

  /** Ends the lowering of this node with a diagnostic that says what is wrong and what would be right. */
  fail(code: string, message: string): never;
  /** Ends it because the op, or this form of it, isn't supported: named, never silent. */
  unsupported(message: string): never;
  /** Says something about the node that is no fault. */
  note(code: string, message: string): void;

  /** A stored value, one element at a time: an elementwise, broadcast, injective or gather compute. */
  pointwise(
    shape: readonly IndexLike[],
    dtype: DType,
    body: (index: readonly IndexExpr[]) => Expr,
  ): LTensor;
  /** A stored value that combines `body` over the reduction dims. */
  reduce(
    spec: ReduceSpec,
    body: (index: readonly IndexExpr[], over: readonly IndexExpr[]) => Expr,
  ): LTensor;
  /** No stored value: an index map over another handle. Only for maps that are affine and cover no `when`. */
  view(
    shape: readonly IndexLike[],
    base: LTensor,
    map: (index: readonly IndexExpr[]) => readonly IndexExpr[],
  ): LTensor;
  /**
   * A loop: its body is lowered once, compiled as a graph of its own and run `trips` times. What is handed
   * over lies in memory.
   */
  loop(spec: LoopSpec, body: (step: LoopStep) => LoopNext): LoopResult;
  /** A tensor with contents known now. */
  constant(
    type: { dtype: DType; shape: readonly IndexLike[] },
    values: readonly Dim[] | readonly number[],
  ): LTensor;
  /** True when the two dims are equal; when it can't be proved, records the assumption as a diagnostic. */
  requireEqual(a: Dim, b: Dim, what: string): void;
}

/** A parameter of an op's form in `.fuse`. */
export interface FuseParam {
  readonly name: string;
  readonly aliases?: readonly string[];
  /** `tensor`: an operand. `tensors`: a list of operands (cat, stack). The rest: attributes. `size(s)` may hold dim names. */
  readonly kind:
    'tensor' | 'tensors' | 'int' | 'ints' | 'float' | 'bool' | 'str' | 'dtype' | 'size' | 'sizes';
  readonly optional?: boolean;
  readonly default?: FuseArg;
}

/** `undefined` for an optional argument that was left out; dims are index expressions. */
export type FuseArg =
  number | boolean | string | readonly number[] | Dim | readonly Dim[] | undefined;

/** What a call in `.fuse` passes for one argument, before it is bound to a parameter. */
export type FuseArgKind = 'tensor' | 'tensors' | 'number' | 'list' | 'bool' | 'str';

/** A call as the source has it: the kinds of its positional arguments and of its named ones. */
export interface FuseCall {
  readonly positional: readonly FuseArgKind[];
  readonly named: Readonly<Record<string, FuseArgKind>>;
}

/**
 * How an op is written in `.fuse`.
 *
 * Several forms (of one op or of several) may share a name: `max(x, axis=1)` reduces and `max(a, b)`
 * compares. A call takes the first form of that name, in table order, whose `matches` is absent or
 * answers true (see `fuseFormsByName` in ops/index.ts). A `tensor` parameter also takes a number,
 * which stands for a constant of rank 0; `sizes` and `ints` also take a single number; `axis`-like
 * parameters list what people also type (`dim`) under `aliases`.
 *
 * Without `attrs`, each bound argument that isn't an operand becomes the attribute of its
 * parameter's name: numbers, flags, texts and lists of numbers as they are, `size(s)` that hold
 * symbolic dims as `{ dims }`. Arguments that were left out and have no default give no attribute.
 */
export interface FuseForm {
  /** The main name first, then what people also type. */
  readonly names: readonly string[];
  /** Whether this form is meant, where forms share a name. */
  matches?(call: FuseCall): boolean;
  /** In positional order; `tensor` parameters become the operands in this order. */
  readonly params: readonly FuseParam[];
  /** How many results; a function when it depends on the arguments (split, chunk). Default 1. */
  readonly results?: number | ((args: Readonly<Record<string, FuseArg>>) => number | undefined);
  /** How many results by the shape of the first operand, where neither the arguments nor the names before the `=` say. */
  resultsOf?(attrs: Attrs, shape: readonly Dim[]): number | undefined;
  /** The canonical attributes from the bound arguments (non-tensor ones); default: as they are. */
  attrs?(args: Readonly<Record<string, FuseArg>>): Attrs;
  readonly doc: string;
}

export interface OpDef {
  /** Canonical, lower_snake. */
  readonly name: string;
  /** ONNX op types of the default domain (or `com.microsoft:Gelu`) that are this op, attributes named as in ONNX. */
  readonly onnx?: readonly string[];
  readonly fuse?: readonly FuseForm[];
  /** A pure index map: costs no kernel unless its result is an output. */
  readonly view?: boolean;
  lower(ctx: LowerContext): LTensor | readonly LTensor[];
}

/** Thrown by {@link LowerContext.fail}; caught by the lowering driver only. */
export class OpFault extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly isUnsupported: boolean,
  ) {
    super(message);
  }
}
