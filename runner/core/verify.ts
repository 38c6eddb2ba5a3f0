/**
 * Verification: every stored result of both plans against the float64 reference.
 *
 * The reference gives its values one at a time; each is compared as it comes and let go, so that a
 * large network needs memory for what is live only. A result with poison left in it fails whatever the
 * numbers say. What a loop's body stores is compared run by run, as far as it was kept; a body must
 * have run as often as in the reference.
 */
import type { ValueId } from '../../compiler/ir/expr';
import { interpretSteps } from '../../compiler/reference';
import type { BufferSpec } from '../../compiler/result';
import { ContentSource } from './contents';
import type { Host, Watch } from './device';
import { throwIfCancelled } from './faults';
import { findPoison } from './memory';
import { numbersOf, type StorageArray } from './storage';
import { compare, expectations, rootMeanSquare, uncancelled, type Errors } from './tolerance';
import type { CancelSignal, OutputCheck, ProfileJob, Verification } from './types';

/** What a kernel stored, read back. */
export interface StoredResult {
  /** Absent where a branch or a loop handed it over. */
  readonly kernel?: string;
  readonly spec: BufferSpec;
  readonly data: StorageArray;
  /** Which of its runs it is of, in a plan with branches and loops; absent: the only one. */
  readonly run?: number;
}

/** Of what runs again and again, results of the first few runs are kept, and that of the last. */
const FIRST_RUNS = 3;

export class KeptResults {
  private readonly runs = new Map<string, { count: number; last: number }>();

  constructor(private readonly results: StoredResult[]) {}

  add(r: StoredResult): void {
    const key = `${r.kernel ?? ''} ${r.spec.id}`;
    const before = this.runs.get(key);
    const count = before?.count ?? 0;
    const stored = count === 0 ? r : { ...r, run: count };
    const at = before && count > FIRST_RUNS ? before.last : this.results.length;
    this.results[at] = stored;
    this.runs.set(key, { count: count + 1, last: at });
  }
}

export interface StoredResults {
  readonly fused: readonly StoredResult[];
  readonly unfused: readonly StoredResult[];
}

/** Between two pauses for other events, ms. */
const SLICE_MS = 100;

interface Compared {
  errors: Errors;
  poisonAt: number | undefined;
}

