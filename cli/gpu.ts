/**
 * The GPU for a command: a runner in a child process with Dawn, and where the machine has no GPU,
 * the software adapter that a checkout brings along.
 */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import type { DeviceProfile } from '../compiler/result';
import type { AdapterInfo, Progress, Runner } from '../runner/core/types';
import { createNodeRunner } from '../runner/node';
import { plain } from './format/table';
import type { Terminal } from './terminal';

/**
 * What the child's environment needs. VK_ICD_FILENAMES set by the user decides; else the checkout's
 * script looks for a GPU and, where there is none, names the software adapter that it unpacked.
 */
export async function gpuEnvironment(terminal: Terminal): Promise<Record<string, string>> {
  if (process.env['VK_ICD_FILENAMES'] !== undefined) return {};
  const script = path.join(__dirname, '..', 'scripts', 'software-gpu.mjs');
  if (!existsSync(script)) return {};
  try {
    const loaded: unknown = await import(pathToFileURL(script).href);
    const choose = softwareGpuScript(loaded);
    return choose ? await choose() : {};
  } catch (e) {
    terminal.note(`no software adapter: ${e instanceof Error ? e.message : String(e)}`);
    return {};
  }
}

function softwareGpuScript(m: unknown): (() => Promise<Record<string, string>>) | undefined {
  if (typeof m !== 'object' || m === null || !('gpuEnvironment' in m)) return undefined;
  const f = m.gpuEnvironment;
  return typeof f === 'function' ? (f as () => Promise<Record<string, string>>) : undefined;
}

export function startRunner(env: Record<string, string>): Runner {
  return createNodeRunner({ env });
}

export function adapterText(a: AdapterInfo): string {
  const name = plain([a.vendor, a.architecture, a.description].filter((s) => s !== '').join(' '));
  const where = `on ${plain(a.host)}`;
  return a.software
    ? `${name} ${where}: a SOFTWARE adapter (the CPU); its times say little about a GPU`
    : `${name} ${where}`;
}

/** Whose rates estimates are made with: `measured profile`, or the shipped one's name. */
export function ratesText(device: DeviceProfile): string {
  return device.source === 'measured'
    ? 'measured profile'
    : `shipped profile "${plain(device.name)}" ("fusion-lens calibrate" measures the adapter)`;
}

/** Tells when a measured profile is there and can't be used. */
export function noteMeasured(terminal: Terminal, adapter: AdapterInfo): void {
  if (adapter.measuredNote !== undefined) terminal.note(plain(adapter.measuredNote));
}

export function progressText(p: Progress): string {
  const kernel = p.kernel === undefined ? '' : ` ${plain(p.kernel)}`;
  return `${p.stage} ${p.done}/${p.total}${kernel}`;
}

/** `use`, with a runner that is ended afterwards whatever happens. */
export async function withRunner<T>(
  terminal: Terminal,
  use: (runner: Runner) => Promise<T>,
): Promise<T> {
  const runner = startRunner(await gpuEnvironment(terminal));
  try {
    return await use(runner);
  } finally {
    terminal.progress('');
    runner.dispose();
  }
}
