/**
 * The GPU as the runner uses it: opened with the adapter's own limits, every wait ended by the loss of
 * the device, every error caught in a scope and turned into a fault that names the kernel.
 *
 * The GPU object, the clock and the pause come from the host: this folder knows neither Dawn nor a
 * browser. WebGPU's flags are written as their numbers, since a host need not have them as globals.
 */
import type { ByteRange } from '../../compiler';
import type { AdapterLimits } from '../../compiler/result';
import { fail, Faulted } from './faults';
import type { AdapterInfo, ModelFile, Progress, RunnerFault } from './types';

export const USAGE = {
  mapRead: 0x0001,
  copySrc: 0x0004,
  copyDst: 0x0008,
  uniform: 0x0040,
  storage: 0x0080,
  queryResolve: 0x0200,
} as const;
export const MAP_READ = 1;
export const VISIBLE_TO_COMPUTE = 4;

/** What a host lends the runner. */
export interface Host {
  readonly gpu: GPU | undefined;
  readonly kind: 'node' | 'browser';
  /** The machine's name, for people. */
  readonly name: string;
  /** Milliseconds from any origin. */
  now(): number;
  /** Lets other events be handled. */
  pause(): Promise<void>;
  /** What has been measured of an adapter. */
  readMeasured?(adapter: AdapterInfo): Promise<Pick<AdapterInfo, 'measured' | 'measuredNote'>>;
  /** Contents in a file beside the model. */
  readExternal?(request: ExternalRequest): Promise<Uint8Array>;
  /** Contents in the model's own file, which must still be the one that was compiled. */
  readModel?(file: ModelFile, range: ByteRange): Promise<Uint8Array>;
}

export interface ExternalRequest {
  readonly folder: string;
  readonly location: string;
  readonly offset: number;
  readonly length: number;
}

/** What a job reports while it runs. */
export interface Watch {
  progress(p: Progress): void;
  /**
   * The GPU (or the reference) now works on something that should take `expectedMs` at most; what
   * takes far longer hangs.
   */
  working(kernel: string | undefined, expectedMs: number): void;
}

const NO_ADAPTER_ADVICE =
  'Install or update the graphics driver (on Linux its Vulkan driver, e.g. mesa-vulkan-drivers; ' +
  'check with vulkaninfo). A software adapter works too: point VK_ICD_FILENAMES at SwiftShader’s or ' +
  'lavapipe’s ICD file.';

export class Device {
  /** The kernel being compiled or run, named by faults that come from outside. */
  current: string | undefined;
  lost: RunnerFault | undefined;
  private readonly onLost = new Set<(fault: Faulted) => void>();

  private constructor(
    readonly gpu: GPUDevice,
    readonly info: AdapterInfo,
    readonly limits: AdapterLimits,
    readonly timestamps: boolean,
  ) {
    // An error outside every scope is a bug of the runner, but must not take the process down.
    gpu.onuncapturederror = (e) => {
      this.uncaptured ??= e.error.message;
    };
    void gpu.lost.then((info) => {
      this.lost = lossFault(info.message, this.current);
      const fault = new Faulted(this.lost);
      for (const tell of this.onLost) tell(fault);
      this.onLost.clear();
    });
  }

  uncaptured: string | undefined;

  static async open(host: Host): Promise<Device> {
    if (!host.gpu)
      fail('NO_ADAPTER', 'WebGPU is not available here.', { advice: NO_ADAPTER_ADVICE });
    const adapter = await host.gpu.requestAdapter({ powerPreference: 'high-performance' });
    if (!adapter) fail('NO_ADAPTER', 'No GPU adapter was found.', { advice: NO_ADAPTER_ADVICE });
    const wanted: GPUFeatureName[] = ['timestamp-query', 'shader-f16', 'subgroups'];
    const gpu = await adapter.requestDevice({
      requiredFeatures: wanted.filter((f) => adapter.features.has(f)),
      requiredLimits: numericLimits(adapter.limits),
    });
    const limits = limitsOf(gpu);
    const { info } = adapter;
    return new Device(
      gpu,
      {
        vendor: info.vendor,
        architecture: info.architecture,
        description: info.description || info.device,
        software: isSoftware(info),
        host: host.name,
        runner: host.kind,
        timestampQuantumUs: 0,
        limits,
      },
      limits,
      gpu.features.has('timestamp-query'),
    );
  }

