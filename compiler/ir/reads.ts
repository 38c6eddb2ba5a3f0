/**
 * Which values an expression reads: each once, in the order in which they first occur, those inside
 * dynamic indices and conditions included.
 *
 * Nearly every stage asks that of every body, and expressions never change: it is found once for each.
 */
import { type Expr, type ValueId, visitExpr } from './expr';

const known = new WeakMap<Expr, readonly ValueId[]>();

export function valuesRead(e: Expr): readonly ValueId[] {
  const old = known.get(e);
  if (old) return old;
  const found = find(e);
  known.set(e, found);
  return found;
}

const NONE: readonly ValueId[] = [];

function find(e: Expr): readonly ValueId[] {
  let first: ValueId | undefined;
  let more: Set<ValueId> | undefined;
  visitExpr(e, (x) => {
    if (x.op !== 'load' || x.value === first) return;
    if (first === undefined) first = x.value;
    else (more ??= new Set([first])).add(x.value);
  });
  if (more) return [...more];
  return first === undefined ? NONE : [first];
}
