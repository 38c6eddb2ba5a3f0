/**
 * Pipelines: compiled once per WGSL text and binding layout, asynchronously, with the compiler's
 * messages turned into a fault that names the kernel.
 */
import type { DispatchSpec, ExecPlan } from '../../compiler/result';
import { VISIBLE_TO_COMPUTE, type Device, type Watch } from './device';
import { everyDispatch } from './memory';
import { fail, Faulted, throwIfCancelled } from './faults';
import type { CancelSignal } from './types';

export interface Pipeline {
  readonly pipeline: GPUComputePipeline;
  readonly layout: GPUBindGroupLayout;
}

/** Compilations under way at a time: the driver uses a few threads for them. */
const PARALLEL = 4;
const MAX_CACHED = 2000;

export class PipelineCache {
  private readonly cache = new Map<string, Pipeline>();

  constructor(private readonly device: Device) {}

  /** The pipelines of all dispatches, in order. */
  async compileAll(plans: readonly ExecPlan[], watch: Watch, signal: CancelSignal): Promise<void> {
    const missing = new Map<string, DispatchSpec>();
    for (const d of plans.flatMap(everyDispatch))
      if (!this.cache.has(keyOf(d))) missing.set(keyOf(d), d);
    if (this.cache.size + missing.size > MAX_CACHED) this.cache.clear();
    const queue = [...missing];
    let done = 0;
    for (let i = 0; i < queue.length; i += PARALLEL) {
      throwIfCancelled(signal);
      const batch = queue.slice(i, i + PARALLEL);
      const kernel = batch[0]?.[1].kernel;
      this.device.current = kernel;
      watch.working(kernel, 0);
      watch.progress({
        stage: 'compile',
        done,
        total: queue.length,
        ...(kernel === undefined ? {} : { kernel }),
      });
      const made = await this.device.guard(
        Promise.allSettled(batch.map(([, d]) => this.compile(d))),
      );
      made.forEach((m, k) => {
        if (m.status === 'rejected') throw m.reason as Error;
        const key = batch[k]?.[0];
        if (key !== undefined) this.cache.set(key, m.value);
      });
      done += batch.length;
    }
    this.device.current = undefined;
  }

  get(d: DispatchSpec): Pipeline {
    const p = this.cache.get(keyOf(d));
    if (!p) throw new Error(`the pipeline of ${d.kernel} was not compiled`);
    return p;
  }

  private async compile(d: DispatchSpec): Promise<Pipeline> {
    const { gpu } = this.device;
    // The scopes of concurrent compilations would mix: errors come from the promises instead, and
    // what a scope would have caught from one around the synchronous part.
    gpu.pushErrorScope('validation');
    const module = gpu.createShaderModule({ label: d.label, code: d.wgsl });
    const scope = gpu.popErrorScope();
    gpu.pushErrorScope('validation');
    const layout = gpu.createBindGroupLayout({ entries: layoutEntries(d) });
    const pipelineLayout = gpu.createPipelineLayout({ bindGroupLayouts: [layout] });
    const layoutScope = gpu.popErrorScope();
    const info = await module.getCompilationInfo();
    const errors = info.messages.filter((m) => m.type === 'error');
    const shaderError = await scope;
    if (errors.length > 0 || shaderError) {
      const lines = errors.map((m) => `${m.lineNum}:${m.linePos} ${m.message}`);
      fail('SHADER_ERROR', lines.join('\n') || (shaderError?.message ?? ''), { kernel: d.kernel });
    }
    const layoutError = await layoutScope;
    if (layoutError) fail('VALIDATION', layoutError.message, { kernel: d.kernel });
    try {
      const pipeline = await gpu.createComputePipelineAsync({
        label: d.label,
        layout: pipelineLayout,
        compute: { module, entryPoint: d.entryPoint },
      });
      return { pipeline, layout };
    } catch (e) {
      if (e instanceof Faulted) throw e;
      fail('SHADER_ERROR', e instanceof Error ? e.message : String(e), { kernel: d.kernel });
    }
  }
}

function keyOf(d: DispatchSpec): string {
  const access = d.bindings.map((b) => (b.access === 'read' ? 'r' : 'w')).join('');
  return `${access}${d.uniforms.length > 0 ? 'u' : ''}\n${d.wgsl}`;
}

/** Explicit, since the automatic layout leaves out bindings that the code doesn't use. */
function layoutEntries(d: DispatchSpec): GPUBindGroupLayoutEntry[] {
  const entries: GPUBindGroupLayoutEntry[] = d.bindings.map((b, binding) => ({
    binding,
    visibility: VISIBLE_TO_COMPUTE,
    buffer: { type: b.access === 'read' ? 'read-only-storage' : 'storage' },
  }));
  if (d.uniforms.length > 0)
    entries.push({
      binding: d.bindings.length,
      visibility: VISIBLE_TO_COMPUTE,
      buffer: { type: 'uniform' },
    });
  return entries;
}
