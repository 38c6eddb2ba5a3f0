// A headless Chromium for tests, with WebGPU on the software GPU and without any traffic to the
// outside: every host but this machine is unknown to it.

import puppeteer, { type Browser } from 'puppeteer-core';
import { ensureSoftwareGpu } from '../../scripts/software-gpu.mjs';

export interface BrowserOptions {
  width?: number;
  height?: number;
  /** Further command line arguments of Chromium. */
  args?: string[];
}

const flags = [
  // WebGPU on SwiftShader.
  '--enable-unsafe-webgpu',
  '--use-webgpu-adapter=swiftshader',
  '--enable-features=Vulkan',
  // Containers have no user namespaces for the sandbox; the pages are our own.
  '--no-sandbox',
  // No traffic of the browser's own.
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--no-first-run',
  '--no-default-browser-check',
  '--disable-quic',
  '--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost',
  // A test page is never "in the background".
  '--disable-background-timer-throttling',
  '--disable-renderer-backgrounding',
  '--disable-backgrounding-occluded-windows',
  '--disable-dev-shm-usage',
  '--font-render-hinting=none',
  '--force-color-profile=srgb',
  '--lang=en-US',
];

/** Close it with `browser.close()`. */
export async function launchBrowser(options: BrowserOptions = {}): Promise<Browser> {
  const { chromiumPath, chromiumEnv, problem } = await ensureSoftwareGpu();
  if (chromiumPath === undefined) throw new Error(problem ?? 'There is no Chromium.');
  const { width = 1400, height = 900, args = [] } = options;
  return puppeteer.launch({
    executablePath: chromiumPath,
    headless: 'shell',
    env: { ...process.env, ...chromiumEnv, LANG: 'en_US.UTF-8' },
    defaultViewport: { width, height },
    args: [...flags, `--window-size=${width},${height}`, ...args],
    timeout: 60_000,
    protocolTimeout: 120_000,
  });
}
