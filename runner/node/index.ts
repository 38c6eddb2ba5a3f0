/**
 * The runner on Dawn: jobs for a child process (child.ts), one at a time.
 *
 * The child is started when first needed, ended after a while without work, and started again after a
 * crash. Nothing that happens in it throws here: a hung kernel, a crash or a missing adapter is a fault
 * in the reply, and the next job works.
 */
import { fork, type ChildProcess } from 'node:child_process';
import { Socket } from 'node:net';
import { hostname } from 'node:os';
import path from 'node:path';
import type {
  AdapterInfo,
  CancelSignal,
  ProfileJob,
  ProfileResult,
  Progress,
  RunJob,
  Runner,
  RunnerFault,
  RunnerReply,
  RunOutput,
  TrialJob,
  TrialResult,
} from '../core/types';
import { HEARTBEAT_MS, HOST_VARIABLE, type FromChild, type Job, type ToChild } from './protocol';

export interface NodeRunnerOptions {
  /** The bundle of child.ts; by default beside the bundle this is in. */
  readonly childPath?: string;
  /** The Node to run it with; by default this one, or the one on the PATH when this is Electron. */
  readonly nodePath?: string;
  /** Added to the environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** Name of the machine, as people know it. */
  readonly host?: string;
  /** How long a kernel may take beyond what is expected of it before it counts as hung. */
  readonly watchdogMs?: number;
  /** The child is ended after this long without a job. */
  readonly idleMs?: number;
}

const DEFAULT_WATCHDOG_MS = 30_000;
const DEFAULT_IDLE_MS = 60_000;
/** Between the polite request to cancel and the end of the process. */
const CANCEL_GRACE_MS = 2000;
/** Work is given this many times the time it should take, and the watchdog's on top. */
const PATIENCE = 10;
const STDERR_LINES = 20;

interface Task {
  readonly id: number;
  readonly job: Job;
  readonly onProgress: (p: Progress) => void;
  readonly signal: CancelSignal | undefined;
  readonly settle: (reply: RunnerReply<unknown>) => void;
}

export interface NodeRunner extends Runner {
  /** The child's process id, for diagnosis; undefined while there is none. */
  readonly pid: number | undefined;
}

export function createNodeRunner(options: NodeRunnerOptions = {}): NodeRunner {
  const runner = new ChildQueue(options);
  return {
    get pid() {
      return runner.pid;
    },
    adapter: () => runner.ask<AdapterInfo>({ kind: 'adapter' }, () => undefined, undefined),
    profile: (job: ProfileJob, onProgress, signal) =>
      runner.ask<ProfileResult>({ kind: 'profile', job }, onProgress, signal),
    run: (job: RunJob, onProgress, signal) =>
      runner.ask<readonly RunOutput[]>({ kind: 'run', job }, onProgress, signal),
    trial: (job: TrialJob, onProgress, signal) =>
      runner.ask<TrialResult>({ kind: 'trial', job }, onProgress, signal),
    dispose: () => runner.dispose(),
  };
}

class ChildQueue {
  private child: Child | undefined;
  private readonly queue: Task[] = [];
  private current: Task | undefined;
  private idle: NodeJS.Timeout | undefined;
  private ids = 0;
  private disposed = false;

  constructor(private readonly options: NodeRunnerOptions) {}

  get pid(): number | undefined {
    return this.child?.usable ? this.child.pid : undefined;
  }

  /** The child answers a job with a value of the job's type: T is what its kind promises. */
  ask<T>(
    job: Job,
    onProgress: (p: Progress) => void,
    signal: CancelSignal | undefined,
  ): Promise<RunnerReply<T>> {
    return new Promise((resolve) => {
      const task: Task = {
        id: ++this.ids,
        job,
        onProgress,
        signal,
        settle: (reply) => {
          signal?.removeEventListener('abort', onAbort);
          resolve(reply as RunnerReply<T>);
        },
      };
      const onAbort = (): void => this.cancel(task);
      if (this.disposed || signal?.aborted) {
        resolve({ ok: false, fault: cancelled() });
        return;
      }
      signal?.addEventListener('abort', onAbort);
      this.queue.push(task);
      this.next();
    });
  }

