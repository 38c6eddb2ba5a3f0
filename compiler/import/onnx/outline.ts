/**
 * A model file without the contents of its large tensors, read by ranges: opening a model takes the
 * time to read its graph, whatever its weights weigh.
 *
 * Vocabulary
 *  - *outline*: the file's bytes in order, with *cuts*.
 *  - *cut*: contents that were left out. One byte stands in its place, so that what lies before a cut
 *    and what lies behind it are two positions.
 *
 * {@link outlineOf} asks for ranges and is given their bytes: it knows neither files nor promises, so
 * the host decides how to read. It follows the messages that can hold tensors (`MESSAGES`, in step with
 * proto.ts), and of those only the large ones: everything else is copied as it is. What doesn't parse
 * is left to the importer, which says at which byte of the file, as the outline keeps positions.
 */

/** A part of the outline's file that isn't in `bytes`: at `at` there is one byte in place of `length`. */
export interface Cut {
  readonly at: number;
  readonly length: number;
}

export interface FileOutline {
  readonly bytes: Uint8Array;
  /** In order. */
  readonly cuts: readonly Cut[];
}

export interface ByteRange {
  readonly offset: number;
  readonly length: number;
}

export type OutlineResult =
  | { readonly ok: true; readonly outline: FileOutline }
  | { readonly ok: false; readonly message: string };

/**
 * Contents of initializers that are longer than this are left out. Nothing that the compiler looks into
 * is: it folds constants of up to 4096 elements, which take ten bytes each at most.
 */
export const LARGE_INITIALIZER = 64 * 1024;
/** The same for tensors among a node's attributes, where an op may have a table that it must know. */
export const LARGE_ATTRIBUTE = 1024 * 1024;
/** Strings of that length are nobody's names. */
const LARGE_OTHER = 1024 * 1024;

/** The most that is kept: a graph of 200,000 nodes takes a fifth of it. */
const MOST_KEPT = 256 * 2 ** 20;

/**
 * The most fields that are walked through. Those of small messages aren't: a model has one for each of
 * its nodes and tensors.
 */
const MOST_FIELDS = 8e6;

/** Bytes asked for after a jump; doubled while reading goes straight on. */
const FIRST_READ = 4 * 1024;
const LONGEST_READ = 1024 * 1024;

type Kind = 'model' | 'graph' | 'node' | 'attribute' | 'function' | 'sparse' | Tensor;
type Tensor = 'initializer' | 'attributeTensor';

/** By field: the messages inside a message that can hold tensors. */
const MESSAGES: Readonly<Record<Kind, Readonly<Record<number, Kind>>>> = {
  model: { 7: 'graph', 25: 'function' },
  graph: { 1: 'node', 5: 'initializer', 15: 'sparse' },
  node: { 5: 'attribute' },
  attribute: { 5: 'attributeTensor', 6: 'graph', 10: 'attributeTensor', 11: 'graph' },
  function: { 7: 'node', 11: 'attribute' },
  sparse: { 1: 'initializer', 2: 'initializer' },
  initializer: {},
  attributeTensor: {},
};

/** `float_data`, `int32_data`, `int64_data`, `raw_data`, `double_data`, `uint64_data`. */
const CONTENTS: ReadonlySet<number> = new Set([4, 5, 7, 9, 10, 11]);

/** By field: what of it is left out above which length. Lists of numbers among attributes are kept. */
function largest(kind: Kind, field: number): number {
  switch (kind) {
    case 'initializer':
      return CONTENTS.has(field) ? LARGE_INITIALIZER : LARGE_OTHER;
    case 'attributeTensor':
      return CONTENTS.has(field) ? LARGE_ATTRIBUTE : LARGE_OTHER;
    case 'attribute':
      return field === 7 || field === 8 ? Infinity : LARGE_OTHER;
    case 'model':
    case 'graph':
    case 'node':
    case 'function':
    case 'sparse':
      return LARGE_OTHER;
  }
}

const MAX_FIELD = 2 ** 29 - 1;

/** Messages nested deeper than the importer follows are left to it. */
const MAX_DEPTH = 100;

