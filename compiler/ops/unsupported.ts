/**
 * Ops that have no lowering, each with its reason, so that a person learns why and not only that.
 */
import * as I from '../ir/indexExpr';
import type { LowerContext, LTensor, OpDef } from './op';
import { at } from './products';

const RANDOM = 'its result is random: results could not be verified';
const DATA_SHAPE = "the size of its result depends on its operand's contents";
const STRINGS = 'it works on strings, which have no place on a GPU';
const SEQUENCES = 'sequences of tensors and optional values are not supported';
const CONTROL = 'its body runs as often as the data says; only straight-line graphs can be fused';

const REASONS: Readonly<Record<string, readonly string[]>> = {
  [RANDOM]: [
    'RandomNormal',
    'RandomNormalLike',
    'RandomUniform',
    'RandomUniformLike',
    'Bernoulli',
    'Multinomial',
  ],
  [DATA_SHAPE]: ['Unique', 'NonMaxSuppression'],
  [STRINGS]: [
    'StringConcat',
    'StringSplit',
    'StringNormalizer',
    'RegexFullMatch',
    'TfIdfVectorizer',
  ],
  [SEQUENCES]: [
    'SequenceAt',
    'SequenceConstruct',
    'SequenceEmpty',
    'SequenceErase',
    'SequenceInsert',
    'SequenceLength',
    'SequenceMap',
    'SplitToSequence',
    'ConcatFromSequence',
    'Optional',
    'OptionalGetElement',
    'OptionalHasElement',
  ],
  [CONTROL]: ['Loop', 'Scan'],
  'it decodes a compressed image, which is no tensor computation': ['ImageDecoder'],
};

function snake(type: string): string {
  return type.replace(/(?<=[a-z0-9])(?=[A-Z])/g, '_').toLowerCase();
}

/** The positions that are not 0, when the contents are known; their number is data otherwise. */
function lowerNonZero(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const { known } = x;
  const sizes = x.shape.map((d) => I.constOf(d));
  if (!known || sizes.some((s) => s === undefined)) ctx.unsupported(`NonZero: ${DATA_SHAPE}`);
  const found: number[] = [];
  known.forEach((k, i) => {
    const n = typeof k === 'number' ? k : (I.constOf(k) ?? 1);
    if (n !== 0) found.push(i);
  });
  const rank = x.shape.length;
  const rows = Array.from({ length: rank }, (_, d) =>
    found.map((lin) => at(I.delinearise(I.num(lin), x.shape), d).c),
  );
  return ctx.constant({ dtype: 'i64', shape: [rank, found.length] }, rows.flat());
}

export const unsupportedOps: readonly OpDef[] = [
  { name: 'non_zero', onnx: ['NonZero'], lower: lowerNonZero },
  ...Object.entries(REASONS).flatMap(([reason, types]) =>
    types.map((type): OpDef => ({
      name: snake(type),
      onnx: [type],
      lower: (ctx) => ctx.unsupported(`${type}: ${reason}`),
    })),
  ),
];
