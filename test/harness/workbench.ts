// A real VS Code in a headless browser, for end-to-end tests: opens a copy of a folder with the
// extension loaded from this repository, and offers what a person does there.

import { mkdirSync } from 'node:fs';
import path from 'node:path';
import type { Browser, ElementHandle, Frame, Page } from 'puppeteer-core';
import { root } from '../../scripts/root.mjs';
import { remoteUri, workbenchUrl } from '../../scripts/vscode-server.mjs';
import { launchBrowser } from './browser';
import {
  startTestServer,
  type Settings,
  type TestServer,
  type TestServerOptions,
} from './vscodeServer';

export type Theme = 'dark' | 'light' | 'hc-dark' | 'hc-light';

const themeNames: Record<Theme, string> = {
  dark: 'Default Dark Modern',
  light: 'Default Light Modern',
  'hc-dark': 'Default High Contrast',
  'hc-light': 'Default High Contrast Light',
};

/** The class that VS Code gives its root element for a kind of theme. */
const themeClasses: Record<Theme, string> = {
  dark: 'vs-dark',
  light: 'vs',
  'hc-dark': 'hc-black',
  'hc-light': 'hc-light',
};

export interface WorkbenchOptions extends TestServerOptions {
  theme?: Theme;
  width?: number;
  height?: number;
  /** In the browser's own extension host: dist/extension.web.js in a Web Worker, without Node. */
  webHost?: boolean;
  /** Without the extension, to compare. */
  withoutExtension?: boolean;
}

const defaultTimeoutMs = 30_000;

/** Starts a server and a browser and waits until the workbench is there. */
export async function openWorkbench(options: WorkbenchOptions = {}): Promise<Workbench> {
  const theme = options.theme ?? 'dark';
  const testServer = await startTestServer({
    ...options,
    folder: options.folder ?? 'examples',
    settings: {
      'workbench.colorTheme': themeNames[theme],
      ...(options.webHost === true
        ? { 'remote.extensionKind': { 'fusion-lens.fusion-lens': ['web'] } }
        : {}),
      ...options.settings,
    },
  });
  let browser: Browser | undefined;
  try {
    const { width = 1400, height = 900 } = options;
    browser = await launchBrowser({ width, height });
    const page = await browser.newPage();
    page.setDefaultTimeout(defaultTimeoutMs);
    const workbench = new Workbench(testServer, browser, page);
    const url = workbenchUrl(testServer.server, {
      folder: testServer.workspace,
      payload:
        options.withoutExtension === true
          ? []
          : [['extensionDevelopmentPath', remoteUri(testServer.server, testServer.extension)]],
    });
    await page.goto(url, { waitUntil: 'domcontentloaded' });
    await workbench.waitUntilReady();
    return workbench;
  } catch (error) {
    await browser?.close().catch(() => undefined);
    await testServer.stop();
    throw error;
  }
}

/**
 * Opens one workbench for all tests of a `describe` block and closes it afterwards. A test that fails
 * leaves a picture of the moment in dist/screenshots/failed.
 */
export function useWorkbench(options: WorkbenchOptions = {}): () => Workbench {
  let workbench: Workbench | undefined;
  before(async () => {
    workbench = await openWorkbench(options);
  });
  afterEach(async function () {
    const test = this.currentTest;
    if (test?.state !== 'failed') return;
    const name = test.fullTitle().replace(/[^\w-]+/g, '-');
    const file = await workbench?.screenshot(`failed/${name}.png`).catch(() => undefined);
    if (file !== undefined) console.error(`      picture: ${path.relative(root, file)}`);
  });
  after(async () => {
    await workbench?.close();
  });
  return () => {
    if (workbench === undefined) throw new Error('The workbench is not open.');
    return workbench;
  };
}

export class Workbench {
  /** What the page wrote to its console as errors: own faults and VS Code's. */
  readonly consoleErrors: string[] = [];

  constructor(
    private readonly testServer: TestServer,
    private readonly browser: Browser,
    readonly page: Page,
  ) {
    page.on('console', (message) => {
      if (message.type() === 'error') this.consoleErrors.push(message.text());
    });
    page.on('pageerror', (error) => this.consoleErrors.push(String(error)));
  }

  /** The folder that is open, on disk. */
  get workspace(): string {
    return this.testServer.workspace;
  }

  async close(): Promise<void> {
    await this.browser.close().catch(() => undefined);
    await this.testServer.stop();
  }

