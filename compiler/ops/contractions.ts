/**
 * Contractions: matrix products in all their forms.
 *
 * Each is one sum over one or more shared dims of the product of two loads (more for einsum); what
 * comes after (alpha, beta, bias) is a separate elementwise compute, so that it fuses as an epilogue.
 */
import { cast, constant, type Expr, unary } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { Dim, IndexExpr } from '../ir/indexExpr';
import type { DType } from '../graph/dtype';
import { lowerEinsum } from './einsum';
import type { LowerContext, LTensor, OpDef } from './op';
import { at, minus, plus, product, requireShape, sumOfProducts, times, wide } from './products';
import {
  atBroadcast,
  attrsOf,
  broadcastShapes,
  optionalParam,
  optionalTensor,
  plainAttr,
  promote,
  tensorParam,
} from './shared';

/** How the elements of the two operands become factors: a cast to a common dtype, or less a zero point. */
type Factor = (e: Expr, index: readonly IndexExpr[]) => Expr;

const asIs: Factor = (e) => e;

/** NumPy's matmul: rank 1 operands are a row or a column; leading dims broadcast. */
export function matmul(
  ctx: LowerContext,
  a: LTensor,
  b: LTensor,
  dtype: DType,
  left: Factor = asIs,
  right: Factor = asIs,
): LTensor {
  const [ra, rb] = [a.shape.length, b.shape.length];
  if (ra === 0 || rb === 0) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `a matrix product needs operands of rank 1 or more; they are ${I.printShape(a.shape)} and ${I.printShape(b.shape)}: multiply scalars with *`,
    );
  }
  const ka = at(a.shape, ra - 1);
  const kb = at(b.shape, Math.max(rb - 2, 0));
  requireInner(ctx, a, b, ka, kb);
  const rows = ra > 1 ? [at(a.shape, ra - 2)] : [];
  const columns = rb > 1 ? [at(b.shape, rb - 1)] : [];
  const leadA = a.shape.slice(0, Math.max(ra - 2, 0));
  const leadB = b.shape.slice(0, Math.max(rb - 2, 0));
  const batch = broadcastShapes(ctx, [leadA, leadB]);
  const shape = [...batch, ...rows, ...columns];
  const lead = (dims: readonly Dim[], index: readonly IndexExpr[]): IndexExpr[] =>
    dims.map((d, i) => (I.isConst(d, 1) ? I.num(0) : at(index, batch.length - dims.length + i)));
  return sumOfProducts(
    ctx,
    { shape, over: [ka], dtype, accumulator: wide(dtype) },
    (index, over) => {
      const k = at(over, 0);
      const row = rows.length > 0 ? [at(index, batch.length)] : [];
      const column = columns.length > 0 ? [at(index, batch.length + rows.length)] : [];
      const ia = [...lead(leadA, index), ...row, k];
      const ib = [...lead(leadB, index), k, ...column];
      return [left(a.at(ia), ia), right(b.at(ib), ib)];
    },
  );
}

function requireInner(ctx: LowerContext, a: LTensor, b: LTensor, ka: Dim, kb: Dim): void {
  const [x, y] = [I.constOf(ka), I.constOf(kb)];
  if (x !== undefined && y !== undefined && x !== y) {
    const hint =
      b.shape.length >= 2 && I.same(ka, at(b.shape, b.shape.length - 1))
        ? '; the right one would fit transposed'
        : '';
    ctx.fail(
      'SHAPE_MISMATCH',
      `${I.printShape(a.shape)} times ${I.printShape(b.shape)}: the left one's last dim is ${x} and the right one's ` +
        `${b.shape.length > 1 ? 'second last' : 'only'} dim is ${y}; they must be equal${hint}`,
    );
  }
  ctx.requireEqual(
    ka,
    kb,
    `the inner dims of ${I.printShape(a.shape)} times ${I.printShape(b.shape)}`,
  );
}

function lowerMatmul(ctx: LowerContext): LTensor {
  const [a, b] = [ctx.input(0), ctx.input(1)];
  return matmul(ctx, a, b, promote([a, b]));
}

function lowerBmm(ctx: LowerContext): LTensor {
  const [a, b] = [ctx.input(0), ctx.input(1)];
  if (a.shape.length !== 3 || b.shape.length !== 3) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `bmm takes [batch, n, k] and [batch, k, m]; the operands are ${I.printShape(a.shape)} and ${I.printShape(b.shape)}: use matmul for other ranks`,
    );
  }
  ctx.requireEqual(at(a.shape, 0), at(b.shape, 0), 'the batch dims of bmm');
  return matmul(ctx, a, b, promote([a, b]));
}

