/**
 * Runs a `.fuse` program through import, lowering, verification and the float64 reference, so that
 * ops are tested by what they print and what they calculate.
 */
import assert from 'node:assert/strict';
import { importFuse } from '../../../compiler/import/fuse';
import { type DType, isInteger } from '../../../compiler/graph/dtype';
import type { Attrs, Graph, Tensor } from '../../../compiler/graph/graph';
import { evaluate, type IndexLike, ix } from '../../../compiler/ir/indexExpr';
import { printProgram } from '../../../compiler/ir/print';
import { verifyProgram } from '../../../compiler/ir/verify';
import { lowerGraph } from '../../../compiler/ops/lower';
import { interpret } from '../../../compiler/reference';

export interface Result {
  readonly shape: readonly number[];
  readonly dtype: string;
  readonly values: readonly number[];
}

export interface Run {
  readonly outputs: Readonly<Record<string, Result>>;
  /** The first output. */
  readonly y: Result;
  /** The L1 program as text. */
  readonly text: string;
  /** How many values are computed. */
  readonly computes: number;
  /** Messages that aren't errors. */
  readonly notes: readonly string[];
}

/**
 * Lowers and runs; inputs and parameters by name, made up by {@link numbers} where they are not
 * given (seeded by the first letter of their name). Any fault fails the test.
 */
export function run(source: string, feeds: Readonly<Record<string, readonly number[]>> = {}): Run {
  const { graph, diagnostics } = importFuse(source, 'test.fuse');
  const lowered = lowerGraph(graph);
  const all = [...diagnostics, ...lowered.diagnostics];
  const errors = all.filter((d) => d.severity === 'error').map((d) => d.message);
  assert.deepEqual(errors, [], 'the program has faults');
  const { program } = lowered;
  assert.deepEqual(verifyProgram(program), []);
  const inputs = new Map<string, readonly number[]>();
  for (const t of graph.tensors.values()) {
    if (t.role === 'result' || t.data || !t.type) continue;
    const shape = t.type.shape.map((d) => evaluate(d, (s) => program.dims.get(s)));
    const count = shape.reduce((n, d) => n * d, 1);
    const whole = isInteger(t.type.dtype) || t.type.dtype === 'bool';
    const made = numbers(count, t.name.charCodeAt(0));
    inputs.set(t.id, feeds[t.name] ?? (whole ? made.map(Math.round) : made));
  }
  const kept = interpret(program, inputs);
  const outputs = program.outputs.map((o): [string, Result] => {
    const shape = o.shape.map((d) => evaluate(d, (s) => program.dims.get(s)));
    const v = program.values.get(o.value);
    const count = shape.reduce((n, d) => n * d, 1);
    const values = kept.get(o.value) ?? inputs.get(o.value) ?? constants(v?.data, count);
    return [o.name, { shape, dtype: v?.dtype ?? '?', values: Array.from(values) }];
  });
  const [first] = outputs;
  assert.ok(first, 'the program has no output');
  return {
    outputs: Object.fromEntries(outputs),
    y: first[1],
    text: printProgram(program),
    computes: program.computes.length,
    notes: all.map((d) => d.message),
  };
}

function constants(
  data: { kind: string; value?: number; values?: readonly number[] } | undefined,
  count: number,
): readonly number[] {
  if (data?.kind === 'fill') return new Array<number>(count).fill(data.value ?? 0);
  return data?.values ?? [];
}

/** The messages of the errors that the program has. */
export function faults(source: string): string[] {
  const { graph, diagnostics } = importFuse(source, 'test.fuse');
  const lowered = lowerGraph(graph);
  return [...diagnostics, ...lowered.diagnostics]
    .filter((d) => d.severity === 'error')
    .map((d) => d.message);
}

/** Numbers that look random and aren't: `count` of them around 0. */
export function numbers(count: number, seed = 1): number[] {
  let s = seed * 2654435761;
  return Array.from({ length: count }, () => {
    s = (Math.imul(s, 1664525) + 1013904223) >>> 0;
    return Math.round((s / 2 ** 32) * 8000 - 4000) / 1000;
  });
}

export function counting(count: number, from = 0): number[] {
  return Array.from({ length: count }, (_, i) => from + i);
}

