/**
 * Guessing declarations: what the uses of undeclared names tell about their shapes.
 *
 * Textbooks write `Y = X @ W` and leave the declarations out. This pass reads such a file and
 * proposes `input X: f32[M, K]`, `param W: f32[K, N]` and the dims: sizes that must be equal get one
 * name. It is a proposal for a quick fix (and a placeholder that lets the graph be shown meanwhile),
 * never a silent meaning: the name stays an error until it is declared.
 *
 * Vocabulary
 *  - *size*: a number or a dim's name, as text.
 *  - *guess*: the role and the sizes of an undeclared name.
 */
import type { Expression, Statement } from './ast';
import { dtypeOf, NUMBER_NAMES } from './values';

export interface Guess {
  readonly role: 'input' | 'param';
  readonly sizes: readonly string[];
}

export interface Guesses {
  readonly names: ReadonlyMap<string, Guess>;
  /** Dims that the guesses use and the file doesn't define. */
  readonly newDims: readonly string[];
}

type Sizes = readonly string[] | undefined;

/** Ops whose result has the first operand's shape. */
const SHAPE_KEEPING = new Set(
  (
    'relu gelu silu sigmoid tanh exp log sqrt rsqrt erf abs neg softmax log_softmax layer_norm layernorm ' +
    'rms_norm group_norm batch_norm leaky_relu elu selu softplus hardswish mish clamp cast dropout square ' +
    'sin cos floor ceil round sign cumsum relu6 hardsigmoid'
  ).split(' '),
);
const ELEMENTWISE = new Set('add sub mul div pow maximum minimum lt le gt ge eq ne'.split(' '));
const MATRIX_PRODUCTS = new Set(['matmul', 'mm', 'bmm']);
const DENSE = new Set(['linear', 'dense']);
/** Ops whose further operands lie along the last dim. */
const NORMS = new Set(['layer_norm', 'layernorm', 'rms_norm', 'rmsnorm']);

/** A file with more undeclared names than this isn't a sketch that wants its declarations. */
const MOST_GUESSES = 40;

const BIAS_LIKE = /^(b|b\d+|.*bias.*|beta|gamma|scale|shift|.*_b)$/i;

export function guessDeclarations(statements: readonly Statement[]): Guesses {
  const guesser = new Guesser(statements);
  for (const s of statements) guesser.visit(s);
  return { names: guesser.guesses, newDims: guesser.newDims };
}

class Guesser {
  readonly guesses = new Map<string, Guess>();
  readonly newDims: string[] = [];
  /** Shapes of what is declared or assigned so far; undefined where unknown. */
  private readonly shapes = new Map<string, Sizes>();
  private readonly defined = new Set<string>();

  constructor(statements: readonly Statement[]) {
    for (const s of statements) {
      if (s.kind === 'dim' || s.kind === 'const') this.defined.add(s.name.name);
      else if (s.kind === 'input' || s.kind === 'param')
        for (const n of s.names) this.defined.add(n.name);
      else if (s.kind === 'assign') for (const n of s.targets) this.defined.add(n.name);
    }
  }

  visit(s: Statement): void {
    switch (s.kind) {
      case 'input':
      case 'param': {
        const sizes = s.type?.shape?.map(sizeText);
        const known = sizes?.every((x): x is string => x !== undefined) ? sizes : undefined;
        for (const n of s.names) this.shapes.set(n.name, known);
        break;
      }
      case 'assign': {
        const sizes = this.shapeOf(s.value);
        const only = s.targets.length === 1 ? s.targets[0] : undefined;
        if (only) this.shapes.set(only.name, sizes);
        break;
      }
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
        break;
    }
  }

  /** The name of an undeclared operand that has no guess yet. */
  private open(e: Expression | undefined): string | undefined {
    if (this.guesses.size >= MOST_GUESSES) return undefined;
    if (e?.kind !== 'name' || this.defined.has(e.name) || this.guesses.has(e.name))
      return undefined;
    return NUMBER_NAMES.has(e.name) || dtypeOf(e.name) ? undefined : e.name;
  }

  private guess(name: string | undefined, sizes: Sizes, role: 'input' | 'param'): void {
    if (name !== undefined && sizes) this.guesses.set(name, { role, sizes });
  }

  /** A dim name that nothing uses yet: one of the usual letters, then with numbers. */
  private fresh(...letters: string[]): string {
    for (let n = 1; ; n++) {
      for (const letter of letters) {
        const name = n === 1 ? letter : `${letter}${n}`;
        if (this.defined.has(name)) continue;
        this.defined.add(name);
        this.newDims.push(name);
        return name;
      }
    }
  }

  private shapeOf(e: Expression): Sizes {
    switch (e.kind) {
      case 'name':
        return this.guesses.get(e.name)?.sizes ?? this.shapes.get(e.name);
      case 'number':
      case 'bool':
        return [];
      case 'negate':
        this.closeUnary(e.operand);
        return this.shapeOf(e.operand);
      case 'chain': {
        let left = this.shapeOf(e.first);
        let leftOpen = this.open(e.first);
        for (const link of e.rest) {
          left =
            link.operator === '@'
              ? this.product(leftOpen, left, link.right, false)
              : this.elementwise(leftOpen, left, link.right);
          leftOpen = undefined;
        }
        return left;
      }
      case 'call':
        return this.call(e);
      case 'index':
        this.closeUnary(e.base);
        return undefined;
      case 'string':
      case 'none':
      case 'list':
      case 'unknown':
      case 'faulty':
        return undefined;
    }
  }

