/** The workloads as ONNX graphs, in the ops that exporters write. Weights are constants of the file. */
import { given, type Task } from './contestant';
import { onnxFile, type OnnxConstant, type OnnxNode } from './onnxFile';

/** Collects nodes; every result gets a name. */
class Graph {
  readonly nodes: OnnxNode[] = [];
  readonly constants: OnnxConstant[] = [];

  op(op: string, inputs: readonly string[], attributes: OnnxNode['attributes'] = {}): string {
    return this.ops(op, inputs, 1, attributes)[0] ?? '';
  }

  ops(
    op: string,
    inputs: readonly string[],
    results: number,
    attributes: OnnxNode['attributes'] = {},
  ): string[] {
    const outputs = Array.from({ length: results }, (_, i) => `t${this.nodes.length}_${i}`);
    this.nodes.push({ op, inputs, outputs, attributes });
    return outputs;
  }

  number(x: number): string {
    const name = `number_${x}`;
    if (!this.constants.some((c) => c.name === name))
      this.constants.push({ name, shape: [], floats: Float32Array.of(x) });
    return name;
  }

  shape(dims: readonly number[]): string {
    const name = `shape_${dims.join('_')}`;
    if (!this.constants.some((c) => c.name === name))
      this.constants.push({ name, shape: [dims.length], integers: dims });
    return name;
  }

  norm(x: string, gamma: string, beta: string): string {
    return this.op('LayerNormalization', [x, gamma, beta], { axis: -1 });
  }

  /** q · kᵀ with k transposed already. */
  attention(q: string, kt: string, v: string): string {
    const scores = this.op('Mul', [this.op('MatMul', [q, kt]), this.number(0.125)]);
    return this.op('MatMul', [this.op('Softmax', [scores], { axis: -1 }), v]);
  }

  dense(x: string, w: string, b: string): string {
    return this.op('Add', [this.op('MatMul', [x, w]), b]);
  }
}

function build(g: Graph, task: Task): string[] {
  switch (task.workload.kind) {
    case 'bias-relu':
      return [g.op('Relu', [g.op('Add', ['x', 'bias'])])];
    case 'chain': {
      const r = g.op('Relu', [g.op('Add', [g.op('Mul', ['x', 'scale']), 'bias'])]);
      const s = g.op('Add', [g.op('Mul', [r, g.number(0.5)]), g.number(1)]);
      return [g.op('Abs', [g.op('Sub', [g.op('Sqrt', [s]), 'x'])])];
    }
    case 'softmax':
      return [g.op('Softmax', ['x'], { axis: -1 })];
    case 'layer-norm':
      return [g.norm(g.op('Relu', [g.op('Add', ['x', 'bias'])]), 'gamma', 'beta')];
    case 'matmul':
      return [g.op('Relu', [g.dense('x', 'w', 'bias')])];
    case 'convolutions':
      return ['w1', 'w2'].map((w) =>
        g.op('Conv', ['x', w], { kernel_shape: [3, 3], pads: [1, 1, 1, 1] }),
      );
    case 'attention': {
      const perm = task.signature.given[0]?.shape.length === 3 ? [0, 2, 1] : [1, 0];
      return [g.attention('q', g.op('Transpose', ['k'], { perm }), 'v')];
    }
    case 'mlp': {
      const h1 = g.op('Relu', [g.op('Gemm', ['x', 'w1', 'b1'])]);
      const h2 = g.op('Relu', [g.op('Gemm', [h1, 'w2', 'b2'])]);
      return [g.op('Gemm', [h2, 'w3', 'b3'])];
    }
    case 'transformer': {
      const qkv = g.dense(g.norm('x', 'g1', 'c1'), 'wqkv', 'bqkv');
      const parts = g.ops('Split', [qkv], 3, { axis: -1, num_outputs: 3 });
      const [q = '', k = '', v = ''] = parts.map((p, i) =>
        g.op('Transpose', [g.op('Reshape', [p, g.shape([128, 4, 64])])], {
          perm: i === 1 ? [1, 2, 0] : [1, 0, 2],
        }),
      );
      const heads = g.op('Transpose', [g.attention(q, k, v)], { perm: [1, 0, 2] });
      const mixed = g.op('Reshape', [heads, g.shape([128, 256])]);
      const a = g.op('Add', [g.dense(mixed, 'wout', 'bout'), 'x']);
      const up = g.dense(g.norm(a, 'g2', 'c2'), 'wup', 'bup');
      const bell = g.op('Erf', [g.op('Div', [up, g.number(Math.SQRT2)])]);
      const twice = g.op('Mul', [up, g.op('Add', [bell, g.number(1)])]);
      const gelu = g.op('Mul', [twice, g.number(0.5)]);
      return [g.op('Add', [g.dense(gelu, 'wdown', 'bdown'), a])];
    }
    case 'model':
      throw new Error('a model has a file of its own');
  }
}

export function onnxOf(task: Task): { bytes: Uint8Array; outputs: readonly string[] } {
  const g = new Graph();
  const outputs = build(g, task);
  const { signature, contents } = task;
  const weights = signature.given
    .filter((t) => t.role === 'param')
    .map(({ name, shape }) => ({ name, shape, floats: given(contents, name) }));
  const bytes = onnxFile({
    nodes: g.nodes,
    constants: [...weights, ...g.constants],
    inputs: signature.given.filter((t) => t.role === 'input'),
    outputs: outputs.map((name, i) => ({ name, shape: signature.outputs[i]?.shape ?? [] })),
  });
  return { bytes, outputs };
}
