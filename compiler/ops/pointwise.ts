/**
 * Elementwise ops: arithmetic, comparison, logic, bits, casts, choice. Activations are in
 * activation.ts.
 *
 * Operands broadcast. ONNX demands equal dtypes; `.fuse` promotes as PyTorch does. Functions of f16
 * and bf16 are calculated in f32 and rounded once; arithmetic of f16 stays in f16.
 */
import { type DType, isFloat, isInteger } from '../graph/dtype';
import { binary, type BinaryFn, cast, type Expr, select, unary, type UnaryFn } from '../ir/expr';
import { isConst, printShape } from '../ir/indexExpr';
import type { FuseCall, FuseForm, LowerContext, LTensor, OpDef } from './op';
import {
  arith,
  arith1,
  attrsOf,
  broadcastShapes,
  computeFloat,
  dtypeAttr,
  element,
  elementwise,
  floatResult,
  fromOnnx,
  greatest,
  inFloat,
  integerBits,
  knownScalar,
  least,
  like,
  optionalParam,
  optionalTensor,
  over,
  plus,
  promote,
  reshapeView,
  scalarElement,
  tensorParam,
  times,
} from './shared';

// ---------------------------------------------------------------------------------------------
// One operand

const X = tensorParam('input', 'x', 'self', 'a');

function unaryForm(names: readonly string[], doc: string): FuseForm {
  return { names, params: [X], doc };
}

interface UnaryRow {
  readonly name: string;
  readonly onnx?: string;
  readonly aliases?: readonly string[];
  readonly doc: string;
}

/** f(x) in floats; integers and bool are taken as f32. */
function floatOp(row: UnaryRow, f: (x: Expr) => Expr): OpDef {
  return {
    name: row.name,
    ...(row.onnx ? { onnx: [row.onnx] } : {}),
    fuse: [unaryForm([row.name, ...(row.aliases ?? [])], row.doc)],
    lower: (ctx) => {
      const x = ctx.input(0);
      const dtype = floatResult(x.dtype);
      return elementwise(ctx, [x], dtype, ([e]) => inFloat(element(e), dtype, f));
    },
  };
}

const floatFn = (fn: UnaryFn, row: UnaryRow): OpDef => floatOp(row, (x) => unary(fn, x));

/** f(x) in x's own dtype. */
function sameDtypeOp(row: UnaryRow, f: (x: Expr) => Expr): OpDef {
  return {
    name: row.name,
    ...(row.onnx ? { onnx: [row.onnx] } : {}),
    fuse: [unaryForm([row.name, ...(row.aliases ?? [])], row.doc)],
    lower: (ctx) => {
      const x = notBool(ctx.input(0));
      return elementwise(ctx, [x.tensor], x.dtype, ([e]) => f(cast(element(e), x.dtype)));
    },
  };
}

/** Arithmetic takes bool as integers. */
function notBool(tensor: LTensor): { tensor: LTensor; dtype: DType } {
  return { tensor, dtype: tensor.dtype === 'bool' ? 'i32' : tensor.dtype };
}

/** Rounding functions leave integers as they are. */
function roundingOp(fn: UnaryFn, row: UnaryRow): OpDef {
  return {
    name: row.name,
    ...(row.onnx ? { onnx: [row.onnx] } : {}),
    fuse: [unaryForm([row.name, ...(row.aliases ?? [])], row.doc)],
    lower: (ctx) => {
      const x = ctx.input(0);
      if (!isFloat(x.dtype)) return x;
      return elementwise(ctx, [x], x.dtype, ([e]) => unary(fn, element(e)));
    },
  };
}

