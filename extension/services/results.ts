/**
 * One cached compile result per graph file, and an event when it changes. Lenses, problems, hovers,
 * trees and panels all read from here; nothing else talks to the compiler about a whole file.
 *
 * Vocabulary
 *  - *revision*: counts the contents of a file that we know of. A result is *fresh* when it belongs to
 *    the newest revision, *stale* when something newer is being compiled.
 *  - *retained*: somebody shows the file, so a change compiles it at once. Everything else compiles
 *    when it is asked for ({@link GraphResults.fresh}) and is kept while there is room.
 */
import type { Cut } from '../../compiler';
import type { CompileResult, DeviceProfile } from '../../compiler/result';
import type { Tuning } from '../../compiler/tuning';
import type { ModelFile } from '../../runner/core/types';
import type { CompilerApi } from '../contracts/compiler';
import { type Disposable, Emitter, Owner, reportRejection } from '../common/lifecycle';
import type { CallCompiler, CallError } from '../worker/client';

export type SourceRead =
  | {
      readonly kind: 'read';
      readonly bytes: Uint8Array;
      /** Of a model that was read by ranges: what `bytes` leave out, and where it is. */
      readonly cuts?: readonly Cut[];
      readonly modelFile?: ModelFile;
      /** Its name, where the URI doesn't tell the format. */
      readonly file?: string;
      /** The text document's version, when it came from one. */
      readonly documentVersion?: number;
      readonly sideFile?: string;
    }
  | { readonly kind: 'unavailable'; readonly message: string };

export interface GraphSource {
  read(uri: string): Promise<SourceRead>;
}

export interface CompileInputs {
  readonly dims?: Readonly<Record<string, number>>;
  readonly device?: DeviceProfile;
  readonly tuning?: Tuning;
}

export interface GraphState {
  readonly uri: string;
  readonly result?: CompileResult;
  /** The text document's version that the result was made from. */
  readonly documentVersion?: number;
  /** The file that the result was made from, where contents of tensors were left in it. */
  readonly modelFile?: ModelFile;
  /** The result belongs to the newest contents. */
  readonly fresh: boolean;
  readonly busy: boolean;
  /** Why there is no result for the newest contents: unreadable, gone, or a fault of the compiler. */
  readonly problem?: string;
}

interface Entry {
  readonly uri: string;
  revision: number;
  resultRevision: number;
  problemRevision: number;
  result?: CompileResult;
  documentVersion?: number;
  modelFile?: ModelFile;
  problem?: string;
  running: number;
  retained: number;
  lastUse: number;
  timer?: ReturnType<typeof setTimeout>;
  waiters: (() => void)[];
}

/** Results of files that nobody shows: kept up to this many. */
const KEEP = 24;

export class GraphResults extends Owner {
  private readonly entries = new Map<string, Entry>();
  private uses = 0;
  private revisions = 0;

  private readonly changes = this.register(new Emitter<string>());
  /** The state of this file changed: a new result, a newer revision, a problem. */
  readonly onDidChange = this.changes.event;
  private readonly removals = this.register(new Emitter<string>());
  /** The file's result was dropped. */
  readonly onDidForget = this.removals.event;

  constructor(
    private readonly source: GraphSource,
    private readonly call: CallCompiler,
    private readonly inputs: (uri: string) => CompileInputs | Promise<CompileInputs>,
    private readonly report: (message: string) => void,
  ) {
    super();
  }

  get(uri: string): GraphState | undefined {
    const entry = this.entries.get(uri);
    return entry && stateOf(entry);
  }

  uris(): readonly string[] {
    return [...this.entries.keys()];
  }

  /** Compiles the file now if it isn't yet, and again at each change until disposed. */
  retain(uri: string): Disposable {
    const entry = this.entry(uri);
    entry.retained++;
    if (!isSettled(entry)) this.schedule(entry, 0);
    let released = false;
    return {
      dispose: () => {
        if (released) return;
        released = true;
        entry.retained--;
        this.trim();
      },
    };
  }

  /** The file's contents changed. `delay` lets a burst of changes become one compile. */
  touch(uri: string, delay: number): void {
    const entry = this.entries.get(uri);
    if (!entry) return;
    entry.revision = ++this.revisions;
    if (entry.retained > 0 || entry.waiters.length > 0) this.schedule(entry, delay);
    this.changes.fire(uri);
  }

  touchAll(): void {
    for (const uri of [...this.entries.keys()]) this.touch(uri, 0);
  }

  /** The state once it belongs to the newest contents: compiles when that is needed. */
  async fresh(uri: string): Promise<GraphState> {
    const entry = this.entry(uri);
    while (!isSettled(entry) && this.entries.get(uri) === entry) {
      if (entry.timer === undefined && entry.running === 0) this.schedule(entry, 0);
      await new Promise<void>((resolve) => entry.waiters.push(resolve));
    }
    this.trim();
    return stateOf(entry);
  }

  /** Drops the file unless somebody shows it. */
  release(uri: string): void {
    const entry = this.entries.get(uri);
    if (entry && entry.retained === 0) this.drop(entry);
  }

