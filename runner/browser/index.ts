/**
 * The runner in a page: the same core on the page's own `navigator.gpu`, for hosts without a Node to
 * run kernels in.
 *
 * The page runs, times and reads back, but doesn't verify: the float64 reference takes long and would
 * freeze it. {@link PageRunner.measure} hands back what the kernels stored, and whoever asked finishes
 * the profile elsewhere with `finishProfile` of the core, or through the `verify` hook.
 */
import { Server, type Host, type MeasuredProfile, type Watch } from '../core';
import type {
  CancelSignal,
  ProfileJob,
  ProfileResult,
  Progress,
  Runner,
  RunnerReply,
} from '../core/types';

/** Finishes a profile outside the page. */
export type Verify = (
  job: ProfileJob,
  measured: MeasuredProfile,
  onProgress: (p: Progress) => void,
  signal: CancelSignal,
) => Promise<RunnerReply<ProfileResult>>;

export interface PageRunner extends Omit<Runner, 'profile'> {
  measure(
    job: ProfileJob,
    onProgress: (p: Progress) => void,
    signal: CancelSignal,
  ): Promise<RunnerReply<MeasuredProfile>>;
}

/** `host` names the machine whose GPU this is: the one with the window. */
export function createBrowserRunner(gpu: GPU | undefined, host: string): PageRunner {
  const server = new Server(pageHost(gpu, host));
  const watch = (onProgress: (p: Progress) => void): Watch => ({
    progress: onProgress,
    // The browser ends a hung kernel by itself, by taking the device away.
    working: () => undefined,
  });
  return {
    adapter: () => server.adapter(watch(() => undefined)),
    measure: (job, onProgress, signal) => server.measure(job, watch(onProgress), signal),
    run: (job, onProgress, signal) => server.run(job, watch(onProgress), signal),
    trial: (job, onProgress, signal) => server.trial(job, watch(onProgress), signal),
    dispose: () => server.dispose(),
  };
}

/** The page's runner made whole by a way to verify elsewhere. */
export function withVerification(page: PageRunner, verify: Verify): Runner {
  return {
    adapter: () => page.adapter(),
    profile: async (job, onProgress, signal) => {
      const measured = await page.measure(job, onProgress, signal);
      return measured.ok ? verify(job, measured.value, onProgress, signal) : measured;
    },
    run: (job, onProgress, signal) => page.run(job, onProgress, signal),
    trial: (job, onProgress, signal) => page.trial(job, onProgress, signal),
    dispose: () => page.dispose(),
  };
}

function pageHost(gpu: GPU | undefined, name: string): Host {
  const { port1, port2 } = new MessageChannel();
  const waiting: (() => void)[] = [];
  port1.onmessage = () => waiting.shift()?.();
  return {
    gpu,
    kind: 'browser',
    name,
    now: () => performance.now(),
    // Timers are slowed down in a page that isn't seen; messages are not.
    pause: () =>
      new Promise((resolve) => {
        waiting.push(resolve);
        port2.postMessage(undefined);
      }),
  };
}
