/** The graph panel's page: registers the controls, makes the panel, and tells the host it is there. */
import './ui/style.css';
import { createBrowserRunner } from '../runner/browser/index';
import { Host } from './host';
import { PageJobs } from './pageJobs';
import { registerComponents } from './ui/components';
import { Panel } from './ui/panel';

function start(): void {
  const root = document.getElementById('app');
  if (!root) throw new Error('The page has no #app.');
  registerComponents();
  const host = new Host();
  const { uri, layoutWorker } = document.body.dataset;
  const panel = new Panel(root, host, { uri: uri ?? '', layoutWorker });
  // A browser without WebGPU has no such object, whatever the types say.
  const { gpu } = navigator as { gpu?: GPU };
  const jobs = new PageJobs(
    () => createBrowserRunner(gpu, 'the machine of this window'),
    (message) => host.post(message),
  );
  addEventListener('error', (event) =>
    host.log('error', `${event.message} ${event.filename}:${event.lineno}`),
  );
  addEventListener('unhandledrejection', (event) => host.log('error', String(event.reason)));
  host.listen((message) => {
    if (message.type === 'runInPage') jobs.run(message);
    else if (message.type === 'cancelInPage') jobs.cancel(message.id);
    else panel.receive(message);
  });
  host.post({ type: 'ready' });
}

start();
