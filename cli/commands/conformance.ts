/**
 * `conformance`: many models against their expected outputs, on the GPU, in few runner processes.
 */
import type { DeviceProfile } from '../../compiler/result';
import { deviceForAdapter } from '../../runner/core/deviceProfile';
import type { Runner } from '../../runner/core/types';
import { numberOf, one } from '../args';
import { type Case, findCases } from '../conformance/cases';
import { type CaseResult, runCase } from '../conformance/runCase';
import type { Paint } from '../format/colour';
import { plain, shorten, table } from '../format/table';
import { adapterText, gpuEnvironment, noteMeasured, ratesText, startRunner } from '../gpu';
import { jsonText } from '../terminal';
import {
  type Command,
  type Context,
  EXIT,
  type ExitCode,
  HELP_FLAG,
  inputFault,
  JSON_FLAG,
  runnerFault,
} from './command';

export const conformance: Command = {
  name: 'conformance',
  positional: 'DIR…',
  summary: 'runs folders of ONNX backend tests on the GPU and compares with their expected outputs',
  details: [
    'A case is a folder with model.onnx and test_data_set_*/input_*.pb, output_*.pb, or a file',
    'X.onnx beside X_output_0.pb, whose input of n elements is then 0/n … (n-1)/n.',
    'Exits with 0 only when every case passed; --allow-unsupported counts unsupported ones as held.',
  ],
  flags: [
    JSON_FLAG,
    {
      name: 'filter',
      value: 'TEXT',
      doc: 'only cases whose name contains TEXT, or matches /TEXT/',
    },
    {
      name: 'jobs',
      value: 'N',
      number: { min: 1, max: 64, integer: true },
      doc: 'runner processes at once; 1 by default',
    },
    { name: 'allow-unsupported', doc: 'unsupported cases do not fail' },
    HELP_FLAG,
  ],
  run,
};

/** Faults after which the child, if there still is one, can't be trusted with the next case. */
const FATAL: ReadonlySet<string> = new Set(['CRASHED', 'HUNG', 'DEVICE_LOST', 'OUT_OF_MEMORY']);

async function run(context: Context): Promise<ExitCode> {
  const { args, terminal } = context;
  const all: Case[] = [];
  for (const folder of args.positionals) {
    const found = await findCases(folder);
    if (!found.ok) return inputFault(context, found.message);
    all.push(...found.value);
  }
  const keep = matcher(one(args, 'filter'));
  const cases = all.filter((c) => keep(c.name));
  if (cases.length === 0)
    return inputFault(context, `none of the ${all.length} cases matches --filter`);
  const env = await gpuEnvironment(terminal);
  const probe = startRunner(env);
  const adapter = await probe.adapter();
  if (!adapter.ok) {
    probe.dispose();
    return runnerFault(context, adapter.fault);
  }
  noteMeasured(terminal, adapter.value);
  const device = deviceForAdapter(adapter.value, undefined);
  terminal.note(
    `${cases.length} cases on ${adapterText(adapter.value)}; planned by the ${ratesText(device)}`,
  );
  const jobs = Math.min(numberOf(args, 'jobs') ?? 1, cases.length);
  const results = await runAll(context, cases, jobs, probe, device, () => startRunner(env));
  terminal.progress('');
  const count = (s: CaseResult['status']): number => results.filter((r) => r.status === s).length;
  const summary = {
    passed: count('passed'),
    failed: count('failed') + count('error'),
    unsupported: count('unsupported'),
  };
  terminal.print(
    args.switches.has('json')
      ? jsonText({
          schema: 'fusion-lens/conformance@1',
          ...summary,
          errors: count('error'),
          adapter: adapter.value,
          cases: results,
        })
      : resultText(results, summary, terminal.paint),
  );
  const held =
    summary.failed === 0 && (summary.unsupported === 0 || args.switches.has('allow-unsupported'));
  return held && results.length === cases.length ? EXIT.held : EXIT.fault;
}

function matcher(filter: string | undefined): (name: string) => boolean {
  if (filter === undefined) return () => true;
  const pattern = /^\/(.+)\/$/.exec(filter)?.[1];
  if (pattern !== undefined) {
    try {
      const expression = new RegExp(pattern);
      return (name) => expression.test(name);
    } catch {
      // No expression after all: taken as text.
    }
  }
  return (name) => name.includes(filter);
}

/** The results in the order of the cases. Each job takes the next case when it is done with one. */
async function runAll(
  context: Context,
  cases: readonly Case[],
  jobs: number,
  first: Runner,
  device: DeviceProfile,
  start: () => Runner,
): Promise<CaseResult[]> {
  const { terminal, signal } = context;
  const results = new Map<number, CaseResult>();
  let next = 0;
  const job = async (runner: Runner): Promise<void> => {
    let current = runner;
    for (let i = next++; i < cases.length && !signal.aborted; i = next++) {
      const c = cases[i];
      if (!c) break;
      terminal.progress(`${results.size}/${cases.length} ${c.name}`);
      const r = await runCase(c, current, device, signal);
      results.set(i, r);
      if (results.size % 100 === 0 && results.size < cases.length)
        terminal.note(`${results.size} of ${cases.length} cases done`);
      if (r.status === 'failed' || r.status === 'error') terminal.note(line(r));
      if (r.code !== undefined && FATAL.has(r.code)) {
        current.dispose();
        current = start();
      }
    }
    current.dispose();
  };
  await Promise.all(Array.from({ length: jobs }, (_, k) => job(k === 0 ? first : start())));
  return [...results.entries()].sort((a, b) => a[0] - b[0]).map(([, r]) => r);
}

function line(r: CaseResult): string {
  return `${r.status} ${plain(r.name)}: ${r.code ?? ''} ${plain(r.message ?? '')}`;
}

function resultText(
  results: readonly CaseResult[],
  summary: { readonly passed: number; readonly failed: number; readonly unsupported: number },
  paint: Paint,
): string {
  const colour = { passed: 'green', failed: 'red', error: 'red', unsupported: 'yellow' } as const;
  const rows = results
    .filter((r) => r.status !== 'passed')
    .map((r) => [
      paint(colour[r.status], r.status),
      plain(r.name),
      r.code ?? '',
      shorten(plain(r.message ?? ''), 120),
    ]);
  const saved = results.reduce((n, r) => n + r.kernelsBefore - r.kernelsAfter, 0);
  return [
    ...table(rows, ['left', 'left', 'left', 'left']),
    `${paint('green', `${summary.passed} passed`)}, ${summary.failed} failed, ` +
      `${summary.unsupported} unsupported; fusion saved ${saved} kernels`,
  ].join('\n');
}
