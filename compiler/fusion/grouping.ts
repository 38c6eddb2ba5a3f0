/**
 * L2 in the making: which compute is in which group, and how groups depend on each other.
 *
 * Vocabulary
 *  - *group*: computes that are to be one kernel. A compute that was duplicated (recompute) is in
 *    several groups; then none of them stores it.
 *  - *output* of a group: a member's value that is stored, because a compute outside reads it, the
 *    graph gives it out, or the user wants it kept.
 *  - *assembled* compute: one in no group, whose value its *pieces* put together in memory, each in its
 *    slice (see destination.ts). What reads the value needs all pieces.
 *  - *rank*: a total order of the computes that doesn't change when independent statements of the
 *    file change places: by depth in the graph, then by id. Ties in the search go by it.
 *
 * The graph of groups is kept along with the groups, so that asking for neighbours costs nothing and
 * a merge costs as much as the two have neighbours.
 */
import type { Compute, Program } from '../ir/compute';
import type { ValueId } from '../ir/expr';
import {
  bodiesOf,
  formalsOf,
  innerNeeds,
  outerNeeds,
  type ProgramRegion,
  resultsOf,
} from '../ir/region';
import { valuesRead } from '../ir/reads';
import { Heap } from './heap';

export interface Group {
  readonly id: number;
  /** Positions in program.computes, ascending (which is topological). */
  readonly members: readonly number[];
  /** The least rank of its members. */
  readonly rank: number;
}

export class Grouping {
  readonly groups = new Map<number, Group>();
  /** The groups that each compute is in. */
  readonly homes: number[][];
  /** For each compute: the computes that it reads, and that read it. */
  readonly reads: readonly (readonly number[])[];
  readonly readers: readonly (readonly number[])[];
  /**
   * For each compute: those that must come first, though it reads nothing of theirs, since a region
   * stands between; and the other way round. Undefined where there are no regions.
   */
  private readonly waits: readonly (readonly number[])[] | undefined;
  private readonly awaited: readonly (readonly number[])[] | undefined;
  /** For each compute: the values that it reads and no compute defines. */
  readonly inputsOf: readonly (readonly ValueId[])[];
  readonly rank: Int32Array;
  /** The same as the plan has it: through pieces where a compute is assembled. */
  private readonly needs: number[][];
  private readonly neededBy: number[][];
  /** By assembled compute: its pieces, none of them assembled in turn. */
  private readonly piecesOf = new Map<number, readonly number[]>();
  /** By compute: the assembled computes that it is a piece of, and those that it reads. */
  private readonly partOf = new Map<number, Set<number>>();
  private readonly readsWhole = new Map<number, Set<number>>();
  /** By compute: whether its value must be in memory whatever reads it. */
  private readonly kept: boolean[];
  private readonly after: (Set<number> | undefined)[] = [];
  private readonly before: (Set<number> | undefined)[] = [];
  /** A topological order of the groups: each one's place; edges lead from lower to higher places. */
  private readonly order: number[] = [];
  /** Marks of the set at hand: a compute is inside when its mark is the present stamp. */
  private readonly mark: Int32Array;
  private stamp = 0;
  private next = 0;
  /**
   * No compute is in several groups, and none is assembled: what members would have to store then
   * doesn't depend on how the others are grouped.
   */
  plain = true;
  /** By group: the walk that met it last. */
  private readonly met: number[] = [];
  private metStamp = 0;
  /** Edges that searches for cycles have gone along: a measure of the search's work. */
  visited = 0;

