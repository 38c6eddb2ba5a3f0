/**
 * Parts of a plan that run by themselves: some kernels with what they read as inputs, so that they can
 * be timed and checked without the rest of the graph.
 */
import type { Program, Value } from '../ir/compute';
import type { ValueId } from '../ir/expr';
import type { AdapterLimits, ExecPlan, PlanPart } from '../result';
import { makeExecPlan, type PlannedKernel } from '../schedule/exec';
import { visitLoads } from '../schedule/group';

/** What a part needs to know of its kernels. */
export interface PartKernel {
  readonly members: readonly number[];
  readonly outputs: readonly ValueId[];
}

/** The program that the kernels compute. Its outputs are all that they store. */
export function partProgram(
  program: Program,
  kernels: readonly PartKernel[],
  dims: ReadonlyMap<string, number>,
): Program {
  const members = [...new Set(kernels.flatMap((k) => k.members))].sort((a, b) => a - b);
  // By itself a kernel of a branch or a loop is like any other.
  const computes = members.flatMap((m) => {
    const c = program.computes[m];
    if (!c) return [];
    const { region: _, ...alone } = c;
    return [alone];
  });
  const made = new Set(computes.map((c) => c.value));
  const used = new Set<ValueId>(made);
  for (const c of computes) visitLoads(c.body, (l) => used.add(l.value));
  const values = new Map<ValueId, Value>();
  for (const v of program.values.values()) {
    if (!used.has(v.id)) continue;
    // What other kernels make is an input here, with contents made up.
    const given = !made.has(v.id) && v.role !== 'param' && v.role !== 'const';
    values.set(v.id, given ? { ...v, role: 'input' } : v);
  }
  const stored = new Set(kernels.flatMap((k) => k.outputs));
  const outputs = [...stored].flatMap((value) => {
    const v = values.get(value);
    return v ? [{ name: v.name, value, shape: v.shape }] : [];
  });
  const inputs = [...values.values()].filter((v) => v.role === 'input').map((v) => v.id);
  return { values, computes, inputs, outputs, dims: new Map(dims) };
}

/** The part as what a runner gets. */
export function planPart(
  program: Program,
  kernels: readonly (PartKernel & PlannedKernel)[],
  dims: ReadonlyMap<string, number>,
  limits: AdapterLimits,
): PlanPart {
  const own = partProgram(program, kernels, dims);
  const exec: ExecPlan = makeExecPlan(
    own,
    kernels,
    { slices: new Map(), verified: own },
    dims,
    limits,
  );
  return { program: own, exec };
}
