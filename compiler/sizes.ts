/**
 * Which sizes a graph with symbolic dims is planned for, and which of them are fixed.
 *
 * Vocabulary
 *  - *given*: a size that the user said.
 *  - *open*: a dim that neither the user nor the file gives a size. ONNX files name dims and say no
 *    more; 1 stands for them at first.
 *  - *empty*: a tensor that would have no elements, or fewer, with the sizes at hand.
 *  - *fixed*: a dim that is replaced by its size before lowering, since some op can only be lowered
 *    when it knows that size: a recurrent net that is unrolled, a branch that depends on a rank.
 *
 * Two things go wrong with files that leave sizes open. With 1 for the samples of a signal a
 * convolution has nothing to give; then the smallest power of two is taken with which all tensors
 * have elements. And where lowering fails with symbols but succeeds with numbers, as few dims as
 * possible are fixed. Either is said in a diagnostic.
 *
 * What is proved of a symbol holds from 1 on. A size that is given as 0, as the cache of a language
 * model is before its first word, is fixed.
 */
import { type Diagnostic, error, info } from './diagnostics';
import type {
  AttrValue,
  Graph,
  ImportResult,
  Node,
  NodeId,
  TensorId,
  TensorType,
} from './graph/graph';
import type { CompileMemory } from './fusion/memory';
import * as I from './ir/indexExpr';
import type { Dim } from './ir/indexExpr';
import { opByName } from './ops';
import { type Lowered, lowerGraph } from './ops/lower';

/** The file as a graph; lowering a draft of it may need to know fixed sizes. */
export type Import = (fix: (graph: Graph) => Graph) => ImportResult;

export interface Settled {
  readonly imported: ImportResult;
  /** With the sizes to plan for, and symbols where the file has them. */
  readonly graph: Graph;
  /** The same, with fixed sizes put in. */
  readonly fixed: Graph;
  readonly lowered: Lowered;
  readonly diagnostics: readonly Diagnostic[];
}

interface Attempt extends Omit<Settled, 'diagnostics'> {
  readonly fixedDims: readonly string[];
  /** Tensors that are empty whatever the sizes. */
  readonly always: ReadonlySet<TensorId>;
  readonly faults: number;
  readonly empty: number;
}

/** Sizes that open dims are tried with: small ones tell as much as large ones, and are quick to plan. */
const MOST = 2 ** 16;
/** How many nodes may be lowered to find sizes. */
const MOST_NODES = 20_000;

export function settleSizes(
  read: Import,
  given: Readonly<Record<string, number>>,
  memory?: CompileMemory,
): Settled {
  const none = Object.keys(given).filter((d) => given[d] === 0);
  const first = attempt(read, given, none, undefined, memory);
  const said = dimDiagnostics(first.imported.graph, given);
  const settled = (a: Attempt, more: readonly Diagnostic[] = []): Settled => ({
    imported: a.imported,
    graph: a.graph,
    fixed: a.fixed,
    lowered: a.lowered,
    diagnostics: [...said, ...more],
  });
  const zero = none.filter((d) => first.graph.dims.has(d));
  if (zero.length > 0)
    said.push(
      info(
        'SIZE_FIXED',
        `${listed(zero)} ${zero.length > 1 ? 'are' : 'is'} fixed at 0: a plan for several sizes is one for sizes of at least 1`,
      ),
    );
  if (first.graph.dims.size === 0) return settled(first);
  const hanging = hangingOnSizes(first);
  const faulty = first.faults > 0 && hanging.size > 0;
  if (!faulty && first.empty === 0) return settled(first);

  let best = first;
  const open = openDims(first.graph, given);
  const names = [...first.graph.dims.keys()];
  let left = Math.max(4, Math.floor(MOST_NODES / Math.max(1, first.graph.nodes.length)));
  const lasting = first.faults - errorsOf(first).filter((d) => hanging.has(d.subject ?? '')).length;
  /** Whether that is as good as can be. */
  const consider = (make: () => Attempt): boolean => {
    if (left-- <= 0) return true;
    const a = make();
    if (a.faults < best.faults || (a.faults === best.faults && a.empty < best.empty)) best = a;
    return best.faults <= lasting && best.empty === 0;
  };
  const choices = choicesOf(open, given, blameOf(first, hanging));
  // With numbers an op can do all that it can with symbols: which of them may stay symbols is asked
  // for the sizes that were found, not for each that is tried.
  if (faulty) [given, ...choices].some((d) => consider(() => attempt(read, d, names, first)));
  else choices.some((d) => consider(() => resized(first, d)));
  best = fewestFixed(read, Object.fromEntries(best.graph.dims), best, zero);
  return settled(best, explain(first, best, open));
}

