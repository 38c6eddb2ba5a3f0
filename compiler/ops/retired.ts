/**
 * Ops that ONNX had on trial before version 7 and took back. Converters of that time wrote them, so
 * models of that time still have them.
 */
import { type Expr, unary } from '../ir/expr';
import * as I from '../ir/indexExpr';
import { softplus } from './activation';
import type { LowerContext, LTensor, OpDef } from './op';
import { at, plus, times } from './products';
import { element, elementwise, inFloat } from './shared';

/** An elementwise function with two numbers. */
function withAlphaBeta(
  name: string,
  type: string,
  f: (x: Expr, alpha: number, beta: number) => Expr,
): OpDef {
  return {
    name,
    onnx: [type],
    lower: (ctx) => {
      const x = ctx.input(0);
      const [alpha, beta] = [ctx.float('alpha', 1), ctx.float('beta', type === 'Affine' ? 0 : 1)];
      return elementwise(ctx, [x], x.dtype, ([e]) =>
        inFloat(element(e), x.dtype, (v) => f(v, alpha, beta)),
      );
    },
  };
}

/** x * scale + a bias per channel. */
function lowerImageScaler(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const channels = x.shape[1] ?? ctx.fail('SHAPE_MISMATCH', 'the operand must be [N, C, H, W]');
  const list = ctx.ints('bias', []);
  const bias =
    list.length === 0 ? undefined : ctx.constant({ dtype: x.dtype, shape: [list.length] }, list);
  if (bias) ctx.requireEqual(at(bias.shape, 0), channels, 'the number of biases and of channels');
  const scale = ctx.float('scale', 1);
  return ctx.pointwise(x.shape, x.dtype, (index) => {
    const scaled = times(x.at(index), scale);
    return bias ? plus(scaled, bias.at([at(index, 1)])) : scaled;
  });
}

/** The image without its borders (left, top, right, bottom), or a part of a given size from there. */
function lowerCrop(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  if (x.shape.length !== 4)
    ctx.fail('SHAPE_MISMATCH', `the operand must be [N, C, H, W], not ${I.printShape(x.shape)}`);
  const border = ctx.ints('border');
  if (border.length !== 4) ctx.fail('BAD_ATTRIBUTE', 'border must hold four numbers');
  const [left, top, right, bottom] = [0, 1, 2, 3].map((i) => at(border, i));
  const size = ctx.ints('scale', []);
  const rest = (i: number, before = 0, after = 0): I.Dim => I.sub(at(x.shape, i), before + after);
  const height = size[0] === undefined ? rest(2, top, bottom) : I.num(size[0]);
  const width = size[1] === undefined ? rest(3, left, right) : I.num(size[1]);
  const [n, c] = x.shape;
  return ctx.view([n ?? 1, c ?? 1, height, width], x, (index) =>
    index.map((v, i) => (i === 2 ? I.add(v, top ?? 0) : i === 3 ? I.add(v, left ?? 0) : v)),
  );
}

export const retiredOps: readonly OpDef[] = [
  withAlphaBeta('affine', 'Affine', (x, alpha, beta) => plus(times(x, alpha), beta)),
  withAlphaBeta('scaled_tanh', 'ScaledTanh', (x, alpha, beta) =>
    times(unary('tanh', times(x, beta)), alpha),
  ),
  withAlphaBeta('parametric_softplus', 'ParametricSoftplus', (x, alpha, beta) =>
    times(softplus(times(x, beta)), alpha),
  ),
  {
    name: 'scale',
    onnx: ['Scale'],
    lower: (ctx) => {
      const x = ctx.input(0);
      const factor = ctx.float('scale', 1);
      return elementwise(ctx, [x], x.dtype, ([e]) => times(element(e), factor));
    },
  },
  { name: 'image_scaler', onnx: ['ImageScaler'], lower: lowerImageScaler },
  { name: 'crop', onnx: ['Crop'], view: true, lower: lowerCrop },
];
