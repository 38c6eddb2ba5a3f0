// The graph panel's page by itself: the built bundle under the panel's own content security policy,
// with a stand-in for the host that records what the page sends.

import { mkdirSync, readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import path from 'node:path';
import type { Browser, Page } from 'puppeteer-core';
import { root } from '../../scripts/root.mjs';
import type { HostToWebview, WebviewToHost } from '../../extension/contracts/webview';
import type { RunnerReply } from '../../runner/core/types';
import { fromWire, toWire, type Wire } from '../../runner/core/wire';
import { launchBrowser } from '../harness/browser';

/** Colours of VS Code's default themes, as far as the page reads them. */
const THEMES = {
  dark: {
    class: 'vscode-dark',
    'editor-background': '#1f1f1f',
    'editor-foreground': '#cccccc',
    foreground: '#cccccc',
    focusBorder: '#0078d4',
  },
  light: {
    class: 'vscode-light',
    'editor-background': '#ffffff',
    'editor-foreground': '#3b3b3b',
    foreground: '#3b3b3b',
    focusBorder: '#005fb8',
  },
  contrast: {
    class: 'vscode-high-contrast',
    'editor-background': '#000000',
    'editor-foreground': '#ffffff',
    foreground: '#ffffff',
    focusBorder: '#f38518',
    contrastBorder: '#6fc3df',
  },
} as const;

export class PanelPage {
  readonly faults: string[] = [];

  private constructor(
    private readonly server: Server,
    private readonly browser: Browser,
    readonly page: Page,
  ) {}

  static async open(
    options: { theme?: keyof typeof THEMES; width?: number; height?: number } = {},
  ): Promise<PanelPage> {
    const { theme = 'dark', width = 1400, height = 900 } = options;
    const server = createServer((request, response) => {
      const name = (request.url ?? '/').slice(1);
      if (name === '') {
        response.setHeader('content-type', 'text/html');
        response.end(html(theme));
      } else if (/^(webview|layoutWorker)\.(js|css)$/.test(name)) {
        response.setHeader('content-type', name.endsWith('.css') ? 'text/css' : 'text/javascript');
        response.end(readFileSync(path.join(root, 'dist', name)));
      } else {
        response.statusCode = 404;
        response.end();
      }
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    if (typeof address !== 'object' || address === null) throw new Error('The server has no port.');
    const browser = await launchBrowser({ width, height });
    const page = await browser.newPage();
    const panel = new PanelPage(server, browser, page);
    page.on('pageerror', (error) => panel.faults.push(error.message));
    page.on('console', (message) => {
      // What the policy blocks is told on the console.
      if (message.type() === 'error') panel.faults.push(message.text());
    });
    await page.goto(`http://127.0.0.1:${address.port}/`);
    return panel;
  }

  async close(): Promise<void> {
    await this.browser.close();
    this.server.close();
  }

  async post(message: HostToWebview): Promise<void> {
    await this.page.evaluate((m) => window.postMessage(m, '*'), message);
  }

  async sent<T extends WebviewToHost['type']>(
    type: T,
  ): Promise<readonly Extract<WebviewToHost, { type: T }>[]> {
    const all = await this.page.evaluate(() => Reflect.get(window, 'sent') as unknown);
    return (all as WebviewToHost[]).filter(
      (message): message is Extract<WebviewToHost, { type: T }> => message.type === type,
    );
  }

  /** Has the page's GPU do a job; typed arrays are carried as lists, since JSON has no others. */
  async runInPage(kind: 'profile' | 'run', job: unknown): Promise<RunnerReply<unknown>> {
    const sent = JSON.stringify(toWire(job), (_, value: unknown) =>
      ArrayBuffer.isView(value)
        ? {
            bytes: [...new Uint8Array(value.buffer, value.byteOffset, value.byteLength)],
            type: value.constructor.name,
          }
        : value,
    );
    const answer = await this.page.evaluate(
      async (text, what) => {
        const types = { Float32Array, Int32Array, Uint32Array, Uint16Array, Uint8Array };
        type Kind = keyof typeof types;
        const wire: unknown = JSON.parse(
          text,
          (_, value: { bytes?: number[]; type?: Kind } | null) =>
            value?.bytes && value.type
              ? new types[value.type](new Uint8Array(value.bytes).buffer)
              : value,
        );
        window.postMessage({ type: 'runInPage', id: 1, kind: what, wire }, '*');
        const sentNow = Reflect.get(window, 'sent') as { type: string; wire?: unknown }[];
        for (;;) {
          const done = sentNow.find(({ type }) => type === 'pageDone');
          if (done)
            return JSON.stringify(done.wire, (_, value: unknown) =>
              ArrayBuffer.isView(value) ? { numbers: [...(value as Float32Array)] } : value,
            );
          await new Promise((resolve) => setTimeout(resolve, 50));
        }
      },
      sent,
      kind,
    );
    const wire = JSON.parse(answer, (_, value: { numbers?: number[] } | null) =>
      value?.numbers ? Float32Array.from(value.numbers) : value,
    ) as Wire;
    return fromWire(wire) as RunnerReply<unknown>;
  }

  /** Until every drawing is laid out and shown, and nothing moves. */
  async settled(): Promise<void> {
    await this.page.waitForFunction(
      () =>
        document.querySelector('.drawing[data-layout-ms]') !== null &&
        document.querySelector('.drawing:not([data-layout-ms])') === null &&
        document.querySelector('.drawing-wait[data-busy="true"]') === null,
      { timeout: 60_000 },
    );
    await new Promise((resolve) => setTimeout(resolve, 500));
  }

  /** For a person to look at. */
  async screenshot(name: string): Promise<void> {
    const folder = path.join(root, 'dist/screenshots');
    mkdirSync(folder, { recursive: true });
    await this.page.screenshot({ path: `${folder}/${name}.png` });
  }

  /** Clicks the button (ours or the component library's) with this text or label. */
  async press(text: string): Promise<void> {
    const found = await this.page.evaluate((wanted) => {
      for (const element of document.querySelectorAll<HTMLElement>('button, vscode-button'))
        if (
          element.textContent?.trim() === wanted ||
          element.getAttribute('aria-label') === wanted
        ) {
          element.click();
          return true;
        }
      return false;
    }, text);
    if (!found) throw new Error(`There is no button “${text}”.`);
  }

  /** Clicks the middle of the first element. */
  async click(selector: string): Promise<void> {
    const element = await this.page.waitForSelector(selector, { timeout: 10_000 });
    const box = await element?.boundingBox();
    if (!box) throw new Error(`${selector} can't be seen.`);
    await this.page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
    await new Promise((resolve) => setTimeout(resolve, 450));
  }

  text(selector: string): Promise<string> {
    return this.page.evaluate(
      (wanted) =>
        [...document.querySelectorAll(wanted)].map((e) => e.textContent ?? '').join(' | '),
      selector,
    );
  }

  count(selector: string): Promise<number> {
    return this.page.evaluate((wanted) => document.querySelectorAll(wanted).length, selector);
  }
}

function html(theme: keyof typeof THEMES): string {
  const { class: className, ...colours } = THEMES[theme];
  const policy =
    "default-src 'none'; script-src 'nonce-n'; style-src http://127.0.0.1:* 'unsafe-inline'; " +
    'img-src data: blob:; font-src http://127.0.0.1:*; connect-src http://127.0.0.1:*; worker-src blob:';
  // What a webview has before our script runs.
  const prelude = `
    window.sent = [];
    window.acquireVsCodeApi = () => ({
      postMessage: (message) => { window.sent.push(message); },
      getState: () => JSON.parse(sessionStorage.getItem('state') ?? 'null') ?? undefined,
      setState: (state) => sessionStorage.setItem('state', JSON.stringify(state)),
    });
    for (const [name, value] of Object.entries(${JSON.stringify(colours)}))
      document.documentElement.style.setProperty('--vscode-' + name, value);`;
  return `<!DOCTYPE html>
    <html lang="en"><head><meta charset="utf-8"><link rel="icon" href="data:,">
    <meta http-equiv="Content-Security-Policy" content="${policy}">
    <link rel="stylesheet" href="/webview.css"><script nonce="n">${prelude}</script></head>
    <body class="${className}" data-uri="file:///model.fuse" data-layout-worker="/layoutWorker.js">
    <main id="app"></main><script nonce="n" src="/webview.js"></script></body></html>`;
}
