/**
 * `npm run bench -- --peers`: our plans beside what one could run instead, on each adapter at hand.
 *
 *   npm run bench -- --peers [--only TEXT] [--skip TEXT] [--contestants a,b] [--adapters a,b]
 *                    [--seconds S] [--models DIR] [--json FILE] [--write] [--from FILE,…]
 *
 *  - contestants: fused, unfused, onnxruntime, tfjs, jax, floor; adapters: gpu, swiftshader, lavapipe.
 *  - --seconds: time for measuring one workload, for each contestant.
 *  - --models: a folder with ONNX models, which are run too.
 *  - --write: makes docs/performance.md of this run; with --from, of the runs in these JSON files
 *    instead, and nothing is measured. Runs on one adapter are put together; later rows win.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { root } from '../../scripts/root.mjs';
import { positive } from '../flags';
import { adapterChoices } from './adapters';
import { benchAdapter } from './bench';
import { CONTESTANTS } from './protocol';
import { headLines, performancePage, rowLines, summaryLines } from './report';
import { joined, type Run } from './summary';
import { modelWorkload, WORKLOADS, type Workload } from './workloads';

interface PeerOptions {
  readonly only: string;
  readonly skip: string | undefined;
  readonly contestants: string | undefined;
  readonly adapters: string | undefined;
  readonly seconds: number;
  readonly models: string | undefined;
  readonly json: string | undefined;
  readonly write: boolean;
  readonly from: string | undefined;
  readonly note: (text: string) => void;
}

/** The exit code: 1 where a plan of ours failed. */
export function peersCommand(
  argv: readonly string[],
  note: (text: string) => void,
): Promise<number> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      peers: { type: 'boolean' },
      only: { type: 'string', default: '' },
      skip: { type: 'string' },
      contestants: { type: 'string' },
      adapters: { type: 'string' },
      seconds: { type: 'string', default: '2' },
      models: { type: 'string' },
      json: { type: 'string' },
      write: { type: 'boolean', default: false },
      from: { type: 'string' },
    },
  });
  return benchPeers({
    only: values.only,
    skip: values.skip,
    contestants: values.contestants,
    adapters: values.adapters,
    seconds: positive(values.seconds, '--seconds'),
    models: values.models,
    json: values.json,
    write: values.write,
    from: values.from,
    note,
  });
}

async function benchPeers(options: PeerOptions): Promise<number> {
  const runs = options.from === undefined ? await measured(options) : readRuns(options.from);
  if (options.write) {
    const file = path.join(root, 'docs/performance.md');
    writeFileSync(file, performancePage(runs, licences()));
    options.note(`wrote ${path.relative(root, file)}`);
  }
  const ours = runs
    .flatMap((r) => r.rows.flatMap((row) => row.entries))
    .filter((e) => ['fused', 'unfused'].includes(e.contestant));
  return runs.length === 0 || ours.some((e) => e.failure !== undefined) ? 1 : 0;
}

async function measured(options: PeerOptions): Promise<Run[]> {
  const contestants = chosen(CONTESTANTS, options.contestants, '--contestants');
  const { only, skip } = options;
  const workloads = [...WORKLOADS, ...models(options.models)].filter(
    ({ name }) => name.includes(only) && (skip === undefined || !name.includes(skip)),
  );
  const all = await adapterChoices();
  const names = chosen(['gpu', 'swiftshader', 'lavapipe'] as const, options.adapters, '--adapters');
  const choices = all.filter((c) => names.includes(c.name));
  if (choices.length === 0) options.note('There is no such adapter on this machine.');
  const runs: Run[] = [];
  for (const choice of choices) {
    const save = (run: Run): void => {
      if (options.json === undefined) return;
      writeFileSync(options.json, `${JSON.stringify({ runs: [...runs, run] }, null, 1)}\n`);
    };
    let begun = false;
    const run = await benchAdapter(choice, {
      workloads,
      contestants,
      seconds: options.seconds,
      command: commandOf(options),
      note: options.note,
      onRow: (state, row) => {
        // What a machine measures in an hour isn't lost when something goes wrong.
        save(state);
        if (!begun) console.log(`\n${headLines(state).slice(0, 2).join('\n')}`);
        begun = true;
        console.log(rowLines(row).join('\n'));
      },
    });
    runs.push(run);
    console.log(`\n${[...headLines(run), ...summaryLines(run)].join('\n')}`);
  }
  return runs;
}

function chosen<T extends string>(all: readonly T[], text: string | undefined, flag: string): T[] {
  if (text === undefined) return [...all];
  return text.split(',').map((name) => {
    const known = all.find((x) => x === name);
    if (known === undefined) throw new Error(`${flag} takes ${all.join(', ')}, not ${name}`);
    return known;
  });
}

function models(folder: string | undefined): Workload[] {
  if (folder === undefined) return [];
  return readdirSync(folder)
    .filter((name) => name.endsWith('.onnx'))
    .sort()
    .map((name) => modelWorkload(path.basename(name, '.onnx'), path.join(folder, name)));
}

function commandOf(o: PeerOptions): string {
  const flags = [
    o.models === undefined ? '' : '--models DIR',
    o.only === '' ? '' : `--only '${o.only}'`,
    o.skip === undefined ? '' : `--skip '${o.skip}'`,
    o.contestants === undefined ? '' : `--contestants ${o.contestants}`,
    `--seconds ${o.seconds}`,
    '--write',
  ];
  return `npm run bench -- --peers ${flags.filter((f) => f !== '').join(' ')}`;
}

function readRuns(files: string): Run[] {
  const all = files.split(',').flatMap((file) => {
    // A file that this program wrote.
    const { runs } = JSON.parse(readFileSync(file, 'utf8')) as { readonly runs: readonly Run[] };
    return runs;
  });
  return joined(all);
}

/** The packages compared with, their versions and licences, from the lock file. */
function licences(): string[] {
  const folder = path.join(root, 'bench/peers');
  const read = (file: string): unknown => JSON.parse(readFileSync(path.join(folder, file), 'utf8'));
  const { devDependencies } = read('package.json') as {
    readonly devDependencies: Readonly<Record<string, string>>;
  };
  const { packages } = read('package-lock.json') as {
    readonly packages: Readonly<
      Record<string, { readonly version?: string; readonly license?: string }>
    >;
  };
  return Object.keys(devDependencies)
    .sort()
    .map((name) => {
      const p = packages[`node_modules/${name}`];
      return `${name} ${p?.version ?? '?'} (${p?.license ?? 'licence unknown'})`;
    });
}
