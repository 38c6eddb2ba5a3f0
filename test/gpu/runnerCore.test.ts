// The runner's core on GPUs with other clocks than the child's: one rounded as in browsers, and none.

import assert from 'node:assert/strict';
import { create, globals } from 'webgpu';
import { createBrowserRunner, withVerification } from '../../runner/browser';
import { finishProfile, replyOf, Server, type Host, type Watch } from '../../runner/core';
import { Session } from '../../runner/core/session';
import { N, NEVER, saxpyJob, saxpyUnfused } from './runnerPlans';

const watch: Watch = { progress: () => undefined, working: () => undefined };

/** The same GPU, as if it had no timestamps. */
function withoutTimestamps(gpu: GPU): GPU {
  const requestAdapter = async (options?: GPURequestAdapterOptions): Promise<GPUAdapter | null> => {
    const adapter = await gpu.requestAdapter(options);
    if (!adapter) return null;
    const features = new Set([...adapter.features].filter((f) => f !== 'timestamp-query'));
    return {
      features,
      limits: adapter.limits,
      info: adapter.info,
      requestDevice: (d?: GPUDeviceDescriptor) => adapter.requestDevice(d),
    } as unknown as GPUAdapter;
  };
  return { requestAdapter } as unknown as GPU;
}

const hostOf = (gpu: GPU): Host => ({
  gpu,
  kind: 'node',
  name: 'test',
  now: () => performance.now(),
  pause: () => new Promise((resolve) => setTimeout(resolve, 0)),
});

/** Notes calls of the methods with such names; returns what takes the notes away again. */
function recordCalls(prototype: object, names: RegExp, calls: string[]): (() => void)[] {
  return Object.entries(Object.getOwnPropertyDescriptors(prototype)).flatMap(([name, d]) => {
    const method: unknown = d.value;
    if (!names.test(name) || typeof method !== 'function') return [];
    const call = method as (...args: unknown[]) => unknown;
    Object.defineProperty(prototype, name, {
      ...d,
      value(this: unknown, ...args: unknown[]) {
        calls.push(name);
        return call.apply(this, args);
      },
    });
    return [() => void Object.defineProperty(prototype, name, d)];
  });
}

describe('the runner’s core', () => {
  before(() => {
    Object.assign(globalThis, globals);
  });

  it('repeats dispatches where the clock is coarse', async function () {
    const gpu = create(['enable-dawn-features=allow_unsafe_apis,timestamp_quantization']);
    const server = new Server(hostOf(gpu));
    const reply = await server.profile(saxpyJob(undefined, { seconds: 1 }), watch, NEVER);
    server.dispose();
    assert.ok(reply.ok, JSON.stringify(reply));
    const { adapter, fused, unfused, notes, verification } = reply.value;
    if (adapter.timestampQuantumUs < 10) this.skip();
    assert.equal(verification.ok, true);
    assert.ok(notes.some((n) => n.includes('The GPU clock steps by')));
    // Finer than the clock's steps, since many runs were timed together.
    // A single time may fall on a step by chance, all of them don't.
    const times = [...fused.kernels, ...unfused.kernels].flatMap((k) => [k.medianUs, k.minUs]);
    assert.ok(times.every((t) => t > 0));
    assert.ok(
      times.some((t) => t % adapter.timestampQuantumUs !== 0),
      times.join(', '),
    );
  });

  it('falls back on wall times, and says so', async () => {
    const server = new Server(hostOf(withoutTimestamps(create([]))));
    const reply = await server.profile(saxpyJob(undefined, { seconds: 1 }), watch, NEVER);
    server.dispose();
    assert.ok(reply.ok, JSON.stringify(reply));
    const { adapter, fused, unfused, notes, verification } = reply.value;
    assert.equal(adapter.timestampQuantumUs, 0);
    assert.ok(notes.some((n) => n.includes('no timestamps')));
    assert.equal(verification.ok, true);
    for (const t of [fused, unfused])
      assert.ok(t.wallUs > 0 && t.kernels.every((k) => k.medianUs > 0));
  });

  it('hands a page’s results over to be verified elsewhere', async () => {
    const gpu = create([]);
    const page = createBrowserRunner(gpu, 'window');
    const runner = withVerification(page, (job, measured, _, signal) => {
      // What crosses to the host is data alone.
      const there = structuredClone(measured);
      assert.deepEqual(
        there.stored.unfused.map((s) => s.kernel),
        ['b0', 'b1'],
      );
      const host: Host = { ...hostOf(gpu), gpu: undefined };
      return replyOf(() => finishProfile(structuredClone(job), there, host, watch, signal));
    });
    const reply = await runner.profile(saxpyJob(), () => undefined, NEVER);
    runner.dispose();
    assert.ok(reply.ok, JSON.stringify(reply));
    assert.equal(reply.value.adapter.runner, 'browser');
    assert.equal(reply.value.verification.ok, true);
  });

  it('keeps a plan on the GPU: a further run makes nothing and submits once', async () => {
    const session = await Session.open(hostOf(create([])));
    const exec = saxpyUnfused();
    const inputs = ['x', 'b'].map((buffer, k) => ({
      buffer,
      data: Float32Array.from({ length: N }, (_, i) => i + k),
    }));
    const resident = await session.resident({ exec, inputs, options: {} });
    const calls: string[] = [];
    const restore = [
      ...recordCalls(GPUDevice.prototype, /^create(?!CommandEncoder)/, calls),
      ...recordCalls(GPUQueue.prototype, /^(submit|writeBuffer)$/, calls),
    ];
    try {
      resident.submit();
      resident.submit();
    } finally {
      for (const undo of restore) undo();
    }
    assert.deepEqual(calls, ['submit', 'submit']);
    const [y] = await resident.read(NEVER);
    assert.ok(y);
    for (let i = 0; i < N; i++) assert.equal(y.data[i], 3 * i + 1);
    resident.release();
    session.dispose();
  });

  it('opens the device again after a loss', async () => {
    const gpu = create([]);
    const devices: GPUDevice[] = [];
    const host = hostOf({
      requestAdapter: async (o?: GPURequestAdapterOptions) => {
        const adapter = await gpu.requestAdapter(o);
        if (!adapter) return null;
        return {
          features: adapter.features,
          limits: adapter.limits,
          info: adapter.info,
          requestDevice: async (d?: GPUDeviceDescriptor) => {
            const device = await adapter.requestDevice(d);
            devices.push(device);
            return device;
          },
        } as unknown as GPUAdapter;
      },
    } as unknown as GPU);
    const server = new Server(host);
    const losing: Watch = {
      ...watch,
      progress: (p) => {
        if (p.kernel === 'b1') devices[0]?.destroy();
      },
    };
    const lost = await server.profile(saxpyJob(), losing, NEVER);
    assert.ok(!lost.ok);
    assert.equal(lost.fault.code, 'DEVICE_LOST');
    assert.equal(lost.fault.kernel, 'b1');
    const again = await server.profile(saxpyJob(), watch, NEVER);
    server.dispose();
    assert.ok(again.ok, JSON.stringify(again));
    assert.equal(devices.length, 2);
  });
});
