/**
 * The `.fuse` importer: text in, L0 graph and diagnostics out. It never fails: what can't be read is
 * reported, and the graph holds the rest.
 */
import {
  info,
  warning,
  type Diagnostic,
  type QuickFix,
  type SourcePosition,
} from '../../diagnostics';
import type { Graph, ImportResult, TensorId } from '../../graph/graph';
import type { Statement, SyntaxTree } from './ast';
import { Binder, DEFAULT_SIZE, type Definition } from './binder';
import type { Guesses } from './declarations';
import { DirectiveBinder } from './directiveBinder';
import type { FuseMemory } from './memory';
import { parseFuse, parseFuseBytes } from './parser';
import { AskedShapes, type Shape } from './shapes';

export { definedNames } from './ast';
export { parseFuse } from './parser';
export { scanFuse, type FuseScan, type ScannedOp } from './scan';

/** More than this nobody reads; the rest is counted. */
const MOST_DIAGNOSTICS = 300;
const LONGEST_MESSAGE = 400;

/** `source` is the text, or the file's bytes. */
export function importFuse(
  source: string | Uint8Array,
  fileName: string,
  memory?: FuseMemory,
): ImportResult {
  return bindFuse(treeOf(source, memory), fileName, undefined, memory);
}

function treeOf(source: string | Uint8Array, memory: FuseMemory | undefined): SyntaxTree {
  return typeof source === 'string'
    ? parseFuse(source)
    : parseFuseBytes(source, memory && ((text) => memory.text.parse(text)));
}

/** Rounds of binding and lowering, at most: each finds the shape of what the one before could not make. */
const ROUNDS = 64;

/** As {@link importFuse}, with the shapes of computed tensors where the file asks for them. */
export function importFuseKnowing(
  source: string | Uint8Array,
  fileName: string,
  shapesIn: (graph: Graph) => (tensor: TensorId) => Shape | undefined,
  memory?: FuseMemory,
): ImportResult {
  const tree = treeOf(source, memory);
  const shapes = new AskedShapes();
  let imported = bindFuse(tree, fileName, shapes, memory);
  for (let round = 1; shapes.open; round++) {
    shapes.answer(shapesIn(imported.graph), round >= ROUNDS);
    imported = bindFuse(tree, fileName, shapes, memory);
    // Whoever asks on after the last answer goes without.
    if (round > 2 * ROUNDS) break;
  }
  return imported;
}

export function bindFuse(
  tree: SyntaxTree,
  fileName: string,
  shapes?: AskedShapes,
  memory?: FuseMemory,
): ImportResult {
  const diagnostics: Diagnostic[] = [...tree.diagnostics];
  const binder = new Binder(diagnostics, tree.statements, shapes, memory);
  memory?.begin();
  for (const s of tree.statements) binder.bind(s);
  memory?.end();
  const directives = new DirectiveBinder(binder);
  for (const s of tree.statements) directives.bind(s);

  const explicit = tree.statements.some((s) => s.kind === 'output');
  if (!explicit) addImplicitOutputs(binder, directives, tree.statements, diagnostics);
  reportUnused(binder, diagnostics);
  if (binder.undeclared.size > 0)
    offerDeclarations(diagnostics, binder, binder.guesses, tree.statements);

  const graph: Graph = {
    format: 'fuse',
    name: baseName(fileName),
    nodes: binder.graph.nodes,
    tensors: binder.graph.tensors,
    inputs: binder.inputs,
    outputs: directives.outputs,
    dims: binder.dims,
    directives: directives.directives,
  };
  return { graph, diagnostics: arranged(diagnostics) };
}

/** Without an output line every value that nothing uses is an output. */
function addImplicitOutputs(
  binder: Binder,
  directives: DirectiveBinder,
  statements: readonly Statement[],
  diagnostics: Diagnostic[],
): void {
  const ends: Definition[] = [];
  for (const d of [...binder.overwritten, ...binder.definitions.values()]) {
    if (d.kind === 'value' && !d.used && d.value.kind === 'tensor') ends.push(d);
  }
  for (const d of ends) {
    directives.bind({ kind: 'output', names: [d.name], range: d.name.range, text: '' });
  }
  const last = statements[statements.length - 1];
  const names = ends.map((d) => d.name.name);
  const final = ends[ends.length - 1];
  if (!last || !final) {
    if (statements.every((s) => s.kind !== 'faulty' && s.kind !== 'assign')) {
      diagnostics.push(
        info('EMPTY_GRAPH', 'The file computes nothing yet: write a line such as y = relu(x).'),
      );
    }
    return;
  }
  const line = `output ${names.join(', ')}`;
  const shown =
    names.length > 8
      ? `${names.slice(0, 8).join(', ')} and ${names.length - 8} more`
      : names.join(', ');
  diagnostics.push(
    info(
      'NO_OUTPUT',
      `There is no output line, so what nothing uses is an output: ${shown}.`,
      final.name.range,
      {
        fixes: [
          {
            title: `Add “${names.length > 8 ? 'output …' : line}”`,
            edits: [insertion(last.range.end, `\n\n${line}`)],
          },
        ],
      },
    ),
  );
}

