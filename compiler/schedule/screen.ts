/**
 * What can be told of a group before any code is built: lower bounds that rule a template out.
 *
 * The search asks about many merges and takes few. A bound that is over the limit saves building the
 * code only to count the same there; where a decision needs the reasons with their numbers, the code
 * is built all the same.
 *
 * Vocabulary
 *  - *open* dim of a member: one that the code which evaluates it runs over as a whole. Index
 *    conditions on open dims that their ranges don't decide are left to run time: both sides are built.
 *  - *certain*: what is evaluated in any case: outputs, and what certain members load, but for sides
 *    of conditions that are never taken, or that might not be.
 *  - *tainted* dim: one whose index varies with the loop of an enclosing reduction, so that the value
 *    is evaluated anew in every turn of the loop.
 */
import type { Compute } from '../ir/compute';
import type { Expr, IndexCond, ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import { bound, boundElements, extents, type GroupSpec } from './group';
import type { Placement } from './placement';
import { rootOf } from './slices';

/** A reduction may be evaluated this many times over before it counts as repeated. */
export const REPEAT_LIMIT = 1.5;

/** Invocations of a workgroup, at most: evaluations are counted by whole workgroups. */
const MOST_INVOCATIONS = 256;

type Load = Expr & { op: 'load' };

export class Screen {
  private readonly byValue = new Map<ValueId, Compute>();
  /** Certain members with their open dims. */
  private readonly certain = new Map<ValueId, ReadonlySet<string>>();
  private readonly inputs = new Set<ValueId>();

  constructor(private readonly group: GroupSpec) {
    for (const m of group.members) this.byValue.set(m.value, m);
    for (const o of group.outputs) {
      const m = this.byValue.get(o);
      if (m) this.certain.set(o, new Set(m.dims.map((d) => d.name)));
    }
    for (let i = group.members.length - 1; i >= 0; i--) {
      const m = group.members[i];
      const open = m && this.certain.get(m.value);
      if (!m || !open) continue;
      const names = withReduce(open, m);
      certainLoads(m.body, names, (l) => {
        const of = this.byValue.get(l.value);
        if (!of) {
          this.inputs.add(l.value);
          return;
        }
        const dims = openDims(l, of, names);
        const old = this.certain.get(l.value);
        if (!old || old.size < dims.size) this.certain.set(l.value, dims);
      });
    }
  }

  /** Buffers that any kernel of the group binds, at least. */
  get buffers(): number {
    const { slices, outputs } = this.group;
    if (!slices) return this.inputs.size + outputs.length;
    return new Set([...this.inputs, ...outputs].map((v) => rootOf(slices, v))).size;
  }

  /**
   * Whether the loop template would compute some reduction several times over: because there are more
   * invocations than the reduction has results, or because it stands inside another reduction's loop.
   */
  repeatsInLoop(workgroup: number): boolean {
    const { outputs } = this.group;
    let most = 0;
    for (const o of outputs) {
      const m = this.byValue.get(o);
      if (m) most = Math.max(most, this.elements(m));
    }
    const whole = (n: number): number => Math.ceil(n / workgroup) * workgroup;
    const threads = whole(most);
    const repeats = (m: Compute, turns: number): boolean =>
      threads * turns > REPEAT_LIMIT * whole(this.elements(m));
    for (const m of this.group.members) {
      if (!m.monoid || !this.certain.has(m.value)) continue;
      if (repeats(m, 1)) return true;
      if (this.reaches(m, this.turns(m), repeats)) return true;
    }
    return false;
  }

  /**
   * Whether the row template would compute some reduction several times over: one that is neither a
   * scalar of the row nor kept for it, inside the loop of one that is; or one that is kept for a row
   * and is the same for several.
   */
  repeatsInRows(placement: Placement, kept: ReadonlySet<ValueId>): boolean {
    const { program } = this.group;
    const rows = boundElements(program, placement.rows);
    const scalar = (m: Compute): boolean => placement.placed.get(m.value)?.free.length === 0;
    const whole = (n: number): number => Math.ceil(n / MOST_INVOCATIONS) * MOST_INVOCATIONS;
    const repeats = (m: Compute, turns: number): boolean =>
      !scalar(m) && !kept.has(m.value) && rows * turns > REPEAT_LIMIT * whole(this.elements(m));
    return this.group.members.some((m) => {
      const free = placement.placed.get(m.value)?.free;
      // A row vector is computed for each row, though rows may share it.
      if (m.monoid && free && kept.has(m.value) && this.certain.has(m.value)) {
        const cells = free.map((f) => f.extent);
        return rows * boundElements(program, cells) > REPEAT_LIMIT * whole(this.elements(m));
      }
      if (!m.monoid || !scalar(m) || kept.has(m.value) || !this.certain.has(m.value)) return false;
      return this.reaches(m, this.turns(m), repeats, kept);
    });
  }

  private turns(m: Compute): number {
    return m.reduce.reduce((n, r) => n * Math.max(0, bound(this.group.program, r.extent)), 1);
  }

  private elements(m: Compute): number {
    const { program } = this.group;
    return extents(m).reduce((p, d) => p * Math.max(1, boundElements(program, [d])), 1);
  }

  /** Whether the loop of `outer` reaches a reduction that then repeats. */
  private reaches(
    outer: Compute,
    turns: number,
    repeats: (m: Compute, turns: number) => boolean,
    /** Members that are computed elsewhere: the loop only looks them up. */
    stop?: ReadonlySet<ValueId>,
  ): boolean {
    const seen = new Set<string>();
    const follow = (
      from: Compute,
      open: ReadonlySet<string>,
      tainted: (name: string) => boolean,
    ): boolean => {
      let found = false;
      certainLoads(from.body, open, (l) => {
        const m = this.byValue.get(l.value);
        if (found || !m) return;
        const dims = taintedDims(l, tainted);
        if (dims.size === 0) return;
        if (m.monoid) {
          found = repeats(m, turns);
          return;
        }
        if (stop?.has(m.value)) return;
        const here = openDims(l, m, open);
        const key = `${m.value} ${[...dims].join()} ${[...here].join()}`;
        if (seen.has(key)) return;
        seen.add(key);
        found = follow(m, here, (name) => dims.has(name));
      });
      return found;
    };
    const open = withReduce(this.certain.get(outer.value) ?? new Set(), outer);
    return follow(outer, open, (name) => name.startsWith('r'));
  }
}

/** A reduction's loops run over its reduction dims as a whole. */
function withReduce(open: ReadonlySet<string>, m: Compute): ReadonlySet<string> {
  return m.reduce.length === 0 ? open : new Set([...open, ...m.reduce.map((r) => r.name)]);
}

/** The dims of the value loaded that are run over as a whole, when those named `open` are in the reader. */
function openDims(l: Load, of: Compute, open: ReadonlySet<string>): Set<string> {
  const out = new Set<string>();
  const used = new Set<string>();
  l.index.forEach((e, i) => {
    const d = of.dims[i];
    const t = e.terms[0];
    const v = t?.factors[0];
    if (!d || e.c !== 0 || e.terms.length !== 1 || t?.coef !== 1 || t.factors.length !== 1) return;
    if (v?.kind !== 'var' || !open.has(v.name) || used.has(v.name)) return;
    used.add(v.name);
    if (I.same(v.extent, d.extent)) out.add(d.name);
  });
  return out;
}

/** Visits the loads that are evaluated whenever the expression is, with the `open` variables running over their ranges. */
function certainLoads(e: Expr, open: ReadonlySet<string>, f: (l: Load) => void): void {
  switch (e.op) {
    case 'const':
    case 'index':
      return;
    case 'load':
      f(e);
      return;
    case 'unary':
    case 'cast':
      certainLoads(e.a, open, f);
      return;
    case 'binary':
      certainLoads(e.a, open, f);
      certainLoads(e.b, open, f);
      return;
    case 'select':
      certainLoads(e.cond, open, f);
      certainLoads(e.then, open, f);
      certainLoads(e.else, open, f);
      return;
    case 'when': {
      const never = e.conds.some(
        (c) => I.provablyLe(I.add(c.index, 1), c.lo) || I.provablyLe(c.hi, c.index),
      );
      const always = e.conds.every(
        (c) => I.provablyLe(c.lo, c.index) && I.provablyLe(I.add(c.index, 1), c.hi),
      );
      const undecided = !never && !always && e.conds.every((c) => isOpen(c, open));
      if (always || undecided) certainLoads(e.then, open, f);
      if (never || undecided) certainLoads(e.else, open, f);
      return;
    }
  }
}

function isOpen(c: IndexCond, open: ReadonlySet<string>): boolean {
  let all = true;
  for (const e of [c.index, c.lo, c.hi])
    I.visitAtoms(e, (a) => {
      if (a.kind === 'dyn' || (a.kind === 'var' && !open.has(a.name))) all = false;
    });
  return all;
}

/** The dims of the value loaded (by their names in the compute that defines it) whose index is tainted. */
function taintedDims(l: Load, tainted: (name: string) => boolean): Set<string> {
  const out = new Set<string>();
  l.index.forEach((e: IndexExpr, i) => {
    I.visitAtoms(e, (a) => {
      if (a.kind === 'var' && tainted(a.name)) out.add(`d${i}`);
    });
  });
  return out;
}
