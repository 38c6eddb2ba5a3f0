/**
 * The decision log: the search once more, with all that each of its moves was weighed against.
 *
 * The search itself keeps only what it did. It is deterministic, so that what it did not do is found by
 * running it again with an observer, which costs nothing to those who don't ask. The observer looks
 * around before each move, with the groups as they are then.
 *
 * Vocabulary
 *  - *step*: a move that was made.
 *  - *alternative*: another merge, of one of the step's groups with a neighbour of it (what reads from it,
 *    what it reads, what reads the same), that could have been made or tried at that time.
 */
import type { FusionAlternative, FusionStep } from '../result';
import type { Group } from './grouping';
import { type Plan, nodesOf } from './plan';
import type { Plans } from './plans';
import type { LogEntry, Search, SearchObserver } from './search';

/** All steps that led to the fused plan. */
export function stepsOf(plans: Plans): readonly FusionStep[] {
  const logs: DecisionLog[] = [];
  const observer = (search: Search): DecisionLog => {
    const log = new DecisionLog(search);
    logs.push(log);
    return log;
  };
  const { fused } = plans.again({ observer });
  return logs.flatMap((log) => log.finish(fused));
}

/** Alternatives that are listed with a step, at most; others are counted. */
const LISTED = 12;

/** An alternative, with the computes on either side, by which its fate is found at the end. */
interface Seen {
  readonly left: readonly number[];
  readonly right: readonly number[];
  readonly alternative: Omit<FusionAlternative, 'madeLater'>;
}

interface Step {
  readonly entry: LogEntry;
  readonly apartPs: number | undefined;
  readonly togetherPs: number | undefined;
  /** The time of the groups before it; those that no template could run have none. */
  readonly beforePs: number;
  readonly seen: readonly Seen[];
  readonly more: number;
}

interface After {
  readonly kernels: number;
  readonly totalPs: number;
}

class DecisionLog implements SearchObserver {
  private readonly steps: Step[] = [];
  /** The plan behind each step. */
  private readonly after: After[] = [];
  private bundled = 0;
  /** Of the plan that the search begins with. */
  private startPs = 0;
  /** The estimated time of the plan as it stands; undefined where it must be added up anew. */
  private totalPs: number | undefined;

  constructor(private readonly search: Search) {}

  step(entry: LogEntry, left: readonly Group[], right: readonly Group[]): void {
    this.settle();
    const { search } = this;
    this.totalPs ??= this.sum();
    if (this.steps.length === 0) this.startPs = this.totalPs;
    const apartPs = sumOf([...left, ...right].map((g) => search.cost(g.id)));
    const togetherPs = this.together(entry, apartPs, left, right);
    const { seen, more } = this.around(entry, left, right);
    const beforePs = [...left, ...right].reduce((t, g) => t + this.ps(g), 0);
    this.steps.push({ entry, apartPs, togetherPs, beforePs, seen, more });
    switch (entry.kind) {
      case 'vertical':
      case 'sibling':
      case 'required':
        this.totalPs += (togetherPs ?? 0) - beforePs;
        return;
      case 'horizontal':
        this.totalPs -= entry.gainPs;
        this.bundled++;
        return;
      case 'recompute':
      case 'destination':
        this.totalPs = undefined;
    }
  }

  /** All steps, once the search is over. */
  finish(fused: Plan): FusionStep[] {
    this.settle();
    const { program } = this.search;
    const madeLater = (s: Seen): boolean => {
      const [l] = s.left;
      const [r] = s.right;
      if (l === undefined || r === undefined) return false;
      return fused.kernelsOf[l]?.some((k) => fused.kernelsOf[r]?.includes(k) === true) === true;
    };
    return this.steps.map(({ entry, apartPs, togetherPs, beforePs, seen, more }, i): FusionStep => {
      const after = this.after[i] ?? { kernels: fused.kernels.length, totalPs: 0 };
      const earlierPs = this.after[i - 1]?.totalPs ?? this.startPs;
      // Of what several groups take part in, what the plan as a whole has gained.
      const gainPs =
        entry.kind === 'recompute' || entry.kind === 'destination' || togetherPs === undefined
          ? earlierPs - after.totalPs
          : beforePs - togetherPs;
      return {
        kind: entry.kind,
        left: nodesOf(program, entry.left),
        right: nodesOf(program, entry.right),
        gainUs: gainPs / 1e6,
        ...(apartPs === undefined ? {} : { apartUs: apartPs / 1e6 }),
        ...(togetherPs === undefined ? {} : { togetherUs: togetherPs / 1e6 }),
        weighed: entry.weighed !== false,
        alternatives: seen.map((s) => ({ ...s.alternative, madeLater: madeLater(s) })),
        more,
        kernels: after.kernels,
        estimatedUs: after.totalPs / 1e6,
      };
    });
  }

