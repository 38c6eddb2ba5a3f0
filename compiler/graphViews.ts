/**
 * The graph as people see it: nodes, tensors and regions of L0 with what became of them.
 *
 * A host that compiles a file again and again gets the very same objects for what is as it was: they are
 * made once, and needn't cross to another thread again.
 */
import type { Graph, Node, NodeId, Tensor, TensorId, TensorType } from './graph/graph';
import { contentBytes } from './graph/dtype';
import type { Program } from './ir/compute';
import * as I from './ir/indexExpr';
import type { Lowered } from './ops/lower';
import { sameSizes } from './ops/lowerMemory';
import type { Plan } from './fusion/plan';
import type { IndexClass, NodeView, PlanView, RegionView, TensorView } from './result';

interface TensorRecord {
  readonly tensor: Tensor;
  readonly type: TensorType | undefined;
  readonly view: TensorView;
}

interface NodeRecord {
  readonly node: Node;
  readonly view: NodeView;
}

/** What a host may keep of the views between versions of a file. */
export class ViewMemory {
  dims: ReadonlyMap<string, number> = new Map();
  tensors: ReadonlyMap<TensorId, TensorRecord> = new Map();
  nodes: ReadonlyMap<NodeId, NodeRecord> = new Map();
}

export class GraphViews {
  constructor(private readonly memory = new ViewMemory()) {}

  tensors(graph: Graph, lowered: Lowered): TensorView[] {
    const { memory } = this;
    const old = sameSizes(memory.dims, graph.dims) ? memory.tensors : undefined;
    const kept = new Map<TensorId, TensorRecord>();
    const out: TensorView[] = [];
    for (const tensor of graph.tensors.values()) {
      const type = lowered.types.get(tensor.id) ?? tensor.type;
      const before = old?.get(tensor.id);
      const record =
        before?.tensor === tensor && before.type === type
          ? before
          : { tensor, type, view: tensorView(tensor, type, graph.dims) };
      kept.set(tensor.id, record);
      out.push(record.view);
    }
    memory.dims = graph.dims;
    memory.tensors = kept;
    return out;
  }

  nodes(
    graph: Graph,
    lowered: Lowered,
    after: PlanView,
    unfused: Plan,
    computeClasses: readonly IndexClass[],
  ): NodeView[] {
    const { memory } = this;
    const old = memory.nodes;
    const kept = new Map<NodeId, NodeRecord>();
    const kernelOf = kernelsByNode(after);
    const flops = flopsByNode(lowered.program, unfused);
    const classes = classesByNode(lowered.program, computeClasses);
    const out = graph.nodes.map((node): NodeView => {
      const { id } = node;
      const kind = lowered.kinds.get(id) ?? 'opaque';
      const kernel = kernelOf.get(id);
      const indexClass = classes.get(id);
      const unsupported = lowered.unsupported.get(id);
      const work = flops.get(id) ?? 0;
      const before = old.get(id);
      if (before?.node === node) {
        const { view } = before;
        if (
          view.kind === kind &&
          view.kernel === kernel &&
          view.indexClass === indexClass &&
          view.unsupported === unsupported &&
          view.flops === work
        ) {
          kept.set(id, before);
          return view;
        }
      }
      const view: NodeView = {
        id,
        op: node.op,
        sourceOp: node.sourceOp,
        name: node.name,
        kind,
        operands: node.operands,
        results: node.results,
        attrs: before?.node.attrs === node.attrs ? before.view.attrs : attrText(node.attrs),
        flops: work,
        ...(node.range ? { range: node.range } : {}),
        ...(node.body !== undefined ? { region: node.body } : {}),
        ...(kernel !== undefined ? { kernel } : {}),
        ...(indexClass !== undefined ? { indexClass } : {}),
        ...(unsupported !== undefined ? { unsupported } : {}),
      };
      kept.set(id, { node, view });
      return view;
    });
    memory.nodes = kept;
    return out;
  }
}

function tensorView(
  t: Tensor,
  type: TensorType | undefined,
  dims: ReadonlyMap<string, number>,
): TensorView {
  const shape = type?.shape ?? [];
  const sizes = shape.map((d) => I.evaluate(d, (s) => dims.get(s)));
  const elements = type ? sizes.reduce((p, n) => p * n, 1) : 0;
  return {
    id: t.id,
    name: t.name,
    dtype: type?.dtype ?? 'f32',
    shape: type ? shape.map((d) => I.constOf(d) ?? I.printIndex(d)) : ['?'],
    ...(shape.some((d) => I.constOf(d) === undefined) ? { sizes } : {}),
    elements,
    bytes: type ? contentBytes(type.dtype, elements) : 0,
    role: t.role,
    ...(t.range ? { range: t.range } : {}),
  };
}

