/**
 * Convolutions: Conv in one to any number of spatial dims, its integer form, its transpose, causal
 * convolution with a carried state, and deformable convolution.
 *
 * A convolution is one reduction over (channel within the group, kernel position…) of
 * `input * weight`; a bias is a separate elementwise compute, so that it is an epilogue like any other.
 */
import type { Attrs } from '../graph/graph';
import { cast, constant, type Expr, indexValue, when } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { Dim, IndexExpr } from '../ir/indexExpr';
import type { FuseArg, FuseCall, FuseForm, FuseParam, LowerContext, LTensor, OpDef } from './op';
import { at, minus, plus, requireShape, sigmoid, sumOfProducts, times, wide } from './products';
import { bilinear } from './sampling';
import { attrsOf, intList, optionalParam, optionalTensor, plainAttr, tensorParam } from './shared';
import {
  type AutoPad,
  autoPadOf,
  coverage,
  padsOf,
  perAxis,
  taps,
  type WindowAxis,
  windowAxes,
} from './window';

interface ConvShape {
  readonly x: LTensor;
  readonly w: LTensor;
  readonly groups: number;
  /** Input channels in a group. */
  readonly inGroup: Dim;
  /** Output channels in a group. */
  readonly outGroup: Dim;
  readonly axes: readonly WindowAxis[];
  readonly shape: readonly Dim[];
}

/** Checks operands of a convolution and derives its geometry. */
function convShape(ctx: LowerContext, x: LTensor, w: LTensor): ConvShape {
  const rank = x.shape.length - 2;
  if (rank < 1) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `the input must have shape [batch, channels, spatial…], but it has shape ${I.printShape(x.shape)}`,
    );
  }
  if (w.shape.length !== x.shape.length) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `the input ${I.printShape(x.shape)} has ${rank} spatial dims, so the weight must be ` +
        `[out channels, in channels / groups${', kernel'.repeat(rank)}]; it is ${I.printShape(w.shape)}`,
    );
  }
  const groups = ctx.int('group', 1);
  const channels = at(x.shape, 1);
  const outChannels = at(w.shape, 0);
  if (groups < 1) ctx.fail('BAD_ATTRIBUTE', `group is ${groups}: it must be at least 1`);
  const inGroup = divide(ctx, channels, groups, 'input channels');
  const outGroup = divide(ctx, outChannels, groups, 'output channels');
  ctx.requireEqual(
    inGroup,
    at(w.shape, 1),
    `the input's channels per group (${I.printIndex(channels)} / ${groups}) and dim 1 of the weight ${I.printShape(w.shape)}`,
  );
  const kernel = w.shape.slice(2);
  checkKernelShape(ctx, kernel);
  const axes = windowAxes(ctx, { spatial: x.shape.slice(2), kernel });
  const shape = [at(x.shape, 0), outChannels, ...axes.map((a) => a.out)];
  return { x, w, groups, inGroup, outGroup, axes, shape };
}

function divide(ctx: LowerContext, channels: Dim, groups: number, what: string): Dim {
  return (
    I.exactDiv(channels, groups) ??
    ctx.fail(
      'SHAPE_MISMATCH',
      `${I.printIndex(channels)} ${what} don't divide into ${groups} groups`,
    )
  );
}

function checkKernelShape(ctx: LowerContext, kernel: readonly Dim[]): void {
  const stated = ctx.ints('kernel_shape', []);
  if (stated.length === 0) return;
  if (stated.length !== kernel.length || stated.some((k, i) => !I.isConst(at(kernel, i), k))) {
    const symbolic = kernel.some((k) => I.constOf(k) === undefined);
    if (symbolic && stated.length === kernel.length) {
      kernel.forEach((k, i) => {
        ctx.requireEqual(k, I.num(at(stated, i)), 'kernel_shape and the weight');
      });
      return;
    }
    ctx.fail(
      'SHAPE_MISMATCH',
      `kernel_shape is [${stated.join(', ')}] but the weight's kernel is ${I.printShape(kernel)}`,
    );
  }
}

