/**
 * The order inside each rank: barycentre sweeps with the fewest crossings kept, then neighbour swaps.
 * With a seed (the previous layout) it starts from that and changes only what gets strictly better,
 * so that an edit leaves the rest of the picture where it was.
 */
import { isDummy, type Segment, type Vertex } from './graph';

export type Layers = Vertex[][];

/** Edge visits that the sweeps may cost altogether: bounds the time without a clock. */
const SWEEP_WORK = 3_000_000;

export function orderLayers(layers: Layers): void {
  const vertices = layers.reduce((sum, layer) => sum + layer.length, 0);
  const segments = layers.reduce(
    (sum, layer) => sum + layer.reduce((s, v) => s + v.down.length, 0),
    0,
  );
  const seeded = seedOrder(layers);
  if (!seeded) firstOrder(layers);
  renumber(layers);
  const most = seeded ? 4 : 24;
  const sweeps = Math.max(2, Math.min(most, Math.floor(SWEEP_WORK / (vertices + segments + 1))));
  let best = countAllCrossings(layers);
  let bestOrder = layers.map((layer) => [...layer]);
  let idle = 0;
  for (let i = 0; i < sweeps && best > 0 && idle < 6; i++) {
    sweep(layers, i % 2 === 0, i % 4 >= 2);
    if (vertices < 3000) swapNeighbours(layers);
    const crossings = countAllCrossings(layers);
    idle++;
    if (crossings < best) {
      best = crossings;
      bestOrder = layers.map((layer) => [...layer]);
      idle = 0;
    }
  }
  bestOrder.forEach((layer, i) => (layers[i] = layer));
  renumber(layers);
}

function renumber(layers: Layers): void {
  for (const layer of layers) layer.forEach((v, i) => (v.pos = i));
}

/** Orders by the previous layout; false when too little of the graph is known from it. */
function seedOrder(layers: Layers): boolean {
  let nodes = 0;
  let known = 0;
  for (const layer of layers)
    for (const v of layer)
      if (!isDummy(v)) {
        nodes++;
        if (v.seed !== undefined) known++;
      }
  if (known === 0 || known * 2 < nodes) return false;
  const guess = (v: Vertex, ends: (v: Vertex) => readonly Vertex[]): void => {
    if (v.seed !== undefined) return;
    let sum = 0;
    let count = 0;
    for (const end of ends(v))
      if (end.seed !== undefined) {
        sum += end.seed;
        count++;
      }
    if (count > 0) v.seed = sum / count;
  };
  for (const layer of layers)
    for (const v of layer) guess(v, (at) => at.up.map((segment) => segment.upper));
  for (const layer of [...layers].reverse())
    for (const v of layer) guess(v, (at) => at.down.map((segment) => segment.lower));
  for (const layer of layers) stableSort(layer, (v) => v.seed ?? Infinity);
  return true;
}

/** Depth first from the sources, so that what hangs together starts together. */
function firstOrder(layers: Layers): void {
  const visit = new Map<Vertex, number>();
  for (const layer of layers)
    for (const start of layer) {
      const stack = [start];
      for (let v = stack.pop(); v !== undefined; v = stack.pop()) {
        if (visit.has(v)) continue;
        visit.set(v, visit.size);
        for (let i = v.down.length - 1; i >= 0; i--) {
          const segment = v.down[i];
          if (segment && !visit.has(segment.lower)) stack.push(segment.lower);
        }
      }
    }
  for (const layer of layers) stableSort(layer, (v) => visit.get(v) ?? 0);
}

function stableSort(layer: Vertex[], key: (v: Vertex) => number): void {
  const keyed = layer.map((v, i) => ({ v, i, key: key(v) }));
  keyed.sort((a, b) => (a.key === b.key ? a.i - b.i : a.key - b.key));
  keyed.forEach(({ v }, i) => (layer[i] = v));
}

