/**
 * Parameter spaces: what of a template's schedule can be set, and to which values, as data.
 *
 * Each template declares its space beside its code (`LOOP_SPACE` in loop.ts, `ROW_SPACE` in row.ts).
 * A `schedule` line of a file, a tuning record and the tuner's search all go through it, so that a
 * parameter is declared once.
 *
 * Vocabulary
 *  - *settings*: values by parameter name, as a `schedule` line gives them. What isn't named stays as
 *    the scheduler chose it.
 *  - *legal*: the template can build it within the adapter's limits on invocations. What a kernel then
 *    takes of other limits (workgroup memory, code size) is known once it is built.
 */
export type Settings = Readonly<Record<string, number | string>>;

/**
 * One parameter of a template. `P` are the template's parameters; `K` is what it must know of the
 * kernel (its sizes) to say which values are worth trying.
 */
export interface Parameter<P, K> {
  readonly name: string;
  /** For people: what it is, with its unit. */
  readonly doc: string;
  /** The least value there is; 1 where nothing else is said. */
  readonly least?: number;
  /** The model is blind to it: candidates that differ in it alone are predicted to take the same. */
  readonly unpriced?: boolean;
  /** Its value in the parameters, as a setting would say it; undefined where the kernel has no use for it. */
  read(params: P): number | undefined;
  /** Values that a search tries, ascending; `most` is what the adapter allows of invocations a workgroup. */
  tried(params: P, kernel: K, most: number): readonly number[];
  /** The parameters with that value, a whole number from the least; or what is wrong with it. */
  write(params: P, value: number, most: number): P | Refusal;
  /** What the value must be, for the message that refuses something that is no whole number from 1. */
  wanted(most: number): string;
}

export interface Refusal {
  readonly refused: string;
}

export interface ParameterSpace<P, K> {
  readonly parameters: readonly Parameter<P, K>[];
  /** What is wrong with the values together. */
  together(params: P, most: number): string | undefined;
}

export type Set<P> =
  { readonly ok: true; readonly params: P } | { readonly ok: false; readonly reason: string };

/** The parameters with the settings, or the first thing that is wrong with them. */
export function applySettings<P, K>(
  template: string,
  space: ParameterSpace<P, K>,
  params: P,
  settings: Settings,
  most: number,
): Set<P> {
  const refuse = (reason: string): Set<P> => ({ ok: false, reason });
  const known = space.parameters.map((p) => p.name);
  let out = params;
  for (const name of Object.keys(settings))
    if (!known.includes(name))
      return refuse(`its template '${template}' has no parameter '${name}'; it has ${list(known)}`);
  for (const p of space.parameters) {
    const value = settings[p.name];
    if (value === undefined) continue;
    if (typeof value !== 'number' || !Number.isInteger(value) || value < (p.least ?? 1))
      return refuse(p.wanted(most));
    const next = p.write(out, value, most);
    if (isRefusal(next)) return refuse(next.refused);
    out = next;
  }
  const wrong = space.together(out, most);
  return wrong === undefined ? { ok: true, params: out } : refuse(wrong);
}

/** A parameter of one kernel: as {@link Parameter}, with the values filled in. */
export interface KernelParameter {
  readonly name: string;
  readonly doc: string;
  readonly unpriced: boolean;
  /** What the scheduler chose. */
  readonly own: number;
  /** Ascending, and with its own. */
  readonly tried: readonly number[];
}

/** The parameters that a kernel has, in the order in which they are declared. */
export function parametersOf<P, K>(
  space: ParameterSpace<P, K>,
  params: P,
  kernel: K,
  most: number,
): KernelParameter[] {
  return space.parameters.flatMap((p) => {
    const own = p.read(params);
    if (own === undefined) return [];
    const { name, doc, unpriced = false } = p;
    const tried = new Set([own, ...p.tried(params, kernel, most)]);
    return [{ name, doc, unpriced, own, tried: [...tried].sort((a, b) => a - b) }];
  });
}

/** Equal for equal settings, whatever their order. */
export function settingsKey(settings: Settings): string {
  const entries = Object.entries(settings).sort(([a], [b]) => (a < b ? -1 : 1));
  return entries.map(([name, value]) => `${name}=${value}`).join(' ');
}

export function sameSettings(a: Settings, b: Settings): boolean {
  return settingsKey(a) === settingsKey(b);
}

/** The parameters in words: `workgroup = 128, tile = 2`. */
export function settingsText(settings: Settings): string {
  return Object.entries(settings)
    .map(([name, value]) => `${name} = ${value}`)
    .join(', ');
}

/** Powers of two from `from` to `to`, both included where they are powers of two. */
export function powersOfTwo(from: number, to: number): number[] {
  const out: number[] = [];
  for (let n = 1; n <= to; n *= 2) if (n >= from) out.push(n);
  return out;
}

function isRefusal(x: unknown): x is Refusal {
  return typeof x === 'object' && x !== null && 'refused' in x;
}

function list(names: readonly string[]): string {
  const last = names[names.length - 1] ?? 'none';
  return names.length < 2 ? last : `${names.slice(0, -1).join(', ')} and ${last}`;
}