/** The sum itself; `inputOf` and `weightOf` may shift the loaded elements (zero points). */
function convolve(
  ctx: LowerContext,
  c: ConvShape,
  dtype: LTensor['dtype'],
  inputOf: (e: Expr) => Expr = (e) => e,
  weightOf: (e: Expr, outChannel: IndexExpr) => Expr = (e) => e,
): LTensor {
  return sumOfProducts(
    ctx,
    { shape: c.shape, over: [c.inGroup, ...c.axes.map((a) => a.kernel)], dtype },
    (index, over) => {
      const outChannel = at(index, 1);
      const channel = at(over, 0);
      const t = taps(c.axes, index.slice(2), over.slice(1));
      // One division: the group of the output channel picks the slice of input channels.
      const group = c.groups === 1 ? I.num(0) : I.floorDiv(outChannel, c.outGroup);
      const inChannel = I.add(I.mul(group, c.inGroup), channel);
      const loaded = inputOf(c.x.at([at(index, 0), inChannel, ...t.index]));
      const inside = when(t.conds, loaded, constant(0, loaded.dtype));
      return [inside, weightOf(c.w.at([outChannel, channel, ...over.slice(1)]), outChannel)];
    },
  );
}

function addBias(ctx: LowerContext, sum: LTensor, bias: LTensor | undefined): LTensor {
  if (!bias) return sum;
  if (bias.shape.length !== 1) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `the bias must have shape [${I.printIndex(at(sum.shape, 1))}], one number per output channel; it is ${I.printShape(bias.shape)}`,
    );
  }
  ctx.requireEqual(at(bias.shape, 0), at(sum.shape, 1), 'the bias and the output channels');
  return ctx.pointwise(sum.shape, sum.dtype, (index) =>
    plus(sum.at(index), cast(bias.at([at(index, 1)]), sum.dtype)),
  );
}

export function lowerConv(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const sum = convolve(ctx, convShape(ctx, x, ctx.input(1)), x.dtype);
  return addBias(ctx, sum, ctx.optional(2));
}

/** A per-tensor or per-channel zero point as a function of the channel. */
export function zeroPoint(
  ctx: LowerContext,
  zero: LTensor | undefined,
  channels: Dim | undefined,
  what: string,
): (channel: IndexExpr) => Expr | undefined {
  if (!zero) return () => undefined;
  if (zero.shape.length === 0) return () => cast(zero.at([]), 'i32');
  if (zero.shape.length === 1 && I.isConst(at(zero.shape, 0), 1)) {
    return () => cast(zero.at([I.num(0)]), 'i32');
  }
  if (zero.shape.length !== 1 || channels === undefined) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `${what} has shape ${I.printShape(zero.shape)}; it must be a scalar${channels ? ' or one number per channel' : ''}`,
    );
  }
  ctx.requireEqual(at(zero.shape, 0), channels, `${what} and the channels`);
  return (channel) => cast(zero.at([channel]), 'i32');
}

export function shifted(e: Expr, zero: Expr | undefined): Expr {
  const v = cast(e, 'i32');
  if (!zero || (zero.op === 'const' && zero.value === 0)) return v;
  return minus(v, zero);
}

function lowerConvInteger(ctx: LowerContext): LTensor {
  const c = convShape(ctx, ctx.input(0), ctx.input(1));
  const xZero = zeroPoint(ctx, ctx.optional(2), undefined, 'x_zero_point');
  const wZero = zeroPoint(ctx, ctx.optional(3), at(c.w.shape, 0), 'w_zero_point');
  return convolve(
    ctx,
    c,
    'i32',
    (e) => shifted(e, xZero(I.num(0))),
    (e, oc) => shifted(e, wZero(oc)),
  );
}

