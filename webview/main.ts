/** The graph panel's page: registers the controls, makes the panel, and tells the host it is there. */
import './ui/style.css';
import { Host } from './host';
import { PageRunner } from './pageRunner';
import { registerComponents } from './ui/components';
import { Panel } from './ui/panel';

function start(): void {
  const root = document.getElementById('app');
  if (!root) throw new Error('The page has no #app.');
  registerComponents();
  const host = new Host();
  const { uri, layoutWorker } = document.body.dataset;
  const panel = new Panel(root, host, { uri: uri ?? '', layoutWorker });
  const runner = new PageRunner(
    () => {
      throw new Error('This build has no runner for the page.');
    },
    (message) => host.post(message),
  );
  addEventListener('error', (event) =>
    host.log('error', `${event.message} ${event.filename}:${event.lineno}`),
  );
  addEventListener('unhandledrejection', (event) => host.log('error', String(event.reason)));
  host.listen((message) => {
    if (message.type === 'runInPage') runner.run(message);
    else if (message.type === 'cancelInPage') runner.cancel(message.id);
    else panel.receive(message);
  });
  host.post({ type: 'ready' });
}

start();
