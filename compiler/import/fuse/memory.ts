/**
 * What a host may keep of a `.fuse` text between its versions: how it was read, and what each statement
 * was bound to.
 *
 * A statement means what it meant before where it is the very same (see reparse.ts), defines names that
 * were taken as often before it, and the names that it uses mean the very same. Then its nodes and tensors are
 * taken again; on other lines, with other places. What had something to report is bound anew: what is reported may depend on the whole file.
 */
import type { SourceRange } from '../../diagnostics';
import type { Node, Tensor, TensorId } from '../../graph/graph';
import type { Statement } from './ast';
import type { Definition } from './binder';
import { asRead, movedRange } from './moved';
import { TextMemory } from './reparse';
import type { Value } from './values';

/** What binding a statement did. */
export interface StatementRecord {
  /** The line that the statement starts in, in all places below. */
  line: number;
  /** What its ids build on. */
  base: string;
  /** What it took names for; undefined where nothing defined them. */
  readonly used: Map<string, Value | undefined>;
  /** Names, each with how many times it was taken by then. */
  readonly claimed: (readonly [name: string, time: number])[];
  readonly defined: Omit<Definition, 'used'>[];
  readonly nodes: Node[];
  readonly tensors: Tensor[];
  readonly inputs: TensorId[];
  readonly dims: (readonly [name: string, size: number])[];
  /** Whether it hangs on more than is written down here. */
  unusual: boolean;
}

export function emptyRecord(line: number): StatementRecord {
  return {
    line,
    base: '',
    used: new Map(),
    claimed: [],
    defined: [],
    nodes: [],
    tensors: [],
    inputs: [],
    dims: [],
    unusual: false,
  };
}

/**
 * What binding the statement does where it stands on other lines; undefined where it is told of places
 * outside of it, which may have moved in another way.
 */
export function movedRecord(r: StatementRecord, { range }: Statement): StatementRecord | undefined {
  const by = range.start.line - r.line;
  if (by === 0) return r;
  const last = range.end.line - by;
  const moved = <T extends { readonly range?: SourceRange }>(x: T): T =>
    x.range ? { ...x, range: movedRange(x.range, by) } : x;
  const inside = (x: { readonly range?: SourceRange }): boolean =>
    !x.range || (x.range.start.line >= r.line && x.range.end.line <= last);
  if (!r.tensors.every(inside) || !r.nodes.every(inside)) return undefined;
  // A declared number knows its place.
  if (r.defined.some((d) => d.value.kind === 'number' || d.value.kind === 'list')) return undefined;
  return {
    ...r,
    line: range.start.line,
    defined: r.defined.map((d) => ({ ...d, name: moved(d.name) })),
    nodes: r.nodes.map(moved),
    tensors: r.tensors.map(moved),
  };
}

export class FuseMemory {
  readonly text = new TextMemory();
  private records = new Map<Statement, StatementRecord>();
  private old: ReadonlyMap<Statement, StatementRecord> = new Map();

  /** Before a version is bound: what isn't taken over is forgotten. */
  begin(): void {
    this.old = this.records;
    this.records = new Map();
  }

  end(): void {
    this.old = new Map();
  }

  record(s: Statement): StatementRecord | undefined {
    return this.old.get(asRead(s));
  }

  keep(s: Statement, record: StatementRecord): void {
    this.records.set(asRead(s), record);
  }
}
