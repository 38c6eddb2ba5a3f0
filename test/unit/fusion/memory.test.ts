/** A compilation with a memory of the versions before gives the very result of one from scratch. */
import assert from 'node:assert/strict';
import { generate, type GraphKind } from '../../../bench/graphs';
import { type Compilation, compile, CompileMemory } from '../../../compiler';
import { DEVICES } from '../../../compiler/fusion/devices';
import { randomProgram } from '../../gpu/programs';
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

/** One edit as people make them: of an op, of a number, of a name, of a size, a line left out, doubled, or broken. */
function edited(lines: readonly string[], roll: (n: number) => number): string[] {
  const out = [...lines];
  const at = roll(out.length);
  const line = out[at] ?? '';
  const ops = ['relu', 'tanh', 'exp', 'softmax', 'sum'];
  const value = line.indexOf(' = ');
  const body = line.slice(value + 3);
  switch (roll(11)) {
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
    case 8: {
      // Where it is defined and wherever it is used, or only there.
      const name = /^\w+(?= = )/.exec(line)?.[0];
      if (name === undefined) break;
      const renamed = (l: string): string =>
        l.replaceAll(new RegExp(`\\b${name}\\b`, 'g'), 'other');
      if (roll(3) > 0) return out.map(renamed);
      out[at] = renamed(line);
      break;
    }
    case 9:
    case 10: {
      // A size, in the whole file.
      const sizes = lines.join().match(/\b\d{1,4}(?=[,\]])/g) ?? [];
      const size = sizes[roll(sizes.length)];
      const other = String(4 + 4 * roll(16));
      if (size !== undefined)
        return out.map((l) => l.replaceAll(new RegExp(`\\b${size}(?=[,\\]])`, 'g'), other));
      break;
    }
  }
  return out;
}

/** Edits the file a number of times, with a memory and without; how many versions could be run. */
function compareEdits(
  start: readonly string[],
  roll: (n: number) => number,
  steps: number,
): number {
  const memory = new CompileMemory();
  /** Without a memory all compilations of one text are the same: the unedited file comes again and again. */
  const first = everything(compiled(start));
  let lines = start;
  let sound = 0;
  for (let step = 0; step < steps; step++) {
    const c = compiled(lines, memory);
    const alone = lines === start ? first : everything(compiled(lines));
    assert.deepEqual(everything(c), alone, lines.join('\n'));
    if (c.result.runnable.ok) sound++;
    // Mistakes are part of editing, but not all of it.
    lines = step % 4 === 3 ? start : edited(lines, roll);
  }
  return sound;
}

/** The graph with narrower layers: the code of wide ones is several times as long, and no different. */
function start(kind: GraphKind): string[] {
  const text = generate(kind, 31);
  const narrow = (n: string): string => String(Number(n) / 4);
  return (kind === 'transformer' ? text.replace(/\b(128|256|768|1024|64)\b/g, narrow) : text).split(
    '\n',
  );
}

describe('A memory between compilations', () => {
  for (const kind of ['transformer', 'convnet', 'chain', 'residual'] as const) {
    for (const seed of [1, 2]) {
      it(`changes nothing of the results while a ${kind} is edited (${seed})`, () => {
        const sound = compareEdits(start(kind), random(seed * kind.length), 10);
        assert.ok(sound >= 3, `${sound} versions could be run`);
      });
    }
  }

  for (const first of [0, 10]) {
    it(`changes nothing of the results while random programs are edited, from seed ${first}`, () => {
      let sound = 0;
      for (let seed = first; seed < first + 10; seed++)
        sound += compareEdits(randomProgram(seed).split('\n'), random(seed), 8);
      assert.ok(sound >= 25, `${sound} versions could be run`);
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

  it('lowers what an edit changes, and what reads that', () => {
    const memory = new CompileMemory();
    const computes = (text: string) => compiled(text.split('\n'), memory).program.computes;
    const text = generate('transformer', 300);
    const before = new Set(computes(text));
    const inner = computes(text.replace('gelu(m3', 'tanh(m3'));
    // tanh, and the product that reads it.
    assert.equal(inner.filter((c) => !before.has(c)).length, 2);
    const after = computes(text.replace('x4 = up3', 'x4 = relu(up3)'));
    assert.ok(after.filter((c) => !before.has(c)).length < 10);
    const wider = computes(text.replace('dim S = 128', 'dim S = 256'));
    assert.equal(wider.filter((c) => before.has(c)).length, 0);
  });

  it('prepares and describes what an edit changes', () => {
    const memory = new CompileMemory();
    const text = generate('convnet', 140);
    const first = compiled(text.split('\n'), memory);
    const edit = text.replace('relu(batch_norm(c7', 'tanh(batch_norm(c7');
    const then = compiled(edit.split('\n'), memory);
    const fresh = <T>(before: readonly T[], now: readonly T[]): number => {
      const old = new Set(before);
      return now.filter((x) => !old.has(x)).length;
    };
    assert.ok(first.reference.computes.length > first.program.computes.length + 30);
    assert.ok(fresh(first.reference.computes, then.reference.computes) <= 3);
    assert.ok(fresh(first.result.graph.nodes, then.result.graph.nodes) <= 4);
    assert.ok(fresh(first.result.graph.tensors, then.result.graph.tensors) <= 4);
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
