/** What the kernel tree shows: kernels of a file, their ops, and the verdicts that keep ops apart. */
import type { CompileResult, Decision, KernelView, NodeView } from '../../compiler/result';
import type { ProfileResult } from '../../runner/core/types';
import { count, formatMicroseconds, formatType } from '../common/format';
import { indexOf } from '../common/resultIndex';
import { timeOf } from '../services/measurements';
import { measuredText, rejectedEdges, savingsText, withoutKernelText, tunedText } from './explain';

export interface TreeItem {
  /** Stable across results, so that what is unfolded stays so. */
  readonly id: string;
  readonly label: string;
  readonly description: string;
  readonly tooltip: string;
  readonly icon: string;
  readonly kind: 'kernel' | 'op' | 'verdict' | 'group';
  readonly kernel?: string;
  readonly nodes: readonly string[];
  readonly children: readonly TreeItem[];
}

export function kernelTree(
  result: CompileResult,
  profile: ProfileResult | undefined,
): readonly TreeItem[] {
  const { nodes, kernelsOf } = indexOf(result);
  const itemOf = (kernel: KernelView): TreeItem => {
    const children = kernel.nodes
      .flatMap((id) => nodes.get(id) ?? [])
      .map((node) => opItem(result, node, kernel.id));
    return kernelItem(result, kernel, profile, children);
  };
  const kernels = result.after.kernels.map(itemOf);
  const { prepared } = result.after;
  if (prepared)
    kernels.push({
      id: 'prepared',
      label: 'Once, at load',
      description: count(prepared.length, 'kernel'),
      tooltip:
        'What depends on weights alone: it is computed when they are loaded, not in each run',
      icon: 'archive',
      kind: 'group',
      nodes: prepared.flatMap((k) => k.nodes),
      children: prepared.map(itemOf),
    });
  const outside = result.graph.nodes.filter(({ id }) => kernelsOf(id).length === 0);
  if (outside.length === 0) return kernels;
  return [
    ...kernels,
    {
      id: 'outside',
      label: 'In no kernel',
      description: count(outside.length, 'op'),
      tooltip: 'Views, constants, ops that no output needs, and ops that are not supported',
      icon: 'circle-slash',
      kind: 'group',
      nodes: outside.map(({ id }) => id),
      children: outside.map((node) => opItem(result, node, 'outside')),
    },
  ];
}

function kernelItem(
  result: CompileResult,
  kernel: KernelView,
  profile: ProfileResult | undefined,
  children: readonly TreeItem[],
): TreeItem {
  const time = timeOf(kernel, profile);
  const savings = savingsText(kernel);
  const tuned = tunedText(kernel);
  const body = result.regions?.flatMap((r) => r.bodies).find(({ id }) => id === kernel.region);
  const shownTime = time
    ? `${measuredText(time)} measured`
    : `est. ${formatMicroseconds(kernel.estimatedUs)}`;
  return {
    id: kernel.id,
    label: `${kernel.id}  ${kernel.label}`,
    description: [
      kernel.pattern,
      shownTime,
      ...(body ? [`in ${body.title}`] : []),
      ...(kernel.tuned ? ['tuned'] : []),
    ].join(' · '),
    tooltip: [
      `${kernel.id}: ${kernel.label}`,
      `${kernel.template}, bound by ${kernel.bound}`,
      ...(savings === undefined ? [] : [savings]),
      ...(tuned === undefined ? [] : [tuned]),
      ...kernel.notes.map(({ code, message }) => `${code}: ${message}`),
    ].join('\n'),
    icon: kernel.nodes.length > 1 ? 'layers' : 'primitive-square',
    kind: 'kernel',
    kernel: kernel.id,
    nodes: kernel.nodes,
    children,
  };
}

function opItem(result: CompileResult, node: NodeView, parent: string): TreeItem {
  const { tensors, nameOf, kernelsOf } = indexOf(result);
  const [first] = node.results;
  const tensor = first === undefined ? undefined : tensors.get(first);
  const inKernel = kernelsOf(node.id).length > 0;
  const type = tensor ? formatType(tensor.dtype, tensor.shape) : '';
  return {
    id: `${parent}/${node.id}`,
    label: tensor ? `${nameOf(node.id)} = ${node.op}` : node.op,
    description: inKernel ? type : withoutKernelText(node),
    tooltip: [node.op, node.attrs, type].filter(Boolean).join('\n'),
    icon: node.kind === 'opaque' ? 'warning' : 'symbol-operator',
    kind: 'op',
    nodes: [node.id],
    children: rejectedEdges(result, [node.id]).flatMap((decision) =>
      verdictItems(result, node, decision, parent),
    ),
  };
}

function verdictItems(
  result: CompileResult,
  node: NodeView,
  decision: Decision,
  parent: string,
): TreeItem[] {
  const { nameOf } = indexOf(result);
  const outgoing = decision.from === node.id;
  const other = outgoing ? decision.to : decision.from;
  const base = `${parent}/${node.id}/${outgoing ? 'to' : 'from'}/${other}/${decision.tensor}`;
  const label = `not fused with ${nameOf(other)}`;
  const shared = { icon: 'debug-disconnect', kind: 'verdict', nodes: [node.id, other] } as const;
  if (decision.verdicts.length === 0)
    return [
      { ...shared, id: base, label, description: '', tooltip: decision.summary, children: [] },
    ];
  return decision.verdicts.map(({ code, message, counterfactual }, i) => ({
    ...shared,
    id: `${base}/${i}`,
    label,
    description: code,
    tooltip: [code, message, ...(counterfactual ? [counterfactual] : [])].join('\n'),
    children: [],
  }));
}
