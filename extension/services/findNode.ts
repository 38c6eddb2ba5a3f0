/**
 * Finds a real Node to run kernels in. Dawn's binding doesn't work in Electron's own Node, so on a
 * desktop the editor's own executable is of no use; in a remote server it is a plain Node.
 */
import { execFile } from 'node:child_process';
import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import path from 'node:path';
import type { RunnerFault } from '../../runner/core/types';

const OLDEST = 20;

export type FoundNode =
  | { readonly ok: true; readonly path: string }
  | { readonly ok: false; readonly fault: RunnerFault };

export interface NodeSurroundings {
  readonly execPath: string;
  readonly isElectron: boolean;
  readonly searchPath: string;
  readonly windows: boolean;
}

export function surroundings(): NodeSurroundings {
  return {
    execPath: process.execPath,
    isElectron: process.versions['electron'] !== undefined,
    searchPath: process.env['PATH'] ?? '',
    windows: process.platform === 'win32',
  };
}

/** @param configured the setting `fusionLens.nodePath`; empty: look for one */
export async function findNode(
  configured: string,
  { execPath, isElectron, searchPath, windows }: NodeSurroundings = surroundings(),
): Promise<FoundNode> {
  if (configured !== '') return checkConfigured(configured);
  if (!isElectron) return { ok: true, path: execPath };
  for (const folder of searchPath.split(windows ? ';' : ':')) {
    // A relative entry would find whatever lies in the workspace.
    if (!path.isAbsolute(folder)) continue;
    const candidate = path.join(folder, windows ? 'node.exe' : 'node');
    if ((await isProgram(candidate)) && (await versionOf(candidate)) !== undefined)
      return { ok: true, path: candidate };
  }
  return noNode(
    `There is no Node ${OLDEST} or newer on PATH.`,
    'Install Node, or name its executable in the setting fusionLens.nodePath.',
  );
}

async function checkConfigured(configured: string): Promise<FoundNode> {
  const advice = 'Correct the setting fusionLens.nodePath, or empty it to have Node looked for.';
  if (!path.isAbsolute(configured))
    return noSetting(
      `fusionLens.nodePath must be an absolute path; it is "${configured}".`,
      advice,
    );
  if (!(await isProgram(configured)))
    return noSetting(`fusionLens.nodePath names no program: "${configured}".`, advice);
  if ((await versionOf(configured)) === undefined)
    return noSetting(`"${configured}" is not Node ${OLDEST} or newer.`, advice);
  return { ok: true, path: configured };
}

async function isProgram(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK);
    return (await stat(file)).isFile();
  } catch {
    return false;
  }
}

/** Its version when it is new enough. */
function versionOf(file: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const env = { ...process.env, ELECTRON_RUN_AS_NODE: '' };
    execFile(file, ['--version'], { timeout: 10_000, windowsHide: true, env }, (error, output) => {
      const major = /^v(\d+)\./.exec(output)?.[1];
      resolve(!error && Number(major) >= OLDEST ? output.trim() : undefined);
    });
  });
}

function noNode(message: string, advice: string): FoundNode {
  return { ok: false, fault: { code: 'NO_NODE', message, advice } };
}

/** A wrong setting is shown, never worked around. */
function noSetting(message: string, advice: string): FoundNode {
  return { ok: false, fault: { code: 'BAD_INPUT', message, advice } };
}