function kernelsByNode(after: PlanView): Map<NodeId, string> {
  const kernelOf = new Map<NodeId, string>();
  for (const k of after.kernels)
    for (const n of k.nodes) if (!kernelOf.has(n)) kernelOf.set(n, k.id);
  // What no run computes.
  for (const k of after.prepared ?? [])
    for (const n of k.nodes) if (!kernelOf.has(n)) kernelOf.set(n, k.id);
  return kernelOf;
}

function flopsByNode(program: Program, unfused: Plan): Map<NodeId, number> {
  const flops = new Map<NodeId, number>();
  for (const k of unfused.kernels) {
    let n: NodeId | undefined;
    for (let i = 0; i < k.members.length && n === undefined; i++)
      n = program.computes[k.members[i] ?? -1]?.origin[0];
    if (n !== undefined) flops.set(n, (flops.get(n) ?? 0) + k.scheduled.features.flops);
  }
  return flops;
}

/** A node is of the richest class among its computes. */
const CLASSES: readonly IndexClass[] = [
  ...(['elementwise', 'broadcast', 'injective', 'gather', 'stencil'] as const),
  ...(['reduction', 'contraction'] as const),
];

function classesByNode(
  program: Program,
  computeClasses: readonly IndexClass[],
): Map<NodeId, IndexClass> {
  const classes = new Map<NodeId, IndexClass>();
  program.computes.forEach((c, i) => {
    const k = computeClasses[i] ?? 'elementwise';
    for (const o of c.origin) {
      const old = classes.get(o);
      if (old === undefined || CLASSES.indexOf(k) > CLASSES.indexOf(old)) classes.set(o, k);
    }
  });
  return classes;
}

export function regionViews(
  graph: Graph,
  program: Program,
  before: PlanView,
  after: PlanView,
): RegionView[] {
  const byId = new Map(graph.nodes.map((n) => [n.id, n]));
  const bodyView = (id: string, title: string): RegionView['bodies'][number] => ({
    id,
    title,
    nodes: graph.nodes.filter((x) => x.body === id).map((x) => x.id),
    kernelsBefore: before.kernels.filter((k) => k.region === id).map((k) => k.id),
    kernels: after.kernels.filter((k) => k.region === id).map((k) => k.id),
  });
  const bound = (d: I.Dim): number => I.evaluate(d, (s) => graph.dims.get(s));
  const own = new Set((graph.regions ?? []).map((r) => r.id));
  // Loops that an op made of itself.
  const made = (program.regions ?? []).flatMap((r): RegionView[] => {
    if (r.kind !== 'loop' || own.has(r.id)) return [];
    const first = program.computes.find((c) => c.region === r.body)?.origin[0] ?? '';
    const n = byId.get(first);
    const name = n?.name || (n?.results[0] && graph.tensors.get(n.results[0])?.name) || first;
    return [
      {
        id: r.id,
        kind: 'loop',
        ...(r.parent === undefined ? {} : { parent: r.parent }),
        ...(r.trips ? { trips: bound(r.trips) } : {}),
        bodies: [bodyView(r.body, `${n?.sourceOp ?? 'loop'} ${name}: steps`)],
      },
    ];
  });
  const written = (graph.regions ?? []).map((r): RegionView => {
    const n = byId.get(r.id);
    const result = n?.results[0] === undefined ? undefined : graph.tensors.get(n.results[0])?.name;
    const whole = `${n?.sourceOp ?? 'region'} ${n?.name || result || r.id}`;
    const body = (id: string): RegionView['bodies'][number] =>
      bodyView(id, `${whole}: ${id.slice(id.lastIndexOf('/') + 1)}`);
    const lowered = program.regions?.find((x) => x.id === r.id);
    const trips = lowered?.kind === 'loop' ? lowered.trips : undefined;
    return {
      id: r.id,
      kind: r.kind,
      ...(r.parent === undefined ? {} : { parent: r.parent }),
      ...(trips ? { trips: bound(trips) } : {}),
      bodies: r.kind === 'loop' ? [body(r.body)] : [body(r.then.body), body(r.else.body)],
    };
  });
  return [...written, ...made];
}

function attrText(attrs: Graph['nodes'][number]['attrs']): string {
  const parts: string[] = [];
  for (const [k, v] of Object.entries(attrs)) {
    if (v === undefined || k === 'opset') continue;
    if (typeof v === 'object' && 'tensor' in v) parts.push(`${k}=<tensor>`);
    else if (typeof v === 'object' && 'dims' in v) parts.push(`${k}=${I.printShape(v.dims)}`);
    else if (typeof v === 'object')
      parts.push(`${k}=[${v.slice(0, 8).join(', ')}${v.length > 8 ? ', …' : ''}]`);
    else
      parts.push(
        `${k}=${typeof v === 'number' && !Number.isInteger(v) ? Number(v.toPrecision(6)) : v}`,
      );
  }
  return parts.join(', ');
}
