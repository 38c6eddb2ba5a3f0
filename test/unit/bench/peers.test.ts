// The bench against other runtimes: its workloads compile to what they should, and its arithmetic.

import assert from 'node:assert/strict';
import { performancePage, rowLines, summaryLines } from '../../../bench/peers/report';
import {
  against,
  againstBest,
  bestPeer,
  joined,
  quantile,
  ratioToOurs,
  relativeSpread,
  shareOf,
  type Entry,
  type Row,
  type Run,
} from '../../../bench/peers/summary';
import {
  compileWorkload,
  contentsOf,
  signatureOf,
  WORKLOADS,
  type Workload,
} from '../../../bench/peers/workloads';
import { onnxOf } from '../../../bench/peers/contestants/onnxGraphs';
import { matmulVariants } from '../../../bench/peers/contestants/matmuls';
import { compile } from '../../../compiler';
import { deviceByName } from '../../../compiler/fusion/devices';
import { interpret } from '../../../compiler/reference';

/** Ops that cost a kernel when alone, and the kernels that fusion may leave, written by hand. */
const EXPECTED: Readonly<Record<string, readonly [ops: number, kernels: number]>> = {
  'relu(x + bias), 1.6e7': [2, 1],
  'relu(x + bias), 1e8': [2, 1],
  'eight pointwise ops, 1.6e7': [8, 1],
  'softmax [4096, 1024]': [1, 1],
  'layer_norm(relu(x + bias)) [4096, 1024]': [3, 1],
  'relu(x · w + bias), 512³': [3, 1],
  'relu(x · w + bias), 1024³': [3, 1],
  'two 3×3 convolutions [1, 32, 56, 56]': [2, 2],
  'attention, seq 512, d 64': [4, 3],
  'attention, 8 heads, seq 512, d 64': [4, 3],
  'MLP 784-256-256-10, batch 64': [8, 3],
  'transformer block, T 128, width 256': [17, 10],
};

describe('bench --peers: workloads', () => {
  const device = deviceByName('software');
  for (const w of WORKLOADS)
    it(`${w.name} compiles, and fuses as it should`, () => {
      const { result } = compileWorkload(w, undefined, device);
      assert.deepEqual(
        result.diagnostics.filter((d) => d.severity === 'error'),
        [],
      );
      assert.equal(result.runnable.ok, true);
      const expected = EXPECTED[w.name];
      assert.ok(expected, 'no expectation is written down');
      assert.equal(result.before.kernels.length, expected[0]);
      // A better plan is welcome.
      assert.ok(
        result.after.kernels.length <= expected[1],
        `${result.after.kernels.length} kernels`,
      );
    });

  it('expects nothing of workloads that are gone', () => {
    assert.deepEqual(Object.keys(EXPECTED).sort(), WORKLOADS.map((w) => w.name).sort());
  });
});

describe('bench --peers: the same in other words', () => {
  /** Those whose reference takes a moment; the GPU checks the rest. */
  const small = (w: Workload): boolean => !/e7|e8|1024/.test(w.name);
  for (const w of WORKLOADS.filter(small))
    it(`the ONNX graph of ${w.name} computes what the .fuse text does`, function () {
      this.timeout(20_000);
      const ours = compileWorkload(w, undefined);
      const signature = signatureOf(ours);
      const contents = new Map(signature.given.map((g) => [g.name, contentsOf(g)]));
      const { bytes } = onnxOf({ workload: w, bytes: undefined, signature, contents });
      const theirs = compile({ file: 'workload.onnx', bytes });
      assert.deepEqual(
        theirs.result.diagnostics.filter((d) => d.severity === 'error'),
        [],
      );
      const results = [ours, theirs].map(({ program }) => {
        const inputs = new Map<string, ArrayLike<number>>();
        for (const v of program.values.values()) {
          const data = contents.get(v.name);
          if (data && (v.role === 'input' || (v.role === 'param' && !v.data)))
            inputs.set(v.id, data);
        }
        const values = program.outputs.map((o) => o.value);
        const all = interpret(program, inputs, { keep: new Set(values) });
        return values.map((v) => all.get(v) ?? new Float64Array());
      });
      const [a = [], b = []] = results;
      assert.equal(a.length, b.length);
      for (const [i, x] of a.entries()) {
        const y = b[i] ?? new Float64Array();
        assert.equal(x.length, y.length);
        for (let k = 0; k < x.length; k++)
          assert.ok(Math.abs((x[k] ?? 0) - (y[k] ?? NaN)) < 1e-6, `output ${i} at ${k}`);
      }
    });

  it('makes contents that differ from row to row and are never zero', () => {
    const x = contentsOf({ name: 'x', shape: [3000, 1000], role: 'input' });
    assert.equal(x.length, 3e6);
    assert.notDeepEqual(x.slice(0, 1000), x.slice(1e6, 1e6 + 1000));
    assert.ok(x.every((v) => v !== 0));
    const again = contentsOf({ name: 'x', shape: [3000, 1000], role: 'input' });
    assert.deepEqual(x.slice(0, 1000), again.slice(0, 1000));
  });

  it('has hand-written matmuls whose grids cover the result', () => {
    const variants = matmulVariants(512, { maxComputeInvocationsPerWorkgroup: 256 });
    assert.ok(variants.length >= 4);
    assert.deepEqual(matmulVariants(20, { maxComputeInvocationsPerWorkgroup: 256 }), []);
    for (const v of variants)
      assert.ok(
        v.grid.every((g) => Number.isInteger(g) && g > 0),
        v.name,
      );
  });
});

