/**
 * Linear attention: a state matrix [key size, value size] per head that every step decays, corrects,
 * adds to and reads.
 *
 * The recurrence is unrolled, so the sequence length must be known and short.
 */
import { cast, constant, type Expr, unary, when } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { Dim, IndexExpr } from '../ir/indexExpr';
import type { LowerContext, LTensor } from './op';
import { at, minus, plus, requireShape, sumOfProducts, times } from './products';

/** Longer sequences would make more code than a kernel should hold. */
export const UNROLL_LIMIT = 64;

export function unrolledLength(ctx: LowerContext, length: Dim, what: string): number {
  const n = I.constOf(length);
  if (n === undefined || n > UNROLL_LIMIT) {
    ctx.unsupported(
      `${what} is unrolled step by step, so its sequence length must be known and at most ${UNROLL_LIMIT}; it is ${I.printIndex(length)}`,
    );
  }
  if (n === 0) ctx.unsupported(`${what} over an empty sequence`);
  return n;
}

/** A length of any size, but known. */
export function knownLength(ctx: LowerContext, length: Dim, what: string): number {
  const n = I.constOf(length);
  if (n === undefined)
    ctx.unsupported(
      `the sequence length of ${what} must be known when compiling; it is ${I.printIndex(length)}`,
    );
  if (n === 0) ctx.unsupported(`${what} over an empty sequence`);
  return n;
}

/** The element of step `t` out of one handle per step. */
export function stepElement(
  steps: readonly LTensor[],
  t: IndexExpr,
  index: readonly IndexExpr[],
): Expr {
  const known = I.constOf(t);
  if (known !== undefined) return at(steps, known).at(index);
  return steps
    .slice(0, -1)
    .reduceRight<Expr>(
      (rest, step, i) => when([{ index: t, lo: I.num(i), hi: I.num(i + 1) }], step.at(index), rest),
      at(steps, steps.length - 1).at(index),
    );
}

const RULES = ['linear', 'gated', 'delta', 'gated_delta'];

