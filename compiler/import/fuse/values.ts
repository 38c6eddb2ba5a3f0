/**
 * What an expression stands for while a file is bound: a tensor of the graph, or something known at
 * compile time (numbers, sizes, lists, texts), with the arithmetic on the latter.
 */
import type { SourceRange } from '../../diagnostics';
import { DTYPES, type DType } from '../../graph/dtype';
import type { TensorId } from '../../graph/graph';
import type { FuseArgKind } from '../../ops/op';
import {
  add,
  constOf,
  exactDiv,
  floorDiv,
  mod,
  mul,
  neg,
  num,
  sub,
  type Dim,
} from '../../ir/indexExpr';
import type { BinaryOperator } from './ast';

/** A number by its declared name: it becomes one constant of the graph, whatever its uses. */
export interface NamedConstant {
  readonly id: TensorId;
  readonly name: string;
  readonly range: SourceRange;
}

export type Value =
  | {
      readonly kind: 'number';
      readonly value: number;
      /** Written as a whole number: it is an integer where nothing else decides. */
      readonly whole: boolean;
      readonly constant?: NamedConstant;
    }
  | { readonly kind: 'bool'; readonly value: boolean }
  | { readonly kind: 'string'; readonly value: string }
  | { readonly kind: 'dtype'; readonly dtype: DType }
  | { readonly kind: 'none' }
  | { readonly kind: 'size'; readonly dim: Dim }
  | { readonly kind: 'tensor'; readonly id: TensorId }
  /** An op's several results: only an assignment to as many names can use them. */
  | { readonly kind: 'results'; readonly ids: readonly TensorId[]; readonly op: string }
  | { readonly kind: 'list'; readonly items: readonly Value[] }
  | { readonly kind: 'faulty' };

export const FAULTY: Value = { kind: 'faulty' };

/** Names that stand for a number unless the file defines them. */
export const NUMBER_NAMES: ReadonlyMap<string, number> = new Map([
  ['inf', Infinity],
  ['nan', NaN],
  ['pi', Math.PI],
]);

const DTYPE_ALIASES: ReadonlyMap<string, DType> = new Map<string, DType>([
  ...DTYPES.map((t) => [t, t] as const),
  ['float32', 'f32'],
  ['float', 'f32'],
  ['float16', 'f16'],
  ['half', 'f16'],
  ['bfloat16', 'bf16'],
  ['float64', 'f64'],
  ['double', 'f64'],
  ['int8', 'i8'],
  ['int4', 'i4'],
  ['uint4', 'u4'],
  ['uint8', 'u8'],
  ['int16', 'i16'],
  ['uint16', 'u16'],
  ['int32', 'i32'],
  ['int', 'i32'],
  ['uint32', 'u32'],
  ['int64', 'i64'],
  ['long', 'i64'],
  ['uint64', 'u64'],
  ['boolean', 'bool'],
]);

export const DTYPE_NAMES: readonly string[] = [...DTYPE_ALIASES.keys()];

/** An element type by its name here or in PyTorch. */
export function dtypeOf(name: string): DType | undefined {
  return DTYPE_ALIASES.get(name);
}

/** What a value is called in messages. */
export function describeValue(v: Value): string {
  switch (v.kind) {
    case 'number':
      return v.constant ? `the number ${v.constant.name}` : `the number ${printNumber(v.value)}`;
    case 'bool':
      return v.value ? 'true' : 'false';
    case 'string':
      return 'a string';
    case 'dtype':
      return `the element type ${v.dtype}`;
    case 'none':
      return 'none';
    case 'size':
      return 'a size';
    case 'tensor':
      return 'a tensor';
    case 'results':
      return `the ${v.ids.length} results of ${v.op}`;
    case 'list':
      return 'a list';
    case 'faulty':
      return 'something that can’t be read';
  }
}

/** A number as a name for people: `0.5`, `inf`. */
export function printNumber(n: number): string {
  if (n === Infinity) return 'inf';
  if (n === -Infinity) return '-inf';
  return Number.isNaN(n) ? 'nan' : String(n);
}

/** What forms that share a name are told about an argument. */
export function argumentKind(v: Value): FuseArgKind {
  switch (v.kind) {
    case 'number':
    case 'size':
      return 'number';
    case 'bool':
      return 'bool';
    case 'string':
    case 'dtype':
      return 'str';
    case 'list':
      return v.items.length > 0 && v.items.some((i) => i.kind === 'tensor' || i.kind === 'faulty')
        ? 'tensors'
        : 'list';
    case 'tensor':
    case 'results':
    case 'none':
    case 'faulty':
      return 'tensor';
  }
}

/** The value as a size: whole numbers and dims. */
export function asDim(v: Value): Dim | undefined {
  if (v.kind === 'size') return v.dim;
  return v.kind === 'number' && Number.isSafeInteger(v.value) ? num(v.value) : undefined;
}

/** A size that turned out to be a plain number is one. */
export function sizeValue(dim: Dim): Value {
  const n = constOf(dim);
  return n === undefined ? { kind: 'size', dim } : { kind: 'number', value: n, whole: true };
}

export type Folded = { readonly value: Value } | { readonly fault: string };

