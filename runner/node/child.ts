/**
 * The child process: Dawn on the one side, messages from the runner on the other. It lives apart from
 * the editor because a driver may crash, hang or eat all memory.
 */
import { hostname } from 'node:os';
import { Server, type Host, type RunnerReply, type Watch } from '../core';
import { letDawnSleep, loadDawn, pause } from './dawn';
import { readExternal } from './external';
import { readModel } from './ranges';
import { readProfile } from './profileCache';
import { HEARTBEAT_MS, HOST_VARIABLE, type FromChild, type Job, type ToChild } from './protocol';

/** Cancels a job from outside; the part of AbortController that the core needs. */
class Cancellation {
  aborted = false;
  private readonly listeners = new Set<() => void>();

  addEventListener(_: 'abort', listener: () => void): void {
    this.listeners.add(listener);
  }

  removeEventListener(_: 'abort', listener: () => void): void {
    this.listeners.delete(listener);
  }

  abort(): void {
    this.aborted = true;
    for (const l of this.listeners) l();
  }
}

function send(message: FromChild): void {
  // The parent may be gone: then there is nobody to tell.
  process.send?.(message, undefined, undefined, () => undefined);
}

function watchFor(id: number): Watch {
  return {
    progress: (progress) => send({ type: 'progress', id, progress }),
    working: (kernel, expectedMs) =>
      send({ type: 'working', id, expectedMs, ...(kernel === undefined ? {} : { kernel }) }),
  };
}

function serve(server: Server): (id: number, job: Job) => Promise<void> {
  const running = new Map<number, Cancellation>();
  process.on('message', (message: ToChild) => {
    if (message.type === 'cancel') running.get(message.id)?.abort();
  });
  return async (id, job) => {
    const cancellation = new Cancellation();
    running.set(id, cancellation);
    const heart = setInterval(() => send({ type: 'alive', id }), HEARTBEAT_MS);
    try {
      const reply = await answer(server, job, watchFor(id), cancellation);
      send({ type: 'reply', id, reply });
    } finally {
      clearInterval(heart);
      running.delete(id);
    }
  };
}

function answer(
  server: Server,
  job: Job,
  watch: Watch,
  cancellation: Cancellation,
): Promise<RunnerReply<unknown>> {
  switch (job.kind) {
    case 'adapter':
      return server.adapter(watch);
    case 'profile':
      return server.profile(job.job, watch, cancellation);
    case 'run':
      return server.run(job.job, watch, cancellation);
    case 'trial':
      return server.trial(job.job, watch, cancellation);
  }
}

async function main(): Promise<void> {
  process.on('disconnect', () => process.exit(0));
  const waiting: { id: number; job: Job }[] = [];
  let start: ((id: number, job: Job) => void) | undefined;
  process.on('message', (message: ToChild) => {
    if (message.type !== 'job') return;
    if (start) start(message.id, message.job);
    else waiting.push(message);
  });

  letDawnSleep();
  let gpu: GPU | undefined;
  let problem = '';
  try {
    gpu = await loadDawn();
  } catch (e) {
    problem = e instanceof Error ? e.message : String(e);
  }
  if (gpu) {
    const host: Host = {
      gpu,
      kind: 'node',
      name: process.env[HOST_VARIABLE] ?? hostname(),
      now: () => performance.now(),
      pause,
      readExternal,
      readModel,
      readMeasured: (adapter) => readProfile(adapter),
    };
    const work = serve(new Server(host));
    start = (id, job) => void work(id, job);
  } else {
    const reply: RunnerReply<never> = {
      ok: false,
      fault: {
        code: 'UNSUPPORTED',
        message: `Dawn (the package webgpu) could not be loaded: ${problem}`,
        advice: `It needs Node 20 or newer on x64 or arm64; this is Node ${process.version} on ${process.platform} ${process.arch}.`,
      },
    };
    start = (id) => send({ type: 'reply', id, reply });
  }
  for (const { id, job } of waiting) start(id, job);
}

void main();
