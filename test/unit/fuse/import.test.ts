// The `.fuse` importer on well-formed files: what graph comes out.

import assert from 'node:assert/strict';
import { importFuse } from '../../../compiler/import/fuse';
import { printDiagnostics, printGraph } from './printing';

/** The printed graph of a file without faults. */
function graphOf(source: string): string[] {
  const { graph, diagnostics } = importFuse(source, 'test.fuse');
  assert.deepEqual(
    diagnostics.filter((d) => d.severity === 'error'),
    [],
  );
  return printGraph(graph);
}

describe('fuse: graphs', () => {
  it('reads the notation of the textbooks', () => {
    assert.deepEqual(
      graphOf(`
dim B = 64  # a size
input x: f32[B, 1024]
param w: f32[1024, 2*B]
param bias: f32[2*B]
a = x @ w
y = softmax(relu(a + bias), axis=-1)
output y
`),
      [
        'dim B = 64',
        'input x: f32[B, 1024]',
        'param w: f32[1024, 2*B]',
        'param bias: f32[2*B]',
        'a#matmul: a = matmul(x, w)',
        'y#add: y/add = add(a, bias)',
        'y#relu: y/relu = relu(y/add)',
        'y#softmax: y = softmax(y/relu) axis=-1',
        'output y = y',
      ],
    );
  });

  it('binds operators by precedence, to the left, and powers to the right', () => {
    const lines = graphOf('input a, b, c: f32[4]\ny = -a + b * c ** a ** b - c / a\noutput y');
    assert.deepEqual(lines.slice(3), [
      'y#neg: y/neg = neg(a)',
      'y#pow/1: y/pow.1 = pow(a, b)',
      'y#pow: y/pow = pow(c, y/pow.1)',
      'y#mul: y/mul = mul(b, y/pow)',
      'y#add: y/add = add(y/neg, y/mul)',
      'y#div: y/div = div(c, a)',
      'y#sub: y = sub(y/add, y/div)',
      'output y = y',
    ]);
  });

  it('reads -2 ** 2 as -(2 ** 2), and comparisons loosest', () => {
    const lines = graphOf('input a: f32[4]\ny = a + -2 ** 2 < a * 3\noutput y');
    assert.deepEqual(lines.slice(1, 5), [
      'const y/=-4: i64[] = -4 weak',
      'const y/=3: i64[] = 3 weak',
      'y#add: y/add = add(a, y/=-4)',
      'y#mul: y/mul = mul(a, y/=3)',
    ]);
    assert.match(lines[5] ?? '', /^y#lt: y = \w+\(y\/add, y\/mul\)$/);
  });

  it('makes weak constants of numbers and folds arithmetic on them', () => {
    assert.deepEqual(
      graphOf(`
input x: f16[8]
const half = 1 / 2
const table: f32[2, 2] = [[1, 2], [3, 4]]
const zeros: f32[64] = 0
y = half * x + 1 / sqrt(64) + [1, 2.5, -inf, 4, 5, 6, 7, 8]
output y
output table
`).filter((l) => l.startsWith('const')),
      [
        'const table: f32[2, 2] = 1 2 3 4',
        'const zeros: f32[64] = all 0',
        'const half: f32[] = 0.5 weak',
        'const y/=0.125: f32[] = 0.125 weak',
        'const y/=[1,2.5,-inf,4,…]@30: f32[8] = 1 2.5 -Infinity 4 5 6 7 8',
      ],
    );
  });

  it('gives several results to as many names, and none to _', () => {
    assert.deepEqual(
      graphOf(`
input x: f32[4, 192]
q, _, v = split(x, 64, axis=-1)
y = q + v
output y
`),
      [
        'input x: f32[4, 192]',
        `q#split: q, q/split:1, v = split(x)${attrsOf('q, _, v = split(x, 64, axis=-1)')}`,
        'y#add: y = add(q, v)',
        'output y = y',
      ],
    );
  });

  /** How the op table spells the attributes; it isn't this test's business. */
  function attrsOf(statement: string): string {
    const { graph } = importFuse(`input x: f32[4, 192]\n${statement}`, 't.fuse');
    const line = printGraph(graph).find((l) => l.startsWith('q#split')) ?? '';
    return line.slice(line.indexOf(')') + 1);
  }

  it('takes dims and consts in sizes, symbolic where they are', () => {
    const lines = graphOf(`
dim B = 4, S = 6
dim T = B * S
const heads = 8
input x: f32[T, heads * 16]
y = reshape(x, [B, S, heads, 16])
z = reshape(x, B, S // 2, -1)
output y, z
`);
    assert.match(lines[3] ?? '', /^y#reshape: y = reshape\(x\) .*\[B, S, 8, 16\]/);
    assert.match(lines[4] ?? '', /^z#reshape: z = reshape\(x\) .*\[B, S \/\/ 2, -1\]/);
    assert.equal(lines[2], 'input x: f32[B*S, 128]');
  });

  it('understands lists with or without brackets, aliases, methods and module names', () => {
    const lines = graphOf(`
input x: f32[4, 8]
a = cat([x, x], dim=1)
b = concat(x, x, axis=1)
c = F.relu(x)
d = x.sum(1, True)
output a, b, c, d
`);
    assert.match(lines[1] ?? '', /^a#cat: a = \w+\(x, x\) axis=1$/);
    assert.equal((lines[2] ?? '').replaceAll('b#concat: b', 'a#cat: a'), lines[1]);
    assert.equal(lines[3], 'c#relu: c = relu(x)');
    assert.match(lines[4] ?? '', /^d#sum: d = \w+\(x\)/);
  });

  it('chooses the form of a name by the arguments', () => {
    const lines = graphOf(`
input x, y: f32[4, 8]
a = max(x, axis=1)
b = max(x, y)
output a, b
`);
    assert.match(lines[2] ?? '', /\(x\)/);
    assert.match(lines[3] ?? '', /\(x, y\)$/);
    assert.notEqual(lines[2]?.match(/= (\w+)/)?.[1], lines[3]?.match(/= (\w+)/)?.[1]);
  });

  it('lets keywords be names, statements share a line, and brackets span lines', () => {
    assert.deepEqual(
      graphOf(
        'input x: f32[\n 4, # four\n 8]; output = relu(\nx\n)\nfuse = tanh(output)\noutput fuse',
      ),
      [
        'input x: f32[4, 8]',
        'output#relu: output = relu(x)',
        'fuse#tanh: fuse = tanh(output)',
        'output fuse = fuse',
      ],
    );
  });

  it('reads tabs, CRLF, CR, a byte order mark and names in any script', () => {
    const lines = ['\tinput größe: f32[4]', 'y = relu(größe)', '\toutput y'];
    const expected = graphOf(lines.join('\n'));
    assert.equal(expected.length, 3);
    for (const end of ['\r\n', '\r']) {
      assert.deepEqual(graphOf(`\ufeff${lines.join(end)}${end}`), expected);
    }
    // The same name, composed and decomposed, is one name.
    const decomposed = 'y'.concat(' = relu(', 'größe'.normalize('NFD'), ')');
    assert.deepEqual(graphOf([lines[0], decomposed, lines[2]].join('\n')), expected);
  });

  it('keeps ids when other lines and other ops change', () => {
    const ids = (source: string): string[] =>
      importFuse(source, 't.fuse').graph.nodes.map((n) => n.id);
    const before = ids('input x: f32[4]\ny = tanh(relu(x) + relu(x * 2))\noutput y');
    const after = ids(
      '# more\n\ninput x: f32[4]\nz = exp(x)\ny = tanh(sigmoid(relu(x)) + relu(x * 2))\noutput y, z',
    );
    assert.deepEqual(before, ['y#relu', 'y#mul', 'y#relu/1', 'y#add', 'y#tanh']);
    assert.ok(before.every((id) => after.includes(id)));
  });

  it('puts node ranges on the op and tensor ranges on the name', () => {
    const { graph } = importFuse('input x: f32[4]\nresult = relu(x) @ x', 't.fuse');
    const at = (r?: {
      start: { line: number; column: number };
      end: { column: number };
    }): string => (r ? `${r.start.line}:${r.start.column}-${r.end.column}` : '');
    assert.deepEqual(
      graph.nodes.map((n) => at(n.range)),
      ['1:9-13', '1:17-18'],
    );
    assert.equal(at(graph.tensors.get('result')?.range), '1:0-6');
    assert.equal(at(graph.tensors.get('x')?.range), '0:6-7');
  });

  it('makes what nothing uses an output when there is no output line', () => {
    const { graph, diagnostics } = importFuse(
      'input x: f32[4]\na = relu(x)\nb = exp(a)\nc = tanh(a)',
      't.fuse',
    );
    assert.deepEqual(
      graph.outputs.map((o) => o.name),
      ['b', 'c'],
    );
    assert.deepEqual(printDiagnostics(diagnostics), ['info NO_OUTPUT 4:1']);
  });
});

describe('fuse: directives', () => {
  const source = `
input x: f32[4, 8]
param w: f32[8, 8]
param b: f32[8]
a = x @ w
y = layer_norm(relu(a + b), axis=-1)
output y
expect kernels <= 2      # a comment
expect bytes < 1.5 MiB
expect bytes >= 12KB
expect fused a, y
expect pattern y = into-reduction
materialize a
nofuse a -> y
fuse a, y
recompute a
schedule y {
  workgroup = 128, layout = "rows"
  vector = 4
}
`;

  it('binds each kind', () => {
    const { graph, diagnostics } = importFuse(source, 't.fuse');
    assert.deepEqual(printDiagnostics(diagnostics), []);
    assert.deepEqual(
      graph.directives.map(({ range: _, ...d }) => d),
      [
        {
          kind: 'expect',
          expectation: { kind: 'kernels', relation: '<=', count: 2 },
          text: 'expect kernels <= 2',
        },
        {
          kind: 'expect',
          expectation: { kind: 'bytes', relation: '<', bytes: 1.5 * 2 ** 20 },
          text: 'expect bytes < 1.5 MiB',
        },
        {
          kind: 'expect',
          expectation: { kind: 'bytes', relation: '>=', bytes: 12000 },
          text: 'expect bytes >= 12KB',
        },
        {
          kind: 'expect',
          expectation: { kind: 'fused', values: ['a', 'y'] },
          text: 'expect fused a, y',
        },
        {
          kind: 'expect',
          expectation: { kind: 'pattern', value: 'y', pattern: 'into-reduction' },
          text: 'expect pattern y = into-reduction',
        },
        { kind: 'materialize', value: 'a', text: 'materialize a' },
        // The edge ends at the op that reads a, within y's statement.
        { kind: 'nofuse', from: 'a', to: 'y/add', text: 'nofuse a -> y' },
        { kind: 'fuse', values: ['a', 'y'], text: 'fuse a, y' },
        { kind: 'recompute', value: 'a', text: 'recompute a' },
        {
          kind: 'schedule',
          value: 'y',
          params: { workgroup: 128, layout: 'rows', vector: 4 },
          text: 'schedule y { workgroup = 128, layout = "rows" vector = 4 }',
        },
      ],
    );
  });

  it('may stand before what they speak about', () => {
    const { graph, diagnostics } = importFuse(
      'fuse a, b\noutput b\ninput x: f32[4]\na = relu(x)\nb = exp(a)',
      't.fuse',
    );
    assert.deepEqual(printDiagnostics(diagnostics), []);
    assert.equal(graph.directives.length, 1);
    assert.deepEqual(graph.outputs[0]?.tensor, 'b');
  });

  it('says when they ask for what can’t be', () => {
    const { diagnostics } = importFuse(
      [
        'input x: f32[4]',
        'a = relu(x)',
        'b = exp(x)',
        'output a, b, a',
        'materialize x',
        'nofuse a -> b',
        'fuse a, x',
        'expect fused a, c',
        'expect pattern b = composit',
        'expect bytes <= 3 MIB',
        'expect kernels = 3',
        'nofuse a b',
        'nofuse x -> a',
      ].join('\n'),
      't.fuse',
    );
    assert.deepEqual(printDiagnostics(diagnostics), [
      'warning DUPLICATE_OUTPUT 4:14',
      'warning NO_EFFECT 5:13',
      'warning NO_EDGE 6:1',
      'error NOT_COMPUTED 7:9',
      'error UNKNOWN_NAME 8:17',
      'error UNKNOWN_PATTERN 9:20',
      'error UNKNOWN_UNIT 10:19',
      'error EXPECTED_TOKEN 11:16',
      'error EXPECTED_TOKEN 12:10',
      'warning NO_EFFECT 13:8',
    ]);
    const fixes = diagnostics.flatMap((d) => (d.fixes ?? []).map((f) => f.title));
    assert.deepEqual(fixes, ['Change to composite', 'Change to MiB', 'Change to ==']);
  });
});
