/**
 * The command line's grammar, its messages, and the layout of text.
 */
import assert from 'node:assert/strict';
import { type CommandSpec, dimsOf, parseArgs, suggestion } from '../../../cli/args';
import { painter, wantsColours } from '../../../cli/format/colour';
import { displayWidth, plain, shorten, table } from '../../../cli/format/table';
import { bytesText, factorText, timeText, valueText } from '../../../cli/format/units';

const spec: CommandSpec = {
  name: 'show',
  positional: 'FILE',
  summary: '',
  flags: [
    { name: 'json', doc: '' },
    { name: 'dim', value: 'NAME=SIZE', repeat: true, doc: '' },
    { name: 'output', short: 'o', value: 'DIR', doc: '' },
    { name: 'plan', value: 'fused|unfused', choices: ['fused', 'unfused'], doc: '' },
    { name: 'seconds', value: 'S', number: { min: 0.5, max: 60, integer: false }, doc: '' },
    { name: 'help', short: 'h', doc: '' },
  ],
};
const parse = (...argv: string[]): unknown => {
  const r = parseArgs(spec, argv);
  return r.ok
    ? [r.args.positionals, [...r.args.switches], Object.fromEntries(r.args.values)]
    : r.message;
};

describe('command line', () => {
  it('reads flags in every form, and positionals that look like flags after --', () => {
    assert.deepEqual(parse('--json', 'a.onnx', '--dim', 'B=3', '--dim=S=4', '-o', 'out'), [
      ['a.onnx'],
      ['json'],
      { dim: ['B=3', 'S=4'], output: ['out'] },
    ]);
    assert.deepEqual(parse('--', '--json'), [['--json'], [], {}]);
    assert.deepEqual(parse('--seconds', '0.5', 'f'), [['f'], [], { seconds: ['0.5'] }]);
  });

  it('says what is wrong and what was meant', () => {
    assert.equal(parse('f', '--jsno'), 'unknown flag --jsno; did you mean --json?');
    assert.equal(parse('f', '--zzzzzz'), 'unknown flag --zzzzzz');
    assert.equal(parse('f', '--json=1'), '--json takes no value');
    assert.equal(parse('f', '-o'), '-o needs a value: -o DIR');
    assert.equal(parse('f', '-o', '--json'), '-o needs a value: -o DIR');
    assert.equal(parse('f', '-o', 'a', '-o', 'b'), '-o is given twice');
    assert.equal(
      parse('f', '--plan', 'fusde'),
      '--plan is one of fused, unfused, not "fusde"; did you mean fused?',
    );
    assert.equal(
      parse('f', '--seconds', '1e9'),
      '--seconds must be a number from 0.5 to 60, not "1e9"',
    );
    assert.equal(parse(), 'show needs a FILE');
    assert.equal(parse('a', 'b'), 'show takes one FILE, but there is also "b"');
    assert.deepEqual(parse('-h'), [[], ['help'], {}]);
  });

  it('finds the nearest name, also with letters swapped', () => {
    const commands = ['explain', 'kernels', 'profile', 'run', 'conformance'];
    assert.equal(suggestion('explian', commands), '; did you mean explain?');
    assert.equal(suggestion('conf', commands), '; did you mean conformance?');
    assert.equal(suggestion('train', commands), '');
  });

  it('checks sizes', () => {
    const dims = (...texts: string[]): unknown => {
      const r = parseArgs(spec, ['f', ...texts.flatMap((t) => ['--dim', t])]);
      assert(r.ok);
      const d = dimsOf(r.args);
      return d.ok ? d.dims : d.message;
    };
    assert.deepEqual(dims('B=32', 'seq.len=7', 'past=0'), { B: 32, 'seq.len': 7, past: 0 });
    for (const wrong of ['B', 'B=-1', 'B=1.5', '=3', 'B=9999999999'])
      assert.match(String(dims(wrong)), /--dim wants NAME=SIZE/, wrong);
  });
});

describe('text layout', () => {
  it('aligns columns by the width that terminals give', () => {
    assert.deepEqual(
      table(
        [
          ['name', 'n'],
          ['行列', '10'],
          ['e\u0301tat', '7'],
        ],
        ['left', 'right'],
      ),
      ['name   n', '行列  10', 'e\u0301tat   7'],
    );
    const red = painter(true)('red', 'ab');
    assert.equal(displayWidth(red), 2);
    assert.equal(displayWidth('🙂'), 2);
  });

  it('cuts long text and control characters', () => {
    assert.equal(shorten('abcdef', 4), 'abc…');
    assert.equal(shorten('行列積', 4), '行…');
    assert.equal(plain('a\u001b[31mb\nc'), 'a [31mb c');
  });

  it('writes numbers for people', () => {
    assert.deepEqual(
      [0, 1023, 1536, 12582912].map((n) => bytesText(n)),
      ['0 B', '1023 B', '1.50 KiB', '12.0 MiB'],
    );
    assert.deepEqual([1.5, 153, 4650, 2e6].map(timeText), [
      '1.50 µs',
      '153 µs',
      '4.65 ms',
      '2.00 s',
    ]);
    assert.equal(factorText(3.14159), '3.14×');
    assert.deepEqual([0.5, 3e-9, Infinity, NaN].map(valueText), ['0.5', '3.00e-9', 'inf', 'NaN']);
  });

  it('paints on terminals only, and not where NO_COLOR is set', () => {
    const tty = { isTTY: true };
    assert.equal(wantsColours(tty, {}), true);
    assert.equal(wantsColours({}, {}), false);
    assert.equal(wantsColours(tty, { NO_COLOR: '1' }), false);
    assert.equal(wantsColours(tty, { NO_COLOR: '' }), true);
    assert.equal(wantsColours({}, { FORCE_COLOR: '1' }), true);
  });
});
