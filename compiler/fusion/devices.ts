/**
 * Shipped device profiles: round figures for kinds of adapters, used until one has been measured.
 *
 * Rates are what well-written kernels reach, not data-sheet peaks. Limits are WebGPU's defaults; the
 * runner replaces them by the queried ones. No adapter tells of its registers: cards of the two large
 * vendors have 255 and 256 an invocation, integrated GPUs down to half of that.
 */
import type { AdapterLimits, DeviceProfile } from '../result';

export const DEFAULT_LIMITS: AdapterLimits = {
  maxStorageBuffersPerShaderStage: 8,
  maxStorageBufferBindingSize: 134217728,
  maxBufferSize: 268435456,
  maxComputeWorkgroupStorageSize: 16384,
  maxComputeInvocationsPerWorkgroup: 256,
  maxComputeWorkgroupSizeX: 256,
  maxComputeWorkgroupsPerDimension: 65535,
  f16: false,
  subgroups: false,
};

const MIB = 1 << 20;

/** What is assumed where no adapter is known: a laptop's own GPU. */
export const DEFAULT_DEVICE: DeviceProfile = {
  name: 'integrated',
  source: 'shipped',
  software: false,
  launchUs: 8,
  bytesPerUs: 60_000,
  flopsPerUs: 1_500_000,
  saturatingThreads: 8_192,
  loadWork: 3,
  sharedAccessWork: 2,
  barrierWork: 40,
  barrierFactor: 1,
  registers: 128,
  cacheBytes: 4 * MIB,
  unroll: 4,
  straightCode: 4096,
  limits: DEFAULT_LIMITS,
};

export const DEVICES: readonly DeviceProfile[] = [
  DEFAULT_DEVICE,
  {
    name: 'discrete',
    source: 'shipped',
    software: false,
    launchUs: 6,
    bytesPerUs: 400_000,
    flopsPerUs: 10_000_000,
    saturatingThreads: 65_536,
    loadWork: 3,
    sharedAccessWork: 2,
    barrierWork: 40,
    barrierFactor: 1,
    registers: 255,
    cacheBytes: 32 * MIB,
    unroll: 4,
    straightCode: 4096,
    limits: DEFAULT_LIMITS,
  },
  {
    name: 'datacenter',
    source: 'shipped',
    software: false,
    launchUs: 6,
    bytesPerUs: 2_500_000,
    flopsPerUs: 40_000_000,
    saturatingThreads: 270_000,
    loadWork: 3,
    sharedAccessWork: 2,
    barrierWork: 40,
    barrierFactor: 1,
    registers: 255,
    cacheBytes: 50 * MIB,
    unroll: 4,
    straightCode: 4096,
    limits: DEFAULT_LIMITS,
  },
  {
    name: 'software',
    source: 'shipped',
    software: true,
    launchUs: 60,
    bytesPerUs: 3_000,
    flopsPerUs: 12_000,
    saturatingThreads: 8,
    loadWork: 8,
    sharedAccessWork: 12,
    barrierWork: 1_000,
    barrierFactor: 1.7,
    // The stack is in the nearest cache: what doesn't fit in registers costs next to nothing.
    registers: 4096,
    cacheBytes: MIB,
    unroll: 4,
    straightCode: 256,
    limits: {
      ...DEFAULT_LIMITS,
      maxStorageBuffersPerShaderStage: 12,
      maxComputeWorkgroupStorageSize: 32768,
      maxStorageBufferBindingSize: 1073741824,
      maxBufferSize: 1073741824,
    },
  },
  {
    name: 'llvmpipe',
    source: 'shipped',
    software: true,
    launchUs: 40,
    bytesPerUs: 8_000,
    flopsPerUs: 40_000,
    saturatingThreads: 8,
    loadWork: 12,
    sharedAccessWork: 12,
    barrierWork: 1_000,
    barrierFactor: 1.15,
    registers: 4096,
    cacheBytes: MIB,
    // A tile's accumulators fill its vector registers: a longer body spills them, and takes 1.7 times as long.
    unroll: 1,
    straightCode: 512,
    limits: {
      ...DEFAULT_LIMITS,
      maxStorageBuffersPerShaderStage: 16,
      maxComputeWorkgroupStorageSize: 32768,
    },
  },
];

export function deviceByName(name: string): DeviceProfile | undefined {
  return DEVICES.find((d) => d.name === name);
}
