/**
 * Kernels on the page's own GPU, for hosts that have no Node to run them in. The runner is made when
 * it is first asked for; each run is known by the host's number and can be cancelled. Outputs are
 * handed back as they were stored: the host compares them with the reference, outside of the page.
 */
import type { HostToWebview, WebviewToHost } from '../extension/contracts/webview';
import type { PageRunner } from '../runner/browser/index';
import type { ProfileJob, Progress, RunJob, RunnerReply, TrialJob } from '../runner/core/types';
import { fromWire, toWire } from '../runner/core/wire';

type RunRequest = Extract<HostToWebview, { type: 'runInPage' }>;

export class PageJobs {
  private runner: PageRunner | undefined;
  private readonly running = new Map<number, AbortController>();

  constructor(
    private readonly makeRunner: () => PageRunner,
    private readonly post: (message: WebviewToHost) => void,
  ) {}

  run(request: RunRequest): void {
    void this.start(request);
  }

  cancel(id: number): void {
    this.running.get(id)?.abort();
  }

  private async start({ id, kind, wire }: RunRequest): Promise<void> {
    const cancel = new AbortController();
    this.running.set(id, cancel);
    const onProgress = (progress: Progress): void =>
      this.post({ type: 'pageProgress', id, progress });
    let reply: RunnerReply<unknown>;
    try {
      const runner = (this.runner ??= this.makeRunner());
      const job = fromWire(wire);
      // The host sends what it says it sends: both ends are of one build.
      switch (kind) {
        case 'adapter':
          reply = await runner.adapter();
          break;
        case 'profile':
          reply = await runner.measure(job as ProfileJob, onProgress, cancel.signal);
          break;
        case 'run':
          reply = await runner.run(job as RunJob, onProgress, cancel.signal);
          break;
        case 'trial':
          reply = await runner.trial(job as TrialJob, onProgress, cancel.signal);
          break;
      }
    } catch (error) {
      reply = { ok: false, fault: { code: 'INTERNAL', message: String(error) } };
    }
    this.running.delete(id);
    this.post({ type: 'pageDone', id, wire: toWire(reply) });
  }
}
