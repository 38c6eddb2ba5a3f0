/**
 * Orders: what a loop nest can only say by counting, and what sorting a row gives at once.
 *
 * Vocabulary
 *  - *rank* of an element: how many of its row come before it. Counted by a reduction over the row whose
 *    body is 1 where the key of `r` is less (or greater) than that of `d`, or as large and `r < d`: a strict
 *    total order, so that the ranks of a row are 0…n-1, each once.
 *  - *placing*: which element has rank k, by a reduction over the row whose body is `r` where its rank is
 *    k, and 0 elsewhere: the inverse of the permutation that the ranks are.
 *
 * Both are found by that form, whatever op they come from.
 */
import type { Compute } from './compute';
import { type Expr, printExpr, rewriteExpr, type ValueId } from './expr';
import * as I from './indexExpr';
import type { IndexExpr } from './indexExpr';
import { mentions } from './running';

export interface Ranking {
  /** The dim that is ordered along. */
  readonly axis: number;
  /** Greatest first. */
  readonly descending: boolean;
  /** What is compared: an element's key, over the compute's dims. */
  readonly key: Expr;
}

export interface Placing {
  /** The value that holds the ranks. */
  readonly ranks: ValueId;
  readonly axis: number;
}

/** Whether the compute counts ranks; undefined where it doesn't. */
export function rankingOf(c: Compute): Ranking | undefined {
  const over = summedDim(c);
  const body = c.body.op === 'cast' ? c.body.a : undefined;
  if (!over || body?.op !== 'binary' || body.fn !== 'or') return undefined;
  const [less, tie] = [body.a, body.b];
  if (less.op !== 'binary' || tie.op !== 'binary' || tie.fn !== 'and') return undefined;
  const [equal, earlier] = [tie.a, tie.b];
  if (equal.op !== 'binary' || equal.fn !== 'eq') return undefined;
  if (earlier.op !== 'binary' || earlier.fn !== 'lt') return undefined;
  const axis = c.dims.findIndex((d) => isVariable(earlier.b, d.name));
  const own = c.dims[axis];
  if (!own || !isVariable(earlier.a, over.name) || !I.same(own.extent, over.extent))
    return undefined;
  // `mine` is of the place itself; with the row's variable in the place of its own it is the other's.
  const asOther = (mine: Expr): string =>
    printExpr(
      rewriteExpr(mine, (a) =>
        a.kind === 'var' && a.name === own.name ? I.loopVar(over.name, over.extent) : undefined,
      ),
    );
  const pairs = (mine: Expr, other: Expr): boolean =>
    !mentions(mine, over.name) && asOther(mine) === printExpr(other);
  let mine: Expr;
  if (less.fn === 'lt' && pairs(less.b, less.a)) mine = less.b;
  else if (less.fn === 'lt' && pairs(less.a, less.b)) mine = less.a;
  else return undefined;
  const descending = mine === less.a;
  const same = printExpr(mine);
  const tied =
    (printExpr(equal.b) === same && asOther(mine) === printExpr(equal.a)) ||
    (printExpr(equal.a) === same && asOther(mine) === printExpr(equal.b));
  return tied ? { axis, descending, key: mine } : undefined;
}

/** Whether the compute looks up which element has which rank; undefined where it doesn't. */
export function placingOf(c: Compute): Placing | undefined {
  const over = summedDim(c);
  if (!over || c.body.op !== 'select') return undefined;
  const { cond, then, else: other } = c.body;
  if (!isVariable(then, over.name) || other.op !== 'const' || other.value !== 0) return undefined;
  if (cond.op !== 'binary' || cond.fn !== 'eq' || cond.a.op !== 'load') return undefined;
  const axis = c.dims.findIndex((d) => isVariable(cond.b, d.name));
  const ranks = cond.a;
  if (axis < 0 || ranks.index.length !== c.dims.length) return undefined;
  const straight = ranks.index.every((e, i) =>
    isIndexOf(e, i === axis ? over.name : (c.dims[i]?.name ?? '')),
  );
  return straight ? { ranks: ranks.value, axis } : undefined;
}

/** The dim of a sum over one dim. */
function summedDim(c: Compute): Compute['reduce'][number] | undefined {
  return c.monoid?.kind === 'sum' && c.reduce.length === 1 ? c.reduce[0] : undefined;
}

function isVariable(e: Expr, name: string): boolean {
  return e.op === 'index' && isIndexOf(e.index, name);
}

function isIndexOf(e: IndexExpr, name: string): boolean {
  const [term] = e.terms;
  const [v] = term?.factors ?? [];
  return (
    e.c === 0 &&
    e.terms.length === 1 &&
    term?.coef === 1 &&
    term.factors.length === 1 &&
    v?.kind === 'var' &&
    v.name === name
  );
}