  /**
   * Asks the worker for something made from the file's newest compilation. The worker may have been
   * restarted since: then it compiles once more.
   */
  async ask<K extends 'code' | 'job' | 'plan' | 'lab' | 'steps' | 'planAt'>(
    method: K,
    uri: string,
    argument: (at: { uri: string; version: number }) => Parameters<CompilerApi[K]>[0],
  ): Promise<
    | { readonly ok: true; readonly value: ReturnType<CompilerApi[K]> }
    | { readonly ok: false; readonly message: string }
  > {
    for (let attempt = 0; ; attempt++) {
      const state = await this.fresh(uri);
      if (!state.result || state.problem !== undefined)
        return { ok: false, message: state.problem ?? 'The file has not been compiled.' };
      const reply = await this.call(method, argument({ uri, version: state.result.version }));
      if (reply.ok) return reply;
      const { error } = reply;
      if (attempt === 2 || error.kind === 'bug' || error.kind === 'crashed')
        return { ok: false, message: this.explain(error, uri) };
      if (error.kind === 'unknown-uri') this.touch(uri, 0);
    }
  }

  override dispose(): void {
    super.dispose();
    for (const entry of this.entries.values()) {
      clearTimeout(entry.timer);
      wake(entry);
    }
    this.entries.clear();
  }

  private entry(uri: string): Entry {
    let entry = this.entries.get(uri);
    if (!entry) {
      entry = {
        uri,
        revision: ++this.revisions,
        resultRevision: 0,
        problemRevision: 0,
        running: 0,
        retained: 0,
        lastUse: 0,
        waiters: [],
      };
      this.entries.set(uri, entry);
    }
    entry.lastUse = ++this.uses;
    return entry;
  }

  private schedule(entry: Entry, delay: number): void {
    clearTimeout(entry.timer);
    entry.timer = setTimeout(() => {
      delete entry.timer;
      reportRejection(this.run(entry), (error) =>
        this.report(`Compiling failed: ${String(error)}`),
      );
    }, delay);
  }

  private async run(entry: Entry): Promise<void> {
    const { uri, revision } = entry;
    entry.running++;
    this.changes.fire(uri);
    try {
      const source = await this.readSource(uri);
      const inputs = await this.inputs(uri);
      if (entry.revision !== revision || this.entries.get(uri) !== entry) return;
      if (source.kind === 'unavailable') {
        settleProblem(entry, revision, source.message);
        delete entry.result;
        return;
      }
      const { bytes, cuts, file, sideFile, documentVersion, modelFile } = source;
      const reply = await this.call('compile', {
        uri,
        version: revision,
        bytes,
        ...(cuts ? { cuts } : {}),
        ...(file === undefined ? {} : { file }),
        ...(sideFile === undefined ? {} : { sideFile }),
        ...inputs,
      });
      if (this.entries.get(uri) !== entry || revision <= entry.resultRevision) return;
      if (reply.ok) {
        entry.result = reply.value;
        entry.resultRevision = revision;
        if (documentVersion === undefined) delete entry.documentVersion;
        else entry.documentVersion = documentVersion;
        if (modelFile === undefined) delete entry.modelFile;
        else entry.modelFile = modelFile;
        if (entry.problemRevision <= revision) delete entry.problem;
      } else if (reply.error.kind !== 'stale') {
        settleProblem(entry, revision, this.explain(reply.error, uri));
      }
    } finally {
      entry.running--;
      // A change that came meanwhile, and whose compile was not scheduled by anybody.
      if (!isSettled(entry) && entry.waiters.length > 0 && entry.timer === undefined)
        this.schedule(entry, 0);
      if (isSettled(entry)) wake(entry);
      this.changes.fire(uri);
    }
  }

  private async readSource(uri: string): Promise<SourceRead> {
    try {
      return await this.source.read(uri);
    } catch (error) {
      return {
        kind: 'unavailable',
        message: error instanceof Error ? error.message : String(error),
      };
    }
  }

  private explain(error: CallError, uri: string): string {
    switch (error.kind) {
      case 'bug':
        this.report(`A fault in the compiler, on ${uri}:\n${error.message}`);
        return `The compiler has a fault that this file brings out: ${firstLine(error.message)}`;
      case 'crashed':
        return `The compiler stopped on this file and was restarted. ${firstLine(error.message)}`;
      case 'stale':
        return 'The file changed meanwhile.';
      case 'unknown-uri':
        return 'The file has not been compiled.';
    }
  }

  private trim(): void {
    const idle = [...this.entries.values()]
      .filter(
        ({ retained, waiters, running }) => retained === 0 && waiters.length === 0 && running === 0,
      )
      .sort((a, b) => b.lastUse - a.lastUse);
    for (const entry of idle.slice(KEEP)) this.drop(entry);
  }

  private drop(entry: Entry): void {
    clearTimeout(entry.timer);
    this.entries.delete(entry.uri);
    wake(entry);
    // The answer holds nothing, and a worker that has gone has forgotten anyway.
    void this.call('forget', { uri: entry.uri });
    this.removals.fire(entry.uri);
  }
}

function isSettled(entry: Entry): boolean {
  return entry.resultRevision === entry.revision || entry.problemRevision === entry.revision;
}

function settleProblem(entry: Entry, revision: number, message: string): void {
  entry.problem = message;
  entry.problemRevision = revision;
}

function wake(entry: Entry): void {
  for (const waiter of entry.waiters.splice(0)) waiter();
}

function stateOf(entry: Entry): GraphState {
  const { uri, result, documentVersion, modelFile, problem } = entry;
  return {
    uri,
    fresh: entry.resultRevision === entry.revision,
    busy: entry.running > 0 || entry.timer !== undefined,
    ...(result ? { result } : {}),
    ...(documentVersion === undefined ? {} : { documentVersion }),
    ...(modelFile === undefined ? {} : { modelFile }),
    ...(problem === undefined ? {} : { problem }),
  };
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0] ?? '';
}
