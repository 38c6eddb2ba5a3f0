/**
 * Concat-into-destination moves: where the result of a concatenation must be in memory, whatever makes
 * an operand stores it where it belongs in the result, and no kernel copies.
 *
 * The result is then *assembled* (see grouping.ts): its compute is in no group. An operand that a
 * kernel makes, and that lies nowhere else yet, becomes a slice of the result's buffer, for all that
 * read it; other operands (inputs, what is given out itself, the same operand again) are copied into
 * their slices by small kernels. What the result's own kernel did besides goes to groups of its own: a
 * ReLU on the way to the concatenation joins the product before it, if that pays.
 *
 * Concatenations are looked at once each, in the program's order, so that one inside another is settled
 * first, and becomes a slice of the other as a whole.
 */
import type { ValueId } from '../ir/expr';
import type { Slice } from '../schedule/slices';
import { type Group, union } from './grouping';
import type { Joined, JoinedPart } from './joined';
import { IMPOSSIBLE_PS, MEMBER_LIMIT, type Search } from './search';

/** Puts results together in memory where that pays; the groups that have changed. */
export function assembleJoined(search: Search, joined: readonly Joined[]): number[] {
  const changed = new Set<number>();
  for (const j of joined) if (!search.halted) new Move(search, j).take(changed);
  // One that could be copied into its readers, and has become a slice instead: now it can't.
  for (const j of joined) {
    const { value } = search.grouping.compute(j.compute);
    if (search.halted) break;
    if (search.memo.slices.has(value) && !search.grouping.assembled(j.compute))
      new Move(search, j).take(changed);
  }
  if (changed.size > 0) search.grouping.renumber();
  return [...changed].filter((id) => search.grouping.groups.has(id));
}

/** What fills a part: a compute of the program that is stored into it, or the part's copy. */
interface Filling {
  readonly compute: number;
  readonly value: ValueId;
  readonly slice: Slice;
  readonly copied: boolean;
}

class Move {
  private readonly d: number;

  constructor(
    private readonly search: Search,
    private readonly joined: Joined,
  ) {
    this.d = joined.compute;
  }

  take(changed: Set<number>): void {
    const { search, d } = this;
    const { grouping, memo } = search;
    const group = this.group();
    if (!group) return;
    const fillings = this.fillings();
    if (fillings.every((f) => f.copied)) return;
    const above = new Set(grouping.upstream([d], new Set(group.members)).filter((m) => m !== d));
    const pieces = this.pieces(fillings, above);
    const rest = group.members.filter((m) => m !== d && !above.has(m));
    // Other groups that make operands (those of an assembled one make its pieces), or what those need
    // that the result's own group made.
    const outside = fillings
      .flatMap((f) => grouping.pieces(f.compute))
      .concat([...above].flatMap((m) => grouping.needed(m)));
    const makers = new Set(outside.flatMap((p) => grouping.homes[p] ?? []));
    makers.delete(group.id);
    const before = this.costs([group.id, ...makers]);
    for (const f of fillings) memo.slices.set(f.value, f.slice);
    const after = this.price(pieces, rest, search.byRank(makers));
    if (after === undefined || after >= before - Math.max(0, search.copyingGain(group.id))) {
      for (const f of fillings) memo.slices.delete(f.value);
      return;
    }
    const left = [...new Set(fillings.flatMap((f) => grouping.pieces(f.compute)))];
    const gainPs = Math.min(before, IMPOSSIBLE_PS) - after;
    search.note({ kind: 'destination', left, right: [d], gainPs }, [], []);
    const groups = rest.length > 0 ? [...pieces, rest] : pieces;
    const made = grouping.assemble(
      d,
      fillings.map((f) => f.compute),
      groups,
    );
    // What reads or stores a value that has moved has other code than before.
    for (const p of grouping.pieces(d))
      for (const m of [p, ...grouping.readersNow(p)])
        for (const home of grouping.homes[m] ?? []) search.forget(home);
    for (const id of [...made, ...makers]) changed.add(id);
  }

  /** The group that stores the result, if it may be taken apart. */
  private group(): Group | undefined {
    const { search, d } = this;
    const { grouping } = search;
    const homes = grouping.homes[d];
    const [home] = homes ?? [];
    if (home === undefined || homes?.length !== 1) return undefined;
    const group = grouping.group(home);
    const { members } = group;
    if (!grouping.stored(members)[members.indexOf(d)]) return undefined;
    for (const m of members) {
      if (grouping.homes[m]?.length !== 1) return undefined;
      if (members.length > 1 && search.pinned.has(m)) return undefined;
    }
    return group;
  }

