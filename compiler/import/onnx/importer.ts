/**
 * ModelProto to L0.
 *
 * Vocabulary
 *  - *scope*: what names mean at a place: a graph's values, over those of the graph around it (the
 *    branch of an If sees outside names; the body of a function doesn't).
 *  - *frame*: what the nodes of one list share: scope, operator set versions, id prefix, and inside a
 *    function the attributes of the call.
 *  - *inlining*: the nodes of a called function, or of an inner graph, take the call's place. Their ids
 *    continue the call's: `n3/0`, `n3/1`. What is done with inner graphs stands in control.ts.
 *  - *alias*: the result id of an inlined node, which is another id: that of the inner result.
 *
 * Ids are positions: `n<k>` the k-th node of the file, `n<k>.<j>` its j-th result, `in<k>` an input,
 * `w<k>` an initializer. The file's names are for people only; they may be empty or repeated.
 */
import { type Diagnostic, error, warning } from '../../diagnostics';
import { isFloat } from '../../graph/dtype';
import type {
  BranchRegion,
  ConstTensor,
  Graph,
  Node,
  Region,
  Tensor,
  TensorId,
} from '../../graph/graph';
import { num } from '../../ir/indexExpr';
import { opByOnnx } from '../../ops';
import {
  type AttributeEnv,
  nodeAttributes,
  type NodeAttributes,
  resolveReferences,
} from './attributes';
import { constantNode, tensorOf } from './constantNode';
import { ControlFlow } from './control';
import { addFlexAttention } from './flexAttention';
import type { Knowledge } from './knowledge';
import type {
  OnnxFunction,
  OnnxGraph,
  OnnxModel,
  OnnxNode,
  OnnxTensor,
  OnnxValueInfo,
} from './proto';
import {
  type Builder,
  declaredTypes,
  describe,
  type Frame,
  type Made,
  MISSING,
  quote,
  Scope,
} from './scope';
import { Sequences } from './sequences';
import { convertTensor, countElements, knownNumbers } from './tensors';
import { DimNames } from './types';

/** Ops of which every operand is looked into. */
const READ_WHOLE: ReadonlySet<string> = new Set([
  'NonMaxSuppression',
  'NonZero',
  'Range',
  'Unique',
]);

/** Functions that call functions multiply: no real model comes near these. */
const MAX_NODES = 200_000;
const MAX_CALL_DEPTH = 40;

export function buildGraph(
  model: OnnxModel,
  fileName: string,
  diagnostics: Diagnostic[],
  knowledge: Knowledge,
): Graph {
  return new Importer(model, diagnostics, knowledge).run(fileName);
}

class Importer implements Builder {
  private readonly nodes: Node[] = [];
  private readonly tensors = new Map<TensorId, Tensor>();
  private readonly aliases = new Map<TensorId, TensorId>();
  private readonly functions = new Map<string, OnnxFunction>();
  private readonly dims: DimNames;
  /** Names whose numbers an op must know when compiling, though they are floats. */
  private readonly read = new Set<string>();
  private visited = 0;
  private stopped = false;
  private assumedOpset: number | undefined;
  private readonly sequences = new Sequences(this);
  private readonly control = new ControlFlow(this, this.sequences.isSequence);

  constructor(
    private readonly model: OnnxModel,
    private readonly diagnostics: Diagnostic[],
    readonly knowledge: Knowledge,
  ) {
    this.dims = new DimNames(diagnostics);
    for (const f of model.functions)
      this.functions.set(functionKey(f.domain, f.name, f.overload), f);
  }

