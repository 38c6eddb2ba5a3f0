// Writes the pages of docs/ that say what stands elsewhere: commands and settings from the manifest,
// operators from the op tables.
//
//   node scripts/docs.mjs           writes the pages
//   node scripts/docs.mjs --check   fails when one isn't up to date
//
// What else is given names the pages that are meant; without a name it is all of them.

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import * as esbuild from 'esbuild';
import * as prettier from 'prettier';
import { root } from './root.mjs';

/** @type {ReadonlyArray<{file: string, lines: () => Promise<string[]>}>} */
const pages = [
  { file: 'docs/commands-and-settings.md', lines: manifestLines },
  { file: 'docs/operators.md', lines: operatorLines },
];

// ---------------------------------------------------------------------------------------------
// Commands and settings

/**
 * @typedef {{type: string, default: unknown, enum?: string[], scope?: string,
 *   markdownDescription: string, markdownEnumDescriptions?: string[]}} Setting
 */

/** @returns {Promise<string[]>} */
async function manifestLines() {
  const manifest = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
  const { commands, keybindings, configuration, menus } = manifest.contributes;
  /** @type {Set<string>} */
  const hidden = new Set(
    menus.commandPalette
      .filter((/** @type {{when: string}} */ { when }) => when === 'false')
      .map((/** @type {{command: string}} */ { command }) => command),
  );
  const keyOf = (/** @type {string} */ id) =>
    keybindings.find((/** @type {{command: string}} */ { command }) => command === id)?.key ?? '';
  const lines = [
    '# Commands and settings',
    '',
    '<!-- Made from package.json by scripts/docs.mjs: change it there. -->',
    '',
    '## Commands',
    '',
    '| Command | Key | Id |',
    '| --- | --- | --- |',
    ...commands
      .filter((/** @type {{command: string}} */ { command }) => !hidden.has(command))
      .map(
        (/** @type {{command: string, title: string, category: string}} */ each) =>
          `| ${each.category}: ${each.title} | ${keyOf(each.command)} | \`${each.command}\` |`,
      ),
    '',
    '## Settings',
  ];
  for (const { title, properties } of configuration) {
    lines.push('', `### ${title}`);
    for (const [name, setting] of Object.entries(properties))
      lines.push('', ...settingLines(name, /** @type {Setting} */ (setting)));
  }
  return lines;
}

/** @param {string} name @param {Setting} setting */
function settingLines(name, setting) {
  const lines = [
    `#### \`${name}\``,
    '',
    setting.markdownDescription,
    '',
    `Default: \`${JSON.stringify(setting.default)}\`. ${scopeText(setting.scope)}`,
  ];
  const { enum: values, markdownEnumDescriptions: texts } = setting;
  if (values)
    lines.push('', ...values.map((value, i) => `- \`${JSON.stringify(value)}\`: ${texts?.[i]}`));
  return lines;
}

/** @param {string | undefined} scope */
function scopeText(scope) {
  return scope === 'machine' ? 'Set for the machine or the user; a workspace can’t set it.' : '';
}

// ---------------------------------------------------------------------------------------------
// Operators

