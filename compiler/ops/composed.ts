/**
 * Ops that PyTorch has a name for and that are a few others in one: scaled sums, the blocks that
 * windows read, scores of how much vectors are alike.
 */
import { binary, cast, constant, type Expr, indexValue, unary, when } from '../ir/expr';
import * as I from '../ir/indexExpr';
import { spread } from './convolution';
import type { FuseForm, LowerContext, LTensor, OpDef } from './op';
import {
  atBroadcast,
  attrsOf,
  axisParam,
  broadcastShapes,
  computeFloat,
  element,
  elementwise,
  floatResult,
  greatest,
  intList,
  least,
  like,
  minus,
  optionalParam,
  over,
  plus,
  promote,
  tensorParam,
  times,
} from './shared';
import { perAxis, taps, windowAxes } from './window';

const X = tensorParam('input', 'x', 'self');

/** `input ± value · f(a, b)`, elementwise. */
function scaledOp(
  name: string,
  names: readonly string[],
  doc: string,
  f: (a: Expr, b: Expr) => Expr,
): OpDef {
  return {
    name,
    fuse: [
      {
        names,
        params: [
          X,
          tensorParam('tensor1', 'a'),
          tensorParam('tensor2', 'b'),
          optionalParam('value', 'float', 1),
        ],
        doc,
      },
    ],
    lower: (ctx) => {
      const operands = [ctx.input(0), ctx.input(1), ctx.input(2)];
      const dtype = floatResult(promote(operands));
      const t = computeFloat(dtype);
      const value = ctx.float('value', 1);
      return elementwise(ctx, operands, dtype, ([x, a, b]) => {
        const e = f(cast(element(a), t), cast(element(b), t));
        return plus(cast(element(x), t), value === 1 ? e : times(e, constant(value, t)));
      });
    },
  };
}

function rsub(ctx: LowerContext): LTensor {
  const operands = [ctx.input(0), ctx.input(1)];
  const dtype = promote(operands);
  const alpha = ctx.float('alpha', 1);
  return elementwise(ctx, operands, dtype, ([x, y]) => {
    const a = cast(element(x), dtype);
    return minus(cast(element(y), dtype), alpha === 1 ? a : times(like(a, alpha), a));
  });
}

/** One bound, given as a number or a tensor. */
function boundOp(name: string, of: (a: Expr, b: Expr) => Expr, doc: string): OpDef {
  const param = name.slice(name.indexOf('_') + 1);
  return {
    name,
    fuse: [{ names: [name], params: [X, tensorParam(param)], doc }],
    lower: (ctx) => {
      const [x, bound] = [ctx.input(0), ctx.input(1)];
      const dtype = promote([x, bound]);
      return elementwise(ctx, [x, bound], dtype, ([e, b]) =>
        of(cast(element(e), dtype), cast(element(b), dtype)),
      );
    },
  };
}

// ---------------------------------------------------------------------------------------------
// Windows

/** The blocks that a window over [N, C, …] reads, as columns: [N, C · kernel, places]. */
function im2col(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const [batch, channels, ...space] = x.shape;
  if (!batch || !channels || space.length === 0)
    return ctx.fail('SHAPE_MISMATCH', `needs [N, C, …], but got ${I.printShape(x.shape)}`);
  const kernel = perAxis(ctx, 'kernel_shape', space.length, 1);
  const kernels = kernel.map((k) => I.num(k));
  const axes = windowAxes(ctx, { spatial: space, kernel: kernels });
  const outs = axes.map((a) => a.out);
  const area = I.product(kernels);
  return ctx.pointwise([batch, I.mul(channels, area), I.product(outs)], x.dtype, (index) => {
    const [n = I.num(0), row = I.num(0), place = I.num(0)] = index;
    const inside = I.delinearise(I.mod(row, area), kernels);
    const { index: at, conds } = taps(axes, I.delinearise(place, outs), inside);
    const e = x.at([n, I.floorDiv(row, area), ...at]);
    return conds.length === 0 ? e : when(conds, e, constant(0, x.dtype));
  });
}

const IM2COL: FuseForm = {
  names: ['unfold', 'im2col'],
  // `x.unfold(dim, size, step)` has three numbers.
  matches: ({ positional, named }) =>
    !('step' in named) && !('dimension' in named) && positional.length < 4,
  params: [
    X,
    { name: 'kernel_size', kind: 'ints' },
    optionalParam('dilation', 'ints', 1),
    optionalParam('padding', 'ints', 0),
    optionalParam('stride', 'ints', 1),
  ],
  attrs: (args) => {
    const pads = spread(args['padding'], 2) ?? [];
    return attrsOf({
      kernel_shape: spread(args['kernel_size'], 2),
      dilations: spread(args['dilation'], 2),
      strides: spread(args['stride'], 2),
      pads: [...pads, ...pads],
    });
  },
  doc: 'the blocks that a window over [N, C, H, W] reads, as columns',
};

