/**
 * Tuning runs of the editor: the search with the compiler's worker as its lab, on the runner that
 * Profile would use, and its records kept in the workspace.
 */
import * as vscode from 'vscode';
import type {
  AdapterInfo,
  ModelFile,
  ProfileOptions,
  Runner,
  RunnerReply,
} from '../../runner/core/types';
import { mergeRecords, recordsText } from '../../tuner/records';
import { tune } from '../../tuner/search';
import type { Lab, LabAsk, TuneProgress, TuneResult } from '../../tuner/types';
import { Emitter, Owner } from '../common/lifecycle';
import type { OpenRunner } from './profiler';
import type { GraphResults } from './results';
import type { TuningRecords } from './tuningRecords';

/** What the worker says when a run can't go on, as an exception on its way out of the search. */
class LabFault extends Error {}

export class Tuner extends Owner {
  private readonly tuned = new Map<string, TuneResult>();
  private readonly changes = this.register(new Emitter<string>());
  /** A run of this file ended, and there is a result. */
  readonly onDidTune = this.changes.event;
  running = false;

  constructor(
    private readonly results: GraphResults,
    private readonly records: TuningRecords,
    private readonly openRunner: OpenRunner,
    private readonly options: (uri: string, modelFile: ModelFile | undefined) => ProfileOptions,
    private readonly learn: (adapter: AdapterInfo) => void,
  ) {
    super();
  }

  /** What the last run of the file found. */
  get(key: string): TuneResult | undefined {
    return this.tuned.get(key);
  }

  async run(
    key: string,
    seconds: number,
    onProgress: (p: TuneProgress) => void,
    signal: AbortSignal,
  ): Promise<RunnerReply<TuneResult>> {
    if (this.running) return failed('Another tuning run is under way.');
    this.running = true;
    try {
      return await this.search(key, seconds, onProgress, signal);
    } catch (error) {
      return failed(error instanceof Error ? error.message : String(error));
    } finally {
      this.running = false;
    }
  }

  private async search(
    key: string,
    seconds: number,
    onProgress: (p: TuneProgress) => void,
    signal: AbortSignal,
  ): Promise<RunnerReply<TuneResult>> {
    const place = await this.records.placeOf(key);
    if (!place) return failed('Save the file first: what is found is kept in its workspace.');
    // What could not be kept in the end isn't measured.
    const known = await this.records.read(place);
    const path = vscode.workspace.asRelativePath(place.uri);
    if (!known.ok) return failed(`The tuning records ${path} can't be read: ${known.reason}`);
    const before = await this.results.fresh(key);
    if (before.result?.runnable.ok === false) return failed(before.result.runnable.reason);
    const opened = await this.openRunner(key);
    if (!opened.ok) return opened;
    const runner: Runner = opened.value;
    try {
      const adapter = await runner.adapter();
      if (!adapter.ok) return adapter;
      this.learn(adapter.value);
      const { result, problem, modelFile } = await this.results.fresh(key);
      if (!result) return failed(problem ?? 'The file has not been compiled.');
      const reply = await tune(
        this.labOf(key, result.version),
        runner,
        adapter.value,
        known.records,
        {
          ...{ file: place.file, seconds, version: this.records.version, onProgress, signal },
          profile: this.options(key, modelFile),
          now: () => performance.now() / 1000,
        },
      );
      if (!reply.ok) return reply;
      const { updates, at } = reply.value;
      if (updates.length > 0) {
        // It may have changed meanwhile.
        const there = await this.records.read(place);
        if (!there.ok) return failed(`The tuning records ${path} can't be read: ${there.reason}`);
        await write(place.uri, recordsText(mergeRecords(there.records, updates, at)));
      }
      this.tuned.set(key, reply.value.result);
      this.changes.fire(key);
      return { ok: true, value: reply.value.result };
    } finally {
      runner.dispose();
    }
  }

  private labOf(key: string, version: number): Lab {
    const ask = async <T>(request: LabAsk): Promise<T> => {
      const reply = await this.results.ask('lab', key, (at) => {
        if (at.version !== version)
          throw new LabFault('The file changed while it was tuned: run it again.');
        return { ...at, ask: request };
      });
      if (!reply.ok) throw new LabFault(reply.message);
      // The worker answers with what the method gives: service.ts.
      return reply.value as T;
    };
    return {
      start: () => ask({ method: 'start', args: [] }),
      tie: (change) => ask({ method: 'tie', args: [change] }),
      choose: (changes) => ask({ method: 'choose', args: [changes] }),
      trial: (kernel, settings) => ask({ method: 'trial', args: [kernel, settings] }),
      verifying: () => ask({ method: 'verifying', args: [] }),
      confirming: (choice) => ask({ method: 'confirming', args: [choice] }),
    };
  }
}

/** A reader sees the old file or the new one, never a part. */
async function write(uri: vscode.Uri, text: string): Promise<void> {
  const { fs } = vscode.workspace;
  await fs.createDirectory(vscode.Uri.joinPath(uri, '..'));
  const part = uri.with({ path: `${uri.path}.part` });
  await fs.writeFile(part, new TextEncoder().encode(text));
  await fs.rename(part, uri, { overwrite: true });
}

function failed(message: string): RunnerReply<never> {
  return { ok: false, fault: { code: 'BAD_INPUT', message } };
}
