/**
 * Branches and loops of ONNX files: inlined where what decides is known, regions elsewhere; what they
 * give, by the reference; what is shown of them.
 */
import assert from 'node:assert/strict';
import { operandsToKnow } from '../../../cli/knownOperands';
import { type Compilation, compile } from '../../../compiler';
import { verifyProgram } from '../../../compiler/ir/verify';
import { interpret } from '../../../compiler/reference';
import { verifyExecPlan } from '../../../compiler/schedule/verifyKernel';
import { randomNumbers } from '../../gpu/programs';
import {
  attr,
  type Bytes,
  BOOL,
  FLOAT,
  floatBits,
  type GraphSpec,
  graph,
  INT64,
  int64Bits,
  model,
  node,
  raw,
  tensor,
  value,
} from './encoder';
import { randomControlModel } from './controlModels';

const ints = (name: string, ...v: number[]): Bytes =>
  tensor(name, INT64, [v.length], raw(...int64Bits(...v)));
const int = (name: string, v: number): Bytes => tensor(name, INT64, [], raw(...int64Bits(v)));
const float = (name: string, v: number): Bytes => tensor(name, FLOAT, [], raw(...floatBits(v)));

function compiled(g: GraphSpec | Uint8Array, opset = 13): Compilation {
  const bytes = g instanceof Uint8Array ? g : model(g, opset);
  const c = compile({ file: 'm.onnx', bytes });
  assert.deepEqual(verifyProgram(c.program), []);
  if (c.result.runnable.ok)
    for (const which of ['fused', 'unfused'] as const)
      assert.deepEqual(verifyExecPlan(c.execPlan(which)), []);
  return c;
}

/** What the outputs are, by the reference; inputs by name. */
function run(c: Compilation, feeds: Readonly<Record<string, readonly number[]>>): number[][] {
  assert.deepEqual(
    c.result.diagnostics.filter((d) => d.severity === 'error').map((d) => d.message),
    [],
  );
  const inputs = new Map(
    c.program.inputs.map((id) => [id, feeds[c.program.values.get(id)?.name ?? ''] ?? []]),
  );
  const kept = interpret(c.program, inputs);
  return c.program.outputs.map((o) => {
    const v = c.program.values.get(o.value);
    const fixed = v?.data?.kind === 'numbers' ? v.data.values : [];
    return Array.from(kept.get(o.value) ?? inputs.get(o.value) ?? fixed);
  });
}

const ops = (c: Compilation): string[] =>
  c.result.graph.nodes.map((n) => `${n.region === undefined ? '' : `${n.region}: `}${n.op}`);

const faults = (c: Compilation): string[] =>
  c.result.diagnostics.filter((d) => d.severity === 'error').map((d) => d.message);

/** y = x + y or x - y, by `c`. */
function branches(
  condition: Bytes[],
  more: Partial<GraphSpec> = {},
  last = [3],
  first = [3],
): GraphSpec {
  const arm = (op: string, size: number[]): Bytes =>
    graph({ nodes: [node(op, ['x', 'y'], ['o'])], outputs: [value('o', FLOAT, size)] });
  return {
    ...more,
    nodes: [
      ...condition,
      node('If', ['c'], ['r'], {
        name: 'choice',
        attrs: [
          attr.graph('then_branch', arm('Add', first)),
          attr.graph('else_branch', arm('Sub', last)),
        ],
      }),
      node('Neg', ['r'], ['out']),
    ],
    inputs: [...(more.inputs ?? []), value('x', FLOAT, first), value('y', FLOAT, first)],
    outputs: [value('out', FLOAT, first)],
  };
}

/** Adds the i-th element of a constant; gives the running sums too. */
function loop11(trips: Bytes[], inputs: Bytes[], trip = 'trip'): GraphSpec {
  const body = graph({
    nodes: [
      node('Unsqueeze', ['i', 'axis'], ['from']),
      node('Add', ['from', 'one'], ['to']),
      node('Slice', ['xs', 'from', 'to'], ['x']),
      node('Add', ['y_in', 'x'], ['y_out']),
      node('Identity', ['on'], ['on_out']),
      node('Identity', ['y_out'], ['row']),
    ],
    inputs: [value('i', INT64, []), value('on', BOOL, []), value('y_in', FLOAT, [1])],
    outputs: [value('on_out', BOOL, []), value('y_out', FLOAT, [1]), value('row', FLOAT, [1])],
    initializers: [
      ints('axis', 0),
      ints('one', 1),
      tensor('xs', FLOAT, [5], raw(...floatBits(1, 2, 3, 4, 5))),
    ],
  });
  return {
    nodes: [node('Loop', [trip, '', 'y'], ['sum', 'rows'], { attrs: [attr.graph('body', body)] })],
    inputs: [...inputs, value('y', FLOAT, [1])],
    outputs: [value('sum', FLOAT, [1]), value('rows', FLOAT, [undefined, 1])],
    initializers: trips,
  };
}

