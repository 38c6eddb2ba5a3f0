/**
 * The lowering driver: L0 graph → L1 program, node by node in topological order.
 *
 * It gives each op definition its operand handles, records the computes the op makes, folds what is
 * known at compile time, and turns faults into diagnostics. A node that can't be lowered is kept as
 * *opaque*: its declared result types let the rest of the graph be analysed.
 *
 * Stored values of computes are named after their node (`n7:0`, `n7:1`…; tensors are `n7.0`), so that ids are as stable
 * as the L0 ids are.
 */
import { type Diagnostic, error, info } from '../diagnostics';
import { decodeConst } from '../graph/constData';
import { type DType, isFloat } from '../graph/dtype';
import type { BodyId, Graph, Node, NodeId, Tensor, TensorId, TensorType } from '../graph/graph';
import { topologicalOrder } from '../graph/order';
import type {
  Compute,
  ConstData,
  LoopDim,
  Monoid,
  Program,
  ProgramOutput,
  Value,
} from '../ir/compute';
import {
  cast as castExpr,
  constant,
  type Expr,
  indexValue,
  load,
  type ValueId,
  visitExpr as visitExprNodes,
  when,
} from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { Dim, IndexExpr, IndexLike } from '../ir/indexExpr';
import {
  formalsOf,
  innerNeeds,
  outerNeeds,
  type ProgramLoop,
  type ProgramRegion,
  resultsOf,
} from '../ir/region';
import type { NodeKind } from '../result';
import {
  type Definitions,
  evaluateValue,
  forEachPoint,
  evaluateExpr,
  type Known,
} from './evaluate';
import { opByName } from './index';
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
import { RegionLowering } from './regions';

/** Tensors with at most this many elements are looked into at compile time. */
const KNOWN_LIMIT = 4096;
/** Expression nodes that folding one node may visit. */
const FOLD_STEPS = 200_000;

export interface Lowered {
  readonly program: Program;
  readonly diagnostics: readonly Diagnostic[];
  /** Inferred types of all tensors that could be inferred. */
  readonly types: ReadonlyMap<TensorId, TensorType>;
  readonly kinds: ReadonlyMap<NodeId, NodeKind>;
  /** The stored L1 value that a tensor is, or is a view of. */
  readonly base: ReadonlyMap<TensorId, ValueId>;
  /** Why nodes are opaque. */
  readonly unsupported: ReadonlyMap<NodeId, string>;
  /** The contents of tensors that are known as plain numbers. */
  contents(tensor: TensorId): readonly number[] | undefined;
}

export function lowerGraph(graph: Graph): Lowered {
  return new Lowering(graph).run();
}

class Lowering implements Definitions {
  private readonly values = new Map<ValueId, Value>();
  private readonly computes: Compute[] = [];
  private readonly computeOf = new Map<ValueId, Compute>();
  private readonly handles = new Map<TensorId, LTensor>();
  private readonly decoded = new Map<ValueId, readonly number[] | undefined>();
  private readonly kinds = new Map<NodeId, NodeKind>();
  private readonly unsupported = new Map<NodeId, string>();
  private readonly diagnostics: Diagnostic[] = [];
  private readonly memo = new Map<ValueId, readonly Known[] | undefined>();

  private readonly regionLowering: RegionLowering;

  constructor(private readonly graph: Graph) {
    this.regionLowering = new RegionLowering(graph, {
      handle: (t) => this.handles.get(t),
      setHandle: (t, h) => this.handles.set(t, h),
      region: (id, name, dtype, shape) => this.addHanded(id, name, dtype, shape),
      store: (h, id, name, origin, body, mayBe) => {
        if (h.value !== undefined && this.values.has(h.value) && mayBe(h.value)) return h.value;
        const vars = h.shape.map((d, i) => I.loopVar(`d${i}`, d));
        const c = makeCompute(id, h.shape, undefined, [], h.dtype, h.dtype, h.at(vars), [origin]);
        this.addCompute(body === undefined ? c : { ...c, region: body }, name);
        this.computes.push(this.computeOf.get(id) ?? c);
        return id;
      },
    });
  }

