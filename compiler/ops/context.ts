/**
 * What one op's `lower` works with: operands, attributes, and the makers of results, for one node.
 */
import { type Diagnostic, info } from '../diagnostics';
import { type DType, isFloat } from '../graph/dtype';
import type { Attrs, BodyId, Graph, Node, NodeId, TensorId, TensorType } from '../graph/graph';
import type { Compute, ConstData, LoopDim, Monoid } from '../ir/compute';
import { cast as castExpr, constant, type Expr, indexValue, type ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { Dim, IndexExpr, IndexLike } from '../ir/indexExpr';
import type { ProgramLoop } from '../ir/region';
import type { Known } from './evaluate';
import { makeLoop } from './loops';
import {
  type LoopNext,
  type LoopResult,
  type LoopSpec,
  type LoopStep,
  type LowerContext,
  type LTensor,
  OpFault,
  type ReduceSpec,
} from './op';

/** The lowering of the graph that the node is in. */
export interface Driver {
  readonly graph: Graph;
  readonly handles: ReadonlyMap<TensorId, LTensor>;
  readonly diagnostics: Diagnostic[];
  addCompute(c: Compute, name: string): LTensor;
  addConstant(id: ValueId, dtype: DType, shape: readonly Dim[], known: readonly Known[]): LTensor;
  addFill(id: ValueId, dtype: DType, shape: readonly Dim[], value: number): LTensor;
  addHanded(id: ValueId, name: string, dtype: DType, shape: readonly Dim[]): LTensor;
  addLoop(r: ProgramLoop): void;
}

function ended(): never {
  throw new Error('an op makes results after its lowering has ended');
}

const OVER: Driver = {
  get graph(): never {
    return ended();
  },
  get handles(): never {
    return ended();
  },
  get diagnostics(): never {
    return ended();
  },
  addCompute: ended,
  addConstant: ended,
  addFill: ended,
  addHanded: ended,
  addLoop: ended,
};

/** What a context shares with those derived from it. */
interface Work {
  driver: Driver;
  readonly computes: Compute[];
  readonly made: Set<ValueId>;
  /** The number of the next value. */
  next: number;
  /** The body of a branch or a loop that is being lowered: the node's own, or that of a loop that it makes. */
  body: BodyId | undefined;
}

/** What one op's `lower` works with. */
export class Context implements LowerContext {
  private constructor(
    readonly node: Node,
    private readonly work: Work,
    /** The operands of a derived context. */
    private readonly given?: readonly (LTensor | undefined)[],
  ) {}

  static of(node: Node, driver: Driver): Context {
    return new Context(node, {
      driver,
      computes: [],
      made: new Set(),
      next: 0,
      body: node.body,
    });
  }

  derive(operands: readonly (LTensor | undefined)[], attrs: Attrs = this.node.attrs): LowerContext {
    return new Context({ ...this.node, attrs }, this.work, operands);
  }

  get computes(): readonly Compute[] {
    return this.work.computes;
  }

  get made(): ReadonlySet<ValueId> {
    return this.work.made;
  }

  private get driver(): Driver {
    return this.work.driver;
  }

  /**
   * Ends its use. Handles outlive the lowering, and some of them hold on to the context: they mustn't
   * hold on to all that was lowered along with them.
   */
  close(): void {
    this.work.driver = OVER;
  }

  get arity(): number {
    return (this.given ?? this.node.operands).length;
  }

  input(i: number): LTensor {
    return this.optional(i) ?? this.fail('MISSING_OPERAND', `operand ${i + 1} is missing`);
  }

  optional(i: number): LTensor | undefined {
    if (this.given) return this.given[i];
    const id = this.node.operands[i];
    if (id === undefined) return undefined;
    const h = this.driver.handles.get(id);
    const t = this.driver.graph.tensors.get(id);
    return h && t?.weak ? this.adopt(h) : h;
  }

  /** A literal takes the dtype of the tensors it stands with, unless that would cut off its fraction. */
  private adopt(h: LTensor): LTensor {
    const value = h.known?.[0];
    let dtype: DType | undefined;
    for (const o of this.node.operands) {
      if (o === undefined || this.driver.graph.tensors.get(o)?.weak) continue;
      const other = this.driver.handles.get(o);
      if (other && other.dtype !== 'bool') {
        dtype = other.dtype;
        break;
      }
    }
    if (value === undefined) return h;
    if (typeof value !== 'number') {
      // A dim by its name: a whole number that is only known when the graph runs.
      const t = dtype ?? 'i32';
      const size = castExpr(indexValue(value, 'i32'), t);
      return { dtype: t, shape: h.shape, known: [value], at: () => size };
    }
    if (dtype === undefined) dtype = Number.isInteger(value) && !isFloat(h.dtype) ? 'i32' : 'f32';
    else if (!isFloat(dtype) && (!Number.isInteger(value) || isFloat(h.dtype))) dtype = 'f32';
    const e = constant(value, dtype);
    return { dtype, shape: h.shape, known: [value], at: () => e };
  }

  sizes(i: number): readonly Dim[] {
    const h = this.input(i);
    if (!h.known)
      return this.unsupported(
        `operand ${i + 1} (${this.operandName(i)}) must be known at compile time, but it is computed when the model runs`,
      );
    return h.known.map((k) => I.ix(k));
  }

  numbers(i: number): readonly number[] {
    return this.sizes(i).map(
      (d) =>
        I.constOf(d) ??
        this.unsupported(
          `operand ${i + 1} (${this.operandName(i)}) must be plain numbers, but it holds the symbolic size ${I.printIndex(d)}`,
        ),
    );
  }

  private operandName(i: number): string {
    const id = this.given ? undefined : this.node.operands[i];
    return (id !== undefined && this.driver.graph.tensors.get(id)?.name) || `#${i + 1}`;
  }

  has(name: string): boolean {
    return this.node.attrs[name] !== undefined;
  }

  int(name: string, fallback?: number): number {
    const v = this.node.attrs[name] ?? fallback;
    if (typeof v === 'number' && Number.isInteger(v)) return v;
    return this.badAttr(name, 'an integer', v !== undefined);
  }

  float(name: string, fallback?: number): number {
    const v = this.node.attrs[name] ?? fallback;
    return typeof v === 'number' ? v : this.badAttr(name, 'a number', v !== undefined);
  }

  bool(name: string, fallback?: boolean): boolean {
    const v = this.node.attrs[name] ?? fallback;
    if (typeof v === 'boolean') return v;
    return typeof v === 'number' ? v !== 0 : this.badAttr(name, 'true or false', v !== undefined);
  }

  str(name: string, fallback?: string): string {
    const v = this.node.attrs[name] ?? fallback;
    return typeof v === 'string' ? v : this.badAttr(name, 'a string', v !== undefined);
  }

  ints(name: string, fallback?: readonly number[]): readonly number[] {
    const v = this.node.attrs[name] ?? fallback;
    if (typeof v === 'number') return [v];
    if (Array.isArray(v)) {
      const list: readonly unknown[] = v;
      const numbers = list.filter((x): x is number => typeof x === 'number');
      if (numbers.length === list.length) return numbers;
    }
    return this.badAttr(name, 'a list of integers', v !== undefined);
  }

  tensorAttr(name: string): { type: TensorType; data: ConstData } | undefined {
    const v = this.node.attrs[name];
    return v !== undefined && typeof v === 'object' && 'tensor' in v ? v.tensor : undefined;
  }

  private badAttr(name: string, what: string, present: boolean): never {
    return this.fail(
      'BAD_ATTRIBUTE',
      present ? `'${name}' must be ${what}` : `'${name}' is missing: it must be ${what}`,
    );
  }

  axis(axis: number, rank: number): number {
    const a = axis < 0 ? axis + rank : axis;
    if (a < 0 || a >= rank)
      return this.fail(
        'AXIS_RANGE',
        `axis ${axis} is out of range for a tensor of rank ${rank}: it must lie in [${-rank}, ${rank - 1}]`,
      );
    return a;
  }

  fail(code: string, message: string): never {
    throw new OpFault(code, message, false);
  }

  unsupported(message: string): never {
    throw new OpFault('UNSUPPORTED_OP', message, true);
  }

  note(code: string, message: string): void {
    this.driver.diagnostics.push(
      info(code, `${describe(this.node)}: ${message}`, this.node.range, {
        subject: this.node.id,
      }),
    );
  }

  private fresh(): ValueId {
    return `${this.node.id}:${this.work.next++}`;
  }

  loop(spec: LoopSpec, body: (step: LoopStep) => LoopNext): LoopResult {
    const id = `${this.node.id}:loop${this.work.next++}`;
    const name = this.node.name || this.node.op;
    const around = this.work.body;
    const { result, region } = makeLoop(spec, body, {
      id,
      around,
      handed: (key, dtype, shape) =>
        this.driver.addHanded(`${id}.${key}`, `${name}.${key}`, dtype, shape),
      store: (h) => this.pointwise(h.shape, h.dtype, (i) => h.at(i)),
      inside: (inner, lower) => {
        const before = this.computes.length;
        this.work.body = inner;
        lower(() => this.computes.slice(before));
        this.work.body = around;
      },
    });
    this.driver.addLoop(region);
    return result;
  }

  private register(made: Compute): LTensor {
    const { body } = this.work;
    const c = body === undefined ? made : { ...made, region: body };
    this.work.computes.push(c);
    this.work.made.add(c.value);
    return this.driver.addCompute(c, `${this.node.name || this.node.op}.${this.work.next}`);
  }

  pointwise(
    shape: readonly IndexLike[],
    dtype: DType,
    body: (index: readonly IndexExpr[]) => Expr,
  ): LTensor {
    const dims = this.checkShape(shape);
    const e = body(dims.map((d, i) => I.loopVar(`d${i}`, d)));
    const id = this.fresh();
    if (e.op === 'const') {
      // A tensor of one number: data, not work.
      const n = elementsOf(dims);
      if (n === 1) return this.driver.addConstant(id, dtype, dims, [e.value]);
      if (n !== undefined) return this.driver.addFill(id, dtype, dims, e.value);
    }
    return this.register(makeCompute(id, dims, undefined, [], dtype, dtype, e, [this.node.id]));
  }

  reduce(
    spec: ReduceSpec,
    body: (index: readonly IndexExpr[], over: readonly IndexExpr[]) => Expr,
  ): LTensor {
    const dims = this.checkShape(spec.shape);
    const over = this.checkShape(spec.over);
    const e = body(
      dims.map((d, i) => I.loopVar(`d${i}`, d)),
      over.map((d, i) => I.loopVar(`r${i}`, d)),
    );
    const monoid: Monoid = typeof spec.monoid === 'string' ? { kind: spec.monoid } : spec.monoid;
    const dtype = spec.dtype ?? e.dtype;
    const accumulator =
      spec.accumulator ?? (e.dtype === 'f16' || e.dtype === 'bf16' ? 'f32' : e.dtype);
    const id = this.fresh();
    if (over.length === 0) {
      const arg = monoid.kind === 'argmax' || monoid.kind === 'argmin';
      const one: Expr = arg
        ? constant(0, dtype)
        : e.dtype === dtype
          ? e
          : { op: 'cast', a: e, dtype };
      return this.register(makeCompute(id, dims, undefined, [], dtype, dtype, one, [this.node.id]));
    }
    return this.register(
      makeCompute(id, dims, monoid, over, dtype, accumulator, e, [this.node.id]),
    );
  }

  view(
    shape: readonly IndexLike[],
    base: LTensor,
    map: (index: readonly IndexExpr[]) => readonly IndexExpr[],
  ): LTensor {
    const dims = this.checkShape(shape);
    return { dtype: base.dtype, shape: dims, at: (index) => base.at(map(index)) };
  }

  constant(
    type: { dtype: DType; shape: readonly IndexLike[] },
    values: readonly Dim[] | readonly number[],
  ): LTensor {
    const known: readonly Known[] = values.map((v) =>
      typeof v === 'number' ? v : (I.constOf(v) ?? v),
    );
    return this.driver.addConstant(this.fresh(), type.dtype, this.checkShape(type.shape), known);
  }

  private checkShape(shape: readonly IndexLike[]): Dim[] {
    return shape.map((d) => {
      const e = I.ix(d);
      const n = I.constOf(e);
      if (n !== undefined && (n < 0 || !Number.isSafeInteger(n)))
        this.fail('BAD_SHAPE', `a dimension of its result would be ${n}`);
      return e;
    });
  }

  requireEqual(a: Dim, b: Dim, what: string): void {
    if (I.same(a, b)) return;
    const x = I.constOf(a);
    const y = I.constOf(b);
    const text = `${what}: ${I.printIndex(a)} and ${I.printIndex(b)}`;
    if (x !== undefined && y !== undefined) this.fail('SHAPE_MISMATCH', `${text} differ`);
    const bound = (d: Dim): number => I.evaluate(d, (s) => this.driver.graph.dims.get(s));
    if (bound(a) !== bound(b))
      this.fail(
        'SHAPE_MISMATCH',
        `${text} differ with the sizes given (${bound(a)} and ${bound(b)})`,
      );
    this.driver.diagnostics.push(
      info(
        'UNPROVEN_DIM_EQUALITY',
        `${describe(this.node)}: ${text} are taken to be equal; use one name for both to state it`,
        this.node.range,
        { subject: this.node.id },
      ),
    );
  }
}

export function makeCompute(
  value: ValueId,
  shape: readonly Dim[],
  monoid: Monoid | undefined,
  over: readonly Dim[],
  dtype: DType,
  accumulator: DType,
  body: Expr,
  origin: readonly NodeId[],
): Compute {
  const dims: LoopDim[] = shape.map((extent, i) => ({ name: `d${i}`, extent }));
  const reduce: LoopDim[] = over.map((extent, i) => ({ name: `r${i}`, extent }));
  return {
    id: `c:${value}`,
    value,
    dims,
    reduce,
    ...(monoid ? { monoid } : {}),
    body,
    dtype,
    accumulator,
    origin,
  };
}

/** Element count when every dim is a number. */
export function elementsOf(shape: readonly Dim[]): number | undefined {
  let n = 1;
  for (const d of shape) {
    const c = I.constOf(d);
    if (c === undefined) return undefined;
    n *= c;
  }
  return n;
}

export function describe(n: Node): string {
  return n.name && n.name !== n.sourceOp ? `${n.sourceOp} '${n.name}'` : n.sourceOp;
}
