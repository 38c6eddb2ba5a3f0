/**
 * The compiler behind the worker's messages: common to the worker thread and the Web Worker.
 *
 * It keeps the last compilation of each URI, from which code and execution plans are made when asked
 * for. Calls wait in a queue, so that a compile for which a newer one has already arrived is answered
 * `stale` without being run: while a person types, only the newest text costs time.
 */
import { type Compilation, type Compile, CompileMemory } from '../../compiler';
import type { PlanView } from '../../compiler/result';
import { CompilerLab } from '../../tuner/lab';
import type { LabAsk } from '../../tuner/types';
import { faultOf } from '../../runner/core/faults';
import { finishProfile } from '../../runner/core/session';
import type {
  PlanForRun,
  ProfileJob,
  ProfileResult,
  Progress,
  RunnerReply,
} from '../../runner/core/types';
import type {
  CompileRequest,
  CompilerApi,
  KernelCode,
  ResultMessage,
  VerifyRequest,
  WorkerCall,
  WorkerError,
  WorkerMessage,
  WorkerReply,
} from '../contracts/compiler';
import { ResultSender } from './resultChange';

interface Kept {
  readonly version: number;
  readonly compilation: Compilation;
  /** From version to version: an edit leaves most of a file as it was. */
  readonly memory: CompileMemory;
  /** What the host has of this file. */
  readonly sender: ResultSender;
  /** What the tuner asks; made when it does. */
  readonly lab: () => CompilerLab;
}

/** What crosses as the answer of a method. */
type Sent<K extends keyof CompilerApi> = K extends 'compile'
  ? ResultMessage
  : ReturnType<CompilerApi[K]>;

type Handlers = {
  readonly [K in keyof CompilerApi]: (
    argument: Parameters<CompilerApi[K]>[0],
    call: number,
  ) => WorkerReply<Sent<K>> | Promise<WorkerReply<Sent<K>>>;
};

export class CompilerService {
  private readonly kept = new Map<string, Kept>();
  private readonly queue: WorkerCall[] = [];
  private draining = false;
  /** Calls that take long and let others pass. */
  private readonly cancels = new Map<number, AbortController>();

  /**
   * @param yieldTurn runs its callback once messages that have already arrived were delivered
   * @param now milliseconds, for the stage times in the result
   */
  constructor(
    private readonly compile: Compile,
    private readonly post: (message: WorkerMessage) => void,
    private readonly yieldTurn: (callback: () => void) => void,
    private readonly now: () => number,
  ) {}

  receive(call: WorkerCall): void {
    this.queue.push(call);
    if (this.draining) return;
    this.draining = true;
    this.yieldTurn(() => this.next());
  }

  private next(): void {
    const call = this.queue.shift();
    if (call) this.handle(call);
    if (this.queue.length > 0) this.yieldTurn(() => this.next());
    else this.draining = false;
  }

  private handle({ id, method, argument }: WorkerCall): void {
    const answer = (reply: WorkerReply<unknown>) => this.post({ id, reply });
    // The compiler reports faults of its input as diagnostics: what is thrown is a bug.
    const bug = (error: unknown) => {
      const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
      answer(failed({ kind: 'bug', message }));
    };
    try {
      const handler = this.handlers[method] as (argument: unknown, call: number) => unknown;
      const reply = handler(argument, id);
      if (reply instanceof Promise) reply.then(answer, bug);
      else answer(reply as WorkerReply<unknown>);
    } catch (error) {
      bug(error);
    }
  }

  private readonly handlers: Handlers = {
    compile: (request) => this.compileFile(request),
    code: ({ uri, version, kernel }) =>
      this.withKept(uri, version, ({ compilation }) => codeOf(compilation, kernel)),
    job: ({ uri, version, options }) =>
      this.withKept(uri, version, ({ compilation }) => ({ ...jobOf(compilation), options })),
    plan: ({ uri, version, which }) =>
      this.withKept(uri, version, ({ compilation }) => compilation.execPlan(which)),
    steps: ({ uri, version }) =>
      this.withKept(uri, version, ({ compilation }) => compilation.steps()),
    planAt: ({ uri, version, step }) =>
      this.withKept(uri, version, ({ compilation }) => compilation.planAt(step)),
    lab: ({ uri, version, ask }) => this.withKept(uri, version, ({ lab }) => answerOf(lab(), ask)),
    verify: (request, call) => this.verify(request, call),
    cancel: ({ call }) => {
      this.cancels.get(call)?.abort();
      return { ok: true, value: undefined };
    },
    forget: ({ uri }) => {
      this.kept.delete(uri);
      return { ok: true, value: undefined };
    },
  };