  // -- Definitions, for folding -----------------------------------------------------------------

  known(value: ValueId): readonly Known[] | undefined {
    if (this.decoded.has(value)) return this.decoded.get(value);
    const v = this.values.get(value);
    const n = v && v.role === 'const' ? elementsOf(v.shape) : undefined;
    const k =
      v?.data && n !== undefined && n <= KNOWN_LIMIT ? decodeConst(v.data, v.dtype, n) : undefined;
    this.decoded.set(value, k);
    return k;
  }

  compute(value: ValueId): Compute | undefined {
    return this.computeOf.get(value);
  }

  shape(value: ValueId): readonly Dim[] | undefined {
    return this.values.get(value)?.shape;
  }

  // -- The pass ---------------------------------------------------------------------------------

  run(): Lowered {
    for (const t of this.graph.tensors.values()) if (t.role !== 'result') this.declare(t);
    const { order, cyclic } = topologicalOrder(this.graph);
    for (const n of cyclic) {
      this.fault(
        n,
        error('CYCLE', `${describe(n)} depends on its own result`, n.range, { subject: n.id }),
      );
    }
    for (const n of order) this.lowerNode(n);
    const outputs = this.bindOutputs();
    const { computes, values, regions } = this.prune(outputs);
    const base = new Map<TensorId, ValueId>();
    const types = new Map<TensorId, TensorType>();
    for (const [id, h] of this.handles) {
      types.set(id, { dtype: h.dtype, shape: h.shape });
      const v = h.value ?? this.baseOf(h);
      if (v !== undefined) base.set(id, v);
    }
    const program: Program = {
      values,
      computes,
      inputs: this.graph.inputs.filter((i) => values.has(i)),
      outputs,
      dims: this.graph.dims,
      ...(regions.length > 0 ? { regions } : {}),
    };
    return {
      program,
      diagnostics: this.diagnostics,
      types,
      kinds: this.kinds,
      base,
      unsupported: this.unsupported,
      contents: (tensor) => plainNumbers(this.handles.get(tensor)?.known),
    };
  }

  /** Inputs, parameters and constants of the file become handles. */
  private declare(t: Tensor): void {
    const type = t.type;
    if (!type) return;
    const role = t.role === 'result' ? 'computed' : t.role;
    this.values.set(t.id, {
      id: t.id,
      name: t.name,
      dtype: type.dtype,
      shape: type.shape,
      role,
      ...(t.data ? { data: t.data } : {}),
    });
    const n = elementsOf(type.shape);
    if (role === 'const' && t.data && n !== undefined && n <= KNOWN_LIMIT) {
      const known = decodeConst(t.data, type.dtype, n);
      if (known) {
        this.decoded.set(t.id, known);
        this.handles.set(t.id, this.constantHandle(t.id, type.dtype, type.shape, known));
        return;
      }
    }
    this.handles.set(t.id, this.stored(t.id, type.dtype, type.shape));
  }

  private stored(value: ValueId, dtype: DType, shape: readonly Dim[]): LTensor {
    return { dtype, shape, value, at: (index) => load(value, index, dtype) };
  }

  /** A handle with known contents: one number everywhere is inlined, several are read from the stored constant. */
  private constantHandle(
    value: ValueId,
    dtype: DType,
    shape: readonly Dim[],
    known: readonly Known[],
  ): LTensor {
    const first = known[0];
    if (first !== undefined && (known.length === 1 || known.every((k) => Object.is(k, first)))) {
      const e = typeof first === 'number' ? constant(first, dtype) : indexValue(first, dtype);
      return { dtype, shape, value, known: asKnown(known), at: () => e };
    }
    if (known.every((k) => typeof k === 'number')) {
      return {
        dtype,
        shape,
        value,
        known: asKnown(known),
        at: (index) => load(value, index, dtype),
      };
    }
    // Sizes that are symbolic: an element is chosen by its position.
    const at = (index: readonly IndexExpr[]): Expr => {
      const lin = I.linearise(index, shape);
      let e: Expr = constant(0, dtype);
      known.forEach((k, i) => {
        e = when([{ index: lin, lo: I.num(i), hi: I.num(i + 1) }], indexValue(I.ix(k), dtype), e);
      });
      return e;
    };
    return { dtype, shape, known: asKnown(known), at };
  }

