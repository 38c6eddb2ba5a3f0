/** A scene with places: flat lists of what can be drawn, with bounds for culling and hit tests. */
import type { Route } from '../layout/graph';
import type { LayoutResult, Seeds } from '../layout/types';
import { type PlacedFrame, placeFrames } from './frames';
import type { KernelBox, Leaf, Scene, SceneEdge } from './sceneTypes';

export interface Bounds {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

export interface PlacedKernel extends Bounds {
  readonly kind: 'kernel';
  readonly id: string;
  readonly box: KernelBox;
}

export interface PlacedLeaf extends Bounds {
  readonly kind: 'leaf';
  readonly id: string;
  readonly leaf: Leaf;
}

export interface PlacedEdge extends Bounds {
  readonly kind: 'edge';
  readonly id: string;
  readonly edge: SceneEdge;
  readonly route: Route;
  /** Where its label and its refusal stand. */
  readonly labelAt: readonly [number, number];
  readonly markAt: readonly [number, number];
  /** Only one edge of a fan says what it carries. */
  readonly labelled: boolean;
}

export type PlacedItem = PlacedKernel | PlacedLeaf | PlacedEdge;

export interface PlacedScene {
  readonly scene: Scene;
  readonly width: number;
  readonly height: number;
  readonly frames: readonly PlacedFrame[];
  readonly kernels: readonly PlacedKernel[];
  readonly leaves: readonly PlacedLeaf[];
  readonly edges: readonly PlacedEdge[];
  readonly byId: ReadonlyMap<string, PlacedItem>;
}

/** Length of a stub's line. */
export const STUB = 22;

export function placeScene(scene: Scene, layout: LayoutResult): PlacedScene {
  const kernels: PlacedKernel[] = [];
  const leaves: PlacedLeaf[] = [];
  const edges: PlacedEdge[] = [];
  const labelledNets = new Set<string>();
  const addEdge = (edge: SceneEdge, route: Route | undefined): void => {
    if (!route || route.kind === 'none') return;
    const net = `${edge.from}:${edge.tensor}`;
    // A tensor from outside says its shape itself.
    const labelled = edge.label !== '' && !edge.from.startsWith('t:') && !labelledNets.has(net);
    if (labelled) labelledNets.add(net);
    edges.push({
      kind: 'edge',
      id: edge.id,
      edge,
      route,
      labelled,
      ...routeBounds(route),
      labelAt: along(route, 'label'),
      markAt: along(route, 'mark'),
    });
  };
  scene.boxes.forEach((box, i) => {
    const at = layout.boxes[i];
    if (!at) return;
    const { x, y, width, height } = at;
    if (box.kind === 'leaf') {
      leaves.push({ kind: 'leaf', id: box.leaf.id, leaf: box.leaf, x, y, width, height });
      return;
    }
    kernels.push({ kind: 'kernel', id: box.box.id, box: box.box, x, y, width, height });
    const { inner } = at;
    if (!inner) return;
    box.box.leaves.forEach((leaf, k) => {
      const spot = inner.nodes[k];
      if (!spot) return;
      const { width, height } = leaf;
      leaves.push({ kind: 'leaf', id: leaf.id, leaf, x: spot.x, y: spot.y, width, height });
    });
    const named = scene.inner.get(box.box.id);
    named?.edges.forEach((edge, k) => addEdge(edge, inner.edges[k]));
    named?.ins.forEach((legs, k) => legs.forEach((edge, j) => addEdge(edge, inner.ins[k]?.[j])));
    named?.outs.forEach((edge, k) => addEdge(edge, inner.outs[k]));
  });
  scene.outer.forEach((edge, i) => addEdge(edge, layout.edges[i]));
  const { width, height } = layout;
  const byId = new Map<string, PlacedItem>();
  for (const item of [...edges, ...leaves, ...kernels]) byId.set(item.id, item);
  const frames = placeFrames(scene, layout);
  return { scene, width, height, frames, kernels, leaves, edges, byId };
}

/** Centres by id: where the next layout starts from. */
export function seedsOf(placed: PlacedScene): Seeds {
  const seeds: Record<string, number> = {};
  for (const { id, x, width } of [...placed.kernels, ...placed.leaves]) seeds[id] = x + width / 2;
  return seeds;
}

function routeBounds(route: Route): Bounds {
  const points: readonly number[] =
    route.kind === 'path'
      ? route.points
      : route.kind === 'stub'
        ? [...route.from, ...route.to]
        : [];
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (let i = 0; i < points.length; i += 2) {
    left = Math.min(left, points[i] ?? 0);
    right = Math.max(right, points[i] ?? 0);
    top = Math.min(top, points[i + 1] ?? 0);
    bottom = Math.max(bottom, points[i + 1] ?? 0);
  }
  return { x: left, y: top, width: right - left, height: bottom - top };
}

/** The label stands in the first gap between ranks, the mark of a refusal in the last. */
function along(route: Route, what: 'label' | 'mark'): readonly [number, number] {
  if (route.kind === 'stub')
    return what === 'label'
      ? [route.from[0], route.from[1] + STUB + 8]
      : [route.to[0], route.to[1] - STUB - 10];
  if (route.kind === 'none') return [0, 0];
  const p = route.points;
  const gap = what === 'label' ? 2 : p.length - 6;
  const [x0, y0, x1, y1] = [p[gap] ?? 0, p[gap + 1] ?? 0, p[gap + 2] ?? 0, p[gap + 3] ?? 0];
  const single = p.length <= 8;
  const t = what === 'label' ? (single ? 0.34 : 0.5) : single ? 0.72 : 0.5;
  // The piece is a cubic whose tangents are vertical: x follows a smooth step in t.
  const s = t * t * (3 - 2 * t);
  const u = 1 - t;
  const middle = (y0 + y1) / 2;
  const y = u * u * u * y0 + 3 * u * u * t * middle + 3 * u * t * t * middle + t * t * t * y1;
  return [x0 + (x1 - x0) * s, y];
}
