/**
 * Where output goes: results to standard output, everything else to standard error.
 *
 * With `--json` standard output holds the JSON alone. A reader that goes away (`| head`) ends the
 * program quietly; output that can't be written (a full disk) ends it with a message.
 */
import { once } from 'node:events';
import { type Paint, painter, wantsColours } from './format/colour';

export interface Terminal {
  /** Paints for standard output. */
  readonly paint: Paint;
  readonly paintError: Paint;
  /** One or more lines to standard output. */
  print(text: string): void;
  /** The same in pieces, as fast as the reader takes them. */
  printPieces(pieces: Iterable<string>): Promise<void>;
  /** One or more lines to standard error. */
  note(text: string): void;
  /** A line that the next one replaces; nothing where standard error is no terminal. */
  progress(text: string): void;
}

export function processTerminal(): Terminal {
  process.stdout.on('error', (e: NodeJS.ErrnoException) => {
    if (e.code === 'EPIPE') process.exit(process.exitCode ?? 0);
    process.stderr.write(`error: can't write to standard output: ${e.message}\n`);
    process.exit(1);
  });
  // There is nowhere left to say why.
  process.stderr.on('error', (e: NodeJS.ErrnoException) => {
    process.exit(e.code === 'EPIPE' ? (process.exitCode ?? 0) : 1);
  });
  const live = process.stderr.isTTY;
  let showing = false;
  const clear = (): void => {
    if (showing) process.stderr.write('\r\u001b[K');
    showing = false;
  };
  return {
    paint: painter(wantsColours(process.stdout, process.env)),
    paintError: painter(wantsColours(process.stderr, process.env)),
    print(text) {
      clear();
      process.stdout.write(`${text}\n`);
    },
    async printPieces(pieces) {
      clear();
      for (const piece of pieces) {
        if (!process.stdout.write(piece)) await once(process.stdout, 'drain');
      }
      process.stdout.write('\n');
    },
    note(text) {
      clear();
      process.stderr.write(`${text}\n`);
    },
    progress(text) {
      if (!live) return;
      const width = (process.stderr.columns || 80) - 1;
      process.stderr.write(`\r\u001b[K${[...text].slice(0, width).join('')}`);
      showing = text !== '';
    },
  };
}

/** Infinities and NaN, which JSON lacks, become null. */
export function jsonText(value: unknown): string {
  return JSON.stringify(value, null, 2);
}
