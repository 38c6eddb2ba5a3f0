/**
 * The scene: what one view (before or after fusion) shows, in words and sizes, before it has places.
 *
 *  - A *kernel* is a box around the ops it holds; folded, it is a box alone. In a kernel of one op,
 *    and in the view before fusion, the op itself stands for the kernel.
 *  - A *leaf* is an op, or a tensor from outside (input, param, const), or an output.
 *  - An *edge* is one tensor that goes from one box to another through memory, however many ops
 *    inside read it; inside a kernel it is free, and there is one per reader.
 */
import type { Decision, KernelView, NodeView, TensorView } from '../../compiler/result';
import type { InnerGraph, LayoutBox, OuterEdge } from '../layout/types';
import { fitShape, fitText, formatBytes, plural, shapeText, textWidth } from './format';
import { type GraphIndex, loadedOnly, type View } from './graphIndex';
import { framesOf } from './frames';
import type { Box, InnerEdges, KernelBox, Leaf, Scene, SceneEdge } from './sceneTypes';

export interface SceneOptions {
  readonly view: View;
  /** Ids of kernels shown as a box alone. */
  readonly isFolded: (kernel: KernelView) => boolean;
  /** Weights and constants as nodes of their own. */
  readonly weights: boolean;
}

export const HEADER_HEIGHT = 46;
export const FOLDED_HEIGHT = 64;
export const OP_HEIGHT = 42;
const SMALL_HEIGHT = 30;
/** Inputs and outputs have a point, 8 high. */
const DATA_HEIGHT = 46;
const MAX_TEXT = 190;

interface Wire {
  readonly tensor: TensorView;
  readonly from: { readonly box: number; readonly leaf: Leaf };
  readonly to: { readonly box: number; readonly leaf: Leaf };
  readonly count: number;
  readonly decision?: Decision;
}

export function buildScene(index: GraphIndex, options: SceneOptions): Scene {
  return new SceneBuilder(index, options).build();
}

class SceneBuilder {
  private readonly boxes: Box[] = [];
  /** Every leaf by what it stands for: `node` or `tensor`, with its kernel where it has one. */
  private readonly places = new Map<string, { box: number; leaf: Leaf }>();
  private readonly wires: Wire[] = [];
  private readonly names = new Map<string, string>();

  constructor(
    private readonly index: GraphIndex,
    private readonly options: SceneOptions,
  ) {}

  build(): Scene {
    const { index, options } = this;
    const { graph } = index.result;
    const plan = index.plan(options.view);
    for (const tensor of graph.tensors) {
      const wanted = tensor.role === 'input' || (options.weights && tensor.role !== 'result');
      const read = index.readersOf(tensor.id).length > 0;
      if (wanted && (read || tensor.role === 'input')) this.addTensor(tensor);
    }
    for (const kernel of loadedOnly(plan)) this.addKernel(kernel);
    for (const kernel of plan.kernels) this.addKernel(kernel);
    for (const node of graph.nodes)
      if (index.kernelsHolding(node.id, options.view).length === 0)
        this.addLeaf(this.opLeaf(node, undefined, node.id), node.id);
    graph.outputs.forEach(({ name, tensor }, i) => this.addOutput(i, name, tensor));
    for (const { box, leaf } of [...this.places.values()]) this.wireOperands(box, leaf);
    return this.connect();
  }

  private addLeaf(leaf: Leaf, key: string): void {
    this.places.set(key, { box: this.boxes.length, leaf });
    this.names.set(leaf.id, (leaf.node === undefined ? '' : leaf.subtitle) || leaf.title);
    this.boxes.push({ kind: 'leaf', leaf });
  }

  private addTensor(tensor: TensorView): void {
    const kind = tensor.role === 'result' ? 'const' : tensor.role;
    const title = tensor.name || tensor.id;
    const size = tensor.elements > 1 ? ` · ${formatBytes(tensor.bytes)}` : '';
    const facts = ` ${tensor.dtype}${size}`;
    const shape = fitShape(tensor, MAX_TEXT - textWidth(facts, 11), 11);
    const subtitle = `${shape}${facts}`;
    this.addLeaf(
      {
        id: `t:${tensor.id}`,
        kind,
        tensor: tensor.id,
        title: fitText(title, MAX_TEXT, 12, true),
        subtitle,
        tooltip: `${title}\n${kind} ${tensorText(tensor)}`,
        width: leafWidth(title, subtitle, 44),
        height: DATA_HEIGHT,
      },
      tensor.id,
    );
  }

