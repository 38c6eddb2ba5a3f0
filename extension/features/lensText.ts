/**
 * What the lenses say: pure functions from a result to titles.
 *
 * A lens stands where the *text* has an op, found by a parse that is cheap enough for every
 * keystroke; its words come from the last compile result. So lines never jump: while the compiler
 * works the same lenses stay, marked as not up to date.
 */
import type { CompileResult, KernelView, NodeView } from '../../compiler/result';
import type { ProfileResult } from '../../runner/core/types';
import type { ProfileState } from '../contracts/webview';
import { count, shorten } from '../common/format';
import { indexOf } from '../common/resultIndex';
import { coversPlan, timeOf } from '../services/measurements';
import {
  adapterName,
  adapterText,
  kernelText,
  measuredText,
  overrideText,
  planSummary,
  rejectedEdges,
  rejectionText,
  savingsText,
  SOFTWARE_NOTE,
  speedupText,
  timeText,
  tunedText,
  withoutKernelText,
} from './explain';

/** A line of the text and the ops on it, by the ids that the compiler gives them. */
export interface OpLine {
  readonly line: number;
  readonly ops: readonly string[];
}

export interface LensFacts {
  readonly result?: CompileResult;
  /** The result was made from exactly this text. */
  readonly fresh: boolean;
  /** Why there is no result for it. */
  readonly problem?: string;
  readonly profile?: ProfileResult;
  readonly detail: 'full' | 'brief';
}

export interface LineLens {
  readonly line: number;
  readonly title: string;
  readonly tooltip: string;
  /** The ops that a click selects in the graph. */
  readonly nodes: readonly string[];
}

const WAITING = 'analysing…';
const STALE = ' · updating…';

/** One lens for each line with ops, whatever is known about them. */
export function lineLenses(lines: readonly OpLine[], facts: LensFacts): LineLens[] {
  return lines.map(({ line, ops }) => {
    const { result, problem } = facts;
    if (!result)
      return {
        line,
        title: problem === undefined ? WAITING : 'not analysed',
        tooltip: problem ?? '',
        nodes: [],
      };
    const { nodes: known } = indexOf(result);
    const nodes = ops.flatMap((op) => known.get(op) ?? []);
    if (nodes.length === 0) {
      const title = facts.fresh ? withoutNodes(result, line) : WAITING;
      return { line, title, tooltip: '', nodes: [] };
    }
    const text = opsText(result, nodes, facts);
    return {
      line,
      title: facts.fresh ? text : text + STALE,
      tooltip: 'Show in the graph',
      nodes: nodes.map(({ id }) => id),
    };
  });
}

/** One for each line with directives that were weighed; none while the lines may have moved. */
export function overrideLenses({ result, fresh }: LensFacts): LineLens[] {
  if (!result || !fresh) return [];
  return result.overrides.flatMap((o) =>
    o.range
      ? [{ line: o.range.start.line, title: overrideText(o), tooltip: o.text, nodes: [] }]
      : [],
  );
}

/** Arithmetic on sizes and numbers makes no node; neither does what could not be read. */
function withoutNodes({ diagnostics }: CompileResult, line: number): string {
  const faulty = diagnostics.some(
    ({ severity, range }) => severity === 'error' && range?.start.line === line,
  );
  return faulty ? 'not understood: see Problems' : 'computed at compile time';
}

function opsText(result: CompileResult, nodes: readonly NodeView[], facts: LensFacts): string {
  const { kernelsOf } = indexOf(result);
  const kernels = [...new Set(nodes.flatMap(({ id }) => kernelsOf(id)))];
  const [only, ...others] = kernels;
  if (!only) return withoutKernel(nodes);
  if (facts.detail === 'brief')
    return kernels.map((kernel) => briefText(kernel, facts)).join(' · ');
  const parts =
    others.length === 0 ? oneKernel(only, facts) : severalKernels(result, nodes, kernels, facts);
  const ids = nodes.map(({ id }) => id);
  const rejected = rejectedEdges(result, ids);
  const [first] = rejected;
  if (first) {
    parts.push(rejectionText(result, first, ids));
    if (rejected.length > 1) parts.push(`${rejected.length - 1} more not fused`);
  }
  return parts.join(' · ');
}

function oneKernel(kernel: KernelView, { profile }: LensFacts): string[] {
  const time = timeOf(kernel, profile);
  const savings = savingsText(kernel);
  const tuned = tunedText(kernel);
  return [
    kernelText(kernel),
    ...(time ? [timeText(kernel, time)] : []),
    ...(savings === undefined ? [] : [savings]),
    ...(tuned === undefined ? [] : [tuned]),
  ];
}

