/**
 * Both plans of a program: without fusion and with it, with what the file asks and what was measured
 * taken into account.
 */
import { type Diagnostic, error, info } from '../diagnostics';
import type { Graph, NodeId } from '../graph/graph';
import type { Program } from '../ir/compute';
import type { Lowered } from '../ops/lower';
import type { ScheduleOptions } from '../schedule/schedule';
import type { PlanTuning, TunedPlan, Tuning } from '../tuning';
import { Grouping } from './grouping';
import { bundleAsked, bundleSmall } from './horizontal';
import { Recall } from './memory';
import { type Plan, snapshot } from './plan';
import { planProgram } from './joined';
import { Policy } from './policy';
import { type Prepared, prepareWeights } from './prepare';
import type { Verdict } from './verdicts';
import { type LogEntry, Search, type SearchObserver } from './search';

/** The plan of what is computed once, when weights are loaded. */
export interface Loading {
  readonly prepared: Prepared;
  readonly search: Search;
  readonly plan: Plan;
}

export interface Plans {
  readonly search: Search;
  /** The search that the plan without fusion is of: the same, where nothing is computed at load. */
  readonly alone: Search;
  readonly loading?: Loading;
  readonly unfused: Plan;
  readonly fused: Plan;
  /** How the fused plan came about. */
  readonly steps: readonly LogEntry[];
  /** Changes of the plan that were measured to be faster, and made. */
  readonly tuned: readonly TunedPlan[];
  readonly diagnostics: readonly Diagnostic[];
  /** Makes the plans once more, the same way: to look on, or to end the search in the middle. */
  readonly again: (replay: Replay) => Made;
}

type Made = Omit<Plans, 'tuned' | 'again'>;

export interface Replay {
  readonly observer?: (search: Search) => SearchObserver;
  /** Steps after which the search ends. */
  readonly steps?: number;
  /** What the kernels' names begin with, if not `k`. */
  readonly prefix?: string;
}

const NO_TUNING: Tuning = { kernels: [], plans: [], notes: [] };

export function makePlans(
  graph: Graph,
  lowered: Lowered,
  options: ScheduleOptions,
  tuning: Tuning = NO_TUNING,
  recall = new Recall(),
): Plans {
  const notes: Diagnostic[] = [...tuning.notes];
  const names = nodeNames(graph);
  const ignore = (p: PlanTuning, reason: string): void => {
    const { kind, from, to } = p.change;
    const ends = `${names.get(from) ?? from} and ${names.get(to) ?? to}`;
    const what = kind === 'cut' ? `${ends} in different kernels` : `${ends} in one kernel`;
    notes.push(
      info(
        'TUNING_IGNORED',
        `the tuning record of the plan (${what}, measured on ${p.adapter}) is not used: ${reason}`,
      ),
    );
  };
  let changes: PlanTuning[] = [];
  const expected = (r: { dims: Readonly<Record<string, number>>; expected: boolean }): boolean =>
    r.expected && Object.entries(r.dims).every(([d, n]) => (graph.dims.get(d) ?? n) === n);
  for (const p of tuning.plans) {
    const known = names.has(p.change.from) && names.has(p.change.to);
    if (p.outdated === undefined && known) changes.push(p);
    else if (expected(p)) ignore(p, p.outdated ?? 'the graph has changed since');
  }
  for (;;) {
    const made = onePlan(graph, lowered, options, tuning, changes, recall);
    const structures = new Set(made.fused.kernels.map((k) => k.facts.structure));
    const fits = (p: PlanTuning): boolean => p.makes.every((s) => structures.has(s));
    // A record of another file, of which only the names are the same, is nobody's concern.
    for (const p of changes)
      if (!fits(p) && expected(p))
        ignore(p, 'the kernels that it was measured with do not come about');
    const kept = changes.filter(fits);
    if (kept.length === changes.length) {
      const lost = orphans(made.fused, tuning.kernels.filter(expected));
      const tuned = changes.map(({ change, medianUs, defaultUs, adapter }) => ({
        ...{ change, medianUs, defaultUs, adapter },
      }));
      const again = (replay: Replay): Made =>
        onePlan(graph, lowered, options, tuning, changes, recall.again(), replay);
      return { ...made, tuned, diagnostics: [...made.diagnostics, ...notes, ...lost], again };
    }
    // Without those that don't fit, others may no longer either.
    changes = kept;
  }
}

