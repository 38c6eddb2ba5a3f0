/**
 * Ranks: the row of each node. Longest path from the sources, then whatever has nothing above it is
 * sunk to just before its first use, so that a weight stands beside the op that reads it.
 */
import type { LayerEdge, LayerNode } from './graph';

export interface Ranks {
  readonly rank: readonly number[];
  /** Edges that had to be turned round because of a cycle. */
  readonly reversed: ReadonlySet<number>;
}

interface Neighbour {
  readonly node: number;
  readonly edge: number;
}

export function assignRanks(nodes: readonly LayerNode[], edges: readonly LayerEdge[]): Ranks {
  const below: Neighbour[][] = nodes.map(() => []);
  const above: Neighbour[][] = nodes.map(() => []);
  edges.forEach(({ from, to }, edge) => {
    if (from === to) return;
    below[from]?.push({ node: to, edge });
    above[to]?.push({ node: from, edge });
  });
  const order = topologicalOrder(below, above);
  const position = new Array<number>(nodes.length).fill(0);
  order.forEach((node, i) => (position[node] = i));
  const reversed = new Set<number>();
  edges.forEach(({ from, to }, edge) => {
    if (from !== to && (position[from] ?? 0) > (position[to] ?? 0)) reversed.add(edge);
  });
  if (reversed.size > 0) {
    for (const lists of [below, above]) for (const list of lists) list.length = 0;
    edges.forEach(({ from, to }, edge) => {
      if (from === to) return;
      const [upper, lower] = reversed.has(edge) ? [to, from] : [from, to];
      below[upper]?.push({ node: lower, edge });
      above[lower]?.push({ node: upper, edge });
    });
  }

  const hasTop = nodes.some((node) => node.pin === 'top');
  const rank = new Array<number>(nodes.length).fill(0);
  for (const node of order) {
    let least = hasTop && nodes[node]?.pin !== 'top' ? 1 : 0;
    for (const { node: upper } of above[node] ?? [])
      least = Math.max(least, (rank[upper] ?? 0) + 1);
    rank[node] = least;
  }
  sink(nodes, order, above, below, rank);
  const deepest = nodes.reduce(
    (deep, node, i) => (node.pin === 'bottom' ? deep : Math.max(deep, rank[i] ?? 0)),
    hasTop ? 0 : -1,
  );
  nodes.forEach((node, i) => {
    if (node.pin === 'bottom') rank[i] = deepest + 1;
  });
  return { rank: compact(rank), reversed };
}

/** Kahn's order, by index; a cycle is cut at its first node. */
function topologicalOrder(
  below: readonly (readonly Neighbour[])[],
  above: readonly (readonly Neighbour[])[],
): readonly number[] {
  const waiting = above.map((list) => list.length);
  const done = new Array<boolean>(above.length).fill(false);
  const queue: number[] = [];
  const release = (node: number): void => {
    done[node] = true;
    queue.push(node);
  };
  waiting.forEach((count, node) => {
    if (count === 0) release(node);
  });
  let head = 0;
  let firstOpen = 0;
  for (;;) {
    for (; head < queue.length; head++) {
      for (const { node } of below[queue[head] ?? 0] ?? []) {
        const left = (waiting[node] ?? 0) - 1;
        waiting[node] = left;
        if (left === 0 && !done[node]) release(node);
      }
    }
    while (firstOpen < done.length && done[firstOpen]) firstOpen++;
    if (firstOpen >= done.length) return queue;
    release(firstOpen);
  }
}

/**
 * Moves nodes down to their first reader where that makes the edges shorter: when more edges leave
 * than enter, or when everything above hangs on this node alone (a weight and the views on it).
 */
function sink(
  nodes: readonly LayerNode[],
  order: readonly number[],
  above: readonly (readonly Neighbour[])[],
  below: readonly (readonly Neighbour[])[],
  rank: number[],
): void {
  const light = new Array<boolean>(nodes.length).fill(false);
  for (const node of order) {
    const readers = below[node] ?? [];
    light[node] =
      nodes[node]?.pin === undefined &&
      ((above[node] ?? []).length === 0 || readers.length <= 1) &&
      (above[node] ?? []).every(({ node: upper }) => light[upper]);
  }
  for (let i = order.length - 1; i >= 0; i--) {
    const node = order[i] ?? 0;
    const readers = below[node] ?? [];
    if (readers.length === 0 || nodes[node]?.pin !== undefined) continue;
    if (!light[node] && readers.length <= (above[node] ?? []).length) continue;
    let first = Infinity;
    for (const { node: lower } of readers)
      if (nodes[lower]?.pin !== 'bottom') first = Math.min(first, rank[lower] ?? 0);
    if (first !== Infinity) rank[node] = Math.max(rank[node] ?? 0, first - 1);
  }
}

/** Renumbers the ranks so that none is empty. */
function compact(rank: readonly number[]): readonly number[] {
  const used = [...new Set(rank)].sort((a, b) => a - b);
  const name = new Map(used.map((value, i) => [value, i]));
  return rank.map((value) => name.get(value) ?? 0);
}
