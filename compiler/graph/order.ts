/**
 * Topological order of an L0 graph, deterministic: among nodes that are ready, the file's order wins.
 */
import type { Graph, Node, TensorId } from './graph';

export function topologicalOrder(graph: Graph): {
  readonly order: readonly Node[];
  readonly cyclic: readonly Node[];
} {
  const producer = new Map<TensorId, number>();
  graph.nodes.forEach((n, i) => {
    for (const r of n.results) producer.set(r, i);
  });
  // Most files are in order.
  const early = (o: TensorId | undefined, i: number): boolean =>
    o !== undefined && (producer.get(o) ?? -1) >= i;
  if (!graph.nodes.some((n, i) => n.operands.some((o) => early(o, i))))
    return { order: graph.nodes, cyclic: [] };
  const waits = new Array<number>(graph.nodes.length).fill(0);
  const users: number[][] = graph.nodes.map(() => []);
  graph.nodes.forEach((n, i) => {
    for (const p of new Set(
      n.operands.map((o) => (o === undefined ? undefined : producer.get(o))),
    )) {
      if (p === undefined) continue;
      waits[i] = (waits[i] ?? 0) + 1;
      users[p]?.push(i);
    }
  });
  // Kahn's algorithm with a heap of file positions.
  const heap: number[] = [];
  waits.forEach((w, i) => {
    if (w === 0) push(heap, i);
  });
  const order: Node[] = [];
  const done = new Set<number>();
  for (let i = pop(heap); i !== undefined; i = pop(heap)) {
    const n = graph.nodes[i];
    if (!n) continue;
    order.push(n);
    done.add(i);
    for (const u of users[i] ?? []) {
      const w = (waits[u] ?? 0) - 1;
      waits[u] = w;
      if (w === 0) push(heap, u);
    }
  }
  return { order, cyclic: graph.nodes.filter((_, i) => !done.has(i)) };
}

function push(heap: number[], x: number): void {
  let i = heap.length;
  heap.push(x);
  while (i > 0) {
    const p = (i - 1) >> 1;
    const parent = heap[p] ?? 0;
    if (parent <= x) break;
    heap[i] = parent;
    i = p;
  }
  heap[i] = x;
}

function pop(heap: number[]): number | undefined {
  const top = heap[0];
  const last = heap.pop();
  if (top === undefined || last === undefined) return undefined;
  if (heap.length === 0) return top;
  let i = 0;
  for (;;) {
    let c = 2 * i + 1;
    if (c >= heap.length) break;
    const l = heap[c] ?? 0;
    const r = heap[c + 1];
    if (r !== undefined && r < l) c++;
    const child = heap[c] ?? 0;
    if (child >= last) break;
    heap[i] = child;
    i = c;
  }
  heap[i] = last;
  return top;
}
