/**
 * Constant tensors: what numbers, flags and lists of numbers become where a tensor is expected.
 *
 * A number alone is *weak*: it has rank 0 and takes the dtype of the tensors it is combined with. A
 * list, or a const with a declared type, has a dtype of its own.
 */
import { error, type Diagnostic, type SourceRange } from '../../diagnostics';
import { isFloat, type DType } from '../../graph/dtype';
import type { TensorId, TensorType } from '../../graph/graph';
import { constOf, num, type Dim } from '../../ir/indexExpr';
import type { GraphBuilder } from './graphBuilder';
import { describeValue, printNumber, type Value } from './values';

/** Literal tensors with more elements than this don't belong in a text file. */
const LARGEST_LITERAL = 65_536;
/** How many elements of a list its name shows. */
const SHOWN = 4;

export interface ConstantName {
  readonly id: TensorId;
  readonly name: string;
  /** Where the constant is declared, or its literal stands. */
  readonly range: SourceRange;
}

export class Constants {
  constructor(
    private readonly graph: Pick<GraphBuilder, 'addTensor' | 'hasTensor'>,
    private readonly report: (d: Diagnostic) => void,
  ) {}

  /** The value as a tensor, within the statement that ids build on; undefined when it can't be one. */
  tensor(v: Value, base: string, range: SourceRange): TensorId | undefined {
    switch (v.kind) {
      case 'tensor':
        return v.id;
      case 'number':
        return this.weak(v, base, range);
      case 'bool': {
        const name = String(v.value);
        const place = { id: `${base}/=${name}`, name, range };
        return this.typed(place, v, { dtype: 'bool', shape: [] }, range);
      }
      case 'list': {
        const flat = flatten(v);
        if (!flat) return undefined;
        const dtype: DType = flat.bools ? 'bool' : flat.whole ? 'i64' : 'f32';
        const text = flat.values.slice(0, SHOWN).map(printNumber).join(',');
        const long = flat.values.length > SHOWN;
        const name = `[${text}${long ? ',…' : ''}]`;
        const id = `${base}/=${name}${long ? `@${range.start.column}` : ''}`;
        return this.typed({ id, name, range }, v, { dtype, shape: flat.shape.map(num) }, range);
      }
      case 'string':
      case 'dtype':
      case 'none':
      case 'size':
      case 'results':
      case 'faulty':
        return undefined;
    }
  }

  private weak(v: Value & { kind: 'number' }, base: string, range: SourceRange): TensorId {
    const literal = literalName(v.value, v.whole);
    const id = v.constant?.id ?? `${base}/=${literal}`;
    if (!this.graph.hasTensor(id)) {
      this.graph.addTensor({
        id,
        name: v.constant?.name ?? literal,
        type: { dtype: v.whole ? 'i64' : 'f32', shape: [] },
        role: 'const',
        data: { kind: 'numbers', values: [v.value] },
        weak: true,
        range: v.constant?.range ?? range,
      });
    }
    return id;
  }

  /** A constant of a given type; a single number fills it. `where` is the value's place, for faults. */
  typed(
    { id, name, range }: ConstantName,
    v: Value,
    type: TensorType,
    where: SourceRange,
  ): TensorId | undefined {
    const flat = flatten(v);
    if (!flat) {
      const message = `A constant is a number or an even list of at most ${LARGEST_LITERAL} numbers, not ${describeValue(v)}.`;
      this.report(error('NOT_CONSTANT', message, where));
      return undefined;
    }
    if (!isFloat(type.dtype) && flat.values.some((x) => !Number.isInteger(x))) {
      const message = `These numbers aren’t whole, so they are no ${type.dtype}.`;
      this.report(error('WRONG_KIND', message, where));
      return undefined;
    }
    const single = flat.shape.length === 0 ? flat.values[0] : undefined;
    if (single === undefined && !sameShape(type.shape, flat.shape)) {
      const message = `The list has shape [${flat.shape.join(', ')}], but its type says otherwise.`;
      this.report(error('SHAPE_MISMATCH', message, where));
      return undefined;
    }
    const data =
      single !== undefined && type.shape.length > 0
        ? { kind: 'fill' as const, value: single }
        : { kind: 'numbers' as const, values: flat.values };
    this.graph.addTensor({ id, name, type, role: 'const', data, range });
    return id;
  }
}

function sameShape(shape: readonly Dim[], sizes: readonly number[]): boolean {
  return shape.length === sizes.length && shape.every((d, i) => constOf(d) === sizes[i]);
}

/** A literal's name; a whole number that was written with a point keeps one. */
function literalName(value: number, whole: boolean): string {
  const text = printNumber(value);
  return whole || !/^-?\d+$/.test(text) ? text : `${text}.0`;
}

interface Flat {
  readonly values: readonly number[];
  readonly shape: readonly number[];
  readonly whole: boolean;
  readonly bools: boolean;
}

/** A number, or nested lists of numbers of one shape, row-major; undefined for anything else. */
function flatten(v: Value): Flat | undefined {
  if (v.kind === 'number') return { values: [v.value], shape: [], whole: v.whole, bools: false };
  if (v.kind === 'bool') return { values: [v.value ? 1 : 0], shape: [], whole: true, bools: true };
  if (v.kind !== 'list' || v.items.length === 0) return undefined;
  const parts: Flat[] = [];
  let size = 0;
  for (const i of v.items) {
    const part = flatten(i);
    size += part?.values.length ?? 0;
    if (!part || size > LARGEST_LITERAL) return undefined;
    parts.push(part);
  }
  const shape = parts[0]?.shape ?? [];
  if (parts.some((p) => p.shape.join() !== shape.join())) return undefined;
  return {
    values: parts.flatMap((p) => p.values),
    shape: [v.items.length, ...shape],
    whole: parts.every((p) => p.whole),
    bools: parts.every((p) => p.bools),
  };
}
