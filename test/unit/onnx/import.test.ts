/**
 * What the ONNX importer makes of small models, as printed text.
 */
import assert from 'node:assert/strict';
import { decodeConst } from '../../../compiler/graph/constData';
import { importOnnx } from '../../../compiler/import/onnx';
import {
  attr,
  BOOL,
  FLOAT,
  floatBits,
  fn,
  graph,
  int,
  INT64,
  int64Bits,
  message,
  model,
  node,
  raw,
  tensor,
  text,
  value,
  type GraphSpec,
} from './encoder';
import { printImport } from './print';

const lines = (g: GraphSpec, opset?: number): string[] =>
  printImport(importOnnx(model(g, opset), 'test.onnx'));

describe('ONNX import', () => {
  it('gives ids by position, whatever the names are', () => {
    assert.deepEqual(
      lines({
        inputs: [value('x', FLOAT, ['batch', 4])],
        initializers: [
          tensor('w', FLOAT, [4, 3], raw(...floatBits(...Array.from({ length: 12 }, (_, i) => i)))),
          tensor('b', FLOAT, [3], raw(...floatBits(1, 2, 3))),
        ],
        nodes: [
          node('MatMul', ['x', 'w'], ['h'], { name: 'same' }),
          node('Add', ['h', 'b'], ['s'], { name: 'same' }),
          node('Relu', ['s'], ['y'], { name: '' }),
        ],
        outputs: [value('y', FLOAT, ['batch', 3])],
      }),
      [
        "param w0 'w' f32[4, 3] 48 bytes",
        "param w1 'b' f32[3] 12 bytes",
        "input in0 'x' f32[batch, 4]",
        "n0.0 'h' = matmul(in0, w0)",
        "n1.0 's' = add(n0.0, w1)",
        "n2.0 'y' f32[batch, 3] = relu(n1.0)",
        "output 'y' = n2.0",
      ],
    );
  });

  it('keeps weights as views of the file', () => {
    const bytes = model({
      initializers: [tensor('w', FLOAT, [2], raw(...floatBits(1.5, -2)))],
      nodes: [node('Relu', ['w'], ['y'])],
      outputs: [value('y', FLOAT, [2])],
    });
    const data = importOnnx(bytes, 'm').graph.tensors.get('w0')?.data;
    assert(data?.kind === 'bytes');
    assert.equal(data.bytes.buffer, bytes.buffer);
    assert.equal(data.bytes.length, 8);
  });

  it('reads typed data, packed and not, and half floats in int32_data', () => {
    assert.deepEqual(
      lines({
        initializers: [
          tensor('packed', FLOAT, [2], message(4, floatBits(3, 4))),
          tensor('loose', FLOAT, [2], [4 * 8 + 5, ...floatBits(5), 4 * 8 + 5, ...floatBits(6)]),
          tensor('longs', INT64, [3], int(7, -1), int(7, 2), message(7, [3])),
          tensor('half', 10, [2], message(5, [0x80, 0x78, 0x80, 0x80, 0x03])),
          tensor('flag', BOOL, [], int(5, 1)),
        ],
        nodes: [node('Relu', ['packed'], ['y'])],
        outputs: [value('y', FLOAT, [2])],
      }).slice(0, 5),
      [
        "param w0 'packed' f32[2] 8 bytes",
        "param w1 'loose' f32[2] (5, 6)",
        "const w2 'longs' i64[3] (-1, 2, 3)",
        "param w3 'half' f16[2] (1, -2)",
        "const w4 'flag' bool[] (1)",
      ],
    );
  });

  it('reads numbers of four bits, two to a byte and two to an integer', () => {
    const [UINT4, INT4] = [21, 22];
    const { graph } = importOnnx(
      model({
        initializers: [
          tensor('bytes', INT4, [3], raw(0x8f, 0x07)),
          tensor('ints', UINT4, [3], message(5, [0x8f, 0x01, 0x07])),
        ],
        nodes: [
          node('Cast', ['bytes'], ['y'], { attrs: [attr.int('to', FLOAT)] }),
          node('Cast', ['ints'], ['z'], { attrs: [attr.int('to', FLOAT)] }),
        ],
        outputs: [value('y', FLOAT, [3]), value('z', FLOAT, [3])],
      }),
      'm',
    );
    const numbersOf = (id: string): readonly number[] | undefined => {
      const t = graph.tensors.get(id);
      return t?.data && t.type && decodeConst(t.data, t.type.dtype, 3);
    };
    assert.deepEqual(numbersOf('w0'), [-1, -8, 7]);
    assert.deepEqual(numbersOf('w1'), [15, 8, 7]);
  });

  it('knows Constant and ConstantOfShape as data', () => {
    assert.deepEqual(
      lines({
        inputs: [value('x', FLOAT, [2, 3])],
        initializers: [tensor('shape', INT64, [2], raw(...int64Bits(2, 3)))],
        nodes: [
          node('ConstantOfShape', ['shape'], ['ones'], {
            attrs: [attr.tensor('value', tensor('', FLOAT, [1], raw(...floatBits(1))))],
          }),
          node('Constant', [], ['axes'], { attrs: [attr.ints('value_ints', [-1, 1])] }),
          node('Constant', [], ['k'], { attrs: [attr.float('value_float', 0.5)] }),
          node('Add', ['x', 'ones'], ['a']),
          node('Mul', ['a', 'k'], ['y']),
        ],
        outputs: [value('y', FLOAT, [2, 3])],
      }),
      [
        "const w0 'shape' i64[2] 16 bytes",
        "input in0 'x' f32[2, 3]",
        "param n0.0 'ones' f32[2, 3] filled with 1",
        "const n1.0 'axes' i64[2] (-1, 1)",
        "const n2.0 'k' f32[] (0.5)",
        "n3.0 'a' = add(in0, n0.0)",
        "n4.0 'y' f32[2, 3] = mul(n3.0, n2.0)",
        "output 'y' = n4.0",
      ],
    );
  });

  it('takes an input with an initializer as a parameter', () => {
    const w = tensor('w', FLOAT, [2], raw(...floatBits(1, 2)));
    assert.deepEqual(
      lines({
        inputs: [value('w', FLOAT, [2]), value('x', FLOAT, [2])],
        initializers: [w],
        nodes: [node('Add', ['x', 'w'], ['y'])],
        outputs: [value('y', FLOAT, [2])],
      }).slice(0, 2),
      ["param w0 'w' f32[2] 8 bytes", "input in1 'x' f32[2]"],
    );
  });

  it('marks Softmax before version 13 as one over a matrix', () => {
    const g: GraphSpec = {
      inputs: [value('x', FLOAT, [2, 3])],
      nodes: [node('Softmax', ['x'], ['y'])],
      outputs: [value('y', FLOAT, [2, 3])],
    };
    assert.match(lines(g, 11)[1] ?? '', /softmax\(in0\) \{flatten2d=true, axis=1\}$/);
    assert.match(lines(g, 13)[1] ?? '', /softmax\(in0\)$/);
  });

  it('names sizes: by the file, made up, or made into identifiers', () => {
    const r = importOnnx(
      model({
        inputs: [
          value('a', FLOAT, ['N', undefined, 'N']),
          value('b', FLOAT, ['past + 1', -1, 'N']),
        ],
        nodes: [node('Relu', ['a'], ['y']), node('Relu', ['b'], ['z'])],
        outputs: [value('y', FLOAT), value('z', FLOAT)],
      }),
      'm',
    );
    assert.deepEqual(printImport(r), [
      "input in0 'a' f32[N, a_d1, N]",
      "input in1 'b' f32[past___1, b_d1, N]",
      "n0.0 'y' = relu(in0)",
      "n1.0 'z' = relu(in1)",
      "output 'y' = n0.0",
      "output 'z' = n1.0",
      'info UNNAMED_DIM: dimension 1 of a has neither a size nor a name; it is called a_d1',
      "info DIM_RENAMED: the size 'past + 1' is called past___1",
      'info UNNAMED_DIM: dimension 1 of b has neither a size nor a name; it is called b_d1',
    ]);
    assert.deepEqual(
      [...r.graph.dims],
      [
        ['N', 1],
        ['a_d1', 1],
        ['past___1', 1],
        ['b_d1', 1],
      ],
    );
  });

  it('keeps unknown ops as opaque nodes with their declared types', () => {
    assert.deepEqual(
      lines({
        inputs: [value('x', FLOAT, ['B', 4])],
        nodes: [
          node('Relu', ['x'], ['h']),
          node('FancyNorm', ['h', '', 'x'], ['m'], {
            domain: 'com.example',
            name: 'fancy',
            attrs: [attr.string('mode', 'soft')],
          }),
          node('Relu', ['m'], ['y']),
        ],
        valueInfo: [value('m', FLOAT, ['B', 'dyn', 2])],
        outputs: [value('y', FLOAT)],
      }),
      [
        "input in0 'x' f32[B, 4]",
        "n0.0 'h' = relu(in0)",
        "n1.0 'm' f32[B, dyn, 2] = !FancyNorm(n0.0, -, in0) {mode=soft}",
        "n2.0 'y' = relu(n1.0)",
        "output 'y' = n2.0",
        "error UNSUPPORTED_OP: FancyNorm 'fancy' (n1): the op com.example:FancyNorm isn't supported; the rest of the graph is still analysed",
      ],
    );
  });

  it('writes functions out, with the attributes of the call and nested', () => {
    const scale = fn(
      'my',
      'Scale',
      ['v', 'bias'],
      ['out'],
      [
        node('LeakyRelu', ['v'], ['t'], { attrs: [attr.reference('alpha', 'slope', 1)] }),
        node('Add', ['t', 'bias'], ['out']),
      ],
      [attr.float('slope', 0.25)],
    );
    const twice = fn(
      'other',
      'Twice',
      ['v', 'b'],
      ['r'],
      [
        node('Scale', ['v', 'b'], ['m'], { domain: 'my' }),
        node('Scale', ['m', 'b'], ['r'], { domain: 'my', attrs: [attr.float('slope', 0.5)] }),
      ],
    );
    const g: GraphSpec = {
      inputs: [value('x', FLOAT, [4]), value('b', FLOAT, [4])],
      nodes: [node('Relu', ['x'], ['v']), node('Twice', ['v', 'b'], ['y'], { domain: 'other' })],
      outputs: [value('y', FLOAT, [4])],
    };
    assert.deepEqual(printImport(importOnnx(model(g, 18, [scale, twice]), 'm')).slice(2), [
      "n0.0 'v' = relu(in0)",
      "n1/0/0.0 't' = leaky_relu(n0.0) {alpha=0.25}",
      "n1/0/1.0 'm' = add(n1/0/0.0, in1)",
      "n1/1/0.0 't' = leaky_relu(n1/0/1.0) {alpha=0.5}",
      "n1/1/1.0 'y' = add(n1/1/0.0, in1)",
      "output 'y' = n1/1/1.0",
    ]);
  });

  it('refuses a function that calls itself', () => {
    const loop = fn('my', 'Loop', ['v'], ['r'], [node('Loop', ['v'], ['r'], { domain: 'my' })]);
    const g: GraphSpec = {
      inputs: [value('x', FLOAT, [4])],
      nodes: [node('Loop', ['x'], ['y'], { domain: 'my' })],
      outputs: [value('y', FLOAT, [4])],
    };
    assert.deepEqual(printImport(importOnnx(model(g, 18, [loop]), 'm')), [
      "input in0 'x' f32[4]",
      "n0/0.0 'y' = !Loop(in0)",
      "output 'y' = n0/0.0",
      'error UNSUPPORTED_OP: Loop (n0/0): the function calls itself',
    ]);
  });

  it('stops at functions that multiply without end', function () {
    this.timeout(60_000);
    const functions = Array.from({ length: 30 }, (_, i) =>
      fn(
        'bomb',
        `F${i}`,
        ['v'],
        ['r'],
        ['a', 'b', 'r'].map((out, k) =>
          i === 29
            ? node('Relu', ['v'], [out])
            : node(`F${i + 1}`, [k === 0 ? 'v' : 'a'], [out], { domain: 'bomb' }),
        ),
      ),
    );
    const r = importOnnx(
      model(
        {
          inputs: [value('x', FLOAT, [4])],
          nodes: [node('F0', ['x'], ['y'], { domain: 'bomb' })],
          outputs: [value('y', FLOAT, [4])],
        },
        18,
        functions,
      ),
      'm',
    );
    assert(r.diagnostics.some((d) => d.code === 'TOO_MANY_NODES'));
    assert(r.diagnostics.length < 1000);
  });

  const branches = (condition: GraphSpec['initializers']): GraphSpec => ({
    inputs: [value('x', FLOAT, [4]), ...(condition?.length === 0 ? [value('c', BOOL, [])] : [])],
    initializers: condition ?? [],
    nodes: [
      node('Relu', ['x'], ['h']),
      node('If', ['c'], ['y'], {
        attrs: [
          attr.graph(
            'then_branch',
            graph({ nodes: [node('Exp', ['h'], ['t'])], outputs: [value('t', FLOAT, [4])] }),
          ),
          attr.graph(
            'else_branch',
            graph({ nodes: [node('Tanh', ['h'], ['e'])], outputs: [value('e', FLOAT, [4])] }),
          ),
        ],
      }),
    ],
    outputs: [value('y', FLOAT, [4])],
  });

  it('takes the branch of an If whose condition is constant', () => {
    for (const [flag, op] of [
      [1, 'exp'],
      [0, 'tanh'],
    ] as const)
      assert.deepEqual(lines(branches([tensor('c', BOOL, [], raw(flag))])).slice(2), [
        "n0.0 'h' = relu(in0)",
        `n1/0.0 'y' f32[4] = ${op}(n0.0)`,
        "output 'y' = n1/0.0",
      ]);
  });

  it('leaves another If open in its draft, with what its branches use as operands', () => {
    assert.deepEqual(lines(branches([])).slice(2), [
      "n0.0 'h' = relu(in0)",
      "n1.0 'y' f32[4] = !If(in1, n0.0)",
      "output 'y' = n1.0",
      "error UNSUPPORTED_OP: If (n1): If isn't supported: how it goes on is only known when the model runs",
    ]);
  });
});