  run(fileName: string): Graph {
    const graph = this.model.graph;
    if (!graph) return this.finish(fileName, [], []);
    const scope = new Scope();
    this.noteReadOperands(graph);
    this.addInitializers(graph, scope, '');
    const inputs: TensorId[] = [];
    graph.inputs.forEach((v, i) => {
      // Old files list initializers as inputs too: they are parameters with contents.
      if (scope.names.has(v.name)) return;
      const id = `in${i}`;
      const r = this.dims.declare(v, v.name || id);
      if (!r.ok)
        this.report(
          error(r.code, `input ${quote(v.name)}: ${r.message}`, undefined, { subject: id }),
        );
      this.tensors.set(id, {
        id,
        name: v.name || id,
        role: 'input',
        ...(r.ok ? { type: r.type } : {}),
      });
      scope.names.set(v.name, id);
      inputs.push(id);
    });
    this.addNodes(graph.nodes, {
      scope,
      opsets: this.model.opsets,
      prefix: 'n',
      declared: declaredTypes(graph),
      calls: [],
    });
    const outputs: { name: string; tensor: TensorId }[] = [];
    for (const o of graph.outputs) {
      const tensor = this.resolve(scope.find(o.name));
      if (tensor === undefined)
        this.report(error('UNKNOWN_VALUE', `nothing defines the output ${quote(o.name)}`));
      else if (this.sequences.isSequence(tensor))
        this.report(
          error('UNSUPPORTED_TYPE', `output ${quote(o.name)}: its type, sequence, isn't supported`),
        );
      else outputs.push({ name: o.name, tensor });
    }
    if (outputs.length === 0 && graph.nodes.length > 0)
      this.report(error('NO_OUTPUTS', 'the graph has no outputs, so nothing of it is needed'));
    return this.finish(graph.name || fileName, inputs, outputs);
  }

  private finish(
    name: string,
    inputs: readonly TensorId[],
    outputs: readonly { name: string; tensor: TensorId }[],
  ): Graph {
    const nodes = this.nodes.map((n) => ({
      ...n,
      operands: n.operands.map((o) => this.resolve(o)),
    }));
    // Ids that were promised to nodes which, in a faulty file, were then not made.
    for (const n of nodes)
      for (const o of n.operands)
        if (o !== undefined && !this.tensors.has(o))
          this.tensors.set(o, { id: o, name: o, role: 'result' });
    for (const { tensor, name: output } of outputs)
      if (!this.tensors.has(tensor))
        this.tensors.set(tensor, { id: tensor, name: output, role: 'result' });
    return {
      format: 'onnx',
      name,
      nodes,
      tensors: this.tensors,
      inputs,
      outputs,
      dims: this.dims.dims,
      directives: [],
      ...(this.control.regions.length > 0 ? { regions: this.regions() } : {}),
    };
  }

  /** Ids that stand for others replaced. */
  private regions(): Region[] {
    const real = (id: TensorId): TensorId => this.resolve(id) ?? id;
    return this.control.regions.map((r): Region => {
      if (r.kind === 'branch') {
        const of = (b: BranchRegion['then']): BranchRegion['then'] => ({
          ...b,
          gives: b.gives.map(real),
        });
        return { ...r, condition: real(r.condition), then: of(r.then), else: of(r.else) };
      }
      return {
        ...r,
        ...(r.trips === undefined ? {} : { trips: real(r.trips) }),
        ...(r.condition === undefined ? {} : { condition: real(r.condition) }),
        ...(r.goesOn === undefined ? {} : { goesOn: real(r.goesOn) }),
        carried: r.carried.map((c) => ({ ...c, initial: real(c.initial), next: real(c.next) })),
        sliced: r.sliced.map((c) => ({ ...c, source: real(c.source) })),
        stacked: r.stacked.map((c) => ({ ...c, element: real(c.element) })),
      };
    });
  }

  report(d: Diagnostic): void {
    this.diagnostics.push(d);
  }

  /** Follows aliases. A call that only hands its operand through can, in a cyclic file, lead to itself. */
  resolve(id: TensorId | undefined | typeof MISSING): TensorId | undefined {
    if (id === undefined || id === MISSING) return undefined;
    let at: TensorId = id;
    for (let hops = 0; hops <= this.aliases.size; hops++) {
      const next = this.aliases.get(at);
      if (next === undefined) return at;
      at = next;
    }
    this.report(
      error('CYCLE', `the result ${id} is defined by itself`, undefined, { subject: id }),
    );
    return undefined;
  }

  // -- Initializers -----------------------------------------------------------------------------

  private noteReadOperands(graph: OnnxGraph): void {
    for (const n of graph.nodes) {
      if (n.opType === 'Resize' || n.opType === 'Upsample')
        for (const name of n.inputs.slice(1)) this.read.add(name);
      else if (READ_WHOLE.has(n.opType)) for (const name of n.inputs) this.read.add(name);
    }
  }

