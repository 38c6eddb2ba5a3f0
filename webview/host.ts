/** The page's line to the extension host, and the state that survives a reload of the window. */
import type { HostToWebview, PanelState, WebviewToHost } from '../extension/contracts/webview';
import type { KernelCode } from '../extension/contracts/compiler';
import type { FusionStep, PlanAtStep } from '../compiler/result';

interface VsCodeApi {
  postMessage(message: WebviewToHost): void;
  getState(): Partial<PanelState> | undefined;
  setState(state: PanelState): void;
}

declare function acquireVsCodeApi(): VsCodeApi;

export type Answer<T> = T | { readonly error: string };
export type CodeAnswer = Answer<readonly KernelCode[]>;

type AnswerMessage = Extract<HostToWebview, { type: 'code' | 'steps' | 'planAt' }>;

export class Host {
  private readonly api = acquireVsCodeApi();
  private readonly waiters = new Map<number, (answer: AnswerMessage) => void>();
  private lastId = 0;

  listen(receive: (message: HostToWebview) => void): void {
    addEventListener('message', ({ data }: MessageEvent<HostToWebview>) => {
      switch (data.type) {
        case 'code':
        case 'steps':
        case 'planAt':
          this.waiters.get(data.id)?.(data);
          this.waiters.delete(data.id);
          return;
        default:
          receive(data);
      }
    });
  }

  post(message: WebviewToHost): void {
    this.api.postMessage(message);
  }

  log(level: 'info' | 'error', message: string): void {
    this.post({ type: 'log', level, message });
  }

  async requestCode(kernel: string): Promise<CodeAnswer> {
    const answer = await this.ask((id) => ({ type: 'requestCode', id, kernel }));
    return answer.type === 'code' ? answer.code : mistaken(answer);
  }

  async requestSteps(): Promise<Answer<readonly FusionStep[]>> {
    const answer = await this.ask((id) => ({ type: 'requestSteps', id }));
    return answer.type === 'steps' ? answer.steps : mistaken(answer);
  }

  async requestPlanAt(step: number): Promise<Answer<PlanAtStep>> {
    const answer = await this.ask((id) => ({ type: 'requestPlanAt', id, step }));
    return answer.type === 'planAt' ? answer.planAt : mistaken(answer);
  }

  private ask(question: (id: number) => WebviewToHost): Promise<AnswerMessage> {
    const id = ++this.lastId;
    return new Promise((resolve) => {
      this.waiters.set(id, resolve);
      this.post(question(id));
    });
  }

  get saved(): Partial<PanelState> | undefined {
    return this.api.getState();
  }

  save(state: PanelState): void {
    this.api.setState(state);
  }
}

function mistaken({ type }: AnswerMessage): { readonly error: string } {
  return { error: `The extension answered '${type}' to another question.` };
}
