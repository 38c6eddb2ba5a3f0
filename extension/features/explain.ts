/**
 * What there is to say about one op, one edge or one kernel, in short words. Lenses, hovers and the
 * tree put these together; none of them words a fact of its own.
 */
import type {
  CompileResult,
  Decision,
  KernelView,
  NodeView,
  OverrideView,
} from '../../compiler/result';
import { HARD_CODES, USER_CODES, type Verdict } from '../../compiler/fusion/verdicts';
import { settingsText } from '../../compiler/schedule/parameters';
import type { AdapterInfo, KernelTime, ProfileResult } from '../../runner/core/types';
import {
  count,
  firstClause,
  formatBytes,
  formatFactor,
  formatMicroseconds,
  shorten,
} from '../common/format';
import { indexOf } from '../common/resultIndex';
import { coversPlan } from '../services/measurements';

/** Ops that cost a kernel when alone: what "9 ops" counts. */
export function countOps(result: CompileResult): number {
  return result.graph.nodes.filter(({ kind }) => kind === 'compute' || kind === 'opaque').length;
}

/** `tuned: workgroup = 128 (1.3× on SwiftShader)`, where a tuning record set its parameters. */
export function tunedText({ tuned }: KernelView): string | undefined {
  if (!tuned) return undefined;
  const gain = formatFactor(tuned.defaultUs / tuned.medianUs);
  return `tuned: ${settingsText(tuned.params)} (${gain} on ${tuned.adapter})`;
}

/** `9 ops → 2 kernels`. */
export function planSummary(result: CompileResult): string {
  const ops = count(countOps(result), 'op');
  return `${ops} → ${count(result.after.kernels.length, 'kernel')}`;
}

/** Predicted gain of the fused plan over the ops one by one. */
export function estimatedSpeedup(result: CompileResult): number | undefined {
  const { before, after } = result;
  return after.estimatedUs > 0 && before.estimatedUs > 0
    ? before.estimatedUs / after.estimatedUs
    : undefined;
}

/**
 * `measured 2.8× (est. 3.1×)`, or `est. 3.1×`, or nothing to say. Once the plan is no longer the one
 * that was measured: `est. 3.1× · measured before the last edit: 2.8×`.
 */
export function speedupText(
  result: CompileResult,
  profile: ProfileResult | undefined,
): string | undefined {
  const estimate = estimatedSpeedup(result);
  const estimated = estimate === undefined ? undefined : `est. ${formatFactor(estimate)}`;
  if (!profile) return estimated;
  const factor = formatFactor(profile.speedup);
  if (!coversPlan(result, profile)) {
    const old = `measured before the last edit: ${factor}`;
    return estimated === undefined ? old : `${estimated} · ${old}`;
  }
  const measured = `measured ${factor}`;
  return estimated === undefined ? measured : `${measured} (${estimated})`;
}

/** The adapter by name, and whether it is one whose times mean something. */
export function adapterText({ adapter }: ProfileResult): string {
  const name = adapterName(adapter);
  return adapter.software ? `${name}, software adapter` : name;
}

export function adapterName(adapter: AdapterInfo): string {
  return adapter.description || adapter.architecture || adapter.vendor || 'unnamed adapter';
}

export const SOFTWARE_NOTE = 'software adapter: times say little about a GPU';

/** `41 µs`, or `700 × 41 µs` of what a loop ran as often. */
export function measuredText({ medianUs, runs = 1 }: KernelTime): string {
  const once = formatMicroseconds(medianUs);
  return runs === 1 ? once : `${runs} × ${once}`;
}

/** `41 µs measured (est. 38 µs)`, or `est. 38 µs`. */
export function timeText(kernel: KernelView, time: KernelTime | undefined): string {
  const estimate = `est. ${formatMicroseconds(kernel.estimatedUs)}`;
  return time ? `${measuredText(time)} measured (${estimate})` : estimate;
}