const unaryOps: readonly OpDef[] = [
  sameDtypeOp({ name: 'neg', onnx: 'Neg', aliases: ['negative'], doc: '-x' }, (x) =>
    arith1('neg', x),
  ),
  sameDtypeOp({ name: 'abs', onnx: 'Abs', aliases: ['absolute'], doc: '|x|' }, (x) =>
    arith1('abs', x),
  ),
  sameDtypeOp({ name: 'sign', onnx: 'Sign', aliases: ['sgn'], doc: '-1, 0 or 1' }, (x) =>
    arith1('sign', x),
  ),
  sameDtypeOp({ name: 'square', doc: 'x * x' }, (x) => times(x, x)),
  floatFn('exp', { name: 'exp', onnx: 'Exp', doc: 'e to the x' }),
  floatFn('expm1', { name: 'expm1', doc: 'exp(x) - 1, exact near 0' }),
  floatOp({ name: 'exp2', doc: '2 to the x' }, (x) => unary('exp', times(x, like(x, Math.LN2)))),
  floatFn('log', { name: 'log', onnx: 'Log', aliases: ['ln'], doc: 'natural logarithm' }),
  floatFn('log1p', { name: 'log1p', doc: 'log(1 + x), exact near 0' }),
  floatOp({ name: 'log2', doc: 'logarithm to base 2' }, (x) =>
    over(unary('log', x), like(x, Math.LN2)),
  ),
  floatOp({ name: 'log10', doc: 'logarithm to base 10' }, (x) =>
    over(unary('log', x), like(x, Math.LN10)),
  ),
  floatFn('sqrt', { name: 'sqrt', onnx: 'Sqrt', doc: 'square root' }),
  floatFn('rsqrt', { name: 'rsqrt', doc: '1 / sqrt(x)' }),
  floatFn('recip', { name: 'reciprocal', onnx: 'Reciprocal', doc: '1 / x' }),
  floatFn('sin', { name: 'sin', onnx: 'Sin', doc: 'sine' }),
  floatFn('cos', { name: 'cos', onnx: 'Cos', doc: 'cosine' }),
  floatFn('tan', { name: 'tan', onnx: 'Tan', doc: 'tangent' }),
  floatFn('asin', { name: 'asin', onnx: 'Asin', aliases: ['arcsin'], doc: 'inverse sine' }),
  floatFn('acos', { name: 'acos', onnx: 'Acos', aliases: ['arccos'], doc: 'inverse cosine' }),
  floatFn('atan', { name: 'atan', onnx: 'Atan', aliases: ['arctan'], doc: 'inverse tangent' }),
  floatFn('sinh', { name: 'sinh', onnx: 'Sinh', doc: 'hyperbolic sine' }),
  floatFn('cosh', { name: 'cosh', onnx: 'Cosh', doc: 'hyperbolic cosine' }),
  floatFn('tanh', { name: 'tanh', onnx: 'Tanh', doc: 'hyperbolic tangent' }),
  floatFn('asinh', { name: 'asinh', onnx: 'Asinh', doc: 'inverse hyperbolic sine' }),
  floatFn('acosh', { name: 'acosh', onnx: 'Acosh', doc: 'inverse hyperbolic cosine' }),
  floatFn('atanh', { name: 'atanh', onnx: 'Atanh', doc: 'inverse hyperbolic tangent' }),
  floatFn('erf', { name: 'erf', onnx: 'Erf', doc: 'error function' }),
  floatOp({ name: 'erfc', doc: '1 - erf(x)' }, (x) => binary('sub', like(x, 1), unary('erf', x))),
  roundingOp('floor', { name: 'floor', onnx: 'Floor', doc: 'down to an integer' }),
  roundingOp('ceil', { name: 'ceil', onnx: 'Ceil', doc: 'up to an integer' }),
  roundingOp('round', {
    name: 'round',
    onnx: 'Round',
    doc: 'to the nearest integer, ties to even',
  }),
  roundingOp('trunc', { name: 'trunc', aliases: ['fix'], doc: 'towards 0 to an integer' }),
];

