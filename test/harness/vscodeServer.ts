// What the extension tests and the end-to-end tests share: VS Code's server with a data folder and
// a workspace of its own, both thrown away afterwards.

import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { root } from '../../scripts/root.mjs';
import { gpuEnvironment } from '../../scripts/software-gpu.mjs';
import {
  ensureVsCodeServer,
  linkExtension,
  type RunningServer,
  startServer,
} from '../../scripts/vscode-server.mjs';

export type Settings = Record<string, unknown>;

export interface TestServerOptions {
  /** The folder to open, absolute or relative to the repository. It is copied: tests may write. */
  folder?: string;
  /** More files to write into the copy: path inside the folder → content. */
  files?: Record<string, string | Uint8Array>;
  settings?: Settings;
  /** Workspace trust switched on, and the folder not trusted. */
  restricted?: boolean;
  /** A packed extension to install into the server before it starts. */
  vsix?: string;
  /** Added to the environment of the extension host. */
  env?: Record<string, string>;
}

export interface TestServer {
  server: RunningServer;
  /** The copy of the folder that is open. */
  workspace: string;
  /** What to load as the extension under development. */
  extension: string;
  /** Changes settings, the others keep their value; VS Code notices by itself. */
  writeSettings(settings: Settings): void;
  stop(): Promise<void>;
}

/** Nothing that pops up, moves by itself or looks at the network. */
const quietSettings: Settings = {
  'chat.commandCenter.enabled': false,
  'extensions.autoCheckUpdates': false,
  'extensions.autoUpdate': false,
  'extensions.ignoreRecommendations': true,
  'git.enabled': false,
  'npm.autoDetect': 'off',
  'security.workspace.trust.banner': 'never',
  'security.workspace.trust.startupPrompt': 'never',
  'telemetry.telemetryLevel': 'off',
  'update.mode': 'none',
  'update.showReleaseNotes': false,
  'workbench.enableExperiments': false,
  'workbench.reduceMotion': 'on',
  'workbench.secondarySideBar.defaultVisibility': 'hidden',
  'workbench.startupEditor': 'none',
  'workbench.tips.enabled': false,
  'workbench.welcomePage.walkthroughs.openOnInstall': false,
};

export async function startTestServer(options: TestServerOptions = {}): Promise<TestServer> {
  const runs = path.join(root, '.vscode-test/runs');
  mkdirSync(runs, { recursive: true });
  const run = mkdtempSync(path.join(runs, 'run-'));
  const workspace = path.join(run, 'workspace');
  mkdirSync(workspace);
  if (options.folder !== undefined) {
    const source = path.resolve(root, options.folder);
    if (existsSync(source)) cpSync(source, workspace, { recursive: true });
  }
  for (const [name, content] of Object.entries(options.files ?? {})) {
    mkdirSync(path.dirname(path.join(workspace, name)), { recursive: true });
    writeFileSync(path.join(workspace, name), content);
  }
  const extension = path.join(run, 'extension');
  linkExtension(extension);
  const dataDir = path.join(run, 'data');
  let current: Settings = {};
  const writeSettings = (settings: Settings) => {
    current = { ...current, ...settings };
    // Of the two, this server reads "User" at the start alone and notices changes of "Machine",
    // which may hold all settings but the few that concern the whole application.
    for (const scope of ['User', 'Machine']) {
      mkdirSync(path.join(dataDir, 'data', scope), { recursive: true });
      writeFileSync(
        path.join(dataDir, 'data', scope, 'settings.json'),
        JSON.stringify(current, undefined, 2),
      );
    }
  };
  writeSettings({ ...quietSettings, ...options.settings });

  if (options.vsix !== undefined) {
    const server = await ensureVsCodeServer();
    execFileSync(
      process.execPath,
      [
        path.join(server, 'out/server-main.js'),
        ...['--install-extension', options.vsix, '--accept-server-license-terms'],
        ...['--server-data-dir', dataDir, '--extensions-dir', path.join(dataDir, 'extensions')],
      ],
      { cwd: server, stdio: 'pipe', timeout: 120_000 },
    );
  }
  const removeRun = () => rmSync(run, { recursive: true, force: true, maxRetries: 5 });
  try {
    const server = await startServer({
      dataDir,
      env: { ...(await gpuEnvironment()), ...options.env },
      args: options.restricted === true ? [] : ['--disable-workspace-trust'],
      logFile: path.join(runs, 'server.log'),
    });
    return {
      server,
      workspace,
      extension,
      writeSettings,
      stop: async () => {
        await server.stop();
        removeRun();
      },
    };
  } catch (error) {
    removeRun();
    throw error;
  }
}
