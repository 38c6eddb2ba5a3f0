/**
 * Near ties of the search: merges that it made for little, and merges that it left for little. There
 * the model, whose prices are estimates, may be wrong about the sign, so that measuring pays.
 */
import type { Graph, NodeId } from '../graph/graph';
import type { NearTie } from '../tuning';
import { partWith } from './decisions';
import type { Plan } from './plan';
import type { LogEntry, Search } from './search';

/** What a merge gains or costs at most, as a share of the kernels concerned, to count as a near tie. */
const NEAR = 0.15;

/** Nearest first; ties by the nodes' ids. */
export function nearTies(
  graph: Graph,
  search: Search,
  plan: Plan,
  steps: readonly LogEntry[],
): NearTie[] {
  const seen = new Set<string>();
  const out: NearTie[] = [];
  const add = (tie: NearTie): void => {
    const { kind, from, to } = tie.change;
    const key = `${kind} ${from} ${to}`;
    if (from === to || seen.has(key) || Math.abs(tie.share) > NEAR) return;
    seen.add(key);
    out.push(tie);
  };
  for (const s of steps) {
    const edge = s.mergedPs === undefined || s.gainPs <= 0 ? undefined : ends(search, s);
    if (!edge || s.mergedPs === undefined) continue;
    add({
      change: { kind: 'cut', ...edge },
      lossUs: s.gainPs / 1e6,
      share: s.gainPs / (s.mergedPs + s.gainPs),
    });
  }
  for (const { a, b, from, to } of neighbours(graph, search, plan)) {
    const t = search.attempt(a, b);
    // All that speaks against it, if anything does, is the model.
    if (!t.ok) continue;
    const apart = (search.cost(a) ?? 0) + (search.cost(b) ?? 0);
    add({
      change: { kind: 'fuse', from, to },
      lossUs: -t.gainPs / 1e6,
      share: -t.gainPs / Math.max(1, apart),
    });
  }
  return out.sort(
    (x, y) => Math.abs(x.share) - Math.abs(y.share) || (idsOf(x) < idsOf(y) ? -1 : 1),
  );
}

function idsOf({ change }: NearTie): string {
  return `${change.from} ${change.to} ${change.kind}`;
}

/** Two ops that the step put together: along an edge where there is one. */
function ends(search: Search, s: LogEntry): { from: NodeId; to: NodeId } | undefined {
  const { grouping } = search;
  const left = new Set(s.left);
  for (const r of s.right)
    for (const p of grouping.reads[r] ?? [])
      if (left.has(p)) {
        const from = grouping.compute(p).origin[0];
        const to = grouping.compute(r).origin[0];
        if (from !== undefined && to !== undefined && from !== to) return { from, to };
      }
  const from = grouping.compute(s.left[0] ?? 0).origin[0];
  const to = grouping.compute(s.right[0] ?? 0).origin[0];
  return from === undefined || to === undefined ? undefined : { from, to };
}

interface Pair {
  /** The search's groups. */
  readonly a: number;
  readonly b: number;
  readonly from: NodeId;
  readonly to: NodeId;
}

/** Pairs of kernels of which one reads what the other stores, each with one edge of the graph. */
function neighbours(graph: Graph, search: Search, plan: Plan): Pair[] {
  const out = new Map<string, Pair>();
  const known = new Set(graph.nodes.map((n) => n.id));
  search.program.computes.forEach((reader, r) => {
    for (const w of search.grouping.reads[r] ?? []) {
      const from = search.grouping.compute(w).origin[0];
      const to = reader.origin[0];
      if (from === undefined || to === undefined || !known.has(from) || !known.has(to)) continue;
      for (const a of plan.kernelsOf[w] ?? [])
        for (const b of plan.kernelsOf[r] ?? []) {
          if (a === b) continue;
          const ends = { a: partWith(search, a, w), b: partWith(search, b, r) };
          const key = `${ends.a} ${ends.b}`;
          if (!out.has(key)) out.set(key, { ...ends, from, to });
        }
    }
  });
  return [...out.values()];
}
