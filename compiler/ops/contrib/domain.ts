/**
 * What the ops of ONNX Runtime's own domain have in common.
 */
import type { LowerContext, LTensor } from '../op';

export const MS = 'com.microsoft';

/** Operand i, which may be left out, at the end of the list too. */
export function optionalOperand(ctx: LowerContext, i: number): LTensor | undefined {
  return i < ctx.arity ? ctx.optional(i) : undefined;
}
