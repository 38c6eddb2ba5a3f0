/**
 * `npm run bench`: compile times of the examples, of models and of generated graphs, how they grow,
 * and how long an edit's result takes, then the times of the examples on the GPU, fused and unfused.
 *
 *   npm run bench -- [--json] [--no-gpu] [--no-compile] [--models DIR] [--max-ops N]
 *                    [--only TEXT] [--seconds S]
 *   npm run bench -- --model [--json] [--models DIR] [--only TEXT] [--seconds S]
 *   npm run bench -- --peers …
 *
 * With --model: instead, how well the cost model predicts the examples' kernels on this machine's GPU.
 * With --peers: instead, our plans beside other runtimes (peers/index.ts has its flags).
 * A folder with ONNX models is named by --models or by FUSION_LENS_MODELS. Figures are only worth
 * comparing on one machine with nothing else running.
 */
import path from 'node:path';
import { parseArgs } from 'node:util';
import {
  type Case,
  casesIn,
  compileTable,
  type CompileTime,
  generatedCases,
  growthTable,
  measureCompile,
} from './compileTimes';
import { editTable, type EditTime, measureEdits } from './editTimes';
import { gpuTable, measureGpu } from './gpuTimes';
import { measureModel, modelTable } from './model';
import { positive } from './flags';
import { machineText } from './onGpu';
import { peersCommand } from './peers';

const SIZES = [100, 1_000, 10_000, 100_000];
/** Of a kind of graph that takes longer at one size, the next isn't measured. */
const TOO_LONG_MS = 5_000;
/** Ops of the files in which edits are timed. */
const EDITED_OPS = 2_000;

async function main(): Promise<void> {
  const note = (text: string): void => void process.stderr.write(`${text}\n`);
  if (process.argv.includes('--peers')) {
    process.exitCode = await peersCommand(process.argv.slice(2), note);
    return;
  }
  const { values } = parseArgs({
    options: {
      json: { type: 'boolean', default: false },
      'no-gpu': { type: 'boolean', default: false },
      'no-compile': { type: 'boolean', default: false },
      model: { type: 'boolean', default: false },
      models: { type: 'string' },
      'max-ops': { type: 'string', default: '100000' },
      only: { type: 'string', default: '' },
      seconds: { type: 'string', default: '2' },
    },
  });
  const most = positive(values['max-ops'], '--max-ops');
  const seconds = positive(values.seconds, '--seconds');
  const wanted = (c: Case): boolean => c.name.includes(values.only);

  const examples = (await casesIn(path.join(__dirname, '..', 'examples'))).filter(wanted);
  const models = values.models ?? process.env['FUSION_LENS_MODELS'];
  const modelCases = models ? (await casesIn(models)).filter(wanted) : [];
  const machine = machineText();
  if (values.model) {
    const quality = await measureModel([...examples, ...modelCases], seconds, (name) =>
      note(`running ${name}`),
    );
    console.log(
      values.json
        ? JSON.stringify({ machine, model: quality }, null, 2)
        : [machine, '', ...modelTable(quality)].join('\n'),
    );
    if (quality.kernels.length === 0) process.exitCode = 1;
    return;
  }
  const cases = [
    ...examples,
    ...modelCases,
    ...generatedCases(SIZES.filter((n) => n <= most)).filter(wanted),
  ];

  const compileTimes: CompileTime[] = [];
  const lastOf = new Map<string, CompileTime>();
  let edits: EditTime[] = [];
  if (!values['no-compile']) {
    for (const c of cases) {
      const before = c.family === undefined ? undefined : lastOf.get(c.family);
      if (before && before.medianMs > TOO_LONG_MS) {
        note(`${c.name} is left out: ${before.name} took ${(before.medianMs / 1000).toFixed(1)} s`);
        continue;
      }
      note(`compiling ${c.name}`);
      const time = await measureCompile(c);
      compileTimes.push(time);
      if (c.family !== undefined) lastOf.set(c.family, time);
    }
    if (most >= EDITED_OPS) {
      note(`editing files of ${EDITED_OPS.toLocaleString('en')} ops`);
      edits = measureEdits(EDITED_OPS, (name) => name.includes(values.only));
    }
  }
  const gpu = values['no-gpu']
    ? undefined
    : await measureGpu(examples, seconds, (name) => note(`running ${name}`));

  if (values.json) {
    console.log(
      JSON.stringify({ machine, compile: compileTimes, edits, ...(gpu ? { gpu } : {}) }, null, 2),
    );
  } else {
    console.log(machine);
    if (compileTimes.length > 0)
      console.log(`\nCompiling, from bytes to result\n${compileTable(compileTimes).join('\n')}`);
    const growth = growthTable(compileTimes);
    if (growth.length > 0) console.log(`\nGrowth, against a thousand ops\n${growth.join('\n')}`);
    if (edits.length > 0)
      console.log(`\nFrom an edit to its result\n${editTable(edits).join('\n')}`);
    if (gpu) console.log(`\nRunning on the GPU\n${gpuTable(gpu).join('\n')}`);
  }
  if (gpu?.times.some((t) => !t.verified)) process.exitCode = 1;
}

main().catch((e: unknown) => {
  console.error(e instanceof Error ? e.message : String(e));
  process.exitCode = 2;
});
