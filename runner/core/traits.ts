/**
 * What made-up inputs must be like for a program to make sense, read off its computes: integers that
 * index a dimension stay inside it, what a root or a logarithm is taken of is positive, and weights
 * are scaled by the length of the sums they enter.
 */
import { isFloat } from '../../compiler/graph/dtype';
import type { Compute, Program } from '../../compiler/ir/compute';
import { visitExpr, type Expr, type ValueId } from '../../compiler/ir/expr';
import { evaluate, visitAtoms, type IndexExpr } from '../../compiler/ir/indexExpr';

export interface Traits {
  /** Integers stay in [0, bound). */
  bound?: number;
  positive?: boolean;
  /** Number of terms of the sums it is multiplied into. */
  fanIn?: number;
}

/** Traits of every value, found by walking from each use back to what it is made of. */
export function inferTraits(program: Program): Map<ValueId, Traits> {
  const all = new Map<ValueId, Traits>();
  const of = (value: ValueId): Traits => {
    const old = all.get(value);
    if (old) return old;
    const made: Traits = {};
    all.set(value, made);
    return made;
  };
  const size = (e: IndexExpr): number => evaluate(e, (name) => program.dims.get(name));
  for (const c of [...program.computes].reverse()) {
    const mine = all.get(c.value) ?? {};
    // A copy or a conversion hands on what is asked of its result.
    if (!c.monoid) passOn(c.body, mine, of);
    visitExpr(c.body, (e) => {
      for (const i of indicesIn(e))
        visitAtoms(i, (a) => {
          if (a.kind === 'dyn') passOn(a.expr, { bound: size(a.extent) }, of);
        });
      if (e.op === 'unary' && (e.fn === 'sqrt' || e.fn === 'rsqrt' || e.fn.startsWith('log')))
        passOn(e.a, { positive: true }, of);
      if (e.op === 'binary' && e.fn === 'pow') passOn(e.a, { positive: true }, of);
      if (e.op === 'binary' && e.fn === 'div') passOn(e.b, { positive: true }, of);
    });
    if (c.monoid?.kind === 'sum') noteFanIn(c, size, of);
  }
  return all;
}

function indicesIn(e: Expr): readonly IndexExpr[] {
  switch (e.op) {
    case 'index':
      return [e.index];
    case 'load':
      return e.index;
    case 'when':
      return e.conds.flatMap((c) => [c.index, c.lo, c.hi]);
    default:
      return [];
  }
}

/** Hands traits down to the loads that the expression's value comes from unchanged, or nearly so. */
function passOn(e: Expr, traits: Traits, of: (value: ValueId) => Traits): void {
  switch (e.op) {
    case 'const':
    case 'index':
    case 'unary':
      return;
    case 'load': {
      const t = of(e.value);
      if (traits.bound !== undefined && !isFloat(e.dtype))
        t.bound = Math.min(t.bound ?? Infinity, traits.bound);
      if (traits.positive && isFloat(e.dtype)) t.positive = true;
      return;
    }
    case 'cast':
      passOn(e.a, traits, of);
      return;
    case 'binary':
      // Of a sum with a constant (an epsilon), of a clamp, of a wrapped negative index.
      if (['add', 'max', 'min', 'mod'].includes(e.fn)) {
        if (e.a.op === 'const') passOn(e.b, traits, of);
        else if (e.b.op === 'const' || e.b.op === 'index') passOn(e.a, traits, of);
      }
      return;
    case 'select':
    case 'when':
      passOn(e.then, traits, of);
      passOn(e.else, traits, of);
      return;
  }
}

/** Only of products: a plain sum needs no scaled operands. */
function noteFanIn(
  c: Compute,
  size: (e: IndexExpr) => number,
  of: (value: ValueId) => Traits,
): void {
  let products = false;
  visitExpr(c.body, (e) => {
    products ||= e.op === 'binary' && e.fn === 'mul';
  });
  if (!products) return;
  visitExpr(c.body, (e) => {
    if (e.op !== 'load') return;
    let n = 1;
    for (const r of c.reduce) {
      let used = false;
      for (const i of e.index)
        visitAtoms(i, (a) => {
          used ||= a.kind === 'var' && a.name === r.name;
        });
      if (used) n *= size(r.extent);
    }
    const t = of(e.value);
    t.fanIn = Math.max(t.fanIn ?? 1, n);
  });
}