  private opLeaf(node: NodeView, kernel: KernelView | undefined, id: string): Leaf {
    const { index, options } = this;
    const name = index.nodeName(node.id);
    const small = node.kind === 'view' || node.kind === 'constant';
    const future = options.view === 'before' ? node.kernel : undefined;
    const pattern = kernel?.pattern ?? (future ? index.kernels.get(future)?.pattern : undefined);
    const shown = future ? index.kernels.get(future)?.pattern : pattern;
    const subtitle = name === node.op ? '' : name;
    const tag = future ? 26 : 0;
    return {
      id,
      kind: node.kind,
      node: node.id,
      ...(kernel ? { kernel: kernel.id } : {}),
      ...(future ? { future } : {}),
      ...(shown ? { pattern: shown } : {}),
      title: fitText(node.op, MAX_TEXT, 12.5, true),
      subtitle: fitText(subtitle, MAX_TEXT, 11),
      tooltip: [
        `${node.sourceOp}${name === node.op ? '' : ` ${name}`}`,
        ...(node.attrs ? [node.attrs] : []),
        ...(node.region === undefined ? [] : [`in ${index.bodyTitle(node.region)}`]),
        ...node.results.map((t) => tensorText(index.tensors.get(t))),
        ...(node.unsupported ? [node.unsupported] : []),
      ].join('\n'),
      width: leafWidth(node.op, subtitle, small ? 60 : 84, tag),
      height: small && subtitle === '' ? SMALL_HEIGHT : OP_HEIGHT,
    };
  }

  private addKernel(kernel: KernelView): void {
    const { index, options } = this;
    const nodes = kernel.nodes
      .map((id) => index.nodes.get(id))
      .filter((node) => node !== undefined);
    const [only] = nodes;
    if (options.view === 'before' && nodes.length === 1 && only) {
      // Before fusion the op is the kernel.
      this.addLeaf(this.opLeaf(only, kernel, `${kernel.id}/${only.id}`), `${kernel.id}/${only.id}`);
      return;
    }
    const solo = nodes.length <= 1;
    const folded = solo || options.isFolded(kernel);
    const leaves = nodes.map((node) => this.opLeaf(node, kernel, `${kernel.id}/${node.id}`));
    const box = this.boxes.length;
    for (const leaf of leaves) {
      this.places.set(leaf.id, { box, leaf });
      this.names.set(leaf.id, `${kernel.id}: ${leaf.subtitle || leaf.title}`);
    }
    this.names.set(kernel.id, kernel.id);
    const title = `${kernel.id} · ${kernel.atLoad ? 'once, at load' : kernel.pattern}`;
    const body = kernel.region === undefined ? undefined : index.bodyTitle(kernel.region);
    const name = only ? index.nodeName(only.id) : '';
    const label = solo && name !== only?.op ? `${kernel.label} ${name}` : kernel.label;
    const width = Math.max(
      // Room for the glyph, the title, the time and the fold button.
      28 + textWidth(title, 12.5, true) + 100,
      Math.min(260, 24 + textWidth(label, 11)),
    );
    this.boxes.push({
      kind: 'kernel',
      box: {
        id: kernel.id,
        kernel,
        folded,
        solo,
        title,
        label,
        counts: [
          ...(solo ? [] : [plural(nodes.length, 'op')]),
          formatBytes(kernel.bytesRead + kernel.bytesWritten),
        ].join(' · '),
        tooltip: [title, label, ...(body === undefined ? [] : [`in ${body}`])].join('\n'),
        width: Math.round(width),
        height: FOLDED_HEIGHT,
        leaves,
      },
    });
  }

  private addOutput(i: number, name: string, tensor: string): void {
    const title = name || this.index.tensors.get(tensor)?.name || `output ${i}`;
    this.addLeaf(
      {
        id: `o:${i}`,
        kind: 'output',
        tensor,
        title: fitText(title, MAX_TEXT, 12, true),
        subtitle: '',
        tooltip: `${title}\noutput ${tensorText(this.index.tensors.get(tensor))}`,
        width: leafWidth(title, '', 44),
        height: SMALL_HEIGHT,
      },
      `o:${i}`,
    );
  }