  constructor(
    readonly program: Program,
    /** Values that must be in memory: graph outputs and what the user materialises. */
    keep: ReadonlySet<ValueId>,
    /** How many of the computes are in groups: those behind are copies, which come in when needed. */
    own = program.computes.length,
    /** Computes that no kernel has, since what they define is computed elsewhere: at load. */
    idle: ReadonlySet<number> = new Set(),
  ) {
    const { computes } = program;
    this.kept = computes.map((c) => keep.has(c.value));
    const index = new Map<ValueId, number>();
    computes.forEach((c, i) => {
      if (!idle.has(i)) index.set(c.value, i);
    });
    const reads: number[][] = [];
    const readers: number[][] = computes.map(() => []);
    const inputs: ValueId[][] = [];
    computes.forEach((c, i) => {
      const from: number[] = [];
      const outside: ValueId[] = [];
      for (const v of valuesRead(c.body)) {
        const p = index.get(v);
        if (p === undefined) outside.push(v);
        else from.push(p);
      }
      reads.push(from);
      inputs.push(outside);
      if (i < own && !idle.has(i)) for (const p of from) readers[p]?.push(i);
    });
    this.reads = reads;
    this.readers = readers;
    this.needs = [...reads];
    this.neededBy = [...readers];
    this.inputsOf = inputs;
    if (program.regions && program.regions.length > 0) {
      this.waits = orderByRegions(program, index, inputs);
      const awaited: number[][] = computes.map(() => []);
      this.waits.forEach((list, i) => {
        for (const p of list) awaited[p]?.push(i);
      });
      this.awaited = awaited;
    }
    this.rank = ranks(program, reads);
    this.mark = new Int32Array(computes.length);
    this.homes = computes.map((_, i) => {
      if (i >= own) return [];
      // The first groups are numbered as the computes are.
      const id = this.next++;
      this.met.push(0);
      if (idle.has(i)) return [];
      this.groups.set(id, { id, members: [i], rank: this.rank[i] ?? 0 });
      return [id];
    });
    for (let i = 0; i < own; i++) {
      if (idle.has(i)) continue;
      this.after[i] = new Set([...(readers[i] ?? []), ...(this.awaited?.[i] ?? [])]);
      this.before[i] = new Set([...(reads[i] ?? []), ...(this.waits?.[i] ?? [])]);
      this.order[i] = i;
    }
  }

  compute(i: number): Compute {
    const c = this.program.computes[i];
    if (!c) throw new Error(`no compute ${i}`);
    return c;
  }

  group(id: number): Group {
    const g = this.groups.get(id);
    if (!g) throw new Error(`no group ${id}`);
    return g;
  }

  /** Whether the compute's value must be in memory whatever reads it. */
  mustStore(compute: number): boolean {
    return this.kept[compute] === true;
  }

  /** By place: whether the member's value would have to be stored, were the members a group beside the present others. */
  stored(members: readonly number[]): boolean[] {
    const stamp = ++this.stamp;
    const { mark } = this;
    for (const m of members) mark[m] = stamp;
    return members.map((m) => {
      if (this.kept[m]) return true;
      const homes = this.homes[m] ?? [];
      for (const r of this.neededBy[m] ?? []) {
        if (mark[r] === stamp) {
          if (this.readOutside(m, r, stamp)) return true;
        } else if (homes.length <= 1 || this.homes[r]?.some((h) => !homes.includes(h)) !== false)
          return true;
      }
      return false;
    });
  }

  /** A reader inside the set may also be a member of a group that lacks what it reads. */
  private readOutside(m: number, reader: number, stamp: number): boolean {
    const homes = this.homes[reader];
    if (!homes || homes.length <= 1) return false;
    for (const h of homes) {
      const g = this.groups.get(h);
      if (!g || g.members.every((x) => this.mark[x] === stamp)) continue;
      if (!g.members.includes(m)) return true;
    }
    return false;
  }

  /** How many values the members read from outside. */
  inputs(members: readonly number[]): number {
    const stamp = ++this.stamp;
    for (const m of members) this.mark[m] = stamp;
    const values = new Set<ValueId>();
    let computed = 0;
    for (const m of members) {
      for (const v of this.inputsOf[m] ?? []) values.add(v);
      for (const p of this.reads[m] ?? []) {
        if (this.mark[p] === stamp) continue;
        // Marked as met: it counts once.
        this.mark[p] = stamp;
        computed++;
      }
    }
    return values.size + computed;
  }

  /** Groups that read what `id` stores. */
  consumers(id: number): ReadonlySet<number> {
    return this.after[id] ?? NONE;
  }

  /** Groups whose stored values `id` reads. */
  producers(id: number): ReadonlySet<number> {
    return this.before[id] ?? NONE;
  }

  // -- Cycles -------------------------------------------------------------------------------------