function onePlan(
  graph: Graph,
  lowered: Lowered,
  options: ScheduleOptions,
  tuning: Tuning,
  changes: readonly PlanTuning[],
  recall: Recall,
  replay?: Replay,
): Made {
  const { program } = lowered;
  const faults: Diagnostic[] = [];
  const policyOf = (p: Program): Policy =>
    new Policy(graph, p, lowered.base, lowered.unsupported, changes);
  const loading = planLoading(graph, program, policyOf(program), options, recall);
  const searchOf = (p: Program, idle?: ReadonlySet<number>): Search => {
    const { program: planned, joined, own } = planProgram(p);
    const policy = policyOf(planned);
    const grouping = new Grouping(planned, policy.keep, own, idle);
    const search = new Search(
      planned,
      grouping,
      policy,
      options,
      recall,
      joined.filter((j) => idle?.has(j.compute) !== true),
      own,
    );
    search.mergeWithinOps();
    return search;
  };
  const alone = searchOf(program);
  const unfused = snapshot(alone, 'b');
  // Without fusion each op is computed in each run, as the file says it.
  const search = loading ? searchOf(loading.prepared.run, loading.prepared.idle) : alone;
  const { policy } = search;
  const start = search.log.length;
  search.observer = replay?.observer?.(search);
  search.stopAt = start + (replay?.steps ?? Infinity);
  const refused: (Policy['required'][number] & {
    readonly computes: readonly number[];
    readonly verdicts: readonly Verdict[];
  })[] = [];
  for (const r of policy.required) {
    if (search.halted) break;
    const computes = computesOf(program, r.nodes);
    const verdicts = search.require(computes);
    if (verdicts.length > 0) refused.push({ ...r, computes, verdicts });
  }
  // Whether they came about is seen from the kernels.
  for (const nodes of policy.preferred) search.require(computesOf(program, nodes));
  search.fuse();
  let asked: (readonly number[])[] = [];
  for (const { directive, computes, verdicts } of refused) {
    const bundles = bundleAsked(search, computes, asked);
    if (bundles) {
      asked = bundles;
      continue;
    }
    const text = verdicts
      .map((v) => `${v.code}: ${v.message}${v.counterfactual ? ` (${v.counterfactual})` : ''}`)
      .join('; ');
    faults.push(
      error('REQUIRED_BUT', `'${directive.text}' can't be one kernel: ${text}`, directive.range),
    );
  }
  const fused = snapshot(search, replay?.prefix ?? 'k', {
    ...{ faults, tuning: tuning.kernels },
    bundles: bundleSmall(search, asked),
  });
  return {
    ...{ search, alone, unfused, fused, steps: search.log.slice(start), diagnostics: faults },
    ...(loading ? { loading } : {}),
  };
}

/** What is computed once, at load, and its plan; undefined where there is nothing, or nothing runs it. */
function planLoading(
  graph: Graph,
  program: Program,
  { keep, mentioned }: Policy,
  options: ScheduleOptions,
  recall: Recall,
): Loading | undefined {
  const prepared = prepareWeights(program, mentioned, keep, options.f16, recall.prepared);
  if (!prepared) return undefined;
  const before = recall.loading;
  if (before && samePreparing(before.prepared.preparing, prepared.preparing)) {
    const { search, plan } = before;
    return recall.keepLoading({ prepared, search, plan });
  }
  const { program: planned, joined, own } = planProgram(prepared.preparing);
  const policy = new Policy({ ...graph, directives: [] }, planned, new Map());
  const grouping = new Grouping(planned, policy.keep, own);
  const search = new Search(planned, grouping, policy, options, recall, joined, own);
  search.mergeWithinOps();
  search.fuse();
  const asked = { faults: [], tuning: [], bundles: bundleSmall(search) };
  const plan = snapshot(search, 'p', asked);
  return plan.impossible.length > 0 ? undefined : recall.keepLoading({ prepared, search, plan });
}

/** Whether the very same computes make the same of the very same values. */
function samePreparing(a: Program, b: Program): boolean {
  if (a.computes.length !== b.computes.length || a.values.size !== b.values.size) return false;
  if (a.outputs.length !== b.outputs.length) return false;
  for (const [id, v] of a.values) if (b.values.get(id) !== v) return false;
  return (
    a.computes.every((c, i) => c === b.computes[i]) &&
    a.outputs.every((o, i) => o.value === b.outputs[i]?.value)
  );
}

function computesOf(program: Program, nodes: readonly NodeId[]): number[] {
  return program.computes.flatMap((c, i) => (c.origin.some((o) => nodes.includes(o)) ? [i] : []));
}

/** What nodes are called in messages: their results, as a rule. */
function nodeNames(graph: Graph): Map<NodeId, string> {
  return new Map(
    graph.nodes.map((n) => {
      const [first] = n.results;
      const result = first === undefined ? undefined : graph.tensors.get(first)?.name;
      return [n.id, n.name || result || n.sourceOp];
    }),
  );
}

/** Records of this file whose kernels are not in its plan, told as one. */
function orphans(fused: Plan, records: Tuning['kernels']): Diagnostic[] {
  const there = new Set(fused.kernels.map((k) => k.facts.structure));
  const lost = records.filter((t) => !there.has(t.structure));
  const [first] = lost;
  if (!first) return [];
  const what =
    lost.length === 1
      ? 'a tuning record of this file belongs to a kernel that its plan doesn’t have'
      : `${lost.length} tuning records of this file belong to kernels that its plan doesn’t have`;
  return [
    info(
      'TUNING_IGNORED',
      `${what} (for the first, the measured time was ${first.medianUs.toFixed(1)} µs on ${first.adapter}): the file or the device has changed since; tuning again replaces them`,
    ),
  ];
}
