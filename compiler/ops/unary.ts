/**
 * Elementwise ops of one operand: functions, rounding, tests.
 *
 * Functions of f16 and bf16 are calculated in f32 and rounded once; integers are taken as f32 where
 * the result isn't one.
 */
import { isFloat } from '../graph/dtype';
import { binary, cast, type Expr, unary, type UnaryFn } from '../ir/expr';

import type { FuseForm, OpDef } from './op';
import {
  arith1,
  element,
  elementwise,
  floatResult,
  inFloat,
  like,
  over,
  tensorParam,
  times,
  bitsOf,
  numeric,
} from './shared';

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
      const x = ctx.input(0);
      const dtype = numeric(x.dtype);
      return elementwise(ctx, [x], dtype, ([e]) => f(cast(element(e), dtype)));
    },
  };
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

const functionOps: readonly OpDef[] = [
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

export const unaryOps: readonly OpDef[] = [...functionOps, ...testOps];