/** `a operator b` of numbers and sizes. */
export function fold(operator: BinaryOperator, a: Value, b: Value): Folded {
  if (a.kind === 'number' && b.kind === 'number') return foldNumbers(operator, a, b);
  const x = asDim(a);
  const y = asDim(b);
  if (!x || !y) return { fault: 'A size can only be combined with whole numbers and sizes.' };
  switch (operator) {
    case '+':
      return { value: sizeValue(add(x, y)) };
    case '-':
      return { value: sizeValue(sub(x, y)) };
    case '*':
      return { value: sizeValue(mul(x, y)) };
    case '/': {
      const q = exactDiv(x, y);
      return q
        ? { value: sizeValue(q) }
        : { fault: 'This division of sizes may leave a remainder: write // to round down.' };
    }
    case '//':
    case '%': {
      const n = constOf(y);
      if (n !== undefined && n < 1)
        return { fault: 'A size is only divided by a positive number.' };
      return { value: sizeValue(operator === '//' ? floorDiv(x, y) : mod(x, y)) };
    }
    case '**': {
      const n = constOf(y);
      if (n === undefined || n < 0 || n > 8)
        return { fault: 'A size is only raised to a power from 0 to 8.' };
      let p = num(1);
      for (let i = 0; i < n; i++) p = mul(p, x);
      return { value: sizeValue(p) };
    }
    case '&':
    case '|':
    case '^':
    case '@':
    case '<':
    case '<=':
    case '>':
    case '>=':
    case '==':
    case '!=':
      return { fault: `${operator} doesn’t work on sizes.` };
  }
}

function foldNumbers(
  operator: BinaryOperator,
  a: Value & { kind: 'number' },
  b: Value & { kind: 'number' },
): Folded {
  const whole = a.whole && b.whole;
  const number = (value: number, isWhole = whole): Folded => ({
    value: { kind: 'number', value, whole: isWhole && Number.isSafeInteger(value) },
  });
  const bool = (value: boolean): Folded => ({ value: { kind: 'bool', value } });
  switch (operator) {
    case '+':
      return number(a.value + b.value);
    case '-':
      return number(a.value - b.value);
    case '*':
      return number(a.value * b.value);
    case '/':
      // 64 / 2 stays a whole number, so that it can be a size.
      return b.value === 0 ? { fault: 'This divides by zero.' } : number(a.value / b.value);
    case '//':
      return b.value === 0
        ? { fault: 'This divides by zero.' }
        : number(Math.floor(a.value / b.value));
    case '%':
      return b.value === 0
        ? { fault: 'This divides by zero.' }
        : number(a.value - b.value * Math.floor(a.value / b.value));
    case '**':
      return number(Math.pow(a.value, b.value));
    case '<':
      return bool(a.value < b.value);
    case '<=':
      return bool(a.value <= b.value);
    case '>':
      return bool(a.value > b.value);
    case '>=':
      return bool(a.value >= b.value);
    case '==':
      return bool(a.value === b.value);
    case '!=':
      return bool(a.value !== b.value);
    case '&':
    case '|':
    case '^':
      return { fault: `${operator} works on tensors of bools or whole numbers, not on numbers.` };
    case '@':
      return { fault: '@ multiplies matrices: it doesn’t work on numbers.' };
  }
}

export function negated(v: Value): Value | undefined {
  if (v.kind === 'number') return { kind: 'number', value: -v.value, whole: v.whole };
  return v.kind === 'size' ? sizeValue(neg(v.dim)) : undefined;
}

/** Functions that a number alone is put through at compile time: `1 / sqrt(64)`. */
const NUMBER_FUNCTIONS: ReadonlyMap<string, (x: number, y: number) => number> = new Map([
  ['sqrt', (x: number) => Math.sqrt(x)],
  ['rsqrt', (x: number) => 1 / Math.sqrt(x)],
  ['exp', (x: number) => Math.exp(x)],
  ['log', (x: number) => Math.log(x)],
  ['log2', (x: number) => Math.log2(x)],
  ['sin', (x: number) => Math.sin(x)],
  ['cos', (x: number) => Math.cos(x)],
  ['tanh', (x: number) => Math.tanh(x)],
  ['abs', (x: number) => Math.abs(x)],
  ['floor', (x: number) => Math.floor(x)],
  ['ceil', (x: number) => Math.ceil(x)],
  ['pow', (x: number, y: number) => Math.pow(x, y)],
  ['min', (x: number, y: number) => Math.min(x, y)],
  ['max', (x: number, y: number) => Math.max(x, y)],
]);
const TWO_NUMBERS = new Set(['pow', 'min', 'max']);

/** The call's value when it is a function of numbers only; undefined otherwise. */
export function foldCall(name: string, args: readonly Value[]): Value | undefined {
  const f = NUMBER_FUNCTIONS.get(name);
  const [a, b] = args;
  if (!f || a?.kind !== 'number' || args.length !== (TWO_NUMBERS.has(name) ? 2 : 1))
    return undefined;
  if (b && b.kind !== 'number') return undefined;
  const value = f(a.value, b?.value ?? 0);
  const whole = ['abs', 'floor', 'ceil', 'min', 'max', 'pow'].includes(name) && a.whole;
  return { kind: 'number', value, whole: whole && Number.isSafeInteger(value) };
}
