/**
 * The two-level layout: each unfolded box first, then the graph of boxes, component by component.
 *
 * It keeps what it computed: an unfolded box is laid out again only if its own content changed, and
 * ranks and order of the outer graph only if its boxes or edges did. So unfolding one kernel costs
 * that kernel, plus moving the others aside.
 */
import type { Gaps, LayerEdge, LayerNode, Route } from './graph';
import { LayeredGraph, type Placed } from './layered';
import type {
  InnerGraph,
  LayoutBox,
  LayoutInput,
  LayoutResult,
  OuterEdge,
  PlacedInner,
  Point,
  Seeds,
  Size,
} from './types';

const OUTER: Gaps = { node: 36, edge: 18, rank: 54 };
const INNER: Gaps = { node: 22, edge: 14, rank: 30 };
const PADDING = 16;
/** Distance from the title to the first op, and from the last op to the border. */
const PORT_ROOM = 18;
/** Between components that have nothing to do with each other. */
const COMPONENT_GAP = 56;

interface InnerLayout extends Size {
  readonly placed: PlacedInner;
  /** From the box's centre. */
  readonly inDx: readonly number[];
  readonly outDx: readonly number[];
}

interface Component {
  readonly boxes: readonly number[];
  readonly edges: readonly number[];
}

export class TwoLevelLayout {
  private inner = new Map<string, InnerLayout>();
  private outer = new Map<string, LayeredGraph>();

  layout(input: LayoutInput, seeds: Seeds = {}): LayoutResult {
    const inner = this.layoutInner(input, seeds);
    const sizes = input.boxes.map((box, i) => inner[i] ?? box);
    const nextOuter = new Map<string, LayeredGraph>();
    const boxes = new Array<Point & Size & { inner?: PlacedInner }>(input.boxes.length);
    const edges = new Array<Route>(input.edges.length).fill({ kind: 'none' });
    const components = findComponents(input);
    const placed = components.map((component) => {
      const key = structureKey(input, component);
      const local = new Map(component.boxes.map((box, i) => [box, i]));
      const nodes = component.boxes.map((box) =>
        layerNode(input.boxes[box]?.id ?? '', sizes[box], seeds),
      );
      const layerEdges = component.edges.map((edge) => layerEdge(input.edges[edge], local, inner));
      const graph =
        nextOuter.get(key) ?? this.outer.get(key) ?? new LayeredGraph(nodes, layerEdges, OUTER);
      nextOuter.set(key, graph);
      return graph.place(nodes, layerEdges);
    });
    this.outer = nextOuter;

    const spots = packComponents(placed);
    let width = 0;
    let height = 0;
    components.forEach((component, c) => {
      const [drawing, spot] = [placed[c], spots[c]];
      if (!drawing || !spot) return;
      width = Math.max(width, spot.x + drawing.width);
      height = Math.max(height, spot.y + drawing.height);
      component.boxes.forEach((box, i) => {
        const at = drawing.nodes[i];
        const size = sizes[box];
        if (!at || !size) return;
        const [x, y] = [at.x + spot.x, at.y + spot.y];
        const content = inner[box];
        boxes[box] = {
          x,
          y,
          width: size.width,
          height: size.height,
          ...(content ? { inner: moveInner(content.placed, x, y) } : {}),
        };
      });
      component.edges.forEach((edge, i) => {
        edges[edge] = moveRoute(drawing.routes[i] ?? { kind: 'none' }, spot.x, spot.y);
      });
    });
    return { width, height, boxes, edges };
  }

  private layoutInner(input: LayoutInput, seeds: Seeds): readonly (InnerLayout | undefined)[] {
    const kept = new Map<string, InnerLayout>();
    const all = input.boxes.map((box) => {
      if (!box.inner) return undefined;
      const key = JSON.stringify([box.id, box.width, box.inner]);
      const layout = this.inner.get(key) ?? layoutInside(box, box.inner, seeds);
      kept.set(key, layout);
      return layout;
    });
    this.inner = kept;
    return all;
  }
}

function layerNode(id: string, size: Size | undefined, seeds: Seeds): LayerNode {
  const seed = Object.hasOwn(seeds, id) ? seeds[id] : undefined;
  return {
    width: size?.width ?? 0,
    height: size?.height ?? 0,
    ...(seed === undefined ? {} : { seed }),
  };
}

function layerEdge(
  edge: OuterEdge | undefined,
  local: ReadonlyMap<number, number>,
  inner: readonly (InnerLayout | undefined)[],
): LayerEdge {
  if (!edge) return { from: 0, to: 0, net: '' };
  const fromDx = edge.out === undefined ? undefined : inner[edge.from]?.outDx[edge.out];
  const toDx = edge.in === undefined ? undefined : inner[edge.to]?.inDx[edge.in];
  return {
    from: local.get(edge.from) ?? 0,
    to: local.get(edge.to) ?? 0,
    net: edge.net,
    minor: edge.minor ?? false,
    ...(fromDx === undefined ? {} : { fromDx }),
    ...(toDx === undefined ? {} : { toDx }),
  };
}

