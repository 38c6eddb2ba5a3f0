/**
 * A model on disk that is as large as wanted and takes no room: its weights are holes in the file.
 */
import { closeSync, openSync, truncateSync, writeSync } from 'node:fs';
import { FLOAT, int, message, node, text, value, varint, type Bytes } from './encoder';

export interface SparseModel {
  readonly size: number;
  /** Where in the file each weight's contents begin. */
  readonly weights: readonly number[];
}

/** `layers` times a product with a square matrix, as a chain. */
export function writeSparseModel(path: string, layers: number, side: number): SparseModel {
  const weightBytes = 4 * side * side;
  const parts: { readonly bytes: Bytes; readonly hole: number }[] = [];
  const nodes: Bytes = [];
  for (let k = 0; k < layers; k++) {
    nodes.push(...message(1, node('MatMul', [k === 0 ? 'x' : `h${k}`, `w${k}`], [`h${k + 1}`])));
    // Contents before the name, as Python's writer has them the other way round.
    const head = [...int(1, side), ...int(1, side), ...int(2, FLOAT), ...text(8, `w${k}`)];
    const raw = [...varint(9 * 8 + 2), ...varint(weightBytes)];
    const length = head.length + raw.length + weightBytes;
    parts.push({
      bytes: [...varint(5 * 8 + 2), ...varint(length), ...head, ...raw],
      hole: weightBytes,
    });
  }
  const ends = [
    ...message(11, value('x', FLOAT, [1, side])),
    ...message(12, value(`h${layers}`, FLOAT, [1, side])),
  ];
  const graphBytes =
    nodes.length + ends.length + parts.reduce((n, p) => n + p.bytes.length + p.hole, 0);
  const file = openSync(path, 'w');
  let at = 0;
  const put = (bytes: Bytes): void => {
    at += writeSync(file, Uint8Array.from(bytes), 0, bytes.length, at);
  };
  put([...int(1, 8), ...message(8, text(1, ''), int(2, 18))]);
  put([...varint(7 * 8 + 2), ...varint(graphBytes), ...nodes]);
  const weights: number[] = [];
  for (const p of parts) {
    put(p.bytes);
    weights.push(at);
    at += p.hole;
  }
  put(ends);
  closeSync(file);
  truncateSync(path, at);
  return { size: at, weights };
}