const testOps: readonly OpDef[] = [
  {
    name: 'isnan',
    onnx: ['IsNaN'],
    fuse: [unaryForm(['isnan'], 'whether x is not a number')],
    lower: (ctx) => {
      const x = ctx.input(0);
      return elementwise(ctx, [x], 'bool', ([e]) =>
        isFloat(x.dtype) ? unary('isnan', element(e)) : falseExpr(),
      );
    },
  },
  {
    name: 'isinf',
    onnx: ['IsInf'],
    fuse: [unaryForm(['isinf'], 'whether x is infinite')],
    lower: (ctx) => {
      const x = ctx.input(0);
      const negative = ctx.bool('detect_negative', true);
      const positive = ctx.bool('detect_positive', true);
      return elementwise(ctx, [x], 'bool', ([e]) => {
        const v = element(e);
        if (!isFloat(v.dtype) || (!negative && !positive)) return falseExpr();
        const inf = unary('isinf', v);
        if (negative && positive) return inf;
        return binary('and', inf, binary(positive ? 'gt' : 'lt', v, like(v, 0)));
      });
    },
  },
  {
    name: 'logical_not',
    onnx: ['Not'],
    fuse: [unaryForm(['logical_not', 'not'], 'not x')],
    lower: (ctx) =>
      elementwise(ctx, [ctx.input(0)], 'bool', ([e]) => unary('not', cast(element(e), 'bool'))),
  },
  {
    name: 'bitwise_not',
    onnx: ['BitwiseNot'],
    fuse: [unaryForm(['bitwise_not'], 'every bit inverted')],
    lower: (ctx) => {
      const x = ctx.input(0);
      return elementwise(ctx, [x], x.dtype, ([e]) =>
        x.dtype === 'bool'
          ? unary('not', element(e))
          : arith1('bitnot', bitsOf(ctx, element(e), x)),
      );
    },
  },
];

function falseExpr(): Expr {
  return { op: 'const', value: 0, dtype: 'bool' };
}

function bitsOf(ctx: LowerContext, e: Expr, t: LTensor): Expr {
  if (!isInteger(t.dtype))
    ctx.fail(
      'BAD_DTYPE',
      `works on the bits of integers, but got ${t.dtype}${printShape(t.shape)}`,
    );
  return e;
}

// ---------------------------------------------------------------------------------------------
// Two operands

const A = tensorParam('input', 'a', 'x', 'self');
const B = tensorParam('other', 'b', 'y', 'exponent');

/**
 * The two operands with their common shape and dtype. Before opset 7 ONNX aligned the second at an
 * `axis` instead of at the end.
 */
function pair(ctx: LowerContext): { a: LTensor; b: LTensor; dtype: DType } {
  const a = ctx.input(0);
  let b = ctx.input(1);
  if (ctx.has('axis') && ctx.bool('broadcast', false)) {
    const after = a.shape.length - ctx.axis(ctx.int('axis'), a.shape.length) - b.shape.length;
    if (after > 0) b = reshapeView(ctx, b, [...b.shape, ...new Array<number>(after).fill(1)]);
  }
  return { a, b, dtype: promote([a, b]) };
}

function lowerBinary(
  ctx: LowerContext,
  result: (operands: DType) => DType,
  f: (a: Expr, b: Expr) => Expr,
): LTensor {
  const { a, b, dtype } = pair(ctx);
  const out = result(dtype);
  return elementwise(ctx, [a, b], out, ([p, q]) =>
    f(cast(element(p), dtype), cast(element(q), dtype)),
  );
}

function binaryForm(names: readonly string[], doc: string): FuseForm {
  return { names, params: [A, B], doc };
}

const numeric = (t: DType): DType => (t === 'bool' ? 'i32' : t);

function arithmeticOp(
  name: string,
  onnx: string | undefined,
  fn: BinaryFn,
  names: readonly string[],
  doc: string,
): OpDef {
  return {
    name,
    ...(onnx ? { onnx: [onnx] } : {}),
    fuse: [binaryForm([name, ...names], doc)],
    lower: (ctx) =>
      lowerBinary(ctx, numeric, (a, b) => {
        const t = numeric(a.dtype);
        return arith(fn, cast(a, t), cast(b, t));
      }),
  };
}

function comparisonOp(fn: BinaryFn, onnx: string | undefined, names: readonly string[]): OpDef {
  return {
    name: fn,
    ...(onnx ? { onnx: [onnx] } : {}),
    fuse: [binaryForm([fn, ...names], `whether a ${fn} b; bool`)],
    lower: (ctx) =>
      lowerBinary(
        ctx,
        () => 'bool',
        (a, b) =>
          // Bools are compared as the integers they are.
          binary(fn, cast(a, numeric(a.dtype)), cast(b, numeric(b.dtype))),
      ),
  };
}

function logicalOp(fn: 'and' | 'or' | 'xor', onnx: string): OpDef {
  return {
    name: `logical_${fn}`,
    onnx: [onnx],
    fuse: [binaryForm([`logical_${fn}`, fn], `a ${fn} b, of what isn't 0`)],
    lower: (ctx) =>
      lowerBinary(
        ctx,
        () => 'bool',
        (a, b) => binary(fn, cast(a, 'bool'), cast(b, 'bool')),
      ),
  };
}

