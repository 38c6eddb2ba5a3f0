/** What hovers say, as Markdown: everything that is known about an op or a tensor. */
import type {
  CompileResult,
  Decision,
  KernelView,
  NodeView,
  TensorView,
} from '../../compiler/result';
import type { Verdict } from '../../compiler/fusion/verdicts';
import type { ProfileResult } from '../../runner/core/types';
import { count, formatBytes, formatFlops, formatType } from '../common/format';
import { commandLink, escapeMarkdown, inlineCode } from '../common/markdown';
import { indexOf, type ResultIndex } from '../common/resultIndex';
import { timeOf } from '../services/measurements';
import {
  adapterText,
  savingsText,
  SOFTWARE_NOTE,
  timeText,
  withoutKernelText,
  tunedText,
} from './explain';

export interface HoverContext {
  readonly uri: string;
  readonly result: CompileResult;
  readonly profile?: ProfileResult;
}

/** Links in hovers lead to these commands; nothing else is trusted. */
export const HOVER_COMMANDS = ['fusionLens.showGraph', 'fusionLens.openKernelCode'] as const;

export function nodeHover(node: NodeView, context: HoverContext): string {
  const index = indexOf(context.result);
  const lines: string[] = [];
  const attrs = node.attrs ? ` ${inlineCode(node.attrs)}` : '';
  const spelled =
    node.sourceOp && node.sourceOp !== node.op ? ` (${escapeMarkdown(node.sourceOp)})` : '';
  lines.push(`**${escapeMarkdown(node.op)}**${spelled}${attrs}`);
  lines.push(signature(node, index));
  lines.push(costLine(node, index));
  const kernels = index.kernelsOf(node.id);
  if (kernels.length === 0) lines.push(`In no kernel: ${escapeMarkdown(withoutKernelText(node))}.`);
  for (const kernel of kernels) lines.push(kernelParagraph(kernel, context));
  if (kernels.length > 1)
    lines.push(`Computed ${kernels.length} times: once in each kernel that needs it.`);
  lines.push(
    [
      commandLink(
        'Show in graph',
        'fusionLens.showGraph',
        [context.uri, [node.id]],
        'Show in graph',
      ),
      ...kernels
        .slice(0, 1)
        .map(({ id }) =>
          commandLink(`Code of ${id}`, 'fusionLens.openKernelCode', [context.uri, id], 'Show WGSL'),
        ),
    ].join(' · '),
  );
  lines.push(...decisionLines(node, index));
  return lines.filter((line) => line !== '').join('\n\n');
}

export function tensorHover(tensor: TensorView, context: HoverContext): string {
  const role = { input: 'input', param: 'parameter', const: 'constant', result: 'result' }[
    tensor.role
  ];
  const users = context.result.graph.nodes.filter(({ operands }) => operands.includes(tensor.id));
  const lines = [
    `${role} ${inlineCode(`${tensor.name}: ${formatType(tensor.dtype, tensor.shape)}`)}`,
    `${count(tensor.elements, 'element')}, ${formatBytes(tensor.bytes)}${boundDims(tensor, context.result)}`,
    users.length === 0
      ? 'No op reads it.'
      : `Read by ${count(users.length, 'op')}: ${users
          .slice(0, 6)
          .map(({ op }) => escapeMarkdown(op))
          .join(', ')}${users.length > 6 ? ', …' : ''}`,
  ];
  return lines.join('\n\n');
}

function signature(node: NodeView, index: ResultIndex): string {
  const typed = (id: string | undefined) => {
    const tensor = id === undefined ? undefined : index.tensors.get(id);
    return tensor ? formatType(tensor.dtype, tensor.shape) : '–';
  };
  const operands = node.operands.map(typed).join(', ');
  const results = node.results.map(typed).join(', ');
  return inlineCode(`(${operands}) → ${results}`);
}

function costLine(node: NodeView, index: ResultIndex): string {
  const bytesOf = (ids: readonly (string | undefined)[]) =>
    ids.reduce((sum, id) => sum + (id === undefined ? 0 : (index.tensors.get(id)?.bytes ?? 0)), 0);
  const parts = [
    `operands ${formatBytes(bytesOf(node.operands))}`,
    `results ${formatBytes(bytesOf(node.results))}`,
    formatFlops(node.flops),
    ...(node.indexClass ? [node.indexClass] : []),
  ];
  return parts.join(' · ');
}