const entry = (contestant: Entry['contestant'], samples: number[], more = {}): Entry => ({
  contestant,
  samples,
  submitMs: 0,
  repeats: 1,
  setupMs: 1,
  dispatches: 1,
  boundBytes: 2 ** 20,
  maxRelErr: 0,
  tolerance: 1e-5,
  ...more,
});

const row = (workload: string, entries: Entry[]): Row => ({
  workload,
  leastBytes: 4e6,
  flops: 1e6,
  // The machine slows down in the third round.
  rates: [1, 0.5, 0.25].map((f) => ({ copyBytesPerMs: 8e6 * f, flopsPerMs: 1e6 * f })),
  entries,
});

describe('bench --peers: arithmetic', () => {
  // The machine becomes twice as slow in the third round: ratios don't care.
  const first = row('first', [
    entry('fused', [1, 2, 4]),
    entry('jax', [3, 6, 12]),
    entry('tfjs', [10, 20, 30]),
    entry('onnxruntime', [], { failure: 'failed: no such op' }),
    entry('floor', [0.5, 1, 2], { note: 'a copy of x' }),
  ]);
  const second = row('second', [entry('fused', [4, 4, 4]), entry('jax', [3, 3, 3])]);
  const run: Run = {
    adapter: 'test adapter',
    software: true,
    machine: 'test machine (2 cores)',
    load: [0, 1],
    date: '2026-01-01',
    command: 'npm run bench -- --peers --write',
    versions: { jax: 'jax-js 1' },
    rows: [first, second],
  };

  it('takes quantiles between samples', () => {
    assert.equal(quantile([4, 1, 3, 2], 0.5), 2.5);
    assert.equal(quantile([1, 2, 3, 4, 5], 0.25), 2);
    assert.equal(quantile([7], 0.9), 7);
    assert.ok(Number.isNaN(quantile([], 0.5)));
    assert.equal(relativeSpread([1, 2, 3, 4, 5]), 1 / 3);
  });

  it('compares round by round', () => {
    assert.equal(ratioToOurs(first, 'jax'), 3);
    assert.equal(ratioToOurs(first, 'fused'), 1);
    assert.ok(Number.isNaN(ratioToOurs(first, 'onnxruntime')));
    assert.deepEqual(bestPeer(first), { contestant: 'jax', ratio: 3 });
    assert.equal(bestPeer(row('none', [entry('fused', [1])])), undefined);
  });

  it('sums up by the geometric mean, and names the worst', () => {
    const best = againstBest(run.rows);
    assert.ok(best);
    assert.ok(Math.abs(best.mean - Math.sqrt(3 * 0.75)) < 1e-12);
    assert.equal(best.worst, 0.75);
    assert.equal(best.worstWorkload, 'second');
    assert.equal(against(run.rows, 'tfjs')?.workloads, 1);
    assert.equal(against(run.rows, 'onnxruntime'), undefined);
  });

  it('takes the nearer of the two rates', () => {
    const ours = [1, 2, 4];
    assert.deepEqual(shareOf(first, ours), { of: 'multiply-add', share: 1 });
    assert.deepEqual(shareOf({ ...first, flops: 0 }, ours), { of: 'copy', share: 0.5 });
    assert.equal(shareOf(first, []), undefined);
    assert.equal(shareOf({ ...first, rates: [] }, ours), undefined);
  });

  it('puts runs on one adapter together', () => {
    const again = row('second', [entry('fused', [5])]);
    const third = row('third', []);
    const other = { ...run, adapter: 'another', rows: [third] };
    const later = { ...run, load: [3, 4] as const, rows: [again, third] };
    const all = joined([run, other, later]);
    assert.deepEqual(
      all.map((r) => r.adapter),
      ['test adapter', 'another'],
    );
    assert.deepEqual(all[0]?.rows, [first, again, third]);
    assert.deepEqual(all[0]?.load, [0, 4]);
  });

  it('shows who failed, and why', () => {
    const lines = rowLines(first).join('\n');
    assert.match(lines, /onnxruntime-web +– .*failed: no such op/);
    assert.match(lines, /jax-js +6\.00 ms .* 3\.00×/);
    assert.match(summaryLines(run).join('\n'), /best peer.*1\.50×.*at worst 0\.75× \(second\)/);
  });

  it('writes a page with the machine, the reasons, the licences and the command', () => {
    const page = performancePage([run], ['jax-js 1 (MIT)']);
    for (const part of [
      'npm run bench -- --peers --models DIR --write',
      '## test adapter: a software adapter',
      'test machine (2 cores)',
      'SOFTWARE adapter',
      '| first | 1.00 ms',
      '| 3.00× (jax-js) |',
      'onnxruntime-web: failed: no such op: first.',
      'floor: a copy of x: first.',
      '- jax-js 1 (MIT)',
    ])
      assert.ok(page.includes(part), part);
  });
});