  private compileFile(request: CompileRequest): ReturnType<Handlers['compile']> {
    const { uri, version } = request;
    const newer = this.queue.some(
      (call) =>
        (call.method === 'compile' || call.method === 'forget') &&
        (call.argument as { uri: string }).uri === uri,
    );
    if (newer || (this.kept.get(uri)?.version ?? -1) > version) return failed({ kind: 'stale' });
    const memory = this.kept.get(uri)?.memory ?? new CompileMemory();
    const source = {
      file: request.file ?? fileName(uri),
      bytes: request.bytes,
      ...(request.cuts ? { cuts: request.cuts } : {}),
      ...(request.sideFile === undefined ? {} : { sideFile: request.sideFile }),
    };
    const untuned = {
      ...(request.dims ? { dims: request.dims } : {}),
      ...(request.device ? { device: request.device } : {}),
    };
    const compilation = this.compile(source, {
      ...{ version, memory, ...untuned },
      now: this.now,
      ...(request.tuning ? { tuning: request.tuning } : {}),
    });
    let made: CompilerLab | undefined;
    const lab = (): CompilerLab => (made ??= new CompilerLab(source, untuned));
    const sender = this.kept.get(uri)?.sender ?? new ResultSender();
    this.kept.set(uri, { version, compilation, memory, sender, lab });
    return { ok: true, value: sender.send(compilation.result) };
  }

  /** It pauses now and then, so that compiles needn't wait for it. */
  private async verify(
    { job, measured }: VerifyRequest,
    id: number,
  ): Promise<WorkerReply<RunnerReply<ProfileResult>>> {
    const abort = new AbortController();
    this.cancels.set(id, abort);
    const host = {
      gpu: undefined,
      kind: 'browser' as const,
      name: measured.adapter.host,
      now: this.now,
      pause: () => new Promise<void>((resolve) => this.yieldTurn(resolve)),
    };
    const watch = {
      progress: (progress: Progress) => this.post({ id, progress }),
      // Whoever waits for this call watches the time.
      working: () => undefined,
    };
    try {
      const value = await finishProfile(job, measured, host, watch, abort.signal);
      return { ok: true, value: { ok: true, value } };
    } catch (error) {
      return { ok: true, value: { ok: false, fault: faultOf(error) } };
    } finally {
      this.cancels.delete(id);
    }
  }

  private withKept<T>(uri: string, version: number, use: (kept: Kept) => T): WorkerReply<T> {
    const kept = this.kept.get(uri);
    if (!kept) return failed({ kind: 'unknown-uri' });
    if (kept.version !== version) return failed({ kind: 'stale' });
    return { ok: true, value: use(kept) };
  }
}

function failed(error: WorkerError): { readonly ok: false; readonly error: WorkerError } {
  return { ok: false, error };
}

function answerOf(lab: CompilerLab, ask: LabAsk): unknown {
  switch (ask.method) {
    case 'start':
      return lab.start();
    case 'tie':
      return lab.tie(...ask.args);
    case 'choose':
      return lab.choose(...ask.args);
    case 'trial':
      return lab.trial(...ask.args);
    case 'verifying':
      return lab.verifying();
    case 'confirming':
      return lab.confirming(...ask.args);
  }
}

function codeOf(compilation: Compilation, kernel: string): readonly KernelCode[] {
  const texts = compilation.kernelCode(kernel) ?? [];
  return texts.map((code) => ({ kernel, language: 'wgsl', code }));
}

function jobOf(compilation: Compilation): Omit<ProfileJob, 'options'> {
  const { result } = compilation;
  const plan = (which: 'fused' | 'unfused', view: PlanView): PlanForRun => ({
    exec: compilation.execPlan(which),
    kernels: view.kernels.map(
      ({ id, hash, nodes, bytesRead, bytesWritten, flops, estimatedUs }) => ({
        id,
        hash,
        nodes,
        bytes: bytesRead + bytesWritten,
        flops,
        estimatedUs,
      }),
    ),
  });
  return {
    fused: plan('fused', result.after),
    unfused: plan('unfused', result.before),
    program: { ...compilation.reference, dims: new Map(Object.entries(result.dims)) },
  };
}

/** The last part of the path; the front end is chosen by its ending. */
function fileName(uri: string): string {
  const path = uri.replace(/[?#].*$/, '');
  return decodeURIComponent(path.slice(path.lastIndexOf('/') + 1));
}