/** The integer sum of a quantized convolution: operands x, x_scale, x_zero, w, w_scale, w_zero. */
export function quantizedConvSum(ctx: LowerContext): LTensor {
  const c = convShape(ctx, ctx.input(0), ctx.input(3));
  const xZero = zeroPoint(ctx, ctx.optional(2), undefined, 'x_zero_point');
  const wZero = zeroPoint(ctx, ctx.optional(5), at(c.w.shape, 0), 'w_zero_point');
  const sum = convolve(
    ctx,
    c,
    'i32',
    (e) => shifted(e, xZero(I.num(0))),
    (e, oc) => shifted(e, wZero(oc)),
  );
  return addBias(ctx, sum, ctx.optional(8));
}

// ---------------------------------------------------------------------------------------------
// Transposed convolution

interface TransposedAxis {
  readonly input: Dim;
  readonly kernel: Dim;
  readonly stride: number;
  readonly dilation: number;
  readonly padBegin: IndexExpr;
  readonly out: Dim;
}

function transposedAxes(ctx: LowerContext, x: LTensor, kernel: readonly Dim[]): TransposedAxis[] {
  const rank = kernel.length;
  const strides = perAxis(ctx, 'strides', rank, 1);
  const dilations = perAxis(ctx, 'dilations', rank, 1);
  const extra = perAxis(ctx, 'output_padding', rank, 0, 0);
  const pads = padsOf(ctx, rank);
  const autoPad = autoPadOf(ctx);
  let wanted = ctx.ints('output_shape', []);
  // Some exporters give the batch and channels too.
  if (wanted.length === rank + 2) wanted = wanted.slice(2);
  if (wanted.length !== 0 && wanted.length !== rank) {
    ctx.fail(
      'BAD_ATTRIBUTE',
      `output_shape has ${wanted.length} entries; it takes ${rank}, one per spatial dim`,
    );
  }
  return kernel.map((k, i) => {
    const input = at(x.shape, i + 2);
    const stride = at(strides, i);
    const dilation = at(dilations, i);
    const [begin, end] = at(pads, i);
    const full = I.add(I.add(I.mul(I.sub(input, 1), stride), coverage(k, dilation)), at(extra, i));
    const same = autoPad === 'SAME_UPPER' || autoPad === 'SAME_LOWER';
    const target =
      wanted[i] !== undefined ? I.num(wanted[i] ?? 0) : same ? I.mul(input, stride) : undefined;
    if (target === undefined) {
      const pad = autoPad === 'VALID' ? 0 : begin + end;
      const out = I.sub(full, pad);
      if (I.upperBound(out) < 1) {
        ctx.fail(
          'SHAPE_MISMATCH',
          `on spatial dim ${i} the padding ${begin} + ${end} leaves nothing of the output's ${I.printIndex(full)}: use less padding`,
        );
      }
      return {
        input,
        kernel: k,
        stride,
        dilation,
        padBegin: I.num(autoPad === 'VALID' ? 0 : begin),
        out,
      };
    }
    // The padding follows from the wanted extent; the odd one goes to the end, or begin for SAME_UPPER's mirror.
    const total = I.max(I.sub(full, target), 0);
    const half = I.floorDiv(total, 2);
    const padBegin = autoPad === 'SAME_UPPER' ? half : I.sub(total, half);
    return { input, kernel: k, stride, dilation, padBegin, out: target };
  });
}

/**
 * out[o] sums over the kernel positions k with `o + pad - k*dilation` a multiple of the stride:
 * a gather from the input, so that no two threads write to one place.
 */