function structureKey(input: LayoutInput, component: Component): string {
  return JSON.stringify([
    component.boxes.map((box) => input.boxes[box]?.id),
    component.edges.map((edge) => {
      const e = input.edges[edge];
      return e ? [e.from, e.to, e.net] : [];
    }),
  ]);
}

function layoutInside(box: LayoutBox, inner: InnerGraph, seeds: Seeds): InnerLayout {
  const count = inner.nodes.length;
  const nodes: LayerNode[] = [
    ...inner.nodes.map((node) => layerNode(node.id, node, seeds)),
    ...inner.ins.map((): LayerNode => ({ width: 0, height: 0, pin: 'top' })),
    ...inner.outs.map((): LayerNode => ({ width: 0, height: 0, pin: 'bottom' })),
  ];
  const edges: LayerEdge[] = [...inner.edges];
  inner.ins.forEach(({ net, to, minor = false }, port) => {
    for (const reader of to) edges.push({ from: count + port, to: reader, net, minor });
  });
  inner.outs.forEach(({ net, from }, port) => {
    edges.push({ from, to: count + inner.ins.length + port, net });
  });
  const gaps = { ...INNER, rank: INNER.rank };
  const drawing = new LayeredGraph(nodes, edges, gaps).place();
  const width = Math.max(box.width, drawing.width + 2 * PADDING);
  // The rows of ports stand in the padding.
  const above = inner.header + (inner.ins.length > 0 ? 0 : PORT_ROOM);
  const below = inner.outs.length > 0 ? 0 : PORT_ROOM;
  const height = above + drawing.height + below;
  const dx = (width - drawing.width) / 2;
  const move = (route: Route | undefined): Route => moveRoute(route ?? { kind: 'none' }, dx, above);
  const port = (i: number): number => (drawing.nodes[i]?.x ?? 0) + dx - width / 2;
  let next = inner.edges.length;
  return {
    width,
    height,
    inDx: inner.ins.map((_, i) => port(count + i)),
    outDx: inner.outs.map((_, i) => port(count + inner.ins.length + i)),
    placed: {
      nodes: drawing.nodes.slice(0, count).map(({ x, y }) => ({ x: x + dx, y: y + above })),
      edges: inner.edges.map((_, i) => move(drawing.routes[i])),
      ins: inner.ins.map(({ to }) => to.map(() => move(drawing.routes[next++]))),
      outs: inner.outs.map(() => move(drawing.routes[next++])),
    },
  };
}

function findComponents(input: LayoutInput): readonly Component[] {
  const touching: number[][] = input.boxes.map(() => []);
  input.edges.forEach(({ from, to }, edge) => {
    touching[from]?.push(edge);
    touching[to]?.push(edge);
  });
  const owner = new Array<number>(input.boxes.length).fill(-1);
  const components: { boxes: number[]; edges: number[] }[] = [];
  input.boxes.forEach((_, start) => {
    if (owner[start] !== -1) return;
    const name = components.length;
    owner[start] = name;
    const boxes = [start];
    for (const box of boxes)
      for (const edge of touching[box] ?? []) {
        const { from, to } = input.edges[edge] ?? { from: box, to: box };
        for (const end of [from, to])
          if (owner[end] === -1) {
            owner[end] = name;
            boxes.push(end);
          }
      }
    components.push({ boxes: boxes.sort((a, b) => a - b), edges: [] });
  });
  input.edges.forEach(({ from }, edge) => components[owner[from] ?? 0]?.edges.push(edge));
  return components;
}

/** Puts the components in rows, in their order; single boxes thus make a grid. */
function packComponents(placed: readonly Placed[]): readonly Point[] {
  const area = placed.reduce(
    (sum, { width, height }) => sum + (width + COMPONENT_GAP) * (height + COMPONENT_GAP),
    0,
  );
  const widest = placed.reduce((most, { width }) => Math.max(most, width), 0);
  const row = Math.max(widest, Math.sqrt(area * 1.8));
  let [x, y, tallest] = [0, 0, 0];
  return placed.map(({ width, height }) => {
    if (x > 0 && x + width > row) {
      y += tallest + COMPONENT_GAP;
      [x, tallest] = [0, 0];
    }
    const spot = { x: Math.round(x), y: Math.round(y) };
    x += width + COMPONENT_GAP;
    tallest = Math.max(tallest, height);
    return spot;
  });
}

function moveInner(inner: PlacedInner, dx: number, dy: number): PlacedInner {
  const move = (route: Route): Route => moveRoute(route, dx, dy);
  return {
    nodes: inner.nodes.map(({ x, y }) => ({ x: x + dx, y: y + dy })),
    edges: inner.edges.map(move),
    ins: inner.ins.map((routes) => routes.map(move)),
    outs: inner.outs.map(move),
  };
}

function moveRoute(route: Route, dx: number, dy: number): Route {
  switch (route.kind) {
    case 'path':
      return { kind: 'path', points: route.points.map((v, i) => v + (i % 2 === 0 ? dx : dy)) };
    case 'stub':
      return {
        kind: 'stub',
        from: [route.from[0] + dx, route.from[1] + dy],
        to: [route.to[0] + dx, route.to[1] + dy],
      };
    case 'none':
      return route;
  }
}
