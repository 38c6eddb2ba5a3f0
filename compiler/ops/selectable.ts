/**
 * Branches that needn't stay: where both ways are small, and nothing can go wrong in the one that isn't
 * taken, both are computed and one is selected.
 *
 * As a region a branch costs that the host waits for its condition to be read back, a copy of each
 * result, and that nothing fuses across its border. All adapters take longer for the first alone than
 * for {@link MOST_WORK}.
 */
import type { NodeId } from '../graph/graph';
import type { Compute, Program } from '../ir/compute';
import { visitExpr } from '../ir/expr';
import * as I from '../ir/indexExpr';
import { bodiesOf } from '../ir/region';
import type { Lowered } from './lower';

/** Operations of both ways together. */
const MOST_WORK = 2 ** 18;

/** Undefined: the branch could not be lowered (yet). */
export function selectable(lowered: Lowered, branch: NodeId): boolean | undefined {
  const { program } = lowered;
  const region = program.regions?.find((r) => r.id === branch);
  if (region?.kind !== 'branch') return undefined;
  const bodies = new Set(bodiesOf(region));
  if (program.regions?.some((r) => r.parent !== undefined && bodies.has(r.parent))) return false;
  // A condition of shape [1] would make a vector of a scalar.
  const rank = program.values.get(region.condition)?.shape.length ?? 0;
  if (region.results.some((v) => (program.values.get(v)?.shape.length ?? 0) < rank)) return false;
  const computes = program.computes.filter((c) => c.region !== undefined && bodies.has(c.region));
  if (!computes.every(isHarmless)) return false;
  return computes.reduce((n, c) => n + work(program, c), 0) <= MOST_WORK;
}

/** No sums, and no reads at places that only hold where the branch is taken. */
function isHarmless(c: Compute): boolean {
  if (c.monoid) return false;
  let harmless = true;
  visitExpr(c.body, (e) => {
    if (e.op !== 'load') return;
    for (const i of e.index)
      I.visitAtoms(i, (a) => {
        if (a.kind === 'dyn') harmless = false;
      });
  });
  return harmless;
}

function work(program: Program, c: Compute): number {
  let nodes = 0;
  visitExpr(c.body, () => nodes++);
  return c.dims.reduce(
    (n, d) => n * I.evaluate(d.extent, (s) => program.dims.get(s)),
    Math.max(1, nodes),
  );
}
