/**
 * x coordinates after Brandes and Köpf, aware of sizes and ports.
 *
 * Vertices are chained into *blocks* of straight edges in four ways (from above or below, leaning
 * left or right); each way is packed as tightly as the order allows; the result is the mean of the
 * two middle ones, which is balanced and keeps every distance. A vertex of a block stands at a
 * *shift* from the block's first vertex, so that the ports (not the centres) are in line.
 */
import { isDummy, type Gaps, type Segment, type Vertex } from './graph';
import type { Layers } from './order';

export function placeX(layers: Layers, gaps: Gaps): void {
  const vertices = layers.flat();
  if (vertices.length === 0) return;
  markConflicts(layers);
  const index = new Map(vertices.map((v, i) => [v, i]));
  const results: { x: Float64Array; left: number; right: number; toRight: boolean }[] = [];
  for (const fromAbove of [true, false])
    for (const toRight of [false, true]) {
      const x = alignAndPack(layers, index, gaps, fromAbove, toRight);
      let left = Infinity;
      let right = -Infinity;
      vertices.forEach((v, i) => {
        left = Math.min(left, (x[i] ?? 0) - v.width / 2);
        right = Math.max(right, (x[i] ?? 0) + v.width / 2);
      });
      results.push({ x, left, right, toRight });
    }
  const narrowest = results.reduce((a, b) => (b.right - b.left < a.right - a.left ? b : a));
  for (const result of results) {
    const by = result.toRight ? narrowest.right - result.right : narrowest.left - result.left;
    result.x.forEach((value, i) => (result.x[i] = value + by));
  }
  vertices.forEach((v, i) => {
    const four = results.map(({ x }) => x[i] ?? 0).sort((a, b) => a - b);
    v.x = ((four[1] ?? 0) + (four[2] ?? 0)) / 2;
  });
  tighten(layers, gaps);
}

/** A node that only feeds one reader (a weight), or only ends one edge (an output). */
function isLeaf(v: Vertex): boolean {
  return !isDummy(v) && v.up.length + v.down.length === 1;
}

/**
 * The main line is to be straight: where a vertex has better neighbours, the pieces to leaves and
 * the ends of edges that pass by are weak, and never decide where it stands.
 */
export function markWeak(vertices: readonly Vertex[]): void {
  for (const v of vertices) for (const s of v.down) s.weak = false;
  const weaken = (segments: readonly Segment[], end: (s: Segment) => Vertex): void => {
    const worth = (s: Segment): number =>
      s.minor ? 0 : isLeaf(end(s)) ? 1 : isDummy(end(s)) ? 2 : 3;
    const best = segments.reduce((most, s) => Math.max(most, worth(s)), 0);
    for (const s of segments) if (worth(s) < best) s.weak = true;
  };
  for (const v of vertices) {
    if (isDummy(v)) continue;
    weaken(v.up, (s) => s.upper);
    weaken(v.down, (s) => s.lower);
  }
}

/** Pulls leaves next to what they belong to, as far as their neighbours let them. */
function tighten(layers: Layers, gaps: Gaps): void {
  const wanted = (v: Vertex): number | undefined => {
    if (!isLeaf(v)) return undefined;
    const [down, up] = [v.down[0], v.up[0]];
    if (down) return down.lower.x + down.lowerDx - down.upperDx;
    return up ? up.upper.x + up.upperDx - up.lowerDx : undefined;
  };
  const distance = (a: Vertex, b: Vertex): number =>
    (a.width + b.width) / 2 + (isDummy(a) || isDummy(b) ? gaps.edge : gaps.node);
  for (const layer of layers) {
    layer.forEach((v, i) => {
      const x = wanted(v);
      if (x === undefined || x >= v.x) return;
      const left = layer[i - 1];
      v.x = Math.max(x, left ? left.x + distance(left, v) : -Infinity);
    });
    for (let i = layer.length - 1; i >= 0; i--) {
      const v = layer[i];
      const x = v ? wanted(v) : undefined;
      if (!v || x === undefined || x <= v.x) continue;
      const right = layer[i + 1];
      v.x = Math.min(x, right ? right.x - distance(v, right) : Infinity);
    }
  }
}

/** Long edges are kept straight: a segment that crosses a piece of one may not be. */
function markConflicts(layers: Layers): void {
  for (const layer of layers) for (const v of layer) for (const s of v.down) s.conflict = false;
  for (let i = 1; i < layers.length; i++) {
    const layer = layers[i] ?? [];
    const above = layers[i - 1] ?? [];
    let left = 0;
    let scanned = 0;
    layer.forEach((v, at) => {
      const inner = v.node < 0 ? v.up.find((s) => isDummy(s.upper)) : undefined;
      if (!inner && at !== layer.length - 1) return;
      const right = inner ? inner.upper.pos : above.length - 1;
      for (; scanned <= at; scanned++)
        for (const s of layer[scanned]?.up ?? []) {
          const isInner = isDummy(s.upper) && isDummy(s.lower);
          if (!isInner && (s.upper.pos < left || s.upper.pos > right)) s.conflict = true;
        }
      left = right;
    });
  }
}

