/**
 * Starts the compiler as a Web Worker. The script comes through `fetch` and a blob, because a worker
 * can't be started from another origin than the extension host's own.
 */
import type { WorkerMessage, WorkerCall } from '../contracts/compiler';
import type { StartWorker, WorkerEvents } from './port';

export function webWorkerStarter(script: string): StartWorker {
  return (events) => {
    /** Calls made before the script has arrived. */
    let waiting: { call: WorkerCall; transfer: readonly ArrayBuffer[] }[] | undefined = [];
    let worker: Worker | undefined;
    let over = false;
    const end = (reason: string) => {
      if (over) return;
      over = true;
      events.ended(reason);
    };
    start(script, events, end).then(
      (started) => {
        if (over) {
          started.terminate();
          return;
        }
        worker = started;
        for (const { call, transfer } of waiting ?? []) started.postMessage(call, [...transfer]);
        waiting = undefined;
      },
      (error: unknown) => end(`The compiler's script could not be loaded: ${String(error)}`),
    );
    return {
      post(call, transfer) {
        if (worker) worker.postMessage(call, [...transfer]);
        else waiting?.push({ call, transfer });
      },
      terminate() {
        over = true;
        worker?.terminate();
      },
    };
  };
}

async function start(
  script: string,
  events: WorkerEvents,
  end: (reason: string) => void,
): Promise<Worker> {
  const response = await fetch(script);
  if (!response.ok) throw new Error(`${response.status} ${response.statusText}`);
  const blob = new Blob([await response.text()], { type: 'text/javascript' });
  // The address is kept: the extension host loads the script in its own time, through a wrapper.
  const worker = new Worker(URL.createObjectURL(blob), { name: 'fusion-lens-compiler' });
  worker.onmessage = (event: MessageEvent<WorkerMessage>) => events.message(event.data);
  worker.onerror = (event) => end(event.message);
  worker.onmessageerror = () => end('A message of the worker could not be read.');
  return worker;
}