export function* outlineOf(size: number): Generator<ByteRange, OutlineResult, Uint8Array> {
  const scan = new Scan(size);
  // What encloses the place, and where that ends in the file.
  const open: { readonly kind: Kind; readonly end: number }[] = [{ kind: 'model', end: size }];
  for (let fields = 0; ; fields++) {
    const inside = open[open.length - 1];
    if (!inside) break;
    if (scan.position >= inside.end) {
      open.pop();
      continue;
    }
    const tag = yield* scan.varint(inside.end);
    if (tag === undefined) break;
    const field = Math.floor(tag / 8);
    // No field has such a number: the importer says so.
    if (field === 0 || field > MAX_FIELD) break;
    if (fields > MOST_FIELDS)
      return {
        ok: false,
        message: `it has more than ${MOST_FIELDS / 1e6} million nodes and tensors`,
      };
    const wireType = tag % 8;
    if (wireType === 0) {
      if ((yield* scan.varint(inside.end)) === undefined) break;
    } else if (wireType === 1 || wireType === 5) {
      const length = wireType === 1 ? 8 : 4;
      if (scan.position + length > inside.end) break;
      yield* scan.copy(length);
    } else if (wireType === 2) {
      const length = yield* scan.varint(inside.end);
      if (length === undefined || length > inside.end - scan.position) break;
      const kind = MESSAGES[inside.kind][field];
      if (length <= LARGE_INITIALIZER) yield* scan.copy(length);
      else if (kind !== undefined) {
        if (open.length > MAX_DEPTH) break;
        open.push({ kind, end: scan.position + length });
      } else if (length > largest(inside.kind, field)) scan.cut(length);
      else yield* scan.copy(length);
    } else break;
    if (scan.kept > MOST_KEPT)
      return {
        ok: false,
        message: `without the contents of its large tensors it still has more than ${MOST_KEPT / 2 ** 20} MiB`,
      };
  }
  // What follows a fault isn't read by the importer either, which says what the fault is.
  if (scan.position < size) scan.cut(size - scan.position);
  return { ok: true, outline: scan.outline() };
}

/** A place in the file, with the bytes around it that were read, and what was kept so far. */
class Scan {
  position = 0;
  kept = 0;
  private window: Uint8Array = new Uint8Array(0);
  /** Where in the file the window begins. */
  private start = 0;
  private reading = FIRST_READ;
  private bytes = new Uint8Array(FIRST_READ);
  private readonly cuts: Cut[] = [];

  constructor(private readonly size: number) {}

  /** Copies bytes that are known to be in the file; a file that ends before is cut there. */
  *copy(length: number): Generator<ByteRange, void, Uint8Array> {
    for (let rest = length; rest > 0 && this.kept <= MOST_KEPT;) {
      const there = yield* this.available();
      if (there === 0) return;
      const count = Math.min(there, rest);
      this.keep(count);
      rest -= count;
    }
  }

  /** Copies a number of at most ten bytes and gives it; undefined where there is none. */
  *varint(end: number): Generator<ByteRange, number | undefined, Uint8Array> {
    let value = 0;
    for (let i = 0; i < 10 && this.position < end; i++) {
      if ((yield* this.available()) === 0) return undefined;
      const byte = this.window[this.position - this.start] ?? 0;
      this.keep(1);
      value += (byte & 0x7f) * 2 ** (7 * i);
      if (byte < 0x80) return value;
    }
    return undefined;
  }

  cut(length: number): void {
    this.cuts.push({ at: this.kept, length });
    this.room(1);
    this.kept++;
    this.position += length;
  }

  outline(): FileOutline {
    return { bytes: this.bytes.slice(0, this.kept), cuts: this.cuts };
  }

  /** The next bytes, which lie in the window. */
  private keep(count: number): void {
    const from = this.position - this.start;
    this.room(count);
    this.bytes.set(this.window.subarray(from, from + count), this.kept);
    this.kept += count;
    this.position += count;
  }

  private room(count: number): void {
    if (this.kept + count <= this.bytes.length) return;
    const larger = new Uint8Array(2 * (this.kept + count));
    larger.set(this.bytes.subarray(0, this.kept));
    this.bytes = larger;
  }

  /** How many bytes of the window lie ahead; 0 only at the end of the file. */
  private *available(): Generator<ByteRange, number, Uint8Array> {
    const ahead = this.start + this.window.length - this.position;
    if (ahead > 0) return ahead;
    const straightOn = ahead === 0 && this.position > 0;
    this.reading = straightOn ? Math.min(2 * this.reading, LONGEST_READ) : FIRST_READ;
    const length = Math.min(this.reading, this.size - this.position);
    this.start = this.position;
    this.window = length <= 0 ? new Uint8Array(0) : yield { offset: this.position, length };
    return this.window.length;
  }
}

/** The outline of a file that is read by `read`; which gives fewer bytes only where the file ends. */
export async function readOutline(
  size: number,
  read: (range: ByteRange) => Promise<Uint8Array>,
): Promise<OutlineResult> {
  const steps = outlineOf(size);
  let step = steps.next(new Uint8Array(0));
  while (!step.done) step = steps.next(await read(step.value));
  return step.value;
}
