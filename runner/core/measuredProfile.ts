/**
 * Measured device profiles as files: one an adapter, for people to read and to take elsewhere.
 *
 * A file says which adapter it is of and which version of the model it was fitted for; one of another
 * version, or that was cut short or edited badly, isn't used, and the reason is told.
 */
import { DEFAULT_DEVICE } from '../../compiler/fusion/devices';
import type { DeviceProfile } from '../../compiler/result';
import type { AdapterInfo } from './types';

const SCHEMA = 'fusion-lens/measured-device';
/** Goes up when the cost model's units or what is measured change: older figures then mean other things. */
export const PROFILE_VERSION = 4;

export type AdapterName = Pick<AdapterInfo, 'vendor' | 'architecture' | 'description'>;

export function measuredFileText(adapter: AdapterName, profile: DeviceProfile): string {
  const { vendor, architecture, description } = adapter;
  const file = {
    schema: SCHEMA,
    version: PROFILE_VERSION,
    adapter: { vendor, architecture, description },
    profile,
  };
  return `${JSON.stringify(file, null, 2)}\n`;
}

/** What distinguishes adapters, as one text. */
export function adapterKey(a: AdapterName): string {
  return [a.vendor, a.architecture, a.description].join('\n');
}

/** Whether it claims to be one: then nothing else should be read out of it. */
export function isMeasuredFile(json: unknown): boolean {
  return fieldsOf(json)?.['schema'] === SCHEMA;
}

export type ReadProfile =
  | { readonly ok: true; readonly adapter: AdapterName; readonly profile: DeviceProfile }
  | { readonly ok: false; readonly reason: string };

export function readMeasuredFile(text: string): ReadProfile {
  const bad = (reason: string): ReadProfile => ({ ok: false, reason });
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return bad('it is no JSON');
  }
  const file = fieldsOf(json);
  if (file?.['schema'] !== SCHEMA) return bad('it is no measured device profile');
  if (file['version'] !== PROFILE_VERSION)
    return bad(
      `it is of version ${shown(file['version'])}, and this program wants ${PROFILE_VERSION}`,
    );
  const names = fieldsOf(file['adapter']);
  const word = (k: string): string | undefined => {
    const v = names?.[k];
    return typeof v === 'string' ? v : undefined;
  };
  const [vendor, architecture, description] = [
    word('vendor'),
    word('architecture'),
    word('description'),
  ];
  if (vendor === undefined || architecture === undefined || description === undefined)
    return bad('it does not say which adapter it is of');
  const wrong = wrongField(file['profile'], DEFAULT_DEVICE, '');
  if (wrong !== undefined) return bad(`its field ${wrong} is missing or wrong`);
  const profile = file['profile'] as DeviceProfile;
  if (profile.source !== 'measured') return bad('its profile was not measured');
  return { ok: true, adapter: { vendor, architecture, description }, profile };
}

/** The first field that isn't as in the example: same names, same types, numbers above 0. */
function wrongField(value: unknown, example: object, prefix: string): string | undefined {
  const fields = fieldsOf(value);
  if (!fields) return prefix === '' ? 'profile' : prefix.slice(0, -1);
  for (const [name, like] of Object.entries(example)) {
    const v = fields[name];
    if (typeof like === 'object') {
      const inner = wrongField(v, like as object, `${prefix}${name}.`);
      if (inner !== undefined) return inner;
    } else if (typeof v !== typeof like) return prefix + name;
    else if (typeof v === 'number' && !(Number.isFinite(v) && v > 0)) return prefix + name;
  }
  return undefined;
}

function fieldsOf(v: unknown): Readonly<Record<string, unknown>> | undefined {
  return typeof v === 'object' && v !== null && !Array.isArray(v)
    ? (v as Readonly<Record<string, unknown>>)
    : undefined;
}

function shown(v: unknown): string {
  return v === undefined ? 'none' : JSON.stringify(v);
}
