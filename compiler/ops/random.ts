/**
 * Random numbers, and dropout in training.
 *
 * Vocabulary
 *  - *counter*: an element's place in the tensor, row-major. Each element's bits are a hash of its
 *    counter and of a key; there is no state, so random ops fuse like any elementwise op, and give
 *    the same numbers at every run.
 *  - *key*: what tells two nodes apart: a hash of the node's id, and of its `seed` where it has one.
 *    So another node gets other numbers, though both have the same seed.
 *  - *stream*: several numbers for one element (Box–Muller takes two).
 *
 * The hash is PCG's output function (RXS-M-XS, 32 bits) over its linear congruential step, twice.
 * Other runtimes have generators of their own: the distribution is the same, the numbers aren't.
 */
import { isFloat } from '../graph/dtype';
import { binary, cast, constant, type Expr, indexValue, select, unary } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { Dim, IndexExpr } from '../ir/indexExpr';
import type { FuseForm, FuseParam, LowerContext, LTensor, OpDef } from './op';
import { at, below, greatest, minus, over, plus, times } from './products';
import {
  attrsOf,
  computeFloat,
  dtypeAttr,
  expandView,
  fromOnnx,
  optionalParam,
  plainAttr,
  scalarElement,
  sizesAttr,
  sizesOf,
  tensorParam,
} from './shared';

const word = (n: number): Expr => constant(n >>> 0, 'u32');
const bits = (fn: 'bitxor' | 'shl' | 'shr', a: Expr, b: Expr): Expr => binary(fn, a, b);

function hash(x: Expr): Expr {
  const state = binary('add', binary('mul', x, word(747796405)), word(2891336453));
  const shift = binary('add', bits('shr', state, word(28)), word(4));
  const mixed = binary('mul', bits('bitxor', bits('shr', state, shift), state), word(277803737));
  return bits('bitxor', bits('shr', mixed, word(22)), mixed);
}

/** FNV-1a. */
function hashText(text: string, start = 2166136261): number {
  let h = start;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
  return h >>> 0;
}

function keyOf(ctx: LowerContext): number {
  const key = hashText(ctx.node.id);
  return ctx.has('seed') ? hashText(`/${ctx.float('seed')}`, key) : key;
}

/** Uniform in [0, 1): 24 bits, which f32 holds exactly. */
function uniformAt(
  ctx: LowerContext,
  shape: readonly Dim[],
  index: readonly IndexExpr[],
  stream = 0,
): Expr {
  const counter = cast(indexValue(I.linearise(index, shape), 'i32'), 'u32');
  const h = hash(bits('bitxor', hash(counter), word(keyOf(ctx) + stream * 0x9e3779b9)));
  return times(cast(bits('shr', h, word(8)), 'f32'), 2 ** -24);
}

/** Box–Muller. log1p is exact where a logarithm near 1 is not. */
function normalAt(ctx: LowerContext, shape: readonly Dim[], index: readonly IndexExpr[]): Expr {
  const u = uniformAt(ctx, shape, index, 0);
  const v = uniformAt(ctx, shape, index, 1);
  const radius = unary('sqrt', times(unary('log1p', unary('neg', u)), -2));
  return times(radius, unary('cos', times(v, 2 * Math.PI)));
}

/** Said once for each node whose numbers are made up. */
function note(ctx: LowerContext): void {
  ctx.note(
    'RANDOM',
    'its numbers come from a generator of this program, the same at every run; other runtimes have other numbers of the same distribution',
  );
}

// ---------------------------------------------------------------------------------------------
// The ops

/** The shape by an attribute, or that of the operand. */
function shapeOf(ctx: LowerContext): readonly Dim[] {
  if (ctx.arity > 0) return ctx.input(0).shape;
  return sizesOf(ctx, -1, 'shape') ?? ctx.fail('BAD_ATTRIBUTE', 'the shape is missing');
}

function dtypeOfResult(ctx: LowerContext): LTensor['dtype'] {
  const like = ctx.arity > 0 ? ctx.input(0).dtype : 'f32';
  return dtypeAttr(ctx, 'dtype', isFloat(like) ? like : 'f32');
}

function lowerUniform(ctx: LowerContext): LTensor {
  note(ctx);
  const shape = shapeOf(ctx);
  const dtype = dtypeOfResult(ctx);
  const [low, high] = [ctx.float('low', 0), ctx.float('high', 1)];
  return ctx.pointwise(shape, dtype, (index) =>
    cast(plus(times(uniformAt(ctx, shape, index), high - low), low), dtype),
  );
}

function lowerNormal(ctx: LowerContext): LTensor {
  note(ctx);
  const shape = shapeOf(ctx);
  const dtype = dtypeOfResult(ctx);
  const [mean, scale] = [ctx.float('mean', 0), ctx.float('scale', 1)];
  return ctx.pointwise(shape, dtype, (index) =>
    cast(plus(times(normalAt(ctx, shape, index), scale), mean), dtype),
  );
}

/** 1 with the probability that the operand gives. */
function lowerBernoulli(ctx: LowerContext): LTensor {
  note(ctx);
  const p = ctx.input(0);
  const dtype = dtypeAttr(ctx, 'dtype', p.dtype);
  return ctx.pointwise(p.shape, dtype, (index) =>
    cast(below(uniformAt(ctx, p.shape, index), cast(p.at(index), 'f32')), dtype),
  );
}

/**
 * Classes drawn by their weights: the place of the greatest of log weight + Gumbel noise, which is
 * a class with its probability. ONNX gives logarithms, PyTorch the weights.
 */
