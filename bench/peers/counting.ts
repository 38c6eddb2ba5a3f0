/**
 * Watches a contestant's use of WebGPU from outside, the same way for all: which device it opened, how
 * many dispatches it makes, and how many bytes of storage buffers are bound to them. It also smooths
 * over where libraries and Dawn disagree.
 */
const STORAGE = 0x0080;

export interface Counts {
  readonly dispatches: number;
  readonly boundBytes: number;
}

export class Watcher {
  private devices: GPUDevice[] = [];
  private counting = false;
  private dispatches = 0;
  private boundBytes = 0;

  /** The device that the contestant opened last. */
  get device(): GPUDevice {
    const device = this.devices.at(-1);
    if (!device) throw new Error('no device was opened');
    return device;
  }

  start(): void {
    this.counting = true;
    this.dispatches = 0;
    this.boundBytes = 0;
  }

  stop(): Counts {
    this.counting = false;
    return { dispatches: this.dispatches, boundBytes: this.boundBytes };
  }

  /** Wraps the classes that Dawn put into the global scope. */
  install(): void {
    this.watchDevices();
    this.watchDispatches();
    allowSharedMemory();
  }

  private watchDevices(): void {
    const { devices } = this;
    const { requestDevice } = methodsOf(GPUAdapter.prototype);
    GPUAdapter.prototype.requestDevice = async function (descriptor) {
      const device = (await requestDevice.call(this, {
        ...descriptor,
        // TensorFlow.js hands over a list in a list.
        requiredFeatures: [...(descriptor?.requiredFeatures ?? [])].flat(),
      })) as GPUDevice;
      devices.push(device);
      return device;
    };
  }

  private watchDispatches(): void {
    const groups = new WeakMap<GPUBindGroup, number>();
    const passes = new WeakMap<GPUComputePassEncoder, Map<number, number>>();
    const device = methodsOf(GPUDevice.prototype);
    const pass = methodsOf(GPUComputePassEncoder.prototype);
    GPUDevice.prototype.createBindGroup = function (descriptor) {
      const group = device.createBindGroup.call(this, descriptor) as GPUBindGroup;
      let bytes = 0;
      for (const { resource } of descriptor.entries) {
        if (typeof resource !== 'object' || !('buffer' in resource)) continue;
        const { buffer, offset = 0, size } = resource;
        if (buffer.usage & STORAGE) bytes += size ?? buffer.size - offset;
      }
      groups.set(group, bytes);
      return group;
    };
    const setBindGroup = (self: GPUComputePassEncoder, args: readonly unknown[]): void => {
      const [index, group] = args as [number, GPUBindGroup | null];
      const bound = passes.get(self) ?? new Map<number, number>();
      bound.set(index, group ? (groups.get(group) ?? 0) : 0);
      passes.set(self, bound);
    };
    const count = (self: GPUComputePassEncoder): void => {
      this.dispatches++;
      for (const bytes of passes.get(self)?.values() ?? []) this.boundBytes += bytes;
    };
    const counting = (): boolean => this.counting;
    GPUComputePassEncoder.prototype.setBindGroup = function (...args: unknown[]): undefined {
      if (counting()) setBindGroup(this, args);
      pass.setBindGroup.apply(this, args);
    };
    GPUComputePassEncoder.prototype.dispatchWorkgroups = function (...args): undefined {
      if (counting()) count(this);
      pass.dispatchWorkgroups.apply(this, args);
    };
    GPUComputePassEncoder.prototype.dispatchWorkgroupsIndirect = function (...args): undefined {
      if (counting()) count(this);
      pass.dispatchWorkgroupsIndirect.apply(this, args);
    };
  }
}

/** Dawn refuses a view on shared memory, which WebAssembly with threads has: such are copied. */
function allowSharedMemory(): void {
  const { writeBuffer } = methodsOf(GPUQueue.prototype);
  GPUQueue.prototype.writeBuffer = function (buffer, at, data, start, size): undefined {
    const memory = ArrayBuffer.isView(data) ? data.buffer : data;
    if (!(memory instanceof SharedArrayBuffer)) {
      writeBuffer.call(this, buffer, at, data, start, size);
      return;
    }
    // Offset and size count elements of a typed array, bytes otherwise.
    const unit =
      ArrayBuffer.isView(data) && 'BYTES_PER_ELEMENT' in data ? Number(data.BYTES_PER_ELEMENT) : 1;
    const bytes = ArrayBuffer.isView(data)
      ? new Uint8Array(memory, data.byteOffset, data.byteLength)
      : new Uint8Array(memory);
    const from = (start ?? 0) * unit;
    const to = size === undefined ? bytes.length : from + size * unit;
    writeBuffer.call(this, buffer, at, Uint8Array.from(bytes.subarray(from, to)));
  };
}

type Method = (...args: unknown[]) => unknown;

/** The methods as they are now, to be called by whoever replaces them. */
function methodsOf<T extends object>(prototype: T): { readonly [K in keyof T]: Method } {
  return Object.fromEntries(
    Object.entries(Object.getOwnPropertyDescriptors(prototype)).flatMap(([name, d]) => {
      const value: unknown = d.value;
      return typeof value === 'function' ? [[name, value]] : [];
    }),
  ) as { readonly [K in keyof T]: Method };
}
