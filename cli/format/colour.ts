/**
 * Colours, only where a person looks: on a terminal, and not where NO_COLOR asks for none.
 */
export type Colour = 'red' | 'green' | 'yellow' | 'cyan' | 'dim' | 'bold';

const CODES: Readonly<Record<Colour, readonly [number, number]>> = {
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  cyan: [36, 39],
  dim: [2, 22],
  bold: [1, 22],
};

export type Paint = (colour: Colour, text: string) => string;

export function painter(on: boolean): Paint {
  return (colour, text) => {
    const [open, close] = CODES[colour];
    return on && text !== '' ? `\u001b[${open}m${text}\u001b[${close}m` : text;
  };
}

/** See no-color.org; FORCE_COLOR is its counterpart. */
export function wantsColours(
  stream: { readonly isTTY?: boolean },
  env: Readonly<Record<string, string | undefined>>,
): boolean {
  if (env['NO_COLOR'] !== undefined && env['NO_COLOR'] !== '') return false;
  if (env['FORCE_COLOR'] !== undefined && env['FORCE_COLOR'] !== '0') return true;
  return stream.isTTY === true && env['TERM'] !== 'dumb';
}

const ESCAPE = String.fromCharCode(27);
const SEQUENCES = new RegExp(`${ESCAPE}\\[[0-9;]*m`, 'g');

export function stripColours(text: string): string {
  return text.includes(ESCAPE) ? text.replace(SEQUENCES, '') : text;
}
