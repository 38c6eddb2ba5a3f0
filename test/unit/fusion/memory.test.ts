/** A compilation with a memory of the versions before gives the very result of one from scratch. */
import assert from 'node:assert/strict';
import { generate } from '../../../bench/graphs';
import { type Compilation, compile, CompileMemory } from '../../../compiler';
import { DEVICES } from '../../../compiler/fusion/devices';
import { random, searched } from './fixture';

function compiled(lines: readonly string[], memory?: CompileMemory, batch?: number): Compilation {
  return compile(
    { file: 'test.fuse', bytes: new TextEncoder().encode(lines.join('\n')) },
    { ...(memory ? { memory } : {}), ...(batch === undefined ? {} : { dims: { S: batch } }) },
  );
}

/** All that a compilation gives: the result, the steps, the code of every kernel of both plans. */
function everything(c: Compilation): unknown {
  const kernels = [...c.result.before.kernels, ...c.result.after.kernels];
  return {
    result: c.result,
    steps: c.steps(),
    code: kernels.map((k) => c.kernelCode(k.id)),
    plans: c.result.runnable.ok ? [c.execPlan('unfused'), c.execPlan('fused')] : [],
  };
}

/** One edit as people make them: of an op, of a number, a line left out, doubled, moved, or broken. */
function edited(lines: readonly string[], roll: (n: number) => number): string[] {
  const out = [...lines];
  const at = roll(out.length);
  const line = out[at] ?? '';
  const ops = ['relu', 'tanh', 'exp', 'softmax', 'sum'];
  const value = line.indexOf(' = ');
  const body = line.slice(value + 3);
  switch (roll(8)) {
    case 0:
    case 1:
      if (value >= 0) out[at] = `${line.slice(0, value)} = ${ops[roll(3)] ?? 'relu'}(${body})`;
      break;
    case 2:
      if (value >= 0) out[at] = `${line} * 0.${1 + roll(9)}`;
      break;
    case 3:
      if (value >= 0)
        out[at] = `${line.slice(0, value)} = ${ops[roll(5)] ?? 'sum'}(${body}, axis=-1)`;
      break;
    case 4:
      out.splice(at, 1);
      break;
    case 5:
      out.splice(at, 0, `# ${line}`, `more${at} = relu(x0)`);
      break;
    case 6:
      out[at] = line.slice(0, roll(line.length + 1));
      break;
    case 7:
      out[at] = line.replace(/\d+/, (n) => String(Number(n) * 2));
      break;
  }
  return out;
}

describe('A memory between compilations', () => {
  for (const kind of ['transformer', 'convnet', 'chain'] as const) {
    it(`changes nothing of the results while a ${kind} is edited`, () => {
      const roll = random(kind.length);
      const start = generate(kind, 31).split('\n');
      const memory = new CompileMemory();
      let lines = start;
      let sound = 0;
      for (let step = 0; step < 20; step++) {
        const c = compiled(lines, memory);
        assert.deepEqual(everything(c), everything(compiled(lines)), lines.join('\n'));
        if (c.result.runnable.ok) sound++;
        // Mistakes are part of editing, but not all of it.
        lines = step % 4 === 3 ? start : edited(lines, roll);
      }
      assert.ok(sound >= 4, `${sound} versions could be run`);
    });
  }

  it('schedules what an edit brings, and nothing that was there', () => {
    const memory = new CompileMemory();
    const built = (text: string): number => {
      const recall = memory.recall('test');
      const { search } = searched(text, recall);
      memory.keep(recall);
      return search.memo.counts.built;
    };
    const text = generate('transformer', 300);
    const first = built(text);
    assert.equal(built(text), 0);
    const change = built(text.replace('gelu(m3', 'tanh(m3'));
    assert.ok(change > 0 && change < first, `${first} at first, ${change} after the edit`);
  });

  it('holds what one version asks for, and no more', () => {
    const memory = new CompileMemory();
    const sizes: number[] = [];
    for (let i = 0; i < 12; i++) {
      const recall = memory.recall('test');
      searched(generate('transformer', 60).replaceAll('256', String(256 + 64 * i)), recall);
      memory.keep(recall);
      sizes.push(recall.answers.size);
    }
    const [first = 0] = sizes;
    assert.ok(Math.max(...sizes) <= 1.5 * first, sizes.join());
  });

  it('is of one device and of one set of sizes', () => {
    const lines = generate('transformer', 60).split('\n');
    const memory = new CompileMemory();
    for (const batch of [128, 16, 128, 512])
      assert.deepEqual(
        everything(compiled(lines, memory, batch)),
        everything(compiled(lines, undefined, batch)),
      );
    const source = { file: 'test.fuse', bytes: new TextEncoder().encode(lines.join('\n')) };
    for (const device of DEVICES)
      assert.deepEqual(
        everything(compile(source, { device, memory })),
        everything(compile(source, { device })),
      );
  });
});
