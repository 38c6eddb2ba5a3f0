/** What a screen reader says of an item, and what a tooltip says. Pure. */
import { formatBytes, formatShape, formatUs, plural } from './format';
import type { GraphIndex, Times } from './graphIndex';
import type { PlacedItem } from './placed';

export function describe(item: PlacedItem, index: GraphIndex, times: Times | undefined): string {
  switch (item.kind) {
    case 'kernel': {
      const { kernel, folded, solo } = item.box;
      const measured = times?.of(kernel);
      const fold = solo ? '' : folded ? ', folded' : ', unfolded';
      return [
        `Kernel ${kernel.id}, ${kernel.pattern}: ${kernel.label}${fold}`,
        plural(kernel.nodes.length, 'op'),
        ...(kernel.atLoad ? ['runs once, when weights are loaded'] : []),
        `reads ${formatBytes(kernel.bytesRead)}, writes ${formatBytes(kernel.bytesWritten)}`,
        measured
          ? `measured ${formatUs(measured.medianUs)}, predicted ${formatUs(kernel.estimatedUs)}`
          : `predicted ${formatUs(kernel.estimatedUs)}`,
      ].join('; ');
    }
    case 'leaf': {
      const { leaf } = item;
      if (leaf.node === undefined) return leaf.tooltip.replace('\n', ', ');
      const node = index.nodes.get(leaf.node);
      const results = (node?.results ?? []).map((id) => {
        const tensor = index.tensors.get(id);
        return tensor ? `${tensor.dtype} ${formatShape(tensor.shape)}` : '';
      });
      const kernel = leaf.future ?? leaf.kernel;
      return [
        `${leaf.title} ${index.nodeName(leaf.node)}`,
        kernel === undefined
          ? node?.kind === 'dead'
            ? 'not needed by any output'
            : 'in no kernel'
          : leaf.future === undefined
            ? `in kernel ${kernel}`
            : `will be in kernel ${kernel}`,
        `gives ${results.join(', ')}`,
        ...(node?.unsupported === undefined ? [] : [node.unsupported]),
      ].join('; ');
    }
    case 'edge': {
      const { edge, route } = item;
      const how =
        edge.kind === 'free'
          ? 'stays in registers'
          : edge.kind === 'leg'
            ? 'inside the kernel'
            : 'goes through memory';
      const why = edge.decisions.find(({ fused, verdicts }) => !fused && verdicts.length > 0);
      return [
        `Edge from ${edge.fromName} to ${edge.toName}`,
        `${edge.label || index.tensors.get(edge.tensor)?.name || ''}, ${how}`,
        ...(route.kind === 'stub' ? ['drawn as two ends, as it is very long'] : []),
        ...(edge.rejected === undefined
          ? []
          : [`not fused, ${edge.rejected}: ${why?.verdicts[0]?.message ?? ''}`]),
      ].join('; ');
    }
  }
}
