/**
 * Where measured device profiles are kept: one file an adapter, in the user's cache folder
 * (FUSION_LENS_CACHE names another).
 */
import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import type { DeviceProfile } from '../../compiler/result';
import {
  adapterKey,
  type AdapterName,
  measuredFileText,
  readMeasuredFile,
} from '../core/measuredProfile';

export interface Place {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly platform: string;
  readonly home: string;
}

const here = (): Place => ({
  env: process.env,
  platform: process.platform,
  home: os.homedir(),
});

/** `~/.cache/fusion-lens` on Linux, and what other systems have in its place. */
export function cacheFolder({ env, platform, home }: Place = here()): string {
  const own = env['FUSION_LENS_CACHE'];
  if (own) return path.resolve(own);
  const inside = (base: string): string => path.join(base, 'fusion-lens');
  if (platform === 'darwin') return inside(path.join(home, 'Library', 'Caches'));
  if (platform === 'win32')
    return path.join(inside(env['LOCALAPPDATA'] ?? path.join(home, 'AppData', 'Local')), 'Cache');
  const xdg = env['XDG_CACHE_HOME'];
  // The XDG specification has relative paths ignored.
  return inside(xdg && path.isAbsolute(xdg) ? xdg : path.join(home, '.cache'));
}

const PREFIX = 'device-';

/** Readable in part: the adapter's name, and a hash that no two share. */
export function profileFile(adapter: AdapterName, folder = cacheFolder()): string {
  const hash = createHash('sha256').update(adapterKey(adapter)).digest('hex').slice(0, 12);
  const name = (adapter.description || adapter.architecture || adapter.vendor)
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 40);
  return path.join(folder, `${PREFIX}${name === '' ? '' : `${name}-`}${hash}.json`);
}

/** A reader sees the old file or the new one, never a part. */
export async function writeProfile(
  file: string,
  adapter: AdapterName,
  profile: DeviceProfile,
): Promise<void> {
  await mkdir(path.dirname(file), { recursive: true });
  const part = `${file}.${process.pid}.part`;
  try {
    await writeFile(part, measuredFileText(adapter, profile));
    await rename(part, file);
  } catch (e) {
    await rm(part, { force: true });
    throw e;
  }
}

export interface Cached {
  readonly measured?: DeviceProfile;
  /** Why there is a file and it isn't used. */
  readonly measuredNote?: string;
}

/** What has been measured of the adapter; neither field where nothing was. */
export async function readProfile(adapter: AdapterName, folder?: string): Promise<Cached> {
  const file = profileFile(adapter, folder);
  const text = await readText(file);
  if (text === undefined) return {};
  const r = typeof text === 'string' ? readMeasuredFile(text) : { ok: false as const, ...text };
  if (r.ok && adapterKey(r.adapter) === adapterKey(adapter)) return { measured: r.profile };
  const reason = r.ok ? 'it is of another adapter' : r.reason;
  return {
    measuredNote: `The measured device profile ${file} is not used: ${reason}. "fusion-lens calibrate" makes it anew.`,
  };
}

/** Every file of the folder that looks like a measured profile. */
export async function profileFiles(folder = cacheFolder()): Promise<string[]> {
  try {
    const names = await readdir(folder);
    return names
      .filter((n) => n.startsWith(PREFIX) && n.endsWith('.json'))
      .sort()
      .map((n) => path.join(folder, n));
  } catch {
    // No folder, no profiles.
    return [];
  }
}

async function readText(file: string): Promise<string | { reason: string } | undefined> {
  try {
    return await readFile(file, 'utf8');
  } catch (e) {
    const code = e instanceof Error && 'code' in e ? e.code : undefined;
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    return { reason: `it can't be read (${e instanceof Error ? e.message : String(e)})` };
  }
}
