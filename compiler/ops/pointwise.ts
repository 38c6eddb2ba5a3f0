/**
 * Elementwise ops of two or more operands: arithmetic, comparison, logic, bits. Those of one are in
 * unary.ts and activation.ts, casts and choices in choice.ts.
 *
 * Operands broadcast. ONNX demands equal dtypes; `.fuse` promotes as PyTorch does. Arithmetic of f16
 * stays in f16; that of bf16 and of integers narrower than 32 bits is rounded or wrapped by a cast.
 */
import { type DType, isFloat } from '../graph/dtype';
import { binary, type BinaryFn, cast, type Expr, unary } from '../ir/expr';

import type { FuseCall, FuseForm, LowerContext, LTensor, OpDef } from './op';
import {
  arith,
  computeFloat,
  element,
  elementwise,
  floatResult,
  fromOnnx,
  inFloat,
  integerBits,
  knownScalar,
  like,
  optionalParam,
  over,
  plus,
  promote,
  reshapeView,
  tensorParam,
  times,
  bitsOf,
  numeric,
} from './shared';

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

function scaledForm(names: readonly string[], doc: string): FuseForm {
  return { names, params: [A, B, optionalParam('alpha', 'float')], doc };
}

function arithmeticOp(
  name: string,
  onnx: string | undefined,
  fn: BinaryFn,
  names: readonly string[],
  doc: string,
): OpDef {
  // PyTorch's sums may scale what is added.
  const scaled = fn === 'add' || fn === 'sub';
  return {
    name,
    ...(onnx ? { onnx: [onnx] } : {}),
    fuse: [scaled ? scaledForm([name, ...names], doc) : binaryForm([name, ...names], doc)],
    lower: (ctx) => {
      const alpha = scaled && !fromOnnx(ctx) ? ctx.float('alpha', 1) : 1;
      return lowerBinary(ctx, numeric, (a, b) => {
        const t = numeric(a.dtype);
        const other = cast(b, t);
        return arith(fn, cast(a, t), alpha === 1 ? other : times(other, like(other, alpha)));
      });
    },
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
  const { a: base, b: exponent } = pair(ctx);
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

export const pointwiseOps: readonly OpDef[] = [...binaryOps, ...variadicOps];
