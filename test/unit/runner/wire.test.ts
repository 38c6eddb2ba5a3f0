import assert from 'node:assert/strict';
import { compile } from '../../../compiler';
import { fromWire, toWire } from '../../../runner/core/wire';

/** What VS Code does with a message: JSON, with buffers moved beside it. */
function carry(value: unknown): unknown {
  const buffers: ArrayBufferView[] = [];
  const text = JSON.stringify(value, (_key, item: unknown) =>
    ArrayBuffer.isView(item) ? { $buffer: buffers.push(item) - 1 } : item,
  );
  return JSON.parse(text, (_key, item: unknown) =>
    typeof item === 'object' && item !== null && '$buffer' in item
      ? buffers[item.$buffer as number]
      : item,
  );
}

const travel = (value: unknown) => fromWire(carry(toWire(value)) as never);

describe('what travels between host and page', () => {
  it('arrives as it was: maps, infinities, buffers, absent values', () => {
    const value = {
      map: new Map<unknown, unknown>([
        ['a', [1, -0, NaN, Infinity, -Infinity]],
        [2, undefined],
      ]),
      set: new Set(['x']),
      data: new Float32Array([1, NaN]),
      nothing: null,
      absent: undefined,
      deep: { text: 'τ', flag: true },
      ['__proto__']: 'a name like any other',
    };
    assert.deepStrictEqual(travel(value), value);
    for (const primitive of [null, undefined, 'text', 3, NaN])
      assert.deepStrictEqual(travel(primitive), primitive);
  });

  it('arrives as it was where buffers are carried as JSON, too', () => {
    const value = {
      f: new Float32Array([1.5, NaN]),
      b: Buffer.from([1, 2]),
      h: new Uint16Array(0),
    };
    const wire = toWire(value);
    const arrived = { ...value, b: new Uint8Array([1, 2]) };
    assert.deepStrictEqual(fromWire(JSON.parse(JSON.stringify(wire)) as never), arrived);
    assert.deepStrictEqual(fromWire(carry(wire) as never), arrived);
  });

  it('keeps shared structure shared, and doesn’t mind depth', () => {
    let shared: unknown = { leaf: true };
    for (let i = 0; i < 200; i++) shared = { a: shared, b: shared };
    const wire = toWire(shared);
    assert.equal(wire.table.length, 201);
    const { a, b } = fromWire(wire) as { a: unknown; b: unknown };
    assert.equal(a, b);
    let deep: unknown = null;
    for (let i = 0; i < 100_000; i++) deep = [deep];
    assert.equal(toWire(deep).table.length, 100_000);
  });

  it('carries a program of the compiler', () => {
    const text =
      'dim B = 4\ninput x: f32[B, 8]\ny = softmax(max(x, axis=-1, keepdim=true) + x, axis=-1)\noutput y\n';
    const { program } = compile({ file: 'a.fuse', bytes: new TextEncoder().encode(text) });
    assert.ok(program.computes.length > 1);
    assert.deepStrictEqual(travel(program), program);
  });
});
