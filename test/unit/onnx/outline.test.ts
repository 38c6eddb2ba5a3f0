import assert from 'node:assert/strict';
import { importOnnx } from '../../../compiler/import/onnx';
import { LARGE_INITIALIZER, readOutline } from '../../../compiler/import/onnx/outline';
import type { FileOutline } from '../../../compiler/import/onnx/outline';
import {
  attr,
  floatBits,
  FLOAT,
  fn,
  graph,
  INT64,
  message,
  model,
  node,
  raw,
  tensor,
  value,
  varint,
} from './encoder';
import { printImport } from './print';

interface Read {
  readonly outline: FileOutline;
  readonly bytesRead: number;
}

async function outlineOf(file: Uint8Array, size = file.length): Promise<Read> {
  let bytesRead = 0;
  const r = await readOutline(size, ({ offset, length }) => {
    assert(offset >= 0 && length > 0 && offset + length <= size);
    const bytes = file.slice(offset, offset + length);
    bytesRead += bytes.length;
    return Promise.resolve(bytes);
  });
  assert(r.ok);
  return { outline: r.outline, bytesRead };
}

const N = LARGE_INITIALIZER / 4 + 1;
const numbers = Array.from({ length: N }, (_, i) => i % 251);
const FLOAT16 = 10;

/** Large tensors in all the places and forms that they can have, among small ones. */
const rich = model(
  {
    inputs: [value('x', FLOAT, [N]), value('c', 9, [])],
    initializers: [
      tensor('small', FLOAT, [2], raw(...floatBits(1, 2))),
      tensor('raw', FLOAT, [N], message(9, floatBits(...numbers))),
      tensor('packed', FLOAT, [N], message(4, floatBits(...numbers))),
      tensor(
        'half',
        FLOAT16,
        [4 * N],
        message(
          5,
          numbers.flatMap(() => [0x80, 0x78, 1, 0x80, 0x78, 1]),
        ),
      ),
      tensor(
        'ints',
        INT64,
        [4 * N],
        message(
          7,
          numbers.flatMap(() => [...varint(-1), 5, 6, 7]),
        ),
      ),
      tensor('last', FLOAT, [1], raw(...floatBits(3))),
    ],
    nodes: [
      node('Add', ['x', 'raw'], ['a']),
      node('Add', ['a', 'packed'], ['b']),
      node('If', ['c'], ['d'], {
        attrs: [
          attr.graph(
            'then_branch',
            graph({
              initializers: [tensor('inner', FLOAT, [N], message(9, floatBits(...numbers)))],
              nodes: [node('Add', ['b', 'inner'], ['t'])],
              outputs: [value('t', FLOAT, [N])],
            }),
          ),
          attr.graph(
            'else_branch',
            graph({ nodes: [node('Abs', ['b'], ['e'])], outputs: [value('e', FLOAT, [N])] }),
          ),
        ],
      }),
      node('f', ['d'], ['y'], { domain: 'own' }),
    ],
    outputs: [value('y', FLOAT, [N])],
  },
  18,
  [
    fn(
      'own',
      'f',
      ['p'],
      ['q'],
      [
        node('Constant', [], ['k'], {
          attrs: [
            attr.tensor(
              'value',
              // Of attributes more is kept.
              tensor('', FLOAT, [20 * N], message(9, new Array<number>(80 * N).fill(63))),
            ),
          ],
        }),
        node('Slice', ['k', 'zero', 'n'], ['s']),
        node('Add', ['p', 's'], ['q']),
      ],
    ),
  ],
);

