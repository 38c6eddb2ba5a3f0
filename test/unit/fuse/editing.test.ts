// What an editor asks of a `.fuse` text: lens places, outline, symbols, completion.

import assert from 'node:assert/strict';
import { importFuse, scanFuse } from '../../../compiler/import/fuse';
import { callHelpAt, suggestionsAt } from '../../../compiler/import/fuse/completion';
import {
  definitionOf,
  isValidName,
  outlineFuse,
  referencesOf,
  symbolAt,
} from '../../../compiler/import/fuse/outline';

const SOURCE = `dim B = 64
input x: f32[B, 8]
param w: f32[8, 8]  # B is not meant here
const scale = 0.5
a = -x @ w * -2 ** 2
q, k = split(F.relu(a) + relu(a -
  scale), 4, axis=-1)
output q, k
nofuse a -> q
expect kernels <= 2
`;

describe('fuse: scan for lenses', () => {
  it('finds the ops of the importer, with their ids', () => {
    const { ops } = scanFuse(SOURCE);
    const { graph, diagnostics } = importFuse(SOURCE, 't.fuse');
    assert.deepEqual(diagnostics, []);
    const places = (list: readonly { id: string; range?: unknown }[]): unknown[] =>
      list.map(({ id, range }) => ({ id, range })).sort((p, r) => (p.id < r.id ? -1 : 1));
    // The scan doesn't know that a power of numbers is no op.
    assert.deepEqual(
      places(ops.filter((o) => o.id !== 'a#pow' && o.id !== 'a#neg/1')),
      places(graph.nodes),
    );
    const line = ops.find((o) => o.id === 'q#relu/1');
    assert.deepEqual([line?.line, line?.name, line?.op], [5, 'q', 'relu']);
  });

  it('follows names that are taken again', () => {
    const text = 'input x: f32[4]\nx += relu(x) + 1\nx = tanh(x)\nx **= 2; x @= x + x\noutput x';
    const ids = importFuse(text, 't.fuse').graph.nodes.map((n) => n.id);
    assert.deepEqual(
      scanFuse(text)
        .ops.map((o) => o.id)
        .sort(),
      [...ids].sort(),
    );
    assert.deepEqual([...ids].sort(), [
      ...['x~2#add', 'x~2#add/1', 'x~2#relu', 'x~3#tanh', 'x~4#pow', 'x~5#add', 'x~5#matmul'],
    ]);
  });

  it('works on texts that don’t parse', () => {
    const { ops } = scanFuse('y = relu(x\nz = tanh(x)) +\nw = exp((x + 1');
    assert.deepEqual(
      ops.map((o) => `${o.line} ${o.id}`),
      ['0 y#relu', '1 z#tanh', '1 z#add', '2 w#exp', '2 w#add'],
    );
  });

  it('takes microseconds a line', () => {
    const text = Array.from({ length: 50_000 }, (_, i) => `y${i} = relu(x + ${i})`).join('\n');
    const started = performance.now();
    assert.equal(scanFuse(text).ops.length, 100_000);
    const perLine = ((performance.now() - started) * 1000) / 50_000;
    assert.ok(perLine < 100, `${perLine.toFixed(1)} µs a line`);
  });
});

describe('fuse: outline and symbols', () => {
  it('lists what the file says', () => {
    assert.deepEqual(
      outlineFuse(SOURCE).map((s) => `${s.kind} ${s.name} ${s.detail}`.trim()),
      [
        'dim B = 64',
        'input x f32[B, 8]',
        'param w f32[8, 8]',
        'const scale = 0.5',
        'value a *',
        'value q split',
        'value k split',
        'output q',
        'output k',
        'directive nofuse a -> q',
        'directive expect kernels <= 2',
      ],
    );
  });

  it('finds definitions and references, in directives and shapes too', () => {
    const at = (line: number, column: number) => ({ line, column });
    assert.deepEqual(definitionOf(SOURCE, at(5, 20)), { start: at(4, 0), end: at(4, 1) });
    const places = (line: number, column: number): string[] =>
      referencesOf(SOURCE, at(line, column)).map(
        (o) => `${o.role} ${o.range.start.line}:${o.range.start.column}`,
      );
    assert.deepEqual(places(4, 0), ['definition 4:0', 'use 5:20', 'use 5:30', 'use 8:7']);
    assert.deepEqual(places(0, 4), ['definition 0:4', 'use 1:13']);
    assert.deepEqual(places(8, 12), ['definition 5:0', 'use 7:7', 'use 8:12']);
    // Op names, keywords, dtypes and comments are no symbols.
    for (const [line, column] of [
      [5, 8],
      [0, 1],
      [1, 10],
      [2, 24],
    ] as const) {
      assert.equal(symbolAt(SOURCE, at(line, column)), undefined);
    }
  });

  it('goes to the definition that holds there where a name is taken again', () => {
    const text = 'input x: f32[4]\nx = relu(x)\nx += 1\ny = x\noutput y';
    const at = (line: number, column: number) => ({ line, column });
    assert.equal(definitionOf(text, at(1, 9))?.start.line, 0);
    assert.equal(definitionOf(text, at(2, 0))?.start.line, 2);
    assert.equal(definitionOf(text, at(3, 4))?.start.line, 2);
    // A rename changes each place once.
    assert.equal(referencesOf(text, at(1, 0)).length, 5);
  });

  it('knows which names can be given', () => {
    for (const good of ['y', 'größe', '_x1', 'output']) assert.ok(isValidName(good), good);
    for (const bad of ['', '1y', 'a b', 'a.b', 'true', '_', 'x#', ' y']) {
      assert.ok(!isValidName(bad), bad);
    }
  });
});

describe('fuse: completion', () => {
  const labels = (line: string): string[] => {
    const text = `${SOURCE}${line}`;
    const lines = text.split('\n');
    return suggestionsAt(text, { line: lines.length - 1, column: line.length }).map((s) => s.label);
  };

  it('offers what fits the place', () => {
    assert.ok(labels('').includes('input'));
    assert.ok(labels('inp').includes('input'));
    assert.deepEqual(labels('input z: f32[').join(), 'B');
    assert.ok(labels('input z: f').includes('f16'));
    assert.deepEqual(labels('output '), ['a', 'q', 'k']);
    assert.deepEqual(labels('expect '), ['kernels', 'bytes', 'fused', 'pattern']);
    assert.ok(labels('expect pattern q = ').includes('into-reduction'));
    assert.deepEqual(labels('expect kernels <= '), []);
    const inCall = labels('z = softmax(a, ');
    for (const l of ['axis=', 'a', 'scale', 'relu']) assert.ok(inCall.includes(l), l);
  });

  it('shows the signature of the innermost open call', () => {
    const help = (line: string): [string, number] | undefined => {
      const text = `${SOURCE}${line}`;
      const h = callHelpAt(text, { line: SOURCE.split('\n').length - 1, column: line.length });
      return h && [h.op, h.activeParameter];
    };
    assert.deepEqual(help('z = softmax(relu(a), '), ['softmax', 1]);
    assert.deepEqual(help('z = softmax(relu('), ['relu', 0]);
    assert.deepEqual(help('z = cat([a, a, '), ['cat', 0]);
    assert.equal(help('z = relu(a)'), undefined);
  });
});