  private addInitializers(graph: OnnxGraph, scope: Scope, prefix: string): void {
    graph.initializers.forEach((t, i) => {
      this.addConstant(`${prefix}w${i}`, t.name, t);
      scope.names.set(t.name, `${prefix}w${i}`);
    });
    graph.sparse.forEach((name, i) => {
      const id = `${prefix}s${i}`;
      this.tensors.set(id, { id, name, role: 'const' });
      scope.names.set(name, id);
      this.report(
        error(
          'SPARSE_TENSOR',
          `initializer ${quote(name)}: sparse tensors aren't supported`,
          undefined,
          {
            subject: id,
          },
        ),
      );
    });
  }

  private addConstant(id: TensorId, name: string, proto: OnnxTensor): void {
    const r = convertTensor(proto);
    if (r.ok) this.addTensor(id, name, r.tensor);
    else {
      this.tensors.set(id, { id, name: name || id, role: 'const' });
      this.report(
        error(r.code, `constant ${quote(name)}: ${r.message}`, undefined, { subject: id }),
      );
    }
  }

  private addTensor(id: TensorId, name: string, t: ConstTensor): void {
    const role = isWeight(t) && !this.read.has(name) ? 'param' : 'const';
    this.tensors.set(id, { id, name: name || id, role, type: t.type, data: t.data });
  }

  // -- Nodes ------------------------------------------------------------------------------------

  private addNodes(nodes: readonly OnnxNode[], frame: Frame): void {
    this.visited += nodes.length;
    if (this.visited > MAX_NODES && !this.stopped) {
      this.stopped = true;
      this.report(
        error(
          'TOO_MANY_NODES',
          `with its functions written out the graph has over ${MAX_NODES} nodes`,
        ),
      );
    }
    if (this.stopped) return;
    nodes.forEach((n, i) => {
      n.outputs.forEach((name, j) => {
        if (name === '') return;
        if (frame.scope.names.has(name))
          this.report(
            error(
              'DUPLICATE_VALUE',
              `${describe(n, frame.prefix + i)} defines ${quote(name)} a second time`,
            ),
          );
        else frame.scope.names.set(name, `${frame.prefix}${i}.${j}`);
      });
    });
    nodes.forEach((n, i) => this.addNode(n, `${frame.prefix}${i}`, frame));
  }

  private addNode(n: OnnxNode, id: string, frame: Frame): void {
    if (this.stopped) return;
    const list = resolveReferences(n.attributes, frame.attributes);
    const key = functionKey(n.domain, n.opType, n.overload);
    const fn = this.functions.get(key) ?? this.functions.get(functionKey(n.domain, n.opType, ''));
    if (fn) {
      this.addCall(n, id, frame, fn, new Map(list.map((a) => [a.name, a])));
      return;
    }
    const attributes = nodeAttributes(list, n.opType, n.domain, this.opset(n.domain, frame));
    if (n.domain === '') {
      if (n.opType === 'Constant') {
        const r = constantNode(attributes.attrs);
        if (r.ok) {
          this.addTensor(`${id}.0`, n.outputs[0] ?? '', r.tensor);
          return;
        }
        this.plain(n, id, frame, attributes, attributes.problems[0] ?? r.message);
        return;
      }
      if (n.opType === 'ConstantOfShape') {
        const filled = this.filledWeight(n, attributes, frame);
        if (filled) {
          this.addTensor(`${id}.0`, n.outputs[0] ?? '', filled);
          return;
        }
      }
    }
    if (
      this.control.add(n, id, frame, attributes, this.opset('', frame)) ||
      this.sequences.add(n, id, frame, attributes) ||
      addFlexAttention(this, n, id, frame, attributes)
    )
      return;
    const inner = attributes.graphs.size > 0 ? 'graphs inside it are not supported' : undefined;
    this.plain(n, id, frame, attributes, attributes.problems[0] ?? inner);
  }

  private opset(domain: string, frame: Frame): number {
    const version = frame.opsets.get(domain) ?? this.model.opsets.get(domain);
    if (version !== undefined || domain !== '') return version ?? 1;
    if (this.assumedOpset === undefined) {
      // Before IR version 3 files didn't say, and there was only the first set.
      this.assumedOpset = this.model.irVersion < 3 ? 1 : 13;
      this.report(
        warning(
          'MISSING_OPSET',
          `the file doesn't say its operator set; version ${this.assumedOpset} is assumed`,
        ),
      );
    }
    return this.assumedOpset;
  }

