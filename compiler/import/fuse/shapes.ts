/**
 * Shapes as values: `x.shape`, `x.size(0)`, `B, N, C = x.size()`.
 *
 * Of inputs and parameters the file says them. Those of computed tensors only lowering knows: the binder
 * writes down which it would like to know and goes on without; its driver lowers that graph, answers,
 * and binds the file again. Ids come from names, so they are the same in each round.
 */
import type { TensorId } from '../../graph/graph';
import { type Dim, product } from '../../ir/indexExpr';
import { sizeValue, type Value } from './values';

export type Shape = readonly Dim[];

/** An answer to come: this round's graph is a draft. */
export const ASKED = Symbol('asked');

export class AskedShapes {
  private readonly known = new Map<TensorId, Shape | undefined>();
  private readonly wanted = new Set<TensorId>();

  of(tensor: TensorId): Shape | undefined | typeof ASKED {
    if (this.known.has(tensor)) return this.known.get(tensor);
    this.wanted.add(tensor);
    return ASKED;
  }

  /** Whether the graph at hand is a draft. */
  get open(): boolean {
    return this.wanted.size > 0;
  }

  /** What isn't known although nothing else has come to be known never will be; `last`: nor what isn't now. */
  answer(shapeOf: (tensor: TensorId) => Shape | undefined, last: boolean): void {
    let news = false;
    for (const t of this.wanted) {
      const s = shapeOf(t);
      if (!s) continue;
      this.known.set(t, s);
      news = true;
    }
    if (!news || last)
      for (const t of this.wanted) if (!this.known.has(t)) this.known.set(t, undefined);
    this.wanted.clear();
  }
}

/** Methods and attributes that ask for a shape. */
const QUERIES: ReadonlySet<string> = new Set(['size', 'shape', 'dim', 'ndim', 'numel']);

export function asksForShape(name: string): boolean {
  return QUERIES.has(name);
}

/** What the question is answered with; a fault as text. */
export function answerOf(
  name: string,
  shape: Shape,
  axis: Value | undefined,
): Value | { readonly fault: string } {
  switch (name) {
    case 'dim':
    case 'ndim':
      return { kind: 'number', value: shape.length, whole: true };
    case 'numel':
      return sizeValue(product(shape));
    default:
      break;
  }
  if (!axis) return { kind: 'list', items: shape.map(sizeValue) };
  const n = axis.kind === 'number' ? axis.value : NaN;
  const d = shape[n < 0 ? n + shape.length : n];
  return d
    ? sizeValue(d)
    : {
        fault: `It has ${shape.length} dims: one is taken by a number from 0 to ${shape.length - 1}.`,
      };
}

/** The devices that PyTorch code names; where it runs is no matter of the graph. */
export function isDevice(v: Value): boolean {
  return v.kind === 'string' && /^(cuda|cpu|mps|xpu|meta)(:\d+)?$/.test(v.value);
}

/** `float('-inf')`: a number that is written as text. */
export function numberInText(v: Value | undefined): Value | undefined {
  if (v?.kind !== 'string') return undefined;
  const text = v.value.trim().toLowerCase();
  const named = /^([+-]?)(inf|infinity|nan)$/.exec(text);
  const value = named
    ? named[2] === 'nan'
      ? NaN
      : named[1] === '-'
        ? -Infinity
        : Infinity
    : Number(text === '' ? 'x' : text);
  return named || !Number.isNaN(value) ? { kind: 'number', value, whole: false } : undefined;
}
