/**
 * A contestant's process, seen from the bench. What happens to it (a crash, a hang, an error) is a
 * fault in the answer; the next request starts it anew.
 */
import { fork, type ChildProcess } from 'node:child_process';
import path from 'node:path';
import { root } from '../../scripts/root.mjs';
import type {
  Answers,
  ContestantName,
  FromContestant,
  Opened,
  Request,
  ToContestant,
} from './protocol';

export type Answer<K extends Request['kind']> =
  | { readonly ok: true; readonly value: Answers[K] }
  | { readonly ok: false; readonly message: string };

const STDERR_LINES = 6;

export class ContestantProcess {
  opened: Opened | undefined;
  private child: ChildProcess | undefined;
  private ids = 0;
  private stderr: string[] = [];
  private settle: ((m: FromContestant | string) => void) | undefined;

  constructor(
    readonly name: ContestantName,
    private readonly env: Readonly<Record<string, string>>,
  ) {}

  /** Starts the process where none runs, and asks. */
  async ask<K extends Request['kind']>(
    request: Extract<Request, { readonly kind: K }>,
    limitMs: number,
  ): Promise<Answer<K>> {
    if (!this.child) {
      this.start();
      const opened = await this.send<'open'>({ kind: 'open' }, OPEN_LIMIT_MS);
      if (!opened.ok) {
        this.stop();
        return opened;
      }
      this.opened = opened.value;
    }
    return this.send<K>(request, limitMs);
  }

  stop(): void {
    this.child?.removeAllListeners();
    this.child?.kill('SIGKILL');
    this.child = undefined;
    this.settle = undefined;
  }

  private start(): void {
    this.stderr = [];
    const child = fork(path.join(root, 'dist/benchPeer.mjs'), [this.name], {
      execArgv: [],
      // Some libraries talk on standard output.
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      env: { ...process.env, ...this.env },
    });
    this.child = child;
    child.on('message', (m) => this.settle?.(m as FromContestant));
    child.stderr?.setEncoding('utf8');
    child.stderr?.on('data', (text: string) => {
      this.stderr.push(...text.split('\n').filter((l) => l.trim() !== '' && !/^Warning: /.test(l)));
      this.stderr.splice(0, this.stderr.length - STDERR_LINES);
    });
    child.on('error', (e) => this.settle?.(e.message));
    child.on('close', (code, signal) => {
      const last = this.stderr.find((l) => /error/i.test(l)) ?? this.stderr.at(-1) ?? '';
      this.settle?.(`crashed: its process ended (${signal ?? code ?? '?'}) ${last.trim()}`.trim());
      if (this.child === child) this.child = undefined;
    });
  }

  private send<K extends Request['kind']>(
    request: Extract<Request, { readonly kind: K }>,
    limitMs: number,
  ): Promise<Answer<K>> {
    const id = ++this.ids;
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.stop();
        resolve({ ok: false, message: `gave no answer within ${Math.round(limitMs / 1000)} s` });
      }, limitMs);
      this.settle = (m) => {
        if (typeof m !== 'string' && m.id !== id) return;
        clearTimeout(timer);
        this.settle = undefined;
        if (typeof m === 'string') resolve({ ok: false, message: m });
        // The answer to a request of this kind: the process promises it.
        else resolve(m.ok ? { ok: true, value: m.value as Answers[K] } : m);
      };
      const message: ToContestant = { id, request };
      this.child?.send(message, (e) => {
        if (e) this.settle?.(`can't be reached: ${e.message}`);
      });
    });
  }
}

/** Some hundred megabytes of WebAssembly are compiled here, on a busy machine. */
const OPEN_LIMIT_MS = 180_000;
