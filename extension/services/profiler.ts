/**
 * Profile runs: one at a time, because two on one GPU would measure each other.
 *
 * It knows nothing of notifications or panels; they watch {@link Profiler.onDidChange}. Whatever goes
 * wrong ends in a fault as a value, and leaves nothing behind: the next run starts afresh.
 */
import type {
  AdapterInfo,
  ModelFile,
  ProfileOptions,
  ProfileResult,
  Runner,
  RunnerFault,
  RunnerReply,
} from '../../runner/core/types';
import type { ProfileState } from '../contracts/webview';
import { Emitter, Owner } from '../common/lifecycle';
import type { GraphResults } from './results';
import type { Measurements } from './measurements';
import type { RunnerChoice } from './settings';

/** Finds what can run kernels for this file; the profiler disposes it after the run. */
export type OpenRunner = (uri: string, choice?: RunnerChoice) => Promise<RunnerReply<Runner>>;

const IDLE: ProfileState = { kind: 'idle' };

export class Profiler extends Owner {
  private readonly states = new Map<string, ProfileState>();
  private current: { readonly uri: string; readonly abort: AbortController } | undefined;

  private readonly changes = this.register(new Emitter<string>());
  readonly onDidChange = this.changes.event;

  constructor(
    private readonly results: GraphResults,
    private readonly measurements: Measurements,
    private readonly openRunner: OpenRunner,
    private readonly options: (uri: string, modelFile: ModelFile | undefined) => ProfileOptions,
    /** Hears which adapter the kernels will run on, before they are compiled for it. */
    private readonly learn: (adapter: AdapterInfo) => void,
  ) {
    super();
  }

  state(uri: string): ProfileState {
    return this.states.get(uri) ?? IDLE;
  }

  /** The file that is being profiled now. */
  get running(): string | undefined {
    return this.current?.uri;
  }

  cancel(uri: string): void {
    if (this.current?.uri === uri) this.current.abort.abort();
  }

  forget(uri: string): void {
    if (this.running !== uri) this.states.delete(uri);
  }

  /** @param choice instead of what the settings say */
  async profile(uri: string, choice?: RunnerChoice): Promise<RunnerReply<ProfileResult>> {
    if (this.current)
      return failed('VALIDATION', 'Another profile run is under way. Wait for it, or cancel it.');
    const abort = new AbortController();
    this.current = { uri, abort };
    this.setState(uri, { kind: 'running', progress: { stage: 'device', done: 0, total: 1 } });
    let reply: RunnerReply<ProfileResult>;
    try {
      reply = await this.run(uri, abort.signal, choice);
    } catch (error) {
      reply = failed('INTERNAL', error instanceof Error ? error.message : String(error));
    } finally {
      this.current = undefined;
    }
    if (reply.ok) {
      this.setState(uri, IDLE);
      this.measurements.set(uri, reply.value);
    } else {
      this.setState(uri, { kind: 'failed', fault: reply.fault });
    }
    return reply;
  }

  override dispose(): void {
    this.current?.abort.abort();
    super.dispose();
  }

  private async run(
    uri: string,
    signal: AbortSignal,
    choice: RunnerChoice | undefined,
  ): Promise<RunnerReply<ProfileResult>> {
    const { result, problem } = await this.results.fresh(uri);
    if (!result || problem !== undefined)
      return failed('BAD_INPUT', problem ?? 'The file has not been compiled.');
    if (!result.runnable.ok) return failed('UNSUPPORTED', result.runnable.reason);
    if (signal.aborted) return cancelled();

    const opened = await this.openRunner(uri, choice);
    if (!opened.ok) return opened;
    const runner = opened.value;
    try {
      if (signal.aborted) return cancelled();
      const adapter = await runner.adapter();
      if (signal.aborted) return cancelled();
      if (!adapter.ok) return adapter;
      // What runs must be made for the limits of the adapter that runs it.
      this.learn(adapter.value);
      const job = await this.results.ask('job', uri, (at) => ({
        ...at,
        options: this.options(uri, this.results.get(uri)?.modelFile),
      }));
      if (!job.ok) return failed('BAD_INPUT', job.message);
      if (signal.aborted) return cancelled();
      return await runner.profile(
        job.value,
        (progress) => this.setState(uri, { kind: 'running', progress }),
        signal,
      );
    } finally {
      runner.dispose();
    }
  }

  private setState(uri: string, state: ProfileState): void {
    this.states.set(uri, state);
    this.changes.fire(uri);
  }
}

function failed(
  code: RunnerFault['code'],
  message: string,
): { readonly ok: false; readonly fault: RunnerFault } {
  return { ok: false, fault: { code, message } };
}

function cancelled(): { readonly ok: false; readonly fault: RunnerFault } {
  return failed('CANCELLED', 'The run was cancelled.');
}
