/** What the settings add to a compile and to a profile run. */
import * as vscode from 'vscode';
import type { ProfileOptions } from '../../runner/core/types';
import type { Devices } from './devices';
import type { CompileInputs } from './results';
import { readSettings } from './settings';

export function compileInputs(key: string, devices: Devices): CompileInputs {
  const { dims, device } = readSettings(vscode.Uri.parse(key));
  return {
    ...(Object.keys(dims).length > 0 ? { dims } : {}),
    device: devices.profileFor(device),
  };
}

export function profileOptions(key: string): ProfileOptions {
  const uri = vscode.Uri.parse(key);
  const { profileSeconds } = readSettings(uri);
  return {
    seconds: profileSeconds,
    verify: true,
    // External weights may lie in the model's folder and nowhere else.
    ...(uri.scheme === 'file' ? { modelFolder: vscode.Uri.joinPath(uri, '..').fsPath } : {}),
  };
}