export async function verify(
  job: ProfileJob,
  stored: StoredResults,
  host: Host,
  watch: Watch,
  signal: CancelSignal,
): Promise<Verification> {
  const { program } = job;
  const valueOf = (spec: BufferSpec): ValueId | undefined => {
    const id = spec.value ?? spec.id;
    return spec.role !== 'scratch' && program.values.has(id) ? id : undefined;
  };
  const results = [
    ...stored.unfused.map((r) => ({ ...r, which: 'unfused' as const })),
    ...stored.fused.map((r) => ({ ...r, which: 'fused' as const })),
  ];
  const byValue = new Map<ValueId, typeof results>();
  const lastRun = { fused: new Map<ValueId, number>(), unfused: new Map<ValueId, number>() };
  for (const r of results) {
    const value = valueOf(r.spec);
    if (value === undefined) continue;
    byValue.set(value, [...(byValue.get(value) ?? []), r]);
    lastRun[r.which].set(value, Math.max(lastRun[r.which].get(value) ?? 0, r.run ?? 0));
  }
  const compared = { fused: new Map<ValueId, Compared>(), unfused: new Map<ValueId, Compared>() };
  const worst = new Map<string, { got: number; expected: number }>();

  const kinds = expectations(program);
  const inputs = await new ContentSource(program, job.options, host).forReference();
  const steps = interpretSteps(program, inputs, { keep: new Set() });
  const scales = new Map<ValueId, number>();
  const scaleOf = (v: ValueId): number | undefined => {
    const given = inputs.get(v);
    if (!scales.has(v) && given) scales.set(v, rootMeanSquare(given));
    return scales.get(v);
  };
  const computes = new Map(program.computes.map((c) => [c.value, c]));
  const runs = new Map<ValueId, number>();
  let since = host.now();
  for (let step = steps.next(); !step.done; step = steps.next()) {
    throwIfCancelled(signal);
    const { value, data, done, total } = step.value;
    const compute = computes.get(value);
    const scale = compute && data ? uncancelled(program, compute, scaleOf) : 0;
    if (data) scales.set(value, Math.max(scale, rootMeanSquare(data)));
    const run = runs.get(value) ?? 0;
    if (data) runs.set(value, run + 1);
    for (const r of data ? (byValue.get(value) ?? []) : []) {
      if ((r.run ?? 0) !== run) continue;
      const numbers = numbersOf(r.data);
      const kind = kinds.get(value)?.kind ?? 'float';
      const errors = compare(numbers, data ?? [], r.spec.dtype, kind, scale);
      const poisonAt = findPoison(r.data, r.spec.storage);
      const before = compared[r.which].get(value);
      if (before) {
        // The worst of its runs stands for all.
        before.poisonAt ??= poisonAt;
        if (errors.maxRel <= before.errors.maxRel) continue;
        before.errors = errors;
      } else compared[r.which].set(value, { errors, poisonAt });
      worst.set(`${r.which} ${value}`, {
        got: numbers[errors.at] ?? NaN,
        expected: data?.[errors.at] ?? NaN,
      });
    }
    if (host.now() - since > SLICE_MS) {
      watch.progress({ stage: 'reference', done, total });
      watch.working(undefined, 0);
      await host.pause();
      since = host.now();
    }
  }

  const expected = program.regions ? expectations(program, (v) => runs.get(v) ?? 1) : kinds;
  const check = (
    spec: BufferSpec,
    name: string,
    which: 'fused' | 'unfused',
    shape: readonly number[] = spec.shape,
  ): OutputCheck => {
    const value = valueOf(spec) ?? '';
    const mine = compared[which].get(value);
    const other = compared.unfused.get(value);
    const { floor, cap } = expected.get(value) ?? { floor: 0, cap: 0 };
    const tolerance =
      which === 'fused' ? Math.max(floor, Math.min(cap, 2 * (other?.errors.maxRel ?? 0))) : cap;
    const maxRelErr = mine?.errors.maxRel ?? 0;
    const asOften = (runs.get(value) ?? 0) === (lastRun[which].get(value) ?? 0) + 1;
    const ok =
      mine !== undefined && asOften && mine.poisonAt === undefined && maxRelErr <= tolerance;
    const at = mine?.poisonAt ?? mine?.errors.at ?? 0;
    const numbers = worst.get(`${which} ${value}`);
    return {
      name,
      maxAbsErr: mine?.errors.maxAbs ?? 0,
      maxRelErr,
      unfusedMaxRelErr: other?.errors.maxRel ?? 0,
      tolerance,
      ok,
      ...(ok || mine === undefined
        ? {}
        : {
            worst: {
              index: unravel(at, shape),
              got: numbers?.got ?? NaN,
              expected: numbers?.expected ?? NaN,
            },
          }),
    };
  };

  const ofKernels = (list: readonly StoredResult[]): (StoredResult & { kernel: string })[] =>
    list.flatMap((r) =>
      // All runs of a kernel are one line.
      valueOf(r.spec) === undefined || r.kernel === undefined || (r.run ?? 0) > 0
        ? []
        : [{ ...r, kernel: r.kernel }],
    );
  const kernels = ofKernels(stored.fused).map((r) => ({
    ...check(r.spec, r.spec.name, 'fused'),
    kernel: r.kernel,
  }));
  // An unfused kernel that is wrong would lend the fused one its error: it is listed, too.
  const wrongUnfused = ofKernels(stored.unfused)
    .map((r) => ({ ...check(r.spec, r.spec.name, 'unfused'), kernel: r.kernel }))
    .filter((c) => !c.ok);
  const outputs = job.fused.exec.outputs.flatMap((o) => {
    const spec = job.fused.exec.buffers.find((b) => b.id === o.buffer);
    if (!spec) return [];
    const value = valueOf(spec);
    const role = value === undefined ? undefined : program.values.get(value)?.role;
    // An output that is an input itself is right by definition, and so is an empty one, which no
    // kernel stores.
    if (role !== undefined && role !== 'computed' && role !== 'region') return [trivial(o.name)];
    if (spec.elements === 0) return [trivial(o.name)];
    return [check(spec, o.name, 'fused', o.shape)];
  });
  const all = [...outputs, ...kernels, ...wrongUnfused];
  return {
    ok: outputs.length === job.fused.exec.outputs.length && all.every((c) => c.ok),
    outputs,
    kernels: [...kernels, ...wrongUnfused],
  };
}

function trivial(name: string): OutputCheck {
  return { name, maxAbsErr: 0, maxRelErr: 0, unfusedMaxRelErr: 0, tolerance: 0, ok: true };
}

function unravel(linear: number, shape: readonly number[]): number[] {
  const out = new Array<number>(shape.length).fill(0);
  let rest = linear;
  for (let i = shape.length - 1; i >= 0; i--) {
    const d = Math.max(1, shape[i] ?? 1);
    out[i] = rest % d;
    rest = Math.floor(rest / d);
  }
  return out;
}
