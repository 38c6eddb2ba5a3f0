/** Entry point of the extension in a host with Node: desktop, remote, container. Only wires. */
import { hostname } from 'node:os';
import * as vscode from 'vscode';
import { openModel } from '../runner/node/ranges';
import { readContents } from './services/contentsOnDisk';
import { openNodeRunner } from './services/nodeRunner';
import { FusionLens } from './wiring';
import { threadStarter } from './worker/startWorker';

export function activate(context: vscode.ExtensionContext): FusionLens {
  const file = (name: string) => vscode.Uri.joinPath(context.extensionUri, 'dist', name).fsPath;
  const app = new FusionLens(context.extensionUri, context.globalState, {
    machine: hostname(),
    startWorker: threadStarter(file('compilerWorker.js')),
    openModel,
    readContents,
    openProcessRunner: (settings, log) => openNodeRunner(file('runnerChild.mjs'), settings, log),
  });
  context.subscriptions.push(app);
  return app;
}
