import assert from 'node:assert/strict';
import { DEFAULT_DEVICE } from '../../../compiler/fusion/devices';
import { Devices } from '../../../extension/services/devices';
import { nearestShipped } from '../../../runner/core/deviceProfile';
import type { AdapterInfo, RunnerReply } from '../../../runner/core/types';
import { profile } from './fixture';

const limits = { ...DEFAULT_DEVICE.limits, maxStorageBuffersPerShaderStage: 12 };
const software: AdapterInfo = { ...profile(true).adapter, limits };
const turn = () => new Promise((resolve) => setTimeout(resolve, 5));

function start(answer: RunnerReply<AdapterInfo> | undefined, trusted = true) {
  let asked = 0;
  const state = { answer, trusted };
  const devices = new Devices(
    {
      isTrusted: () => state.trusted,
      ask: () => {
        asked++;
        return Promise.resolve(state.answer);
      },
    },
    0,
  );
  const changes: string[] = [];
  devices.onDidChangeProfile(() => changes.push(devices.profileFor('auto').name));
  return { devices, changes, state, asked: () => asked };
}

describe('the device that estimates are for', () => {
  it('is the adapter at hand, asked for once and in the background', async () => {
    const { devices, changes, asked } = start({ ok: true, value: software });
    assert.equal(devices.profileFor('auto'), DEFAULT_DEVICE);
    assert.match(devices.note('auto'), /integrated GPU until/);
    devices.profileFor('auto');
    await turn();
    const found = devices.profileFor('auto');
    assert.equal(found.name, 'software');
    assert.equal(found.limits.maxStorageBuffersPerShaderStage, 12);
    assert.match(devices.note('auto'), /SwiftShader.*"software"/);
    assert.deepEqual([asked(), changes], [1, ['software']]);
    // The same adapter again, by a profile run: nothing to compile anew.
    devices.learn({ ...software, timestampQuantumUs: 3 });
    assert.deepEqual(changes, ['software']);
    devices.dispose();
  });

  it('is a shipped one where the setting says so, and then nothing is asked', async () => {
    const { devices, asked } = start({ ok: true, value: software });
    assert.equal(devices.profileFor('datacenter').name, 'datacenter');
    assert.match(devices.note('datacenter'), /"datacenter".*fusionLens\.device/);
    await turn();
    assert.equal(asked(), 0);
    // Never more than what the adapter has, once that is known.
    devices.learn({ ...software, limits: { ...limits, maxStorageBuffersPerShaderStage: 4 } });
    assert.equal(devices.profileFor('datacenter').limits.maxStorageBuffersPerShaderStage, 4);
  });

  it('stays the default where there is no adapter, and says why', async () => {
    const { devices } = start({
      ok: false,
      fault: { code: 'NO_ADAPTER', message: 'No GPU adapter was found.' },
    });
    devices.profileFor('auto');
    await turn();
    assert.equal(devices.profileFor('auto'), DEFAULT_DEVICE);
    assert.equal(
      devices.note('auto'),
      'Estimates are for an integrated GPU: the adapter at hand is not known (No GPU adapter was found).',
    );
  });

  it('is not asked for in Restricted Mode, but as soon as the workspace is trusted', async () => {
    const { devices, state, asked } = start({ ok: true, value: software }, false);
    devices.profileFor('auto');
    await turn();
    assert.equal(asked(), 0);
    assert.match(devices.note('auto'), /Restricted Mode/);
    state.trusted = true;
    devices.askAgain();
    await turn();
    assert.equal(devices.profileFor('auto').name, 'software');
  });

  it('waits for the page where only the page can tell', async () => {
    const { devices, state, asked } = start(undefined);
    devices.profileFor('auto');
    await turn();
    assert.match(devices.note('auto'), /once a graph is shown/);
    state.answer = { ok: true, value: software };
    devices.pageIsReady();
    await turn();
    assert.equal(devices.profileFor('auto').name, 'software');
    devices.pageIsReady();
    await turn();
    assert.equal(asked(), 2);
  });

  it('is the one that was found last until the answer comes', async () => {
    let memory: unknown = { ...software, vendor: 'remembered' };
    const changes: string[] = [];
    let answer: RunnerReply<AdapterInfo> = { ok: true, value: software };
    const open = (trusted = true) => {
      const devices = new Devices(
        {
          isTrusted: () => trusted,
          ask: () => Promise.resolve(answer),
          remembered: () => memory,
          remember: (adapter) => {
            memory = adapter;
          },
        },
        0,
      );
      devices.onDidChangeProfile(() => changes.push(devices.profileFor('auto').name));
      return devices;
    };
    assert.equal(open(false).profileFor('auto').name, 'software');
    const first = open();
    assert.equal(first.profileFor('auto').name, 'software');
    await turn();
    // Asked all the same, and nothing was to be compiled anew.
    assert.deepEqual([memory, changes], [software, []]);
    answer = { ok: false, fault: { code: 'NO_ADAPTER', message: 'It has gone.' } };
    const second = open();
    second.profileFor('auto');
    await turn();
    assert.deepEqual([memory, changes], [undefined, ['integrated']]);
    for (const odd of [7, {}, { ...software, limits: undefined }, { ...software, limits: {} }]) {
      memory = odd;
      assert.equal(open().profileFor('auto'), DEFAULT_DEVICE);
    }
  });

  it('has the rates of the kind that its names tell', () => {
    const named = (vendor: string, description: string) =>
      nearestShipped({ ...software, software: false, vendor, architecture: '', description }).name;
    assert.equal(named('nvidia', 'NVIDIA GeForce RTX 3060'), 'discrete');
    assert.equal(named('nvidia', 'NVIDIA H200'), 'datacenter');
    assert.equal(named('amd', 'AMD Radeon RX 7800 XT'), 'discrete');
    assert.equal(named('intel', 'Intel(R) Iris(R) Xe Graphics'), 'integrated');
    assert.equal(named('apple', ''), 'integrated');
    assert.equal(nearestShipped(software).name, 'software');
  });
});
