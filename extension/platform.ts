/** What differs between an extension host with Node and one in a browser. */
import type { Runner, RunnerReply } from '../runner/core/types';
import type { OpenModel } from './services/graphFiles';
import type { ReadContents } from './services/pageContents';
import type { Settings } from './services/settings';
import type { StartWorker } from './worker/port';

export interface Platform {
  readonly startWorker: StartWorker;
  /** Its name: the settings of one person may be used on several. */
  readonly machine: string;
  /** Reads a model on this machine's disk without the contents of its tensors; absent without a disk. */
  readonly openModel?: OpenModel;
  /** Contents that are in files, for a runner that has no access to them; absent without a disk. */
  readonly readContents?: ReadContents;
  /** Opens a runner in a process of its own; absent where no process can be started. */
  readonly openProcessRunner?: (
    settings: Settings,
    log: (line: string) => void,
  ) => Promise<RunnerReply<Runner>>;
}
