/** Programs for tests: a small builder, and random programs from a seed. */
import type { DType } from '../../../compiler/graph/dtype';
import type { Compute, ConstData, Monoid, Program, Value } from '../../../compiler/ir/compute';
import {
  binary,
  cast,
  constant,
  dynIndex,
  indexValue,
  load,
  select,
  unary,
  when,
  type Expr,
} from '../../../compiler/ir/expr';
import {
  add,
  constOf,
  delinearise,
  floorDiv,
  ix,
  linearise,
  loopVar,
  mod,
  mul,
  num,
  sub,
  type IndexExpr,
  type IndexLike,
} from '../../../compiler/ir/indexExpr';

export class Builder {
  readonly values = new Map<string, Value>();
  readonly computes: Compute[] = [];
  readonly inputs: string[] = [];

  constructor(readonly dims: ReadonlyMap<string, number> = new Map()) {}

  input(id: string, shape: readonly IndexLike[], dtype: DType = 'f32'): string {
    this.values.set(id, { id, name: id, dtype, shape: shape.map(ix), role: 'input' });
    this.inputs.push(id);
    return id;
  }

  constant(id: string, shape: readonly IndexLike[], dtype: DType, data: ConstData): string {
    this.values.set(id, { id, name: id, dtype, shape: shape.map(ix), role: 'const', data });
    return id;
  }

  compute(
    shape: readonly IndexLike[],
    body: (d: IndexExpr[], r: IndexExpr[]) => Expr,
    over: readonly IndexLike[] = [],
    monoid?: Monoid,
    dtype?: DType,
  ): string {
    const d = shape.map((n, i) => loopVar(`d${i}`, n));
    const r = over.map((n, i) => loopVar(`r${i}`, n));
    const e = body(d, r);
    const k = this.computes.length;
    const id = `v${k}`;
    const type = dtype ?? e.dtype;
    this.values.set(id, { id, name: id, dtype: type, shape: shape.map(ix), role: 'computed' });
    this.computes.push({
      id: `c${k}`,
      value: id,
      dims: shape.map((n, i) => ({ name: `d${i}`, extent: ix(n) })),
      reduce: over.map((n, i) => ({ name: `r${i}`, extent: ix(n) })),
      ...(monoid ? { monoid } : {}),
      body: e,
      dtype: type,
      accumulator: monoid?.kind === 'argmax' || monoid?.kind === 'argmin' ? e.dtype : type,
      origin: [`n${k}`],
    });
    return id;
  }

  program(): Program {
    const outputs = this.computes.slice(-1).map((c) => ({
      name: 'y',
      value: c.value,
      shape: c.dims.map((d) => d.extent),
    }));
    return {
      values: this.values,
      computes: this.computes,
      inputs: this.inputs,
      outputs,
      dims: this.dims,
    };
  }
}