  /**
   * Whether there is a path between the two that is more than an edge: merging them would make a cycle.
   * Searched from both ends at once, within the stretch of the order between the two, an edge at a time,
   * until one side is exhausted: where one end has thousands of neighbours, the other has few.
   */
  cyclic(a: number, b: number): boolean {
    const [from, to] = this.place(a) <= this.place(b) ? [a, b] : [b, a];
    if (this.regionBetween(from, to)) return true;
    if (onlyOne(this.after[from], to) || onlyOne(this.before[to], from)) return false;
    const lo = this.place(from);
    const hi = this.place(to);
    // Mostly that is seen at once: nothing stands between, or no neighbour of the one or the other does.
    if (hi - lo < 2) return false;
    const between = (g: number): boolean => this.place(g) > lo && this.place(g) < hi;
    if (noneOfFew(this.before[to], between) || noneOfFew(this.after[from], between)) return false;
    const { met } = this;
    const down = (this.metStamp += 2);
    const up = down + 1;
    const below = new EdgeWalk(this.after, from);
    const above = new EdgeWalk(this.before, to);
    // Whether one more edge of a walk completes a path; undefined when it has none left.
    const meets = (
      walk: EdgeWalk,
      end: number,
      mine: number,
      other: number,
    ): boolean | undefined => {
      const g = walk.next();
      if (g === undefined) return undefined;
      this.visited++;
      if (g === end) return !walk.atStart;
      const p = this.place(g);
      if (p <= lo || p >= hi || met[g] === mine) return false;
      if (met[g] === other) return true;
      met[g] = mine;
      walk.enter(g);
      return false;
    };
    for (;;) {
      const found = meets(below, to, down, up);
      if (found !== false) return found === true;
      const back = meets(above, from, up, down);
      if (back !== false) return back === true;
    }
  }

  /** The groups on such a path; none where a region stands between. */
  cycle(a: number, b: number): number[] | undefined {
    if (!this.cyclic(a, b)) return undefined;
    const [from, to] = this.place(a) <= this.place(b) ? [a, b] : [b, a];
    if (this.regionBetween(from, to)) return [];
    const lo = this.place(from);
    const hi = this.place(to);
    const down = new Walk(this.after, from);
    const up = new Walk(this.before, to);
    const near = (g: number): boolean => {
      const p = this.place(g);
      return p > lo && p < hi;
    };
    let met: number | undefined;
    do {
      met = down.step(near, up);
      if (met === -1) met = up.step(near, down);
    } while (met === -1);
    this.visited += down.visited + up.visited;
    return met === undefined ? undefined : pathThrough(met, down, up);
  }

  /** Whether one must wait for a region that waits for the other. */
  private regionBetween(a: number, b: number): boolean {
    const { waits } = this;
    if (!waits) return false;
    const [x, y] = [this.group(a).members, this.group(b).members];
    return (
      y.some((m) => waits[m]?.some((p) => x.includes(p)) === true) ||
      x.some((m) => waits[m]?.some((p) => y.includes(p)) === true)
    );
  }

  private place(id: number): number {
    return this.order[id] ?? 0;
  }

  /**
   * Keeps the order right when `a` and `b` become one: what leads to the later of them moves before
   * the new group, what the earlier leads to moves behind it, within the places that they all had.
   */
  private reorder(a: number, b: number, id: number): void {
    const [from, to] = this.place(a) <= this.place(b) ? [a, b] : [b, a];
    const lo = this.place(from);
    const hi = this.place(to);
    if (hi - lo < 2) {
      this.order[id] = hi;
      return;
    }
    const near = (g: number): boolean => {
      const p = this.place(g);
      return p > lo && p < hi;
    };
    const byPlace = (x: number, y: number): number => this.place(x) - this.place(y);
    const behind = new Walk(this.after, from).all(near).sort(byPlace);
    const ahead = new Walk(this.before, to).all(near).sort(byPlace);
    this.visited += behind.length + ahead.length;
    const places = [
      lo,
      hi,
      ...behind.map((g) => this.place(g)),
      ...ahead.map((g) => this.place(g)),
    ].sort((x, y) => x - y);
    let next = 0;
    for (const g of [...ahead, id]) this.order[g] = places[next++] ?? 0;
    // One place is left over: those behind keep theirs or move on.
    next++;
    for (const g of behind) this.order[g] = places[next++] ?? 0;
  }

  // -- Changes ------------------------------------------------------------------------------------

