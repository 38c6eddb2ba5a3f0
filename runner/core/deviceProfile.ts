/**
 * From an adapter at hand to what the cost model knows of it: the queried limits, and the rates that
 * were measured of it, or else those of the shipped profile that is nearest.
 *
 * WebGPU doesn't say what kind of GPU an adapter is; its vendor and its name do, as far as they can.
 * Where they say nothing, it counts as an integrated one: the model then promises rather too little.
 */
import { DEFAULT_DEVICE, deviceByName } from '../../compiler/fusion/devices';
import type { AdapterLimits, DeviceProfile } from '../../compiler/result';
import type { AdapterInfo } from './types';

/** GPUs with high-bandwidth memory, by the names that drivers give them. */
const DATACENTER =
  /\b(A100|A30|H100|H200|H800|H20|GH200|B100|B200|GB200|V100|P100|MI[123]\d\d\w?)\b/i;
/** Graphics cards among vendors that make integrated GPUs as well. */
const CARD = /\b(radeon (rx|pro|vii)|arc\W+[ab]\d{3})/i;

/** The shipped profile whose rates are nearest to the adapter's. */
export function nearestShipped(adapter: AdapterInfo): DeviceProfile {
  return deviceByName(nearestName(adapter)) ?? DEFAULT_DEVICE;
}

function nearestName({ software, vendor, architecture, description }: AdapterInfo): string {
  const words = `${vendor} ${architecture} ${description}`;
  if (software) return /llvmpipe|lavapipe/i.test(words) ? 'llvmpipe' : 'software';
  if (DATACENTER.test(words)) return 'datacenter';
  if (/nvidia/i.test(vendor) && !/tegra|orin|xavier/i.test(words)) return 'discrete';
  return CARD.test(words) ? 'discrete' : 'integrated';
}

/**
 * What to compile for when kernels will run on `adapter`: the profile asked for, else the measured
 * one, else the shipped one that is nearest, and never more than the adapter's own limits.
 */
export function deviceForAdapter(
  adapter: AdapterInfo,
  asked: DeviceProfile | undefined,
): DeviceProfile {
  const base = asked ?? adapter.measured ?? nearestShipped(adapter);
  if (!adapter.limits) return base;
  return { ...base, limits: asked ? lesser(asked.limits, adapter.limits) : adapter.limits };
}

function lesser(a: AdapterLimits, b: AdapterLimits): AdapterLimits {
  const min = (k: Exclude<keyof AdapterLimits, 'f16' | 'subgroups'>): number =>
    Math.min(a[k], b[k]);
  return {
    maxStorageBuffersPerShaderStage: min('maxStorageBuffersPerShaderStage'),
    maxStorageBufferBindingSize: min('maxStorageBufferBindingSize'),
    maxBufferSize: min('maxBufferSize'),
    maxComputeWorkgroupStorageSize: min('maxComputeWorkgroupStorageSize'),
    maxComputeInvocationsPerWorkgroup: min('maxComputeInvocationsPerWorkgroup'),
    maxComputeWorkgroupSizeX: min('maxComputeWorkgroupSizeX'),
    maxComputeWorkgroupsPerDimension: min('maxComputeWorkgroupsPerDimension'),
    f16: a.f16 && b.f16,
    subgroups: a.subgroups && b.subgroups,
  };
}
