/**
 * Results on their way from the worker to the host: only what is new.
 *
 * A result of a large file is some ten thousand objects, of which an edit changes a few; copying all of
 * them to the other thread, and back into objects there, takes about as long as finding out which they are.
 * So the worker says of each long list which parts of it stand in the version before, which the host has,
 * and the host makes the list of those very objects.
 *
 * Vocabulary
 *  - *base*: the version that was sent before, by which a change is told. Messages don't overtake each other,
 *    so that both ends have the same.
 *  - *run*: items that stand one after the other in the base, too; all of them, or all but some *fields*
 *    (kernels behind one that an edit brings have other numbers, lines behind it other places).
 */
import type { CompileResult } from '../../compiler/result';
import type {
  ChangedLists,
  ListChange,
  ListPart,
  ResultMessage,
  ResultRest,
} from '../contracts/compiler';

/** The worker's end, for one file. */
export class ResultSender {
  private base: CompileResult | undefined;

  send(result: CompileResult): ResultMessage {
    const { base } = this;
    this.base = result;
    if (!base) return { kind: 'whole', result };
    return {
      kind: 'change',
      base: base.version,
      rest: restOf(result),
      lists: changed(base, result),
    };
  }
}

/** The host's end, for one file. */
export class ResultReceiver {
  private base: CompileResult | undefined;

  /** Undefined where the change is of a version that isn't here: one of the two ends has a fault. */
  receive(message: ResultMessage): CompileResult | undefined {
    const result = this.result(message);
    this.base = result;
    return result;
  }

  private result(message: ResultMessage): CompileResult | undefined {
    if (message.kind === 'whole') return message.result;
    const { base } = this;
    if (base?.version !== message.base) return undefined;
    const { rest, lists } = message;
    return {
      ...rest,
      graph: {
        ...rest.graph,
        nodes: listOf(base.graph.nodes, lists.nodes),
        tensors: listOf(base.graph.tensors, lists.tensors),
        inputs: listOf(base.graph.inputs, lists.inputs),
        outputs: listOf(base.graph.outputs, lists.outputs),
      },
      before: { ...rest.before, kernels: listOf(base.before.kernels, lists.before) },
      after: {
        ...rest.after,
        kernels: listOf(base.after.kernels, lists.after),
        ...(lists.prepared ? { prepared: listOf(base.after.prepared ?? [], lists.prepared) } : {}),
      },
      decisions: listOf(base.decisions, lists.decisions),
    };
  }
}

function restOf(r: CompileResult): ResultRest {
  const { graph, before, after, decisions: _, ...rest } = r;
  const { nodes: _n, tensors: _t, inputs: _i, outputs: _o, ...graphRest } = graph;
  const { kernels: _b, ...beforeRest } = before;
  const { kernels: _a, prepared: _p, ...afterRest } = after;
  return { ...rest, graph: graphRest, before: beforeRest, after: afterRest };
}

function changed(base: CompileResult, r: CompileResult): ChangedLists {
  const id = (x: { readonly id: string }): string => x.id;
  // A kernel's own id is its place in the plan.
  const stored = (k: { readonly outputs: readonly string[] }): string => k.outputs[0] ?? '';
  return {
    nodes: changeOf(base.graph.nodes, r.graph.nodes, id),
    tensors: changeOf(base.graph.tensors, r.graph.tensors, id),
    inputs: changeOf(base.graph.inputs, r.graph.inputs, (t) => t),
    outputs: changeOf(base.graph.outputs, r.graph.outputs, (o) => o.tensor),
    before: changeOf(base.before.kernels, r.before.kernels, stored),
    after: changeOf(base.after.kernels, r.after.kernels, stored),
    ...(r.after.prepared
      ? { prepared: changeOf(base.after.prepared ?? [], r.after.prepared, stored) }
      : {}),
    decisions: changeOf(base.decisions, r.decisions, (d) => `${d.from} ${d.to} ${d.tensor}`),
  };
}

/** A run or new items, in the making. */
type OpenPart<T> =
  | { readonly from: number; count: number; readonly fields?: Readonly<Record<string, unknown[]>> }
  | { readonly items: T[] };

/**
 * @param keyOf what items have in common that stand for the same thing: where it is looked for. Whatever
 * differs is sent all the same.
 */