function lowerMultinomial(ctx: LowerContext): LTensor {
  note(ctx);
  const x = ctx.input(0);
  const rank = x.shape.length;
  if (rank < 1 || rank > 2)
    ctx.fail(
      'SHAPE_MISMATCH',
      `the weights must be [batch, classes], not ${I.printShape(x.shape)}`,
    );
  const lead = x.shape.slice(0, -1);
  const classes = at(x.shape, rank - 1);
  const samples = sizesOf(ctx, -1, 'sample_size')?.[0] ?? I.num(1);
  if (!fromOnnx(ctx) && !ctx.bool('replacement', false) && !I.isConst(samples, 1))
    ctx.unsupported('drawing several without replacement; give replacement=true');
  const logs = fromOnnx(ctx);
  const points = [...lead, samples, classes];
  return ctx.reduce(
    {
      shape: [...lead, samples],
      over: [classes],
      monoid: { kind: 'argmax', last: false },
      dtype: dtypeAttr(ctx, 'dtype', logs ? 'i32' : 'i64'),
    },
    (index, r) => {
      const c = at(r, 0);
      const w = cast(x.at([...index.slice(0, -1), c]), 'f32');
      const u = greatest(uniformAt(ctx, points, [...index, c]), 2 ** -25);
      const gumbel = unary('neg', unary('log', unary('neg', unary('log', u))));
      return plus(logs ? w : unary('log', w), gumbel);
    },
  );
}

/** The operand itself, or in training: zeros where chance has it, and the rest scaled up. */
function lowerDropout(ctx: LowerContext): LTensor | readonly LTensor[] {
  const x = ctx.input(0);
  const ratio = ctx.arity > 1 ? ctx.optional(1) : undefined;
  const training = ctx.arity > 2 ? ctx.optional(2) : undefined;
  const off = training ? training.known?.[0] === 0 : !ctx.bool('training', false);
  const masks = ctx.node.results.length > 1;
  if (off || ratio?.known?.[0] === 0) {
    const mask = ctx.constant({ dtype: 'bool', shape: [] }, [1]);
    return masks ? [x, expandView(ctx, mask, x.shape)] : x;
  }
  note(ctx);
  const t = computeFloat(x.dtype);
  const share = ratio
    ? cast(scalarElement(ctx, ratio, 'the ratio'), 'f32')
    : constant(Math.fround(ctx.float('p', 0.5)), 'f32');
  const kept = ctx.pointwise(x.shape, 'bool', (index) => {
    const keep = unary('not', below(uniformAt(ctx, x.shape, index), share));
    if (!training || training.known) return keep;
    const trains = cast(scalarElement(ctx, training, 'training_mode'), 'bool');
    return binary('or', unary('not', trains), keep);
  });
  const scale = over(constant(1, t), minus(constant(1, t), cast(share, t)));
  const y = ctx.pointwise(x.shape, x.dtype, (index) => {
    const v = cast(x.at(index), t);
    const scaled = select(kept.at(index), times(v, scale), constant(0, t));
    if (!training || training.known) return cast(scaled, x.dtype);
    const trains = cast(scalarElement(ctx, training, 'training_mode'), 'bool');
    return cast(select(trains, scaled, v), x.dtype);
  });
  return masks ? [y, kept] : y;
}

// ---------------------------------------------------------------------------------------------
// The table

const X = tensorParam('input', 'x', 'self');
const SHAPE: FuseParam = { name: 'shape', aliases: ['size', 'sizes'], kind: 'sizes' };
const SEED = optionalParam('seed', 'float');
const DTYPE = optionalParam('dtype', 'dtype');

function drawn(names: readonly string[], first: FuseParam, doc: string): FuseForm {
  return {
    names,
    params: [first, DTYPE, SEED],
    attrs: (args) =>
      attrsOf({
        shape: sizesAttr(args['shape']),
        dtype: plainAttr(args['dtype']),
        seed: plainAttr(args['seed']),
      }),
    doc,
  };
}

export const randomOps: readonly OpDef[] = [
  {
    name: 'random_uniform',
    onnx: ['RandomUniform', 'RandomUniformLike'],
    fuse: [
      drawn(['rand'], SHAPE, 'random numbers, uniform in [0, 1)'),
      drawn(['rand_like'], X, 'random numbers, uniform in [0, 1), as many as x has'),
    ],
    lower: lowerUniform,
  },
  {
    name: 'random_normal',
    onnx: ['RandomNormal', 'RandomNormalLike'],
    fuse: [
      drawn(['randn'], SHAPE, 'random numbers of mean 0 and deviation 1, normally distributed'),
      drawn(['randn_like'], X, 'such numbers, as many as x has'),
    ],
    lower: lowerNormal,
  },
  {
    name: 'bernoulli',
    onnx: ['Bernoulli'],
    fuse: [
      { names: ['bernoulli'], params: [X, DTYPE, SEED], doc: '1 with the probability x, else 0' },
    ],
    lower: lowerBernoulli,
  },
  {
    name: 'multinomial',
    onnx: ['Multinomial'],
    fuse: [
      {
        names: ['multinomial'],
        params: [
          X,
          { name: 'num_samples', kind: 'size' },
          optionalParam('replacement', 'bool', false),
          SEED,
        ],
        attrs: (args) =>
          attrsOf({
            sample_size: sizesAttr(args['num_samples']),
            replacement: plainAttr(args['replacement']),
            seed: plainAttr(args['seed']),
          }),
        doc: 'Places drawn along the last dim, by the weights there.',
      },
    ],
    lower: lowerMultinomial,
  },
  {
    name: 'dropout',
    onnx: ['Dropout'],
    view: true,
    fuse: [
      {
        names: ['dropout'],
        params: [X, optionalParam('p', 'float', 0.5), optionalParam('training', 'bool', false)],
        doc: 'The operand itself; with training=true zeros at random, and the rest over 1 - p.',
      },
    ],
    lower: lowerDropout,
  },
];
