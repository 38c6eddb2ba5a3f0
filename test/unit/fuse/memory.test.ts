/** A text read with a memory of its versions before gives the very graph that it gives by itself. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { generate } from '../../../bench/graphs';
import { importFuse } from '../../../compiler/import/fuse';
import { FuseMemory } from '../../../compiler/import/fuse/memory';
import { random } from '../fusion/fixture';

const EXAMPLES = 'examples';

function texts(): string[] {
  const examples = readdirSync(EXAMPLES)
    .filter((f) => f.endsWith('.fuse'))
    .map((f) => readFileSync(path.join(EXAMPLES, f), 'utf8'));
  const kinds = ['transformer', 'convnet', 'chain', 'residual', 'fan'] as const;
  const again =
    'input x: f32[8]\nx = relu(x)\ny = x + 1\nx *= y\nx = tanh(x) - y\ny -= x\noutput x, y\n';
  return [...examples, again, ...kinds.map((k) => generate(k, 40))];
}

/** What edits put in: much of it opens what isn't closed, joins lines, or defines what is defined. */
const PIECES = [
  ...['(', ')', '[', ']', '{', ';', '"', '#', ',', '=', '.', ' ', '1', 'x', '_', '§', '\ufeff'],
  ...['\n', '\r\n', '\r', '\\\n', 'relu(', 'output ', 'dim Q = 4\n', 'const c = 3\n'],
  ...['input z: f32[4]\n', '_ = relu(x)\n', 'a, b = split(x, 2)\n', 'x += 1\n', 'x = relu(x)\n'],
];

/** Maps in their order, which counts. */
function everything(text: string, memory?: FuseMemory): unknown {
  const { graph, diagnostics } = importFuse(new TextEncoder().encode(text), 'x.fuse', memory);
  return { graph: { ...graph, tensors: [...graph.tensors], dims: [...graph.dims] }, diagnostics };
}

describe('A text that is edited', () => {
  for (const seed of [1, 2])
    it(`is read as it would be from scratch (${seed})`, () => {
      const roll = random(seed);
      for (const start of texts()) {
        const memory = new FuseMemory();
        let text = start;
        for (let step = 0; step < 25; step++) {
          assert.deepEqual(everything(text, memory), everything(text), JSON.stringify(text));
          if (step % 9 === 8) text = start;
          const at = roll(text.length + 1);
          const cut = roll(3) > 0 ? 0 : roll(roll(2) > 0 ? 5 : 60);
          const put = roll(4) > 0 ? (PIECES[roll(PIECES.length)] ?? '') : '';
          text = text.slice(0, at) + put + text.slice(at + cut);
        }
      }
    });

  it('is read as it would be from scratch while lines come, go and change places', () => {
    const roll = random(3);
    for (const start of texts()) {
      const memory = new FuseMemory();
      let lines = start.split('\n');
      for (let step = 0; step < 25; step++) {
        const text = lines.join('\n');
        assert.deepEqual(everything(text, memory), everything(text), text);
        lines = step % 12 === 11 ? start.split('\n') : [...lines];
        const at = roll(lines.length + 1);
        const line = lines[at] ?? '';
        const edits: readonly (() => unknown)[] = [
          () => lines.splice(at, 0, ''),
          () => lines.splice(at, 0, '# a note', '', `more${step} = relu(x)`),
          () => lines.splice(at, 0, `const c${step} = 0.5`, `half${step} = x * c${step}`),
          () => lines.splice(at, 1 + roll(2)),
          () => lines.splice(roll(lines.length), 0, ...lines.splice(at, 1)),
          () => (lines[at] = `${line} # edited`),
          () => (lines[at] = line.replace('(', '(\n  ')),
          () => (lines = lines.map((l) => l.replaceAll(/\bx\b/g, 'other'))),
          () => (lines[at] = line.replace(/\d+/, (n) => String(Number(n) + 1))),
        ];
        edits[roll(edits.length)]?.();
      }
    }
  });

  it('keeps what stands behind lines that come or go, but for its places', () => {
    const memory = new FuseMemory();
    const nodes = (text: string) =>
      importFuse(new TextEncoder().encode(text), 'x.fuse', memory).graph.nodes;
    const text = generate('transformer', 300);
    const attrs = new Set(nodes(text).map((n) => n.attrs));
    const now = nodes(text.replace('\nn4 = ', '\n\n# the fifth block\nn4 = '));
    // That of the line itself, and the three of the line before.
    assert.equal(now.filter((n) => !attrs.has(n.attrs)).length, 4);
    assert.deepEqual(nodes(text), importFuse(text, 'x.fuse').graph.nodes);
  });

  it('keeps its nodes where an edit leaves their statements alone', () => {
    const memory = new FuseMemory();
    const nodes = (text: string) =>
      importFuse(new TextEncoder().encode(text), 'x.fuse', memory).graph.nodes;
    const text = generate('transformer', 300);
    const before = new Set(nodes(text));
    const now = nodes(text.replace('gelu(m3', 'tanh(m3'));
    assert.equal(now.length, before.size);
    // The line's: tanh, @, +.
    assert.equal(now.filter((n) => !before.has(n)).length, 3);
  });
});