/**
 * Sizes to try: at each size all open dims at once, as what is equal in truth may have two names, and
 * the one that most is to blame on alone; then each of the others.
 */
function choicesOf(
  open: readonly string[],
  given: Readonly<Record<string, number>>,
  blame: (dim: string) => number,
): Readonly<Record<string, number>>[] {
  const sizes: number[] = [];
  for (let size = 2; size <= MOST; size *= 2) sizes.push(size);
  const [first, ...others] = [...open].sort((a, b) => blame(b) - blame(a));
  if (first === undefined) return [];
  const likely = sizes.flatMap((size) => {
    const all = Object.fromEntries(open.map((d) => [d, size]));
    return others.length > 0 ? [all, { [first]: size }] : [all];
  });
  const rest = sizes.flatMap((size) => others.map((d) => ({ [d]: size })));
  return [...likely, ...rest].map((c) => ({ ...given, ...c }));
}

/** Shapes don't change with the sizes that symbols stand for: without faults there is nothing to lower anew. */
function resized(a: Attempt, dims: Readonly<Record<string, number>>): Attempt {
  const graph = withDims(a.graph, dims);
  const lowered = { ...a.lowered, program: { ...a.lowered.program, dims: graph.dims } };
  const fixed = withFixed(graph, a.fixedDims);
  return { ...a, graph, fixed, lowered, empty: emptyTensors(lowered, graph, a.always) };
}

/** Leaves symbolic what needs no fixing. */
function fewestFixed(
  read: Import,
  dims: Readonly<Record<string, number>>,
  start: Attempt,
  staying: readonly string[],
): Attempt {
  let best = start;
  for (const d of start.fixedDims) {
    if (staying.includes(d)) continue;
    const without = best.fixedDims.filter((x) => x !== d);
    const a = attempt(read, dims, without, start);
    if (a.faults <= best.faults && a.empty <= best.empty) best = a;
  }
  return best;
}

function attempt(
  read: Import,
  dims: Readonly<Record<string, number>>,
  fixedDims: readonly string[],
  first?: Attempt,
  memory?: CompileMemory,
): Attempt {
  const fix = (g: Graph): Graph => withFixed(withDims(g, dims), fixedDims);
  const imported = read(fix);
  const graph = withDims(imported.graph, dims);
  const fixed = withFixed(graph, fixedDims);
  const lowered = lowerGraph(fixed, memory?.lowering(fixed.dims));
  const always = first?.always ?? alwaysEmpty(lowered);
  return {
    always,
    imported,
    graph,
    fixed,
    lowered,
    fixedDims,
    faults: errorsOf({ imported, lowered }).length,
    empty: emptyTensors(lowered, graph, always),
  };
}

function errorsOf(a: Pick<Attempt, 'imported' | 'lowered'>): readonly Diagnostic[] {
  const all = [...a.imported.diagnostics, ...a.lowered.diagnostics];
  return all.filter((d) => d.severity === 'error');
}

/** Tensors that have no elements because of the sizes; some have none by what the file says. */
function emptyTensors(lowered: Lowered, graph: Graph, always: ReadonlySet<TensorId>): number {
  const bind = (s: string): number | undefined => graph.dims.get(s);
  // What is a number is empty always, or never.
  const empty = (d: Dim): boolean => d.terms.length > 0 && I.evaluate(d, bind) <= 0;
  let n = 0;
  for (const [id, t] of lowered.types) if (t.shape.some(empty) && !always.has(id)) n++;
  return n;
}

function alwaysEmpty(lowered: Lowered): Set<TensorId> {
  const out = new Set<TensorId>();
  for (const [id, t] of lowered.types) if (t.shape.some((d) => I.isConst(d, 0))) out.add(id);
  return out;
}

/** The nodes that another size could help: an op that is known has failed, and what it reads has symbolic sizes. */
function hangingOnSizes(a: Attempt): ReadonlySet<NodeId> {
  const hanging = a.graph.nodes.filter(
    (n) =>
      a.lowered.unsupported.has(n.id) &&
      (n.unsupported === undefined || opByName(n.op) !== undefined || n.control !== undefined) &&
      n.operands.some((t) => shapeOf(a, t).some((d) => I.constOf(d) === undefined)),
  );
  return new Set(hanging.map((n) => n.id));
}

/** How often a dim is in the sizes of what nodes read. */
function blameOf(a: Attempt, nodes: ReadonlySet<NodeId>): (dim: string) => number {
  const counts = new Map<string, number>();
  for (const n of a.graph.nodes) {
    if (!nodes.has(n.id)) continue;
    const read = new Set(n.operands.flatMap((t) => shapeOf(a, t).flatMap((d) => I.symbolsOf(d))));
    for (const d of read) counts.set(d, (counts.get(d) ?? 0) + 1);
  }
  return (dim) => counts.get(dim) ?? 0;
}

