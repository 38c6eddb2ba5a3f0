/**
 * Ops that have no lowering, each with its reason, so that a person learns why and not only that.
 */
import type { OpDef } from './op';

const STRINGS = 'it works on strings, which have no place on a GPU';

const REASONS: Readonly<Record<string, readonly string[]>> = {
  [STRINGS]: ['StringConcat', 'StringSplit', 'StringNormalizer', 'RegexFullMatch'],
  'it decodes a compressed image, which is no tensor computation': ['ImageDecoder'],
};

function snake(type: string): string {
  return type.replace(/(?<=[a-z0-9])(?=[A-Z])/g, '_').toLowerCase();
}

export const unsupportedOps: readonly OpDef[] = Object.entries(REASONS).flatMap(([reason, types]) =>
  types.map((type): OpDef => ({
    name: snake(type),
    onnx: [type],
    lower: (ctx) => ctx.unsupported(reason),
  })),
);