  dispose(): void {
    this.disposed = true;
    clearTimeout(this.idle);
    for (const t of this.queue.splice(0)) t.settle({ ok: false, fault: cancelled() });
    this.child?.end(cancelled());
    this.child = undefined;
  }

  private next(): void {
    if (this.current || this.disposed) return;
    const task = this.queue.shift();
    if (!task) {
      this.rest();
      return;
    }
    clearTimeout(this.idle);
    this.current = task;
    if (!this.child?.usable) this.child = new Child(this.options);
    this.child.start(task, (reply) => {
      this.current = undefined;
      task.settle(reply);
      this.next();
    });
  }

  private rest(): void {
    clearTimeout(this.idle);
    this.idle = setTimeout(() => {
      this.child?.end(cancelled());
      this.child = undefined;
    }, this.options.idleMs ?? DEFAULT_IDLE_MS);
    this.idle.unref();
  }

  private cancel(task: Task): void {
    const at = this.queue.indexOf(task);
    if (at >= 0) {
      this.queue.splice(at, 1);
      task.settle({ ok: false, fault: cancelled() });
    } else if (this.current === task) this.child?.cancel(task.id);
  }
}

/** One process, from its start to its end. */
class Child {
  usable = true;
  private readonly process: ChildProcess;
  private readonly watchdogMs: number;
  private task: Task | undefined;
  private done: ((reply: RunnerReply<unknown>) => void) | undefined;
  private readonly stderr: string[] = [];
  /** Why it is being ended, when that is our doing. */
  private verdict: RunnerFault | undefined;
  private watchdog: NodeJS.Timeout | undefined;
  private grace: NodeJS.Timeout | undefined;
  private limitMs = 0;
  private kernel: string | undefined;
  private stage: Progress['stage'] | undefined;
  private lastSign = 0;

  constructor(options: NodeRunnerOptions) {
    this.watchdogMs =
      options.watchdogMs ??
      (Number(options.env?.['FUSION_LENS_WATCHDOG_MS'] ?? process.env['FUSION_LENS_WATCHDOG_MS']) ||
        DEFAULT_WATCHDOG_MS);
    const nodePath = options.nodePath ?? (process.versions['electron'] ? 'node' : process.execPath);
    this.process = fork(options.childPath ?? path.join(__dirname, 'runnerChild.mjs'), [], {
      execPath: nodePath,
      execArgv: [],
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      env: { ...process.env, [HOST_VARIABLE]: options.host ?? hostname(), ...options.env },
    });
    this.process.on('message', (m) => this.receive(m as FromChild));
    this.process.on('error', (e) => this.failed(e, nodePath));
    // `close` comes after the last of stderr, `exit` may come before.
    this.process.on('close', (code, signal) => this.closed(code, signal));
    this.process.stderr?.setEncoding('utf8');
    this.process.stderr?.on('data', (text: string) => {
      this.stderr.push(...text.split('\n').filter((line) => line.trim() !== ''));
      this.stderr.splice(0, this.stderr.length - STDERR_LINES);
    });
    this.hold(false);
  }

  get pid(): number | undefined {
    return this.process.pid;
  }

  start(task: Task, done: (reply: RunnerReply<unknown>) => void): void {
    this.task = task;
    this.done = done;
    this.kernel = undefined;
    this.stage = undefined;
    this.hold(true);
    this.allow(0);
    this.send({ type: 'job', id: task.id, job: task.job });
  }

  cancel(id: number): void {
    this.send({ type: 'cancel', id });
    this.grace = setTimeout(() => this.end(cancelled()), CANCEL_GRACE_MS);
  }

  /** Ends the process; a job under way gets the verdict. */
  end(verdict: RunnerFault): void {
    this.usable = false;
    this.verdict ??= verdict;
    this.process.kill('SIGKILL');
    this.finish({ ok: false, fault: this.verdict });
  }

  private send(message: ToChild): void {
    if (this.process.connected) this.process.send(message, () => undefined);
  }