function bitwiseOp(fn: 'and' | 'or' | 'xor', onnx: string): OpDef {
  const bits = { and: 'bitand', or: 'bitor', xor: 'bitxor' } as const;
  return {
    name: `bitwise_${fn}`,
    onnx: [onnx],
    fuse: [binaryForm([`bitwise_${fn}`], `bit by bit ${fn}`)],
    lower: (ctx) => {
      const { a, b } = pair(ctx);
      return lowerBinary(
        ctx,
        (t) => t,
        (p, q) => {
          if (p.dtype === 'bool') return binary(fn, p, q);
          return arith(bits[fn], bitsOf(ctx, p, a), bitsOf(ctx, q, b));
        },
      );
    },
  };
}

function shift(ctx: LowerContext, left: boolean): LTensor {
  const { a, b } = pair(ctx);
  return lowerBinary(
    ctx,
    (t) => t,
    (p, q) => {
      bitsOf(ctx, p, a);
      bitsOf(ctx, q, b);
      if (integerBits(p.dtype) >= 32) return binary(left ? 'shl' : 'shr', p, q);
      const wide: DType = p.dtype === 'u8' || p.dtype === 'u16' ? 'u32' : 'i32';
      return cast(binary(left ? 'shl' : 'shr', cast(p, wide), cast(q, wide)), p.dtype);
    },
  );
}

/** Remainder: with the sign of the divisor, or of the dividend (`truncated`, as C's fmod). */
function remainder(ctx: LowerContext, truncated: boolean): LTensor {
  return lowerBinary(ctx, numeric, (a, b) => {
    const t = numeric(a.dtype);
    const fn = truncated ? 'fmod' : 'mod';
    if (!isFloat(t)) return arith(fn, cast(a, t), cast(b, t));
    const wide = computeFloat(t);
    return binary(fn, cast(a, wide), cast(b, wide));
  });
}

/** a / b: integers truncate as ONNX says, or divide in floats where the form asks for it. */
function divide(ctx: LowerContext): LTensor {
  const rounding = ctx.str('rounding_mode', 'none');
  const exact = !fromOnnx(ctx) && rounding === 'none';
  return lowerBinary(
    ctx,
    (t) => (exact ? floatResult(t) : numeric(t)),
    (a, b) => {
      const t = exact ? floatResult(a.dtype) : numeric(a.dtype);
      const p = cast(a, t);
      const q = cast(b, t);
      if (isFloat(t)) {
        const r = arith('div', p, q);
        if (rounding === 'floor') return unary('floor', r);
        return rounding === 'trunc' ? unary('trunc', r) : r;
      }
      if (rounding !== 'floor') return arith('div', p, q);
      // (a - a mod b) is a multiple of b, and its quotient is the floor.
      return arith('div', arith('sub', p, arith('mod', p, q)), q);
    },
  );
}

/** base ** exponent in the base's dtype; small known exponents become products and roots. */
function power(ctx: LowerContext): LTensor {
  const base = ctx.input(0);
  const exponent = ctx.input(1);
  const known = knownScalar(exponent);
  // ONNX keeps the base's dtype; PyTorch promotes.
  const dtype = numeric(!fromOnnx(ctx) ? promote([base, exponent]) : base.dtype);
  return elementwise(ctx, [base, exponent], dtype, ([p, q]) => {
    const b = cast(element(p), dtype);
    const small = known === undefined ? undefined : smallPower(b, known);
    if (small) return small;
    if (isFloat(dtype)) {
      const wide = computeFloat(dtype);
      return binary('pow', cast(b, wide), cast(element(q), wide));
    }
    // Integer powers are exact in f32 up to 2^24; rounding takes away what exp2 and log2 leave.
    return unary('round', binary('pow', cast(b, 'f32'), cast(element(q), 'f32')));
  });
}

function smallPower(b: Expr, exponent: number): Expr | undefined {
  if (exponent === 0) return like(b, 1);
  if (exponent === 1) return b;
  if (exponent === 2) return times(b, b);
  if (exponent === 3) return times(times(b, b), b);
  if (!isFloat(b.dtype)) return undefined;
  if (exponent === 0.5) return inFloat(b, b.dtype, (x) => unary('sqrt', x));
  if (exponent === -0.5) return inFloat(b, b.dtype, (x) => unary('rsqrt', x));
  if (exponent === -1) return inFloat(b, b.dtype, (x) => unary('recip', x));
  return undefined;
}

