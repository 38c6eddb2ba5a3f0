import assert from 'node:assert/strict';
import { appendFileSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { BufferSpec } from '../../compiler/result';
import { createNodeRunner, type NodeRunner, type NodeRunnerOptions } from '../../runner/node';
import type { Progress, RunJob, Runner, RunnerReply } from '../../runner/core';
import { dispatch, ENDLESS, f32, N, NEVER, ROW_SUM, saxpy, saxpyJob } from './runnerPlans';

const childPath = path.resolve('dist/runnerChild.mjs');
const quiet = (): void => undefined;

function value<T>(reply: RunnerReply<T>): T {
  if (!reply.ok) assert.fail(JSON.stringify(reply.fault, undefined, 2));
  return reply.value;
}

function fault<T>(reply: RunnerReply<T>): Extract<RunnerReply<T>, { ok: false }>['fault'] {
  if (reply.ok) assert.fail('a fault was expected');
  return reply.fault;
}

const x = Float32Array.from({ length: N }, (_, i) => Math.sin(i));
const b = Float32Array.from({ length: N }, (_, i) => i / 7);
const saxpyRun = (exec = saxpy()): RunJob => ({
  exec,
  inputs: [
    { buffer: 'x', data: x },
    { buffer: 'b', data: b },
  ],
  options: {},
});

function checkSaxpy(reply: Awaited<ReturnType<Runner['run']>>): void {
  const [y] = value(reply);
  assert.equal(y?.name, 'y');
  const data = y?.data ?? new Float32Array();
  assert.equal(data.length, N);
  for (let i = 0; i < N; i++)
    assert.ok(Math.abs((data[i] ?? NaN) - (2 * (x[i] ?? 0) + (b[i] ?? 0))) < 1e-4, `y[${i}]`);
}

const endless: RunJob = {
  exec: {
    buffers: [f32('y', [16], 'output', { dtype: 'u32', storage: 'u32' })],
    dispatches: [dispatch('k7', ENDLESS, [], ['y'], [1, 1, 1])],
    outputs: [{ name: 'y', buffer: 'y', shape: [16] }],
  },
  inputs: [],
  options: {},
};

describe('the runner on Dawn', () => {
  let runner: NodeRunner;
  const started: NodeRunner[] = [];
  const start = (options: NodeRunnerOptions = {}): NodeRunner => {
    const r = createNodeRunner({ childPath, host: 'test machine', ...options });
    started.push(r);
    return r;
  };
  before(() => {
    runner = start();
  });
  after(() => {
    for (const r of started) r.dispose();
  });

  it('says which adapter it has', async () => {
    const info = value(await runner.adapter());
    assert.equal(info.host, 'test machine');
    assert.equal(info.runner, 'node');
    assert.ok(info.vendor || info.description);
    assert.equal(info.software, process.env['FUSION_LENS_SOFTWARE_GPU'] === '1');
    assert.ok((info.limits?.maxStorageBuffersPerShaderStage ?? 0) >= 8);
  });

  it('runs a kernel on given tensors', async () => {
    checkSaxpy(await runner.run(saxpyRun(), quiet, NEVER));
  });

  it('reads contents that were left in the model’s file', async () => {
    const base = mkdtempSync(path.join(tmpdir(), 'runner-'));
    const file = path.join(base, 'm.onnx');
    const halves = Uint8Array.from({ length: 2 * N }, (_, i) => (i % 2 === 0 ? 0x80 : 0x78));
    writeFileSync(file, Buffer.concat([new Uint8Array(5), new Uint8Array(b.buffer), halves]));
    const { size, mtimeMs: modified } = statSync(file);
    const options = { modelFile: { path: file, size, modified } };
    const withData = (data: BufferSpec['data'], dtype: BufferSpec['dtype'] = 'f32'): RunJob => {
      const { exec } = saxpyRun();
      const buffers = exec.buffers.map((s) =>
        s.id === 'b' && data ? { ...s, dtype, role: 'param' as const, data } : s,
      );
      return { exec: { ...exec, buffers }, inputs: [{ buffer: 'x', data: x }], options };
    };
    const elements = { kind: 'inModel', offset: 5, length: 4 * N, form: 'elements' } as const;
    checkSaxpy(await runner.run(withData(elements), quiet, NEVER));
    // The bits of the half float 1.
    const varints = { ...elements, offset: 5 + 4 * N, length: 2 * N, form: 'varints' } as const;
    const [y] = value(await runner.run(withData(varints, 'f16'), quiet, NEVER));
    assert.ok(Math.abs((y?.data[3] ?? NaN) - (2 * (x[3] ?? 0) + 1)) < 1e-4);
    const short = { ...varints, length: 2 * N - 2 };
    assert.match(
      fault(await runner.run(withData(short, 'f16'), quiet, NEVER)).message,
      /b has 999 elements instead of 1000/,
    );
    appendFileSync(file, 'x');
    assert.match(
      fault(await runner.run(withData(elements), quiet, NEVER)).message,
      /has changed since it was compiled/,
    );
    rmSync(base, { recursive: true });
  });

  it('passes uniforms and chains dispatches', async () => {
    const [R, C] = [37, 129];
    const data = Float32Array.from({ length: R * C }, (_, i) => (i % 13) - 6);
    const reply = await runner.run(
      {
        exec: {
          buffers: [
            f32('x', [R, C], 'input'),
            f32('t', [R], 'intermediate'),
            f32('s', [1], 'output'),
          ],
          dispatches: [
            dispatch('k0', ROW_SUM, ['x'], ['t'], [1, 1, 1], [R, C]),
            dispatch('k1', ROW_SUM, ['t'], ['s'], [1, 1, 1], [1, R]),
          ],
          outputs: [{ name: 's', buffer: 's', shape: [1] }],
        },
        inputs: [{ buffer: 'x', data }],
        options: {},
      },
      quiet,
      NEVER,
    );
    assert.deepEqual([...(value(reply)[0]?.data ?? [])], [data.reduce((p, c) => p + c, 0)]);
  });

  it('profiles both plans and verifies every stored result', async () => {
    const stages = new Set<Progress['stage']>();
    const result = value(await runner.profile(saxpyJob(), (p) => stages.add(p.stage), NEVER));
    assert.ok(stages.has('fused') && stages.has('unfused'));
    assert.equal(result.verification.ok, true);
    assert.deepEqual(
      result.verification.outputs.map((o) => [o.name, o.ok]),
      [['y', true]],
    );
    assert.deepEqual(
      result.verification.kernels.map((k) => k.kernel),
      ['k0'],
    );
    assert.ok((result.verification.outputs[0]?.tolerance ?? 1) < 1e-5);
    assert.deepEqual(
      result.unfused.kernels.map((k) => k.id),
      ['b0', 'b1'],
    );
    for (const t of [result.fused, result.unfused]) {
      assert.ok(t.wallUs > 0 && t.totalUs > 0);
      for (const k of t.kernels) assert.ok(k.medianUs >= k.minUs && k.samples >= 1 && k.gbps > 0);
    }
    assert.ok(result.speedup > 0);
  });

  it('finds a wrong fused kernel, and elements that no kernel wrote', async () => {
    const wrong = value(
      await runner.profile(
        saxpyJob(saxpy('y[i] = 2.0 * x[i] + b[i] + f32(i == 700u) * 0.01;')),
        quiet,
        NEVER,
      ),
    );
    assert.equal(wrong.verification.ok, false);
    assert.deepEqual(wrong.verification.outputs[0]?.worst?.index, [700]);
    const unwritten = value(
      await runner.profile(
        saxpyJob(saxpy('if (i != 13u) { y[i] = 2.0 * x[i] + b[i]; }')),
        quiet,
        NEVER,
      ),
    );
    assert.equal(unwritten.verification.ok, false);
    assert.deepEqual(unwritten.verification.outputs[0]?.worst?.index, [13]);
  });

  it('names the kernel whose shader does not compile, with the compiler’s words', async () => {
    const f = fault(
      await runner.run(saxpyRun(saxpy('y[i] = nonsense(x[i]);', 'k3')), quiet, NEVER),
    );
    assert.equal(f.code, 'SHADER_ERROR');
    assert.equal(f.kernel, 'k3');
    assert.match(f.message, /unresolved call target 'nonsense'/);
    checkSaxpy(await runner.run(saxpyRun(), quiet, NEVER));
  });

  it('refuses a tensor that is too large, before allocating anything', async () => {
    const plan = saxpy();
    const elements = 10e9;
    const big = { ...f32('big', [elements], 'input'), name: 'weights', bytes: 4 * elements };
    const f = fault(
      await runner.run(saxpyRun({ ...plan, buffers: [...plan.buffers, big] }), quiet, NEVER),
    );
    assert.equal(f.code, 'TOO_LARGE');
    assert.match(f.message, /weights \[10000000000\] needs 37\.3 GiB; the adapter’s max\w+ is /);
    assert.ok(f.advice);
  });

  it('refuses tensors that don’t fit the plan', async () => {
    const f = fault(
      await runner.run(
        { ...saxpyRun(), inputs: [{ buffer: 'x', data: new Float32Array(3) }] },
        quiet,
        NEVER,
      ),
    );
    assert.equal(f.code, 'BAD_INPUT');
    assert.match(f.message, /x takes 1000 elements \[1000\], not 3/);
  });

  it('reports a validation error with its kernel', async () => {
    const plan = saxpy();
    const [d] = plan.dispatches;
    assert.ok(d);
    const broken = { ...d, bindings: d.bindings.slice(0, 2) };
    const f = fault(await runner.run(saxpyRun({ ...plan, dispatches: [broken] }), quiet, NEVER));
    assert.ok(f.code === 'VALIDATION' || f.code === 'SHADER_ERROR', f.code);
    assert.equal(f.kernel, 'k0');
  });

  it('ends a hung kernel and runs the next job', async () => {
    const hasty = start({ watchdogMs: 1500 });
    checkSaxpy(await hasty.run(saxpyRun(), quiet, NEVER));
    const slow = { ...endless };
    const f = fault(await hasty.run(slow, quiet, NEVER));
    // Some drivers have a watchdog of their own.
    assert.ok(f.code === 'HUNG' || f.code === 'DEVICE_LOST', JSON.stringify(f));
    assert.equal(f.kernel, 'k7');
    checkSaxpy(await hasty.run(saxpyRun(), quiet, NEVER));
  });

  it('cancels: a queued job at once, a hung one after a grace period', async () => {
    const other = start();
    checkSaxpy(await other.run(saxpyRun(), quiet, NEVER));
    const [first, second] = [new AbortController(), new AbortController()];
    const begun = Date.now();
    const running = other.run(
      endless,
      (p) => p.kernel === 'k7' && setTimeout(() => first.abort(), 200),
      first.signal,
    );
    const queued = other.run(saxpyRun(), quiet, second.signal);
    second.abort();
    assert.equal(fault(await queued).code, 'CANCELLED');
    assert.ok(Date.now() - begun < 1500);
    assert.equal(fault(await running).code, 'CANCELLED');
    assert.ok(Date.now() - begun < 8000);
    checkSaxpy(await other.run(saxpyRun(), quiet, NEVER));
  });

  it('survives the death of its process', async () => {
    const other = start();
    let killed = false;
    const f = fault(
      await other.run(
        endless,
        (p) => {
          if (p.kernel !== 'k7' || p.stage !== 'fused' || killed) return;
          killed = true;
          const { pid } = other;
          assert.ok(pid);
          process.kill(pid, 'SIGSEGV');
        },
        NEVER,
      ),
    );
    assert.equal(f.code, 'CRASHED');
    assert.match(f.message, /SIGSEGV/);
    checkSaxpy(await other.run(saxpyRun(), quiet, NEVER));
  });

  it('says so when there is no adapter', async () => {
    const none = start({
      env: { VK_ICD_FILENAMES: '/nonexistent.json', VK_DRIVER_FILES: '/nonexistent.json' },
    });
    const f = fault(await none.adapter());
    assert.equal(f.code, 'NO_ADAPTER');
    assert.ok(f.advice);
  });

  it('says so when there is no Node, and when the process cannot start', async () => {
    const none = start({ nodePath: '/nonexistent/node' });
    assert.equal(fault(await none.adapter()).code, 'NO_NODE');
    const broken = start({ childPath: '/nonexistent/child.mjs' });
    const f = fault(await broken.adapter());
    assert.equal(f.code, 'CRASHED');
    assert.match(f.message, /exit code 1/);
  });
});
