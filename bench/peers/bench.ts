/**
 * One adapter's run: for each workload every contestant prepares and is checked, then all are timed in
 * turns until the time is spent. Who fails is in the table with the reason.
 */
import { rmSync } from 'node:fs';
import { loadavg } from 'node:os';
import { machineText } from '../onGpu';
import type { AdapterChoice } from './adapters';
import { ContestantProcess } from './process';
import type { ContestantName, PreparedReport, Rates } from './protocol';
import { reference, scratchFolder, type Reference } from './reference';
import { median, type Entry, type Row, type Run } from './summary';
import type { Workload } from './workloads';

export interface Options {
  readonly workloads: readonly Workload[];
  readonly contestants: readonly ContestantName[];
  /** For timing one workload, for each contestant. */
  readonly seconds: number;
  readonly command: string;
  readonly note: (text: string) => void;
  /** Told after each workload. */
  readonly onRow: (run: Run, row: Row) => void;
}

/** What a timing should take, so that the wait for the GPU doesn't count. */
const TIMING_MS = 100;
const MAX_REPEATS = 500;
const ROUNDS = { least: 5, most: 60, leastOfSlow: 3 };
/** Slow: what takes this many times the seconds asked for. */
const SLOW = 5;
const PREPARE_LIMIT_MS = 400_000;
const TIME_LIMIT_MS = 180_000;

interface Running {
  readonly process: ContestantProcess;
  readonly report: PreparedReport;
  repeats: number;
  readonly samples: number[];
  readonly submits: number[];
  failure: string | undefined;
}

export async function benchAdapter(choice: AdapterChoice, options: Options): Promise<Run> {
  const processes = options.contestants.map((name) => new ContestantProcess(name, choice.env));
  const folder = scratchFolder();
  const rows: Row[] = [];
  const load = loadavg()[0] ?? 0;
  const state = (): Run => {
    const opened = processes.find((p) => p.opened)?.opened;
    return {
      adapter: opened?.adapter ?? choice.name,
      software: opened?.software ?? choice.name !== 'gpu',
      machine: machineText(),
      load: [load, loadavg()[0] ?? 0],
      date: new Date().toISOString().slice(0, 10),
      command: options.command,
      versions: Object.fromEntries(
        processes.flatMap((p) => (p.opened ? [[p.name, p.opened.version]] : [])),
      ),
      rows,
    };
  };
  try {
    for (const w of options.workloads) {
      options.note(`${choice.name}: ${w.name}`);
      const row = await benchWorkload(w, await reference(w, folder), processes, options);
      rows.push(row);
      options.onRow(state(), row);
    }
    return state();
  } finally {
    for (const p of processes) p.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function ratesOf(floor: ContestantProcess): Promise<Rates | undefined> {
  const r = await floor.ask<'rates'>({ kind: 'rates' }, TIME_LIMIT_MS);
  return r.ok ? r.value : undefined;
}

async function benchWorkload(
  workload: Workload,
  { signature, expected }: Reference,
  processes: readonly ContestantProcess[],
  options: Options,
): Promise<Row> {
  const failed = new Map<ContestantName, string>();
  const running: Running[] = [];
  for (const process of processes) {
    options.note(`  ${process.name}`);
    const r = await process.ask<'prepare'>(
      { kind: 'prepare', workload, expected },
      PREPARE_LIMIT_MS,
    );
    if (!r.ok) {
      failed.set(process.name, r.message);
      await process.ask<'release'>({ kind: 'release' }, TIME_LIMIT_MS);
      continue;
    }
    const report = r.value;
    if (!(report.maxRelErr <= report.tolerance)) {
      failed.set(
        process.name,
        `wrong: off by ${report.maxRelErr.toExponential(1)}, allowed ${report.tolerance.toExponential(1)}`,
      );
      await process.ask<'release'>({ kind: 'release' }, TIME_LIMIT_MS);
      continue;
    }
    running.push({ process, report, repeats: 1, samples: [], submits: [], failure: undefined });
  }
  for (const r of running) await calibrate(r);
  const floor = processes.find((p) => p.name === 'floor');
  const rates = await rounds(running, floor, options.seconds);
  for (const r of running) await r.process.ask<'release'>({ kind: 'release' }, TIME_LIMIT_MS);
  const entries = processes.map((p): Entry => {
    const r = running.find((x) => x.process === p);
    const failure = r ? r.failure : failed.get(p.name);
    return {
      contestant: p.name,
      samples: failure === undefined ? (r?.samples ?? []) : [],
      submitMs: median(r?.submits ?? []),
      repeats: r?.repeats ?? 0,
      setupMs: r?.report.setupMs ?? 0,
      dispatches: r?.report.dispatches ?? 0,
      boundBytes: r?.report.boundBytes ?? 0,
      maxRelErr: r?.report.maxRelErr ?? 0,
      tolerance: r?.report.tolerance ?? 0,
      ...(r?.report.note === undefined ? {} : { note: r.report.note }),
      ...(failure === undefined ? {} : { failure }),
    };
  });
  return {
    workload: workload.name,
    leastBytes: signature.leastBytes,
    flops: signature.flops,
    rates,
    entries,
  };
}

/** How many runs fill a timing; the tries warm up, too. */
async function calibrate(r: Running): Promise<void> {
  for (let tries = 0; tries < 4; tries++) {
    const ms = await once(r);
    if (ms === undefined || r.repeats * ms >= TIMING_MS || r.repeats === MAX_REPEATS) return;
    const wanted = Math.ceil(TIMING_MS / Math.max(ms, 1e-3));
    r.repeats = Math.min(MAX_REPEATS, 8 * r.repeats, wanted);
  }
}

/** Milliseconds of one run; undefined when it failed. */
async function once(r: Running, keep = false): Promise<number | undefined> {
  const t = await r.process.ask<'time'>({ kind: 'time', repeats: r.repeats }, TIME_LIMIT_MS);
  if (!t.ok) {
    r.failure = t.message;
    return undefined;
  }
  const ms = t.value.ms / r.repeats;
  if (keep) {
    r.samples.push(ms);
    r.submits.push(t.value.submitMs / r.repeats);
  }
  return ms;
}

/** Times everybody in turns; gives the adapter's rates of each round. */
async function rounds(
  running: readonly Running[],
  floor: ContestantProcess | undefined,
  seconds: number,
): Promise<Rates[]> {
  const rates: Rates[] = [];
  const start = performance.now();
  const spent = (): number => (performance.now() - start) / 1000;
  for (let i = 0; i < ROUNDS.most; i++) {
    const alive = running.filter((r) => r.failure === undefined);
    const budget = seconds * alive.length;
    const least = spent() > SLOW * budget ? ROUNDS.leastOfSlow : ROUNDS.least;
    if (i >= least && spent() >= budget) break;
    // Another begins each time: what follows a heavy one finds a warmer machine.
    for (let k = 0; k < alive.length; k++) {
      const r = alive[(i + k) % alive.length];
      if (r) await once(r, true);
    }
    const now = floor && (await ratesOf(floor));
    if (now) rates.push(now);
  }
  return rates;
}
