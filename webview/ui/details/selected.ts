/** Pages for an op, several ops, a tensor, and an edge. */
import type { NodeView } from '../../../compiler/result';
import { formatFlops, plural } from '../../render/format';
import { decisionsOf, type Selection } from '../../state/selection';
import { button } from '../components';
import { h } from '../dom';
import {
  decisionCard,
  facts,
  kernelLink,
  nodeLink,
  section,
  tensorFacts,
  tensorList,
  type DetailsContext,
} from './context';

const MOST_CARDS = 40;

export function nodeDetails(context: DetailsContext, node: NodeView): HTMLElement {
  const { index } = context;
  const name = index.nodeName(node.id);
  const after = index.kernelsHolding(node.id, 'after');
  const before = index.kernelsHolding(node.id, 'before');
  const decisions = index.decisionsOf(node.id);
  const show = button('Show in editor', { onClick: () => context.showInEditor([node.id]) });
  return h(
    'div',
    { class: 'details-page' },
    h('h2', {}, node.op, name === node.op ? undefined : h('span', { class: 'muted' }, ` ${name}`)),
    node.unsupported === undefined ? undefined : h('p', { class: 'warning' }, node.unsupported),
    h('div', { class: 'row' }, show.element),
    facts([
      ['Written as', node.sourceOp === node.op ? '' : node.sourceOp],
      ['Attributes', node.attrs],
      ['Kind', kindText(node)],
      ['Index class', node.indexClass ?? ''],
      ['Arithmetic', node.flops > 0 ? formatFlops(node.flops) : ''],
      [
        'Kernel',
        after.length === 0
          ? 'none'
          : h(
              'span',
              {},
              ...after.flatMap((k, i) => [i > 0 ? ', ' : '', kernelLink(context, k.id)]),
            ),
      ],
      [
        'Before',
        before.length === 0
          ? ''
          : h(
              'span',
              {},
              ...before.flatMap((k, i) => [i > 0 ? ', ' : '', kernelLink(context, k.id)]),
            ),
      ],
      ['Duplicated', after.length > 1 ? `computed in ${plural(after.length, 'kernel')}` : ''],
    ]),
    section(
      'Operands',
      tensorList(
        context,
        node.operands.filter((id) => id !== undefined),
      ),
    ),
    section('Results', tensorList(context, node.results)),
    decisions.length === 0
      ? undefined
      : section(
          'Edges',
          ...[...decisions]
            .sort((a, b) => b.verdicts.length - a.verdicts.length)
            .slice(0, MOST_CARDS)
            .map((decision) => decisionCard(context, decision)),
        ),
  );
}

function kindText({ kind }: NodeView): string {
  switch (kind) {
    case 'compute':
      return 'computes: costs a kernel when alone';
    case 'view':
      return 'a change of indices: costs nothing by itself';
    case 'constant':
      return 'folded at compile time';
    case 'region':
      return 'control flow: its bodies have kernels of their own';
    case 'opaque':
      return 'not supported';
    case 'dead':
      return 'no output needs it';
  }
}

export function nodesDetails(context: DetailsContext, nodes: readonly string[]): HTMLElement {
  return h(
    'div',
    { class: 'details-page' },
    h('h2', {}, plural(nodes.length, 'op')),
    h(
      'ul',
      { class: 'ops' },
      ...nodes.slice(0, 300).map((node) => {
        const kernel = context.index.nodes.get(node)?.kernel;
        return h(
          'li',
          {},
          nodeLink(context, node),
          ...(kernel === undefined ? [] : [' in ', kernelLink(context, kernel)]),
        );
      }),
    ),
  );
}

export function tensorDetails(context: DetailsContext, id: string): HTMLElement {
  const { index } = context;
  const tensor = index.tensors.get(id);
  const producer = index.producer(id);
  const readers = [...new Set(index.readersOf(id).map(({ node }) => node.id))];
  const names = index.result.graph.outputs.filter((out) => out.tensor === id).map((o) => o.name);
  const decisions = readers.flatMap((to) => index.decision(producer?.id ?? id, to, id) ?? []);
  return h(
    'div',
    { class: 'details-page' },
    h('h2', {}, index.tensorName(id)),
    tensor ? h('p', { class: 'lead' }, tensorFacts(tensor)) : undefined,
    facts([
      ['Role', tensor?.role ?? ''],
      ['Output', names.join(', ')],
      ['Made by', producer ? nodeLink(context, producer.id) : ''],
      ['Elements', tensor ? tensor.elements.toLocaleString('en-US') : ''],
    ]),
    section(
      `Readers (${readers.length})`,
      ...(decisions.length > 0
        ? decisions.slice(0, MOST_CARDS).map((decision) => decisionCard(context, decision))
        : readers.slice(0, 200).map((to) => h('p', {}, nodeLink(context, to)))),
    ),
  );
}

export function edgeDetails(
  context: DetailsContext,
  edge: Extract<Selection, { kind: 'edge' }>,
): HTMLElement {
  const tensor = context.index.tensors.get(edge.tensor);
  const decisions = decisionsOf(context.index, edge);
  const refused = decisions.some(({ fused, verdicts }) => !fused && verdicts.length > 0);
  return h(
    'div',
    { class: 'details-page' },
    h('h2', {}, refused ? 'Why not fused' : 'Edge'),
    h(
      'p',
      { class: 'lead' },
      tensor ? `${context.index.tensorName(tensor.id)}: ${tensorFacts(tensor)}` : '',
    ),
    ...decisions.slice(0, MOST_CARDS).map((decision) => decisionCard(context, decision)),
  );
}
