/**
 * The arithmetic of the bench: what was measured, and what follows from it. Times are ms.
 *
 * A *ratio* is a contestant's time over our fused plan's, taken round by round (the rounds are
 * interleaved, so both saw the same machine), and of these the median: above 1, we are quicker.
 */
import type { ContestantName, Rates } from './protocol';

export interface Entry {
  readonly contestant: ContestantName;
  /** Per round, of one run. Empty when it failed. */
  readonly samples: readonly number[];
  /** Of one run, until it was submitted: the median. */
  readonly submitMs: number;
  readonly repeats: number;
  readonly setupMs: number;
  readonly dispatches: number;
  readonly boundBytes: number;
  readonly maxRelErr: number;
  readonly tolerance: number;
  readonly note?: string;
  /** Why there are no times. */
  readonly failure?: string;
}

export interface Row {
  readonly workload: string;
  readonly leastBytes: number;
  readonly flops: number;
  /** Of the adapter, one a round; empty without the floor. */
  readonly rates: readonly Rates[];
  readonly entries: readonly Entry[];
}

export interface Run {
  readonly adapter: string;
  readonly software: boolean;
  readonly machine: string;
  /** Load averages of the last minute, at the start and at the end. */
  readonly load: readonly [number, number];
  readonly date: string;
  readonly command: string;
  readonly versions: Readonly<Partial<Record<ContestantName, string>>>;
  readonly rows: readonly Row[];
}

/** Runs on the same adapter as one: rows in their first order, later ones in place of earlier ones. */
export function joined(runs: readonly Run[]): Run[] {
  const byAdapter = new Map<string, Run>();
  for (const run of runs) {
    const old = byAdapter.get(run.adapter);
    if (!old) {
      byAdapter.set(run.adapter, run);
      continue;
    }
    const rows = new Map([...old.rows, ...run.rows].map((r) => [r.workload, r]));
    const load = [...old.load, ...run.load];
    byAdapter.set(run.adapter, {
      ...run,
      load: [Math.min(...load), Math.max(...load)],
      versions: { ...old.versions, ...run.versions },
      rows: [...rows.values()],
    });
  }
  return [...byAdapter.values()];
}

export const PEERS: readonly ContestantName[] = ['onnxruntime', 'tfjs', 'jax'];

/** By linear interpolation between the sorted samples; NaN of none. */
export function quantile(samples: readonly number[], q: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  const at = q * (sorted.length - 1);
  const low = sorted[Math.floor(at)] ?? NaN;
  const high = sorted[Math.ceil(at)] ?? NaN;
  return low + (high - low) * (at - Math.floor(at));
}

export const median = (samples: readonly number[]): number => quantile(samples, 0.5);

/** Half of the interquartile range over the median. */
export function relativeSpread(samples: readonly number[]): number {
  return (quantile(samples, 0.75) - quantile(samples, 0.25)) / 2 / median(samples);
}

/** The contestant's time over ours; NaN where one of them has none. */
export function ratioToOurs(row: Row, contestant: ContestantName): number {
  const samples = (name: ContestantName): readonly number[] =>
    row.entries.find((e) => e.contestant === name)?.samples ?? [];
  const ours = samples('fused');
  const ratios = samples(contestant).flatMap((t, i) => {
    const mine = ours[i];
    return mine === undefined ? [] : [t / mine];
  });
  return median(ratios);
}

export interface BestPeer {
  readonly contestant: ContestantName;
  readonly ratio: number;
}

/** The quickest peer of a row; undefined when none finished, or we didn't. */
export function bestPeer(row: Row): BestPeer | undefined {
  let best: BestPeer | undefined;
  for (const contestant of PEERS) {
    const ratio = ratioToOurs(row, contestant);
    if (ratio > 0 && (!best || ratio < best.ratio)) best = { contestant, ratio };
  }
  return best;
}

export interface Standing {
  /** Geometric mean of the ratios. */
  readonly mean: number;
  readonly worst: number;
  readonly worstWorkload: string;
  readonly workloads: number;
}

function standing(ratios: readonly { workload: string; ratio: number }[]): Standing | undefined {
  const known = ratios.filter((r) => r.ratio > 0);
  const [first] = known;
  if (!first) return undefined;
  const worst = known.reduce((a, b) => (b.ratio < a.ratio ? b : a), first);
  const logs = known.reduce((sum, r) => sum + Math.log(r.ratio), 0);
  return {
    mean: Math.exp(logs / known.length),
    worst: worst.ratio,
    worstWorkload: worst.workload,
    workloads: known.length,
  };
}

/** Against one contestant, over the rows where both have times. */
export function against(rows: readonly Row[], contestant: ContestantName): Standing | undefined {
  return standing(rows.map((r) => ({ workload: r.workload, ratio: ratioToOurs(r, contestant) })));
}

/** Against the quickest peer of each row. */
export function againstBest(rows: readonly Row[]): Standing | undefined {
  return standing(rows.map((r) => ({ workload: r.workload, ratio: bestPeer(r)?.ratio ?? NaN })));
}

/** Of the rows' rates, the medians. */
export function ratesOf({ rows }: Run): Rates | undefined {
  const all = rows.flatMap((r) => r.rates);
  if (all.length === 0) return undefined;
  return {
    copyBytesPerMs: median(all.map((r) => r.copyBytesPerMs)),
    flopsPerMs: median(all.map((r) => r.flopsPerMs)),
  };
}

export interface Share {
  readonly of: 'copy' | 'multiply-add';
  readonly share: number;
}

/**
 * How near an entry is to what the adapter could do: the larger of the bytes that must move over the
 * copy's rate, and the arithmetic over the multiply-adds' rate. Round by round, like ratios.
 */
export function shareOf(row: Row, samples: readonly number[]): Share | undefined {
  const of = (amount: number, rate: (r: Rates) => number): number =>
    median(
      row.rates.flatMap((r, i) => {
        const ms = samples[i];
        return ms === undefined ? [] : [amount / ms / rate(r)];
      }),
    );
  const bytes = of(row.leastBytes, (r) => r.copyBytesPerMs);
  const flops = of(row.flops, (r) => r.flopsPerMs);
  if (!(bytes >= 0)) return undefined;
  return flops > bytes ? { of: 'multiply-add', share: flops } : { of: 'copy', share: bytes };
}
