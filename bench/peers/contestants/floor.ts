/**
 * The floor: what the adapter can do with the simplest or the best code that we know to write by hand.
 *
 *  - Where a workload is bound by memory: a copy of its input, as vectors of four.
 *  - For products: the quickest of some register-blocked matmuls with bias and relu inside.
 *  - For shares: the rates of a copy and of multiply-adds.
 */
import {
  copyKernel,
  MULTIPLY_ADD_FLOPS,
  multiplyAddKernel,
  type MicroKernel,
} from '../../../runner/core/microKernels';
import { given, makeBuffer, readBack, Unsupported, upload } from './contestant';
import type { Contestant, Prepared, Task } from './contestant';
import type { Rates } from '../protocol';
import { elementsOf } from '../workloads';
import { matmulVariants, type MatmulVariant } from './matmuls';

const PEAK_THREADS = 1 << 16;
const PEAK_TRIPS = 64;
const RATE_BYTES = 64 * 2 ** 20;

export class Floor implements Contestant {
  private device: GPUDevice | undefined;
  private rateKernels: { readonly copying: Ready; readonly adding: Ready } | undefined;

  async open(gpu: GPU): Promise<string> {
    const adapter = await gpu.requestAdapter({ powerPreference: 'high-performance' });
    if (!adapter) throw new Error('there is no adapter');
    const { limits } = adapter;
    this.device = await adapter.requestDevice({
      requiredLimits: {
        maxBufferSize: limits.maxBufferSize,
        maxStorageBufferBindingSize: limits.maxStorageBufferBindingSize,
        maxComputeInvocationsPerWorkgroup: limits.maxComputeInvocationsPerWorkgroup,
        maxComputeWorkgroupStorageSize: limits.maxComputeWorkgroupStorageSize,
      },
    });
    return 'hand-written WGSL';
  }

  async prepare(task: Task): Promise<Prepared> {
    const device = this.device;
    if (!device) throw new Error('not opened');
    const { kind } = task.workload;
    switch (kind) {
      case 'bias-relu':
      case 'chain':
      case 'softmax':
      case 'layer-norm':
        return copy(device, given(task.contents, 'x'));
      case 'matmul':
        return bestMatmul(device, task);
      case 'convolutions':
      case 'attention':
      case 'mlp':
      case 'transformer':
      case 'model':
        throw new Unsupported('nothing hand-written');
    }
  }

  /** A copy larger than any cache, and multiply-adds on registers alone: once each. */
  async rates(): Promise<Rates> {
    const device = this.device;
    if (!device) throw new Error('not opened');
    const copied = Math.min(RATE_BYTES, device.limits.maxStorageBufferBindingSize);
    this.rateKernels ??= await rateKernels(device, copied);
    const copyMs = await timeOf(device, this.rateKernels.copying);
    const peakMs = await timeOf(device, this.rateKernels.adding);
    return {
      copyBytesPerMs: (2 * copied) / copyMs,
      flopsPerMs: (PEAK_THREADS * PEAK_TRIPS * MULTIPLY_ADD_FLOPS) / peakMs,
    };
  }
}

async function rateKernels(
  device: GPUDevice,
  bytes: number,
): Promise<{ copying: Ready; adding: Ready }> {
  const [from, to] = [makeBuffer(device, bytes / 4), makeBuffer(device, bytes / 4)];
  return {
    copying: await dispatchOf(device, copyKernel(bytes), [from, to]),
    adding: await dispatchOf(device, multiplyAddKernel(PEAK_THREADS, PEAK_TRIPS), [to]),
  };
}

async function timeOf(device: GPUDevice, d: Ready): Promise<number> {
  // The first warms up.
  submit(device, d);
  await device.queue.onSubmittedWorkDone();
  const start = performance.now();
  submit(device, d);
  await device.queue.onSubmittedWorkDone();
  return performance.now() - start;
}

interface Ready {
  readonly pipeline: GPUComputePipeline;
  readonly group: GPUBindGroup;
  readonly grid: readonly [number, number, number];
}

async function dispatchOf(
  device: GPUDevice,
  k: MicroKernel,
  buffers: readonly GPUBuffer[],
): Promise<Ready> {
  const uniform = device.createBuffer({ size: 16, usage: 0x0040 | 0x0008 });
  device.queue.writeBuffer(uniform, 0, Int32Array.from(k.uniforms));
  return bound(device, k.wgsl, [...buffers, uniform], k.workgroups);
}

async function bound(
  device: GPUDevice,
  code: string,
  buffers: readonly GPUBuffer[],
  grid: Ready['grid'],
): Promise<Ready> {
  const pipeline = await device.createComputePipelineAsync({
    layout: 'auto',
    compute: { module: device.createShaderModule({ code }), entryPoint: 'main' },
  });
  const group = device.createBindGroup({
    layout: pipeline.getBindGroupLayout(0),
    entries: buffers.map((buffer, binding) => ({ binding, resource: { buffer } })),
  });
  return { pipeline, group, grid };
}

function submit(device: GPUDevice, { pipeline, group, grid }: Ready): void {
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  pass.setPipeline(pipeline);
  pass.setBindGroup(0, group);
  pass.dispatchWorkgroups(...grid);
  pass.end();
  device.queue.submit([encoder.finish()]);
}

/** Tells the check that x itself is expected. */
export const COPY_NOTE = 'a copy of x';

async function copy(device: GPUDevice, data: Float32Array<ArrayBuffer>): Promise<Prepared> {
  const from = upload(device, data);
  const to = makeBuffer(device, data.length);
  const d = await dispatchOf(device, copyKernel(4 * data.length), [from, to]);
  return {
    note: COPY_NOTE,
    run: () => submit(device, d),
    outputs: async () => [await readBack(device, to, data.length)],
    release: () => [from, to].forEach((b) => b.destroy()),
  };
}

/** Timed runs of each variant; the least counts. */
const TRIES = 3;

async function bestMatmul(device: GPUDevice, { contents, signature }: Task): Promise<Prepared> {
  const n = signature.outputs[0]?.shape[0] ?? 0;
  const inputs = ['x', 'w', 'bias'].map((name) => upload(device, given(contents, name)));
  const y = makeBuffer(device, elementsOf([n, n]));
  let best: { ready: Ready; variant: MatmulVariant; ms: number } | undefined;
  for (const variant of matmulVariants(n, device.limits)) {
    const ready = await bound(device, variant.wgsl, [...inputs, y], variant.grid);
    let least = Infinity;
    for (let i = 0; i <= TRIES; i++) {
      const start = performance.now();
      submit(device, ready);
      await device.queue.onSubmittedWorkDone();
      if (i > 0) least = Math.min(least, performance.now() - start);
      // Hopeless ones needn't be tried again.
      if (best && i > 0 && least > 2 * best.ms) break;
    }
    if (!best || least < best.ms) best = { ready, variant, ms: least };
  }
  if (!best) throw new Unsupported(`no hand-written matmul fits ${n}`);
  const { ready, variant } = best;
  return {
    note: variant.name,
    run: () => submit(device, ready),
    outputs: async () => [await readBack(device, y, n * n)],
    release: () => [...inputs, y].forEach((b) => b.destroy()),
  };
}
