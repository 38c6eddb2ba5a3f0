/**
 * Runs under way in a page's `navigator.gpu`, each known by a number. The page can vanish at any
 * moment (hidden, closed, its GPU process gone): then the runs end with a fault, never in silence.
 */
import type {
  CancelSignal,
  ProfileJob,
  Progress,
  RunJob,
  RunnerFault,
  RunnerReply,
  TrialJob,
} from '../../runner/core/types';
import { fromWire, toWire, type Wire } from '../../runner/core/wire';
import type { HostToWebview } from '../contracts/webview';
import { Owner } from '../common/lifecycle';

export type PageJob =
  | { readonly kind: 'profile'; readonly job: ProfileJob }
  | { readonly kind: 'run'; readonly job: RunJob }
  | { readonly kind: 'trial'; readonly job: TrialJob }
  /** Asks which adapter the page has. */
  | { readonly kind: 'adapter'; readonly job: Record<string, never> };

interface Running {
  readonly settle: (reply: RunnerReply<unknown>) => void;
  readonly onProgress: (progress: Progress) => void;
  timer: ReturnType<typeof setTimeout>;
}

/** A page that says nothing for so long hangs in a shader or a driver. */
const SILENCE_MS = 60_000;

export class PageJobs extends Owner {
  private readonly running = new Map<number, Running>();
  private lastId = 0;

  constructor(
    private readonly post: (message: HostToWebview) => void,
    private readonly silenceMs = SILENCE_MS,
  ) {
    super();
  }

  run(
    job: PageJob,
    onProgress: (progress: Progress) => void,
    signal: CancelSignal,
  ): Promise<RunnerReply<unknown>> {
    const id = ++this.lastId;
    return new Promise((resolve) => {
      const cancel = () => this.post({ type: 'cancelInPage', id });
      const settle = (reply: RunnerReply<unknown>) => {
        signal.removeEventListener('abort', cancel);
        resolve(reply);
      };
      this.running.set(id, { settle, onProgress, timer: this.watch(id) });
      this.post({ type: 'runInPage', id, kind: job.kind, wire: toWire(job.job) });
      if (signal.aborted) cancel();
      else signal.addEventListener('abort', cancel);
    });
  }

  progress(id: number, progress: Progress): void {
    const running = this.running.get(id);
    if (!running) return;
    clearTimeout(running.timer);
    running.timer = this.watch(id);
    running.onProgress(progress);
  }

  done(id: number, wire: Wire): void {
    // The page answers with a reply: contracts/webview.ts.
    if (this.running.has(id)) this.settle(id, fromWire(wire) as RunnerReply<unknown>);
  }

  private settle(id: number, reply: RunnerReply<unknown>): void {
    const running = this.running.get(id);
    if (!running) return;
    this.running.delete(id);
    clearTimeout(running.timer);
    running.settle(reply);
  }

  failAll(message: string): void {
    for (const id of [...this.running.keys()]) this.fail(id, 'CRASHED', message);
  }

  override dispose(): void {
    this.failAll('The graph panel was closed.');
    super.dispose();
  }

  private watch(id: number): ReturnType<typeof setTimeout> {
    return setTimeout(() => {
      const seconds = Math.round(this.silenceMs / 1000);
      this.fail(id, 'HUNG', `The page has not answered for ${seconds} seconds.`);
      this.post({ type: 'cancelInPage', id });
    }, this.silenceMs);
  }

  private fail(id: number, code: RunnerFault['code'], message: string): void {
    this.settle(id, { ok: false, fault: { code, message } });
  }
}
