/**
 * `run`: the fused plan once, on tensors from files; shows, writes or compares what comes out.
 */
import path from 'node:path';
import type { Compilation } from '../../compiler';
import { deviceForAdapter } from '../../runner/core/deviceProfile';
import { one } from '../args';
import { execute, type Executed } from '../execute';
import { fileName, writeFiles } from '../files';
import { countText, valueText } from '../format/units';
import { plain, table } from '../format/table';
import { adapterText, noteMeasured, ratesText, withRunner } from '../gpu';
import { compileModel, loadModel } from '../load';
import { type Comparison, compareTensors } from '../tensors/compare';
import { readTensors } from '../tensors/folder';
import { writeNpy } from '../tensors/npy';
import { type HostTensor, toNumbers } from '../tensors/tensor';
import { jsonText } from '../terminal';
import {
  type Command,
  type Context,
  EXIT,
  type ExitCode,
  FORCE_FLAG,
  HELP_FLAG,
  inputFault,
  JSON_FLAG,
  noteDiagnostics,
  OUT_FLAG,
  RANDOM_WEIGHTS_FLAG,
  runnerFault,
  SEED_FLAG,
  usageFault,
} from './command';
import { profileOptions } from './profile';

export const run: Command = {
  name: 'run',
  positional: 'FILE',
  summary: 'runs the fused kernels once on given tensors and compares the results',
  details: [
    'Tensors are <name>.npy, <name>.pb, or by position input_0.pb, input_0.npy… and output_0.pb…',
    'Symbolic sizes take their values from the tensors. A file named after a weight replaces it.',
    'Results are equal within rtol 1e-3, atol 1e-7 (half precision: rtol 1e-2, atol 1e-3).',
  ],
  flags: [
    { name: 'inputs', value: 'DIR', doc: 'the folder of input tensors' },
    { name: 'expected', value: 'DIR', doc: 'the folder of expected outputs' },
    JSON_FLAG,
    RANDOM_WEIGHTS_FLAG,
    SEED_FLAG,
    { ...OUT_FLAG, doc: 'write each output there as .npy' },
    FORCE_FLAG,
    HELP_FLAG,
  ],
  run: runCommand,
};

async function runCommand(context: Context): Promise<ExitCode> {
  const { args, terminal } = context;
  const folder = one(args, 'inputs');
  if (folder === undefined) return usageFault(context, 'run needs --inputs DIR');
  const model = await loadModel(args.positionals[0] ?? '');
  if (!model.ok) return inputFault(context, model.message);
  const compilation = compileModel(model.value, {});
  const given = await givenTensors(compilation, folder);
  if (!given.ok) return inputFault(context, given.message);
  const wanted = compilation.graph.outputs.map((o, i) => ({
    name: o.name,
    positional: `output_${i}`,
    required: true,
  }));
  const expectedFolder = one(args, 'expected');
  const expected =
    expectedFolder === undefined ? undefined : await readTensors(expectedFolder, wanted);
  if (expected && !expected.ok) return inputFault(context, expected.message);
  return withRunner(terminal, async (runner) => {
    const adapter = await runner.adapter();
    if (!adapter.ok) return runnerFault(context, adapter.fault);
    noteMeasured(terminal, adapter.value);
    const device = deviceForAdapter(adapter.value, undefined);
    const r = await execute(
      model.value,
      compileModel(model.value, { device }),
      given.value,
      runner,
      profileOptions(args, model.value),
      context.signal,
      device,
    );
    if (!r.ok) {
      noteDiagnostics(context, r.compilation);
      return r.fault
        ? runnerFault(context, r.fault)
        : inputFault(context, `${r.code}: ${r.message}`);
    }
    const { outputs } = r.value;
    const checks = expected?.value.map((e, i) => {
      const got = outputs[i];
      return got && e ? compareTensors(got, e) : undefined;
    });
    const out = one(args, 'output');
    if (out !== undefined) {
      const files = outputs.map((t) => ({
        name: `${fileName(t.name)}.npy`,
        contents: writeNpy(t),
      }));
      const written = await writeFiles(out, files, args.switches.has('force'));
      if (!written.ok) return inputFault(context, written.message);
      for (const file of written.value) terminal.note(`wrote ${path.normalize(file)}`);
    }
    const ok = checks?.every((c) => c?.ok === true) ?? true;
    const shown = outputs.map((t, i) => ({ ...statistics(t), check: checks?.[i] }));
    noteAssumptions(context, r.value);
    if (args.switches.has('json'))
      terminal.print(
        jsonText({
          schema: 'fusion-lens/run@1',
          file: model.value.file,
          adapter: adapter.value,
          kernels: r.value.prepared.compilation.result.after.kernels.length,
          specialised: r.value.prepared.specialised,
          outputs: shown,
          ...(checks ? { ok } : {}),
        }),
      );
    else {
      terminal.note(`ran on ${adapterText(adapter.value)}; planned by the ${ratesText(device)}`);
      terminal.print(outputText(shown, terminal.paint));
    }
    return ok ? EXIT.held : EXIT.fault;
  });
}