function lowerConvTranspose(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const w = ctx.input(1);
  const rank = x.shape.length - 2;
  if (rank < 1 || w.shape.length !== x.shape.length) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `the input ${I.printShape(x.shape)} needs a weight of shape [in channels, out channels / groups, kernel…] of the same rank; it is ${I.printShape(w.shape)}`,
    );
  }
  const groups = ctx.int('group', 1);
  if (groups < 1) ctx.fail('BAD_ATTRIBUTE', `group is ${groups}: it must be at least 1`);
  const channels = at(x.shape, 1);
  ctx.requireEqual(
    channels,
    at(w.shape, 0),
    `the input's channels and dim 0 of the weight ${I.printShape(w.shape)}`,
  );
  const inGroup = divide(ctx, channels, groups, 'input channels');
  const outGroup = at(w.shape, 1);
  const kernel = w.shape.slice(2);
  checkKernelShape(ctx, kernel);
  const axes = transposedAxes(ctx, x, kernel);
  const shape = [at(x.shape, 0), I.mul(outGroup, groups), ...axes.map((a) => a.out)];
  const sum = sumOfProducts(
    ctx,
    { shape, over: [inGroup, ...kernel], dtype: x.dtype },
    (index, over) => {
      const oc = at(index, 1);
      const group = groups === 1 ? I.num(0) : I.floorDiv(oc, outGroup);
      const inChannel = I.add(I.mul(group, inGroup), at(over, 0));
      const conds: { index: IndexExpr; lo: IndexExpr; hi: IndexExpr }[] = [];
      const position = axes.map((a, i) => {
        const shiftedBack = I.sub(
          I.add(at(index, i + 2), a.padBegin),
          I.mul(at(over, i + 1), a.dilation),
        );
        if (a.stride > 1) {
          const rest = I.mod(shiftedBack, a.stride);
          if (!I.isConst(rest, 0)) conds.push({ index: rest, lo: I.num(0), hi: I.num(1) });
        }
        const p = I.floorDiv(shiftedBack, a.stride);
        if (!I.provablyNonNegative(p) || !I.provablyLe(p, I.sub(a.input, 1))) {
          conds.push({ index: p, lo: I.num(0), hi: a.input });
        }
        return p;
      });
      const loaded = x.at([at(index, 0), inChannel, ...position]);
      const ocInGroup = groups === 1 ? oc : I.mod(oc, outGroup);
      return [
        when(conds, loaded, constant(0, loaded.dtype)),
        w.at([inChannel, ocInGroup, ...over.slice(1)]),
      ];
    },
  );
  return addBias(ctx, sum, ctx.optional(2));
}

// ---------------------------------------------------------------------------------------------
// Causal convolution with state

/** Depthwise, over the past k-1 positions: those before the input come from `past_state`, or are zero. */
function lowerCausalConv(ctx: LowerContext): readonly LTensor[] {
  const x = ctx.input(0);
  const w = ctx.input(1);
  const bias = ctx.optional(2);
  const past = ctx.optional(3);
  const activation = ctx.str('activation', 'none');
  if (x.shape.length !== 3 || w.shape.length !== 3) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `the input must be [batch, channels, length] and the weight [channels, 1, kernel]; they are ${I.printShape(x.shape)} and ${I.printShape(w.shape)}`,
    );
  }
  if (!['none', 'silu', 'swish', ''].includes(activation)) {
    ctx.fail('BAD_ATTRIBUTE', `activation '${activation}' is none of none, silu, swish`);
  }
  const [batch, channels, length] = [at(x.shape, 0), at(x.shape, 1), at(x.shape, 2)];
  ctx.requireEqual(channels, at(w.shape, 0), 'the channels of the input and of the weight');
  ctx.requireEqual(at(w.shape, 1), I.num(1), 'dim 1 of the depthwise weight and 1');
  const kernel = at(w.shape, 2);
  const kept = I.sub(kernel, 1);
  if (past) requireShape(ctx, past.shape, [batch, channels, kept], 'past_state');
  /** The input with the state before it: position p of length + kernel - 1. */
  const padded = (b: IndexExpr, c: IndexExpr, p: IndexExpr): Expr => {
    const own = I.sub(p, kept);
    if (I.provablyNonNegative(own)) return x.at([b, c, own]);
    const before: Expr = past ? past.at([b, c, p]) : constant(0, x.dtype);
    return when(
      [{ index: own, lo: I.num(0), hi: length }],
      x.at([b, c, own]),
      cast(before, x.dtype),
    );
  };
  const sum = sumOfProducts(
    ctx,
    { shape: [batch, channels, length], over: [kernel], dtype: x.dtype },
    ([b, c, l], [k]) => {
      const [bi, ci, li, ki] = [b ?? I.num(0), c ?? I.num(0), l ?? I.num(0), k ?? I.num(0)];
      return [padded(bi, ci, I.add(li, ki)), w.at([ci, I.num(0), ki])];
    },
  );
  const biased = addBias(ctx, sum, bias);
  const y =
    activation === 'silu' || activation === 'swish'
      ? ctx.pointwise(biased.shape, x.dtype, (index) => {
          const v = cast(biased.at(index), wide(x.dtype));
          return cast(times(v, sigmoid(v)), x.dtype);
        })
      : biased;
  const present = ctx.pointwise([batch, channels, kept], x.dtype, (index) =>
    padded(at(index, 0), at(index, 1), I.add(at(index, 2), length)),
  );
  return [y, present];
}

