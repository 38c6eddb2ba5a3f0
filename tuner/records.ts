/**
 * The tuning records of a workspace, `.fusion-lens/tuning.json`: what was measured, for people to read,
 * to keep under version control and to merge.
 *
 * One record a line, in the order of their keys. A record says of one kernel structure (or one change
 * of a plan), on one adapter, by one version of the program: which candidates were tried and what came
 * out, and which one is used from then on, if any. Nothing in it depends on the time or the machine's
 * folders, so that two people who tune get files that merge.
 *
 * A file that can't be read is neither used nor written to.
 */
import { type Diagnostic, info, warning } from '../compiler/diagnostics';
import type { Settings } from '../compiler/schedule/parameters';
import type { KernelTuning, PlanChange, PlanTuning, Tuning } from '../compiler/tuning';

export const TUNING_FOLDER = '.fusion-lens';
export const TUNING_FILE = 'tuning.json';
const SCHEMA = 'fusion-lens/tuning@1';

/** What came of a candidate: timed against the default, or why it couldn't be. */
export type Tried =
  | {
      readonly us: number;
      readonly spreadUs: number;
      readonly speedup: number;
      readonly speedupSpread: number;
    }
  | { readonly failed: string };

/** Confirmed as part of the whole plan: used from then on. */
export interface Best {
  readonly params: Settings;
  readonly us: number;
  readonly defaultUs: number;
}

interface Common {
  readonly adapter: string;
  readonly version: string;
  /** In words, for people. */
  readonly label: string;
  /** Graph files that it was made for, relative to the folder that holds the records' folder. */
  readonly files: readonly string[];
  readonly dims: Readonly<Record<string, number>>;
}

export interface KernelRecord extends Common {
  readonly kind: 'kernel';
  readonly structure: string;
  /** The compiler's own parameters, and their time. */
  readonly default: Settings;
  readonly defaultUs: number;
  readonly best?: Best;
  /** By the candidate's settings, as {@link settingsName} writes them. */
  readonly tried: Readonly<Record<string, Tried>>;
}

export interface PlanRecord extends Common {
  readonly kind: 'plan';
  readonly change: PlanChange;
  /** Structures of the kernels before and after. */
  readonly replaces: readonly string[];
  readonly makes: readonly string[];
  readonly tried: Tried;
  readonly best?: Omit<Best, 'params'>;
}

export type TuningRecord = KernelRecord | PlanRecord;

export type Records = ReadonlyMap<string, TuningRecord>;

/** `workgroup=128 tile=2`, in the order of the names. */
export function settingsName(settings: Settings): string {
  return Object.keys(settings)
    .sort()
    .map((name) => `${name}=${settings[name] ?? ''}`)
    .join(' ');
}

export function keyOfRecord(r: TuningRecord): string {
  const what =
    r.kind === 'kernel'
      ? `kernel ${r.structure}`
      : `plan ${r.change.kind} ${r.replaces.join('+')} to ${r.makes.join('+')}`;
  return `${what} | ${r.adapter} | ${r.version}`;
}

// ---------------------------------------------------------------------------------------------
// Text

export function recordsText(records: Records): string {
  const keys = [...records.keys()].sort();
  const lines = keys.map((key) => {
    const record = records.get(key);
    return `    ${JSON.stringify(key)}: ${JSON.stringify(record && ordered(record))}`;
  });
  const body = lines.length === 0 ? '{}' : `{\n${lines.join(',\n')}\n  }`;
  return `{\n  "schema": ${JSON.stringify(SCHEMA)},\n  "records": ${body}\n}\n`;
}

/** The record with all names in a fixed order. */
function ordered(r: TuningRecord): unknown {
  const { adapter, version, label, files, dims } = r;
  const common = { adapter, version, label, files: [...files].sort(), dims: byName(dims) };
  if (r.kind === 'plan') {
    const { kind, change, replaces, makes, best, tried } = r;
    return { kind, change, replaces, makes, ...common, ...(best ? { best } : {}), tried };
  }
  const { kind, structure, defaultUs, best, tried } = r;
  return {
    ...{ kind, structure },
    ...common,
    ...{ default: byName(r.default), defaultUs },
    ...(best ? { best: { ...best, params: byName(best.params) } } : {}),
    tried: byName(tried),
  };
}

function byName<T>(fields: Readonly<Record<string, T>>): Record<string, T> {
  return Object.fromEntries(Object.entries(fields).sort(([a], [b]) => (a < b ? -1 : 1)));
}

export type ReadRecords =
  | { readonly ok: true; readonly records: Records }
  | { readonly ok: false; readonly reason: string };