  /** Waits for GPU work, or for the loss of the device. */
  async guard<T>(work: Promise<T>): Promise<T> {
    if (this.lost) throw new Faulted(this.lost);
    let tell: ((fault: Faulted) => void) | undefined;
    const loss = new Promise<never>((_, reject) => {
      tell = reject;
      this.onLost.add(reject);
    });
    try {
      return await Promise.race([work, loss]);
    } catch (e) {
      // What fails because the device was lost says so in many ways.
      if (this.lost) throw new Faulted(this.lost);
      throw e;
    } finally {
      if (tell) this.onLost.delete(tell);
    }
  }

  /** Runs `work` and throws the first error the GPU reports for it. */
  async scoped<T>(kernel: string | undefined, work: () => T | Promise<T>): Promise<T> {
    const filters: GPUErrorFilter[] = ['validation', 'out-of-memory', 'internal'];
    for (const f of filters) this.gpu.pushErrorScope(f);
    let result: T | undefined;
    let failure: unknown;
    try {
      result = await work();
    } catch (e) {
      failure = e ?? new Error('rejected');
    }
    const errors = await this.guard(Promise.all(filters.map(() => this.gpu.popErrorScope())));
    const [internal, memory, validation] = errors;
    if (failure instanceof Faulted) throw failure;
    if (memory)
      fail('OUT_OF_MEMORY', `The GPU is out of memory: ${memory.message}`, {
        kernel,
        advice: 'Profile with smaller sizes (--dim), or close other programs that use the GPU.',
      });
    if (validation) fail('VALIDATION', validation.message, { kernel });
    if (internal) fail('INTERNAL', internal.message, { kernel });
    if (failure !== undefined) throw failure as Error;
    return result as T;
  }

  destroy(): void {
    this.gpu.destroy();
  }
}

function lossFault(message: string, kernel: string | undefined): RunnerFault {
  return {
    code: 'DEVICE_LOST',
    message: `The GPU device was lost${kernel === undefined ? '' : ` while kernel ${kernel} ran`}: ${message}`,
    ...(kernel === undefined ? {} : { kernel }),
    advice:
      'The driver gave the device up, often because a kernel ran too long. The next run opens it anew.',
  };
}

/** Every limit the adapter has: WebGPU gives only the defaults unless asked. */
function numericLimits(limits: GPUSupportedLimits): Record<string, number> {
  const out: Record<string, number> = {};
  for (const name of LIMITS) {
    const value = limits[name];
    if (typeof value === 'number') out[name] = value;
  }
  return out;
}

const LIMITS = [
  'maxStorageBuffersPerShaderStage',
  'maxStorageBufferBindingSize',
  'maxBufferSize',
  'maxComputeWorkgroupStorageSize',
  'maxComputeInvocationsPerWorkgroup',
  'maxComputeWorkgroupSizeX',
  'maxComputeWorkgroupSizeY',
  'maxComputeWorkgroupsPerDimension',
] as const;

function limitsOf(gpu: GPUDevice): AdapterLimits {
  const { limits } = gpu;
  return {
    maxStorageBuffersPerShaderStage: limits.maxStorageBuffersPerShaderStage,
    maxStorageBufferBindingSize: limits.maxStorageBufferBindingSize,
    maxBufferSize: limits.maxBufferSize,
    maxComputeWorkgroupStorageSize: limits.maxComputeWorkgroupStorageSize,
    maxComputeInvocationsPerWorkgroup: limits.maxComputeInvocationsPerWorkgroup,
    maxComputeWorkgroupSizeX: limits.maxComputeWorkgroupSizeX,
    maxComputeWorkgroupsPerDimension: limits.maxComputeWorkgroupsPerDimension,
    f16: gpu.features.has('shader-f16'),
    subgroups: gpu.features.has('subgroups'),
  };
}

function isSoftware(info: GPUAdapterInfo): boolean {
  const text = [info.vendor, info.architecture, info.device, info.description].join(' ');
  return info.isFallbackAdapter || /swiftshader|llvmpipe|lavapipe|warp|basic render/i.test(text);
}
