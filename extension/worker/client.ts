/**
 * Calls to the compiler worker, typed by {@link CompilerApi}; every outcome is a value.
 *
 * The worker starts with the first call. When it ends by itself, or doesn't answer in time, the calls
 * under way are answered `crashed`, the event says so, and the next call starts a new one: a fault in
 * the compiler costs one answer, never the editor.
 */
import type { CompilerApi, WorkerAnswer, WorkerCall, WorkerError } from '../contracts/compiler';
import { Emitter, Owner } from '../common/lifecycle';
import type { StartWorker, WorkerPort } from './port';

export type CallError = WorkerError | { readonly kind: 'crashed'; readonly message: string };
export type CallReply<T> =
  { readonly ok: true; readonly value: T } | { readonly ok: false; readonly error: CallError };

export type CallCompiler = <K extends keyof CompilerApi>(
  method: K,
  argument: Parameters<CompilerApi[K]>[0],
) => Promise<CallReply<ReturnType<CompilerApi[K]>>>;

interface Pending {
  readonly settle: (reply: CallReply<unknown>) => void;
  readonly timer: ReturnType<typeof setTimeout>;
}

export class CompilerClient extends Owner {
  private port: WorkerPort | undefined;
  private readonly pending = new Map<number, Pending>();
  private lastId = 0;

  private readonly crashes = this.register(new Emitter<string>());
  /** The worker ended without being asked to. */
  readonly onDidCrash = this.crashes.event;

  /** @param limitMs how long one call may take, queueing included */
  constructor(
    private readonly start: StartWorker,
    private readonly limitMs: number,
  ) {
    super();
  }

  readonly call: CallCompiler = (method, argument) => {
    if (this.isDisposed)
      return Promise.resolve({
        ok: false,
        error: { kind: 'crashed', message: 'It was shut down.' },
      });
    const id = ++this.lastId;
    return new Promise((resolve) => {
      const timer = setTimeout(
        () => this.end(`It didn't answer within ${Math.round(this.limitMs / 1000)} seconds.`),
        this.limitMs,
      );
      // The worker answers a call of `method` with its result type: see service.ts.
      const settle = resolve as (reply: CallReply<unknown>) => void;
      this.pending.set(id, { settle, timer });
      const call: WorkerCall = { id, method, argument };
      try {
        this.worker().post(call, transferable(argument));
      } catch (error) {
        this.end(error instanceof Error ? error.message : String(error));
      }
    });
  };

  override dispose(): void {
    super.dispose();
    this.port?.terminate();
    this.port = undefined;
    this.failAll('It was shut down.');
  }

  private worker(): WorkerPort {
    if (this.port) return this.port;
    const port: WorkerPort = this.start({
      answer: (answer) => {
        if (this.port === port) this.receive(answer);
      },
      ended: (reason) => {
        if (this.port === port) this.end(reason);
      },
    });
    this.port = port;
    return port;
  }

  private receive({ id, reply }: WorkerAnswer): void {
    const pending = this.pending.get(id);
    if (!pending) return;
    this.pending.delete(id);
    clearTimeout(pending.timer);
    pending.settle(reply);
  }

  private end(reason: string): void {
    this.port?.terminate();
    this.port = undefined;
    this.failAll(reason);
    this.crashes.fire(reason);
  }

  private failAll(message: string): void {
    const pending = [...this.pending.values()];
    this.pending.clear();
    for (const { settle, timer } of pending) {
      clearTimeout(timer);
      settle({ ok: false, error: { kind: 'crashed', message } });
    }
  }
}

/** The bytes of a compile request, when they fill their buffer; a view on a shared one is copied. */
function transferable(argument: unknown): ArrayBuffer[] {
  if (typeof argument !== 'object' || argument === null || !('bytes' in argument)) return [];
  const { bytes } = argument;
  if (!(bytes instanceof Uint8Array) || !(bytes.buffer instanceof ArrayBuffer)) return [];
  return bytes.byteLength === bytes.buffer.byteLength ? [bytes.buffer] : [];
}
