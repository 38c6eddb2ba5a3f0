/**
 * A plan that stays on the GPU between runs: its pipelines, buffers and bind groups exist, so a run is
 * one encoder, one pass and one submit, whatever the number of kernels. Inputs stay as they were given.
 */
import type { Device } from './device';
import { fail, throwIfCancelled } from './faults';
import { encodeDispatch, type JobMemory, type LoadedPlan } from './loaded';
import { findPoison, writtenBuffers, type BufferPool } from './memory';
import type { CancelSignal, RunOutput } from './types';

export class Resident {
  constructor(
    private readonly device: Device,
    private readonly pool: BufferPool,
    private readonly loaded: LoadedPlan,
    private readonly memory: JobMemory,
  ) {}

  /** Puts one run of the whole plan on the queue; returns at once. */
  submit(): void {
    const { gpu } = this.device;
    if (this.loaded.plan.steps)
      fail('UNSUPPORTED', 'A plan with branches or loops can’t be put on the queue as a whole.');
    const encoder = gpu.createCommandEncoder();
    const pass = encoder.beginComputePass();
    for (const d of this.loaded.dispatches) encodeDispatch(pass, d);
    pass.end();
    gpu.queue.submit([encoder.finish()]);
  }

  /** The outputs of the last run. A fault where no kernel wrote an element. */
  async read(signal: CancelSignal): Promise<RunOutput[]> {
    const { plan } = this.loaded;
    const outputs: RunOutput[] = [];
    const writers = new Map(writtenBuffers(plan).map((w) => [w.spec.id, w.kernel]));
    for (const o of plan.outputs) {
      throwIfCancelled(signal);
      const spec = plan.buffers.find((b) => b.id === o.buffer);
      if (!spec) fail('INTERNAL', `the output ${o.name} has no buffer`);
      const data = await this.pool.read(this.loaded.buffer(spec.id), spec);
      const kernel = writers.get(spec.id);
      const poison = kernel === undefined ? undefined : findPoison(data, spec.storage);
      if (poison !== undefined)
        fail('INTERNAL', `No kernel wrote element ${poison} of the output ${o.name}.`, { kernel });
      outputs.push({ name: o.name, buffer: spec, data });
    }
    return outputs;
  }

  /** Gives the buffers back; the plan can't be run any more. */
  release(): void {
    this.memory.release();
  }
}
