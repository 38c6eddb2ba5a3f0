/**
 * What a host may keep between compilations of one file: the structures that were scheduled for the
 * version before. An edit leaves most of a file as it is, and structures have no names, so that
 * nearly all questions of the search are answered from here.
 *
 * A compilation's result is the same with a memory as without: answers depend on the structure and
 * on the *context* alone (the device, and the values of symbolic sizes), and a memory of another
 * context is dropped. What a compilation didn't ask for is forgotten at its end, so that a memory
 * never holds more than one version of a file needs.
 */
import { FuseMemory } from '../import/fuse/memory';
import type { Expr } from '../ir/expr';
import { ViewMemory } from '../graphViews';
import { LoweringMemory } from '../ops/lowerMemory';
import { FactMemory } from './facts';
import type { Answer, BY_LITERALS } from './memo';
import type { Loading } from './plans';
import { PreparedParts } from './prepare';
import type { PrintedBody } from './signature';

type Known = Answer | typeof BY_LITERALS;

export class CompileMemory {
  private context: string | undefined;
  private texts: ReadonlyMap<string, number> = new Map();
  private answers: ReadonlyMap<string, Known> = new Map();
  private bodies: ReadonlyMap<Expr, PrintedBody> = new Map();
  private facts = new FactMemory();
  private prepared = new PreparedParts();
  private loading: Loading | undefined;
  private next = 0;
  private lowered: LoweringMemory | undefined;
  /** How a `.fuse` text was read. */
  readonly fuse = new FuseMemory();
  /** Of nodes and tensors. */
  readonly views = new ViewMemory();

  /** For the lowering of a version: knows what came of the nodes of the one before. */
  lowering(dims: ReadonlyMap<string, number>): LoweringMemory {
    return (this.lowered = new LoweringMemory(dims, this.lowered));
  }

  /** For one compilation. */
  recall(context: string): Recall {
    // Numbers are part of the answers' keys, which are longer beyond 16 bits.
    if (context !== this.context || this.next > MOST_NUMBERS) {
      this.context = context;
      this.texts = new Map();
      this.answers = new Map();
      this.bodies = new Map();
      this.facts = new FactMemory();
      this.prepared = new PreparedParts();
      this.loading = undefined;
      this.next = 0;
    }
    const recall = new Recall(this.texts, this.answers, this.bodies, this.next);
    recall.facts = new FactMemory(this.facts);
    recall.prepared = new PreparedParts(this.prepared);
    recall.loading = this.loading;
    return recall;
  }

  /** Keeps what the compilation asked for, and nothing else. */
  keep(recall: Recall): void {
    this.texts = recall.texts;
    this.answers = recall.answers;
    this.bodies = recall.bodies;
    recall.facts.close();
    this.facts = recall.facts;
    recall.prepared.close();
    this.prepared = recall.prepared;
    this.loading = recall.kept;
    this.next = recall.next;
  }
}

const MOST_NUMBERS = 0xf000;

/** What one compilation knows: what it met itself, and what it takes over from the one before. */
export class Recall {
  /** Numbers of the signatures' texts. */
  readonly texts = new Map<string, number>();
  readonly answers = new Map<string, Known>();
  /** Signatures by bodies: what an edit left alone is known by its identity, and needn't be printed. */
  readonly bodies = new Map<Expr, PrintedBody>();
  facts = new FactMemory();
  /** What is computed at load, in the version before and in this one, and the former's plan of that. */
  prepared = new PreparedParts();
  loading: Loading | undefined;
  kept: Loading | undefined;

  constructor(
    private readonly oldTexts: ReadonlyMap<string, number> = new Map(),
    private readonly oldAnswers: ReadonlyMap<string, Known> = new Map(),
    private readonly oldBodies: ReadonlyMap<Expr, PrintedBody> = new Map(),
    public next = 0,
  ) {}

  /** For the same compilation once more: it knows all of this, and changes nothing of it. */
  again(): Recall {
    return new Recall(this.texts, this.answers, this.bodies, this.next);
  }

  keepLoading(loading: Loading): Loading {
    this.kept = loading;
    return loading;
  }

  body(e: Expr): PrintedBody | undefined {
    const known = this.bodies.get(e);
    if (known) return known;
    const old = this.oldBodies.get(e);
    if (old) {
      this.bodies.set(e, old);
      this.texts.set(old.text, old.id);
    }
    return old;
  }

  keepBody(e: Expr, printed: PrintedBody): void {
    this.bodies.set(e, printed);
  }

  /** The number of a signature's text: one that no other text has, in this compilation and those before. */
  numberOf(text: string): number {
    let n = this.texts.get(text);
    if (n === undefined) {
      n = this.oldTexts.get(text) ?? this.next++;
      this.texts.set(text, n);
    }
    return n;
  }

  answer(key: string): Known | undefined {
    const known = this.answers.get(key);
    if (known) return known;
    const old = this.oldAnswers.get(key);
    if (old) this.answers.set(key, old);
    return old;
  }
}
