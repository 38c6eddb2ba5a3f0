// Measured profiles on disk: where they are, what is written, what is refused.

import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { DEFAULT_DEVICE } from '../../../compiler/fusion/devices';
import type { DeviceProfile } from '../../../compiler/result';
import { deviceForAdapter } from '../../../runner/core/deviceProfile';
import { readMeasuredFile } from '../../../runner/core/measuredProfile';
import {
  cacheFolder,
  profileFile,
  profileFiles,
  readProfile,
  writeProfile,
} from '../../../runner/node/profileCache';

const ADAPTER = { vendor: 'acme', architecture: 'gen/9', description: 'Rocket ../ X' };
const PROFILE: DeviceProfile = {
  ...DEFAULT_DEVICE,
  name: 'measured',
  source: 'measured',
  launchUs: 4.25,
  barrierWork: 0.25,
  registers: 128,
};

describe('measured profiles', () => {
  let folder = '';
  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'fusion-lens-profiles-'));
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  it('are in the user’s cache folder', () => {
    const at = (platform: string, env: Record<string, string>): string =>
      cacheFolder({ platform, env, home: '/home/u' });
    assert.equal(at('linux', {}), '/home/u/.cache/fusion-lens');
    assert.equal(at('linux', { XDG_CACHE_HOME: '/big/cache' }), '/big/cache/fusion-lens');
    assert.equal(at('linux', { XDG_CACHE_HOME: 'relative' }), '/home/u/.cache/fusion-lens');
    assert.equal(at('darwin', {}), '/home/u/Library/Caches/fusion-lens');
    assert.ok(at('win32', { LOCALAPPDATA: '/l' }).startsWith('/l/fusion-lens'));
    assert.equal(at('darwin', { FUSION_LENS_CACHE: '/mine' }), '/mine');
  });

  it('come back as they were written, and change what is compiled for', async () => {
    assert.deepEqual(await readProfile(ADAPTER, folder), {});
    const file = profileFile(ADAPTER, path.join(folder));
    assert.equal(path.dirname(file), folder);
    await writeProfile(file, ADAPTER, PROFILE);
    assert.deepEqual(await readProfile(ADAPTER, folder), { measured: PROFILE });
    assert.deepEqual(await readdir(folder), [path.basename(file)]);
    assert.deepEqual(await profileFiles(folder), [file]);
    // The same again: no date in it.
    const text = await readFile(file, 'utf8');
    await writeProfile(file, ADAPTER, PROFILE);
    assert.equal(await readFile(file, 'utf8'), text);

    const limits = { ...DEFAULT_DEVICE.limits, maxStorageBuffersPerShaderStage: 10 };
    const info = {
      ...ADAPTER,
      software: false,
      host: '',
      runner: 'node' as const,
      timestampQuantumUs: 0,
      limits,
    };
    assert.equal(deviceForAdapter(info, undefined).name, 'integrated');
    const device = deviceForAdapter({ ...info, measured: PROFILE }, undefined);
    assert.equal(device.launchUs, 4.25);
    // Limits are always those of the adapter at hand.
    assert.equal(device.limits, limits);
    assert.equal(
      deviceForAdapter({ ...info, measured: PROFILE }, DEFAULT_DEVICE).name,
      'integrated',
    );
  });

  it('are not shared by adapters', async () => {
    await writeProfile(profileFile(ADAPTER, folder), ADAPTER, PROFILE);
    const other = { ...ADAPTER, architecture: 'gen/10' };
    assert.deepEqual(await readProfile(other, folder), {});
    // Copied by hand to where the other's would be.
    const text = await readFile(profileFile(ADAPTER, folder));
    await writeFile(profileFile(other, folder), text);
    assert.match((await readProfile(other, folder)).measuredNote ?? '', /of another adapter/);
  });

  it('are refused with a reason when old, cut short or wrong', async () => {
    const file = profileFile(ADAPTER, folder);
    await writeProfile(file, ADAPTER, PROFILE);
    const good = await readFile(file, 'utf8');
    for (const [text, reason] of [
      ['', /no JSON/],
      [good.slice(0, good.length / 2), /no JSON/],
      ['[]', /no measured device profile/],
      ['{"schema":"other"}', /no measured device profile/],
      [good.replace('"version": 4', '"version": 0'), /of version 0/],
      [good.replace('"version": 4', '"version": [2]'), /of version \[2\]/],
      [good.replace('"acme"', '7'), /which adapter/],
      [good.replace('"launchUs": 4.25', '"launchUs": -1'), /field launchUs/],
      [good.replace('"launchUs": 4.25', '"launchUs": "4"'), /field launchUs/],
      [good.replace('"launchUs": 4.25', '"launchUs": 1e999'), /field launchUs/],
      [good.replace('"maxBufferSize"', '"minBufferSize"'), /field limits.maxBufferSize/],
      [good.replace('"limits": {', '"limits": null, "x": {'), /field limits/],
      [good.replace('"source": "measured"', '"source": "shipped"'), /not measured/],
    ] as const) {
      await writeFile(file, text);
      const { measured, measuredNote } = await readProfile(ADAPTER, folder);
      assert.equal(measured, undefined, text);
      assert.match(measuredNote ?? '', reason);
      assert.match(measuredNote ?? '', /calibrate/);
      assert.equal(readMeasuredFile(text).ok, false);
    }
    await rm(file);
    assert.deepEqual(await readProfile(ADAPTER, folder), {});
  });

  it('leave nothing behind when they can’t be written', async () => {
    await writeFile(path.join(folder, 'file'), '');
    await assert.rejects(writeProfile(path.join(folder, 'file', 'p.json'), ADAPTER, PROFILE));
    assert.deepEqual(await profileFiles(path.join(folder, 'file')), []);
    assert.deepEqual(await readdir(folder), ['file']);
  });
});
