/**
 * L1: the loop-level program that every front end lowers to and every kernel is generated from.
 *
 * Vocabulary
 *  - *value*: a tensor of the program: an input, a parameter, a constant or the result of a compute.
 *  - *compute*: defines one value: for each point of its parallel dims, either `body`, or `body`
 *    combined by a monoid over all points of its reduction dims.
 *  - *view*: never appears here. Reshapes, transposes, slices and broadcasts have become index maps
 *    in the loads (see ops/tensor.ts).
 */
import type { DType } from '../graph/dtype';
import type { BodyId, NodeId } from '../graph/graph';
import type { Expr, ValueId } from './expr';
import type { Dim, IndexExpr } from './indexExpr';
import type { ProgramRegion } from './region';

export type ComputeId = string;

export interface LoopDim {
  /** `d0`, `d1`… for parallel dims, `r0`… for reduction dims: unique within the compute. */
  readonly name: string;
  readonly extent: Dim;
}

/**
 * How a reduction combines its points. `argmax` and `argmin` give the position (in the row-major
 * order of the reduction dims) of the extreme element; ties go to the first, or to the last when
 * `last` is set. Identities: sum 0, prod 1, max -inf (or the smallest integer), and true, or false.
 */
export type Monoid =
  | { readonly kind: 'sum' | 'prod' | 'max' | 'min' | 'and' | 'or' }
  | { readonly kind: 'argmax' | 'argmin'; readonly last: boolean };

export interface Compute {
  readonly id: ComputeId;
  /** The value it defines; its shape is the extents of `dims`. */
  readonly value: ValueId;
  readonly dims: readonly LoopDim[];
  readonly reduce: readonly LoopDim[];
  /** Present exactly when `reduce` is not empty. */
  readonly monoid?: Monoid;
  readonly body: Expr;
  /** The dtype of the value (for arg reductions: of the position). */
  readonly dtype: DType;
  /** The dtype sums are kept in; the value is cast from it. */
  readonly accumulator: DType;
  /** The L0 nodes it comes from; empty for the copy of an input that is given out as it is. */
  readonly origin: readonly NodeId[];
  /** The body that it is in; absent at the top. */
  readonly region?: BodyId;
}

export type ConstData =
  /** The bytes as the file has them, little-endian, `dtype` elements: a view, not a copy. */
  | { readonly kind: 'bytes'; readonly bytes: Uint8Array }
  /** In a file beside the model; never read by the compiler. */
  | {
      readonly kind: 'external';
      readonly location: string;
      readonly offset: number;
      readonly length?: number;
    }
  /** In the model file itself, of which only the outline was read. */
  | {
      readonly kind: 'inModel';
      readonly offset: number;
      readonly length: number;
      /** `elements`: as `bytes` has them. `varints`: protobuf's integers, of which floats of 16 bits are the patterns. */
      readonly form: 'elements' | 'varints';
    }
  | { readonly kind: 'fill'; readonly value: number }
  | { readonly kind: 'numbers'; readonly values: readonly number[] };

/**
 * `opaque`: the result of an op without lowering; a program with one that an output needs can't run.
 * `region`: what control flow gives, to its body or to what comes after it: see region.ts.
 */
export type ValueRole = 'input' | 'param' | 'const' | 'computed' | 'opaque' | 'region';

export interface Value {
  readonly id: ValueId;
  readonly name: string;
  readonly dtype: DType;
  readonly shape: readonly Dim[];
  readonly role: ValueRole;
  /** For `const`, and for `param` whose contents the file has. */
  readonly data?: ConstData;
}

export interface ProgramOutput {
  readonly name: string;
  readonly value: ValueId;
  /** The output's own shape: the value's elements in row-major order, reshaped. */
  readonly shape: readonly Dim[];
}

export interface Program {
  readonly values: ReadonlyMap<ValueId, Value>;
  /** In topological order. */
  readonly computes: readonly Compute[];
  readonly inputs: readonly ValueId[];
  readonly outputs: readonly ProgramOutput[];
  /** Symbolic sizes with the value to profile with. */
  readonly dims: ReadonlyMap<string, number>;
  /** In the order in which they end: those inside another before it. */
  readonly regions?: readonly ProgramRegion[];
}

export function shapeOf(c: Compute): Dim[] {
  return c.dims.map((d) => d.extent);
}

/** Every load of a compute, with guards' and dynamic indices' loads. */
export interface Read {
  readonly value: ValueId;
  readonly index: readonly IndexExpr[];
}
