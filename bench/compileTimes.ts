/**
 * How long the compiler takes, from a file's bytes to its result: median of warm runs, and where the
 * time goes.
 */
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { compile } from '../compiler';
import { table } from '../cli/format/table';
import { generate, GRAPH_KINDS } from './graphs';

export interface CompileTime {
  readonly name: string;
  /** What graphs of one kind and of different sizes have in common. */
  readonly family?: string;
  readonly ops: number;
  readonly kernelsBefore: number;
  readonly kernelsAfter: number;
  readonly medianMs: number;
  readonly minMs: number;
  readonly runs: number;
  /** Of the median run: milliseconds by stage; `rest` is what no stage counts. */
  readonly stages: Readonly<Record<string, number>>;
  /** The first error of the graph, if it has any: its time then says little. */
  readonly error?: string;
}

export interface Case {
  readonly name: string;
  readonly family?: string;
  readonly file: string;
  readonly bytes: () => Promise<Uint8Array> | Uint8Array;
}

/** Time for one case, roughly, and runs at least and at most. */
const BUDGET_MS = 3000;
const RUNS = { least: 3, most: 25 };
/** Runs before those that count, until the code is compiled. */
const WARM_UP_MS = 500;
/** A run as long as this is measured once: it warms itself up. */
const LONG_MS = 5000;

/** Graph files of folders, by name. */
export async function casesIn(folder: string): Promise<Case[]> {
  const names = (await readdir(folder)).filter((n) => /\.(fuse|onnx)$/.test(n)).sort();
  return names.map((name) => ({
    name,
    file: path.join(folder, name),
    bytes: () => readFile(path.join(folder, name)),
  }));
}

export function generatedCases(sizes: readonly number[]): Case[] {
  const encoder = new TextEncoder();
  return sizes.flatMap((ops) =>
    GRAPH_KINDS.map((kind) => ({
      name: `${kind} ${ops.toLocaleString('en')}`,
      family: kind,
      file: `${kind}_${ops}.fuse`,
      bytes: () => encoder.encode(generate(kind, ops)),
    })),
  );
}

export async function measureCompile(c: Case): Promise<CompileTime> {
  const bytes = await c.bytes();
  let last: ReturnType<typeof once> | undefined;
  let spent = 0;
  while (spent < WARM_UP_MS) {
    last = once(c.file, bytes);
    spent += last.ms;
  }
  const runs: { ms: number; stages: Readonly<Record<string, number>> }[] = [];
  if (last && last.ms > LONG_MS) runs.push(last);
  else {
    const start = performance.now();
    while (
      runs.length < RUNS.least ||
      (runs.length < RUNS.most && performance.now() - start < BUDGET_MS)
    ) {
      last = once(c.file, bytes);
      runs.push({ ms: last.ms, stages: last.stages });
    }
  }
  runs.sort((a, b) => a.ms - b.ms);
  const median = runs[runs.length >> 1];
  if (!last || !median) throw new Error('nothing was measured');
  return {
    name: c.name,
    ...(c.family === undefined ? {} : { family: c.family }),
    ops: last.ops,
    kernelsBefore: last.before,
    kernelsAfter: last.after,
    medianMs: median.ms,
    minMs: runs[0]?.ms ?? median.ms,
    runs: runs.length,
    stages: median.stages,
    ...(last.error === undefined ? {} : { error: last.error }),
  };
}

interface Run {
  readonly ms: number;
  readonly stages: Readonly<Record<string, number>>;
  readonly ops: number;
  readonly before: number;
  readonly after: number;
  readonly error: string | undefined;
}

function once(file: string, bytes: Uint8Array): Run {
  const start = performance.now();
  const { result } = compile({ file, bytes }, { now: () => performance.now() });
  const ms = performance.now() - start;
  const counted = Object.values(result.stages).reduce((s, x) => s + x, 0);
  return {
    ms,
    stages: { ...result.stages, rest: Math.max(0, ms - counted) },
    ops: result.graph.nodes.length,
    before: result.before.kernels.length,
    after: result.after.kernels.length,
    error: result.diagnostics.find((d) => d.severity === 'error')?.message,
  };
}

export function compileTable(rows: readonly CompileTime[]): string[] {
  const stages = [...new Set(rows.flatMap((r) => Object.keys(r.stages)))];
  const head = ['graph', 'ops', 'kernels', 'median', 'min', 'runs', 'per op', ...stages];
  const lines = rows.map((r) => [
    r.name,
    String(r.ops),
    `${r.kernelsBefore} → ${r.kernelsAfter}`,
    millis(r.medianMs),
    millis(r.minMs),
    String(r.runs),
    `${((1000 * r.medianMs) / Math.max(1, r.ops)).toFixed(0)} µs`,
    ...stages.map((s) => `${((100 * (r.stages[s] ?? 0)) / r.medianMs).toFixed(0)} %`),
  ]);
  return [
    ...table(
      [head, ...lines],
      ['left', ...Array.from({ length: head.length - 1 }, () => 'right' as const)],
    ),
    ...rows.flatMap((r) => (r.error === undefined ? [] : [`${r.name} has errors: ${r.error}`])),
  ];
}

/**
 * How the time grows with the graph: per op, against that of the smallest size from a thousand ops on.
 * Linear growth is a 1 everywhere.
 */
export function growthTable(rows: readonly CompileTime[]): string[] {
  const families = [...new Set(rows.flatMap((r) => r.family ?? []))];
  const lines = families.flatMap((family) => {
    const sizes = rows
      .filter((r) => r.family === family && r.ops >= GROWTH_FROM)
      .sort((a, b) => a.ops - b.ops);
    const [first] = sizes;
    if (!first || sizes.length < 2) return [];
    const perOp = (r: CompileTime): number => r.medianMs / r.ops;
    return sizes.map((r) => [
      r.name,
      `${(1000 * perOp(r)).toFixed(0)} µs`,
      (perOp(r) / perOp(first)).toFixed(2),
    ]);
  });
  return lines.length === 0
    ? []
    : table([['graph', 'per op', 'ratio'], ...lines], ['left', 'right', 'right']);
}

/** Sizes next to a thousand count: blocks don't come out even. */
const GROWTH_FROM = 800;

function millis(ms: number): string {
  return `${ms < 100 ? ms.toFixed(1) : ms.toFixed(0)} ms`;
}