/** `saves 12.0 MiB, 2 launches`; nothing when the kernel is one op. */
export function savingsText(kernel: KernelView): string | undefined {
  const parts = [
    ...(kernel.savedBytes > 0 ? [formatBytes(kernel.savedBytes)] : []),
    ...(kernel.savedLaunches > 0 ? [count(kernel.savedLaunches, 'launch', 'launches')] : []),
  ];
  return parts.length > 0 ? `saves ${parts.join(', ')}` : undefined;
}

/** `fused into k2 (matmul + bias + relu)`, or `k2 alone`. */
export function kernelText(kernel: KernelView): string {
  if (kernel.atLoad) return `of weights alone: computed once, at load, by ${kernel.id}`;
  return kernel.nodes.length > 1
    ? `fused into ${kernel.id} (${shorten(kernel.label, 60)})`
    : `${kernel.id}, a kernel of its own`;
}

/** Why an op is in no kernel. */
export function withoutKernelText(node: NodeView): string {
  switch (node.kind) {
    case 'view':
      return 'a view: folded into index maps, costs nothing';
    case 'constant':
      return 'constant: computed at compile time';
    case 'dead':
      return 'no output needs it: left out';
    case 'region':
      return 'control flow: its bodies have kernels of their own';
    case 'opaque':
      return `not supported${node.unsupported ? `: ${shorten(node.unsupported, 80)}` : ''}`;
    case 'compute':
      return 'in no kernel';
  }
}

const HARD: ReadonlySet<string> = new Set(HARD_CODES);
const USER: ReadonlySet<string> = new Set(USER_CODES);

/** The verdict to name when there is room for one: what can't be over what doesn't pay. */
export function mainVerdict(verdicts: readonly Verdict[]): Verdict | undefined {
  return (
    verdicts.find(({ code }) => HARD.has(code)) ??
    verdicts.find(({ code }) => USER.has(code)) ??
    verdicts[0]
  );
}

/** Edges of these ops that were not fused, those to consumers first. */
export function rejectedEdges(result: CompileResult, nodes: readonly string[]): Decision[] {
  const { decisionsOf } = indexOf(result);
  const among = new Set(nodes);
  const rejected = nodes
    .flatMap((node) => decisionsOf(node))
    .filter(({ fused, from, to }) => !fused && !(among.has(from) && among.has(to)));
  const unique = [...new Set(rejected)];
  const outgoing = unique.filter(({ from }) => among.has(from));
  return [...outgoing, ...unique.filter((decision) => !outgoing.includes(decision))];
}

/** `not fused with y: NEEDS_GLOBAL_SYNC softmax needs the whole row first`. */
export function rejectionText(
  result: CompileResult,
  decision: Decision,
  nodes: readonly string[],
): string {
  const { nameOf } = indexOf(result);
  const other = nodes.includes(decision.from) ? decision.to : decision.from;
  const verdict = mainVerdict(decision.verdicts);
  const reason = verdict
    ? `${verdict.code} ${shortReason(verdict.message)}`
    : shorten(decision.summary, 80);
  return `not fused with ${shorten(nameOf(other), 30)}: ${reason}`;
}

/** Whole while that is readable; of a long one what comes before its first comma. */
function shortReason(message: string): string {
  return shorten(message.length > 90 ? firstClause(message) : message, 90);
}

/** What a directive's line costs or gains by the model, against the plan without it. */
export function overrideText({ estimatedUs, withoutUs }: OverrideView): string {
  if (withoutUs === undefined) return 'not weighed: the graph is too large';
  const saved = withoutUs - estimatedUs;
  const against = `est. ${formatMicroseconds(estimatedUs)} with this line, ${formatMicroseconds(withoutUs)} without`;
  if (Math.abs(saved) < 0.005 * withoutUs) return `makes no difference: ${against}`;
  return `${saved > 0 ? 'saves' : 'costs'} ${formatMicroseconds(Math.abs(saved))}: ${against}`;
}
