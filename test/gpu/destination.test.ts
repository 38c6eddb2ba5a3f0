/** Results put together in memory, each operand stored in its place, against the reference. */
import assert from 'node:assert/strict';
import type { Compilation } from '../../compiler';
import { DEFAULT_DEVICE } from '../../compiler/fusion/devices';
import { agreement, agreementAt } from './agreement';
import { randomNumbers } from './programs';

const moves = (c: Compilation): number => c.steps().filter((s) => s.kind === 'destination').length;

/** Programs, with how many results are put together in memory and how many kernels there are. */
const CASES: Readonly<Record<string, { source: string; moves: number; kernels: number }>> = {
  'a module of four branches, read twice': {
    source: `input x: f32[2, 6, 9, 7]
param w1: f32[5, 6, 1, 1]
param w3: f32[3, 6, 3, 3]
param w5: f32[1, 6, 5, 5]
param v: f32[4, 15, 1, 1]
a = relu(conv2d(x, w1))
b = relu(conv2d(x, w3, padding=1))
c = relu(conv2d(x, w5, padding=2))
y = cat([a, b, c, max_pool2d(x, 3, stride=1, padding=1)], axis=1)
p = conv2d(y, v)
q = avg_pool2d(y, 3, stride=1)
output p, q`,
    moves: 1,
    kernels: 3,
  },
  'growing concatenations: one buffer, read and stored at once': {
    source: `input x: f32[1, 5, 8, 6]
param w1: f32[3, 5, 3, 3]
param w2: f32[2, 8, 3, 3]
param w3: f32[7, 10, 3, 3]
a = cat([x, relu(conv2d(x, w1, padding=1))], axis=1)
b = cat([a, relu(conv2d(a, w2, padding=1))], axis=1)
c = cat([b, relu(conv2d(b, w3, padding=1))], axis=1)
output c`,
    moves: 3,
    kernels: 3,
  },
  'products stacked': {
    source: `input x: f32[700, 90]
param w: f32[90, 50]
param v: f32[90, 50]
param u: f32[50, 3]
y = stack([x @ w, tanh(x @ v)], axis=1)
z = y @ u
output y, z`,
    moves: 1,
    kernels: 2,
  },
  'rows that a sum reads, too, joined along the row': {
    source: `input a: f32[4000, 70]
input b: f32[4000, 33]
s = softmax(a, axis=-1)
y = cat([layer_norm(b, axis=-1), s], axis=1)
z = sum(s, axis=0)
output y, z`,
    moves: 1,
    kernels: 3,
  },
  'an operand that others read, too': {
    source: `input x: f32[33, 65]
param w: f32[65, 12]
a = relu(x @ w)
b = exp(-a) @ transpose(w, 0, 1)
y = cat([a, b], axis=1)
z = sum(y, axis=1)
output y, z`,
    moves: 1,
    kernels: 3,
  },
  'in another shape and order': {
    source: `input x: f32[60, 200]
param w: f32[200, 120]
param v: f32[200, 100]
a = reshape(relu(x @ w), [30, 240])
b = reshape(transpose(x @ v, 0, 1), [30, 200])
y = cat([a, b], axis=1)
param u: f32[440, 50]
z = y @ u
output y, z`,
    moves: 1,
    kernels: 3,
  },
  halves: {
    source: `input x: f16[9, 31]
param w: f16[31, 3]
param v: f16[31, 5]
y = cat([x @ w, x @ v], axis=1)
output y`,
    moves: 1,
    kernels: 1,
  },
};

describe('results put together in memory', function () {
  this.timeout(600_000);
  const agrees = agreement();
  const agreesAt = agreementAt();

  for (const [name, { source, moves: count, kernels }] of Object.entries(CASES)) {
    it(name, async () => {
      const c = await agrees(source);
      assert.equal(moves(c), count, c.result.after.kernels.map((k) => k.label).join('\n'));
      const { after } = c.result;
      assert.equal(after.kernels.length, kernels, after.kernels.map((k) => k.label).join('\n'));
    });
  }

  it('of symbolic sizes, at several sizes', async () => {
    const source = `dim B = 3
dim S = 5
input x: f32[B, S, 12]
param w: f32[12, 7]
param v: f32[12, 2]
param u: f32[12, 12]
y = cat([relu(x @ w), x, x @ v], axis=2)
z = sum(y, axis=1)
a = cat([x @ u, y], axis=2)
output z, a`;
    const sizes: Record<string, number>[] = [{}, { B: 1, S: 1 }, { B: 2, S: 67 }];
    for (const dims of sizes) assert.ok(moves(await agrees(source, dims)) > 0);
  });

  for (let block = 0; block < 3; block++) {
    it(`in random programs ${20 * block} to ${20 * block + 19}`, async () => {
      let taken = 0;
      const devices = [
        DEFAULT_DEVICE,
        { ...DEFAULT_DEVICE, launchUs: 0.05, saturatingThreads: 32 },
      ];
      for (let i = 0; i < 20; i++)
        for (const device of devices)
          taken += moves(await agreesAt(joiningProgram(20 * block + i), { device }, [{}]));
      assert.ok(taken >= 5, `only ${taken} moves`);
    });
  }
});

/** Products, pieces of them, reductions and concatenations over matrices, with several readers of each. */
function joiningProgram(seed: number): string {
  const random = randomNumbers(seed);
  const below = (n: number): number => Math.floor(random() * n);
  const lines: string[] = [];
  const values: { name: string; shape: [number, number] }[] = [];
  const add = (text: string, shape: [number, number]): void => {
    const name = `t${values.length}`;
    lines.push(`${name} = ${text}`);
    values.push({ name, shape });
  };
  const some = (): { name: string; shape: [number, number] } =>
    values[below(values.length)] ?? { name: 'x', shape: [1, 1] };
  const declared: string[] = [];
  const rows = 1 + below(40);
  for (let i = 0; i < 3; i++) {
    const columns = 1 + below(40);
    declared.push(`input x${i}: f32[${rows}, ${columns}]`);
    values.push({ name: `x${i}`, shape: [rows, columns] });
  }
  for (let i = 0; i < 9; i++) {
    const { name, shape } = some();
    switch (below(5)) {
      case 0: {
        const n = 1 + below(30);
        declared.push(`param w${i}: f32[${shape[1]}, ${n}]`);
        add(`${name} @ w${i}`, [shape[0], n]);
        break;
      }
      case 1:
        add(`${['relu', 'tanh', 'sigmoid'][below(3)] ?? 'relu'}(${name})`, shape);
        break;
      case 2:
        add(`softmax(${name}, axis=-1)`, shape);
        break;
      default: {
        const axis = below(2);
        const parts = [name];
        const size: [number, number] = [...shape];
        for (let k = 0; k < 1 + below(4); k++) {
          const o = some();
          if (o.shape[1 - axis] !== shape[1 - axis]) continue;
          parts.push(o.name);
          size[axis] = (size[axis] ?? 0) + (o.shape[axis] ?? 0);
        }
        if (parts.length === 1) add(`${name} * 0.5`, shape);
        else add(`cat([${parts.join(', ')}], axis=${axis})`, size);
      }
    }
  }
  const results = values.filter((v) => v.name.startsWith('t')).map((v) => v.name);
  const outputs = [results.at(-1), results[below(results.length)], results.at(-2)];
  const kept = lines
    .filter((l) => l.includes('cat('))
    .map((l) => `materialize ${l.split(' ')[0] ?? ''}`);
  return [...declared, ...lines, ...kept, `output ${[...new Set(outputs)].join(', ')}`].join('\n');
}
