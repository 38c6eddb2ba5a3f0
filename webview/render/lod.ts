/**
 * Level of detail: which items of a placed scene are drawn for a viewport and a zoom, and how.
 *
 *  - *near*: titles, names, labels.
 *  - *far*: shapes with one big word each.
 *  - *bulk*: too many to be elements of their own: each colour is one path, and the pointer finds
 *    items by {@link hit}.
 *
 * The number of elements on the page is bounded whatever the graph's size.
 */
import { textWidth } from './format';
import type {
  Bounds,
  PlacedEdge,
  PlacedItem,
  PlacedKernel,
  PlacedLeaf,
  PlacedScene,
} from './placed';

export type Detail = 'near' | 'far' | 'bulk';

export interface Visible {
  readonly detail: Detail;
  readonly kernels: readonly PlacedKernel[];
  readonly leaves: readonly PlacedLeaf[];
  readonly edges: readonly PlacedEdge[];
  /** Edges whose label is shown. */
  readonly labels: ReadonlySet<string>;
}

/** Below this zoom nobody can read a name. */
export const NEAR_ZOOM = 0.45;
const LABEL_ZOOM = 0.62;
/** SVG elements that may be on the page, and what one item costs. */
export const ELEMENT_BUDGET = 4500;
const NEAR_COST = { kernel: 8, leaf: 4, edge: 3 } as const;
const FAR_COST = { kernel: 4, leaf: 3, edge: 2 } as const;

export function intersects(a: Bounds, b: Bounds): boolean {
  return (
    a.x <= b.x + b.width && b.x <= a.x + a.width && a.y <= b.y + b.height && b.y <= a.y + a.height
  );
}

export function visibleItems(
  placed: PlacedScene,
  viewport: Bounds,
  zoom: number,
  budget = ELEMENT_BUDGET,
): Visible {
  const seen = (item: Bounds): boolean => intersects(item, viewport);
  const kernels = placed.kernels.filter(seen);
  const leaves = placed.leaves.filter(seen);
  const edges = placed.edges.filter(seen);
  const cost = (of: { kernel: number; leaf: number; edge: number }): number =>
    kernels.length * of.kernel + leaves.length * of.leaf + edges.length * of.edge;
  if (zoom >= NEAR_ZOOM && cost(NEAR_COST) <= budget) {
    const labels = zoom >= LABEL_ZOOM ? chooseLabels(edges) : new Set<string>();
    return { detail: 'near', kernels, leaves, edges, labels };
  }
  const labels = new Set<string>();
  if (cost(FAR_COST) <= budget) return { detail: 'far', kernels, leaves, edges, labels };
  return { detail: 'bulk', kernels, leaves, edges, labels };
}

/** Labels that would lie upon each other are left out, the heavier edge keeps its own. */
export function chooseLabels(edges: readonly PlacedEdge[]): ReadonlySet<string> {
  const chosen = new Set<string>();
  const taken: Bounds[] = [];
  const wanted = edges
    .filter(({ labelled }) => labelled)
    .sort((a, b) => b.edge.bytes - a.edge.bytes || (a.id < b.id ? -1 : 1));
  for (const { id, edge, labelAt } of wanted) {
    const width = textWidth(edge.label, 10.5) + 4;
    const box = { x: labelAt[0] - width / 2, y: labelAt[1] - 7, width, height: 14 };
    if (taken.some((other) => intersects(other, box))) continue;
    taken.push(box);
    chosen.add(id);
  }
  return chosen;
}

/** What lies under a point: a leaf before the kernel around it, then an edge nearby. */
export function hit(
  placed: PlacedScene,
  x: number,
  y: number,
  reach: number,
): PlacedItem | undefined {
  const inside = (b: Bounds): boolean =>
    x >= b.x && x <= b.x + b.width && y >= b.y && y <= b.y + b.height;
  const leaf = placed.leaves.find(inside);
  if (leaf) return leaf;
  const near = placed.edges.find(
    (edge) =>
      x >= edge.x - reach &&
      x <= edge.x + edge.width + reach &&
      y >= edge.y - reach &&
      y <= edge.y + edge.height + reach &&
      distance(edge, x, y) <= reach,
  );
  return near ?? placed.kernels.find(inside);
}

function distance({ route }: PlacedEdge, x: number, y: number): number {
  if (route.kind !== 'path') return Infinity;
  let least = Infinity;
  const p = route.points;
  for (let i = 0; i + 3 < p.length; i += 2) {
    const [ax, ay, bx, by] = [p[i] ?? 0, p[i + 1] ?? 0, p[i + 2] ?? 0, p[i + 3] ?? 0];
    const length = (bx - ax) ** 2 + (by - ay) ** 2;
    const t =
      length === 0
        ? 0
        : Math.max(0, Math.min(1, ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / length));
    least = Math.min(least, Math.hypot(x - ax - t * (bx - ax), y - ay - t * (by - ay)));
  }
  return least;
}
