/** onnxruntime-web with its native WebGPU execution provider; inputs and outputs are GPU buffers. */
import { makeBuffer, given, readBack, upload, type Contestant } from './contestant';
import type { Prepared, Task } from './contestant';
import { onnxOf } from './onnxGraphs';
import { loader, type Ort, type OrtTensor } from './peers';
import { elementsOf } from '../workloads';

export class OnnxRuntime implements Contestant {
  private ort: Ort | undefined;

  async open(): Promise<string> {
    const load = await loader();
    this.ort = await load.onnxruntime();
    this.ort.env.logLevel = 'error';
    const version = await load.versionOf('onnxruntime-web');
    return `onnxruntime-web ${version}, onnxruntime-web/webgpu (native WebGPU provider)`;
  }

  async prepare(task: Task): Promise<Prepared> {
    const { ort } = this;
    if (!ort) throw new Error('not opened');
    const { signature, contents } = task;
    const model = task.bytes ? { bytes: task.bytes, outputs: undefined } : onnxOf(task);
    const session = await ort.InferenceSession.create(model.bytes, {
      executionProviders: ['webgpu'],
      preferredOutputLocation: 'gpu-buffer',
      graphOptimizationLevel: 'all',
    });
    const device = await ort.env.webgpu.device;
    const buffers: GPUBuffer[] = [];
    const tensor = (buffer: GPUBuffer, dims: readonly number[]): OrtTensor => {
      buffers.push(buffer);
      return ort.Tensor.fromGpuBuffer(buffer, { dataType: 'float32', dims });
    };
    const feeds = Object.fromEntries(
      signature.given
        .filter((t) => session.inputNames.includes(t.name))
        .map((t) => [t.name, tensor(upload(device, given(contents, t.name)), t.shape)]),
    );
    const names = model.outputs ?? session.outputNames;
    const results = signature.outputs.map((o) => makeBuffer(device, elementsOf(o.shape)));
    const fetches = Object.fromEntries(
      results.map((b, i) => [names[i] ?? '', tensor(b, signature.outputs[i]?.shape ?? [])]),
    );
    return {
      run: async () => void (await session.run(feeds, fetches)),
      outputs: async () => {
        const out: Float32Array[] = [];
        for (const [i, b] of results.entries())
          out.push(await readBack(device, b, elementsOf(signature.outputs[i]?.shape ?? [])));
        return out;
      },
      release: async () => {
        await session.release();
        for (const b of buffers) b.destroy();
      },
    };
  }
}
