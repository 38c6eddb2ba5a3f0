/** The compiler in a Web Worker: the entry point of dist/compilerWorker.web.js, for web hosts. */
import { compile } from '../../compiler';
import type { WorkerCall } from '../contracts/compiler';
import { CompilerService } from './service';

const service = new CompilerService(
  compile,
  (message) => self.postMessage(message),
  (callback) => setTimeout(callback, 0),
  () => performance.now(),
);
self.addEventListener('message', (event: MessageEvent<WorkerCall>) => service.receive(event.data));
