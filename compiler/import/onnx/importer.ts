/**
 * ModelProto to L0.
 *
 * Vocabulary
 *  - *scope*: what names mean at a place: a graph's values, over those of the graph around it (the
 *    branch of an If sees outside names; the body of a function doesn't).
 *  - *frame*: what the nodes of one list share: scope, operator set versions, id prefix, and inside a
 *    function the attributes of the call.
 *  - *inlining*: the nodes of a called function, or of an If's branch that is known to be taken, take
 *    the call's place. Their ids continue the call's: `n3/0`, `n3/1`.
 *  - *alias*: the result id of an inlined node, which is another id: that of the inner result.
 *
 * Ids are positions: `n<k>` the k-th node of the file, `n<k>.<j>` its j-th result, `in<k>` an input,
 * `w<k>` an initializer. The file's names are for people only; they may be empty or repeated.
 *
 * An If whose condition is computed from shapes stays an unsupported node here: only lowering knows
 * the value. A driver that folds the condition can import again with the branch chosen.
 */
import { type Diagnostic, error, warning } from '../../diagnostics';
import { isFloat } from '../../graph/dtype';
import type { ConstTensor, Graph, Node, Tensor, TensorId } from '../../graph/graph';
import { num } from '../../ir/indexExpr';
import { opByOnnx } from '../../ops';
import {
  type AttributeEnv,
  nodeAttributes,
  type NodeAttributes,
  resolveReferences,
} from './attributes';
import { constantNode, tensorOf } from './constantNode';
import type {
  OnnxFunction,
  OnnxGraph,
  OnnxModel,
  OnnxNode,
  OnnxTensor,
  OnnxValueInfo,
} from './proto';
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

class Scope {
  /** undefined: an optional input that the call left out. */
  readonly names = new Map<string, TensorId | undefined>();
  constructor(private readonly outer?: Scope) {}

  /** The id of a name; `missing` when nothing defines it. */
  find(name: string): TensorId | undefined | typeof MISSING {
    if (this.names.has(name)) return this.names.get(name);
    return this.outer ? this.outer.find(name) : MISSING;
  }
}
const MISSING = Symbol('missing');

interface Frame {
  readonly scope: Scope;
  readonly opsets: ReadonlyMap<string, number>;
  /** `n` at the top, `n3/` inside node n3. */
  readonly prefix: string;
  readonly declared: ReadonlyMap<string, OnnxValueInfo>;
  readonly attributes?: AttributeEnv;
  /** Keys of the functions being inlined, outermost first. */
  readonly calls: readonly string[];
}

export function buildGraph(model: OnnxModel, fileName: string, diagnostics: Diagnostic[]): Graph {
  return new Importer(model, diagnostics).run(fileName);
}

class Importer {
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