/** Title, file below compiler/ops, name of its table. */
const families = [
  ['Elementwise, one operand', 'unary', 'unaryOps'],
  ['Elementwise, several operands', 'pointwise', 'pointwiseOps'],
  ['Casts and choices', 'choice', 'choiceOps'],
  ['PyTorch’s compositions', 'composed', 'composedOps'],
  ['Activations', 'activation', 'activationOps'],
  ['Shapes', 'shape', 'shapeOps'],
  ['Slicing', 'slicing', 'slicingOps'],
  ['Joining and padding', 'joining', 'joiningOps'],
  ['Indexing', 'subscript', 'subscriptOps'],
  ['Creation', 'creation', 'creationOps'],
  ['Reductions', 'reductions', 'reductionOps'],
  ['Softmax', 'softmax', 'softmaxOps'],
  ['Normalisation', 'normalization', 'normalizationOps'],
  ['Losses', 'losses', 'lossOps'],
  ['Matrix products', 'contractions', 'contractionOps'],
  ['Matrices', 'matrices', 'matrixOps'],
  ['Convolution', 'convolution', 'convolutionOps'],
  ['Pooling', 'pooling', 'poolingOps'],
  ['Gather', 'gather', 'gatherOps'],
  ['Scatter', 'scatter', 'scatterOps'],
  ['Order', 'sorting', 'sortingOps'],
  ['Attention', 'attention', 'attentionOps'],
  ['Resizing', 'resize', 'resizeOps'],
  ['Quantisation', 'quantization', 'quantizationOps'],
  ['Recurrence', 'recurrent', 'recurrentOps'],
  ['Signals', 'signal', 'signalOps'],
  ['Vision', 'vision', 'visionOps'],
  ['Selection', 'selection', 'selectionOps'],
  ['Features', 'extraction', 'extractionOps'],
  ['Linear models', 'linearModels', 'linearModelOps'],
  ['Decision trees', 'trees', 'treeOps'],
  ['ONNX Runtime', 'contrib', 'contribOps'],
  ['Randomness', 'random', 'randomOps'],
  ['Training', 'training', 'trainingOps'],
  ['Retired', 'retired', 'retiredOps'],
];
const unsupported = ['unsupported', 'unsupportedOps'];

/**
 * The parts of an op definition (compiler/ops/op.ts) that the page shows.
 * @typedef {{name: string, optional?: boolean, default?: unknown}} Param
 * @typedef {{names: string[], params: Param[], doc: string}} Form
 * @typedef {{name: string, onnx?: string[], fuse?: Form[], view?: boolean,
 *   lower: (context: unknown) => unknown}} Op
 */

/** @returns {Promise<string[]>} */
async function operatorLines() {
  const tables = await opTables();
  const listed = new Set([...families.map(([, , table]) => table), unsupported[1]]);
  const missing = (tables.OPS ?? []).filter(
    (op) => ![...listed].some((table) => tables[table ?? '']?.includes(op)),
  );
  if (missing.length > 0)
    throw new Error(`not in a family of scripts/docs.mjs: ${missing.map((op) => op.name)}`);

  const supported = families.flatMap(([, , table]) => tables[table ?? ''] ?? []);
  const lines = [
    '# Operators',
    '',
    '<!-- Made from compiler/ops by scripts/docs.mjs: change it there. -->',
    '',
    `${supported.length} operators have a lowering. ` +
      `In \`.fuse\`: \`name(argument, optional?, optional=default)\`, and after “also” what is ` +
      `understood as well. Where several forms share a name, the arguments decide. ` +
      `The [language page](fuse-language.md) says how calls are written.`,
    '',
    'In ONNX files: the types of the default domain, and of others with the domain before a colon. ' +
      'Besides these the importer reads `Constant` and calls of functions that the model defines.',
    '',
    '`If`, `Loop` and `Scan`: a branch that is known to be taken is inlined, also where shapes decide; ' +
      'a loop whose number of iterations is known is unrolled, up to 1024 nodes. Elsewhere the bodies ' +
      'are compiled as graphs of their own, and run as often as the data says. Then carried values must ' +
      'keep their shapes, both branches must give the same ones, and rows can only be stacked where ' +
      'their number is known. A branch that only the data decides on is no region where both ways are ' +
      'small and free of sums: both are computed, and one is selected. `RNN`, `GRU` and `LSTM` are ' +
      'written out up to 64 steps; longer ones are loops, whose body is compiled once.',
    '',
    'Sequences and optional values (`SequenceAt`, `SequenceConstruct`, `SequenceEmpty`, `SequenceErase`, ' +
      '`SequenceInsert`, `SequenceLength`, `SequenceMap`, `SplitToSequence`, `ConcatFromSequence`, ' +
      '`Optional`, `OptionalGetElement`, `OptionalHasElement`) are followed while importing, where ' +
      'lengths and positions are known; they can be neither inputs nor outputs of the graph.',
    '',
    'A *view* is an index map: it costs no kernel and moves no bytes, unless its result is an output ' +
      'of the graph.',
  ];
  for (const [title, , table] of families) {
    const ops = tables[table ?? ''] ?? [];
    const onnxOnly = ops.filter(({ fuse }) => !fuse?.length);
    lines.push('', `## ${title}`, '');
    if (table === 'selectionOps')
      lines.push('The size of the result is data: its operands’ contents must be known.', '');
    for (const op of ops) if (!onnxOnly.includes(op)) lines.push(...opLines(op));
    if (onnxOnly.length > 0)
      lines.push(`- In ONNX files alone: ${onnxOnly.map(typesOf).join(', ')}.`);
  }
  lines.push(
    '',
    '## Known, but not supported',
    '',
    'A graph with one of these is shown, with the reason at the op, and the rest is analysed; it can’t ' +
      'be run.',
    '',
  );
  /** @type {Map<string, string[]>} */
  const reasons = new Map();
  for (const op of tables[unsupported[1] ?? ''] ?? []) {
    const reason = reasonOf(op);
    reasons.set(reason, [...(reasons.get(reason) ?? []), typesOf(op)]);
  }
  for (const [reason, types] of reasons) lines.push(`- ${types.join(', ')}: ${reason}.`);
  return lines;
}