function reportUnused(binder: Binder, diagnostics: Diagnostic[]): void {
  for (const d of binder.definitions.values()) {
    if (d.used || d.value.kind === 'faulty' || d.name.name.startsWith('_')) continue;
    const what =
      d.kind === 'value'
        ? 'Nothing uses it and it is no output, so it isn’t computed.'
        : 'Nothing uses it.';
    diagnostics.push({
      severity: 'hint',
      code: 'UNUSED',
      message: `${d.name.name}: ${what}`,
      range: d.name.range,
    });
  }
}

const DECLARATIONS: ReadonlySet<Statement['kind']> = new Set(['dim', 'input', 'param', 'const']);

/** Puts quick fixes on undeclared names: this one, and all of them at once. */
function offerDeclarations(
  diagnostics: Diagnostic[],
  binder: Binder,
  guesses: Guesses,
  statements: readonly Statement[],
): void {
  // After the declarations that are there: their dims may size the new ones.
  const first = statements.find(({ kind }) => !DECLARATIONS.has(kind)) ?? statements[0];
  if (!first) return;
  const at = { line: first.range.start.line, column: 0 };
  const open = [...binder.undeclared.keys()].slice(0, 50);
  const all = declarationText(open, guesses, binder);
  for (const [i, d] of diagnostics.entries()) {
    if (d.code !== 'UNDECLARED_NAME' || d.subject === undefined) continue;
    const { subject, ...rest } = d;
    const role = guesses.names.get(subject)?.role ?? 'input';
    const fixes: QuickFix[] = [];
    if (open.length > 1) {
      fixes.push({ title: `Declare ${listed(open)}`, edits: [insertion(at, all)] });
    }
    fixes.push({
      title: `Declare ${subject} as ${role === 'input' ? 'an input' : 'a param'}`,
      edits: [insertion(at, declarationText([subject], guesses, binder))],
    });
    diagnostics[i] = { ...rest, fixes };
  }
}

function declarationText(names: readonly string[], guesses: Guesses, binder: Binder): string {
  const lines: string[] = [];
  const sizes = new Set(names.flatMap((n) => guesses.names.get(n)?.sizes ?? []));
  for (const d of guesses.newDims) {
    if (sizes.has(d) && !binder.definitions.has(d)) lines.push(`dim ${d} = ${DEFAULT_SIZE}`);
  }
  for (const n of names) {
    const guess = guesses.names.get(n);
    lines.push(`${guess?.role ?? 'input'} ${n}: f32[${guess ? guess.sizes.join(', ') : '?'}]`);
  }
  return `${lines.join('\n')}\n`;
}

function listed(names: readonly string[]): string {
  if (names.length > 4) return `all ${names.length} undeclared names`;
  const last = names[names.length - 1] ?? '';
  return names.length < 2 ? last : `${names.slice(0, -1).join(', ')} and ${last}`;
}

function insertion(at: SourcePosition, newText: string): QuickFix['edits'][number] {
  return { range: { start: at, end: at }, newText };
}

/** In the order of the source; a limited number of them. */
function arranged(diagnostics: readonly Diagnostic[]): Diagnostic[] {
  const key = (d: Diagnostic): number => (d.range ? d.range.start.line : Infinity);
  const sorted = diagnostics.map(clipped).sort((a, b) => {
    const x = key(a);
    const y = key(b);
    if (x !== y) return x < y ? -1 : 1;
    return (a.range?.start.column ?? 0) - (b.range?.start.column ?? 0);
  });
  if (sorted.length <= MOST_DIAGNOSTICS) return sorted;
  // Errors are what matters when there are too many, and first of all that reading has stopped.
  const severities = { error: 1, warning: 2, info: 3, hint: 4 };
  const rank = (d: Diagnostic): number =>
    d.code === 'TOO_MANY_MISTAKES' ? 0 : severities[d.severity];
  const kept = new Set([...sorted].sort((a, b) => rank(a) - rank(b)).slice(0, MOST_DIAGNOSTICS));
  const more = sorted.length - kept.size;
  return [
    ...sorted.filter((d) => kept.has(d)),
    warning('TOO_MANY_DIAGNOSTICS', `${more} more problems aren’t shown.`),
  ];
}

/** A name may be as long as the file; a message isn't. */
function clipped(d: Diagnostic): Diagnostic {
  const clip = (text: string, most: number): string =>
    text.length > most ? `${text.slice(0, most)}…` : text;
  if (d.message.length <= LONGEST_MESSAGE) return d;
  const fixes = d.fixes?.map((f) => ({ ...f, title: clip(f.title, LONGEST_MESSAGE / 4) }));
  return { ...d, message: clip(d.message, LONGEST_MESSAGE), ...(fixes ? { fixes } : {}) };
}

function baseName(fileName: string): string {
  const file = fileName.split(/[\\/]/).pop() ?? fileName;
  return file.replace(/\.fuse$/i, '') || 'graph';
}
