/**
 * Statements on other lines: what stands behind lines that come or go is read as it was, but for its place.
 *
 * Nearly nobody looks for the places inside a statement that means what it meant: they are found when
 * somebody does.
 */
import type { SourceRange } from '../../diagnostics';
import type { Statement, TypeSyntax, Named, Expression } from './ast';

/** The statement that the text was read to; another one where it has moved since. */
export function asRead(s: Statement): Statement {
  return s.asRead ?? s;
}

/** The statement so many lines further down. */
export function movedStatement(s: Statement, by: number): Statement {
  if (by === 0) return s;
  const origin = asRead(s);
  const lines = by + s.range.start.line - origin.range.start.line;
  if (lines === 0) return origin;
  switch (origin.kind) {
    case 'assign':
      return new MovedAssignment(origin, lines);
    case 'input':
    case 'param':
      return new MovedDeclaration(origin, lines);
    case 'dim':
    case 'const':
    case 'output':
    case 'expect':
    case 'materialize':
    case 'recompute':
    case 'fuse':
    case 'nofuse':
    case 'schedule':
    case 'faulty':
      return { ...placesMoved(origin, lines), asRead: origin };
  }
}

export function movedRange({ start, end }: SourceRange, by: number): SourceRange {
  return {
    start: { line: start.line + by, column: start.column },
    end: { line: end.line + by, column: end.column },
  };
}

type Assignment = Extract<Statement, { readonly kind: 'assign' }>;
type Declaration = Extract<Statement, { readonly kind: 'input' | 'param' }>;

class MovedAssignment {
  readonly kind = 'assign';
  readonly range: SourceRange;
  readonly text: string;
  private whole: Assignment | undefined;

  constructor(
    readonly asRead: Assignment,
    private readonly by: number,
  ) {
    this.range = movedRange(asRead.range, by);
    this.text = asRead.text;
  }

  get targets(): readonly Named[] {
    return (this.whole ??= placesMoved(this.asRead, this.by)).targets;
  }

  get value(): Expression {
    return (this.whole ??= placesMoved(this.asRead, this.by)).value;
  }
}

class MovedDeclaration {
  readonly kind: 'input' | 'param';
  readonly range: SourceRange;
  readonly text: string;
  private whole: Declaration | undefined;

  constructor(
    readonly asRead: Declaration,
    private readonly by: number,
  ) {
    this.kind = asRead.kind;
    this.range = movedRange(asRead.range, by);
    this.text = asRead.text;
  }

  get names(): readonly Named[] {
    return (this.whole ??= placesMoved(this.asRead, this.by)).names;
  }

  get type(): TypeSyntax | undefined {
    return (this.whole ??= placesMoved(this.asRead, this.by)).type;
  }
}

/** The same with every position in it so many lines further down. */
function placesMoved<T>(x: T, by: number): T {
  return moved(x, by) as T;
}

function moved(x: unknown, by: number): unknown {
  if (typeof x !== 'object' || x === null) return x;
  if (Array.isArray(x)) return x.map((item) => moved(item, by));
  if (isPosition(x)) return { line: x.line + by, column: x.column };
  const out: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(x)) out[name] = moved(value, by);
  return out;
}

function isPosition(x: object): x is { readonly line: number; readonly column: number } {
  return 'line' in x && 'column' in x && typeof x.line === 'number';
}
