/**
 * Random ops: the distribution, that numbers depend on place, node and seed alone, and that ops with
 * them fuse.
 */
import assert from 'node:assert/strict';
import { compile } from '../../../compiler';
import { counting, type Operand, run, runNode } from './fixture';

const N = 5000;

function moments(values: readonly number[]): { mean: number; deviation: number } {
  const mean = values.reduce((a, b) => a + b, 0) / values.length;
  const squares = values.reduce((a, v) => a + (v - mean) ** 2, 0);
  return { mean, deviation: Math.sqrt(squares / values.length) };
}

function near(got: number, want: number, tolerance: number): void {
  assert.ok(Math.abs(got - want) < tolerance, `${got} is not near ${want}`);
}

function values(expression: string, more = ''): readonly number[] {
  return run(`${more}\ny = ${expression}\noutput y`).y.values;
}

describe('ops: randomness', () => {
  it('rand is uniform in [0, 1)', () => {
    const u = values(`rand([${N}])`);
    assert.ok(u.every((v) => v >= 0 && v < 1));
    near(moments(u).mean, 0.5, 0.02);
    near(moments(u).deviation, Math.sqrt(1 / 12), 0.01);
    const tenths = new Array<number>(10).fill(0);
    for (const v of u) tenths[Math.floor(v * 10)] = (tenths[Math.floor(v * 10)] ?? 0) + 1;
    for (const n of tenths) near(n / N, 0.1, 0.02);
    assert.equal(new Set(u).size > N - 10, true);
  });

  it('randn is normal, without ties to what stands beside it', () => {
    const g = values(`randn([${N}])`);
    near(moments(g).mean, 0, 0.05);
    near(moments(g).deviation, 1, 0.05);
    near(g.filter((v) => Math.abs(v) < 1).length / N, 0.683, 0.03);
    const products = g.slice(1).map((v, i) => v * (g[i] ?? 0));
    near(moments(products).mean, 0, 0.05);
  });

  it('bernoulli and multinomial follow their probabilities', () => {
    const p: Operand = { shape: [N], values: new Array<number>(N).fill(0.3) };
    near(moments(runNode('bernoulli', [p])[0]?.values ?? []).mean, 0.3, 0.03);
    const logs: Operand = { shape: [1, 3], values: [0.5, 0.2, 0.3].map(Math.log) };
    const drawn = runNode('multinomial', [logs], { sample_size: N })[0];
    assert.equal(drawn?.dtype, 'i32');
    [0.5, 0.2, 0.3].forEach((share, c) => {
      near(drawn.values.filter((v) => v === c).length / N, share, 0.03);
    });
  });

  it('two nodes have other numbers, as have two seeds; the same node always the same', () => {
    const two = run('a = rand([8])\nb = rand([8])\noutput a, b').outputs;
    assert.notDeepEqual(two['a']?.values, two['b']?.values);
    assert.deepEqual(values('rand([8])'), values('rand([8])'));
    assert.deepEqual(values('rand([8])'), values('rand([8])', 'z = randn([4])'));
    assert.notDeepEqual(values('rand([8], seed=1)'), values('rand([8], seed=2)'));
  });

  it('dropout in training drops a share and scales the rest, by the mask that it gives', () => {
    const ratio: Operand = { shape: [], values: [0.25] };
    const training: Operand = { shape: [], dtype: 'bool', values: [1] };
    const x: Operand = { shape: [N], values: counting(N, 1) };
    const [y, mask] = runNode('dropout', [x, ratio, training], {}, { results: 2 });
    const kept = mask?.values ?? [];
    near(moments(kept).mean, 0.75, 0.02);
    y?.values.forEach((v, i) => near(v, kept[i] ? (i + 1) / 0.75 : 0, 1e-3 * (i + 1)));
    // Whether it trains may be data.
    const off: Operand = { ...training, values: [0] };
    const [same, all] = runNode('dropout', [x, ratio, off], {}, { results: 2 });
    assert.deepEqual(same?.values, x.values);
    assert.ok(all?.values.every((v) => v === 1));
  });

  it('fuses, and says that other runtimes have other numbers', () => {
    const source =
      'input x: f32[64, 512]\ny = layer_norm(x + dropout(relu(x), 0.1, training=true), axis=-1)\noutput y';
    const { result } = compile({ file: 'm.fuse', bytes: new TextEncoder().encode(source) });
    assert.equal(result.after.kernels.length, 1);
    assert.deepEqual(
      result.diagnostics.map((d) => `${d.severity} ${d.code}`).filter((c) => /RANDOM/.test(c)),
      ['info RANDOM'],
    );
  });
});