  constructor(
    private readonly model: OnnxModel,
    private readonly diagnostics: Diagnostic[],
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
    };
  }

  private report(d: Diagnostic): void {
    this.diagnostics.push(d);
  }

  /** Follows aliases. A call that only hands its operand through can, in a cyclic file, lead to itself. */
  private resolve(id: TensorId | undefined | typeof MISSING): TensorId | undefined {
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
        this.addPlain(n, id, frame, attributes, attributes.problems[0] ?? r.message);
        return;
      }
      if (n.opType === 'ConstantOfShape') {
        const filled = this.filledWeight(n, attributes, frame);
        if (filled) {
          this.addTensor(`${id}.0`, n.outputs[0] ?? '', filled);
          return;
        }
      }
      if (n.opType === 'If') {
        this.addIf(n, id, frame, attributes);
        return;
      }
    }
    if (attributes.graphs.size > 0) {
      this.addControlFlow(n, id, frame, attributes, 'it runs a graph inside it many times');
      return;
    }
    this.addPlain(n, id, frame, attributes, attributes.problems[0]);
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

  private addPlain(
    n: OnnxNode,
    id: string,
    frame: Frame,
    { attrs }: NodeAttributes,
    problem?: string,
    captured: readonly TensorId[] = [],
  ): void {
    const op = opByOnnx(n.domain === '' ? n.opType : `${n.domain}:${n.opType}`);
    const { operands, missing } = this.operands(n, id, frame);
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
    });
  }

  private operands(
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
      this.addPlain(n, id, frame, { attrs: {}, graphs: new Map(), problems: [] }, reason);
      return;
    }
    const scope = new Scope();
    const { operands } = this.operands(n, id, frame);
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
    });
    this.bindResults(n, id, fn.outputs, scope);
  }

  private addIf(n: OnnxNode, id: string, frame: Frame, attributes: NodeAttributes): void {
    const condition = this.knownOperand(n.inputs[0], frame)?.[0];
    if (condition === undefined) {
      this.addControlFlow(
        n,
        id,
        frame,
        attributes,
        'its condition is only known when the model runs',
      );
      return;
    }
    const branch = attributes.graphs.get(condition === 0 ? 'else_branch' : 'then_branch');
    if (!branch) {
      this.addPlain(n, id, frame, attributes, 'the branch that it takes is missing');
      return;
    }
    const scope = new Scope(frame.scope);
    this.addInitializers(branch, scope, `${id}/`);
    this.addNodes(branch.nodes, {
      ...frame,
      scope,
      prefix: `${id}/`,
      declared: declaredTypes(branch),
    });
    this.bindResults(
      n,
      id,
      branch.outputs.map((o) => o.name),
      scope,
    );
  }

  /** The results of the call become those inside it, under the names that the call gives them. */
  private bindResults(n: OnnxNode, id: string, inner: readonly string[], scope: Scope): void {
    if (this.stopped) return;
    n.outputs.forEach((name, j) => {
      if (name === '') return;
      const outer = `${id}.${j}`;
      const source = inner[j] === undefined ? MISSING : scope.find(inner[j]);
      if (source === MISSING || source === undefined) {
        this.tensors.set(outer, { id: outer, name, role: 'result' });
        this.report(
          error(
            'UNKNOWN_VALUE',
            `${describe(n, id)}: nothing inside it defines its result ${quote(name)}`,
            undefined,
            {
              subject: id,
            },
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

  private addControlFlow(
    n: OnnxNode,
    id: string,
    frame: Frame,
    attributes: NodeAttributes,
    reason: string,
  ): void {
    // What the inner graphs use from outside is an operand too: it must not look unused.
    const captured = new Set<TensorId>();
    for (const g of attributes.graphs.values())
      for (const name of freeNames(g)) {
        const found = frame.scope.find(name);
        if (found !== MISSING && found !== undefined) captured.add(found);
      }
    this.addPlain(n, id, frame, attributes, `${n.opType} isn't supported: ${reason}`, [
      ...captured,
    ]);
  }
}

function functionKey(domain: string, name: string, overload: string): string {
  return `${domain}\n${name}\n${overload}`;
}

function declaredTypes(g: OnnxGraph): Map<string, OnnxValueInfo> {
  return new Map([...g.valueInfo, ...g.outputs].map((v) => [v.name, v]));
}

/** Float tensors of more than one element; shapes, axes and scalars are constants. */
function isWeight(t: ConstTensor): boolean {
  const elements = countElements(t.type.shape.map((d) => d.c));
  return isFloat(t.type.dtype) && typeof elements === 'number' && elements > 1;
}

/** Names that a graph, or one inside it, uses but doesn't define. */
function freeNames(g: OnnxGraph): Set<string> {
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

function noSuchOp(n: OnnxNode): string {
  const op = n.domain === '' ? n.opType : `${n.domain}:${n.opType}`;
  return `the op ${op || '(without a type)'} isn't supported; the rest of the graph is still analysed`;
}

function describe(n: OnnxNode, id: string): string {
  return n.name === '' ? `${n.opType} (${id})` : `${n.opType} ${quote(n.name)} (${id})`;
}

/** Names come from a file: shortened and on one line. */
function quote(name: string): string {
  const line = name.replace(/\p{Cc}/gu, ' ');
  return `'${line.length > 80 ? `${line.slice(0, 77)}…` : line}'`;
}