  /** Notes the plan behind the last step, which by now has been made. */
  private settle(): void {
    if (this.after.length === this.steps.length) return;
    this.totalPs ??= this.sum();
    const kernels = this.search.grouping.groups.size - this.bundled;
    this.after.push({ kernels, totalPs: this.totalPs });
  }

  private ps(g: Group): number {
    return this.search.cost(g.id) ?? 0;
  }

  private sum(): number {
    let total = 0;
    for (const g of this.search.grouping.groups.values()) total += this.ps(g);
    return total;
  }

  private together(
    entry: LogEntry,
    apartPs: number | undefined,
    left: readonly Group[],
    right: readonly Group[],
  ): number | undefined {
    switch (entry.kind) {
      case 'vertical':
      case 'sibling':
      case 'required': {
        const [a] = left;
        const [b] = right;
        return a && b ? this.search.mergedPs(a, b) : undefined;
      }
      case 'horizontal':
      case 'recompute':
        return apartPs === undefined ? undefined : apartPs - entry.gainPs;
      case 'destination':
        return undefined;
    }
  }

  /** The other merges of the groups with their neighbours: first those that gain most, then what is refused. */
  private around(
    entry: LogEntry,
    left: readonly Group[],
    right: readonly Group[],
  ): { seen: readonly Seen[]; more: number } {
    switch (entry.kind) {
      case 'horizontal':
      case 'destination':
        return { seen: [], more: 0 };
      case 'vertical':
      case 'sibling':
      case 'required':
      case 'recompute':
        break;
    }
    const out = new Map<string, Seen>();
    // What is copied into its readers could have been put together with one of them instead.
    const own = entry.kind === 'recompute' ? left : [...left, ...right];
    const chosen = entry.kind === 'recompute' ? [] : own;
    let more = 0;
    for (const g of own)
      for (const { kind, from, to } of this.search.neighbours(g.id)) {
        if (chosen.some((c) => c.id === from) && chosen.some((c) => c.id === to)) continue;
        const key = `${from} ${to}`;
        if (out.has(key)) continue;
        if (out.size >= 4 * LISTED) more++;
        else out.set(key, this.see(kind, from, to));
      }
    const rank = (s: Seen): number => s.alternative.gainUs ?? -Infinity;
    const all = [...out.values()].sort((x, y) => (rank(x) === rank(y) ? 0 : rank(y) - rank(x)));
    return { seen: all.slice(0, LISTED), more: more + Math.max(0, all.length - LISTED) };
  }

  private see(kind: 'vertical' | 'sibling', from: number, to: number): Seen {
    const { search } = this;
    const left = search.grouping.group(from).members;
    const right = search.grouping.group(to).members;
    const t = search.attempt(from, to);
    const apart = sumOf([search.cost(from), search.cost(to)]);
    const priced = t.ok && apart !== undefined;
    const [verdict] = t.verdicts;
    return {
      left,
      right,
      alternative: {
        kind,
        left: nodesOf(search.program, left),
        right: nodesOf(search.program, right),
        ...(priced ? { gainUs: t.gainPs / 1e6, togetherUs: (apart - t.gainPs) / 1e6 } : {}),
        ...(verdict ? { verdict } : {}),
      },
    };
  }
}

/** Undefined where one of them is. */
function sumOf(list: readonly (number | undefined)[]): number | undefined {
  let sum = 0;
  for (const n of list) {
    if (n === undefined) return undefined;
    sum += n;
  }
  return sum;
}