export function readRecords(text: string): ReadRecords {
  const bad = (reason: string): ReadRecords => ({ ok: false, reason });
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (e) {
    return bad(`it is no JSON (${e instanceof Error ? e.message : String(e)})`);
  }
  const file = fieldsOf(json);
  if (file?.['schema'] !== SCHEMA)
    return bad(`its "schema" is not ${JSON.stringify(SCHEMA)}, which is what this version reads`);
  const entries = fieldsOf(file['records']);
  if (!entries) return bad('it has no "records"');
  const records = new Map<string, TuningRecord>();
  for (const [key, value] of Object.entries(entries)) {
    const wrong = wrongField(value);
    if (wrong !== undefined)
      return bad(`the field "${wrong}" of the record "${key}" is missing or wrong`);
    const record = value as TuningRecord;
    if (keyOfRecord(record) !== key) return bad(`the record "${key}" says something else inside`);
    records.set(key, record);
  }
  return { ok: true, records };
}

type Fields = Readonly<Record<string, unknown>>;

function fieldsOf(v: unknown): Fields | undefined {
  return typeof v === 'object' && v !== null && !Array.isArray(v) ? (v as Fields) : undefined;
}

type Check = (v: unknown) => boolean;
const isText: Check = (v) => typeof v === 'string';
const isTime: Check = (v) => typeof v === 'number' && Number.isFinite(v) && v >= 0;
const isTexts: Check = (v) => Array.isArray(v) && v.every(isText);
const allOf =
  (check: Check): Check =>
  (v) => {
    const f = fieldsOf(v);
    return f !== undefined && Object.values(f).every(check);
  };
const isSettings = allOf((v) => isText(v) || (typeof v === 'number' && Number.isFinite(v)));
const isDims = allOf((v) => Number.isInteger(v));
const isTried: Check = (v) => {
  const f = fieldsOf(v);
  if (!f) return false;
  return 'failed' in f
    ? isText(f['failed'])
    : ['us', 'spreadUs', 'speedup', 'speedupSpread'].every((name) => isTime(f[name]));
};
const isBest =
  (params: Check): Check =>
  (v) => {
    if (v === undefined) return true;
    const f = fieldsOf(v);
    return f !== undefined && params(f['params']) && isTime(f['us']) && isTime(f['defaultUs']);
  };
const isChange: Check = (v) => {
  const f = fieldsOf(v);
  return (
    f !== undefined &&
    (f['kind'] === 'cut' || f['kind'] === 'fuse') &&
    isText(f['from']) &&
    isText(f['to'])
  );
};

const COMMON: readonly (readonly [string, Check])[] = [
  ['adapter', isText],
  ['version', isText],
  ['label', isText],
  ['files', isTexts],
  ['dims', isDims],
];
const KERNEL: typeof COMMON = [
  ...COMMON,
  ['structure', isText],
  ['default', isSettings],
  ['defaultUs', isTime],
  ['best', isBest(isSettings)],
  ['tried', allOf(isTried)],
];
const PLAN: typeof COMMON = [
  ...COMMON,
  ['change', isChange],
  ['replaces', isTexts],
  ['makes', isTexts],
  ['best', isBest((v) => v === undefined)],
  ['tried', isTried],
];

/** The first field of a record that isn't as it should be. */
function wrongField(record: unknown): string | undefined {
  const f = fieldsOf(record);
  const checks = f?.['kind'] === 'kernel' ? KERNEL : f?.['kind'] === 'plan' ? PLAN : undefined;
  if (!f || !checks) return 'kind';
  return checks.find(([name, check]) => !check(f[name]))?.[0];
}

// ---------------------------------------------------------------------------------------------
// Merging

/** What a run found out about a kernel or a change. */
export interface Update {
  readonly record: TuningRecord;
  /** Whether the run came to its end: then its best (or that there is none) replaces what was there. */
  readonly settled: boolean;
}

/** Where a run was: its orphans are dropped, since what it found replaces them. */
export interface RunPlace {
  readonly file: string;
  readonly adapter: string;
  readonly version: string;
  readonly dims: Readonly<Record<string, number>>;
  /** Structures that the plans of the run have, when it came to its end. */
  readonly structures?: ReadonlySet<string>;
}

/** What is in the file, perhaps changed by somebody else meanwhile, with what a run found out. */
export function mergeRecords(there: Records, updates: readonly Update[], at: RunPlace): Records {
  const out = new Map(there);
  for (const { record, settled } of updates) {
    const key = keyOfRecord(record);
    out.set(key, merged(out.get(key), record, settled));
    // What another version measured of the same is of no use any more.
    for (const [k, r] of out)
      if (
        k !== key &&
        r.version !== record.version &&
        keyOfRecord({ ...r, version: at.version }) === key
      )
        out.delete(k);
  }
  const { structures } = at;
  if (structures)
    for (const [key, r] of out) {
      const lost =
        r.adapter === at.adapter &&
        r.files.includes(at.file) &&
        sameDims(r.dims, at.dims) &&
        !(r.kind === 'kernel' ? [r.structure] : r.replaces).every((s) => structures.has(s));
      if (!lost) continue;
      const files = r.files.filter((f) => f !== at.file);
      if (files.length === 0) out.delete(key);
      else out.set(key, { ...r, files });
    }
  return out;
}

