/**
 * What the op tables share: broadcasting, dtype promotion, axes, sizes, small expression builders,
 * and the views (reshape, transpose, …) that composite ops are made with.
 *
 * Vocabulary
 *  - *promotion*: the dtype two operands meet in. Formats that demand equal dtypes (ONNX) never see
 *    it; `.fuse` follows PyTorch: floats win over integers, integers over bool, and an operand of
 *    rank 0 only decides when it is of a higher kind.
 *  - *compute dtype*: what an element is calculated in: f16 and bf16 go through f32 wherever a
 *    function is applied, integers narrower than 32 bits through i32.
 */
import type { Attrs, AttrValue } from '../graph/graph';
import { DTYPES, type DType, isFloat, isInteger, isUnsigned } from '../graph/dtype';
import {
  binary,
  type BinaryFn,
  cast,
  constant,
  type Expr,
  indexValue,
  unary,
  type UnaryFn,
} from '../ir/expr';
import {
  constOf,
  delinearise,
  type Dim,
  exactDiv,
  type IndexExpr,
  type IndexLike,
  isConst,
  ix,
  linearise,
  num,
  printIndex,
  printShape,
  product,
  same,
} from '../ir/indexExpr';
import type { FuseArg, FuseParam, LowerContext, LTensor } from './op';

// ---------------------------------------------------------------------------------------------
// Broadcasting

/** The shape that the shapes broadcast to (aligned at the last dim); a fault when they don't. */
export function broadcastShapes(ctx: LowerContext, shapes: readonly (readonly Dim[])[]): Dim[] {
  const rank = Math.max(0, ...shapes.map((s) => s.length));
  const out: Dim[] = [];
  for (let d = 0; d < rank; d++) {
    let dim: Dim = num(1);
    for (const s of shapes) {
      const i = d - (rank - s.length);
      const other = i >= 0 ? s[i] : undefined;
      if (!other || isConst(other, 1) || same(dim, other)) continue;
      if (isConst(dim, 1)) {
        dim = other;
        continue;
      }
      if (constOf(dim) !== undefined && constOf(other) !== undefined) {
        ctx.fail(
          'SHAPE_MISMATCH',
          `operands of shapes ${listShapes(shapes)} don't broadcast: dim ${d} is ${printIndex(dim)} on one side and ${printIndex(other)} on the other; they must be equal, or one of them 1`,
        );
      }
      ctx.requireEqual(dim, other, `dim ${d} of operands of shapes ${listShapes(shapes)}`);
      if (constOf(dim) === undefined) dim = other;
    }
    out.push(dim);
  }
  return out;
}

function listShapes(shapes: readonly (readonly Dim[])[]): string {
  const all = shapes.map(printShape);
  return all.length < 2 ? all.join('') : `${all.slice(0, -1).join(', ')} and ${all.at(-1) ?? ''}`;
}

/** The element of `t` that stands at `index` of a shape `t` broadcasts to. */
export function atBroadcast(t: LTensor, index: readonly IndexExpr[]): Expr {
  const lead = index.length - t.shape.length;
  return t.at(t.shape.map((d, i) => (isConst(d, 1) ? num(0) : (index[lead + i] ?? num(0)))));
}

/** `t` as a view of `shape`, to which it must broadcast. */
export function expandView(ctx: LowerContext, t: LTensor, shape: readonly IndexLike[]): LTensor {
  const lead = shape.length - t.shape.length;
  return ctx.view(shape, t, (index) =>
    t.shape.map((d, i) => (isConst(d, 1) ? num(0) : (index[lead + i] ?? num(0)))),
  );
}

/** A fault unless the operand broadcasts to a shape that is given; only then may it be read by its places. */
export function requireBroadcast(
  ctx: LowerContext,
  t: LTensor,
  shape: readonly Dim[],
  what: string,
): void {
  const lead = shape.length - t.shape.length;
  const text = `${what} of shape ${printShape(t.shape)} doesn't broadcast to the operand's ${printShape(shape)}`;
  if (lead < 0) ctx.fail('SHAPE_MISMATCH', text);
  t.shape.forEach((d, i) => {
    if (isConst(d, 1)) return;
    const other = shape[lead + i] ?? num(1);
    if (constOf(d) !== undefined && constOf(other) !== undefined && !same(d, other))
      ctx.fail('SHAPE_MISMATCH', text);
    ctx.requireEqual(d, other, `dim ${i} of ${what} and dim ${lead + i} of ${printShape(shape)}`);
  });
}

