/** The compiler in a worker thread: the entry point of dist/compilerWorker.js. */
import { parentPort } from 'node:worker_threads';
import { compile } from '../../compiler';
import type { WorkerCall } from '../contracts/compiler';
import { CompilerService } from './service';

if (!parentPort) throw new Error('compilerWorker runs in a worker thread only.');
const port = parentPort;
const service = new CompilerService(
  compile,
  (message) => port.postMessage(message),
  (callback) => setImmediate(callback),
  () => performance.now(),
);
port.on('message', (call: WorkerCall) => service.receive(call));
