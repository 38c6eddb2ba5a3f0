/**
 * One layered drawing: ranks, dummies, order, coordinates and the course of each edge.
 *
 * Making it fixes ranks and order; {@link LayeredGraph.place} computes coordinates from the sizes it
 * is given, so that a box that grows (a kernel that is unfolded) moves its neighbours, but neither
 * changes rows nor swaps places.
 */
import {
  connect,
  makeVertex,
  type Gaps,
  type LayerEdge,
  type LayerNode,
  type Route,
  type Segment,
  type Vertex,
} from './graph';
import { orderLayers, type Layers } from './order';
import { markWeak, placeX } from './place';
import { assignRanks } from './rank';

export interface Placed {
  readonly width: number;
  readonly height: number;
  /** Top left corners. */
  readonly nodes: readonly { readonly x: number; readonly y: number }[];
  readonly routes: readonly Route[];
}

/** An edge over more ranks than this is drawn as two stubs: nobody can follow it on a screen. */
const STUB_SPAN = 40;
/** Above so many dummies (counted against the nodes) the longest edges are stubbed too. */
const DUMMIES_PER_NODE = 4;
const FREE_DUMMIES = 2000;
/** Distance between ports on a side. */
const PORT_GAP = 16;

export class LayeredGraph {
  private readonly vertices: readonly Vertex[];
  private readonly layers: Layers;
  /** Per edge, from top to bottom; empty for stubs and self-loops. */
  private readonly chains: readonly (readonly Segment[])[];
  private readonly stubbed: ReadonlySet<number>;
  private readonly reversed: ReadonlySet<number>;

  constructor(
    private readonly nodes: readonly LayerNode[],
    private edges: readonly LayerEdge[],
    private readonly gaps: Gaps,
  ) {
    const { rank, reversed } = assignRanks(nodes, edges);
    this.reversed = reversed;
    this.vertices = nodes.map((node, i) => {
      const vertex = makeVertex(i, node.width, node.height, rank[i] ?? 0);
      vertex.seed = node.seed;
      return vertex;
    });
    this.stubbed = this.chooseStubs();
    this.layers = [];
    for (const vertex of this.vertices) this.layer(vertex.rank).push(vertex);
    this.chains = this.makeChains();
    edges.forEach((edge, i) => {
      if (edge.minor) for (const segment of this.chains[i] ?? []) segment.minor = true;
    });
    markWeak(this.vertices);
    this.applyPorts();
    orderLayers(this.layers);
  }

  private layer(rank: number): Vertex[] {
    while (this.layers.length <= rank) this.layers.push([]);
    return this.layers[rank] ?? [];
  }

  private ends(edge: number): readonly [upper: Vertex, lower: Vertex] | undefined {
    const { from, to } = this.edges[edge] ?? { from: 0, to: 0 };
    const [a, b] = [this.vertices[from], this.vertices[to]];
    if (!a || !b || a === b) return undefined;
    return this.reversed.has(edge) ? [b, a] : [a, b];
  }

  private chooseStubs(): ReadonlySet<number> {
    const stubs = new Set<number>();
    const spans: { edge: number; span: number }[] = [];
    let dummies = 0;
    this.edges.forEach((_, edge) => {
      const ends = this.ends(edge);
      if (!ends) return;
      const span = ends[1].rank - ends[0].rank;
      if (span > STUB_SPAN) stubs.add(edge);
      else if (span > 4) {
        spans.push({ edge, span });
        dummies += span - 1;
      }
    });
    const most = FREE_DUMMIES + DUMMIES_PER_NODE * this.nodes.length;
    spans.sort((a, b) => b.span - a.span || a.edge - b.edge);
    for (const { edge, span } of spans) {
      if (dummies <= most) break;
      stubs.add(edge);
      dummies -= span - 1;
    }
    return stubs;
  }

  /** Edges of one net share their dummies: a trunk with branches. */
  private makeChains(): readonly (readonly Segment[])[] {
    const trunks = new Map<string, { dummies: Vertex[]; trunk: Segment[] }>();
    return this.edges.map((edge, i) => {
      const ends = this.ends(i);
      if (!ends || this.stubbed.has(i)) return [];
      const [upper, lower] = ends;
      const key = this.reversed.has(i) ? `${edge.to}<${i}` : `${edge.from}>${edge.net}`;
      let trunk = trunks.get(key);
      if (!trunk) {
        trunk = { dummies: [], trunk: [] };
        trunks.set(key, trunk);
      }
      const length = lower.rank - upper.rank - 1;
      while (trunk.dummies.length < length) {
        const above = trunk.dummies.at(-1) ?? upper;
        const dummy = makeVertex(-1, 0, 0, above.rank + 1);
        this.layer(dummy.rank).push(dummy);
        trunk.trunk.push(connect(above, dummy, edge.net));
        trunk.dummies.push(dummy);
      }
      const last = connect(trunk.dummies[length - 1] ?? upper, lower, edge.net);
      return [...trunk.trunk.slice(0, length), last];
    });
  }

  /** Ports that the caller fixed. */
  private applyPorts(): void {
    this.edges.forEach((edge, i) => {
      const chain = this.chains[i] ?? [];
      const turned = this.reversed.has(i);
      const [upper, lower] = turned ? [edge.toDx, edge.fromDx] : [edge.fromDx, edge.toDx];
      const [first, last] = [chain[0], chain.at(-1)];
      if (first && upper !== undefined) first.upperDx = upper;
      if (last && lower !== undefined) last.lowerDx = lower;
    });
  }

