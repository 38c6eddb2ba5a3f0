/** What is selected, in terms of the graph, not of the drawing: both views and the editor share it. */
import type { Decision } from '../../compiler/result';
import type { GraphIndex } from '../render/graphIndex';
import type { PlacedItem, PlacedScene } from '../render/placed';

export type Selection =
  | { readonly kind: 'none' }
  | { readonly kind: 'nodes'; readonly nodes: readonly string[] }
  | { readonly kind: 'kernel'; readonly kernel: string }
  | { readonly kind: 'tensor'; readonly tensor: string }
  /** A tensor on its way from its producer (node, or itself when it comes from outside) to readers. */
  | {
      readonly kind: 'edge';
      readonly tensor: string;
      readonly from: string;
      readonly readers: readonly string[];
    };

export const NOTHING: Selection = { kind: 'none' };

/** What a click on an item selects. */
export function selectionOf(item: PlacedItem): Selection {
  switch (item.kind) {
    case 'kernel':
      return { kind: 'kernel', kernel: item.box.id };
    case 'leaf': {
      const { node, tensor } = item.leaf;
      if (node !== undefined) return { kind: 'nodes', nodes: [node] };
      return tensor === undefined ? NOTHING : { kind: 'tensor', tensor };
    }
    case 'edge': {
      const { tensor, decisions } = item.edge;
      const from = decisions[0]?.from;
      if (from === undefined) return { kind: 'tensor', tensor };
      return { kind: 'edge', tensor, from, readers: decisions.map(({ to }) => to) };
    }
  }
}

/** Ids that the editor sends: nodes, or tensors where the cursor is on a declaration. */
export function selectionFromHost(index: GraphIndex, ids: readonly string[]): Selection {
  const nodes = ids.filter((id) => index.nodes.has(id));
  if (nodes.length > 0) return { kind: 'nodes', nodes };
  const tensor = ids.find((id) => index.tensors.has(id));
  return tensor === undefined ? NOTHING : { kind: 'tensor', tensor };
}

/** The nodes that the host is told about. */
export function selectedNodes(index: GraphIndex, selection: Selection): readonly string[] {
  switch (selection.kind) {
    case 'none':
      return [];
    case 'nodes':
      return selection.nodes;
    case 'kernel':
      return index.kernels.get(selection.kernel)?.nodes ?? [];
    case 'tensor':
      return [index.producer(selection.tensor)?.id ?? selection.tensor];
    case 'edge':
      return [...new Set([selection.from, ...selection.readers])];
  }
}

/** Drops what an edit took away. */
export function stillThere(index: GraphIndex, selection: Selection): Selection {
  switch (selection.kind) {
    case 'none':
      return selection;
    case 'nodes': {
      const nodes = selection.nodes.filter((id) => index.nodes.has(id));
      return nodes.length > 0 ? { kind: 'nodes', nodes } : NOTHING;
    }
    case 'kernel':
      return index.kernels.has(selection.kernel) ? selection : NOTHING;
    case 'tensor':
      return index.tensors.has(selection.tensor) ? selection : NOTHING;
    case 'edge':
      return decisionsOf(index, selection).length > 0 ? selection : NOTHING;
  }
}

export function decisionsOf(
  index: GraphIndex,
  edge: Extract<Selection, { kind: 'edge' }>,
): readonly Decision[] {
  return edge.readers.flatMap((to) => index.decision(edge.from, to, edge.tensor) ?? []);
}

export interface Highlight {
  /** Drawn as selected. */
  readonly selected: ReadonlySet<string>;
  /** Drawn as belonging to it: its kernel, its edges. */
  readonly related: ReadonlySet<string>;
}

/** Which items of a drawing stand for the selection. */
export function highlightIn(
  placed: PlacedScene,
  index: GraphIndex,
  selection: Selection,
): Highlight {
  const selected = new Set<string>();
  const related = new Set<string>();
  if (selection.kind === 'none') return { selected, related };
  const { view } = placed.scene;
  if (selection.kind === 'edge' || selection.kind === 'tensor') {
    const readers = selection.kind === 'edge' ? new Set(selection.readers) : undefined;
    for (const { id, edge } of placed.edges) {
      if (edge.tensor !== selection.tensor) continue;
      const mine =
        !readers || edge.decisions.length === 0 || edge.decisions.some(({ to }) => readers.has(to));
      if (mine) (edge.kind === 'leg' || !readers ? related : selected).add(id);
    }
    for (const { id, leaf } of placed.leaves)
      if (leaf.tensor === selection.tensor && !readers) selected.add(id);
    const ends = readers ? [selection.kind === 'edge' ? selection.from : '', ...readers] : [];
    for (const node of ends) for (const id of itemsOf(placed, index, node)) related.add(id);
    if (!readers) {
      const producer = index.producer(selection.tensor);
      if (producer) for (const id of itemsOf(placed, index, producer.id)) related.add(id);
    }
    return { selected, related };
  }
  if (selection.kind === 'kernel' && placed.byId.has(selection.kernel)) {
    selected.add(selection.kernel);
    for (const { id, edge } of placed.edges)
      if (edge.from === selection.kernel || edge.to === selection.kernel) related.add(id);
    return { selected, related };
  }
  // A kernel of the other view is shown by its ops.
  for (const node of selectedNodes(index, selection)) {
    for (const id of itemsOf(placed, index, node)) selected.add(id);
    for (const kernel of index.kernelsHolding(node, view))
      if (!selected.has(kernel.id)) related.add(kernel.id);
  }
  for (const { id, edge } of placed.edges)
    if (selected.has(edge.from) || selected.has(edge.to)) related.add(id);
  return { selected, related };
}

/** The leaves of a node, or the folded kernels that it is inside of. */
export function itemsOf(placed: PlacedScene, index: GraphIndex, node: string): readonly string[] {
  const { view } = placed.scene;
  const found: string[] = [];
  for (const kernel of index.kernelsHolding(node, view)) {
    const leaf = `${kernel.id}/${node}`;
    if (placed.byId.has(leaf)) found.push(leaf);
    else if (placed.byId.has(kernel.id)) found.push(kernel.id);
  }
  if (found.length > 0) return found;
  if (placed.byId.has(node)) return [node];
  return placed.byId.has(`t:${node}`) ? [`t:${node}`] : [];
}
