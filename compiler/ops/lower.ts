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
import { type Diagnostic, error } from '../diagnostics';
import { decodeConst } from '../graph/constData';
import type { DType } from '../graph/dtype';
import type { Graph, Node, NodeId, Tensor, TensorId, TensorType } from '../graph/graph';
import { topologicalOrder } from '../graph/order';
import type { Compute, ConstData, Program, ProgramOutput, Value } from '../ir/compute';
import { constant, type Expr, indexValue, load, type ValueId, when } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { Dim, IndexExpr } from '../ir/indexExpr';
import { valuesRead } from '../ir/reads';
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
import { Context, describe, type Driver, elementsOf, makeCompute } from './context';
import { opByName } from './index';
import type { LoweringMemory, NodeRecord } from './lowerMemory';
import { type LTensor, OpFault } from './op';
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

/** @param memory what came of the nodes of the version before, and of this one when it is done */
export function lowerGraph(graph: Graph, memory?: LoweringMemory): Lowered {
  // What is in a body leaves its traces in regions.
  const lowered = new Lowering(graph, graph.regions ? undefined : memory).run();
  memory?.close();
  return lowered;
}

/** What a node has changed, while it is lowered. */
interface Trace {
  readonly values: Map<ValueId, Value>;
  readonly decoded: Map<ValueId, readonly number[] | undefined>;
  readonly made: Compute[];
}

class Lowering implements Definitions, Driver {
  private readonly values = new Map<ValueId, Value>();
  private readonly computes: Compute[] = [];
  private readonly computeOf = new Map<ValueId, Compute>();
  readonly handles = new Map<TensorId, LTensor>();
  private readonly decoded = new Map<ValueId, readonly number[] | undefined>();
  private readonly kinds = new Map<NodeId, NodeKind>();
  private readonly unsupported = new Map<NodeId, string>();
  readonly diagnostics: Diagnostic[] = [];
  private trace: Trace | undefined;
  private readonly memo = new Map<ValueId, readonly Known[] | undefined>();

  private readonly regionLowering: RegionLowering;

  constructor(
    readonly graph: Graph,
    private readonly memory: LoweringMemory | undefined,
  ) {
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
      types.set(id, h);
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
    const known = this.memory?.tensor(t);
    if (known) {
      this.values.set(t.id, known.value);
      if (known.decoded) this.decoded.set(t.id, known.decoded);
      this.handles.set(t.id, known.handle);
      return;
    }
    const type = t.type;
    if (!type) return;
    const role = t.role === 'result' ? 'computed' : t.role;
    const value: Value = {
      id: t.id,
      name: t.name,
      dtype: type.dtype,
      shape: type.shape,
      role,
      ...(t.data ? { data: t.data } : {}),
    };
    this.values.set(t.id, value);
    const n = elementsOf(type.shape);
    const decoded =
      role === 'const' && t.data && n !== undefined && n <= KNOWN_LIMIT
        ? decodeConst(t.data, type.dtype, n)
        : undefined;
    if (decoded) this.decoded.set(t.id, decoded);
    const handle = decoded
      ? this.constantHandle(t.id, type.dtype, type.shape, decoded)
      : this.stored(t.id, type.dtype, type.shape);
    this.handles.set(t.id, handle);
    this.memory?.keepTensor({ tensor: t, value, handle, decoded });
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
    const known = this.memory?.node(n, this.graph, this.handles);
    if (known) {
      this.lowerAgain(n, known);
      return;
    }
    const ctx = Context.of(n, this);
    const said = this.diagnostics.length;
    this.trace = this.memory && { values: new Map(), decoded: new Map(), made: [] };
    try {
      const r = def.lower(ctx);
      const results: readonly LTensor[] = Array.isArray(r) ? r : [r as LTensor];
      this.finishNode(n, ctx, results, def.view === true);
      if (this.trace && this.diagnostics.length === said)
        this.memory?.keepNode(this.recordOf(n, ctx, this.trace));
    } catch (e) {
      if (!(e instanceof OpFault)) throw e;
      const code = e.isUnsupported ? 'UNSUPPORTED_OP' : e.code;
      this.fault(n, error(code, `${describe(n)}: ${e.message}`, n.range, { subject: n.id }));
    } finally {
      this.trace = undefined;
      ctx.close();
    }
  }

  private recordOf(n: Node, ctx: Context, trace: Trace): NodeRecord {
    const handle = (t: TensorId | undefined): LTensor | undefined =>
      t === undefined ? undefined : this.handles.get(t);
    return {
      node: n,
      tensors: [...n.operands, ...n.results].map((t) =>
        t === undefined ? undefined : this.graph.tensors.get(t),
      ),
      operands: n.operands.map(handle),
      results: n.results.map(handle),
      kind: this.kinds.get(n.id) ?? 'compute',
      computes: ctx.computes,
      ...trace,
    };
  }

  /** Does again what lowering the node has done before. */
  private lowerAgain(n: Node, known: NodeRecord): void {
    for (const [id, v] of known.values) this.values.set(id, v);
    for (const [id, k] of known.decoded) this.decoded.set(id, k);
    for (const c of known.made) this.computeOf.set(c.value, c);
    for (const c of known.computes) this.computes.push(c);
    for (let i = 0; i < n.results.length; i++) {
      const [id, h] = [n.results[i], known.results[i]];
      if (id !== undefined && h) this.handles.set(id, h);
    }
    this.kinds.set(n.id, known.kind);
  }

  private setValue(v: Value): void {
    this.values.set(v.id, v);
    this.trace?.values.set(v.id, v);
  }

  private setDecoded(id: ValueId, known: readonly Known[]): void {
    const numbers = known.every((x) => typeof x === 'number') ? known : undefined;
    this.decoded.set(id, numbers);
    this.trace?.decoded.set(id, numbers);
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
        this.setValue(constValue(id, t?.name ?? id, h, k));
        this.setDecoded(id, k);
        this.handles.set(id, this.constantHandle(id, h.dtype, h.shape, k));
        return;
      }
      const v = h.value === undefined ? undefined : this.values.get(h.value);
      if (v?.role !== 'const') allKnown = false;
      const own = v?.role === 'computed' && ctx.made.has(v.id);
      this.handles.set(id, own && this.memory ? this.memory.handle(n, i, h) : h);
      if (own && t) this.setValue({ ...v, name: t.name });
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
      if (c) stack.push(...valuesRead(c.body));
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
      this.setValue(constValue(id, id, h, known));
      this.setDecoded(id, known);
    }
    return h;
  }

  addFill(id: ValueId, dtype: DType, shape: readonly Dim[], value: number): LTensor {
    this.setValue({ id, name: id, dtype, shape, role: 'const', data: { kind: 'fill', value } });
    return this.stored(id, dtype, shape);
  }

  /** What a loop hands over: to its body, or to what comes after it. */
  addHanded(id: ValueId, name: string, dtype: DType, shape: readonly Dim[]): LTensor {
    this.values.set(id, { id, name, dtype, shape, role: 'region' });
    return this.stored(id, dtype, shape);
  }

  addLoop(r: ProgramLoop): void {
    // More than is written down of a node.
    this.trace = undefined;
    this.regionLowering.regions.push(r);
  }

  addCompute(c: Compute, name: string): LTensor {
    const shape = c.dims.map((d) => d.extent);
    this.setValue({ id: c.value, name, dtype: c.dtype, shape, role: 'computed' });
    this.computeOf.set(c.value, c);
    this.trace?.made.push(c);
    return this.stored(c.value, c.dtype, shape);
  }
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