/** Operand i, a fault unless it has one of the ranks. */
export function operandOfRank(
  ctx: LowerContext,
  i: number,
  ranks: readonly number[],
  what: string,
): LTensor {
  const t = ctx.input(i);
  if (!ranks.includes(t.shape.length))
    ctx.fail(
      'SHAPE_MISMATCH',
      `${what} must have ${ranks.join(' or ')} dims; its shape is ${printShape(t.shape)}`,
    );
  return t;
}

/** One of the elements that {@link elementwise} hands to its body: there are as many as operands. */
export function element(e: Expr | undefined): Expr {
  if (!e) throw new Error('an operand without an element');
  return e;
}

/** A stored elementwise result over the broadcast shape; `body` gets the operands' elements. */
export function elementwise(
  ctx: LowerContext,
  operands: readonly LTensor[],
  dtype: DType,
  body: (elements: readonly Expr[]) => Expr,
): LTensor {
  const shape = broadcastShapes(
    ctx,
    operands.map((t) => t.shape),
  );
  return ctx.pointwise(shape, dtype, (index) =>
    cast(body(operands.map((t) => atBroadcast(t, index))), dtype),
  );
}

// ---------------------------------------------------------------------------------------------
// Dtypes

const FLOAT_ORDER: readonly DType[] = ['f16', 'bf16', 'f32', 'f64'];

function kindRank(t: DType): number {
  return isFloat(t) ? 2 : isInteger(t) ? 1 : 0;
}

function promotePair(a: DType, b: DType): DType {
  if (a === b) return a;
  if (kindRank(a) !== kindRank(b)) return kindRank(a) > kindRank(b) ? a : b;
  if (isFloat(a)) {
    // Neither half format holds the other.
    if ((a === 'f16' && b === 'bf16') || (a === 'bf16' && b === 'f16')) return 'f32';
    return FLOAT_ORDER.indexOf(a) > FLOAT_ORDER.indexOf(b) ? a : b;
  }
  const [wide, narrow] = integerBits(a) >= integerBits(b) ? [a, b] : [b, a];
  if (isUnsigned(wide) === isUnsigned(narrow) || !isUnsigned(wide)) {
    if (integerBits(wide) > integerBits(narrow)) return wide;
  }
  // An unsigned type meets a signed one that can't hold it: the next wider signed type.
  const next: Readonly<Record<number, DType>> = {
    4: 'i8',
    8: 'i16',
    16: 'i32',
    32: 'i64',
    64: 'i64',
  };
  return next[integerBits(wide)] ?? 'i64';
}

export function integerBits(t: DType): number {
  switch (t) {
    case 'bool':
      return 1;
    case 'i4':
    case 'u4':
      return 4;
    case 'i8':
    case 'u8':
      return 8;
    case 'i16':
    case 'u16':
      return 16;
    case 'i64':
    case 'u64':
      return 64;
    default:
      return 32;
  }
}

/** The dtype that operands meet in; one of rank 0 only counts when it is of a higher kind. */
export function promote(operands: readonly LTensor[]): DType {
  const among = (ts: readonly LTensor[]): DType | undefined =>
    ts
      .map((t) => t.dtype)
      .reduce<DType | undefined>((p, t) => (p ? promotePair(p, t) : t), undefined);
  const full = among(operands.filter((t) => t.shape.length > 0));
  const scalar = among(operands.filter((t) => t.shape.length === 0));
  if (!full) return scalar ?? 'f32';
  return scalar && kindRank(scalar) > kindRank(full) ? scalar : full;
}

/** What a function of an element of this dtype is calculated in: f32 for f16, bf16 and integers. */
export function computeFloat(t: DType): DType {
  return t === 'f64' ? 'f64' : 'f32';
}

/** The dtype of a float result for an operand of this dtype: itself, or f32 for integers and bool. */
export function floatResult(t: DType): DType {
  return isFloat(t) ? t : 'f32';
}

/** What arithmetic takes a dtype as: bool counts as an integer. */
export function numeric(t: DType): DType {
  return t === 'bool' ? 'i32' : t;
}

/** True for integers that are stored wider than they are, so that results must be wrapped by a cast. */
export function isNarrowInteger(t: DType): boolean {
  return isInteger(t) && integerBits(t) < 32;
}