/** @returns {Promise<Record<string, Op[]>>} the op tables by the names of their exports */
async function opTables() {
  const files = [...families.map(([, file]) => file), unsupported[0], 'index'];
  const { outputFiles } = await esbuild.build({
    stdin: {
      contents: files.map((file) => `export * from './compiler/ops/${file}';`).join('\n'),
      resolveDir: root,
    },
    bundle: true,
    format: 'esm',
    target: 'es2022',
    write: false,
  });
  const code = Buffer.from(outputFiles[0]?.contents ?? []).toString('base64');
  return import(`data:text/javascript;base64,${code}`);
}

/** Why an op has no lowering: what its lowering says. @param {Op} op @returns {string} */
function reasonOf(op) {
  let reason = '';
  const unsupported = (/** @type {string} */ message) => {
    reason = message.slice(message.indexOf(': ') + 2);
    throw new Error(message);
  };
  try {
    // An operand of which nothing is known.
    op.lower({ unsupported, input: () => ({ shape: [] }) });
  } catch (error) {
    if (reason === '') throw error;
  }
  return reason;
}

/** @param {Op} op */
const typesOf = (op) => (op.onnx ?? []).map((type) => `\`${type}\``).join(', ');

/** @param {Op} op */
function opLines(op) {
  const onnx = typesOf(op);
  const tail = [onnx && `ONNX: ${onnx}.`, op.view && 'A view.'].filter(Boolean).join(' ');
  const forms = [...new Set((op.fuse ?? []).map(formText))];
  if (forms.length === 1) return [`- ${[forms[0], tail].filter(Boolean).join(' ')}`];
  return [`- \`${op.name}\`. ${tail}`, ...forms.map((form) => `  - ${form}`)];
}

/** @param {Form} form */
function formText({ names, params, doc }) {
  const [name, ...others] = names;
  const shown = params.map((p) => {
    if (p.default !== undefined) return `${p.name}=${valueText(p.default)}`;
    return p.optional ? `${p.name}?` : p.name;
  });
  const also = others.length > 0 ? ` (also ${others.map((o) => `\`${o}\``).join(', ')})` : '';
  const text = doc.replace(/[\\*<[\]]/g, '\\$&');
  return `\`${name}(${shown.join(', ')})\`${also}: ${text}${text.endsWith('.') ? '' : '.'}`;
}

/** @param {unknown} value */
function valueText(value) {
  return typeof value === 'string' ? `"${value}"` : JSON.stringify(value);
}

// ---------------------------------------------------------------------------------------------

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const flags = process.argv.slice(2);
  const names = flags.filter((flag) => flag !== '--check');
  for (const { file, lines } of pages) {
    if (names.length > 0 && !names.includes(file)) continue;
    const target = path.join(root, file);
    const options = await prettier.resolveConfig(target);
    const text = `${(await lines()).join('\n')}\n`;
    const wanted = await prettier.format(text, { ...options, parser: 'markdown' });
    if (!flags.includes('--check')) writeFileSync(target, wanted);
    else if (!existsSync(target) || readFileSync(target, 'utf8') !== wanted) {
      console.error(`${file} is not up to date: run node scripts/docs.mjs`);
      process.exitCode = 1;
    }
  }
}