  private add(members: readonly number[]): number {
    const id = this.next++;
    this.met.push(0);
    let rank = Infinity;
    for (const m of members) rank = Math.min(rank, this.rank[m] ?? 0);
    this.groups.set(id, { id, members, rank });
    return id;
  }

  private move(m: number, from: readonly number[], to: number): void {
    const homes = this.homes[m];
    if (!homes) return;
    let n = 0;
    for (const h of homes) if (!from.includes(h)) homes[n++] = h;
    homes.length = n;
    homes.push(to);
  }

  merge(a: number, b: number): number {
    const members = union(this.group(a).members, this.group(b).members);
    const id = this.add(members);
    this.reorder(a, b, id);
    this.groups.delete(a);
    this.groups.delete(b);
    for (const m of members) this.move(m, [a, b], id);
    this.after[id] = this.contract(this.after, this.before, a, b, id);
    this.before[id] = this.contract(this.before, this.after, a, b, id);
    return id;
  }

  /** The neighbours of two groups in one direction, as those of their union, which takes their place there. */
  private contract(
    out: (Set<number> | undefined)[],
    back: (Set<number> | undefined)[],
    a: number,
    b: number,
    id: number,
  ): Set<number> {
    const next = new Set<number>();
    for (const old of [a, b]) {
      for (const c of out[old] ?? []) {
        if (c === a || c === b) continue;
        next.add(c);
        const s = back[c];
        s?.delete(old);
        s?.add(id);
      }
      out[old] = undefined;
    }
    return next;
  }

  /** Gives each of the consumers its own copy of the group's members and drops the group. */
  duplicate(id: number, into: readonly number[]): number[] {
    this.plain = false;
    const g = this.group(id);
    this.groups.delete(id);
    for (const m of g.members) this.homes[m] = (this.homes[m] ?? []).filter((h) => h !== id);
    const fresh = into.map((c) => {
      const members = union(g.members, this.group(c).members);
      const copy = this.add(members);
      // What the copy reads stands before the group that is copied, which stands before its readers.
      this.order[copy] = this.place(c);
      this.groups.delete(c);
      for (const m of members) this.move(m, [c], copy);
      return copy;
    });
    this.relink([id, ...into], fresh);
    return fresh;
  }

  // -- Assembling ---------------------------------------------------------------------------------

  assembled(compute: number): boolean {
    return this.piecesOf.has(compute);
  }

  /** The computes that put the value of this one into memory: its pieces, or itself. */
  pieces(compute: number): readonly number[] {
    return this.piecesOf.get(compute) ?? [compute];
  }

  /** The assembled computes that the members store pieces of. */
  joins(members: readonly number[]): number[] {
    if (this.partOf.size === 0) return [];
    const out = new Set<number>();
    for (const m of members) for (const d of this.partOf.get(m) ?? []) out.add(d);
    return [...out].sort((x, y) => x - y);
  }

  /**
   * A compute of which the members store pieces and also read the whole: in one kernel, one invocation
   * would read what another may not have stored yet.
   */
  torn(members: readonly number[]): number | undefined {
    if (this.partOf.size === 0) return undefined;
    const stored = new Set(this.joins(members));
    if (stored.size === 0) return undefined;
    for (const m of members)
      for (const d of this.readsWhole.get(m) ?? []) if (stored.has(d)) return d;
    return undefined;
  }

  /** What the members need of `within` to compute `roots`, those of them included. */
  upstream(roots: readonly number[], within: ReadonlySet<number>): number[] {
    const out = new Set<number>();
    const open = roots.filter((r) => within.has(r));
    for (let m = open.pop(); m !== undefined; m = open.pop()) {
      if (out.has(m)) continue;
      out.add(m);
      for (const p of this.needs[m] ?? []) if (within.has(p)) open.push(p);
    }
    return [...out].sort((x, y) => x - y);
  }

  /** The computes that one reads, pieces in the place of assembled ones. */
  needed(compute: number): readonly number[] {
    return this.needs[compute] ?? [];
  }

  /** What reads the value of a compute, or the whole that it is a piece of, as computes. */
  readersNow(compute: number): readonly number[] {
    return this.neededBy[compute] ?? [];
  }