  /** Where a tensor comes from, seen by a reader in this kernel. */
  private source(tensor: string, kernel: string | undefined) {
    const producer = this.index.producer(tensor);
    if (!producer) return this.places.get(tensor);
    const own = kernel === undefined ? undefined : this.places.get(`${kernel}/${producer.id}`);
    if (own) return own;
    const holding = this.index.kernelsHolding(producer.id, this.options.view);
    const writer = holding.find((k) => k.outputs.includes(tensor)) ?? holding[0];
    return this.places.get(writer ? `${writer.id}/${producer.id}` : producer.id);
  }

  private wireOperands(box: number, leaf: Leaf): void {
    const operands =
      leaf.kind === 'output'
        ? [leaf.tensor]
        : (this.index.nodes.get(leaf.node ?? '')?.operands ?? []);
    const counts = new Map<string, number>();
    for (const tensor of operands)
      if (tensor !== undefined) counts.set(tensor, (counts.get(tensor) ?? 0) + 1);
    for (const [id, count] of counts) {
      const tensor = this.index.tensors.get(id);
      const from = this.source(id, leaf.kernel);
      if (!tensor || !from || from.leaf === leaf) continue;
      const decision =
        leaf.node === undefined
          ? undefined
          : this.index.decision(from.leaf.node ?? id, leaf.node, id);
      this.wires.push({
        tensor,
        from,
        to: { box, leaf },
        count,
        ...(decision ? { decision } : {}),
      });
    }
  }

  private isOpen(box: number): boolean {
    const found = this.boxes[box];
    return found?.kind === 'kernel' && !found.box.folded;
  }

  private boxId(box: number, leaf: Leaf): string {
    const found = this.boxes[box];
    return found?.kind === 'kernel' ? found.box.id : leaf.id;
  }

  private edge(
    kind: SceneEdge['kind'],
    id: string,
    wires: readonly Wire[],
    from: string,
    to: string,
  ): SceneEdge {
    const tensor = wires[0]?.tensor;
    const decisions = wires.flatMap((wire) => wire.decision ?? []);
    // Reading a graph input or a weight is not a refusal: there is nothing to fuse it with. Nor is
    // what a branch or a loop is handed, or gives: it has no kernel itself.
    const refused = decisions.find(
      ({ fused, verdicts, from: producer, to: reader }) =>
        !fused &&
        verdicts.length > 0 &&
        this.index.nodes.has(producer) &&
        ![producer, reader].some((id) => this.index.nodes.get(id)?.kind === 'region'),
    );
    const code = this.options.view === 'after' ? refused?.verdicts[0]?.code : undefined;
    const count = wires.reduce((sum, wire) => sum + wire.count, 0);
    return {
      id,
      kind,
      tensor: tensor?.id ?? '',
      from,
      to,
      label: edgeLabel(tensor, kind, wires.length === 1 ? count : 1),
      bytes: tensor?.bytes ?? 0,
      count,
      decisions,
      ...(code ? { rejected: code } : {}),
      fromName: this.names.get(from) ?? from,
      toName: this.names.get(to) ?? to,
    };
  }

  /** Sorts the wires into those inside one box and those between boxes. */
  private connect(): Scene {
    const inside = new Map<number, Wire[]>();
    const between = new Map<string, Wire[]>();
    for (const wire of this.wires) {
      if (wire.from.box === wire.to.box) put(inside, wire.from.box, wire);
      else put(between, `${wire.from.box}>${wire.to.box}:${wire.tensor.id}`, wire);
    }
    const ins = new Map<number, Map<string, Wire[]>>();
    const outs = new Map<number, Map<string, Leaf>>();
    for (const wires of between.values())
      for (const { from, to, tensor } of wires) {
        if (this.isOpen(to.box)) {
          const ports = ins.get(to.box) ?? new Map<string, Wire[]>();
          ins.set(to.box, ports);
          if (!ports.has(tensor.id)) ports.set(tensor.id, wires);
        }
        if (this.isOpen(from.box)) {
          const ports = outs.get(from.box) ?? new Map<string, Leaf>();
          outs.set(from.box, ports);
          ports.set(tensor.id, from.leaf);
        }
      }

    const outer: SceneEdge[] = [];
    const edges: OuterEdge[] = [];
    for (const wires of between.values()) {
      const [first] = wires;
      if (!first) continue;
      const { from, to, tensor } = first;
      const id = `${this.boxId(from.box, from.leaf)}>${this.boxId(to.box, to.leaf)}:${tensor.id}`;
      outer.push(
        this.edge(
          'memory',
          id,
          wires,
          this.boxId(from.box, from.leaf),
          this.boxId(to.box, to.leaf),
        ),
      );
      const outPorts = outs.get(from.box);
      const inPorts = ins.get(to.box);
      edges.push({
        id,
        from: from.box,
        to: to.box,
        net: tensor.id,
        ...(isMinor(tensor) ? { minor: true } : {}),
        ...(outPorts ? { out: [...outPorts.keys()].indexOf(tensor.id) } : {}),
        ...(inPorts ? { in: [...inPorts.keys()].indexOf(tensor.id) } : {}),
      });
    }

    const inner = new Map<string, InnerEdges>();
    const boxes = this.boxes.map((box, i): LayoutBox => {
      if (box.kind === 'leaf') {
        const { id, width, height } = box.leaf;
        return { id, width, height };
      }
      const { id, width, height, folded } = box.box;
      if (folded) return { id, width, height };
      const made = this.openKernel(
        box.box,
        inside.get(i) ?? [],
        ins.get(i) ?? new Map<string, Wire[]>(),
        outs.get(i) ?? new Map<string, Leaf>(),
      );
      inner.set(id, made.edges);
      return { id, width, height, inner: made.graph };
    });
    return {
      view: this.options.view,
      boxes: this.boxes,
      frames: framesOf(this.index, this.boxes),
      outer,
      inner,
      layout: { boxes, edges },
    };
  }