describe('ONNX import of faulty files', () => {
  const codes = (bytes: Uint8Array): string[] =>
    importOnnx(bytes, 'm').diagnostics.map((d) => d.code);
  const relu = { nodes: [node('Relu', ['x'], ['y'])], outputs: [value('y', FLOAT)] };

  it('says that a file is empty, no model, or has no graph', () => {
    assert.deepEqual(codes(new Uint8Array()), ['NO_GRAPH']);
    assert.deepEqual(codes(new TextEncoder().encode('<html>no model</html>')), ['MALFORMED']);
    assert.deepEqual(codes(Uint8Array.from(int(1, 8))), ['NO_GRAPH']);
  });

  it('names values that nothing defines and those defined twice', () => {
    assert.deepEqual(lines({ ...relu, outputs: [value('z', FLOAT)] }), [
      "n0.0 'y' = !Relu(-)",
      "error UNKNOWN_VALUE: Relu (n0): nothing defines its operand 'x'",
      "error UNSUPPORTED_OP: Relu (n0): nothing defines its operand 'x'",
      "error UNKNOWN_VALUE: nothing defines the output 'z'",
      'error NO_OUTPUTS: the graph has no outputs, so nothing of it is needed',
    ]);
    assert.deepEqual(
      codes(
        model({
          inputs: [value('x', FLOAT, [1])],
          nodes: [node('Relu', ['x'], ['y']), node('Exp', ['x'], ['y'])],
          outputs: [value('y', FLOAT)],
        }),
      ),
      ['DUPLICATE_VALUE'],
    );
  });

  it('refuses shapes and contents that do not go together', () => {
    const of = (t: number[]): string[] =>
      importOnnx(
        model({ ...relu, inputs: [value('x', FLOAT, [1])], initializers: [t] }),
        'm',
      ).diagnostics.map((d) => `${d.code}: ${d.message}`);
    assert.deepEqual(of(tensor('t', FLOAT, [3], raw(0, 0, 0, 0))), [
      "TENSOR_DATA: constant 't': raw_data has 4 bytes where its shape asks for 12",
    ]);
    assert.deepEqual(of(tensor('t', FLOAT, [2 ** 31, 2 ** 31, 2 ** 31])), [
      "BAD_SHAPE: constant 't': [2147483648, 2147483648, 2147483648] has too many elements",
    ]);
    assert.deepEqual(of(tensor('t', 8, [1], message(6, [65]))), [
      "UNSUPPORTED_DTYPE: constant 't': its element type, string, isn't supported",
    ]);
    assert.deepEqual(of(tensor('t', INT64, [-1])), [
      "BAD_SHAPE: constant 't': -1 is no size of a dimension",
    ]);
  });

  it('refuses external data outside the folder of the model', () => {
    const at = (location: string): string[] =>
      importOnnx(
        model({
          ...relu,
          inputs: [value('x', FLOAT, [1])],
          initializers: [
            tensor(
              'w',
              FLOAT,
              [2],
              message(13, text(1, 'location'), text(2, location)),
              message(13, text(1, 'offset'), text(2, '16')),
              int(14, 1),
            ),
          ],
        }),
        'm',
      ).diagnostics.map((d) => d.code);
    for (const path of [
      '/etc/passwd',
      '../x',
      'a/../../x',
      'C:\\x',
      '\\\\host\\x',
      'a\\..\\..\\x',
      '',
    ])
      assert.deepEqual(at(path), ['EXTERNAL_DATA_PATH'], path);
    assert.deepEqual(at('weights/w..bin'), []);
  });

  it('gives a diagnostic for inputs of other types', () => {
    const sequence = [...text(1, 'x'), ...message(2, message(4, []))];
    assert.deepEqual(codes(model({ ...relu, inputs: [sequence] })), ['UNSUPPORTED_TYPE']);
    assert.deepEqual(codes(model({ ...relu, inputs: [value('x', FLOAT)] })), ['MISSING_SHAPE']);
    assert.deepEqual(codes(model({ ...relu, inputs: [value('x', 14, [1])] })), [
      'UNSUPPORTED_DTYPE',
    ]);
  });

  it('stops at graphs that are nested too deeply', () => {
    let inner = graph(relu);
    for (let i = 0; i < 200; i++)
      inner = graph({
        nodes: [node('If', ['x'], ['y'], { attrs: [attr.graph('then_branch', inner)] })],
      });
    assert.deepEqual(codes(Uint8Array.from(message(7, inner))), ['MALFORMED']);
  });

  it('breaks calls that hand their result to themselves', () => {
    const same = fn('my', 'Same', ['v'], ['v'], []);
    const r = importOnnx(
      model(
        {
          nodes: [
            node('Same', ['b'], ['a'], { domain: 'my' }),
            node('Same', ['a'], ['b'], { domain: 'my' }),
            node('Relu', ['a'], ['y']),
          ],
          outputs: [value('y', FLOAT)],
        },
        18,
        [same],
      ),
      'm',
    );
    assert(r.diagnostics.some((d) => d.code === 'CYCLE'));
  });
});