  /**
   * Takes a compute out of its group: its value is put together by the pieces `by` instead, some of
   * which may be assembled themselves. `groups` are what becomes of the others of its group, and of the
   * copies among the pieces. The new groups are returned in that order; {@link renumber} must follow.
   */
  assemble(
    compute: number,
    by: readonly number[],
    groups: readonly (readonly number[])[],
  ): number[] {
    this.plain = false;
    const [home] = this.homes[compute] ?? [];
    if (home === undefined || this.homes[compute]?.length !== 1)
      throw new Error('a compute that is in no group, or in several');
    const pieces = [...new Set(by.flatMap((p) => this.pieces(p)))].sort((x, y) => x - y);
    const fresh = new Set(groups.flat());
    for (const m of this.group(home).members) this.homes[m] = [];
    this.groups.delete(home);
    this.homes[compute] = [];
    this.piecesOf.set(compute, pieces);
    const without = (list: readonly number[] | undefined, x: number): number[] =>
      (list ?? []).filter((y) => y !== x);
    // Copies come into the graph.
    for (const c of fresh) {
      const from = this.reads[c] ?? [];
      this.needs[c] = [...new Set(from.flatMap((p) => this.pieces(p)))];
      for (const p of this.needs[c] ?? [])
        if (!this.neededBy[p]?.includes(c)) this.neededBy[p] = [...(this.neededBy[p] ?? []), c];
      for (const p of from) if (this.assembled(p)) this.readWhole(c, p);
    }
    for (const p of this.needs[compute] ?? [])
      this.neededBy[p] = without(this.neededBy[p], compute);
    this.needs[compute] = [];
    for (const r of this.neededBy[compute] ?? []) {
      this.needs[r] = [...new Set([...without(this.needs[r], compute), ...pieces])];
      this.readWhole(r, compute);
      for (const p of pieces)
        if (!this.neededBy[p]?.includes(r)) this.neededBy[p] = [...(this.neededBy[p] ?? []), r];
    }
    this.neededBy[compute] = [];
    // A piece of others hands that on.
    const wholes = [compute, ...(this.partOf.get(compute) ?? [])];
    this.partOf.delete(compute);
    for (const whole of wholes) {
      if (whole === compute) continue;
      const rest = without(this.piecesOf.get(whole), compute);
      this.piecesOf.set(
        whole,
        [...new Set([...rest, ...pieces])].sort((x, y) => x - y),
      );
    }
    for (const p of pieces) {
      const set = this.partOf.get(p) ?? new Set();
      this.partOf.set(p, set);
      for (const whole of wholes) set.add(whole);
      if (this.kept[compute]) this.kept[p] = true;
    }
    const made = groups.map((members) => {
      const id = this.add(members);
      for (const m of members) this.homes[m] = [id];
      return id;
    });
    this.relink([home], made);
    return made;
  }

  private readWhole(reader: number, compute: number): void {
    const set = this.readsWhole.get(reader);
    if (set) set.add(compute);
    else this.readsWhole.set(reader, new Set([compute]));
  }

  /** Finds the order of the groups anew, after some have been taken apart. */
  renumber(): void {
    this.ordered().forEach((g, i) => (this.order[g.id] = i));
  }

  /** Finds the neighbours of new groups from their members, and puts them in the old ones' place. */
  private relink(gone: readonly number[], fresh: readonly number[]): void {
    const around = new Set<number>(fresh);
    for (const g of gone) {
      for (const x of this.after[g] ?? []) around.add(x);
      for (const x of this.before[g] ?? []) around.add(x);
      this.after[g] = undefined;
      this.before[g] = undefined;
    }
    for (const g of gone) around.delete(g);
    for (const g of around) {
      this.after[g] = this.readersOf(g);
      this.before[g] = this.writersFor(g);
    }
  }

  private readersOf(id: number): Set<number> {
    const out = new Set<number>();
    for (const m of this.group(id).members) {
      for (const r of this.neededBy[m] ?? []) {
        // A group with its own copy doesn't read ours.
        for (const h of this.homes[r] ?? [])
          if (h !== id && this.homes[m]?.includes(h) !== true) out.add(h);
      }
      for (const r of this.awaited?.[m] ?? [])
        for (const h of this.homes[r] ?? []) if (h !== id) out.add(h);
    }
    return out;
  }