function kernelParagraph(kernel: KernelView, context: HoverContext): string {
  const { profile } = context;
  const time = timeOf(kernel, profile);
  const savings = savingsText(kernel);
  const lines = [
    `Kernel **${escapeMarkdown(kernel.id)}**, ${escapeMarkdown(kernel.pattern)}: ${inlineCode(kernel.label)}`,
    [
      timeText(kernel, time),
      `reads ${formatBytes(kernel.bytesRead)}`,
      `writes ${formatBytes(kernel.bytesWritten)}`,
      `bound by ${boundText(kernel)}`,
      count(kernel.registers, 'register'),
      ...(savings === undefined ? [] : [savings]),
    ].join(' · '),
  ];
  if (time && profile) {
    const rate = `${time.gbps.toPrecision(3)} GB/s, ${time.gflops.toPrecision(3)} GFLOP/s`;
    const caveat = profile.adapter.software ? ` (${SOFTWARE_NOTE})` : '';
    lines.push(
      `Measured on ${escapeMarkdown(adapterText(profile))}, ${escapeMarkdown(profile.adapter.host)}: ${rate}${caveat}`,
    );
  }
  const tuned = tunedText(kernel);
  if (tuned !== undefined) lines.push(escapeMarkdown(tuned));
  for (const note of kernel.notes) lines.push(verdictText(note));
  return lines.join('  \n');
}

function boundText(kernel: KernelView): string {
  switch (kernel.bound) {
    case 'memory':
      return 'memory traffic';
    case 'compute':
      return 'arithmetic';
    case 'launch':
      return 'its launch';
  }
}

/** One item for each edge to a neighbour, fused or not, with every verdict. */
function decisionLines(node: NodeView, index: ResultIndex): string[] {
  const items = index.decisionsOf(node.id).map((decision) => decisionItem(node, decision, index));
  if (items.length <= 12) return items.length > 0 ? [items.join('\n')] : [];
  return [[...items.slice(0, 12), `- and ${count(items.length - 12, 'more edge')}`].join('\n')];
}

function decisionItem(node: NodeView, decision: Decision, index: ResultIndex): string {
  const outgoing = decision.from === node.id;
  const other = index.nameOf(outgoing ? decision.to : decision.from);
  const direction = outgoing ? '→' : '←';
  const how = decision.fused
    ? `fused${decision.kernel ? ` in ${decision.kernel}` : ''}`
    : 'not fused';
  const head = `- ${direction} ${inlineCode(other)} ${escapeMarkdown(how)}`;
  const verdicts = decision.verdicts.map((verdict) => `  - ${verdictText(verdict)}`);
  if (verdicts.length === 0 && !decision.fused)
    return `${head}: ${escapeMarkdown(decision.summary)}`;
  return [head, ...verdicts].join('\n');
}

function verdictText(verdict: Verdict): string {
  const parts = [`**${escapeMarkdown(verdict.code)}** ${escapeMarkdown(verdict.message)}`];
  if (verdict.counterfactual) parts.push(`– *${escapeMarkdown(verdict.counterfactual)}*`);
  parts.push(
    `(${verdict.confidence}${verdict.limitSource ? `, ${escapeMarkdown(verdict.limitSource)}` : ''})`,
  );
  return parts.join(' ');
}

function boundDims(tensor: TensorView, result: CompileResult): string {
  const named = tensor.shape.filter((dim) => typeof dim === 'string');
  const bound = Object.entries(result.dims).filter(([name]) =>
    named.some((dim) =>
      new RegExp(`(^|[^A-Za-z0-9_])${escapeRegExp(name)}($|[^A-Za-z0-9_])`).test(dim),
    ),
  );
  if (bound.length === 0) return '';
  return ` with ${bound.map(([name, size]) => `${escapeMarkdown(name)} = ${size}`).join(', ')}`;
}

function escapeRegExp(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
}
