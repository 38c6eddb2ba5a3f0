/** Small programs through the compiler, and their plans as text. */
import { compile } from '../../../compiler';
import { DEFAULT_DEVICE } from '../../../compiler/fusion/devices';
import { Grouping } from '../../../compiler/fusion/grouping';
import type { Recall } from '../../../compiler/fusion/memory';
import { Policy } from '../../../compiler/fusion/policy';
import { Search } from '../../../compiler/fusion/search';
import { importFuse } from '../../../compiler/import/fuse';
import type { Program } from '../../../compiler/ir/compute';
import { lowerGraph } from '../../../compiler/ops/lower';
import type { CompileResult, DeviceProfile } from '../../../compiler/result';

export function compileText(text: string, device?: DeviceProfile): CompileResult {
  const bytes = new TextEncoder().encode(text);
  return compile({ file: 'test.fuse', bytes }, device ? { device } : {}).result;
}

/** The kernels, one a line: pattern and ops by the names that they define. */
export function planText(r: CompileResult): string[] {
  return r.after.kernels.map((k) => `${k.pattern}: ${k.nodes.join(' ')}`);
}

/** The edges that aren't fused, with the codes of what stands against them. */
export function cutsText(r: CompileResult): string[] {
  return r.decisions
    .filter((d) => !d.fused)
    .map((d) => `${d.from} -> ${d.to}: ${d.verdicts.map((v) => v.code).join(' ')}`);
}

/** The search on a program, run to its end: for what it counts. */
export function searched(
  text: string,
  recall?: Recall,
): { program: Program; search: Search; grouping: Grouping } {
  const { graph } = importFuse(text, 'test.fuse');
  const lowered = lowerGraph(graph);
  const policy = new Policy(graph, lowered.program, lowered.base);
  const grouping = new Grouping(lowered.program, policy.keep);
  const options = { device: DEFAULT_DEVICE, f16: false };
  const search = new Search(lowered.program, grouping, policy, options, recall);
  search.mergeWithinOps();
  search.fuse();
  return { program: lowered.program, search, grouping };
}

/** Numbers from a seed: the same in every run. */
export function random(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}
