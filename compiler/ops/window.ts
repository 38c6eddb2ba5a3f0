/**
 * Sliding windows: the geometry that convolutions and poolings share.
 *
 * Vocabulary
 *  - *window axis*: one spatial dim with its kernel extent, stride, dilation and padding, and the
 *    output extent that follows.
 *  - *tap*: one position of the window: the input index `o*stride - padBegin + k*dilation`, and the
 *    condition under which it lies inside the input. Where the padding makes it impossible to be
 *    outside there is no condition, so that an unpadded convolution is a plain product of loads.
 */
import type { IndexCond } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { Dim, IndexExpr, IndexLike } from '../ir/indexExpr';
import type { LowerContext } from './op';

export interface WindowAxis {
  readonly input: Dim;
  readonly kernel: Dim;
  readonly stride: number;
  readonly dilation: number;
  readonly padBegin: IndexExpr;
  readonly padEnd: IndexExpr;
  readonly out: Dim;
  /** Whether a tap can lie before the input's start, or after its end. */
  readonly mayUnderrun: boolean;
  readonly mayOverrun: boolean;
}

export interface Tap {
  readonly index: IndexExpr;
  readonly conds: readonly IndexCond[];
}

/** Attribute `name` as one number per spatial dim, each at least `least`. */
export function perAxis(
  ctx: LowerContext,
  name: string,
  rank: number,
  fallback: number,
  least = 1,
): readonly number[] {
  const given = ctx.ints(name, []);
  if (given.length === 0) return new Array<number>(rank).fill(fallback);
  if (given.length !== rank) {
    ctx.fail(
      'BAD_ATTRIBUTE',
      `'${name}' has ${given.length} entries, but there are ${rank} spatial dims: give ${rank}.`,
    );
  }
  const bad = given.find((n) => n < least);
  if (bad !== undefined) {
    ctx.fail('BAD_ATTRIBUTE', `'${name}' holds ${bad}; every entry must be at least ${least}.`);
  }
  return given;
}

/** `pads` as ONNX has them: all begins, then all ends. */
export function padsOf(ctx: LowerContext, rank: number): readonly [number, number][] {
  const pads = ctx.ints('pads', []);
  if (pads.length === 0) return Array.from({ length: rank }, () => [0, 0] as [number, number]);
  if (pads.length !== 2 * rank) {
    ctx.fail(
      'BAD_ATTRIBUTE',
      `'pads' has ${pads.length} entries; for ${rank} spatial dims it takes ${2 * rank}: all begins, then all ends.`,
    );
  }
  return Array.from({ length: rank }, (_, i) => [pads[i] ?? 0, pads[rank + i] ?? 0]);
}

export const AUTO_PADS = ['NOTSET', 'SAME_UPPER', 'SAME_LOWER', 'VALID'] as const;
export type AutoPad = (typeof AUTO_PADS)[number];

export function autoPadOf(ctx: LowerContext): AutoPad {
  const text = ctx.str('auto_pad', 'NOTSET');
  const found = AUTO_PADS.find((a) => a === (text === '' ? 'NOTSET' : text));
  return (
    found ?? ctx.fail('BAD_ATTRIBUTE', `auto_pad '${text}' is none of ${AUTO_PADS.join(', ')}.`)
  );
}

export interface WindowOptions {
  readonly spatial: readonly Dim[];
  readonly kernel: readonly Dim[];
  /** Round the output extent up, leaving out windows that would start after the padded input's begin. */
  readonly ceil?: boolean;
}

/** The window axes from the attributes strides, dilations, pads and auto_pad. */
export function windowAxes(ctx: LowerContext, options: WindowOptions): readonly WindowAxis[] {
  const rank = options.spatial.length;
  const strides = perAxis(ctx, 'strides', rank, 1);
  const dilations = perAxis(ctx, 'dilations', rank, 1);
  const autoPad = autoPadOf(ctx);
  const pads = padsOf(ctx, rank);
  return options.spatial.map((input, i) =>
    windowAxis(ctx, {
      axis: i,
      input,
      kernel: options.kernel[i] ?? I.num(1),
      stride: strides[i] ?? 1,
      dilation: dilations[i] ?? 1,
      pads: pads[i] ?? [0, 0],
      autoPad,
      ceil: options.ceil ?? false,
    }),
  );
}

interface AxisSpec {
  readonly axis: number;
  readonly input: Dim;
  readonly kernel: Dim;
  readonly stride: number;
  readonly dilation: number;
  readonly pads: readonly [number, number];
  readonly autoPad: AutoPad;
  readonly ceil: boolean;
}

