/**
 * `kernels`: the generated code.
 */
import path from 'node:path';
import type { Compilation } from '../../compiler';
import type { TunedKernel } from '../../compiler/tuning';
import { one } from '../args';
import { fileName, type NewFile, writeFiles } from '../files';
import { plain } from '../format/table';
import { tunedText } from '../format/tunedText';
import { jsonText } from '../terminal';
import { ADAPTER_FLAG, NO_TUNING_FLAG } from '../tuningFile';
import {
  type Command,
  type Context,
  DEVICE_FLAG,
  DIM_FLAG,
  EXIT,
  type ExitCode,
  FORCE_FLAG,
  hasErrors,
  HELP_FLAG,
  inputFault,
  JSON_FLAG,
  noteDiagnostics,
  OUT_FLAG,
} from './command';
import { openForEstimates } from './opened';

export const kernels: Command = {
  name: 'kernels',
  positional: 'FILE',
  summary: 'prints the code of each kernel, or writes it to files',
  flags: [
    JSON_FLAG,
    { name: 'target', value: 'wgsl', choices: ['wgsl'], doc: 'the language; so far WGSL' },
    {
      name: 'plan',
      value: 'fused|unfused',
      choices: ['fused', 'unfused'],
      doc: 'whose kernels; fused by default',
    },
    DIM_FLAG,
    DEVICE_FLAG,
    NO_TUNING_FLAG,
    ADAPTER_FLAG,
    OUT_FLAG,
    FORCE_FLAG,
    HELP_FLAG,
  ],
  run,
};

async function run(context: Context): Promise<ExitCode> {
  const { args, terminal } = context;
  const opened = await openForEstimates(context);
  if (!opened.ok) return opened.exit;
  const { compilation, model } = opened.value;
  noteDiagnostics(context, compilation);
  const list = codeOf(compilation, one(args, 'plan') === 'unfused' ? 'before' : 'after');
  const folder = one(args, 'output');
  let written: readonly string[] | undefined;
  if (folder !== undefined) {
    const files = list.flatMap((k): NewFile[] =>
      k.code.map((text, i) => ({
        name: `${fileName(k.id)}${k.code.length > 1 ? `.${i}` : ''}.wgsl`,
        contents: `${text.trimEnd()}\n`,
      })),
    );
    const r = await writeFiles(folder, files, args.switches.has('force'));
    if (!r.ok) return inputFault(context, r.message);
    written = r.value;
    for (const file of written) terminal.note(`wrote ${path.normalize(file)}`);
  }
  if (args.switches.has('json'))
    terminal.print(
      jsonText({
        schema: 'fusion-lens/kernels@1',
        file: model.file,
        target: 'wgsl',
        kernels: list,
        ...(written ? { written } : {}),
      }),
    );
  else if (folder === undefined)
    for (const k of list) {
      terminal.print(terminal.paint('bold', `// ${k.id}  ${plain(k.label)}  (${k.hash})`));
      if (k.tuned) terminal.print(terminal.paint('dim', `// ${tunedText(k.tuned)}`));
      k.code.forEach((text, i) => {
        if (k.code.length > 1) terminal.print(`// dispatch ${i + 1} of ${k.code.length}`);
        terminal.print(`${text.trimEnd()}\n`);
      });
    }
  return hasErrors(compilation) ? EXIT.fault : EXIT.held;
}

function codeOf(
  c: Compilation,
  plan: 'before' | 'after',
): {
  id: string;
  hash: string;
  label: string;
  nodes: readonly string[];
  tuned?: TunedKernel;
  registers: number;
  code: readonly string[];
}[] {
  const { kernels, prepared = [] } = c.result[plan];
  return [...kernels, ...prepared].map((k) => ({
    id: k.id,
    hash: k.hash,
    label: k.label,
    nodes: k.nodes,
    ...(k.tuned ? { tuned: k.tuned } : {}),
    registers: k.registers,
    code: c.kernelCode(k.id) ?? [],
  }));
}
