/**
 * One job after another on one session: opens the device when it is first needed, opens it anew after a
 * loss, and turns every exception into a fault.
 */
import type { Host, Watch } from './device';
import { fail, replyOf, throwIfCancelled } from './faults';
import { finishProfile, Session, type MeasuredProfile } from './session';
import type {
  AdapterInfo,
  CancelSignal,
  ProfileJob,
  ProfileResult,
  RunJob,
  RunnerReply,
  RunOutput,
  TrialJob,
  TrialResult,
} from './types';

export class Server {
  private session: Session | undefined;
  private queue: Promise<unknown> = Promise.resolve();
  private closed = false;

  constructor(private readonly host: Host) {}

  adapter(watch: Watch): Promise<RunnerReply<AdapterInfo>> {
    return this.inTurn(async () => {
      const { adapter } = await this.open(watch);
      // Read each time: it may have been measured meanwhile.
      return { ...adapter, ...(await this.host.readMeasured?.(adapter)) };
    });
  }

  measure(
    job: ProfileJob,
    watch: Watch,
    signal: CancelSignal,
  ): Promise<RunnerReply<MeasuredProfile>> {
    return this.inTurn(async () => {
      throwIfCancelled(signal);
      return (await this.open(watch)).measure(job, watch, signal);
    });
  }

  profile(
    job: ProfileJob,
    watch: Watch,
    signal: CancelSignal,
  ): Promise<RunnerReply<ProfileResult>> {
    return this.inTurn(async () => {
      throwIfCancelled(signal);
      const measured = await (await this.open(watch)).measure(job, watch, signal);
      return finishProfile(job, measured, this.host, watch, signal);
    });
  }

  run(job: RunJob, watch: Watch, signal: CancelSignal): Promise<RunnerReply<readonly RunOutput[]>> {
    return this.inTurn(async () => {
      throwIfCancelled(signal);
      return (await this.open(watch)).run(job, watch, signal);
    });
  }

  trial(job: TrialJob, watch: Watch, signal: CancelSignal): Promise<RunnerReply<TrialResult>> {
    return this.inTurn(async () => {
      throwIfCancelled(signal);
      return (await this.open(watch)).trial(job, watch, signal);
    });
  }

  dispose(): void {
    this.closed = true;
    this.session?.dispose();
    this.session = undefined;
  }

  private inTurn<T>(work: () => Promise<T>): Promise<RunnerReply<T>> {
    const result = this.queue.then(() => replyOf(work));
    this.queue = result;
    return result;
  }

  private async open(watch: Watch): Promise<Session> {
    if (this.closed) fail('CANCELLED', 'The runner has been closed.');
    if (this.session?.lost) {
      this.session.dispose();
      this.session = undefined;
    }
    watch.working(undefined, 0);
    watch.progress({ stage: 'device', done: 0, total: 1 });
    this.session ??= await Session.open(this.host);
    return this.session;
  }
}