  private fault(n: Node, d: Diagnostic): void {
    this.diagnostics.push(d);
    this.makeOpaque(n, d.message);
  }

  private makeOpaque(n: Node, reason: string): void {
    this.kinds.set(n.id, 'opaque');
    this.unsupported.set(n.id, reason);
    for (const r of n.results) {
      const t = this.graph.tensors.get(r);
      if (!t?.type) continue;
      this.values.set(r, {
        id: r,
        name: t.name,
        dtype: t.type.dtype,
        shape: t.type.shape,
        role: 'opaque',
      });
      this.handles.set(r, this.stored(r, t.type.dtype, t.type.shape));
    }
  }

  private lowerNode(n: Node): void {
    if (n.unsupported !== undefined) {
      this.makeOpaque(n, n.unsupported);
      return;
    }
    if (n.control) {
      this.lowerControl(n, n.control.kind);
      return;
    }
    const def = opByName(n.op);
    if (!def) {
      this.fault(
        n,
        error(
          'UNSUPPORTED_OP',
          `${describe(n)}: the op ${n.sourceOp} is not supported; the rest of the graph is still analysed`,
          n.range,
          { subject: n.id },
        ),
      );
      return;
    }
    for (const o of n.operands) {
      if (o === undefined || this.handles.has(o)) continue;
      const name = this.graph.tensors.get(o)?.name ?? o;
      // One diagnostic at the cause is enough.
      this.makeOpaque(n, `its operand ${name} could not be analysed`);
      return;
    }
    const ctx = new Context(this, this.graph, n, this.handles, this.diagnostics);
    try {
      const r = def.lower(ctx);
      const results: readonly LTensor[] = Array.isArray(r) ? r : [r as LTensor];
      this.finishNode(n, ctx, results, def.view === true);
    } catch (e) {
      if (!(e instanceof OpFault)) throw e;
      const code = e.isUnsupported ? 'UNSUPPORTED_OP' : e.code;
      this.fault(n, error(code, `${describe(n)}: ${e.message}`, n.range, { subject: n.id }));
    }
  }

  /** A region's way in, or its way out: see {@link RegionLowering}. */
  private lowerControl(n: Node, kind: 'enter' | 'exit'): void {
    const missing = n.operands.find((o) => o !== undefined && !this.handles.has(o));
    if (missing !== undefined) {
      const name = this.graph.tensors.get(missing)?.name ?? missing;
      this.makeOpaque(n, `its operand ${name} could not be analysed`);
      return;
    }
    const reason = kind === 'enter' ? this.regionLowering.enter(n) : this.regionLowering.exit(n);
    if (reason === undefined) this.kinds.set(n.id, 'region');
    else if (kind === 'exit')
      this.fault(
        n,
        error('UNSUPPORTED_OP', `${describe(n)}: ${reason}`, n.range, { subject: n.id }),
      );
    else this.makeOpaque(n, reason);
  }

  private finishNode(n: Node, ctx: Context, results: readonly LTensor[], view: boolean): void {
    const folded = this.foldable(n)
      ? results.map((h) => this.fold(h))
      : results.map((h) => h.known);
    let allKnown = results.length > 0;
    n.results.forEach((id, i) => {
      const h = results[i];
      if (!h) return;
      const t = this.graph.tensors.get(id);
      const k = folded[i];
      if (k) {
        this.values.set(id, constValue(id, t?.name ?? id, h, k));
        this.decoded.set(id, k.every((x) => typeof x === 'number') ? k : undefined);
        this.handles.set(id, this.constantHandle(id, h.dtype, h.shape, k));
        return;
      }
      if (!h.value || this.values.get(h.value)?.role !== 'const') allKnown = false;
      this.handles.set(id, h);
      const v = h.value === undefined ? undefined : this.values.get(h.value);
      if (v && t && v.role === 'computed' && ctx.made.has(v.id))
        this.values.set(v.id, { ...v, name: t.name });
    });
    this.kinds.set(
      n.id,
      allKnown ? 'constant' : view || ctx.computes.length === 0 ? 'view' : 'compute',
    );
    for (const c of ctx.computes) {
      this.computes.push(c);
    }
  }

