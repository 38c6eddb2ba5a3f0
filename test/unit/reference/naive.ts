/** A second, slow evaluator of L1, written point by point: what the generated reference is tested against. */
import { isFloat, isUnsigned, type DType } from '../../../compiler/graph/dtype';
import type { Compute, Program } from '../../../compiler/ir/compute';
import type { Expr } from '../../../compiler/ir/expr';
import type { Atom, IndexExpr } from '../../../compiler/ir/indexExpr';

type Env = ReadonlyMap<string, number>;
type Values = ReadonlyMap<string, { shape: readonly number[]; data: ArrayLike<number> }>;

function atom(a: Atom, env: Env, values: Values): number {
  switch (a.kind) {
    case 'var':
    case 'sym': {
      const n = env.get(a.name);
      if (n === undefined) throw new Error(`unbound ${a.name}`);
      return n;
    }
    case 'dyn':
      return scalar(a.expr, env, values);
    case 'floordiv':
      return Math.floor(index(a.a, env, values) / index(a.b, env, values));
    case 'mod': {
      const x = index(a.a, env, values);
      const y = index(a.b, env, values);
      return x - y * Math.floor(x / y);
    }
    case 'min':
      return Math.min(index(a.a, env, values), index(a.b, env, values));
    case 'max':
      return Math.max(index(a.a, env, values), index(a.b, env, values));
  }
}

export function index(e: IndexExpr, env: Env, values: Values): number {
  let sum = e.c;
  for (const t of e.terms) {
    let p = t.coef;
    for (const f of t.factors) p *= atom(f, env, values);
    sum += p;
  }
  return sum;
}

function wrapped(n: number, t: DType): number {
  if (isFloat(t) || t === 'i64' || t === 'u64') return n;
  return isUnsigned(t) || t === 'bool' ? n >>> 0 : n | 0;
}

function scalar(e: Expr, env: Env, values: Values): number {
  const at = (x: Expr): number => scalar(x, env, values);
  switch (e.op) {
    case 'const':
      return e.value;
    case 'index':
      return index(e.index, env, values);
    case 'load': {
      const v = values.get(e.value);
      if (!v) throw new Error(`no ${e.value}`);
      let linear = 0;
      e.index.forEach((x, i) => {
        const n = index(x, env, values);
        const d = v.shape[i] ?? 0;
        if (!(n >= 0 && n < d)) throw new Error(`${e.value}: ${n} out of [0, ${d})`);
        linear = linear * d + n;
      });
      return v.data[linear] ?? NaN;
    }
    case 'select':
      return at(e.cond) !== 0 ? at(e.then) : at(e.else);
    case 'when': {
      const holds = e.conds.every((c) => {
        const i = index(c.index, env, values);
        return index(c.lo, env, values) <= i && i < index(c.hi, env, values);
      });
      return holds ? at(e.then) : at(e.else);
    }
    case 'cast': {
      const a = at(e.a);
      switch (e.dtype) {
        case 'bool':
          return a === 0 ? 0 : 1;
        case 'i8':
          return new Int8Array([a])[0] ?? 0;
        case 'u8':
          return new Uint8Array([a])[0] ?? 0;
        case 'i16':
          return new Int16Array([a])[0] ?? 0;
        case 'u16':
          return new Uint16Array([a])[0] ?? 0;
        case 'i32':
          return new Int32Array([a])[0] ?? 0;
        case 'u32':
          return new Uint32Array([a])[0] ?? 0;
        case 'i64':
        case 'u64':
          return Math.trunc(a);
        default:
          return a;
      }
    }
    case 'unary': {
      const a = at(e.a);
      switch (e.fn) {
        case 'neg':
          return wrapped(0 - a, e.dtype);
        case 'abs':
          return Math.abs(a);
        case 'exp':
          return Math.exp(a);
        case 'tanh':
          return Math.tanh(a);
        case 'sqrt':
          return Math.sqrt(a);
        case 'rsqrt':
          return 1 / Math.sqrt(a);
        case 'not':
          return a === 0 ? 1 : 0;
        default:
          throw new Error(`naive ${e.fn}`);
      }
    }
    case 'binary': {
      const [a, b] = [at(e.a), at(e.b)];
      const float = isFloat(e.a.dtype);
      switch (e.fn) {
        case 'add':
          return wrapped(a + b, e.dtype);
        case 'sub':
          return wrapped(a - b, e.dtype);
        case 'mul':
          return float ? a * b : Number(BigInt.asIntN(32, BigInt(a) * BigInt(b)));
        case 'div':
          return float ? a / b : b === 0 ? a : wrapped(Math.trunc(a / b), e.dtype);
        case 'min':
          return Math.min(a, b);
        case 'max':
          return Math.max(a, b);
        case 'lt':
          return a < b ? 1 : 0;
        case 'and':
          return a !== 0 && b !== 0 ? 1 : 0;
        default:
          throw new Error(`naive ${e.fn}`);
      }
    }
  }
}

function* points(extents: readonly number[]): Generator<readonly number[]> {
  if (extents.some((n) => n === 0)) return;
  const p = extents.map(() => 0);
  for (;;) {
    yield p;
    let i = p.length - 1;
    for (; i >= 0; i--) {
      const next = (p[i] ?? 0) + 1;
      p[i] = next;
      if (next < (extents[i] ?? 0)) break;
      p[i] = 0;
    }
    if (i < 0) return;
  }
}

function combine(c: Compute, all: readonly number[]): number {
  switch (c.monoid?.kind) {
    case undefined:
      return all[0] ?? NaN;
    case 'sum':
      return all.reduce((a, b) => wrapped(a + b, c.accumulator), 0);
    case 'prod':
      return all.reduce((a, b) => a * b, 1);
    case 'max':
      return all.reduce((a, b) => Math.max(a, b), -Infinity);
    case 'min':
      return all.reduce((a, b) => Math.min(a, b), Infinity);
    case 'and':
      return all.every((x) => x !== 0) ? 1 : 0;
    case 'or':
      return all.some((x) => x !== 0) ? 1 : 0;
    case 'argmax':
    case 'argmin': {
      const best = c.monoid.kind === 'argmax' ? Math.max(...all) : Math.min(...all);
      const at = c.monoid.last ? all.lastIndexOf(best) : all.indexOf(best);
      return Math.max(0, at);
    }
  }
}

export function naive(
  program: Program,
  inputs: ReadonlyMap<string, ArrayLike<number>>,
): Map<string, number[]> {
  const env = new Map(program.dims);
  const none: Values = new Map();
  const values = new Map<string, { shape: readonly number[]; data: ArrayLike<number> }>();
  for (const v of program.values.values()) {
    const shape = v.shape.map((d) => index(d, env, none));
    const data = inputs.get(v.id);
    if (data) values.set(v.id, { shape, data });
  }
  const out = new Map<string, number[]>();
  for (const c of program.computes) {
    const extents = (dims: Compute['dims']): number[] =>
      dims.map((d) => index(d.extent, env, none));
    const shape = extents(c.dims);
    const data: number[] = [];
    for (const p of points(shape)) {
      const here = new Map(env);
      c.dims.forEach((d, i) => here.set(d.name, p[i] ?? 0));
      const all: number[] = [];
      for (const r of points(extents(c.reduce))) {
        c.reduce.forEach((d, i) => here.set(d.name, r[i] ?? 0));
        all.push(scalar(c.body, here, values));
      }
      data.push(combine(c, all));
    }
    values.set(c.value, { shape, data });
    out.set(c.value, data);
  }
  return out;
}
