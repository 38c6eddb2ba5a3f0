import assert from 'node:assert/strict';
import {
  count,
  firstClause,
  formatBytes,
  formatFactor,
  formatFlops,
  formatMicroseconds,
  shorten,
} from '../../../extension/common/format';

describe('quantities as people read them', () => {
  it('have three digits or so and a unit that fits', () => {
    assert.deepEqual(
      [0, 1023, 1024, 1536, 262144, 1048575, 2 ** 20, 12 * 2 ** 20].map(formatBytes),
      ['0 B', '1023 B', '1.0 KiB', '1.5 KiB', '256 KiB', '1.0 MiB', '1.0 MiB', '12.0 MiB'],
    );
    assert.deepEqual([0.05, 9.9, 9.96, 41.2, 999.6, 1250, 3.1e6].map(formatMicroseconds), [
      '0.1 µs',
      '9.9 µs',
      '10 µs',
      '41 µs',
      '1.00 ms',
      '1.25 ms',
      '3.10 s',
    ]);
    assert.deepEqual([999, 1000, 2.5e9].map(formatFlops), ['999 flop', '1.0 kflop', '2.5 Gflop']);
    assert.deepEqual([0.714, 0.94, 1.034, 1.96, 3.14, 120].map(formatFactor), [
      '0.71×',
      '0.94×',
      '1.03×',
      '2.0×',
      '3.1×',
      '120×',
    ]);
    assert.deepEqual(
      [count(1, 'op'), count(2, 'op'), count(1234, 'launch', 'launches')],
      ['1 op', '2 ops', '1,234 launches'],
    );
  });

  it('are cut where that does least harm', () => {
    assert.equal(shorten('a  b\nc', 10), 'a b c');
    assert.equal(shorten('😀😀😀😀', 3), '😀😀…');
    assert.equal(
      firstClause('one kernel would do 2.5 times the work, since elements are shared'),
      'one kernel would do 2.5 times the work',
    );
    assert.equal(
      firstClause('g has no known lowering (There is no op relo. Did you mean relu?)'),
      'g has no known lowering',
    );
    assert.equal(firstClause('no, that stays: short'), 'no, that stays: short');
  });
});