  async waitUntilReady(): Promise<void> {
    await this.page.waitForSelector('.monaco-workbench .part.statusbar .statusbar-item', {
      timeout: 60_000,
    });
    await this.page.waitForSelector('.explorer-folders-view .monaco-list-row');
  }

  /** Opens a file of the workspace by its name, as a person does with Quick Open. */
  async openFile(name: string): Promise<void> {
    await this.quickInput('', name);
    const label = path.posix.basename(name);
    await this.page.waitForFunction(
      (wanted: string) =>
        Array.from(document.querySelectorAll('.quick-input-list .monaco-list-row')).some((row) =>
          (row.getAttribute('aria-label') ?? '').includes(wanted),
        ),
      {},
      label,
    );
    await this.page.keyboard.press('Enter');
    await this.page.waitForFunction(
      (wanted: string) =>
        Array.from(document.querySelectorAll('.tab.active .label-name')).some(
          (tab) => tab.textContent === wanted,
        ),
      {},
      label,
    );
    // The text comes a moment after the tab; a custom editor has none, and its webview lies outside
    // the group's own elements.
    await this.page.waitForFunction(
      () =>
        document.querySelector('.editor-group-container.active .view-line') !== null ||
        document.querySelector('.monaco-workbench iframe.webview') !== null,
    );
  }

  /**
   * Types at the end of the open file. Keys go wherever the focus is, and the focus comes to an
   * editor a moment after its text: so it waits for that, and for the cursor to have moved.
   */
  async typeAtEnd(text: string): Promise<void> {
    await this.page.waitForFunction(() => {
      const editor = document.querySelector('.editor-group-container.active .monaco-editor');
      return editor?.contains(document.activeElement) === true;
    });
    await this.page.keyboard.down('Control');
    await this.page.keyboard.press('Home');
    await this.page.keyboard.up('Control');
    await this.waitForCursor((line) => line === 1);
    await this.page.keyboard.down('Control');
    await this.page.keyboard.press('End');
    await this.page.keyboard.up('Control');
    await this.waitForCursor((line) => line > 1);
    await this.page.keyboard.type(text);
  }

  /** Waits until the status bar shows the cursor on such a line. */
  private async waitForCursor(isThere: (line: number) => boolean): Promise<void> {
    let shown = '';
    const there = await poll(10_000, async () => {
      shown = await this.page
        .$eval('[id="status.editor.selection"]', (item) => item.textContent ?? '')
        .catch(() => '');
      const line = /\d+/.exec(shown);
      return line !== null && isThere(Number(line[0])) ? true : undefined;
    });
    if (there === undefined) throw new Error(`The cursor did not move; it is at "${shown}".`);
  }

  /** Runs a command by the title that the palette shows, e.g. `Fusion Lens: Show Graph`. */
  async runCommand(title: string): Promise<void> {
    await this.quickInput('>', title);
    let offered: string[] = [];
    const row = await poll(5000, async () => {
      offered = [];
      for (const each of await this.page.$$('.quick-input-list .monaco-list-row')) {
        const label = await each.evaluate((element) => element.getAttribute('aria-label') ?? '');
        offered.push(label);
        // A keyboard shortcut or a group may follow the title.
        if (label === title || label.startsWith(`${title},`)) return each;
      }
      return undefined;
    });
    if (row === undefined) {
      await this.page.keyboard.press('Escape');
      throw new Error(`The palette has no command "${title}", but ${JSON.stringify(offered)}.`);
    }
    await row.click();
    await this.page.waitForSelector('.quick-input-widget', { hidden: true });
  }

  private async quickInput(prefix: string, text: string): Promise<void> {
    // A key that is pressed while a webview has the focus may be lost: focus the workbench first.
    const input = '.quick-input-widget input[type="text"]';
    for (let attempt = 0; attempt < 3; attempt++) {
      await this.page.keyboard.press('F1');
      if (
        await this.page.waitForSelector(input, { visible: true, timeout: 3000 }).catch(() => null)
      )
        break;
      await this.page.click('.part.statusbar');
    }
    await this.page.$eval(input, (element) => element.select());
    await this.page.keyboard.press('Backspace');
    await this.page.type(input, prefix + text);
    // The list follows the input with a delay of its own.
    await delay(400);
  }

