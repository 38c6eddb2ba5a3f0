/**
 * `tune`: measures other schedule parameters and other plans on the adapter at hand, and keeps what is
 * faster in the workspace.
 */
import path from 'node:path';
import { deviceForAdapter } from '../../runner/core/deviceProfile';
import { CompilerLab } from '../../tuner/lab';
import { adapterName } from '../../tuner/records';
import { DEFAULT_SECONDS, tune as search } from '../../tuner/search';
import type { Lab, TuneResult } from '../../tuner/types';
import { numberOf } from '../args';
import { tuneText } from '../format/tuneText';
import { noteMeasured, withRunner } from '../gpu';
import { sourceOf } from '../load';
import { jsonText } from '../terminal';
import { readTuning, tuningPlace, writeTuning } from '../tuningFile';
import { programVersion } from '../version';
import {
  type Command,
  type Context,
  DIM_FLAG,
  EXIT,
  type ExitCode,
  hasErrors,
  HELP_FLAG,
  inputFault,
  JSON_FLAG,
  noteDiagnostics,
  RANDOM_WEIGHTS_FLAG,
  runnerFault,
  SEED_FLAG,
} from './command';
import { openToRun } from './opened';
import { profileOptions } from './profile';

export const tune: Command = {
  name: 'tune',
  positional: 'FILE',
  summary: 'searches the fastest schedule parameters and plan on the GPU, and keeps what it finds',
  details: [
    'What beats the compiler’s own choice, alone and as part of the whole plan, is kept in',
    '.fusion-lens/tuning.json (in the nearest folder above FILE that has it or is a Git root, else',
    'beside FILE) and used by explain, kernels, profile and the editor from then on. Ctrl-C keeps what',
    'was measured; the next run goes on from there.',
  ],
  flags: [
    JSON_FLAG,
    DIM_FLAG,
    {
      name: 'seconds',
      value: 'S',
      number: { min: 0.1, max: 86400, integer: false },
      doc: `time for the search; ${DEFAULT_SECONDS} by default`,
    },
    { name: 'again', doc: 'measure again what was measured before' },
    { name: 'dry-run', doc: 'keep nothing' },
    SEED_FLAG,
    RANDOM_WEIGHTS_FLAG,
    HELP_FLAG,
  ],
  run,
};

async function run(context: Context): Promise<ExitCode> {
  const { args, terminal, signal } = context;
  const opened = await openToRun(context);
  if (!opened.ok) return opened.exit;
  const { model, dims } = opened.value;
  const place = tuningPlace(model.file);
  // What could not be kept in the end isn't measured.
  const known = await readTuning(place);
  if (!known.ok)
    return inputFault(
      context,
      `the tuning records ${place.path} are left as they are: ${known.message}; correct the file, or delete it`,
    );
  return withRunner(terminal, async (runner) => {
    const adapter = await runner.adapter();
    if (!adapter.ok) return runnerFault(context, adapter.fault);
    noteMeasured(terminal, adapter.value);
    const lab = new CompilerLab(sourceOf(model), {
      dims,
      device: deviceForAdapter(adapter.value, undefined),
    });
    noteDiagnostics(context, lab.compilation);
    const { runnable } = lab.compilation.result;
    if (!runnable.ok)
      return inputFault(context, `the graph can't run on this adapter: ${runnable.reason}`);
    const { seconds: _, iterations: __, ...options } = profileOptions(args, model);
    const reply = await search(
      inTurn(lab),
      runner,
      adapter.value,
      args.switches.has('again') ? new Map() : known.value,
      {
        file: place.file,
        seconds: numberOf(args, 'seconds') ?? DEFAULT_SECONDS,
        version: programVersion(),
        profile: options,
        now: () => performance.now() / 1000,
        onProgress: ({ text, share }) => terminal.progress(`${Math.round(100 * share)} % ${text}`),
        signal,
      },
    );
    if (!reply.ok) return runnerFault(context, reply.fault);
    const { result } = reply.value;
    let written: string | undefined;
    if (!args.switches.has('dry-run') && reply.value.updates.length > 0) {
      const w = await writeTuning(place, reply.value);
      if (!w.ok) return inputFault(context, w.message);
      written = w.value;
    }
    terminal.print(
      args.switches.has('json')
        ? jsonText(tuneJson(model.file, result, written))
        : tuneText(model.file, result, terminal.paint),
    );
    if (written !== undefined) terminal.note(`wrote ${path.normalize(written)}`);
    return result.cancelled || hasErrors(lab.compilation) ? EXIT.fault : EXIT.held;
  });
}

/** The lab as the search wants it: it might be in another thread, and here isn't. */
function inTurn(lab: CompilerLab): Lab {
  const later = async <T>(make: () => T): Promise<T> => {
    await Promise.resolve();
    return make();
  };
  return {
    start: () => later(() => lab.start()),
    tie: (change) => later(() => lab.tie(change)),
    choose: (changes) => later(() => lab.choose(changes)),
    trial: (kernel, settings) => later(() => lab.trial(kernel, settings)),
    verifying: () => later(() => lab.verifying()),
    confirming: (choice) => later(() => lab.confirming(choice)),
  };
}

/** `fusion-lens/tune@1`. */
function tuneJson(file: string, r: TuneResult, written: string | undefined): unknown {
  return {
    schema: 'fusion-lens/tune@1',
    ...r,
    file,
    adapter: { ...r.adapter, name: adapterName(r.adapter) },
    ...(written === undefined ? {} : { written }),
  };
}
