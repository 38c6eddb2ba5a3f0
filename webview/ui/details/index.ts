/** The details pane's page for a selection. */
import type { Selection } from '../../state/selection';
import type { DetailsContext } from './context';
import { kernelDetails } from './kernel';
import { overview } from './overview';
import { stepDetails } from './step';
import { edgeDetails, nodeDetails, nodesDetails, tensorDetails } from './selected';

export function detailsPage(context: DetailsContext, selection: Selection): HTMLElement {
  const { index } = context;
  switch (selection.kind) {
    case 'none':
      return context.replay ? stepDetails(context, context.replay) : overview(context);
    case 'nodes': {
      const [first] = selection.nodes;
      const node = first === undefined ? undefined : index.nodes.get(first);
      if (selection.nodes.length === 1 && node) return nodeDetails(context, node);
      return nodesDetails(context, selection.nodes);
    }
    case 'kernel': {
      const kernel = index.kernels.get(selection.kernel);
      return kernel ? kernelDetails(context, kernel) : overview(context);
    }
    case 'tensor':
      return tensorDetails(context, selection.tensor);
    case 'edge':
      return edgeDetails(context, selection);
  }
}