/** alpha * A' * B' + beta * C. */
export function lowerGemm(ctx: LowerContext): LTensor {
  const [a, b, c] = [ctx.input(0), ctx.input(1), ctx.optional(2)];
  if (a.shape.length !== 2 || b.shape.length !== 2) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `Gemm takes two matrices; the operands are ${I.printShape(a.shape)} and ${I.printShape(b.shape)}`,
    );
  }
  const flipped = (t: LTensor, flip: boolean): LTensor =>
    flip
      ? ctx.view([at(t.shape, 1), at(t.shape, 0)], t, ([i, j]) => [j ?? I.num(0), i ?? I.num(0)])
      : t;
  const left = flipped(a, ctx.bool('transA', false));
  const right = flipped(b, ctx.bool('transB', false));
  const dtype = promote([a, b]);
  return scaledSum(ctx, matmul(ctx, left, right, dtype), c);
}

/** alpha * sum + beta * addend, leaving out what does nothing. */
function scaledSum(ctx: LowerContext, sum: LTensor, addend: LTensor | undefined): LTensor {
  const alpha = ctx.float('alpha', 1);
  const beta = ctx.float('beta', 1);
  const added = beta === 0 ? undefined : addend;
  if (alpha === 1 && !added) return sum;
  if (added) {
    const shape = broadcastShapes(ctx, [sum.shape, added.shape]);
    if (shape.length !== sum.shape.length || shape.some((d, i) => !I.same(d, at(sum.shape, i)))) {
      ctx.fail(
        'SHAPE_MISMATCH',
        `the addend ${I.printShape(added.shape)} doesn't broadcast to the product's shape ${I.printShape(sum.shape)}`,
      );
    }
  }
  const acc = wide(sum.dtype);
  return ctx.pointwise(sum.shape, sum.dtype, (index) => {
    let e = cast(sum.at(index), acc);
    if (alpha !== 1) e = times(e, factor(alpha, acc));
    if (added) {
      const c = cast(atBroadcast(added, index), acc);
      e = plus(e, beta === 1 ? c : times(c, factor(beta, acc)));
    }
    return cast(e, sum.dtype);
  });
}

/** An attribute as a number of an integer or float dtype. */
function factor(value: number, dtype: DType): Expr {
  return Number.isInteger(value) ? constant(value, dtype) : cast(constant(value, 'f32'), dtype);
}

/** x · weightᵀ + bias, weight [out, in]. */
function lowerLinear(ctx: LowerContext): LTensor {
  const [x, w, bias] = [ctx.input(0), ctx.input(1), ctx.optional(2)];
  const rank = x.shape.length;
  if (rank < 1 || w.shape.length < 1 || w.shape.length > 2) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `linear takes an input of shape [..., in] and a weight of shape [out, in]; they are ${I.printShape(x.shape)} and ${I.printShape(w.shape)}`,
    );
  }
  const inner = at(x.shape, rank - 1);
  const weightIn = at(w.shape, w.shape.length - 1);
  const [n, m] = [I.constOf(inner), I.constOf(weightIn)];
  if (n !== undefined && m !== undefined && n !== m) {
    const hint =
      w.shape.length === 2 && I.isConst(at(w.shape, 0), n)
        ? ': the weight of linear is [out, in]; use matmul(x, weight) for [in, out]'
        : '';
    ctx.fail(
      'SHAPE_MISMATCH',
      `linear: the input ${I.printShape(x.shape)} has ${n} features, but the weight ${I.printShape(w.shape)} takes ${m}${hint}`,
    );
  }
  ctx.requireEqual(
    inner,
    weightIn,
    `the features of the input ${I.printShape(x.shape)} and of the weight ${I.printShape(w.shape)}`,
  );
  const dtype = promote([x, w]);
  const out = w.shape.length === 2 ? [at(w.shape, 0)] : [];
  const lead = x.shape.slice(0, -1);
  const y = sumOfProducts(
    ctx,
    { shape: [...lead, ...out], over: [inner], dtype },
    (index, over) => {
      const k = at(over, 0);
      const column = out.length > 0 ? [at(index, lead.length)] : [];
      return [x.at([...index.slice(0, lead.length), k]), w.at([...column, k])];
    },
  );
  if (!bias) return y;
  const shape = broadcastShapes(ctx, [y.shape, bias.shape]);
  requireShape(ctx, shape, y.shape, 'the result with its bias');
  return ctx.pointwise(y.shape, dtype, (index) =>
    plus(y.at(index), cast(atBroadcast(bias, index), dtype)),
  );
}

