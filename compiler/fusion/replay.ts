/**
 * The plan in the making: what the search had after so many of its steps, as a plan that can be shown
 * like the finished one.
 *
 * Its kernels are named `s0`, `s1`…, since they aren't those of the finished plan, whose code and times
 * have `k…`.
 */
import type { Graph } from '../graph/graph';
import type { Lowered } from '../ops/lower';
import type { Decision, PlanAtStep } from '../result';
import { decide } from './decisions';
import { CodeCache, planView, type ViewContext } from './plan';
import type { Plans } from './plans';

/** `decisions` are those of the finished plan, and `ctx` what it was described with. */
export function planAt(
  step: number,
  graph: Graph,
  lowered: Lowered,
  plans: Plans,
  decisions: readonly Decision[],
  ctx: ViewContext,
): PlanAtStep {
  const made = plans.again({ steps: Math.max(0, Math.min(step, plans.steps.length)), prefix: 's' });
  const { search, fused, unfused, steps } = made;
  const mine: ViewContext = {
    ...ctx,
    program: search.program,
    slices: search.memo.slices,
    code: new CodeCache(ctx.f16),
  };
  const now = decide(graph, lowered, made, fused, 'which');
  return {
    step: steps.length,
    plan: planView(mine, fused, unfused),
    decisions: now.map((d, i): Decision => {
      const end = decisions[i];
      if (d.fused || !end) return d;
      return end.fused
        ? { ...d, verdicts: [], summary: 'not fused yet' }
        : { ...d, verdicts: end.verdicts, summary: end.summary };
    }),
  };
}
