/**
 * Walking the drawing by keyboard: which item comes next in a direction.
 *
 * Down and up follow edges, left and right go along the row. `into` and `outOf` go from a kernel to
 * its first op and back. An edge is an item too: from it, up and down lead to its ends, left and
 * right to the other edges of the same source.
 */
import type { PlacedEdge, PlacedItem, PlacedScene } from '../render/placed';

export type Step = 'down' | 'up' | 'left' | 'right' | 'edgeDown' | 'edgeUp' | 'into' | 'outOf';

interface Link {
  readonly edge: string;
  readonly from: string;
  readonly to: string;
}

export class Walker {
  private readonly out = new Map<string, Link[]>();
  private readonly into = new Map<string, Link[]>();
  private readonly ends = new Map<string, Link>();

  constructor(private readonly placed: PlacedScene) {
    const legsIn = new Map<string, string[]>();
    const legsOut = new Map<string, string[]>();
    for (const { edge } of placed.edges) {
      if (edge.kind === 'free') this.link(edge.id, edge.from, edge.to);
      if (edge.kind !== 'leg') continue;
      const box = boxOf(edge.to);
      if (box === undefined) push(legsOut, `${edge.to}:${edge.tensor}`, edge.from);
      else push(legsIn, `${box}:${edge.tensor}`, edge.to);
    }
    for (const { edge } of placed.edges) {
      if (edge.kind !== 'memory') continue;
      const sources = legsOut.get(`${edge.from}:${edge.tensor}`);
      const targets = legsIn.get(`${edge.to}:${edge.tensor}`);
      for (const from of sources ?? [edge.from])
        for (const to of targets ?? [edge.to]) this.link(edge.id, from, to);
      // Unfolded boxes are places of their own.
      if (sources || targets) this.link(edge.id, edge.from, edge.to);
    }
  }

  private link(edge: string, from: string, to: string): void {
    const link = { edge, from, to };
    push(this.out, from, link);
    push(this.into, to, link);
    // The first is the most exact: from op to op, not from box to box.
    if (!this.ends.has(edge)) this.ends.set(edge, link);
  }

  /** Where the keyboard starts. */
  first(): string | undefined {
    return this.placed.leaves[0]?.id ?? this.placed.kernels[0]?.id;
  }

  next(id: string, step: Step): string | undefined {
    const item = this.placed.byId.get(id);
    if (!item) return this.first();
    if (item.kind === 'edge') return this.fromEdge(item, step);
    switch (step) {
      case 'down':
        return this.out.get(id)?.[0]?.to;
      case 'up':
        return this.into.get(id)?.[0]?.from;
      case 'edgeDown':
        return this.out.get(id)?.[0]?.edge;
      case 'edgeUp':
        return this.into.get(id)?.[0]?.edge;
      case 'left':
      case 'right':
        return this.alongRow(item, step);
      case 'into':
        return item.kind === 'kernel' && !item.box.folded
          ? this.placed.leaves.find(({ leaf }) => leaf.kernel === id)?.id
          : undefined;
      case 'outOf': {
        const kernel = item.kind === 'leaf' ? item.leaf.kernel : undefined;
        return kernel !== undefined && this.placed.byId.has(kernel) ? kernel : undefined;
      }
    }
  }

  private fromEdge(item: PlacedEdge, step: Step): string | undefined {
    const { from, to } = item.edge;
    switch (step) {
      case 'down':
      case 'edgeDown':
      case 'into':
        return this.ends.get(item.id)?.to ?? to;
      case 'up':
      case 'edgeUp':
      case 'outOf':
        return this.ends.get(item.id)?.from ?? from;
      case 'left':
      case 'right': {
        const siblings = this.placed.edges.filter(({ edge }) => edge.from === from);
        const at = siblings.findIndex(({ id }) => id === item.id);
        return siblings[at + (step === 'left' ? -1 : 1)]?.id;
      }
    }
  }

  private alongRow(
    item: Exclude<PlacedItem, PlacedEdge>,
    step: 'left' | 'right',
  ): string | undefined {
    const sign = step === 'left' ? -1 : 1;
    const middle = item.y + item.height / 2;
    const centre = item.x + item.width / 2;
    const inside = item.kind === 'leaf' ? item.leaf.kernel : undefined;
    let best: { id: string; distance: number } | undefined;
    for (const other of [...this.placed.leaves, ...this.placed.kernels]) {
      if (other.id === item.id || other.y > middle || other.y + other.height < middle) continue;
      // Not the box around it, nor what is inside it.
      if (other.id === inside || (other.kind === 'leaf' && other.leaf.kernel === item.id)) continue;
      const distance = (other.x + other.width / 2 - centre) * sign;
      if (distance > 0 && (!best || distance < best.distance)) best = { id: other.id, distance };
    }
    return best?.id;
  }
}

/** Leaves of kernels are named `kernel/node`. */
function boxOf(leaf: string): string | undefined {
  const slash = leaf.indexOf('/');
  return slash < 0 ? undefined : leaf.slice(0, slash);
}

function push<K, V>(map: Map<K, V[]>, key: K, value: V): void {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}