/** Every `step`, `size` elements along an axis, in a new last dim. */
function slidingWindows(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const axis = ctx.axis(ctx.int('axis', 0), x.shape.length);
  const [size, step] = [ctx.int('size'), ctx.int('step')];
  const length = x.shape[axis] ?? I.num(1);
  const known = I.constOf(length);
  if (size < 1 || step < 1 || (known !== undefined && size > known))
    ctx.fail(
      'BAD_ATTRIBUTE',
      `windows of ${size} every ${step} don't fit in ${I.printIndex(length)}`,
    );
  const count = I.add(I.floorDiv(I.sub(length, size), step), 1);
  const shape = [...x.shape.map((d, i) => (i === axis ? count : d)), I.num(size)];
  return ctx.view(shape, x, (index) =>
    index
      .slice(0, -1)
      .map((e, i) => (i === axis ? I.add(I.mul(e, step), index.at(-1) ?? I.num(0)) : e)),
  );
}

// ---------------------------------------------------------------------------------------------
// Made and compared

function linspace(ctx: LowerContext): LTensor {
  const steps = ctx.int('steps', 100);
  if (steps < 0) ctx.fail('BAD_ATTRIBUTE', `there can't be ${steps} steps`);
  const [start, end] = [ctx.float('start'), ctx.float('end')];
  const step = constant(steps > 1 ? (end - start) / (steps - 1) : 0, 'f32');
  return ctx.pointwise([steps], 'f32', ([i = I.num(0)]) =>
    plus(constant(start, 'f32'), times(indexValue(i, 'f32'), step)),
  );
}

/** x·y over the product of their lengths, along an axis. */
function cosineSimilarity(ctx: LowerContext): LTensor {
  const [x, y] = [ctx.input(0), ctx.input(1)];
  const shape = broadcastShapes(ctx, [x.shape, y.shape]);
  const axis = ctx.axis(ctx.int('axis', 1), shape.length);
  const dtype = floatResult(promote([x, y]));
  const t = computeFloat(dtype);
  const rest = shape.filter((_, i) => i !== axis);
  const along = [shape[axis] ?? I.num(1)];
  const sumOf = (a: LTensor, b: LTensor): LTensor =>
    ctx.reduce({ shape: rest, over: along, monoid: 'sum' }, (index, [k = I.num(0)]) => {
      const at = [...index.slice(0, axis), k, ...index.slice(axis)];
      return times(cast(atBroadcast(a, at), t), cast(atBroadcast(b, at), t));
    });
  const [xy, xx, yy] = [sumOf(x, y), sumOf(x, x), sumOf(y, y)];
  const least = ctx.float('eps', 1e-8);
  return ctx.pointwise(rest, dtype, (index) => {
    const length = (s: LTensor): Expr => {
      const e = unary('sqrt', s.at(index));
      return greatest(e, like(e, least));
    };
    return cast(over(xy.at(index), times(length(xx), length(yy))), dtype);
  });
}

export const composedOps: readonly OpDef[] = [
  scaledOp('addcmul', ['addcmul'], 'input + value * tensor1 * tensor2', times),
  scaledOp('addcdiv', ['addcdiv'], 'input + value * tensor1 / tensor2', (a, b) =>
    binary('div', a, b),
  ),
  {
    name: 'rsub',
    fuse: [
      {
        names: ['rsub'],
        params: [X, tensorParam('other', 'y'), optionalParam('alpha', 'float', 1)],
        doc: 'other - alpha * input',
      },
    ],
    lower: rsub,
  },
  boundOp('clamp_min', greatest, 'at least min'),
  boundOp('clamp_max', least, 'at most max'),
  { name: 'im2col', fuse: [IM2COL], lower: im2col },
  {
    name: 'sliding_windows',
    view: true,
    fuse: [
      {
        names: ['unfold'],
        params: [
          X,
          { name: 'axis', aliases: ['dimension', 'dim'], kind: 'int' },
          { name: 'size', kind: 'int' },
          { name: 'step', kind: 'int' },
        ],
        doc: 'every step, size elements along an axis, in a new last dim',
      },
    ],
    lower: slidingWindows,
  },
  {
    name: 'linspace',
    fuse: [
      {
        names: ['linspace'],
        params: [
          { name: 'start', kind: 'float' },
          { name: 'end', kind: 'float' },
          { name: 'steps', kind: 'int' },
        ],
        doc: 'steps numbers from start to end, evenly apart',
      },
    ],
    lower: linspace,
  },
  {
    name: 'cosine_similarity',
    fuse: [
      {
        names: ['cosine_similarity'],
        params: [
          tensorParam('x1', 'input', 'x'),
          tensorParam('x2', 'other', 'y'),
          axisParam(1),
          optionalParam('eps', 'float', 1e-8),
        ],
        attrs: (args) =>
          attrsOf({
            axis: intList(args['axis'])?.[0],
            eps: typeof args['eps'] === 'number' ? args['eps'] : undefined,
          }),
        doc: 'x1 · x2 over the product of their lengths, along an axis',
      },
    ],
    lower: cosineSimilarity,
  },
];
