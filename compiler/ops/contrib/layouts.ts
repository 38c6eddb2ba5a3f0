/**
 * Ops of ONNX Runtime's domain whose channels come last: they are the plain ones between two views.
 */
import { cast } from '../../ir/expr';
import * as I from '../../ir/indexExpr';
import { gelu, sigmoid } from '../activation';
import { lowerConv } from '../convolution';
import { groupNorm } from '../normalization';
import type { LowerContext, LTensor, OpDef } from '../op';
import { lowerMaxPool } from '../pooling';
import { at, plus, times } from '../products';
import {
  atBroadcast,
  computeFloat,
  inFloat,
  operandOfRank,
  requireBroadcast,
  transposeView,
} from '../shared';
import { lowerFusedConv } from './products';
import { MS, optionalOperand } from './domain';

/** [N, …, C] as [N, C, …]. */
function toChannelsFirst(ctx: LowerContext, x: LTensor): LTensor {
  const r = x.shape.length;
  if (r < 3) return x;
  return transposeView(ctx, x, [0, r - 1, ...Array.from({ length: r - 2 }, (_, i) => i + 1)]);
}

/** [N, C, …] as [N, …, C]. */
function toChannelsLast(ctx: LowerContext, y: LTensor): LTensor {
  const r = y.shape.length;
  if (r < 3) return y;
  return transposeView(ctx, y, [0, ...Array.from({ length: r - 2 }, (_, i) => i + 2), 1]);
}

/** An op whose first operand, and others where `also` says so, have their channels last. */
function between(
  ctx: LowerContext,
  lower: (ctx: LowerContext) => LTensor,
  also: readonly number[] = [],
): LTensor {
  const operands = Array.from({ length: ctx.arity }, (_, i) => {
    const t = ctx.optional(i);
    return t && (i === 0 || also.includes(i)) ? toChannelsFirst(ctx, t) : t;
  });
  return toChannelsLast(ctx, lower(ctx.derive(operands)));
}

/** An op whose attribute says where the channels are. */
export function channelsLast(
  ctx: LowerContext,
  lower: (ctx: LowerContext) => LTensor,
  fallback = false,
): LTensor {
  return ctx.bool('channels_last', fallback) ? between(ctx, lower) : lower(ctx);
}

/** Group normalisation, and x · sigmoid(x) after it where that is asked for. */
function lowerGroupNorm(ctx: LowerContext): LTensor {
  const attrs = { num_groups: ctx.int('groups'), epsilon: ctx.float('epsilon', 1e-5), opset: 21 };
  const y = channelsLast(
    ctx,
    (c) => groupNorm(c.derive([c.input(0), c.input(1), c.input(2)], attrs)),
    true,
  );
  const activation = ctx.int('activation', 0);
  if (activation !== 0 && activation !== 1)
    ctx.fail('BAD_ATTRIBUTE', `activation is ${activation}: it must be 0 (none) or 1 (SiLU)`);
  if (activation === 0) return y;
  return ctx.pointwise(y.shape, y.dtype, (index) =>
    inFloat(y.at(index), y.dtype, (x) => times(x, sigmoid(x))),
  );
}