  private writersFor(id: number): Set<number> {
    const out = new Set<number>();
    for (const m of this.group(id).members) {
      for (const p of this.needs[m] ?? []) {
        const homes = this.homes[p];
        if (!homes || homes.includes(id)) continue;
        for (const h of homes) out.add(h);
      }
      for (const p of this.waits?.[m] ?? [])
        for (const h of this.homes[p] ?? []) if (h !== id) out.add(h);
    }
    return out;
  }

  /** Groups in an order in which each comes after those it reads from; ties by first member. */
  ordered(): Group[] {
    return this.orderedBundles([]).flat();
  }

  /** The same with some groups bundled: the groups of a bundle come together. */
  orderedBundles(bundles: readonly (readonly number[])[]): Group[][] {
    const out = this.bundleOrder(bundles);
    if (!out) throw new Error('the plan has a cycle');
    return out;
  }

  /** Undefined where a bundle would need what another makes, and the other what the one makes. */
  bundleOrder(bundles: readonly (readonly number[])[]): Group[][] | undefined {
    const bundleOf = new Map<number, Bundle>();
    const all: Bundle[] = [];
    const bundle = (ids: readonly number[]): void => {
      const groups = ids.map((id) => this.group(id));
      const first = Math.min(...groups.map((g) => g.members[0] ?? 0));
      const made = { groups, first, id: Math.min(...ids), waits: 0 };
      all.push(made);
      for (const id of ids) bundleOf.set(id, made);
    };
    for (const ids of bundles) bundle(ids);
    for (const id of this.groups.keys()) if (!bundleOf.has(id)) bundle([id]);
    const ready = new Heap<Bundle>((a, b) =>
      a.first !== b.first ? a.first < b.first : a.id < b.id,
    );
    for (const b of all) {
      for (const g of b.groups) b.waits += this.producers(g.id).size;
      if (b.waits === 0) ready.push(b);
    }
    const out: Group[][] = [];
    for (let b = ready.pop(); b; b = ready.pop()) {
      out.push([...b.groups]);
      for (const g of b.groups) {
        for (const c of this.consumers(g.id)) {
          const of = bundleOf.get(c);
          if (of && --of.waits === 0) ready.push(of);
        }
      }
    }
    return out.length === all.length ? out : undefined;
  }
}

interface Bundle {
  readonly groups: readonly Group[];
  /** The first member of all, and the least id: what ties go by. */
  readonly first: number;
  readonly id: number;
  /** Edges from groups that are not out yet. */
  waits: number;
}

const NONE: ReadonlySet<number> = new Set();

/** Whether the set holds `x` and no more, or nothing at all. */
function onlyOne(s: ReadonlySet<number> | undefined, x: number): boolean {
  return !s || s.size === 0 || (s.size === 1 && s.has(x));
}

/** Whether the set is small, and nothing in it is so. */
function noneOfFew(s: ReadonlySet<number> | undefined, so: (x: number) => boolean): boolean {
  if (!s) return true;
  if (s.size > 8) return false;
  for (const x of s) if (so(x)) return false;
  return true;
}

/** The edges in one direction from a group and from those that are entered, one by one. */
class EdgeWalk {
  private readonly queue: number[] = [];
  private at = 0;
  private edges: Iterator<number>;

  constructor(
    private readonly neighbours: readonly (ReadonlySet<number> | undefined)[],
    start: number,
  ) {
    this.edges = (neighbours[start] ?? NONE).values();
  }

  /** Whether the last edge was one of the group that the walk started from. */
  get atStart(): boolean {
    return this.at === 0;
  }

  enter(g: number): void {
    this.queue.push(g);
  }

  /** Where the next edge leads; undefined when there is none left. */
  next(): number | undefined {
    for (;;) {
      const e = this.edges.next();
      if (e.done !== true) return e.value;
      const g = this.queue[this.at++];
      if (g === undefined) return undefined;
      this.edges = (this.neighbours[g] ?? NONE).values();
    }
  }
}

/** A search along the edges in one direction, breadth first. */
class Walk {
  /** Where each group was reached from. */
  readonly parent = new Map<number, number>();
  private readonly queue: number[];
  private at = 0;

  constructor(
    private readonly next: readonly (ReadonlySet<number> | undefined)[],
    readonly start: number,
  ) {
    this.queue = [start];
  }

