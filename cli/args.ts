/**
 * The command line's grammar: commands with positional arguments and flags, described as data, from
 * which parsing, checking and `--help` are made.
 *
 * Flags are `--name`, `--name value`, `--name=value`, `-o value`; `--` ends them. What is unknown is
 * a usage error (exit code 2) that proposes the nearest name.
 */
export interface Flag {
  readonly name: string;
  readonly short?: string;
  /** The placeholder of its value; absent: a switch. */
  readonly value?: string;
  readonly repeat?: boolean;
  /** The values it takes, when they are few. */
  readonly choices?: readonly string[];
  readonly number?: { readonly min: number; readonly max: number; readonly integer: boolean };
  readonly doc: string;
}

export interface CommandSpec {
  readonly name: string;
  /** `FILE`, or `DIR…` for one or more; empty: none. */
  readonly positional: string;
  readonly summary: string;
  readonly details?: readonly string[];
  readonly flags: readonly Flag[];
}

export interface ParsedArgs {
  readonly positionals: readonly string[];
  readonly switches: ReadonlySet<string>;
  readonly values: ReadonlyMap<string, readonly string[]>;
}

export type ParseResult =
  | { readonly ok: true; readonly args: ParsedArgs }
  | { readonly ok: false; readonly message: string };

export function parseArgs(spec: CommandSpec, argv: readonly string[]): ParseResult {
  const fail = (message: string): ParseResult => ({ ok: false, message });
  const positionals: string[] = [];
  const switches = new Set<string>();
  const values = new Map<string, string[]>();
  let flagsOver = false;
  for (let i = 0; i < argv.length; i++) {
    const word = argv[i] ?? '';
    if (flagsOver || word === '-' || !word.startsWith('-')) {
      positionals.push(word);
      continue;
    }
    if (word === '--') {
      flagsOver = true;
      continue;
    }
    const equals = word.startsWith('--') ? word.indexOf('=') : -1;
    const name = equals < 0 ? word : word.slice(0, equals);
    const flag = spec.flags.find((f) => name === `--${f.name}` || name === `-${f.short ?? ''}`);
    if (!flag) {
      const names = spec.flags.map((f) => `--${f.name}`);
      return fail(`unknown flag ${name}${suggestion(name, names)}`);
    }
    if (flag.value === undefined) {
      if (equals >= 0) return fail(`${name} takes no value`);
      switches.add(flag.name);
      continue;
    }
    const next = argv[i + 1];
    const value = equals >= 0 ? word.slice(equals + 1) : next;
    if (value === undefined || (equals < 0 && isFlag(value)))
      return fail(`${name} needs a value: ${name} ${flag.value}`);
    if (equals < 0) i++;
    const problem = valueProblem(flag, name, value);
    if (problem !== undefined) return fail(problem);
    const list = values.get(flag.name);
    if (!list) values.set(flag.name, [value]);
    else if (flag.repeat) list.push(value);
    else return fail(`${name} is given twice`);
  }
  const problem = switches.has('help') ? undefined : positionalProblem(spec, positionals);
  if (problem !== undefined) return fail(problem);
  return { ok: true, args: { positionals, switches, values } };
}

function isFlag(text: string): boolean {
  return /^--?[A-Za-z]/.test(text);
}

function valueProblem(flag: Flag, name: string, value: string): string | undefined {
  if (flag.choices && !flag.choices.includes(value))
    return `${name} is one of ${flag.choices.join(', ')}, not "${value}"${suggestion(value, flag.choices)}`;
  if (!flag.number) return value === '' ? `${name} needs a value that isn't empty` : undefined;
  const { min, max, integer } = flag.number;
  const n = value.trim() === '' ? NaN : Number(value);
  if (n >= min && n <= max && (!integer || Number.isInteger(n))) return undefined;
  return `${name} must be ${integer ? 'an integer' : 'a number'} from ${min} to ${max}, not "${value}"`;
}

function positionalProblem(spec: CommandSpec, given: readonly string[]): string | undefined {
  const many = spec.positional.endsWith('…');
  const noun = spec.positional.replace('…', '');
  if (noun === '')
    return given[0] === undefined
      ? undefined
      : `${spec.name} takes no file, but there is "${given[0]}"`;
  if (given.length === 0) return `${spec.name} needs a ${noun}`;
  if (!many && given.length > 1)
    return `${spec.name} takes one ${noun}, but there is also "${given[1] ?? ''}"`;
  return undefined;
}

/** `; did you mean X?`, when something is near. */
export function suggestion(word: string, candidates: readonly string[]): string {
  let best: string | undefined;
  let bestDistance = Math.max(2, Math.floor(word.length / 3)) + 1;
  for (const c of candidates) {
    const d = c.startsWith(word) && word.length > 3 ? 1 : distance(word, c);
    if (d < bestDistance) {
      best = c;
      bestDistance = d;
    }
  }
  return best === undefined ? '' : `; did you mean ${best}?`;
}

/** Insertions, deletions, replacements and swaps of neighbours. */
function distance(a: string, b: string): number {
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      let d = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (last[j - 1] ?? 0) + same);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        d = Math.min(d, (before[j - 2] ?? 0) + 1);
      row.push(d);
    }
    before = last;
    last = row;
  }
  return last[b.length] ?? 0;
}

// ---------------------------------------------------------------------------------------------
// Reading what was parsed

export function one(args: ParsedArgs, name: string): string | undefined {
  return args.values.get(name)?.[0];
}

export function numberOf(args: ParsedArgs, name: string): number | undefined {
  const text = one(args, name);
  return text === undefined ? undefined : Number(text);
}

/** `--dim B=32`, repeated. */
export function dimsOf(
  args: ParsedArgs,
):
  | { readonly ok: true; readonly dims: Readonly<Record<string, number>> }
  | { readonly ok: false; readonly message: string } {
  const dims = new Map<string, number>();
  for (const text of args.values.get('dim') ?? []) {
    const m = /^([^=]+)=(\d+)$/.exec(text);
    const size = Number(m?.[2]);
    if (!m?.[1] || !(size <= 2 ** 31 - 1))
      return {
        ok: false,
        message: `--dim wants NAME=SIZE with a whole number for a size, not "${text}"`,
      };
    dims.set(m[1], size);
  }
  return { ok: true, dims: Object.fromEntries(dims) };
}