  private foldable(n: Node): boolean {
    return n.operands.every((o) => o === undefined || this.handles.get(o)?.known !== undefined);
  }

  private fold(h: LTensor): readonly Known[] | undefined {
    if (h.known) return h.known;
    const n = elementsOf(h.shape);
    if (n === undefined || n > KNOWN_LIMIT) return undefined;
    const budget = { steps: FOLD_STEPS };
    if (h.value !== undefined) return evaluateValue(h.value, this, budget, this.memo);
    const sizes = h.shape.map((d) => d.c);
    const out: Known[] = [];
    const ok = forEachPoint(sizes, (p) => {
      const v = evaluateExpr(h.at(p.map((x) => I.num(x))), new Map(), this, budget, this.memo);
      if (v === undefined) return false;
      out.push(v);
      return true;
    });
    return ok ? out : undefined;
  }

  /** The value that a view reads, when it reads one only. */
  private baseOf(h: LTensor): ValueId | undefined {
    const e = h.at(h.shape.map((d, i) => I.loopVar(`d${i}`, d)));
    return e.op === 'load' ? e.value : undefined;
  }

  // -- Outputs ----------------------------------------------------------------------------------

  private bindOutputs(): ProgramOutput[] {
    const out: ProgramOutput[] = [];
    const producer = new Map<TensorId, Node>();
    const given = new Set(this.graph.outputs.map((o) => o.tensor));
    for (const n of this.graph.nodes)
      for (const r of n.results) if (given.has(r)) producer.set(r, n);
    for (const o of this.graph.outputs) {
      const h = this.handles.get(o.tensor);
      if (!h) continue;
      const p = producer.get(o.tensor);
      out.push({ name: o.name, value: this.materialise(o.tensor, h, p), shape: h.shape });
    }
    return out;
  }

  /** The stored value that holds the output's elements in row-major order; a copy where none does. */
  private materialise(tensor: TensorId, h: LTensor, producer: Node | undefined): ValueId {
    const vars = h.shape.map((d, i) => I.loopVar(`d${i}`, d));
    const e = h.at(vars);
    if (e.op === 'load') {
      const v = this.values.get(e.value);
      const made = v?.role === 'computed' || v?.role === 'opaque' || v?.role === 'region';
      if (v && made && e.dtype === v.dtype) {
        const sameOrder = I.same(I.linearise(e.index, v.shape), I.linearise(vars, h.shape));
        if (sameOrder && I.same(I.product(v.shape), I.product(h.shape))) return v.id;
      }
    }
    const id = `${tensor}.out`;
    const name = this.graph.tensors.get(tensor)?.name ?? tensor;
    const c = makeCompute(
      id,
      h.shape,
      undefined,
      [],
      h.dtype,
      h.dtype,
      e,
      producer ? [producer.id] : [],
    );
    this.values.set(id, { id, name, dtype: h.dtype, shape: h.shape, role: 'computed' });
    this.computes.push(c);
    this.computeOf.set(id, c);
    return id;
  }

