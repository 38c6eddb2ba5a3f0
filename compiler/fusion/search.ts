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
 */
import type { Compute, Program } from '../ir/compute';
import type { ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { DeviceProfile } from '../result';
import { type Scheduled, scheduleGroup, type ScheduleResult } from '../schedule/schedule';
import { visitLoads } from '../schedule/group';
import { Grouping } from './grouping';
import type { Policy } from './policy';
import type { Verdict } from './verdicts';

export type MoveKind = 'vertical' | 'sibling' | 'recompute' | 'required';

export interface LogEntry {
  readonly kind: MoveKind;
  /** Computes' positions on either side. */
  readonly left: readonly number[];
  readonly right: readonly number[];
  readonly gainPs: number;
}

export interface SearchOptions {
  readonly device: DeviceProfile;
  readonly f16: boolean;
}

/** Computes in one kernel, at most: what keeps shaders and the search small. */
export const MEMBER_LIMIT = 256;

export interface Attempt {
  readonly ok: boolean;
  readonly gainPs: number;
  readonly merged?: Scheduled;
  readonly verdicts: readonly Verdict[];
}

interface Candidate {
  readonly kind: 'vertical' | 'sibling';
  readonly a: number;
  readonly b: number;
  readonly gain: number;
  readonly order: number;
}

export class Search {
  readonly log: LogEntry[] = [];
  private readonly scheduled = new Map<number, ScheduleResult>();
  private heap: Candidate[] = [];
  private tick = 0;

  constructor(
    readonly program: Program,
    readonly grouping: Grouping,
    readonly policy: Policy,
    readonly options: SearchOptions,
  ) {}

  schedule(id: number): ScheduleResult {
    const known = this.scheduled.get(id);
    if (known) return known;
    const r = scheduleGroup(this.grouping.spec(this.grouping.group(id).members), this.options);
    this.scheduled.set(id, r);
    return r;
  }

  cost(id: number): number | undefined {
    const s = this.schedule(id);
    return s.ok ? s.value.cost : undefined;
  }

  /** Merges the computes of each op as far as one kernel can hold them: the plan without fusion. */
  mergeWithinOps(): void {
    this.run((a, b) => {
      const x = new Set<string>();
      for (const m of this.grouping.group(a).members) for (const o of this.grouping.compute(m).origin) x.add(o);
      return this.grouping.group(b).members.every((m) => this.grouping.compute(m).origin.every((o) => x.has(o)));
    });
  }

  /** The full search. */
  fuse(): void {
    this.chains();
    this.run(() => true);
    if (this.recomputeMoves()) this.run(() => true);
  }

  /**
   * Element-for-element chains with no other reader are always better as one kernel: merged at once,
   * so that the search proper works on a smaller graph.
   */
  private chains(): void {
    const { grouping } = this;
    grouping.program.computes.forEach((c, i) => {
      if (c.monoid) return;
      const readers = grouping.readers[i] ?? [];
      const r = readers.length === 1 ? readers[0] : undefined;
      if (r === undefined || grouping.mustStore(c.value)) return;
      const consumer = grouping.compute(r);
      // With two computed operands it may do better as the epilogue of either.
      if (consumer.monoid || (grouping.reads[r] ?? []).length > 1 || !identityRead(consumer, c)) return;
      if (new Set([...(grouping.inputsOf[i] ?? []), ...(grouping.inputsOf[r] ?? [])]).size > 3) return;
      const a = only(grouping.homes[i]);
      const b = only(grouping.homes[r]);
      if (a === undefined || b === undefined || a === b) return;
      const x = grouping.group(a).members;
      const y = grouping.group(b).members;
      const pointwise = (m: number): boolean => !grouping.compute(m).monoid;
      if (x.length + y.length > 16 || !x.every(pointwise) || !y.every(pointwise)) return;
      if (!this.policy.allows(x, y)) return;
      this.log.push({ kind: 'vertical', left: x, right: y, gainPs: 0 });
      grouping.merge(a, b);
    });
  }

  private run(may: (a: number, b: number) => boolean): void {
    this.heap = [];
    for (const id of this.grouping.groups.keys()) this.consider(id, may, true);
    for (let c = this.pop(); c; c = this.pop()) {
      if (!this.grouping.groups.has(c.a) || !this.grouping.groups.has(c.b)) continue;
      const left = this.grouping.group(c.a).members;
      const right = this.grouping.group(c.b).members;
      // The graph has changed since: a path around may have appeared.
      if (this.cycle(c.a, c.b)) continue;
      const id = this.grouping.merge(c.a, c.b);
      this.log.push({ kind: c.kind, left, right, gainPs: c.gain });
      this.consider(id, may, false);
    }
  }

  /** Puts the moves of a group with its neighbours on the heap. */
  private consider(id: number, may: (a: number, b: number) => boolean, onlyDown: boolean): void {
    const seen = new Set<number>();
    for (const c of this.grouping.consumers(id)) {
      seen.add(c);
      this.propose('vertical', id, c, may);
    }
    if (!onlyDown) {
      for (const p of this.grouping.producers(id)) {
        seen.add(p);
        this.propose('vertical', p, id, may);
      }
    }
    for (const s of this.siblings(id)) {
      if (seen.has(s) || s === id || (onlyDown && s < id)) continue;
      this.propose('sibling', Math.min(s, id), Math.max(s, id), may);
    }
  }

  /** Groups that read a value this one reads too. */
  private siblings(id: number): Set<number> {
    const out = new Set<number>();
    const { grouping } = this;
    for (const m of grouping.group(id).members) {
      for (const p of grouping.reads[m] ?? []) {
        const readers = grouping.readers[p] ?? [];
        if (readers.length > 16) continue;
        for (const r of readers) for (const h of grouping.homes[r] ?? []) out.add(h);
      }
      for (const v of grouping.inputsOf[m] ?? []) {
        const readers = this.readersOfInput(v);
        if (readers.length > 16) continue;
        for (const r of readers) for (const h of grouping.homes[r] ?? []) out.add(h);
      }
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

  private cycle(a: number, b: number): number[] | undefined {
    return this.grouping.pathAround(a, b) ?? this.grouping.pathAround(b, a);
  }

  private propose(kind: 'vertical' | 'sibling', a: number, b: number, may: (a: number, b: number) => boolean): void {
    if (!may(a, b)) return;
    const t = this.attempt(a, b);
    if (t.ok && t.gainPs > 0) this.push({ kind, a, b, gain: t.gainPs, order: this.tick++ });
  }

  private readonly judged = new Map<string, Attempt>();

  /**
   * Judges the merge of two groups: all that speaks against it, or the gain. A group never changes
   * (a merge makes a new one), so judgements are kept, but for cycles, which come and go.
   */
  attempt(a: number, b: number): Attempt {
    const key = `${a} ${b}`;
    const known = this.judged.get(key);
    if (known && !this.cycle(a, b)) return known;
    const t = this.judge(a, b);
    if (!t.verdicts.some((v) => v.code === 'CYCLE')) this.judged.set(key, t);
    return t;
  }

  private judge(a: number, b: number): Attempt {
    const { grouping } = this;
    const x = grouping.group(a).members;
    const y = grouping.group(b).members;
    const verdicts: Verdict[] = [...this.policy.verdicts(x, y)];
    const nodes = [...new Set([...x, ...y].flatMap((m) => grouping.compute(m).origin))];
    const around = this.cycle(a, b);
    if (around) {
      const between = [...new Set(around.flatMap((g) => grouping.group(g).members.flatMap((m) => grouping.compute(m).origin)))];
      verdicts.push({
        code: 'CYCLE',
        nodes: between,
        message: `one of them needs a result that is computed from the other outside the kernel (by ${this.policy.names(between)})`,
        counterfactual: `would be possible if ${this.policy.names(between)} were in the same kernel too`,
        confidence: 'proved',
      });
    }
    if (x.length + y.length > MEMBER_LIMIT) {
      verdicts.push({
        code: 'CODE_SIZE',
        nodes,
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
    const ca = this.schedule(a);
    const cb = this.schedule(b);
    const members = [...new Set([...x, ...y])].sort((p, q) => p - q);
    const merged = scheduleGroup(grouping.spec(members), this.options);
    if (!merged.ok) return { ok: false, gainPs: 0, verdicts: merged.verdicts };
    // A part that can't be a kernel alone makes any merge that can welcome.
    const apart = (ca.ok ? ca.value.cost : Number.MAX_SAFE_INTEGER / 4) + (cb.ok ? cb.value.cost : Number.MAX_SAFE_INTEGER / 4);
    const gainPs = apart - merged.value.cost;
    if (gainPs > 0 || !ca.ok || !cb.ok) return { ok: true, gainPs, merged: merged.value, verdicts: [] };
    return { ok: true, gainPs, merged: merged.value, verdicts: [this.slower(ca.value, cb.value, merged.value, nodes)] };
  }

  private slower(a: Scheduled, b: Scheduled, m: Scheduled, nodes: readonly string[]): Verdict {
    const us = (ps: number): string => `${(ps / 1e6).toFixed(1)} µs`;
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
    if (m.features.threads < Math.min(a.features.threads, b.features.threads) && m.features.threads < this.options.device.saturatingThreads) {
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

  /** Copies cheap pointwise producers that several groups read into each of them, where that pays. */
  private recomputeMoves(): boolean {
    let any = false;
    for (const g of this.grouping.ordered()) {
      if (!this.grouping.groups.has(g.id)) continue;
      const members = g.members;
      if (members.some((m) => this.grouping.compute(m).monoid || this.grouping.mustStore(this.grouping.compute(m).value))) continue;
      const consumers = [...this.grouping.consumers(g.id)].sort((a, b) => a - b);
      if (consumers.length === 0 || consumers.length > 8) continue;
      if (!this.policy.mayRecompute(members)) continue;
      const forced = this.policy.mustRecompute(members);
      if (consumers.length < 2 && !forced) continue;
      if (consumers.some((c) => !this.policy.allows(members, this.grouping.group(c).members))) continue;
      let before = this.cost(g.id) ?? 0;
      let after = 0;
      let ok = true;
      for (const c of consumers) {
        const alone = this.cost(c);
        const union = [...new Set([...members, ...this.grouping.group(c).members])].sort((a, b) => a - b);
        if (union.length > MEMBER_LIMIT) {
          ok = false;
          break;
        }
        const spec = this.grouping.spec(union);
        const values = new Set(members.map((m) => this.grouping.compute(m).value));
        const s = scheduleGroup({ ...spec, outputs: spec.outputs.filter((o) => !values.has(o)) }, this.options);
        if (!s.ok || alone === undefined) {
          ok = false;
          break;
        }
        before += alone;
        after += s.value.cost;
      }
      if (!ok || (after >= before && !forced)) continue;
      this.log.push({ kind: 'recompute', left: members, right: consumers.flatMap((c) => this.grouping.group(c).members), gainPs: before - after });
      this.grouping.duplicate(g.id, consumers);
      any = true;
    }
    return any;
  }

  /** Makes the computes one group, whatever the model says; the verdicts when that isn't possible. */
  require(computes: readonly number[]): readonly Verdict[] {
    const ids = new Set<number>();
    for (const c of computes) for (const h of this.grouping.homes[c] ?? []) ids.add(h);
    let [first, ...rest] = [...ids].sort((a, b) => a - b);
    let left = rest;
    while (first !== undefined && left.length > 0) {
      let done = false;
      let last: readonly Verdict[] = [];
      for (const other of left) {
        if (this.cycle(first, other)) {
          last = this.attempt(first, other).verdicts;
          continue;
        }
        const t = this.attempt(first, other);
        if (!t.ok) {
          last = t.verdicts;
          continue;
        }
        const x = this.grouping.group(first).members;
        const y = this.grouping.group(other).members;
        left = left.filter((o) => o !== other);
        first = this.grouping.merge(first, other);
        this.log.push({ kind: 'required', left: x, right: y, gainPs: t.gainPs });
        done = true;
        break;
      }
      if (!done) return last;
    }
    return [];
  }

  // -- A binary heap: largest gain first, then oldest ---------------------------------------------

  private before(a: Candidate, b: Candidate): boolean {
    return a.gain !== b.gain ? a.gain > b.gain : a.order < b.order;
  }

  private push(c: Candidate): void {
    const h = this.heap;
    let i = h.length;
    h.push(c);
    while (i > 0) {
      const p = (i - 1) >> 1;
      const parent = h[p];
      if (!parent || !this.before(c, parent)) break;
      h[i] = parent;
      i = p;
    }
    h[i] = c;
  }

  private pop(): Candidate | undefined {
    const h = this.heap;
    const top = h[0];
    const last = h.pop();
    if (!top || !last || h.length === 0) return top;
    let i = 0;
    for (;;) {
      let k = 2 * i + 1;
      const l = h[k];
      if (!l) break;
      const r = h[k + 1];
      if (r && this.before(r, l)) k++;
      const child = h[k];
      if (!child || !this.before(child, last)) break;
      h[i] = child;
      i = k;
    }
    h[i] = last;
    return top;
  }
}

function only(s: Set<number> | undefined): number | undefined {
  return s?.size === 1 ? [...s][0] : undefined;
}

/** Whether `consumer` reads `producer` only element for element, in the same shape. */
function identityRead(consumer: Compute, producer: Compute): boolean {
  if (consumer.dims.length !== producer.dims.length) return false;
  if (!consumer.dims.every((d, i) => I.same(d.extent, producer.dims[i]?.extent ?? I.num(-1)))) return false;
  let ok = true;
  visitLoads(consumer.body, (l) => {
    if (l.value === producer.value) ok = ok && l.index.every((e, i) => e.key === `d${i}` || (e.key === '0' && I.isConst(producer.dims[i]?.extent ?? I.num(0), 1)));
  });
  return ok;
}
