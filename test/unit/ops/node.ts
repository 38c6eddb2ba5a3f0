/**
 * Runs one op of ONNX's form: operands as tensors, attributes as the importer gives them, through
 * lowering, verification and the float64 reference.
 */
import assert from 'node:assert/strict';
import type { DType } from '../../../compiler/graph/dtype';
import type { Attrs, Graph, Node, Tensor } from '../../../compiler/graph/graph';
import { evaluate, num } from '../../../compiler/ir/indexExpr';
import { printProgram } from '../../../compiler/ir/print';
import { verifyProgram } from '../../../compiler/ir/verify';
import { opByOnnx } from '../../../compiler/ops';
import { lowerGraph, type Lowered } from '../../../compiler/ops/lower';
import { interpret } from '../../../compiler/reference';
import { Naive, numbers } from './fixture';

export interface Operand {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly values: readonly number[];
  /** Known at compile time, as a constant of the file is. */
  readonly constant: boolean;
}

export function tensor(
  shape: readonly number[],
  values?: readonly number[],
  dtype: DType = 'f32',
): Operand {
  const count = shape.reduce((n, d) => n * d, 1);
  return { dtype, shape, values: values ?? numbers(count, count + shape.length), constant: false };
}

export function constant(
  values: readonly number[],
  dtype: DType = 'i64',
  shape?: readonly number[],
): Operand {
  return { dtype, shape: shape ?? [values.length], values, constant: true };
}

/** The operand for naive loops. */
export function naive(o: Operand): Naive {
  return new Naive(o.shape, o.values);
}

export interface NodeRun {
  readonly results: readonly (Naive & { readonly dtype: DType })[];
  readonly text: string;
}

function lower(
  type: string,
  operands: readonly (Operand | undefined)[],
  attrs: Attrs,
  results: number,
): Lowered {
  const op = opByOnnx(type);
  assert.ok(op, `there is no op ${type}`);
  const tensors = new Map<string, Tensor>();
  operands.forEach((o, i) => {
    if (!o) return;
    tensors.set(`v${i}`, {
      id: `v${i}`,
      name: `x${i}`,
      type: { dtype: o.dtype, shape: o.shape.map(num) },
      role: o.constant ? 'const' : 'input',
      ...(o.constant ? { data: { kind: 'numbers', values: o.values } } : {}),
    });
  });
  const names = Array.from({ length: results }, (_, i) => `y${i}`);
  for (const n of names) tensors.set(n, { id: n, name: n, role: 'result' });
  const node: Node = {
    id: 'n0',
    op: op.name,
    sourceOp: type,
    name: '',
    attrs,
    operands: operands.map((o, i) => (o ? `v${i}` : undefined)),
    results: names,
  };
  const graph: Graph = {
    format: 'onnx',
    name: 'test',
    nodes: [node],
    tensors,
    inputs: operands.flatMap((o, i) => (o && !o.constant ? [`v${i}`] : [])),
    outputs: names.map((n) => ({ name: n, tensor: n })),
    dims: new Map(),
    directives: [],
  };
  return lowerGraph(graph);
}

export function runNode(
  type: string,
  operands: readonly (Operand | undefined)[],
  attrs: Attrs = {},
  results = 1,
): NodeRun {
  const lowered = lower(type, operands, attrs, results);
  const errors = lowered.diagnostics.filter((d) => d.severity === 'error').map((d) => d.message);
  assert.deepEqual(errors, []);
  const { program } = lowered;
  assert.deepEqual(verifyProgram(program), []);
  const inputs = new Map(operands.map((o, i) => [`v${i}`, o?.values ?? []]));
  const kept = interpret(program, inputs);
  return {
    text: printProgram(program),
    results: program.outputs.map((o) => {
      const shape = o.shape.map((d) => evaluate(d, () => undefined));
      const v = program.values.get(o.value);
      assert.ok(v);
      const data =
        kept.get(o.value) ??
        (v.data?.kind === 'numbers'
          ? v.data.values
          : v.data?.kind === 'fill'
            ? new Array<number>(shape.reduce((n, d) => n * d, 1)).fill(v.data.value)
            : inputs.get(o.value));
      assert.ok(data, `no contents of ${o.value}`);
      return Object.assign(new Naive(shape, Array.from(data)), { dtype: v.dtype });
    }),
  };
}

/** The faults that lowering the op reports. */
export function nodeFaults(
  type: string,
  operands: readonly (Operand | undefined)[],
  attrs: Attrs = {},
): string[] {
  return lower(type, operands, attrs, 1)
    .diagnostics.filter((d) => d.severity === 'error')
    .map((d) => d.message);
}