  private openKernel(
    box: KernelBox,
    wires: readonly Wire[],
    ins: ReadonlyMap<string, readonly Wire[]>,
    outs: ReadonlyMap<string, Leaf>,
  ): { graph: InnerGraph; edges: InnerEdges } {
    const at = new Map(box.leaves.map((leaf, i) => [leaf.id, i]));
    const position = (leaf: Leaf): number => at.get(leaf.id) ?? 0;
    const graph: InnerGraph = {
      nodes: box.leaves.map(({ id, width, height }) => ({ id, width, height })),
      edges: wires.map(({ from, to, tensor }) => ({
        from: position(from.leaf),
        to: position(to.leaf),
        net: tensor.id,
      })),
      ins: [...ins].map(([net, readers]) => ({
        net,
        to: readers.map(({ to }) => position(to.leaf)),
        ...(readers[0] && isMinor(readers[0].tensor) ? { minor: true } : {}),
      })),
      outs: [...outs].map(([net, leaf]) => ({ net, from: position(leaf) })),
      header: HEADER_HEIGHT,
    };
    const edges: InnerEdges = {
      edges: wires.map((wire) =>
        this.edge(
          'free',
          `${wire.from.leaf.id}>${wire.to.leaf.id}:${wire.tensor.id}`,
          [wire],
          wire.from.leaf.id,
          wire.to.leaf.id,
        ),
      ),
      ins: [...ins.values()].map((readers) =>
        readers.map((wire) =>
          this.edge(
            'leg',
            `${box.id}<${wire.tensor.id}>${wire.to.leaf.id}`,
            [wire],
            this.boxId(wire.from.box, wire.from.leaf),
            wire.to.leaf.id,
          ),
        ),
      ),
      outs: [...outs].map(([net, leaf]) => ({
        ...this.edge('leg', `${leaf.id}>${net}>${box.id}`, [], leaf.id, box.id),
        tensor: net,
        bytes: this.index.tensors.get(net)?.bytes ?? 0,
      })),
    };
    return { graph, edges };
  }
}

/** Weights stand beside the main line. */
function isMinor({ role }: TensorView): boolean {
  return role === 'param' || role === 'const';
}

function leafWidth(title: string, subtitle: string, least: number, extra = 0): number {
  const text = Math.max(
    Math.min(MAX_TEXT, textWidth(title, 12.5, true)) + extra,
    Math.min(MAX_TEXT, textWidth(subtitle, 11)),
  );
  return Math.round(Math.max(least, text + 26));
}

export function tensorText(tensor: TensorView | undefined): string {
  if (!tensor) return '';
  return `${tensor.dtype} ${shapeText(tensor)}, ${formatBytes(tensor.bytes)}`;
}

function edgeLabel(tensor: TensorView | undefined, kind: SceneEdge['kind'], count: number): string {
  if (!tensor || kind === 'leg') return '';
  const times = count > 1 ? ` (${count} times)` : '';
  const shape = fitShape(tensor, 110, 10.5);
  return kind === 'free'
    ? `${shape}${times}`
    : `${shape} ${tensor.dtype} · ${formatBytes(tensor.bytes)}${times}`;
}

function put<K, V>(map: Map<K, V[]>, key: K, value: V): void {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}