function shapeOf({ graph, lowered }: Attempt, t: TensorId | undefined): readonly Dim[] {
  if (t === undefined) return [];
  return (lowered.types.get(t) ?? graph.tensors.get(t)?.type)?.shape ?? [];
}

/**
 * Dims that may be given another size. The leading dim of an input is the batch by custom, and stays
 * 1, unless there is nothing else to change.
 */
function openDims(graph: Graph, given: Readonly<Record<string, number>>): readonly string[] {
  if (graph.format !== 'onnx') return [];
  const open = [...graph.dims.keys()].filter((d) => !Object.hasOwn(given, d));
  const leading = new Set<string>();
  for (const id of graph.inputs) {
    const [d, ...rest] = graph.tensors.get(id)?.type?.shape ?? [];
    if (d && rest.length > 0) for (const s of I.symbolsOf(d)) leading.add(s);
  }
  const some = open.filter((d) => !leading.has(d));
  return some.length > 0 ? some : open;
}

function explain(first: Attempt, best: Attempt, open: readonly string[]): Diagnostic[] {
  const out: Diagnostic[] = [];
  const size = (d: string): number => best.graph.dims.get(d) ?? 1;
  const changed = open.filter((d) => size(d) !== first.graph.dims.get(d));
  const [some] = changed;
  if (some !== undefined)
    out.push(
      info(
        'SIZE_CHOSEN',
        `the file gives no size for ${listed(changed)}; ${size(some)} is taken, as with less some tensors would be empty or of sizes that don't fit. Another can be given: --dim ${some}=…, or the setting fusionLens.dims`,
      ),
    );
  const fixed = best.fixedDims.filter((d) => !first.fixedDims.includes(d));
  if (fixed.length > 0) {
    const cause = first.lowered.diagnostics.find((d) => d.severity === 'error')?.message;
    const sizes = fixed.map((d) => `${d} = ${size(d)}`);
    out.push(
      info(
        'SIZE_FIXED',
        `${listed(sizes)} ${sizes.length > 1 ? 'are' : 'is'} fixed: the plan is for no other size${cause === undefined ? '' : `. With a symbol: ${cause}`}`,
      ),
    );
  }
  return out;
}

function listed(items: readonly string[]): string {
  return items.length < 2
    ? items.join('')
    : `${items.slice(0, -1).join(', ')} and ${items.at(-1) ?? ''}`;
}

// ---------------------------------------------------------------------------------------------
// Graphs with other sizes

function withDims(graph: Graph, given: Readonly<Record<string, number>>): Graph {
  const dims = new Map(graph.dims);
  for (const [name, n] of Object.entries(given))
    if (dims.has(name) && Number.isInteger(n) && n >= 0) dims.set(name, n);
  return { ...graph, dims };
}

/** The graph with symbols replaced by their sizes, in types and in attributes. */
function withFixed(graph: Graph, names: readonly string[]): Graph {
  if (names.length === 0) return graph;
  const fixed = new Set(names);
  const dim = (d: Dim): Dim =>
    I.rewrite(d, (a) => {
      const n = a.kind === 'sym' && fixed.has(a.name) ? graph.dims.get(a.name) : undefined;
      return n === undefined ? undefined : I.num(n);
    });
  const type = (t: TensorType): TensorType => ({ ...t, shape: t.shape.map(dim) });
  const attr = (v: AttrValue): AttrValue =>
    typeof v === 'object' && 'dims' in v ? { dims: v.dims.map(dim) } : v;
  return {
    ...graph,
    tensors: new Map(
      [...graph.tensors].map(([id, t]) => [id, t.type ? { ...t, type: type(t.type) } : t]),
    ),
    nodes: graph.nodes.map((n): Node => ({
      ...n,
      attrs: Object.fromEntries(
        Object.entries(n.attrs).map(([k, v]) => [k, v === undefined ? undefined : attr(v)]),
      ),
    })),
  };
}

function dimDiagnostics(graph: Graph, given: Readonly<Record<string, number>>): Diagnostic[] {
  const out: Diagnostic[] = [];
  for (const [name, n] of Object.entries(given)) {
    if (!graph.dims.has(name)) {
      const known = [...graph.dims.keys()];
      out.push(
        error(
          'UNKNOWN_DIM',
          `the graph has no dim named '${name}'${known.length > 0 ? `; it has ${known.join(', ')}` : '; all its shapes are plain numbers'}`,
        ),
      );
    } else if (!Number.isInteger(n) || n < 0)
      out.push(error('BAD_DIM', `dim ${name} must be a whole number of at least 0, not ${n}`));
  }
  return out;
}