/** ONNX's TensorProto.DataType numbers. */
export const ONNX_DTYPES: Readonly<Record<number, DType>> = {
  1: 'f32',
  2: 'u8',
  3: 'i8',
  4: 'u16',
  5: 'i16',
  6: 'i32',
  7: 'i64',
  9: 'bool',
  10: 'f16',
  11: 'f64',
  12: 'u32',
  13: 'u64',
  16: 'bf16',
  21: 'u4',
  22: 'i4',
};

/** What the oldest files say in a Cast. */
const ONNX_DTYPE_NAMES: Readonly<Record<string, DType>> = {
  FLOAT: 'f32',
  UINT8: 'u8',
  INT8: 'i8',
  UINT16: 'u16',
  INT16: 'i16',
  INT32: 'i32',
  INT64: 'i64',
  BOOL: 'bool',
  FLOAT16: 'f16',
  DOUBLE: 'f64',
  UINT32: 'u32',
  UINT64: 'u64',
};

/** An attribute that names a dtype: by our name, or ONNX's number or name. */
export function dtypeAttr(ctx: LowerContext, name: string, fallback?: DType): DType {
  if (!ctx.has(name) && fallback) return fallback;
  const v = ctx.node.attrs[name];
  if (typeof v === 'number') {
    return (
      ONNX_DTYPES[v] ?? ctx.unsupported(`element type ${v} (attribute ${name}) isn't supported`)
    );
  }
  const text = ctx.str(name);
  return (
    DTYPES.find((t) => t === text) ??
    (fromOnnx(ctx) ? ONNX_DTYPE_NAMES[text] : undefined) ??
    ctx.fail('BAD_DTYPE', `unknown dtype ${JSON.stringify(text)}; one of ${DTYPES.join(', ')}`)
  );
}

// ---------------------------------------------------------------------------------------------
// Expressions

/** `a fn b` in their common dtype, wrapped where the dtype is stored wider than it is. */
export function arith(fn: BinaryFn, a: Expr, b: Expr): Expr {
  const t = a.dtype;
  if (isNarrowInteger(t)) return wrapAfter(t, 'i32', (f) => binary(fn, f(a), f(b)));
  if (t === 'bf16') return wrapAfter(t, 'f32', (f) => binary(fn, f(a), f(b)));
  return binary(fn, a, b);
}

function wrapAfter(t: DType, wide: DType, make: (widen: (e: Expr) => Expr) => Expr): Expr {
  const e = make((x) => cast(x, wide));
  return e.dtype === 'bool' ? e : cast(e, t);
}

/** `fn(a)` in a's dtype, for functions that integers have too (neg, abs, sign). */
export function arith1(fn: UnaryFn, a: Expr): Expr {
  if (isNarrowInteger(a.dtype)) return cast(unary(fn, cast(a, 'i32')), a.dtype);
  return unary(fn, a);
}

export const plus = (a: Expr, b: Expr): Expr => arith('add', a, b);
export const minus = (a: Expr, b: Expr): Expr => arith('sub', a, b);
export const times = (a: Expr, b: Expr): Expr => arith('mul', a, b);
export const over = (a: Expr, b: Expr): Expr => arith('div', a, b);
export const least = (a: Expr, b: Expr): Expr => arith('min', a, b);
export const greatest = (a: Expr, b: Expr): Expr => arith('max', a, b);

/** The element of an integer tensor; a fault for other dtypes. */
export function bitsOf(ctx: LowerContext, e: Expr, t: LTensor): Expr {
  if (!isInteger(t.dtype))
    ctx.fail(
      'BAD_DTYPE',
      `works on the bits of integers, but got ${t.dtype}${printShape(t.shape)}`,
    );
  return e;
}

/** The constant `v` in the dtype of `e`. */
export function like(e: Expr, v: number): Expr {
  return constant(v, e.dtype);
}

/** Calculates in f32 (f64 for f64) and rounds the result to `dtype`. */
export function inFloat(e: Expr, dtype: DType, f: (x: Expr) => Expr): Expr {
  return cast(f(cast(e, computeFloat(e.dtype))), dtype);
}

/** The number of points of some dims, as a number of this dtype; symbolic dims stay symbolic. */
export function countAs(dims: readonly IndexLike[], dtype: DType): Expr {
  return sizeAs(product(dims), dtype);
}

/** A size as a number of this dtype. */
export function sizeAs(size: IndexExpr, dtype: DType): Expr {
  const n = constOf(size);
  return n === undefined ? cast(indexValue(size, 'i32'), dtype) : constant(n, dtype);
}