  /** A weight that the file makes by filling a constant shape; as data it can be replaced and shared. */
  private filledWeight(
    n: OnnxNode,
    attributes: NodeAttributes,
    frame: Frame,
  ): ConstTensor | undefined {
    const sizes = this.knownOperand(n.inputs[0], frame);
    if (!sizes || typeof countElements(sizes) === 'string') return undefined;
    const value = attributes.attrs['value'];
    const one = tensorOf(value);
    if (value !== undefined && !one) return undefined;
    const fill = one ? knownNumbers(one)?.[0] : 0;
    if (fill === undefined) return undefined;
    const tensor: ConstTensor = {
      type: { dtype: one?.type.dtype ?? 'f32', shape: sizes.map((d) => num(d)) },
      data: { kind: 'fill', value: fill },
    };
    return isWeight(tensor) ? tensor : undefined;
  }

  private knownOperand(name: string | undefined, frame: Frame): readonly number[] | undefined {
    if (name === undefined || name === '') return undefined;
    const id = this.resolve(frame.scope.find(name));
    const t = id === undefined ? undefined : this.tensors.get(id);
    return t?.type && t.data ? knownNumbers({ type: t.type, data: t.data }) : undefined;
  }

  plain(
    n: OnnxNode,
    id: string,
    frame: Frame,
    { attrs }: NodeAttributes,
    problem?: string,
    captured: readonly TensorId[] = [],
  ): void {
    const op = opByOnnx(n.domain === '' ? n.opType : `${n.domain}:${n.opType}`);
    const { operands, missing } = this.operandsOf(n, id, frame);
    const reason = problem ?? missing ?? (op ? undefined : noSuchOp(n));
    if (reason !== undefined)
      this.report(
        error('UNSUPPORTED_OP', `${describe(n, id)}: ${reason}`, undefined, { subject: id }),
      );
    const results = n.outputs.map((name, j) => {
      const info = frame.declared.get(name);
      return this.addResult(
        `${id}.${j}`,
        name || `${n.opType}_${id}_${j}`,
        info,
        reason !== undefined,
      );
    });
    this.nodes.push({
      id,
      op: op?.name ?? n.opType,
      sourceOp: n.opType,
      name: n.name,
      attrs,
      operands: [...operands, ...captured],
      results,
      ...(reason === undefined ? {} : { unsupported: reason }),
      ...(frame.body === undefined ? {} : { body: frame.body }),
    });
  }

  operands(n: OnnxNode, id: string, frame: Frame): (TensorId | undefined)[] {
    return this.operandsOf(n, id, frame).operands.map((o) => this.resolve(o));
  }

  private operandsOf(
    n: OnnxNode,
    id: string,
    frame: Frame,
  ): { operands: (TensorId | undefined)[]; missing?: string } {
    let missing: string | undefined;
    const operands = n.inputs.map((name) => {
      if (name === '') return undefined;
      const found = frame.scope.find(name);
      if (found !== MISSING) return found;
      missing = `nothing defines its operand ${quote(name)}`;
      this.report(
        error('UNKNOWN_VALUE', `${describe(n, id)}: ${missing}`, undefined, { subject: id }),
      );
      return undefined;
    });
    return missing === undefined ? { operands } : { operands, missing };
  }

  /** Opaque results take all of the declared type, with symbols of their own where it has some. */
  private addResult(
    id: TensorId,
    name: string,
    info: OnnxValueInfo | undefined,
    opaque: boolean,
  ): TensorId {
    let type = info ? this.dims.known(info) : undefined;
    if (!type && info && opaque) {
      const r = this.dims.declare(info, name);
      if (r.ok) type = r.type;
    }
    this.tensors.set(id, { id, name, role: 'result', ...(type ? { type } : {}) });
    return id;
  }

  // -- Inlining ---------------------------------------------------------------------------------

  private addCall(
    n: OnnxNode,
    id: string,
    frame: Frame,
    fn: OnnxFunction,
    given: AttributeEnv,
  ): void {
    const key = functionKey(fn.domain, fn.name, fn.overload);
    if (frame.calls.includes(key) || frame.calls.length >= MAX_CALL_DEPTH) {
      const reason = frame.calls.includes(key)
        ? 'the function calls itself'
        : `functions call each other more than ${MAX_CALL_DEPTH} deep`;
      this.plain(n, id, frame, { attrs: {}, graphs: new Map(), problems: [] }, reason);
      return;
    }
    const scope = new Scope();
    const operands = this.operands(n, id, frame);
    fn.inputs.forEach((name, i) => scope.names.set(name, operands[i]));
    const attributes = new Map(fn.defaults.map((a) => [a.name, a]));
    for (const [name, a] of given) attributes.set(name, a);
    this.addNodes(fn.nodes, {
      scope,
      opsets: fn.opsets.size > 0 ? fn.opsets : this.model.opsets,
      prefix: `${id}/`,
      declared: new Map(),
      attributes,
      calls: [...frame.calls, key],
      ...(frame.body === undefined ? {} : { body: frame.body }),
    });
    this.alias(
      n,
      id,
      fn.outputs.map((name) => this.resolve(scope.find(name))),
    );
  }