function merged(old: TuningRecord | undefined, now: TuningRecord, settled: boolean): TuningRecord {
  const files = [...new Set([...(old?.files ?? []), ...now.files])].sort();
  if (now.kind === 'plan') {
    const best = settled || old?.kind !== 'plan' ? now.best : old.best;
    return withBest({ ...now, files }, best);
  }
  // Measured against another default, the old figures say nothing.
  const comparable =
    old?.kind === 'kernel' && settingsName(old.default) === settingsName(now.default)
      ? old
      : undefined;
  const tried = { ...comparable?.tried, ...now.tried };
  const best = settled ? now.best : (now.best ?? comparable?.best);
  return withBest({ ...now, files, tried }, best);
}

function withBest<R extends TuningRecord>(record: R, best: R['best']): R {
  const { best: _, ...rest } = record;
  return { ...rest, ...(best ? { best } : {}) } as R;
}

function sameDims(
  a: Readonly<Record<string, number>>,
  b: Readonly<Record<string, number>>,
): boolean {
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((n) => a[n] === b[n]);
}

// ---------------------------------------------------------------------------------------------
// Use

/** Where records are, and can't be read: said with every compile that would have used them. */
export function unreadable(path: string, reason: string): Tuning {
  const note = warning(
    'TUNING_FILE',
    `the tuning records ${path} are not used, and are left as they are: ${reason}; correct the file, or delete it and tune again`,
  );
  return { kernels: [], plans: [], notes: [note] };
}

export interface UsePlace {
  /** As in {@link RunPlace}. */
  readonly file: string;
  readonly version: string;
  /** Undefined where nothing runs and no adapter is known: then the only one that was tuned for counts. */
  readonly adapter: string | undefined;
  /** Which one's records to use instead, as far as a person wrote its name. */
  readonly chosen?: string;
}

/** What a compile of the file is to use, and what there is to say about it. */
export function tuningFor(records: Records, at: UsePlace): Tuning {
  const notes: Diagnostic[] = [];
  const kernels: KernelTuning[] = [];
  const plans: PlanTuning[] = [];
  const used = [...records.values()].filter((r) => r.best !== undefined);
  let { adapter } = at;
  const all = [...new Set(used.map((r) => r.adapter))].sort();
  const { chosen } = at;
  if (adapter === undefined) {
    const adapters =
      chosen === undefined
        ? all
        : all.filter((a) => a.toLowerCase().includes(chosen.toLowerCase()));
    if (chosen !== undefined && adapters.length === 0)
      notes.push(
        info('TUNING_IGNORED', `there are no tuning records of an adapter named "${chosen}"`),
      );
    if (adapters.length > 1)
      notes.push(
        info(
          'TUNING_IGNORED',
          `there are tuning records of ${adapters.length} adapters, and none is chosen: name one of ${adapters.map((a) => `"${a}"`).join(', ')}`,
        ),
      );
    else [adapter] = adapters;
  }
  const current = new Set(used.filter((r) => r.version === at.version).map((r) => identity(r)));
  for (const r of used) {
    if (r.adapter !== adapter || !r.best) continue;
    const old = r.version !== at.version;
    if (old && current.has(identity(r))) continue;
    const common = {
      medianUs: r.best.us,
      defaultUs: r.best.defaultUs,
      adapter: adapterLabel(r.adapter),
      dims: r.dims,
      expected: r.files.includes(at.file),
      ...(old
        ? { outdated: `version ${r.version} measured it, and this is ${at.version}: tune again` }
        : {}),
    };
    if (r.kind === 'kernel' && 'params' in r.best)
      kernels.push({
        ...common,
        structure: r.structure,
        settings: r.best.params,
        // Without an adapter the compiler may well choose otherwise than it did there.
        ...(at.adapter === undefined ? {} : { own: r.default }),
      });
    else if (r.kind === 'plan') plans.push({ ...common, change: r.change, makes: r.makes });
  }
  return { kernels, plans, notes };
}

/** What a record is about, on whichever version. */
function identity(r: TuningRecord): string {
  return keyOfRecord({ ...r, version: '' });
}

/** An adapter as one line: what distinguishes it. */
export function adapterName(a: {
  readonly vendor: string;
  readonly architecture: string;
  readonly description: string;
}): string {
  return [a.vendor, a.architecture, a.description]
    .map((s) => s.trim().replace(/\s+/g, ' '))
    .join(' / ');
}

/** The part of it that people know it by. */
export function adapterLabel(name: string): string {
  const [vendor = '', architecture = '', description = ''] = name.split(' / ');
  return description || architecture || vendor || name;
}
