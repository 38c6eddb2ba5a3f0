/**
 * JSON in pieces: the same text as `JSON.stringify(value, null, 2)`, of which the whole may be longer
 * than a string can be. Infinities and NaN, which JSON lacks, become null.
 */

/** Elements of a list that make one piece. */
const BATCH = 256;

export function* jsonPieces(value: unknown): Generator<string, void> {
  if (!isRecord(value)) {
    yield JSON.stringify(value, null, 2) ?? 'null';
    return;
  }
  let before = '{';
  for (const [key, part] of Object.entries(value)) {
    const name = `${before}\n  ${JSON.stringify(key)}: `;
    if (Array.isArray(part) && part.length > 0) {
      yield name;
      yield* listPieces(part);
    } else {
      // What JSON leaves out, it leaves out here.
      const text = JSON.stringify(part, null, 2);
      if (text === undefined) continue;
      yield name + indented(text, 2);
    }
    before = ',';
  }
  yield before === '{' ? '{}' : '\n}';
}

function* listPieces(list: readonly unknown[]): Generator<string, void> {
  for (let from = 0; from < list.length; from += BATCH) {
    const text = JSON.stringify(list.slice(from, from + BATCH), null, 2);
    // Without the brackets around the batch.
    yield (from === 0 ? '[' : ',') + indented(text.slice(1, -2), 2);
  }
  yield '\n  ]';
}

/** Line ends in JSON are those between its parts: in texts they are escaped. */
function indented(text: string, by: number): string {
  return text.replaceAll('\n', `\n${' '.repeat(by)}`);
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return (
    typeof value === 'object' && value !== null && !Array.isArray(value) && !('toJSON' in value)
  );
}