/** Nested calls may end in several kernels: each op says in which it is. */
function severalKernels(
  result: CompileResult,
  nodes: readonly NodeView[],
  kernels: readonly KernelView[],
  { profile }: LensFacts,
): string[] {
  const { kernelsOf } = indexOf(result);
  const shown = kernels.slice(0, 3).map((kernel) => {
    const ops = nodes.filter(({ id }) => kernelsOf(id).includes(kernel)).map(({ op }) => op);
    const time = timeOf(kernel, profile);
    const measured = time ? ` (${measuredText(time)} measured)` : '';
    return `${shorten(ops.join(', '), 40)} in ${kernel.id}${measured}`;
  });
  const rest = kernels.length - shown.length;
  return rest > 0 ? [...shown, count(rest, 'more kernel')] : shown;
}

function briefText(kernel: KernelView, { profile }: LensFacts): string {
  const time = timeOf(kernel, profile);
  return time ? `${kernel.id} · ${measuredText(time)}` : kernel.id;
}

function withoutKernel(nodes: readonly NodeView[]): string {
  const texts = [...new Set(nodes.map(withoutKernelText))];
  return texts.join(' · ');
}

/** The lenses at the top of the file, from left to right. */
export interface TopLens {
  readonly title: string;
  readonly tooltip: string;
  readonly action: 'show' | 'profile' | 'tune' | 'cancel' | 'clear' | 'problems';
}

export function topLenses(facts: LensFacts, profiling: ProfileState): TopLens[] {
  const { result, fresh, profile, problem } = facts;
  const summary = topSummary(facts);
  const lenses: TopLens[] = [
    {
      title: summary,
      tooltip: problem ?? summaryTooltip(profile),
      action: 'show',
    },
    { title: 'Show graph', tooltip: 'Show the graph beside the editor', action: 'show' },
  ];
  // What is expected and isn't met has words of its own.
  const errors =
    result?.diagnostics.filter(
      ({ severity, code }) => severity === 'error' && code !== 'EXPECTATION_FAILED',
    ).length ?? 0;
  const unmet = result?.expectations.filter(({ held }) => !held).length ?? 0;
  if (fresh && errors + unmet > 0)
    lenses.push({
      title: [
        ...(errors > 0 ? [count(errors, 'error')] : []),
        ...(unmet > 0 ? [`${count(unmet, 'expectation')} not met`] : []),
      ].join(', '),
      tooltip: 'Show the problems',
      action: 'problems',
    });
  if (profiling.kind === 'running') {
    lenses.push({
      title: `Profiling: ${progressText(profiling.progress)} (cancel)`,
      tooltip: 'Cancel the profile run',
      action: 'cancel',
    });
  } else {
    lenses.push({
      title: 'Profile',
      tooltip:
        result && profile && !coversPlan(result, profile)
          ? 'The kernels are no longer those that were measured: measure and verify them anew'
          : 'Run the kernels on the GPU, fused and unfused, and verify them',
      action: 'profile',
    });
    lenses.push({
      title: 'Tune',
      tooltip: 'Search faster parameters and plans on the GPU, and keep them in the workspace',
      action: 'tune',
    });
  }
  if (profile)
    lenses.push({
      title: 'Clear',
      tooltip: `Clear the measurements, made on ${adapterText(profile)}, ${profile.adapter.host}`,
      action: 'clear',
    });
  return lenses;
}

function summaryTooltip(profile: ProfileResult | undefined): string {
  const show = 'Show the graph before and after fusion.';
  if (!profile) return show;
  const note = profile.adapter.software ? `A ${SOFTWARE_NOTE}. ` : '';
  return `Measured on ${adapterName(profile.adapter)} of ${profile.adapter.host}. ${note}${show}`;
}

function topSummary(facts: LensFacts): string {
  const { result, fresh, profile, problem } = facts;
  if (!result) return problem === undefined ? WAITING : shorten(problem, 100);
  if (result.graph.nodes.length === 0) return fresh ? 'no ops yet' : `no ops yet${STALE}`;
  const gain = speedupText(result, profile);
  const parts = [planSummary(result), ...(gain === undefined ? [] : [gain])];
  if (profile && coversPlan(result, profile)) {
    parts.push(profile.verification.ok ? 'verified' : 'NOT VERIFIED: results differ');
    const { adapter } = profile;
    parts.push(adapter.software ? 'software adapter' : `on ${shorten(adapterName(adapter), 30)}`);
  }
  return fresh ? parts.join(' · ') : parts.join(' · ') + STALE;
}

const STAGES = {
  device: 'starting the device',
  compile: 'compiling kernels',
  reference: 'computing the reference',
  unfused: 'measuring the ops one by one',
  fused: 'measuring the fused kernels',
  trial: 'measuring candidates',
  verify: 'verifying',
} as const;

export function progressText(progress: {
  readonly stage: keyof typeof STAGES;
  readonly done: number;
  readonly total: number;
}): string {
  const { stage, done, total } = progress;
  return total > 1 ? `${STAGES[stage]}, ${done} of ${total}` : STAGES[stage];
}
