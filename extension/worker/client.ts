/**
 * Calls to the compiler worker, typed by {@link CompilerApi}; every outcome is a value.
 *
 * The worker starts with the first call. When it ends by itself, or doesn't answer in time, the calls
 * under way are answered `crashed`, the event says so, and the next call starts a new one: a fault in
 * the compiler costs one answer, never the editor.
 */
import type { CancelSignal, Progress } from '../../runner/core/types';
import type {
  CompilerApi,
  ResultMessage,
  WorkerCall,
  WorkerError,
  WorkerMessage,
} from '../contracts/compiler';
import { Emitter, Owner } from '../common/lifecycle';
import type { StartWorker, WorkerPort } from './port';
import { ResultReceiver } from './resultChange';

export type CallError = WorkerError | { readonly kind: 'crashed'; readonly message: string };
export type CallReply<T> =
  { readonly ok: true; readonly value: T } | { readonly ok: false; readonly error: CallError };

export interface CallOptions {
  readonly onProgress?: (progress: Progress) => void;
  /** Asks the worker to end the call; it answers all the same. */
  readonly signal?: CancelSignal;
}

export type CallCompiler = <K extends keyof CompilerApi>(
  method: K,
  argument: Parameters<CompilerApi[K]>[0],
  options?: CallOptions,
) => Promise<CallReply<ReturnType<CompilerApi[K]>>>;

const SHUT_DOWN = 'It was shut down.';

interface Pending {
  readonly call: WorkerCall;
  readonly settle: (reply: CallReply<unknown>) => void;
  readonly onProgress: ((progress: Progress) => void) | undefined;
  timer: ReturnType<typeof setTimeout>;
}

export class CompilerClient extends Owner {
  private port: WorkerPort | undefined;
  private readonly pending = new Map<number, Pending>();
  private lastId = 0;
  /** By URI: the results that the worker has sent, by which it tells the next ones. */
  private readonly received = new Map<string, ResultReceiver>();

  private readonly crashes = this.register(new Emitter<string>());
  /** The worker ended without being asked to. */
  readonly onDidCrash = this.crashes.event;

  /** @param limitMs how long a call may take, queueing included, without a sign of progress */
  constructor(
    private readonly start: StartWorker,
    private readonly limitMs: number,
  ) {
    super();
  }

  readonly call: CallCompiler = (method, argument, { onProgress, signal } = {}) => {
    if (this.isDisposed)
      return Promise.resolve({ ok: false, error: { kind: 'crashed', message: SHUT_DOWN } });
    const id = ++this.lastId;
    return new Promise((resolve) => {
      const cancel = () => void this.call('cancel', { call: id });
      const settle = (reply: CallReply<unknown>) => {
        signal?.removeEventListener('abort', cancel);
        // The worker answers a call of `method` with its result type: see service.ts.
        (resolve as (reply: CallReply<unknown>) => void)(reply);
      };
      const call: WorkerCall = { id, method, argument };
      this.pending.set(id, { call, settle, onProgress, timer: this.limit() });
      try {
        this.worker().post(call, transferable(argument));
      } catch (error) {
        this.end(error instanceof Error ? error.message : String(error));
        return;
      }
      if (signal?.aborted) cancel();
      else signal?.addEventListener('abort', cancel);
    });
  };

  override dispose(): void {
    super.dispose();
    this.port?.terminate();
    this.port = undefined;
    this.received.clear();
    this.failAll(SHUT_DOWN);
  }

  private worker(): WorkerPort {
    if (this.port) return this.port;
    const port: WorkerPort = this.start({
      message: (message) => {
        if (this.port === port) this.receive(message);
      },
      ended: (reason) => {
        if (this.port === port) this.end(reason);
      },
    });
    this.port = port;
    return port;
  }

  private receive(message: WorkerMessage): void {
    const pending = this.pending.get(message.id);
    if (!pending) return;
    clearTimeout(pending.timer);
    if ('progress' in message) {
      pending.timer = this.limit();
      pending.onProgress?.(message.progress);
      return;
    }
    this.pending.delete(message.id);
    const { reply } = message;
    if (pending.call.method === 'forget') this.received.delete(uriOf(pending.call));
    if (pending.call.method !== 'compile' || !reply.ok) {
      pending.settle(reply);
      return;
    }
    const value = this.receiver(uriOf(pending.call)).receive(reply.value as ResultMessage);
    if (value) {
      pending.settle({ ok: true, value });
      return;
    }
    const reason = 'It told a change of a result that was never received.';
    pending.settle({ ok: false, error: { kind: 'crashed', message: reason } });
    this.end(reason);
  }

  private receiver(uri: string): ResultReceiver {
    let r = this.received.get(uri);
    if (!r) this.received.set(uri, (r = new ResultReceiver()));
    return r;
  }

  private limit(): ReturnType<typeof setTimeout> {
    const seconds = Math.round(this.limitMs / 1000);
    return setTimeout(() => this.end(`It didn't answer within ${seconds} seconds.`), this.limitMs);
  }

  private end(reason: string): void {
    this.port?.terminate();
    this.port = undefined;
    this.received.clear();
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

function uriOf({ argument }: WorkerCall): string {
  return (argument as { readonly uri: string }).uri;
}

/** The bytes of a compile request, when they fill their buffer; a view on a shared one is copied. */
function transferable(argument: unknown): ArrayBuffer[] {
  if (typeof argument !== 'object' || argument === null || !('bytes' in argument)) return [];
  const { bytes } = argument;
  if (!(bytes instanceof Uint8Array) || !(bytes.buffer instanceof ArrayBuffer)) return [];
  return bytes.byteLength === bytes.buffer.byteLength ? [bytes.buffer] : [];
}
