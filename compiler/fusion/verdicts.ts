/**
 * Verdicts: why two ops do, or don't, share a kernel, as data.
 *
 * Hard codes come from `legal` (semantics and the adapter's limits), soft ones from `cost`, user
 * ones from `policy`. A decision holds every verdict that speaks against it, not only the first.
 */
import type { NodeId } from '../graph/graph';

export const HARD_CODES = [
  'CYCLE',
  'EFFECT',
  'CONTROL_FLOW',
  'NEEDS_GLOBAL_SYNC',
  'STORAGE_BUFFERS',
  'BINDING_SIZE',
  'WORKGROUP_MEMORY',
  'INVOCATIONS',
  'DISPATCH_DIM',
  'FEATURE_MISSING',
  'DTYPE',
  'MAP_NOT_COMPOSABLE',
  'UNPROVEN_DIM_EQUALITY',
  'RUNTIME_WRITE_INDEX',
  'INPLACE_HAZARD',
  'NUMERIC_CONTRACT',
  'OPAQUE',
] as const;
export const SOFT_CODES = [
  'RECOMPUTE',
  'SPILL_RISK',
  'UNCOALESCED',
  'LOW_PARALLELISM',
  'PEAK_MEMORY',
  'CODE_SIZE',
  'NO_SHARED_DATA',
  'COMPUTE_BOUND',
  'MODEL_SLOWER',
  'MEASURED_SLOWER',
] as const;
export const USER_CODES = ['FORBIDDEN', 'REQUIRED_BUT'] as const;

export type HardCode = (typeof HARD_CODES)[number];
export type SoftCode = (typeof SOFT_CODES)[number];
export type UserCode = (typeof USER_CODES)[number];
export type VerdictCode = HardCode | SoftCode | UserCode;

export interface Verdict {
  readonly code: VerdictCode;
  /** The nodes it speaks about. */
  readonly nodes: readonly NodeId[];
  /** The measure that decided, in `unit`. */
  readonly quantity?: number;
  readonly limit?: number;
  readonly unit?: string;
  /** Where the limit comes from: `adapter: maxStorageBuffersPerShaderStage`, `cost model`, `line 12`. */
  readonly limitSource?: string;
  /** One sentence for a person who writes models, with the numbers in it. */
  readonly message: string;
  /** What would change it: `would fuse if the adapter allowed 9 storage buffers`. */
  readonly counterfactual?: string;
  readonly confidence: 'proved' | 'modelled' | 'measured';
}

/** What people call the shape of a fusion. */
export type Pattern =
  | 'pointwise'
  | 'into-reduction'
  | 'after-reduction'
  | 'composite'
  | 'horizontal'
  | 'epilogue'
  | 'prologue'
  | 'multi-output'
  | 'attention'
  | 'view'
  | 'single'
  | 'opaque';

/** Every name that a kernel's pattern can have; the record makes the type checker see that all are here. */
const PATTERN_NAMES: Readonly<Record<Pattern, true>> = {
  pointwise: true,
  'into-reduction': true,
  'after-reduction': true,
  composite: true,
  horizontal: true,
  epilogue: true,
  prologue: true,
  'multi-output': true,
  attention: true,
  view: true,
  single: true,
  opaque: true,
};
export const PATTERNS: readonly string[] = Object.keys(PATTERN_NAMES);

/** A time as verdicts show it. */
export function usText(us: number): string {
  const abs = Math.abs(us);
  if (abs >= 1e6) return `${(us / 1e6).toFixed(2)} s`;
  if (abs >= 1e3) return `${(us / 1e3).toFixed(2)} ms`;
  return `${us.toFixed(1)} µs`;
}
