/** WGSL in colour: a scanner that knows words, numbers and comments, which is enough to read code by. */

export interface Token {
  readonly kind: 'keyword' | 'type' | 'number' | 'comment' | 'attribute' | 'function' | 'plain';
  readonly text: string;
}

const KEYWORDS = new Set(
  (
    'alias break case const const_assert continue continuing default diagnostic discard else enable ' +
    'false fn for if let loop override requires return struct switch true var while'
  ).split(' '),
);
const TYPES =
  /^(?:bool|[fiu]32|f16|vec[234][fiuh]?|mat[234]x[234][fh]?|array|atomic|ptr|storage|uniform|workgroup|private|function|read|write|read_write)$/;
const SCANNER =
  /(\/\/[^\n]*|\/\*[\s\S]*?\*\/)|(@\w+)|((?:0[xX][\da-fA-F]+|\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)[fhiu]?)|([A-Za-z_]\w*)|([^\w@/]+|[\s\S])/g;

export function tokenize(code: string): readonly Token[] {
  const tokens: Token[] = [];
  for (const match of code.matchAll(SCANNER)) {
    const [text, comment, attribute, number, word] = match;
    const after = code[match.index + text.length];
    tokens.push({
      kind: comment
        ? 'comment'
        : attribute
          ? 'attribute'
          : number
            ? 'number'
            : word === undefined
              ? 'plain'
              : KEYWORDS.has(word)
                ? 'keyword'
                : TYPES.test(word)
                  ? 'type'
                  : after === '('
                    ? 'function'
                    : 'plain',
      text,
    });
  }
  return tokens;
}
