/**
 * L2 in the making: which compute is in which group, and how groups depend on each other.
 *
 * Vocabulary
 *  - *group*: computes that are to be one kernel. A compute that was duplicated (recompute) is in
 *    several groups; then none of them stores it.
 *  - *output* of a group: a member's value that is stored, because a compute outside reads it, the
 *    graph gives it out, or the user wants it kept.
 */
import type { Compute, Program } from '../ir/compute';
import type { ValueId } from '../ir/expr';
import type { GroupSpec } from '../schedule/group';
import { visitLoads } from '../schedule/group';

export interface Group {
  readonly id: number;
  /** Positions in program.computes, ascending (which is topological). */
  readonly members: readonly number[];
}

export class Grouping {
  readonly groups = new Map<number, Group>();
  /** The groups that each compute is in. */
  readonly homes: Set<number>[];
  /** For each compute: the computes that it reads, and that read it. */
  readonly reads: readonly (readonly number[])[];
  readonly readers: readonly (readonly number[])[];
  readonly inputsOf: readonly (readonly ValueId[])[];
  private readonly stored = new Set<ValueId>();
  private next = 0;

  constructor(
    readonly program: Program,
    /** Values that must be in memory: graph outputs and what the user materialises. */
    keep: ReadonlySet<ValueId>,
  ) {
    for (const v of keep) this.stored.add(v);
    const index = new Map<ValueId, number>();
    program.computes.forEach((c, i) => index.set(c.value, i));
    const reads: number[][] = [];
    const readers: number[][] = program.computes.map(() => []);
    const inputs: ValueId[][] = [];
    program.computes.forEach((c, i) => {
      const from = new Set<number>();
      const outside = new Set<ValueId>();
      visitLoads(c.body, (l) => {
        const p = index.get(l.value);
        if (p === undefined) outside.add(l.value);
        else from.add(p);
      });
      reads.push([...from]);
      inputs.push([...outside]);
      for (const p of from) readers[p]?.push(i);
    });
    this.reads = reads;
    this.readers = readers;
    this.inputsOf = inputs;
    this.homes = program.computes.map((_, i) => {
      const id = this.next++;
      this.groups.set(id, { id, members: [i] });
      return new Set([id]);
    });
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

  mustStore(v: ValueId): boolean {
    return this.stored.has(v);
  }

  /** The values that a set of computes would have to store, were it a group beside the present others. */
  outputs(members: readonly number[]): ValueId[] {
    const inside = new Set(members);
    const out: ValueId[] = [];
    for (const m of members) {
      const v = this.compute(m).value;
      if (this.stored.has(v) || (this.readers[m] ?? []).some((r) => this.readsFromMemory(m, r, inside))) out.push(v);
    }
    return out;
  }

  /** Whether `reader`, in any group it is in, lacks a copy of `m` beside it. */
  private readsFromMemory(m: number, reader: number, inside: ReadonlySet<number>): boolean {
    const own = this.homes[m];
    const homes = this.homes[reader];
    if (!own || !homes) return false;
    if (own.size <= 1 && homes.size <= 1) return !inside.has(reader);
    for (const h of homes) {
      if (own.has(h)) continue;
      // A group that is part of the set has the set's copy.
      if (inside.has(reader) && this.group(h).members.every((x) => inside.has(x))) continue;
      return true;
    }
    return false;
  }

  spec(members: readonly number[]): GroupSpec {
    return { program: this.program, members: members.map((m) => this.compute(m)), outputs: this.outputs(members) };
  }

  /** Groups that read what `id` stores. */
  consumers(id: number): Set<number> {
    const out = new Set<number>();
    for (const m of this.group(id).members) {
      for (const r of this.readers[m] ?? []) {
        for (const h of this.homes[r] ?? []) {
          if (h === id) continue;
          // A group with its own copy doesn't read ours.
          if (this.homes[m]?.has(h)) continue;
          out.add(h);
        }
      }
    }
    return out;
  }

  producers(id: number): Set<number> {
    const out = new Set<number>();
    for (const m of this.group(id).members) {
      for (const p of this.reads[m] ?? []) {
        const homes = this.homes[p];
        if (!homes || homes.has(id)) continue;
        for (const h of homes) {
          out.add(h);
          break;
        }
      }
    }
    return out;
  }

  /** Whether a path leads from `from` to `to` through a group that is neither: merging the two would make a cycle. */
  pathAround(from: number, to: number): number[] | undefined {
    const target = this.group(to);
    const last = target.members[target.members.length - 1] ?? 0;
    const parent = new Map<number, number>();
    const stack: number[] = [];
    for (const c of this.consumers(from)) {
      if (c === to || parent.has(c)) continue;
      parent.set(c, from);
      stack.push(c);
    }
    for (;;) {
      const g = stack.pop();
      if (g === undefined) return undefined;
      // Everything it leads to comes after its first member: past the target's last there is no way to it.
      if ((this.group(g).members[0] ?? 0) > last) continue;
      for (const c of this.consumers(g)) {
        if (c === to) {
          const path: number[] = [];
          for (let x: number | undefined = g; x !== undefined && x !== from; x = parent.get(x)) path.unshift(x);
          return path;
        }
        if (c === from || parent.has(c)) continue;
        parent.set(c, g);
        stack.push(c);
      }
    }
  }

  merge(a: number, b: number): number {
    const members = [...new Set([...this.group(a).members, ...this.group(b).members])].sort((x, y) => x - y);
    const id = this.next++;
    this.groups.delete(a);
    this.groups.delete(b);
    this.groups.set(id, { id, members });
    for (const m of members) {
      const homes = this.homes[m];
      homes?.delete(a);
      homes?.delete(b);
      homes?.add(id);
    }
    return id;
  }

  /** Gives each of the consumers its own copy of the group's members and drops the group. */
  duplicate(id: number, into: readonly number[]): number[] {
    const g = this.group(id);
    this.groups.delete(id);
    for (const m of g.members) this.homes[m]?.delete(id);
    return into.map((c) => {
      const members = [...new Set([...g.members, ...this.group(c).members])].sort((x, y) => x - y);
      const fresh = this.next++;
      this.groups.delete(c);
      this.groups.set(fresh, { id: fresh, members });
      for (const m of members) {
        this.homes[m]?.delete(c);
        this.homes[m]?.add(fresh);
      }
      return fresh;
    });
  }

  /** Groups in an order in which each comes after those it reads from; ties by first member. */
  ordered(): Group[] {
    const waits = new Map<number, number>();
    for (const id of this.groups.keys()) waits.set(id, this.producers(id).size);
    const ready = [...this.groups.values()].filter((g) => waits.get(g.id) === 0);
    const byFirst = (a: Group, b: Group): number => (a.members[0] ?? 0) - (b.members[0] ?? 0) || a.id - b.id;
    ready.sort(byFirst);
    const out: Group[] = [];
    while (ready.length > 0) {
      const g = ready.shift();
      if (!g) break;
      out.push(g);
      for (const c of this.consumers(g.id)) {
        const w = (waits.get(c) ?? 0) - 1;
        waits.set(c, w);
        if (w !== 0) continue;
        const next = this.group(c);
        // Insert by binary search: the list stays sorted.
        let lo = 0;
        let hi = ready.length;
        while (lo < hi) {
          const mid = (lo + hi) >> 1;
          const at = ready[mid];
          if (at && byFirst(at, next) < 0) lo = mid + 1;
          else hi = mid;
        }
        ready.splice(lo, 0, next);
      }
    }
    if (out.length !== this.groups.size) throw new Error('the plan has a cycle');
    return out;
  }
}