/** The contents of a tensor with one element, when they are a number known at compile time. */
export function knownScalar(t: LTensor): number | undefined {
  const [v, ...more] = t.known ?? [];
  if (v === undefined || more.length > 0) return undefined;
  return typeof v === 'number' ? v : constOf(v);
}

/** The element of a tensor that must have exactly one (rank 0, or all dims 1). */
export function scalarElement(ctx: LowerContext, t: LTensor, what: string): Expr {
  if (!t.shape.every((d) => isConst(d, 1))) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `${what} must be a single number, but has shape ${printShape(t.shape)}`,
    );
  }
  return t.at(t.shape.map(() => num(0)));
}

// ---------------------------------------------------------------------------------------------
// Axes and sizes

/** The axes made non-negative, each within the rank and none twice. */
export function checkAxes(ctx: LowerContext, axes: readonly number[], rank: number): number[] {
  const out = axes.map((a) => ctx.axis(a, rank));
  const twice = out.find((a, i) => out.indexOf(a) !== i);
  if (twice !== undefined) {
    ctx.fail('BAD_AXIS', `axis ${twice} is named twice in [${axes.join(', ')}]`);
  }
  return out;
}

/** Axes given by an operand (newer ONNX opsets) or an attribute (older ones, `.fuse`); undefined: not given. */
export function axesOf(
  ctx: LowerContext,
  operand: number,
  attr = 'axes',
): readonly number[] | undefined {
  if (operand < ctx.arity && ctx.optional(operand)) return ctx.numbers(operand);
  return ctx.has(attr) ? ctx.ints(attr) : undefined;
}

/** Sizes given by an operand or an attribute; undefined: not given. */
export function sizesOf(
  ctx: LowerContext,
  operand: number,
  attr: string,
): readonly Dim[] | undefined {
  const v = ctx.node.attrs[attr];
  if (typeof v === 'object' && 'dims' in v) return v.dims;
  if (typeof v === 'number') return [num(v)];
  if (v !== undefined) return ctx.ints(attr).map(num);
  return operand >= 0 && operand < ctx.arity && ctx.optional(operand)
    ? ctx.sizes(operand)
    : undefined;
}

// ---------------------------------------------------------------------------------------------
// Views that composite ops are made with

/** Reorders dims: dim i of the result is dim `perm[i]` of `t`. */
export function transposeView(ctx: LowerContext, t: LTensor, perm: readonly number[]): LTensor {
  return ctx.view(
    perm.map((p) => t.shape[p] ?? num(1)),
    t,
    (index) => {
      const out: IndexExpr[] = t.shape.map(() => num(0));
      perm.forEach((p, i) => (out[p] = index[i] ?? num(0)));
      return out;
    },
  );
}

/**
 * The same elements in another shape of equally many. Dims that both shapes share are mapped one to
 * one, and only the runs of dims in between through a linear index, so that symbolic sizes don't
 * stand in the way of simplification.
 */
export function reshapeView(ctx: LowerContext, t: LTensor, shape: readonly IndexLike[]): LTensor {
  const to = shape.map(ix);
  if ([...to, ...t.shape].some((d) => isConst(d, 0))) {
    return ctx.view(to, t, () => t.shape.map(() => num(0)));
  }
  const groups = reshapeGroups(t.shape, to);
  return ctx.view(to, t, (index) => {
    const out: IndexExpr[] = t.shape.map(() => num(0));
    for (const g of groups) {
      const lin = linearise(
        g.to.map((i) => index[i] ?? num(0)),
        g.to.map((i) => to[i] ?? num(1)),
      );
      const within = delinearise(
        lin,
        g.from.map((i) => t.shape[i] ?? num(1)),
      );
      g.from.forEach((d, k) => (out[d] = within[k] ?? num(0)));
    }
    return out;
  });
}

interface ReshapeGroup {
  readonly from: readonly number[];
  readonly to: readonly number[];
}

