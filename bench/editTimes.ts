/**
 * How long a person waits for lenses after an edit: from the message to the compiler's worker to the
 * answer as it crosses back, in a file of some thousand ops of which one line changes.
 *
 * The time of one machine says little: it stands beside that of the same version compiled by a worker
 * that has no memory of the ones before, measured in turn with it.
 */
import { compile } from '../compiler';
import { table } from '../cli/format/table';
import type { ResultMessage, WorkerMessage } from '../extension/contracts/compiler';
import { ResultReceiver } from '../extension/worker/resultChange';
import { CompilerService } from '../extension/worker/service';
import { generate, GRAPH_KINDS, type GraphKind } from './graphs';

export interface EditTime {
  readonly name: string;
  readonly ops: number;
  /** Medians. */
  readonly editMs: number;
  readonly scratchMs: number;
  readonly edits: number;
}

const EDITS = { warmUp: 8, counted: 15 };
/** Edits of one file take no longer than this together, ms: then there are fewer. */
const MOST_MS = 30_000;

export function measureEdits(ops: number, wanted: (name: string) => boolean): EditTime[] {
  return GRAPH_KINDS.map((kind) => ({ kind, name: `edit of ${kind} ${ops.toLocaleString('en')}` }))
    .filter(({ name }) => wanted(name))
    .map(({ kind, name }) => ({ name, ...measure(kind, ops) }));
}

function measure(kind: GraphKind, ops: number): Omit<EditTime, 'name'> {
  const lines = generate(kind, ops).split('\n');
  const places = lines.flatMap((line, i) => (/^\w+ = /.test(line) ? [i] : []));
  const kept = new Asked();
  kept.ask(lines.join('\n'));
  const edit: number[] = [];
  const scratch: number[] = [];
  let spent = 0;
  for (let i = 0; i < EDITS.warmUp + EDITS.counted; i++) {
    // Edits all over the file: an op around a line's value, which stays there.
    const at = places[Math.floor((places.length * (i + 0.5)) / (EDITS.warmUp + EDITS.counted))];
    const line = at === undefined ? undefined : lines[at];
    if (at === undefined || line === undefined) continue;
    // Several results have no op around them.
    lines[at] = line.includes('split(')
      ? `${line} # edited`
      : line.replace(/= (.*)$/, '= tanh($1)');
    const text = lines.join('\n');
    const without = (): number => new Asked().ask(text);
    // In turn the one first and the other.
    const before = i % 2 === 0 ? without() : undefined;
    const withMemory = kept.ask(text);
    const alone = before ?? without();
    spent += withMemory + alone;
    if (i < EDITS.warmUp && spent < MOST_MS) continue;
    edit.push(withMemory);
    scratch.push(alone);
    if (spent >= MOST_MS) break;
  }
  return { ops: kept.ops, editMs: median(edit), scratchMs: median(scratch), edits: edit.length };
}

/** A worker's service, asked as the extension asks it. */
class Asked {
  ops = 0;
  private version = 0;
  private answer: WorkerMessage | undefined;
  private readonly turns: (() => void)[] = [];
  private readonly receiver = new ResultReceiver();
  private readonly service = new CompilerService(
    compile,
    // What crosses to another thread is copied.
    (message) => (this.answer = structuredClone(message)),
    (turn) => void this.turns.push(turn),
    () => performance.now(),
  );

  /** Milliseconds until the text's result is there. */
  ask(text: string): number {
    const bytes = new TextEncoder().encode(text);
    this.answer = undefined;
    const start = performance.now();
    const version = ++this.version;
    this.service.receive({
      id: version,
      method: 'compile',
      argument: { uri: 'file:///bench.fuse', version, bytes },
    });
    for (let turn = this.turns.shift(); turn; turn = this.turns.shift()) turn();
    // The service has posted meanwhile, which the type checker can't know.
    const answer = this.answer as WorkerMessage | undefined;
    if (!answer || !('reply' in answer) || !answer.reply.ok) throw new Error('no answer');
    const result = this.receiver.receive(answer.reply.value as ResultMessage);
    const ms = performance.now() - start;
    this.ops = result?.graph.nodes.length ?? NaN;
    return ms;
  }
}

function median(times: readonly number[]): number {
  return [...times].sort((a, b) => a - b)[times.length >> 1] ?? NaN;
}

export function editTable(rows: readonly EditTime[]): string[] {
  return table(
    [
      ['file', 'ops', 'edits', 'edit', 'from scratch', 'ratio'],
      ...rows.map((r) => [
        r.name,
        String(r.ops),
        String(r.edits),
        `${r.editMs.toFixed(1)} ms`,
        `${r.scratchMs.toFixed(1)} ms`,
        (r.editMs / r.scratchMs).toFixed(2),
      ]),
    ],
    ['left', 'right', 'right', 'right', 'right', 'right'],
  );
}
