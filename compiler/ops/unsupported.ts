/**
 * Ops that have no lowering, each with its reason, so that a person learns why and not only that.
 */
import type { OpDef } from './op';

const STRINGS = 'it works on strings, which have no place on a GPU';

const REASONS: Readonly<Record<string, readonly string[]>> = {
  [STRINGS]: [
    ...['StringConcat', 'StringSplit', 'StringNormalizer', 'RegexFullMatch'],
    'ai.onnx.ml:CategoryMapper',
  ],
  'it works on maps, which have no place on a GPU': [
    'ai.onnx.ml:CastMap',
    'ai.onnx.ml:DictVectorizer',
  ],
  'its result is a list of maps, which have no place on a GPU; take the scores before it': [
    'ai.onnx.ml:ZipMap',
  ],
  'the votes of support vector machines between pairs of classes have no lowering': [
    'ai.onnx.ml:SVMClassifier',
  ],
  'it decodes a compressed image, which is no tensor computation': ['ImageDecoder'],
};

function snake(type: string): string {
  return type.replace(/(?<=[a-z0-9])(?=[A-Z])/g, '_').toLowerCase();
}

export const unsupportedOps: readonly OpDef[] = Object.entries(REASONS).flatMap(([reason, types]) =>
  types.map((type): OpDef => ({
    name: snake(type.slice(type.indexOf(':') + 1)),
    onnx: [type],
    lower: (ctx) => ctx.unsupported(reason),
  })),
);