function alignAndPack(
  layers: Layers,
  index: ReadonlyMap<Vertex, number>,
  gaps: Gaps,
  fromAbove: boolean,
  toRight: boolean,
): Float64Array {
  const size = index.size;
  const root = Int32Array.from({ length: size }, (_, i) => i);
  const shift = new Float64Array(size);
  const aligned = new Uint8Array(size);
  const id = (v: Vertex): number => index.get(v) ?? 0;

  // Chain each vertex to the median of its neighbours in the rank before it, where no chain crosses.
  const count = layers.length;
  for (let step = 1; step < count; step++) {
    const layer = layers[fromAbove ? step : count - 1 - step] ?? [];
    let limit = toRight ? Infinity : -1;
    for (let i = 0; i < layer.length; i++) {
      const v = layer[toRight ? layer.length - 1 - i : i];
      if (!v) continue;
      const strong = (fromAbove ? v.up : v.down).filter(({ weak }) => !weak);
      for (const s of medians(strong, fromAbove, toRight)) {
        const other = fromAbove ? s.upper : s.lower;
        const free = toRight ? other.pos < limit : other.pos > limit;
        if (s.conflict || !free || aligned[id(other)] === 1) continue;
        aligned[id(other)] = 1;
        limit = other.pos;
        root[id(v)] = root[id(other)] ?? 0;
        const [mine, theirs] = fromAbove ? [s.lowerDx, s.upperDx] : [s.upperDx, s.lowerDx];
        shift[id(v)] = (shift[id(other)] ?? 0) + theirs - mine;
        break;
      }
    }
  }
  return pack(layers, id, size, gaps, root, shift, toRight);
}

/** The one or two middle neighbours, the preferred one first. */
function medians(
  segments: readonly Segment[],
  fromAbove: boolean,
  toRight: boolean,
): readonly Segment[] {
  if (segments.length === 0) return [];
  if (segments.length === 1) return segments;
  const at = (s: Segment): number =>
    fromAbove ? s.upper.pos + port(s.upper, s.upperDx) : s.lower.pos + port(s.lower, s.lowerDx);
  const sorted = [...segments].sort((a, b) => at(a) - at(b));
  const low = Math.floor((sorted.length - 1) / 2);
  const middle = sorted.slice(low, Math.ceil((sorted.length - 1) / 2) + 1);
  return toRight ? middle.reverse() : middle;
}
const port = (v: Vertex, dx: number): number => (v.width > 0 ? (dx / v.width) * 0.9 : 0);

/** Packs the blocks to the left (mirrored: to the right): longest paths in the graph of blocks. */
function pack(
  layers: Layers,
  id: (v: Vertex) => number,
  size: number,
  gaps: Gaps,
  root: Int32Array,
  shift: Float64Array,
  mirrored: boolean,
): Float64Array {
  interface Link {
    readonly block: number;
    readonly distance: number;
  }
  const after: Link[][] = Array.from({ length: size }, () => []);
  const before = new Int32Array(size);
  const sign = mirrored ? -1 : 1;
  for (const layer of layers)
    for (let i = 1; i < layer.length; i++) {
      const [a, b] = [layer[i - 1], layer[i]];
      if (!a || !b) continue;
      const [near, far] = mirrored ? [b, a] : [a, b];
      const gap = isDummy(a) || isDummy(b) ? gaps.edge : gaps.node;
      const distance =
        (a.width + b.width) / 2 + gap + sign * ((shift[id(near)] ?? 0) - (shift[id(far)] ?? 0));
      const [p, q] = [root[id(near)] ?? 0, root[id(far)] ?? 0];
      after[p]?.push({ block: q, distance });
      before[q] = (before[q] ?? 0) + 1;
    }
  const at = new Float64Array(size).fill(-Infinity);
  const queue: number[] = [];
  for (let i = 0; i < size; i++) if (root[i] === i && before[i] === 0) queue.push(i);
  for (const start of queue) at[start] = 0;
  // The queue grows while it is read: Kahn's order of the blocks.
  for (const block of queue)
    for (const { block: next, distance } of after[block] ?? []) {
      at[next] = Math.max(at[next] ?? 0, (at[block] ?? 0) + distance);
      before[next] = (before[next] ?? 0) - 1;
      if (before[next] === 0) queue.push(next);
    }
  // Then close the gaps from the other side.
  for (let i = queue.length - 1; i >= 0; i--) {
    const block = queue[i] ?? 0;
    let room = Infinity;
    for (const { block: next, distance } of after[block] ?? [])
      room = Math.min(room, (at[next] ?? 0) - distance);
    if (room !== Infinity) at[block] = Math.max(at[block] ?? 0, room);
  }
  return Float64Array.from(
    { length: size },
    (_, i) => sign * (at[root[i] ?? 0] ?? 0) + (shift[i] ?? 0),
  );
}
