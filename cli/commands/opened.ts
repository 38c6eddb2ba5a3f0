/**
 * What the commands about one FILE begin with: sizes and device from the arguments, the file, and a
 * compilation of it, with every fault told and turned into an exit code.
 */
import type { Compilation } from '../../compiler';
import type { DeviceProfile } from '../../compiler/result';
import { dimsOf } from '../args';
import { deviceOf } from '../device';
import { compileModel, loadModel, type Model, unknownDim } from '../load';
import { tuningOf } from '../tuningFile';
import { type Context, type ExitCode, inputFault, noteDiagnostics, usageFault } from './command';

export interface Opened {
  readonly model: Model;
  readonly dims: Readonly<Record<string, number>>;
  /** As `--device` says. */
  readonly device: DeviceProfile | undefined;
  readonly compilation: Compilation;
}

type OpenedOrExit =
  { readonly ok: true; readonly value: Opened } | { readonly ok: false; readonly exit: ExitCode };

/** For estimates: compiled for the device that was asked for, with what was tuned for it. */
export async function openForEstimates(context: Context): Promise<OpenedOrExit> {
  return open(context, true);
}

/**
 * To be run: compiled without knowing the adapter, so that faults of the graph are told without
 * waiting for a GPU, and a graph that can't run ends here.
 */
export async function openToRun(context: Context): Promise<OpenedOrExit> {
  const opened = await open(context, false);
  if (!opened.ok) return opened;
  const { compilation } = opened.value;
  const { runnable } = compilation.result;
  // What depends on the adapter is told once that is known.
  if (runnable.ok) return opened;
  noteDiagnostics(context, compilation);
  return { ok: false, exit: inputFault(context, `the graph can't run: ${runnable.reason}`) };
}

async function open(context: Context, forDevice: boolean): Promise<OpenedOrExit> {
  const { args } = context;
  const wrong = (message: string): OpenedOrExit => ({
    ok: false,
    exit: usageFault(context, message),
  });
  const dims = dimsOf(args);
  if (!dims.ok) return wrong(dims.message);
  const device = await deviceOf(args);
  if (!device.ok) return wrong(device.message);
  const model = await loadModel(args.positionals[0] ?? '');
  if (!model.ok) return { ok: false, exit: inputFault(context, model.message) };
  const compilation = compileModel(model.value, {
    dims: dims.dims,
    ...(forDevice && device.value ? { device: device.value } : {}),
    ...(forDevice ? { tuning: await tuningOf(args, model.value.file, undefined) } : {}),
  });
  const problem = unknownDim(dims.dims, compilation);
  if (problem !== undefined) return wrong(problem);
  return {
    ok: true,
    value: { model: model.value, dims: dims.dims, device: device.value, compilation },
  };
}