  /** The texts of the CodeLenses that are visible now, from top to bottom. */
  codeLenses(): Promise<string[]> {
    return this.page.$$eval('.codelens-decoration', (elements) =>
      elements
        .map((element) => ({
          top: element.getBoundingClientRect().top,
          text: (element.textContent ?? '').replace(/\u00a0/g, ' ').trim(),
        }))
        .filter(({ text }) => text !== '')
        .sort((a, b) => a.top - b.top)
        .map(({ text }) => text),
    );
  }

  /** Waits until a visible CodeLens matches, and returns its text. */
  async waitForCodeLens(pattern: RegExp, timeoutMs = defaultTimeoutMs): Promise<string> {
    let seen: string[] = [];
    const found = await poll(timeoutMs, async () => {
      seen = await this.codeLenses();
      return seen.find((text) => pattern.test(text));
    });
    if (found === undefined)
      throw new Error(`No CodeLens matches ${String(pattern)}. Visible: ${JSON.stringify(seen)}`);
    return found;
  }

  /** Clicks the first part of a CodeLens (the text between two separators) that matches. */
  async clickCodeLens(pattern: RegExp): Promise<void> {
    const link = await poll(defaultTimeoutMs, async () => {
      // Lenses that are about to change move the links behind them, perhaps out of reach.
      const all = await this.page.$$eval('.codelens-decoration', (list) =>
        list.map((e) => e.textContent ?? '').join(' '),
      );
      if (all.includes('updating…')) return undefined;
      for (const a of await this.page.$$('.codelens-decoration a')) {
        const text = await a.evaluate((element) => element.textContent ?? '');
        if (pattern.test(text.replace(/\u00a0/g, ' ').trim())) return a;
      }
      return undefined;
    });
    if (!link) throw new Error(`No link of a CodeLens matches ${String(pattern)}.`);
    await link.click();
  }

  /**
   * The frame in which a webview's own content lives (VS Code nests it twice), once it holds an
   * element that matches `selector`.
   */
  async webviewFrame(selector = 'body *', timeoutMs = defaultTimeoutMs): Promise<Frame> {
    const found = await poll(timeoutMs, async () => {
      for (const frame of this.page.frames()) {
        if (frame.name() !== 'active-frame' && !frame.url().includes('fake.html')) continue;
        const element = await frame.$(selector).catch(() => null);
        if (element) return frame;
      }
      return undefined;
    });
    if (found === undefined) throw new Error(`No webview holds "${selector}".`);
    return found;
  }

  /** The lines of text in the active editor that are visible now. */
  editorLines(): Promise<string[]> {
    return this.page.$$eval('.editor-group-container.active .view-line', (lines) =>
      lines
        .map((line) => ({
          top: line.getBoundingClientRect().top,
          text: (line.textContent ?? '').replace(/\u00a0/g, ' '),
        }))
        .sort((a, b) => a.top - b.top)
        .map(({ text }) => text),
    );
  }

  /** The texts of the notifications that are visible now. */
  notifications(): Promise<string[]> {
    return this.page.$$eval('.notification-list-item-message', (elements) =>
      elements.map((element) => element.textContent ?? ''),
    );
  }

  /** Changes user settings; settings that aren't named keep their value. */
  setSettings(settings: Settings): void {
    this.testServer.writeSettings(settings);
  }

  async setTheme(theme: Theme): Promise<void> {
    this.setSettings({ 'workbench.colorTheme': themeNames[theme] });
    await this.page.waitForSelector(`.monaco-workbench.${themeClasses[theme]}`);
    await delay(200);
  }

  async setSize(width: number, height: number): Promise<void> {
    await this.page.setViewport({ width, height });
    await delay(300);
  }

  /** Saves a picture below dist/screenshots, or at an absolute path, and returns where. */
  async screenshot(file: string): Promise<string> {
    const target = path.resolve(root, 'dist/screenshots', file);
    mkdirSync(path.dirname(target), { recursive: true });
    await this.page.screenshot({ path: target as `${string}.png` });
    return target;
  }

  /** The element that matches, once it is visible. */
  async waitFor(selector: string): Promise<ElementHandle> {
    const element = await this.page.waitForSelector(selector, { visible: true });
    if (!element) throw new Error(`There is no "${selector}".`);
    return element;
  }
}

export const delay = (ms: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, ms));

/** Asks until the answer isn't undefined or time is up. */
export async function poll<T>(
  timeoutMs: number,
  ask: () => Promise<T | undefined>,
): Promise<T | undefined> {
  for (const deadline = Date.now() + timeoutMs; ; await delay(100)) {
    const answer = await ask();
    if (answer !== undefined || Date.now() > deadline) return answer;
  }
}