  get visited(): number {
    return this.at;
  }

  /** Visits one group: undefined when none is left, the group where it met the other walk, or -1. */
  step(near: (g: number) => boolean, other?: Walk): number | undefined {
    const g = this.queue[this.at];
    if (g === undefined) return undefined;
    this.at++;
    for (const c of this.next[g] ?? NONE) {
      if (!near(c) || this.parent.has(c)) continue;
      this.parent.set(c, g);
      if (other?.parent.has(c)) return c;
      this.queue.push(c);
    }
    return -1;
  }

  /** All groups that it reaches. */
  all(near: (g: number) => boolean): number[] {
    while (this.step(near) !== undefined);
    return this.queue.slice(1);
  }
}

function pathThrough(middle: number, down: Walk, up: Walk): number[] {
  const path: number[] = [];
  for (
    let g: number | undefined = middle;
    g !== undefined && g !== down.start;
    g = down.parent.get(g)
  )
    path.push(g);
  path.reverse();
  for (let g = up.parent.get(middle); g !== undefined && g !== up.start; g = up.parent.get(g))
    path.push(g);
  return path;
}

/** Two ascending lists as one, without repeats. */
export function union(a: readonly number[], b: readonly number[]): number[] {
  const out: number[] = [];
  let i = 0;
  let j = 0;
  for (;;) {
    const x = a[i];
    const y = b[j];
    if (x === undefined && y === undefined) return out;
    if (y === undefined || (x !== undefined && x <= y)) {
      if (x !== undefined) out.push(x);
      if (x === y) j++;
      i++;
    } else {
      out.push(y);
      j++;
    }
  }
}

/** For each compute: all that the regions whose values it reads have to wait for. */
function orderByRegions(
  program: Program,
  index: ReadonlyMap<ValueId, number>,
  inputs: readonly (readonly ValueId[])[],
): number[][] {
  const sources = new Map<ValueId, ReadonlySet<number>>();
  const inBody = new Map<string, number[]>();
  program.computes.forEach((c, i) => {
    if (c.region === undefined) return;
    const list = inBody.get(c.region);
    if (list) list.push(i);
    else inBody.set(c.region, [i]);
  });
  const of = (v: ValueId): Iterable<number> => {
    const p = index.get(v);
    return p === undefined ? (sources.get(v) ?? []) : [p];
  };
  const regions = program.regions ?? [];
  const within = (r: ProgramRegion): number[] =>
    bodiesOf(r).flatMap((b) => [
      ...(inBody.get(b) ?? []),
      ...regions.filter((x) => x.parent === b).flatMap(within),
    ]);
  // Those inside another end before it, but wait for what it is given: once more for each level.
  const depth = (r: ProgramRegion): number => {
    const around = regions.find((x) => r.parent !== undefined && bodiesOf(x).includes(r.parent));
    return around ? 1 + depth(around) : 0;
  };
  const passes = 1 + Math.max(...regions.map(depth));
  for (let pass = 0; pass < passes; pass++)
    for (const r of regions) {
      const given = new Set(outerNeeds(r).flatMap((v) => [...of(v)]));
      for (const v of formalsOf(r)) sources.set(v, given);
      const all = new Set([...given, ...within(r), ...innerNeeds(r).flatMap((v) => [...of(v)])]);
      for (const v of resultsOf(r)) sources.set(v, all);
    }
  return inputs.map((list, i) => {
    const out = new Set<number>();
    for (const v of list) for (const p of sources.get(v) ?? []) if (p !== i) out.add(p);
    return [...out];
  });
}

/** Computes by depth in the graph, then by id: see *rank*. */
function ranks(program: Program, reads: readonly (readonly number[])[]): Int32Array {
  const depth = new Int32Array(program.computes.length);
  reads.forEach((from, i) => {
    let d = 0;
    for (const p of from) d = Math.max(d, (depth[p] ?? 0) + 1);
    depth[i] = d;
  });
  const order = program.computes.map((_, i) => i);
  const id = (i: number): string => program.computes[i]?.value ?? '';
  order.sort((a, b) => (depth[a] ?? 0) - (depth[b] ?? 0) || (id(a) < id(b) ? -1 : 1));
  const out = new Int32Array(order.length);
  order.forEach((c, i) => (out[c] = i));
  return out;
}
