/**
 * What stands in the brackets of `x[…]`, bound: ranges and places become attributes of the op `index`
 * (compiler/ops/subscript.ts), tensors of places its operands.
 */
import { error, type SourceRange } from '../../diagnostics';
import type { Attrs, TensorId } from '../../graph/graph';
import { constOf, type Dim } from '../../ir/indexExpr';
import type { Expression, Subscript } from './ast';
import type { CallHost } from './calls';
import { asDim, describeValue, type Value } from './values';

export interface BoundSubscripts {
  readonly attrs: Attrs;
  readonly operands: readonly TensorId[];
  /** The place, where a single one that is known stands there. */
  readonly only?: number;
}

/** Undefined when some can't be read; that is reported. */
export function bindSubscripts(
  host: CallHost,
  items: readonly Subscript[],
  evaluate: (e: Expression) => Value,
): BoundSubscripts | undefined {
  const kinds: string[] = [];
  const bounds: Dim[] = [];
  const steps: number[] = [];
  const operands: TensorId[] = [];
  let ok = true;
  const fault = (code: string, message: string, range: SourceRange): void => {
    host.report(error(code, message, range));
    ok = false;
  };
  const size = (e: Expression | undefined, what: string): Dim | undefined => {
    const v = e && evaluate(e);
    if (!e || !v || v.kind === 'none') return undefined;
    const d = asDim(v);
    if (!d && v.kind === 'faulty') ok = false;
    else if (!d)
      fault(
        'WRONG_KIND',
        `${what} is a whole number or made of dims, not ${describeValue(v)}.`,
        e.range,
      );
    return d;
  };
  for (const s of items) {
    switch (s.kind) {
      case 'rest':
        if (kinds.includes('...'))
          fault(
            'BAD_INDEX',
            '... stands for all dims that are left: it can’t stand twice.',
            s.range,
          );
        kinds.push('...');
        break;
      case 'range': {
        const start = size(s.start, 'The start of a range');
        const stop = size(s.stop, 'The end of a range');
        const step = size(s.step, 'The step of a range');
        const n = step === undefined ? 1 : constOf(step);
        if (n === undefined || n === 0)
          fault('BAD_INDEX', 'The step of a range is a number other than 0.', s.range);
        kinds.push(`${start ? 'a' : ''}:${stop ? 'b' : ''}`);
        bounds.push(...[start, stop].flatMap((d) => d ?? []));
        steps.push(n ?? 1);
        break;
      }
      case 'at': {
        const v = evaluate(s.value);
        const place = asDim(v);
        if (v.kind === 'none') kinds.push('new');
        else if (place) {
          kinds.push('at');
          bounds.push(place);
        } else if (v.kind === 'tensor' || v.kind === 'list') {
          const id = host.tensor(v, s.range);
          if (id === undefined) {
            fault(
              'WRONG_KIND',
              `Places are whole numbers or a tensor of them, not ${describeValue(v)}.`,
              s.range,
            );
          } else if (operands.length > 0) {
            fault(
              'BAD_INDEX',
              'Only one tensor of places can stand in the brackets: use gather_nd for more.',
              s.range,
            );
          } else operands.push(id);
          kinds.push('pick');
        } else if (v.kind === 'faulty') ok = false;
        else
          fault(
            'WRONG_KIND',
            `A place is a whole number, made of dims, or a tensor of whole numbers, not ${describeValue(v)}.`,
            s.range,
          );
        break;
      }
    }
  }
  if (!ok) return undefined;
  const plain = bounds.map(constOf);
  const numbers = plain.flatMap((n) => n ?? []);
  const only = kinds.length === 1 && kinds[0] === 'at' ? numbers[0] : undefined;
  return {
    attrs: {
      items: kinds,
      bounds: numbers.length === bounds.length ? numbers : { dims: bounds },
      steps,
    },
    operands,
    ...(only === undefined ? {} : { only }),
  };
}