const binaryOps: readonly OpDef[] = [
  arithmeticOp('add', 'Add', 'add', ['plus'], 'a + b'),
  arithmeticOp('sub', 'Sub', 'sub', ['subtract', 'minus'], 'a - b'),
  arithmeticOp('mul', 'Mul', 'mul', ['multiply', 'times'], 'a * b'),
  {
    name: 'div',
    onnx: ['Div'],
    fuse: [
      {
        names: ['div', 'divide', 'true_divide'],
        params: [A, B, optionalParam('rounding_mode', 'str')],
        doc: 'a / b; integers divide in f32 unless rounding_mode is "trunc" or "floor"',
      },
      {
        names: ['floor_divide', 'floordiv'],
        params: [A, B],
        attrs: () => ({ rounding_mode: 'floor' }),
        doc: 'a / b rounded down',
      },
    ],
    lower: divide,
  },
  {
    name: 'mod',
    onnx: ['Mod'],
    fuse: [binaryForm(['remainder', 'mod'], 'what is left of a / b, with the sign of b')],
    lower: (ctx) => remainder(ctx, ctx.bool('fmod', false)),
  },
  {
    name: 'fmod',
    fuse: [binaryForm(['fmod'], 'what is left of a / b, with the sign of a')],
    lower: (ctx) => remainder(ctx, true),
  },
  {
    name: 'pow',
    onnx: ['Pow'],
    fuse: [
      {
        names: ['pow', 'power'],
        params: [A, B],
        doc: 'a to the power b',
      },
    ],
    lower: power,
  },
  {
    name: 'atan2',
    fuse: [binaryForm(['atan2', 'arctan2'], 'angle of the point (b, a)')],
    lower: (ctx) =>
      lowerBinary(ctx, floatResult, (a, b) => {
        const t = computeFloat(a.dtype);
        return binary('atan2', cast(a, t), cast(b, t));
      }),
  },
  comparisonOp('eq', 'Equal', ['equal']),
  comparisonOp('ne', undefined, ['not_equal']),
  comparisonOp('lt', 'Less', ['less']),
  comparisonOp('le', 'LessOrEqual', ['less_equal']),
  comparisonOp('gt', 'Greater', ['greater']),
  comparisonOp('ge', 'GreaterOrEqual', ['greater_equal']),
  logicalOp('and', 'And'),
  logicalOp('or', 'Or'),
  logicalOp('xor', 'Xor'),
  bitwiseOp('and', 'BitwiseAnd'),
  bitwiseOp('or', 'BitwiseOr'),
  bitwiseOp('xor', 'BitwiseXor'),
  {
    name: 'bit_shift',
    onnx: ['BitShift'],
    fuse: [
      {
        names: ['bitwise_left_shift'],
        params: [A, B],
        attrs: () => ({ direction: 'LEFT' }),
        doc: 'a << b',
      },
      {
        names: ['bitwise_right_shift'],
        params: [A, B],
        attrs: () => ({ direction: 'RIGHT' }),
        doc: 'a >> b',
      },
    ],
    lower: (ctx) => {
      const direction = ctx.str('direction');
      if (direction !== 'LEFT' && direction !== 'RIGHT')
        ctx.fail('BAD_ATTRIBUTE', `'direction' must be LEFT or RIGHT, not ${direction}`);
      return shift(ctx, direction === 'LEFT');
    },
  },
];

// ---------------------------------------------------------------------------------------------
// Any number of operands

/** `max(a, b)` compares two tensors; `max(x, axis=1)` reduces (see reductions.ts). */
function comparesTwo(call: FuseCall): boolean {
  return call.positional[1] === 'tensor' || call.named['other'] !== undefined;
}

function allOperands(ctx: LowerContext): LTensor[] {
  return Array.from({ length: Math.max(1, ctx.arity) }, (_, i) => ctx.input(i));
}