  private call(e: Expression & { kind: 'call' }): Sizes {
    const op = e.site.spelling;
    const args = [...(e.on ? [e.on] : []), ...e.args.map((a) => a.value)];
    const [first, second] = args;
    if (!first) return undefined;
    if (second && (MATRIX_PRODUCTS.has(op) || DENSE.has(op))) {
      const left = this.shapeOf(first);
      const out = this.product(this.open(first), left, second, DENSE.has(op));
      const bias = this.open(args[2]);
      this.guess(bias, out && out.slice(-1), 'param');
      return out;
    }
    if (second && ELEMENTWISE.has(op)) {
      return this.elementwise(this.open(first), this.shapeOf(first), second);
    }
    if (/^conv\dd$/.test(op) && second)
      return this.convolution(first, second, args[2], Number(op[4]));
    this.closeUnary(first);
    const sizes = this.shapeOf(first);
    for (const more of args.slice(1)) {
      if (NORMS.has(op)) this.guess(this.open(more), sizes && sizes.slice(-1), 'param');
      else this.shapeOf(more);
    }
    return SHAPE_KEEPING.has(op) ? sizes : undefined;
  }

  /** An undeclared operand of which nothing else is known: a matrix. */
  private closeUnary(e: Expression): void {
    const name = this.open(e);
    if (name !== undefined) this.guess(name, [this.fresh('M'), this.fresh('N')], 'input');
  }

  /** `left @ right`, or `left @ transpose(right)` for dense layers. */
  private product(
    leftOpen: string | undefined,
    left: Sizes,
    right: Expression,
    dense: boolean,
  ): Sizes {
    const rightOpen = this.open(right);
    let b = this.shapeOf(right);
    let a = left;
    if (leftOpen !== undefined && a === undefined) {
      const inner = b && (dense ? b.at(-1) : b.length > 1 ? b.at(-2) : b[0]);
      a = [this.fresh('M'), inner ?? this.fresh('K')];
      this.guess(leftOpen, a, 'input');
    }
    if (rightOpen !== undefined && a && a.length > 0) {
      const inner = a.at(-1) ?? this.fresh('K');
      const outer = this.fresh('N', 'P', 'Q');
      b = dense ? [outer, inner] : [inner, outer];
      this.guess(rightOpen, b, 'param');
    }
    const last = dense ? b?.at(-2) : b?.at(-1);
    return a && last !== undefined ? [...a.slice(0, -1), last] : undefined;
  }

  private elementwise(leftOpen: string | undefined, left: Sizes, right: Expression): Sizes {
    const rightOpen = this.open(right);
    let a = left;
    let b = this.shapeOf(right);
    // With an operand of known rank the other is alike, or a bias along its last dim.
    const alike = (name: string, other: readonly string[]): readonly string[] =>
      BIAS_LIKE.test(name) && other.length > 0 ? other.slice(-1) : other;
    if (leftOpen !== undefined && rightOpen !== undefined) {
      const full = [this.fresh('M'), this.fresh('N')];
      a = alike(leftOpen, full);
      b = leftOpen === rightOpen ? a : alike(rightOpen, full);
    } else if (leftOpen !== undefined) {
      a = b && b.length > 0 ? alike(leftOpen, b) : [this.fresh('M'), this.fresh('N')];
    } else if (rightOpen !== undefined) {
      b = a && a.length > 0 ? alike(rightOpen, a) : undefined;
    }
    if (leftOpen !== undefined) this.guess(leftOpen, a, roleOf(leftOpen));
    if (rightOpen !== undefined && rightOpen !== leftOpen)
      this.guess(rightOpen, b, roleOf(rightOpen));
    if (!a || !b) return undefined;
    return a.length >= b.length ? a : b;
  }

  private convolution(
    x: Expression,
    w: Expression,
    bias: Expression | undefined,
    rank: number,
  ): Sizes {
    const side = rank === 1 ? '256' : rank === 2 ? '56' : '16';
    const spatial = Array.from({ length: rank }, () => side);
    this.guess(this.open(x), ['1', '32', ...spatial], 'input');
    const channels = this.shapeOf(x)?.[1];
    if (channels !== undefined) {
      const kernel = Array.from({ length: rank }, () => '3');
      this.guess(this.open(w), ['32', channels, ...kernel], 'param');
    }
    const out = this.shapeOf(w)?.[0];
    if (out !== undefined) this.guess(this.open(bias), [out], 'param');
    // Strides and pads decide the rest.
    return undefined;
  }
}

function roleOf(name: string): 'input' | 'param' {
  return BIAS_LIKE.test(name) ? 'param' : 'input';
}

/** A size's text where it is a plain number or a dim's name. */
function sizeText(e: Expression): string | undefined {
  if (e.kind === 'number') return e.text;
  return e.kind === 'name' ? e.name : undefined;
}