// ---------------------------------------------------------------------------------------------
// Integer products

/** A zero point of a matmul operand: scalar, per row of the left or per column of the right, or in full. */
export function matmulZero(
  ctx: LowerContext,
  t: LTensor,
  zero: LTensor | undefined,
  side: 'left' | 'right',
  what: string,
): Factor {
  if (!zero) return (e) => cast(e, 'i32');
  const rank = t.shape.length;
  if (rank === 0) ctx.fail('SHAPE_MISMATCH', 'a number is no operand of a matrix product');
  const axis = side === 'left' ? rank - 2 : rank - 1;
  const shape = zero.shape;
  const single = shape.every((d) => I.isConst(d, 1));
  let index: (i: readonly IndexExpr[]) => IndexExpr[];
  if (single) index = () => shape.map(() => I.num(0));
  else if (shape.length === 1) {
    ctx.requireEqual(
      at(shape, 0),
      at(t.shape, Math.max(axis, 0)),
      `${what} and dim ${axis} of its operand`,
    );
    index = (i) => [at(i, Math.max(axis, 0))];
  } else {
    if (shape.length !== rank) {
      ctx.fail(
        'SHAPE_MISMATCH',
        `${what} has shape ${I.printShape(shape)}; it must be a scalar, a vector, or broadcast to ${I.printShape(t.shape)}`,
      );
    }
    shape.forEach((d, j) => {
      if (!I.isConst(d, 1)) ctx.requireEqual(d, at(t.shape, j), `dim ${j} of ${what}`);
    });
    index = (i) => shape.map((d, j) => (I.isConst(d, 1) ? I.num(0) : at(i, j)));
  }
  return (e, i) => {
    const z = cast(zero.at(index(i)), 'i32');
    const v = cast(e, 'i32');
    return z.op === 'const' && z.value === 0 ? v : minus(v, z);
  };
}

function lowerMatmulInteger(ctx: LowerContext): LTensor {
  const [a, b] = [ctx.input(0), ctx.input(1)];
  return matmul(
    ctx,
    a,
    b,
    'i32',
    matmulZero(ctx, a, ctx.optional(2), 'left', 'a_zero_point'),
    matmulZero(ctx, b, ctx.optional(3), 'right', 'b_zero_point'),
  );
}

// ---------------------------------------------------------------------------------------------
// Determinant

const DET_LIMIT = 6;

/** By expansion along the first row, which stays branch-free; only for small matrices of known size. */
function lowerDet(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const rank = x.shape.length;
  const n = rank < 2 ? undefined : I.constOf(at(x.shape, rank - 1));
  if (rank < 2)
    ctx.fail('SHAPE_MISMATCH', `Det takes [..., n, n]; the operand is ${I.printShape(x.shape)}`);
  ctx.requireEqual(
    at(x.shape, rank - 2),
    at(x.shape, rank - 1),
    'the rows and columns of the matrices',
  );
  if (n === undefined || n > DET_LIMIT) {
    ctx.unsupported(
      `determinants are expanded into straight-line code, for matrices of up to ${DET_LIMIT}×${DET_LIMIT}; these are ${I.printIndex(at(x.shape, rank - 1))} wide`,
    );
  }
  const acc = wide(x.dtype);
  return ctx.pointwise(x.shape.slice(0, -2), x.dtype, (index) => {
    const element = (r: number, c: number): Expr => cast(x.at([...index, I.num(r), I.num(c)]), acc);
    const minors = (row: number, columns: readonly number[]): Expr => {
      if (columns.length === 0) return constant(1, acc);
      const terms = columns.map((c, i) => {
        const minor = minors(
          row + 1,
          columns.filter((d) => d !== c),
        );
        const term = row + 1 === n ? element(row, c) : times(element(row, c), minor);
        return i % 2 === 0 ? term : unary('neg', term);
      });
      return terms.reduce((p, q) => plus(p, q));
    };
    return cast(
      minors(
        0,
        Array.from({ length: n }, (_, i) => i),
      ),
      x.dtype,
    );
  });
}

