/**
 * The fusion search: from one group per op to the final plan, by typed moves.
 *
 * Each move is judged three times: by `legal` (can a template make it one kernel within the
 * adapter's limits, without a cycle), by `cost` (is it faster by the model) and by `policy` (what the
 * user asked). Moves are taken greedily, the largest gain first; gains are integer picoseconds and
 * ties go by position, so the plan is the same on every machine and in every run.
 *
 * Vocabulary
 *  - *vertical* move: a producer group into a consumer group (into- and after-reduction, prologue,
 *    epilogue are what it turns out to be).
 *  - *sibling* move: two groups that read the same value.
 *  - *recompute* move: a cheap producer is copied into each of its consumers.
 *  - *destination* move: the operands of a concatenation are stored where they belong in its result
 *    (see destination.ts).
 *  - *horizontal* move: small groups that don't depend on each other share a grid (see horizontal.ts).
 */
import type { NodeId } from '../graph/graph';
import type { Compute, Program } from '../ir/compute';
import type { ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { DeviceProfile } from '../result';
import { type GroupSpec, visitLoads } from '../schedule/group';
import {
  type Schedule,
  type Scheduled,
  type ScheduleResult,
  WORTH_SPLITTING,
} from '../schedule/schedule';
import { spillVerdict } from '../schedule/time';
import { assembleJoined } from './destination';
import { type Group, type Grouping, union } from './grouping';
import { Heap } from './heap';
import type { Joined } from './joined';
import { type Answer, ScheduleMemo } from './memo';
import type { Recall } from './memory';
import type { Policy } from './policy';
import { usText, type Verdict } from './verdicts';

export type MoveKind =
  'vertical' | 'sibling' | 'recompute' | 'required' | 'destination' | 'horizontal';

export interface LogEntry {
  readonly kind: MoveKind;
  /** Computes' positions on either side. */
  readonly left: readonly number[];
  readonly right: readonly number[];
  readonly gainPs: number;
  /** The price of the group that it made, where it was weighed. */
  readonly mergedPs?: number;
  /** False where it was made without asking for its price. */
  readonly weighed?: false;
}

/** Told of every move that is about to be made, with the groups on either side; it must change nothing. */
export interface SearchObserver {
  step(entry: LogEntry, left: readonly Group[], right: readonly Group[]): void;
}

/** A merge that may be tried: of a producer with a consumer, or of two readers of one value. */
export interface Neighbours {
  readonly kind: 'vertical' | 'sibling';
  readonly from: number;
  readonly to: number;
}

export interface SearchOptions {
  readonly device: DeviceProfile;
  readonly f16: boolean;
}

/** Computes in one kernel, at most: what keeps shaders and the search small. */
export const MEMBER_LIMIT = 256;
/** Readers of one value that are tried against each other as siblings, at most: their pairs grow as its square. */
const SIBLING_READERS = 16;

export interface Attempt {
  readonly ok: boolean;
  readonly gainPs: number;
  readonly verdicts: readonly Verdict[];
}

interface Candidate {
  readonly kind: 'vertical' | 'sibling';
  readonly a: number;
  readonly b: number;
  readonly gain: number;
  readonly order: number;
  /** Of the group that it would make. */
  readonly merged: Answer;
}

/** What a chain that is merged without asking may hold: few enough that no adapter's limit is near. */
const CHAIN = { members: 16, inputs: 3 };

/** What a sibling move must gain at least, as a share of the two kernels' time. */
const SIBLING_GAIN = 0.005;

/** Stands for the cost of a group that no template can run: any merge that can is welcome. */
export const IMPOSSIBLE_PS = Number.MAX_SAFE_INTEGER / 4;

export class Search {
  readonly log: LogEntry[] = [];
  readonly memo: ScheduleMemo;
  /** Pairs of groups judged: with the memo's counts and the grouping's visits, the search's work. */
  judged = 0;
  /** Computes that `fuse` lines put into one kernel. */
  readonly pinned = new Set<number>();
  /** Positions of computes by the values that they define. */
  readonly positions = new Map<ValueId, number>();
  observer: SearchObserver | undefined;
  /** The length of the log at which a replay ends the search. */
  stopAt = Infinity;
  private readonly answers: (Answer | undefined)[] = [];
  private tick = 0;

  constructor(
    readonly program: Program,
    readonly grouping: Grouping,
    readonly policy: Policy,
    readonly options: SearchOptions,
    recall?: Recall,
    /** Concatenations whose results may be put together in memory. */
    private readonly joined: readonly Joined[] = [],
    /** How many of the computes are the program's own: behind them are copies. */
    private readonly own = program.computes.length,
  ) {
    this.memo = new ScheduleMemo(program, options, recall);
    program.computes.forEach((c, i) => this.positions.set(c.value, i));
  }

  isCopy(compute: number): boolean {
    return compute >= this.own;
  }

  /** Notes a move that is about to be made. */
  note(entry: LogEntry, left: readonly number[], right: readonly number[]): void {
    if (this.observer) {
      const groups = (ids: readonly number[]): Group[] => ids.map((id) => this.grouping.group(id));
      this.observer.step(entry, groups(left), groups(right));
    }
    this.log.push(entry);
  }

  get halted(): boolean {
    return this.log.length >= this.stopAt;
  }

  get launchPs(): number {
    return Math.round(this.options.device.launchUs * 1e6);
  }

  /** The group's question has changed. */
  forget(id: number): void {
    this.answers[id] = undefined;
  }

  private answer(id: number): Answer {
    const known = this.answers[id];
    if (known) return known;
    const { members } = this.grouping.group(id);
    const a = this.memo.ask(members, this.grouping.stored(members), true);
    this.answers[id] = a;
    return a;
  }

  /** The group's price and limits, in its own names; of its schedule, only the kind and the parameters. */
  schedule(id: number): ScheduleResult {
    return this.memo.translate(this.answer(id), this.grouping.group(id).members);
  }

  /** The schedule that a group's code is built from. */
  ownSchedule(id: number, spec: GroupSpec): () => Schedule {
    const answer = this.answer(id);
    return () => this.memo.own(answer, spec);
  }

  /** Its price in the names of the first group of its structure; undefined where no template can run it. */
  price(id: number): Scheduled | undefined {
    const { result } = this.answer(id);
    return result.ok ? result.value : undefined;
  }

  /** One object for all groups of one structure. */
  structure(id: number): object {
    return this.answer(id);
  }

  cost(id: number): number | undefined {
    const s = this.answer(id).result;
    return s.ok ? s.value.cost : undefined;
  }

  /** Merges the computes of each op as far as one kernel can hold them: the plan without fusion. */
  mergeWithinOps(): void {
    const { grouping } = this;
    const sizes = new Map<NodeId, number>();
    for (const c of this.program.computes.slice(0, this.own))
      for (const o of c.origin) sizes.set(o, (sizes.get(o) ?? 0) + 1);
    const origin = (id: number): readonly NodeId[] => {
      const { members } = grouping.group(id);
      const first = grouping.compute(members[0] ?? 0).origin;
      // Groups grow within one op only, so that all members come from where the first does.
      return members.length === 1 || first.length === 1 ? first : this.nodes(members);
    };
    const several = [...grouping.groups.values()].filter((g) =>
      origin(g.id).some((o) => (sizes.get(o) ?? 0) > 1),
    );
    this.wholeOps(several);
    this.run(
      several.flatMap((g) => grouping.groups.get(g.id) ?? []),
      (a, b) => {
        const x = origin(a);
        // The copy of an input is of no op.
        if (origin(b).length === 0) return false;
        return (
          origin(b).every((o) => x.includes(o)) &&
          this.policy.allows(grouping.group(a).members, grouping.group(b).members)
        );
      },
    );
  }

  /** Makes one group of all computes of an op where that is no slower than one group each. */
  private wholeOps(groups: readonly Group[]): void {
    const { grouping } = this;
    const byOp = new Map<NodeId, Group[]>();
    for (const g of groups) {
      const { origin, region } = grouping.compute(g.members[0] ?? 0);
      const [op, second] = origin;
      if (op === undefined || second !== undefined) continue;
      // A region's copies can be on either side of its border.
      const key = region === undefined ? op : `${op} in ${region}`;
      const list = byOp.get(key);
      if (list) list.push(g);
      else byOp.set(key, [g]);
    }
    for (const list of byOp.values()) {
      const [first, ...rest] = list;
      if (!first || rest.length === 0 || list.length > MEMBER_LIMIT) continue;
      const members = list.flatMap((g) => g.members);
      const whole = this.memo.ask(members, grouping.stored(members), false).result;
      if (!whole.ok) continue;
      // No kernel is quicker than its launch: often that says enough.
      const apart = (): number =>
        list.reduce((sum, g) => sum + (this.cost(g.id) ?? IMPOSSIBLE_PS), 0);
      if (whole.value.schedule.kind === 'split') {
        const ids = list.map((g) => g.id);
        if (whole.value.cost > apart() || this.splitsAnew(whole, ids, apart())) continue;
      } else if (whole.value.cost > list.length * this.launchPs && whole.value.cost > apart())
        continue;
      // No path leads out of an op and back into it.
      let id = first.id;
      for (const g of rest) {
        const left = grouping.group(id).members;
        this.log.push({ kind: 'vertical', left, right: g.members, gainPs: 0 });
        id = grouping.merge(id, g.id);
      }
    }
  }

  /** The full search. */
  fuse(): void {
    const { grouping } = this;
    this.chains();
    this.run([...grouping.groups.values()]);
    const moved = assembleJoined(this, this.joined);
    if (moved.length > 0) this.run(moved.map((id) => grouping.group(id)));
    // Only what has changed by copying can gain anything more.
    const copies = this.recomputeMoves();
    if (copies.length > 0) this.run(copies);
  }

  /**
   * Element-for-element chains with no other reader are always better as one kernel: merged at once,
   * so that the search proper works on a smaller graph.
   */
  private chains(): void {
    const { grouping } = this;
    grouping.program.computes.forEach((c, i) => {
      if (c.monoid || this.halted) return;
      const readers = grouping.readers[i] ?? [];
      const r = readers.length === 1 ? readers[0] : undefined;
      if (r === undefined || grouping.mustStore(i)) return;
      const consumer = grouping.compute(r);
      // With two computed operands it may do better as the epilogue of either.
      if (consumer.monoid || (grouping.reads[r] ?? []).length > 1 || !identityRead(consumer, c))
        return;
      const a = only(grouping.homes[i]);
      const b = only(grouping.homes[r]);
      if (a === undefined || b === undefined || a === b) return;
      const x = grouping.group(a).members;
      const y = grouping.group(b).members;
      const pointwise = (m: number): boolean => !grouping.compute(m).monoid;
      if (x.length + y.length > CHAIN.members || !x.every(pointwise) || !y.every(pointwise)) return;
      if (grouping.inputs(union(x, y)) > CHAIN.inputs || !this.policy.allows(x, y)) return;
      this.note({ kind: 'vertical', left: x, right: y, gainPs: 0, weighed: false }, [a], [b]);
      grouping.merge(a, b);
    });
  }

  /**
   * Takes moves until none gains anything. `start` are the groups that may have moves (with others
   * too, which needn't be among them); `may` narrows the moves.
   */
  private run(start: readonly Group[], may?: (a: number, b: number) => boolean): void {
    const heap = new Heap<Candidate>((x, y) =>
      x.gain !== y.gain ? x.gain > y.gain : x.order < y.order,
    );
    const groups = [...start].sort((x, y) => x.rank - y.rank || x.id - y.id);
    // Each pair is met from both sides: it is looked at from the first.
    const turn = new Map(groups.map((g, i) => [g.id, i]));
    for (const g of groups) {
      const mine = turn.get(g.id) ?? 0;
      this.consider(heap, g.id, (other) => (turn.get(other) ?? Infinity) > mine, may);
    }
    for (let c = heap.pop(); c && !this.halted; c = heap.pop()) {
      if (!this.grouping.groups.has(c.a) || !this.grouping.groups.has(c.b)) continue;
      const left = this.grouping.group(c.a).members;
      const right = this.grouping.group(c.b).members;
      // The graph has changed since: a path around may have appeared.
      if (this.grouping.cyclic(c.a, c.b)) continue;
      const { plain } = this.grouping;
      const mergedPs =
        plain && c.merged.result.ok
          ? c.merged.result.value.cost
          : this.mergedPs(this.grouping.group(c.a), this.grouping.group(c.b));
      this.note(
        {
          ...{ kind: c.kind, left, right, gainPs: c.gain },
          ...(mergedPs === undefined ? {} : { mergedPs }),
        },
        [c.a],
        [c.b],
      );
      const id = this.grouping.merge(c.a, c.b);
      if (plain) this.answers[id] = c.merged;
      this.consider(heap, id, undefined, may);
    }
  }

  /** Puts the moves of a group with its neighbours (those that `wanted` names) on the heap. */
  private consider(
    heap: Heap<Candidate>,
    id: number,
    wanted: ((other: number) => boolean) | undefined,
    may: ((a: number, b: number) => boolean) | undefined,
  ): void {
    for (const { kind, from, to } of this.neighbours(id, wanted)) {
      if (may && !may(from, to)) continue;
      const merged = this.possible(from, to);
      if (!merged) continue;
      if (this.splitsAnew(merged.answer.result, [from, to], merged.apartPs)) continue;
      const gain = merged.apartPs - merged.ps;
      if (kind === 'sibling' && gain < this.leastSiblingGain(from, to)) continue;
      if (gain > 0 && !this.grouping.cyclic(from, to))
        heap.push({ kind, a: from, b: to, gain, order: this.tick++, merged: merged.answer });
    }
  }

  /** Two big kernels side by side save a launch: not worth the registers they would share. */
  private leastSiblingGain(a: number, b: number): number {
    return SIBLING_GAIN * ((this.cost(a) ?? 0) + (this.cost(b) ?? 0));
  }

  /** The merges of a group with its neighbours that may be tried, those of producer and consumer first. */
  neighbours(id: number, wanted: (other: number) => boolean = () => true): Neighbours[] {
    const { grouping } = this;
    const rank = grouping.group(id).rank;
    const consumers = grouping.consumers(id);
    const producers = grouping.producers(id);
    const out: Neighbours[] = [];
    for (const c of this.byRank(consumers))
      if (wanted(c)) out.push({ kind: 'vertical', from: id, to: c });
    for (const p of this.byRank(producers))
      if (wanted(p)) out.push({ kind: 'vertical', from: p, to: id });
    for (const s of this.byRank(this.siblings(id))) {
      if (consumers.has(s) || producers.has(s) || !wanted(s)) continue;
      const other = grouping.group(s).rank;
      const first = other < rank || (other === rank && s < id);
      out.push({ kind: 'sibling', from: first ? s : id, to: first ? id : s });
    }
    return out;
  }

  byRank(ids: ReadonlySet<number>): number[] {
    const out = [...ids];
    if (out.length < 2) return out;
    const rank = (id: number): number => this.grouping.group(id).rank;
    return out.sort((x, y) => rank(x) - rank(y) || x - y);
  }

  /** Groups that read a value this one reads too. */
  private siblings(id: number): Set<number> {
    const out = new Set<number>();
    const { grouping } = this;
    const meet = (readers: readonly number[]): void => {
      if (readers.length < 2 || readers.length > SIBLING_READERS) return;
      for (const r of readers) for (const h of grouping.homes[r] ?? []) out.add(h);
    };
    for (const m of grouping.group(id).members) {
      for (const p of grouping.reads[m] ?? []) meet(grouping.readers[p] ?? []);
      for (const v of grouping.inputsOf[m] ?? []) meet(this.readersOfInput(v));
    }
    out.delete(id);
    return out;
  }

  private inputReaders: Map<ValueId, number[]> | undefined;
  private readersOfInput(v: ValueId): readonly number[] {
    if (!this.inputReaders) {
      this.inputReaders = new Map();
      this.grouping.inputsOf.forEach((list, i) => {
        for (const x of list) {
          const l = this.inputReaders?.get(x);
          if (l) l.push(i);
          else this.inputReaders?.set(x, [i]);
        }
      });
    }
    return this.inputReaders.get(v) ?? [];
  }

  /**
   * The merge of two groups, its price and theirs, if it is possible and (where that is easily told)
   * takes less time than they do apart. Cycles come and go as groups merge: they are not looked for here.
   */
  private possible(
    a: number,
    b: number,
  ): { ps: number; apartPs: number; answer: Answer } | undefined {
    this.judged++;
    const { grouping } = this;
    const x = grouping.group(a).members;
    const y = grouping.group(b).members;
    if (x.length + y.length > MEMBER_LIMIT || !this.policy.allows(x, y)) return undefined;
    const members = union(x, y);
    if (grouping.torn(members) !== undefined) return undefined;
    const apartPs = this.apartPs(a, b);
    const answer = this.memo.ask(members, grouping.stored(members), false, apartPs);
    return answer.result.ok ? { ps: answer.result.value.cost, apartPs, answer } : undefined;
  }

  /** Whether a merge would have groups run in two dispatches that don't yet, for less than that must gain. */
  private splitsAnew(
    merged: ScheduleResult,
    groups: readonly number[],
    apartPs: number,
  ): merged is ScheduleResult & { ok: true } {
    if (!merged.ok || merged.value.schedule.kind !== 'split') return false;
    if (groups.some((g) => this.price(g)?.schedule.kind === 'split')) return false;
    return merged.value.cost >= WORTH_SPLITTING * apartPs;
  }

  private apartPs(a: number, b: number): number {
    return (this.cost(a) ?? IMPOSSIBLE_PS) + (this.cost(b) ?? IMPOSSIBLE_PS);
  }

  /** The price of two groups as one kernel; undefined where no template can run it. */
  mergedPs(a: Group, b: Group): number | undefined {
    const { result } = this.merged(a.members, b.members, true).answer;
    return result.ok ? result.value.cost : undefined;
  }

  private merged(
    x: readonly number[],
    y: readonly number[],
    thorough: boolean,
  ): { members: readonly number[]; answer: Answer } {
    const members = union(x, y);
    return { members, answer: this.memo.ask(members, this.grouping.stored(members), thorough) };
  }

  private nodes(members: readonly number[]): NodeId[] {
    return [...new Set(members.flatMap((m) => this.grouping.compute(m).origin))];
  }

  /** Judges the merge of two groups: all that speaks against it, or the gain. */
  attempt(a: number, b: number): Attempt {
    const { grouping } = this;
    const x = grouping.group(a).members;
    const y = grouping.group(b).members;
    const verdicts: Verdict[] = [...this.policy.verdicts(x, y)];
    const around = grouping.cycle(a, b);
    if (around?.length === 0) verdicts.push(this.policy.acrossBodies(this.nodes(union(x, y))));
    else if (around) {
      const between = [...new Set(around.flatMap((g) => this.nodes(grouping.group(g).members)))];
      verdicts.push({
        code: 'CYCLE',
        nodes: between,
        message: `one of them needs a result that is computed from the other outside the kernel (by ${this.policy.names(between)})`,
        counterfactual: `would be possible if ${this.policy.names(between)} were in the same kernel too`,
        confidence: 'proved',
      });
    }
    const torn = grouping.torn(union(x, y));
    if (torn !== undefined) verdicts.push(this.tornVerdict(torn));
    if (x.length + y.length > MEMBER_LIMIT) {
      verdicts.push({
        code: 'CODE_SIZE',
        nodes: this.nodes(union(x, y)),
        quantity: x.length + y.length,
        limit: MEMBER_LIMIT,
        unit: 'computes',
        limitSource: 'compiler: size budget of one kernel',
        message: `one kernel would hold ${x.length + y.length} computes, over the budget of ${MEMBER_LIMIT} that keeps shader compile time in bounds`,
        counterfactual: `would fuse if the chain were at most ${MEMBER_LIMIT} computes long`,
        confidence: 'modelled',
      });
    }
    if (verdicts.length > 0) return { ok: false, gainPs: 0, verdicts };
    const { members, answer } = this.merged(x, y, true);
    const merged = answer.result;
    if (!merged.ok)
      return { ok: false, gainPs: 0, verdicts: this.memo.translateVerdicts(answer, members) };
    const ca = this.answer(a).result;
    const cb = this.answer(b).result;
    const gainPs =
      (ca.ok ? ca.value.cost : IMPOSSIBLE_PS) +
      (cb.ok ? cb.value.cost : IMPOSSIBLE_PS) -
      merged.value.cost;
    if (!ca.ok || !cb.ok) return { ok: true, gainPs, verdicts: [] };
    const nodes = this.nodes([...x, ...y]);
    if (gainPs > 0 && this.splitsAnew(merged, [a, b], ca.value.cost + cb.value.cost))
      return { ok: true, gainPs: 0, verdicts: [unsure(ca.value, cb.value, merged.value, nodes)] };
    if (gainPs > 0) return { ok: true, gainPs, verdicts: [] };
    return {
      ok: true,
      gainPs,
      verdicts: this.slower(ca.value, cb.value, merged.value, nodes),
    };
  }

  private tornVerdict(assembled: number): Verdict {
    const { origin } = this.grouping.compute(assembled);
    const name = this.policy.names(origin);
    return {
      code: 'INPLACE_HAZARD',
      nodes: [...origin],
      limitSource: 'WebGPU has no barrier across workgroups',
      message: `${name} is put together in memory, each operand stored in its place by the kernel that makes it; one kernel would read the whole while it still stores its share`,
      counterfactual: `would be considered if what reads ${name} were its only reader: then it needn't be in memory`,
      confidence: 'proved',
    };
  }

  /** Why one kernel is estimated to be no faster than two: spilled registers, and what else there is. */
  private slower(a: Scheduled, b: Scheduled, m: Scheduled, nodes: readonly string[]): Verdict[] {
    const { device } = this.options;
    const spill = spillVerdict(
      m.features,
      device,
      nodes,
      `would pay if at most ${device.registers} values were live at once`,
    );
    if (!spill) return [this.slowerAnyway(a, b, m, nodes)];
    const decides = m.cost - Math.round(spill.us * 1e6) < a.cost + b.cost;
    return decides ? [spill.verdict] : [this.slowerAnyway(a, b, m, nodes), spill.verdict];
  }

  private slowerAnyway(
    a: Scheduled,
    b: Scheduled,
    m: Scheduled,
    nodes: readonly string[],
  ): Verdict {
    const us = (ps: number): string => usText(ps / 1e6);
    const work = m.features.work / Math.max(1, a.features.work + b.features.work);
    const apart = us(a.cost + b.cost);
    if (work > 1.2) {
      return {
        code: 'RECOMPUTE',
        nodes,
        quantity: Math.round(work * 10) / 10,
        limit: 1,
        unit: '× work',
        limitSource: 'cost model',
        message: `one kernel would do ${work.toFixed(1)} times the arithmetic, since elements shared by several results are computed for each: ${us(m.cost)} instead of ${apart}`,
        counterfactual: 'would pay if the shared part were cheaper, or memory slower',
        confidence: 'modelled',
      };
    }
    if (
      m.features.threads < Math.max(a.features.threads, b.features.threads) &&
      m.features.threads < this.options.device.saturatingThreads
    ) {
      return {
        code: 'LOW_PARALLELISM',
        nodes,
        quantity: m.features.threads,
        limit: this.options.device.saturatingThreads,
        unit: 'invocations',
        limitSource: `device profile: ${this.options.device.name}`,
        message: `one kernel would have ${m.features.threads} invocations, too few to fill the device: ${us(m.cost)} instead of ${apart}`,
        counterfactual: `would pay with ${this.options.device.saturatingThreads} invocations or more`,
        confidence: 'modelled',
      };
    }
    const wasted = m.features.wastedBytes - a.features.wastedBytes - b.features.wastedBytes;
    const bytes = m.features.bytesRead + m.features.bytesWritten;
    if (!this.options.device.software && wasted > bytes) {
      return {
        code: 'UNCOALESCED',
        nodes,
        quantity: Math.round((10 * (bytes + wasted)) / Math.max(1, bytes)) / 10,
        limit: 1,
        unit: '× the bytes used',
        limitSource: 'memory moves in sectors of 32 bytes',
        message: `in one kernel neighbouring invocations would touch elements far apart in memory, which moves bytes that nobody uses: ${us(m.cost)} instead of ${apart}`,
        counterfactual: 'would pay if both went through memory along the same dim',
        confidence: 'modelled',
      };
    }
    return {
      code: 'MODEL_SLOWER',
      nodes,
      quantity: Math.round((m.cost / Math.max(1, a.cost + b.cost)) * 100) / 100,
      limit: 1,
      unit: '× time',
      limitSource: 'cost model',
      message: `one kernel is estimated at ${us(m.cost)}, two at ${apart}`,
      counterfactual: 'measure it: a forced fusion is one click away',
      confidence: 'modelled',
    };
  }

  /** Copies cheap pointwise producers that several groups read into each of them, where that pays; the groups with copies. */
  private recomputeMoves(): Group[] {
    const { grouping } = this;
    const copies = new Set<number>();
    for (const g of grouping.ordered()) {
      if (!grouping.groups.has(g.id) || this.halted) continue;
      const { members } = g;
      const forced = this.policy.mustRecompute(members);
      const consumers = this.mayCopy(g.id, forced);
      if (!consumers) continue;
      const gainPs = this.recomputeGain(g.id, consumers);
      if (gainPs === undefined || (gainPs <= 0 && !forced)) continue;
      const right = consumers.flatMap((c) => grouping.group(c).members);
      this.note({ kind: 'recompute', left: members, right, gainPs }, [g.id], consumers);
      for (const c of grouping.duplicate(g.id, consumers)) copies.add(c);
    }
    return [...copies].flatMap((c) => grouping.groups.get(c) ?? []);
  }

  /** The consumers that a group could be copied into, if it may be. */
  private mayCopy(id: number, forced: boolean): readonly number[] | undefined {
    const { grouping } = this;
    const { members } = grouping.group(id);
    const consumers = this.byRank(grouping.consumers(id));
    if (consumers.length === 0 || consumers.length > 8) return undefined;
    if (consumers.length < 2 && !forced) return undefined;
    if (members.some((m) => grouping.compute(m).monoid || grouping.mustStore(m))) return undefined;
    // A slice of a result must be in memory for what reads the whole.
    if (grouping.joins(members).length > 0) return undefined;
    if (!this.policy.mayRecompute(members)) return undefined;
    if (consumers.some((c) => !this.policy.allows(members, grouping.group(c).members)))
      return undefined;
    return consumers;
  }

  /** What copying the group into its consumers would gain; 0 where it can't be copied. */
  copyingGain(id: number): number {
    const { members } = this.grouping.group(id);
    const forced = this.policy.mustRecompute(members);
    const consumers = this.mayCopy(id, forced);
    if (!consumers) return 0;
    return forced ? IMPOSSIBLE_PS : (this.recomputeGain(id, consumers) ?? 0);
  }

  /** What copying the group into each of its consumers gains; undefined where one of them can't take it. */
  private recomputeGain(id: number, consumers: readonly number[]): number | undefined {
    const { grouping } = this;
    const { members } = grouping.group(id);
    const copied = new Set(members);
    let gain = this.cost(id) ?? 0;
    for (const c of consumers) {
      const alone = this.cost(c);
      const both = union(members, grouping.group(c).members);
      if (alone === undefined || both.length > MEMBER_LIMIT) return undefined;
      const stored = grouping.stored(both).map((s, i) => s && !copied.has(both[i] ?? -1));
      const s = this.memo.ask(both, stored, false).result;
      if (!s.ok) return undefined;
      gain += alone - s.value.cost;
    }
    return gain;
  }

  /** Makes the computes one group, whatever the model says; the verdicts when that isn't possible. */
  require(computes: readonly number[]): readonly Verdict[] {
    const ids = new Set<number>();
    for (const c of computes) for (const h of this.grouping.homes[c] ?? []) ids.add(h);
    const [start, ...rest] = [...ids].sort((a, b) => a - b);
    if (start === undefined) return [];
    for (const c of computes) this.pinned.add(c);
    let first = start;
    let left = rest;
    while (left.length > 0 && !this.halted) {
      let last: readonly Verdict[] = [];
      const other = left.find((o) => {
        const t = this.attempt(first, o);
        last = t.verdicts;
        if (!t.ok) return false;
        const left = this.grouping.group(first).members;
        const right = this.grouping.group(o).members;
        this.note({ kind: 'required', left, right, gainPs: t.gainPs }, [first], [o]);
        return true;
      });
      if (other === undefined) return last;
      left = left.filter((o) => o !== other);
      first = this.grouping.merge(first, other);
    }
    return [];
  }
}

/** Why a merge that the model thinks faster isn't made: it takes two dispatches where there was one each. */
function unsure(a: Scheduled, b: Scheduled, m: Scheduled, nodes: readonly string[]): Verdict {
  const us = (ps: number): string => usText(ps / 1e6);
  const apart = a.cost + b.cost;
  return {
    code: 'MODEL_SLOWER',
    nodes,
    quantity: Math.round((m.cost / Math.max(1, apart)) * 100) / 100,
    limit: WORTH_SPLITTING,
    unit: '× time',
    limitSource: 'cost model: margin of a second dispatch',
    message: `together they would run in two dispatches, in parts and over the parts: ${us(m.cost)} instead of ${us(apart)}, which is too little to be sure of`,
    counterfactual: 'measure it: a forced fusion is one click away',
    confidence: 'modelled',
  };
}

function only(homes: readonly number[] | undefined): number | undefined {
  return homes?.length === 1 ? homes[0] : undefined;
}

/** Whether `consumer` reads `producer` only element for element, in the same shape. */
function identityRead(consumer: Compute, producer: Compute): boolean {
  if (consumer.dims.length !== producer.dims.length) return false;
  if (!consumer.dims.every((d, i) => I.same(d.extent, producer.dims[i]?.extent ?? I.num(-1))))
    return false;
  let ok = true;
  visitLoads(consumer.body, (l) => {
    if (l.value === producer.value)
      ok =
        ok &&
        l.index.every(
          (e, i) =>
            e.key === `d${i}` ||
            (e.key === '0' && I.isConst(producer.dims[i]?.extent ?? I.num(0), 1)),
        );
  });
  return ok;
}
