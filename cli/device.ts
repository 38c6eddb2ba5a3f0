/**
 * `--device`: a shipped profile by name, `measured` for what `calibrate` kept, or a JSON file with a
 * profile.
 *
 * A file may be one that `calibrate` wrote, hold a whole profile, or only what differs from a shipped
 * one: `{ "base": "discrete", "limits": { "maxStorageBuffersPerShaderStage": 16 } }`; without a
 * base it starts from the default profile. What it says is checked: a cost model fed with a wrong
 * word would only give nonsense.
 */
import { DEFAULT_DEVICE, DEVICES, deviceByName } from '../compiler/fusion/devices';
import type { DeviceProfile } from '../compiler/result';
import { MEASURED } from '../runner/core/fitProfile';
import { isMeasuredFile, readMeasuredFile } from '../runner/core/measuredProfile';
import { cacheFolder, profileFiles } from '../runner/node/profileCache';
import { one, type ParsedArgs, suggestion } from './args';
import { readBytes } from './load';
import { bad, good, type Outcome } from './tensors/tensor';

/** undefined: the flag isn't given. */
export async function deviceOf(args: ParsedArgs): Promise<Outcome<DeviceProfile | undefined>> {
  const text = one(args, 'device');
  if (text === undefined) return good(undefined);
  if (/\.json$/i.test(text)) return readProfile(text);
  return text.toLowerCase() === MEASURED ? measured() : shipped(text);
}

/** The one measured profile that is kept here: no GPU is needed to ask for it. */
async function measured(): Promise<Outcome<DeviceProfile>> {
  const files = await profileFiles();
  const [file] = files;
  if (file === undefined)
    return bad(
      `nothing has been measured yet: "fusion-lens calibrate" measures the adapter at hand (looked in ${cacheFolder()})`,
    );
  if (files.length > 1)
    return bad(
      `there are measured profiles of ${files.length} adapters; name one: ${files.map((f) => `--device ${f}`).join(', ')}`,
    );
  return readProfile(file);
}

function shipped(name: string): Outcome<DeviceProfile> {
  const found = deviceByName(name.toLowerCase());
  if (found) return good(found);
  const names = DEVICES.map((d) => d.name);
  return bad(
    `there is no device profile "${name}"${suggestion(name, [...names, MEASURED])} (shipped are ${names.join(', ')}; "measured" is what calibrate kept; or name a .json file)`,
  );
}

async function readProfile(file: string): Promise<Outcome<DeviceProfile>> {
  const bytes = await readBytes(file);
  if (!bytes.ok) return bytes;
  const text = new TextDecoder().decode(bytes.value);
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (e) {
    return bad(`${file} is no JSON: ${e instanceof Error ? e.message : String(e)}`);
  }
  if (isMeasuredFile(json)) {
    const r = readMeasuredFile(text);
    return r.ok ? good(r.profile) : bad(`${file} is not used: ${r.reason}`);
  }
  const r = parseProfile(json, file);
  return r.ok ? r : bad(`${file}: ${r.message}`);
}

type Fields = Readonly<Record<string, unknown>>;

/** `name` is what the profile is called when it doesn't say. */
export function parseProfile(json: unknown, name: string): Outcome<DeviceProfile> {
  const given = fieldsOf(json);
  if (!given) return bad('a device profile is an object');
  const { base, limits: givenLimits, ...own } = given;
  let start = DEFAULT_DEVICE;
  if (base !== undefined) {
    const found = shipped(typeof base === 'string' ? base : JSON.stringify(base));
    if (!found.ok) return found;
    start = found.value;
  }
  const limits = overlay(start.limits, fieldsOf(givenLimits) ?? {}, 'limits.');
  if (!limits.ok) return limits;
  const profile = overlay(start, { name, ...own }, '');
  if (!profile.ok) return profile;
  if (profile.value.source !== 'measured' && profile.value.source !== 'shipped')
    return bad('"source" is "measured" or "shipped"');
  return good({ ...profile.value, limits: limits.value });
}

/** `base` with the fields of `own`, each of which must be known and have the type of the base's. */
function overlay<T extends object>(base: T, own: Fields, prefix: string): Outcome<T> {
  const known = new Map<string, unknown>(Object.entries(base));
  for (const [key, value] of Object.entries(own)) {
    const old = known.get(key);
    if (old === undefined)
      return bad(`there is no "${prefix}${key}"${suggestion(key, [...known.keys()])}`);
    if (typeof value !== typeof old) return bad(`"${prefix}${key}" must be a ${typeof old}`);
    if (typeof value === 'number' && !(Number.isFinite(value) && value > 0))
      return bad(`"${prefix}${key}" must be above 0`);
  }
  return good({ ...base, ...own });
}

function fieldsOf(v: unknown): Fields | undefined {
  return typeof v === 'object' && v !== null && !Array.isArray(v) ? (v as Fields) : undefined;
}
