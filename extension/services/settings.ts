/**
 * Every setting, read in one place with its type checked: a value of the wrong kind counts as not set.
 *
 * Settings that decide which program runs are machine-scoped in the manifest, so that a workspace
 * can't set them, and nothing runs in an untrusted workspace at all (see profiler.ts).
 */
import * as vscode from 'vscode';

export const SECTION = 'fusionLens';

export type LensDetail = 'full' | 'brief' | 'top';
export type RunnerChoice = 'auto' | 'node' | 'page';
/** `auto`: the adapter at hand; otherwise a shipped profile by name. */
export type DeviceChoice = (typeof DEVICE_CHOICES)[number];
const DEVICE_CHOICES = [
  'auto',
  'integrated',
  'discrete',
  'datacenter',
  'software',
  'llvmpipe',
] as const;

export interface Settings {
  readonly lensesEnabled: boolean;
  readonly lensDetail: LensDetail;
  readonly delayMs: number;
  readonly linkedSelection: boolean;
  readonly dims: Readonly<Record<string, number>>;
  readonly device: DeviceChoice;
  readonly profileSeconds: number;
  readonly runner: RunnerChoice;
  readonly nodePath: string;
  readonly runnerEnvironment: Readonly<Record<string, string>>;
}

export function readSettings(scope?: vscode.Uri): Settings {
  const section = vscode.workspace.getConfiguration(SECTION, scope);
  const get = (key: string): unknown => section.get<unknown>(key);
  return {
    lensesEnabled: get('codeLens.enabled') !== false,
    lensDetail: oneOf(get('codeLens.detail'), ['full', 'brief', 'top']),
    delayMs: numberIn(get('compileDelay'), 0, 5000, 200),
    linkedSelection: get('linkedSelection') !== false,
    dims: wholeNumbers(get('dims')),
    device: oneOf(get('device'), DEVICE_CHOICES),
    profileSeconds: numberIn(get('profile.seconds'), 0.1, 120, 3),
    runner: oneOf(get('profile.runner'), ['auto', 'node', 'page']),
    nodePath: text(get('nodePath')),
    runnerEnvironment: texts(get('profile.environment')),
  };
}

function oneOf<T extends string>(value: unknown, allowed: readonly [T, ...T[]]): T {
  return allowed.find((candidate) => candidate === value) ?? allowed[0];
}

function numberIn(value: unknown, least: number, most: number, otherwise: number): number {
  if (typeof value !== 'number' || !Number.isFinite(value)) return otherwise;
  return Math.min(most, Math.max(least, value));
}

function text(value: unknown): string {
  return typeof value === 'string' ? value.trim() : '';
}

function wholeNumbers(value: unknown): Record<string, number> {
  const result: Record<string, number> = {};
  for (const [name, size] of entries(value))
    if (typeof size === 'number' && Number.isSafeInteger(size) && size >= 0) result[name] = size;
  return result;
}

function texts(value: unknown): Record<string, string> {
  const result: Record<string, string> = {};
  for (const [name, content] of entries(value))
    if (typeof content === 'string') result[name] = content;
  return result;
}

function entries(value: unknown): [string, unknown][] {
  return typeof value === 'object' && value !== null ? Object.entries(value) : [];
}
