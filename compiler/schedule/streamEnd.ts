/**
 * Where a walk along a row may end before the row does: under a causal mask, position j of row i counts
 * only where j <= i + c, and whole tiles beyond that needn't be looked at.
 *
 * What a mask hides is -∞ before a softmax. A maximum takes nothing from it, and a sum of exponentials
 * nothing either: so when all reductions of the walk are such, and the mask hides all from some
 * position on, the walk ends there.
 */
import type { Compute } from '../ir/compute';
import { type Expr, rewriteExpr, type ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import type { GroupSpec } from './group';
import { type Online, POSITION, type Streamed } from './online';

/** From this position on nothing counts, in the row's variables; undefined where no mask says so. */
export function endOfRow(group: GroupSpec, o: Online): IndexExpr | undefined {
  const members = new Map(group.members.map((m) => [m.value, m]));
  let end: IndexExpr | undefined;
  for (const s of o.streamed) {
    const own = hiddenFrom(s, members);
    if (!own || (end && !I.same(own, end))) return undefined;
    end = own;
  }
  return end;
}

function hiddenFrom(s: Streamed, members: ReadonlyMap<ValueId, Compute>): IndexExpr | undefined {
  const kind = s.compute.monoid?.kind;
  const sum = s.weight ? (kind === 'sum' ? s.weight.exponent : undefined) : s.element;
  if (!sum || (!s.weight && kind !== 'max')) return undefined;
  for (const t of sum.terms) {
    const end = t.c > 0 ? infiniteFrom(t.e, members) : undefined;
    if (end) return end;
  }
  return undefined;
}

/** From where on an expression is -∞. */
function infiniteFrom(e: Expr, members: ReadonlyMap<ValueId, Compute>): IndexExpr | undefined {
  switch (e.op) {
    case 'const':
    case 'index':
    case 'unary':
    case 'select':
      return undefined;
    case 'cast':
      return infiniteFrom(e.a, members);
    case 'binary':
      if (e.fn === 'add') return infiniteFrom(e.a, members) ?? infiniteFrom(e.b, members);
      if (e.fn === 'sub') return infiniteFrom(e.a, members);
      if (e.fn === 'mul' && e.b.op === 'const' && e.b.value > 0) return infiniteFrom(e.a, members);
      return undefined;
    case 'when': {
      if (e.else.op !== 'const' || e.else.value !== -Infinity) return undefined;
      for (const c of e.conds) {
        // POSITION + rest < hi
        const rest = I.sub(c.index, I.loopVar(POSITION, positionExtent(c.index)));
        if (!mentionsPosition(rest) && !mentionsPosition(c.hi)) return I.sub(c.hi, rest);
      }
      return infiniteFrom(e.then, members);
    }
    case 'load': {
      const m = members.get(e.value);
      if (!m || m.monoid) return undefined;
      const env = new Map(m.dims.map((d, i) => [d.name, e.index[i] ?? I.num(0)]));
      return infiniteFrom(
        rewriteExpr(m.body, (a) => (a.kind === 'var' ? env.get(a.name) : undefined)),
        members,
      );
    }
  }
}

function positionExtent(e: IndexExpr): IndexExpr {
  let extent = I.num(1);
  I.visitAtoms(e, (a) => {
    if (a.kind === 'var' && a.name === POSITION) extent = a.extent;
  });
  return extent;
}

function mentionsPosition(e: IndexExpr): boolean {
  let found = false;
  I.visitAtoms(e, (a) => (found ||= (a.kind === 'var' && a.name === POSITION) || a.kind === 'dyn'));
  return found;
}