/** Group normalisation of x + skip + bias; that sum is its second result. */
function lowerSkipGroupNorm(ctx: LowerContext): readonly LTensor[] {
  const x = operandOfRank(ctx, 0, [3, 4, 5], 'the input');
  const [skip, bias] = [ctx.input(3), optionalOperand(ctx, 4)];
  const last = ctx.bool('channels_last', true);
  const r = x.shape.length;
  const channel = last ? r - 1 : 1;
  // [N, C], or [N, 1, 1, C]: the same for all of space.
  const spread: LTensor =
    skip.shape.length === 2
      ? ctx.view(
          x.shape.map((_, i) => (i === 0 || i === channel ? at(skip.shape, i === 0 ? 0 : 1) : 1)),
          skip,
          (index) => [at(index, 0), at(index, channel)],
        )
      : skip;
  requireBroadcast(ctx, spread, x.shape, 'what is skipped to here');
  if (bias && bias.shape.length !== 1)
    ctx.fail('SHAPE_MISMATCH', `the bias must be a vector; it is ${I.printShape(bias.shape)}`);
  if (bias) ctx.requireEqual(at(bias.shape, 0), at(x.shape, channel), 'the bias and the channels');
  const t = computeFloat(x.dtype);
  const sum = ctx.pointwise(x.shape, x.dtype, (index) => {
    const both = plus(cast(x.at(index), t), cast(atBroadcast(spread, index), t));
    const b = bias && cast(bias.at([at(index, channel)]), t);
    return cast(b ? plus(both, b) : both, x.dtype);
  });
  return [lowerGroupNorm(ctx.derive([sum, ctx.input(1), ctx.input(2)])), sum];
}

/** x + bias [C] + skip, with x [N, HW, C]. */
function lowerBiasAdd(ctx: LowerContext): LTensor {
  const [x, bias, skip] = [ctx.input(0), ctx.input(1), ctx.input(2)];
  requireBroadcast(ctx, bias, x.shape, 'the bias');
  requireBroadcast(ctx, skip, x.shape, 'what is skipped to here');
  const t = computeFloat(x.dtype);
  return ctx.pointwise(x.shape, x.dtype, (index) => {
    const sum = plus(cast(x.at(index), t), cast(atBroadcast(bias, index), t));
    return cast(plus(sum, cast(atBroadcast(skip, index), t)), x.dtype);
  });
}

/** The first half of x + bias times the gelu of its second half, halved along the last dim. */
function lowerBiasSplitGelu(ctx: LowerContext): LTensor {
  const [x, bias] = [ctx.input(0), operandOfRank(ctx, 1, [1], 'the bias')];
  const last = x.shape.length - 1;
  if (last < 0) ctx.fail('SHAPE_MISMATCH', 'a number has no halves');
  ctx.requireEqual(at(bias.shape, 0), at(x.shape, last), 'the bias and the last dim');
  const half =
    I.exactDiv(at(x.shape, last), 2) ??
    ctx.fail('SHAPE_MISMATCH', `the last dim of ${I.printShape(x.shape)} must be even`);
  const t = computeFloat(x.dtype);
  const shape = x.shape.map((d, i) => (i === last ? half : d));
  return ctx.pointwise(shape, x.dtype, (index) => {
    const part = (from: I.Dim) => {
      const place = index.map((p, i) => (i === last ? I.add(p, from) : p));
      return plus(cast(x.at(place), t), cast(bias.at([at(place, last)]), t));
    };
    return cast(times(part(I.num(0)), gelu(part(half), false)), x.dtype);
  });
}

export const layoutOps: readonly OpDef[] = [
  { name: 'nhwc_conv', onnx: [`${MS}:NhwcConv`], lower: (ctx) => between(ctx, lowerConv) },
  {
    name: 'nhwc_fused_conv',
    onnx: [`${MS}:NhwcFusedConv`],
    lower: (ctx) => between(ctx, lowerFusedConv, [3]),
  },
  {
    name: 'nhwc_max_pool',
    onnx: [`${MS}:NhwcMaxPool`],
    lower: (ctx) => between(ctx, (c) => at(lowerMaxPool(c), 0)),
  },
  { name: 'group_norm_activation', onnx: [`${MS}:GroupNorm`], lower: lowerGroupNorm },
  { name: 'skip_group_norm', onnx: [`${MS}:SkipGroupNorm`], lower: lowerSkipGroupNorm },
  { name: 'bias_add', onnx: [`${MS}:BiasAdd`], lower: lowerBiasAdd },
  { name: 'bias_split_gelu', onnx: [`${MS}:BiasSplitGelu`], lower: lowerBiasSplitGelu },
];