// ---------------------------------------------------------------------------------------------
// Deformable convolution

/** Every tap is moved by a learned offset, read bilinearly, and weighted by a learned mask. */
function lowerDeformConv(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const w = ctx.input(1);
  const offset = ctx.input(2);
  const mask = ctx.optional(4);
  if (x.shape.length !== 4) {
    ctx.unsupported(
      `it is defined here for two spatial dims; the input has shape ${I.printShape(x.shape)}`,
    );
  }
  const c = convShape(ctx, x, w);
  const [batch, channels] = [at(x.shape, 0), at(x.shape, 1)];
  const offsetGroups = ctx.int('offset_group', 1);
  if (offsetGroups < 1)
    ctx.fail('BAD_ATTRIBUTE', `offset_group is ${offsetGroups}: it must be at least 1`);
  const perOffsetGroup = divide(ctx, channels, offsetGroups, 'input channels');
  const [ay, ax] = [at(c.axes, 0), at(c.axes, 1)];
  const taken = I.mul(ay.kernel, ax.kernel);
  const out = [ay.out, ax.out];
  requireShape(ctx, offset.shape, [batch, I.mul(I.mul(taken, offsetGroups), 2), ...out], 'offset');
  if (mask) requireShape(ctx, mask.shape, [batch, I.mul(taken, offsetGroups), ...out], 'mask');
  const acc = wide(x.dtype);
  const sum = sumOfProducts(
    ctx,
    { shape: c.shape, over: [c.inGroup, ay.kernel, ax.kernel], dtype: x.dtype },
    (index, over) => {
      const [n, oc, oy, ox] = [at(index, 0), at(index, 1), at(index, 2), at(index, 3)];
      const [ic, ky, kx] = [at(over, 0), at(over, 1), at(over, 2)];
      const group = c.groups === 1 ? I.num(0) : I.floorDiv(oc, c.outGroup);
      const inChannel = I.add(I.mul(group, c.inGroup), ic);
      const og = offsetGroups === 1 ? I.num(0) : I.floorDiv(inChannel, perOffsetGroup);
      // Offsets lie as [offset group, ky, kx, (y, x)], masks as [offset group, ky, kx].
      const position = I.add(I.mul(I.add(I.mul(og, ay.kernel), ky), ax.kernel), kx);
      const moved = (axis: WindowAxis, o: IndexExpr, k: IndexExpr, which: number): Expr => {
        const start = I.add(I.sub(I.mul(o, axis.stride), axis.padBegin), I.mul(k, axis.dilation));
        const by = offset.at([n, I.add(I.mul(position, 2), which), oy, ox]);
        return plus(cast(by, 'f32'), indexValue(start, 'f32'));
      };
      const sampled = bilinear(
        [moved(ay, oy, ky, 0), moved(ax, ox, kx, 1)],
        [ay.input, ax.input],
        (at2) => cast(x.at([n, inChannel, ...at2]), acc),
      );
      const factors = [sampled, w.at([oc, ic, ky, kx])];
      if (mask) factors.push(mask.at([n, position, oy, ox]));
      return factors;
    },
  );
  return addBias(ctx, sum, ctx.optional(3));
}

// ---------------------------------------------------------------------------------------------
// `.fuse` forms