/** Runs of dims of the two shapes with equal products, as short as can be proved; dims of 1 are in none. */
function reshapeGroups(from: readonly Dim[], to: readonly Dim[]): ReshapeGroup[] {
  const a = from.map((d, i) => ({ d, i })).filter((x) => !isConst(x.d, 1));
  const b = to.map((d, i) => ({ d, i })).filter((x) => !isConst(x.d, 1));
  const groups: ReshapeGroup[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    const first = { i, j };
    let p = product(a.slice(i, ++i).map((x) => x.d));
    let q = product(b.slice(j, ++j).map((x) => x.d));
    while (!same(p, q)) {
      // Lengthen the side whose product divides the other's; when neither does, all the rest is one group.
      const pc = constOf(p);
      const qc = constOf(q);
      const growTo = pc !== undefined && qc !== undefined ? pc > qc : exactDiv(p, q) !== undefined;
      const growFrom =
        pc !== undefined && qc !== undefined ? pc < qc : exactDiv(q, p) !== undefined;
      const nextA = a[i];
      const nextB = b[j];
      if (growTo && nextB) {
        q = product([q, nextB.d]);
        j++;
      } else if (growFrom && nextA) {
        p = product([p, nextA.d]);
        i++;
      } else {
        i = a.length;
        j = b.length;
        break;
      }
    }
    groups.push({
      from: a.slice(first.i, i).map((x) => x.i),
      to: b.slice(first.j, j).map((x) => x.i),
    });
  }
  return groups;
}

// ---------------------------------------------------------------------------------------------
// `.fuse` forms

/** A list argument that may also be a single number. */
export function intList(arg: FuseArg): number[] | undefined {
  if (typeof arg === 'number') return [arg];
  if (typeof arg !== 'object') return undefined;
  if (!isList(arg)) return listOf([arg]);
  return listOf(arg);
}

function isList(
  arg: readonly number[] | Dim | readonly Dim[],
): arg is readonly number[] | readonly Dim[] {
  return Array.isArray(arg);
}

function listOf(items: readonly (number | Dim)[]): number[] | undefined {
  const out: number[] = [];
  for (const d of items) {
    const n = typeof d === 'number' ? d : constOf(d);
    if (n === undefined) return undefined;
    out.push(n);
  }
  return out;
}

/** A size(s) argument as an attribute: numbers where all are, `{ dims }` where some are symbolic. */
export function sizesAttr(arg: FuseArg): AttrValue | undefined {
  const numbers = intList(arg);
  if (numbers) return numbers;
  if (typeof arg !== 'object') return undefined;
  const items: readonly (number | Dim)[] = isList(arg) ? arg : [arg];
  return { dims: items.map(ix) };
}

/** Attributes without those that were left out. */
export function attrsOf(attrs: Attrs): Attrs {
  return Object.fromEntries(Object.entries(attrs).filter(([, v]) => v !== undefined));
}

/** The argument as a plain attribute; sizes and lists by {@link sizesAttr}. */
export function plainAttr(arg: FuseArg): AttrValue | undefined {
  return typeof arg === 'object' ? sizesAttr(arg) : arg;
}

/** An operand. */
export function tensorParam(name: string, ...aliases: string[]): FuseParam {
  return { name, kind: 'tensor', ...(aliases.length > 0 ? { aliases } : {}) };
}

/** An operand that may be left out. */
export function optionalTensor(name: string, ...aliases: string[]): FuseParam {
  return { ...tensorParam(name, ...aliases), optional: true };
}

/** `axis` (one), also typed `dim`. */
export function axisParam(fallback?: number): FuseParam {
  return {
    name: 'axis',
    aliases: ['dim'],
    kind: 'int',
    ...(fallback === undefined ? {} : { optional: true, default: fallback }),
  };
}

/** `axis` (one or several), also typed `dim`, `axes`, `dims`; left out: all. */
export const AXES_PARAM: FuseParam = {
  name: 'axis',
  aliases: ['dim', 'axes', 'dims'],
  kind: 'ints',
  optional: true,
};

export const KEEPDIM_PARAM: FuseParam = {
  name: 'keepdim',
  aliases: ['keepdims'],
  kind: 'bool',
  optional: true,
  default: false,
};

/** An attribute that may be left out. */
export function optionalParam(
  name: string,
  kind: FuseParam['kind'],
  fallback?: FuseArg,
  ...aliases: string[]
): FuseParam {
  return {
    name,
    kind,
    optional: true,
    ...(fallback === undefined ? {} : { default: fallback }),
    ...(aliases.length > 0 ? { aliases } : {}),
  };
}

/** ONNX nodes carry the version of their operator set; where the formats' rules differ, it tells them apart. */
export function fromOnnx(ctx: LowerContext): boolean {
  return ctx.has('opset');
}
