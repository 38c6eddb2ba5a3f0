/**
 * The host's end of a worker, as small as it can be: a worker thread and a Web Worker both fit.
 */
import type { WorkerCall, WorkerMessage } from '../contracts/compiler';

export interface WorkerPort {
  /** Sends a call; the buffers move instead of being copied where the platform allows it. */
  post(call: WorkerCall, transfer: readonly ArrayBuffer[]): void;
  terminate(): void;
}

export interface WorkerEvents {
  readonly message: (message: WorkerMessage) => void;
  /** The worker has ended by itself; nothing more comes from it. */
  readonly ended: (reason: string) => void;
}

export type StartWorker = (events: WorkerEvents) => WorkerPort;