/** A place along the rank: the vertex's position, and where on the vertex. */
function place(v: Vertex, dx: number): number {
  return v.width > 0 ? v.pos + (dx / v.width) * 0.9 : v.pos;
}
const upperPlace = (s: Segment): number => place(s.upper, s.upperDx);
const lowerPlace = (s: Segment): number => place(s.lower, s.lowerDx);

function sweep(layers: Layers, down: boolean, ties: boolean): void {
  const count = layers.length;
  for (let step = 1; step < count; step++) {
    const layer = layers[down ? step : count - 1 - step];
    if (!layer || layer.length < 2) continue;
    const free: { v: Vertex; key: number; i: number }[] = [];
    const fixed: (Vertex | undefined)[] = layer.map((v, i) => {
      const segments = down ? v.up : v.down;
      if (segments.length === 0) return v;
      let sum = 0;
      for (const s of segments) sum += down ? upperPlace(s) : lowerPlace(s);
      free.push({ v, key: sum / segments.length, i });
      return undefined;
    });
    free.sort((a, b) => (a.key === b.key ? (ties ? b.i - a.i : a.i - b.i) : a.key - b.key));
    let next = 0;
    fixed.forEach((v, i) => {
      const chosen = v ?? free[next++]?.v;
      if (!chosen) return;
      layer[i] = chosen;
      chosen.pos = i;
    });
  }
}

/** Swaps neighbours as long as that takes crossings away. */
function swapNeighbours(layers: Layers): void {
  for (let round = 0; round < 3; round++) {
    let better = false;
    for (const layer of layers)
      for (let i = 0; i + 1 < layer.length; i++) {
        const [a, b] = [layer[i], layer[i + 1]];
        if (!a || !b) continue;
        const now =
          pairCrossings(a.up, b.up, upperPlace) + pairCrossings(a.down, b.down, lowerPlace);
        if (now === 0) continue;
        const swapped =
          pairCrossings(b.up, a.up, upperPlace) + pairCrossings(b.down, a.down, lowerPlace);
        if (swapped >= now) continue;
        layer[i] = b;
        layer[i + 1] = a;
        b.pos = i;
        a.pos = i + 1;
        better = true;
      }
    if (!better) return;
  }
}

function pairCrossings(
  left: readonly Segment[],
  right: readonly Segment[],
  end: (s: Segment) => number,
): number {
  // A vertex with very many edges would make this quadratic.
  if (left.length * right.length > 2500) return 0;
  let crossings = 0;
  for (const l of left) for (const r of right) if (end(l) > end(r)) crossings++;
  return crossings;
}

export function countAllCrossings(layers: Layers): number {
  let sum = 0;
  for (const layer of layers) sum += countCrossings(layer);
  return sum;
}

/** Crossings between a rank and the next: inversions, counted while merge sorting. */
function countCrossings(layer: readonly Vertex[]): number {
  const segments: { upper: number; lower: number }[] = [];
  for (const v of layer)
    for (const s of v.down) segments.push({ upper: upperPlace(s), lower: lowerPlace(s) });
  if (segments.length < 2) return 0;
  segments.sort((a, b) => a.upper - b.upper || a.lower - b.lower);
  let from = Float64Array.from(segments, (s) => s.lower);
  let to = new Float64Array(from.length);
  let crossings = 0;
  for (let width = 1; width < from.length; width *= 2) {
    for (let start = 0; start < from.length; start += 2 * width) {
      const middle = Math.min(start + width, from.length);
      const end = Math.min(start + 2 * width, from.length);
      let [l, r] = [start, middle];
      for (let out = start; out < end; out++) {
        const left = l < middle ? (from[l] ?? 0) : Infinity;
        const right = r < end ? (from[r] ?? 0) : Infinity;
        if (left <= right) {
          to[out] = left;
          l++;
        } else {
          to[out] = right;
          r++;
          crossings += middle - l;
        }
      }
    }
    [from, to] = [to, from];
  }
  return crossings;
}
