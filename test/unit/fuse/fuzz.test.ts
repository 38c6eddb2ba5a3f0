// Damaged files: whatever the text, the importer and the editor's helpers answer, and the graph is sound.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { importFuse, scanFuse } from '../../../compiler/import/fuse';
import { callHelpAt, suggestionsAt } from '../../../compiler/import/fuse/completion';
import { outlineFuse, referencesOf } from '../../../compiler/import/fuse/outline';
import { decodeUtf8, isLonger } from '../../../compiler/import/utf8';
import { lowerGraph } from '../../../compiler/ops/lower';

/** A small deterministic generator, so that a failure can be repeated. */
function generator(seed: number): (n: number) => number {
  let s = seed;
  return (n) => {
    s = (Math.imul(s, 1664525) + 1013904223) >>> 0;
    return Math.floor((s / 2 ** 32) * n);
  };
}

const PIECES =
  'dim input param const output expect materialize nofuse fuse recompute schedule kernels bytes fused pattern ' +
  '( ) [ ] { } , : = == <= < -> - + * ** / // % @ . ; ? # \n \n \n x y z w B _ relu softmax split cat sum max reshape ' +
  'conv2d layer_norm axis keepdim f32 i64 1 0 -1 64 0.5 1e9 99999999999999999999 inf nan true none "a" \' \\ \t § × ~ 1e999';

function check(text: string): void {
  const { graph, diagnostics } = importFuse(text, 'fuzz.fuse');
  const ids = graph.nodes.map((n) => n.id);
  assert.equal(new Set(ids).size, ids.length, 'node ids are unique');
  const made = new Set<string>();
  for (const [id, t] of graph.tensors) {
    assert.equal(id, t.id);
    if (t.role !== 'result') made.add(id);
    if (t.role !== 'result') assert.ok(t.type);
  }
  for (const n of graph.nodes) {
    for (const o of n.operands)
      assert.ok(o === undefined || made.has(o), `${n.id} reads ${o ?? ''}`);
    for (const r of n.results) {
      assert.ok(!made.has(r), `${r} is made twice`);
      assert.equal(graph.tensors.get(r)?.role, 'result');
      made.add(r);
    }
    if (n.unsupported !== undefined) {
      assert.ok(diagnostics.length > 0, 'what is unsupported is reported');
    }
  }
  for (const o of graph.outputs) assert.ok(made.has(o.tensor));
  const lines = text.split(/\r\n|\r|\n/);
  for (const { range } of diagnostics) {
    if (!range) continue;
    assert.ok(range.start.line < lines.length + 1);
    const ordered =
      range.start.line < range.end.line ||
      (range.start.line === range.end.line && range.start.column <= range.end.column);
    assert.ok(ordered, 'ranges go forward');
  }
  scanFuse(text);
  outlineFuse(text);
  const position = { line: lines.length >> 1, column: 3 };
  referencesOf(text, position);
  suggestionsAt(text, position);
  callHelpAt(text, position);
  lowerGraph(graph);
}

describe('fuse: damaged files', () => {
  it('are answered: random words', () => {
    const words = PIECES.split(/ (?!\n)/);
    for (let seed = 1; seed <= 1500; seed++) {
      const random = generator(seed);
      const text = Array.from({ length: 60 }, () => words[random(words.length)] ?? '').join(
        seed % 3 === 0 ? '' : ' ',
      );
      try {
        check(text);
      } catch (e) {
        throw new Error(`seed ${seed}: ${JSON.stringify(text)}`, { cause: e });
      }
    }
  });

  it('are answered: examples with characters changed, removed and moved', () => {
    const texts = readdirSync('examples')
      .filter((f) => f.endsWith('.fuse'))
      .map((f) => readFileSync(`examples/${f}`, 'utf8').replaceAll(/^#.*\n/gm, ''));
    for (let seed = 1; seed <= 600; seed++) {
      const random = generator(seed * 7919);
      let text = texts[random(texts.length)] ?? '';
      for (let k = 1 + random(4); k > 0; k--) {
        const at = random(text.length);
        const to = at + random(12);
        const cut = text.slice(at, to);
        const rest = text.slice(0, at) + text.slice(to);
        const put = random(rest.length);
        const words = PIECES.split(' ');
        const inserted = [cut, '', words[random(words.length)] ?? ''][random(3)] ?? '';
        text = rest.slice(0, put) + inserted + rest.slice(put);
      }
      try {
        check(text);
      } catch (e) {
        throw new Error(`seed ${seed}: ${JSON.stringify(text)}`, { cause: e });
      }
    }
  }).timeout(60_000);

  it('are answered soon, however long they are', () => {
    const codes = (text: string): string[] => [
      ...new Set(importFuse(text, 'long.fuse').diagnostics.map((d) => d.code)),
    ];
    assert.deepEqual(codes(`y = relu(x)\n${'# text\n'.repeat(3_000_000)}`), ['FILE_TOO_LONG']);
    const started = process.cpuUsage().user;
    assert.ok(codes('@$!?\n'.repeat(1_000_000)).includes('UNEXPECTED_CHARACTER'));
    assert.ok(codes('@\n'.repeat(1_000_000)).includes('EXPECTED_STATEMENT'));
    assert.ok(process.cpuUsage().user - started < 10e6, 'most of them isn’t read');
  });

  it('are refused by their bytes, without being decoded, where they are too long', () => {
    const codes = (bytes: Uint8Array): string[] =>
      importFuse(bytes, 'long.fuse').diagnostics.map((d) => d.code);
    // Whatever the bytes are: names, parts of characters, no text at all.
    for (const fill of [0x61, 0xc3, 0x00])
      assert.deepEqual(codes(new Uint8Array(17 * 2 ** 20).fill(fill)), ['FILE_TOO_LONG']);
    // Three bytes a character: long, but no longer than a file may be.
    const wide = new TextEncoder().encode('# 変数\n');
    const bytes = new Uint8Array(20 * 2 ** 20);
    for (let i = 0; i + wide.length <= bytes.length; i += wide.length) bytes.set(wide, i);
    assert.equal(isLonger(bytes, 16 * 2 ** 20), false);
    assert.equal(isLonger(bytes, 8 * 2 ** 20), true);
    const whole = decodeUtf8(bytes.subarray(0, 800)).length;
    assert.equal(isLonger(bytes.subarray(0, 800), whole - 1), true);
    assert.equal(isLonger(bytes.subarray(0, 800), whole), false);
  });

  it('are answered: text of every width in UTF-8, broken and whole', () => {
    const text = `größe 変数 🙂 ${'a'.repeat(5000)}é${'b'.repeat(4095)}𝔘`;
    assert.equal(decodeUtf8(new TextEncoder().encode(text)), text);
    assert.equal(
      decodeUtf8(Uint8Array.of(97, 0xff, 98, 0xe2, 0x82, 99, 0xc0, 0x80)),
      'a\ufffdb\ufffdc\ufffd\ufffd',
    );
  });
});
