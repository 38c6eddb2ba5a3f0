/**
 * Device profiles from files.
 */
import assert from 'node:assert/strict';
import { parseProfile } from '../../../cli/device';
import { DEFAULT_DEVICE, DEVICES } from '../../../compiler/fusion/devices';
import { deviceForAdapter } from '../../../runner/core/deviceProfile';
import type { AdapterInfo } from '../../../runner/core/types';

describe('device profiles', () => {
  it('are whole, or what differs from a shipped one', () => {
    const discrete = DEVICES.find((d) => d.name === 'discrete');
    assert(discrete);
    const whole = parseProfile({ ...discrete, name: 'mine' }, 'f');
    assert(whole.ok);
    assert.deepEqual(whole.value, { ...discrete, name: 'mine' });
    const part = parseProfile(
      { base: 'discrete', limits: { maxStorageBuffersPerShaderStage: 4 } },
      'part.json',
    );
    assert(part.ok);
    assert.equal(part.value.limits.maxStorageBuffersPerShaderStage, 4);
    assert.equal(part.value.bytesPerUs, discrete.bytesPerUs);
    assert.equal(part.value.name, 'part.json');
  });

  it('are refused with the field that is wrong', () => {
    for (const [json, words] of [
      [[], /is an object/],
      [{ base: 'discreet' }, /no device profile "discreet"; did you mean discrete\?/],
      [{ launchus: 1 }, /no "launchus"; did you mean launchUs\?/],
      [{ launchUs: '1' }, /"launchUs" must be a number/],
      [{ bytesPerUs: 0 }, /"bytesPerUs" must be above 0/],
      [{ limits: { f16: 1 } }, /"limits.f16" must be a boolean/],
      [{ source: 'guessed' }, /"source" is/],
    ] as const) {
      const r = parseProfile(json, 'f');
      assert(!r.ok);
      assert.match(r.message, words);
    }
  });

  it('never promise more than the adapter has', () => {
    const adapter: AdapterInfo = {
      vendor: 'v',
      architecture: 'a',
      description: 'd',
      software: true,
      host: 'h',
      runner: 'node',
      timestampQuantumUs: 0,
      limits: { ...DEFAULT_DEVICE.limits, maxStorageBuffersPerShaderStage: 6, f16: true },
    };
    assert.equal(deviceForAdapter(adapter, undefined).name, 'software');
    assert.equal(deviceForAdapter(adapter, undefined).limits, adapter.limits);
    const asked = deviceForAdapter(adapter, DEFAULT_DEVICE);
    assert.equal(asked.name, DEFAULT_DEVICE.name);
    assert.equal(asked.limits.maxStorageBuffersPerShaderStage, 6);
    assert.equal(asked.limits.f16, false);
  });
});