/** A number for every spatial dim, or the list as given. */
export function spread(arg: FuseArg, rank: number): readonly number[] | undefined {
  const list = intList(arg);
  const only = list?.length === 1 ? list[0] : undefined;
  return only === undefined ? list : new Array<number>(rank).fill(only);
}

/** PyTorch's padding: a number, a list (both sides alike), or 'same' or 'valid'. */
export function paddingAttrs(arg: FuseArg, rank: number): Attrs {
  if (typeof arg === 'string') {
    const named: Readonly<Record<string, AutoPad>> = { same: 'SAME_UPPER', valid: 'VALID' };
    return { auto_pad: named[arg.toLowerCase()] ?? arg };
  }
  const pads = spread(arg, rank);
  return pads ? { pads: [...pads, ...pads] } : {};
}

const NAMED_PADDING: FuseParam = { name: 'padding', kind: 'str' };

/** Whether the call spells its padding as a word. */
const namesPadding = (call: FuseCall): boolean =>
  call.named['padding'] === 'str' || call.positional[4] === 'str';

/** PyTorch's convolution; `padding` is numbers, or in its own form "same" or "valid". */
function convForms(rank: number): FuseForm[] {
  const form = (padding: FuseParam): FuseForm => ({
    names: [`conv${rank}d`],
    params: [
      tensorParam('input', 'x'),
      tensorParam('weight', 'w'),
      optionalTensor('bias', 'b'),
      optionalParam('stride', 'ints', 1, 'strides'),
      padding,
      optionalParam('dilation', 'ints', 1, 'dilations'),
      optionalParam('groups', 'int', 1, 'group'),
    ],
    attrs: (args) =>
      attrsOf({
        strides: spread(args['stride'], rank),
        ...paddingAttrs(args['padding'], rank),
        dilations: spread(args['dilation'], rank),
        group: plainAttr(args['groups']),
      }),
    doc: `Convolution over ${rank} spatial dim${rank > 1 ? 's' : ''}: input [N, C, …], weight [O, C/groups, …]; padding also "same" or "valid".`,
  });
  return [
    { ...form(NAMED_PADDING), matches: namesPadding },
    form(optionalParam('padding', 'ints', 0, 'pad', 'pads')),
  ];
}

function convTransposeForm(rank: number): FuseForm {
  return {
    names: [`conv_transpose${rank}d`],
    params: [
      tensorParam('input', 'x'),
      tensorParam('weight', 'w'),
      optionalTensor('bias', 'b'),
      optionalParam('stride', 'ints', 1, 'strides'),
      optionalParam('padding', 'ints', 0, 'pad', 'pads'),
      optionalParam('output_padding', 'ints', 0),
      optionalParam('groups', 'int', 1, 'group'),
      optionalParam('dilation', 'ints', 1, 'dilations'),
    ],
    attrs: (args) =>
      attrsOf({
        strides: spread(args['stride'], rank),
        ...paddingAttrs(args['padding'], rank),
        output_padding: spread(args['output_padding'], rank),
        dilations: spread(args['dilation'], rank),
        group: plainAttr(args['groups']),
      }),
    doc: `Transposed convolution over ${rank} spatial dim${rank > 1 ? 's' : ''}: input [N, C, …], weight [C, O/groups, …].`,
  };
}

export const convolutionOps: readonly OpDef[] = [
  { name: 'conv', onnx: ['Conv'], fuse: [1, 2, 3].flatMap(convForms), lower: lowerConv },
  { name: 'conv_integer', onnx: ['ConvInteger'], lower: lowerConvInteger },
  {
    name: 'conv_transpose',
    onnx: ['ConvTranspose'],
    fuse: [1, 2, 3].map(convTransposeForm),
    lower: lowerConvTranspose,
  },
  {
    name: 'causal_conv_with_state',
    onnx: ['CausalConvWithState', 'com.microsoft:CausalConvWithState'],
    lower: lowerCausalConv,
  },
  { name: 'deform_conv', onnx: ['DeformConv'], lower: lowerDeformConv },
];
