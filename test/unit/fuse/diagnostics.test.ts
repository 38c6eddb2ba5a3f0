// The `.fuse` importer on faulty files: what is said, where, how it could be put right, and that the
// rest of the file is still read.

import assert from 'node:assert/strict';
import { importFuse } from '../../../compiler/import/fuse';
import { applyFix, printDiagnostics, printGraph } from './printing';

function faultsOf(source: string): string[] {
  const { diagnostics } = importFuse(source, 't.fuse');
  return printDiagnostics(diagnostics.filter((d) => d.severity !== 'hint'));
}

/** The messages of errors only. */
function messagesOf(source: string): string[] {
  const { diagnostics } = importFuse(source, 't.fuse');
  return diagnostics.filter((d) => d.severity === 'error').map((d) => d.message);
}

describe('fuse: faults', () => {
  it('reports each mistake once and reads the rest', () => {
    const source = [
      'input x: f32[4, 4]',
      'a = rleu(x)',
      'b = softmax(a, axs=1)',
      'c = tanh(x',
      'd = exp(x)) + 1',
      'e = relu(c) + d',
      'f = sigmoid(x)',
      'output e, f',
    ].join('\n');
    assert.deepEqual(faultsOf(source), [
      'error UNKNOWN_OP 2:5',
      'error UNKNOWN_ARGUMENT 3:16',
      'error MISSING_BRACKET 4:9',
      'error UNEXPECTED_TOKEN 5:11',
    ]);
    const { graph } = importFuse(source, 't.fuse');
    assert.deepEqual(
      graph.nodes.map((n) => `${n.id}${n.unsupported === undefined ? '' : ' !'}`),
      ['a#rleu !', 'b#softmax !', 'c#tanh', 'd#exp', 'e#relu', 'e#add', 'f#sigmoid'],
    );
    assert.deepEqual(messagesOf(source).slice(0, 2), [
      'There is no op rleu. Did you mean relu?',
      'softmax has no argument axs. Did you mean axis?',
    ]);
  });

  it('makes quick fixes that settle the fault', () => {
    const cases = [
      'input x: f32[4]\ny = rleu(x)\noutput y',
      'input xs: f32[4]\ninput other: f32[4]\ny = relu(otehr) + xs\noutput y',
      'input x: f32[4, 4]\ny = sum(x, axs=1)\noutput y',
      'input x: f23[4]\ny = relu(x)\noutput y',
      'inptu x: f32[4]\ny = relu(x)\noutput y',
      'input x: f32[N, 4]\ny = relu(x)\noutput y',
      'dim N\ninput x: f32[N, 4]\ny = relu(x)\noutput y',
      'input x: f32[4]\ny = relu(x\noutput y',
      'input x: f32[4]\nrelu(x)\noutput y',
      'input x: f32[4]\ny = relu(x)\nreturn y',
      'x: f32[4]\ny = relu(x)\noutput y',
      'input x: f32[?, 4]\ny = relu(x)\noutput y',
      'input x: f32[4]\ny = x × 2\noutput y',
      'input x: f32[4]\ny = relu(x)',
      'input x: f32[4]\nlet y = relu(x)\noutput y',
    ];
    for (const source of cases) {
      const { diagnostics } = importFuse(source, 't.fuse');
      const fixable = diagnostics.filter((d) => d.fixes && d.fixes.length > 0);
      const fix = (fixable.find((d) => d.severity === 'error') ?? fixable[0])?.fixes?.[0];
      assert.ok(fix, `no fix for ${source}`);
      const fixed = applyFix(source, fix);
      assert.deepEqual(faultsOf(fixed), [], `after “${fix.title}”:\n${fixed}`);
    }
  });

  it('offers the declarations of the three-line textbook example', () => {
    const source = 'Y = X @ W\nZ = relu(Y + bias)\noutput Z\n';
    const { graph, diagnostics } = importFuse(source, 't.fuse');
    assert.deepEqual(faultsOf(source), [
      'error UNDECLARED_NAME 1:5',
      'error UNDECLARED_NAME 1:9',
      'error UNDECLARED_NAME 2:14',
    ]);
    const fix = diagnostics[0]?.fixes?.[0];
    assert.equal(fix?.title, 'Declare X, W and bias');
    const fixed = applyFix(source, fix);
    assert.equal(
      fixed,
      `dim M = 64\ndim K = 64\ndim N = 64\ninput X: f32[M, K]\nparam W: f32[K, N]\nparam bias: f32[N]\n${source}`,
    );
    // The graph that is shown meanwhile is the one that the fix makes.
    const after = importFuse(fixed, 't.fuse');
    assert.deepEqual(after.diagnostics, []);
    assert.deepEqual(printGraph(graph).sort(), printGraph(after.graph).sort());
  });

  it('declares below the dims that the new declarations need', () => {
    const source = '# comment\ndim B = 2\ninput x: f32[B, 8]\n\ny = x + z\noutput y\n';
    const { diagnostics } = importFuse(source, 't.fuse');
    const fix = diagnostics[0]?.fixes?.[0];
    assert.ok(fix);
    const fixed = applyFix(source, fix);
    assert.equal(
      fixed,
      '# comment\ndim B = 2\ninput x: f32[B, 8]\n\ninput z: f32[B, 8]\ny = x + z\noutput y\n',
    );
    assert.deepEqual(importFuse(fixed, 't.fuse').diagnostics, []);
  });

  it('guesses declarations from what is declared', () => {
    const guess = (source: string): string => {
      const { diagnostics } = importFuse(source, 't.fuse');
      return diagnostics.flatMap((d) => d.fixes ?? []).at(0)?.edits[0]?.newText ?? '';
    };
    assert.equal(
      guess('dim B = 2\ninput x: f32[B, 8, 16]\ny = x @ w\noutput y'),
      'dim N = 64\nparam w: f32[16, N]\n',
    );
    assert.equal(
      guess('input x: f32[8, 16]\ny = linear(x, w)\noutput y'),
      'dim N = 64\nparam w: f32[N, 16]\n',
    );
    assert.equal(guess('input x: f32[8, 16]\ny = x + z\noutput y'), 'input z: f32[8, 16]\n');
    assert.equal(
      guess('input x: f32[8, 16]\ny = layer_norm(x, gamma)\noutput y'),
      'param gamma: f32[16]\n',
    );
    assert.equal(
      guess('input w: f32[8, 16]\ny = x @ w\noutput y'),
      'dim M = 64\ninput x: f32[M, 8]\n',
    );
  });

  it('checks arguments: counts, kinds, order, duplicates', () => {
    assert.deepEqual(
      faultsOf(
        [
          'input x: f32[4, 4]',
          'a = relu(x, x)',
          'b = matmul(x)',
          'c = softmax(x=x, axis=1, axis=0)',
          'd = softmax(axis=1, x)',
          'e = sum(x, axis="rows")',
          'f = cast(x, f17)',
          'g = add(x, "text")',
          'h = sum(x, keepdim=3)',
          'i, j = relu(x)',
          'k = x',
          'output a, b, c, d, e, f, g, h, i, j, k',
        ].join('\n'),
      ),
      [
        'error TOO_MANY_ARGUMENTS 2:13',
        'error MISSING_ARGUMENT 3:5',
        'error DUPLICATE_ARGUMENT 4:26',
        'error POSITIONAL_AFTER_NAMED 5:21',
        'error WRONG_KIND 6:17',
        'error UNDECLARED_NAME 7:13',
        'error WRONG_KIND 8:12',
        'error WRONG_KIND 9:20',
        'error WRONG_RESULT_COUNT 10:1',
      ],
    );
  });

  it('checks names: order, redefinition, ops and dims as values', () => {
    assert.deepEqual(
      faultsOf(
        [
          'dim B = 4',
          'input x: f32[B]',
          'a = relu(b)',
          'b = exp(x)',
          'input x: f32[B, 2]',
          'c = relu + x',
          'd = x / b / B',
          'input z: f32[C, B]',
          'dim C = 3',
          'output a, b, c, d',
        ].join('\n'),
      ),
      [
        'error USED_BEFORE_DEFINITION 3:10',
        'error REDEFINED 5:7',
        'error OP_AS_VALUE 6:5',
        'error USED_BEFORE_DEFINITION 8:14',
      ],
    );
  });

  it('checks sizes and numbers', () => {
    assert.deepEqual(
      faultsOf(
        [
          'dim A = 99999999999999999999',
          'dim B = -3',
          'dim C = 0.5',
          'dim D = 4',
          'input x: f32[D / 3, -1, 2.5, D]',
          'y = relu(x) + 1e999',
          'z = 1 / 0',
          'output y, z',
        ].join('\n'),
      ),
      [
        'error NUMBER_TOO_LARGE 1:9',
        'error INVALID_DIM 2:9',
        'error INVALID_DIM 3:9',
        'error INVALID_ARITHMETIC 5:16',
        'error INVALID_SIZE 5:21',
        'error INVALID_SIZE 5:25',
        'error NUMBER_TOO_LARGE 6:15',
        'error INVALID_ARITHMETIC 7:7',
      ],
    );
  });

  it('says what isn’t part of the language', () => {
    assert.deepEqual(
      faultsOf(
        [
          'input x: f32[4]',
          'a = x[]',
          'b = x.strides',
          'c = relu(x).dtype',
          'd = x < x < x',
          'e = x && x',
          'f = "text',
          '// no comment',
          'output a',
        ].join('\n'),
      ),
      [
        'error EXPECTED_EXPRESSION 2:6',
        'error NO_ATTRIBUTES 3:5',
        'error NO_ATTRIBUTES 4:12',
        'error CHAINED_COMPARISON 5:11',
        'error UNEXPECTED_TOKEN 6:7',
        'error UNTERMINATED_STRING 7:5',
        'error EXPECTED_STATEMENT 8:1',
      ],
    );
  });

  it('hints at what nothing uses', () => {
    const { diagnostics } = importFuse(
      'dim N = 3\ninput x, unused: f32[4]\na = relu(x)\nb, _c = split(x, 2)\noutput a',
      't.fuse',
    );
    assert.deepEqual(printDiagnostics(diagnostics), [
      'hint UNUSED 1:5',
      'hint UNUSED 2:10',
      'hint UNUSED 4:1',
    ]);
  });

  it('takes names of object properties as names', () => {
    const source =
      'input __proto__: f32[4]\nconstructor = relu(__proto__)\nhasOwnProperty = exp(constructor)\n' +
      'schedule constructor { __proto__ = 3, toString = 4 }\noutput hasOwnProperty';
    const { graph, diagnostics } = importFuse(source, 't.fuse');
    assert.deepEqual(diagnostics, []);
    const directive = graph.directives[0];
    assert.equal(directive?.kind, 'schedule');
    assert.deepEqual(Object.keys(directive.params), ['__proto__', 'toString']);
    assert.deepEqual(faultsOf('input x: f32[4]\ny = toString(x)\noutput y'), [
      'error UNKNOWN_OP 2:5',
    ]);
  });
});

