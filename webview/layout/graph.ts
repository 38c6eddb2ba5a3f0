/**
 * Layered drawing (after Sugiyama): vocabulary and the objects that its phases share.
 *
 *  - *rank*: the row that a vertex stands in; every edge points to a greater rank.
 *  - *vertex*: a node, or a *dummy*: a place where a long edge passes through a rank.
 *  - *net*: edges that carry the same tensor from the same node. They share one trunk of dummies, so
 *    that a value with many readers is one line that forks.
 *  - *segment*: a piece of an edge between neighbouring ranks. `dx` is where it touches a vertex,
 *    counted from the vertex's centre (its *port*).
 *
 * No function here recurses: real models have thousands of ranks.
 */

export interface LayerNode {
  readonly width: number;
  readonly height: number;
  /** Ports of a box stand in a row of their own, above or below everything else. */
  readonly pin?: 'top' | 'bottom';
  /** Its centre in the previous layout: keeps the order as it was. */
  readonly seed?: number;
}

export interface LayerEdge {
  readonly from: number;
  readonly to: number;
  readonly net: string;
  /** Fixed ports; where absent they are spread along the node's side. */
  readonly fromDx?: number;
  readonly toDx?: number;
  /** Of a weight and the like: never bends the main line. */
  readonly minor?: boolean;
}

export interface Gaps {
  /** Between neighbouring nodes of a rank. */
  readonly node: number;
  /** Between an edge that passes and its neighbours. */
  readonly edge: number;
  /** Between ranks. */
  readonly rank: number;
}

export interface Vertex {
  /** Index of the node; -1 for a dummy. */
  readonly node: number;
  width: number;
  height: number;
  rank: number;
  /** Position inside its rank. */
  pos: number;
  readonly up: Segment[];
  readonly down: Segment[];
  seed: number | undefined;
  /** Centre. */
  x: number;
  /** Top. */
  y: number;
}

export interface Segment {
  readonly upper: Vertex;
  readonly lower: Vertex;
  readonly net: string;
  upperDx: number;
  lowerDx: number;
  /** Crosses a piece of a long edge: must not be straightened (Brandes and Köpf's type 1 conflict). */
  conflict: boolean;
  /** Goes to something that stands aside: must not pull its other end out of the main line. */
  weak: boolean;
  minor: boolean;
}

/**
 * How an edge is drawn. `path`: x, y pairs; the first piece is a vertical line through the rank, the
 * next crosses to the next rank, and so on alternately. `stub`: too long to draw: two short ends
 * that name each other. `none`: an edge from a node to itself.
 */
export type Route =
  | { readonly kind: 'path'; readonly points: readonly number[] }
  | {
      readonly kind: 'stub';
      readonly from: readonly [number, number];
      readonly to: readonly [number, number];
    }
  | { readonly kind: 'none' };

export function makeVertex(node: number, width: number, height: number, rank: number): Vertex {
  return {
    node,
    width,
    height,
    rank,
    pos: 0,
    up: [],
    down: [],
    seed: undefined,
    x: 0,
    y: 0,
  };
}

export function isDummy(v: Vertex): boolean {
  return v.node < 0;
}

export function connect(upper: Vertex, lower: Vertex, net: string): Segment {
  const segment: Segment = {
    upper,
    lower,
    net,
    upperDx: 0,
    lowerDx: 0,
    conflict: false,
    weak: false,
    minor: false,
  };
  upper.down.push(segment);
  lower.up.push(segment);
  return segment;
}
