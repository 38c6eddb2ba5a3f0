/**
 * What a host may keep of a `.fuse` text between its versions: how it was read, and what each statement
 * was bound to.
 *
 * A statement means what it meant before where it is the very same (see reparse.ts), defines names that
 * nothing before it defines, and the names that it uses mean the very same. Then its nodes and tensors are
 * taken again. What had something to report is bound anew: what is reported may depend on the whole file.
 */
import type { Node, Tensor, TensorId } from '../../graph/graph';
import type { Statement } from './ast';
import type { Definition } from './binder';
import { TextMemory } from './reparse';
import type { Value } from './values';

/** What binding a statement did. */
export interface StatementRecord {
  /** What its ids build on. */
  base: string;
  /** What it took names for; undefined where nothing defined them. */
  readonly used: Map<string, Value | undefined>;
  readonly claimed: string[];
  readonly defined: Omit<Definition, 'used'>[];
  readonly nodes: Node[];
  readonly tensors: Tensor[];
  readonly inputs: TensorId[];
  readonly dims: (readonly [name: string, size: number])[];
  /** Whether it hangs on more than is written down here. */
  unusual: boolean;
}

export function emptyRecord(): StatementRecord {
  return {
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
    return this.old.get(s);
  }

  keep(s: Statement, record: StatementRecord): void {
    this.records.set(s, record);
  }
}
