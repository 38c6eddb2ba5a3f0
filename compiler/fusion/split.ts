/**
 * Splitting computes that read more values than a kernel can bind.
 *
 * A sum or a concatenation of twenty tensors is one expression with twenty loads, while an adapter
 * may allow eight buffers. Parts of the expression become computes of their own, until each reads few
 * enough; fusion may still put parts together where the limit leaves room.
 */
import type { Compute, Program, Value } from '../ir/compute';
import { constant, type Expr, load, rewriteExpr, type ValueId, visitExpr, when } from '../ir/expr';
import * as I from '../ir/indexExpr';

/** The program with no compute that reads more than `most` values (at least 2). */
export function splitWideComputes(program: Program, most: number): Program {
  const wide = program.computes.some((c) => reads(c.body).size > most);
  if (!wide || most < 2) return program;
  const values = new Map(program.values);
  const computes: Compute[] = [];
  for (const c of program.computes) {
    let body = c.body;
    for (let part = 0; reads(body).size > most; part++) {
      const piece = pick(body, most);
      if (!piece) break;
      const id = `${c.value}/${part}`;
      const made = partOf(c, id, piece.guarded);
      values.set(id, valueOf(made, values.get(c.value)));
      computes.push(made);
      const index = [...c.dims, ...c.reduce].map((d) => I.loopVar(d.name, d.extent));
      body = replace(body, piece.expr, load(id, index, piece.expr.dtype));
    }
    computes.push(body === c.body ? c : { ...c, body });
  }
  return { ...program, values, computes };
}

function reads(e: Expr): Set<ValueId> {
  const out = new Set<ValueId>();
  visitExpr(e, (x) => {
    if (x.op === 'load') out.add(x.value);
  });
  return out;
}

interface Piece {
  readonly expr: Expr;
  /** The part where it stands, zero elsewhere: a read in a branch may be in range only there. */
  readonly guarded: Expr;
}

/** The largest part of the expression that reads at least two values, and no more than fit. */
function pick(e: Expr, most: number): Piece | undefined {
  let best: Piece | undefined;
  let size = 1;
  const go = (x: Expr, wrap: (inner: Expr) => Expr): void => {
    const n = x === e ? Infinity : reads(x).size;
    if (n <= most) {
      if (n > size) {
        best = { expr: x, guarded: wrap(x) };
        size = n;
      }
      return;
    }
    if (x.op === 'when') {
      const zero = (inner: Expr): Expr => constant(0, inner.dtype);
      const { conds } = x;
      go(x.then, (inner) => wrap(when(conds, inner, zero(inner))));
      go(x.else, (inner) => wrap(when(conds, zero(inner), inner)));
      return;
    }
    for (const child of children(x)) go(child, wrap);
  };
  go(e, (inner) => inner);
  return best;
}

function children(e: Expr): readonly Expr[] {
  switch (e.op) {
    case 'const':
    case 'index':
    case 'load':
      return [];
    case 'unary':
    case 'cast':
      return [e.a];
    case 'binary':
      return [e.a, e.b];
    case 'select':
      return [e.cond, e.then, e.else];
    case 'when':
      return [e.then, e.else];
  }
}

function replace(e: Expr, part: Expr, by: Expr): Expr {
  if (e === part) return by;
  switch (e.op) {
    case 'const':
    case 'index':
    case 'load':
      return e;
    case 'unary':
    case 'cast':
      return { ...e, a: replace(e.a, part, by) };
    case 'binary':
      return { ...e, a: replace(e.a, part, by), b: replace(e.b, part, by) };
    case 'select':
      return {
        ...e,
        cond: replace(e.cond, part, by),
        then: replace(e.then, part, by),
        else: replace(e.else, part, by),
      };
    case 'when':
      return { ...e, then: replace(e.then, part, by), else: replace(e.else, part, by) };
  }
}

/** An elementwise compute over the whole iteration space of `c`, reduction dims included. */
function partOf(c: Compute, id: ValueId, body: Expr): Compute {
  const names = new Map<string, I.IndexExpr>();
  const dims = [...c.dims, ...c.reduce].map((d, i) => {
    names.set(d.name, I.loopVar(`d${i}`, d.extent));
    return { name: `d${i}`, extent: d.extent };
  });
  return {
    id: `c:${id}`,
    value: id,
    dims,
    reduce: [],
    body: renamed(body, names),
    dtype: body.dtype,
    accumulator: body.dtype,
    origin: c.origin,
  };
}

function renamed(e: Expr, names: ReadonlyMap<string, I.IndexExpr>): Expr {
  return rewriteExpr(e, (a) => (a.kind === 'var' ? names.get(a.name) : undefined));
}

function valueOf(c: Compute, whole: Value | undefined): Value {
  return {
    id: c.value,
    name: `${whole?.name ?? c.value} (part)`,
    dtype: c.dtype,
    shape: c.dims.map((d) => d.extent),
    role: 'computed',
  };
}
