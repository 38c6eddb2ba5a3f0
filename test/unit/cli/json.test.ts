/** JSON in pieces is the JSON of the whole. */
import assert from 'node:assert/strict';
import { jsonPieces } from '../../../cli/format/json';

describe('JSON in pieces', () => {
  const long = Array.from({ length: 1000 }, (_, i) => ({
    i,
    text: `line\n${i}`,
    list: [i, [], {}],
  }));
  const values: readonly unknown[] = [
    {},
    { a: 1 },
    { a: [], b: {}, c: [[]], d: [{}], e: 'x\n  y', f: null, g: [null, undefined] },
    { left: undefined, out: () => 1, b: 2 },
    { only: undefined },
    { nan: NaN, inf: [Infinity, -Infinity], zero: -0 },
    { 'a "key"\n': { deep: { deeper: [1, 2, { x: [] }] } } },
    { long, after: 'é🙂', exact: long.slice(0, 256), more: long.slice(0, 257) },
    [1, 2],
    'text',
    null,
  ];
  for (const value of values) {
    it(`is the same text: ${JSON.stringify(value).slice(0, 40)}`, () => {
      assert.equal([...jsonPieces(value)].join(''), JSON.stringify(value, null, 2));
    });
  }

  it('comes in pieces of a bounded length', () => {
    const pieces = [...jsonPieces({ long: [...long, ...long, ...long] })];
    const whole = pieces.reduce((n, p) => n + p.length, 0);
    assert.ok(Math.max(...pieces.map((p) => p.length)) < whole / 10);
  });
});
