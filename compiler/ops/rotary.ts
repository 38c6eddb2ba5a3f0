/**
 * Rotary position embedding: pairs of features turned by the angle of their position.
 */
import { cast, type Expr, when } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import { splitHeads } from './attentionCore';
import type { LowerContext, LTensor, OpDef } from './op';
import { at, minus, plus, times, wide, wrappedIndex } from './products';
import { optionalParam, optionalTensor, tensorParam } from './shared';

/** Rotates pairs of features by position-dependent angles; features past the rotary dim stay. */
export function lowerRotary(ctx: LowerContext): LTensor {
  const [x, cosines, sines, positions] = [
    ctx.input(0),
    ctx.input(1),
    ctx.input(2),
    ctx.optional(3),
  ];
  const rank = x.shape.length;
  if (rank !== 3 && rank !== 4) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `RotaryEmbedding takes [batch, heads, sequence, size] or [batch, sequence, heads * size]; the operand is ${I.printShape(x.shape)}`,
    );
  }
  const headsGiven = ctx.int('num_heads', 0);
  if (rank === 3 && headsGiven < 1) {
    ctx.fail('BAD_ATTRIBUTE', 'num_heads must be given for an operand of rank 3');
  }
  const x4 = splitHeads(ctx, x, headsGiven, 'the operand');
  const size = at(x4.shape, 3);
  const wanted = ctx.int('rotary_embedding_dim', 0);
  const rotary = wanted > 0 ? I.num(wanted) : size;
  const half = I.exactDiv(rotary, 2);
  if (!half || !I.provablyLe(rotary, size)) {
    ctx.fail(
      'BAD_ATTRIBUTE',
      `the rotary dim ${I.printIndex(rotary)} must be even and at most the head size ${I.printIndex(size)}`,
    );
  }
  const interleaved = ctx.bool('interleaved', false);
  const cacheRank = positions ? 2 : 3;
  for (const [t, what] of [
    [cosines, 'cos_cache'],
    [sines, 'sin_cache'],
  ] as const) {
    if (t.shape.length !== cacheRank) {
      ctx.fail(
        'SHAPE_MISMATCH',
        `${what} has shape ${I.printShape(t.shape)}; ${positions ? 'with position ids it is [positions, rotary / 2]' : 'without position ids it is [batch, sequence, rotary / 2]'}`,
      );
    }
    ctx.requireEqual(
      at(t.shape, cacheRank - 1),
      half,
      `the last dim of ${what} and half the rotary dim`,
    );
  }
  const pick = (cache: LTensor, b: IndexExpr, s: IndexExpr, d: IndexExpr): Expr => {
    if (!positions) {
      return cache.at([I.isConst(at(cache.shape, 0), 1) ? I.num(0) : b, s, d]);
    }
    return cache.at([wrappedIndex(positions.at([b, s]), at(cache.shape, 0)), d]);
  };
  const acc = wide(x.dtype);
  const element = (b: IndexExpr, h: IndexExpr, s: IndexExpr, d: IndexExpr): Expr => {
    const load = (p: IndexExpr): Expr => cast(x4.at([b, h, s, p]), acc);
    const rotated = (angle: IndexExpr, partner: IndexExpr, sign: -1 | 1): Expr => {
      const own = times(load(d), cast(pick(cosines, b, s, angle), acc));
      const other = times(load(partner), cast(pick(sines, b, s, angle), acc));
      return sign === 1 ? plus(own, other) : minus(own, other);
    };
    const first = interleaved
      ? { index: I.mod(d, 2), lo: I.num(0), hi: I.num(1) }
      : { index: d, lo: I.num(0), hi: half };
    const turned = interleaved
      ? when(
          [first],
          rotated(I.floorDiv(d, 2), I.add(d, 1), -1),
          rotated(I.floorDiv(d, 2), I.sub(d, 1), 1),
        )
      : when([first], rotated(d, I.add(d, half), -1), rotated(I.sub(d, half), I.sub(d, half), 1));
    const e = I.same(rotary, size)
      ? turned
      : when([{ index: d, lo: I.num(0), hi: rotary }], turned, load(d));
    return cast(e, x.dtype);
  };
  return ctx.pointwise(x.shape, x.dtype, (index) => {
    if (rank === 4) return element(at(index, 0), at(index, 1), at(index, 2), at(index, 3));
    const [h, d] = I.delinearise(at(index, 2), [at(x4.shape, 1), size]);
    return element(at(index, 0), h ?? I.num(0), at(index, 1), d ?? I.num(0));
  });
}

export const ROTARY: OpDef = {
  name: 'rotary_embedding',
  onnx: ['RotaryEmbedding'],
  fuse: [
    {
      names: ['rotary_embedding', 'rope'],
      params: [
        tensorParam('input', 'x'),
        tensorParam('cos_cache', 'cos'),
        tensorParam('sin_cache', 'sin'),
        optionalTensor('position_ids', 'positions'),
        optionalParam('interleaved', 'bool', false),
        optionalParam('num_heads', 'int'),
        optionalParam('rotary_embedding_dim', 'int', undefined, 'rotary_dim'),
      ],
      doc: 'Rotates pairs of features by the angle of their position.',
    },
  ],
  lower: lowerRotary,
};