  // -- What those who inline use ----------------------------------------------------------------

  get size(): number {
    return this.nodes.length;
  }

  tensor(id: TensorId): Tensor | undefined {
    return this.tensors.get(id);
  }

  known(id: TensorId): readonly number[] | undefined {
    const t = this.tensors.get(id);
    return t?.type && t.data && t.role !== 'result'
      ? knownNumbers({ type: t.type, data: t.data })
      : undefined;
  }

  inline(
    g: OnnxGraph,
    frame: Frame,
    prefix: string,
    inputs: readonly (TensorId | undefined)[],
  ): Scope {
    const scope = new Scope(frame.scope);
    g.inputs.forEach((v, i) => scope.names.set(v.name, inputs[i]));
    this.addInitializers(g, scope, prefix);
    this.addNodes(g.nodes, { ...frame, scope, prefix, declared: declaredTypes(g) });
    return scope;
  }

  make(n: OnnxNode, id: string, frame: Frame, made: Made): readonly TensorId[] {
    const exit = made.control?.kind === 'exit';
    const results = Array.from({ length: made.results ?? 1 }, (_, j) => {
      const name = (exit ? n.outputs[j] : made.names?.[j]) ?? '';
      return this.addResult(`${id}.${j}`, name || `${made.op}_${id}_${j}`, undefined, false);
    });
    this.nodes.push({
      id,
      op: made.op,
      sourceOp: n.opType,
      name: made.control?.kind === 'enter' ? `into ${n.name || n.opType}` : n.name,
      attrs: made.attrs ?? {},
      operands: made.operands,
      results,
      ...(made.control === undefined ? {} : { control: made.control }),
      ...(frame.body === undefined ? {} : { body: frame.body }),
    });
    return results;
  }

  constant(
    id: TensorId,
    name: string,
    dtype: 'i64' | 'bool' | 'f32',
    shape: readonly number[],
    values: readonly number[],
  ): TensorId {
    const type = { dtype, shape: shape.map((d) => num(d)) };
    this.tensors.set(id, { id, name, role: 'const', type, data: { kind: 'numbers', values } });
    return id;
  }

  /** The results of the call become those inside it, under the names that the call gives them. */
  alias(n: OnnxNode, id: string, sources: readonly (TensorId | undefined)[]): void {
    if (this.stopped) return;
    n.outputs.forEach((name, j) => {
      if (name === '') return;
      const outer = `${id}.${j}`;
      const source = sources[j];
      if (source === undefined) {
        this.tensors.set(outer, { id: outer, name, role: 'result' });
        this.report(
          error(
            'UNKNOWN_VALUE',
            `${describe(n, id)}: nothing inside it defines its result ${quote(name)}`,
            undefined,
            { subject: id },
          ),
        );
        return;
      }
      this.aliases.set(outer, source);
      // Only what the call itself made: a result that is its operand keeps its name.
      const made = this.resolve(source);
      const t = made?.startsWith(`${id}/`) ? this.tensors.get(made) : undefined;
      if (t?.role === 'result') this.tensors.set(t.id, { ...t, name });
    });
  }
}

function functionKey(domain: string, name: string, overload: string): string {
  return `${domain}\n${name}\n${overload}`;
}

/** Float tensors of more than one element; shapes, axes and scalars are constants. */
function isWeight(t: ConstTensor): boolean {
  const elements = countElements(t.type.shape.map((d) => d.c));
  return isFloat(t.type.dtype) && typeof elements === 'number' && elements > 1;
}

function noSuchOp(n: OnnxNode): string {
  const op = n.domain === '' ? n.opType : `${n.domain}:${n.opType}`;
  return `the op ${op || '(without a type)'} isn't supported; the rest of the graph is still analysed`;
}