/** Combines operands from left to right in f32 (integers: their own dtype), rounding once. */
function variadic(
  ctx: LowerContext,
  combine: (a: Expr, b: Expr) => Expr,
  finish: (sum: Expr, count: number) => Expr = (e) => e,
): LTensor {
  const operands = allOperands(ctx);
  const [first] = operands;
  if (first && operands.length === 1) return first;
  const common = promote(operands);
  const wide = isFloat(common) ? computeFloat(common) : common;
  return elementwise(ctx, operands, common, (elements) => {
    const [head, ...rest] = elements.map((e) => cast(e, wide));
    return finish(rest.reduce(combine, element(head)), elements.length);
  });
}

const logicalFor: Readonly<Record<'max' | 'min', BinaryFn>> = { max: 'or', min: 'and' };

function extremum(fn: 'max' | 'min'): (a: Expr, b: Expr) => Expr {
  return (a, b) => (a.dtype === 'bool' ? binary(logicalFor[fn], a, b) : arith(fn, a, b));
}

const variadicOps: readonly OpDef[] = [
  {
    name: 'maximum',
    onnx: ['Max'],
    fuse: [
      binaryForm(['maximum', 'fmax'], 'the greater of a and b, element by element'),
      { ...binaryForm(['max'], 'the greater of a and b'), matches: comparesTwo },
    ],
    lower: (ctx) => variadic(ctx, extremum('max')),
  },
  {
    name: 'minimum',
    onnx: ['Min'],
    fuse: [
      binaryForm(['minimum', 'fmin'], 'the lesser of a and b, element by element'),
      { ...binaryForm(['min'], 'the lesser of a and b'), matches: comparesTwo },
    ],
    lower: (ctx) => variadic(ctx, extremum('min')),
  },
  {
    name: 'add_n',
    onnx: ['Sum'],
    fuse: [
      {
        names: ['add_n'],
        params: [{ name: 'tensors', kind: 'tensors' }],
        doc: 'the sum of several tensors',
      },
    ],
    lower: (ctx) => variadic(ctx, plus),
  },
  {
    name: 'mean_n',
    onnx: ['Mean'],
    fuse: [
      {
        names: ['mean_n'],
        params: [{ name: 'tensors', kind: 'tensors' }],
        doc: 'the mean of several tensors',
      },
    ],
    lower: (ctx) => variadic(ctx, plus, (sum, count) => over(sum, like(sum, count))),
  },
];

// ---------------------------------------------------------------------------------------------
// Conversions and choice

function castTo(ctx: LowerContext, x: LTensor, dtype: DType): LTensor {
  return x.dtype === dtype ? x : elementwise(ctx, [x], dtype, ([e]) => element(e));
}

/** Bounds are operands, or attributes in older opsets. Where they cross, the upper one wins. */
function clip(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const bound = (operand: number, attr: string): ((e: Expr) => Expr) | undefined => {
    const t = operand < ctx.arity ? ctx.optional(operand) : undefined;
    if (t && t.shape.every((d) => isConst(d, 1))) {
      const b = scalarElement(ctx, t, attr);
      return (e) => cast(b, e.dtype);
    }
    if (t)
      ctx.unsupported(`${attr} of shape ${printShape(t.shape)}: bounds must be single numbers`);
    return ctx.has(attr) ? (e) => like(e, ctx.float(attr)) : undefined;
  };
  const lo = bound(1, 'min');
  const hi = bound(2, 'max');
  if (!lo && !hi) return x;
  return elementwise(ctx, [x], x.dtype, ([e]) => {
    const low = lo ? greatest(element(e), lo(element(e))) : element(e);
    return hi ? least(low, hi(element(e))) : low;
  });
}

