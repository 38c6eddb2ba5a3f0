/** The patterns' names and what they mean, for legends and tooltips. */
import type { Pattern } from '../../compiler/fusion/verdicts';

export const PATTERN_MEANING: Readonly<Record<Pattern, string>> = {
  pointwise: 'elementwise ops in one loop',
  'into-reduction': 'elementwise ops computed inside the reduction that reads them',
  'after-reduction': 'elementwise ops on the result of a reduction',
  composite: 'reductions and elementwise ops chained',
  horizontal: 'independent ops on one grid',
  epilogue: 'ops on the result of a matmul or convolution before it is stored',
  prologue: 'ops on the operands of a matmul or convolution as they are loaded',
  'multi-output': 'several results stored by one kernel',
  attention: 'softmax(q·k)·v without storing the scores',
  view: 'a change of indices alone',
  single: 'one op, not fused',
  opaque: 'not supported',
};

export const PATTERNS = Object.keys(PATTERN_MEANING) as readonly Pattern[];