/** Halves and adds along the sequence. */
function scan(
  length: number,
  attrs: Bytes[] = [],
  x: (number | string)[] = [length, 2],
): GraphSpec {
  const body = graph({
    nodes: [
      node('Mul', ['s', 'half'], ['h']),
      node('Add', ['h', 'x'], ['s1']),
      node('Relu', ['s1'], ['row']),
    ],
    inputs: [value('s', FLOAT, [2]), value('x', FLOAT, [2])],
    outputs: [value('s1', FLOAT, [2]), value('row', FLOAT, [2])],
    initializers: [float('half', 0.5)],
  });
  return {
    nodes: [
      node('Scan', ['s0', 'xs'], ['last', 'rows'], {
        attrs: [attr.graph('body', body), attr.int('num_scan_inputs', 1), ...attrs],
      }),
    ],
    inputs: [value('s0', FLOAT, [2]), value('xs', FLOAT, x)],
    outputs: [value('last', FLOAT, [2]), value('rows', FLOAT)],
  };
}

describe('ONNX control flow', () => {
  it('an If whose condition folds from shapes is its branch', () => {
    const c = compiled(
      branches(
        [
          node('Shape', ['x'], ['s']),
          node('Gather', ['s', 'zero'], ['d']),
          node('Greater', ['d', 'two'], ['c']),
        ],
        { initializers: [int('zero', 0), int('two', 2)] },
      ),
    );
    assert.deepEqual(ops(c).slice(-2), ['add', 'neg']);
    assert.equal(c.result.after.kernels.length, 1);
    assert.equal(c.result.regions, undefined);
    assert.deepEqual(run(c, { x: [1, 2, 3], y: [1, 1, 1] }), [[-2, -3, -4]]);
  });

  it('one branch can decide on the next', () => {
    const rows = (n: number): Bytes =>
      graph({
        nodes: [node('Constant', [], ['o'], { attrs: [attr.tensor('value', ints('t', n))] })],
        outputs: [value('o', INT64, [1])],
      });
    const c = compiled({
      nodes: [
        node('Shape', ['x'], ['s']),
        node('Equal', ['s', 'three'], ['c']),
        node('If', ['c'], ['n'], {
          attrs: [attr.graph('then_branch', rows(7)), attr.graph('else_branch', rows(8))],
        }),
        node('Equal', ['n', 'seven'], ['c2']),
        node('If', ['c2'], ['y'], {
          attrs: ['Exp', 'Tanh'].map((op, i) =>
            attr.graph(
              i === 0 ? 'then_branch' : 'else_branch',
              graph({ nodes: [node(op, ['x'], ['o'])], outputs: [value('o', FLOAT, [3])] }),
            ),
          ),
        }),
      ],
      inputs: [value('x', FLOAT, [3])],
      outputs: [value('y', FLOAT, [3])],
      initializers: [ints('three', 3), ints('seven', 7)],
    });
    assert.deepEqual(ops(c).slice(-1), ['exp']);
  });

  it('an If whose condition is data computes both ways where they are small, and selects', () => {
    const c = compiled(branches([], { inputs: [value('c', BOOL, [])] }));
    assert.deepEqual(ops(c), ['add', 'sub', 'where', 'neg']);
    assert.equal(c.result.regions, undefined);
    assert.equal(c.result.after.kernels.length, 1);
    const feeds = { x: [1, 2, NaN], y: [3, 2, 1] };
    assert.deepEqual(run(c, { ...feeds, c: [1] }), [[-4, -4, NaN]]);
    assert.deepEqual(run(c, { ...feeds, c: [0] }), [[2, -0, NaN]]);
  });

  it('a large If whose condition is data is a region with two bodies', () => {
    const size = [2 ** 18];
    const c = compiled(branches([], { inputs: [value('c', BOOL, [])] }, size, size));
    assert.deepEqual(ops(c), ['n0/then: add', 'n0/else: sub', 'if', 'neg']);
    const { regions, after, decisions } = c.result;
    assert.deepEqual(
      regions?.map((r) => r.bodies.map((b) => [b.title, b.kernelsBefore.length, b.kernels])),
      [
        [
          ['If choice: then', 1, ['k0']],
          ['If choice: else', 1, ['k1']],
        ],
      ],
    );
    assert.deepEqual(
      after.kernels.map((k) => k.region),
      ['n0/then', 'n0/else', undefined],
    );
    const cut = decisions.find((d) => d.from === 'n0' && d.to === 'n1');
    assert.equal(cut?.verdicts[0]?.code, 'CONTROL_FLOW');
    const filled = (...first: number[]): number[] => [
      ...first,
      ...new Array<number>(2 ** 18 - first.length).fill(0),
    ];
    const feeds = { x: filled(1, 2, 3), y: filled(3, 2, 1) };
    assert.deepEqual(run(c, { ...feeds, c: [1] })[0]?.slice(0, 3), [-4, -4, -4]);
    assert.deepEqual(run(c, { ...feeds, c: [0] })[0]?.slice(0, 3), [2, -0, -2]);
  });

  it('branches of different shapes are unsupported, and both are shown', () => {
    const spec = branches([], { inputs: [value('c', BOOL, [])] });
    const small = graph({
      nodes: [node('ReduceSum', ['x'], ['o'])],
      outputs: [value('o', FLOAT, [1])],
    });
    const big = graph({ nodes: [node('Abs', ['x'], ['o'])], outputs: [value('o', FLOAT, [3])] });
    const c = compiled({
      ...spec,
      nodes: [
        node('If', ['c'], ['r'], {
          attrs: [attr.graph('then_branch', big), attr.graph('else_branch', small)],
        }),
        node('Neg', ['r'], ['out']),
      ],
    });
    assert.match(faults(c)[0] ?? '', /its branches give f32\[3\] and f32\[1\] for r/);
    assert.equal(c.result.after.kernels.length, 2);
    assert.equal(c.result.runnable.ok, false);
  });

  it('a Loop of a known number of iterations is unrolled', () => {
    const c = compiled(loop11([int('trip', 5)], []));
    assert.equal(c.result.regions, undefined);
    assert.ok(c.result.graph.nodes.some((n) => n.id === 'n0/4/3'));
    assert.ok(c.result.after.kernels.length < c.result.before.kernels.length);
    assert.deepEqual(run(c, { y: [-2] }), [[13], [-1, 1, 4, 8, 13]]);
  });

  it('a Loop that ends by a condition that folds ends there', () => {
    const body = graph({
      nodes: [node('Add', ['y', 'x'], ['z']), node('Less', ['i', 'limit'], ['on'])],
      inputs: [value('i', INT64, []), value('_', BOOL, []), value('y', FLOAT, [2])],
      outputs: [value('on', BOOL, []), value('z', FLOAT, [2])],
    });
    const c = compiled({
      nodes: [node('Loop', ['most', '', 'x'], ['r'], { attrs: [attr.graph('body', body)] })],
      inputs: [value('x', FLOAT, [2])],
      outputs: [value('r', FLOAT, [2])],
      initializers: [int('limit', 3), tensor('most', INT64, [], raw(...int64Bits(2 ** 53)))],
    });
    assert.deepEqual(ops(c).filter((o) => o === 'add').length, 4);
    assert.deepEqual(run(c, { x: [1, 2] }), [[5, 10]]);
  });

  it('no iteration gives the initial values, and no rows', () => {
    const c = compiled(loop11([int('trip', 0)], []));
    assert.deepEqual(run(c, { y: [-2] }), [[-2], []]);
  });

  it('rows of a Loop need a number of iterations that is known', () => {
    const c = compiled(loop11([], [value('trip', INT64, [])]));
    assert.match(faults(c).join('\n'), /the size of its result rows is only known when it has run/);
  });

  it('of a Loop with rows, the command line compiles in what decides how often it runs', () => {
    const c = compiled(loop11([], [value('trip', INT64, [])]));
    const opaque = c.result.graph.nodes.filter((n) => n.kind === 'opaque').map((n) => n.id);
    const wanted = operandsToKnow(c.graph, new Set(opaque));
    assert.deepEqual(
      wanted.map((id) => c.graph.tensors.get(id)?.name),
      ['trip'],
    );
  });

  it('a Loop that data ends is a region; what it carries is handed over at once', () => {
    const body = graph({
      nodes: [node('Less', ['i', 'k'], ['on'])],
      inputs: [
        value('i', INT64, []),
        value('_', BOOL, []),
        value('a', FLOAT, [2]),
        value('b', FLOAT, [2]),
      ],
      outputs: [value('on', BOOL, []), value('b', FLOAT, [2]), value('a', FLOAT, [2])],
    });
    const c = compiled({
      nodes: [node('Loop', ['', '', 'p', 'q'], ['r', 's'], { attrs: [attr.graph('body', body)] })],
      inputs: [value('k', INT64, []), value('p', FLOAT, [2]), value('q', FLOAT, [2])],
      outputs: [value('r', FLOAT, [2]), value('s', FLOAT, [2])],
    });
    assert.equal(c.result.regions?.[0]?.kind, 'loop');
    const feeds = { p: [1, 2], q: [3, 4] };
    assert.deepEqual(run(c, { ...feeds, k: [2] }), [
      [3, 4],
      [1, 2],
    ]);
    assert.deepEqual(run(c, { ...feeds, k: [1] }), [
      [1, 2],
      [3, 4],
    ]);
  });

  it('a carried value that grows is unsupported', () => {
    const body = graph({
      nodes: [
        node('Concat', ['y', 'x'], ['z'], { attrs: [attr.int('axis', 0)] }),
        node('ReduceSum', ['x'], ['s'], { attrs: [attr.int('keepdims', 0)] }),
        node('Less', ['s', 'x0'], ['on']),
      ],
      inputs: [value('i', INT64, []), value('_', BOOL, []), value('y', FLOAT, [2])],
      outputs: [value('on', BOOL, []), value('z', FLOAT)],
    });
    const c = compiled({
      nodes: [node('Loop', ['', '', 'x'], ['r'], { attrs: [attr.graph('body', body)] })],
      inputs: [value('x', FLOAT, [2]), value('x0', FLOAT, [])],
      outputs: [value('r', FLOAT)],
    });
    assert.match(faults(c).join('\n'), /y changes from f32\[2\] to f32\[4\] between iterations/);
  });

  /** Rows in the order of the sequence, whichever way it is gone through. */
  const scanned = (xs: readonly number[], back = false): [number[], number[]] => {
    const s = [1, 2];
    const rows = xs.map(() => 0);
    const length = xs.length / 2;
    for (let i = 0; i < length; i++) {
      const t = back ? length - 1 - i : i;
      for (let k = 0; k < 2; k++) {
        s[k] = (s[k] ?? 0) / 2 + (xs[2 * t + k] ?? 0);
        rows[2 * t + k] = Math.max(0, s[k] ?? 0);
      }
    }
    return [s, rows];
  };

  it('a short Scan is unrolled, and its steps share kernels', () => {
    const c = compiled(scan(3), 11);
    assert.equal(c.result.regions, undefined);
    assert.ok(c.result.after.kernels.length < c.result.before.kernels.length);
    const xs = [1, -2, 3, 4, -5, 6];
    assert.deepEqual(run(c, { s0: [1, 2], xs }), scanned(xs));
  });

  it('a Scan of an old operator set goes through a batch', () => {
    const spec = scan(0);
    const [body] = [spec.nodes ?? []].flat();
    assert.ok(body);
    const inner = graph({
      nodes: [node('Add', ['s', 'x'], ['s1']), node('Identity', ['s1'], ['row'])],
      inputs: [value('s', FLOAT, [1]), value('x', FLOAT, [1])],
      outputs: [value('s1', FLOAT, [1]), value('row', FLOAT, [1])],
    });
    const c = compiled(
      {
        nodes: [
          node('Scan', ['', 's0', 'xs'], ['last', 'rows'], {
            attrs: [attr.graph('body', inner), attr.int('num_scan_inputs', 1)],
          }),
        ],
        inputs: [value('s0', FLOAT, [2, 1]), value('xs', FLOAT, [2, 3, 1])],
        outputs: [value('last', FLOAT, [2, 1]), value('rows', FLOAT, [2, 3, 1])],
      },
      8,
    );
    assert.deepEqual(run(c, { s0: [0, 10], xs: [1, 2, 3, 4, 5, 6] }), [
      [6, 25],
      [1, 3, 6, 14, 19, 25],
    ]);
  });

  it('a long Scan is a region that knows how often it runs, and so is one over a symbolic size', () => {
    const xs = Array.from({ length: 2000 }, (_, i) => (i % 7) - 3);
    const [last, rows] = scanned(xs, true);
    const back = [
      attr.ints('scan_input_directions', [1]),
      attr.ints('scan_output_directions', [1]),
    ];
    const c = compiled(scan(1000, back), 11);
    assert.deepEqual(
      c.result.regions?.map((r) => [r.kind, r.trips, r.bodies.map((b) => b.kernels.length)]),
      [['loop', 1000, [1]]],
    );
    assert.deepEqual(run(c, { s0: [1, 2], xs }), [last, rows]);
    const symbolic = compile(
      { file: 'm.onnx', bytes: model(scan(0, [], ['N', 2]), 11) },
      { dims: { N: 4 } },
    );
    assert.equal(symbolic.result.regions?.[0]?.trips, 4);
    const few = [1, 2, 3, 4, 5, 6, 7, 8];
    assert.deepEqual(run(symbolic, { s0: [1, 2], xs: few }), scanned(few));
  });

  it('slices and rows along other axes', () => {
    const across = [attr.ints('scan_input_axes', [-1]), attr.ints('scan_output_axes', [1])];
    const xs = Array.from({ length: 6 }, (_, i) => i);
    const turned = (v: readonly number[], rows: number): number[] =>
      v.map((_, i) => v[(i % rows) * (v.length / rows) + Math.floor(i / rows)] ?? 0);
    const [last, rows] = scanned(turned(xs, 2));
    for (const length of [3, 'N'] as const) {
      const bytes = model(scan(0, across, [2, length]), 11);
      const c = compile({ file: 'm.onnx', bytes }, length === 'N' ? { dims: { N: 3 } } : {});
      assert.equal(c.result.regions === undefined, length === 3);
      assert.deepEqual(run(c, { s0: [1, 2], xs }), [last, turned(rows, 3)]);
    }
  });

  it('sequences are followed where each step is known', () => {
    const c = compiled({
      nodes: [
        node('SplitToSequence', ['x'], ['s'], { attrs: [attr.int('axis', 0)] }),
        node('SequenceErase', ['s', 'one'], ['s1']),
        node('SequenceInsert', ['s1', 'y', 'zero'], ['s2']),
        node('SequenceAt', ['s2', 'last'], ['at']),
        node('SequenceLength', ['s2'], ['n']),
        node('ConcatFromSequence', ['s2'], ['r'], { attrs: [attr.int('axis', 0)] }),
        node('Optional', ['at'], ['o']),
        node('OptionalHasElement', ['o'], ['has']),
        node('OptionalGetElement', ['o'], ['got']),
      ],
      inputs: [value('x', FLOAT, [3, 2]), value('y', FLOAT, [1, 2])],
      outputs: [
        value('r', FLOAT, [3, 2]),
        value('n', INT64, []),
        value('got', FLOAT, [1, 2]),
        value('has', BOOL, []),
      ],
      initializers: [int('one', 1), int('zero', 0), int('last', -1)],
    });
    assert.deepEqual(run(c, { x: [1, 2, 3, 4, 5, 6], y: [7, 8] }), [
      [7, 8, 1, 2, 5, 6],
      [3],
      [5, 6],
      [1],
    ]);
  });

  it('a Loop that makes a list', () => {
    const body = graph({
      nodes: [node('SequenceInsert', ['s', 'x'], ['t']), node('Identity', ['on'], ['go'])],
      inputs: [value('i', INT64, []), value('on', BOOL, []), value('s', FLOAT)],
      outputs: [value('go', BOOL, []), value('t', FLOAT)],
    });
    const c = compiled({
      nodes: [
        node('SequenceEmpty', [], ['none']),
        node('Loop', ['three', '', 'none'], ['list'], { attrs: [attr.graph('body', body)] }),
        node('ConcatFromSequence', ['list'], ['r'], {
          attrs: [attr.int('axis', 0), attr.int('new_axis', 1)],
        }),
      ],
      inputs: [value('x', FLOAT, [2])],
      outputs: [value('r', FLOAT, [3, 2])],
      initializers: [int('three', 3)],
    });
    assert.deepEqual(run(c, { x: [1, 2] }), [[1, 2, 1, 2, 1, 2]]);
  });

  it('SequenceMap runs its body for each element', () => {
    const body = graph({
      nodes: [node('Add', ['e', 'y'], ['o'])],
      inputs: [value('e', FLOAT), value('y', FLOAT)],
      outputs: [value('o', FLOAT)],
    });
    const c = compiled({
      nodes: [
        node('SequenceConstruct', ['x', 'y'], ['s']),
        node('SequenceMap', ['s', 'y'], ['t'], { attrs: [attr.graph('body', body)] }),
        node('ConcatFromSequence', ['t'], ['r'], { attrs: [attr.int('axis', 0)] }),
      ],
      inputs: [value('x', FLOAT, [2]), value('y', FLOAT, [2])],
      outputs: [value('r', FLOAT, [4])],
    });
    assert.deepEqual(run(c, { x: [1, 2], y: [10, 20] }), [[11, 22, 20, 40]]);
  });

  it('FlexAttention with graphs for scores and probabilities', () => {
    const change = (op: string, by: number): Bytes =>
      graph({
        nodes: [node(op, ['s', 'by'], ['t'])],
        inputs: [value('s', FLOAT)],
        outputs: [value('t', FLOAT)],
        initializers: [float('by', by)],
      });
    const shape = [1, 2, 3, 4];
    const spec = (attrs: Bytes[]): GraphSpec => ({
      nodes: [node('FlexAttention', ['q', 'k', 'v'], ['y'], { domain: 'ai.onnx.preview', attrs })],
      inputs: ['q', 'k', 'v'].map((n) => value(n, FLOAT, shape)),
      outputs: [value('y', FLOAT, shape)],
    });
    const numbers = (seed: number): number[] => {
      const random = randomNumbers(seed);
      return Array.from({ length: 24 }, () => random());
    };
    const feeds = { q: numbers(1), k: numbers(2), v: numbers(3) };
    const plain = run(compiled(spec([]), 26), feeds)[0] ?? [];
    const changed = compiled(
      spec([
        attr.graph('score_mod', change('Add', 0.5)),
        attr.graph('prob_mod', change('Mul', 0.25)),
      ]),
      26,
    );
    // A shift of all scores changes nothing.
    const got = run(changed, feeds)[0] ?? [];
    got.forEach((g, i) => assert.ok(Math.abs(g - 0.25 * (plain[i] ?? 0)) < 1e-6));
  });

  it('FlexAttention with graphs is still one kernel', () => {
    const shape = [1, 8, 128, 64];
    const relu = graph({
      nodes: [node('Relu', ['s'], ['t'])],
      inputs: [value('s', FLOAT)],
      outputs: [value('t', FLOAT)],
    });
    const c = compiled(
      {
        nodes: [
          node('FlexAttention', ['q', 'k', 'v'], ['y'], {
            domain: 'ai.onnx.preview',
            attrs: [attr.graph('score_mod', relu)],
          }),
        ],
        inputs: ['q', 'k', 'v'].map((n) => value(n, FLOAT, shape)),
        outputs: [value('y', FLOAT, shape)],
      },
      26,
    );
    assert.deepEqual(
      c.result.after.kernels.map((k) => k.pattern),
      ['attention'],
    );
  });

  it('random models give what a plain evaluator gives, inlined or not', function () {
    this.timeout(60_000);
    let regions = 0;
    for (let seed = 1; seed <= 80; seed++) {
      const m = randomControlModel(randomNumbers(seed * 7919));
      const c = compiled(m.bytes);
      regions += c.result.regions?.length ?? 0;
      const counts = Object.entries(m.counts).map(([k, n]): [string, number[]] => [k, [n]]);
      const got = run(c, { ...m.vectors, ...Object.fromEntries(counts) })[0] ?? [];
      m.expected.forEach((e, i) => {
        assert.ok(
          Math.abs((got[i] ?? NaN) - e) < 1e-6,
          `seed ${seed}: ${got.join()} not ${m.expected.join()}`,
        );
      });
      for (const k of c.result.after.kernels) {
        const bodies = new Set(k.nodes.map((n) => c.graph.nodes.find((x) => x.id === n)?.body));
        assert.ok(bodies.size <= 2, 'a kernel reaches across a border');
      }
    }
    assert.ok(regions > 40, `only ${regions} regions`);
  });
});
