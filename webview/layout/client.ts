/**
 * The page's side of the layout worker: one request at a time per view, the newest wins.
 *
 * A worker in a webview can start only from a blob, so its script is fetched first. Where that is not
 * allowed the layout runs on the page itself, and the host's log says so.
 */
import type { LayoutInput, LayoutReply, LayoutRequest, LayoutResult, Seeds } from './types';
import { TwoLevelLayout } from './twoLevel';

export type LayoutOutcome =
  | { readonly kind: 'done'; readonly result: LayoutResult; readonly ms: number }
  | { readonly kind: 'cancelled' }
  | { readonly kind: 'failed'; readonly message: string };

interface Waiting {
  readonly view: string;
  readonly settle: (outcome: LayoutOutcome) => void;
}

export class LayoutClient {
  private worker: Promise<Worker | undefined> | undefined;
  private readonly local = new Map<string, TwoLevelLayout>();
  private readonly waiting = new Map<number, Waiting>();
  private lastId = 0;

  constructor(
    private readonly scriptUrl: string | undefined,
    private readonly log: (message: string) => void,
  ) {}

  async layout(view: string, input: LayoutInput, seeds: Seeds): Promise<LayoutOutcome> {
    this.cancel(view);
    const id = ++this.lastId;
    const worker = await (this.worker ??= this.start());
    if (this.lastIdOf(view) > id) return { kind: 'cancelled' };
    if (!worker) return this.layoutHere(view, input, seeds);
    return new Promise((settle) => {
      this.waiting.set(id, { view, settle });
      const request: LayoutRequest = { id, view, input, seeds };
      worker.postMessage(request);
    });
  }

  private lastIdOf(view: string): number {
    let last = 0;
    for (const [id, waiting] of this.waiting) if (waiting.view === view) last = Math.max(last, id);
    return last;
  }

  /** Ends what is under way for a view: the worker can't be interrupted, so it is replaced. */
  cancel(view: string): void {
    const mine = [...this.waiting].filter(([, waiting]) => waiting.view === view);
    if (mine.length === 0) return;
    for (const [id, { settle }] of mine) {
      this.waiting.delete(id);
      settle({ kind: 'cancelled' });
    }
    // What others wait for goes on in the same worker.
    if (this.waiting.size === 0) this.stop();
  }

  private stop(): void {
    const { worker } = this;
    this.worker = undefined;
    void worker?.then((running) => running?.terminate());
  }

  private async start(): Promise<Worker | undefined> {
    if (this.scriptUrl === undefined) return undefined;
    try {
      const reply = await fetch(this.scriptUrl);
      if (!reply.ok) throw new Error(`${reply.status} ${reply.statusText}`);
      const url = URL.createObjectURL(new Blob([await reply.text()], { type: 'text/javascript' }));
      const worker = new Worker(url);
      URL.revokeObjectURL(url);
      worker.addEventListener('message', ({ data }: MessageEvent<LayoutReply>) => {
        const waiting = this.waiting.get(data.id);
        this.waiting.delete(data.id);
        waiting?.settle(
          data.ok
            ? { kind: 'done', result: data.result, ms: data.ms }
            : { kind: 'failed', message: data.message },
        );
      });
      worker.addEventListener('error', (event) => {
        const message = `The layout's worker failed: ${event.message}`;
        this.log(message);
        for (const { settle } of this.waiting.values()) settle({ kind: 'failed', message });
        this.waiting.clear();
        this.stop();
      });
      return worker;
    } catch (error) {
      this.log(`The layout runs on the page, as its worker did not start: ${String(error)}`);
      return undefined;
    }
  }

  private layoutHere(view: string, input: LayoutInput, seeds: Seeds): LayoutOutcome {
    const started = performance.now();
    const layout = this.local.get(view) ?? new TwoLevelLayout();
    this.local.set(view, layout);
    try {
      const result = layout.layout(input, seeds);
      return { kind: 'done', result, ms: performance.now() - started };
    } catch (error) {
      return { kind: 'failed', message: String(error) };
    }
  }

  dispose(): void {
    this.stop();
    for (const { settle } of this.waiting.values()) settle({ kind: 'cancelled' });
    this.waiting.clear();
  }
}