  private fillings(): Filling[] {
    const { search, d } = this;
    const { grouping, memo, policy } = search;
    const taken = new Set<number>();
    const operand = (part: JoinedPart): Filling | undefined => {
      const { source } = part;
      if (!source) return undefined;
      const compute = search.positions.get(source.value);
      if (compute === undefined || taken.has(compute)) return undefined;
      if (memo.slices.has(source.value) || grouping.mustStore(compute)) return undefined;
      if (!grouping.assembled(compute) && grouping.homes[compute]?.length !== 1) return undefined;
      if (!policy.allows([compute], [d])) return undefined;
      taken.add(compute);
      return { compute, value: source.value, slice: source.slice, copied: false };
    };
    return this.joined.parts.map(
      (part) =>
        operand(part) ?? {
          compute: part.copy,
          value: grouping.compute(part.copy).value,
          slice: part.copySlice,
          copied: true,
        },
    );
  }

  /** The groups that make the operands that the result's own group made, and that copy. */
  private pieces(fillings: readonly Filling[], above: ReadonlySet<number>): number[][] {
    const { grouping } = this.search;
    let out: number[][] = [];
    for (const f of fillings) {
      if (!f.copied && !above.has(f.compute)) continue;
      const from = f.copied ? (grouping.reads[f.compute] ?? []) : [f.compute];
      let own = grouping.upstream(from, above);
      if (f.copied) own = union(own, [f.compute]);
      // What they share is computed once.
      const shares = (g: readonly number[]): boolean => g.some((m) => own.includes(m));
      for (const g of out.filter(shares)) own = union(own, g);
      out = [...out.filter((g) => !shares(g)), own];
    }
    return out;
  }

  private costs(groups: readonly number[]): number {
    return groups.reduce((sum, id) => sum + (this.search.cost(id) ?? IMPOSSIBLE_PS), 0);
  }

  private ask(members: readonly number[]): number | undefined {
    const { search } = this;
    if (members.length > MEMBER_LIMIT) return undefined;
    const stored = search.grouping
      .stored(members)
      .map((s, i) => s || search.isCopy(members[i] ?? 0));
    const { result } = search.memo.ask(members, stored, false);
    return result.ok ? result.value.cost : undefined;
  }

  /** What it all costs afterwards; undefined where no template can run some of it. */
  private price(
    pieces: readonly (readonly number[])[],
    rest: readonly number[],
    makers: readonly number[],
  ): number | undefined {
    const { search } = this;
    const { grouping } = search;
    const now = new Map<number, { members: readonly number[]; cost: number }>();
    for (const id of makers) {
      const { members } = grouping.group(id);
      const cost = this.ask(members);
      if (cost === undefined) return undefined;
      now.set(id, { members, cost });
    }
    let sum = 0;
    if (rest.length > 0) {
      const cost = this.ask(rest);
      if (cost === undefined) return undefined;
      sum += cost;
    }
    let copies = 0;
    for (const piece of pieces) {
      const alone = this.ask(piece);
      if (alone === undefined) return undefined;
      if (piece.every((m) => search.isCopy(m))) {
        // Copies share grids.
        sum += alone - search.launchPs;
        copies++;
        continue;
      }
      // Into the group that it reads from, if that pays.
      let best: { id: number; members: readonly number[]; cost: number } | undefined;
      let gain = 0;
      for (const [id, m] of now) {
        if (!piece.some((c) => grouping.reads[c]?.some((p) => m.members.includes(p)))) continue;
        if (!search.policy.allows(m.members, piece)) continue;
        const members = union(m.members, piece);
        const cost = this.ask(members);
        if (cost === undefined || m.cost + alone - cost <= gain) continue;
        gain = m.cost + alone - cost;
        best = { id, members, cost };
      }
      if (best) now.set(best.id, best);
      else sum += alone;
    }
    // One of the buffers is the result's.
    const most = search.options.device.limits.maxStorageBuffersPerShaderStage - 1;
    sum += Math.ceil(copies / Math.max(1, most)) * search.launchPs;
    for (const m of now.values()) sum += m.cost;
    return sum;
  }
}
