/** Entry point of the extension in a browser: no processes; kernels run in the graph page. Only wires. */
import * as vscode from 'vscode';
import { FusionLens } from './wiring';
import { webWorkerStarter } from './worker/startWorker.web';

export function activate(context: vscode.ExtensionContext): FusionLens {
  const script = vscode.Uri.joinPath(context.extensionUri, 'dist', 'compilerWorker.web.js');
  const app = new FusionLens(context.extensionUri, context.globalState, {
    machine: 'this browser',
    startWorker: webWorkerStarter(script.toString(true)),
  });
  context.subscriptions.push(app);
  return app;
}