/** The extent that the kernel covers: `(k - 1) * dilation + 1`. */
export function coverage(kernel: IndexLike, dilation: number): IndexExpr {
  return I.add(I.mul(I.sub(kernel, 1), dilation), 1);
}

function windowAxis(ctx: LowerContext, spec: AxisSpec): WindowAxis {
  const { input, kernel, stride, dilation } = spec;
  const cover = coverage(kernel, dilation);
  let [padBegin, padEnd]: [IndexExpr, IndexExpr] = [I.num(spec.pads[0]), I.num(spec.pads[1])];
  let out: IndexExpr;
  if (spec.autoPad === 'SAME_UPPER' || spec.autoPad === 'SAME_LOWER') {
    out = I.ceilDiv(input, stride);
    const total = I.max(I.sub(I.add(I.mul(I.sub(out, 1), stride), cover), input), 0);
    const small = I.floorDiv(total, 2);
    const large = I.sub(total, small);
    [padBegin, padEnd] = spec.autoPad === 'SAME_UPPER' ? [small, large] : [large, small];
  } else {
    if (spec.autoPad === 'VALID') [padBegin, padEnd] = [I.num(0), I.num(0)];
    const room = I.sub(I.add(I.add(input, padBegin), padEnd), cover);
    if (I.upperBound(room) < 0) {
      ctx.fail(
        'SHAPE_MISMATCH',
        `On spatial dim ${spec.axis} the window covers ${I.printIndex(cover)}, more than the padded input's ` +
          `${I.printIndex(I.add(I.add(input, padBegin), padEnd))}: use a smaller kernel or dilation, or more padding.`,
      );
    }
    out = I.add(spec.ceil ? I.ceilDiv(room, stride) : I.floorDiv(room, stride), 1);
    if (spec.ceil) {
      // A window that starts beyond the input and its begin padding is left out.
      out = I.min(out, I.add(I.floorDiv(I.sub(I.add(input, padBegin), 1), stride), 1));
    }
  }
  const first = I.neg(padBegin);
  const last = I.sub(I.add(I.mul(I.sub(out, 1), stride), cover), I.add(padBegin, 1));
  return {
    input,
    kernel,
    stride,
    dilation,
    padBegin,
    padEnd,
    out,
    mayUnderrun: !I.provablyNonNegative(first),
    mayOverrun:
      !I.provablyLe(last, I.sub(input, 1)) &&
      // Rounded down and without end padding the last window ends inside, whatever the sizes.
      (spec.ceil || !I.provablyLe(padEnd, 0)),
  };
}

/** The input index of tap `k` of window `o`, with the conditions that it is inside. */
export function tap(axis: WindowAxis, o: IndexExpr, k: IndexExpr): Tap {
  const index = I.add(I.sub(I.mul(o, axis.stride), axis.padBegin), I.mul(k, axis.dilation));
  const low = axis.mayUnderrun && !I.provablyNonNegative(index);
  const high = axis.mayOverrun && !I.provablyLe(index, I.sub(axis.input, 1));
  return {
    index,
    conds: low || high ? [{ index, lo: I.num(0), hi: axis.input }] : [],
  };
}

/** {@link tap} on every axis. */
export function taps(
  axes: readonly WindowAxis[],
  o: readonly IndexExpr[],
  k: readonly IndexExpr[],
): { readonly index: readonly IndexExpr[]; readonly conds: readonly IndexCond[] } {
  const all = axes.map((axis, i) => tap(axis, o[i] ?? I.num(0), k[i] ?? I.num(0)));
  return { index: all.map((t) => t.index), conds: all.flatMap((t) => t.conds) };
}

/**
 * How many taps of window `o` lie in [0, input), or, with `padded`, in the padded input. A constant
 * where no tap can be outside.
 */
export function tapCount(axis: WindowAxis, o: IndexExpr, padded: boolean): IndexExpr {
  const before = padded ? axis.padBegin : I.num(0);
  const after = padded ? axis.padEnd : I.num(0);
  const start = I.sub(I.mul(o, axis.stride), axis.padBegin);
  // Taps start + k*dilation >= -before: k >= (-before - start) / dilation, rounded up.
  const first = axis.mayUnderrun
    ? I.max(I.ceilDiv(I.neg(I.add(before, start)), axis.dilation), 0)
    : I.num(0);
  const inside = I.sub(I.add(axis.input, after), I.add(start, 1));
  const end = axis.mayOverrun
    ? I.min(I.add(I.floorDiv(inside, axis.dilation), 1), axis.kernel)
    : axis.kernel;
  return I.sub(end, first);
}
