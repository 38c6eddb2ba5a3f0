/** A compiled plan as a profile run takes it: what runs, and what its kernels' times are joined with. */
import type { Compilation } from '../../compiler';
import type { PlanForRun } from './types';

export function planForRun(c: Compilation, which: 'fused' | 'unfused'): PlanForRun {
  const { kernels } = which === 'fused' ? c.result.after : c.result.before;
  return {
    exec: c.execPlan(which),
    kernels: kernels.map((k) => ({
      id: k.id,
      hash: k.hash,
      nodes: k.nodes,
      bytes: k.bytesRead + k.bytesWritten,
      flops: k.flops,
      estimatedUs: k.estimatedUs,
    })),
  };
}
