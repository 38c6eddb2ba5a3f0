/**
 * Elementwise ops that convert or choose: casts, clamps, where, prelu.
 */
import { type DType, dtypeBytes, isFloat, isInteger } from '../graph/dtype';
import { binary, cast, type Expr, select, unary } from '../ir/expr';
import { isConst, printShape } from '../ir/indexExpr';
import type { LowerContext, LTensor, OpDef } from './op';
import {
  arith,
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
  least,
  like,
  optionalTensor,
  plus,
  promote,
  reshapeView,
  scalarElement,
  tensorParam,
  times,
} from './shared';

const X = tensorParam('input', 'x', 'self', 'a');

function castTo(ctx: LowerContext, x: LTensor, dtype: DType): LTensor {
  return x.dtype === dtype ? x : elementwise(ctx, [x], dtype, ([e]) => element(e));
}

/**
 * The same bits as another dtype of that width. Integers only change their sign's meaning; between
 * floats and integers the bits must be what the GPU stores, which holds for 32 of them.
 */
function bitCast(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const to = dtypeAttr(ctx, 'to');
  if (dtypeBytes(x.dtype) !== dtypeBytes(to))
    ctx.unsupported(`from ${x.dtype} to ${to}: types of different widths would change the shape`);
  if (x.dtype === to) return x;
  const integers = isInteger(x.dtype) && isInteger(to);
  if (!integers && x.dtype !== 'bool' && dtypeBytes(to) !== 4)
    ctx.unsupported(`from ${x.dtype} to ${to}: on the GPU one of them has other bits than in ONNX`);
  if (to === 'bool') ctx.unsupported('bits of an integer as bool may be neither true nor false');
  return elementwise(ctx, [x], to, ([e]) => {
    const a = element(e);
    if (isFloat(a.dtype)) return unary('bitsof', a);
    return isFloat(to) ? unary('floatof', cast(a, 'u32')) : a;
  });
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

const simpleOps: readonly OpDef[] = [
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
      {
        names: ['bool'],
        params: [X],
        attrs: () => ({ to: 'bool' }),
        doc: 'true where it is not 0',
      },
      { names: ['int'], params: [X], attrs: () => ({ to: 'i32' }), doc: 'cast to i32' },
      { names: ['long'], params: [X], attrs: () => ({ to: 'i64' }), doc: 'cast to i64' },
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
  { name: 'bit_cast', onnx: ['BitCast'], lower: bitCast },
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
    // In `.fuse`, and in files before version 7, a list of slopes has one for each channel.
    const perChannel = !fromOnnx(ctx) || ctx.int('opset') < 7;
    if (perChannel && slope.shape.length === 1 && rank > 2) {
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

export const choiceOps: readonly OpDef[] = [...simpleOps, prelu];