/** PyTorch's addmm family: beta * input + alpha * (a @ b). */
function lowerAddmm(ctx: LowerContext): LTensor {
  const [c, a, b] = [ctx.input(0), ctx.input(1), ctx.input(2)];
  return scaledSum(ctx, matmul(ctx, a, b, promote([a, b])), c);
}

/** Batches of outer products, and dot products, in PyTorch's names. */
function lowerOuter(ctx: LowerContext): LTensor {
  const [a, b] = [ctx.input(0), ctx.input(1)];
  if (a.shape.length !== 1 || b.shape.length !== 1) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `outer takes two vectors; the operands are ${I.printShape(a.shape)} and ${I.printShape(b.shape)}`,
    );
  }
  const dtype = promote([a, b]);
  return ctx.pointwise([at(a.shape, 0), at(b.shape, 0)], dtype, ([i, j]) =>
    product([cast(a.at([i ?? I.num(0)]), dtype), cast(b.at([j ?? I.num(0)]), dtype)]),
  );
}

const TWO = [tensorParam('input', 'a', 'x'), tensorParam('other', 'mat2', 'b', 'y')];

export const contractionOps: readonly OpDef[] = [
  {
    name: 'matmul',
    onnx: ['MatMul'],
    fuse: [
      {
        names: ['matmul', 'mm', 'mv', 'dot'],
        params: TWO,
        doc: 'The matrix product; also written a @ b. Leading dims broadcast.',
      },
    ],
    lower: lowerMatmul,
  },
  {
    name: 'bmm',
    fuse: [
      { names: ['bmm'], params: TWO, doc: 'A batch of matrix products: [b, n, k] and [b, k, m].' },
    ],
    lower: lowerBmm,
  },
  {
    name: 'gemm',
    onnx: ['Gemm'],
    fuse: [
      {
        names: ['gemm'],
        params: [
          tensorParam('a'),
          tensorParam('b'),
          optionalTensor('c'),
          optionalParam('alpha', 'float', 1),
          optionalParam('beta', 'float', 1),
          optionalParam('transA', 'bool', false, 'trans_a'),
          optionalParam('transB', 'bool', false, 'trans_b'),
        ],
        doc: "alpha * a' * b' + beta * c.",
      },
    ],
    lower: lowerGemm,
  },
  {
    name: 'linear',
    fuse: [
      {
        names: ['linear', 'dense'],
        params: [
          tensorParam('input', 'x'),
          tensorParam('weight', 'w'),
          optionalTensor('bias', 'b'),
        ],
        doc: 'x · weightᵀ + bias, with weight [out, in].',
      },
    ],
    lower: lowerLinear,
  },
  {
    name: 'addmm',
    fuse: [
      {
        names: ['addmm', 'baddbmm', 'addmv'],
        params: [
          tensorParam('input', 'c'),
          tensorParam('mat1', 'batch1', 'mat', 'a'),
          tensorParam('mat2', 'batch2', 'vec', 'b'),
          optionalParam('beta', 'float', 1),
          optionalParam('alpha', 'float', 1),
        ],
        attrs: (args) =>
          attrsOf({ beta: plainAttr(args['beta']), alpha: plainAttr(args['alpha']) }),
        doc: 'beta * input + alpha * (mat1 @ mat2).',
      },
    ],
    lower: lowerAddmm,
  },
  {
    name: 'outer',
    fuse: [{ names: ['outer'], params: TWO, doc: 'The outer product of two vectors.' }],
    lower: lowerOuter,
  },
  {
    name: 'einsum',
    onnx: ['Einsum'],
    fuse: [
      {
        names: ['einsum'],
        params: [
          { name: 'equation', kind: 'str' },
          { name: 'operands', kind: 'tensors' },
        ],
        doc: 'The sum of products that the equation says, e.g. einsum("bij,bjk->bik", [a, b]).',
      },
    ],
    lower: lowerEinsum,
  },
  { name: 'matmul_integer', onnx: ['MatMulInteger'], lower: lowerMatmulInteger },
  {
    name: 'det',
    onnx: ['Det'],
    fuse: [
      {
        names: ['det'],
        params: [tensorParam('input', 'x')],
        doc: 'The determinant of square matrices.',
      },
    ],
    lower: lowerDet,
  },
];
