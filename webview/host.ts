/** The page's line to the extension host, and the state that survives a reload of the window. */
import type { HostToWebview, PanelState, WebviewToHost } from '../extension/contracts/webview';
import type { KernelCode } from '../extension/contracts/compiler';

interface VsCodeApi {
  postMessage(message: WebviewToHost): void;
  getState(): Partial<PanelState> | undefined;
  setState(state: PanelState): void;
}

declare function acquireVsCodeApi(): VsCodeApi;

export type CodeAnswer = readonly KernelCode[] | { readonly error: string };

export class Host {
  private readonly api = acquireVsCodeApi();
  private readonly codeWaiters = new Map<number, (answer: CodeAnswer) => void>();
  private lastId = 0;

  listen(receive: (message: HostToWebview) => void): void {
    addEventListener('message', ({ data }: MessageEvent<HostToWebview>) => {
      if (data.type === 'code') {
        this.codeWaiters.get(data.id)?.(data.code);
        this.codeWaiters.delete(data.id);
        return;
      }
      receive(data);
    });
  }

  post(message: WebviewToHost): void {
    this.api.postMessage(message);
  }

  log(level: 'info' | 'error', message: string): void {
    this.post({ type: 'log', level, message });
  }

  requestCode(kernel: string): Promise<CodeAnswer> {
    const id = ++this.lastId;
    return new Promise((resolve) => {
      this.codeWaiters.set(id, resolve);
      this.post({ type: 'requestCode', id, kernel });
    });
  }

  get saved(): Partial<PanelState> | undefined {
    return this.api.getState();
  }

  save(state: PanelState): void {
    this.api.setState(state);
  }
}
