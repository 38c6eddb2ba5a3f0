import assert from 'node:assert/strict';
import * as vscode from 'vscode';
import { activate, closeEverything, freshLenses, openText, until, write } from './support';

const set = (value: unknown) =>
  vscode.workspace
    .getConfiguration('fusionLens')
    .update('device', value, vscode.ConfigurationTarget.Global);

describe('the device that estimates are for', () => {
  afterEach(async () => {
    await set(undefined);
    await closeEverything();
  });

  it('is the adapter at hand, found in the background, with its limits', async () => {
    const { devices, results } = await activate();
    const uri = await write('device.fuse', 'input x: f32[256, 256]\ny = exp(x)\noutput y\n');
    await openText(uri);
    await freshLenses(uri);
    await until('the adapter', () => /its own limits/.test(devices.note('auto')), 30_000);
    const found = devices.profileFor('auto');
    const compiled = await until('a result for it', async () => {
      const { result } = await results.fresh(uri.toString());
      return result?.device.name === found.name && result;
    });
    assert.deepEqual(compiled.device.limits, found.limits);

    await set('datacenter');
    const chosen = await until('a result for the chosen kind', async () => {
      const { result } = await results.fresh(uri.toString());
      return result?.device.name === 'datacenter' && result;
    });
    assert.ok(chosen.after.estimatedUs <= compiled.after.estimatedUs);
    assert.match(devices.note('datacenter'), /as the setting/);
  });
});
