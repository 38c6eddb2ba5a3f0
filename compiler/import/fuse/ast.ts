/**
 * The syntax tree of `.fuse`: what the text says, before names and ops are looked up.
 *
 * Vocabulary
 *  - *chain*: operands joined from left to right by operators of one precedence (`a + b - c`). It is
 *    one flat node, so that a very long sum is no deep tree.
 *  - *ordinal*: the how-many-eth op of its spelling within the statement, in source order. It makes
 *    the ids of nodes: an edit in another statement, or of another op, leaves them as they are.
 *  - *faulty*: what could not be read; a diagnostic says why.
 */
import type { Diagnostic, SourceRange } from '../../diagnostics';
import type { Relation } from '../../graph/graph';

export interface Named {
  readonly name: string;
  readonly range: SourceRange;
}

/** Where an op is spelled: a function's name or an operator's sign. */
export interface OpSite {
  /** The spelling that ids are made of: `relu`, or `add` for `+`. */
  readonly spelling: string;
  readonly range: SourceRange;
  readonly ordinal: number;
}

export type BinaryOperator =
  '+' | '-' | '*' | '/' | '//' | '%' | '@' | '**' | '&' | '|' | '^' | Relation;

export interface ChainLink {
  readonly operator: BinaryOperator;
  readonly site: OpSite;
  readonly right: Expression;
}

export interface Argument {
  readonly name?: Named;
  readonly value: Expression;
}

export type Expression = { readonly range: SourceRange } & (
  | {
      readonly kind: 'number';
      readonly value: number;
      readonly text: string;
      readonly whole: boolean;
    }
  | { readonly kind: 'string'; readonly value: string }
  | { readonly kind: 'bool'; readonly value: boolean }
  | { readonly kind: 'none' }
  | { readonly kind: 'name'; readonly name: string }
  | { readonly kind: 'list'; readonly items: readonly Expression[] }
  /** `-x`, or `~x`. */
  | { readonly kind: 'negate'; readonly operand: Expression; readonly site: OpSite }
  | { readonly kind: 'chain'; readonly first: Expression; readonly rest: readonly ChainLink[] }
  | {
      readonly kind: 'call';
      /** As written, module prefix and all: `F.relu`. */
      readonly callee: string;
      readonly site: OpSite;
      /** `x` of `x.relu()`. */
      readonly receiver?: Named;
      /** What stands before the point where that is no name: `relu(x)` of `relu(x).sum()`. */
      readonly on?: Expression;
      readonly args: readonly Argument[];
    }
  /** `x[:, 0]`: brackets right behind a value. */
  | {
      readonly kind: 'index';
      readonly base: Expression;
      readonly items: readonly Subscript[];
      readonly site: OpSite;
    }
  /** `?`: a size that is still to be written. */
  | { readonly kind: 'unknown' }
  | { readonly kind: 'faulty' }
);

/** What stands between the commas of `x[…]`. */
export type Subscript = { readonly range: SourceRange } & (
  | {
      readonly kind: 'range';
      readonly start?: Expression;
      readonly stop?: Expression;
      readonly step?: Expression;
    }
  /** `...`: all dims that the others leave. */
  | { readonly kind: 'rest' }
  /** A place, a tensor of places, or `none` for a new dim. */
  | { readonly kind: 'at'; readonly value: Expression }
);

export interface TypeSyntax {
  readonly dtype: Named;
  /** undefined: no brackets, a single number. */
  readonly shape?: readonly Expression[];
  readonly range: SourceRange;
}

export interface Setting {
  readonly key: Named;
  readonly value: Expression;
}

/** An expectation with names still unresolved. */
export type ExpectSyntax =
  | { readonly kind: 'kernels'; readonly relation: Relation; readonly count: number }
  | { readonly kind: 'bytes'; readonly relation: Relation; readonly bytes: number }
  | { readonly kind: 'fused'; readonly values: readonly Named[] }
  | { readonly kind: 'pattern'; readonly value: Named; readonly pattern: Named };

export type Statement = UnplacedStatement & {
  /** From the first token to the last. */
  readonly range: SourceRange;
  /** As written, without comments at the end. */
  readonly text: string;
  /** What it was read as, on other lines: see moved.ts. */
  readonly asRead?: Statement;
};

export type UnplacedStatement =
  | { readonly kind: 'dim'; readonly name: Named; readonly value?: Expression }
  | {
      readonly kind: 'input' | 'param';
      readonly names: readonly Named[];
      readonly type?: TypeSyntax;
    }
  | {
      readonly kind: 'const';
      readonly name: Named;
      readonly type?: TypeSyntax;
      readonly value?: Expression;
    }
  | {
      readonly kind: 'assign';
      readonly targets: readonly Named[];
      readonly value: Expression;
    }
  | { readonly kind: 'output'; readonly names: readonly Named[] }
  | { readonly kind: 'expect'; readonly expectation?: ExpectSyntax }
  | { readonly kind: 'materialize' | 'recompute' | 'fuse'; readonly values: readonly Named[] }
  | { readonly kind: 'nofuse'; readonly from: Named; readonly to: Named }
  | { readonly kind: 'schedule'; readonly value: Named; readonly settings: readonly Setting[] }
  | { readonly kind: 'faulty' };

export interface SyntaxTree {
  readonly statements: readonly Statement[];
  readonly diagnostics: readonly Diagnostic[];
}

/** The words that open a statement. They are names elsewhere: `output = relu(x)` is an assignment. */
export const KEYWORDS = [
  'dim',
  'input',
  'param',
  'const',
  'output',
  'expect',
  'materialize',
  'nofuse',
  'fuse',
  'recompute',
  'schedule',
] as const;
export type Keyword = (typeof KEYWORDS)[number];

/** The op that an operator stands for, by its spelling in `.fuse`: the first one that is known counts. */
export const OPERATOR_OPS: Readonly<Record<BinaryOperator, readonly string[]>> = {
  '+': ['add'],
  '-': ['sub'],
  '*': ['mul'],
  '/': ['div'],
  '//': ['floor_divide', 'floordiv', 'floor_div'],
  '%': ['remainder', 'mod', 'fmod'],
  '@': ['matmul'],
  '**': ['pow'],
  '&': ['bitwise_and'],
  '|': ['bitwise_or'],
  '^': ['bitwise_xor'],
  '<': ['lt', 'less'],
  '<=': ['le', 'less_equal'],
  '>': ['gt', 'greater'],
  '>=': ['ge', 'greater_equal'],
  '==': ['eq', 'equal'],
  '!=': ['ne', 'not_equal'],
};

/** The expressions that stand in a subscript. */
export function partsOf(s: Subscript): readonly Expression[] {
  switch (s.kind) {
    case 'range':
      return [s.start, s.stop, s.step].flatMap((e) => e ?? []);
    case 'at':
      return [s.value];
    case 'rest':
      return [];
  }
}

/** The names that a statement defines. */
export function definedNames(s: Statement): readonly Named[] {
  switch (s.kind) {
    case 'dim':
    case 'const':
      return [s.name];
    case 'input':
    case 'param':
      return s.names;
    case 'assign':
      return s.targets.some((t) => t.name === '_')
        ? s.targets.filter((t) => t.name !== '_')
        : s.targets;
    case 'output':
    case 'expect':
    case 'materialize':
    case 'recompute':
    case 'fuse':
    case 'nofuse':
    case 'schedule':
    case 'faulty':
      return [];
  }
}
