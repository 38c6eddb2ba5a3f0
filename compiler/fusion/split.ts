/**
 * Splitting computes that read more values than a kernel can bind.
 *
 * A sum or a concatenation of twenty tensors is one expression with twenty loads, while an adapter
 * may allow eight buffers. Parts of the expression become computes of their own, until each reads few
 * enough; fusion may still put parts together where the limit leaves room.
 */
import type { Compute, Program, Value } from '../ir/compute';
import {
  constant,
  type Expr,
  type IndexCond,
  load,
  rewriteExpr,
  type ValueId,
  visitExpr,
  when,
} from '../ir/expr';
import * as I from '../ir/indexExpr';
import { valuesRead } from '../ir/reads';

/** The program with no compute that reads more than `most` values (at least 2). */
export function splitWideComputes(program: Program, most: number): Program {
  const wide = program.computes.some((c) => valuesRead(c.body).length > most);
  if (!wide || most < 2) return program;
  const values = new Map(program.values);
  const computes: Compute[] = [];
  for (const c of program.computes) {
    let body = c.body;
    for (let part = 0; valuesRead(body).length > most; part++) {
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
  let best: { readonly expr: Expr; readonly path: Guard | undefined } | undefined;
  let size = 1;
  const few = fewReads(e, most);
  const go = (x: Expr, path: Guard | undefined): void => {
    const n = x === e ? Infinity : (few.get(x)?.size ?? Infinity);
    if (n <= most) {
      if (n > size) {
        best = { expr: x, path };
        size = n;
      }
      return;
    }
    if (x.op === 'when') {
      go(x.then, { conds: x.conds, holds: true, outer: path });
      go(x.else, { conds: x.conds, holds: false, outer: path });
      return;
    }
    for (const child of children(x)) go(child, path);
  };
  go(e, undefined);
  if (!best) return undefined;
  let guarded = best.expr;
  for (let g = best.path; g; g = g.outer) {
    const zero = constant(0, guarded.dtype);
    guarded = g.holds ? when(g.conds, guarded, zero) : when(g.conds, zero, guarded);
  }
  return { expr: best.expr, guarded };
}

/** The branches on the way to a part, from the innermost outwards. */
interface Guard {
  readonly conds: readonly IndexCond[];
  readonly holds: boolean;
  readonly outer: Guard | undefined;
}

/**
 * What each part reads, for the parts that read at most `most` values. One walk from the leaves up:
 * asking each part anew takes quadratic time in a concatenation's nested branches.
 */
function fewReads(e: Expr, most: number): ReadonlyMap<Expr, ReadonlySet<ValueId>> {
  const out = new Map<Expr, ReadonlySet<ValueId>>();
  const go = (x: Expr): ReadonlySet<ValueId> | undefined => {
    const own = new Set<ValueId>();
    let fits = true;
    for (const child of children(x)) {
      const inner = go(child);
      if (!inner) fits = false;
      else if (fits) for (const v of inner) own.add(v);
    }
    if (!fits) return undefined;
    for (const v of ownReads(x)) own.add(v);
    if (own.size > most) return undefined;
    out.set(x, own);
    return own;
  };
  go(e);
  return out;
}

/** What an expression reads itself and in its indices and conditions, not in its operands. */
function ownReads(x: Expr): ReadonlySet<ValueId> {
  switch (x.op) {
    case 'load':
    case 'index':
      return reads(x);
    case 'when':
      return reads({ ...x, then: constant(0, x.dtype), else: constant(0, x.dtype) });
    case 'const':
    case 'unary':
    case 'cast':
    case 'binary':
    case 'select':
      return new Set();
  }
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
    ...(c.region === undefined ? {} : { region: c.region }),
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