/** What the results rest on besides the files. */
function noteAssumptions(context: Context, r: Executed): void {
  const bound = new Set(r.prepared.inputs.map((i) => i.buffer));
  const madeUp = r.prepared.exec.buffers.filter(
    (b) => b.role === 'param' && b.data === undefined && !bound.has(b.id),
  );
  if (madeUp.length > 0)
    context.terminal.note(
      `weights made up from the seed: ${madeUp.map((b) => plain(b.name)).join(', ')}`,
    );
  if (r.prepared.specialised.length > 0)
    context.terminal.note(
      `compiled for the given contents of ${r.prepared.specialised.map(plain).join(', ')}`,
    );
}

async function givenTensors(
  c: Compilation,
  folder: string,
): Promise<{ ok: true; value: Map<string, HostTensor> } | { ok: false; message: string }> {
  const isInput = (id: string): boolean => c.graph.tensors.get(id)?.role === 'input';
  const inputs = c.graph.inputs.filter(isInput).map((id, i) => ({
    id,
    name: c.graph.tensors.get(id)?.name ?? id,
    positional: `input_${i}`,
    required: true,
  }));
  const params = [...c.graph.tensors.values()]
    .filter((t) => t.role === 'param')
    .map((t) => ({ id: t.id, name: t.name, required: false }));
  const wanted = [...inputs, ...params];
  const r = await readTensors(folder, wanted);
  if (!r.ok) return r;
  const given = new Map<string, HostTensor>();
  wanted.forEach((w, i) => {
    const t = r.value[i];
    if (t) given.set(w.id, t);
  });
  return { ok: true, value: given };
}

interface Statistics {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly min: number;
  readonly max: number;
  readonly mean: number;
  readonly nan: number;
}

function statistics(t: HostTensor): Statistics {
  let min = Infinity;
  let max = -Infinity;
  let sum = 0;
  let nan = 0;
  const values = toNumbers(t);
  for (const x of values) {
    if (Number.isNaN(x)) {
      nan++;
      continue;
    }
    min = Math.min(min, x);
    max = Math.max(max, x);
    sum += x;
  }
  const n = values.length - nan;
  return {
    name: t.name,
    dtype: t.dtype,
    shape: t.shape,
    min: n > 0 ? min : NaN,
    max: n > 0 ? max : NaN,
    mean: n > 0 ? sum / n : NaN,
    nan,
  };
}

function outputText(
  list: readonly (Statistics & { readonly check: Comparison | undefined })[],
  paint: Context['terminal']['paint'],
): string {
  const rows = list.map((s) => [
    plain(s.name),
    `${s.dtype}[${s.shape.join(', ')}]`,
    `min ${valueText(s.min)}`,
    `max ${valueText(s.max)}`,
    `mean ${valueText(s.mean)}`,
    s.nan > 0 ? paint('yellow', countText(s.nan, 'NaN')) : '',
    s.check === undefined
      ? ''
      : s.check.ok
        ? `${paint('green', 'as expected')} (max. error ${valueText(s.check.maxAbsErr)})`
        : `${paint('red', 'DIFFERS')}: ${s.check.message ?? ''}`,
  ]);
  return table(rows, ['left', 'left', 'left', 'left', 'left', 'left', 'left']).join('\n');
}
