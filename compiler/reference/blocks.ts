/**
 * The text side of the reference's code generator: nested blocks of JavaScript statements, where
 * each computed name is put into the outermost block that knows everything it needs, once. That alone
 * hoists loop invariants and shares common subexpressions.
 *
 * Vocabulary
 *  - *level*: depth of a block in the loops; -1 outside all loops. An operand's level is that of the
 *    innermost loop variable it depends on.
 *  - *branch*: a block that runs under a condition. What loads from memory never leaves its branch,
 *    since it may be in range only there; plain arithmetic may.
 */

export interface Operand {
  readonly text: string;
  readonly level: number;
  /** It reads memory, so it must not be moved out of a branch. */
  readonly pinned: boolean;
}

export class Block {
  /** Definitions, run before `rest`. */
  readonly pre: string[] = [];
  readonly rest: string[] = [];
  readonly names = new Map<string, string>();
  readonly memo = new Map<string, Operand>();

  constructor(
    readonly parent: Block | undefined,
    readonly level: number,
    readonly branch: boolean,
    /** The innermost loop it is in, when that keeps running indices. */
    readonly loop: RunningIndices | undefined,
  ) {}

  lines(): string[] {
    return [...this.pre, ...this.rest];
  }

  /** Looks a name up here and outwards. */
  find(key: string): string | undefined {
    let name: string | undefined;
    for (let b: Block | undefined = this.up(); b && !name; b = b.parent) name = b.names.get(key);
    return name;
  }

  recall(key: string): Operand | undefined {
    let found: Operand | undefined;
    for (let b: Block | undefined = this.up(); b && !found; b = b.parent) found = b.memo.get(key);
    return found;
  }

  private up(): Block {
    return this;
  }

  /** The outermost block that may hold something of the level. */
  home(level: number, pinned: boolean): Block {
    let best: Block = this.up();
    for (;;) {
      const { parent } = best;
      if (!parent || (pinned && best.branch)) return best;
      // A branch has the level of the block around it.
      if (parent.level < level) return best;
      best = parent;
    }
  }
}

/** Indices that advance by a constant each trip of the innermost loop. */
export class RunningIndices {
  readonly inits: string[] = [];
  readonly steps: string[] = [];
  private readonly names = new Map<string, string>();

  constructor(
    readonly variable: string,
    readonly level: number,
    /** Where the loop starts: not at 0 in a later share of the outermost loop. */
    private readonly from: string,
  ) {}

  /** A running index that starts at `base` and advances by `stride`. */
  index(base: string, stride: number, fresh: () => string): string {
    const key = `${base}+${stride}`;
    const old = this.names.get(key);
    if (old) return old;
    const name = fresh();
    this.names.set(key, name);
    const start = this.from === '0' ? base : `(${base} + ${this.from} * ${stride})`;
    this.inits.push(`let ${name} = ${start};`);
    this.steps.push(`${name} = (${name} + ${stride}) | 0;`);
    return name;
  }
}

/** A JavaScript literal of any double. */
export function literal(n: number): string {
  if (Object.is(n, -0)) return '(-0)';
  if (n !== n) return 'NaN';
  if (n === Infinity) return 'Infinity';
  return n < 0 ? `(${n})` : String(n);
}