describe('fuse: sizes without bounds', () => {
  const rest = '\nz = relu(x)\noutput z';
  const head = 'input x: f32[4]\n';
  const within = (limit: number, source: string): string[] => {
    // Of this process: how busy the machine is says nothing.
    const started = process.cpuUsage();
    const { graph, diagnostics } = importFuse(source, 't.fuse');
    const ms = process.cpuUsage(started).user / 1000;
    assert.ok(ms < limit, `took ${ms.toFixed(0)} ms`);
    // Past thousands of mistakes the rest isn't read, and that is said.
    const stopped = diagnostics.some((d) => d.code === 'TOO_MANY_MISTAKES');
    if (source.endsWith(rest) && !stopped) assert.ok(graph.nodes.some((n) => n.id === 'z#relu'));
    for (const d of diagnostics) assert.ok(d.message.length < 500);
    assert.ok(diagnostics.length <= 301);
    const codes = diagnostics.filter((d) => d.severity === 'error').map((d) => d.code);
    return [...new Set(codes)].filter((c) => c !== 'TOO_MANY_MISTAKES');
  };

  it('bears any nesting', () => {
    const n = 10_000;
    for (const [open, close] of [
      ['(', ')'],
      ['[', ']'],
      ['relu(', ')'],
      ['-', ''],
      ['x**', ''],
      ['(', ''],
      ['', ')'],
    ] as const) {
      const codes = within(5000, `${head}y = ${open.repeat(n)}x${close.repeat(n)}${rest}`);
      assert.equal(codes.length, 1, `${open} … ${close}: ${codes.join()}`);
    }
  });

  it('bears lines of a megabyte', () => {
    const n = 300_000;
    assert.deepEqual(within(20_000, `${head}y = ${'x + '.repeat(n)}x${rest}`), []);
    assert.deepEqual(within(20_000, `${head}y = cat([${'x, '.repeat(n)}x])${rest}`), []);
    assert.deepEqual(within(20_000, `${head}y = cat(${'x, '.repeat(n)}x)${rest}`), []);
    assert.deepEqual(within(20_000, `${head}y = x + [${'1,'.repeat(n)}1]${rest}`), ['WRONG_KIND']);
    assert.deepEqual(within(5000, `${head}y = ${'q'.repeat(1_000_000)}${rest}`), [
      'UNDECLARED_NAME',
    ]);
    assert.deepEqual(within(5000, `${head}y = ${'9'.repeat(1_000_000)}${rest}`), [
      'NUMBER_TOO_LARGE',
    ]);
    assert.deepEqual(within(5000, `${head}${'§'.repeat(1_000_000)}${rest}`), [
      'UNEXPECTED_CHARACTER',
    ]);
    assert.deepEqual(within(5000, `${head}y = "${'a'.repeat(1_000_000)}${rest}`), [
      'UNTERMINATED_STRING',
    ]);
    within(10_000, `${head}${'\\ '.repeat(300_000)}${rest}`);
  }).timeout(90_000);

  it('bears files of 100,000 lines', () => {
    const lines = (count: number, f: (i: number) => string): string =>
      Array.from({ length: count }, (_, i) => f(i)).join('\n');
    const chain = lines(100_000, (i) => `y${i + 1} = exp(y${i} + x)`);
    assert.deepEqual(within(30_000, `${head}y0 = exp(x)\n${chain}${rest}`), []);
    const junk = lines(20_000, (i) => `foo ${i} bar((`);
    assert.deepEqual(within(10_000, `${head}${junk}${rest}`), ['EXPECTED_TOKEN']);
    const names = lines(20_000, (i) => `y${i} = relu(abc${i})`);
    assert.deepEqual(within(10_000, `${head}${names}${rest}`), ['UNDECLARED_NAME']);
    const ops = lines(20_000, (i) => `y${i} = nope${i}(x)`);
    assert.deepEqual(within(10_000, `${head}${ops}${rest}`), ['UNKNOWN_OP']);
  }).timeout(90_000);

  it('reads an empty file', () => {
    assert.deepEqual(faultsOf(''), ['info EMPTY_GRAPH']);
    assert.deepEqual(faultsOf('\ufeff# only a comment\r\n\r\n'), ['info EMPTY_GRAPH']);
  });
});