export function close(got: readonly number[], want: readonly number[], tolerance = 1e-9): void {
  assert.equal(got.length, want.length, 'the number of elements');
  got.forEach((g, i) => {
    const w = want[i] ?? NaN;
    const equal = Object.is(g, w) || g === w || Math.abs(g - w) <= tolerance * (1 + Math.abs(w));
    assert.ok(equal, `element ${i} is ${g}, not ${w}`);
  });
}

/** A tensor for naive loops: numbers with a shape. */
export class Naive {
  constructor(
    readonly shape: readonly number[],
    readonly values: readonly number[],
  ) {}

  static make(shape: readonly number[], f: (index: readonly number[]) => number): Naive {
    return new Naive(shape, [...points(shape)].map(f));
  }

  at(...index: readonly number[]): number {
    const at = index.reduce((lin, i, k) => lin * (this.shape[k] ?? 1) + i, 0);
    return this.values[at] ?? NaN;
  }
}

/** All index tuples of a shape, in row-major order. */
export function* points(shape: readonly number[]): Generator<number[]> {
  const count = shape.reduce((n, d) => n * d, 1);
  for (let i = 0; i < count; i++) {
    const index: number[] = [];
    let rest = i;
    for (const d of [...shape].reverse()) {
      index.unshift(rest % d);
      rest = Math.floor(rest / d);
    }
    yield index;
  }
}

export interface Operand {
  readonly dtype?: DType;
  readonly shape: readonly IndexLike[];
  readonly values: readonly number[];
  /** Known to the compiler (shapes, axes), or only when the model runs. */
  readonly known?: boolean;
}

/**
 * Runs one node as the ONNX importer makes it: operands by position, attributes as in the file, of
 * an operator set. `dims` binds symbolic sizes.
 */
export function runNode(
  op: string,
  operands: readonly (Operand | undefined)[],
  attrs: Attrs = {},
  options: { opset?: number; results?: number; dims?: Readonly<Record<string, number>> } = {},
): readonly Result[] {
  const graph = graphOf(op, operands, attrs, options);
  const { program, diagnostics } = lowerGraph(graph);
  const errors = diagnostics.filter((d) => d.severity === 'error').map((d) => d.message);
  assert.deepEqual(errors, [], 'the node has faults');
  assert.deepEqual(verifyProgram(program), []);
  const inputs = new Map(operands.map((o, i) => [`in${i}`, o?.values ?? []]));
  const kept = interpret(program, inputs);
  return program.outputs.map((o) => {
    const shape = o.shape.map((d) => evaluate(d, (s) => program.dims.get(s)));
    const v = program.values.get(o.value);
    const count = shape.reduce((n, d) => n * d, 1);
    const values = kept.get(o.value) ?? inputs.get(o.value) ?? constants(v?.data, count);
    return { shape, dtype: v?.dtype ?? '?', values: Array.from(values) };
  });
}

/** The first fault of such a node. */
export function nodeFault(
  op: string,
  operands: readonly (Operand | undefined)[],
  attrs: Attrs = {},
): string | undefined {
  const lowered = lowerGraph(graphOf(op, operands, attrs, {}));
  return lowered.diagnostics.find((d) => d.severity === 'error')?.message;
}

function graphOf(
  op: string,
  operands: readonly (Operand | undefined)[],
  attrs: Attrs,
  options: { opset?: number; results?: number; dims?: Readonly<Record<string, number>> },
): Graph {
  const tensors = new Map<string, Tensor>();
  operands.forEach((o, i) => {
    if (!o) return;
    const id = `in${i}`;
    tensors.set(id, {
      id,
      name: id,
      type: { dtype: o.dtype ?? 'f32', shape: o.shape.map(ix) },
      role: o.known ? 'const' : 'input',
      ...(o.known ? { data: { kind: 'numbers', values: o.values } } : {}),
    });
  });
  const results = Array.from({ length: options.results ?? 1 }, (_, i) => `out${i}`);
  for (const id of results) tensors.set(id, { id, name: id, role: 'result' });
  return {
    format: 'onnx',
    name: 'test',
    nodes: [
      {
        id: 'n0',
        op,
        sourceOp: op,
        name: '',
        attrs: { ...attrs, opset: options.opset ?? 24 },
        operands: operands.map((o, i) => (o ? `in${i}` : undefined)),
        results,
      },
    ],
    tensors,
    inputs: [...tensors.values()].filter((t) => t.role === 'input').map((t) => t.id),
    outputs: results.map((tensor) => ({ name: tensor, tensor })),
    dims: new Map(Object.entries(options.dims ?? {})),
    directives: [],
  };
}