const choiceOps: readonly OpDef[] = [
  {
    name: 'cast',
    onnx: ['Cast'],
    fuse: [
      {
        names: ['cast', 'to', 'astype', 'convert'],
        params: [X, { name: 'dtype', aliases: ['to', 'type'], kind: 'dtype' }],
        attrs: (args) => attrsOf({ to: dtypeText(args['dtype']) }),
        doc: 'the same numbers in another dtype',
      },
      { names: ['float'], params: [X], attrs: () => ({ to: 'f32' }), doc: 'cast to f32' },
      { names: ['half'], params: [X], attrs: () => ({ to: 'f16' }), doc: 'cast to f16' },
    ],
    lower: (ctx) => castTo(ctx, ctx.input(0), dtypeAttr(ctx, 'to')),
  },
  {
    name: 'cast_like',
    onnx: ['CastLike'],
    fuse: [
      {
        names: ['cast_like', 'type_as'],
        params: [X, tensorParam('other', 'like')],
        doc: 'cast to the dtype of the other tensor',
      },
    ],
    lower: (ctx) => castTo(ctx, ctx.input(0), ctx.input(1).dtype),
  },
  {
    name: 'clamp',
    onnx: ['Clip'],
    fuse: [
      {
        names: ['clamp', 'clip', 'hardtanh'],
        params: [X, optionalTensor('min', 'min_val'), optionalTensor('max', 'max_val')],
        doc: 'held between min and max',
      },
    ],
    lower: clip,
  },
  {
    name: 'where',
    onnx: ['Where'],
    fuse: [
      {
        names: ['where'],
        params: [
          tensorParam('condition', 'cond'),
          tensorParam('input', 'x', 'a'),
          tensorParam('other', 'y', 'b'),
        ],
        doc: 'x where the condition holds, y elsewhere',
      },
    ],
    lower: (ctx) => {
      const [c, a, b] = [ctx.input(0), ctx.input(1), ctx.input(2)];
      const dtype = promote([a, b]);
      return elementwise(ctx, [c, a, b], dtype, ([k, p, q]) =>
        select(cast(element(k), 'bool'), cast(element(p), dtype), cast(element(q), dtype)),
      );
    },
  },
  {
    name: 'masked_fill',
    fuse: [
      {
        names: ['masked_fill'],
        params: [X, tensorParam('mask'), tensorParam('value')],
        doc: 'x, but value where the mask holds',
      },
    ],
    lower: (ctx) => {
      const [x, mask, value] = [ctx.input(0), ctx.input(1), ctx.input(2)];
      return elementwise(ctx, [mask, value, x], x.dtype, ([k, v, e]) =>
        select(cast(element(k), 'bool'), cast(element(v), x.dtype), element(e)),
      );
    },
  },
  {
    name: 'lerp',
    fuse: [
      {
        names: ['lerp'],
        params: [tensorParam('input'), tensorParam('end'), tensorParam('weight')],
        doc: 'input + weight * (end - input)',
      },
    ],
    lower: (ctx) => {
      const operands = [ctx.input(0), ctx.input(1), ctx.input(2)];
      const dtype = floatResult(promote(operands));
      const t = computeFloat(dtype);
      return elementwise(ctx, operands, dtype, ([a, b, w]) => {
        const from = cast(element(a), t);
        const step = arith('sub', cast(element(b), t), from);
        return plus(from, times(cast(element(w), t), step));
      });
    },
  },
];

function dtypeText(arg: unknown): string | undefined {
  return typeof arg === 'string' ? arg : undefined;
}

/** Leaky only below 0, by a slope per channel or element. */
const prelu: OpDef = {
  name: 'prelu',
  onnx: ['PRelu'],
  fuse: [
    {
      names: ['prelu'],
      params: [X, tensorParam('weight', 'slope')],
      doc: 'x, or weight * x below 0; one weight, or one per channel',
    },
  ],
  lower: (ctx) => {
    const x = ctx.input(0);
    let slope = ctx.input(1);
    const rank = x.shape.length;
    if (!fromOnnx(ctx) && slope.shape.length === 1 && rank > 2) {
      slope = reshapeView(ctx, slope, [...slope.shape, ...new Array<number>(rank - 2).fill(1)]);
    }
    if (broadcastShapes(ctx, [x.shape, slope.shape]).length > rank) {
      ctx.fail(
        'SHAPE_MISMATCH',
        `the slope of shape ${printShape(slope.shape)} must broadcast to the operand's ${printShape(x.shape)}`,
      );
    }
    return elementwise(ctx, [x, slope], x.dtype, ([e, s]) =>
      inFloatIfHalf(element(e), (v) =>
        select(binary('lt', v, like(v, 0)), times(cast(element(s), v.dtype), v), v),
      ),
    );
  },
};

function inFloatIfHalf(e: Expr, f: (x: Expr) => Expr): Expr {
  return isFloat(e.dtype) ? inFloat(e, e.dtype, f) : f(e);
}

export const pointwiseOps: readonly OpDef[] = [
  ...unaryOps,
  ...testOps,
  ...binaryOps,
  ...variadicOps,
  ...choiceOps,
  prelu,
];
