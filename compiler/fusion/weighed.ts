/**
 * What each directive costs or gains: the plan's estimated time with it, beside that of the plan that
 * the compiler makes when this one line is left out and all others stay.
 *
 * The second plan is made in full, since one line can change what is fused elsewhere; structures that
 * the first plan's search has met are not scheduled again.
 */
import type { Directive, Graph, NodeId } from '../graph/graph';
import type { Lowered } from '../ops/lower';
import type { OverrideView } from '../result';
import type { Tuning } from '../tuning';
import { priceSchedule } from '../schedule/schedule';
import { kernelTimeUs } from '../schedule/time';
import { Recall } from './memory';
import type { Plan, PlanKernel } from './plan';
import { makePlans, type Plans } from './plans';

/** Computes that are planned anew for all directives of a file together, at most: an edit mustn't wait long. */
const MOST_COMPUTES = 2_000;

/** One for each directive that asks something of the plan, in the file's order. */
export function weighOverrides(
  graph: Graph,
  lowered: Lowered,
  plans: Plans,
  tuning: Tuning | undefined,
  recall = new Recall(),
): OverrideView[] {
  const directives = graph.directives.filter((d) => d.kind !== 'expect');
  const { options } = plans.search;
  const chosen = timeOf(plans.fused, plans);
  let left = MOST_COMPUTES;
  return directives.map((d): OverrideView => {
    const view = {
      kind: d.kind,
      text: d.text,
      ...(d.range ? { range: d.range } : undefined),
    };
    left -= lowered.program.computes.length;
    if (left < 0) return { ...view, estimatedUs: chosen };
    const rest = { ...graph, directives: graph.directives.filter((other) => other !== d) };
    const without = makePlans(rest, lowered, options, tuning, recall);
    return {
      ...view,
      estimatedUs: chosen + (d.kind === 'schedule' ? settingsUs(d, graph, plans, without) : 0),
      withoutUs: timeOf(without.fused, plans),
    };
  });
}

function timeOf(plan: Plan, { search }: Plans): number {
  const { device } = search.options;
  return plan.kernels.reduce((sum, k) => sum + kernelTimeUs(k.scheduled.features, device).us, 0);
}

/**
 * What a `schedule` line changes, µs. A plan's prices are those of the scheduler's own parameters; both
 * kernels are priced here as they will be built.
 */
function settingsUs(
  d: Directive & { kind: 'schedule' },
  graph: Graph,
  plans: Plans,
  without: Plans,
): number {
  const node = graph.nodes.find((n) => n.results.includes(d.value))?.id;
  const price = (p: Plans): number | undefined => {
    const k = node === undefined ? undefined : kernelWith(p, node);
    if (!k) return undefined;
    const priced = priceSchedule(k.spec, k.ownSchedule(), p.search.options);
    return priced.ok ? priced.value.cost / 1e6 : undefined;
  };
  const mine = price(plans);
  const other = price(without);
  return mine === undefined || other === undefined ? 0 : mine - other;
}

function kernelWith({ fused, search }: Plans, node: NodeId): PlanKernel | undefined {
  const { computes } = search.program;
  return fused.kernels.find((k) => k.members.some((m) => computes[m]?.origin.includes(node)));
}