  /** Keeps what the outputs need; marks nodes that nothing needs as dead. */
  private prune(outputs: readonly ProgramOutput[]): {
    computes: Compute[];
    values: Map<ValueId, Value>;
    regions: ProgramRegion[];
  } {
    const needed = new Set<ValueId>();
    const makers = new Map<ValueId, ProgramRegion>();
    for (const r of this.regionLowering.regions)
      for (const v of [...formalsOf(r), ...resultsOf(r)]) makers.set(v, r);
    const alive = new Set<ProgramRegion>();
    const stack: ValueId[] = outputs.map((o) => o.value);
    // What an opaque op reads is needed too: it must be there for people to see.
    for (const n of this.unsupported.size === 0 ? [] : this.neededNodes()) {
      if (this.kinds.get(n.id) === 'opaque') stack.push(...this.storedOperands(n));
    }
    while (stack.length > 0) {
      const v = stack.pop();
      if (v === undefined || needed.has(v)) continue;
      needed.add(v);
      const c = this.computeOf.get(v);
      if (c) visitLoads(c.body, (l) => stack.push(l.value));
      // A region runs as a whole: all that it hands over is needed.
      const region = makers.get(v);
      if (region && !alive.has(region)) {
        alive.add(region);
        stack.push(...outerNeeds(region), ...innerNeeds(region));
        stack.push(...formalsOf(region), ...resultsOf(region));
      }
    }
    const computes = this.computes.filter((c) => needed.has(c.value));
    const origins = new Set<NodeId>();
    for (const c of computes) for (const o of c.origin) origins.add(o);
    for (const [id, kind] of this.kinds)
      if (kind === 'compute' && !origins.has(id)) this.kinds.set(id, 'dead');
    const values = new Map<ValueId, Value>();
    for (const [id, v] of this.values) if (needed.has(id) || v.role === 'input') values.set(id, v);
    const regions = this.regionLowering.regions.filter((r) => alive.has(r));
    return { computes, values, regions };
  }

  private storedOperands(n: Node): ValueId[] {
    return n.operands.flatMap((o) => {
      const h = o === undefined ? undefined : this.handles.get(o);
      const stored = h && (h.value ?? this.baseOf(h));
      return stored === undefined ? [] : [stored];
    });
  }

  /** The nodes that the outputs come from by the graph's edges, whether their types are known or not. */
  private neededNodes(): Set<Node> {
    const producers = new Map<TensorId, Node>();
    for (const n of this.graph.nodes) for (const r of n.results) producers.set(r, n);
    const found = new Set<Node>();
    const stack: (TensorId | undefined)[] = this.graph.outputs.map((o) => o.tensor);
    while (stack.length > 0) {
      const t = stack.pop();
      const n = t === undefined ? undefined : producers.get(t);
      if (!n || found.has(n)) continue;
      found.add(n);
      stack.push(...n.operands);
    }
    return found;
  }

  // -- What contexts use ------------------------------------------------------------------------

  addConstant(id: ValueId, dtype: DType, shape: readonly Dim[], known: readonly Known[]): LTensor {
    const n = known.every((k) => typeof k === 'number');
    const h = this.constantHandle(id, dtype, shape, known);
    if (n) {
      this.values.set(id, constValue(id, id, h, known));
      this.decoded.set(id, known);
    }
    return h;
  }

  addFill(id: ValueId, dtype: DType, shape: readonly Dim[], value: number): LTensor {
    this.values.set(id, {
      id,
      name: id,
      dtype,
      shape,
      role: 'const',
      data: { kind: 'fill', value },
    });
    return this.stored(id, dtype, shape);
  }

  /** What a loop hands over: to its body, or to what comes after it. */
  addHanded(id: ValueId, name: string, dtype: DType, shape: readonly Dim[]): LTensor {
    this.values.set(id, { id, name, dtype, shape, role: 'region' });
    return this.stored(id, dtype, shape);
  }

  addLoop(r: ProgramLoop): void {
    this.regionLowering.regions.push(r);
  }

  addCompute(c: Compute, name: string): LTensor {
    const shape = c.dims.map((d) => d.extent);
    this.values.set(c.value, { id: c.value, name, dtype: c.dtype, shape, role: 'computed' });
    this.computeOf.set(c.value, c);
    return this.stored(c.value, c.dtype, shape);
  }
}

