/** What differs between an extension host with Node and one in a browser. */
import type { Runner, RunnerReply } from '../runner/core/types';
import type { Settings } from './services/settings';
import type { StartWorker } from './worker/port';

export interface Platform {
  readonly startWorker: StartWorker;
  /** Its name: the settings of one person may be used on several. */
  readonly machine: string;
  /** Opens a runner in a process of its own; absent where no process can be started. */
  readonly openProcessRunner?: (
    settings: Settings,
    log: (line: string) => void,
  ) => Promise<RunnerReply<Runner>>;
}
