/**
 * Branches and loops on a GPU: plans whose steps the host decides.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type Compilation, compile } from '../../compiler';
import { deviceForAdapter } from '../../runner/core/deviceProfile';
import type { RunJob } from '../../runner/core';
import { verifyExecPlan } from '../../compiler/schedule/verifyKernel';
import { planForRun } from '../../runner/core/planForRun';
import { createNodeRunner, type NodeRunner } from '../../runner/node';
import { cli } from '../harness/cli';
import { randomControlModel } from '../unit/onnx/controlModels';
import {
  attr,
  BOOL,
  type Bytes,
  FLOAT,
  floatBits,
  graph,
  INT64,
  model,
  node,
  raw,
  tensor,
  value,
} from '../unit/onnx/encoder';
import { randomNumbers } from './programs';
import { NEVER } from './runnerPlans';

type Feeds = Readonly<Record<string, readonly number[]>>;

describe('branches and loops', function () {
  this.timeout(120_000);
  let runner: NodeRunner;

  before(() => {
    runner = createNodeRunner({ childPath: path.resolve('dist/runnerChild.mjs'), host: 'here' });
  });
  after(() => runner.dispose());

  async function compiled(bytes: Uint8Array): Promise<Compilation> {
    const adapter = await runner.adapter();
    assert.ok(adapter.ok);
    const c = compile(
      { file: 'm.onnx', bytes },
      { device: deviceForAdapter(adapter.value, undefined) },
    );
    assert.deepEqual(
      c.result.diagnostics.filter((d) => d.severity === 'error'),
      [],
    );
    return c;
  }

  function job(c: Compilation, feeds: Feeds, which: 'fused' | 'unfused'): RunJob {
    const exec = c.execPlan(which);
    const inputs = exec.buffers.flatMap((b) => {
      const data = b.role === 'input' ? feeds[b.name] : undefined;
      if (!data) return [];
      return [
        {
          buffer: b.id,
          data: b.storage === 'f32' ? Float32Array.from(data) : Int32Array.from(data),
        },
      ];
    });
    return { exec, inputs, options: {} };
  }

  async function run(
    c: Compilation,
    feeds: Feeds,
    which: 'fused' | 'unfused',
  ): Promise<number[][]> {
    const reply = await runner.run(job(c, feeds, which), () => undefined, NEVER);
    if (!reply.ok) assert.fail(JSON.stringify(reply.fault));
    return reply.value.map((o) => Array.from(o.data));
  }

  it('give what a plain evaluator gives, on random models', async () => {
    let ran = 0;
    for (let seed = 1; ran < 25; seed++) {
      const m = randomControlModel(randomNumbers(seed * 104729));
      const c = await compiled(m.bytes);
      if (!c.result.regions) continue;
      ran++;
      const counts = Object.entries(m.counts).map(([k, n]): [string, number[]] => [k, [n]]);
      const feeds = { ...m.vectors, ...Object.fromEntries(counts) };
      for (const which of ['fused', 'unfused'] as const) {
        const [got = []] = await run(c, feeds, which);
        m.expected.forEach((e, i) =>
          assert.ok(Math.abs((got[i] ?? NaN) - e) < 1e-4, `seed ${seed}, ${which}: ${got.join()}`),
        );
      }
    }
  });

  const length = 700;
  const body = graph({
    nodes: [
      node('Mul', ['s', 'half'], ['h']),
      node('Add', ['h', 'x'], ['s1']),
      node('Relu', ['s1'], ['row']),
    ],
    inputs: [value('s', FLOAT, [2]), value('x', FLOAT, [2])],
    outputs: [value('s1', FLOAT, [2]), value('row', FLOAT, [2])],
    initializers: [tensor('half', FLOAT, [], raw(...floatBits(0.5)))],
  });
  const along = ['scan_input_axes', 'scan_output_axes', 'scan_input_directions'].map((name) =>
    attr.ints(name, [1]),
  );
  /** Along the second axis, backwards. */
  const longScan = model(
    {
      nodes: [
        node('Scan', ['s0', 'xs'], ['last', 'rows'], {
          attrs: [attr.graph('body', body), attr.int('num_scan_inputs', 1), ...along],
        }),
        node('Neg', ['rows'], ['out']),
      ],
      inputs: [value('s0', FLOAT, [2]), value('xs', FLOAT, [2, length])],
      outputs: [value('last', FLOAT, [2]), value('out', FLOAT, [2, length])],
    },
    11,
  );

  it('a long scan along the second axis, backwards', async () => {
    const c = await compiled(longScan);
    assert.equal(c.result.regions?.length, 1);
    const xs = Array.from({ length: 2 * length }, (_, i) => ((i * 7) % 11) - 5);
    const s = [1, 2];
    const out = xs.map(() => 0);
    for (let t = 0; t < length; t++)
      for (let k = 0; k < 2; k++) {
        s[k] = (s[k] ?? 0) / 2 + (xs[(k + 1) * length - 1 - t] ?? 0);
        out[k * length + t] = -Math.max(0, s[k] ?? 0);
      }
    const got = await run(c, { s0: [1, 2], xs }, 'fused');
    s.forEach((e, i) => assert.ok(Math.abs((got[0]?.[i] ?? NaN) - e) < 1e-4, `state ${i}`));
    got[1]?.forEach((g, i) => assert.ok(Math.abs(g - (out[i] ?? NaN)) < 1e-4, `element ${i}`));
  });

  /** Goes on while x is not negative. */
  const endless = model(
    {
      nodes: [
        node('Loop', ['', '', 'x'], ['y'], {
          attrs: [
            attr.graph(
              'body',
              graph({
                nodes: [
                  node('Abs', ['v'], ['w']),
                  node('ReduceSum', ['w'], ['s'], { attrs: [attr.int('keepdims', 0)] }),
                  node('GreaterOrEqual', ['s', 'zero'], ['on']),
                ],
                inputs: [value('i', INT64, []), value('_', BOOL, []), value('v', FLOAT, [2])],
                outputs: [value('on', BOOL, []), value('w', FLOAT, [2])],
                initializers: [tensor('zero', FLOAT, [], raw(...floatBits(0)))],
              }),
            ),
          ],
        }),
      ],
      inputs: [value('x', FLOAT, [2])],
      outputs: [value('y', FLOAT, [2])],
    },
    13,
  );

  it('a loop without an end can be cancelled, and the runner goes on', async () => {
    const c = await compiled(endless);
    const cancel = new AbortController();
    setTimeout(() => cancel.abort(), 300);
    const reply = await runner.run(job(c, { x: [1, 2] }, 'fused'), () => undefined, cancel.signal);
    assert.equal(reply.ok ? '' : reply.fault.code, 'CANCELLED');
    assert.ok((await runner.adapter()).ok);
  });

  const profileOf = (c: Compilation, seconds = 0.05) =>
    runner.profile(
      {
        fused: planForRun(c, 'fused'),
        unfused: planForRun(c, 'unfused'),
        program: c.reference,
        options: { seconds },
      },
      () => undefined,
      NEVER,
    );

  it('are profiled: each kernel with how often it ran, results verified run by run', async () => {
    let looped = 0;
    for (let seed = 1, done = 0; done < 12; seed++) {
      const c = await compiled(randomControlModel(randomNumbers(seed * 104729)).bytes);
      if (!c.result.regions) continue;
      done++;
      const reply = await profileOf(c);
      if (!reply.ok) assert.fail(JSON.stringify(reply.fault));
      const { verification, fused, unfused } = reply.value;
      assert.deepEqual(
        [...verification.outputs, ...verification.kernels].filter((x) => !x.ok),
        [],
        `seed ${seed}`,
      );
      assert.ok(verification.ok);
      for (const plan of [fused, unfused]) {
        const sum = plan.kernels.reduce((n, k) => n + k.medianUs * (k.runs ?? 1), 0);
        assert.ok(Math.abs(sum - plan.totalUs) <= 1e-9 * sum + 1e-9);
        assert.ok(
          plan.wallUs > 0 || plan.kernels.every((k) => k.runs === 0),
          `seed ${seed}: ${JSON.stringify(plan)}`,
        );
        looped += plan.kernels.filter((k) => (k.runs ?? 0) > 1).length;
      }
    }
    assert.ok(looped > 0);
  });

  it('a scan of 700 rows runs its kernel 700 times, and is tuned', async () => {
    const c = await compiled(longScan);
    const reply = await profileOf(c);
    if (!reply.ok) assert.fail(JSON.stringify(reply.fault));
    const { fused, verification, notes } = reply.value;
    assert.ok(verification.ok, JSON.stringify(verification));
    assert.deepEqual(
      fused.kernels.map((k) => k.runs).filter((n) => n === 700),
      [700],
    );
    assert.match(notes.join(' '), /went as the data said/);
    const folder = await mkdtemp(path.join(tmpdir(), 'fusion-lens-control-'));
    try {
      const file = path.join(folder, 'scan.onnx');
      await writeFile(file, longScan);
      const tuned = await cli(['tune', file, '--seconds', '1', '--json']);
      assert.equal(tuned.code, 0, tuned.err);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });

  it('a long LSTM in both directions is one loop, whose body runs once a step', async () => {
    const [steps, batch, width, hidden] = [90, 2, 3, 4];
    const weights = (name: string, shape: readonly number[]): Bytes => {
      const n = shape.reduce((a, d) => a * d, 1);
      const numbers = Array.from({ length: n }, (_, i) => ((i * 7) % 11) / 11 - 0.5);
      return tensor(name, FLOAT, [...shape], raw(...floatBits(...numbers)));
    };
    const c = await compiled(
      model(
        {
          nodes: [
            node('LSTM', ['x', 'w', 'r', 'b'], ['y', 'h', 'c'], {
              attrs: [attr.int('hidden_size', hidden), attr.string('direction', 'bidirectional')],
            }),
            node('Relu', ['y'], ['z']),
          ],
          inputs: [value('x', FLOAT, [steps, batch, width])],
          outputs: [
            value('z', FLOAT, [steps, 2, batch, hidden]),
            value('h', FLOAT, [2, batch, hidden]),
          ],
          initializers: [
            weights('w', [2, 4 * hidden, width]),
            weights('r', [2, 4 * hidden, hidden]),
            weights('b', [2, 8 * hidden]),
          ],
        },
        14,
      ),
    );
    assert.deepEqual(verifyExecPlan(c.execPlan('fused')), []);
    assert.deepEqual(
      c.result.regions?.map((r) => [r.kind, r.trips, r.bodies[0]?.title]),
      [['loop', steps, 'LSTM y: steps']],
    );
    const reply = await profileOf(c);
    if (!reply.ok) assert.fail(JSON.stringify(reply.fault));
    assert.ok(reply.value.verification.ok, JSON.stringify(reply.value.verification));
    const runs = new Set(reply.value.fused.kernels.map((k) => k.runs));
    assert.deepEqual([...runs].sort(), [1, steps]);
  });

  it('what doesn’t end on made-up inputs isn’t timed, and says so', async () => {
    const c = await compiled(endless);
    const reply = await profileOf(c);
    assert.equal(reply.ok ? '' : reply.fault.code, 'UNSUPPORTED');
    assert.match(reply.ok ? '' : reply.fault.message, /has not ended after 1024 iterations/);
  });
});
