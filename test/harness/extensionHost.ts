// Runs a test module inside the real extension host of VS Code 1.100.
//
// VS Code's server shows the workbench to a headless browser. The address asks it to load this
// repository as an extension under development and to run a test module in its extension host. The
// workbench reports through two functions of the page, codeAutomationLog and codeAutomationExit.

import { createWriteStream, mkdirSync } from 'node:fs';
import path from 'node:path';
import { root } from '../../scripts/root.mjs';
import { remoteUri, workbenchUrl } from '../../scripts/vscode-server.mjs';
import { launchBrowser } from './browser';
import { startTestServer, type TestServerOptions } from './vscodeServer';

export interface ExtensionHostRun extends TestServerOptions {
  /** The module whose `run()` is called in the extension host; from the repository root. */
  testsPath: string;
  timeoutMs?: number;
}

export interface ExtensionHostResult {
  /** 0 when `run()` resolved. */
  code: number;
  timedOut: boolean;
  /** Everything that the extension host and the workbench printed. */
  logFile: string;
}

/** Prints mocha's lines and keeps all others in the log. */
export async function runInExtensionHost(options: ExtensionHostRun): Promise<ExtensionHostResult> {
  const { testsPath, timeoutMs = 5 * 60_000 } = options;
  const logFile = path.join(root, '.vscode-test/runs/extension-host.log');
  mkdirSync(path.dirname(logFile), { recursive: true });
  const log = createWriteStream(logFile);
  const testServer = await startTestServer(options);
  const browser = await launchBrowser().catch(async (error: unknown) => {
    await testServer.stop();
    throw error;
  });
  let timer: NodeJS.Timeout | undefined;
  try {
    const page = await browser.newPage();
    const finished = new Promise<ExtensionHostResult>((resolve) => {
      timer = setTimeout(() => resolve({ code: 1, timedOut: true, logFile }), timeoutMs);
      void page.exposeFunction('codeAutomationExit', (code: number) =>
        resolve({ code, timedOut: false, logFile }),
      );
    });
    await page.exposeFunction('codeAutomationLog', (type: string, args: unknown[]) => {
      const text = args
        .map((arg) => (typeof arg === 'string' ? arg : JSON.stringify(arg)))
        .join(' ')
        .replace(/^%s/, '');
      log.write(`${type}: ${text}\n`);
      if (text.startsWith('[mocha] ')) console.log(text.slice('[mocha] '.length));
    });
    const url = workbenchUrl(testServer.server, {
      folder: testServer.workspace,
      payload: [
        ['extensionDevelopmentPath', remoteUri(testServer.server, testServer.extension)],
        [
          'extensionTestsPath',
          remoteUri(testServer.server, path.join(testServer.extension, testsPath)),
        ],
      ],
    });
    await page.goto(url, { waitUntil: 'domcontentloaded' });
    return await finished;
  } finally {
    clearTimeout(timer);
    await browser.close().catch(() => undefined);
    await testServer.stop();
    log.end();
  }
}
