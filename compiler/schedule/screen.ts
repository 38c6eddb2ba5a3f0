/**
 * What can be told of a group before any code is built: lower bounds that rule a template out.
 *
 * The search asks about many merges and takes few. A bound that is over the limit saves building the
 * code only to count the same there; where a decision needs the reasons with their numbers, the code
 * is built all the same.
 *
 * Vocabulary
 *  - *certain*: what is evaluated whatever the index conditions say: outputs, and what certain members
 *    load outside conditions.
 *  - *tainted* dim: one whose index varies with the loop of an enclosing reduction, so that the value
 *    is evaluated anew in every turn of the loop.
 */
import type { Compute } from '../ir/compute';
import type { Expr, ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import { bound, boundElements, extents, type GroupSpec, visitLoads } from './group';

/** A reduction may be evaluated this many times over before it counts as repeated. */
export const REPEAT_LIMIT = 1.5;

type Load = Expr & { op: 'load' };

export class Screen {
  private readonly byValue = new Map<ValueId, Compute>();
  private readonly certain = new Set<ValueId>();
  private readonly inputs = new Set<ValueId>();

  constructor(private readonly group: GroupSpec) {
    for (const m of group.members) this.byValue.set(m.value, m);
    for (const o of group.outputs) this.certain.add(o);
    for (let i = group.members.length - 1; i >= 0; i--) {
      const m = group.members[i];
      if (!m || !this.certain.has(m.value)) continue;
      visitLoads(m.body, (l, conditional) => {
        if (conditional) return;
        if (this.byValue.has(l.value)) this.certain.add(l.value);
        else this.inputs.add(l.value);
      });
    }
  }

  /** Buffers that any kernel of the group binds, at least. */
  get buffers(): number {
    return this.inputs.size + this.group.outputs.length;
  }

  /**
   * Whether the loop template would compute some reduction several times over: because there are more
   * invocations than the reduction has results, or because it stands inside another reduction's loop.
   */
  repeatsInLoop(workgroup: number): boolean {
    const { program, outputs } = this.group;
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
      let turns = 1;
      for (const r of m.reduce) turns *= Math.max(0, bound(program, r.extent));
      if (this.reaches(m, turns, repeats)) return true;
    }
    return false;
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
  ): boolean {
    const seen = new Set<string>();
    const follow = (from: Compute, tainted: (name: string) => boolean): boolean => {
      let found = false;
      visitLoads(from.body, (l, conditional) => {
        const m = this.byValue.get(l.value);
        if (found || !m || conditional) return;
        const dims = taintedDims(l, tainted);
        if (dims.size === 0) return;
        if (m.monoid) {
          found = repeats(m, turns);
          return;
        }
        const key = `${m.value} ${[...dims].join()}`;
        if (seen.has(key)) return;
        seen.add(key);
        found = follow(m, (name) => dims.has(name));
      });
      return found;
    };
    return follow(outer, (name) => name.startsWith('r'));
  }
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