function makeCompute(
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

function constValue(id: ValueId, name: string, h: LTensor, known: readonly Known[]): Value {
  const numbers = known.filter((k): k is number => typeof k === 'number');
  const data: ConstData | undefined =
    numbers.length === known.length ? { kind: 'numbers', values: numbers } : undefined;
  return { id, name, dtype: h.dtype, shape: h.shape, role: 'const', ...(data ? { data } : {}) };
}

function asKnown(k: readonly Known[]): readonly number[] | readonly Dim[] {
  const numbers = k.filter((x): x is number => typeof x === 'number');
  return numbers.length === k.length ? numbers : k.map((x) => I.ix(x));
}

function plainNumbers(
  known: readonly Dim[] | readonly number[] | undefined,
): readonly number[] | undefined {
  const numbers = known?.flatMap((k) => (typeof k === 'number' ? k : (I.constOf(k) ?? [])));
  return numbers?.length === known?.length ? numbers : undefined;
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

function describe(n: Node): string {
  return n.name && n.name !== n.sourceOp ? `${n.sourceOp} '${n.name}'` : n.sourceOp;
}

/** What one op's `lower` works with. */
class Context implements LowerContext {
  readonly computes: Compute[] = [];
  readonly made = new Set<ValueId>();
  private next = 0;
  /** The body of a branch or a loop that is being lowered: the node's own, or that of a loop that it makes. */
  private body: BodyId | undefined;

  constructor(
    private readonly driver: Lowering,
    private readonly graph: Graph,
    readonly node: Node,
    private readonly handles: ReadonlyMap<TensorId, LTensor>,
    private readonly diagnostics: Diagnostic[],
  ) {
    this.body = node.body;
  }

  get arity(): number {
    return this.node.operands.length;
  }

  input(i: number): LTensor {
    return this.optional(i) ?? this.fail('MISSING_OPERAND', `operand ${i + 1} is missing`);
  }

  optional(i: number): LTensor | undefined {
    const id = this.node.operands[i];
    if (id === undefined) return undefined;
    const h = this.handles.get(id);
    const t = this.graph.tensors.get(id);
    return h && t?.weak ? this.adopt(h) : h;
  }

  /** A literal takes the dtype of the tensors it stands with, unless that would cut off its fraction. */
  private adopt(h: LTensor): LTensor {
    const value = h.known?.[0];
    let dtype: DType | undefined;
    for (const o of this.node.operands) {
      if (o === undefined || this.graph.tensors.get(o)?.weak) continue;
      const other = this.handles.get(o);
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
    const id = this.node.operands[i];
    return (id !== undefined && this.graph.tensors.get(id)?.name) || `#${i + 1}`;
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
    this.diagnostics.push(
      info(code, `${describe(this.node)}: ${message}`, this.node.range, {
        subject: this.node.id,
      }),
    );
  }

  private fresh(): ValueId {
    return `${this.node.id}:${this.next++}`;
  }

  loop(spec: LoopSpec, body: (step: LoopStep) => LoopNext): LoopResult {
    const id = `${this.node.id}:loop${this.next++}`;
    const name = this.node.name || this.node.op;
    const around = this.body;
    const { result, region } = makeLoop(spec, body, {
      id,
      around,
      handed: (key, dtype, shape) =>
        this.driver.addHanded(`${id}.${key}`, `${name}.${key}`, dtype, shape),
      store: (h) => this.pointwise(h.shape, h.dtype, (i) => h.at(i)),
      inside: (inner, lower) => {
        const before = this.computes.length;
        this.body = inner;
        lower(() => this.computes.slice(before));
        this.body = around;
      },
    });
    this.driver.addLoop(region);
    return result;
  }

  private register(made: Compute): LTensor {
    const { body } = this;
    const c = body === undefined ? made : { ...made, region: body };
    this.computes.push(c);
    this.made.add(c.value);
    return this.driver.addCompute(c, `${this.node.name || this.node.op}.${this.next}`);
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
    const bound = (d: Dim): number => I.evaluate(d, (s) => this.graph.dims.get(s));
    if (bound(a) !== bound(b))
      this.fail(
        'SHAPE_MISMATCH',
        `${text} differ with the sizes given (${bound(a)} and ${bound(b)})`,
      );
    this.diagnostics.push(
      info(
        'UNPROVEN_DIM_EQUALITY',
        `${describe(this.node)}: ${text} are taken to be equal; use one name for both to state it`,
        this.node.range,
        { subject: this.node.id },
      ),
    );
  }
}

/** Visits the loads of an expression, those inside dynamic indices included. */
export function visitLoads(e: Expr, visit: (l: Expr & { op: 'load' }) => void): void {
  visitExprNodes(e, (x) => {
    if (x.op === 'load') visit(x);
  });
}
