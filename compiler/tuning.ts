/**
 * Tuning: what was measured to be faster than what the compiler chooses by itself, as a compile takes
 * it. Where records come from, and which of them are of the adapter at hand, is the host's business.
 *
 * Vocabulary
 *  - *structure* of a kernel (`KernelView.structure`): what it computes, at which sizes, with neither
 *    names nor schedule parameters: by it a record finds its kernel, in any file.
 *  - *expected*: the record was made for this file, so that its kernel should be there, at least at
 *    the same sizes.
 */
import type { Diagnostic } from './diagnostics';
import type { NodeId } from './graph/graph';
import type { Settings } from './schedule/parameters';

/** What was measured, as everything that shows a tuned kernel shows it. */
export interface Measured {
  readonly medianUs: number;
  /** The same with the compiler's own choice, measured in turn with it. */
  readonly defaultUs: number;
  /** The adapter's name, for people. */
  readonly adapter: string;
}

export interface KernelTuning extends Measured {
  readonly structure: string;
  readonly settings: Settings;
  /** What the compiler chose when it was measured: where it chooses otherwise now, the comparison says nothing. */
  readonly own?: Settings;
  /** The sizes that the graph's symbolic dims had. */
  readonly dims: Readonly<Record<string, number>>;
  readonly expected: boolean;
  /** Why the host won't have it used, e.g. that another version measured it: told where the kernel is found. */
  readonly outdated?: string;
}

/** A merge that the model decides one way by little, and that is faster the other way. */
export interface PlanChange {
  /** `cut`: the two ops are kept in different kernels. `fuse`: they are made one kernel. */
  readonly kind: 'cut' | 'fuse';
  readonly from: NodeId;
  readonly to: NodeId;
}

export interface PlanTuning extends Measured {
  readonly change: PlanChange;
  /** Structures of the kernels that it makes: where they don't come about, it isn't made. */
  readonly makes: readonly string[];
  readonly dims: Readonly<Record<string, number>>;
  readonly expected: boolean;
  readonly outdated?: string;
}

export interface Tuning {
  readonly kernels: readonly KernelTuning[];
  readonly plans: readonly PlanTuning[];
  /** What the host has to say about the records, among the compile's diagnostics. */
  readonly notes: readonly Diagnostic[];
}

/** A record that was applied to a kernel. */
export interface TunedKernel extends Measured {
  readonly params: Settings;
}

/** A record that was applied to the plan. */
export interface TunedPlan extends Measured {
  readonly change: PlanChange;
}

/** Where the search was of two minds: a change of the plan that the model rates almost equal. */
export interface NearTie {
  readonly change: PlanChange;
  /** What the change costs by the model, µs: negative where it gains. */
  readonly lossUs: number;
  /** That, against the time of the kernels concerned. */
  readonly share: number;
}
