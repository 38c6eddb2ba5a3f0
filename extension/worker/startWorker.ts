/** Starts the compiler as a worker thread of Node. */
import { Worker } from 'node:worker_threads';
import type { WorkerMessage } from '../contracts/compiler';
import type { StartWorker } from './port';

export function threadStarter(script: string): StartWorker {
  return ({ message: receive, ended }) => {
    const worker = new Worker(script, {
      name: 'fusion-lens-compiler',
      // A compilation's parts live until its end: with little room they would be copied over and over.
      resourceLimits: { maxYoungGenerationSizeMb: 128 },
    });
    let over = false;
    const end = (reason: string) => {
      if (over) return;
      over = true;
      ended(reason);
    };
    worker.on('message', (message: WorkerMessage) => receive(message));
    worker.on('messageerror', (error) => end(String(error)));
    worker.on('error', (error: Error) => end(error.stack ?? String(error)));
    worker.on('exit', (code) => end(`exit code ${code}`));
    return {
      post(call, transfer) {
        try {
          worker.postMessage(call, transfer);
        } catch {
          // A buffer that the platform won't part with is copied.
          worker.postMessage(call);
        }
      },
      terminate() {
        over = true;
        void worker.terminate();
      },
    };
  };
}