  private receive(message: FromChild): void {
    if (message.id !== this.task?.id) return;
    this.lastSign = Date.now();
    switch (message.type) {
      case 'alive':
        return;
      case 'progress':
        this.stage = message.progress.stage;
        this.task.onProgress(message.progress);
        return;
      case 'working':
        this.kernel = message.kernel;
        this.allow(message.expectedMs);
        return;
      case 'reply':
        // A device that was lost leaves the driver in doubt: a new process starts from scratch.
        if (!message.reply.ok && message.reply.fault.code === 'DEVICE_LOST')
          this.end(message.reply.fault);
        else this.finish(message.reply);
        return;
    }
  }

  /** Restarts the watchdog for work that should take `expectedMs`. */
  private allow(expectedMs: number): void {
    this.lastSign = Date.now();
    this.limitMs = this.watchdogMs + PATIENCE * expectedMs;
    clearTimeout(this.watchdog);
    this.watchdog = setTimeout(() => this.end(this.hung()), this.limitMs);
  }

  private hung(): RunnerFault {
    const { kernel } = this;
    const seconds = Math.round(this.limitMs / 100) / 10;
    const stuck = Date.now() - this.lastSign > 5 * HEARTBEAT_MS;
    const after = `${seconds} s${stuck ? '; its process does not answer either' : ''}`;
    return {
      code: 'HUNG',
      message: `${workText(this.stage, kernel)} ${after}. The process was ended.`,
      ...(kernel === undefined ? {} : { kernel }),
      advice:
        'Profile with smaller sizes; if the kernel is only slow, raise FUSION_LENS_WATCHDOG_MS.',
    };
  }

  private failed(e: Error, nodePath: string): void {
    const missing = 'code' in e && (e.code === 'ENOENT' || e.code === 'EACCES');
    this.verdict ??= missing
      ? {
          code: 'NO_NODE',
          message: `Node could not be started: ${nodePath}`,
          advice: 'Install Node 20 or newer, or set fusionLens.nodePath to it.',
        }
      : { code: 'CRASHED', message: `The runner’s process failed: ${e.message}` };
    if (missing || this.process.pid === undefined) {
      this.usable = false;
      this.finish({ ok: false, fault: this.verdict });
    }
  }

  private closed(code: number | null, signal: NodeJS.Signals | null): void {
    this.usable = false;
    const how = signal ? `by ${signal}` : `with exit code ${code ?? 'unknown'}`;
    const { kernel } = this;
    const at = kernel === undefined ? '' : ` while kernel ${kernel} was being compiled or run`;
    const tail = this.stderr.length > 0 ? `\n${this.stderr.join('\n')}` : '';
    this.finish({
      ok: false,
      fault: this.verdict ?? {
        code: 'CRASHED',
        message: `The runner’s process ended ${how}${at}.${tail}`,
        ...(kernel === undefined ? {} : { kernel }),
        advice:
          signal === 'SIGKILL'
            ? 'Perhaps the system ran out of memory: profile with smaller sizes.'
            : 'Often the graphics driver is at fault: update it. The next run starts a new process.',
      },
    });
  }

  private finish(reply: RunnerReply<unknown>): void {
    clearTimeout(this.watchdog);
    clearTimeout(this.grace);
    const { done } = this;
    this.task = undefined;
    this.done = undefined;
    this.hold(false);
    done?.(reply);
  }

  /** Whether the process keeps this one from ending: only while a job is under way. */
  private hold(on: boolean): void {
    if (on) {
      this.process.ref();
      this.process.channel?.ref();
    } else {
      this.process.unref();
      this.process.channel?.unref();
      const { stderr } = this.process;
      if (stderr instanceof Socket) stderr.unref();
    }
  }
}

/** What was waited for, as the beginning of a sentence that goes on with a time. */
function workText(stage: Progress['stage'] | undefined, kernel: string | undefined): string {
  switch (stage) {
    case 'compile':
      return `The graphics driver did not compile kernel ${kernel ?? ''} within`;
    case 'reference':
    case 'verify':
      return 'The float64 reference made no progress for';
    case 'fused':
    case 'unfused':
    case 'trial':
      return `${kernel === undefined ? 'The GPU' : `Kernel ${kernel}`} made no progress for`;
    case 'device':
    case undefined:
      return 'The GPU could not be opened within';
  }
}

function cancelled(): RunnerFault {
  return { code: 'CANCELLED', message: 'Cancelled.' };
}