export function random(seed: number): () => number {
  let s = seed >>> 0;
  return () => {
    s = (s + 0x6d2b79f5) >>> 0;
    let t = Math.imul(s ^ (s >>> 15), s | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/**
 * A few computes over small tensors: reshapes, transposes, slices, flips, padding, gathers, selects,
 * reductions over some dims with every monoid, dims of size 1 and sometimes 0.
 */
export function randomProgram(seed: number): {
  program: Program;
  inputs: Map<string, Float64Array>;
} {
  const rnd = random(seed);
  const int = (n: number): number => Math.floor(rnd() * n);
  const pick = <T>(list: readonly T[]): T => {
    const x = list[int(list.length)];
    if (x === undefined) throw new Error('empty list');
    return x;
  };
  const b = new Builder();
  const inputs = new Map<string, Float64Array>();
  const tensors: { id: string; shape: number[]; dtype: DType }[] = [];
  const size = (): number => (rnd() < 0.02 ? 0 : pick([1, 2, 3, 4, 5, 8, 9, 17]));
  for (let i = 0; i < 3; i++) {
    const shape = Array.from({ length: 1 + int(3) }, size);
    const dtype: DType = pick(['f32', 'f32', 'i32']);
    const id = b.input(`x${i}`, shape, dtype);
    const n = shape.reduce((p, d) => p * d, 1);
    inputs.set(
      id,
      Float64Array.from({ length: n }, () =>
        dtype === 'i32' ? int(2 ** 32) - 2 ** 31 : rnd() * 4 - 2,
      ),
    );
    tensors.push({ id, shape, dtype });
  }

  /** Some element of tensor t at an index of the loops, by a random view. */
  const access = (t: (typeof tensors)[number], vars: IndexExpr[], extents: number[]): Expr => {
    const total = extents.reduce((p, d) => p * d, 1);
    const elements = t.shape.reduce((p, d) => p * d, 1);
    if (elements === 0 || total === 0) return constant(1, t.dtype);
    const lin = linearise(vars, extents.map(num));
    const kind = int(4);
    if (kind === 0) {
      // Reshape, repeating or cutting as needed.
      const wrappedLin = elements >= total ? lin : mod(lin, elements);
      return load(t.id, delinearise(wrappedLin, t.shape.map(num)), t.dtype);
    }
    const guards: { index: IndexExpr; lo: IndexExpr; hi: IndexExpr }[] = [];
    const index = t.shape.map((d): IndexExpr => {
      const k = int(vars.length + 1);
      const v = vars[k];
      const n = extents[k];
      if (!v || n === undefined) return num(int(d));
      if (kind === 1) {
        const flipped = rnd() < 0.3 ? sub(n - 1, v) : v;
        return n <= d ? flipped : rnd() < 0.5 ? mod(flipped, d) : floorDiv(v, Math.ceil(n / d));
      }
      const shifted = add(mul(v, 1 + int(2)), int(5) - 2);
      guards.push({ index: shifted, lo: num(0), hi: num(d) });
      return shifted;
    });
    const x = load(t.id, index, t.dtype);
    if (kind === 3 && t.shape.length > 0) {
      const floats = tensors.find((u) => u.dtype === 'f32' && u.shape.every((d) => d > 0));
      if (floats && guards.length === 0) {
        const inner = load(
          floats.id,
          floats.shape.map(() => num(0)),
          'f32',
        );
        const wide = mod(indexValue(lin).op === 'const' ? lin : lin, t.shape[0] ?? 1);
        const row = binary(
          'max',
          binary('min', cast(unary('abs', inner), 'i32'), constant((t.shape[0] ?? 1) - 1, 'i32')),
          constant(0, 'i32'),
        );
        const rows = rnd() < 0.5 ? wide : dynIndex(row, num(t.shape[0] ?? 1));
        return load(t.id, [rows, ...index.slice(1)], t.dtype);
      }
    }
    const fallback = rnd() < 0.5 ? constant(0, t.dtype) : constant(3, t.dtype);
    return when(guards, x, fallback);
  };

  const asFloat = (e: Expr): Expr => (e.dtype === 'f32' ? e : cast(cast(e, 'i8'), 'f32'));
  const floatExpr = (depth: number, leaf: () => Expr): Expr => {
    if (depth === 0) return asFloat(leaf());
    switch (int(7)) {
      case 0:
        return unary('tanh', floatExpr(depth - 1, leaf));
      case 1:
        return unary('neg', floatExpr(depth - 1, leaf));
      case 2:
        return binary('mul', floatExpr(depth - 1, leaf), floatExpr(depth - 1, leaf));
      case 3:
        return binary('sub', floatExpr(depth - 1, leaf), floatExpr(depth - 1, leaf));
      case 4:
        return binary('max', floatExpr(depth - 1, leaf), constant(0.25, 'f32'));
      case 5: {
        const x = floatExpr(depth - 1, leaf);
        return select(binary('lt', x, constant(0, 'f32')), floatExpr(depth - 1, leaf), x);
      }
      default:
        return asFloat(leaf());
    }
  };

  for (let k = 0; k < 4; k++) {
    const shape = Array.from({ length: int(4) }, size);
    const reduces = rnd() < 0.6;
    const over = reduces ? Array.from({ length: 1 + int(2) }, size) : [];
    const integer = rnd() < 0.2;
    const kind = pick(['sum', 'sum', 'sum', 'prod', 'max', 'min', 'argmax', 'argmin'] as const);
    const monoid: Monoid | undefined = !reduces
      ? undefined
      : kind === 'argmax' || kind === 'argmin'
        ? { kind, last: rnd() < 0.5 }
        : integer
          ? { kind: 'sum' }
          : { kind };
    const arg = monoid?.kind === 'argmax' || monoid?.kind === 'argmin';
    const extents = [...shape, ...over];
    const id = b.compute(
      shape,
      (d, r) => {
        const vars = [...d, ...r];
        const leaf = (): Expr => access(pick(tensors), vars, extents);
        if (!integer) return floatExpr(1 + int(3), leaf);
        const whole = (e: Expr): Expr => cast(e, 'i32');
        return binary(pick(['add', 'mul', 'sub'] as const), whole(leaf()), whole(leaf()));
      },
      over,
      monoid,
      arg ? 'i32' : undefined,
    );
    const made = b.values.get(id);
    const dims = (made?.shape ?? []).map((d) => constOf(d) ?? 0);
    tensors.push({ id, shape: dims, dtype: made?.dtype ?? 'f32' });
  }
  return { program: b.program(), inputs };
}