export function lowerLinearAttention(ctx: LowerContext): readonly LTensor[] {
  const [q, k, v] = [ctx.input(0), ctx.input(1), ctx.input(2)];
  const [past, decay, beta, erase] = [3, 4, 5, 6].map((i) => ctx.optional(i));
  const rule = ctx.str('update_rule', 'gated_delta');
  if (!RULES.includes(rule)) {
    ctx.fail('BAD_ATTRIBUTE', `update_rule '${rule}' is none of ${RULES.join(', ')}`);
  }
  const gated = rule === 'gated' || rule === 'gated_delta';
  const corrected = rule === 'delta' || rule === 'gated_delta';
  checkOperand(ctx, rule, 'decay', decay, gated);
  checkOperand(ctx, rule, 'beta', beta, corrected);
  if (erase && !corrected) ctx.fail('BAD_ATTRIBUTE', `update_rule '${rule}' takes no erase_gate`);
  for (const [t, what] of [
    [q, 'query'],
    [k, 'key'],
    [v, 'value'],
  ] as const) {
    if (t.shape.length !== 3) {
      ctx.fail(
        'SHAPE_MISMATCH',
        `${what} must be [batch, sequence, heads * size]; it is ${I.printShape(t.shape)}`,
      );
    }
  }
  const [qHeads, kvHeads] = [ctx.int('q_num_heads'), ctx.int('kv_num_heads')];
  if (qHeads < 1 || kvHeads < 1 || qHeads % kvHeads !== 0) {
    ctx.fail(
      'BAD_ATTRIBUTE',
      `q_num_heads (${qHeads}) must be a positive multiple of kv_num_heads (${kvHeads})`,
    );
  }
  const group = qHeads / kvHeads;
  const [batch, length] = [at(q.shape, 0), at(q.shape, 1)];
  const keySize = headSize(ctx, q, qHeads, 'query');
  ctx.requireEqual(keySize, headSize(ctx, k, kvHeads, 'key'), 'the head sizes of query and key');
  const valueSize = headSize(ctx, v, kvHeads, 'value');
  const steps = unrolledLength(ctx, length, 'linear attention');
  const stateShape = [batch, I.num(kvHeads), keySize, valueSize];
  if (past) requireShape(ctx, past.shape, stateShape, 'past_state');
  const scaleGiven = ctx.float('scale', 0);
  const n = I.constOf(keySize);
  if (scaleGiven === 0 && n === undefined)
    ctx.unsupported('the head size must be known, or scale given');
  const scale = scaleGiven !== 0 ? scaleGiven : 1 / Math.sqrt(n ?? 1);

  const f32 = (e: Expr): Expr => cast(e, 'f32');
  /** Element of a packed [batch, sequence, heads * size] operand at step t. */
  const packed = (
    t: LTensor,
    size: Dim,
    step: number,
    b: IndexExpr,
    h: IndexExpr,
    d: IndexExpr,
  ): Expr => f32(t.at([b, I.num(step), I.add(I.mul(h, size), d)]));
  const perHead = (t: LTensor, step: number, b: IndexExpr, h: IndexExpr): Expr =>
    f32(t.at([b, I.num(step), I.isConst(at(t.shape, 2), 1) ? I.num(0) : h]));
  const decayPerKey = decay !== undefined && !I.isConst(at(decay.shape, 2), kvHeads);

  let state: (index: readonly IndexExpr[]) => Expr = (index) =>
    past ? f32(past.at(index)) : constant(0, 'f32');
  let stored: LTensor | undefined;
  const outputs: LTensor[] = [];
  for (let t = 0; t < steps; t++) {
    const before = state;
    const decayed = (index: readonly IndexExpr[]): Expr => {
      if (!decay) return before(index);
      const [b, h, d] = [at(index, 0), at(index, 1), at(index, 2)];
      const g = decayPerKey ? packed(decay, keySize, t, b, h, d) : perHead(decay, t, b, h);
      return times(before(index), unary('exp', g));
    };
    let written = (b: IndexExpr, h: IndexExpr, m: IndexExpr): Expr =>
      packed(v, valueSize, t, b, h, m);
    if (corrected && beta) {
      const retrieved = sumOfProducts(
        ctx,
        { shape: [batch, kvHeads, valueSize], over: [keySize], dtype: 'f32' },
        (index, r) => {
          const [b, h, m, d] = [at(index, 0), at(index, 1), at(index, 2), at(r, 0)];
          const key = packed(k, keySize, t, b, h, d);
          const gate = erase ? times(packed(erase, keySize, t, b, h, d), key) : key;
          return [decayed([b, h, d, m]), gate];
        },
      );
      written = (b, h, m) =>
        times(
          perHead(beta, t, b, h),
          minus(packed(v, valueSize, t, b, h, m), retrieved.at([b, h, m])),
        );
    }
    const next = ctx.pointwise(stateShape, 'f32', (index) => {
      const [b, h, d, m] = [at(index, 0), at(index, 1), at(index, 2), at(index, 3)];
      return plus(decayed(index), times(packed(k, keySize, t, b, h, d), written(b, h, m)));
    });
    stored = next;
    state = (index) => next.at(index);
    outputs.push(
      sumOfProducts(
        ctx,
        { shape: [batch, qHeads, valueSize], over: [keySize], dtype: 'f32' },
        (index, r) => {
          const [b, h, m, d] = [at(index, 0), at(index, 1), at(index, 2), at(r, 0)];
          const kv = group === 1 ? h : I.floorDiv(h, group);
          return [packed(q, keySize, t, b, h, d), next.at([b, kv, d, m])];
        },
      ),
    );
  }
  const width = I.mul(valueSize, qHeads);
  const output = ctx.pointwise([batch, length, width], q.dtype, (index) => {
    const [h, m] = I.delinearise(at(index, 2), [I.num(qHeads), valueSize]);
    const e = stepElement(outputs, at(index, 1), [at(index, 0), h ?? I.num(0), m ?? I.num(0)]);
    return cast(times(e, scale), q.dtype);
  });
  const stateType = past?.dtype ?? q.dtype;
  const final = stored;
  const present =
    final && stateType === 'f32'
      ? final
      : ctx.pointwise(stateShape, stateType, (index) => cast(state(index), stateType));
  return [output, present];
}

function checkOperand(
  ctx: LowerContext,
  rule: string,
  name: string,
  operand: LTensor | undefined,
  needed: boolean,
): void {
  if (needed === (operand !== undefined)) {
    if (operand && operand.shape.length !== 3) {
      ctx.fail(
        'SHAPE_MISMATCH',
        `${name} must be [batch, sequence, heads (or heads * size)]; it is ${I.printShape(operand.shape)}`,
      );
    }
    return;
  }
  ctx.fail('BAD_ATTRIBUTE', `update_rule '${rule}' ${needed ? 'needs' : 'takes no'} ${name}`);
}

function headSize(ctx: LowerContext, t: LTensor, heads: number, what: string): Dim {
  return (
    I.exactDiv(at(t.shape, 2), heads) ??
    ctx.fail(
      'SHAPE_MISMATCH',
      `the last dim of ${what} ${I.printShape(t.shape)} doesn't divide into ${heads} heads`,
    )
  );
}
