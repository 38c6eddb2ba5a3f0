/**
 * Windows: an index in which a parallel and a reduction variable meet, as in `2·d0 + r0`.
 *
 * They make a *stencil* where neighbouring results read elements in common. Where each result has
 * elements of its own (`64·d0 + r0` with 64 positions of r0) they are blocks, as a reshape before a
 * reduction makes them.
 */
import * as I from './indexExpr';
import type { IndexExpr, Term } from './indexExpr';

/** Whether the elements of neighbouring results overlap, or can't be shown not to. */
export function overlap(e: IndexExpr): boolean {
  let span: IndexExpr = I.num(0);
  let reduced = false;
  const steps: IndexExpr[] = [];
  for (const t of e.terms) {
    const { parallel, reduction } = variablesOf(t);
    if (parallel && reduction) return true;
    const linear = linearIn(t);
    if (reduction) {
      reduced = true;
      if (!linear) return steps.length > 0 || e.terms.some((x) => variablesOf(x).parallel);
      span = I.add(span, I.mul(linear.step, I.sub(linear.extent, 1)));
    }
    if (parallel) steps.push(linear?.step ?? I.num(1));
  }
  return reduced && !steps.every((step) => I.provablyLe(I.add(span, 1), step));
}

function variablesOf(t: Term): { parallel: boolean; reduction: boolean } {
  const found = { parallel: false, reduction: false };
  I.visitAtoms({ c: 0, terms: [t], key: t.key }, (a) => {
    if (a.kind !== 'var') return;
    if (a.name.startsWith('r')) found.reduction = true;
    else found.parallel = true;
  });
  return found;
}

/** A term that is a step, a number times sizes, times one variable. */
function linearIn(t: Term): { step: IndexExpr; extent: IndexExpr } | undefined {
  let extent: IndexExpr | undefined;
  let step: IndexExpr = I.num(Math.abs(t.coef));
  for (const a of t.factors) {
    if (a.kind === 'sym') step = I.mul(step, I.sym(a.name));
    else if (a.kind === 'var' && !extent) ({ extent } = a);
    else return undefined;
  }
  return extent && { step, extent };
}