export function changeOf<T>(
  old: readonly T[],
  now: readonly T[],
  keyOf: (item: T) => unknown,
): ListChange<T> {
  const parts: OpenPart<T>[] = [];
  let places: Map<unknown, number> | undefined;
  const placeOf = (item: T): number | undefined => {
    if (!places) {
      places = new Map();
      for (let i = old.length - 1; i >= 0; i--) places.set(keyOf(old[i] as T), i);
    }
    return places.get(keyOf(item));
  };
  /** The place in the base where the next item is expected. */
  let next = 0;
  for (const item of now) {
    let at: number | undefined = next;
    const there = old[next];
    let fields = there === undefined ? undefined : differing(there, item);
    // What differs may be another thing altogether.
    if (!fields || (fields.length > 0 && keyOf(there as T) !== keyOf(item))) {
      at = placeOf(item);
      fields = at === undefined || at === next ? undefined : differing(old[at], item);
    }
    const last = parts[parts.length - 1];
    if (at === undefined || !fields) {
      if (last && 'items' in last) last.items.push(item);
      else parts.push({ items: [item] });
      // What is there in another form has taken its place.
      if (at !== undefined) next = at + 1;
      continue;
    }
    next = at + 1;
    if (
      last &&
      'from' in last &&
      last.from + last.count === at &&
      sameFields(last.fields, fields)
    ) {
      last.count++;
      for (const f of fields) last.fields?.[f]?.push(fieldOf(item, f));
    } else if (fields.length === 0) {
      parts.push({ from: at, count: 1 });
    } else {
      const columns = Object.fromEntries(fields.map((f) => [f, [fieldOf(item, f)]]));
      parts.push({ from: at, count: 1, fields: columns });
    }
  }
  return parts;
}

export function listOf<T>(base: readonly T[], change: ListChange<T>): readonly T[] {
  const [only] = change;
  // Nothing has changed: the very same list.
  if (change.length === 1 && only && isWhole(base, only)) return base;
  const out: T[] = [];
  for (const part of change) {
    if ('items' in part) {
      for (const item of part.items) out.push(item);
      continue;
    }
    const { from, count, fields } = part;
    const columns = fields ? Object.entries(fields) : [];
    for (let i = 0; i < count; i++) {
      const item = base[from + i];
      if (item === undefined) throw new Error('a change of another version');
      if (columns.length === 0) {
        out.push(item);
        continue;
      }
      const changedFields: Record<string, unknown> = {};
      for (const [name, values] of columns) changedFields[name] = values[i];
      out.push({ ...item, ...changedFields });
    }
  }
  return out;
}

function isWhole<T>(base: readonly T[], part: ListPart<T>): boolean {
  return 'from' in part && !part.fields && part.from === 0 && part.count === base.length;
}

const NO_FIELDS: readonly string[] = [];
/** With more fields that differ, an item is sent as it is. */
const FEW_FIELDS = 3;

/** The fields in which two items differ; undefined where they have too little in common. */
function differing(a: unknown, b: unknown): readonly string[] | undefined {
  if (a === b) return NO_FIELDS;
  if (!isObject(a) || !isObject(b) || Array.isArray(a) || Array.isArray(b)) return undefined;
  let out: string[] | undefined;
  let count = 0;
  for (const name in a) {
    count++;
    if (!(name in b)) return undefined;
    if (sameValue(a[name], b[name])) continue;
    if (!out) out = [name];
    else if (out.push(name) > FEW_FIELDS) return undefined;
  }
  for (const _ in b) count--;
  return count === 0 ? (out ?? NO_FIELDS) : undefined;
}

function sameValue(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (!isObject(a) || !isObject(b)) return false;
  if (Array.isArray(a)) {
    if (!Array.isArray(b) || a.length !== b.length) return false;
    for (let i = 0; i < a.length; i++) if (!sameValue(a[i], b[i])) return false;
    return true;
  }
  return differing(a, b)?.length === 0;
}

function isObject(x: unknown): x is Readonly<Record<string, unknown>> {
  return typeof x === 'object' && x !== null;
}

function fieldOf(item: unknown, name: string): unknown {
  return isObject(item) ? item[name] : undefined;
}

function sameFields(
  columns: Readonly<Record<string, unknown>> | undefined,
  fields: readonly string[],
): boolean {
  if (!columns) return fields.length === 0;
  let n = 0;
  for (const name in columns) {
    if (fields[n++] !== name) return false;
  }
  return n === fields.length;
}
