/** What the settings add to a compile and to a profile run. */
import * as vscode from 'vscode';
import type { ModelFile, ProfileOptions } from '../../runner/core/types';
import type { Devices } from './devices';
import type { CompileInputs } from './results';
import { readSettings } from './settings';
import type { TuningRecords } from './tuningRecords';

export async function compileInputs(
  key: string,
  devices: Devices,
  records: TuningRecords,
): Promise<CompileInputs> {
  const { dims, device } = readSettings(vscode.Uri.parse(key));
  const profile = devices.profileFor(device);
  const tuning = await records.tuningOf(key, devices.adapter);
  return {
    ...(Object.keys(dims).length > 0 ? { dims } : {}),
    device: profile,
    ...(tuning ? { tuning } : {}),
  };
}

/** @param modelFile of the compiled result */
export function profileOptions(key: string, modelFile: ModelFile | undefined): ProfileOptions {
  const uri = vscode.Uri.parse(key);
  const { profileSeconds } = readSettings(uri);
  return {
    seconds: profileSeconds,
    verify: true,
    ...(modelFile ? { modelFile } : {}),
    // External weights may lie in the model's folder and nowhere else.
    ...(uri.scheme === 'file' ? { modelFolder: vscode.Uri.joinPath(uri, '..').fsPath } : {}),
  };
}
