/**
 * `profile`: both plans on the GPU, timed and checked against the float64 reference.
 */
import type { Compilation } from '../../compiler';
import { deviceForAdapter } from '../../runner/core/deviceProfile';
import { planForRun } from '../../runner/core/planForRun';
import type { ProfileJob, ProfileOptions } from '../../runner/core/types';
import { adapterName } from '../../tuner/records';
import { numberOf, type ParsedArgs } from '../args';
import { profileText } from '../format/profileText';
import { noteMeasured, progressText, withRunner } from '../gpu';
import { compileModel, type Model, placesOf } from '../load';
import { jsonText } from '../terminal';
import { NO_TUNING_FLAG, tuningOf } from '../tuningFile';
import {
  type Command,
  type Context,
  DEVICE_FLAG,
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

export const profile: Command = {
  name: 'profile',
  positional: 'FILE',
  summary: 'times the kernels on the GPU, fused and unfused, and verifies their results',
  details: [
    'Exits with 1 when a result is wrong, and with 3 when there is no GPU adapter.',
    'Inputs, and weights that the file lacks, are made up from the seed.',
  ],
  flags: [
    JSON_FLAG,
    DIM_FLAG,
    DEVICE_FLAG,
    NO_TUNING_FLAG,
    {
      name: 'runner',
      value: 'node',
      choices: ['node'],
      doc: 'where kernels run; on the command line, Node',
    },
    {
      name: 'iterations',
      value: 'N',
      number: { min: 1, max: 1e6, integer: true },
      doc: 'at most N timed repeats of a kernel',
    },
    {
      name: 'seconds',
      value: 'S',
      number: { min: 0.01, max: 3600, integer: false },
      doc: 'time for all measuring; 3 by default',
    },
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
  const { model, dims, device } = opened.value;
  return withRunner(terminal, async (runner) => {
    const adapter = await runner.adapter();
    if (!adapter.ok) return runnerFault(context, adapter.fault);
    noteMeasured(terminal, adapter.value);
    const compilation = compileModel(model, {
      dims,
      device: deviceForAdapter(adapter.value, device),
      tuning: await tuningOf(args, model.file, adapterName(adapter.value)),
    });
    noteDiagnostics(context, compilation);
    const { runnable } = compilation.result;
    if (!runnable.ok)
      return inputFault(context, `the graph can't run on this adapter: ${runnable.reason}`);
    const job = profileJob(compilation, profileOptions(args, model));
    const reply = await runner.profile(job, (p) => terminal.progress(progressText(p)), signal);
    if (!reply.ok) return runnerFault(context, reply.fault);
    const result = reply.value;
    terminal.print(
      args.switches.has('json')
        ? jsonText({ schema: 'fusion-lens/profile@1', file: model.file, ...result })
        : profileText(compilation.result, result, terminal.paint),
    );
    return result.verification.ok && !hasErrors(compilation) ? EXIT.held : EXIT.fault;
  });
}

export function profileOptions(args: ParsedArgs, model: Model): ProfileOptions {
  const iterations = numberOf(args, 'iterations');
  const seconds = numberOf(args, 'seconds');
  const seed = numberOf(args, 'seed');
  return {
    ...placesOf(model),
    randomWeights: args.switches.has('random-weights'),
    ...(iterations === undefined ? {} : { iterations }),
    ...(seconds === undefined ? {} : { seconds }),
    ...(seed === undefined ? {} : { seed }),
  };
}

function profileJob(c: Compilation, options: ProfileOptions): ProfileJob {
  return {
    fused: planForRun(c, 'fused'),
    unfused: planForRun(c, 'unfused'),
    program: c.reference,
    options,
  };
}
