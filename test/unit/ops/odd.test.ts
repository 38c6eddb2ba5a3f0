/**
 * Every op on operands and attributes that no one would give it: a fault with a message, or a program
 * that the verifier accepts, and never an exception.
 */
import assert from 'node:assert/strict';
import { type DType, DTYPES } from '../../../compiler/graph/dtype';
import type { Attrs, AttrValue, Graph, Tensor } from '../../../compiler/graph/graph';
import { ix, type IndexLike, sym } from '../../../compiler/ir/indexExpr';
import { verifyProgram } from '../../../compiler/ir/verify';
import { OPS } from '../../../compiler/ops';
import { lowerGraph } from '../../../compiler/ops/lower';
import { random } from '../fusion/fixture';

/** Names that ops read, with values that some of them may take. */
const INTS = [
  ...['axis', 'num_heads', 'kv_num_heads', 'group', 'groups', 'num_groups', 'block_size', 'bits'],
  ...['K', 'N', 'hidden_size', 'to', 'keepdims', 'batch_dims', 'channels_last', 'size', 'step'],
  ...['is_causal', 'unidirectional', 'do_rotary', 'local_window_size', 'gather_axis', 'blocksize'],
  ...['quantize_axis', 'sliding_window_cache', 'dim1', 'dim2', 'offset', 'diagonal', 'opset'],
  ...['signal_ndim', 'activation', 'ceil_mode', 'num_outputs', 'start_dim', 'end_dim', 'steps'],
];
const LISTS = ['kernel_shape', 'pads', 'strides', 'dilations', 'axes', 'perm', 'shape', 'split'];
const TEXTS = [
  'mode',
  'direction',
  'equation',
  'reduction',
  'auto_pad',
  'coordinate_transformation_mode',
];
const WORDS = ['', 'linear', 'sum', 'none', 'LEFT', 'SAME_UPPER', 'ij,jk->ik', 'forward', 'cubic'];

describe('ops: odd operands', () => {
  for (const op of OPS)
    it(op.name, () => {
      const roll = random([...op.name].reduce((n, c) => (n * 31 + c.charCodeAt(0)) >>> 0, 7));
      for (let round = 0; round < 100; round++) {
        const graph = odd(op.name, roll);
        let shown = '';
        try {
          const { program, diagnostics } = lowerGraph(graph);
          const errors = diagnostics.filter((d) => d.severity === 'error');
          for (const e of errors)
            assert.ok(e.message.length > 10 && e.code !== 'INTERNAL', e.message);
          if (errors.length === 0) shown = verifyProgram(program)[0] ?? '';
        } catch (e) {
          shown = e instanceof Error ? (e.stack ?? e.message) : String(e);
        }
        if (shown !== '') assert.fail(`${shown}\n${JSON.stringify(describeGraph(graph))}`);
      }
    });
});

function odd(op: string, roll: (n: number) => number): Graph {
  const pick = <T>(list: readonly [T, ...T[]] | readonly T[]): T => {
    const v = list[roll(list.length)];
    if (v === undefined) throw new Error('an empty list');
    return v;
  };
  const tensors = new Map<string, Tensor>();
  const count = roll(9);
  // Mostly alike, so that some of it gets through the first checks.
  const common = Array.from({ length: roll(6) }, () => dimOf(roll));
  const usual = pick<DType>(['f32', 'f32', 'f16', 'u8', 'i64']);
  const operands = Array.from({ length: count }, (_, i) => {
    if (roll(8) === 0) return undefined;
    const id = `in${i}`;
    const shape = roll(2) === 0 ? common : Array.from({ length: roll(6) }, () => dimOf(roll));
    const dtype = roll(3) > 0 ? usual : pick(DTYPES);
    const n = shape.reduce<number>((p, d) => (typeof d === 'number' ? p * d : NaN), 1);
    const known = roll(3) === 0 && n <= 64;
    tensors.set(id, {
      id,
      name: id,
      type: { dtype, shape: shape.map(ix) },
      role: known ? 'const' : 'input',
      ...(known
        ? { data: { kind: 'numbers', values: Array.from({ length: n }, () => roll(7) - 3) } }
        : {}),
    });
    return id;
  });
  const attrs: Record<string, AttrValue> = {};
  for (const name of INTS) if (roll(3) === 0) attrs[name] = roll(9) - 2;
  for (const name of LISTS)
    if (roll(3) === 0) attrs[name] = Array.from({ length: roll(5) }, () => roll(5) - 1);
  for (const name of TEXTS) if (roll(4) === 0) attrs[name] = pick(WORDS);
  const results = Array.from({ length: 1 + roll(4) }, (_, i) => `out${i}`);
  for (const id of results) tensors.set(id, { id, name: id, role: 'result' });
  const given: Attrs = attrs;
  return {
    format: 'onnx',
    name: 'test',
    nodes: [{ id: 'n0', op, sourceOp: op, name: '', attrs: given, operands, results }],
    tensors,
    inputs: [...tensors.values()].filter((t) => t.role === 'input').map((t) => t.id),
    outputs: results.map((tensor) => ({ name: tensor, tensor })),
    dims: new Map([
      ['M', 3],
      ['L', 2],
    ]),
    directives: [],
  };
}

function dimOf(roll: (n: number) => number): IndexLike {
  const n = roll(8);
  return n === 7 ? sym('M') : n === 6 ? sym('L') : n === 5 ? 16 : n;
}

function describeGraph(g: Graph): unknown {
  return {
    operands: g.nodes[0]?.operands.map((o) => {
      const t = o === undefined ? undefined : g.tensors.get(o);
      const shape = t?.type?.shape.map((d) => (d.terms.length > 0 ? 'sym' : d.c)).join(',');
      return t && `${t.type?.dtype ?? ''}[${shape ?? ''}]${t.data ? ' known' : ''}`;
    }),
    attrs: g.nodes[0]?.attrs,
  };
}