describe('ONNX outlines', function () {
  this.timeout(60_000);

  it('give the same graph, with references in place of large contents', async () => {
    const { outline, bytesRead } = await outlineOf(rich);
    assert(outline.bytes.length < 4096, `${outline.bytes.length} bytes kept`);
    assert(bytesRead < rich.length / 4, `${bytesRead} of ${rich.length} bytes read`);
    assert.equal(outline.cuts.length, 6);
    const plain = (line: string): string => line.replace(/ (in the file|\d+ bytes|\(.{40}).*$/, '');
    const whole = importOnnx(rich, 'm');
    const cut = importOnnx(outline, 'm');
    assert.deepEqual(printImport(cut).map(plain), printImport(whole).map(plain));
    for (const [id, t] of cut.graph.tensors) {
      const data = whole.graph.tensors.get(id)?.data;
      if (t.data?.kind !== 'inModel') assert.deepEqual(t.data, data, id);
      else if (t.data.form === 'elements') {
        const { offset, length } = t.data;
        assert(data?.kind === 'bytes');
        assert.deepEqual(rich.slice(offset, offset + length), data.bytes.slice(), id);
      }
    }
  });

  it('keep the whole of a file without large contents', async () => {
    const bytes = model({
      initializers: [tensor('w', FLOAT, [2], raw(...floatBits(1.5, -2)))],
      nodes: [node('Relu', ['w'], ['y'])],
      outputs: [value('y', FLOAT, [2])],
    });
    const { outline } = await outlineOf(bytes);
    assert.deepEqual(outline, { bytes, cuts: [] });
  });

  it('let faults be told at the byte where the file has them', async () => {
    const codes = (d: readonly (readonly string[])[]): unknown => d.map(([code]) => code);
    const says = (source: Uint8Array | FileOutline): string[][] =>
      importOnnx(source, 'm').diagnostics.flatMap((d) =>
        // How many integers are packed in a field shows when they are read.
        d.code === 'TENSOR_DATA' && /half|ints/.test(d.message) ? [] : [[d.code, d.message]],
      );
    const check = async (bytes: Uint8Array, what: string): Promise<void> => {
      const { outline } = await outlineOf(bytes);
      const got = says(outline);
      // A name that long, and other things that are looked into, are refused.
      if (/no model has that many there/.test(JSON.stringify(got))) return;
      const due = says(bytes);
      // Damage inside packed integers shows when they are read; what follows is damaged too.
      if (/ends within a number/.test(JSON.stringify(due)) && bytes.length === rich.length)
        assert.deepEqual(codes(got), codes(due), what);
      else assert.deepEqual(got, due, what);
    };
    // Bytes whose change makes lengths, field numbers and wire types wrong, at both ends of contents.
    const places = new Set<number>();
    const { outline } = await outlineOf(rich);
    let before = 0;
    for (const { at, length } of outline.cuts) {
      const start = at + before;
      before += length - 1;
      for (let k = -7; k < 0; k++) places.add(start + k);
      for (let k = 0; k < 4; k++) places.add(start + length + k);
    }
    for (const at of places) {
      if (at >= rich.length) continue;
      await check(rich.slice(0, at), `cut off at ${at}`);
      for (const flip of [0x04, 0x80]) {
        const bytes = rich.slice();
        bytes[at] = (bytes[at] ?? 0) ^ flip;
        await check(bytes, `bit ${flip} of byte ${at}`);
      }
    }
  });

  it('end where the file ends, though it was larger when asked', async () => {
    const { outline } = await outlineOf(rich.slice(0, 100_000), rich.length);
    const [d] = importOnnx(outline, 'm').diagnostics;
    assert(d);
  });

  it('refuse a file that is large without its tensors', async () => {
    // One name of the graph after another: what is read is the same again and again.
    const size = 2 ** 30;
    const piece = Uint8Array.from([...varint(7 * 8 + 2), ...varint(size - 100)]);
    const name = Uint8Array.from([
      2 * 8 + 2,
      ...varint(65_000),
      ...new Array<number>(65_000).fill(65),
    ]);
    const r = await readOutline(size, ({ offset, length }) => {
      const bytes = new Uint8Array(length);
      for (let i = 0; i < length;) {
        const at = offset + i;
        const from = at < piece.length ? piece : name;
        const begin = at < piece.length ? at : (at - piece.length) % name.length;
        const part = from.subarray(begin, begin + length - i);
        bytes.set(part, i);
        i += part.length;
      }
      return Promise.resolve(bytes);
    });
    assert(!r.ok);
    assert.match(r.message, /more than 256 MiB/);
  });

  it('stop at once where no model goes on, and give up on endless fields', async () => {
    const size = 3 * 2 ** 30;
    let bytesRead = 0;
    const read = (fill: readonly number[]) =>
      readOutline(size, ({ length }) => {
        bytesRead += length;
        return Promise.resolve(Uint8Array.from({ length }, (_, i) => fill[i % fill.length] ?? 0));
      });
    // A file of zeros, as a download that failed leaves one.
    const zeros = await read([0]);
    assert(zeros.ok && bytesRead < 2 ** 20, `${bytesRead} bytes read`);
    const { diagnostics } = importOnnx(zeros.outline, 'zeros.onnx');
    assert.match(diagnostics[0]?.message ?? '', /at byte 1 field number 0 isn't allowed/);
    const endless = await read([0x08, 0x01]);
    assert(!endless.ok);
    assert.match(endless.message, /more than 8 million nodes and tensors/);
  });
});