  /** Spreads the ports that nobody fixed, in the order of the other ends, so that they don't cross. */
  private spreadPorts(): void {
    const given = new Set<string>();
    this.edges.forEach((edge, i) => {
      const chain = this.chains[i] ?? [];
      const [first, last] = [chain[0], chain.at(-1)];
      if (!first || !last) return;
      const turned = this.reversed.has(i);
      if ((turned ? edge.toDx : edge.fromDx) !== undefined) given.add(`d${first.upper.node}`);
      if ((turned ? edge.fromDx : edge.toDx) !== undefined) given.add(`u${last.lower.node}`);
    });
    for (const v of this.vertices) {
      if (!given.has(`u${v.node}`)) {
        const into = [...v.up].sort((a, b) => a.upper.pos - b.upper.pos);
        const main = middleOf(into.map(({ weak }) => !weak));
        into.forEach((s, i) => (s.lowerDx = spread(i, main, into.length, v.width)));
      }
      if (!given.has(`d${v.node}`)) {
        const nets = new Map<string, { sum: number; count: number; of: Segment[] }>();
        for (const s of v.down) {
          const net = nets.get(s.net) ?? { sum: 0, count: 0, of: [] };
          net.sum += s.lower.pos;
          net.count++;
          net.of.push(s);
          nets.set(s.net, net);
        }
        const sorted = [...nets.values()].sort((a, b) => a.sum / a.count - b.sum / b.count);
        const main = middleOf(sorted.map(({ of }) => of.some(({ weak }) => !weak)));
        sorted.forEach(({ of }, i) => {
          for (const s of of) s.upperDx = spread(i, main, sorted.length, v.width);
        });
      }
    }
  }

  place(
    nodes: readonly LayerNode[] = this.nodes,
    edges: readonly LayerEdge[] = this.edges,
  ): Placed {
    this.edges = edges;
    this.vertices.forEach((v, i) => {
      v.width = nodes[i]?.width ?? v.width;
      v.height = nodes[i]?.height ?? v.height;
    });
    this.applyPorts();
    this.spreadPorts();
    placeX(this.layers, this.gaps);
    const bottoms = this.placeY();
    let left = Infinity;
    let right = -Infinity;
    for (const layer of this.layers)
      for (const v of layer) {
        left = Math.min(left, v.x - v.width / 2);
        right = Math.max(right, v.x + v.width / 2);
      }
    if (left > right) [left, right] = [0, 0];
    for (const layer of this.layers) for (const v of layer) v.x = round(v.x - left);
    return {
      width: round(right - left),
      height: bottoms.at(-1)?.bottom ?? 0,
      nodes: this.vertices.map((v) => ({ x: round(v.x - v.width / 2), y: round(v.y) })),
      routes: this.edges.map((_, i) => this.route(i, bottoms)),
    };
  }

  private placeY(): readonly { readonly top: number; readonly bottom: number }[] {
    let y = 0;
    return this.layers.map((layer, i) => {
      const height = layer.reduce((most, v) => Math.max(most, v.height), 0);
      for (const v of layer) {
        const spare = height - v.height;
        // What only feeds stands low, what only ends stands high: near its neighbours.
        v.y = y + (v.up.length === 0 ? spare : v.down.length === 0 ? 0 : spare / 2);
      }
      const row = { top: y, bottom: y + height };
      // Steep edges need more room to turn.
      const reach = layer.reduce(
        (most, v) =>
          v.down.reduce(
            (m, s) => Math.max(m, Math.abs(v.x + s.upperDx - s.lower.x - s.lowerDx)),
            most,
          ),
        0,
      );
      const gap = i === this.layers.length - 1 ? 0 : this.gaps.rank + Math.min(40, reach / 20);
      y = round(y + height + gap);
      return row;
    });
  }

  private route(
    edge: number,
    rows: readonly { readonly top: number; readonly bottom: number }[],
  ): Route {
    const ends = this.ends(edge);
    if (!ends) return { kind: 'none' };
    const [upper, lower] = ends;
    const turned = this.reversed.has(edge);
    if (this.stubbed.has(edge)) {
      const given = this.edges[edge];
      const a = round(upper.x + ((turned ? given?.toDx : given?.fromDx) ?? upper.width * 0.3));
      const b = round(lower.x + ((turned ? given?.fromDx : given?.toDx) ?? lower.width * 0.3));
      const top: [number, number] = [a, round(upper.y + upper.height)];
      const bottom: [number, number] = [b, round(lower.y)];
      return turned
        ? { kind: 'stub', from: bottom, to: top }
        : { kind: 'stub', from: top, to: bottom };
    }
    const points: number[] = [];
    for (const segment of this.chains[edge] ?? []) {
      const { upper: a, lower: b } = segment;
      const x0 = round(a.x + segment.upperDx);
      const x1 = round(b.x + segment.lowerDx);
      if (points.length === 0) points.push(x0, round(a.y + a.height));
      points.push(x0, rows[a.rank]?.bottom ?? 0, x1, rows[b.rank]?.top ?? 0);
      if (b === lower) points.push(x1, round(b.y));
    }
    return { kind: 'path', points: turned ? flip(points) : points };
  }
}

/** The one edge that the main line goes through, or the middle where there is none or are several. */
function middleOf(strong: readonly boolean[]): number {
  const first = strong.indexOf(true);
  return first >= 0 && first === strong.lastIndexOf(true) ? first : (strong.length - 1) / 2;
}

/** Ports at even distances, the main one in the middle of the side. */
function spread(i: number, main: number, count: number, width: number): number {
  const steps = Math.max(main, count - 1 - main);
  const gap = steps === 0 ? 0 : Math.min(PORT_GAP, (width * 0.42) / steps);
  return round((i - main) * gap);
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

function flip(points: readonly number[]): readonly number[] {
  const out: number[] = [];
  for (let i = points.length - 2; i >= 0; i -= 2) out.push(points[i] ?? 0, points[i + 1] ?? 0);
  return out;
}
